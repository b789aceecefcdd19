"""Which devices to prefer, against a twin that rates every choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimsmith.node import preferred
from claimsmith.node.deviceplugin_rules import PreferencePolicy, card_of
from claimsmith.node.preferred import Place, closeness, plan_preferred

IDS = [f"gpu-{number}" for number in range(8)]
POLICIES: list[PreferencePolicy] = ["topology", "packed", "spread"]

groups = st.builds(
    Place,
    group=st.sampled_from(["", "", "a", "b"]),
    roots=st.sets(st.sampled_from("rst"), max_size=1).map(frozenset),
    numa_nodes=st.sets(st.integers(0, 1), max_size=2).map(frozenset),
)


@st.composite
def meshes(draw: st.DrawFn) -> Mapping[str, Place]:
    """Devices with some links to some others each, as in a box without switch."""
    links = draw(st.dictionaries(st.sampled_from(list(combinations(IDS, 2))), st.integers(1, 2), max_size=10))
    return {
        id_: Place(
            name=id_,
            links=tuple((b if a == id_ else a, count) for (a, b), count in sorted(links.items()) if id_ in (a, b)),
            numa_nodes=frozenset({draw(st.integers(0, 1))}),
        )
        for id_ in IDS
    }


boxes = st.one_of(
    st.lists(groups, min_size=8, max_size=8).map(lambda found: dict(zip(IDS, found, strict=True))), meshes()
)


def rate(chosen: set[str], free: set[str], places: Mapping[str, Place], policy: PreferencePolicy) -> tuple[int, int]:
    """Rate a choice pair by pair."""
    inside = sum(closeness(places[a], places[b]) for a, b in combinations(sorted(chosen), 2))
    outside = sum(closeness(places[a], places[b]) for a, b in combinations(sorted(free - chosen), 2))
    return {"topology": (inside, outside), "packed": (outside, inside), "spread": (-inside, -outside)}[policy]


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[str], list[str], int]:
    available = draw(st.lists(st.sampled_from(IDS), unique=True, min_size=1))
    must = draw(st.lists(st.sampled_from(available), unique=True, max_size=2))
    return available, must, draw(st.integers(len(must), len(available)))


@given(places=boxes, question=questions(), policy=st.sampled_from(POLICIES))
def test_no_choice_is_better(
    places: Mapping[str, Place], question: tuple[list[str], list[str], int], policy: PreferencePolicy
) -> None:
    available, must, size = question
    chosen = plan_preferred(available, must_include=must, size=size, places=places, policy=policy)

    free = set(available) - set(must)
    best = max(rate({*must, *more}, free, places, policy) for more in combinations(sorted(free), size - len(must)))
    assert rate(set(chosen), free, places, policy) == best
    assert len(set(chosen)) == len(chosen) == size
    assert set(must) <= set(chosen) <= set(available)


@given(places=boxes, question=questions(), policy=st.sampled_from(POLICIES))
def test_a_choice_that_is_grown_is_one_that_no_exchange_makes_better(
    places: Mapping[str, Place], question: tuple[list[str], list[str], int], policy: PreferencePolicy
) -> None:
    available, must, size = question
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preferred, "_CHOICES_MAX", 0)
        chosen = set(plan_preferred(available, must_include=must, size=size, places=places, policy=policy))

    free = set(available) - set(must)
    exchanges = [(chosen - {out}) | {into} for out in chosen - set(must) for into in free - chosen]
    assert len(chosen) == size
    assert set(must) <= chosen <= set(available)
    assert all(rate(other, free, places, policy) <= rate(chosen, free, places, policy) for other in exchanges)


REPLICAS = [f"gpu-{card}::{number}" for card in range(3) for number in range(3)]


@given(available=st.lists(st.sampled_from(REPLICAS), unique=True, min_size=1), data=st.data())
@pytest.mark.parametrize("policy", POLICIES)
def test_replicas_fill_cards_or_spread_over_them(
    policy: PreferencePolicy, available: list[str], data: st.DataObject
) -> None:
    size = data.draw(st.integers(0, len(available)))
    chosen = plan_preferred(available, must_include=(), size=size, places={}, policy=policy)

    assert len(set(chosen)) == size
    assert set(chosen) <= set(available)
    left, taken = Counter(map(card_of, available)), Counter(map(card_of, chosen))
    choices = [Counter(map(card_of, other)) for other in combinations(available, size)]
    if policy == "packed":
        # The cards that have most left keep it.
        kept = sorted((left - taken).values())[::-1]
        assert kept == max(sorted((left - other).values())[::-1] for other in choices)
    else:
        assert max(taken.values(), default=0) == min(max(other.values(), default=0) for other in choices)
