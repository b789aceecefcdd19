"""What random devices have: attributes, capacity with policies, taints, binding conditions."""

from __future__ import annotations

from typing import Any, Final

from tests.conformance.fuzz.themes import Themes
from tests.conformance.fuzz.words import ODD_AMOUNTS, Chance

__all__ = ["TAINT_KEYS", "draw_taint", "dress_device"]

Json = dict[str, Any]

TAINT_KEYS: Final = ("example.com/down", "example.com/kept")
_MODELS: Final = ("A100", "A100", "H100", "T4")
_ROOTS: Final = ("pci0000:00", "pci0000:00", "pci0000:80", "pci0000:c0")


def dress_device(device: Json, driver: str, place: int, chance: Chance, themes: Themes) -> None:
    """Give a device what its themes call for."""
    device["attributes"] = _draw_attributes(driver, place, chance, themes)
    shared = "shares" in themes and chance.happens(0.65)
    if shared:
        device["allowMultipleAllocations"] = True
    elif "shares" in themes and chance.happens(0.1):
        device["allowMultipleAllocations"] = False
    if capacity := _draw_capacity(chance, themes, shared=shared):
        device["capacity"] = capacity
    if "taints" in themes and chance.happens(0.4):
        device["taints"] = [draw_taint(chance) for _ in range(chance.weigh({1: 3, 2: 1}))]
    if "binding" in themes and chance.happens(0.4):
        device["bindingConditions"] = ["example.com/attached"]
        device["bindingFailureConditions"] = ["example.com/failed"]
    if "binding" in themes and chance.happens(0.3):
        device["bindsToNode"] = True


def _draw_attributes(driver: str, place: int, chance: Chance, themes: Themes) -> Json:
    drawn: Json = {
        "model": {"string": chance.pick(_MODELS)},
        "numa": {"int": chance.pick((0, 0, 1, 1, 2, -1))},
        "version": {"version": chance.pick(("1.2.3", "1.10.0", "2.0.0-rc.1", "2.0.0", "2.0.0+build"))},
        "healthy": {"bool": chance.happens(0.8)},
        "index": {"int": place},
        "mixed": chance.pick(({"int": 1}, {"string": "1"}, {"bool": True}, {"version": "1.0.0"})),
        "resource.kubernetes.io/pcieRoot": {"string": chance.pick(_ROOTS)},
    }
    if "lists" in themes:
        drawn |= {
            "peers": {"ints": chance.sample(range(4), chance.number(1, 3))},
            "modes": {"strings": chance.sample(("fast", "slow", "eco"), chance.number(1, 2))},
            "firmware": {"versions": chance.sample(("1.0.0", "1.1.0", "2.0.0"), 2)},
            "flags": {"bools": chance.sample((True, False), chance.number(1, 2))},
        }
        if chance.happens(0.4):
            drawn["resource.kubernetes.io/pcieRoot"] = {"strings": sorted(set(chance.sample(_ROOTS, 2)))}
    kept = chance.some(sorted(drawn), 0.8)
    return {(f"{driver}/{name}" if "/" not in name and chance.happens(0.1) else name): drawn[name] for name in kept}


def _draw_capacity(chance: Chance, themes: Themes, *, shared: bool) -> Json:
    capacity: Json = {}
    policies = shared and "policies" in themes
    if chance.happens(0.85):
        gib = chance.pick((4, 8, 10, 16))
        capacity["memory"] = {"value": f"{gib}Gi"}
        if policies and chance.happens(0.8):
            capacity["memory"]["requestPolicy"] = _draw_memory_policy(gib, chance)
    if chance.happens(0.6 if shared else 0.3):
        cores = chance.pick((1, 2, 4))
        capacity["cores"] = {"value": str(cores)}
        if policies and chance.happens(0.7):
            capacity["cores"]["requestPolicy"] = _draw_core_policy(cores, chance, themes)
    if chance.happens(0.1):
        capacity["other.example/bandwidth"] = {"value": chance.pick(("100G", "25G"))}
    if "odd" in themes and capacity and chance.happens(0.6):
        _make_odd(capacity, chance)
    return capacity


def _make_odd(capacity: Json, chance: Chance) -> None:
    """Put odd amounts in some places of a capacity."""
    entry = capacity[chance.pick(sorted(capacity))]
    policy = entry.get("requestPolicy", {})
    bounds = policy.get("validRange", {})
    places = [
        (entry, "value"),
        *((part, key) for part in (policy, bounds) for key in part if isinstance(part[key], str)),
    ]
    for part, key in chance.sample(places, chance.weigh({1: 3, 2: 1})):
        part[key] = chance.pick(ODD_AMOUNTS)


def _draw_memory_policy(gib: int, chance: Chance) -> Json:
    if chance.happens(0.35):
        values = sorted({1, 2, gib // 2, gib}) if chance.happens(0.7) else sorted({1, gib // 2})
        return {"default": f"{chance.pick(values)}Gi", "validValues": [f"{value}Gi" for value in values]}
    if chance.happens(0.2):
        return {"default": f"{chance.number(1, gib)}Gi"}
    low, step = chance.pick((1, 2)), chance.pick((1, 2, 3))
    steps = (gib - low) // step
    bounds = {"min": f"{low}Gi"}
    if chance.happens(0.6) and steps:
        bounds["max"] = f"{low + step * chance.number(1, steps)}Gi"
    if chance.happens(0.6) and steps:
        bounds["step"] = f"{step}Gi"
    return {"default": f"{low}Gi", "validRange": bounds}


def _draw_core_policy(cores: int, chance: Chance, themes: Themes) -> Json:
    if "fractions" in themes:
        step = chance.pick(("100m", "250m", "500m", "0.5"))
        bounds = {"min": step, "step": step} | ({"max": str(cores)} if chance.happens(0.5) else {})
        return {"default": chance.pick((step, "500m")), "validRange": bounds}
    if chance.happens(0.5):
        return {"default": "1", "validValues": [str(value) for value in range(1, cores + 1)]}
    return {"default": "1", "validRange": {"min": "1"} | ({"step": "1"} if chance.happens(0.5) else {})}


def draw_taint(chance: Chance) -> Json:
    """Return a taint of a device."""
    effect = chance.pick(("NoSchedule", "NoSchedule", "NoExecute", "None"))
    taint: Json = {"key": chance.pick(TAINT_KEYS), "effect": effect, "timeAdded": "2024-05-01T00:00:00Z"}
    return taint | ({"value": chance.pick(("x", "y"))} if chance.happens(0.7) else {})
