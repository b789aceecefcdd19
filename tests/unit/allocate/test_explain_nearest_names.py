"""The name that was probably meant."""

from __future__ import annotations

import pytest

from claimsmith.allocate.explain.nearest_names import find_nearest_name, suggest_key
from claimsmith.testing.builders import device


@pytest.mark.parametrize(
    ("name", "known", "near"),
    [
        ("bandwith", ["bandwidth", "memory"], "bandwidth"),
        ("gpu.example.com/Model", ["gpu.example.com/model", "gpu.example.com/mode"], "gpu.example.com/model"),
        ("a.example.com/model", ["b.example.com/model", "a.example.com/modem"], "b.example.com/model"),
        ("nic.example.com/bandwidth", ["bandwidth"], "bandwidth"),
        ("qq", ["bandwidth", "memory"], ""),
        ("model", ["model", "modell"], ""),
    ],
    ids=["letter", "capital", "domain", "no domain", "nothing near", "known"],
)
def test_the_nearest_name_is_found(name: str, known: list[str], near: str) -> None:
    assert find_nearest_name(name, known) == near


def test_a_key_that_a_device_does_not_have_is_told_with_its_nearest_name() -> None:
    card = device("x", attributes={"gpu.example.com/model": "L4"}, capacity={"memory": "1Gi"})

    assert suggest_key("no such key: modle", card) == "; did you mean model?"
    assert suggest_key("no such key: Memory", card) == "; did you mean memory?"
    assert suggest_key("no such key: model", card) == ""
    assert suggest_key("no such overload: modle", card) == ""
