"""The stock of literals and devices that random expressions and problems are made of."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

__all__ = ["LITERALS", "ODD_AMOUNTS", "STRINGS", "Chance", "draw_device"]

Item = TypeVar("Item")

STRINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "plain": ("", "a", "A100", "H100", "model", "gpu.example.com", "  x ", "aXbXc", "ä€𝒳", "0", "true", "a/b",
        "%s-%d", "\\"),
    "number": ("0", "1", "-7", "+3", "1.5", "1e3", "0x1f", "9223372036854775807", "9223372036854775808", "nan",
        "-0", " 1"),
    "bool": ("true", "True", "TRUE", "t", "1", "false", "f", "no"),
    "quantity": ("0", "1", "10Gi", "9G", "1.5Gi", "500m", "-2k", "1e3", "100n", "2Ei", "8E", "3x", "1.", ".5",
        "1e-3", "1K"),
    "semver": ("1.2.3", "1.10.0", "2.0.0-rc.1", "2.0.0-rc.10", "2.0.0+b1", "v1.2.3", "1.2", "01.2.3", "1",
        "1.0.0-", "1.2.3-0"),
    "ip": ("10.0.0.1", "127.0.0.1", "::1", "fe80::1", "2001:DB8::1", "::ffff:1.2.3.4", "0.0.0.0", "224.0.0.1",
        "1.2.3", "::1%e"),
    "cidr": ("10.0.0.0/8", "10.1.2.3/16", "2001:db8::/32", "::1/128", "0.0.0.0/0", "10.0.0.0/33", "10.0.0.0",
        "::ffff:1.2.3.4/96"),
    "url": ("https://a.example:80/p%20q?x=1&x=2&y", "http://[::1]:8/", "/only/path", "a b", "ftp://u@h", "//h/p",
        "https://a/?%zz", ""),
    "regex": ("^a.*$", "[A-Z]+", "(a|b)*c", "\\\\d+", "(", "a{2,}", "(?i)h100", "", ".", "[^/]+$"),
    "duration": ("1s", "1h30m", "-5ms", "1.5h", "0", "1d", "290h", "1us", "100000000h"),
    "time": ("2024-02-29T12:30:00Z", "1970-01-01T00:00:00.5+02:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
        "2023-02-29T00:00:00Z", "x"),
    "zone": ("UTC", "Europe/Berlin", "+02:00", "-11:30", "America/New_York", "Nowhere", "01:00"),
    "format": ("dns1123Label", "uuid", "uri", "byte", "date", "labelValue", "nothing", "qualifiedName", "datetime"),
    "template": ("%s", "%d%%", "%.2f", "%x", "%b|%o", "%X %s", "%e", "%c", "no", "%", "%5d", "%s%s"),
}  # fmt: skip
"""Texts by what functions make of them; some are wrong on purpose."""

LITERALS: Final[Mapping[str, tuple[str, ...]]] = {
    "bool": ("true", "false"),
    "int": (
        "0",
        "1",
        "-1",
        "2",
        "3",
        "7",
        "10",
        "63",
        "500",
        "-9223372036854775808",
        "9223372036854775807",
        "0x10",
        "100000",
    ),
    "uint": ("0u", "1u", "2u", "7u", "18446744073709551615u", "0x1Fu"),
    "double": ("0.0", "1.0", "-1.5", "2.5e3", "1e308", "0.1", "-0.0", "9007199254740993.0", "1e19"),
    "bytes": ('b""', 'b"abc"', 'b"\\xff"', 'b"\\303\\244"'),
    "null_type": ("null",),
}
"""Source texts of constants, by type."""

ODD_AMOUNTS: Final = (
    "0", "1n", "1500u", "0.5", "1e3", "1E3", "100m", "999m", "8Ei", "9223372036854775807", "9223372036854775808", "12E",
    "3", "-1", "1.5Gi", "1024Mi",
)  # fmt: skip
"""Amounts at the borders of what upstream can compute with, or written in another way."""

_ATTRIBUTES: Final[Mapping[str, tuple[dict[str, Any], ...]]] = {
    "model": ({"string": "A100"}, {"string": "H100"}, {"string": ""}, {"string": "gpu/ä"}),
    "index": ({"int": 0}, {"int": 3}, {"int": -1}, {"int": 9223372036854775807}),
    "healthy": ({"bool": True}, {"bool": False}),
    "version": ({"version": "1.2.3"}, {"version": "2.0.0-rc.1+b"}, {"version": "10.0.0"}),
    "peers": ({"ints": [0, 1, 2]}, {"ints": [3]}, {"ints": [-1, 2, 2]}),
    "modes": ({"strings": ["fast", "eco"]}, {"strings": ["a"]}),
    "flags": ({"bools": [True, False]}, {"bools": [True]}),
    "firmware": ({"versions": ["1.0.0", "1.10.0"]},),
    "resource.kubernetes.io/pcieRoot": ({"string": "pci0000:00"}, {"strings": ["pci0000:00", "pci0000:40"]}),
    "other.example/kind": ({"string": "x"}, {"int": 5}),
}
_CAPACITY: Final = {
    "memory": ("80Gi", "40Gi", "1", "1500m", "0", "9007199254740993"),
    "cores": ("4", "500m", "108"),
    "other.example/bandwidth": ("100G", "25G"),
}


class Chance:
    """Draws from a seed; the same seed gives the same draws."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)

    def happens(self, share: float) -> bool:
        """Tell whether something happens that happens with this probability."""
        return self.random.random() < share

    def pick(self, items: Sequence[Item]) -> Item:
        """Return one of the items."""
        return items[self.random.randrange(len(items))]

    def weigh(self, weights: Mapping[Item, float]) -> Item:
        """Return one of the keys, by weight."""
        return self.random.choices(list(weights), weights=list(weights.values()))[0]

    def number(self, low: int, high: int) -> int:
        """Return an integer, both bounds included."""
        return self.random.randint(low, high)

    def some(self, items: Sequence[Item], share: float) -> list[Item]:
        """Return each item with a probability, in order."""
        return [item for item in items if self.happens(share)]

    def sample(self, items: Sequence[Item], count: int) -> list[Item]:
        """Return different items, as many as asked for or as there are."""
        return self.random.sample(list(items), min(count, len(items)))

    def shuffle(self, items: Sequence[Item]) -> list[Item]:
        """Return the items in another order."""
        return self.random.sample(list(items), len(items))


def draw_device(chance: Chance) -> dict[str, Any]:
    """Return a device, as JSON, with attributes and capacity of all types."""
    device: dict[str, Any] = {"name": "device"}
    if attributes := {name: chance.pick(values) for name, values in _ATTRIBUTES.items() if chance.happens(0.75)}:
        device["attributes"] = attributes
    if capacity := {name: {"value": chance.pick(values)} for name, values in _CAPACITY.items() if chance.happens(0.75)}:
        device["capacity"] = capacity
    if chance.happens(0.5):
        device["allowMultipleAllocations"] = chance.happens(0.7)
    return device
