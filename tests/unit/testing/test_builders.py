"""The builders give values that fit together."""

from __future__ import annotations

import pytest

from claimsmith.model.claim import FINALIZER
from claimsmith.model.device import DeviceAttribute
from claimsmith.model.names import ClaimRef, DeviceId
from claimsmith.model.quantity import parse_quantity
from claimsmith.model.semver import parse_semver
from claimsmith.testing import builders as b


def test_a_plain_value_becomes_an_attribute_of_its_type() -> None:
    made = b.device(attributes={"n": 3, "on": True, "s": "x", "v": parse_semver("1.2.3"), "l": ("a", "b")})

    assert {name: value.kind for name, value in made.attributes.items()} == {
        "n": "int", "on": "bool", "s": "string", "v": "version", "l": "strings",
    }  # fmt: skip


def test_a_gpu_takes_its_memory_and_further_attributes() -> None:
    made = b.gpu("gpu-7", memory="12Gi", attributes={"model": "T4", "numa": 1})

    assert made.capacity["memory"].value == parse_quantity("12Gi")
    assert made.attributes["model"] == DeviceAttribute.of("T4")
    assert made.attributes["numa"] == DeviceAttribute.of(1)


def test_a_capacity_has_a_policy_only_when_a_part_of_it_is_given() -> None:
    plain, shared = b.capacity("10Gi"), b.capacity("40G", default="1G", minimum="1G", step="1G")

    assert plain.policy is None
    assert shared.policy is not None
    assert shared.policy.valid_range is not None


def test_a_slice_belongs_to_the_pool_of_its_node() -> None:
    made = b.slice_(b.gpu(), node="node-z")

    assert (made.pool, made.node_name, made.generation, made.slice_count) == ("node-z", "node-z", 1, 1)


def test_a_slice_takes_its_rare_fields_by_name() -> None:
    made = b.slice_(node=None, pool="p", all_nodes=True, generation=4, slice_count=2)

    assert (made.node_name, made.pool, made.all_nodes, made.generation, made.slice_count) == (None, "p", True, 4, 2)


def test_a_claim_without_requests_asks_for_one_device_of_the_default_class() -> None:
    asked = b.claim("c").spec.requests[0].alternatives[0]

    assert (asked.device_class, asked.count, asked.selectors) == ("gpu", 1, ())


def test_a_request_turns_amounts_into_quantities() -> None:
    asked = b.request("nic", capacity={"bandwidth": "2G"}).alternatives[0]

    assert asked.capacity == {"bandwidth": parse_quantity("2G")}


def test_an_allocated_claim_holds_its_device_its_node_and_the_finalizer() -> None:
    held = b.allocated(b.claim("c", b.request("mine")), "gpu-1", reserved_for=["pod"])

    assert held.allocation is not None
    assert held.allocation.results[0].device_id == DeviceId(b.DRIVER, b.NODE, "gpu-1")
    assert held.allocation.results[0].request == "mine"
    assert held.allocation.node_selector is not None
    assert held.metadata.finalizers == (FINALIZER,)
    assert held.reserved_for[0].name == "pod"


def test_metadata_is_given_by_name() -> None:
    made = b.claim("c", namespace="other", labels={"a": "b"})

    assert made.ref == ClaimRef("other", "c")
    assert made.metadata.labels == {"a": "b"}


def test_a_pod_uses_claims_in_its_container() -> None:
    made = b.pod("p", "one", "two", node_name="node-a", priority=7)

    assert [item.claim_name for item in made.claims] == ["one", "two"]
    assert [item.name for item in made.containers[0].claims] == ["one", "two"]
    assert (made.node_name, made.priority) == ("node-a", 7)


def test_a_snapshot_sorts_its_slices_by_name_and_fills_in_class_and_node() -> None:
    made = b.snapshot(b.slice_(name="b"), b.slice_(name="a"), b.claim("c"), b.pod("p"))

    assert [item.name for item in made.slices] == ["a", "b"]
    assert list(made.classes) == [b.CLASS]
    assert list(made.nodes) == [b.NODE]
    assert list(made.claims) == [ClaimRef("default", "c")]


def test_a_prepare_request_names_devices_of_the_default_pool() -> None:
    asked = b.prepare_request("gpu-0", b.requested("gpu-1", request="second"), claim=b.claim_key("c", uid="u1"))

    assert [item.id.device for item in asked.devices] == ["gpu-0", "gpu-1"]
    assert [item.request for item in asked.devices] == ["r", "second"]
    assert (str(asked.claim), asked.claim.uid) == ("default/c", "u1")


@pytest.mark.parametrize("amount", ["10Gi", parse_quantity("10Gi"), 10 * 2**30])
def test_an_amount_is_text_or_a_number_or_a_quantity(amount: b.Amount) -> None:
    assert b.quantity(amount) == parse_quantity("10Gi")
