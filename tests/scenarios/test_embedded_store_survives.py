"""What the embedded API server acknowledged is never lost: not to other writers, not to kill -9."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from claimsmith.embedded.api.served import stored_kinds
from claimsmith.embedded.api.server import EmbeddedApiServer
from claimsmith.embedded.store import Store
from claimsmith.embedded.store_sqlite import SqliteJournal

ROOT = Path(__file__).parents[2]
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


async def add_one(client: httpx2.AsyncClient) -> int:
    """Raise the counter by one, again and again until no other writer came in between; return the conflicts."""
    conflicts = 0
    while True:
        lease: dict[str, Any] = (await client.get(f"{LEASES}/counter")).json()
        lease["spec"]["leaseTransitions"] += 1
        answer = await client.put(f"{LEASES}/counter", json=lease)
        if answer.status_code == 200:
            return conflicts
        assert answer.json()["reason"] == "Conflict"
        conflicts += 1


async def test_writers_in_conflict_lose_nothing() -> None:
    async with Store(stored_kinds()) as store, EmbeddedApiServer(store) as server:
        async with httpx2.AsyncClient(base_url=server.url) as client:
            start = {"metadata": {"name": "counter"}, "spec": {"leaseTransitions": 0}}
            await client.post(LEASES, json=start)
            conflicts = sum(await asyncio.gather(*(add_one(client) for _ in range(25))))
            counter = (await client.get(f"{LEASES}/counter")).json()["spec"]["leaseTransitions"]

    assert counter == 25
    assert conflicts > 0


async def kill_after(enough: int, path: Path) -> dict[str, int]:
    """Start a writer, kill it after so many acknowledged writes, and return all that it had acknowledged."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.scenarios.state_writer", str(path)),
        cwd=ROOT,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    found: dict[str, int] = {}
    async for line in process.stdout:
        if not line.endswith(b"\n"):  # The kill came in between: nothing was acknowledged.
            break
        version, name = line.decode().split()
        found[name] = int(version)
        if len(found) == enough:
            process.kill()
    await process.wait()
    return found


@pytest.mark.parametrize("enough", [1, 7, 60])
async def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path, enough: int) -> None:
    promised = await kill_after(enough, tmp_path / "state.db")
    async with Store(stored_kinds(), journal=SqliteJournal(tmp_path / "state.db")) as store:
        (leases,) = (kind for kind in store.kinds.values() if kind.plural == "leases")
        kept = {record.name: record.version for record in store.list(leases)}
        version = store.version

    assert len(promised) >= enough
    assert promised.items() <= kept.items()
    assert version >= max(kept.values())
