"""What an expression may use: the variable `device`, its fields, and the functions, by feature gate.

Source: pkg/cel/environment/base.go in k8s.io/apiserver v0.37.2; newCompiler in cel/compile.go of
k8s.io/dynamic-resource-allocation v0.37.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from claimsmith.cel import (
    conversions,
    lib_lists,
    lib_named_format,
    lib_net,
    lib_optional,
    lib_quantity,
    lib_regex,
    lib_semver,
    lib_strings,
    lib_time,
    lib_url,
    operators,
)  # fmt: skip
from claimsmith.cel.declarations import Function, Registry
from claimsmith.cel.types import (
    ANY,
    BOOL,
    BYTES,
    CIDR,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    IP,
    NULL,
    QUANTITY,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    CelType,
    list_of,
    map_of,
    optional_of,
    param,
)  # fmt: skip
from claimsmith.model.features import Features

DEVICE_VARIABLE: Final = "device"
"""The only variable of a selector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CelEnvironment:
    """The language as one component sees it.

    Args:
        consumable_capacity: The gate DRAConsumableCapacity; new expressions may use `device.allowMultipleAllocations`.
        list_attributes: The gate DRAListTypeAttributes; attributes may be lists, and `includes` exists.
        is_stored: True for the scheduler and for unchanged objects: everything the release knows, whatever the gates.
    """

    consumable_capacity: bool = True
    list_attributes: bool = False
    is_stored: bool = True

    @classmethod
    def for_new_expressions(cls, features: Features) -> CelEnvironment:
        """The environment in which an API server compiles expressions that are new or changed."""
        return cls(
            consumable_capacity=features.consumable_capacity,
            list_attributes=features.list_type_attributes,
            is_stored=False,
        )

    @classmethod
    def for_stored_expressions(cls, features: Features) -> CelEnvironment:
        """The environment of the scheduler, which also reads what was stored under other gates."""
        return cls(consumable_capacity=features.consumable_capacity, list_attributes=features.list_type_attributes)

    @property
    def has_lists(self) -> bool:
        """True when attributes may be lists."""
        return self.is_stored or self.list_attributes

    @property
    def attribute_type(self) -> CelType:
        """The type of an attribute's value."""
        return DYN if self.has_lists else ANY

    def fields(self) -> Mapping[str, CelType]:
        """Return the fields of `device` with their types."""
        return _fields(self)

    def functions(self) -> Mapping[str, Function]:
        """Return the functions by name."""
        return _functions(self.has_lists)


DEFAULT: Final = CelEnvironment()
"""The scheduler's environment of a stock Kubernetes 1.37."""


@cache
def _fields(environment: CelEnvironment) -> Mapping[str, CelType]:
    fields = {
        "driver": STRING,
        "attributes": map_of(STRING, map_of(STRING, environment.attribute_type)),
        "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
    }
    if environment.is_stored or environment.consumable_capacity:
        fields["allowMultipleAllocations"] = BOOL
    return fields


@cache
def _functions(has_includes: bool) -> Mapping[str, Function]:
    registry = Registry()
    for functions in (
        operators.FUNCTIONS,
        conversions.FUNCTIONS,
        lib_time.FUNCTIONS,
        lib_net.FUNCTIONS,
        lib_url.FUNCTIONS,
        lib_regex.FUNCTIONS,
        lib_optional.FUNCTIONS,
        lib_quantity.FUNCTIONS,
        lib_strings.FUNCTIONS,
        lib_lists.KUBERNETES_FUNCTIONS,
        lib_named_format.FUNCTIONS,
        lib_semver.FUNCTIONS,
        lib_lists.EXTENSION_FUNCTIONS,
        (lib_lists.INCLUDES,) if has_includes else (),
    ):
        registry.add(functions)
    return registry.functions


_A, _B = param("A"), param("B")

TYPE_NAMES: Final[Mapping[str, CelType]] = {
    "bool": BOOL,
    "bytes": BYTES,
    "double": DOUBLE,
    "int": INT,
    "list": list_of(_A),
    "map": map_of(_A, _B),
    "null_type": NULL,
    "string": STRING,
    "type": TYPE,
    "uint": UINT,
    "google.protobuf.Duration": DURATION,
    "google.protobuf.Timestamp": TIMESTAMP,
    "optional_type": optional_of(_A),
    "net.IP": IP,
    "net.CIDR": CIDR,
}
"""Types that can be named in an expression, as in `type(1) == int`."""
