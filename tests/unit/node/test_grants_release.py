"""When a grant is over, as the kubelet's two lists tell it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimsmith.model.names import PodRef
from claimsmith.node.entry import Grant, HeldDevice, PreparedClaim, grant_key
from claimsmith.node.grants_release import ABSENCES, GrantWatch, ReleasePlan
from claimsmith.node.podresources import ContainerDevices, KubeletView
from claimsmith.testing import builders as b

RESOURCE = "x.test/gpu"
GRACE_S = 30.0


def grant(*ids: str, finished: bool = True, known: bool = True) -> Grant:
    held = tuple(HeldDevice(id=b.device_id(id_), request="device") for id_ in ids)
    entry = PreparedClaim(claim=grant_key(RESOURCE, ids), devices=held, boot_id="boot", finished=finished)
    return Grant(entry=entry, resource=RESOURCE, ids=ids if known else ())


def has(*ids: str, resource: str = RESOURCE, pod: str = "p") -> ContainerDevices:
    return ContainerDevices(resource=resource, ids=frozenset(ids), container="c", pod=PodRef("default", pod))


def view(
    listed: Iterable[ContainerDevices] | None = (),
    stored: Iterable[ContainerDevices] | None = (),
    pods: Sequence[str] = (),
) -> KubeletView:
    return KubeletView(
        listed=None if listed is None else tuple(listed),
        stored=None if stored is None else tuple(stored),
        pods=frozenset(PodRef("default", name) for name in pods),
    )


DEVICES = {(RESOURCE, name): b.device_id(name) for name in ("gpu-0", "gpu-1")}


class Watching:
    """A watch over some grants, which looks once a second."""

    def __init__(self, *grants: Grant) -> None:
        self.watch, self.grants, self.now_s = GrantWatch(grace_s=GRACE_S), list(grants), 0.0

    def look(self, seen: KubeletView, *, after_s: float = 1.0) -> ReleasePlan:
        self.now_s += after_s
        plan = self.watch.look(seen, self.grants, now_s=self.now_s, resources=[RESOURCE], devices=DEVICES)
        self.grants = [item for item in self.grants if item not in plan.over]
        return plan


def test_a_grant_from_before_is_over_when_two_looks_in_a_row_do_not_find_it() -> None:
    bench = Watching(old := grant("gpu-0"))

    assert [bench.look(view()).over for _ in range(3)] == [(), (old,), ()]


@pytest.mark.parametrize("seen", [view(listed=[has("gpu-0")]), view(stored=[has("gpu-0")])])
def test_a_look_that_finds_it_begins_anew(seen: KubeletView) -> None:
    bench = Watching(old := grant("gpu-0"))

    assert [bench.look(item).over for item in (view(), seen, view(), view())] == [(), (), (), (old,)]


@pytest.mark.parametrize("seen", [view(listed=None), view(stored=None)])
def test_what_the_kubelet_does_not_tell_may_be_in_use(seen: KubeletView) -> None:
    bench = Watching(grant("gpu-0"))

    assert [bench.look(seen).over for _ in range(5)] == [()] * 5


def test_a_new_grant_is_kept_for_a_while_though_nothing_names_it_yet() -> None:
    bench = Watching()
    bench.look(view())
    new = grant("gpu-0")
    bench.grants.append(new)
    bench.watch.note_made(new, bench.now_s)

    assert [bench.look(view(), after_s=10).over for _ in range(3)] == [(), (), (new,)]


def test_a_new_grant_that_was_named_once_is_over_without_delay() -> None:
    bench = Watching()
    bench.look(view())
    new = grant("gpu-0")
    bench.grants.append(new)
    bench.watch.note_made(new, bench.now_s)
    seen = (view(stored=[has("gpu-0")]), view(), view())

    assert [bench.look(item).over for item in seen] == [(), (), (new,)]


def test_other_ids_or_another_resource_are_another_grants() -> None:
    bench = Watching(old := grant("gpu-0"))
    seen = view(listed=[has("gpu-0", "gpu-1"), has("gpu-0", resource="x.test/other")])

    assert [bench.look(seen).over for _ in range(2)] == [(), (old,)]


def test_a_grant_whose_ids_are_not_known_stays_while_a_container_has_its_device() -> None:
    bench = Watching(old := grant("gpu-0", known=False))
    seen = (view(listed=[has("gpu-0", "gpu-9")]), view(listed=[has("gpu-1")]), view(listed=[has("gpu-1")]))

    assert [bench.look(item).over for item in seen] == [(), (), (old,)]


def test_what_a_container_has_without_a_grant_is_told_once_for_both_lists() -> None:
    bench = Watching(grant("gpu-0"))
    plan = bench.look(view(listed=[has("gpu-0"), has("gpu-1")], stored=[has("gpu-1")]))

    assert [item.ids for item in plan.unknown] == [{"gpu-1"}]


def test_the_kubelet_is_made_to_write_when_only_its_checkpoint_names_a_grant() -> None:
    bench = Watching(grant("gpu-0"))
    stored = view(stored=[has("gpu-0")], pods=["p"])

    nudges = [bench.look(stored).nudge for _ in range(8)]
    assert nudges == [True, True, False, True, False, False, False, True]


def test_it_is_made_to_write_at_once_when_a_pod_has_gone() -> None:
    bench = Watching(grant("gpu-0"))
    for _ in range(3):
        bench.look(view(stored=[has("gpu-0")], pods=["p", "q"]))

    assert bench.look(view(stored=[has("gpu-0")], pods=["p"])).nudge


def test_it_is_not_made_to_write_for_grants_that_the_service_names() -> None:
    bench = Watching(grant("gpu-0"))

    assert not bench.look(view(listed=[has("gpu-0")], stored=[has("gpu-0")])).nudge


def test_devices_that_an_app_container_had_are_given_again_only_after_its_end() -> None:
    bench = Watching(old := grant("gpu-0", "gpu-1"))
    bench.look(view(listed=[has("gpu-0", "gpu-1")]))

    assert bench.watch.must_be_over(old, bench.now_s)


def test_devices_of_an_init_container_may_be_handed_on_within_a_burst() -> None:
    bench = Watching(old := grant("gpu-0", "gpu-1"))
    bench.look(view(stored=[has("gpu-0", "gpu-1")]))

    assert not bench.watch.must_be_over(old, bench.now_s + 1)
    assert bench.watch.must_be_over(old, bench.now_s + 61)


def test_a_grant_that_was_only_begun_is_nobodys() -> None:
    assert GrantWatch(grace_s=GRACE_S).must_be_over(grant("gpu-0", finished=False), 0)


names = st.sampled_from(["listed", "stored", "both", "neither", "blind"])
SEEN = {
    "listed": view(listed=[has("gpu-0")]),
    "stored": view(stored=[has("gpu-0")]),
    "both": view(listed=[has("gpu-0")], stored=[has("gpu-0")]),
    "neither": view(),
    "blind": view(listed=None),
}


@given(looks=st.lists(st.tuples(names, st.integers(1, 40)), max_size=12), is_new=st.booleans())
def test_it_is_over_exactly_when_the_rule_says_so(looks: list[tuple[str, int]], is_new: bool) -> None:
    """The rule over the whole history: the last looks that could tell, and that were not undone, did not find it."""
    bench = Watching()
    item = grant("gpu-0")
    if is_new:
        bench.look(view())
        bench.watch.note_made(item, bench.now_s)
    bench.grants.append(item)
    start_s = bench.now_s
    history: list[str] = []
    for name, pause in looks:
        over = bool(bench.look(SEEN[name], after_s=pause).over)
        history.append(name)

        telling = [word for word in history if word != "blind"][-ABSENCES:]
        is_missed = telling == ["neither"] * ABSENCES
        is_fresh = is_new and not {"listed", "stored", "both"} & set(history)
        assert over == (is_missed and (not is_fresh or bench.now_s - start_s >= GRACE_S))
        if over:
            return
