"""Case files as values: one YAML document with inputs and the right result, read as Kubernetes reads YAML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from claimsmith.api.manifests import Manifest, read_documents
from claimsmith.api.objects import ModelObject, parse_manifest
from claimsmith.errors import FieldError, InputError

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFile:
    """One case file.

    Args:
        name: Name of the file without its ending.
        content: The document.
        text: The file, to find lines in it.
    """

    name: str
    content: Mapping[str, Any]
    text: str = field(default="", repr=False)

    @property
    def kind(self) -> str:
        """Which judge the case is for."""
        return str(self.content.get("kind"))

    def check_fields(self, *allowed: str) -> None:
        """Refuse what no judge looks at: an expectation that nobody reads would hold for ever.

        Raises:
            FieldError: The case has a field that is not among the allowed ones.
        """
        check_fields(self.content, *_COMMON, *allowed)

    def objects(self, key: str = "objects") -> tuple[ModelObject, ...]:
        """Return the manifests of a list of the case as values, checked strictly.

        Raises:
            InputError: One of them can't be used.
        """
        found = (parse_manifest(manifest) for manifest in self.manifests(key))
        return tuple(value for value in found if value is not None)

    def manifests(self, key: str = "objects") -> Iterator[Manifest]:
        """Yield the manifests of a list of the case."""
        for index, value in enumerate(self.content.get(key) or ()):
            yield Manifest(object=value, source=self.name, path=f"{key}[{index}]", text=self.text)


_COMMON = ("case", "kind", "concerns", "origin", "features", "objects", "expect")


def list_cases(folder: Path) -> list[Path]:
    """Return the case files of a folder by name."""
    return sorted(path for path in folder.iterdir() if path.suffix in (".yaml", ".yml"))


def read_case(path: Path) -> CaseFile:
    """Return the case of a file.

    Raises:
        InputError: The file is no case.
    """
    text = path.read_text(encoding="utf-8")
    documents = [document.value for document in read_documents(text, source=path.name)]
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise InputError(f"{path.name}: found {len(documents)} documents, allowed one object; split the file")
    return CaseFile(name=path.stem, content=documents[0], text=text)


def check_fields(value: Mapping[str, Any], *allowed: str) -> None:
    """Refuse fields that are not among the allowed ones.

    Raises:
        FieldError: There is such a field.
    """
    for name in value:
        if name not in allowed:
            raise FieldError(name, value[name], allowed=", ".join(allowed), hint="teach the judge this field")
