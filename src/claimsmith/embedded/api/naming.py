"""Names that the server makes up, and the checks of `metadata` that all kinds share.

Source: k8s.io/apiserver v0.37.2 pkg/storage/names/generate.go; ValidateObjectMeta, k8s.io/apimachinery v0.37.2
pkg/api/validation/objectmeta.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from claimsmith.embedded.store_faults import Cause
from claimsmith.embedded.store_kinds import StoredKind

__all__ = ["check_metadata", "check_name", "generate_name"]

SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
_MAX_GENERATED: Final = 63
_MAX_ANNOTATIONS_BYTES: Final = 256 * 1024

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_NAMES: Final = frozenset({"namespaces"})

_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


def generate_name(prefix: str, choose: Callable[[str], str]) -> str:
    """Return a name with a random end.

    Args:
        prefix: `metadata.generateName`; cut so that the name stays within 63 characters.
        choose: Picks a character of a string at random.
    """
    return prefix[: _MAX_GENERATED - _SUFFIX_LENGTH] + "".join(choose(SUFFIX_ALPHABET) for _ in range(_SUFFIX_LENGTH))


def check_metadata(kind: StoredKind, metadata: dict[str, Any]) -> list[Cause]:
    """Return what is wrong with the metadata of an object.

    Args:
        kind: Kind of the object.
        metadata: Its metadata.
    """
    causes = list(check_name(kind, metadata.get("name", "")))
    causes.extend(_check_labels(metadata.get("labels") or {}))
    causes.extend(_check_annotations(metadata.get("annotations") or {}))
    for name in metadata.get("finalizers") or ():
        causes.extend(_check_qualified(name, "metadata.finalizers"))
    for index, owner in enumerate(metadata.get("ownerReferences") or ()):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                causes.append(_required(f"metadata.ownerReferences[{index}].{field}"))
    return causes


def check_name(kind: StoredKind, name: str) -> Iterator[Cause]:
    """Yield what is wrong with the name of an object."""
    path = "metadata.name"
    if not name:
        yield ("FieldValueRequired", "Required value: name or generateName is required", path)
        return
    is_label = kind.plural in _LABEL_NAMES
    longest = 63 if is_label else 253
    if len(name) > longest:
        yield _invalid(name[:80], f"must be no more than {longest} bytes", path)
    elif not (_LABEL if is_label else _SUBDOMAIN).fullmatch(name):
        yield _invalid(name, _LABEL_RULE if is_label else _SUBDOMAIN_RULE, path)


def _check_labels(labels: dict[str, str]) -> Iterator[Cause]:
    for key, value in labels.items():
        yield from _check_qualified(key, "metadata.labels")
        if value and (len(value) > 63 or not _QUALIFIED.fullmatch(value)):
            why = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
            why += "must start and end with an alphanumeric character, and be no more than 63 bytes"
            yield _invalid(value[:80], why, "metadata.labels")


def _check_annotations(annotations: dict[str, str]) -> Iterator[Cause]:
    for key in annotations:
        yield from _check_qualified(key.lower(), "metadata.annotations")
    size = sum(len(key) + len(value) for key, value in annotations.items())
    if size > _MAX_ANNOTATIONS_BYTES:
        message = f"Too long: may not be more than {_MAX_ANNOTATIONS_BYTES} bytes"
        yield ("FieldValueTooLong", message, "metadata.annotations")


def _check_qualified(key: str, path: str) -> Iterator[Cause]:
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
        yield _invalid(key[:80], f"prefix part {_SUBDOMAIN_RULE}", path)
    elif not name or len(name) > 63 or not _QUALIFIED.fullmatch(name):
        why = "name part must consist of alphanumeric characters, '-', '_' or '.', must start and end with an "
        why += "alphanumeric character, and be no more than 63 bytes"
        yield _invalid(key[:80], why, path)


def _required(path: str) -> Cause:
    return ("FieldValueRequired", "Required value", path)


def _invalid(found: str, why: str, path: str) -> Cause:
    return ("FieldValueInvalid", f'Invalid value: "{found}": {why}', path)
