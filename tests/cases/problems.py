"""The allocation problem of a case: its objects sorted by what they are, and one query on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from claimsmith.allocate.prepared.problem import AllocationProblem, merge_taint_rules
from claimsmith.allocate.verify import VerifyCase
from claimsmith.api.objects import ModelObject
from claimsmith.errors import InputError
from claimsmith.model.claim import DeviceClass, ResourceClaim
from claimsmith.model.features import Features
from claimsmith.model.node import Node
from claimsmith.model.pool import DeviceTaintRule, ResourceSlice
from tests.cases.casefile import CaseFile, check_fields

_OTHER_GATES: Final = frozenset({"GangScheduling"})
"""Gates that change nothing about the allocation of given claims."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """The objects of a case."""

    nodes: Mapping[str, Node]
    classes: Mapping[str, DeviceClass]
    slices: tuple[ResourceSlice, ...]
    claims: Mapping[str, ResourceClaim]

    @classmethod
    def sort(cls, objects: Iterable[ModelObject]) -> Objects:
        """Return objects by what they are; the taints of rules are merged into the slices."""
        found = tuple(objects)
        rules = tuple(item for item in found if isinstance(item, DeviceTaintRule))
        return cls(
            nodes={item.name: item for item in found if isinstance(item, Node)},
            classes={item.name: item for item in found if isinstance(item, DeviceClass)},
            slices=merge_taint_rules(tuple(item for item in found if isinstance(item, ResourceSlice)), rules),
            claims={str(item.ref): item for item in found if isinstance(item, ResourceClaim)},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Claims to allocate together, on each of some nodes.

    Args:
        suffix: What tells its fields from those of other queries: empty, `2`, `3`.
        timeout_s: When the search gives up; None for never.
    """

    suffix: str
    objects: Objects
    nodes: tuple[Node, ...]
    claims: tuple[ResourceClaim, ...]
    features: Features
    history: tuple[ResourceSlice, ...] = ()
    timeout_s: float | None = None

    def problem(self, node: Node) -> AllocationProblem:
        """Return the problem of the query on one node."""
        held = tuple(claim for claim in self.objects.claims.values() if claim.allocation is not None)
        return AllocationProblem(
            node=node,
            claims=self.claims,
            slices=self.objects.slices,
            classes=self.objects.classes,
            allocated=held,
            features=self.features,
            history=self.history,
        )

    def verify_case(self, node: Node) -> VerifyCase:
        """Return what the independent checker needs."""
        problem = self.problem(node)
        return VerifyCase(
            node=node,
            claims=problem.claims,
            slices=problem.slices,
            classes=problem.classes,
            allocated=problem.allocated,
            features=problem.features,
            history=problem.history,
        )


def list_queries(case: CaseFile) -> list[Query]:
    """Return the queries of a case; what is added for one is there for the later ones too.

    Raises:
        InputError: A query names something that the case does not have.
    """
    queries: list[Query] = []
    objects = case.objects()
    for suffix in ("", "2", "3"):
        objects += case.objects(f"add-for-query{suffix}")
        if f"query{suffix}" in case.content:
            queries.append(_parse_query(case, suffix, Objects.sort(objects)))
    return queries


def _parse_query(case: CaseFile, suffix: str, objects: Objects) -> Query:
    value = case.content[f"query{suffix}"]
    check_fields(value, "nodes", "allocate", "timeout", "pod")
    history = case.objects("history")
    return Query(
        suffix=suffix,
        objects=objects,
        nodes=tuple(_get(objects.nodes, name) for name in value["nodes"]),
        claims=tuple(replace(_get(objects.claims, name), allocation=None) for name in value["allocate"]),
        features=parse_features(case),
        history=tuple(item for item in history if isinstance(item, ResourceSlice)),
        timeout_s=parse_seconds(value["timeout"]) if "timeout" in value else None,
    )


def _get(known: Mapping[str, Any], name: str) -> Any:
    if name not in known:
        raise InputError(f"query: found {name!r}, allowed {', '.join(known)}; correct the name")
    return known[name]


def parse_features(case: CaseFile) -> Features:
    """Return a stock cluster's gates with those that the case names on."""
    gates = [gate for gate in case.content.get("features") or () if gate not in _OTHER_GATES]
    return Features.parse(dict.fromkeys(gates, True), base=Features())


def parse_seconds(text: str) -> float:
    """Return a duration such as `200ms`, `15s` or `31m` in seconds."""
    for unit, factor in (("ms", 0.001), ("s", 1.0), ("m", 60.0)):
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    raise InputError(f"duration: found {text!r}, allowed a number with ms, s or m; add the unit")
