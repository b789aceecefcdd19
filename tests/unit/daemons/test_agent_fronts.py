"""The two sides of a driver: what runs, what one tells the other, who has what."""

from __future__ import annotations

import pytest

from claimsmith.daemons.agent_claims import is_elsewhere
from claimsmith.daemons.agent_driver import Found
from claimsmith.daemons.agent_facts import plan_amounts, plan_label_sources
from claimsmith.daemons.agent_fronts import (
    IN_USE_KEY,
    Sides,
    find_new_foreign,
    plan_holders,
    plan_sides,
    plan_use_taints,
)
from claimsmith.daemons.agent_options import FrontEnds
from claimsmith.model.claim import AllocationResult, ResourceClaim, ResourceClaimSpec
from claimsmith.model.device import Device, DeviceTaint
from claimsmith.model.inventory import Inventory
from claimsmith.model.metadata import Metadata
from claimsmith.model.names import DeviceId, PodRef
from claimsmith.model.prepared import ClaimKey
from claimsmith.model.topology import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from claimsmith.node.deviceplugin_rules import DevicePluginOptions, ResourceRule
from claimsmith.node.deviceplugins import DeviceUse
from claimsmith.node.entry import Grant, HeldDevice, PreparedClaim, grant_key
from claimsmith.node.podresources import ForeignRule

DRIVER, NODE = "gpu.example.com", "node-a"
RULE = ResourceRule(resource="example.com/gpu")
PLUGIN = DevicePluginOptions(rules=(RULE,))


def device(name: str) -> DeviceId:
    return DeviceId(DRIVER, NODE, name)


def claim(*names: str, admin: bool = False) -> PreparedClaim:
    held = tuple(HeldDevice(id=device(name), request="gpu", admin_access=admin) for name in names)
    return PreparedClaim(claim=ClaimKey(namespace="team", name="train", uid="uid-1"), devices=held, boot_id="b")


def grant(*names: str) -> Grant:
    held = tuple(HeldDevice(id=device(name), request="device") for name in names)
    entry = PreparedClaim(claim=grant_key(RULE.resource, names), devices=held, boot_id="b")
    return Grant(entry=entry, resource=RULE.resource, ids=names)


def use(name: str, *, held: str = "", foreign: bool = False, pod: PodRef | None = None) -> DeviceUse:
    return DeviceUse(
        device=device(name), held=device(held or name), resource="nvidia.com/gpu", foreign=foreign, pod=pod
    )


@pytest.mark.parametrize(
    ("fronts", "claims", "grants", "sides"),
    [
        (FrontEnds(), (), (), Sides(publishes=True, serves_claims=True, serves_containers=False)),
        (FrontEnds(device_plugin=PLUGIN), (), (), Sides(publishes=True, serves_claims=True, serves_containers=True)),
        (
            FrontEnds(dra=False, device_plugin=PLUGIN), (), (),
            Sides(publishes=False, serves_claims=False, serves_containers=True),
        ),
        (FrontEnds(foreign=ForeignRule()), (), (), Sides(publishes=True, serves_claims=True, serves_containers=True)),
        (
            FrontEnds(dra=False, foreign=ForeignRule()), (), (),
            Sides(publishes=False, serves_claims=False, serves_containers=False),
        ),
    ],
)  # fmt: skip
def test_what_is_switched_on_runs(
    fronts: FrontEnds, claims: tuple[PreparedClaim, ...], grants: tuple[Grant, ...], sides: Sides
) -> None:
    assert plan_sides(fronts, claims, grants) == sides


def test_claims_that_are_prepared_are_served_to_their_end_after_their_side_is_switched_off() -> None:
    sides = plan_sides(FrontEnds(dra=False, device_plugin=PLUGIN), (claim("gpu-0"),), ())

    assert sides == Sides(publishes=False, serves_claims=True, serves_containers=True)


def test_what_containers_have_is_followed_after_their_side_is_switched_off() -> None:
    sides = plan_sides(FrontEnds(), (), (grant("gpu-0"),))

    assert sides == Sides(publishes=True, serves_claims=True, serves_containers=True)


def test_a_device_that_a_container_has_is_tainted_for_claims() -> None:
    taints = plan_use_taints({device("gpu-0"): use("gpu-0")})

    assert taints == {device("gpu-0"): (DeviceTaint(key=IN_USE_KEY, value="nvidia.com_gpu", effect="NoSchedule"),)}


def test_a_foreign_use_is_told_once() -> None:
    first = {device("gpu-0"): use("gpu-0", foreign=True)}
    second = {**first, device("gpu-1"): use("gpu-1", foreign=True)}

    assert find_new_foreign({}, first) == (use("gpu-0", foreign=True),)
    assert find_new_foreign(first, second) == (use("gpu-1", foreign=True),)
    assert find_new_foreign(second, second) == ()


def test_only_the_device_that_a_container_has_is_told_not_what_shares_its_hardware() -> None:
    uses = {
        device("gpu-0"): use("gpu-0", foreign=True),
        device("gpu-0-part"): use("gpu-0-part", held="gpu-0", foreign=True),
    }

    assert [item.device.device for item in find_new_foreign({}, uses)] == ["gpu-0"]


def test_a_device_that_changes_from_ours_to_foreign_is_told() -> None:
    before, after = {device("gpu-0"): use("gpu-0")}, {device("gpu-0"): use("gpu-0", foreign=True)}

    assert len(find_new_foreign(before, after)) == 1
    assert find_new_foreign(after, before) == ()


def test_holders_are_claims_and_pods() -> None:
    holders = plan_holders(
        (claim("gpu-0"),), {device("gpu-1"): use("gpu-1", pod=PodRef("team", "old")), device("gpu-2"): use("gpu-2")}
    )
    shown = {key.device: [(item.kind, item.name, item.resource) for item in found] for key, found in holders.items()}

    assert shown == {
        "gpu-0": [("ResourceClaim", "train", "")],
        "gpu-1": [("Pod", "old", "nvidia.com/gpu")],
        "gpu-2": [("Pod", "unknown", "nvidia.com/gpu")],
    }


def test_admin_access_holds_nothing() -> None:
    assert plan_holders((claim("gpu-0", admin=True),), {}) == {}


def test_amounts_leave_out_devices_that_failed() -> None:
    found = Found(
        inventory=Inventory.of(Device(name="gpu-0"), Device(name="gpu-1")),
        taints={device("gpu-1"): (DeviceTaint(key="k", effect="NoSchedule"),)},
        health={},
    )
    fronts = {DRIVER: FrontEnds(amounts=(RULE, ResourceRule(resource="example.com/none", attributes={"model": "x"})))}

    assert plan_amounts(fronts, {DRIVER: found}, node=NODE) == {"example.com/gpu": 1, "example.com/none": 0}


def test_labels_tell_to_how_many_containers_a_device_is_offered() -> None:
    found = Found(inventory=Inventory.of(Device(name="gpu-0")), taints={}, health={})
    shared = DevicePluginOptions(rules=(ResourceRule(resource="example.com/gpu", replicas=4),))
    sources = plan_label_sources({DRIVER: FrontEnds(device_plugin=shared)}, {DRIVER: found}, node=NODE)

    assert [source.replicas for source in sources] == [{"gpu-0": 4}]


def a_claim(allocation: AllocationResult | None = None) -> ResourceClaim:
    return ResourceClaim(metadata=Metadata(name="c", namespace="n"), spec=ResourceClaimSpec(), allocation=allocation)


def allocated_on(*names: str) -> ResourceClaim:
    field = NodeSelectorRequirement(key="metadata.name", operator="In", values=names)
    selector = NodeSelector(terms=(NodeSelectorTerm(match_fields=(field,)),)) if names else None
    return a_claim(AllocationResult(results=(), node_selector=selector))


def test_a_claim_that_is_allocated_on_another_node_is_elsewhere() -> None:
    assert is_elsewhere(allocated_on("node-b"), NODE)
    assert not is_elsewhere(allocated_on(NODE), NODE)
    assert not is_elsewhere(allocated_on(), NODE)
    assert not is_elsewhere(a_claim(), NODE)
