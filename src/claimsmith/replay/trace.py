"""Reads a workload trace: nodes with GPUs, and pods in the order in which they arrive.

Source: github.com/hkust-adsl/kubernetes-scheduler-simulator, data/csv (openb, Alibaba 2023).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from claimsmith.errors import TraceError

__all__ = ["GPU_MILLI", "Trace", "TraceNode", "TracePod", "find_trace_names", "read_trace"]

GPU_MILLI: Final = 1_000
"""Thousandths of one GPU."""
_NODES: Final = "openb_node_list_gpu_node.csv"
_PODS: Final = "openb_pod_list_{}.csv"
_GPUS_MAX: Final = 64
"""Most GPUs of one node or pod; anything above is a broken file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceNode:
    """A node; cpu in thousandths of a core, memory in MiB."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePod:
    """What a pod asks for.

    Args:
        gpus: Number of GPUs; 0 for a pod without.
        gpu_milli: What it takes of each GPU; 1000 for whole ones.
        models: GPU models it accepts; empty for all.
    """

    cpu_milli: int
    memory_mib: int
    gpus: int = 0
    gpu_milli: int = 0
    models: tuple[str, ...] = ()

    @property
    def total_milli(self) -> int:
        """Thousandths of GPUs that the pod takes in all."""
        return self.gpus * self.gpu_milli


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A cluster and the pods that were seen on it."""

    name: str
    nodes: tuple[TraceNode, ...]
    pods: tuple[TracePod, ...]

    @property
    def capacity_milli(self) -> int:
        """Thousandths of GPUs that the cluster has."""
        return GPU_MILLI * sum(node.gpus for node in self.nodes)


def find_trace_names(folder: Path) -> tuple[str, ...]:
    """Return the names of the traces in a folder, sorted."""
    start, end = _PODS.split("{}")
    return tuple(sorted(path.name[len(start) : -len(end)] for path in folder.glob(_PODS.format("*"))))


def read_trace(folder: Path, name: str = "default") -> Trace:
    """Return a trace.

    Args:
        folder: Where the CSV files are.
        name: Which list of pods, e.g. `gpuspec33`.

    Raises:
        TraceError: A file is missing, or something in it can't be read.
    """
    pods = folder / _PODS.format(name)
    if not pods.is_file():
        known = ", ".join(find_trace_names(folder)) or "none"
        raise TraceError(str(folder), f"found no trace {name!r}, allowed {known}", hint="name a folder with traces")
    nodes = tuple(sorted((_read_node(row) for row in _read_rows(folder / _NODES)), key=lambda node: node.name))
    return Trace(name=name, nodes=nodes, pods=tuple(_read_pod(row) for row in _read_rows(pods)))


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of a file."""

    where: str
    cells: Mapping[str, str | None]

    def number(self, column: str, *, most: int = 2**40) -> int:
        """Return a whole number; an empty cell is 0."""
        text = self.text(column)
        if not text:
            return 0
        if not text.isdecimal() or int(text) > most:
            allowed = f"allowed a whole number from 0 to {most}"
            raise TraceError(self.where, f"column {column}: found {text!r}, {allowed}", hint="correct the file")
        return int(text)

    def text(self, column: str) -> str:
        """Return the text of a cell; empty when there is no such column."""
        return (self.cells.get(column) or "").strip()


def _read_rows(path: Path) -> Iterator[_Row]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(str(path), f"can't be read: {error}", hint="name a folder with traces") from error
    for number, cells in enumerate(csv.DictReader(text.splitlines()), start=2):
        yield _Row(f"{path}, line {number}", cells)


def _read_node(row: _Row) -> TraceNode:
    name, model = row.text("sn"), row.text("model")
    if not name or not model:
        raise TraceError(row.where, "found no sn or no model, allowed both", hint="correct the file")
    return TraceNode(
        name=name,
        cpu_milli=row.number("cpu_milli"),
        memory_mib=row.number("memory_mib"),
        gpus=row.number("gpu", most=_GPUS_MAX),
        model=model,
    )


def _read_pod(row: _Row) -> TracePod:
    gpus = row.number("num_gpu", most=_GPUS_MAX)
    milli = row.number("gpu_milli", most=GPU_MILLI)
    if gpus and not milli:
        raise TraceError(row.where, f"found gpu_milli 0 for {gpus} GPUs, allowed 1 to 1000", hint="correct the file")
    return TracePod(
        cpu_milli=row.number("cpu_milli"),
        memory_mib=row.number("memory_mib"),
        gpus=gpus,
        gpu_milli=milli if gpus else 0,
        models=tuple(sorted(model for model in row.text("gpu_spec").split("|") if model)) if gpus else (),
    )
