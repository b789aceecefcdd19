"""Whatever a driver finds, labels are valid, the same in any order, and true of every device."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from claimsmith.model.device import Device
from claimsmith.model.inventory import Inventory
from claimsmith.publish.labels import LabelOptions, plan_labels
from claimsmith.publish.labels_groups import LabelSource
from claimsmith.publish.labels_text import LABEL_MAX, name_parts
from claimsmith.testing import builders as b
from claimsmith.validate.names import check_label_key, check_label_value

_ODD = st.text(st.sampled_from("aA1-_. +/(é☃"), max_size=70)
_TEXTS = _ODD | st.sampled_from(["A100", "a100", "A100 ", "A100+me", "L4"])


@st.composite
def devices(draw: st.DrawFn) -> list[Device]:
    count = draw(st.integers(0, 6))
    found = []
    for number in range(count):
        names = {"type": _ODD, "model": _TEXTS, "profile": _TEXTS, "color": _TEXTS}
        chosen = draw(st.fixed_dictionaries({}, optional=names))
        memory = draw(st.none() | st.integers(0, 2**40))
        capacity = {} if memory is None else {"memory": memory}
        found.append(b.device(f"device-{number}", attributes=chosen, capacity=capacity))
    return found


def plan(found: list[Device], **source: object) -> dict[str, str]:
    options = LabelOptions(nvidia_names=True, attributes=("color",))
    given = LabelSource(driver=b.DRIVER, inventory=Inventory.of(*found), **source)  # type: ignore[arg-type]
    return dict(plan_labels([given], options))


@given(devices())
def test_every_label_is_valid(found: list[Device]) -> None:
    for key, text in plan(found).items():
        assert [*check_label_key(key, "key"), *check_label_value(text, "value")] == []


@given(devices(), st.randoms())
def test_the_order_of_devices_does_not_matter(found: list[Device], chance: object) -> None:
    mixed = list(found)
    chance.shuffle(mixed)  # type: ignore[attr-defined]

    assert plan(mixed) == plan(found)


@given(devices())
def test_counts_by_model_add_up_to_no_more_than_there_is(found: list[Device]) -> None:
    labels = plan(found)
    totals = {key: int(text) for key, text in labels.items() if key.count(".") == 2 and key.endswith(".count")}
    parts = {
        total: sum(
            int(text) for key, text in labels.items()
            if key.startswith(total.removesuffix("count")) and key.endswith(".count") and key != total
        )
        for total in totals
    }  # fmt: skip

    assert all(parts[total] <= count for total, count in totals.items())
    assert sum(count for key, count in totals.items() if key.startswith("claimsmith.dev/")) == len(found)


@given(st.sets(_TEXTS, max_size=8))
def test_different_texts_are_different_parts_of_keys(texts: set[str]) -> None:
    parts = name_parts(texts, length_max=30)

    assert len({part.lower() for part in parts.values()}) == len(texts)
    assert all(0 < len(part) <= min(30, LABEL_MAX) for part in parts.values())
