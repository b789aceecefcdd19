"""Which devices a request may have at all: selectors, the node, binding conditions; and attributes for constraints."""

from __future__ import annotations

from dataclasses import replace

from claimsmith.allocate.verify.case import VerifyCase, is_stable
from claimsmith.allocate.verify.nodes import device_reaches
from claimsmith.cel import CelEnvironment, compile_expression, prepare_device
from claimsmith.errors import CelDeviceError, CelError
from claimsmith.model.claim import Selector, SubRequest
from claimsmith.model.device import Device, DeviceAttribute
from claimsmith.model.pool import ResourceSlice

__all__ = ["AttributeSet", "fails", "find_attribute", "why_unselectable"]

AttributeSet = tuple[str, frozenset[object]]
"""Element type and values of an attribute; a scalar has one value. A list whose gate is off has neither."""

_SCALARS = {"ints": "int", "bools": "bool", "strings": "string", "versions": "version"}


def environment_of(case: VerifyCase) -> CelEnvironment:
    """Return the selector language that the gates of the case give."""
    return CelEnvironment.for_stored_expressions(case.features)


def why_unselectable(case: VerifyCase, request: SubRequest, slice: ResourceSlice, device: Device) -> str:
    """Return why the request can never get the device; empty when it can."""
    if device.binding_conditions and not case.features.device_binding_and_status:
        return "the device has binding conditions, their gate is off"
    device_class = case.classes.get(request.device_class)
    if device_class is None:
        return f"class {request.device_class!r} does not exist"
    for selector in (*device_class.selectors, *request.selectors):
        if not _selects(case, selector, slice.driver, device):
            return f"selector {selector.expression!r} is not true"
    if slice.per_device_node_selection and not device_reaches(device, case.node):
        return f"the device is not on node {case.node.name}"
    return ""


def fails(case: VerifyCase, request: SubRequest, driver: str, device: Device) -> bool:
    """Tell whether a selector of the request can't be evaluated on the device; those before it must be true."""
    device_class = case.classes.get(request.device_class)
    for selector in (*(device_class.selectors if device_class else ()), *request.selectors):
        verdict = _evaluate(case, selector, driver, device)
        if verdict is not True:
            return verdict is None
    return False


def _selects(case: VerifyCase, selector: Selector, driver: str, device: Device) -> bool:
    return _evaluate(case, selector, driver, device) is True


def _evaluate(case: VerifyCase, selector: Selector, driver: str, device: Device) -> bool | None:
    """Return the verdict of one selector; None when it has none."""
    environment = environment_of(case)
    if is_stable(case.features):
        device = replace(device, allow_multiple_allocations=False)
    try:
        program = compile_expression(selector.expression or "", environment=environment)
        return program.evaluate(prepare_device(driver, device, environment=environment)) is True
    except (CelError, CelDeviceError):
        return None


def find_attribute(
    case: VerifyCase, request: SubRequest, driver: str, device: Device, *, name: str
) -> AttributeSet | None:
    """Return the attribute that a constraint on `name` compares; None if there is none or it can't be compared."""
    for derived in request.derived_attributes if case.features.derived_attributes else ():
        if derived.name == name:
            return _derive(case, derived.expression, driver, device)
    domain, _, id = name.rpartition("/")
    attribute = device.attributes.get(name)
    if attribute is None and domain == driver:
        attribute = device.attributes.get(id)
    return None if attribute is None else _as_set(case, attribute)


def _as_set(case: VerifyCase, attribute: DeviceAttribute) -> AttributeSet | None:
    value = attribute.value
    if isinstance(value, tuple):
        if not case.features.list_type_attributes:
            return "", frozenset()
        return (_SCALARS[attribute.kind], frozenset(value)) if value else None
    return None if value is None else (attribute.kind, frozenset((value,)))


def _derive(case: VerifyCase, expression: str, driver: str, device: Device) -> AttributeSet | None:
    environment = environment_of(case)
    try:
        program = compile_expression(expression, environment=environment, purpose="derived-attribute")
        return _as_set(case, program.evaluate_attribute(prepare_device(driver, device, environment=environment)))
    except (CelError, CelDeviceError):
        return None
