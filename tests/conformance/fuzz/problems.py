"""Random allocation problems near the border of feasibility.

A problem is drawn, then changed step by step, harder or easier, until upstream's verdict flips; one of the two sides of
the flip is the question. So about half of the questions have an answer, and most are close calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from tests.conformance.fuzz.claims import (
    draw_claim,
    draw_classes,
    draw_constraint,
    draw_holder,
    draw_selector,
    list_bodies,
)
from tests.conformance.fuzz.cluster import DRIVERS, draw_nodes, draw_pool
from tests.conformance.fuzz.devices import draw_taint
from tests.conformance.fuzz.themes import Themes, draw_features, draw_themes
from tests.conformance.fuzz.words import Chance

__all__ = ["Ask", "draw_near_border", "draw_problem"]

Json = dict[str, Any]
Ask = Callable[[Json], Json]

STEPS_MAX: Final = 16
"""Times that a problem is changed before it is taken as it is."""
STUBBORN: Final = 4
"""Times after which a problem that does not flip is changed in one more place at once."""
CLAIMS_MAX: Final = 4
SEARCH_STEPS_MAX: Final = 10_000
"""Steps of upstream's search on one node beyond which a problem counts as hard."""


def draw_problem(chance: Chance, name: str) -> tuple[Json, Themes]:
    """Return a problem as it is drawn, and what it is about."""
    features, on = draw_features(chance)
    themes = draw_themes(chance, on)
    problem: Json = {
        "name": name,
        "features": features,
        "nodes": draw_nodes(chance),
        "classes": draw_classes(chance, themes),
    }
    pools = [draw_pool(chance, themes, number) for number in range(chance.weigh({1: 5, 2: 3, 3: 1}))]
    problem["slices"] = chance.shuffle([made for pool in pools for made in pool])
    _number_slices(problem["slices"])
    if "rules" in themes:
        problem["taintRules"] = [_draw_rule(problem, number, chance) for number in range(chance.number(1, 2))]
    holders = range(chance.number(1, 3)) if {"held", "vanished"} & themes else range(0)
    problem["allocatedClaims"] = [draw_holder(problem, number, chance, themes) for number in holders]
    counts = {1: 4, 2: 1} if "limit" in themes else {1: 1, 2: 3, 3: 2} if "deep" in themes else {1: 5, 2: 3, 3: 1}
    count = chance.weigh(counts)
    problem["claims"] = [draw_claim(number, chance, themes) for number in range(count)]
    return problem, themes


def _number_slices(slices: list[Json]) -> None:
    """Make the names of slices unique; their order stays random."""
    for place, made in enumerate(slices):
        made["metadata"]["name"] += f"-{place}"


def _draw_rule(problem: Json, number: int, chance: Chance) -> Json:
    spec: Json = {"taint": draw_taint(chance)}
    if chance.happens(0.9):
        made = chance.pick(problem["slices"])["spec"]
        whole: Json = {"driver": made["driver"], "pool": made["pool"]["name"]}
        if made.get("devices"):
            whole["device"] = chance.pick(made["devices"])["name"]
        spec["deviceSelector"] = {key: whole[key] for key in chance.some(sorted(whole), 0.6)}
    return {"metadata": {"name": f"rule-{number}"}, "spec": spec}


def draw_near_border(seed: str, ask: Ask) -> Json:
    """Return the problem of a seed, close to where upstream's verdict flips.

    Args:
        ask: Gives upstream's answer to a problem.
    """
    chance = Chance(seed)
    problem, themes, verdict = _draw_solvable(chance, seed, ask)
    if chance.happens(0.1):
        return problem
    if verdict not in ("feasible", "infeasible"):
        return problem
    changes = _HARDER if verdict == "feasible" else _EASIER
    for step in range(STEPS_MAX):
        changed = _copy(problem)
        for _ in range(1 + step // STUBBORN):
            chance.pick(changes)(changed, chance, themes)
        found = _find_verdict(ask(_bound(changed)))
        if found == "timeout":
            return problem
        if found not in (verdict, "error"):
            return changed if chance.happens(0.6) == (found == "feasible") else problem
        if found == verdict:
            problem = changed
        elif chance.happens(0.03):
            return changed
    return problem


def _draw_solvable(chance: Chance, seed: str, ask: Ask) -> tuple[Json, Themes, str]:
    """Return a problem with upstream's verdict; most that upstream can hardly finish are drawn anew."""
    while True:
        problem, themes = draw_problem(chance, seed)
        verdict = _find_verdict(ask(_bound(problem)))
        if verdict != "timeout" or chance.happens(0.05):
            return problem, themes, verdict


def _bound(problem: Json) -> Json:
    """Return the problem with a limit for upstream's search."""
    return {**problem, "stepsMax": SEARCH_STEPS_MAX}


def _copy(value: Json) -> Json:
    """Return a copy that shares nothing; a JSON text is faster than a deep copy."""
    copied: Json = json.loads(json.dumps(value))
    return copied


def _find_verdict(answer: Json) -> str:
    """Return what upstream says in all, the gravest first."""
    found = {result["verdict"] for result in answer["results"]}
    return next(verdict for verdict in ("timeout", "error", "feasible", "infeasible") if verdict in found)


def _want_more(problem: Json, chance: Chance, themes: Themes) -> None:
    body = _pick_body(problem, chance)
    if "count" in body and (body["count"] < 8 or "limit" in themes):
        body["count"] += 1


def _want_another(problem: Json, chance: Chance, themes: Themes) -> None:
    if len(problem["claims"]) < CLAIMS_MAX:
        problem["claims"].append(draw_claim(len(problem["claims"]), chance, themes))


def _hold_more(problem: Json, chance: Chance, themes: Themes) -> None:
    held = problem["allocatedClaims"]
    if len(held) < 2 * CLAIMS_MAX:
        held.append(draw_holder(problem, len(held), chance, themes))


def _constrain(problem: Json, chance: Chance, themes: Themes) -> None:
    devices = chance.pick(problem["claims"])["spec"]["devices"]
    devices.setdefault("constraints", []).append(draw_constraint(devices["requests"], chance, themes))


def _select_harder(problem: Json, chance: Chance, themes: Themes) -> None:
    selector = {"cel": {"expression": draw_selector(chance, themes - {"errors"})}}
    _pick_body(problem, chance).setdefault("selectors", []).append(selector)


def _withdraw_device(problem: Json, chance: Chance, themes: Themes) -> None:
    devices = _pick_devices(problem, chance)
    if len(devices) > 1:
        devices.remove(chance.pick(devices))


def _taint(problem: Json, chance: Chance, themes: Themes) -> None:
    devices = _pick_devices(problem, chance)
    if "taints" in themes and devices:
        chance.pick(devices).setdefault("taints", []).append(draw_taint(chance))


def _enlarge(problem: Json, chance: Chance, themes: Themes) -> None:
    if "shares" in themes:
        capacity = _pick_body(problem, chance).setdefault("capacity", {"requests": {}})
        capacity["requests"]["memory"] = chance.pick(("2Gi", "4Gi", "6Gi", "8Gi"))


def _want_less(problem: Json, chance: Chance, themes: Themes) -> None:
    body = _pick_body(problem, chance)
    if body["allocationMode"] == "All":
        body |= {"allocationMode": "ExactCount", "count": 1}
    body["count"] = max(1, body["count"] - 1)


def _want_fewer(problem: Json, chance: Chance, themes: Themes) -> None:
    if len(problem["claims"]) > 1 and chance.happens(0.6):
        problem["claims"].pop()
        return
    devices = chance.pick(problem["claims"])["spec"]["devices"]
    if len(devices["requests"]) > 1:
        name = devices["requests"].pop()["name"]
        named = [part for part in devices.get("constraints", []) + devices.get("config", []) if part.get("requests")]
        for part in named:
            part["requests"] = [other for other in part["requests"] if other.partition("/")[0] != name]


def _hold_less(problem: Json, chance: Chance, themes: Themes) -> None:
    if problem["allocatedClaims"]:
        problem["allocatedClaims"].remove(chance.pick(problem["allocatedClaims"]))


def _free(problem: Json, chance: Chance, themes: Themes) -> None:
    """Take a constraint away; attributes that requests compute need one to be named."""
    devices = chance.pick(problem["claims"])["spec"]["devices"]
    if len(devices.get("constraints", [])) > ("derived" in themes):
        devices["constraints"].pop(0)


def _select_easier(problem: Json, chance: Chance, themes: Themes) -> None:
    body = _pick_body(problem, chance)
    body.pop("selectors", None)
    if chance.happens(0.5):
        body["deviceClassName"] = "any"


def _publish_device(problem: Json, chance: Chance, themes: Themes) -> None:
    devices = _pick_devices(problem, chance)
    if not devices:
        return
    copied = _copy(chance.pick(devices))
    copied["name"] += f"-{len(devices)}"
    copied.pop("taints", None)
    devices.insert(chance.number(0, len(devices)), copied)


def _heal(problem: Json, chance: Chance, themes: Themes) -> None:
    for device in _pick_devices(problem, chance):
        device.pop("taints", None)
    problem.pop("taintRules", None)


def _tolerate(problem: Json, chance: Chance, themes: Themes) -> None:
    _pick_body(problem, chance)["tolerations"] = [{"operator": "Exists"}]


def _shrink_capacity(problem: Json, chance: Chance, themes: Themes) -> None:
    _pick_body(problem, chance).pop("capacity", None)


def _move_here(problem: Json, chance: Chance, themes: Themes) -> None:
    spec = chance.pick(problem["slices"])["spec"]
    if not spec.get("perDeviceNodeSelection"):
        for key in ("nodeSelector", "allNodes"):
            spec.pop(key, None)
        spec["nodeName"] = "node-0"


def _complete(problem: Json, chance: Chance, themes: Themes) -> None:
    """Let all slices of a pool be of its newest generation, and say how many there are."""
    made = chance.pick(problem["slices"])["spec"]
    pool = [
        other["spec"]["pool"]
        for other in problem["slices"]
        if (other["spec"]["driver"], other["spec"]["pool"]["name"]) == (made["driver"], made["pool"]["name"])
    ]
    newest = max(part["generation"] for part in pool)
    for part in pool:
        part |= {"generation": newest, "resourceSliceCount": len(pool)}


def _pick_body(problem: Json, chance: Chance) -> Json:
    body: Json = chance.pick(list_bodies(chance.pick(problem["claims"])))
    return body


def _pick_devices(problem: Json, chance: Chance) -> list[Json]:
    """Return the devices of some slice, if possible of the first driver, which most claims are about."""
    slices = [made["spec"] for made in problem["slices"] if made["spec"].get("devices")]
    first = [spec for spec in slices if spec["driver"] == DRIVERS[0]]
    devices: list[Json] = chance.pick(first or slices)["devices"] if slices else []
    return devices


_Change = Callable[[Json, Chance, Themes], None]
_HARDER: Final[tuple[_Change, ...]] = (
    _want_more, _want_more, _want_more, _want_another, _want_another, _hold_more, _hold_more, _constrain,
    _select_harder, _withdraw_device, _withdraw_device, _taint, _enlarge,
)  # fmt: skip
_EASIER: Final[tuple[_Change, ...]] = (
    _want_less, _want_less, _want_less, _want_fewer, _want_fewer, _complete, _hold_less, _hold_less, _free, _free,
    _select_easier, _select_easier, _publish_device, _publish_device, _heal, _tolerate, _shrink_capacity, _move_here,
)  # fmt: skip
