"""What a driver answers is looked at once, and what has a wrong type is named by its place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from claimsmith.errors import DriverAnswerError
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
        (None, ": found null, allowed an Inventory"),
        ([], ": found [], allowed an Inventory"),
        (
            a_card(attributes={"model": WRONG}),
            " pools[0].devices[0].attributes['model']: found '24Gi', allowed a DeviceAttribute, as "
            "DeviceAttribute.of(VALUE)",
        ),
        (
            a_card(capacity={"memory": WRONG}),
            " pools[0].devices[0].capacity['memory']: found '24Gi', allowed a Capacity, as "
            "Capacity(value=parse_quantity(TEXT))",
        ),
        (
            a_card(capacity={"memory": Capacity(value=WRONG)}),
            " pools[0].devices[0].capacity['memory'].value: found '24Gi', allowed a Quantity, as parse_quantity(TEXT)",
        ),
        (a_card(attributes=[]), " pools[0].devices[0].attributes: found [], allowed a mapping such as a dict"),
        (a_card(consumes_counters=WRONG), " pools[0].devices[0].consumes_counters: found '24Gi', allowed a tuple"),
    ],
)
def test_a_wrong_type_in_an_inventory_is_named_by_its_place(found: object, message: str) -> None:
    with pytest.raises(DriverAnswerError) as caught:
        check_inventory("x.example.com", found)

    assert str(caught.value) == f"driver x.example.com: discover{message}; correct the driver"


def test_a_good_answer_of_prepare_is_returned_as_it_is() -> None:
    answer = PreparedDevices(devices=(PreparedDevice(device=CARD, edits=ContainerEdits(env={"A": "b"})),))

    assert check_prepared("x.example.com", answer) is answer


def test_a_prepare_that_returns_nothing_is_told_what_it_must_return() -> None:
    with pytest.raises(DriverAnswerError, match=r"prepare: found null, allowed a PreparedDevices; correct the driver$"):
        check_prepared("x.example.com", None)


def test_a_number_as_the_value_of_a_variable_is_named_by_its_place() -> None:
    wrong: Any = {"PORT": 7}
    answer = PreparedDevices(devices=(PreparedDevice(device=CARD, edits=ContainerEdits(env=wrong)),))

    with pytest.raises(DriverAnswerError, match=r" devices\[0\]\.edits\.env\['PORT'\]: found 7, allowed a str; "):
        check_prepared("x.example.com", answer)


def test_what_may_be_missing_may_be_none() -> None:
    prepared = PreparedDevice(device=CARD)

    assert check_prepared("x.example.com", PreparedDevices(devices=(replace(prepared, status=None),))).devices
