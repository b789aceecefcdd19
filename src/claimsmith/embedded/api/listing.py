"""Lists: selectors, pages and resourceVersion semantics.

Source: k8s.io/apiserver v0.37.2 pkg/storage/continue.go, pkg/storage/cacher, pkg/apis/meta/internalversion/validation.

Deviates: pages, exact-version.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from claimsmith.embedded.api.served import ServedKind
from claimsmith.embedded.store import Store
from claimsmith.embedded.store_faults import bad_request, expired, invalid
from claimsmith.embedded.store_records import Record
from claimsmith.embedded.store_select import Selection, parse_fields, parse_labels
from claimsmith.errors import RequestError

__all__ = ["Page", "check_version", "list_page", "parse_selection", "parse_version"]


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
            raise bad_request(f"field label not supported: {requirement.path[:80]}")
    return Selection(namespace=namespace, labels=parse_labels(labels) if labels else (), fields=requirements)


def parse_version(query: Mapping[str, str]) -> int | None:
    """Return the resourceVersion that a request names; None if it names none.

    Raises:
        RequestError: 400, it is no version.
    """
    text = query.get("resourceVersion", "")
    if not text:
        return None
    if not text.isdigit() or len(text) > 20:
        raise bad_request(f"resourceVersion: Invalid value: {text[:80]!r}: strconv.ParseUint: parsing: invalid syntax")
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
    version = parse_version(query)
    _check_match(served, query, version)
    selection = parse_selection(served, namespace, query)
    limit = _parse_limit(query)
    token = query.get("continue", "")
    records = store.list(served.stored, selection)
    if not token:
        check_version(store, version)
        if query.get("resourceVersionMatch") == "Exact" and version != store.version:
            raise expired(f"The resourceVersion for the provided list is too old: {version} ({store.version})")
        return _cut(records, store.version, limit, selection)
    if version:
        raise bad_request("resourceVersion: Forbidden: may not be set together with continue")
    first_version, after = _parse_token(token)
    if first_version < store.compacted_version(served.stored):
        raise expired("The provided continue parameter is too old to display a consistent list result")
    rest = [record for record in records if (record.namespace, record.name) > after]
    return _cut(rest, first_version, limit, selection)


def _cut(records: list[Record], version: int, limit: int, selection: Selection) -> Page:
    if not limit or len(records) <= limit:
        return Page(records=records, version=version)
    last = records[limit - 1]
    token = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": version, "start": [last.namespace, last.name]})
    selective = bool(selection.labels or selection.fields)
    return Page(
        records=records[:limit],
        version=version,
        continue_token=base64.urlsafe_b64encode(token).rstrip(b"=").decode(),
        remaining=None if selective else len(records) - limit,
    )


def _parse_token(token: str) -> tuple[int, tuple[str, str]]:
    try:
        padded = token + "=" * (-len(token) % 4)
        value = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=dict[str, Any])
        namespace, name = value["start"]
        return int(value["rv"]), (str(namespace), str(name))
    except (binascii.Error, msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise bad_request("continue key is not valid") from error


def _parse_limit(query: Mapping[str, str]) -> int:
    text = query.get("limit", "")
    if not text:
        return 0
    if not text.isdigit() or len(text) > 18:
        raise bad_request(f"limit: found {text[:80]!r}, allowed a whole number >= 0")
    return int(text)


def _check_match(served: ServedKind, query: Mapping[str, str], version: int | None) -> None:
    match = query.get("resourceVersionMatch", "")
    field = "resourceVersionMatch"
    if not match:
        return
    causes = []
    if version is None:
        causes.append(("FieldValueForbidden", "Forbidden: is forbidden unless resourceVersion is provided", field))
    elif match not in ("Exact", "NotOlderThan"):
        message = f'Unsupported value: "{match[:80]}": supported values: "Exact", "NotOlderThan"'
        causes.append(("FieldValueNotSupported", message, field))
    elif match == "Exact" and version == 0:
        causes.append(("FieldValueForbidden", 'Forbidden: "Exact" is forbidden for resourceVersion "0"', field))
    if causes:
        raise invalid(served.stored, "", causes)
