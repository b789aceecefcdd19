"""Pods of a group are placed together or not at all, whatever goes wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from claimsmith.api.kinds import DEVICE_TAINT_RULE, NODE, POD_GROUP, RESOURCE_CLAIM, RESOURCE_SLICE
from claimsmith.daemons.scheduler import SchedulerOptions
from claimsmith.errors import ForbiddenError
from claimsmith.kube.client import KubeClient
from claimsmith.model.features import Features
from tests.scenarios.scheduling import DRIVER, Bench, bench, meta
from tests.scenarios.test_scheduler_conflicts import Once, delete_pod, faulty, lose

KIND = f"device.attributes['{DRIVER}'].part"


async def add_group(cluster: Bench, name: str = "gang", *, least: int | None = 2, **spec: Any) -> None:
    policy: dict[str, Any] = {"basic": {}} if least is None else {"gang": {"minCount": least}}
    await cluster.client.create(POD_GROUP, {"metadata": meta(name), "spec": {"schedulingPolicy": policy, **spec}})


async def add_members(cluster: Bench, names: Iterable[str], *, group: str = "gang", **spec: Any) -> None:
    """Pods of a group, each with a claim of its own."""
    for name in names:
        await cluster.add_claim(f"{name}-claim")
        await cluster.add_pod(name, f"{name}-claim", schedulingGroup={"podGroupName": group}, **spec)


async def add_cards(cluster: Bench, *nodes: str, cards: int = 1, **room: str) -> None:
    await cluster.add_class()
    for name in nodes:
        await cluster.add_node(name, *(f"gpu-{number}" for number in range(cards)), **room)


async def condition(cluster: Bench, status: str) -> dict[str, Any]:
    """Return the gang's condition once it has a status: the scheduler writes it after events and bindings."""
    return await cluster.condition(POD_GROUP, "gang", "PodGroupInitiallyScheduled", status)


def told(cluster: Bench, about: str = "gang") -> list[str]:
    events = (event for event in cluster.events if event["involvedObject"]["name"] == about)
    return [event["message"] for event in events if event["reason"] == "FailedScheduling"]


def nodes_of(cluster: Bench, *pods: str) -> list[str]:
    return [cluster.node_of(pod) for pod in pods]


def held(cluster: Bench) -> list[str]:
    return sorted(device for claim in cluster.claims for device in cluster.devices(claim.ref.name))


def is_clean(cluster: Bench) -> bool:
    return not held(cluster) and not any(item.reserved_for for item in cluster.claims)


async def test_a_gang_gets_the_halves_although_each_pod_would_rather_have_the_whole() -> None:
    async with bench() as cluster:
        await add_one_whole_or_two_halves(cluster, "a", "b")
        await cluster.until(lambda: nodes_of(cluster, "a", "b") == ["node-a", "node-a"])

    assert held(cluster) == [f"{DRIVER}/node-a/half-1", f"{DRIVER}/node-a/half-2"]


async def add_one_whole_or_two_halves(cluster: Bench, *pods: str) -> None:
    pool = {"name": "node-a", "generation": 1, "resourceSliceCount": 2}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": "node-a"}
    await cluster.add_node("node-a")
    await cluster.add_class()
    counters = [{"name": "card", "counters": {"slots": {"value": "2"}}}]
    devices = [part("whole", "2"), part("half-1", "1"), part("half-2", "1")]
    for name, more in (("counters", {"sharedCounters": counters}), ("parts", {"devices": devices})):
        await cluster.client.create(RESOURCE_SLICE, {"metadata": {"name": name}, "spec": {**spec, **more}})
    wishes = [alternative(name) for name in ("whole", "half")]
    for name in pods:
        wanted = {"devices": {"requests": [{"name": "r", "firstAvailable": wishes}]}}
        await cluster.client.create(RESOURCE_CLAIM, {"metadata": meta(f"{name}-claim"), "spec": wanted})
    await add_group(cluster)
    for name in pods:
        await cluster.add_pod(name, f"{name}-claim", schedulingGroup={"podGroupName": "gang"})


def part(name: str, slots: str) -> dict[str, Any]:
    consumes = [{"counterSet": "card", "counters": {"slots": {"value": slots}}}]
    return {"name": name, "attributes": {"part": {"string": name.split("-")[0]}}, "consumesCounters": consumes}


def alternative(name: str) -> dict[str, Any]:
    selectors = [{"cel": {"expression": f"{KIND} == '{name}'"}}]
    return {"name": name, "deviceClassName": "gpu", "selectors": selectors}


async def test_no_pod_of_a_gang_starts_while_another_one_finds_no_device() -> None:
    async with bench() as cluster:
        await add_cards(cluster, "node-a")
        await add_group(cluster)
        await add_members(cluster, ("a", "b"))
        await cluster.until(lambda: bool(told(cluster)))
        waiting, said = nodes_of(cluster, "a", "b"), await condition(cluster, "False")
        clean = is_clean(cluster)
        await cluster.add_node("node-b", "gpu-0")
        await cluster.until(lambda: all(nodes_of(cluster, "a", "b")))
        done = await condition(cluster, "True")

    assert (waiting, clean) == (["", ""], True)
    assert (said["status"], said["reason"]) == ("False", "Unschedulable")
    assert said["message"].startswith("pod group default/gang: 1 of at least 2 pods fit together; then pod b: ")
    assert "gpu-0 in use by the other pods of the gang" in said["message"]
    assert (done["status"], done["reason"]) == ("True", "Scheduled")


async def test_a_waiting_gang_is_explained_once_on_the_group_and_on_each_pod() -> None:
    async with bench() as cluster:
        await add_cards(cluster, "node-a")
        await add_group(cluster)
        await add_members(cluster, ("a", "b"))
        await cluster.until(lambda: all(told(cluster, name) for name in ("gang", "a", "b")))

    assert told(cluster) == told(cluster, "a") == told(cluster, "b")
    assert len(told(cluster)) == 1


async def test_pods_wait_for_the_others_and_are_placed_when_the_last_one_comes() -> None:
    async with bench() as cluster:
        await add_cards(cluster, "node-a", cards=3)
        await add_group(cluster, least=3)
        await add_members(cluster, ("a", "b"))
        await cluster.until(lambda: len(cluster.pods) == 2)
        early = nodes_of(cluster, "a", "b")
        await add_members(cluster, ("c",))
        await cluster.until(lambda: all(nodes_of(cluster, "a", "b", "c")))

    assert early == ["", ""]


async def test_pods_wait_for_their_group() -> None:
    async with bench() as cluster:
        await add_cards(cluster, "node-a", cards=2)
        await add_members(cluster, ("a", "b"))
        await cluster.until(lambda: len(cluster.pods) == 2)
        early = nodes_of(cluster, "a", "b")
        await add_group(cluster)
        await cluster.until(lambda: all(nodes_of(cluster, "a", "b")))

    assert early == ["", ""]


async def test_a_pod_beyond_the_least_count_starts_when_a_device_comes_free() -> None:
    async with bench() as cluster:
        await add_cards(cluster, "node-a", cards=2)
        await add_group(cluster)
        await add_members(cluster, ("a", "b", "c"))
        await cluster.until(lambda: sum(map(bool, nodes_of(cluster, "a", "b", "c"))) == 2 and bool(told(cluster)))
        (late,) = (name for name in ("a", "b", "c") if not cluster.node_of(name))
        (first, _) = (name for name in ("a", "b", "c") if cluster.node_of(name))
        await cluster.end_pod(first)
        await cluster.until(lambda: cluster.node_of(late) == "node-a")
        said = await condition(cluster, "True")

    assert said["status"] == "True"


async def test_pods_of_a_group_that_is_no_gang_start_one_by_one() -> None:
    async with bench() as cluster:
        await add_cards(cluster, "node-a")
        await add_group(cluster, least=None)
        await add_members(cluster, ("a", "b"))
        await cluster.until(lambda: bool(cluster.node_of("a")) and bool(told(cluster, "b")))

    assert nodes_of(cluster, "a", "b") == ["node-a", ""]


async def label(cluster: Bench, node: str, rack: str) -> None:
    await cluster.client.patch(NODE, node, {"metadata": {"labels": {"example.test/rack": rack}}})


TOPOLOGY: dict[str, Any] = {"schedulingConstraints": {"topology": [{"key": "example.test/rack"}]}}


async def test_all_pods_go_to_nodes_of_one_label_value() -> None:
    async with bench() as cluster:
        await add_cards(cluster, "node-a", "node-b", "node-c")
        for node, rack in (("node-a", "one"), ("node-b", "two"), ("node-c", "two")):
            await label(cluster, node, rack)
        await add_group(cluster, **TOPOLOGY)
        await add_members(cluster, ("a", "b"))
        await cluster.until(lambda: all(nodes_of(cluster, "a", "b")))

    assert sorted(nodes_of(cluster, "a", "b")) == ["node-b", "node-c"]


async def test_a_gang_waits_when_no_label_value_has_room_for_all() -> None:
    async with bench() as cluster:
        await add_cards(cluster, "node-a", "node-b")
        for node, rack in (("node-a", "one"), ("node-b", "two")):
            await label(cluster, node, rack)
        await add_group(cluster, **TOPOLOGY)
        await add_members(cluster, ("a", "b"))
        await cluster.until(lambda: bool(told(cluster)))
        await label(cluster, "node-b", "one")
        await cluster.until(lambda: all(nodes_of(cluster, "a", "b")))

    assert "fit together on nodes with example.test/rack=" in told(cluster)[0]


async def test_pods_of_another_priority_are_told_to_take_that_of_the_group() -> None:
    async with bench() as cluster:
        await add_cards(cluster, "node-a", cards=2)
        await add_group(cluster)
        await add_members(cluster, ("a",))
        await add_members(cluster, ("b",), priorityClassName="system-cluster-critical")
        await cluster.until(lambda: bool(told(cluster)))
        said = await condition(cluster, "False")

    assert (said["status"], said["reason"]) == ("False", "SchedulerError")
    assert "pod default/b of pod group default/gang: found priority 2000000000" in said["message"]


# --- claims of the group ----------------------------------------------------------------------------------------------


async def add_sharing(cluster: Bench, *pods: str, entry: dict[str, str]) -> None:
    shared = {"name": "shared", **entry}
    await add_group(cluster, least=len(pods), resourceClaims=[shared])
    for name in pods:
        await cluster.add_pod(
            name,
            schedulingGroup={"podGroupName": "gang"},
            resourceClaims=[shared],
            resources={"claims": [{"name": "shared"}]},
        )


async def test_a_claim_of_the_group_is_made_once_and_reserved_for_the_group() -> None:
    async with bench() as cluster:
        await add_cards(cluster, "node-a", "node-b")
        await cluster.add_template("one")
        await add_sharing(cluster, "a", "b", entry={"resourceClaimTemplateName": "one"})
        await cluster.until(lambda: all(nodes_of(cluster, "a", "b")))
        (claim,) = cluster.claims

    assert cluster.node_of("a") == cluster.node_of("b")
    assert claim.ref.name.startswith("gang-shared-")
    assert [(user.api_group, user.resource, user.name) for user in claim.reserved_for] == [
        ("scheduling.k8s.io", "podgroups", "gang")
    ]
    assert {pod.claim_names["shared"] for pod in cluster.pods} == {claim.ref.name}


async def test_a_claim_of_the_group_that_is_deleted_is_made_again() -> None:
    async with bench() as cluster:
        await add_cards(cluster, "node-a")
        await cluster.add_template("one")
        await add_group(cluster, least=2, resourceClaims=[{"name": "shared", "resourceClaimTemplateName": "one"}])
        await cluster.until(lambda: bool(names(cluster)))
        (first,) = names(cluster)
        await cluster.client.delete(RESOURCE_CLAIM, first, namespace="default")
        await cluster.until(lambda: bool(names(cluster)) and first not in names(cluster))
        (second,) = names(cluster)

    assert second.startswith("gang-shared-")


def names(cluster: Bench) -> list[str]:
    return [claim.ref.name for claim in cluster.claims]


async def test_a_claim_of_the_group_is_freed_when_the_group_is_deleted() -> None:
    async with bench() as cluster:
        await add_cards(cluster, "node-a")
        await cluster.add_claim("one")
        await add_sharing(cluster, "a", "b", entry={"resourceClaimName": "one"})
        await cluster.until(lambda: all(nodes_of(cluster, "a", "b")))
        users = cluster.users("one")
        for name in ("a", "b"):
            await cluster.delete_pod(name)
        await cluster.until(lambda: not cluster.pods)
        kept = cluster.devices("one")
        await cluster.client.delete(POD_GROUP, "gang", namespace="default")
        await cluster.until(lambda: not cluster.devices("one"))

    assert users == ["gang"]
    assert kept == [f"{DRIVER}/node-a/gpu-0"]


async def test_pods_of_a_gang_share_a_claim_that_is_not_the_groups() -> None:
    async with bench() as cluster:
        await add_cards(cluster, "node-a", "node-b")
        await cluster.add_claim("one")
        await add_group(cluster)
        for name in ("a", "b"):
            await cluster.add_pod(name, "one", schedulingGroup={"podGroupName": "gang"})
        await cluster.until(lambda: all(nodes_of(cluster, "a", "b")))

    assert cluster.node_of("a") == cluster.node_of("b")
    assert sorted(cluster.users("one")) == ["a", "b"]


# --- writes that fail -------------------------------------------------------------------------------------------------


class Never:
    """Lets each write of a subject about one object fail."""

    def __init__(self, subject: str, name: str, error: Exception) -> None:
        self.subject, self.name, self.error, self.is_over = subject, name, error, False
        self.count = 0

    async def __call__(self, client: KubeClient, subject: str, name: str) -> None:
        if (subject, name) == (self.subject, self.name) and not self.is_over:
            self.count += 1
            raise self.error


async def test_a_claim_that_cannot_be_written_leaves_none_of_the_gang_allocated() -> None:
    fault = Never("claim status", "b-claim", ForbiddenError("no right to write claims"))
    async with bench(client=faulty(fault)) as cluster:
        await add_cards(cluster, "node-a", cards=2)
        await add_group(cluster)
        await add_members(cluster, ("a", "b"))
        await cluster.until(lambda: fault.count > 1 and is_clean(cluster))
        waiting = nodes_of(cluster, "a", "b")
        fault.is_over = True
        await cluster.until(lambda: all(nodes_of(cluster, "a", "b")))

    assert waiting == ["", ""]


async def test_an_answer_that_is_lost_takes_back_what_was_written() -> None:
    once = Once("claim status", lose)
    async with bench(client=faulty(once, after=True)) as cluster:
        await add_cards(cluster, "node-a", cards=2)
        await add_group(cluster)
        await add_members(cluster, ("a", "b"))
        await cluster.until(lambda: all(nodes_of(cluster, "a", "b")))

    assert held(cluster) == [f"{DRIVER}/node-a/gpu-0", f"{DRIVER}/node-a/gpu-1"]
    assert [cluster.users(f"{name}-claim") for name in ("a", "b")] == [["a"], ["b"]]


@pytest.mark.parametrize("waits", [True, False], ids=["devices may need time", "they don't"])
async def test_a_pod_that_is_deleted_while_the_gang_is_written_keeps_the_others_from_starting(waits: bool) -> None:
    once = Once("claim status", delete_second)
    options = SchedulerOptions(features=Features(device_binding_and_status=waits))
    async with bench(client=faulty(once), options=options) as cluster:
        await add_cards(cluster, "node-a", cards=2)
        await add_group(cluster)
        await add_members(cluster, ("a", "b"))
        await cluster.until(lambda: once.counts["claim status"] >= 4 and is_clean(cluster))
        alone = cluster.node_of("a")
        await add_members(cluster, ("c",))
        await cluster.until(lambda: all(nodes_of(cluster, "a", "c")))

    assert alone == ""


async def delete_second(client: KubeClient, name: str) -> None:
    await delete_pod(client, "b")


async def test_a_binding_that_fails_gives_back_what_its_pod_had_and_is_tried_again() -> None:
    once = Once("bind", refuse)
    async with bench(client=faulty(once)) as cluster:
        await add_cards(cluster, "node-a", cards=2)
        await add_group(cluster)
        await add_members(cluster, ("a", "b"))
        await cluster.until(lambda: all(nodes_of(cluster, "a", "b")))

    assert held(cluster) == [f"{DRIVER}/node-a/gpu-0", f"{DRIVER}/node-a/gpu-1"]
    assert once.counts["bind"] == 3


async def refuse(client: KubeClient, name: str) -> None:
    raise ForbiddenError(f"no right to bind {name}")


async def test_pods_go_when_the_device_of_their_groups_claim_is_tainted() -> None:
    async with bench() as cluster:
        await add_cards(cluster, "node-a")
        await cluster.add_template("one")
        await add_sharing(cluster, "a", "b", entry={"resourceClaimTemplateName": "one"})
        await cluster.until(lambda: all(nodes_of(cluster, "a", "b")))
        taint = {"key": "example.test/broken", "effect": "NoExecute"}
        rule = {"metadata": {"name": "broken"}, "spec": {"deviceSelector": {"driver": DRIVER}, "taint": taint}}
        before = len(cluster.pods)
        await cluster.client.create(DEVICE_TAINT_RULE, rule)
        await cluster.until(lambda: not cluster.pods)

    assert before == 2
