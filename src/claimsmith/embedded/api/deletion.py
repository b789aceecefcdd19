"""Deleting objects: grace periods of pods, propagation to dependents, namespaces with their content.

Source: k8s.io/apiserver v0.37.2 pkg/registry/generic/registry/store.go; CheckGracefulDelete of pods, k8s.io/kubernetes
v1.37.2 pkg/registry/core/pod/strategy.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from claimsmith.embedded.api.decode import SCHEME
from claimsmith.embedded.api.objects import ObjectApi
from claimsmith.embedded.api.options import find_dry_run_faults
from claimsmith.embedded.api.served import ServedKind
from claimsmith.embedded.store import Deletion
from claimsmith.embedded.store_changes import WriteOptions
from claimsmith.embedded.store_faults import Cause, bad_request, forbidden, invalid_options
from claimsmith.embedded.store_records import JsonObject, Record

__all__ = ["FOREGROUND", "ORPHAN", "DeleteRequest", "delete_object", "parse_delete_options"]

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
_POLICY_FINALIZERS: Final = {"Foreground": (FOREGROUND,), "Orphan": (ORPHAN,), "Background": ()}
_ENDED: Final = ("Succeeded", "Failed")
_LASTING_NAMESPACES: Final = frozenset({"default", "kube-system", "kube-public"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRequest:
    """The options of a deletion.

    Args:
        grace_s: Seconds that a pod has to end; None for what the pod says.
        policy: `Background`, `Foreground` or `Orphan`.
        uid: Delete only the object with this uid; empty for any.
        version: Delete only this resourceVersion; empty for any.
        dry_run: Check everything, change nothing.
    """

    grace_s: int | None = None
    policy: str = "Background"
    uid: str = ""
    version: str = ""
    dry_run: bool = False


def parse_delete_options(options: Any, query: dict[str, str]) -> DeleteRequest:
    """Return the options of a deletion from its body, or from its query if it has none.

    Args:
        options: The decoded `DeleteOptions`; None for no body.
        query: The query of the request.

    Raises:
        RequestError: 400, an option has no meaning.
    """
    sent: dict[str, Any] = {**query} if options is None else {}
    if options is not None:
        if not isinstance(options, dict):
            raise bad_request("the body of a deletion must be DeleteOptions")
        if (found := options.get("kind", "DeleteOptions")) != "DeleteOptions":
            version = str(options.get("apiVersion", ""))[:80]
            raise bad_request(f'no kind "{str(found)[:80]}" is registered for version "{version}" in scheme "{SCHEME}"')
        sent |= {name: found for name, found in options.items() if found is not None}
    dry_run = sent.get("dryRun") or []
    if causes := [*_find_faults(sent), *find_dry_run_faults(dry_run if isinstance(dry_run, list) else [dry_run])]:
        raise invalid_options("DeleteOptions", causes)
    policy = sent.get("propagationPolicy") or ("Orphan" if _is_true(sent.get("orphanDependents")) else "Background")
    preconditions = sent.get("preconditions", {})
    if not isinstance(preconditions, dict):
        raise bad_request("preconditions: expected an object")
    return DeleteRequest(
        grace_s=_parse_grace(sent.get("gracePeriodSeconds")),
        policy=policy,
        uid=str(preconditions.get("uid") or ""),
        version=str(preconditions.get("resourceVersion") or ""),
        dry_run=bool(dry_run),
    )


async def delete_object(
    api: ObjectApi, served: ServedKind, namespace: str, name: str, request: DeleteRequest
) -> Record:
    """Delete an object, or begin to, and return its last state.

    Args:
        api: The objects.
        served: Kind of the object.
        namespace: Namespace of the object; empty for none.
        name: Name of the object.
        request: The options.

    Raises:
        RequestError: 404, it does not exist; 403, it must stay; 409, a precondition does not hold.
    """
    record = api.store.get(served.stored, namespace, name)
    if served.kind.plural == "namespaces":
        _check_lasting(served, name)
        await _mark_terminating(api, served, name, request)
    deletion = Deletion(
        is_graceful=served.kind.plural == "pods",
        grace_s=_grace_of(served, record.value, request.grace_s),
        uid=request.uid,
        version=request.version if served.kind.plural != "namespaces" else "",
        finalizers=_POLICY_FINALIZERS[request.policy],
        dry_run=request.dry_run,
    )
    return await api.store.delete(served.stored, namespace, name, deletion)


def _grace_of(served: ServedKind, value: JsonObject, asked_s: int | None) -> int:
    if served.kind.plural != "pods":
        return 0
    spec, status = value.get("spec") or {}, value.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in _ENDED:
        return 0
    grace_s = asked_s if asked_s is not None else int(spec.get("terminationGracePeriodSeconds", 30))
    return max(grace_s, 0)


def _check_lasting(served: ServedKind, name: str) -> None:
    if name in _LASTING_NAMESPACES:
        raise forbidden(served.stored, name, "this namespace may not be deleted")


async def _mark_terminating(api: ObjectApi, served: ServedKind, name: str, request: DeleteRequest) -> None:
    def mark(old: Record) -> JsonObject:
        value = old.copy()
        value["status"] = {**(value.get("status") or {}), "phase": "Terminating"}
        return value

    options = WriteOptions(part="status", dry_run=request.dry_run)
    await api.store.change(served.stored, "", name, mark, options=options)


def _parse_grace(found: object) -> int | None:
    if found is None or found == "":
        return None
    try:
        return int(str(found))
    except ValueError as error:
        raise bad_request(f"gracePeriodSeconds: found {str(found)[:80]!r}, allowed a whole number") from error


def _find_faults(sent: dict[str, Any]) -> Iterator[Cause]:
    """Yield what is wrong with the policy.

    Source: ValidateDeleteOptions, k8s.io/apimachinery v0.37.2 pkg/apis/meta/v1/validation/validation.go.
    """
    policy, field = sent.get("propagationPolicy"), "propagationPolicy"
    if policy is not None and sent.get("orphanDependents") is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        yield "FieldValueInvalid", f'Invalid value: "{str(policy)[:80]}": {why}', field
    elif policy is not None and policy not in _POLICY_FINALIZERS:
        names = '"Foreground", "Background", "Orphan", "nil"'
        yield "FieldValueNotSupported", f'Unsupported value: "{str(policy)[:80]}": supported values: {names}', field


def _is_true(found: object) -> bool:
    return str(found).lower() in ("true", "1")
