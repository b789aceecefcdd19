"""JSON patch: a list of operations on paths.

Source: RFC 6902; limits of k8s.io/apiserver v0.37.2 pkg/endpoints/handlers/patch.go; where it is laxer than the RFC,
gopkg.in/evanphx/json-patch.v4, which that uses.
"""

from __future__ import annotations

import copy
from typing import Any, Final

from claimsmith.embedded.store_faults import bad_request
from claimsmith.errors import RequestError

__all__ = ["MAX_OPERATIONS", "apply_json_patch"]

MAX_OPERATIONS: Final = 10_000
"""Most operations of one patch."""

_OPERATIONS: Final = {
    "add": ("path",),
    "remove": ("path",),
    "replace": ("path",),
    "move": ("path", "from"),
    "copy": ("path", "from"),
    "test": ("path",),
}
"""What each operation needs; a value that is not there is null, as in the library that upstream uses."""


def apply_json_patch(value: Any, patch: Any) -> Any:
    """Return a value after the operations of a patch; the value itself is changed.

    Args:
        value: The decoded JSON that is patched.
        patch: The decoded patch.

    Raises:
        RequestError: 400, it is no patch; 413, it is too long; 422, an operation can't be done or a test failed.
    """
    if patch is None:
        return value
    if not isinstance(patch, list):
        raise bad_request("error decoding patch: a JSON patch is a list of operations")
    if len(patch) > MAX_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}"
        raise RequestError(413, "RequestEntityTooLarge", message)
    root = {"": value}
    for operation in patch:
        _check_operation(operation)
        _apply_operation(root, operation)
    return root[""]


def _check_operation(found: Any) -> None:
    if not isinstance(found, dict | None):
        raise bad_request(f"error decoding patch: found {str(found)[:80]}, expected an operation")
    operation: dict[str, Any] = found or {}
    for name in ("op", "path", "from"):
        if not isinstance(operation.get(name, ""), str):
            raise bad_request(f"error decoding patch: {name} must be a text")
    kind = operation.get("op", "")
    if kind not in _OPERATIONS:
        raise _failed(kind[:80], "", "there is no such operation")
    for name in _OPERATIONS[kind]:
        if name not in operation:
            raise _failed(kind, "", f"it needs {name}")


def _apply_operation(root: dict[str, Any], operation: dict[str, Any]) -> None:
    kind, path = operation["op"], operation["path"]
    match kind:
        case "add":
            _add(root, path, operation.get("value"))
        case "remove":
            _remove(root, path)
        case "replace":
            _replace(root, path, operation.get("value"))
        case "move":
            if path.startswith(operation["from"] + "/"):
                raise _failed(kind, path, "a value can't be moved into itself")
            _add(root, path, _remove(root, operation["from"]))
        case "copy":
            _add(root, path, copy.deepcopy(_get(root, operation["from"], missing=None)))
        case "test":
            if _get(root, path, missing=None) != operation.get("value"):
                raise _failed(kind, path, "the value differs")


def _parts(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise _failed("resolve", path, "it does not begin with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in ("" + path).split("/")]


def _parent(root: dict[str, Any], path: str) -> tuple[Any, str]:
    *parents, last = _parts(path)
    found: Any = root
    for part in parents:
        found = _child(found, part, path)
    if not isinstance(found, (dict, list)):
        raise _failed("resolve", path, "there is no such place")
    return found, last


def _child(value: Any, part: str, path: str) -> Any:
    if isinstance(value, dict) and part in value:
        return value[part]
    if isinstance(value, list):
        return value[_index(part, path, limit=len(value) - 1)]
    raise _failed("resolve", path, "there is no such place")


def _index(part: str, path: str, *, limit: int) -> int:
    if not part.isdigit() or int(part) > limit or len(part) > 9:
        raise _failed("resolve", path, f"index {part[:20]!r} is not in the list")
    return int(part)


def _get(root: dict[str, Any], path: str, **missing: Any) -> Any:
    parent, last = _parent(root, path)
    if isinstance(parent, dict) and last not in parent and missing:
        return missing["missing"]
    return _child(parent, last, path)


def _add(root: dict[str, Any], path: str, value: Any) -> None:
    parent, last = _parent(root, path)
    if isinstance(parent, dict):
        parent[last] = value
    elif last == "-":
        parent.append(value)
    else:
        parent.insert(_index(last, path, limit=len(parent)), value)


def _remove(root: dict[str, Any], path: str) -> Any:
    if not path:
        raise _failed("remove", path, "the whole object can't be removed")
    parent, last = _parent(root, path)
    found = _child(parent, last, path)
    if isinstance(parent, dict):
        del parent[last]
    else:
        del parent[int(last)]
    return found


def _replace(root: dict[str, Any], path: str, value: Any) -> None:
    """Replace a value; what an object does not have is added to it, as by the library that upstream uses."""
    parent, last = _parent(root, path)
    if isinstance(parent, dict):
        parent[last] = value
    else:
        parent[_index(last, path, limit=len(parent) - 1)] = value


def _failed(kind: str, path: str, why: str) -> RequestError:
    message = (
        f"the server rejected our request due to an error in our request: {kind} operation at {path[:120]!r}: {why}"
    )
    return RequestError(422, "Invalid", message)
