"""Make objects of the device API in all versions, ask the API server's own conversion for other versions, keep that.

    python -m tests.conformance.versions.record RECORDER

RECORDER is the Go program in `recorder/`. The objects are some that use every field, and parts of them: v1 objects
changed at random in up to three places, in every version; then those of the older versions, changed again, as v1.
Written anew is `answers.jsonl.gz`.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

from claimsmith.api.kinds import SERVED_KINDS, Kind, find_kind
from claimsmith.api.schema import check_object
from tests.conformance.validation.full_groups import full_rule
from tests.conformance.validation.full_objects import full_claim, full_slice
from tests.conformance.validation.record import change, make_template

ANSWERS: Final = Path(__file__).parent / "answers.jsonl.gz"
GROUP: Final = "resource.k8s.io"
PER_KIND: Final = 60

Json = Any


def kind_of(version: str, kind: str) -> Kind:
    """Return a kind of the device API in a version."""
    found = find_kind(f"{GROUP}/{version}", kind)
    assert found is not None
    return found


def full_objects() -> dict[str, list[Json]]:
    """Return v1 objects by kind that use every field."""
    claim, rule = full_claim(), full_rule()
    alternatives = [{"name": "a", "deviceClassName": "gpu"}, {"name": "b", "deviceClassName": "gpu", "count": 2}]
    several = deepcopy(claim)
    several["spec"]["devices"]["requests"].append({"name": "either", "firstAvailable": alternatives})
    selector = {"cel": {"expression": "true"}}
    opaque = {"opaque": {"driver": "gpu.example.test", "parameters": {"a": None, "b": [1, {}]}}}
    spec = {"selectors": [selector], "config": [opaque], "extendedResourceName": "example.com/gpu"}
    return {
        "ResourceSlice": [full_slice(), plain_slice()],
        "ResourceClaim": [claim, several],
        "ResourceClaimTemplate": [make_template(claim), make_template(several)],
        "DeviceClass": [{"metadata": {"name": "gpu"}, "spec": spec}],
        "DeviceTaintRule": [rule],
    }


def plain_slice() -> Json:
    """Return a slice of a node, with a device that has nothing."""
    pool = {"name": "node-a", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "bare"}, {"name": "one", "attributes": {"a": {"bool": False}}, "bindsToNode": False}]
    spec = {"driver": "gpu.example.test", "pool": pool, "nodeName": "node-a", "devices": devices}
    return {"metadata": {"name": "s", "labels": {"a": "b"}}, "spec": spec}


def changed(obj: Json, kind: Kind, rng: random.Random) -> Json:
    """Return a copy of an object with up to three changes after which its fields still have the right types."""
    while True:
        result = deepcopy(obj)
        for _ in range(rng.choice([0, 1, 2, 3])):
            change(result, rng)
        if not check_object(result, kind.wire_type):
            return result


def make_questions(rng: random.Random) -> Iterator[dict[str, Json]]:
    """Yield v1 objects, each with the version that is asked for."""
    for kind in (kind for kind in SERVED_KINDS if kind.group == GROUP):
        for _ in range(PER_KIND):
            obj = changed(rng.choice(full_objects()[kind.kind]), kind.hub, rng)
            yield {"from": "v1", "to": kind.version, "kind": kind.kind, "obj": obj}


def make_returns(answered: list[dict[str, Json]], rng: random.Random) -> Iterator[dict[str, Json]]:
    """Yield objects of older versions that are asked for as v1."""
    for question in answered:
        if question["to"] != "v1":
            kind = kind_of(question["to"], question["kind"])
            obj = changed(question["answer"], kind, rng)
            yield {"from": question["to"], "to": "v1", "kind": question["kind"], "obj": obj}


def ask(questions: Iterator[dict[str, Json]], recorder: str) -> list[dict[str, Json]]:
    """Return the questions with their answers."""
    asked = list(questions)
    text = "\n".join(map(json.dumps, asked))
    run = subprocess.run([recorder], input=text, capture_output=True, text=True, check=True)
    answers = [json.loads(line)["obj"] for line in run.stdout.splitlines()]
    return [{**question, "answer": answer} for question, answer in zip(asked, answers, strict=True)]


def main() -> None:
    """Write the file of answers."""
    rng = random.Random(37)
    there = ask(make_questions(rng), sys.argv[1])
    back = ask(make_returns(there, rng), sys.argv[1])
    with gzip.GzipFile(ANSWERS, "w", mtime=0) as out:
        for line in there + back:
            out.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")


if __name__ == "__main__":
    main()
