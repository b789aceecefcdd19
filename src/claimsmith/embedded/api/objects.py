"""What the API does with objects, without HTTP: defaults, admission, ownership of fields, then the store.

Deviates: service-account.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from claimsmith.api.kinds import NAMESPACE, SERVICE_ACCOUNT
from claimsmith.embedded.api.admission import Admission
from claimsmith.embedded.api.apply import Applier, apply_config
from claimsmith.embedded.api.decode import FieldCheck
from claimsmith.embedded.api.defaults import carry_filled, drop_empty, fill_defaults, prepare_new
from claimsmith.embedded.api.managers import Owner, keep_times, track_update
from claimsmith.embedded.api.naming import generate_name
from claimsmith.embedded.api.served import ServedKind, get_kind
from claimsmith.embedded.api.strategies import prepare_change
from claimsmith.embedded.store import Store
from claimsmith.embedded.store_changes import WriteOptions, WritePart
from claimsmith.embedded.store_faults import bad_request, conflict, invalid
from claimsmith.embedded.store_records import JsonObject, Record
from claimsmith.errors import RequestError

__all__ = ["ObjectApi", "WriteRequest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """Who writes, and how.

    Args:
        manager: Name under which the writer owns fields.
        tracked: Whether the writer named itself, so that its fields are tracked from the first write on.
        dry_run: Check everything, change nothing.
        check: What to do about unknown fields.
        part: What may be touched.
    """

    manager: str = "unknown"
    tracked: bool = False
    dry_run: bool = False
    check: FieldCheck = field(default_factory=FieldCheck)
    part: WritePart = "main"

    def owner(self, served: ServedKind, now: str, *, operation: str = "Update") -> Owner:
        """Return the entry of `managedFields` for what this write sets."""
        return Owner(
            manager=self.manager,
            operation=operation,
            api_version=served.kind.api_version,
            fields={},
            subresource="status" if self.part == "status" else "",
            time=now,
        )


class ObjectApi:
    """Creates, changes and reads objects the way the API does.

    Args:
        store: Where the objects are kept.
        choose: Picks a character of a string at random, for generated names.
    """

    def __init__(self, store: Store, *, choose: Callable[[str], str] = secrets.choice) -> None:
        self.store = store
        self.admission = Admission(store)
        self._choose = choose

    async def create(
        self, served: ServedKind, namespace: str, value: JsonObject, request: WriteRequest | None = None
    ) -> Record:
        """Create an object and return it as stored.

        Args:
            served: Kind of the object.
            namespace: Namespace of the path; empty for none.
            value: The object, normalized; it belongs to the server from now on.
            request: Who writes, and how.

        Raises:
            RequestError: The object is refused, see its status.
        """
        request = request or WriteRequest()
        now = self.store.now()
        metadata = value.setdefault("metadata", {})
        _check_new(served, namespace, metadata)
        _drop_status(served, value)
        drop_empty(metadata)
        fill_defaults(served.kind.plural, value, now=now)
        if request.tracked and not metadata.get("managedFields"):
            track_update(None, value, served.shape, request.owner(served, now))
        prepare_new(served.kind.plural, value, now=now)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = generate_name(metadata["generateName"], self._choose)
        if namespace:
            self.admission.check_namespace(served, namespace, metadata.get("name", ""))
        self.admission.complete(served, value)
        self.admission.admit_new(served, value)
        record = await self.store.create(served.stored, value, dry_run=request.dry_run)
        if served.kind is NAMESPACE and not request.dry_run:
            await self.create_default_account(record.name)
        return record

    async def create_default_account(self, namespace: str) -> None:
        """Create the ServiceAccount `default` of a namespace where it is missing."""
        served = get_kind(SERVICE_ACCOUNT)
        if self.store.find(served.stored, namespace, "default") is None:
            await self.create(served, namespace, {"metadata": {"name": "default"}})

    async def replace(
        self, served: ServedKind, namespace: str, name: str, value: JsonObject, request: WriteRequest | None = None
    ) -> Record:
        """Replace an object, or its status, and return it as stored.

        Args:
            served: Kind of the object.
            namespace: Namespace of the path; empty for none.
            name: Name of the path.
            value: The object, normalized; it belongs to the server from now on.
            request: Who writes, and which part.

        Raises:
            RequestError: The change is refused, see its status.
        """
        metadata = value.setdefault("metadata", {})
        _check_path(served, namespace, name, metadata)
        return await self.change(served, namespace, name, lambda _old: value, request)

    async def change(
        self,
        served: ServedKind,
        namespace: str,
        name: str,
        change: Callable[[JsonObject], JsonObject],
        request: WriteRequest | None = None,
        *,
        applied: bool = False,
    ) -> Record:
        """Replace an object by what a function makes of it and return it as stored.

        Args:
            served: Kind of the object.
            namespace: Namespace of the object; empty for none.
            name: Name of the object.
            change: Takes a copy of the object and returns the new state.
            request: Who writes, and which part.
            applied: Whether the new state already tells who owns which field.

        Raises:
            RequestError: The change is refused, see its status.
        """
        request = request or WriteRequest()
        now = self.store.now()

        def make(old: Record) -> JsonObject:
            value = change(old.copy())
            if not isinstance(value.get("metadata"), dict):
                raise bad_request("metadata: found none, expected an object")
            _check_path(served, old.namespace, old.name, value["metadata"])
            value["metadata"] |= {"name": old.name, **({"namespace": old.namespace} if old.namespace else {})}
            fill_defaults(served.kind.plural, value, now=now)
            carry_filled(served.kind.plural, value, old.value)
            drop_empty(value["metadata"])
            if applied:
                keep_times(value, old.value)
            return value

        def admit(old: Record, value: JsonObject) -> None:
            prepare_change(served.kind.plural, old.value, value, part=request.part, now=now)
            if not applied:
                _track(served, old, value, request, now)
            self.admission.admit_change(served, old, value, part=request.part)

        options = WriteOptions(part=request.part, dry_run=request.dry_run, admit=admit)
        return await self.store.change(served.stored, namespace, name, make, options=options)

    async def apply(
        self,
        served: ServedKind,
        namespace: str,
        name: str,
        config: JsonObject,
        request: WriteRequest,
        *,
        force: bool = False,
    ) -> tuple[Record, bool]:
        """Merge a configuration into an object by who owns which field; create it if it does not exist.

        Args:
            served: Kind of the object.
            namespace: Namespace of the path; empty for none.
            name: Name of the path.
            config: What the applier wants, normalized.
            request: Who applies, and which part.
            force: Take fields over from others.

        Returns:
            The object as stored, and whether it is new.

        Raises:
            RequestError: 409, others own fields that the configuration changes; or the object is refused.
        """
        _check_path(served, namespace, name, config.setdefault("metadata", {}))
        now = self.store.now()

        def merge(live: JsonObject) -> JsonObject:
            applier = Applier(
                shape=served.shape,
                owner=request.owner(served, now, operation="Apply"),
                complete=lambda value: fill_defaults(served.kind.plural, value, now=now),
                force=force,
            )
            return apply_config(live, config, applier)

        found, uid = self.store.find(served.stored, namespace, name), config["metadata"].get("uid")
        if found is not None and uid and uid != found.value["metadata"]["uid"]:
            cause = ("FieldValueInvalid", f'Invalid value: "{uid}": field is immutable', "metadata.uid")
            raise invalid(served.stored, name, [cause])
        if found is None and request.part == "main":
            config["metadata"].pop("resourceVersion", None)
            if uid:
                # Source: applyPatcher in pkg/endpoints/handlers/patch.go of apiserver v0.37.2.
                why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                raise conflict(served.stored, name, why)
            return await self.create(served, namespace, merge({"metadata": {}}), request), True
        return await self.change(served, namespace, name, merge, request, applied=True), False


def _track(served: ServedKind, old: Record, value: JsonObject, request: WriteRequest, now: str) -> None:
    """Record who set which field, if anybody has asked for that."""
    before = old.value["metadata"].get("managedFields")
    if before and "managedFields" not in value["metadata"]:
        value["metadata"]["managedFields"] = before
    if before or request.tracked:
        track_update(old.value, value, served.shape, request.owner(served, now))


def _check_new(served: ServedKind, namespace: str, metadata: JsonObject) -> None:
    if metadata.get("resourceVersion"):
        raise RequestError(500, "", "resourceVersion should not be set on objects to be created")
    _check_path(served, namespace, metadata.get("name", ""), metadata)
    if served.kind.namespaced:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)


def _check_path(served: ServedKind, namespace: str, name: str, metadata: JsonObject) -> None:
    found = metadata.get("namespace")
    if served.kind.namespaced and found and found != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if metadata.get("name") and metadata["name"] != name:
        raise bad_request(
            f"the name of the object ({metadata['name'][:80]}) does not match the name on the URL ({name})"
        )
    metadata["name"] = name
    if not name:
        metadata.pop("name")


def _drop_status(served: ServedKind, value: JsonObject) -> None:
    """Drop the status of a new object; a node brings its own, as kubelet sends it."""
    if served.kind.has_status and served.kind.plural != "nodes":
        value.pop("status", None)
