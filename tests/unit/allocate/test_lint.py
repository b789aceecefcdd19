"""What lint finds, and what it proposes to write instead."""

from __future__ import annotations

import pytest

from claimsmith.allocate.lint.check import lint_cluster
from claimsmith.allocate.lint.values import Fault
from claimsmith.model.claim import DeviceClass, ResourceClaim, ResourceClaimTemplate
from claimsmith.model.node import Node
from claimsmith.model.pool import DeviceTaintRule, ResourceSlice
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod, PodClaim
from claimsmith.testing.builders import (
    alternatives,
    claim,
    device,
    gpu,
    klass,
    match,
    node,
    on_nodes,
    pod,
    request,
    slice_,
    snapshot,
    sub,
    taint,
    taint_rule,
    template,
    toleration,
)

G = 'device.attributes["gpu.example.test"]'
MEMORY = 'device.capacity["gpu.example.test"].memory'
CARDS = slice_(
    gpu("gpu-0", memory="80Gi", attributes={"cores": 8, "firmware": "9.1", "ready": True, "links": ("a", "b")}),
    gpu(
        "gpu-1", memory="24Gi", model="L4", attributes={"cores": 4, "firmware": "10.0", "ready": True, "links": ("a",)}
    ),
    name="cards",
)
NICS = slice_(device("nic-0", attributes={"speed": 40}), name="nics", driver="nic.example.test", pool="nics")
OF_DRIVER = klass("gpu", 'device.driver == "gpu.example.test"')

Thing = Node | ResourceSlice | DeviceClass | ResourceClaim | Pod | DeviceTaintRule


def lint(*things: Thing) -> list[Fault]:
    return [finding.fault for finding in lint_cluster(snapshot(OF_DRIVER, CARDS, NICS, *things))]


def of_selector(text: str) -> list[Fault]:
    return lint(claim("c", request("r", text, klass="gpu")))


def corrected(text: str) -> str:
    (fault,) = of_selector(text)
    return fault.corrected


def test_a_selector_that_matches_has_no_fault() -> None:
    assert of_selector(f'{G}.model == "L4" && {MEMORY}.compareTo(quantity("10Gi")) > 0') == []


# --- names ------------------------------------------------------------------------------------------------------------


def test_an_attribute_that_no_device_has_is_told_with_the_nearest_name() -> None:
    (fault,) = of_selector(f'{G}.modle == "L4"')

    assert (fault.rule, fault.severity) == ("unknown-attribute", "error")
    assert fault.path == "spec.devices.requests[0].exactly.selectors[0].cel.expression"
    assert fault.text == f"no published device has the attribute gpu.example.test/modle; did you mean {G}.model?"
    assert fault.corrected == f'{G}.model == "L4"'


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ('device.attributes["gpu.exmaple.test"].model == "L4"', f'{G}.model == "L4"'),
        ('device.attributes["gpu.example.test"]["modle"] == "L4"', f'{G}["model"] == "L4"'),
        (f'has({G}.modle) && {G}.modle == "L4"', f'has({G}.model) && {G}.model == "L4"'),
        (f'"modle" in {G} && {G}.?modle.orValue("") == "L4"', f'"model" in {G} && {G}.?model.orValue("") == "L4"'),
        (f"{G}.memory.compareTo(quantity('80Gi')) == 0", f"{MEMORY}.compareTo(quantity('80Gi')) == 0"),
    ],
    ids=["domain", "index", "has", "membership and optional", "capacity"],
)
def test_a_name_is_corrected_wherever_it_stands(text: str, right: str) -> None:
    assert corrected(text) == right


def test_a_name_that_is_only_asked_for_safely_is_a_warning() -> None:
    (fault,) = of_selector(f"!has({G}.modle)")

    assert (fault.rule, fault.severity) == ("unknown-attribute", "warning")


def test_a_name_that_is_like_none_is_told_without_a_guess() -> None:
    (fault,) = of_selector(f"{G}.qqq == 1")

    assert (fault.text, fault.corrected) == ("no published device has the attribute gpu.example.test/qqq", "")


# --- types ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (f'{G}.cores == "8"', f"{G}.cores == 8"),
        (f'"4" != {G}.cores', f"4 != {G}.cores"),
        (f'{G}.cores in ["4", "8"]', f"{G}.cores in [4, 8]"),
        (f'{G}.ready == "true"', f"{G}.ready == true"),
        (f"{G}.model != 4", f'{G}.model != "4"'),
        (f'{G}.links == "a"', f'"a" in {G}.links'),
        (f'{G}.links != "c"', f'!("c" in {G}.links)'),
    ],
)
def test_a_constant_of_another_type_is_written_as_the_attribute_is(text: str, right: str) -> None:
    (fault,) = of_selector(text)

    assert (fault.rule, fault.severity, fault.corrected) == ("type-mismatch", "error", right)


def test_a_type_mismatch_names_both_types() -> None:
    (fault,) = of_selector(f'{G}.cores == "eight"')

    assert fault.text == f'{G}.cores == "eight": gpu.example.test/cores is of type int, compared with string'
    assert fault.corrected == ""


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (f'{G}.computeCapability == "8.0.0"', f'{G}.computeCapability.compareTo(semver("8.0.0")) == 0'),
        (f'{G}.computeCapability >= "8"', f'{G}.computeCapability.compareTo(semver("8.0.0")) >= 0'),
        (f'"v07.5" < {G}.computeCapability', f'{G}.computeCapability.compareTo(semver("7.5.0")) > 0'),
    ],
)
def test_a_version_is_compared_with_a_version(text: str, right: str) -> None:
    (fault,) = of_selector(text)

    assert (fault.rule, fault.severity, fault.corrected) == ("version-as-string", "error", right)


def test_versions_in_texts_are_compared_by_their_numbers() -> None:
    (fault,) = of_selector(f'{G}.firmware > "9.0"')
    wanted = f'(isSemver({G}.firmware, true) && semver({G}.firmware, true).compareTo(semver("9.0.0")) > 0)'

    assert (fault.rule, fault.severity) == ("version-as-string", "warning")
    assert fault.corrected == wanted
    assert of_selector(wanted) == []


def test_a_quantity_is_compared_with_a_quantity() -> None:
    (fault,) = of_selector(f'{MEMORY} > "40Gi"')

    assert (fault.rule, fault.corrected) == ("quantity", f'{MEMORY}.compareTo(quantity("40Gi")) > 0')


@pytest.mark.parametrize("constant", ["40", '"40"', '"40GB"', '"40 GiB"'])
def test_an_amount_that_is_no_quantity_has_the_unit_of_what_is_published(constant: str) -> None:
    (fault,) = of_selector(f"{MEMORY} > {constant}")

    assert (fault.rule, fault.corrected) == ("quantity", f'{MEMORY}.compareTo(quantity("40Gi")) > 0')
    assert fault.text.endswith(f"; {constant.strip(chr(34))} is taken for 40Gi (published: 24Gi, 80Gi)")


def test_a_text_in_quantity_that_is_none_is_told_with_what_to_write() -> None:
    (fault,) = of_selector(f'{MEMORY}.compareTo(quantity("40GB")) > 0')

    assert fault.text == "'40GB' is no quantity: the selector fails where it comes to it; write 40Gi"
    assert (fault.rule, fault.corrected) == ("quantity", f'{MEMORY}.compareTo(quantity("40Gi")) > 0')


def test_a_text_that_is_like_no_quantity_is_told_without_a_correction() -> None:
    (fault,) = of_selector(f'{MEMORY}.compareTo(quantity("much")) > 0')

    assert (fault.rule, fault.corrected) == ("quantity", "")


def test_all_faults_of_a_selector_are_corrected_together() -> None:
    found = of_selector(f'{G}.modle == "L4" && {G}.cores == "4"')

    assert [fault.rule for fault in found] == ["unknown-attribute", "type-mismatch"]
    assert {fault.corrected for fault in found} == {f'{G}.model == "L4" && {G}.cores == 4'}


# --- devices on which a selector fails --------------------------------------------------------------------------------


def of_class(text: str) -> list[Fault]:
    return lint(klass("other", text))


def test_a_class_that_fails_on_devices_of_another_driver_is_guarded_by_the_driver() -> None:
    (fault,) = of_class(f'{G}.model == "L4"')

    assert (fault.rule, fault.severity, fault.path) == ("foreign-device", "error", "spec.selectors[0].cel.expression")
    assert fault.text == (
        "fails on one device of other drivers (nic.example.test), such as nic.example.test/nics/nic-0: "
        "no such key: model; a scheduler of Kubernetes then refuses the whole pod"
    )
    assert fault.corrected == f'device.driver == "gpu.example.test" && {G}.model == "L4"'


def test_alternatives_are_put_in_brackets_behind_a_guard() -> None:
    (fault,) = of_class(f'{G}.model == "L4" || {G}.cores == 8')

    assert fault.corrected == f'device.driver == "gpu.example.test" && ({G}.model == "L4" || {G}.cores == 8)'


def test_a_request_of_a_class_of_one_driver_needs_no_guard() -> None:
    assert of_selector(f'{G}.model == "L4"') == []


def test_a_selector_that_fails_on_some_devices_of_its_driver_is_guarded_by_what_it_reads() -> None:
    some = slice_(device("gpu-9", attributes={"model": "L4"}), name="some", pool="some")
    found = [finding.fault for finding in lint_cluster(snapshot(OF_DRIVER, CARDS, some, use(f"{G}.cores == 8")))]

    assert [(fault.rule, fault.corrected) for fault in found] == [
        ("selector-fails", f"has({G}.cores) && {G}.cores == 8")
    ]


def use(text: str) -> ResourceClaim:
    return claim("c", request("r", text, klass="gpu"))


def test_each_alternative_is_guarded_when_the_devices_have_one_or_the_other() -> None:
    a = slice_(device("a", attributes={"left": 1}), device("b", attributes={"right": 1}), name="a")
    text = f"{G}.left == 1 || {G}.right == 1 || {G}.right == {G}.left"
    found = [finding.fault for finding in lint_cluster(snapshot(OF_DRIVER, a, use(text)))]

    assert found == []


def test_a_device_that_matched_is_not_lost_by_a_guard() -> None:
    one = slice_(device("a", attributes={"left": 1}), device("b"), name="a")
    two = slice_(device("c", attributes={"right": 1}), name="c", driver="other.test", pool="c")
    right = 'device.attributes["other.test"].right'
    either = klass("either", f"{G}.left == 1 || {right} == 1")
    (found,) = lint_cluster(snapshot(OF_DRIVER, one, two, either))

    assert found.fault.corrected == f"(has({G}.left) && {G}.left == 1) || (has({right}) && {right} == 1)"


def test_a_negation_is_not_made_true_by_a_guard() -> None:
    (fault,) = of_class(f'!({G}.model == "L4")')

    assert fault.corrected == f'device.driver == "gpu.example.test" && !({G}.model == "L4")'


# --- nothing matches --------------------------------------------------------------------------------------------------


def test_a_class_that_matches_nothing_tells_the_nearest_driver() -> None:
    (fault,) = lint(klass("never", 'device.driver == "gpu.exmaple.test"'))

    assert (fault.rule, fault.severity) == ("class-never-matches", "warning")
    assert fault.text == 'device.driver == "gpu.exmaple.test" is false for all 3 published devices'
    assert fault.corrected == 'device.driver == "gpu.example.test"'


def test_a_request_that_matches_nothing_names_the_part_and_what_is_published() -> None:
    (fault,) = of_selector(f'{G}.cores > 2 && {G}.model == "A100-SXM4-40GB"')

    assert (fault.rule, fault.severity) == ("request-never-matches", "error")
    assert fault.text == (
        f'{G}.model == "A100-SXM4-40GB" is false for all 2 devices of class gpu; published model: A100-SXM4-80GB, L4'
    )
    assert fault.corrected == f'{G}.cores > 2 && {G}.model == "A100-SXM4-80GB"'


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (f'{MEMORY}.compareTo(quantity("100Gi")) >= 0', f'{MEMORY}.compareTo(quantity("80Gi")) >= 0'),
        (f'{MEMORY}.isGreaterThan(quantity("100Gi"))', f'{MEMORY}.isGreaterThan(quantity("24Gi"))'),
        (f"{G}.cores > 32", f"{G}.cores > 4"),
        (f'{G}.computeCapability.isGreaterThan(semver("9.0.0"))', ""),
        (
            f'{G}.computeCapability.compareTo(semver("9.0.0")) >= 0',
            f'{G}.computeCapability.compareTo(semver("8.0.0")) >= 0',
        ),
    ],
)
def test_an_amount_is_lowered_to_what_is_published(text: str, right: str) -> None:
    (fault,) = of_selector(text)

    assert (fault.rule, fault.corrected) == ("request-never-matches", right)


@pytest.mark.parametrize(
    ("wanted", "right"),
    [("7g.40gb", "4g.20gb"), ("2g.10gb", "1g.5gb"), ("4g.20GB", "4g.20gb"), ("9g.90gb", "4g.20gb"), ("none", "")],
)
def test_a_profile_that_is_not_published_is_corrected_to_the_next_lower_one(wanted: str, right: str) -> None:
    parts = [device(name.replace(".", "-"), attributes={"profile": name}) for name in ("3g.20gb", "4g.20gb", "1g.5gb")]
    published = slice_(*parts, name="parts", driver="mig.example.test", pool="parts")
    profile = 'device.attributes["mig.example.test"].profile'
    wish = request("r", f'{profile} == "{wanted}"', klass="mig")
    (fault,) = lint(published, klass("mig", 'device.driver == "mig.example.test"'), claim("c", wish))

    assert fault.corrected == (f'{profile} == "{right}"' if right else "")


def test_an_alternative_that_never_matches_is_a_warning_while_another_one_does() -> None:
    wish = alternatives(
        "r", sub("good", f'{G}.model == "L4"', klass="gpu"), sub("none", f"{G}.cores == 99", klass="gpu")
    )
    (fault,) = lint(claim("c", wish))

    assert (fault.rule, fault.severity) == ("request-never-matches", "warning")
    assert fault.path == "spec.devices.requests[0].firstAvailable[1].selectors[0].cel.expression"


def test_a_class_that_does_not_exist_is_told_with_the_nearest_one() -> None:
    (fault,) = lint(claim("c", request("r", klass="gpuu")))

    assert (fault.rule, fault.severity, fault.corrected) == ("unknown-class", "error", "gpu")
    assert fault.text == "class 'gpuu' does not exist, known are gpu; did you mean gpu?"


def test_nothing_is_held_against_a_cluster_that_publishes_nothing() -> None:
    found = lint_cluster(snapshot(OF_DRIVER, use(f"{G}.modle == 1"), klass("never", 'device.driver == "x"')))

    assert found == ()


# --- constraints, taints, counts --------------------------------------------------------------------------------------


def test_a_constraint_on_an_attribute_that_no_matching_device_has_is_an_error() -> None:
    (fault,) = lint(claim("c", request("r", klass="gpu"), constraints=[match("gpu.example.test/Model")]))

    assert (fault.rule, fault.severity, fault.path) == (
        "constraint-attribute",
        "error",
        "spec.devices.constraints[0].matchAttribute",
    )
    assert fault.text == (
        "none of the 2 devices that match has the attribute gpu.example.test/Model; "
        "did you mean gpu.example.test/model?"
    )
    assert fault.corrected == "gpu.example.test/model"


def test_a_constraint_on_an_attribute_that_some_devices_lack_is_a_warning() -> None:
    wanted = claim("c", request("r", klass="all"), constraints=[match("gpu.example.test/model")])
    (fault,) = lint(klass("all", "true"), wanted)

    assert (fault.rule, fault.severity) == ("constraint-attribute", "warning")
    assert fault.text.startswith("1 of 3 devices that match, such as nic.example.test/nics/nic-0, don't have")


def test_a_constraint_is_held_against_its_own_requests() -> None:
    requests = [request("card", klass="gpu"), request("net", klass="nic")]
    nic = klass("nic", 'device.driver == "nic.example.test"')
    found = lint(nic, claim("c", *requests, constraints=[match("gpu.example.test/model", "card")]))

    assert found == []


def test_a_taint_on_all_matching_devices_is_told_with_its_toleration() -> None:
    rule = taint_rule(taint=taint("example.test/broken", value="yes"), driver="gpu.example.test")
    (fault,) = lint(rule, use(f'{G}.model == "L4"'))

    assert (fault.rule, fault.severity) == ("never-tolerated", "warning")
    assert fault.text.endswith("does not tolerate: example.test/broken=yes:NoSchedule")
    assert fault.corrected == "[{key: example.test/broken, operator: Equal, value: yes, effect: NoSchedule}]"


def test_a_taint_that_is_tolerated_or_not_on_all_devices_is_no_fault() -> None:
    rule = taint_rule(taint=taint(), driver="gpu.example.test", device="gpu-0")
    accepting = claim("c", request("r", f'{G}.model != "L4"', klass="gpu", tolerations=(toleration(),)))

    assert lint(rule, accepting, claim("d", request("r", klass="gpu"))) == []


def test_a_count_above_what_any_node_has_is_an_error() -> None:
    more = slice_(*(gpu(f"gpu-{n}") for n in range(3)), name="more", node="node-b")
    (fault,) = lint(more, node(), node("node-b"), claim("c", request("r", klass="gpu", count=4)))

    assert (fault.rule, fault.severity, fault.path, fault.corrected) == (
        "count",
        "error",
        "spec.devices.requests[0].exactly.count",
        "3",
    )
    assert fault.text == "asks for 4 devices, and no node has more than 3 that match (node-b)"


def test_devices_that_nodes_share_count_on_each_of_them() -> None:
    shared = slice_(
        *(gpu(f"far-{n}") for n in range(2)), name="far", node=None, pool="far", node_selector=on_nodes(zone="a")
    )
    near = node("node-a", labels={"zone": "a"})
    local = slice_(gpu("near"), name="near", node="node-a")
    found = lint_cluster(snapshot(OF_DRIVER, shared, local, near, claim("c", request("r", klass="gpu", count=3))))

    assert found == ()


# --- other objects ----------------------------------------------------------------------------------------------------


def test_a_template_is_looked_at_like_a_claim() -> None:
    made: ResourceClaimTemplate = template("t", request("r", f"{G}.modle == 1", klass="gpu"))
    cluster = snapshot(OF_DRIVER, CARDS)
    whole = ClusterSnapshot(
        slices=cluster.slices,
        classes=cluster.classes,
        nodes=cluster.nodes,
        templates={claim("t").ref: made},
    )
    (finding,) = lint_cluster(whole)

    assert finding.target == "ResourceClaimTemplate default/t"
    assert finding.fault.path == "spec.spec.devices.requests[0].exactly.selectors[0].cel.expression"


def test_a_pod_that_names_what_is_not_there_is_told_the_nearest() -> None:
    found = lint(
        claim("mine", request("r", klass="gpu")),
        pod("p", PodClaim(name="a", claim_name="mime"), PodClaim(name="b", template_name="none"), pod_group="gang"),
    )

    assert [(fault.path, fault.corrected) for fault in found] == [
        ("spec.resourceClaims[0].resourceClaimName", "mine"),
        ("spec.resourceClaims[1].resourceClaimTemplateName", ""),
        ("spec.schedulingGroup.podGroupName", ""),
    ]


def test_a_taint_rule_that_selects_nothing_is_told_the_nearest() -> None:
    (fault,) = lint(taint_rule(taint=taint(), driver="gpu.example.test", device="gpu0"))

    assert (fault.rule, fault.path, fault.corrected) == ("rule-selects-nothing", "spec.deviceSelector.device", "gpu-0")


def test_devices_of_an_older_generation_do_not_count() -> None:
    old = slice_(device("x", attributes={"modle": "L4"}), name="old", pool="node-a", node="node-a", generation=1)
    new = slice_(gpu("gpu-0", model="L4"), name="new", pool="node-a", node="node-a", generation=2)
    (finding,) = lint_cluster(snapshot(OF_DRIVER, old, new, use(f'{G}.modle == "L4"')))

    assert finding.fault.rule == "unknown-attribute"


def test_only_named_objects_are_looked_at() -> None:
    cluster = snapshot(
        OF_DRIVER, CARDS, use(f"{G}.modle == 1"), claim("d", request("r", f"{G}.modle == 1", klass="gpu"))
    )
    found = lint_cluster(cluster, only={("ResourceClaim", "default", "d")})

    assert [finding.name for finding in found] == ["d"]
