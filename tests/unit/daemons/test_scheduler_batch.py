"""Pods that are due at the same moment: jointly where one after the other leaves one without devices."""

from __future__ import annotations

from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.cluster.cache import ClusterCache
from claimsmith.daemons.scheduler_batch import JOINT_EVERY_S, BatchDecider
from claimsmith.daemons.scheduler_decide import Decider, Placed, Unplaced
from claimsmith.daemons.scheduler_joint import JointDecider
from claimsmith.model.claim import DeviceRequest
from claimsmith.model.workload import Pod
from claimsmith.testing.builders import (
    allocated,
    claim,
    consumes,
    counter_set,
    device,
    gpu,
    klass,
    node,
    pod,
    request,
    slice_,
)

BIG = 'device.capacity["gpu.example.test"].memory.compareTo(quantity("40Gi")) > 0'


class Cluster:
    """Two cards, of which the first fit takes the large one first."""

    def __init__(self) -> None:
        self.cache = ClusterCache()
        cluster = PreparedCluster()
        decider = Decider(self.cache, cluster)
        self.now_s = 0.0
        joint = JointDecider(self.cache, cluster, decider)
        self.batches = BatchDecider(self.cache, decider, joint, clock=lambda: self.now_s)
        self.cache.see_class(None, klass())
        self.cache.see_node(None, node())
        self.cache.see_slice(None, slice_(gpu("large", memory="80Gi"), gpu("small", memory="24Gi")))
        self.joint_decisions = 0

    def pods(self, **wishes: DeviceRequest) -> list[Pod]:
        made = []
        for name, wish in wishes.items():
            self.cache.see_claim(None, claim(name, wish))
            made.append(pod(name, name))
            self.cache.see_pod(None, made[-1])
        return made

    def decide(self, pods: list[Pod], *, meanwhile: str = "") -> dict[str, str]:
        """The device of each pod; empty for none."""
        steps = self.batches.steps(pods, explain=lambda _: True)
        try:
            solve = next(steps)
            while True:
                self.joint_decisions += 1
                answer = solve()
                if meanwhile:
                    self.cache.see_claim(None, allocated(claim("other"), meanwhile))
                solve = steps.send(answer)
        except StopIteration as end:
            outcomes: tuple[Placed | Unplaced, ...] = end.value
        return {item.ref.name: device_of(outcome) for item, outcome in zip(pods, outcomes, strict=True)}


def device_of(outcome: Placed | Unplaced) -> str:
    return outcome.allocated[0][1].results[0].device if isinstance(outcome, Placed) else ""


def test_a_pod_that_would_starve_gets_what_another_one_does_not_need() -> None:
    cluster = Cluster()
    pods = cluster.pods(any=request("r"), big=request("r", BIG))

    assert cluster.decide(pods) == {"any": "small", "big": "large"}


def test_nothing_is_solved_while_all_get_devices_in_turn() -> None:
    cluster = Cluster()
    pods = cluster.pods(big=request("r", BIG), any=request("r"))

    assert cluster.decide(pods) == {"big": "large", "any": "small"}
    assert cluster.joint_decisions == 0


def test_pods_that_want_the_same_are_not_solved_for() -> None:
    cluster = Cluster()
    pods = cluster.pods(one=request("r"), two=request("r"), three=request("r"))

    assert cluster.decide(pods) == {"one": "large", "two": "small", "three": ""}
    assert cluster.joint_decisions == 0


def test_pods_that_want_the_same_are_solved_for_when_their_devices_share_counters() -> None:
    cluster = Cluster()
    slots = {"whole": 2, "half-1": 1, "half-2": 1}
    devices = [device(name, counters=[consumes("card", {"slots": count})]) for name, count in slots.items()]
    card = (counter_set("card", {"slots": 2}),)
    for item in (
        slice_(name="counters", pool="duo", driver="duo.test", slice_count=2, shared_counters=card),
        slice_(*devices, name="parts", pool="duo", driver="duo.test", slice_count=2),
    ):
        cluster.cache.see_slice(None, item)
    cluster.cache.see_class(None, klass("duo", 'device.driver == "duo.test"'))
    pods = cluster.pods(one=request("r", klass="duo"), two=request("r", klass="duo"))

    assert sorted(cluster.decide(pods).values()) == ["half-1", "half-2"]


def test_nobody_loses_a_place_to_others() -> None:
    cluster = Cluster()
    pods = cluster.pods(both=request("r", count=2), one=request("r"), two=request("r"))

    assert cluster.decide(pods) == {"both": "large", "one": "", "two": ""}
    assert cluster.joint_decisions == 1


def test_joint_decisions_are_not_made_all_the_time() -> None:
    cluster = Cluster()
    pods = cluster.pods(any=request("r"), big=request("r", BIG))
    cluster.decide(pods)
    at_once = cluster.decide(pods)
    cluster.now_s += JOINT_EVERY_S

    assert at_once == {"any": "large", "big": ""}
    assert cluster.decide(pods) == {"any": "small", "big": "large"}


def test_a_change_meanwhile_is_heeded() -> None:
    cluster = Cluster()
    pods = cluster.pods(any=request("r"), big=request("r", BIG))

    assert cluster.decide(pods, meanwhile="large") == {"any": "small", "big": ""}


def test_nothing_is_counted() -> None:
    cluster = Cluster()
    pods = cluster.pods(any=request("r"), big=request("r", BIG))
    before = cluster.cache.snapshot()
    cluster.decide(pods)

    assert cluster.cache.snapshot().claims == before.claims
