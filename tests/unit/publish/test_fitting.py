"""What a driver reports is made to fit the API, and every change is told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimsmith.model.device import AttributeKind, Device, DeviceAttribute
from claimsmith.model.inventory import Inventory
from claimsmith.publish.fitting import find_device_names, fit_device, fit_device_name
from claimsmith.publish.limits import find_device_fault
from claimsmith.testing import builders as b


def fit(**attributes: DeviceAttribute | str | int) -> tuple[dict[str, object], tuple[str, ...]]:
    values = {name: DeviceAttribute.of(v) if isinstance(v, (str, int)) else v for name, v in attributes.items()}
    device, changes = fit_device(b.DRIVER, Device(name="x", attributes=values))
    return {name: attribute.value for name, attribute in device.attributes.items()}, changes


def test_a_device_that_fits_stays_the_same_object() -> None:
    device = b.gpu("gpu-0")

    assert fit_device(b.DRIVER, device) == (device, ())
    assert fit_device(b.DRIVER, device)[0] is device


def test_a_text_is_cut_between_characters() -> None:
    found, changes = fit(place="ラ" * 22)

    assert found == {"place": "ラ" * 21}
    assert changes == ("attribute place: cut to 64 bytes",)


@pytest.mark.parametrize(
    ("name", "fitted"),
    [
        ("numa-1", "numa_1"),
        ("1st", "_1st"),
        ("a.b c", "a_b_c"),
        ("x" * 40, "x" * 32),
        ("vendor.test/a-b", "vendor.test/a_b"),
    ],
)
def test_a_key_becomes_an_identifier(name: str, fitted: str) -> None:
    found, changes = fit(**{name: 1})

    assert found == {fitted: 1}
    assert f"published as {fitted}" in changes[0]


def test_of_two_keys_that_become_one_the_first_stays() -> None:
    found, changes = fit(**{"numa-1": 1, "numa.1": 2, "numa_1": 3})

    assert found == {"numa_1": 1}
    assert changes[1:] == (
        "attribute numa.1 left out: numa_1 is there already",
        "attribute numa_1 left out: numa_1 is there already",
    )


@pytest.mark.parametrize("name", ["--", "ラ", "bad domain/x", "/x", "vendor.test/"])
def test_a_key_that_no_identifier_comes_of_is_left_out(name: str) -> None:
    found, changes = fit(**{name: 1, "ok": 2})

    assert found == {"ok": 2}
    assert "no usable name" in changes[0]


def test_what_is_said_twice_is_published_once() -> None:
    names: dict[str, str | int] = {f"{b.DRIVER}/model": "X", "model": "X", f"{b.DRIVER}/rail": 1}
    found, changes = fit(**names)

    assert found == {"model": "X", f"{b.DRIVER}/rail": 1}
    assert changes == (f"attribute {b.DRIVER}/model left out: 'model' says the same",)


@pytest.mark.parametrize(
    ("text", "fitted"),
    [("550.54", "550.54.0"), ("97.00.05", "97.0.5"), ("v1.2.3", "1.2.3"), ("7", "7.0.0"), (" 1.2.3\n", "1.2.3")],
)
def test_a_version_is_written_as_semver(text: str, fitted: str) -> None:
    found, changes = fit(v=DeviceAttribute.version(text))

    assert found == {"v": fitted}
    assert changes == (f"attribute v: version {text!r} published as {fitted!r}",)


@pytest.mark.parametrize("text", ["", "latest", "1.2.3.4", "1.2.3-" + "a" * 64])
def test_what_is_no_version_is_left_out(text: str) -> None:
    found, changes = fit(v=DeviceAttribute.version(text))

    assert found == {}
    assert "allowed a version of semver 2.0" in changes[0]


def test_the_most_important_attributes_stay_when_there_are_too_many() -> None:
    own = {f"extra{index:02}": index for index in range(40)}
    device = b.device(capacity={"memory": "1Gi"}, attributes={**own, "resource.kubernetes.io/pcieRoot": "pci0000:00"})
    fitted, changes = fit_device(b.DRIVER, device)

    kept = list(fitted.attributes)
    assert kept == [*(f"extra{index:02}" for index in range(30)), "resource.kubernetes.io/pcieRoot"]
    assert len(changes) == 10


def test_an_empty_list_and_an_unknown_value_are_left_out() -> None:
    found, changes = fit(a=DeviceAttribute("ints", ()), b=DeviceAttribute("unknown", None))

    assert found == {}
    assert len(changes) == 2


KINDS: list[AttributeKind] = ["string", "version", "strings", "versions", "int", "ints", "unknown"]


@st.composite
def attributes(draw: st.DrawFn) -> DeviceAttribute:
    kind = draw(st.sampled_from(KINDS))
    if kind == "unknown":
        return DeviceAttribute(kind, None)
    item: st.SearchStrategy[Any] = st.integers(-(2**63), 2**63 - 1) if kind.startswith("int") else st.text(max_size=90)
    return DeviceAttribute(kind, tuple(draw(st.lists(item, max_size=20))) if kind.endswith("s") else draw(item))


@given(found=st.dictionaries(st.text(max_size=50), attributes(), max_size=50))
def test_whatever_a_driver_says_of_a_device_the_api_takes_it(found: dict[str, DeviceAttribute]) -> None:
    fitted, changes = fit_device(b.DRIVER, Device(name="x", attributes=found))

    assert find_device_fault(fitted) is None
    assert fit_device(b.DRIVER, fitted) == (fitted, ())
    assert bool(changes) == (dict(fitted.attributes) != found)


@pytest.mark.parametrize(
    ("name", "label"),
    [("gpu-0", "gpu-0"), ("GPU_2", "gpu-2"), ("a..b", "a-b"), ("-x-", "x"), ("ラ", "ラ"), ("X" * 70, "x" * 63)],
)
def test_a_device_name_becomes_a_label(name: str, label: str) -> None:
    assert fit_device_name(name) == label


def test_only_names_that_change_are_listed_and_none_takes_anothers() -> None:
    inventory = Inventory.of(*map(b.device, ("gpu-0", "GPU_0", "GPU_1", "Gpu.1", "ラ")))

    assert find_device_names(inventory) == {"gpu-1": "GPU_1"}
