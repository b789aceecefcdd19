"""Requests for parts of boards that come and go: which sizes, how often, and for how long.

Requests arrive as a Poisson process and stay for exponentially distributed times, 1 on average. The rate is such that
what is offered, in compute slices, is a given share of what all boards have.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from claimsmith.errors import FieldError

__all__ = ["BOARD_SLICES", "MIXES", "PROFILES", "Arrival", "Mix", "draw_arrivals", "get_mix"]

BOARD_SLICES: Final = 7
"""Compute slices of a board."""
PROFILES: Final[Mapping[str, int]] = {
    "1g.10gb": 1,
    "1g.20gb": 1,
    "2g.20gb": 2,
    "3g.40gb": 3,
    "4g.40gb": 4,
    "7g.80gb": 7,
}
"""Compute slices of each size that is asked for: all of an A100 with 80 GB but the one with media engines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """How often each size is asked for.

    Args:
        shares: Percent of the requests by size, in the order of `PROFILES`; they add up to 100, or are all equal.
    """

    name: str
    shares: tuple[int, ...]

    @property
    def mean_slices(self) -> float:
        """Compute slices of a request on average."""
        wanted = sum(share * slices for share, slices in zip(self.shares, PROFILES.values(), strict=True))
        return wanted / sum(self.shares)


MIXES: Final[Mapping[str, Mix]] = {
    mix.name: mix
    for mix in (
        Mix(name="uniform", shares=(1, 1, 1, 1, 1, 1)),
        Mix(name="small", shares=(30, 25, 20, 10, 10, 5)),
        Mix(name="bimodal", shares=(30, 15, 5, 5, 15, 30)),
        Mix(name="large", shares=(5, 10, 10, 20, 25, 30)),
        Mix(name="no-7g", shares=(1, 1, 1, 1, 1, 0)),
        Mix(name="five-sizes", shares=(1, 0, 1, 1, 1, 1)),
    )
}
"""The mixes by name; `five-sizes` is `uniform` as many reckon it, without the small one that has double memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One request.

    Args:
        at, until: When it comes, and when it goes if it is accepted, in mean lifetimes from the start.
        profile: The size that it asks for.
    """

    number: int
    at: float
    until: float
    profile: str

    @property
    def slices(self) -> int:
        """Compute slices."""
        return PROFILES[self.profile]


def get_mix(name: str) -> Mix:
    """Return the mix of a name.

    Raises:
        FieldError: There is none.
    """
    if name not in MIXES:
        raise FieldError("mix", name, allowed=", ".join(MIXES), hint="correct the name")
    return MIXES[name]


def draw_arrivals(mix: Mix, *, load: float, boards: int, events: int, seed: int) -> tuple[Arrival, ...]:
    """Return the requests of one run, in the order in which they arrive.

    Args:
        load: Offered compute slices as a share of those of all boards; > 0.
        boards: Number of boards; >= 1.
        events: Number of requests; >= 1.

    Raises:
        FieldError: An argument is out of its bounds.
    """
    for name, value, low in (("load", load, 0), ("boards", boards, 0), ("events", events, 0)):
        if value <= low:
            raise FieldError(name, value, allowed=f"> {low}", hint="correct the number")
    chance = random.Random(seed)
    rate = load * BOARD_SLICES * boards / mix.mean_slices
    names, weights = tuple(PROFILES), tuple(accumulate(mix.shares))
    now, found = 0.0, list[Arrival]()
    for number in range(events):
        now += chance.expovariate(rate)
        (profile,) = chance.choices(names, cum_weights=weights)
        found.append(Arrival(number=number, at=now, until=now + chance.expovariate(1.0), profile=profile))
    return tuple(found)
