"""Amounts of extended resources are set exactly, kept in an annotation, and only where that is allowed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from claimsmith.errors import FieldError
from claimsmith.publish.nodestatus import (
    CONFIGURED_ANNOTATION,
    WISHES_ANNOTATION,
    CapacityChange,
    configured_amounts,
    find_rivals,
    parse_amount,
    plan_capacity,
    read_wishes,
)

GPU = "nvidia.com/gpu"


def node(status: dict[str, Any] | None = None, **annotations: dict[str, int]) -> dict[str, Any]:
    names = {"wishes": WISHES_ANNOTATION, "configured": CONFIGURED_ANNOTATION}
    texts = {names[name]: json.dumps(amounts) for name, amounts in annotations.items()}
    found: dict[str, Any] = {"metadata": {"name": "node-a", "uid": "u1", "resourceVersion": "7", "annotations": texts}}
    return found if status is None else {**found, "status": status}


def amounts(**named: str) -> dict[str, Any]:
    return {"capacity": {GPU: "1", **named}, "allocatable": {GPU: "1", **named}}


def added(name: str, amount: int) -> list[dict[str, str]]:
    escaped = name.replace("/", "~1")
    return [
        {"op": "add", "path": f"/status/{part}/{escaped}", "value": str(amount)} for part in ("capacity", "allocatable")
    ]


# --- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("nvidia.com/gpu=1", (GPU, 1)),
        ("example.com/fpga=0", ("example.com/fpga", 0)),
        ("nvidia.com/gpu=1k", (GPU, 1000)),
    ],
)
def test_an_amount_is_a_name_and_a_whole_number(text: str, found: tuple[str, int]) -> None:
    assert parse_amount(text) == found


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("nvidia.com/gpu", "NAME=AMOUNT"),
        ("gpu=1", "a domain of its own"),
        ("kubernetes.io/gpu=1", r"outside of kubernetes\.io"),
        ("node.kubernetes.io/gpu=1", r"outside of kubernetes\.io"),
        ("deviceclass.resource.kubernetes.io/gpu=1", r"outside of kubernetes\.io"),
        ("requests.nvidia.com/gpu=1", "a domain of its own"),
        ("nvidia.com/gpu/x=1", "a domain of its own"),
        ("nvidia.com/=1", "a domain of its own"),
        ("nvidia.com/gpu=", "a whole number"),
        ("nvidia.com/gpu=one", "a whole number"),
        ("nvidia.com/gpu=1.5", "counted whole"),
        ("nvidia.com/gpu=500m", "counted whole"),
        ("nvidia.com/gpu=-1", "a whole number from 0"),
        ("nvidia.com/gpu=1Ei", "a whole number from 0"),
    ],
)
def test_a_name_or_amount_that_a_node_can_not_have_is_refused(text: str, mentions: str) -> None:
    with pytest.raises(FieldError, match=mentions):
        parse_amount(text)


# --- patches ----------------------------------------------------------------------------------------------------------


def test_setting_writes_the_wish_and_the_status_of_that_very_node() -> None:
    plan = plan_capacity(
        node({"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}), CapacityChange(amounts={GPU: 1})
    )

    assert plan.metadata == {
        "metadata": {"annotations": {WISHES_ANNOTATION: '{"nvidia.com/gpu":1}'}, "resourceVersion": "7"}
    }
    assert list(plan.status) == [
        {"op": "test", "path": "/metadata/uid", "value": "u1"},
        *added(GPU, 1)[:1],
        *added(GPU, 1)[1:],
    ]


def test_nothing_is_written_when_all_is_right() -> None:
    assert plan_capacity(node(amounts(), wishes={GPU: 1}), CapacityChange(amounts={GPU: 1})).is_empty


def test_a_status_without_amounts_is_made_first_and_only_if_nobody_was_faster() -> None:
    plan = plan_capacity(node(), CapacityChange(amounts={GPU: 1}))

    assert [(operation["op"], operation["path"]) for operation in plan.status][:3] == [
        ("test", "/metadata/resourceVersion"), ("add", "/status"), ("add", "/status/capacity"),
    ]  # fmt: skip


def test_what_the_kubelet_set_to_zero_is_restored() -> None:
    zeroed = {"capacity": {GPU: "0"}, "allocatable": {GPU: "0"}}
    plan = plan_capacity(node(zeroed, wishes={GPU: 1}))

    assert list(plan.status[1:]) == added(GPU, 1)
    assert (plan.metadata, plan.restored) == (None, (GPU,))


def test_a_new_amount_is_not_a_restored_one() -> None:
    assert plan_capacity(node(amounts(), wishes={GPU: 1}), CapacityChange(amounts={GPU: 2})).restored == ()


def test_unsetting_takes_wish_and_amount_away() -> None:
    plan = plan_capacity(node(amounts(), wishes={GPU: 1}), CapacityChange(gone=frozenset({GPU})))

    assert plan.metadata is not None
    assert plan.metadata["metadata"]["annotations"] == {WISHES_ANNOTATION: None}
    assert [operation["op"] for operation in plan.status] == ["test", "remove", "remove"]


def test_what_leaves_the_configuration_is_taken_away_and_the_rest_stays() -> None:
    other = "example.com/fpga"
    before = node(amounts(**{other: "2"}), configured={GPU: 1, other: 2})
    plan = plan_capacity(before, configured_amounts({other: 2}))

    assert [operation["path"] for operation in plan.status[1:]] == [
        "/status/capacity/nvidia.com~1gpu", "/status/allocatable/nvidia.com~1gpu",
    ]  # fmt: skip


def test_what_was_set_by_hand_wins_over_the_configuration() -> None:
    plan = plan_capacity(node(amounts(), wishes={GPU: 1}, configured={GPU: 4}), configured_amounts({GPU: 4}))

    assert plan.is_empty


def test_what_was_set_by_hand_stays_when_it_leaves_the_configuration() -> None:
    plan = plan_capacity(node(amounts(), wishes={GPU: 1}, configured={GPU: 1}), configured_amounts({}))

    assert plan.status == ()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"nvidia.com/gpu": "1"}', '{"cpu": 1}', '{"nvidia.com/gpu": -1}'])
def test_an_annotation_that_can_not_be_read_keeps_nothing(text: str) -> None:
    assert read_wishes({"metadata": {"annotations": {WISHES_ANNOTATION: text}}}) == {}


# --- rivals -----------------------------------------------------------------------------------------------------------


def test_a_device_plugin_of_the_resource_is_named() -> None:
    (sentence,) = find_rivals(GPU, node=node(amounts()), plugins=[GPU])

    assert "a device plugin has registered nvidia.com/gpu" in sentence


def test_an_amount_of_somebody_else_is_named() -> None:
    (sentence,) = find_rivals(GPU, node=node(amounts()))

    assert "nvidia.com/gpu=1 from somebody else" in sentence


def test_the_zero_that_a_kubelet_keeps_of_a_plugin_that_is_gone_is_named() -> None:
    (sentence,) = find_rivals(GPU, node=node({"capacity": {GPU: "0"}, "allocatable": {GPU: "0"}}))

    assert "nvidia.com/gpu=0 from somebody else" in sentence


def test_an_amount_of_our_own_has_no_rival() -> None:
    assert find_rivals(GPU, node=node(amounts(), wishes={GPU: 1})) == ()


def test_a_device_class_of_the_resource_is_named() -> None:
    device_class = {"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": GPU}}
    (sentence,) = find_rivals(GPU, node=node(), classes=[device_class, {"metadata": {"name": "other"}}])

    assert "DeviceClass gpus" in sentence
