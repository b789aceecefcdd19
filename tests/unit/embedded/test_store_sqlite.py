"""The state file: what was acknowledged is in it; what can't be used is refused and left alone."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from claimsmith.embedded.store import Store
from claimsmith.embedded.store_sqlite import Change, SavedState, SqliteJournal
from claimsmith.errors import ConfigError, RequestError
from tests.unit.embedded.stored import NODES, PODS, make_store, node, pod


def open_store(path: Path) -> Store:
    return make_store(journal=SqliteJournal(path))


class GatedJournal:
    """A journal that waits before it commits, and fails when told to."""

    def __init__(self) -> None:
        self.gate, self.started = threading.Event(), threading.Event()
        self.batches: list[list[str]] = []
        self.failure: ConfigError | None = None

    def load(self) -> SavedState:
        return SavedState(version=0, objects=())

    def commit(self, changes: Sequence[Change]) -> None:
        self.started.set()
        self.gate.wait(5)
        if self.failure is not None:
            raise self.failure
        self.batches.append([change.name for change in changes])

    def close(self) -> None:
        self.gate.set()

    async def until_committing(self) -> None:
        """Return once a commit has begun."""
        await asyncio.to_thread(self.started.wait, 5)


async def test_a_store_opened_again_has_the_same_objects(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.db") as store:
        await store.create(PODS, pod("kept"))
        await store.create(PODS, pod("dropped"))
        await store.update(PODS, pod("kept", labels={"a": "b"}))
        await store.delete(PODS, "default", "dropped")
        before = [record.value for record in store.list(PODS)]
    async with open_store(tmp_path / "state.db") as store:
        after = [record.value for record in store.list(PODS)]

    assert after == before


async def test_versions_go_on_after_a_restart(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.db") as store:
        await store.create(PODS, pod())
        await store.delete(PODS, "default", "web")
    async with open_store(tmp_path / "state.db") as store:
        record = await store.create(NODES, node())

    assert record.version == 3


async def test_history_before_a_restart_cannot_be_watched(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.db") as store:
        await store.create(PODS, pod("a"))
        await store.create(PODS, pod("b"))
    async with open_store(tmp_path / "state.db") as store:
        with pytest.raises(RequestError, match="too old"):
            store.watch(PODS, since=1)
        assert not store.watch(PODS, since=2).closed


async def test_a_write_is_neither_visible_nor_acknowledged_before_it_is_durable() -> None:
    journal = GatedJournal()
    async with make_store(journal=journal) as store:
        watcher = store.watch(PODS, since=0)
        writing = asyncio.create_task(store.create(PODS, pod()))
        seen = await watcher.next_batch(0.01)
        before = (writing.done(), store.find(PODS, "default", "web"), store.version, seen)
        journal.gate.set()
        await writing

        assert before == (False, None, 0, [])
        assert store.version == 1


async def test_writes_that_wait_are_committed_together() -> None:
    journal = GatedJournal()
    async with make_store(journal=journal) as store:
        writes = [asyncio.create_task(store.create(PODS, pod(name))) for name in "abc"]
        await asyncio.sleep(0)
        journal.gate.set()
        await asyncio.gather(*writes)

    assert journal.batches == [["a", "b", "c"]]


async def test_a_write_builds_on_one_that_is_not_durable_yet() -> None:
    journal = GatedJournal()
    async with make_store(journal=journal) as store:
        first = asyncio.create_task(store.create(PODS, pod()))
        await asyncio.sleep(0)
        second = asyncio.create_task(store.create(PODS, pod()))
        await asyncio.sleep(0)
        journal.gate.set()
        await first

        with pytest.raises(RequestError, match="already exists"):
            await second


async def test_a_write_that_cannot_be_made_durable_is_refused_and_leaves_no_trace() -> None:
    journal = GatedJournal()
    journal.gate.set()
    async with make_store(journal=journal) as store:
        journal.failure = ConfigError("state file: disk is full")
        with pytest.raises(RequestError, match="disk is full") as caught:
            await store.create(PODS, pod())
        journal.failure = None
        again = await store.create(PODS, pod())

    assert caught.value.status == 500
    assert again.name == "web"


async def test_one_process_alone_may_hold_a_state_file(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.db"):
        with pytest.raises(ConfigError, match="another process holds it"):
            SqliteJournal(tmp_path / "state.db")


@pytest.mark.parametrize("content", [b"not a database at all", b"{}", b"SQLite format 3\x00" + b"\xff" * 4096])
def test_a_damaged_file_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(content)

    with pytest.raises(ConfigError, match=r"state file .*state\.db: damaged"):
        SqliteJournal(path).load()
    assert path.read_bytes() == content


async def test_a_file_with_a_damaged_page_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with open_store(path) as store:
        for number in range(200):
            await store.create(PODS, pod(f"pod-{number}"))
    content = bytearray(path.read_bytes())
    content[4096 * 2 : 4096 * 3] = b"\xa5" * 4096
    path.write_bytes(content)

    with pytest.raises(ConfigError, match="damaged"):
        SqliteJournal(path).load()


def test_a_damaged_object_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with contextlib.closing(SqliteJournal(path)) as journal:
        journal.commit([Change(kind="/pods", namespace="a", name="b", version=1, body=b'{"cut')])

    with pytest.raises(ConfigError, match="damaged"):
        open_store(path)


def test_the_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE theirs (x)")
    other.close()
    before = path.read_bytes()

    with pytest.raises(ConfigError, match="another program"):
        SqliteJournal(path)
    assert path.read_bytes() == before


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    SqliteJournal(path).close()
    with sqlite3.connect(path) as newer:
        newer.execute("PRAGMA user_version=99")
    newer.close()

    with pytest.raises(ConfigError, match="found format 99, allowed up to 1"):
        SqliteJournal(path)


def test_a_folder_that_does_not_exist_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be written"):
        SqliteJournal(tmp_path / "missing" / "state.db")


def test_a_file_that_is_a_folder_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        SqliteJournal(tmp_path)


def test_a_state_file_is_written_ahead_of_itself(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "state.db")
    journal.commit([Change(kind="/pods", namespace="a", name="b", version=1, body=b"{}")])
    has_log = (tmp_path / "state.db-wal").stat().st_size > 0
    journal.close()

    assert has_log


async def test_a_write_that_changes_nothing_waits_for_what_it_saw() -> None:
    journal = GatedJournal()
    async with make_store(journal=journal) as store:
        creating = asyncio.create_task(store.create(PODS, pod()))
        await journal.until_committing()
        repeating = asyncio.create_task(store.update(PODS, pod()))
        await asyncio.sleep(0)
        early = repeating.done()
        journal.gate.set()
        await asyncio.gather(creating, repeating)

    assert not early


async def test_a_write_builds_on_the_latest_of_several_that_wait() -> None:
    journal = GatedJournal()
    async with make_store(journal=journal) as store:
        creating = asyncio.create_task(store.create(PODS, pod()))
        await journal.until_committing()
        deleting = asyncio.create_task(store.delete(PODS, "default", "web"))
        await asyncio.sleep(0)
        journal.gate.set()
        await creating
        again = await store.create(PODS, pod())
        await deleting

    assert again.version == 3


async def test_a_closed_store_acknowledges_nothing() -> None:
    async with make_store() as store:
        await store.create(PODS, pod("a"))

    with pytest.raises(RequestError, match="the store is closed") as caught:
        await store.create(PODS, pod("b"))
    assert caught.value.status == 503
