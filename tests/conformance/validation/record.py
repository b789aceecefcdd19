"""Make objects that break the rules of the API, ask the API server's own validation about them, and keep its answers.

    python -m tests.conformance.validation.record RECORDER

RECORDER is the Go program in `recorder/`. The objects are those of the recorded allocator problems and some that use
every field, changed at random in one to three places. Written anew is `answers.jsonl.gz`: at most four objects for each
set of errors, without those where a list beyond its limit hides or shows further errors.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

from claimsmith.api.kinds import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    POD_GROUP,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_POOL_STATUS_REQUEST,
    RESOURCE_SLICE,
    WORKLOAD,
)
from claimsmith.api.schema import check_object
from tests.conformance.validation.full_groups import (
    full_composite,
    full_group,
    full_pool_request,
    full_rule,
    full_workload,
)
from tests.conformance.validation.full_objects import full_claim, full_slice

ANSWERS: Final = Path(__file__).parent / "answers.jsonl.gz"
PROBLEMS: Final = Path(__file__).parent.parent / "data" / "allocator.jsonl.gz"
KINDS: Final = {
    "slice": RESOURCE_SLICE,
    "slice-update": RESOURCE_SLICE,
    "claim": RESOURCE_CLAIM,
    "claim-status": RESOURCE_CLAIM,
    "class": DEVICE_CLASS,
    "template": RESOURCE_CLAIM_TEMPLATE,
    "rule": DEVICE_TAINT_RULE,
    "rule-update": DEVICE_TAINT_RULE,
    "rule-status": DEVICE_TAINT_RULE,
    "pool": RESOURCE_POOL_STATUS_REQUEST,
    "pool-update": RESOURCE_POOL_STATUS_REQUEST,
    "pool-status": RESOURCE_POOL_STATUS_REQUEST,
    "group": POD_GROUP,
    "group-update": POD_GROUP,
    "group-status": POD_GROUP,
    "workload": WORKLOAD,
    "workload-update": WORKLOAD,
}
TEXTS: Final = (
    "", "UPPER", "a.b", "x" * 33, "x" * 64, "x" * 254, "a/b", "a/b/c", "bad_name", "1.2", "-a", "a-", "gpu", "Exists",
    "Equal", "All", "ExactCount", "NoSchedule", "None", "*", "NodePrepareResources", "In", "NotIn", "Gt", "FromClass",
    "11111111-0000-4000-8000-000000000001", "10.0.0.1/24", "2001:db8::1/64", "10.0.0.1/8", "example.com/d", "é",
)  # fmt: skip
AMOUNTS: Final = ("0", "-1", "3", "1.5", "9223372036854775808", "500m", "1Gi", "18446744073709551616", "2", "80Gi", "1")
NUMBERS: Final = (0, -1, 1, 33, 1_000_000)
PER_ANSWER: Final = 4

Json = Any


def read_objects() -> dict[str, list[Json]]:
    """Return whole objects by kind, those with every field as often as all others together."""
    found: dict[str, list[Json]] = {"slice": [], "claim": [], "class": []}
    with gzip.open(PROBLEMS, "rt") as lines:
        for line in list(lines)[:150]:
            problem = json.loads(line)
            found["slice"] += problem.get("slices") or []
            found["class"] += problem.get("classes") or []
            found["claim"] += (problem.get("claims") or []) + (problem.get("allocatedClaims") or [])
    found["slice"] += [full_slice()] * len(found["slice"])
    found["claim"] += [full_claim()] * len(found["claim"])
    for kind, objects in found.items():
        for obj in objects:
            obj.setdefault("metadata", {}).setdefault("name", "x")
            if kind == "claim":
                obj["metadata"].setdefault("namespace", "default")
    found["template"] = [make_template(claim) for claim in found["claim"]]
    found |= {"rule": [full_rule()], "pool": [full_pool_request()], "group": [full_group()]}
    found["workload"] = [full_workload(), full_composite()]
    return found


def make_template(claim: Json) -> Json:
    """Return a template of a claim."""
    metadata = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    return {"metadata": claim["metadata"], "spec": {"metadata": metadata, "spec": claim.get("spec") or {}}}


def walk(value: Json, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Json]]:
    """Yield every value of an object with its path."""
    yield path, value
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from walk(child, (*path, key))


def change(obj: Json, rng: random.Random) -> None:
    """Change one place of an object."""
    places = [(path, value) for path, value in walk(obj) if path and path[0] in ("spec", "status")]
    path, value = rng.choice(places or list(walk(obj))[1:])
    parent = obj
    for key in path[:-1]:
        parent = parent[key]
    key = path[-1]
    if isinstance(value, str):
        parent[key] = rng.choice(AMOUNTS if re.fullmatch(r"\d+[A-Za-z]*", value) else TEXTS)
    elif isinstance(value, bool):
        parent[key] = not value
    elif isinstance(value, int):
        parent[key] = rng.choice(NUMBERS)
    elif isinstance(value, list):
        parent[key] = value * rng.choice([2, 9, 33, 65]) if rng.random() < 0.6 else []
    elif isinstance(value, dict):
        change_map(parent, key, rng)


def change_map(parent: Json, key: str | int, rng: random.Random) -> None:
    """Take something out of a map, give an entry another name, or take the map away."""
    value = parent[key]
    free = str(key) in ("attributes", "capacity", "counters", "nodeAllocatableResources")
    chance = rng.random()
    if chance < 0.3 and value:
        value.pop(rng.choice(sorted(value)))
    elif chance < 0.6 and value and free:
        value[rng.choice(TEXTS)] = value[rng.choice(sorted(value))]
    elif chance < 0.7 and value and free:
        value.update({f"k{i}": deepcopy(value[rng.choice(sorted(value))]) for i in range(40)})
    elif isinstance(parent, dict) and key != "spec":
        del parent[key]


def make_questions(count: int, rng: random.Random) -> Iterator[dict[str, Json]]:
    """Yield changed objects whose fields still have the right types."""
    objects = read_objects()
    while count:
        kind = rng.choice(list(KINDS))
        old = deepcopy(rng.choice(objects[kind.partition("-")[0]]))
        new = deepcopy(old)
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            change(new, rng)
        if kind.endswith("-status"):
            new["spec"] = old.get("spec")
            if kind == "pool-status" or rng.random() < 0.6:
                old.pop("status", None)
        else:
            new.pop("status", None)
            old.pop("status", None)
        if any(issue.kind != "unknown" for issue in check_object(new, KINDS[kind].wire_type)):
            continue
        count -= 1
        yield {"kind": kind, "obj": new, "old": old}


def main() -> None:
    """Write the file of answers."""
    questions = list(make_questions(40_000, random.Random(37)))
    text = "\n".join(map(json.dumps, questions))
    run = subprocess.run([sys.argv[1]], input=text, capture_output=True, text=True, check=True)
    seen: Counter[object] = Counter()
    with gzip.GzipFile(ANSWERS, "w", mtime=0) as out:
        for question, line in zip(questions, run.stdout.splitlines(), strict=True):
            errors = sorted({(type.removeprefix("FieldValue"), field) for type, field in json.loads(line)["errors"]})
            if len(errors) > 1 and any(type == "TooMany" for type, _ in errors):
                continue
            signature = (question["kind"], *((type, re.sub(r"\d+", "0", field)) for type, field in errors))
            seen[signature] += 1
            if seen[signature] <= (PER_ANSWER if errors else 10 * PER_ANSWER):
                if not question["kind"].endswith(("update", "status")):
                    del question["old"]
                out.write(json.dumps({**question, "errors": errors}, separators=(",", ":")).encode() + b"\n")


if __name__ == "__main__":
    main()
