"""Every manifest of the corpora and cases survives the way through all versions and through the model."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from claimsmith.api import core, resource
from claimsmith.api.kinds import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    NAMESPACE,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    SERVED_KINDS,
    Kind,
    find_kind_of,
)
from claimsmith.api.objects import find_parser
from claimsmith.api.schema import check_object
from claimsmith.api.versions import convert_from_hub, convert_to_hub

CORPORA = Path(__file__).parent.parent / "data"
CASES = Path(__file__).parent.parent.parent / "cases" / "data"
KINDS = {
    "slices": RESOURCE_SLICE,
    "classes": DEVICE_CLASS,
    "claims": RESOURCE_CLAIM,
    "allocatedClaims": RESOURCE_CLAIM,
    "nodes": NODE,
}
ENCODERS: Mapping[Kind, Callable[[Any], dict[str, Any]]] = {
    RESOURCE_SLICE: resource.encode_resource_slice,
    RESOURCE_CLAIM: resource.encode_resource_claim,
    RESOURCE_CLAIM_TEMPLATE: resource.encode_resource_claim_template,
    DEVICE_CLASS: resource.encode_device_class,
    DEVICE_TAINT_RULE: resource.encode_device_taint_rule,
    POD: core.encode_pod,
    NODE: core.encode_node,
    NAMESPACE: core.encode_namespace,
}


def corpus_objects(path: Path) -> Iterator[tuple[Kind, dict[str, Any]]]:
    """The distinct objects of a corpus."""
    seen: set[str] = set()
    with gzip.open(path, "rt") as lines:
        for line in lines:
            problem = json.loads(line)
            for key, kind in KINDS.items():
                for obj in problem.get(key) or ():
                    text = json.dumps(obj, sort_keys=True)
                    if text not in seen:
                        seen.add(text)
                        yield kind, obj


def case_objects() -> Iterator[tuple[Kind, dict[str, Any]]]:
    """The objects that stand anywhere in the case files, of kinds that can be encoded."""
    stack: list[Any] = [yaml.safe_load(path.read_text()) for path in sorted(CASES.glob("*.yaml"))]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            kind = find_kind_of(value)
            if kind is not None and kind in ENCODERS:
                yield kind, value
                continue
        if isinstance(value, (dict, list)):
            stack.extend(value.values() if isinstance(value, dict) else value)


def check_round_trips(kind: Kind, obj: dict[str, Any]) -> None:
    parse = find_parser(kind)
    assert parse is not None
    value = parse(obj)

    assert parse(json.dumps(ENCODERS[kind](value))) == value
    for older in (other for other in SERVED_KINDS if other.hub is kind and other is not kind):
        old = convert_from_hub(obj, older)
        back = convert_to_hub(old, older)
        assert check_object(old, older.wire_type) == check_object(obj, kind.wire_type) == ()
        assert {**back, "apiVersion": "", "kind": ""} == {**obj, "apiVersion": "", "kind": ""}
        assert parse(old) == value


@pytest.mark.parametrize("name", [pytest.param("allocator", marks=pytest.mark.slow), "hard", "probes", "waste"])
def test_manifests_of_the_corpora_lose_nothing(name: str) -> None:
    count = 0
    for kind, obj in corpus_objects(CORPORA / f"{name}.jsonl.gz"):
        check_round_trips(kind, obj)
        count += 1

    assert count > 20


def test_manifests_of_the_cases_lose_nothing() -> None:
    objects = list(case_objects())
    for kind, obj in objects:
        check_round_trips(kind, obj)

    assert len(objects) > 80
