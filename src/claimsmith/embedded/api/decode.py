"""Request bodies to objects: JSON or YAML, form checked against the wire type, unknown fields reported or dropped.

Deviates: stored-quantities, empty-fields.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

from claimsmith.api.manifests import read_documents
from claimsmith.api.schema import MAX_DEPTH, SchemaIssue, check_object, prune_object
from claimsmith.embedded.api.protobuf import PROTOBUF_TYPE, decode_protobuf
from claimsmith.embedded.api.served import ServedKind
from claimsmith.embedded.store_faults import bad_request
from claimsmith.embedded.store_records import JsonObject, encode_json
from claimsmith.errors import InputError, RequestError

__all__ = [
    "MAX_BODY_BYTES",
    "SCHEME",
    "FieldCheck",
    "FieldValidation",
    "check_depth",
    "decode_body",
    "find_unknown",
    "read_object",
]

MAX_BODY_BYTES: Final = 3 * 1024 * 1024
"""Largest request body. Source: MaxRequestBodyBytes, k8s.io/apiserver v0.37.2 pkg/server/config.go."""

FieldValidation = Literal["Strict", "Warn", "Ignore"]
_JSON: Final = "application/json"
SCHEME: Final = "pkg/runtime/scheme.go:111"
"""Where upstream says that it keeps its kinds."""
_NO_OBJECT: Final = "the object provided is unrecognized: couldn't get version/kind; json parse error: "
_UNKNOWN: Final = re.compile(r'unknown field "([^"]*)"')
_YAML: Final = ("application/yaml", "application/x-yaml", "text/yaml")


@dataclass(slots=True)
class FieldCheck:
    """What to do about unknown and duplicate fields, and what was found.

    Args:
        mode: `Strict` refuses them, `Warn` drops them with a warning, `Ignore` drops them.
        warnings: What the answer warns of.
    """

    mode: FieldValidation = "Warn"
    warnings: list[str] = field(default_factory=list)

    def report(self, served: ServedKind, problems: Iterable[str]) -> None:
        """Refuse, remember or ignore problems, as the mode says.

        Raises:
            RequestError: 400, the mode is `Strict` and there is a problem.
        """
        found = list(problems)
        if not found or self.mode == "Ignore":
            return
        if self.mode == "Strict":
            raise bad_request(f"{_cannot_handle(served)}: strict decoding error: {', '.join(found)}")
        self.warnings.extend(found)


def decode_body(body: bytes, content_type: str) -> Any:
    """Return the value that a body stands for.

    Args:
        body: What the client sent.
        content_type: Its `Content-Type`; empty for JSON.

    Raises:
        RequestError: 400, the body can't be read; 415, the type is not known.
    """
    media = content_type.split(";", 1)[0].strip().lower() or _JSON
    if media.endswith("json") or media == "*/*":
        return _decode_json(body)
    if media == PROTOBUF_TYPE:
        return decode_protobuf(body)
    if media in _YAML or media.endswith("+yaml"):
        return _decode_yaml(body)
    allowed = f"{_JSON}, {_YAML[0]}, {PROTOBUF_TYPE}"
    raise RequestError(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format - accepted media types include: {allowed}",
    )


def read_object(served: ServedKind, value: Any, check: FieldCheck, *, body: bytes = b"") -> JsonObject:
    """Return an object of a kind, without unknown fields and nulls.

    Args:
        served: The kind.
        value: What the body decoded to.
        check: What to do about unknown fields.
        body: The JSON body, to look for duplicate fields in; empty for none.

    Raises:
        RequestError: 400, it is no object of the kind, or `check` refuses it.
    """
    value = {} if value is None else value  # As Go's decoder does.
    if not isinstance(value, dict):
        why = f"couldn't get version/kind; json parse error: found {_form(value)}, expected an object"
        raise bad_request(f"the object provided is unrecognized (must be of type {served.kind.kind}): {why}")
    _check_type(served, value)
    # Whoever sends compact JSON, as most clients do, has no field twice if it is as long as its value.
    if body and check.mode != "Ignore" and len(body) != len(encode_json(value)):
        check.report(served, _find_duplicates(body))
    return _fit(served, value, check)


def find_unknown(error: RequestError) -> str:
    """Return the first unknown field that a refusal of `read_object` tells of; empty if it is about something else."""
    found = _UNKNOWN.search(error.message)
    return found[1] if found is not None else ""


def check_depth(value: Any) -> None:
    """Refuse a value that is nested too deeply to be worked with safely.

    Raises:
        RequestError: 400, more than MAX_DEPTH levels.
    """
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return
    raise bad_request(f"the body of the request is nested more than {MAX_DEPTH} levels deep")


def _decode_json(body: bytes) -> Any:
    if not body.strip():
        raise bad_request(_NO_OBJECT + "unexpected end of JSON input")
    try:
        value = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"{_NO_OBJECT}{error}") from error
    except RecursionError as error:
        raise bad_request("json parse error: nested too deeply") from error
    except UnicodeDecodeError as error:
        raise bad_request("json parse error: not UTF-8") from error
    if isinstance(value, (dict, list)):
        check_depth(value)
    return value


def _decode_yaml(body: bytes) -> Any:
    if body[:1] == b"{":
        with contextlib.suppress(RequestError):
            return _decode_json(body)
    try:
        documents = tuple(read_documents(body.decode(), source="body"))
    except UnicodeDecodeError as error:
        raise bad_request("yaml parse error: not UTF-8") from error
    except InputError as error:
        raise bad_request(f"yaml parse error: {error}") from error
    if len(documents) != 1:
        raise bad_request(f"yaml parse error: found {len(documents)} documents, expected one")
    return documents[0].value


def _fit(served: ServedKind, value: JsonObject, check: FieldCheck) -> JsonObject:
    """Return the object pruned to its type; a walk over the schema happens only when something is odd."""
    try:
        fitted: JsonObject = served.normalize(value)
    except (msgspec.ValidationError, RecursionError):
        fitted = {}
    if fitted == value:
        return fitted
    issues = check_object(value, served.wire_type)
    wrong = [issue for issue in issues if issue.kind != "unknown"]
    if wrong:
        raise bad_request(f"{_cannot_handle(served)}: {'; '.join(_describe(issue) for issue in wrong[:8])}")
    check.report(served, sorted(f'unknown field "{issue.path}"' for issue in issues))
    return prune_object(value, served.wire_type)


def _check_type(served: ServedKind, value: JsonObject) -> None:
    api_version, kind = served.kind.api_version, served.kind.kind
    found_version, found_kind = value.setdefault("apiVersion", api_version), value.setdefault("kind", kind)
    if (found_version, found_kind) == (api_version, kind):
        return
    version = _short(found_version)
    short = version.rpartition("/")[2]
    why = f'no kind "{_short(found_kind)}" is registered for version "{version}" in scheme "{SCHEME}"'
    raise bad_request(f'{_short(found_kind)} in version "{short}" cannot be handled as a {kind}: {why}')


class _Pairs(dict[str, Any]):
    """An object that knows which of its keys came twice."""

    twice: tuple[str, ...] = ()


def _find_duplicates(body: bytes) -> list[str]:
    """Return a message for each key that an object of the body has twice."""
    try:
        value = json.loads(body, object_pairs_hook=_read_pairs)
        return list(dict.fromkeys(f'duplicate field "{path}"' for path in _iter_twice(value, "")))
    except (ValueError, RecursionError):
        return []


def _read_pairs(pairs: list[tuple[str, Any]]) -> _Pairs:
    value = _Pairs(pairs)
    if len(value) != len(pairs):
        keys = [key for key, _ in pairs]
        value.twice = tuple(key for index, key in enumerate(keys) if key in keys[:index])
    return value


def _iter_twice(value: Any, path: str) -> Iterator[str]:
    """Yield the path of each key that came twice."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _iter_twice(item, f"{path}[{index}]")
    elif isinstance(value, _Pairs):
        prefix = f"{path}." if path else ""
        yield from (prefix + key for key in value.twice)
        for key, item in value.items():
            yield from _iter_twice(item, prefix + key)


def _cannot_handle(served: ServedKind) -> str:
    kind = served.kind
    return f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'


def _describe(issue: SchemaIssue) -> str:
    found = issue.found if issue.kind == "depth" else repr(issue.found)[:80]
    return f"{issue.path or 'object'}: found {found}, expected {issue.allowed}"


def _form(value: Any) -> str:
    names = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _short(value: object) -> str:
    return str(value)[:80]
