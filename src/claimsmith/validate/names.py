"""The forms of names in the API: DNS labels and subdomains, label keys and values, qualified names.

Each function yields what is wrong with one text. Source: k8s.io/apimachinery v0.37.2 pkg/api/validate/content and
pkg/util/validation/validation.go; k8s.io/kubernetes v1.37.2 pkg/apis/resource/validation/validation.go.

Deviates: qualified-names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from claimsmith.validate.issues import FieldIssue, invalid, required, too_long

__all__ = [
    "check_attribute_name",
    "check_condition_type",
    "check_dns_label",
    "check_driver_name",
    "check_fully_qualified_name",
    "check_label_key",
    "check_label_value",
    "check_pool_name",
    "check_subdomain",
    "check_uid",
    "is_extended_resource_name",
]

_LABEL_FORM: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_FORM: Final = rf"{_LABEL_FORM}(\.{_LABEL_FORM})*"
_KEY_FORM: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_IDENTIFIER_FORM: Final = "[A-Za-z_][A-Za-z0-9_]*"

_LABEL: Final = re.compile(_LABEL_FORM)
_SUBDOMAIN: Final = re.compile(_SUBDOMAIN_FORM)
_KEY: Final = re.compile(_KEY_FORM)
_IDENTIFIER: Final = re.compile(_IDENTIFIER_FORM)
_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

_LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    f"with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL_FORM}')"
)
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    f"and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN_FORM}')"
)
_KEY_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_KEY_FORM}')"
)
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'({_KEY_FORM})?')"
)
_IDENTIFIER_RULE: Final = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    f"or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '{_IDENTIFIER_FORM}')"
)

_LABEL_MAX: Final = 63
_SUBDOMAIN_MAX: Final = 253
_POOL_MAX: Final = 253
_DRIVER_MAX: Final = 63
_IDENTIFIER_MAX: Final = 32


def _bytes(text: str) -> int:
    """Length in UTF-8, which is what the API's limits count."""
    return len(text) if text.isascii() else len(text.encode())


def _too_big(limit: int, unit: str = "characters") -> str:
    """The rule of a length. Upstream counts bytes everywhere and calls them characters in older texts."""
    return f"must be no more than {limit} {unit}"


def _subdomain_faults(text: str, unit: str = "characters") -> Iterator[str]:
    if _bytes(text) > _SUBDOMAIN_MAX:
        yield _too_big(_SUBDOMAIN_MAX, unit)
    if not _SUBDOMAIN.fullmatch(text):
        yield _SUBDOMAIN_RULE


def check_dns_label(text: str, path: str) -> Iterator[FieldIssue]:
    """Yield what is wrong with a DNS label: names of devices, requests, counter sets, namespaces."""
    if _bytes(text) > _LABEL_MAX:
        yield invalid(path, text, _too_big(_LABEL_MAX))
    if not _LABEL.fullmatch(text):
        yield invalid(path, text, "must not contain dots" if _SUBDOMAIN.fullmatch(text) else _LABEL_RULE)


def check_subdomain(text: str, path: str) -> Iterator[FieldIssue]:
    """Yield what is wrong with a DNS subdomain: names of most objects."""
    for fault in _subdomain_faults(text):
        yield invalid(path, text, fault)


def check_driver_name(text: str, path: str) -> Iterator[FieldIssue]:
    """Yield what is wrong with a driver name: a subdomain of at most 63 bytes, in any case."""
    if not text:
        yield required(path)
        return
    if _bytes(text) > _DRIVER_MAX:
        yield too_long(path, _DRIVER_MAX)
    for fault in _subdomain_faults(text.lower()):
        yield invalid(path, text, fault)


def check_pool_name(text: str, path: str) -> Iterator[FieldIssue]:
    """Yield what is wrong with a pool name: subdomains joined by slashes."""
    if not text:
        yield required(path)
        return
    if _bytes(text) > _POOL_MAX:
        yield too_long(path, _POOL_MAX)
    for part in text.split("/"):
        yield from check_subdomain(part, path)


def check_label_key(text: str, path: str) -> Iterator[FieldIssue]:
    """Yield what is wrong with a label key, also called a qualified name: `name` or `example.com/name`."""
    parts = text.split("/")
    if len(parts) > 2:
        rule = (
            f"a valid label key {_KEY_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )
        yield invalid(path, text, rule)
        return
    if len(parts) == 2:
        if not parts[0]:
            yield invalid(path, text, "prefix part must be non-empty")
        else:
            yield from (invalid(path, text, f"prefix part {fault}") for fault in _subdomain_faults(parts[0], "bytes"))
    name = parts[-1]
    if not name:
        yield invalid(path, text, "name part must be non-empty")
    elif _bytes(name) > _LABEL_MAX:
        yield invalid(path, text, f"name part {_too_big(_LABEL_MAX, 'bytes')}")
    if not _KEY.fullmatch(name):
        yield invalid(path, text, f"name part {_KEY_RULE}")


check_condition_type = check_label_key
"""Yield what is wrong with the type of a condition, which has the form of a label key."""


def check_label_value(text: str, path: str) -> Iterator[FieldIssue]:
    """Yield what is wrong with a label value; it may be empty."""
    if _bytes(text) > _LABEL_MAX:
        yield invalid(path, text, _too_big(_LABEL_MAX, "bytes"))
    if text and not _KEY.fullmatch(text):
        yield invalid(path, text, _VALUE_RULE)


def check_attribute_name(text: str, path: str) -> Iterator[FieldIssue]:
    """Yield what is wrong with the name of an attribute or capacity: an identifier, a domain before it or not.

    Source: validateQualifiedName; like upstream, a name with two slashes passes.
    """
    parts = text.split("/")
    if len(parts) == 2:
        if parts[0]:
            yield from check_driver_name(parts[0], path)
        else:
            yield invalid(path, "", "the domain must not be empty")
    if len(parts) == 2 and not parts[1]:
        yield invalid(path, "", "the name must not be empty")
    elif len(parts) <= 2:
        yield from _check_identifier(parts[-1], path)


def check_fully_qualified_name(text: str, path: str) -> Iterator[FieldIssue]:
    """Yield what is wrong with an attribute name that must have a domain, as in constraints."""
    yield from check_attribute_name(text, path)
    if "/" not in text:
        yield invalid(path, text, "a fully qualified name must be a domain and a name separated by a slash")


def _check_identifier(text: str, path: str) -> Iterator[FieldIssue]:
    if _bytes(text) > _IDENTIFIER_MAX:
        yield too_long(path, _IDENTIFIER_MAX)
    if not _IDENTIFIER.fullmatch(text):
        yield invalid(path, text, _IDENTIFIER_RULE)


def check_uid(text: str, path: str) -> Iterator[FieldIssue]:
    """Yield what is wrong with a uid in the form of RFC 4122."""
    if not _UID.fullmatch(text):
        rule = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase "
        yield invalid(path, text, rule + "hexadecimal characters")


def is_extended_resource_name(text: str) -> bool:
    """Tell whether a text names an extended resource, such as `example.com/gpu`.

    Source: IsExtendedResourceName in pkg/apis/core/v1/helper/helpers.go.
    """
    if "/" not in text or "kubernetes.io/" in text or text.startswith("requests."):
        return False
    return not any(True for _ in check_label_key(f"requests.{text}", ""))
