"""The subresources that are not a part of the object: binding, eviction and log of a pod.

Source: BindingREST and EvictionREST, k8s.io/kubernetes v1.37.2 pkg/registry/core/pod/storage.

Deviates: evictions.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from claimsmith.api.kinds import BINDING, POD
from claimsmith.embedded.api.decode import FieldCheck, decode_body, read_object
from claimsmith.embedded.api.deletion import delete_object, parse_delete_options
from claimsmith.embedded.api.http import Answer, Request, Stream, json_answer
from claimsmith.embedded.api.logs import LogSource, answer_log
from claimsmith.embedded.api.objects import ObjectApi
from claimsmith.embedded.api.routes import Target
from claimsmith.embedded.api.served import get_kind
from claimsmith.embedded.store_changes import WriteOptions, other_uid
from claimsmith.embedded.store_faults import bad_request, conflict
from claimsmith.embedded.store_records import JsonObject, Record
from claimsmith.errors import RequestError

__all__ = ["Subresources", "bind_pod"]

_PODS = get_kind(POD)


class Subresources:
    """Answers requests about subresources.

    Args:
        api: The objects.
        logs: Where the output of containers comes from; None if nothing runs here.
    """

    def __init__(self, api: ObjectApi, logs: LogSource | None) -> None:
        self._api, self._logs = api, logs
        self.ending = asyncio.Event()

    async def answer(self, target: Target, request: Request, verb: str) -> Answer | Stream | None:
        """Return the answer to a request; None if the server does not allow it.

        Raises:
            RequestError: The request is refused, see its status.
        """
        plural = target.served.kind.plural
        if plural == "pods" and target.subresource == "log" and verb == "get":
            record = self._api.store.get(_PODS.stored, target.namespace, target.name)
            return answer_log(self._logs, record, request, now=self._api.store.clock(), ending=self.ending)
        if verb != "create":
            return None
        if plural == "pods" and target.subresource == "eviction":
            return await self._evict(target, request)
        if (plural, target.subresource) in (("pods", "binding"), ("bindings", "")):
            return await self._bind(target, request)
        return None

    async def _bind(self, target: Target, request: Request) -> Answer:
        value = decode_body(request.body, request.headers.get("content-type", ""))
        binding = read_object(get_kind(BINDING), value, FieldCheck())
        sent = (binding.get("metadata") or {}).get("name") or ""
        name = target.name or sent
        if name != sent:
            raise bad_request("name in URL does not match name in Binding object")
        await bind_pod(self._api, target.namespace, name, binding, dry_run=request.query.get("dryRun") == "All")
        return json_answer(_success(), status=201)

    async def _evict(self, target: Target, request: Request) -> Answer:
        value = decode_body(request.body, request.headers.get("content-type", ""))
        if not isinstance(value, dict):
            raise bad_request("the body of an eviction must be an Eviction of policy/v1")
        if value.get("kind", "Eviction") != "Eviction":
            kind, version = (str(value.get(name, ""))[:80] for name in ("kind", "apiVersion"))
            why = f"converting ({version}.{kind}) to (policy.Eviction): unknown conversion"
            raise bad_request(f'{kind} in version "{version}" cannot be handled as a Eviction: {why}')
        metadata = value.get("metadata")
        if not isinstance(metadata, dict) or metadata.get("name") != target.name:
            raise bad_request("name in URL does not match name in Eviction object")
        options = parse_delete_options(value.get("deleteOptions"), dict(request.query))
        await delete_object(self._api, _PODS, target.namespace, target.name, options)
        return json_answer(_success(), status=201)


async def bind_pod(api: ObjectApi, namespace: str, name: str, binding: JsonObject, *, dry_run: bool = False) -> Record:
    """Put a pod on a node and return it.

    Args:
        api: The objects.
        namespace: Namespace of the pod.
        name: Name of the pod.
        binding: The `Binding`, with its target.
        dry_run: Check everything, change nothing.

    Raises:
        RequestError: 404, there is no such pod; 409, it is bound, gated or going; 500, as upstream, the target is none.
    """
    target: JsonObject = binding.get("target") or {}
    _check_target(target)
    now = api.store.now()

    def bind(old: Record) -> JsonObject:
        value = old.copy()
        _check_bindable(old, binding.get("metadata") or {})
        value["spec"]["nodeName"] = target["name"]
        _carry_annotations(value, binding.get("metadata") or {})
        _set_scheduled(value.setdefault("status", {}), now)
        return value

    options = WriteOptions(part="all", dry_run=dry_run)
    return await api.store.change(_PODS.stored, namespace, name, bind, options=options)


def _check_target(target: JsonObject) -> None:
    if target.get("kind") not in (None, "", "Node"):
        message = f'Unsupported value: "{str(target["kind"])[:80]}": supported values: "Node", "<empty>"'
        raise RequestError(500, "", f"target.kind: {message}")
    if not target.get("name"):
        raise RequestError(500, "", "target.name: Required value")


def _check_bindable(old: Record, sent: JsonObject) -> None:
    metadata, spec = old.value["metadata"], old.value.get("spec") or {}
    if sent.get("uid") and sent["uid"] != metadata["uid"]:
        raise conflict(old.kind, old.name, other_uid(old, sent["uid"]))
    if sent.get("resourceVersion") and sent["resourceVersion"] != metadata["resourceVersion"]:
        why = "Precondition failed: the resourceVersion differs"
    elif metadata.get("deletionTimestamp"):
        why = f"pod {old.name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {old.name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {old.name} has non-empty .spec.schedulingGates"
    else:
        return
    raise conflict(replace(old.kind, plural="pods/binding"), old.name, why)


def _carry_annotations(value: JsonObject, sent: JsonObject) -> None:
    if sent.get("annotations"):
        metadata = value["metadata"]
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **sent["annotations"]}


def _set_scheduled(status: JsonObject, now: str) -> None:
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}
    others = [found for found in status.get("conditions") or () if found.get("type") != "PodScheduled"]
    status["conditions"] = [*others, condition]


def _success() -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
