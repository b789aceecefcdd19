"""What each HTTP method does with a collection, an object or a subresource."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from claimsmith.embedded.api.accept import AcceptedForm, choose_form
from claimsmith.embedded.api.decode import FieldCheck, decode_body, find_unknown, read_object
from claimsmith.embedded.api.deletion import DeleteRequest, delete_object, parse_delete_options
from claimsmith.embedded.api.http import Answer, Request, Stream, json_answer, status_value
from claimsmith.embedded.api.listing import check_version, list_page, parse_version
from claimsmith.embedded.api.logs import LogSource
from claimsmith.embedded.api.objects import ObjectApi, WriteRequest
from claimsmith.embedded.api.options import check_write_options
from claimsmith.embedded.api.patches import Patch, decode_patch
from claimsmith.embedded.api.render import render_page, render_record
from claimsmith.embedded.api.routes import Target
from claimsmith.embedded.api.served import ServedKind
from claimsmith.embedded.api.subresources import Subresources
from claimsmith.embedded.api.watching import open_watch
from claimsmith.embedded.store_faults import bad_request, invalid, method_not_allowed
from claimsmith.embedded.store_records import JsonObject, Record, encode_json, watch_line
from claimsmith.errors import RequestError

__all__ = ["Verbs"]

_GONE: Final = 410
_SHOWN_WHEN_GONE: Final = frozenset(
    {
        "deviceclasses",
        "devicetaintrules",
        "pods",
        "resourceclaims",
        "resourceclaimtemplates",
        "resourceslices",
        "serviceaccounts",
    }
)
"""Kinds whose deletion answers with the object; others answer with a Status.

Source: ReturnDeletedObject in the storages of k8s.io/kubernetes v1.37.2 pkg/registry.
"""


class Verbs:
    """Answers requests about objects.

    Args:
        api: The objects.
        logs: Where the output of containers comes from; None if nothing runs here.
    """

    def __init__(self, api: ObjectApi, *, logs: LogSource | None = None) -> None:
        self._api, self._store = api, api.store
        self._subresources = Subresources(api, logs)

    def close(self) -> None:
        """End every open watch and log."""
        self._store.end_all_watches()
        self._subresources.ending.set()

    async def answer(self, target: Target, request: Request) -> Answer | Stream:
        """Return the answer to a request about a kind.

        Raises:
            RequestError: The request is refused, see its status.
        """
        answer = await self._answer(target, request)
        deprecation = target.served.kind.deprecation
        return _warn(answer, [deprecation]) if deprecation and isinstance(answer, Answer) else answer

    async def _answer(self, target: Target, request: Request) -> Answer | Stream:
        verb = _verb_of(target, request)
        if not verb or (verb in ("create", "deletecollection") and _lacks_namespace(target)):
            raise method_not_allowed()
        form = choose_form(request.headers.get("accept", ""))
        if target.served.kind.plural == "bindings":
            return await self._answer_subresource(target, request, verb)
        if target.subresource in ("", "status") and verb not in target.served.kind.verbs:
            raise method_not_allowed()
        match verb, target.subresource:
            case "get", "" | "status":
                return self._get(target, request, form)
            case "list", "":
                return self._list(target, request, form)
            case "watch", "":
                return self._watch(target, request, form)
            case "create", "":
                return await self._create(target, request, form)
            case "update", "" | "status":
                return await self._replace(target, request, form)
            case "patch", "" | "status":
                return await self._patch(target, request, form)
            case "delete", "":
                return await self._delete(target, request, form)
            case "deletecollection", "":
                return await self._delete_all(target, request, form)
        return await self._answer_subresource(target, request, verb)

    async def _answer_subresource(self, target: Target, request: Request, verb: str) -> Answer | Stream:
        answer = await self._subresources.answer(target, request, verb)
        if answer is None:
            raise method_not_allowed()
        return answer

    def _get(self, target: Target, request: Request, form: AcceptedForm) -> Answer:
        check_version(self._store, parse_version(request.query))
        return self._show(
            target, self._store.get(target.served.stored, target.namespace, target.name), form, request.query
        )

    def _show(self, target: Target, record: Record, form: AcceptedForm, query: Mapping[str, str]) -> Answer:
        return render_record(target.served, record, form, query, clock=self._store.clock)

    def _list(self, target: Target, request: Request, form: AcceptedForm) -> Answer:
        page = list_page(self._store, target.served, target.namespace, request.query)
        return render_page(target.served, page, form, request.query, clock=self._store.clock)

    def _watch(self, target: Target, request: Request, form: AcceptedForm) -> Stream:
        try:
            watch = open_watch(self._store, target.served, target.namespace, request, form)
        except RequestError as error:
            if error.status != _GONE:
                raise
            # Upstream's cache finds out when the answer has begun.
            line = watch_line("ERROR", encode_json(status_value(error)))
            return Stream(run=lambda write: write(line))
        return Stream(run=lambda write: watch.run(request, write))

    async def _create(self, target: Target, request: Request, form: AcceptedForm) -> Answer:
        check_write_options(request.query, "CreateOptions")
        write = _write_request(target, request)
        value = target.served.to_hub(self._read(target, request, write))
        if target.served.kind.plural == "resourceslices":
            write.check.warnings.extend(_driver_warnings(value))
        record = await self._api.create(target.served.hub, target.namespace, value, write)
        answer = self._show(target, record, form, request.query)
        answer.status = 201
        return _warn(answer, write.check.warnings)

    async def _replace(self, target: Target, request: Request, form: AcceptedForm) -> Answer:
        check_write_options(request.query, "UpdateOptions")
        write = _write_request(target, request)
        value = target.served.to_hub(self._read(target, request, write))
        if not (value.get("metadata") or {}).get("name"):
            raise _undeterminable(target)
        record = await self._api.replace(target.served.hub, target.namespace, target.name, value, write)
        return _warn(self._show(target, record, form, request.query), write.check.warnings)

    async def _patch(self, target: Target, request: Request, form: AcceptedForm) -> Answer:
        served, content_type = target.served, request.headers.get("content-type", "")
        patch = decode_patch(served, request.body, content_type)
        check_write_options(request.query, "PatchOptions", applies=patch.is_apply)
        write = _write_request(target, request)
        if patch.is_apply:
            return await self._apply(target, request, patch, form)

        def change(value: JsonObject) -> JsonObject:
            uid = value["metadata"]["uid"]
            patched = patch.apply(served.from_hub(value))
            try:
                found = read_object(served, patched, write.check)
            except RequestError as error:
                raise _invalid_patch(patched, error) from error
            if not isinstance(found.get("metadata"), dict):
                raise _invalid_patch(patched, bad_request("metadata: found none, expected an object"))
            _check_uid(served, found, uid)
            return served.to_hub(found)

        record = await self._api.change(served.hub, target.namespace, target.name, change, write)
        return _warn(self._show(target, record, form, request.query), write.check.warnings)

    async def _apply(self, target: Target, request: Request, patch: Patch, form: AcceptedForm) -> Answer:
        write = _write_request(target, request)
        config = self._read_config(target, patch, write)
        if config["metadata"].get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        config, force = target.served.to_hub(config), request.flag("force")
        record, is_new = await self._api.apply(
            target.served.hub, target.namespace, target.name, config, write, force=force
        )
        answer = self._show(target, record, form, request.query)
        answer.status = 201 if is_new else 200
        return _warn(answer, write.check.warnings)

    def _read_config(self, target: Target, patch: Patch, write: WriteRequest) -> JsonObject:
        """Return what is applied, of which every field must be known."""
        kind, value = target.served.kind, patch.value
        version, name = str(value.get("apiVersion", "")), str(value.get("kind", ""))
        if (version, name) != (kind.api_version, kind.kind):
            group, _, short = version.rpartition("/")
            raise bad_request(f"invalid object type: {group[:80]}/{short[:80]}, Kind={name[:80]}")
        metadata = value.get("metadata") if isinstance(value.get("metadata"), dict) else {}
        if not metadata.get("name"):
            raise _undeterminable(target)
        check = FieldCheck("Strict")
        try:
            return read_object(target.served, value, check)
        except RequestError as error:
            if not (unknown := find_unknown(error)):
                raise
            where = f"{metadata.get('namespace', '')}/{metadata['name']}; {kind.api_version}, Kind={kind.kind}"
            why = f"failed to create typed patch object ({where}): .{unknown}: field not declared in schema"
            raise RequestError(500, "", why) from error

    async def _delete(self, target: Target, request: Request, form: AcceptedForm) -> Answer:
        options = _delete_request(request)
        record = await delete_object(self._api, target.served.hub, target.namespace, target.name, options)
        still_there = self._store.find(target.served.stored, target.namespace, target.name) is not None
        if target.served.kind.plural in _SHOWN_WHEN_GONE or (still_there and not options.dry_run):
            return self._show(target, record, form, request.query)
        return json_answer(_deleted_status(target, record))

    async def _delete_all(self, target: Target, request: Request, form: AcceptedForm) -> Answer:
        options = _delete_request(request)
        page = list_page(self._store, target.served, target.namespace, request.query)
        for record in page.records:
            try:
                await delete_object(self._api, target.served.hub, record.namespace, record.name, options)
            except RequestError as error:
                if error.status != 404:
                    raise
        return render_page(target.served, page, form, request.query, clock=self._store.clock)

    def _read(self, target: Target, request: Request, write: WriteRequest) -> dict[str, Any]:
        content_type = request.headers.get("content-type", "")
        value = decode_body(request.body, content_type)
        body = request.body if request.body[:1] in b"{[ \n" else b""
        return read_object(target.served, value, write.check, body=body)


def _verb_of(target: Target, request: Request) -> str:
    method = request.method
    if method == "GET":
        if target.name:
            return "get"
        return "watch" if request.flag("watch") else "list"
    if method == "DELETE":
        return "delete" if target.name else "deletecollection"
    if method == "POST" and (not target.name or target.subresource):
        return "create"
    verbs = {"PUT": "update", "PATCH": "patch"}
    return verbs.get(method, "") if target.name else ""


def _lacks_namespace(target: Target) -> bool:
    """Tell whether a path names the objects of all namespaces, which can be read alone."""
    return target.served.kind.namespaced and not target.namespace


def _write_request(target: Target, request: Request) -> WriteRequest:
    query = request.query
    mode = query.get("fieldValidation") or "Warn"
    manager = query.get("fieldManager", "")
    agent = request.headers.get("user-agent", "").split("/", 1)[0]
    return WriteRequest(
        manager=manager or agent or "unknown",
        tracked=bool(manager),
        dry_run=bool(query.get("dryRun")),
        check=FieldCheck(mode),  # type: ignore[arg-type]
        part="status" if target.subresource == "status" else "main",
    )


def _delete_request(request: Request) -> DeleteRequest:
    content_type = request.headers.get("content-type", "")
    options = decode_body(request.body, content_type) if request.body.strip() else None
    return parse_delete_options(options, dict(request.query))


def _warn(answer: Answer, warnings: Sequence[str]) -> Answer:
    """Add warnings, which kubectl prints, to an answer."""
    texts = [warning.replace("\\", "\\\\").replace('"', '\\"') for warning in warnings[:16]]
    if texts:
        before = answer.headers.get("Warning")
        found = [*([before] if before else []), *(f'299 - "{text}"' for text in texts)]
        answer.headers = {**answer.headers, "Warning": ", ".join(found)}
    return answer


def _deleted_status(target: Target, record: Record) -> dict[str, Any]:
    kind = target.served.kind
    details = {"name": record.name, "group": kind.group, "kind": kind.plural, "uid": record.value["metadata"]["uid"]}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }


def _driver_warnings(value: JsonObject) -> Iterator[str]:
    """Yield what upstream warns of in a new slice."""
    driver = str((value.get("spec") or {}).get("driver") or "")
    if driver != driver.lower():
        yield f'spec.driver: driver names should be lowercase; "{driver}" contains uppercase characters'


def _undeterminable(target: Target) -> RequestError:
    return bad_request(f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided")


def _invalid_patch(patched: Any, error: RequestError) -> RequestError:
    """Return the refusal of what a patch has made of an object."""
    message = f"Invalid value: {json.dumps(json.dumps(patched))}: {error.message}"
    details = {"causes": [{"reason": "FieldValueInvalid", "message": message, "field": "patch"}]}
    return RequestError(422, "Invalid", f' "" is invalid: patch: {message}', details=details)


def _check_uid(served: ServedKind, value: JsonObject, uid: str) -> None:
    """Refuse a patch that makes an object another one."""
    metadata = value["metadata"]
    if (found := metadata.get("uid", uid)) != uid:
        cause = ("FieldValueInvalid", f"Invalid value: {json.dumps(found)}: field is immutable", "metadata.uid")
        raise invalid(served.stored, metadata.get("name", ""), [cause])
