"""Small valid objects that the tests of the rules change in one place."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from claimsmith.api.kinds import Kind
from claimsmith.validate import FieldIssue, validate_create

Json = dict[str, Any]
Edit = Callable[[Json], object]

DRIVER = "gpu.example.test"


def device_slice(*devices: Json, **spec: Any) -> Json:
    """A slice of node-a with the devices (one plain one by default)."""
    return {
        "metadata": {"name": "slice-a"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": "node-a", "generation": 1, "resourceSliceCount": 1},
            "nodeName": "node-a",
            "devices": list(devices) or [{"name": "gpu-0"}],
            **spec,
        },
    }


def claim(*requests: Json, **devices: Any) -> Json:
    """A claim with the requests (one plain one by default)."""
    wanted = list(requests) or [request()]
    return {
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"devices": {"requests": wanted, **devices}},
    }


def request(name: str = "gpu", **exactly: Any) -> Json:
    """A plain request."""
    return {"name": name, "exactly": {"deviceClassName": "gpu", **exactly}}


def pod(**spec: Any) -> Json:
    """A pod with one container."""
    return {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "busybox"}], **spec},
    }


def edited(obj: Json, edit: Edit) -> Json:
    """A copy of an object with a change."""
    copy = deepcopy(obj)
    edit(copy)
    return copy


def short(issues: tuple[FieldIssue, ...]) -> list[tuple[str, str]]:
    """Type and path of each issue."""
    return [(issue.type, issue.path) for issue in issues]


def created(kind: Kind, obj: Json) -> list[tuple[str, str]]:
    """What is wrong with a new object."""
    return short(validate_create(kind, obj))
