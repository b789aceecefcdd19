"""Which pods of a group wait, which have their place, and when a decision is due."""

from __future__ import annotations

from dataclasses import replace

from claimsmith.model.podgroup import PodGroup, PodGroupRef
from claimsmith.model.workload import Pod
from claimsmith.schedule.gangs import Gang, GangDirectory, find_group_ref, find_mismatch
from claimsmith.schedule.pods import is_schedulable
from claimsmith.testing.builders import metadata, pod, pod_group

NAMES = frozenset({"claimsmith"})
REF = PodGroupRef("default", "gang")


def member(name: str, *, node: str = "", created: str = "", priority: int = 0, phase: str = "Pending") -> Pod:
    fields = metadata(name, {"creation_timestamp": created} if created else {}, namespaced=True)
    return pod(
        name,
        node_name=node,
        pod_group="gang",
        scheduler_name="claimsmith",
        priority=priority,
        phase=phase,
        metadata=fields,
    )


def directory(group: PodGroup | None, *pods: Pod) -> GangDirectory:
    groups = {} if group is None else {group.ref: group}
    found = GangDirectory(groups, waits=lambda pod: is_schedulable(pod, NAMES))
    for item in pods:
        found.see_pod(None, item)
    return found


def gang(least: int = 2, *, waiting: int = 0, placed: int = 0) -> Gang:
    return Gang(
        ref=REF,
        group=pod_group(least=least),
        waiting=tuple(member(f"w{number}") for number in range(waiting)),
        placed=tuple(member(f"p{number}", node="n") for number in range(placed)),
    )


def names(pods: tuple[Pod, ...]) -> list[str]:
    return [item.ref.name for item in pods]


def test_pods_that_wait_come_in_the_order_of_their_creation() -> None:
    found = directory(
        pod_group(), member("b", created="2026-01-01T00:00:00Z"), member("a", created="2026-01-02T00:00:00Z")
    )

    assert names(found.find(REF).waiting) == ["b", "a"]


def test_pods_with_a_node_are_placed_and_finished_ones_don_t_count() -> None:
    found = directory(pod_group(), member("a", node="n"), member("b"), member("c", node="n", phase="Succeeded"))

    assert (names(found.find(REF).waiting), names(found.find(REF).placed)) == (["b"], ["a"])


def test_pods_of_other_schedulers_don_t_wait_here() -> None:
    found = directory(pod_group(), pod("a", pod_group="gang", scheduler_name="default-scheduler"))

    assert found.find(REF).waiting == ()


def test_a_pod_that_goes_leaves_its_group() -> None:
    found = directory(pod_group(), member("a"))
    found.see_pod(member("a"), None)

    assert found.find(REF) == Gang(ref=REF, group=pod_group())


def test_a_pod_that_gets_a_node_moves() -> None:
    found = directory(pod_group(), member("a"))
    found.see_pod(member("a"), member("a", node="n"))

    assert (names(found.find(REF).waiting), names(found.find(REF).placed)) == ([], ["a"])


def test_pods_of_the_same_second_come_in_the_order_in_which_they_came() -> None:
    found = directory(pod_group(), member("b"), member("a"))

    assert names(found.find(REF).waiting) == ["b", "a"]


def test_a_pod_that_changes_keeps_its_place() -> None:
    found = directory(pod_group(), member("b"), member("a"))
    changed = replace(member("b"), priority=1)
    found.see_pod(member("b"), changed)

    assert found.find(REF).waiting[0] is changed


def test_a_pod_that_is_made_anew_stands_last() -> None:
    found = directory(pod_group(), member("b"), member("a"))
    anew = member("b")
    found.see_pod(anew, replace(anew, metadata=replace(anew.metadata, uid="another")))

    assert names(found.find(REF).waiting) == ["a", "b"]


def test_a_pod_that_waits_again_after_a_gate_is_in_its_group() -> None:
    gated = replace(member("a"), scheduling_gates=("hold",))
    found = directory(pod_group(), gated)
    found.see_pod(gated, member("a"))

    assert names(found.find(REF).waiting) == ["a"]


def test_a_change_costs_the_same_whatever_the_size_of_the_group() -> None:
    looked: list[Pod] = []

    def waits(pod: Pod) -> bool:
        looked.append(pod)
        return True

    found = GangDirectory({}, waits=waits)
    for number in range(50):
        found.see_pod(None, member(f"p{number}"))
        found.find(REF)

    assert len(looked) == 50


def test_the_group_of_a_pod_is_known_once_it_is_there() -> None:
    groups: dict[PodGroupRef, PodGroup] = {}
    found = GangDirectory(groups, waits=lambda _: True)
    before = found.find(REF).group
    groups[REF] = pod_group()

    assert before is None
    assert found.find(REF).group == pod_group()
    assert find_group_ref(pod("alone")) is None


def test_a_gang_is_complete_when_enough_pods_wait() -> None:
    assert [gang(waiting=count).is_complete for count in range(4)] == [False, False, True, True]


def test_pods_that_have_their_place_count() -> None:
    assert gang(3, waiting=1, placed=2).is_complete
    assert gang(3, waiting=1, placed=2).needed == 1
    assert not gang(3, waiting=1, placed=1).is_complete


def test_one_pod_at_least_must_be_placed() -> None:
    assert gang(2, waiting=1, placed=5).needed == 1
    assert not gang(2, placed=5).is_complete


def test_a_gang_says_what_it_waits_for() -> None:
    assert gang(3, waiting=1, placed=1).describe_gap() == (
        "pod group default/gang has 2 of at least 3 pods; create the others"
    )
    assert gang(waiting=2).describe_gap() == ""
    assert Gang(ref=REF, waiting=(member("a"),)).describe_gap() == "pod group default/gang does not exist; create it"


def test_a_group_without_least_count_is_joint_only_with_a_topology_key() -> None:
    plain, keyed = pod_group(least=None), pod_group(least=None, topology="zone")

    assert not Gang(ref=REF, group=plain).is_joint
    assert Gang(ref=REF, group=keyed).is_joint
    assert (Gang(ref=REF, group=keyed).min_count, Gang(ref=REF, group=keyed).topology_key) == (1, "zone")
    assert Gang(ref=REF).is_joint


def test_pods_of_another_priority_than_the_groups_are_refused() -> None:
    group = pod_group(priority=5)
    right = Gang(ref=REF, group=group, waiting=(member("a", priority=5),))
    wrong = Gang(ref=REF, group=group, waiting=(member("a", priority=5), member("b", priority=4)))

    assert find_mismatch(right) == ""
    assert find_mismatch(wrong) == (
        "pod default/b of pod group default/gang: found priority 4, allowed that of the group, 5; "
        "give all pods the group's priority class"
    )


def test_pods_of_two_schedulers_are_refused() -> None:
    other = pod("b", pod_group="gang", scheduler_name="default-scheduler", node_name="n")
    found = find_mismatch(Gang(ref=REF, group=pod_group(), waiting=(member("a"),), placed=(other,)))

    assert found.startswith("pod default/b of pod group default/gang: found scheduler 'default-scheduler'")
