"""The options of writes: dry runs, managers of fields, validation of fields.

Source: k8s.io/apimachinery v0.37.2 pkg/apis/meta/v1/validation/validation.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from claimsmith.embedded.store_faults import Cause, invalid_options

__all__ = ["check_write_options", "find_dry_run_faults"]

_MANAGER_BYTES_MAX: Final = 128
_MODES: Final = ("", "Ignore", "Strict", "Warn")


def check_write_options(query: Mapping[str, str], kind: str, *, applies: bool = False) -> None:
    """Refuse options of a write that are not allowed.

    Args:
        query: The query of the request.
        kind: `CreateOptions`, `UpdateOptions` or `PatchOptions`.
        applies: Whether a configuration is applied.

    Raises:
        RequestError: 422, with every option at fault.
    """
    causes = [*_find_patch_faults(query, applies=applies)] if kind == "PatchOptions" else []
    manager = query.get("fieldManager", "")
    if len(manager.encode()) > _MANAGER_BYTES_MAX:
        message = f"Too long: may not be more than {_MANAGER_BYTES_MAX} bytes"
        causes.append(("FieldValueTooLong", message, "fieldManager"))
    for index, letter in enumerate(manager):
        if not letter.isprintable():
            why = f"invalid character U+{ord(letter):04X} (at position {index})"
            causes.append(("FieldValueInvalid", f"Invalid value: {json.dumps(manager)}: {why}", "fieldManager"))
    causes.extend(find_dry_run_faults([query["dryRun"]] if query.get("dryRun") else []))
    mode = query.get("fieldValidation", "")
    if mode not in _MODES:
        names = ", ".join(f'"{name}"' for name in _MODES)
        message = f'Unsupported value: "{mode[:80]}": supported values: {names}'
        causes.append(("FieldValueNotSupported", message, "fieldValidation"))
    if causes:
        raise invalid_options(kind, causes)


def find_dry_run_faults(sent: Sequence[object]) -> Iterator[Cause]:
    """Yield what is wrong with the values of `dryRun`."""
    if any(value != "All" for value in sent):
        found = json.dumps([str(value)[:80] for value in sent])
        yield "FieldValueNotSupported", f'Unsupported value: {found}: supported values: "All"', "dryRun"


def _find_patch_faults(query: Mapping[str, str], *, applies: bool) -> Iterator[Cause]:
    if not applies and "force" in query:
        yield "FieldValueForbidden", "Forbidden: may not be specified for non-apply patch", "force"
    if applies and not query.get("fieldManager"):
        yield "FieldValueRequired", "Required value: is required for apply patch", "fieldManager"
