"""Scalars are what go-yaml v2, the reader of kubectl, makes of them."""

from __future__ import annotations

import gzip
import json

from claimsmith.api.yamltext import read_yaml
from claimsmith.errors import ManifestError
from tests.conformance.yaml.record import ANSWERS

COUNT = 4653


def read(text: str) -> str:
    """The JSON of a value, or ERROR."""
    try:
        (document,) = read_yaml(f"v: {text}\n", source="scalar")
    except ManifestError:
        return "ERROR"
    return json.dumps(document.value["v"])


def same(ours: str, theirs: str) -> bool:
    """Tell whether two texts are the same JSON value of the same type."""
    if "ERROR" in (ours, theirs):
        return ours == theirs
    left, right = json.loads(ours), json.loads(theirs)
    return type(left) is type(right) and left == right


def test_every_recorded_scalar_is_read_as_go_yaml_reads_it() -> None:
    answers = json.loads(gzip.decompress(ANSWERS.read_bytes()))
    differing = {text: (read(text), answer) for text, answer in answers.items() if not same(read(text), answer)}

    assert differing == {}
    assert len(answers) == COUNT
