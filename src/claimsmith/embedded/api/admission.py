"""What has to hold before an object is stored: metadata, references and the rules of its kind.

Source: admission plugins NamespaceLifecycle, ServiceAccount and Priority of k8s.io/kubernetes v1.37.2;
pkg/registry/resource/utils.go.

Deviates: words-of-rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from claimsmith.api.kinds import NAMESPACE, PRIORITY_CLASS, SERVICE_ACCOUNT
from claimsmith.embedded.api.served import ServedKind, get_kind
from claimsmith.embedded.store import Store
from claimsmith.embedded.store_faults import forbidden, invalid, not_found
from claimsmith.embedded.store_records import JsonObject, Record
from claimsmith.model.policy import SYSTEM_PRIORITIES
from claimsmith.validate import FieldIssue, validate_create, validate_status_update, validate_update

__all__ = ["Admission"]

_Place = tuple[str, JsonObject]
"""Path and content of a request or result."""

_ADMIN_LABEL: Final = "resource.kubernetes.io/admin-access"


class Admission:
    """Checks objects against the state of the cluster.

    Args:
        store: The objects of the cluster.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._namespaces = get_kind(NAMESPACE).stored
        self._accounts = get_kind(SERVICE_ACCOUNT).stored
        self._priorities = get_kind(PRIORITY_CLASS).stored

    def check_namespace(self, served: ServedKind, namespace: str, name: str) -> None:
        """Refuse new content of a namespace that does not exist or is ending.

        Raises:
            RequestError: 404, there is no such namespace; 403, it is being deleted.
        """
        found = self._store.find(self._namespaces, "", namespace)
        if found is None:
            raise not_found(self._namespaces, namespace)
        if found.value["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            message = f"namespace {namespace} is being terminated"
            cause = {"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}
            refusal = forbidden(served.stored, name, why)
            refusal.details["causes"] = [cause]
            raise refusal

    def complete(self, served: ServedKind, value: JsonObject) -> None:
        """Fill into a new object what other objects decide, such as the priority of a pod or of a group.

        Raises:
            RequestError: 403, it names an object that does not exist.
        """
        if served.kind.plural == "pods":
            self._check_account(served, value)
            self._set_priority(served, value)
        elif served.kind.plural == "podgroups":
            self._set_group_priority(served, value)

    def _check_admin_access(self, served: ServedKind, value: JsonObject, places: Iterable[_Place]) -> None:
        """Refuse access to devices in use unless the namespace may ask for it."""
        path = next((found for found, item in places if item.get("adminAccess")), None)
        if path is None:
            return
        namespace = self._store.find(self._namespaces, "", value["metadata"]["namespace"])
        labels = {} if namespace is None else namespace.value["metadata"].get("labels") or {}
        if labels.get(_ADMIN_LABEL) != "true":
            rule = f"the `{_ADMIN_LABEL}: true` label on the containing namespace"
            message = f"Forbidden: admin access to devices requires {rule}"
            cause = ("FieldValueForbidden", message, f"{path}.adminAccess")
            raise invalid(served.stored, value["metadata"].get("name", ""), [cause])

    def admit_new(self, served: ServedKind, value: JsonObject) -> None:
        """Refuse a new object that is not allowed.

        Raises:
            RequestError: 422, with every field at fault.
        """
        _refuse(served, value, validate_create(served.kind, value))
        self._check_admin_access(served, value, _asked(served, value))

    def admit_change(self, served: ServedKind, old: Record, value: JsonObject, *, part: str) -> None:
        """Refuse a change that is not allowed.

        Args:
            served: The kind.
            old: The state before.
            value: The state to be stored.
            part: `main`, `status` or `all`.

        Raises:
            RequestError: 422, with every field at fault.
        """
        if part == "main":
            _refuse(served, value, validate_update(served.kind, old.value, value))
        elif part == "status":
            _refuse(served, value, validate_status_update(served.kind, old.value, value))
            if not any(item.get("adminAccess") for _, item in _granted(served, old.value)):
                self._check_admin_access(served, value, _granted(served, value))

    def _check_account(self, served: ServedKind, value: JsonObject) -> None:
        namespace, name = value["metadata"]["namespace"], value["spec"]["serviceAccountName"]
        if self._store.find(self._accounts, namespace, name) is None:
            why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
            raise forbidden(served.stored, value["metadata"].get("name", ""), why)

    def _set_priority(self, served: ServedKind, value: JsonObject) -> None:
        spec = value["spec"]
        name = spec.get("priorityClassName")
        if not name:
            return
        spec["priority"], policy = self._find_priority(served, value, name)
        if policy:
            spec["preemptionPolicy"] = policy

    def _set_group_priority(self, served: ServedKind, value: JsonObject) -> None:
        spec = value["spec"]
        name = spec.get("priorityClassName")
        priority = self._find_priority(served, value, name)[0] if name else 0
        if spec.setdefault("priority", priority) != priority:
            why = (
                f"priority set in the pod group ({spec['priority']}) must match the priority computed ({priority}) "
                "based on the priority class set in the spec"
            )
            raise forbidden(served.stored, value["metadata"].get("name", ""), why)

    def _find_priority(self, served: ServedKind, value: JsonObject, name: str) -> tuple[int, str]:
        """Return the priority of a class, and its preemption policy; empty for a class of the system."""
        found = self._store.find(self._priorities, "", name)
        if found is not None:
            return found.value.get("value", 0), found.value.get("preemptionPolicy", "PreemptLowerPriority")
        if name in SYSTEM_PRIORITIES:
            return SYSTEM_PRIORITIES[name], ""
        why = f"no PriorityClass with name {name} was found"
        raise forbidden(served.stored, value["metadata"].get("name", ""), why)


def _refuse(served: ServedKind, value: JsonObject, issues: tuple[FieldIssue, ...]) -> None:
    if issues:
        causes = [issue.cause for issue in issues]
        raise invalid(served.stored, value["metadata"].get("name", ""), causes)


def _asked(served: ServedKind, value: JsonObject) -> Iterator[_Place]:
    """Yield path and content of each request for devices."""
    if served.kind.plural not in ("resourceclaims", "resourceclaimtemplates"):
        return
    spec = value.get("spec") or {}
    if served.kind.plural == "resourceclaimtemplates":
        spec = spec.get("spec") or {}
    for index, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        yield f"spec.devices.requests[{index}]", request.get("exactly") or {}


def _granted(served: ServedKind, value: JsonObject) -> Iterator[_Place]:
    """Yield path and content of each allocated device."""
    if served.kind.plural == "resourceclaims":
        devices = ((value.get("status") or {}).get("allocation") or {}).get("devices") or {}
        for index, result in enumerate(devices.get("results") or ()):
            yield f"status.allocation.devices.results[{index}]", result
