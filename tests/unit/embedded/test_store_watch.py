"""Watches of the store: what a watcher sees, where it can resume, and when it is ended."""

from __future__ import annotations

import pytest

from claimsmith.embedded.store import Deletion, Store, StoreLimits
from claimsmith.embedded.store_labels import parse_labels
from claimsmith.embedded.store_select import Selection, parse_fields
from claimsmith.embedded.store_watch import Watcher
from claimsmith.errors import RequestError
from tests.unit.embedded.stored import PODS, make_store, pod

ON_NODE_1 = Selection(fields=parse_fields("spec.nodeName=node-1"))
LABELLED = Selection(labels=parse_labels("app=web"))


async def seen_by(watcher: Watcher) -> list[tuple[str, str]]:
    return [(how, event.record.name) for how, event in await watcher.next_batch(0)]


async def bind(store: Store, name: str, node_name: str) -> None:
    await store.update(PODS, {**pod(name), "spec": {"nodeName": node_name}})


async def test_a_watcher_sees_the_life_of_an_object_in_order() -> None:
    store = make_store()
    watcher = store.watch(PODS, since=0)
    await store.create(PODS, pod())
    await store.update(PODS, pod(labels={"a": "b"}))
    await store.delete(PODS, "default", "web")

    assert [how for how, _ in await seen_by(watcher)] == ["ADDED", "MODIFIED", "DELETED"]


async def test_a_watcher_without_a_version_first_sees_what_is_there() -> None:
    store = make_store()
    await store.create(PODS, pod("b"))
    await store.create(PODS, pod("a"))

    assert await seen_by(store.watch(PODS)) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_watcher_resumes_after_the_version_that_it_knows() -> None:
    store = make_store()
    first = await store.create(PODS, pod("a"))
    await store.create(PODS, pod("b"))

    assert await seen_by(store.watch(PODS, since=first.version)) == [("ADDED", "b")]


async def test_a_version_whose_history_is_gone_is_refused() -> None:
    store = make_store(limits=StoreLimits(history=2))
    for name in "abcd":
        await store.create(PODS, pod(name))

    with pytest.raises(RequestError, match=r"too old resource version: 1 \(2\)") as caught:
        store.watch(PODS, since=1)
    assert (caught.value.status, caught.value.reason) == (410, "Expired")


async def test_after_compaction_only_the_present_can_be_watched() -> None:
    store = make_store()
    await store.create(PODS, pod("a"))
    await store.create(PODS, pod("b"))
    store.compact()

    with pytest.raises(RequestError, match="too old"):
        store.watch(PODS, since=1)
    assert await seen_by(store.watch(PODS, since=2)) == []


async def test_an_object_that_leaves_the_selection_is_deleted_for_the_watcher() -> None:
    store = make_store()
    watcher = store.watch(PODS, LABELLED, since=0)
    await store.create(PODS, pod(labels={"app": "web"}))
    await store.update(PODS, pod(labels={"app": "db"}))
    batch = await watcher.next_batch(0)

    assert [how for how, _ in batch] == ["ADDED", "DELETED"]
    departed = batch[1][1].seen("DELETED").value["metadata"]
    assert (departed["labels"], departed["resourceVersion"]) == ({"app": "web"}, "2")


async def test_an_object_that_enters_the_selection_is_added_for_the_watcher() -> None:
    store = make_store()
    await store.create(PODS, pod())
    watcher = store.watch(PODS, LABELLED, since=1)
    await store.update(PODS, pod(labels={"app": "web"}))

    assert await seen_by(watcher) == [("ADDED", "web")]


async def test_a_watcher_of_a_node_sees_only_the_pods_of_its_node() -> None:
    store = make_store()
    watcher = store.watch(PODS, ON_NODE_1, since=0)
    for name in "abc":
        await store.create(PODS, pod(name))
    await bind(store, "a", "node-1")
    await bind(store, "b", "node-2")
    await store.delete(PODS, "default", "a", Deletion())

    assert await seen_by(watcher) == [("ADDED", "a"), ("DELETED", "a")]


async def test_a_watcher_in_a_namespace_does_not_see_others() -> None:
    store = make_store()
    watcher = store.watch(PODS, Selection(namespace="a"), since=0)
    await store.create(PODS, pod(namespace="b"))
    await store.create(PODS, pod("mine", namespace="a"))

    assert await seen_by(watcher) == [("ADDED", "mine")]


async def test_a_watcher_that_is_too_slow_is_ended_and_its_queue_dropped() -> None:
    store = make_store(limits=StoreLimits(watcher_queue=3))
    watcher = store.watch(PODS, since=0)
    for name in "abcd":
        await store.create(PODS, pod(name))

    with pytest.raises(RequestError, match="too slow") as caught:
        await watcher.next_batch(0)
    assert (caught.value.status, watcher.closed) == (410, True)


async def test_the_objects_at_the_beginning_do_not_count_as_slowness() -> None:
    store = make_store(limits=StoreLimits(watcher_queue=1))
    for name in "abc":
        await store.create(PODS, pod(name))

    assert len(await seen_by(store.watch(PODS))) == 3


async def test_an_event_is_encoded_once_for_all_watchers() -> None:
    store = make_store()
    watchers = [store.watch(PODS, since=0) for _ in range(2)]
    await store.create(PODS, pod())
    lines = [event.line(how) for watcher in watchers for how, event in await watcher.next_batch(0)]

    assert lines[0] is lines[1]


async def test_an_ended_watch_leaves_nothing_behind() -> None:
    store = make_store()
    for selection in (ON_NODE_1, LABELLED):
        store.end_watch(PODS, store.watch(PODS, selection, since=0))

    assert store.count_watchers() == 0


async def test_closing_the_store_ends_its_watches() -> None:
    async with make_store() as store:
        watcher = store.watch(PODS, since=0)

    assert await watcher.next_batch() == []


async def test_waiting_for_changes_ends_with_its_time() -> None:
    assert await make_store().watch(PODS, since=0).next_batch(0.001) == []


async def test_a_watcher_of_a_node_sees_that_a_pod_has_left_it() -> None:
    store = make_store()
    await store.create(PODS, pod("a", node_name="node-1"))
    watcher = store.watch(PODS, ON_NODE_1, since=1)
    await bind(store, "a", "node-2")

    assert await seen_by(watcher) == [("DELETED", "a")]


async def test_a_watcher_from_a_version_to_come_sees_nothing_before_it() -> None:
    store = make_store()
    watcher = store.watch(PODS, since=1)
    await store.create(PODS, pod("a"))
    await store.create(PODS, pod("b"))

    assert await seen_by(watcher) == [("ADDED", "b")]
