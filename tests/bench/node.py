"""`make bench-node`: an agent on a real node, beside a Go driver in the same run and the recorded figures of its peers.

The figures go to build/bench/node.json. Root on Linux, as for `make test-cluster`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from rich.console import Console

import claimsmith
from tests.bench.figures import describe_machine
from tests.bench.node_figures import NodeFigure, is_met, print_node_figures, write_node_figures
from tests.bench.node_measures import Bench, OtherLoad, Start, config_text, controlling
from tests.bench.node_peer import build_peer, peer_command
from tests.cluster.agents import agent_command
from tests.cluster.cleaning import clean
from tests.cluster.cluster import RealCluster
from tests.cluster.kept import open_cluster
from tests.cluster.place import find_obstacle
from tests.toolchain import ToolchainError

FOLDER: Final = Path(__file__).resolve().parents[2] / "build" / "bench"
DEVICES_COUNT: Final = 16
DEVICES: Final[dict[str, Any]] = {"gpus": [{"model": "A100-40", "count": DEVICES_COUNT}]}
MANY: Final[dict[str, Any]] = {
    "devices": [
        {"name": f"dev-{number}", "attributes": {f"a{index}": {"string": f"v{number}-{index}"} for index in range(10)}}
        for number in range(64)
    ]
}
STARTS, ROUNDS, PODS, PROBES, RELEASED = 5, 3, 10, 5, 4


def main() -> int:
    """Measure, print and write; return 1 when a goal is missed, 2 where no cluster can run."""
    if reason := find_obstacle():
        print(f"bench-node: no real cluster here: {reason}", file=sys.stderr)
        return 2
    try:
        peer = build_peer()
    except ToolchainError as error:
        print(f"bench-node: no peer here: {error}", file=sys.stderr)
        return 2
    with open_cluster("defaults") as cluster, _compiled():
        load = OtherLoad()
        figures = asyncio.run(_measure_all(cluster, peer))
        machine = f"{describe_machine()}; {load.cores():.1f} cores busy on average, all processes together"
    write_node_figures(figures, FOLDER, machine=machine)
    print_node_figures(figures, Console(width=150), machine=machine)
    return 0 if all(map(is_met, figures)) else 1


@contextlib.contextmanager
def _compiled() -> Iterator[None]:
    """Have processes find the package compiled, as pip leaves it when it installs one."""
    before = {name: os.environ.pop(name, None) for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PYTHONPYCACHEPREFIX"] = folder
        # A process knows the variable from its start on only: this one compiles for nobody.
        subprocess.run([sys.executable, "-m", "compileall", "-q", str(Path(claimsmith.__file__).parent)], check=True)
        try:
            yield
        finally:
            os.environ.pop("PYTHONPYCACHEPREFIX")
            os.environ.update({name: value for name, value in before.items() if value is not None})


async def _measure_all(cluster: RealCluster, peer: Path) -> list[NodeFigure]:
    client = cluster.client()
    with tempfile.TemporaryDirectory() as folder:
        file, many = Path(folder) / "agent.yaml", Path(folder) / "many.yaml"
        file.write_text(config_text(DEVICES))
        many.write_text(config_text(MANY))
        try:
            bench = Bench(cluster, client, agent_command(cluster, "--config", str(file)))
            await clean(client)
            await bench.prepare_cluster()
            figures = [figure async for figure in _measure(bench)]
            here = await _measure_peer(Bench(cluster, client, peer_command(peer, cluster, DEVICES_COUNT)))
            figures = [replace(figure, go_here=here.get(figure.name)) for figure in figures]
            figures.append(await _measure_many(Bench(cluster, client, agent_command(cluster, "--config", str(many)))))
            await clean(client)
        finally:
            await client.close()
    return figures


async def _measure(bench: Bench) -> AsyncIterator[NodeFigure]:
    # The first process compiles what it imports of others, which pip does when it installs them.
    await bench.measure_start()
    starts = [await bench.measure_start() for _ in range(STARTS)]
    yield _start_figure("start-to-slices", starts, f"{DEVICES_COUNT} devices", go="1.03", pydra="0.31")
    yield NodeFigure(
        name="start-cpu", ours=min(start.cpu_s for start in starts), goal=None, pydra="0.28–0.33", unit="s",
        work="processor time of the same, least of all starts",
    )  # fmt: skip
    async with bench.agent() as agent:
        memory, idle = await bench.measure_memory(agent), await bench.measure_idle(agent)
        yield NodeFigure(
            name="rss-idle", ours=memory.rss_mib, goal=60.0, go="40.5", pydra="68.0", unit="MiB",
            work=f"{DEVICES_COUNT} devices; PSS {memory.pss_mib:.1f}, anonymous {memory.anonymous_mib:.1f} MiB",
        )  # fmt: skip
        yield NodeFigure(
            name="cpu-idle", ours=idle, goal=0.2, go="< 0.05", pydra="0.05", unit="% core",
            work="processor time in 20 s without a pod",
        )  # fmt: skip
        prepared = [await bench.measure_prepare(agent, PODS) for _ in range(ROUNDS)]
        yield NodeFigure(
            name="prepare", ours=fmean(one.mean_ms for one in prepared), worst=max(one.mean_ms for one in prepared),
            goal=6.0, go="5.5", pydra="6.0", unit="ms",
            work=f"mean of NodePrepareResources as the kubelet measures it, {ROUNDS} rounds of {PODS} pods one after "
            f"the other; {fmean(one.cpu_ms for one in prepared):.1f} ms of the agent's processor time for each pod",
        )  # fmt: skip
        yield NodeFigure(
            name="pod-ready", ours=fmean(one.ready_s for one in prepared), goal=None, go="0.20–0.35",
            pydra="0.17–0.30", unit="s",
            work="from the creation of a pod with a claim until it is ready, mean of the same pods",
        )  # fmt: skip
        alone = await bench.measure_alone(PROBES)
        yield NodeFigure(
            name="one-flush", ours=alone.flush_ms, goal=None, unit="ms",
            work=f"what the disk alone takes for one flush of 4 KiB, mean while {PROBES} pods start: `prepare` has one",
        )  # fmt: skip
        yield NodeFigure(
            name="one-read", ours=alone.read_ms, goal=None, unit="ms",
            work="what the API server alone takes for one read of a claim, in the same time: `prepare` has one",
        )  # fmt: skip
    async with bench.agent():
        yield NodeFigure(
            name="kubelet-restart", ours=await bench.measure_kubelet_restart(), goal=2.0, go="30.0", pydra="never",
            unit="s", work="for how long no slice is there after a restart of the kubelet, which deletes them",
        )  # fmt: skip
        gaps = [await bench.measure_slices_deleted() for _ in range(ROUNDS)]
        yield NodeFigure(
            name="slices-deleted", ours=fmean(gaps), worst=max(gaps), goal=2.0, unit="s",
            work=f"for how long no slice is there after somebody has deleted all, {ROUNDS} times",
        )  # fmt: skip
    async with controlling(bench.cluster):
        yield NodeFigure(
            name="killed-in-prepare", ours=await bench.measure_killed("killed-1"), goal=10.0, go="87.5", pydra="72.7",
            unit="s", work="kill -9 while a pod waits for its prepare; from the restart until the pod is ready",
        )  # fmt: skip
        yield NodeFigure(
            name="released-after-return", ours=await bench.measure_released(RELEASED), goal=15.0, unit="s",
            work=f"{RELEASED} pods deleted while no agent runs; from its start until its ledger is empty",
        )  # fmt: skip
    yield NodeFigure(
        name="released-no-controller", ours=await bench.measure_released(RELEASED), goal=None, unit="s",
        work="the same without `claimsmith controller`",
    )  # fmt: skip
    yield NodeFigure(
        name="killed-no-controller", ours=await bench.measure_killed("killed-2"), goal=None, go="87.5", pydra="72.7",
        unit="s", work="the same without `claimsmith controller`: the kubelet waits for its next regular sync",
    )  # fmt: skip


async def _measure_peer(bench: Bench) -> Mapping[str, float]:
    """Return what the peer takes for the figures of the same names."""
    starts = [await bench.measure_start() for _ in range(STARTS)]
    async with bench.agent() as peer:
        memory, idle = await bench.measure_memory(peer), await bench.measure_idle(peer)
        prepared = [await bench.measure_prepare(peer, PODS) for _ in range(ROUNDS)]
    await bench.delete_slices()
    return {
        "start-to-slices": sum(start.seconds for start in starts) / len(starts),
        "start-cpu": min(start.cpu_s for start in starts),
        "rss-idle": memory.rss_mib,
        "cpu-idle": idle,
        "prepare": fmean(one.mean_ms for one in prepared),
        "pod-ready": fmean(one.ready_s for one in prepared),
    }


async def _measure_many(bench: Bench) -> NodeFigure:
    starts = [await bench.measure_start() for _ in range(STARTS)]
    return _start_figure("start-64x10", starts, "64 devices with 10 attributes each")


def _start_figure(name: str, starts: Sequence[Start], devices: str, *, go: str = "", pydra: str = "") -> NodeFigure:
    seconds = [start.seconds for start in starts]
    return NodeFigure(
        name=name, ours=sum(seconds) / len(seconds), worst=max(seconds), goal=1.0, go=go, pydra=pydra, unit="s",
        work=f"{devices}: from the start of the process until a watch shows a slice, {len(starts)} starts",
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
