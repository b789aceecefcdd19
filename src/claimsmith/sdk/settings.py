"""The settings of a driver as documents: of a kind of its own, for some nodes or for all.

A document is an object of `claimsmith.dev/v1alpha1` with a `spec`, or, in a file of its own, the bare content of one.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from claimsmith.api.manifests import Manifest
from claimsmith.errors import FieldError
from claimsmith.sdk.device_file import read_documents_of
from claimsmith.sdk.driver import DriverContext
from claimsmith.sdk.strict import parse_strictly

__all__ = ["SETTINGS_API_VERSION", "SettingsDocument", "find_named_nodes", "read_settings"]

SETTINGS_API_VERSION: Final = "claimsmith.dev/v1alpha1"
"""Version of the kinds that hold settings of drivers."""
_PATTERN: Final = frozenset("*?[")

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsDocument:
    """One document of settings.

    Args:
        manifest: Where it stands.
        content: The settings without the envelope.
        path: Path of the content within the document: `spec`, or empty for a bare one.
    """

    manifest: Manifest
    content: Mapping[str, Any]
    path: str

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names or patterns (`*`, `?`) of the nodes that it is for; one `*` when it names none.

        Raises:
            FieldError: `nodes` is no list of names.
        """
        nodes = self.content.get("nodes", ["*"])
        if not isinstance(nodes, list) or not all(isinstance(name, str) for name in nodes):
            path = f"{self.path}.nodes".removeprefix(".")
            hint = "write a list, and names in quotes"
            raise FieldError(path, nodes, allowed="a list of names", hint=hint, source=self.manifest.locate(path))
        return tuple(nodes)

    def is_for(self, node: str) -> bool:
        """Tell whether the document is for a node; every one is when no node is named."""
        return not node or any(fnmatch.fnmatchcase(node, pattern) for pattern in self.nodes)

    def parse(self, into: type[T]) -> T:
        """Return the settings as a msgspec Struct or a dataclass.

        Raises:
            FieldError: A field is unknown, missing, or holds what its type does not allow.
        """
        return parse_strictly(self.content, into, path=self.path, locate=self.manifest.locate)


def read_settings(context: DriverContext, kind: str) -> tuple[SettingsDocument, ...]:
    """Return the documents of a kind for a node, those of files first.

    Objects of other kinds in the same files are passed over.

    Args:
        context: Files, documents and node.
        kind: Kind of the documents, such as `SimulatedDevices`.

    Raises:
        InputError: A document can't be read.
        ConfigError: A file can't be read.
    """
    found = [
        document
        for path in context.settings_files
        for manifest in read_documents_of(path)
        for document in _open(manifest, kind, bare=True)
    ]
    found += [document for manifest in context.documents for document in _open(manifest, kind, bare=False)]
    return tuple(document for document in found if document.is_for(context.node_name))


def find_named_nodes(manifest: Manifest) -> tuple[str, ...]:
    """Return the nodes that a document of settings names in full; none for patterns and other objects.

    Raises:
        FieldError: `nodes` is no list of names.
    """
    if manifest.object.get("apiVersion") != SETTINGS_API_VERSION:
        return ()
    documents = _open(manifest, str(manifest.object.get("kind")), bare=False)
    return tuple(name for document in documents for name in document.nodes if not _PATTERN.intersection(name))


def _open(manifest: Manifest, kind: str, *, bare: bool) -> Iterator[SettingsDocument]:
    """Yield the content of a document of the kind."""
    value = manifest.object
    if bare and "apiVersion" not in value and "kind" not in value:
        yield SettingsDocument(manifest=manifest, content=value, path=manifest.path)
    elif value.get("kind") == kind and value.get("apiVersion") == SETTINGS_API_VERSION:
        spec = value.get("spec") or {}
        if not isinstance(spec, Mapping):
            where = manifest.locate("spec")
            raise FieldError("spec", spec, allowed="an object", hint="write the settings below spec", source=where)
        yield SettingsDocument(manifest=manifest, content=spec, path="spec")
