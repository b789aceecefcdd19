"""What becomes of claims and pods when pods end, claims are deleted, and nodes vanish."""

from __future__ import annotations

from typing import Any

from claimsmith.api.kinds import NAMESPACE, NODE, POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from claimsmith.kube.client import KubeClient
from claimsmith.model.claim import FINALIZER
from tests.scenarios.scheduling import DRIVER, Bench, api_server, bench, claim_spec, pod_object

ADMIN_ACCESS = "resource.kubernetes.io/admin-access"


async def start(cluster: Bench, *pods: str) -> None:
    """One node with two devices, one claim of the user's, and pods that use it and run."""
    await cluster.add_class()
    await cluster.add_template()
    await cluster.add_node("node-a", "gpu-0", "gpu-1", pods="1000")
    await cluster.add_claim("mine")
    for name in pods:
        await cluster.add_pod(name, "mine")
    await cluster.until(lambda: all(cluster.node_of(name) for name in pods))


async def test_a_user_claim_is_freed_when_its_last_pod_ends_and_stays() -> None:
    async with bench() as cluster:
        await start(cluster, "a", "b")
        await cluster.end_pod("a")
        await cluster.until(lambda: cluster.users("mine") == ["b"])
        held = cluster.devices("mine")
        await cluster.end_pod("b", "Failed")
        await cluster.until(lambda: not cluster.devices("mine") and FINALIZER not in finalizers(cluster))

    assert held == ["gpu.example.test/node-a/gpu-0"]


def finalizers(cluster: Bench) -> tuple[str, ...]:
    found = cluster.claim("mine")
    return found.metadata.finalizers if found else ()


async def test_a_deleted_pod_is_taken_off_its_claim() -> None:
    async with bench() as cluster:
        await start(cluster, "a", "b")
        await cluster.delete_pod("a")
        await cluster.until(lambda: cluster.users("mine") == ["b"])

    assert cluster.devices("mine") == ["gpu.example.test/node-a/gpu-0"]


async def test_the_claim_of_a_finished_pod_is_deleted_while_the_pod_stays() -> None:
    async with bench() as cluster:
        await start(cluster)
        await cluster.add_pod("p", template="gpu")
        await cluster.until(lambda: bool(cluster.node_of("p")))
        await cluster.end_pod("p")
        await cluster.until(lambda: [claim.metadata.name for claim in cluster.claims] == ["mine"])

    assert cluster.pods.find("default", "p") is not None


async def test_the_claim_of_a_deleted_pod_goes_with_it() -> None:
    async with bench() as cluster:
        await start(cluster)
        await cluster.add_pod("p", template="gpu")
        await cluster.until(lambda: bool(cluster.node_of("p")))
        await cluster.delete_pod("p")

        await cluster.until(lambda: [claim.metadata.name for claim in cluster.claims] == ["mine"])


async def test_a_generated_claim_that_somebody_deleted_is_made_again() -> None:
    async with bench() as cluster:
        await start(cluster)
        await cluster.add_pod("p", template="gpu", schedulingGates=[{"name": "example.test/wait"}])
        await cluster.until(lambda: len(cluster.claims) == 2)
        first = next(claim.ref.name for claim in cluster.claims if claim.ref.name != "mine")
        await cluster.client.delete(RESOURCE_CLAIM, first, namespace="default")
        await cluster.until(lambda: len(cluster.claims) == 2 and cluster.claim(first) is None)
        second = next(claim.ref.name for claim in cluster.claims if claim.ref.name != "mine")
        await cluster.until(lambda: recorded(cluster) == {"t": second})

    assert second != first


def recorded(cluster: Bench) -> dict[str, str | None]:
    found = cluster.pods.find("default", "p")
    return dict(found.claim_names) if found else {}


async def test_a_claim_that_the_server_refuses_is_told_to_the_pod() -> None:
    async with bench() as cluster:
        await start(cluster)
        spec = {"spec": claim_spec(adminAccess=True)}
        await cluster.client.create(NAMESPACE, {"metadata": {"name": "admin", "labels": {ADMIN_ACCESS: "true"}}})
        template = {"metadata": {"name": "admin", "namespace": "admin"}, "spec": spec}
        await cluster.client.create(RESOURCE_CLAIM_TEMPLATE, template)
        await cluster.client.patch(NAMESPACE, "admin", {"metadata": {"labels": {ADMIN_ACCESS: None}}})
        pod = pod_object("p", (), "admin", {})
        await cluster.client.create(POD, {**pod, "metadata": {"name": "p", "namespace": "admin"}})
        await cluster.until(lambda: bool(cluster.messages("FailedResourceClaimCreation")))

    assert "adminAccess" in cluster.messages("FailedResourceClaimCreation")[0]


async def test_a_deleted_claim_waits_for_its_pods_and_then_goes() -> None:
    async with bench() as cluster:
        await start(cluster, "a")
        await cluster.client.delete(RESOURCE_CLAIM, "mine", namespace="default")
        await cluster.until(lambda: deletion(cluster) is not None)
        held = cluster.devices("mine")
        await cluster.end_pod("a")
        await cluster.until(lambda: cluster.claim("mine") is None)

    assert held == ["gpu.example.test/node-a/gpu-0"]


def deletion(cluster: Bench) -> str | None:
    found = cluster.claim("mine")
    return found.metadata.deletion_timestamp if found else None


async def test_a_claim_deleted_while_no_controller_ran_is_released_afterwards() -> None:
    async with api_server() as url:
        async with bench(url=url) as first:
            await start(first, "a")
        client = KubeClient.for_url(url)
        await client.delete(RESOURCE_CLAIM, "mine", namespace="default")
        await client.delete(POD, "a", namespace="default", grace_period_s=0)
        await client.close()
        async with bench(url=url) as second:
            await second.until(lambda: second.claim("mine") is None)

    assert second.pods.find("default", "a") is None


async def test_devices_allocated_ahead_stay_until_somebody_has_used_them() -> None:
    async with bench() as cluster:
        await start(cluster)
        await cluster.client.patch(
            RESOURCE_CLAIM, "mine", {"metadata": {"finalizers": [FINALIZER]}}, namespace="default"
        )
        await cluster.client.patch(
            RESOURCE_CLAIM, "mine", {"status": {"allocation": ahead()}}, namespace="default", subresource="status"
        )
        await cluster.add_pod("other")
        await cluster.until(lambda: bool(cluster.node_of("other")) and bool(cluster.devices("mine")))
        held = cluster.devices("mine")
        await cluster.add_pod("p", "mine")
        await cluster.until(lambda: cluster.users("mine") == ["p"])
        await cluster.end_pod("p")
        await cluster.until(lambda: not cluster.devices("mine"))

    assert held == ["gpu.example.test/node-a/gpu-1"]


def ahead() -> dict[str, Any]:
    return {"devices": {"results": [{"request": "r", "driver": DRIVER, "pool": "node-a", "device": "gpu-1"}]}}


async def test_pods_of_a_node_that_is_gone_end_and_free_their_devices() -> None:
    async with bench() as cluster:
        await start(cluster, "a")
        await cluster.client.delete(NODE, "node-a")
        await cluster.until(lambda: cluster.pods.find("default", "a") is None and not cluster.devices("mine"))

    assert cluster.users("mine") == []


async def test_a_pod_deleted_before_it_had_a_node_goes() -> None:
    async with bench() as cluster:
        await start(cluster)
        await cluster.add_pod("p", nodeSelector={"no": "such"})
        await cluster.until(lambda: bool(cluster.messages()))
        await cluster.client.delete(POD, "p", namespace="default")
        await cluster.until(lambda: cluster.pods.find("default", "p") is None)

    assert cluster.messages() == [
        "0/1 nodes can take the pod; 1 node: node does not have the label no=such of the pod's nodeSelector"
    ]


async def test_a_full_claim_lets_new_pods_in_as_finished_ones_leave() -> None:
    async with bench() as cluster:
        await start(cluster)
        users = [await running(cluster, f"run-{number:03}") for number in range(254)]
        users += [await running(cluster, f"done-{number}") for number in range(2)]
        writes = count_writes(cluster)
        status = {"allocation": ahead(), "reservedFor": users}
        await cluster.client.patch(
            RESOURCE_CLAIM, "mine", {"metadata": {"finalizers": [FINALIZER]}}, namespace="default"
        )
        await cluster.client.patch(
            RESOURCE_CLAIM, "mine", {"status": status}, namespace="default", subresource="status"
        )
        await cluster.until(lambda: len(cluster.users("mine")) == 256)
        await cluster.end_pod("done-0")
        await cluster.end_pod("done-1")
        await cluster.add_pod("new-0", "mine")
        await cluster.until(lambda: bool(cluster.node_of("new-0")))
        first = list(cluster.users("mine"))
        await cluster.add_pod("new-1", "mine")
        await cluster.until(lambda: bool(cluster.node_of("new-1")))
        await cluster.add_pod("new-2", "mine")
        await cluster.until(lambda: told(cluster, "new-2"))

    assert (len(first), "done-0" in first, "done-1" in first) == (255, False, False)
    assert len(cluster.users("mine")) == 256
    assert set(cluster.messages()) == {
        "claim default/mine is used by 256 pods, the maximum; wait until one of them ends"
    }
    assert len(writes) <= 2 + 4


def told(cluster: Bench, pod: str) -> bool:
    return any(event["involvedObject"]["name"] == pod for event in cluster.events)


async def running(cluster: Bench, name: str) -> dict[str, Any]:
    """A pod that its node runs; gives its entry in reservedFor."""
    await cluster.add_pod(name, "mine", nodeName="node-a", schedulerName="none")
    await cluster.until(lambda: bool(cluster.node_of(name)))
    found = cluster.pods.find("default", name)
    assert found is not None
    return {"resource": "pods", "name": name, "uid": found.uid}


def count_writes(cluster: Bench) -> list[str]:
    """The versions of the claim that come from now on."""
    seen: list[str] = []

    def listen(old: Any, new: Any) -> None:
        if new is not None and new.metadata.name == "mine" and old is not None:
            seen.append(new.metadata.resource_version)

    cluster.claims.subscribe(listen)
    return seen


async def test_a_generated_claim_deleted_while_no_controller_ran_is_made_again() -> None:
    gate = [{"name": "example.test/wait"}]
    async with api_server() as url:
        async with bench(url=url) as first:
            await start(first)
            await first.add_pod("p", template="gpu", schedulingGates=gate)
            await first.until(lambda: bool(recorded(first)))
            before = recorded(first)["t"]
        client = KubeClient.for_url(url)
        await client.delete(RESOURCE_CLAIM, str(before), namespace="default")
        await client.close()
        async with bench(url=url) as second:
            await second.until(lambda: recorded(second).get("t") not in (None, before))

            assert second.claim(str(recorded(second)["t"])) is not None


async def test_a_generated_claim_is_not_made_twice_when_the_controller_starts_again() -> None:
    gate = [{"name": "example.test/wait"}]
    async with api_server() as url:
        async with bench(url=url) as first:
            await start(first)
            await first.add_pod("p", template="gpu", schedulingGates=gate)
            await first.until(lambda: bool(recorded(first)))
        async with bench(url=url) as second:
            await second.add_pod("q", template="gpu")
            await second.until(lambda: bool(second.node_of("q")))

    assert len(second.claims) == 3


async def test_a_pod_bound_before_its_claim_was_allocated_gets_the_claim_reserved() -> None:
    async with bench() as cluster:
        await start(cluster)
        await cluster.add_pod("p", "mine", nodeName="node-a")
        await cluster.until(lambda: cluster.node_of("p") == "node-a")
        await allocate_by_hand(cluster)
        await cluster.until(lambda: cluster.users("mine") == ["p"])


async def allocate_by_hand(cluster: Bench, *, consumers: list[dict[str, str]] | None = None) -> None:
    """Allocate the user's claim as another allocator would, which sets no finalizer."""
    device = {"request": "r", "driver": DRIVER, "pool": "node-a", "device": "gpu-0"}
    status = {"allocation": {"devices": {"results": [device]}}, "reservedFor": consumers or []}
    await cluster.client.patch(RESOURCE_CLAIM, "mine", {"status": status}, namespace="default", subresource="status")


async def test_an_allocation_that_nobody_protects_stays_when_its_pods_are_gone() -> None:
    gone = {"resource": "pods", "name": "gone", "uid": "gone"}
    async with bench() as cluster:
        await start(cluster)
        await allocate_by_hand(cluster, consumers=[gone])
        await cluster.until(lambda: bool(cluster.devices("mine")) and not cluster.users("mine"))

    assert cluster.devices("mine") == ["gpu.example.test/node-a/gpu-0"]
