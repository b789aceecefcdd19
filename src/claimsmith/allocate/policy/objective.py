"""What makes one allocation better than another: policies by name, their terms in order, and what a device is worth.

A policy is a value. `policy.placing` ranks nodes by it, the joint allocation makes its objective of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from claimsmith.allocate.prepared.records import DeviceRecord
from claimsmith.errors import FieldError

__all__ = [
    "FGD",
    "FIRST",
    "FRAGMENTATION",
    "PACK",
    "POLICIES",
    "SPREAD",
    "DeviceScale",
    "Policy",
    "Term",
    "find_policy",
]

Term = Literal["rank", "waste", "fragmentation", "pack", "tightness", "spread", "closeness", "gradient"]
"""What a policy looks at.

rank: the place of the chosen alternative in its firstAvailable list. waste: the price of the devices taken.
fragmentation: how much less of the demand fits into what is left. pack: nodes that were idle before. tightness: what
is left of the node. spread: how full the node is. closeness: devices of one claim that differ in `numaNode` or
`pcieRoot`. gradient: the coarse score of FGD, to compare with.
"""

TERMS: Final[tuple[str, ...]] = get_args(Term)
PRICE_UNIT: Final = 1000
"""Price of the largest device of a driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What counts, the most important first.

    Args:
        terms: Lexicographic: a later one decides only where all earlier ones are equal.
        weights: When there are any, the weighted terms are one level, in the place of the first of them: the sum of
            each term times its weight; > 0.

    Raises:
        FieldError: A term is not known or stands twice, or a weight is not positive or is for a term that is not
            there.
    """

    name: str
    terms: tuple[Term, ...]
    weights: tuple[tuple[Term, int], ...] = ()

    def __post_init__(self) -> None:
        path, hint = f"policy {self.name!r}", "correct the policy"
        for place, term in enumerate(self.terms):
            if term not in TERMS or term in self.terms[:place]:
                raise FieldError(f"{path}: terms", term, allowed=f"each of {', '.join(TERMS)} once", hint=hint)
        for term, weight in self.weights:
            if term not in self.terms or weight <= 0:
                allowed = f"weights > 0 of {', '.join(self.terms)}"
                raise FieldError(f"{path}: weights", f"{term}={weight}", allowed=allowed, hint=hint)

    def price_device(self, record: DeviceRecord, scale: DeviceScale) -> int:
        """Return what taking the whole device costs: 1000 for the largest one of its driver, less for smaller ones.

        Args:
            scale: The largest amounts that the cluster's devices have.
        """
        return scale.price(record)

    def levels(self) -> tuple[tuple[tuple[Term, int], ...], ...]:
        """Return the terms with their weights, level by level: a level is a sum, levels are lexicographic."""
        weighted = dict(self.weights)
        levels = [self.weights if term in weighted else ((term, 1),) for term in self.terms]
        return tuple(dict.fromkeys(levels))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceScale:
    """The largest amount of each capacity and counter that a device of each driver has or takes, in nano units."""

    largest: Mapping[tuple[str, str], int]

    @classmethod
    def of(cls, records: Iterable[DeviceRecord]) -> DeviceScale:
        """Return the scale of the devices."""
        largest: dict[tuple[str, str], int] = {}
        for record in records:
            for name, nanos in _measure(record).items():
                key = (record.id.driver, name)
                largest[key] = max(largest.get(key, 0), nanos)
        return cls(largest=largest)

    def price(self, record: DeviceRecord) -> int:
        """Return the device's size in thousandths of the largest: the mean over its capacities and counters.

        A device without any is as dear as the largest, so that devices which say nothing of their size are equal.
        """
        driver, sizes = record.id.driver, _measure(record)
        shares = [
            PRICE_UNIT * nanos // largest
            for name, nanos in sizes.items()
            if (largest := self.largest.get((driver, name), 0)) > 0
        ]
        return sum(shares) // len(shares) if shares else PRICE_UNIT


def _measure(record: DeviceRecord) -> dict[str, int]:
    """The device's capacities and what it takes from counters, by name; equal counters of several sets are summed."""
    sizes = {name: capacity.value.nanos for name, capacity in record.device.capacity.items()}
    for counter, nanos in record.consumption:
        name = f"counter {counter.counter}"
        sizes[name] = sizes.get(name, 0) + nanos
    return sizes


FIRST: Final = Policy(name="first", terms=("rank",))
"""The first node that fits, and on it the first devices, as upstream."""
PACK: Final = Policy(name="pack", terms=("rank", "waste", "pack", "tightness", "closeness"))
SPREAD: Final = Policy(name="spread", terms=("rank", "waste", "spread", "closeness"))
FRAGMENTATION: Final = Policy(name="fragmentation", terms=("rank", "waste", "fragmentation", "pack", "closeness"))
FGD: Final = Policy(name="fgd", terms=("rank", "gradient"))
"""Fragmentation gradient descent as published: coarse scores, equal nodes in order of name."""
POLICIES: Final[Mapping[str, Policy]] = {policy.name: policy for policy in (FIRST, PACK, SPREAD, FRAGMENTATION, FGD)}


def find_policy(name: str) -> Policy | None:
    """Return the policy of that name; None when there is none."""
    return POLICIES.get(name)
