"""Small traces to replay."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from claimsmith.replay.trace import Trace, TraceNode, TracePod

__all__ = ["make_trace", "trace_node", "trace_pod", "write_trace"]

NODES = "openb_node_list_gpu_node.csv"
PODS = "openb_pod_list_{}.csv"


def trace_node(
    name: str = "n0", *, cpu: int = 32_000, memory: int = 65_536, gpus: int = 2, model: str = "A"
) -> TraceNode:
    """Return a node."""
    return TraceNode(name=name, cpu_milli=cpu, memory_mib=memory, gpus=gpus, model=model)


def trace_pod(
    milli: int = 1_000, *, gpus: int = 1, cpu: int = 4_000, memory: int = 1_024, models: str = ""
) -> TracePod:
    """Return a pod; without milli one without GPU."""
    accepted = tuple(models.split("|")) if models else ()
    return TracePod(
        cpu_milli=cpu, memory_mib=memory, gpus=gpus if milli else 0, gpu_milli=milli, models=accepted if milli else ()
    )


def make_trace(nodes: Iterable[TraceNode], pods: Iterable[TracePod]) -> Trace:
    """Return a trace."""
    return Trace(name="small", nodes=tuple(nodes), pods=tuple(pods))


def write_trace(folder: Path, *, nodes: str, pods: str, name: str = "default") -> Path:
    """Write the lines of a trace's files below their headings."""
    (folder / NODES).write_text(f"sn,cpu_milli,memory_mib,gpu,model\n{nodes}\n", encoding="utf-8")
    heading = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec"
    (folder / PODS.format(name)).write_text(f"{heading}\n{pods}\n", encoding="utf-8")
    return folder
