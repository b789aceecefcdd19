"""The embedded API server answers as the real one does: both are asked the same, and the answers compared."""

from __future__ import annotations

import difflib
import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.cluster import api_claims, api_deleting, api_discovering, api_patching, api_reading, api_writing
from tests.cluster.api_script import Script
from tests.cluster.api_world import ApiWorld, embedded_api, real_api
from tests.cluster.kept import open_control_plane

Behaviour = Callable[[Script], None]
Worlds = tuple[ApiWorld, ApiWorld]

BEHAVIOURS: dict[str, Behaviour] = {
    **api_discovering.BEHAVIOURS,
    **api_reading.BEHAVIOURS,
    **api_writing.BEHAVIOURS,
    **api_patching.BEHAVIOURS,
    **api_deleting.BEHAVIOURS,
    **api_claims.BEHAVIOURS,
}


@pytest.fixture(scope="module")
def worlds() -> Iterator[Worlds]:
    """The embedded API server and a real one."""
    with ExitStack() as stack:
        cluster = stack.enter_context(open_control_plane())
        yield stack.enter_context(embedded_api()), stack.enter_context(real_api(cluster))


@pytest.fixture(scope="module")
def namespaces(worlds: Worlds) -> dict[str, str]:
    """A namespace in both servers for each behaviour: made at once, so that none waits for its service account."""
    token = secrets.token_hex(3)
    names = {name: f"n{i}-{token}" for i, name in enumerate(BEHAVIOURS)}
    for world in worlds:
        script = Script(world, "default")
        for name in names.values():
            script.make("/api/v1/namespaces", {"metadata": {"name": name}})
        for name in names.values():
            accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
            script.wait(accounts, "default", lambda found: found is not None)
    return names


def tell(behaviour: Behaviour, world: ApiWorld, namespace: str) -> list[str]:
    """Return the lines of what is seen of a server."""
    script = Script(world, namespace)
    behaviour(script)
    return json.dumps(script.notes, indent=1, sort_keys=True).splitlines()


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_both_servers_answer_the_same(worlds: Worlds, namespaces: dict[str, str], name: str) -> None:
    embedded, real = (tell(BEHAVIOURS[name], world, namespaces[name]) for world in worlds)
    differences = list(difflib.unified_diff(embedded, real, "embedded", "real", lineterm="", n=6))

    assert not differences, "\n".join(differences)
