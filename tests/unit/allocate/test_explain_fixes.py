"""What would help: the nearest changes, each solved before it is told."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from claimsmith.allocate.explain.changes import apply_changes
from claimsmith.allocate.explain.comparisons import find_comparison
from claimsmith.allocate.explain.context import ExplainContext, Origin
from claimsmith.allocate.explain.devices import NAMES_SHOWN
from claimsmith.allocate.explain.values import Change, Explanation, Fix
from claimsmith.allocate.search.decide import allocate
from claimsmith.cel import CelEnvironment
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Allocation
from claimsmith.model.device import Device
from claimsmith.model.features import Features
from claimsmith.model.names import ClaimRef
from claimsmith.model.node import Node
from claimsmith.model.pool import ResourceSlice
from claimsmith.testing.builders import (
    allocated,
    alternatives,
    capacity,
    claim,
    device,
    device_id,
    klass,
    match,
    node,
    request,
    slice_,
    sub,
    taint,
)
from tests.unit.allocate.explaining import why
from tests.unit.allocate.solving import number_shares, problem

MEMORY = 'device.capacity["gpu.example.test"].memory'
SIZE = 'device.attributes["gpu.example.test"].size'


def texts(explanation: Explanation) -> list[str]:
    return [fix.text for fix in explanation.fixes]


def find_fix(explanation: Explanation, op: str) -> Fix:
    return next(fix for fix in explanation.fixes if fix.changes[0].op == op)


def gpus(*sizes: str, on: str) -> tuple[Node, ResourceSlice]:
    devices: Sequence[Device] = [device(f"gpu-{n}", capacity={"memory": size}) for n, size in enumerate(sizes)]
    return node(on), slice_(*devices, name=f"s-{on}", node=on, pool=on)


def test_a_selector_is_relaxed_to_the_nearest_value_that_helps() -> None:
    wanted = claim("c", request("r", f'{MEMORY}.isGreaterThan(quantity("40Gi"))'))
    found = why(*gpus("16Gi", on="node-a"), *gpus("24Gi", on="node-b"), *gpus("24Gi", on="node-c"), wanted)
    fix = find_fix(found, "set-selectors")

    assert fix.text.endswith(f'relax {MEMORY}.isGreaterThan(quantity("40Gi")) to >= 24Gi')
    assert fix.nodes == ("node-b", "node-c")
    assert fix.changes[0].value == [f'{MEMORY}.compareTo(quantity("24Gi")) >= 0']


def test_a_nearer_value_that_does_not_help_is_passed_over() -> None:
    wanted = claim("c", request("r", f'{MEMORY}.compareTo(quantity("40Gi")) >= 0'))
    held = allocated(claim("held"), device_id("gpu-0", pool="node-b"))
    found = why(*gpus("16Gi", on="node-a"), *gpus("24Gi", on="node-b"), held, wanted)

    assert find_fix(found, "set-selectors").changes[0].value == [f'{MEMORY}.compareTo(quantity("16Gi")) >= 0']


def test_the_nearest_value_comes_before_farther_ones() -> None:
    wanted = claim("c", request("r", f"{SIZE} > 40"))
    pool = slice_(*(device(f"d{size}", attributes={"size": size}) for size in (8, 32, 16)))

    assert find_fix(why(node("node-a"), pool, wanted), "set-selectors").text.endswith("to >= 32")


def test_a_fix_is_claimed_for_no_node_on_which_it_was_not_solved() -> None:
    objects: list[Node | ResourceSlice | ResourceClaim] = []
    for number, size in enumerate((8, 32, 32)):
        name = f"n{number}"
        objects += [node(name), slice_(device("a", attributes={"size": size}), name=f"s{number}", node=name, pool=name)]
    held = allocated(claim("held"), device_id("a", pool="n2"))
    found = why(*objects, held, claim("c", request("r", f"{SIZE} > 40")))

    assert [group.nodes for group in found.groups] == [("n1", "n2"), ("n0",)]
    assert find_fix(found, "set-selectors").nodes == ("n1",)


def test_the_other_clauses_of_a_selector_stay() -> None:
    text = f'device.driver == "gpu.example.test" && {SIZE} > 8 && (true || false)'
    found = why(node("node-a"), slice_(device("a", attributes={"size": 4})), claim("c", request("r", text)))
    new = f'device.driver == "gpu.example.test" && {SIZE} >= 4 && (true || false)'

    assert find_fix(found, "set-selectors").changes[0].value == [new]


def test_a_selector_that_compares_nothing_is_dropped() -> None:
    pool = slice_(device("a", attributes={"healthy": 1}))
    wanted = claim("c", request("r", 'device.driver.startsWith("nic")'))

    assert any("drop the selector" in text for text in texts(why(node("node-a"), pool, wanted)))


def test_of_texts_the_nearest_one_is_proposed() -> None:
    models = {"a": "A100", "b": "T4", "c": "T4"}
    pool = slice_(*(device(name, attributes={"model": model}) for name, model in models.items()))
    wanted = claim("c", request("r", 'device.attributes["gpu.example.test"].model == "H100"'))
    fix = find_fix(why(node("node-a"), pool, wanted), "set-selectors")

    assert fix.text.endswith('to == "A100"')


def test_a_profile_is_relaxed_to_the_next_lower_one_that_is_free() -> None:
    profiles = {"a": "1g.5gb", "b": "1g.5gb", "c": "3g.20gb", "d": "4g.20gb"}
    pool = slice_(*(device(name, attributes={"profile": profile}) for name, profile in profiles.items()))
    wanted = claim("c", request("r", 'device.attributes["gpu.example.test"].profile == "7g.40gb"'))
    fix = find_fix(why(node("node-a"), pool, allocated(claim("held"), "d"), wanted), "set-selectors")

    assert fix.text.endswith('to == "3g.20gb"')


def test_devices_of_another_sort_are_proposed_after_claims_that_could_go() -> None:
    model = 'device.attributes["gpu.example.test"].model'
    pool = slice_(*(device(name, attributes={"model": name}) for name in ("A100-40", "L4")))
    wanted = claim("c", request("r", f'{model} == "A100-40"'))
    found = why(node("node-a"), pool, allocated(claim("held"), "A100-40"), wanted)

    assert [fix.changes[0].op for fix in found.fixes][:2] == ["free-claims", "set-selectors"]


def test_the_template_of_a_claim_is_named_and_who_has_to_be_made_anew() -> None:
    wanted = claim("c", request("r", f"{SIZE} > 40"))
    origin = Origin(template=ClaimRef("default", "large"), owner="pod p")
    context = ExplainContext(origins={wanted.ref: origin})
    pool = slice_(device("a", attributes={"size": 32}))
    (fix,) = why(node("node-a"), pool, wanted, context=context).fixes

    assert fix.text == (
        f"ResourceClaimTemplate default/large, request r: relax {SIZE} > 40 to >= 32; then make pod p anew"
    )
    assert (fix.changes[0].claim, fix.changes[0].template) == (wanted.ref, origin.template)


def test_nobody_has_to_be_made_anew_for_a_claim_that_is_still_to_be_made() -> None:
    wanted = claim("c", request("r", count=2), constraints=[match("gpu.example.test/numa")])
    origin = Origin(template=ClaimRef("default", "pair"), owner="pod p", is_made=False)
    pool = slice_(*(device(f"d{place}", attributes={"numa": place}) for place in range(2)))
    found = why(node("node-a"), pool, wanted, context=ExplainContext(origins={wanted.ref: origin}))

    assert "ResourceClaimTemplate default/pair: drop the matchAttribute gpu.example.test/numa" in texts(found)


def test_the_largest_count_that_fits_is_told() -> None:
    found = why(*gpus("1", "1", "1", on="node-a"), claim("c", request("r", count=6)))
    fix = find_fix(found, "set-count")

    assert (fix.changes[0].value, fix.nodes) == (3, ("node-a",))


def test_a_constraint_is_dropped() -> None:
    pool = slice_(*(device(f"d{place}", attributes={"numa": place}) for place in range(2)))
    wanted = claim("c", request("r", count=2), constraints=[match("gpu.example.test/numa")])

    assert "claim default/c: drop the matchAttribute gpu.example.test/numa" in texts(why(node("node-a"), pool, wanted))


def test_each_claim_that_could_go_is_named() -> None:
    held = [allocated(claim(f"held-{n}"), device_id(f"gpu-{n}", pool="node-a")) for n in range(2)]
    fix = find_fix(why(*gpus("1", "1", on="node-a"), *held, claim("c")), "free-claims")

    assert fix.text == "free one of the claims default/held-0 or default/held-1"
    assert [choice.value for choice in fix.choices] == [["default/held-0"], ["default/held-1"]]


def test_claims_that_must_go_together_are_named_together() -> None:
    held = [allocated(claim(f"held-{n}"), device_id(f"gpu-{n}", pool="node-a")) for n in range(2)]
    fix = find_fix(why(*gpus("1", "1", on="node-a"), *held, claim("c", request("r", count=2))), "free-claims")

    assert fix.text == "free the claims default/held-0 and default/held-1"


def test_claims_that_were_not_tried_are_counted() -> None:
    held = [allocated(claim(f"held-{n}"), device_id(f"gpu-{n}", pool="node-a")) for n in range(19)]
    fix = find_fix(why(*gpus(*["1"] * 19, on="node-a"), *held, claim("c")), "free-claims")

    assert fix.text.startswith("free one of the claims default/held-")
    assert fix.text.endswith(f" or {16 - NAMES_SHOWN} more; 3 more were not tried")
    assert len(fix.choices) == 16


def test_one_claim_that_is_enough_is_told_as_one_wherever_it_stands() -> None:
    held = [allocated(claim(f"held-{n}"), device_id(f"gpu-{n}", pool="node-a")) for n in range(18)]
    beside = [allocated(claim(f"too-{n}"), device_id(f"gpu-{n}", pool="node-a")) for n in range(17)]
    fix = find_fix(why(*gpus(*["1"] * 18, on="node-a"), *held, *beside, claim("c")), "free-claims")

    assert fix.text == "free claim default/held-17"


def test_a_taint_is_tolerated() -> None:
    pool = slice_(device("a", taints=[taint("example.test/ecc", value="retired")]))
    fix = find_fix(why(node("node-a"), pool, claim("c")), "tolerate")

    assert fix.text == "tolerate the taint example.test/ecc=retired:NoSchedule"


def test_an_amount_is_lowered_to_what_is_left() -> None:
    nic = device("nic", capacity={"bandwidth": capacity("40Gi")}, allow_multiple_allocations=True)
    wanted = claim("c", request("r", capacity={"bandwidth": "60Gi"}))
    fix = find_fix(why(node("node-a"), slice_(nic), wanted), "set-capacity")

    assert fix.changes[0].value == "40Gi"


def test_a_capacity_that_is_misspelt_is_named_as_it_was_meant() -> None:
    nic = device("nic", capacity={"bandwidth": capacity("40Gi")}, allow_multiple_allocations=True)
    wanted = claim("c", request("r", capacity={"bandwith": "10Gi"}))
    (fix,) = why(node("node-a"), slice_(nic), wanted).fixes

    assert fix.text == "claim default/c, request r: ask for bandwidth instead of bandwith"
    assert fix.nodes == ("node-a",)


def test_an_attribute_that_is_misspelt_is_named_as_it_was_meant() -> None:
    wanted = claim("c", request("r", 'device.attributes["gpu.example.test"].modle == "A100"'))
    found = why(node("node-a"), slice_(device("a", attributes={"model": "A100"})), wanted)

    assert found.fixes[0].text == "claim default/c, request r: read model instead of modle"
    assert found.fixes[0].changes[0].value == ['device.attributes["gpu.example.test"].model == "A100"']


def test_a_class_of_nearly_the_same_name_is_proposed() -> None:
    wanted = claim("c", request("r", klass="gpus"))
    fix = find_fix(why(node("node-a"), slice_(device("a")), klass("gpu"), wanted), "set-class")

    assert fix.changes[0].value == "gpu"


def test_a_further_node_is_proposed_where_devices_are_in_use() -> None:
    held = allocated(claim("held"), device_id("gpu-0", pool="node-a"))

    assert "add one node like node-a" in texts(why(*gpus("1", on="node-a"), held, claim("c")))


def test_no_further_node_is_proposed_where_none_would_help() -> None:
    wanted = claim("c", request("r", f"{SIZE} > 2"))

    assert not any("add one node" in text for text in texts(why(*gpus("1", on="node-a"), wanted)))


def test_changes_that_only_help_together_are_told_together() -> None:
    pool = slice_(device("a", attributes={"size": 1}, taints=[taint("example.test/ecc")]))
    wanted = claim("c", request("r", f"{SIZE} > 2"))
    (fix,) = why(node("node-a"), pool, wanted).fixes

    assert {change.op for change in fix.changes} == {"set-selectors", "tolerate"}


def test_an_alternative_is_changed_by_itself() -> None:
    wanted = claim("c", alternatives("r", sub("big", f"{SIZE} > 8"), sub("small", f"{SIZE} > 4")))
    found = why(node("node-a"), slice_(device("a", attributes={"size": 4})), wanted)

    assert {fix.changes[0].request for fix in found.fixes} == {"r/big", "r/small"}


def test_what_changes_do_is_what_was_solved() -> None:
    objects: list[ResourceSlice | ResourceClaim] = [slice_(device("a", attributes={"size": 4}))]
    objects.append(claim("c", request("r", f"{SIZE} > 8")))
    change = Change(op="set-selectors", claim=claim("c").ref, request="r", value=[f"{SIZE} >= 4"])

    decision = allocate(apply_changes(problem(*objects), (change,)), share_ids=number_shares())

    assert isinstance(decision, Allocation)


@pytest.mark.parametrize(
    ("clause", "operand", "operator", "constant"),
    [
        (f"{SIZE} >= 4", SIZE, ">=", "4"),
        (f"4 < {SIZE}", SIZE, ">", "4"),
        (f'{MEMORY}.isLessThan(quantity("4Gi"))', MEMORY, "<", "4Gi"),
        (f'{MEMORY}.compareTo(quantity("4Gi")) == 0', MEMORY, "==", "4Gi"),
        ('device.driver == "x"', "device.driver", "==", "x"),
        (f'{SIZE}.compareTo(semver("1.2.3")) > 0', SIZE, ">", "1.2.3"),
    ],
)
def test_comparisons_are_found(clause: str, operand: str, operator: str, constant: str) -> None:
    found = find_comparison(clause, CelEnvironment.for_stored_expressions(Features.all()))

    assert found is not None
    assert (found.operand, found.operator, str(found.constant)) == (operand, operator, constant)


@pytest.mark.parametrize("clause", [f"{SIZE} in [1, 2]", f"{SIZE} > {SIZE}", "true", "1 == 1", f"{SIZE} != 3"])
def test_other_clauses_are_no_comparisons(clause: str) -> None:
    assert find_comparison(clause, CelEnvironment.for_stored_expressions(Features.all())) is None


PROFILE = 'device.attributes["gpu.example.test"].profile'


def nodes_with(**profiles: str) -> list[Node | ResourceSlice]:
    """Nodes of these names, each with devices of the profiles, which are named after their places."""
    return [
        item
        for name, text in profiles.items()
        for item in (
            node(name),
            slice_(
                *(device(f"d{place}", attributes={"profile": one}) for place, one in enumerate(text.split())),
                name=f"s-{name}",
                node=name,
                pool=name,
            ),
        )
    ]


@pytest.mark.parametrize("asked", ["7g.40gb", "4g.20GB"])
def test_the_nearest_text_is_that_of_any_node_and_all_nodes_with_it_are_told(asked: str) -> None:
    cluster = nodes_with(x1="1g.5gb", x2="4g.20gb", x3="3g.20gb", x4="4g.20gb")
    fix = find_fix(why(*cluster, claim("c", request("r", f'{PROFILE} == "{asked}"'))), "set-selectors")

    assert fix.text.endswith('to == "4g.20gb"')
    assert fix.nodes == ("x2", "x4")


def test_nodes_that_have_the_nearest_text_beside_other_devices_are_told() -> None:
    cluster = nodes_with(a="A100-40 A100-40", b="A100-40 A100-40 L4", c="L4 L4")
    fix = find_fix(why(*cluster, claim("c", request("r", f'{PROFILE} == "A100-80"'))), "set-selectors")

    assert fix.nodes == ("a", "b")


def test_a_node_whose_devices_of_the_nearest_text_are_in_use_is_not_told() -> None:
    cluster = nodes_with(a="3g.20gb 1g.5gb", b="3g.20gb 1g.5gb", c="1g.5gb 3g.20gb")
    held = [
        allocated(claim("one"), device_id("d0", pool="a")),
        allocated(claim("two"), device_id("d1", pool="b")),
        allocated(claim("three"), device_id("d0", pool="c")),
    ]
    fix = find_fix(why(*cluster, *held, claim("c", request("r", f'{PROFILE} == "7g.40gb"'))), "set-selectors")

    assert fix.text.endswith('to == "3g.20gb"')
    assert fix.nodes == ("b", "c")


def test_changes_that_help_together_are_told_for_nodes_of_all_kinds() -> None:
    objects: list[Node | ResourceSlice | ResourceClaim] = []
    for name, sizes in (("node-a", (1, 9)), ("node-b", (1, 9)), ("node-c", (1, 2, 9)), ("node-d", ())):
        devices = [device(f"d{size}", attributes={"size": size}) for size in sizes]
        objects += [node(name), slice_(*devices, name=f"s-{name}", node=name, pool=name)]
        objects += [allocated(claim(f"held-{name}"), device_id("d9", pool=name)) for size in sizes if size == 9]
    (fix,) = why(*objects, claim("c", request("r", f"{SIZE} == 9", count=4))).fixes

    assert [change.op for change in fix.changes] == ["set-selectors", "set-count"]
    assert sorted(fix.nodes) == ["node-a", "node-b", "node-c"]
