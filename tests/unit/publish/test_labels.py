"""Labels tell what is true of all devices of a node, and one key for each model where they differ."""

from __future__ import annotations

import pytest

from claimsmith.errors import FieldError
from claimsmith.model.device import Device
from claimsmith.model.inventory import Inventory, Pool
from claimsmith.publish.labels import LabelOptions, parse_label_options, plan_labels, render_feature_file
from claimsmith.publish.labels_groups import LabelSource
from claimsmith.testing import builders as b

DRIVER = "gpu.example.test"


def card(name: str, model: str = "A100", *, memory: str = "40Gi", **attributes: str | int | bool) -> Device:
    return b.device(name, attributes={"type": "gpu", "model": model, **attributes}, capacity={"memory": memory})


def labels(*devices: Device, options: LabelOptions | None = None, **source: object) -> dict[str, str]:
    found = LabelSource(driver=DRIVER, inventory=Inventory.of(*devices), **source)  # type: ignore[arg-type]
    return {key.removeprefix("claimsmith.dev/"): text for key, text in plan_labels([found], options).items()}


def test_equal_cards_are_told_of_with_and_without_their_model() -> None:
    found = labels(card("gpu-0"), card("gpu-1"))

    assert found == {
        "gpu.count": "2", "gpu.models": "1", "gpu.model": "A100", "gpu.memory-mib": "40960",
        "gpu.memory-min-mib": "40960",
        "gpu.A100.count": "2", "gpu.A100.model": "A100", "gpu.A100.memory-mib": "40960",
    }  # fmt: skip


def test_nothing_is_told_that_is_true_of_some_cards_only() -> None:
    found = labels(card("gpu-0", "A100", memory="40Gi"), card("gpu-1", "L4", memory="23034Mi"))

    assert {"gpu.model", "gpu.memory-mib"} & found.keys() == set()
    assert (found["gpu.memory-min-mib"], found["gpu.models"], found["gpu.count"]) == ("23034", "2", "2")


def test_what_all_models_have_in_common_is_told_without_a_model() -> None:
    cards = (
        card("gpu-0", "A100", computeCapability="8.0"),
        card("gpu-1", "A30", memory="24Gi", computeCapability="8.0"),
    )
    found = labels(*cards)

    assert found["gpu.compute-capability"] == "8.0"
    assert "gpu.memory-mib" not in found


def test_cards_of_one_model_with_different_memory_have_a_lower_bound_alone() -> None:
    found = labels(card("gpu-0", memory="40Gi"), card("gpu-1", memory="39Gi"))

    assert "gpu.A100.memory-mib" not in found
    assert found["gpu.A100.memory-min-mib"] == "39936"


def test_a_card_whose_memory_is_not_known_leaves_no_bound() -> None:
    found = labels(card("gpu-0"), b.device("gpu-1", attributes={"type": "gpu", "model": "A100"}))

    assert [key for key in found if "memory" in key] == []


def test_a_model_whose_memory_is_not_known_leaves_no_bound_for_the_kind() -> None:
    found = labels(card("gpu-0"), b.device("gpu-1", attributes={"type": "gpu", "model": "L4"}))

    assert [key for key in found if "memory" in key] == ["gpu.A100.memory-mib"]


def test_two_drivers_of_one_kind_are_counted_together() -> None:
    one = LabelSource(driver="a.example.test", inventory=Inventory.of(card("gpu-0", "A100")))
    two = LabelSource(driver="b.example.test", inventory=Inventory.of(card("gpu-0", "MI300")))

    assert plan_labels([one, two])["claimsmith.dev/gpu.count"] == "2"
    assert plan_labels([one, two]) == plan_labels([two, one])


def test_devices_that_other_nodes_reach_too_are_not_of_the_node() -> None:
    pools = (
        Pool(devices=(card("gpu-0"),)),
        Pool(name="fabric", devices=(card("gpu-1"),), all_nodes=True),
        Pool(name="each", devices=(b.device("gpu-2", attributes={"type": "gpu"}, node_name="node-b"),)),
    )
    found = plan_labels([LabelSource(driver=DRIVER, inventory=Inventory(pools=pools), node="node-a")])

    assert found["claimsmith.dev/gpu.count"] == "1"


def test_no_devices_are_no_labels() -> None:
    assert labels() == {}


# --- what a driver, or the operator, wants to be told -----------------------------------------------------------------


def test_an_attribute_that_the_driver_marks_is_told_where_all_agree() -> None:
    cards = (card("gpu-0", driverVersion="580.65", index=0), card("gpu-1", driverVersion="580.65", index=1))
    found = labels(*cards, marked=("driverVersion", "index"))

    assert found["gpu.A100.driver-version"] == "580.65"
    assert "gpu.A100.index" not in found


def test_an_attribute_of_the_configuration_may_have_a_domain() -> None:
    options = LabelOptions(attributes=("resource.kubernetes.io/numaNode",))
    numa = b.device("nic-0", attributes={"type": "nic", "resource.kubernetes.io/numaNode": 1})

    assert labels(numa, options=options) == {"nic.count": "1", "nic.numa-node": "1"}


def test_the_compute_capability_has_two_parts() -> None:
    assert labels(card("gpu-0", computeCapability="8.0.0"))["gpu.compute-capability"] == "8.0"


def test_replicas_are_those_that_the_plugin_offers() -> None:
    found = labels(card("gpu-0"), card("gpu-1"), replicas={"gpu-0": 4, "gpu-1": 4})

    assert (found["gpu.A100.replicas"], found["gpu.offered"]) == ("4", "8")


def test_cards_with_different_replicas_tell_only_their_sum() -> None:
    found = labels(card("gpu-0"), card("gpu-1"), replicas={"gpu-0": 4})

    assert "gpu.A100.replicas" not in found
    assert found["gpu.offered"] == "5"


# --- partitions -------------------------------------------------------------------------------------------------------


def partition(name: str, profile: str, *slices: int) -> Device:
    counters = [b.consumes("card", {f"slice-{number}": 1 for number in slices})]
    return b.device(name, attributes={"type": "mig", "profile": profile}, counters=counters)


def test_partitions_that_exclude_each_other_are_counted_as_far_as_they_fit() -> None:
    small = [partition(f"mig-1g-{n}", "1g", n) for n in range(4)]
    wide = [partition(f"mig-2g-{n}", "2g", n, n + 1) for n in range(3)]
    units = {f"slice-{number}": 1 for number in range(4)}
    inventory = Inventory.of(*wide, *small, counter_sets=(b.counter_set("card", units),))
    found = plan_labels([LabelSource(driver=DRIVER, inventory=inventory)])

    assert (found["claimsmith.dev/mig.1g.count"], found["claimsmith.dev/mig.2g.count"]) == ("4", "2")
    assert found["claimsmith.dev/mig.count"] == "4"


# --- texts ------------------------------------------------------------------------------------------------------------


def test_two_models_that_look_alike_have_different_keys() -> None:
    found = labels(card("gpu-0", "RTX 4000"), card("gpu-1", "RTX/4000"))

    counts = [key for key in found if key.endswith(".count") and key != "gpu.count"]
    assert len(counts) == 2


def test_two_models_that_differ_by_case_alone_have_keys_that_differ_by_more() -> None:
    found = labels(card("gpu-0", "rtx4000"), card("gpu-1", "RTX4000"))

    counts = {key.lower() for key in found if key.endswith(".count") and key != "gpu.count"}
    assert len(counts) == 2


def test_a_model_keeps_its_key_whatever_else_is_in_the_node() -> None:
    alone, mixed = labels(card("gpu-0")), labels(card("gpu-0"), card("gpu-1", "L4"))

    assert alone["gpu.A100.count"] == mixed["gpu.A100.count"] == "1"


# --- NVIDIA's names ---------------------------------------------------------------------------------------------------


def nvidia(*devices: Device, **source: object) -> dict[str, str]:
    found = labels(*devices, options=LabelOptions(nvidia_names=True), **source)
    return {key.removeprefix("nvidia.com/"): text for key, text in found.items() if key.startswith("nvidia.com/")}


def test_equal_cards_have_the_labels_of_nvidia() -> None:
    found = nvidia(card("gpu-0", "NVIDIA A100-SXM4-40GB", cudaComputeCapability="8.0.0"))

    assert found == {
        "gpu.count": "1", "gpu.product": "NVIDIA-A100-SXM4-40GB", "gpu.memory": "40960", "gpu.replicas": "1",
        "gpu.compute.major": "8", "gpu.compute.minor": "0", "gpu.family": "ampere",
    }  # fmt: skip


def test_mixed_cards_have_only_those_that_are_true() -> None:
    assert nvidia(card("gpu-0", "A100"), card("gpu-1", "L4")) == {"gpu.count": "2"}


def test_shared_cards_say_so_in_their_product() -> None:
    found = nvidia(card("gpu-0"), replicas={"gpu-0": 4})

    assert (found["gpu.product"], found["gpu.replicas"]) == ("A100-SHARED", "4")


@pytest.mark.parametrize(
    ("capability", "family"),
    [("7.0", "volta"), ("7.5", "turing"), ("8.6", "ampere"), ("8.9", "ada-lovelace"), ("9.0", "hopper"),
     ("12.0", "blackwell"), ("0.9", "undefined")],
)  # fmt: skip
def test_the_family_follows_from_the_compute_capability(capability: str, family: str) -> None:
    assert nvidia(card("gpu-0", computeCapability=capability))["gpu.family"] == family


# --- ways out ---------------------------------------------------------------------------------------------------------


def test_a_feature_file_has_a_line_for_each_label() -> None:
    lines = render_feature_file({"claimsmith.dev/gpu.count": "2"}).decode().splitlines()

    assert [line for line in lines if not line.startswith("#")] == ["claimsmith.dev/gpu.count=2"]


def test_a_section_becomes_options() -> None:
    section = {"prefix": "hardware.example.test", "nvidiaNames": True, "place": "file", "attributes": ["numaNode"]}

    assert parse_label_options(section) == LabelOptions(
        prefix="hardware.example.test", nvidia_names=True, place="file", attributes=("numaNode",)
    )


@pytest.mark.parametrize(
    ("section", "mentions"),
    [
        ({"prefix": "kubernetes.io"}, r"labels\.prefix: found 'kubernetes\.io'"),
        ({"prefix": "node.kubernetes.io"}, r"labels\.prefix"),
        ({"prefix": "Not A Domain"}, r"labels\.prefix"),
        ({"file": "features.d/x"}, r"labels\.file: found 'features\.d/x', allowed an absolute path"),
        ({"attributes": ["a b"]}, r"labels\.attributes\[0\]"),
        ({"place": "moon"}, r"labels\.place"),
        ({"nvidianames": True}, r"labels\.nvidianames: .*write nvidiaNames"),
    ],
)
def test_a_slip_in_the_section_is_named_with_its_field(section: object, mentions: str) -> None:
    with pytest.raises(FieldError, match=mentions):
        parse_label_options(section)
