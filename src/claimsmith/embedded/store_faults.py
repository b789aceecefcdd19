"""The refusals of the API server, worded as Kubernetes words them.

Source: k8s.io/apimachinery v0.37.2 pkg/api/errors/errors.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from claimsmith.embedded.store_kinds import StoredKind
from claimsmith.errors import RequestError

__all__ = [
    "Cause",
    "already_exists",
    "bad_request",
    "conflict",
    "expired",
    "forbidden",
    "internal_error",
    "invalid",
    "invalid_options",
    "method_not_allowed",
    "not_found",
    "unavailable",
    "unmet",
]

Cause = tuple[str, str, str]
"""One field of an invalid object: reason (`FieldValueInvalid`), message, field path."""

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def not_found(kind: StoredKind, name: str) -> RequestError:
    """Return the 404 for an object that does not exist."""
    return RequestError(404, "NotFound", f'{kind.resource} "{name}" not found', details=_details(kind, name))


def already_exists(kind: StoredKind, name: str, *, is_going: bool = False) -> RequestError:
    """Return the 409 for an object that exists.

    Args:
        kind: Kind of the object.
        name: Name of the object.
        is_going: Whether it is being deleted.
    """
    message = f'{"object is being deleted: " if is_going else ""}{kind.resource} "{name}" already exists'
    return RequestError(409, "AlreadyExists", message, details=_details(kind, name))


def conflict(kind: StoredKind, name: str, why: str = MODIFIED) -> RequestError:
    """Return the 409 for a write that another write came before."""
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return RequestError(409, "Conflict", message, details=_details(kind, name))


def unmet(kind: StoredKind, name: str, why: str) -> RequestError:
    """Return the 409 for a deletion whose precondition does not hold.

    Source: BeforeDelete, k8s.io/apiserver v0.37.2 pkg/registry/rest/delete.go.
    """
    full = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    message = f'Operation cannot be fulfilled on {full} "{name}": {why}'
    return RequestError(409, "Conflict", message, details={**_details(kind, name), "kind": kind.kind})


def forbidden(kind: StoredKind, name: str, why: str) -> RequestError:
    """Return the 403 for a write that the state of the cluster does not allow."""
    message = f'{kind.resource} "{name}" is forbidden: {why}'
    return RequestError(403, "Forbidden", message, details=_details(kind, name))


def invalid(kind: StoredKind, name: str, causes: Sequence[Cause]) -> RequestError:
    """Return the 422 for an object with fields that are not allowed.

    Args:
        kind: Kind of the object.
        name: Name of the object; may be empty.
        causes: Every field at fault; at least one.
    """
    texts = list(dict.fromkeys(f"{field}: {message}" for _, message, field in causes))
    name_of_kind = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    joined = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    details = {
        **_details(kind, name),
        "kind": kind.kind,
        "causes": [{"reason": reason, "message": message, "field": field} for reason, message, field in causes],
    }
    return RequestError(422, "Invalid", f'{name_of_kind} "{name}" is invalid: {joined}', details=details)


def invalid_options(kind: str, causes: Sequence[Cause]) -> RequestError:
    """Return the 422 for a request whose options are not allowed.

    Args:
        kind: Kind of the options, such as `ListOptions`.
        causes: Every option at fault; at least one.
    """
    options = StoredKind(group="meta.k8s.io", version="v1", kind=kind, plural="", namespaced=False)
    return invalid(options, "", causes)


def expired(message: str) -> RequestError:
    """Return the 410 for a resourceVersion whose history is gone."""
    return RequestError(410, "Expired", message)


def method_not_allowed() -> RequestError:
    """Return the 405 for a method that a path does not have."""
    return RequestError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def bad_request(message: str) -> RequestError:
    """Return the 400 for a request that can't be read."""
    return RequestError(400, "BadRequest", message)


def unavailable(why: str) -> RequestError:
    """Return the 503 of a server that is about to end."""
    return RequestError(503, "ServiceUnavailable", why, details={"retryAfterSeconds": 1})


def internal_error(message: str) -> RequestError:
    """Return the 500 for a fault on the server's side."""
    return RequestError(500, "InternalError", f"Internal error occurred: {message}")


def _details(kind: StoredKind, name: str) -> dict[str, object]:
    found = {"name": name, "group": kind.group, "kind": kind.plural}
    return {key: value for key, value in found.items() if value}
