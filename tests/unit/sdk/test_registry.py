"""Drivers are found by their entry points; a broken package is named."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from claimsmith.errors import ConfigError, DriverError
from claimsmith.model.inventory import Inventory
from claimsmith.model.prepared import PreparedDevices, PrepareRequest
from claimsmith.sdk.driver import Driver, DriverContext
from claimsmith.sdk.registry import create_drivers, find_plugin, iter_plugins, load_driver_class


class Gpu(Driver):
    name = "gpu.example.com"

    def discover(self) -> Inventory:
        return Inventory()

    def prepare(self, request: PrepareRequest) -> PreparedDevices:
        return PreparedDevices(devices=())


class Nameless(Gpu):
    name = "Not A Name"


class Picky(Gpu):
    @classmethod
    def create(cls, context: DriverContext) -> tuple[Driver, ...]:
        raise DriverError(f"no card on {context.node_name}")


class Crashing(Gpu):
    @classmethod
    def create(cls, context: DriverContext) -> tuple[Driver, ...]:
        raise KeyError("x")


@dataclass
class Entry:
    """An entry point that gives an object or raises."""

    name: str
    loaded: object = Gpu
    value: str = "vendor.gpu:Gpu"

    def load(self) -> object:
        if isinstance(self.loaded, Exception):
            raise self.loaded
        return self.loaded


def test_the_simulated_driver_is_installed() -> None:
    assert "simulated" in [entry.name for entry in iter_plugins()]


def test_a_plugin_is_found_by_name() -> None:
    assert find_plugin("gpu", plugins=[Entry("nic"), Entry("gpu")]) == Entry("gpu")
    assert find_plugin("tpu", plugins=[Entry("gpu")]) is None


def test_the_same_plugin_seen_twice_is_one() -> None:
    assert load_driver_class("gpu", plugins=[Entry("gpu"), Entry("gpu")]) is Gpu


def test_two_packages_with_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'gpu': found a:A and b:B, allowed one; uninstall"):
        load_driver_class("gpu", plugins=[Entry("gpu", value="a:A"), Entry("gpu", value="b:B")])


def test_an_unknown_plugin_is_answered_with_the_installed_ones() -> None:
    with pytest.raises(ConfigError, match=r"'tpu': found none of this name, installed are gpu, nic;"):
        load_driver_class("tpu", plugins=[Entry("nic"), Entry("gpu")])


@pytest.mark.parametrize(
    ("loaded", "words"),
    [
        (ImportError("No module named 'cuda'"), "can't be imported: ImportError: No module named 'cuda'"),
        (Inventory, "allowed a subclass of claimsmith.sdk.Driver"),
        (Gpu(), "allowed a subclass of claimsmith.sdk.Driver"),
    ],
)
def test_a_broken_plugin_is_named(loaded: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_driver_class("gpu", plugins=[Entry("gpu", loaded)])


def test_a_driver_is_made_for_a_node() -> None:
    (driver,) = create_drivers("gpu", DriverContext(node_name="n"), plugins=[Entry("gpu")])

    assert isinstance(driver, Gpu)


def test_a_driver_without_a_good_name_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"found driver name 'Not A Name', allowed a DNS subdomain"):
        create_drivers("gpu", DriverContext(), plugins=[Entry("gpu", Nameless)])


def test_what_a_plugin_says_itself_is_passed_on() -> None:
    with pytest.raises(DriverError, match="no card on node-a"):
        create_drivers("gpu", DriverContext(node_name="node-a"), plugins=[Entry("gpu", Picky)])


def test_a_plugin_that_crashes_is_named() -> None:
    with pytest.raises(ConfigError, match=r"'gpu': Crashing.create failed: KeyError: 'x'"):
        create_drivers("gpu", DriverContext(), plugins=[Entry("gpu", Crashing)])


@pytest.mark.parametrize("answer", [None, Gpu(), (Gpu,)])
def test_a_create_that_gives_no_drivers_is_told_what_to_give(answer: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gpu, "create", lambda context: answer)

    with pytest.raises(ConfigError, match=r"Gpu\.create gave .*, allowed a tuple of drivers; correct it$"):
        create_drivers("gpu", DriverContext(), plugins=[Entry("gpu")])
