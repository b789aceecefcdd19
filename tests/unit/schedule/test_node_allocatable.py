from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from claimsmith.model.claim import AllocationResult, DeviceResult, ResourceClaim
from claimsmith.model.device import Device, NodeAllocatableResource
from claimsmith.model.names import DeviceId
from claimsmith.model.workload import Container, ContainerClaim, NodeAllocatableClaim, NodeAllocatableOverhead, Pod
from claimsmith.schedule.node_allocatable import (
    NodeAllocatablePlan,
    find_mapping_devices,
    find_shortages,
    is_mapped,
    plan_node_allocatable,
)
from claimsmith.schedule.usage import NodeUsage, UsageIndex, plan_requests
from claimsmith.testing.builders import claim, device, device_id, node, pod, quantities, quantity, result, slice_


def taking(name: str = "gpu-0", **resources: NodeAllocatableResource) -> Device:
    named = {key.replace("_", "-"): value for key, value in resources.items()}
    return replace(device(name), node_allocatable_resources=named)


def by_capacity(multiplier: str | None = None) -> NodeAllocatableResource:
    factor = None if multiplier is None else quantity(multiplier)
    return NodeAllocatableResource(capacity_key="cores", capacity_multiplier=factor)


def per_device(amount: str) -> NodeAllocatableResource:
    return NodeAllocatableResource(device_multiplier=quantity(amount))


def overhead(per_pod: str = "0", per_container: str = "0") -> NodeAllocatableResource:
    return NodeAllocatableResource(overhead_per_pod=quantity(per_pod), overhead_per_container=quantity(per_container))


def plan(user: Pod, devices: list[Device], *results: DeviceResult) -> NodeAllocatablePlan:
    known = {device_id(item.name): item for item in devices}
    return plan_node_allocatable(user, [(claim("c"), AllocationResult(results=results))], known.get)


def only(found: NodeAllocatablePlan) -> NodeAllocatableClaim:
    (entry,) = found.claims
    return entry


def test_a_device_without_such_resources_takes_nothing() -> None:
    assert plan(pod("p", "c"), [], result("gpu-0")) == NodeAllocatablePlan()


def test_the_consumed_capacity_times_the_factor_is_taken() -> None:
    found = plan(pod("p", "c"), [taking(memory=by_capacity("1Gi"))], result("gpu-0", consumed={"cores": 3}))

    assert only(found).mapping == quantities({"memory": "3Gi"})


def test_a_factor_may_be_a_fraction() -> None:
    found = plan(pod("p", "c"), [taking(cpu=by_capacity("0.5"))], result("gpu-0", consumed={"cores": 3}))

    assert only(found).mapping == quantities({"cpu": "1500m"})


def test_a_capacity_that_the_allocation_does_not_consume_takes_nothing() -> None:
    found = plan(pod("p", "c"), [taking(cpu=by_capacity())], result("gpu-0", consumed={"other": 3}))

    assert found == NodeAllocatablePlan()


def test_an_allocation_that_consumes_nothing_at_all_can_not_be_told() -> None:
    (problem,) = plan(pod("p", "c"), [taking(cpu=by_capacity())], result("gpu-0")).problems

    assert "takes cpu by its capacity 'cores'" in problem


def test_amounts_per_device_are_summed_over_the_devices_of_a_claim() -> None:
    devices = [taking(name, cpu=per_device("2")) for name in ("gpu-0", "gpu-1")]

    assert only(plan(pod("p", "c"), devices, result("gpu-0"), result("gpu-1"))).mapping == quantities({"cpu": 4})


def test_overheads_are_summed_per_pod_and_per_container() -> None:
    devices = [taking(name, memory=overhead("1Gi", "1Mi")) for name in ("gpu-0", "gpu-1")]
    found = only(plan(pod("p", "c"), devices, result("gpu-0"), result("gpu-1")))

    assert found.overhead["memory"] == NodeAllocatableOverhead(per_pod=quantity("2Gi"), per_container=quantity("2Mi"))


def user_of(*containers: str, **fields: Any) -> Pod:
    uses = (ContainerClaim(name="c"), ContainerClaim(name="c", request="other"))
    return pod("p", "c", containers=[Container(name=name, claims=uses) for name in containers], **fields)


def test_the_containers_that_use_the_claim_are_named_once_each() -> None:
    user = replace(user_of("a"), init_containers=user_of("i").containers)
    found = only(plan(user, [taking(cpu=per_device("1"))], result("gpu-0")))

    assert found.containers == ("i", "a")


def test_a_pod_takes_its_overhead_once_and_once_more_per_container() -> None:
    user = user_of("a", "b")
    taken = plan(user, [taking(cpu=overhead("1", "100m"))], result("gpu-0")).claims

    assert plan_requests(replace(user, node_allocatable=taken))["cpu"] == 1200


def test_what_devices_take_comes_on_top_of_init_and_other_containers() -> None:
    init = (Container(name="i", requests=quantities({"cpu": 3})),)
    user = replace(pod("p", "c", requests={"cpu": 1}), init_containers=init)
    taken = plan(user, [taking(cpu=per_device("2"))], result("gpu-0")).claims

    assert plan_requests(replace(user, node_allocatable=taken))["cpu"] == 5000


def test_requests_of_the_pod_as_a_whole_replace_those_of_containers_and_devices() -> None:
    user = replace(pod("p", requests={"cpu": 1, "example.test/x": 1}), requests=quantities({"cpu": 4}))

    assert (plan_requests(user)["cpu"], plan_requests(user)["example.test/x"]) == (4000, 1000)


def shortages(user: Pod, *, cpu: str = "2", free: int = 8, used: int = 0) -> list[str]:
    usage = NodeUsage(offered={"cpu": free * 1000, "pods": 110_000}, amounts={"cpu": used * 1000})
    found = plan(user, [taking(cpu=per_device(cpu))], result("gpu-0"))
    return [reason.text for reason in find_shortages(user, found, usage, node="n")]


def test_a_node_with_room_for_pod_and_devices_fits() -> None:
    assert shortages(pod("p", "c", requests={"cpu": 6})) == []


def test_a_shortage_names_the_amounts() -> None:
    assert shortages(pod("p", "c", requests={"cpu": 4}), used=3) == [
        "node has too little cpu left for the pod with its devices: 6 wanted, of which 2 by devices, 5 left of 8"
    ]


def test_a_pod_request_must_cover_containers_and_devices() -> None:
    user = replace(pod("p", "c", requests={"cpu": 1}), requests=quantities({"cpu": 2}))

    assert shortages(user) == ["the pod's own cpu request does not cover its containers and devices"]


def test_a_pod_limit_must_cover_each_container_with_its_devices() -> None:
    limited = replace(user_of("a").containers[0], limits=quantities({"cpu": 1}))
    user = replace(user_of("a"), containers=(limited,), limits=quantities({"cpu": 2}), requests=quantities({"cpu": 4}))

    assert shortages(user) == ["the pod's own cpu limit does not cover container 'a' and its devices"]


@pytest.mark.parametrize(("resource", "expected"), [(per_device("1"), True), (overhead("1"), False)])
def test_only_a_device_that_stands_for_resources_makes_a_claim_mapped(
    resource: NodeAllocatableResource, expected: bool
) -> None:
    known = {device_id("gpu-0"): taking(cpu=resource)}

    assert is_mapped(AllocationResult(results=(result("gpu-0"),)), known.get) is expected


def test_the_newest_generation_tells_what_a_device_takes() -> None:
    old = slice_(taking(cpu=per_device("1")), name="b", generation=1)
    new = slice_(taking(cpu=per_device("2")), name="a", generation=2)
    found: dict[DeviceId, Device] = find_mapping_devices([new, old])

    assert found[device_id("gpu-0")].node_allocatable_resources["cpu"] == per_device("2")


def test_a_node_counts_what_the_devices_of_its_pods_take() -> None:
    user: Pod = pod("p", "c", node_name="node-a", requests={"cpu": 1})
    taken = plan(user, [taking(cpu=per_device("2"))], result("gpu-0")).claims
    grown = replace(user, node_allocatable=taken)
    index = UsageIndex()
    index.see_pod(None, user)
    index.see_pod(user, grown)
    counted = index.find(node("node-a")).amounts["cpu"]
    index.see_pod(grown, None)

    assert (counted, index.find(node("node-a")).amounts) == (3000, {})


def test_a_special_claim_is_used_by_the_containers_of_its_mappings() -> None:
    special: ResourceClaim = claim("special")
    found = plan_node_allocatable(
        pod("p"),
        [(special, AllocationResult(results=(result("gpu-0"),)))],
        lambda _: taking(cpu=per_device("1")),
        containers_of=lambda _: ("main",),
    )

    assert only(found).containers == ("main",)
