"""What the API does with objects, without HTTP: defaults, admission, ownership of fields, then the store."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from claimsmith.embedded.api.admission import Admission
from claimsmith.embedded.api.decode import FieldCheck, read_object
from claimsmith.embedded.api.defaults import fill_defaults, prepare_new
from claimsmith.embedded.api.naming import generate_name
from claimsmith.embedded.api.served import ServedKind
from claimsmith.embedded.store import Store
from claimsmith.embedded.store_changes import WriteOptions, WritePart
from claimsmith.embedded.store_faults import bad_request
from claimsmith.embedded.store_records import JsonObject, Record

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
        fill_defaults(served.kind.plural, value, now=now)
        prepare_new(served.kind.plural, value, now=now)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = generate_name(metadata["generateName"], self._choose)
        if namespace:
            self.admission.check_namespace(served, namespace, metadata.get("name", ""))
        self.admission.complete(served, value)
        self.admission.admit_new(served, value)
        return await self.store.create(served.stored, value, dry_run=request.dry_run)

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
    ) -> Record:
        """Replace an object by what a function makes of it and return it as stored.

        Args:
            served: Kind of the object.
            namespace: Namespace of the object; empty for none.
            name: Name of the object.
            change: Takes a copy of the object and returns the new state.
            request: Who writes, and which part.

        Raises:
            RequestError: The change is refused, see its status.
        """
        request = request or WriteRequest()
        now = self.store.now()

        def make(old: Record) -> JsonObject:
            value = change(old.copy())
            if not isinstance(value.get("metadata"), dict):
                raise bad_request("metadata: found none, expected an object")
            value["metadata"] |= {"name": old.name, **({"namespace": old.namespace} if old.namespace else {})}
            fill_defaults(served.kind.plural, value, now=now)
            return value

        def admit(old: Record, value: JsonObject) -> None:
            self.admission.admit_change(served, old, value, part=request.part)

        options = WriteOptions(part=request.part, dry_run=request.dry_run, admit=admit)
        return await self.store.change(served.stored, namespace, name, make, options=options)

    def normalize(self, served: ServedKind, value: object, request: WriteRequest) -> JsonObject:
        """Return what a patch made of an object, checked against the type of its kind.

        Raises:
            RequestError: 400, it no longer is an object of the kind.
        """
        return read_object(served, value, request.check)


def _check_new(served: ServedKind, namespace: str, metadata: JsonObject) -> None:
    if metadata.get("resourceVersion"):
        raise bad_request("resourceVersion should not be set on objects to be created")
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
