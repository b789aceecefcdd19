"""Which parts of Dynamic Resource Allocation a problem is about, and which gates are on."""

from __future__ import annotations

from typing import Final

from claimsmith.model.features import Features, find_release_features
from tests.conformance.fuzz.words import Chance

__all__ = ["GATES", "Themes", "draw_features", "draw_themes"]

GATES: Final = tuple(Features().gates())
_NEEDS: Final = {"FractionalCapacityRange": "ConsumableCapacity", "CompatibilityGroups": "PartitionableDevices"}
_RELEASES: Final = ("1.34", "1.35", "1.36", "1.37")
_SETS: Final = {
    "all": frozenset(GATES),
    "default": frozenset(gate for gate, on in Features(fractional_capacity_range=True).gates().items() if on),
    "stable": frozenset({"AdminAccess", "PrioritizedList", "PartitionableDevices", "DeviceTaints"}),
    "none": frozenset[str](),
}

Themes = frozenset[str]
"""Names of what a problem is about."""

_THEMES: Final = {
    "taints": (0.4, "DeviceTaints"), "rules": (0.15, "DeviceTaints"), "counters": (0.45, "PartitionableDevices"),
    "by-device": (0.2, "PartitionableDevices"), "shares": (0.45, "ConsumableCapacity"),
    "policies": (0.7, "ConsumableCapacity"), "fractions": (0.5, "FractionalCapacityRange"),
    "binding": (0.2, "DeviceBindingAndStatus"), "lists": (0.4, "ListTypeAttributes"),
    "groups": (0.45, "CompatibilityGroups"),
    "derived": (0.35, "DerivedAttributes"), "operations": (0.25, "OptionalNodeOperations"),
    "alternatives": (0.45, "PrioritizedList"), "admin": (0.25, "AdminAccess"), "constraints": (0.5, ""),
    "all": (0.3, ""),
    "held": (0.55, ""), "vanished": (0.12, ""), "config": (0.2, ""), "blemishes": (0.25, ""), "errors": (0.06, ""),
    "odd": (0.12, ""),
    "many": (0.03, ""), "limit": (0.07, ""), "deep": (0.2, ""), "selectors": (0.7, ""),
}  # fmt: skip
"""How often a theme is taken up, and the gate without which it is rare."""
_RARELY: Final = 0.15
_AMISS: Final = frozenset({"all", "blemishes", "errors", "constraints"})
"""What would hardly let a claim be served that is as large as can be."""


def draw_features(chance: Chance) -> tuple[str | dict[str, bool], frozenset[str]]:
    """Return gates as a record has them, and the names of those that are on."""
    way = chance.weigh(
        {"all": 32, "default": 20, "release": 8, "stable": 6, "none": 3, "without": 12, "only": 5, "some": 14}
    )
    if way in _SETS:
        return way, _SETS[way]
    if way == "release":
        features = find_release_features(chance.pick(_RELEASES)) or Features()
        return features.gates(), frozenset(gate for gate, on in features.gates().items() if on)
    if way == "without":
        on = set(GATES) - {chance.pick(GATES)}
    elif way == "only":
        on = {chance.pick(GATES)}
    else:
        on = set(chance.some(GATES, 0.6))
    on -= {gate for gate, needed in _NEEDS.items() if needed not in on}
    return {gate: gate in on for gate in GATES}, frozenset(on)


def draw_themes(chance: Chance, on: frozenset[str]) -> Themes:
    """Return what a problem is about; what needs a gate that is off comes up rarely."""
    themes = frozenset(
        theme
        for theme, (share, gate) in _THEMES.items()
        if chance.happens(share if not gate or gate in on else share * _RARELY)
    )
    return themes - _AMISS if "limit" in themes else themes
