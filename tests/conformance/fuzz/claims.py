"""Random classes, claims that hold devices, and claims that want some."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.conformance.fuzz.cluster import DRIVERS
from tests.conformance.fuzz.devices import TAINT_KEYS
from tests.conformance.fuzz.expressions import ExpressionMaker
from tests.conformance.fuzz.themes import Themes
from tests.conformance.fuzz.words import ODD_AMOUNTS, Chance

__all__ = ["draw_claim", "draw_classes", "draw_constraint", "draw_holder", "draw_selector", "list_bodies"]

Json = dict[str, Any]

_DERIVED: Final = "derived.example.com/group"
_COUNTS: Final = {1: 9, 2: 4, 3: 1, 5: 0.3, 20: 0.2, 33: 0.05}
_MANY: Final = {1: 3, 11: 1, 16: 3, 17: 3, 22: 1, 32: 1, 33: 0.3}
"""How many devices requests want, where few and where many are there."""
_FULL: Final = {31: 1, 32: 8, 33: 1}
"""How many devices claims want that are about as large as a claim can be."""
_AMOUNTS: Final[Mapping[str, Mapping[str, float]]] = {
    "memory": {"1Gi": 3, "2Gi": 4, "3Gi": 3, "4Gi": 3, "5Gi": 3, "8Gi": 1, "9Gi": 1, "4294967295": 1, "4294967297": 1},
    "cores": {"1": 3, "2": 3, "500m": 2, "750m": 3, "300m": 3, "250m": 1, "999m": 0.5, "1000000001n": 0.5},
}
"""How much requests want of a capacity: most of it divides what devices have, or just doesn't."""
_HELD: Final = {
    "memory": ("1Gi", "2Gi", "4Gi", "500Mi", "4294967295", "4294967297"),
    "cores": ("500m", "1", "1", "250m", "999999999n"),
}
"""How much of a capacity claims hold."""
_ATTRIBUTES: Final = ("numa", "model", "index", "version", "healthy", "mixed", "missing")
_LISTS: Final = ("peers", "modes", "firmware", "flags")


def draw_classes(chance: Chance, themes: Themes) -> list[Json]:
    """Return the classes that requests name."""
    gpu = DRIVERS[0]
    selectors = {
        "any": [],
        "gpu": [f'device.driver == "{gpu}"'],
        "nic": [f'device.driver == "{DRIVERS[1]}"'],
        "a100": [f'device.driver == "{gpu}"', f'device.attributes["{gpu}"].?model.orValue("") == "A100"'],
    }
    return [_build_class(name, texts, chance, themes) for name, texts in selectors.items()]


def _build_class(name: str, texts: list[str], chance: Chance, themes: Themes) -> Json:
    spec: Json = {"selectors": _select(*texts)} if texts else {}
    if "config" in themes and chance.happens(0.5):
        spec["config"] = [_configure(name, n) for n in range(chance.number(1, 2))]
    return {"metadata": {"name": name}, "spec": spec}


def _configure(name: str, number: int) -> Json:
    return {"opaque": {"driver": DRIVERS[0], "parameters": {"of": name, "number": number}}}


def _select(*texts: str) -> list[Json]:
    return [{"cel": {"expression": text}} for text in texts]


def draw_selector(chance: Chance, themes: Themes) -> str:
    """Return a selector; most can be evaluated on every device."""
    driver = chance.pick((*DRIVERS[:1], *DRIVERS))
    base, model, number = f'device.attributes["{driver}"]', chance.pick(("A100", "H100", "T4")), chance.number(0, 3)
    texts = [
        f'{base}.?model.orValue("") == "{model}"',
        f"{base}.?numa.orValue({number}) == {number}",
        f"{base}.?index.orValue(0) >= {number}",
        f"has({base}.healthy) && {base}.healthy",
        f'has({base}.version) && {base}.version.compareTo(semver("2.0.0-rc.1")) {chance.pick(("<", ">=", "=="))} 0',
        f'has(device.capacity["{driver}"].memory) && '
        f'device.capacity["{driver}"].memory.compareTo(quantity("{chance.pick(("8Gi", "10Gi"))}")) >= 0',
        f'device.driver != "{driver}"',
        f'cel.bind(a, {base}, "model" in a && a.model in ["{model}", "A100"])',
        'device.attributes["resource.kubernetes.io"].?pcieRoot.hasValue()',
        f"!has({base}.mixed) || type({base}.mixed) == {chance.pick(('int', 'string'))}",
    ]
    if "shares" in themes:
        texts += ["device.allowMultipleAllocations", "!device.allowMultipleAllocations"]
    if "lists" in themes:
        texts += [
            f"has({base}.peers) && {number} in {base}.peers",
            f'has({base}.modes) && {base}.modes.includes("fast")',
        ]
    if "errors" in themes and chance.happens(0.5):
        texts = [
            f"{base}.missing == 1",
            f"{base}.model > 3",
            "device.nope",
            "1 + 1",
            f"{base}.numa ==",
            f"{base}.healthy",
        ]
        texts.append(ExpressionMaker(chance, depth=2).make_bool())
    return chance.pick(texts)


def draw_holder(problem: Json, number: int, chance: Chance, themes: Themes) -> Json:
    """Return a claim that holds devices of the problem, some of them shares, some no longer published."""
    places = [(made["spec"], device) for made in problem["slices"] for device in made["spec"].get("devices", [])]
    results: list[Json] = []
    for spec, device in chance.sample(places, chance.weigh({1: 5, 2: 3, 3: 1})):
        name = "vanished-0" if "vanished" in themes and chance.happens(0.4) else device["name"]
        result: Json = {"request": "r0", "driver": spec["driver"], "pool": spec["pool"]["name"], "device": name}
        if (device.get("allowMultipleAllocations") and chance.happens(0.9)) or chance.happens(0.02):
            result["shareID"] = f"5a5a5a5a-0000-4000-8000-{number:06d}{len(results):06d}"
            consumed = {key: chance.pick(_HELD.get(key, ("1G",))) for key in device.get("capacity", {})}
            if consumed and chance.happens(0.9):
                result["consumedCapacity"] = consumed
            if "odd" in themes and consumed and chance.happens(0.3):
                consumed[chance.pick(sorted(consumed))] = chance.pick(ODD_AMOUNTS)
        if "admin" in themes and chance.happens(0.3):
            result["adminAccess"] = True
        results.append(result)
    request = {
        "name": "r0",
        "exactly": {"deviceClassName": "any", "allocationMode": "ExactCount", "count": len(results) or 1},
    }
    return {
        **_name_claim(f"holder-{number}", 100 + number),
        "spec": {"devices": {"requests": [request]}},
        "status": {"allocation": {"devices": {"results": results}}},
    }


def _name_claim(name: str, number: int) -> Json:
    uid = f"c1a1c1a1-0000-4000-8000-{number:012d}"
    return {"metadata": {"name": name, "namespace": "default", "uid": uid}}


def draw_claim(number: int, chance: Chance, themes: Themes) -> Json:
    """Return a claim that wants devices."""
    if "limit" in themes and chance.happens(0.7):
        requests = _draw_full_requests(chance, themes)
    else:
        count = chance.weigh({2: 3, 3: 3, 4: 1} if "deep" in themes else {1: 5, 2: 4, 3: 2, 4: 1})
        requests = [_draw_request(f"r{place}", chance, themes) for place in range(count)]
    devices: Json = {"requests": requests}
    claim = {**_name_claim(f"claim-{number}", number), "spec": {"devices": devices}}
    if "constraints" in themes:
        constraints = [draw_constraint(requests, chance, themes) for _ in range(chance.weigh({0: 2, 1: 5, 2: 2}))]
        devices |= {"constraints": constraints} if constraints else {}
    if "derived" in themes:
        _derive(devices, chance)
    if "config" in themes and chance.happens(0.7):
        names = _list_names(requests)
        configs = [_configure("claim", place) for place in range(chance.number(1, 3))]
        for config in configs:
            config |= {"requests": chance.sample(names, chance.number(1, len(names)))} if chance.happens(0.7) else {}
        devices["config"] = configs
    return claim


def _draw_full_requests(chance: Chance, themes: Themes) -> list[Json]:
    """Return one to four requests that together want about as many devices as a claim can hold.

    Alternatives that want more than the last of them bring the claim above the limit, which is no error.
    """
    way = chance.weigh({"exact": 3, "alternatives": 5 if "alternatives" in themes else 0.5, "all": 1})
    left, requests = chance.weigh(_FULL), list[Json]()
    while left:
        count = left if len(requests) == 3 else chance.number(1, left)
        left -= count
        exact = {"deviceClassName": chance.pick(("any", "any", "gpu")), "allocationMode": "ExactCount", "count": count}
        request: Json = {"name": f"r{len(requests)}"}
        if way == "alternatives" and chance.happens(0.6):
            more = exact | {"count": count + chance.weigh({1: 4, 2: 1, 3: 1})}
            subs = [more, exact] if chance.happens(0.8) else [more]
            request["firstAvailable"] = [{"name": f"s{place}", **sub} for place, sub in enumerate(subs)]
        elif way == "all" and chance.happens(0.5):
            request["exactly"] = {"deviceClassName": chance.pick(("any", "gpu")), "allocationMode": "All"}
            left = min(left, chance.weigh({0: 6, 1: 1}))
        else:
            request["exactly"] = exact
        requests.append(request)
    return requests


def _list_names(requests: list[Json]) -> list[str]:
    """Return all names that constraints and configurations can use."""
    subs = [f"{request['name']}/{sub['name']}" for request in requests for sub in request.get("firstAvailable", [])]
    return [request["name"] for request in requests] + subs


def list_bodies(claim: Json) -> list[Json]:
    """Return the requests and sub-requests of a claim, without their outer parts."""
    requests = claim["spec"]["devices"]["requests"]
    return [body for request in requests for body in request.get("firstAvailable", [request.get("exactly")])]


def _draw_request(name: str, chance: Chance, themes: Themes) -> Json:
    if "alternatives" in themes and chance.happens(0.6):
        subs = [
            {"name": f"s{place}", **_draw_body(chance, themes)} for place in range(chance.weigh({1: 1, 2: 4, 3: 2}))
        ]
        return {"name": name, "firstAvailable": subs}
    body = _draw_body(chance, themes)
    if "admin" in themes and chance.happens(0.35):
        body["adminAccess"] = chance.happens(0.9)
    return {"name": name, "exactly": body}


def _draw_body(chance: Chance, themes: Themes) -> Json:
    body: Json = {"deviceClassName": chance.weigh({"gpu": 6, "any": 7, "nic": 0.5, "a100": 1})}
    if "errors" in themes and chance.happens(0.08):
        body["deviceClassName"] = "no-such-class"
    if "all" in themes and chance.happens(0.3):
        body["allocationMode"] = "All"
    else:
        counts = _MANY if "many" in themes else _COUNTS
        body |= {"allocationMode": "ExactCount", "count": chance.weigh(counts)}
    if "selectors" in themes and chance.happens(0.2 if "deep" in themes else 0.4):
        body["selectors"] = _select(*(draw_selector(chance, themes) for _ in range(chance.weigh({1: 4, 2: 1}))))
    if "taints" in themes or "rules" in themes:
        tolerations = [_draw_toleration(chance) for _ in range(chance.weigh({0: 3, 1: 3, 2: 1}))]
        body |= {"tolerations": tolerations} if tolerations else {}
    if "shares" in themes and chance.happens(0.5):
        asked = chance.some(sorted(_AMOUNTS), 0.6) + (["missing"] if chance.happens(0.03) else [])
        requests = {key: chance.weigh(_AMOUNTS[key]) if key in _AMOUNTS else "1" for key in asked}
        if "odd" in themes and requests and chance.happens(0.5):
            requests[chance.pick(asked)] = chance.pick(ODD_AMOUNTS)
        body["capacity"] = {"requests": requests}
    return body


def _draw_toleration(chance: Chance) -> Json:
    toleration: Json = {"operator": "Exists"}
    if chance.happens(0.8):
        toleration["key"] = chance.pick(TAINT_KEYS)
        if chance.happens(0.6):
            toleration |= {"operator": "Equal", "value": chance.pick(("x", "y"))}
    if chance.happens(0.4):
        toleration["effect"] = chance.pick(("NoSchedule", "NoExecute"))
    return toleration


def draw_constraint(requests: list[Json], chance: Chance, themes: Themes) -> Json:
    """Return a constraint of a claim."""
    kind = "distinctAttribute" if "shares" in themes and chance.happens(0.35) else "matchAttribute"
    names = _ATTRIBUTES + (_LISTS if "lists" in themes else ())
    attribute = f"{chance.pick((*DRIVERS[:1], *DRIVERS))}/{chance.pick(names)}"
    if chance.happens(0.3):
        attribute = "resource.kubernetes.io/pcieRoot"
    constraint: Json = {kind: attribute}
    named = _list_names(requests)
    return constraint | (
        {"requests": chance.sample(named, chance.number(1, len(named)))} if chance.happens(0.5) else {}
    )


def _derive(devices: Json, chance: Chance) -> None:
    """Let a constraint be about an attribute that requests compute."""
    base = f'device.attributes["{DRIVERS[0]}"]'
    texts = [
        f"{base}.?numa.orValue(7) / 2", f'{base}.?model.orValue("") == "A100"', f'{base}.?model.orValue("none")',
        f'{base}.?peers.orValue([])', f'[{base}.?numa.orValue(0), 9]', f"{base}.?version.orValue(semver(\"0.0.1\"))",
        f"{base}.numa", f"{base}.missing", "device.driver", "device.driver ==",
    ]  # fmt: skip
    weights = dict(zip(texts, (4, 3, 3, 2, 2, 1, 1, 0.2, 1, 0.1), strict=True))
    name = chance.weigh({_DERIVED: 4, f"{DRIVERS[0]}/numa": 1})
    for body in [
        body for request in devices["requests"] for body in request.get("firstAvailable", [request.get("exactly")])
    ]:
        if chance.happens(0.8):
            body["derivedAttributes"] = [{"name": name, "expression": chance.weigh(weights)}]
    kind = chance.weigh({"matchAttribute": 3, "distinctAttribute": 1})
    devices.setdefault("constraints", []).append({kind: name})
