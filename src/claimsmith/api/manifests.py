"""Text to objects: JSON, YAML, several documents, lists. What the objects mean is for `api.objects` to say.

A manifest remembers where it came from, so that an error can name the text, the document and the line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from claimsmith.api.jsontext import Document, JsonReader, skip_space
from claimsmith.api.kinds import find_list_kind
from claimsmith.api.yamltext import Place, find_place, read_yaml
from claimsmith.errors import ManifestError

__all__ = ["Manifest", "parse_manifests", "read_documents"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One object of a text.

    Args:
        object: The decoded object; it has `apiVersion` and `kind`, or says so in the error that its use raises.
        source: Name of the text, such as a file name.
        document: Number of the document in the text, from 1.
        path: Where the object stands in its document, such as `items[2]`; empty for the document itself.
        line: Line at which the document begins, from 1.
        text: The whole text, kept to find lines in it.
    """

    object: Mapping[str, Any]
    source: str
    document: int = 1
    path: str = ""
    line: int = 1
    text: str = field(default="", repr=False, compare=False)

    def locate(self, path: str = "") -> str:
        """Return `SOURCE, document N, line M` for a field of the object, for messages.

        Args:
            path: Field path within the object; empty for the object itself.
        """
        place = self.find_place(path)
        return f"{self.source}, document {self.document}, line {place.line if place else self.line}"

    def find_place(self, path: str = "") -> Place | None:
        """Return line and text of a field, or of its nearest parent that is there; None without the text."""
        full = ".".join(part for part in (self.path, path) if part).replace(".[", "[")
        return find_place(self.text, full, document=self.document) if self.text else None


def parse_manifests(text: str, *, source: str) -> tuple[Manifest, ...]:
    """Return the objects of a text, those of lists one by one; empty documents are left out.

    Args:
        text: JSON (one object or several in a row) or YAML (one document or several).
        source: Name of the text for messages, such as a file name or `<stdin>`.

    Raises:
        ManifestError: The text can't be read, or a document is no object.
    """
    found: list[Manifest] = []
    for document in read_documents(text, source=source):
        if document.value is None:
            continue
        if not isinstance(document.value, dict):
            raise ManifestError(
                source,
                f"found {_describe(document.value)}, allowed an object with apiVersion and kind",
                hint="write a Kubernetes manifest",
                document=document.number,
                line=document.line,
            )
        whole = Manifest(object=document.value, source=source, document=document.number, line=document.line, text=text)
        found.extend(_flatten(whole))
    return tuple(found)


def read_documents(text: str, *, source: str) -> Iterator[Document]:
    """Yield the JSON values of a text, whatever they are; empty documents as None.

    A text that begins with a brace or bracket is read as JSON, and as YAML when it is no JSON.

    Raises:
        ManifestError: The text is neither JSON nor YAML, or not as it must be.
    """
    text = text.removeprefix("\ufeff")
    if text[skip_space(text, 0) :][:1] not in ("{", "["):
        yield from read_yaml(text, source=source)
        return
    reader = JsonReader(source)
    try:
        documents = tuple(reader.read_all(text))
    except ManifestError as json_error:
        if not reader.is_broken:
            raise
        documents = _read_flow_yaml(text, source, json_error)
    yield from documents


def _read_flow_yaml(text: str, source: str, json_error: ManifestError) -> tuple[Document, ...]:
    """Read a text in braces that is no JSON; when it is no YAML either, the error further down says more."""
    try:
        return tuple(read_yaml(text, source=source))
    except ManifestError as yaml_error:
        raise (json_error if json_error.line > yaml_error.line else yaml_error) from json_error


def _flatten(manifest: Manifest) -> Iterator[Manifest]:
    """Yield the manifest, or the objects in it when it is a list; lists in lists too."""
    stack = [manifest]
    while stack:
        current = stack.pop()
        api_version, kind, items = (current.object.get(key) for key in ("apiVersion", "kind", "items"))
        listed = find_list_kind(str(api_version), str(kind))
        if listed is None and not (api_version == "v1" and kind == "List"):
            yield current
            continue
        if not isinstance(items, list):
            items = _no_list(current, items)
        defaults = {} if listed is None else {"apiVersion": listed.api_version, "kind": listed.kind}
        stack.extend(_item(current, i, items[i], defaults) for i in range(len(items) - 1, -1, -1))


def _no_list(manifest: Manifest, items: object) -> list[Any]:
    """Return the items of a list object without items; refuse items that are no list."""
    if items is None:
        return []
    raise ManifestError(
        manifest.source,
        f"items: found {_describe(items)}, allowed a list of objects",
        hint="write each object after a dash",
        document=manifest.document,
        line=manifest.line,
    )


def _item(parent: Manifest, index: int, value: Any, defaults: Mapping[str, str]) -> Manifest:
    """Return one object of a list."""
    path = f"{parent.path}.items[{index}]" if parent.path else f"items[{index}]"
    if not isinstance(value, dict):
        raise ManifestError(
            parent.source,
            f"{path}: found {_describe(value)}, allowed an object with apiVersion and kind",
            hint="write a Kubernetes manifest",
            document=parent.document,
            line=parent.line,
        )
    return Manifest(
        object={**defaults, **value},
        source=parent.source,
        document=parent.document,
        path=path,
        line=parent.line,
        text=parent.text,
    )


def _describe(value: object) -> str:
    """Return what a value is, for messages."""
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    return f"{value!r:.60}" if isinstance(value, (str, int, float)) else "null"
