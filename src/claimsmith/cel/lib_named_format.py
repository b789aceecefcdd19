"""format.named() and validate(): the text formats of Kubernetes names and of OpenAPI.

Source: pkg/cel/library/format.go in k8s.io/apiserver v0.37.2; pkg/api/validation and pkg/util/validation in
k8s.io/apimachinery v0.37.2; pkg/validation/strfmt in k8s.io/kube-openapi.

Deviates: format-text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Final

from claimsmith.cel.declarations import Function, function, method, overload
from claimsmith.cel.lib_url import is_url
from claimsmith.cel.types import NAMED_FORMAT, STRING, list_of, optional_of
from claimsmith.cel.values import NONE, NamedFormat, Optional

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED_PART: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_UUID: Final = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_DATE_TIME: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_UUID_SIZE: Final = 72
_DATE_TIME_SIZE: Final = 71
_MAX_LABEL: Final = 63
_MAX_SUBDOMAIN: Final = 253
_LEAP_YEAR: Final = 2000


def _name(pattern: re.Pattern[str], limit: int, rule: str, *, prefix: bool = False) -> Callable[[str], list[str]]:
    """Return the check of a name; a prefix may end with a dash, since a generated suffix follows it."""

    def validate(text: str) -> list[str]:
        checked = text[:-1] + "a" if prefix and text.endswith("-") else text
        faults = [f"must be no more than {limit} bytes"] if len(checked.encode()) > limit else []
        return faults if pattern.fullmatch(checked) else [*faults, rule]

    return validate


def _qualified_name(text: str) -> list[str]:
    prefix, slash, name = text.rpartition("/")
    faults = []
    if slash and (not prefix or _name(_SUBDOMAIN, _MAX_SUBDOMAIN, "")(prefix)):
        faults.append("prefix part must be a DNS subdomain")
    if not name or len(name) > _MAX_LABEL or not _QUALIFIED_PART.fullmatch(name):
        faults.append("name part must consist of at most 63 alphanumeric characters, '-', '_' or '.'")
    return faults


def _label_value(text: str) -> list[str]:
    fits = len(text) <= _MAX_LABEL and _LABEL_VALUE.fullmatch(text)
    return [] if fits else ["must be at most 63 alphanumeric characters, '-', '_' or '.'"]


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    try:
        date(int(match.group(1)) or _LEAP_YEAR, int(match.group(2)), int(match.group(3)))
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    match = _DATE_TIME.fullmatch(text)
    if match is None or not _is_date(match.group(1)):
        return False
    hour, minute, second = (int(part) for part in match.groups()[1:])
    return hour <= 23 and minute <= 59 and second <= 59


def _test(accepts: Callable[[str], object], fault: str) -> Callable[[str], list[str]]:
    return lambda text: [] if accepts(text) else [fault]


_LABEL_RULE: Final = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'"
_SUBDOMAIN_RULE: Final = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
_LABEL_1035_RULE: Final = "a DNS-1035 label must start with a letter and consist of lower case alphanumeric or '-'"

FORMATS: Final[dict[str, NamedFormat]] = {
    "dns1123Label": NamedFormat("DNS1123Label", _name(_LABEL, _MAX_LABEL, _LABEL_RULE), 30),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", _name(_SUBDOMAIN, _MAX_SUBDOMAIN, _SUBDOMAIN_RULE), 60),
    "dns1035Label": NamedFormat("DNS1035Label", _name(_LABEL_1035, _MAX_LABEL, _LABEL_1035_RULE), 30),
    "qualifiedName": NamedFormat("QualifiedName", _qualified_name, 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _name(_LABEL, _MAX_LABEL, _LABEL_RULE, prefix=True), 30),
    "dns1123SubdomainPrefix": NamedFormat(
        "DNS1123SubdomainPrefix", _name(_SUBDOMAIN, _MAX_SUBDOMAIN, _SUBDOMAIN_RULE, prefix=True), 60
    ),
    "dns1035LabelPrefix": NamedFormat(
        "DNS1035LabelPrefix", _name(_LABEL_1035, _MAX_LABEL, _LABEL_1035_RULE, prefix=True), 30
    ),
    "labelValue": NamedFormat("LabelValue", _label_value, 40),
    "uri": NamedFormat("URI", _test(is_url, "invalid URI for request"), 1103),
    "uuid": NamedFormat("uuid", _test(_UUID.fullmatch, "does not match the UUID format"), _UUID_SIZE),
    "byte": NamedFormat("byte", _test(_BASE64.fullmatch, "invalid base64"), 84),
    "date": NamedFormat("date", _test(_is_date, "invalid date"), _DATE_TIME_SIZE),
    "datetime": NamedFormat("datetime", _test(_is_date_time, "invalid datetime"), _DATE_TIME_SIZE),
}
"""The named formats."""


def find_format(name: str) -> Optional:
    """`format.named(name)`."""
    found = FORMATS.get(name)
    return Optional(found, True) if found else NONE


def validate(a_format: NamedFormat, text: str) -> Optional:
    """`format.validate(text)`: the faults, or none."""
    faults = a_format.validate(text)
    return Optional(faults, True) if faults else NONE


def _constant(a_format: NamedFormat) -> Callable[[], NamedFormat]:
    return lambda: a_format


FUNCTIONS: Final[tuple[Function, ...]] = (
    function("validate", method("format-validate", (NAMED_FORMAT, STRING), optional_of(list_of(STRING)), validate)),
    function("format.named", overload("format-named", (STRING,), optional_of(NAMED_FORMAT), find_format)),
    *(
        function(f"format.{name}", overload(f"format.{name}", (), NAMED_FORMAT, _constant(a_format)))
        for name, a_format in FORMATS.items()
    ),
)
"""Functions of named formats."""
