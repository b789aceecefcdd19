"""Random nodes and pools: slices with devices, counters, taints, capacity, and things that are wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

from tests.conformance.fuzz.devices import dress_device
from tests.conformance.fuzz.themes import Themes
from tests.conformance.fuzz.words import Chance

__all__ = ["DRIVERS", "Json", "draw_nodes", "draw_pool", "draw_selection"]

Json = dict[str, Any]

DRIVERS: Final = ("gpu.example.com", "nic.example.com", "a.example")
_POOL_NAMES: Final = ("node-0", "pool-b", "pool-a", "fabric/x", "node-1")
_LETTERS: Final = ("0", "1", "9", "a", "b", "m", "z")


def draw_nodes(chance: Chance) -> list[Json]:
    """Return one to three nodes with labels and features."""
    nodes = []
    for number in range(chance.weigh({1: 6, 2: 2, 3: 1})):
        labels = {"zone": chance.pick(("a", "a", "b")), "rank": str(number + 1)} | (
            {"gpu": "yes"} if chance.happens(0.5) else {}
        )
        node: Json = {"metadata": {"name": f"node-{number}", "labels": labels}}
        if chance.happens(0.7):
            node["status"] = {"declaredFeatures": ["DRAOptionalNodeOperations"]}
        nodes.append(node)
    return nodes


def draw_selection(chance: Chance, *, ours: float = 0.95) -> Json:
    """Return what says for which nodes a slice or a device is.

    Args:
        ours: Probability that it is meant for the first node.
    """
    if not chance.happens(ours):
        return chance.pick(({"nodeName": "node-1"}, {"nodeName": "node-9"}, _select("zone", "In", "c")))
    ways: dict[str, Json] = {
        "name": {"nodeName": "node-0"},
        "all": {"allNodes": True},
        "selector": _draw_selector(chance),
    }
    return ways[chance.weigh({"name": 6, "all": 2, "selector": 3})]


def _draw_selector(chance: Chance) -> Json:
    made = chance.pick(
        (
            _select("zone", "In", "a", "b"),
            _select("zone", "In", "b", "a"),
            _select("zone", "NotIn", "b"),
            _select("rank", "Gt", "0"),
            _select("rank", "Lt", "2"),
            _select("gpu", "Exists"),
            _select("absent", "DoesNotExist"),
        )
    )
    if chance.happens(0.2):
        field = {"key": "metadata.name", "operator": chance.pick(("In", "In", "NotIn")), "values": ["node-0"]}
        made["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"] = [field]
    return made


def _select(key: str, operator: str, *values: str) -> Json:
    expression: Json = {"key": key, "operator": operator} | ({"values": list(values)} if values else {})
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


@dataclass(slots=True, kw_only=True)
class _Pool:
    """A pool that is being made."""

    chance: Chance
    themes: Themes
    driver: str
    name: str
    generation: int
    slices: list[Json] = field(default_factory=list)

    def add(self, spec: Json, *, generation: int | None = None, count: int = 0) -> Json:
        """Add a slice; its name says nothing about its place in the list."""
        pool = {"name": self.name, "generation": self.generation if generation is None else generation}
        name = f"{self.chance.pick(_LETTERS)}{len(self.slices)}-{self.name.replace('/', '-')}-{self.driver}"
        made = {"metadata": {"name": name}, "spec": {"driver": self.driver, "pool": pool, **deepcopy(spec)}}
        pool["resourceSliceCount"] = count
        self.slices.append(made)
        return made


def draw_pool(chance: Chance, themes: Themes, number: int) -> list[Json]:
    """Return the slices of one pool."""
    driver = DRIVERS[0] if number == 0 else chance.pick(DRIVERS)
    pool = _Pool(
        chance=chance,
        themes=themes,
        driver=driver,
        name=_POOL_NAMES[number] if chance.happens(0.7) else f"pool-{number}",
        generation=chance.pick((0, 1, 1, 7)),
    )
    sets, devices = _draw_devices(chance, themes)
    for place, device in enumerate(devices):
        dress_device(device, driver, place, chance, themes)
    _publish(pool, sets, devices)
    if "blemishes" in themes and chance.happens(0.6):
        for blemish in chance.sample(_BLEMISHES, chance.weigh({1: 5, 2: 1})):
            blemish(pool)
    return chance.shuffle(pool.slices)


def _publish(pool: _Pool, sets: list[Json], devices: list[Json]) -> None:
    """Spread devices and counter sets over slices."""
    chance = pool.chance
    by_device = "by-device" in pool.themes and chance.happens(0.6)
    common: Json = {"perDeviceNodeSelection": True} if by_device else draw_selection(chance)
    if by_device:
        for device in devices:
            device.update(draw_selection(chance))
    if "operations" in pool.themes and chance.happens(0.7):
        common["skipNodeOperations"] = chance.pick((["*"], ["NodePrepareResources", "NodeUnprepareResources"]))
    for part in _split(devices, chance):
        mixed = not by_device and chance.happens(0.12)
        pool.add({**(draw_selection(chance) if mixed else common), "devices": part})
    for part in _split(sets, chance):
        where = common if not by_device or chance.happens(0.5) else draw_selection(chance)
        if chance.happens(0.15):
            where = {"nodeName": "node-9"}
        pool.add(
            {**{key: value for key, value in where.items() if key != "skipNodeOperations"}, "sharedCounters": part}
        )
    for made in pool.slices:
        made["spec"]["pool"]["resourceSliceCount"] = len(pool.slices)
        if "odd" in pool.themes and chance.happens(0.15):
            _make_selection_odd(made["spec"], chance)


def _make_selection_odd(spec: Json, chance: Chance) -> None:
    """Let a slice name its nodes in a way that can't be read, or that no allocation can repeat."""
    wrong = {"key": "rank", "operator": "Gt", "values": [chance.pick(("x", "1.5", "0", "-1", "+0", "01"))]}
    terms = [{"matchExpressions": [chance.pick((wrong, {"key": "zone", "operator": "In", "values": ["a"]}))]}]
    if chance.happens(0.3):
        terms.append(chance.pick(({}, {"matchExpressions": [{"key": "zone", "operator": "Exists"}]})))
    for key in ("nodeName", "allNodes", "perDeviceNodeSelection"):
        spec.pop(key, None)
    spec["nodeSelector"] = {"nodeSelectorTerms": terms}


def _split(items: list[Json], chance: Chance) -> Iterator[list[Json]]:
    """Yield the items in one to three parts; no part for no items."""
    cuts = sorted(chance.number(1, len(items)) for _ in range(chance.weigh({0: 6, 1: 3, 2: 1}))) if items else []
    for start, end in zip([0, *cuts], [*cuts, len(items)], strict=True):
        if start < end:
            yield items[start:end]


def _draw_devices(chance: Chance, themes: Themes) -> tuple[list[Json], list[Json]]:
    """Return counter sets and devices."""
    if "counters" in themes and chance.happens(0.25 if "limit" in themes else 0.75):
        sets, devices = chance.pick((_draw_ranges, _draw_amounts, _draw_two_sets))(chance, themes)
        plain = [{"name": f"whole-{place}"} for place in range(chance.weigh({0: 5, 1: 2, 2: 1}))]
        return sets, devices + plain
    count = chance.number(2, 8)
    if {"many", "limit"} & themes:
        count = chance.pick((32, 32, 33, 33, 34, 36) if "limit" in themes else (20, 33, 40))
    return [], [{"name": f"dev-{place}"} for place in range(count)]


def _draw_ranges(chance: Chance, themes: Themes) -> tuple[list[Json], list[Json]]:
    """Cards with a row of slots; each device covers some slots in a row, as MIG does."""
    sets, devices = [], []
    for card in range(chance.pick((1, 1, 2))):
        slots = chance.pick((2, 3, 4, 7))
        counters = {f"slot-{slot}": {"value": "1"} for slot in range(slots)} | {"engines": {"value": str(slots)}}
        sets.append({"name": f"card-{card}", "counters": counters})
        ranges = [(start, length) for length in (slots, 2, 1) for start in range(0, slots - length + 1, length)]
        for start, length in chance.some(ranges, 0.8) or ranges[:1]:
            taken = {f"slot-{slot}": {"value": "1"} for slot in range(start, start + length)}
            taken["engines"] = {"value": str(max(1, length - (length > 2)))}
            entry = {"counterSet": f"card-{card}", "counters": taken, **_draw_groups(chance, themes)}
            devices.append({"name": f"c{card}-s{start}-{length}", "consumesCounters": [entry]})
    return sets, chance.shuffle(devices) if chance.happens(0.5) else devices


def _draw_amounts(chance: Chance, themes: Themes) -> tuple[list[Json], list[Json]]:
    """One memory that partitions of odd sizes share, with fractions."""
    counters = {
        "memory": {"value": chance.pick(("16Gi", "24Gi", "17179869184"))},
        "share": {"value": chance.pick(("1", "2", "1500m"))},
    }
    devices = []
    for place in range(chance.number(2, 7)):
        taken = {"memory": {"value": chance.pick(("4Gi", "8Gi", "8Gi", "12Gi", "16Gi", "4000000000"))}}
        if chance.happens(0.7):
            taken["share"] = {"value": chance.pick(("250m", "0.5", "500m", "1", "0", "100n"))}
        entry = {"counterSet": "memory", "counters": taken, **_draw_groups(chance, themes)}
        devices.append({"name": f"part-{place}", "consumesCounters": [entry]})
    return [{"name": "memory", "counters": counters}], devices


def _draw_two_sets(chance: Chance, themes: Themes) -> tuple[list[Json], list[Json]]:
    """Devices that draw from a card of their own and from a link that all share."""
    sets = [
        {"name": f"card-{card}", "counters": {"units": {"value": chance.pick(("2", "3", "4"))}}} for card in range(2)
    ]
    sets.append({"name": "link", "counters": {"lanes": {"value": chance.pick(("1", "2", "4"))}}})
    devices = []
    for place in range(chance.number(2, 6)):
        card = {"counterSet": f"card-{place % 2}", "counters": {"units": {"value": chance.pick(("1", "1", "2", "3"))}}}
        entries = [card | _draw_groups(chance, themes)]
        if chance.happens(0.6):
            link = {"counterSet": "link", "counters": {"lanes": {"value": "1"}}} | _draw_groups(chance, themes)
            entries.insert(chance.number(0, 1), link)
        devices.append({"name": f"v-{place}", "consumesCounters": entries})
    return sets, devices


def _draw_groups(chance: Chance, themes: Themes) -> Json:
    if "groups" not in themes:
        return {}
    groups = chance.pick(((), ("x",), ("x",), ("y",), ("x", "y"), ("y", "z")))
    return {"compatibilityGroups": list(groups)} if groups else {}


def _add_older(pool: _Pool) -> None:
    devices = [{"name": f"old-{place}"} for place in range(pool.chance.number(1, 2))]
    generation = max(0, pool.generation - 1)
    pool.add({**draw_selection(pool.chance), "devices": devices}, generation=generation, count=1)


def _add_newer(pool: _Pool) -> None:
    where = draw_selection(pool.chance, ours=0.4)
    pool.add(
        {**where, "devices": [{"name": "new-0"}]}, generation=pool.generation + 1, count=pool.chance.pick((1, 1, 2))
    )


def _miscount(pool: _Pool) -> None:
    count = pool.chance.pick(pool.slices)["spec"]["pool"]
    count["resourceSliceCount"] = max(1, count["resourceSliceCount"] + pool.chance.pick((-1, 1)))


def _lose(pool: _Pool) -> None:
    if len(pool.slices) > 1:
        pool.slices.remove(pool.chance.pick(pool.slices))


def _repeat_device(pool: _Pool) -> None:
    holders = [made["spec"]["devices"] for made in pool.slices if made["spec"].get("devices")]
    if holders:
        copied = deepcopy(pool.chance.pick(pool.chance.pick(holders)))
        pool.chance.pick(holders).append(copied)


def _repeat_set(pool: _Pool) -> None:
    holders = [made["spec"]["sharedCounters"] for made in pool.slices if made["spec"].get("sharedCounters")]
    if holders:
        pool.chance.pick(holders).append(deepcopy(pool.chance.pick(holders)[0]))


def _name_unknown(pool: _Pool) -> None:
    devices = [device for made in pool.slices for device in made["spec"].get("devices", [])]
    entries = [entry for device in devices for entry in device.get("consumesCounters", [])]
    if entries:
        entry = pool.chance.pick(entries)
        if pool.chance.happens(0.5):
            entry["counterSet"] = "no-such-set"
        else:
            entry["counters"]["no-such-counter"] = {"value": "1"}


def _deselect(pool: _Pool) -> None:
    spec = pool.chance.pick(pool.slices)["spec"]
    for key in ("nodeName", "allNodes", "nodeSelector", "perDeviceNodeSelection"):
        spec.pop(key, None)


_BLEMISHES: Final[tuple[Callable[[_Pool], None], ...]] = (
    _add_older, _add_older, _add_newer, _add_newer, _miscount, _miscount, _lose, _lose, _repeat_device, _repeat_set,
    _name_unknown, _deselect,
)  # fmt: skip
