"""Writes objects into a state file and prints each name once its write is acknowledged. Run it as a program.

Each line is written in one piece; a reader takes only one that has its end for said, since a kill may come at any time.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from claimsmith.embedded.api.objects import ObjectApi
from claimsmith.embedded.api.served import SERVED, stored_kinds
from claimsmith.embedded.api.startup import create_first_objects
from claimsmith.embedded.store import Store
from claimsmith.embedded.store_sqlite import SqliteJournal

_WRITERS = 4


async def write_forever(path: Path) -> None:
    """Create leases from several writers at once until the process is killed."""
    (leases,) = (served for served in SERVED if served.kind.plural == "leases")
    async with Store(stored_kinds(), journal=SqliteJournal(path)) as store:
        api = ObjectApi(store)
        await create_first_objects(api)

        async def write(writer: int) -> None:
            number = 0
            while True:
                name = f"lease-{writer}-{number}"
                record = await api.create(leases, "default", {"metadata": {"name": name}})
                os.write(sys.stdout.fileno(), f"{record.version} {name}\n".encode())
                number += 1

        await asyncio.gather(*(write(writer) for writer in range(_WRITERS)))


if __name__ == "__main__":
    asyncio.run(write_forever(Path(sys.argv[1])))
