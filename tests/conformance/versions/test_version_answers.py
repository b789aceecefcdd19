"""Conversions between versions of the device API give what the API server's own conversion gave."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import Any

from claimsmith.api.versions import convert_from_hub, convert_to_hub
from claimsmith.model.quantity import find_quantity
from tests.conformance.versions.record import ANSWERS, kind_of

FROM_V1, TO_V1 = 900, 600
ZERO_IS_ABSENT = {"count": 0, "allNodes": False, "generation": 0, "resourceSliceCount": 0, "value": "0"}
"""Values that Go does not tell from absence: the field is no pointer, in one of the versions at least."""


def plain(value: Any) -> Any:
    """The value as Go prints it: without what is empty, quantities in their canonical form."""
    if isinstance(value, dict):
        pairs = {key: plain(child) for key, child in value.items()}
        return {
            key: child
            for key, child in pairs.items()
            if not (child is None or child in ("", [], {}, ZERO_IS_ABSENT.get(key)))
        }
    if isinstance(value, list):
        return [plain(child) for child in value]
    quantity = find_quantity(value) if isinstance(value, str) else None
    return value if quantity is None else str(quantity)


def convert(question: dict[str, Any]) -> dict[str, Any]:
    if question["to"] == "v1":
        return convert_to_hub(question["obj"], kind_of(question["from"], question["kind"]))
    return convert_from_hub(question["obj"], kind_of(question["to"], question["kind"]))


def test_every_recorded_conversion_is_made_here_too() -> None:
    with gzip.open(ANSWERS, "rt") as lines:
        questions = [json.loads(line) for line in lines]
    differing = []
    for number, question in enumerate(questions, 1):
        ours, theirs = plain(convert(question)), plain(question["answer"])
        if ours != theirs:
            differing.append((number, question["from"], question["to"], question["kind"]))

    assert differing == []
    assert Counter(question["from"] == "v1" for question in questions) == {True: FROM_V1, False: TO_V1}
