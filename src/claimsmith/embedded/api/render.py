"""Objects and lists in the form that a client asked for: itself, a table for people, or metadata alone.

Source: k8s.io/apiserver v0.37.2 pkg/endpoints/handlers/response.go.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import yaml

from claimsmith.embedded.api.accept import AcceptedForm
from claimsmith.embedded.api.http import Answer
from claimsmith.embedded.api.listing import Page
from claimsmith.embedded.api.served import ServedKind
from claimsmith.embedded.api.tables import columns_of, row_of
from claimsmith.embedded.store_faults import bad_request
from claimsmith.embedded.store_records import JsonObject, Record, encode_json

__all__ = ["RowRenderer", "make_renderer", "render_page", "render_record"]

RowRenderer = Callable[[Record], bytes]
"""Gives one object in the form that a client asked for."""

_YAML: Final = "application/yaml"


def render_record(
    served: ServedKind, record: Record, form: AcceptedForm, query: Mapping[str, str], *, clock: Callable[[], float]
) -> Answer:
    """Return the answer that shows one object."""
    if form.shape:
        body = make_renderer(served, form, query, clock=clock)(record)
    else:
        body = _encode(served, record)
    return encode_answer(body, form)


def render_page(
    served: ServedKind, page: Page, form: AcceptedForm, query: Mapping[str, str], *, clock: Callable[[], float]
) -> Answer:
    """Return the answer that shows one page of a list."""
    if form.shape == "Table":
        include = _find_include(query)
        rows = [_row(served, record, include, clock()) for record in page.records]
        body = encode_json(_table(served, form, rows, page.metadata))
    elif form.shape:
        items = [encode_json(_metadata_of(record, form)) for record in page.records]
        body = _list_body("PartialObjectMetadataList", f"meta.k8s.io/{form.version}", page, items)
    else:
        kind = served.kind
        body = _list_body(kind.list_kind, kind.api_version, page, _items(served, page))
    return encode_answer(body, form)


def make_renderer(
    served: ServedKind, form: AcceptedForm, query: Mapping[str, str], *, clock: Callable[[], float]
) -> RowRenderer:
    """Return what gives objects one by one in a form; of a table, only the first has column definitions."""
    if not form.shape:
        return lambda record: _encode(served, record)
    if form.shape == "PartialObjectMetadata":
        return lambda record: encode_json(_metadata_of(record, form))
    first, include = True, _find_include(query)

    def render(record: Record) -> bytes:
        nonlocal first
        metadata = {"resourceVersion": str(record.version)}
        table = _table(served, form, [_row(served, record, include, clock())], metadata)
        if not first:
            table["columnDefinitions"] = None
        first = False
        return encode_json(table)

    return render


def encode_answer(body: bytes, form: AcceptedForm) -> Answer:
    """Return an answer with a JSON body, or with the same as YAML if the client asked for it."""
    if form.format == "yaml":
        text = yaml.dump(msgspec.json.decode(body), Dumper=yaml.CSafeDumper, allow_unicode=True)
        return Answer(body=text.encode(), content_type=_YAML)
    return Answer(body=body)


def _encode(served: ServedKind, record: Record) -> bytes:
    """Return an object as JSON; in the version in which it is kept, that is done once for all clients."""
    return record.encoded if served.is_hub else encode_json(served.from_hub(record.value))


def _items(served: ServedKind, page: Page) -> list[bytes]:
    """Return the objects of a page without kind and version, which the list itself tells."""
    kind = served.kind
    head = encode_json({"kind": kind.kind, "apiVersion": kind.api_version})[:-1] + b","
    return [b"{" + _encode(served, record).removeprefix(head) for record in page.records]


def _list_body(kind: str, api_version: str, page: Page, items: list[bytes]) -> bytes:
    head = encode_json({"kind": kind, "apiVersion": api_version, "metadata": page.metadata})
    return b'%b,"items":[%b]}' % (head[:-1], b",".join(items))


def _table(
    served: ServedKind, form: AcceptedForm, rows: list[JsonObject], metadata: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{form.version}",
        "metadata": metadata,
        "columnDefinitions": columns_of(served.kind.plural),
        "rows": rows,
    }


def _find_include(query: Mapping[str, str]) -> str:
    """Return what rows carry.

    Raises:
        RequestError: 400, there is no such choice.
    """
    include = query.get("includeObject") or "Metadata"
    if include not in ("None", "Metadata", "Object"):
        why = f"includeObject: Invalid value: {json.dumps(include)}: must be 'Metadata', 'Object', 'None', or empty"
        raise bad_request(f"Unable to convert to Table as requested: {why}")
    return include


def _row(served: ServedKind, record: Record, include: str, now: float) -> JsonObject:
    row = row_of(served.kind.plural, record.value, now=now)
    if include == "Metadata":
        row["object"] = _metadata_of(record, AcceptedForm())
    elif include == "Object":
        row["object"] = served.from_hub(record.value)
    return row


def _metadata_of(record: Record, form: AcceptedForm) -> JsonObject:
    api_version = f"meta.k8s.io/{form.version}"
    return {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": record.value["metadata"]}
