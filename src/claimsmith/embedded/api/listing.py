"""Lists: selectors, pages and resourceVersion semantics.

Source: k8s.io/apiserver v0.37.2 pkg/storage/continue.go, pkg/storage/cacher, pkg/apis/meta/internalversion/validation.

Deviates: pages, exact-version.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from claimsmith.embedded.api.served import ServedKind
from claimsmith.embedded.store import Store
from claimsmith.embedded.store_faults import Cause, bad_request, expired, invalid_options
from claimsmith.embedded.store_labels import parse_labels
from claimsmith.embedded.store_records import Record
from claimsmith.embedded.store_select import Selection, parse_fields
from claimsmith.errors import RequestError

__all__ = ["Page", "check_match", "check_version", "list_page", "parse_number", "parse_selection", "parse_version"]

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of a list.

    Args:
        records: Its objects.
        version: resourceVersion of the whole list.
        continue_token: Where the next page begins; empty on the last one.
        remaining: Number of objects after this page; None when it is not known.
    """

    records: Sequence[Record]
    version: int
    continue_token: str = ""
    remaining: int | None = None

    @property
    def metadata(self) -> dict[str, Any]:
        """Return `ListMeta` of the page."""
        found: dict[str, Any] = {"resourceVersion": str(self.version)}
        if self.continue_token:
            found["continue"] = self.continue_token
        if self.remaining is not None:
            found["remainingItemCount"] = self.remaining
        return found


def parse_selection(served: ServedKind, namespace: str, query: Mapping[str, str]) -> Selection:
    """Return the objects that a list or watch is about.

    Raises:
        RequestError: 400, a selector can't be read or names a field that the kind can't be selected by.
    """
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    requirements = parse_fields(fields) if fields else ()
    for requirement in requirements:
        if requirement.path not in served.field_labels:
            raise bad_request(_unsupported(served, requirement.path[:80]))
    return Selection(namespace=namespace, labels=parse_labels(labels) if labels else (), fields=requirements)


def _unsupported(served: ServedKind, path: str) -> str:
    """Return the words about a field that a kind can't be selected by; upstream has no single way to say it."""
    kind = served.kind
    if kind.plural == "resourceslices":
        return f"field label not supported for {kind.api_version}, Kind={kind.kind}: {path}"
    if len(served.field_labels) > 1 + kind.namespaced:
        return f"field label not supported: {path}"
    return f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def parse_version(query: Mapping[str, str]) -> int | None:
    """Return the resourceVersion that a request names; None if it names none.

    Raises:
        RequestError: 400, it is no version.
    """
    text = query.get("resourceVersion", "")
    if not text:
        return None
    if not text.isdigit() or len(text) > 20:
        value = f'"{text[:80]}"'
        why = f"resourceVersion: Invalid value: {value}: strconv.ParseUint: parsing {value}: invalid syntax"
        raise bad_request(f"invalid resource version: {why}")
    return int(text)


def check_version(store: Store, version: int | None) -> None:
    """Refuse a version that the server has not reached.

    Raises:
        RequestError: 504, with the cause that clients of Kubernetes know.
    """
    if version is None or version <= store.version:
        return
    message = f"Too large resource version: {version}, current: {store.version}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    raise RequestError(504, "Timeout", f"Timeout: {message}", details={"causes": [cause], "retryAfterSeconds": 1})


def list_page(store: Store, served: ServedKind, namespace: str, query: Mapping[str, str]) -> Page:
    """Return one page of a list.

    Args:
        store: The objects.
        served: Kind of the objects.
        namespace: Namespace; empty for all.
        query: Selectors, `limit`, `continue`, `resourceVersion` and `resourceVersionMatch`.

    Raises:
        RequestError: The query can't be read, or names a version that is gone or not reached yet.
    """
    selection = parse_selection(served, namespace, query)
    limit = parse_number(query, "limit")
    _check_options(query)
    version = parse_version(query)
    token = query.get("continue", "")
    records = store.list(served.stored, selection)
    if not token:
        check_version(store, version)
        if query.get("resourceVersionMatch") == "Exact" and version != store.version:
            raise expired(f"The resourceVersion for the provided list is too old: {version} ({store.version})")
        return _cut(records, store.version, limit, _Rest(store, served, selection))
    if version:
        raise bad_request("specifying resource version is not allowed when using continue")
    first_version, after = _parse_token(token)
    if first_version < store.compacted_version(served.stored):
        raise expired("The provided continue parameter is too old to display a consistent list result")
    rest = [record for record in records if (record.namespace, record.name) > after]
    return _cut(rest, first_version, limit, _Rest(store, served, selection))


@dataclass(frozen=True, slots=True)
class _Rest:
    """What a list is cut from."""

    store: Store
    served: ServedKind
    selection: Selection

    @property
    def is_selective(self) -> bool:
        return bool(self.selection.labels or self.selection.fields)

    def has_more(self, last: Record) -> bool:
        """Tell whether anything comes after the last match; upstream sees on the next page whether it matches."""
        if not self.is_selective:
            return False
        everything = self.store.list(self.served.stored, Selection(namespace=self.selection.namespace))
        return bool(everything) and (everything[-1].namespace, everything[-1].name) > (last.namespace, last.name)


def _cut(records: list[Record], version: int, limit: int, rest: _Rest) -> Page:
    if not limit or len(records) < limit or (len(records) == limit and not rest.has_more(records[-1])):
        return Page(records=records, version=version)
    last = records[limit - 1]
    token = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": version, "start": [last.namespace, last.name]})
    return Page(
        records=records[:limit],
        version=version,
        continue_token=base64.urlsafe_b64encode(token).rstrip(b"=").decode(),
        remaining=None if rest.is_selective else len(records) - limit,
    )


def _parse_token(token: str) -> tuple[int, tuple[str, str]]:
    try:
        padded = token + "=" * (-len(token) % 4)
        value = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=dict[str, Any])
        namespace, name = value["start"]
        return int(value["rv"]), (str(namespace), str(name))
    except (binascii.Error, msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error


def parse_number(query: Mapping[str, str], name: str) -> int:
    """Return an option that is a whole number; 0 if it is not given, or not positive.

    Raises:
        RequestError: 400, it is no number.
    """
    text = query.get(name, "")
    if not text:
        return 0
    if not _NUMBER.fullmatch(text):
        raise bad_request(f'strconv.ParseInt: parsing "{text[:80]}": invalid syntax')
    return max(0, int(text))


def check_match(match: str, allowed: Sequence[str], *, has_token: bool) -> list[Cause]:
    """Return what is wrong with a `resourceVersionMatch` wherever it stands."""
    field, causes = "resourceVersionMatch", []
    if match not in allowed:
        names = ", ".join(f'"{name}"' for name in allowed)
        message = f'Unsupported value: "{match[:80]}": supported values: {names}'
        causes.append(("FieldValueNotSupported", message, field))
    if has_token:
        message = "Forbidden: resourceVersionMatch is forbidden when continue is provided"
        causes.append(("FieldValueForbidden", message, field))
    return causes


def _check_options(query: Mapping[str, str]) -> None:
    match, version, field = query.get("resourceVersionMatch", ""), query.get("resourceVersion"), "resourceVersionMatch"
    causes: list[Cause] = []
    if match and not version:
        message = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        causes.append(("FieldValueForbidden", message, field))
    if match:
        found = check_match(match, ("Exact", "NotOlderThan", ""), has_token=bool(query.get("continue")))
        causes.extend(reversed(found))
    if match == "Exact" and version == "0":
        message = 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        causes.append(("FieldValueForbidden", message, field))
    if "sendInitialEvents" in query:
        message = "Forbidden: sendInitialEvents is forbidden for list"
        causes.append(("FieldValueForbidden", message, "sendInitialEvents"))
    if causes:
        raise invalid_options("ListOptions", causes)
