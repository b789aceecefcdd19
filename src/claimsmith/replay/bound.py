"""The most that any allocation of given pods could fill: a linear program over patterns.

Pods of one kind and nodes of one shape are pooled, and pods may be cut into pieces, so that no whole solution can be
better. A GPU is filled by a pattern of parts; patterns are paths through the amounts from 0 to a whole GPU. Each shape
keeps within its GPUs, processors and memory. The bound may refuse pods that would fit, which a replay may not.

Source: Valerio de Carvalho, Exact solution of bin-packing problems using column generation and branch-and-bound, 1999
(the model of paths).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from math import gcd

from claimsmith.allocate.cpsat.relaxation import Relaxation, find_maximum
from claimsmith.replay.trace import GPU_MILLI, Trace, TraceNode, TracePod

__all__ = ["Bound", "find_bound"]

_Shape = tuple[int, int, int, str]
"""Processors, memory, GPUs and model of a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The bound.

    Args:
        allocated_milli: Most thousandths of GPUs that can be allocated.
        kept: How many pods of each kind the best solution of the program keeps.
    """

    allocated_milli: float
    kept: dict[TracePod, float]


def find_bound(trace: Trace, pods: Iterable[TracePod], *, keep_plain: bool = False) -> Bound | None:
    """Return the bound for the pods; None without the extra `[solver]`.

    Args:
        keep_plain: Pods without GPU must all be kept.
    """
    program = _BoundProgram(trace, Counter(pods), keep_plain=keep_plain)
    found = find_maximum(program.build())
    if found is None:
        return None
    kept = {pod: sum(found[1][number] for number in numbers) for pod, numbers in program.numbers.items()}
    return Bound(allocated_milli=found[0], kept=kept)


class _BoundProgram:
    """Builds the program: how many pods of each kind go to each shape, and which patterns fill the GPUs."""

    def __init__(self, trace: Trace, pods: Counter[TracePod], *, keep_plain: bool) -> None:
        self._program = Relaxation()
        self._pods, self._keep_plain = pods, keep_plain
        self._shapes = Counter(_shape_of(node) for node in trace.nodes)
        self._group_of = _group_models(self._shapes, pods)
        self._placed: dict[tuple[TracePod, _Shape], int] = {}
        self.numbers: dict[TracePod, list[int]] = {pod: [] for pod in pods}
        sizes = {pod.gpu_milli for pod in pods if _is_part(pod)}
        self._unit = reduce(gcd, sizes, GPU_MILLI)
        self._sizes = sorted(size // self._unit for size in sizes)

    def build(self) -> Relaxation:
        """Return the program."""
        for pod, count in self._pods.items():
            self._add_pod(pod, count)
        shared = {shape: self._program.add_variable(number * shape[2]) for shape, number in self._shapes.items()}
        for shape, number in self._shapes.items():
            self._add_shape(shape, number, shared[shape])
        for group in sorted(set(self._group_of.values())):
            self._add_patterns(group, shared)
        return self._program

    def _add_pod(self, pod: TracePod, count: int) -> None:
        for shape in self._shapes:
            cpu_milli, memory_mib, gpus, model = shape
            suits = not pod.models or model in pod.models
            if suits and pod.cpu_milli <= cpu_milli and pod.memory_mib <= memory_mib and pod.gpus <= gpus:
                number = self._program.add_variable(gain=pod.total_milli)
                self._placed[pod, shape] = number
                self.numbers[pod].append(number)
        must = self._keep_plain and not pod.gpus
        self._program.add_row(dict.fromkeys(self.numbers[pod], 1.0), lower=count if must else None, upper=count)

    def _add_shape(self, shape: _Shape, number: int, shared: int) -> None:
        """What the nodes of a shape have in all of GPUs, processors and memory."""
        pods = {pod: place for (pod, where), place in self._placed.items() if where == shape}
        whole = {place: float(pod.gpus) for pod, place in pods.items() if pod.gpus and not _is_part(pod)}
        self._program.add_row({**whole, shared: 1.0}, upper=number * shape[2])
        parts = {place: float(pod.gpu_milli) for pod, place in pods.items() if _is_part(pod)}
        self._program.add_row({**parts, shared: -float(GPU_MILLI)}, upper=0)
        cpu = {place: float(pod.cpu_milli) for pod, place in pods.items()}
        self._program.add_row(cpu, upper=number * shape[0])
        memory = {place: float(pod.memory_mib) for pod, place in pods.items()}
        self._program.add_row(memory, upper=number * shape[1])

    def _add_patterns(self, group: int, shared: dict[_Shape, int]) -> None:
        """The paths that fill the shared GPUs of some models: each arc is a part, or waste at the end."""
        whole = GPU_MILLI // self._unit
        at: list[dict[int, float]] = [{} for _ in range(whole + 1)]
        used: dict[int, dict[int, float]] = {size: {} for size in self._sizes}
        for start in _find_starts(self._sizes, whole):
            for size in self._sizes:
                if start + size <= whole:
                    arc = self._program.add_variable()
                    at[start][arc], at[start + size][arc] = -1.0, 1.0
                    used[size][arc] = 1.0
            if 0 < start < whole:
                waste = self._program.add_variable()
                at[start][waste], at[whole][waste] = -1.0, 1.0
        for place in range(1, whole):
            if at[place]:
                self._program.add_row(at[place], lower=0, upper=0)
        gpus = {number: -1.0 for shape, number in shared.items() if self._group_of[shape[3]] == group}
        started = dict.fromkeys(at[0], 1.0)
        self._program.add_row({**started, **gpus}, upper=0)
        for size in self._sizes:
            wanted = {
                number: -1.0
                for (pod, shape), number in self._placed.items()
                if _is_part(pod) and pod.gpu_milli == size * self._unit and self._group_of[shape[3]] == group
            }
            self._program.add_row({**used[size], **wanted}, lower=0)


def _shape_of(node: TraceNode) -> _Shape:
    return node.cpu_milli, node.memory_mib, node.gpus, node.model


def _is_part(pod: TracePod) -> bool:
    return pod.gpus > 0 and pod.gpu_milli < GPU_MILLI


def _group_models(shapes: Iterable[_Shape], pods: Iterable[TracePod]) -> dict[str, int]:
    """A number for each model; models that no pod tells apart have the same."""
    lists = sorted({pod.models for pod in pods if pod.models})
    keys: dict[tuple[bool, ...], int] = {}
    groups: dict[str, int] = {}
    for model in sorted({shape[3] for shape in shapes}):
        key = tuple(model in models for models in lists)
        groups[model] = keys.setdefault(key, len(keys))
    return groups


def _find_starts(sizes: Iterable[int], whole: int) -> list[int]:
    """The amounts that parts of a pattern can add up to, below a whole device."""
    reached = [True] + [False] * whole
    for place in range(1, whole):
        reached[place] = any(size <= place and reached[place - size] for size in sizes)
    return [place for place in range(whole) if reached[place]]
