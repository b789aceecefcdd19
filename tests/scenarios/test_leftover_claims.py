"""Claims that the kubelet forgot, released by a driver behind real sockets while the kubelet goes on with others."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import pytest

from claimsmith.model.names import ClaimRef
from claimsmith.node.kubeletclaims import KUBELET_CLAIMS_FILE
from tests.scenarios.plugin_bench import PluginBench, prepare, ready


@pytest.fixture
def bench() -> Iterator[PluginBench]:
    with tempfile.TemporaryDirectory(prefix="cs-") as folder:
        yield PluginBench(Path(folder))


def write_books(bench: PluginBench, *uids: str) -> None:
    """Have the kubelet's own file name claims."""
    data = json.dumps({"ClaimInfoStateList": [{"ClaimUID": uid} for uid in uids]})
    content = json.dumps({"Data": data, "Checksum": crc32(data.encode())})
    (bench.paths.state / KUBELET_CLAIMS_FILE).write_text(content)


def end_all(bench: PluginBench) -> None:
    """Let nobody use the claims any more."""
    bench.claims.claims = {
        ref: replace(ready(ref.name, device), reserved_for=())
        for ref, device in ((ClaimRef("default", "a"), "gpu-0"), (ClaimRef("default", "b"), "gpu-1"))
    }


async def test_claims_that_the_kubelet_forgot_are_released_one_after_the_other(bench: PluginBench) -> None:
    async with bench.plugin() as plugin:
        await prepare(bench, "a", "b")
        end_all(bench)
        write_books(bench)

        assert await plugin.sweeper.tick() == 2
        assert (bench.cdi_files(), plugin.prepared()) == (0, ())


async def test_a_claim_that_gets_on_the_kubelets_books_while_another_is_released_is_left_to_it(
    bench: PluginBench,
) -> None:
    def take_into_use(operation: str) -> None:
        """A new pod gets the other claim: the kubelet writes it down before it calls."""
        if operation == "unprepare":
            write_books(bench, "uid-b")

    async with bench.plugin() as plugin:
        await prepare(bench, "a", "b")
        end_all(bench)
        write_books(bench)
        bench.driver.fail = take_into_use
        released = await plugin.sweeper.tick()
        bench.claims.claims[ClaimRef("default", "b")] = ready("b", "gpu-1")
        answers = await prepare(bench, "b")

        assert released == 1
        assert [entry.claim.name for entry in plugin.prepared()] == ["b"]
        assert bench.driver.calls == [("prepare", "uid-a"), ("prepare", "uid-b"), ("unprepare", "uid-a")]
        assert (bench.cdi_files(), answers["uid-b"].error) == (1, "")
