"""What is wrong with classes, and with the requests and constraints of claims, held against what is published."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from claimsmith.allocate.explain.nearest_names import find_nearest_name
from claimsmith.allocate.lint.capacities import lint_capacities
from claimsmith.allocate.lint.correcting import Corrector
from claimsmith.allocate.lint.matching import describe_published, find_false_clause, find_nearest_text, select
from claimsmith.allocate.lint.published import PublishedDevice
from claimsmith.allocate.lint.selectors import lint_selector
from claimsmith.allocate.lint.values import Fault
from claimsmith.allocate.prepared.records import find_attribute
from claimsmith.allocate.prepared.taints import find_blocking_taint
from claimsmith.model.claim import DeviceClass, DeviceConstraint, DeviceRequest, ResourceClaimSpec, SubRequest
from claimsmith.model.device import DeviceTaint

__all__ = ["lint_claim_spec", "lint_class"]

_MILD: Final = frozenset({"request-never-matches", "count", "unknown-capacity", "capacity-amount"})
"""Rules that an alternative may break while another one can be had."""


def lint_class(found: DeviceClass, corrector: Corrector) -> Iterator[Fault]:
    """Yield what is wrong with the selectors of a class."""
    texts = [selector.expression or "" for selector in found.selectors]
    if not corrector.published:
        return
    faults = list(_lint_selectors(texts, corrector, at="spec.selectors"))
    yield from faults
    if any(fault.severity == "error" or fault.rule == "unknown-attribute" for fault in faults):
        return
    if select(texts, corrector.published.devices):
        return
    place, clause, turned_down = find_false_clause(texts, corrector.published.devices)
    if place < 0:
        return
    yield Fault(
        rule="class-never-matches",
        severity="warning",
        path=f"spec.selectors[{place}].cel.expression",
        text=_say_false(clause, turned_down, corrector, whose="published devices"),
        corrected=find_nearest_text(texts, place, corrector.published.devices, corrector),
    )


def lint_claim_spec(
    spec: ResourceClaimSpec, classes: Mapping[str, DeviceClass], corrector: Corrector, *, at: str = "spec"
) -> Iterator[Fault]:
    """Yield what is wrong with what a claim asks for.

    Args:
        spec: What it asks for.
        classes: All classes by name.
        corrector: Knows all published devices.
        at: Path of the spec within its object.
    """
    matching: dict[str, tuple[PublishedDevice, ...]] = {}
    for place, request in enumerate(spec.requests):
        path = f"{at}.devices.requests[{place}]"
        yield from _lint_request(request, classes, corrector, path=path, matching=matching)
    for place, constraint in enumerate(spec.constraints):
        path = f"{at}.devices.constraints[{place}]"
        yield from _lint_constraint(constraint, spec, matching, path=path)


def _lint_selectors(texts: Sequence[str], corrector: Corrector, *, at: str) -> Iterator[Fault]:
    """Yield what is wrong with selectors that are asked one after the other."""
    left = corrector
    for place, text in enumerate(texts):
        for fault in lint_selector(text, left):
            yield replace(fault, path=f"{at}[{place}].cel.expression")
        left = corrector.narrow(select([text], left.devices))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """A request, or one of its alternatives, with its place."""

    name: str
    path: str
    request: SubRequest


def _lint_request(
    request: DeviceRequest,
    classes: Mapping[str, DeviceClass],
    corrector: Corrector,
    *,
    path: str,
    matching: dict[str, tuple[PublishedDevice, ...]],
) -> Iterator[Fault]:
    """Yield what is wrong with a request; note which devices each of its alternatives matches."""
    found = [(wish, list(_lint_wish(wish, classes, corrector, matching))) for wish in _list_wishes(request, path)]
    is_hopeless = not any(
        matching.get(wish.name) and not any(fault.severity == "error" for fault in faults) for wish, faults in found
    )
    for fault in (fault for _, faults in found for fault in faults):
        is_mild = fault.rule in _MILD and not is_hopeless
        yield replace(fault, severity="warning") if is_mild else fault


def _list_wishes(request: DeviceRequest, path: str) -> list[_Wish]:
    if request.exactly is not None:
        return [_Wish(name=request.name, path=f"{path}.exactly", request=request.exactly)]
    return [
        _Wish(name=f"{request.name}/{item.name}", path=f"{path}.firstAvailable[{place}]", request=item)
        for place, item in enumerate(request.first_available)
    ]


def _lint_wish(
    wish: _Wish,
    classes: Mapping[str, DeviceClass],
    corrector: Corrector,
    matching: dict[str, tuple[PublishedDevice, ...]],
) -> Iterator[Fault]:
    request = wish.request
    device_class = classes.get(request.device_class)
    if device_class is None:
        yield _miss_class(wish, classes)
        return
    offered = select([item.expression or "" for item in device_class.selectors], corrector.published.devices)
    if not corrector.published:
        return
    texts = [selector.expression or "" for selector in request.selectors]
    of_class = corrector.narrow(offered)
    faults = list(_lint_selectors(texts, of_class, at=f"{wish.path}.selectors"))
    yield from faults
    found = matching[wish.name] = select(texts, offered)
    if found:
        yield from _lint_amounts(wish, found, corrector)
        return
    if any(fault.severity == "error" or fault.rule == "unknown-attribute" for fault in faults):
        return
    place, clause, turned_down = find_false_clause(texts, offered)
    if not offered:
        text = f"class {request.device_class} matches no published device"
        yield Fault(rule="request-never-matches", severity="error", text=text, path=f"{wish.path}.deviceClassName")
    elif place >= 0:
        yield Fault(
            rule="request-never-matches",
            severity="error",
            path=f"{wish.path}.selectors[{place}].cel.expression",
            text=_say_false(clause, turned_down, of_class, whose=f"devices of class {request.device_class}"),
            corrected=find_nearest_text(texts, place, offered, corrector),
        )


def _miss_class(wish: _Wish, classes: Mapping[str, DeviceClass]) -> Fault:
    wanted = wish.request.device_class
    near = difflib.get_close_matches(wanted, sorted(classes), n=1)
    known = ", ".join(sorted(classes)) or "none"
    hint = f"did you mean {near[0]}?" if near else "create it, or name another"
    return Fault(
        rule="unknown-class",
        severity="error",
        path=f"{wish.path}.deviceClassName",
        text=f"class {wanted!r} does not exist, known are {known}; {hint}",
        corrected=near[0] if near else "",
    )


def _say_false(clause: str, turned_down: int, corrector: Corrector, *, whose: str) -> str:
    """Say that a part of a selector accepts none of the devices that come to it, and what they have instead."""
    values = describe_published(clause, corrector.devices, corrector)
    if turned_down < len(corrector.devices):
        whose = f"{whose} that the conditions before it accept"
    return f"{clause} is false for all {turned_down} {whose}{f'; {values}' if values else ''}"


# --- taints and counts ------------------------------------------------------------------------------------------------


def _lint_amounts(wish: _Wish, found: Sequence[PublishedDevice], corrector: Corrector) -> Iterator[Fault]:
    """Yield what keeps a request from devices that its selectors accept: taints, amounts, and too few on each node."""
    blocked = [(item, find_blocking_taint(item.device.taints, wish.request.tolerations)) for item in found]
    taints = [taint for _, taint in blocked if taint is not None]
    if len(taints) == len(found):
        yield _tell_taints(wish, taints)
    yield from lint_capacities(wish.request.capacity or {}, found, path=f"{wish.path}.capacity.requests")
    if wish.request.allocation_mode != "ExactCount" or wish.request.count < 2:
        return
    most, node = _find_most(found, corrector)
    if wish.request.count > most:
        where = f" ({node})" if node else ""
        text = f"asks for {wish.request.count} devices, and no node has more than {most} that match{where}"
        corrected = str(most) if most else ""
        yield Fault(rule="count", severity="error", path=f"{wish.path}.count", text=text, corrected=corrected)


def _tell_taints(wish: _Wish, taints: Sequence[DeviceTaint]) -> Fault:
    counts = Counter(taint.identity for taint in taints)
    shown = ", ".join(dict.fromkeys(map(str, taints)))
    lines = [*_list_tolerations(wish.request), *map(_write_toleration, counts)]
    return Fault(
        rule="never-tolerated",
        severity="warning",
        path=f"{wish.path}.tolerations",
        text=f"all {len(taints)} devices that match have a taint that the request does not tolerate: {shown}",
        corrected="[" + ", ".join(lines) + "]",
    )


def _write_toleration(taint: tuple[str, str, str]) -> str:
    key, value, effect = taint
    match = f"operator: Equal, value: {value}" if value else "operator: Exists"
    return f"{{key: {key}, {match}, effect: {effect}}}"


def _list_tolerations(request: SubRequest) -> Iterator[str]:
    """Yield the tolerations that are there, as text."""
    for item in request.tolerations:
        parts = {"key": item.key, "operator": item.operator, "value": item.value, "effect": item.effect}
        yield "{" + ", ".join(f"{name}: {value}" for name, value in parts.items() if value) + "}"


def _find_most(found: Iterable[PublishedDevice], corrector: Corrector) -> tuple[int, str]:
    """Return on which node most of the devices can be used, and how many."""
    counts: Counter[str] = Counter()
    anywhere = 0
    for item in found:
        place = item.device if item.slice.per_device_node_selection else item.slice
        if place.all_nodes:
            anywhere += 1
        elif place.node_name:
            counts[place.node_name] += 1
        else:
            counts.update(node.name for node in corrector.published.nodes if item.reaches(node))
    if not counts:
        return anywhere, ""
    name, count = max(sorted(counts.items()), key=lambda pair: pair[1])
    return count + anywhere, name


# --- constraints ------------------------------------------------------------------------------------------------------


def _lint_constraint(
    constraint: DeviceConstraint,
    spec: ResourceClaimSpec,
    matching: Mapping[str, tuple[PublishedDevice, ...]],
    *,
    path: str,
) -> Iterator[Fault]:
    """Yield what is wrong with the attribute of a constraint: devices without it are never chosen."""
    field = "matchAttribute" if constraint.match_attribute else "distinctAttribute"
    name = constraint.match_attribute or constraint.distinct_attribute or ""
    bound = [item for item in _list_bound(constraint, spec) if not _derives(item, name)]
    devices = [item for wish in bound for item in matching.get(wish.name, ())]
    if not name or not devices:
        return
    lacking = [item for item in devices if find_attribute(item.device, item.id.driver, name) is None]
    if len(lacking) == len(devices):
        near = _suggest_attribute(name, devices)
        hint = f"; did you mean {near}?" if near else ""
        text = f"none of the {len(devices)} devices that match has the attribute {name}{hint}"
        yield Fault(rule="constraint-attribute", severity="error", path=f"{path}.{field}", text=text, corrected=near)
    elif lacking:
        text = (
            f"{len(lacking)} of {len(devices)} devices that match, such as {lacking[0].id}, don't have the attribute "
            f"{name}, so that they are never chosen"
        )
        yield Fault(rule="constraint-attribute", severity="warning", path=f"{path}.{field}", text=text)


def _list_bound(constraint: DeviceConstraint, spec: ResourceClaimSpec) -> Iterator[_Wish]:
    """Yield the requests, or alternatives, that a constraint is about."""
    for request in spec.requests:
        for wish in _list_wishes(request, ""):
            if not constraint.requests or request.name in constraint.requests or wish.name in constraint.requests:
                yield wish


def _derives(wish: _Wish, name: str) -> bool:
    return any(item.name == name for item in wish.request.derived_attributes)


def _suggest_attribute(name: str, devices: Sequence[PublishedDevice]) -> str:
    """Return the nearest attribute that all of the devices have; empty when none is near."""
    common: set[str] | None = None
    for item in devices:
        own = {key if "/" in key else f"{item.id.driver}/{key}" for key in item.device.attributes}
        common = own if common is None else common & own
    return find_nearest_name(name, common or ())
