"""Types of the selector language, and the unification rules that the checker works with.

Source: common/types/types.go, checker/types.go, checker/mapping.go, checker/format.go in cel-go v0.29.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

Kind = Literal[
    "any", "bool", "bytes", "double", "duration", "dyn", "error", "int", "list", "map", "null", "opaque", "string",
    "struct", "timestamp", "type", "param", "uint",
]  # fmt: skip

_SHORT_NAMES: Final = {
    "any": "any",
    "duration": "duration",
    "error": "!error!",
    "null": "null",
    "timestamp": "timestamp",
}


@dataclass(frozen=True, slots=True, eq=False)
class CelType:
    """A type: its kind, its name and, for containers, the types inside.

    Args:
        kind: What the checker tells apart.
        name: The name at run time, such as `int` or `kubernetes.Quantity`.
        params: Element type of lists; key and value type of maps; content of optionals.
    """

    kind: Kind
    name: str
    params: tuple[CelType, ...] = ()
    text: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", _format(self))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, CelType)
            and self.kind == other.kind
            and self.name == other.name
            and self.params == other.params
        )

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        if not self.params:
            return self.name
        return f"{self.name}({', '.join(map(str, self.params))})"

    def param_names(self) -> set[str]:
        """Return the names of the type parameters in this type."""
        if self.kind == "param":
            return {self.name}
        return {name for inner in self.params for name in inner.param_names()}

    @property
    def is_dyn(self) -> bool:
        """True for the types that the checker leaves to run time."""
        return self.kind in ("dyn", "any")

    @property
    def is_dyn_or_error(self) -> bool:
        """True for run-time types and for parts that are wrong already."""
        return self.kind in ("dyn", "any", "error")

    @property
    def is_optional(self) -> bool:
        """True for `optional_type(...)`."""
        return self.kind == "opaque" and self.name == "optional_type"


def _format(a_type: CelType) -> str:
    """Name a type as compile errors name it."""
    if a_type.kind in _SHORT_NAMES:
        return _SHORT_NAMES[a_type.kind]
    if a_type.params:
        return f"{a_type.name}({', '.join(param.text for param in a_type.params)})"
    return a_type.name


ANY: Final = CelType("any", "google.protobuf.Any")
BOOL: Final = CelType("bool", "bool")
BYTES: Final = CelType("bytes", "bytes")
DOUBLE: Final = CelType("double", "double")
DURATION: Final = CelType("duration", "google.protobuf.Duration")
DYN: Final = CelType("dyn", "dyn")
ERROR: Final = CelType("error", "error")
INT: Final = CelType("int", "int")
NULL: Final = CelType("null", "null_type")
STRING: Final = CelType("string", "string")
TIMESTAMP: Final = CelType("timestamp", "google.protobuf.Timestamp")
TYPE: Final = CelType("type", "type")
UINT: Final = CelType("uint", "uint")
QUANTITY: Final = CelType("struct", "kubernetes.Quantity")
SEMVER: Final = CelType("struct", "kubernetes.Semver")
URL: Final = CelType("struct", "kubernetes.URL")
NAMED_FORMAT: Final = CelType("struct", "kubernetes.NamedFormat")
DEVICE: Final = CelType("struct", "kubernetes.DRADevice")
IP: Final = CelType("opaque", "net.IP")
CIDR: Final = CelType("opaque", "net.CIDR")


def list_of(element: CelType) -> CelType:
    """Return the type of a list."""
    return CelType("list", "list", (element,))


def map_of(key: CelType, value: CelType) -> CelType:
    """Return the type of a map."""
    return CelType("map", "map", (key, value))


def optional_of(content: CelType) -> CelType:
    """Return the type of an optional value."""
    return CelType("opaque", "optional_type", (content,))


def type_of(content: CelType) -> CelType:
    """Return the type of a type value."""
    return CelType("type", "type", (content,))


def param(name: str) -> CelType:
    """Return a type parameter of an overload, or a free variable of the checker."""
    return CelType("param", name)


Mapping = dict[str, CelType]
"""Types found for type parameters, by the text of the parameter."""


def is_assignable(mapping: Mapping, given: CelType, wanted: CelType) -> Mapping | None:
    """Return the mapping extended so that one type fits the other; None when it doesn't fit."""
    return is_assignable_list(mapping, (given,), (wanted,))


def is_assignable_list(mapping: Mapping, given: tuple[CelType, ...], wanted: tuple[CelType, ...]) -> Mapping | None:
    """Return the mapping extended so that each type fits its counterpart; None when one doesn't."""
    extended = mapping.copy()
    return extended if _fits_all(extended, given, wanted) else None


def _fits_all(mapping: Mapping, given: tuple[CelType, ...], wanted: tuple[CelType, ...]) -> bool:
    return len(given) == len(wanted) and all(_fits(mapping, one, two) for one, two in zip(given, wanted, strict=True))


def _fits(mapping: Mapping, given: CelType, wanted: CelType) -> bool:
    """Type parameters first, then dyn and null, then the kinds."""
    if wanted.kind == "param":
        valid, has_substitution = _substitutes(mapping, given, wanted)
        if valid:
            return True
        if has_substitution:
            return False
    if given.kind == "param":
        return _substitutes(mapping, wanted, given)[0]
    if given.is_dyn_or_error or wanted.is_dyn_or_error:
        return True
    if given.kind == "null" or wanted.kind == "null":
        other = wanted if given.kind == "null" else given
        return other.kind in ("null", "opaque", "struct", "duration", "timestamp")
    if given.kind == "type":
        return wanted.kind == "type"
    if given.kind in ("opaque", "list", "map"):
        return (
            given.kind == wanted.kind and given.name == wanted.name and _fits_all(mapping, given.params, wanted.params)
        )
    return given.kind == wanted.kind and given.name == wanted.name


def _substitutes(mapping: Mapping, a_type: CelType, parameter: CelType) -> tuple[bool, bool]:
    """Tell whether a type can stand for a parameter, and whether the parameter has a type already."""
    if a_type == parameter:
        return True, True
    known = mapping.get(parameter.text)
    if known is None:
        if _is_absent_in(mapping, parameter, a_type):
            mapping[parameter.text] = a_type
            return True, False
        return False, False
    if a_type == known:
        return True, True
    if not _fits(mapping, a_type, known):
        return False, True
    general = most_general(a_type, known)
    if _is_absent_in(mapping, parameter, general):
        mapping[parameter.text] = general
    return True, True


def _is_absent_in(mapping: Mapping, parameter: CelType, within: CelType) -> bool:
    """The occurs check: the parameter doesn't appear in a type, directly or through the mapping."""
    if parameter == within:
        return False
    if within.kind == "param":
        known = mapping.get(within.text)
        return known is None or _is_absent_in(mapping, parameter, known)
    return all(_is_absent_in(mapping, parameter, inner) for inner in within.params)


def most_general(one: CelType, two: CelType) -> CelType:
    """Return the less specific of two types that fit each other."""
    return one if _is_equal_or_less_specific(one, two) else two


def _is_equal_or_less_specific(one: CelType, two: CelType) -> bool:
    if one.is_dyn or one.kind == "param":
        return True
    if two.is_dyn or two.kind == "param" or one.kind != two.kind:
        return False
    if one.kind == "type":
        return True
    if one.kind in ("opaque", "list", "map"):
        return (
            one.name == two.name
            and len(one.params) == len(two.params)
            and all(_is_equal_or_less_specific(a, b) for a, b in zip(one.params, two.params, strict=True))
        )
    return one == two


def substitute(mapping: Mapping, a_type: CelType, *, to_dyn: bool = False) -> CelType:
    """Return a type with its parameters replaced by what was found for them.

    Args:
        to_dyn: Replace parameters that nothing was found for by dyn.
    """
    known = mapping.get(a_type.text) if a_type.kind == "param" else None
    if known is not None:
        return substitute(mapping, known, to_dyn=to_dyn)
    if a_type.kind == "param":
        return DYN if to_dyn else a_type
    if not a_type.params:
        return a_type
    return CelType(
        a_type.kind, a_type.name, tuple(substitute(mapping, inner, to_dyn=to_dyn) for inner in a_type.params)
    )
