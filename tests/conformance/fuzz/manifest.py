"""A question as a manifest: what `claimsmith allocate -f` reads, with the difference told on top."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

import yaml

__all__ = ["write_manifest"]

Json = dict[str, Any]

_KINDS: Final = {
    "nodes": ("v1", "Node"),
    "classes": ("resource.k8s.io/v1", "DeviceClass"),
    "slices": ("resource.k8s.io/v1", "ResourceSlice"),
    "taintRules": ("resource.k8s.io/v1", "DeviceTaintRule"),
    "allocatedClaims": ("resource.k8s.io/v1", "ResourceClaim"),
    "claims": ("resource.k8s.io/v1", "ResourceClaim"),
}


def write_manifest(question: Json, answer: Json, differences: Iterable[str], *, seed: int) -> str:
    """Return YAML documents with a head of comments: the question, the difference and upstream's answer."""
    head = [
        f"{question['name']}, seed {seed}, features {json.dumps(question['features'])}",
        *(f"difference: {text}" for text in differences),
        f"upstream: {json.dumps(answer)}",
    ]
    lines = [f"# {line}" for text in head for line in text.splitlines()]
    documents = [
        yaml.safe_dump(item, sort_keys=False, allow_unicode=True, width=120) for item in _list_objects(question)
    ]
    return "\n".join(lines) + "\n" + "---\n".join(documents)


def _list_objects(question: Json) -> Iterator[Json]:
    if "expression" in question:
        yield from _list_parts(question)
    for field, (version, kind) in _KINDS.items():
        for item in question.get(field) or ():
            yield {"apiVersion": version, "kind": kind, **item}


def _list_parts(question: Json) -> Iterator[Json]:
    """Yield an expression as a class, and its device in a slice."""
    selector = {"cel": {"expression": question["expression"]}}
    yield {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "derived-attribute" if question.get("derivedAttribute") else "selector"},
        "spec": {"selectors": [selector]},
    }
    yield {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "slice"},
        "spec": {
            "driver": question["driver"],
            "pool": {"name": "pool", "generation": 1, "resourceSliceCount": 1},
            "allNodes": True,
            "devices": [question["device"]],
        },
    }
