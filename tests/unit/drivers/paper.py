"""Simulated drivers from YAML text, with a clock that a test moves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

from claimsmith.api.manifests import parse_manifests
from claimsmith.drivers.simulated.driver import SimulatedDriver
from claimsmith.model.device import Device
from claimsmith.model.inventory import DeviceHealth, Inventory
from claimsmith.sdk.driver import DriverContext


class FakeTime:
    """A clock, and a stop signal whose `wait` moves it; `then` runs actions as time goes by."""

    def __init__(self, *actions: tuple[float, Callable[[], None]], until_s: float = 1000.0) -> None:
        self.now_s = 0.0
        self.waits: list[float | None] = []
        self._actions = sorted(actions, key=lambda action: action[0])
        self._until_s = until_s

    def __call__(self) -> float:
        return self.now_s

    def is_set(self) -> bool:
        return self.now_s >= self._until_s

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        self.now_s = self._until_s if timeout is None else min(self.now_s + timeout, self._until_s)
        while self._actions and self._actions[0][0] <= self.now_s:
            self._actions.pop(0)[1]()
        return self.is_set()


def document(spec: str) -> str:
    """Return a SimulatedDevices document with that content."""
    body = "".join(f"  {line}\n" for line in dedent(spec).strip().splitlines())
    return f"apiVersion: claimsmith.dev/v1alpha1\nkind: SimulatedDevices\nmetadata: {{name: d}}\nspec:\n{body}"


def drivers_of(spec: str, *, node: str = "node-a") -> tuple[SimulatedDriver, ...]:
    """Return the drivers of a document on a node."""
    manifests = parse_manifests(document(spec), source="devices.yaml")
    return SimulatedDriver.create(DriverContext(node_name=node, documents=manifests))


def driver_of(spec: str, *, clock: FakeTime | None = None, node: str = "node-a") -> SimulatedDriver:
    """Return the driver `gpu.example.com` of a document."""
    manifests = parse_manifests(document("driver: gpu.example.com\n" + dedent(spec)), source="devices.yaml")
    context = DriverContext(node_name=node, documents=manifests)
    return SimulatedDriver(context, name="gpu.example.com", clock=clock or FakeTime())


def driver_of_file(path: Path, *, clock: FakeTime | None = None) -> SimulatedDriver:
    """Return the driver of a settings file."""
    context = DriverContext(node_name="node-a", settings_files=(path,))
    return SimulatedDriver(context, clock=clock or FakeTime())


def devices_of(inventory: Inventory) -> dict[str, Device]:
    """Return the devices of an inventory by name."""
    return {device.name: device for pool in inventory.pools for device in pool.devices}


class HealthLog:
    """Collects what a driver reports: for each report the names of the failed devices."""

    def __init__(self) -> None:
        self.reports: list[dict[str, DeviceHealth]] = []

    def __call__(self, *devices: DeviceHealth) -> None:
        self.reports.append({item.device: item for item in devices})

    @property
    def failed(self) -> list[list[str]]:
        """Names of the failed devices, report by report."""
        return [[name for name, item in report.items() if item.healthy is False] for report in self.reports]
