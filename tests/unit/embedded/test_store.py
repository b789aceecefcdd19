"""The store: identity, versions, conflicts, finalizers, deletion."""

from __future__ import annotations

import asyncio

import pytest

from claimsmith.embedded.store import Deletion
from claimsmith.embedded.store_changes import WriteOptions
from claimsmith.embedded.store_records import Record
from claimsmith.errors import RequestError
from tests.unit.embedded.stored import NODES, NOON_TEXT, PODS, FakeClock, make_store, node, pod


async def test_a_new_object_gets_identity_time_generation_and_version() -> None:
    record = await make_store().create(PODS, pod())

    assert record.value["metadata"] == {
        "name": "web",
        "namespace": "default",
        "uid": "uid-1",
        "creationTimestamp": NOON_TEXT,
        "generation": 1,
        "resourceVersion": "1",
    }


async def test_a_new_object_says_what_it_is() -> None:
    record = await make_store().create(PODS, pod())

    assert (record.value["apiVersion"], record.value["kind"]) == ("v1", "Pod")


async def test_a_client_cannot_choose_the_uid() -> None:
    record = await make_store().create(PODS, pod(uid="mine", creationTimestamp="1999-01-01T00:00:00Z"))

    assert record.value["metadata"]["uid"] == "uid-1"
    assert record.value["metadata"]["creationTimestamp"] == NOON_TEXT


async def test_one_counter_numbers_the_writes_of_all_kinds() -> None:
    store = make_store()
    versions = [
        (await store.create(PODS, pod("a"))).version,
        (await store.create(NODES, node())).version,
        (await store.create(PODS, pod("b"))).version,
    ]

    assert versions == [1, 2, 3]


async def test_a_second_object_of_the_same_name_is_refused() -> None:
    store = make_store()
    await store.create(PODS, pod())

    with pytest.raises(RequestError, match='pods "web" already exists') as caught:
        await store.create(PODS, pod())
    assert (caught.value.status, caught.value.reason) == (409, "AlreadyExists")


async def test_the_same_name_in_another_namespace_is_another_object() -> None:
    store = make_store()
    await store.create(PODS, pod())
    await store.create(PODS, pod(namespace="other"))

    assert len(store.list(PODS)) == 2


async def test_what_does_not_exist_is_not_found() -> None:
    with pytest.raises(RequestError, match='pods "web" not found') as caught:
        make_store().get(PODS, "default", "web")
    assert caught.value.details == {"name": "web", "kind": "pods"}


async def test_a_write_that_knows_an_old_version_conflicts() -> None:
    store = make_store()
    old = (await store.create(PODS, pod())).copy()
    await store.update(PODS, {**old, "spec": {"image": "two"}})

    with pytest.raises(RequestError, match="the object has been modified") as caught:
        await store.update(PODS, {**old, "spec": {"image": "three"}})
    assert (caught.value.status, caught.value.reason) == (409, "Conflict")


async def test_a_write_without_a_version_wins() -> None:
    store = make_store()
    await store.create(PODS, pod())
    await store.update(PODS, {**pod(), "spec": {"image": "two"}})

    assert store.get(PODS, "default", "web").value["spec"] == {"image": "two"}


async def test_a_write_to_another_object_of_the_same_name_conflicts() -> None:
    store = make_store()
    await store.create(PODS, pod())

    with pytest.raises(RequestError, match="UID in precondition: other, UID in object meta: uid-1"):
        await store.update(PODS, pod(uid="other"))


async def test_a_write_that_changes_nothing_keeps_the_version() -> None:
    store = make_store()
    first = await store.create(PODS, pod())
    second = await store.update(PODS, first.copy())

    assert second.version == first.version == store.version


async def test_the_generation_rises_with_the_spec_alone() -> None:
    store = make_store()
    await store.create(PODS, pod())
    labelled = await store.update(PODS, {**pod(labels={"a": "b"}), "spec": {"image": "one"}})
    changed = await store.update(PODS, {**pod(labels={"a": "b"}), "spec": {"image": "two"}})

    assert [found.value["metadata"]["generation"] for found in (labelled, changed)] == [1, 2]


async def test_a_main_write_leaves_the_status_alone() -> None:
    store = make_store()
    await store.create(PODS, pod())
    await store.update(PODS, {**pod(), "status": {"phase": "Running"}}, part="status")
    changed = await store.update(PODS, {**pod(labels={"a": "b"}), "status": {"phase": "Failed"}})

    assert changed.value["status"] == {"phase": "Running"}


async def test_a_status_write_leaves_everything_else_alone() -> None:
    store = make_store()
    before = await store.create(PODS, pod(labels={"a": "b"}))
    sent = {"metadata": {"name": "web", "namespace": "default"}, "spec": {}, "status": {"phase": "Running"}}
    after = await store.update(PODS, sent, part="status")

    assert after.value["spec"] == before.value["spec"]
    assert after.value["metadata"]["labels"] == {"a": "b"}
    assert after.value["status"] == {"phase": "Running"}


async def test_a_status_write_of_a_node_may_change_its_labels() -> None:
    store = make_store()
    await store.create(NODES, node())
    after = await store.update(NODES, {**node(labels={"gpu": "yes"}), "status": {}}, part="status")

    assert after.value["metadata"]["labels"] == {"gpu": "yes"}


async def test_a_dry_run_stores_nothing() -> None:
    store = make_store()
    shown = await store.create(PODS, pod(), dry_run=True)

    assert shown.name == "web"
    assert (store.find(PODS, "default", "web"), store.version) == (None, 0)


async def test_a_deleted_object_is_gone_and_the_deletion_has_a_version() -> None:
    store = make_store()
    await store.create(PODS, pod())
    last = await store.delete(PODS, "default", "web")

    assert store.find(PODS, "default", "web") is None
    assert last.value["metadata"]["resourceVersion"] == "2"


async def test_a_finalizer_holds_a_deleted_object() -> None:
    store = make_store()
    await store.create(PODS, pod(finalizers=["x/y"]))
    marked = await store.delete(PODS, "default", "web")

    assert marked.value["metadata"]["deletionTimestamp"] == NOON_TEXT
    assert store.get(PODS, "default", "web") is marked


async def test_the_last_finalizer_lets_the_object_go() -> None:
    store = make_store()
    await store.create(PODS, pod(finalizers=["x/y"]))
    await store.delete(PODS, "default", "web")
    await store.update(PODS, pod())

    assert store.find(PODS, "default", "web") is None


async def test_no_finalizer_can_be_added_to_what_is_being_deleted() -> None:
    store = make_store()
    await store.create(PODS, pod(finalizers=["x/y"]))
    await store.delete(PODS, "default", "web")

    with pytest.raises(RequestError, match="no new finalizers can be added"):
        await store.update(PODS, pod(finalizers=["x/y", "a/b"]))


async def test_a_grace_period_holds_an_object_until_it_is_deleted_with_none() -> None:
    clock = FakeClock()
    store = make_store(clock=clock)
    await store.create(PODS, pod())
    marked = await store.delete(PODS, "default", "web", Deletion(grace_s=30))
    still_there = store.find(PODS, "default", "web")
    await store.delete(PODS, "default", "web", Deletion(grace_s=0))

    assert still_there is marked
    assert marked.value["metadata"]["deletionTimestamp"] == "2030-01-01T12:00:30Z"
    assert store.find(PODS, "default", "web") is None


async def test_a_second_deletion_cannot_prolong_the_grace_period() -> None:
    store = make_store()
    await store.create(PODS, pod())
    first = await store.delete(PODS, "default", "web", Deletion(grace_s=5))
    second = await store.delete(PODS, "default", "web", Deletion(grace_s=60))

    assert second is first


async def test_a_second_deletion_shortens_the_grace_period() -> None:
    store = make_store()
    await store.create(PODS, pod())
    await store.delete(PODS, "default", "web", Deletion(grace_s=60))
    second = await store.delete(PODS, "default", "web", Deletion(grace_s=5))

    assert second.value["metadata"]["deletionTimestamp"] == "2030-01-01T12:00:05Z"


@pytest.mark.parametrize("deletion", [Deletion(uid="other"), Deletion(version="99")])
async def test_a_deletion_whose_precondition_fails_conflicts(deletion: Deletion) -> None:
    store = make_store()
    await store.create(PODS, pod())

    with pytest.raises(RequestError, match="in the precondition") as caught:
        await store.delete(PODS, "default", "web", deletion)
    assert caught.value.status == 409


async def test_a_refusal_at_admission_changes_nothing() -> None:
    def refuse(_old: Record, _new: object) -> None:
        raise RequestError(403, "Forbidden", "no")

    store = make_store()
    before = await store.create(PODS, pod())

    with pytest.raises(RequestError, match="no"):
        await store.change(
            PODS, "default", "web", lambda _old: pod(labels={"a": "b"}), options=WriteOptions(admit=refuse)
        )
    assert store.get(PODS, "default", "web") is before


async def test_writers_in_conflict_lose_nothing() -> None:
    store = make_store()
    await store.create(PODS, {**pod(), "spec": {"count": 0}})

    async def add_one() -> None:
        while True:
            value = store.get(PODS, "default", "web").copy()
            await asyncio.sleep(0)
            value["spec"]["count"] += 1
            try:
                await store.update(PODS, value)
            except RequestError as error:
                if error.reason != "Conflict":
                    raise
            else:
                return

    await asyncio.gather(*(add_one() for _ in range(20)))

    assert store.get(PODS, "default", "web").value["spec"]["count"] == 20
