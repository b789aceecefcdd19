"""What a driver answers is looked at once, and what has a wrong type is named by its place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from claimsmith.errors import DriverError
from claimsmith.model.device import Capacity, Device, DeviceAttribute
from claimsmith.model.inventory import Inventory
from claimsmith.model.names import DeviceId
from claimsmith.model.prepared import ContainerEdits, PreparedDevice, PreparedDevices, RequestedDevice
from claimsmith.model.quantity import parse_quantity
from claimsmith.sdk.answers import check_inventory, check_prepared

CARD = RequestedDevice(id=DeviceId("x.example.com", "node", "card"), request="card")
WRONG: Any = "24Gi"


def a_card(**fields: Any) -> Inventory:
    return Inventory.of(Device(name="card", **fields))


def test_a_good_inventory_is_returned_as_it_is() -> None:
    memory = Capacity(value=parse_quantity("24Gi"))
    found = a_card(attributes={"model": DeviceAttribute.of(("a", "b"))}, capacity={"memory": memory})

    assert check_inventory("x.example.com", found) is found


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (None, "None, allowed an Inventory; correct it"),
        ([], "a list, allowed an Inventory; correct it"),
        (
            a_card(attributes={"model": WRONG}),
            "pools[0].devices[0].attributes['model'] as a str, allowed a DeviceAttribute; "
            "write DeviceAttribute.of(VALUE)",
        ),
        (
            a_card(capacity={"memory": WRONG}),
            "pools[0].devices[0].capacity['memory'] as a str, allowed a Capacity; "
            "write Capacity(value=parse_quantity(TEXT))",
        ),
        (
            a_card(capacity={"memory": Capacity(value=WRONG)}),
            "pools[0].devices[0].capacity['memory'].value as a str, allowed a Quantity; write parse_quantity(TEXT)",
        ),
        (
            a_card(attributes=[]),
            "pools[0].devices[0].attributes as a list, allowed a mapping such as a dict; correct it",
        ),
        (
            a_card(consumes_counters=WRONG),
            "pools[0].devices[0].consumes_counters as a str, allowed a tuple; correct it",
        ),
    ],
)
def test_a_wrong_type_in_an_inventory_is_named_by_its_place(found: object, message: str) -> None:
    with pytest.raises(DriverError) as caught:
        check_inventory("x.example.com", found)

    assert str(caught.value) == f"driver x.example.com: discover gave {message}"


def test_a_good_answer_of_prepare_is_returned_as_it_is() -> None:
    answer = PreparedDevices(devices=(PreparedDevice(device=CARD, edits=ContainerEdits(env={"A": "b"})),))

    assert check_prepared("x.example.com", answer) is answer


def test_a_prepare_that_returns_nothing_is_told_what_it_must_return() -> None:
    with pytest.raises(DriverError, match=r"prepare gave None, allowed a PreparedDevices; correct it$"):
        check_prepared("x.example.com", None)


def test_a_number_as_the_value_of_a_variable_is_named_by_its_place() -> None:
    wrong: Any = {"PORT": 7}
    answer = PreparedDevices(devices=(PreparedDevice(device=CARD, edits=ContainerEdits(env=wrong)),))

    with pytest.raises(DriverError, match=r"devices\[0\]\.edits\.env\['PORT'\] as an int, allowed a str; correct it$"):
        check_prepared("x.example.com", answer)


def test_what_may_be_missing_may_be_none() -> None:
    prepared = PreparedDevice(device=CARD)

    assert check_prepared("x.example.com", PreparedDevices(devices=(replace(prepared, status=None),))).devices
