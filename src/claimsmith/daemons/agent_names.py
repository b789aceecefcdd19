"""A driver whose devices have names that the API takes, whatever it calls them itself."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from claimsmith.model.inventory import DeviceHealth, Inventory, Pool
from claimsmith.model.names import DeviceId
from claimsmith.model.prepared import ClaimKey, PreparedDevice, PreparedDevices, PrepareRequest, RequestedDevice
from claimsmith.publish.fitting import find_device_names
from claimsmith.sdk.driver import Driver
from claimsmith.telemetry import get_logger, log_event

__all__ = ["LabelledDriver"]

_log = get_logger("agent")


class LabelledDriver(Driver):
    """Stands before a driver: its devices are published as DNS labels, and it is asked for them by its own names.

    Until the driver has listed its devices for the first time, no name is translated: a claim for a renamed device
    fails, and the kubelet asks again.

    Args:
        driver: The driver.
    """

    def __init__(self, driver: Driver) -> None:
        self.name, self.inner = driver.name, driver
        self._own: Mapping[str, str] = {}
        self._published: Mapping[str, str] = {}

    def discover(self) -> Inventory:
        """Return the driver's devices under the names by which they are published."""
        found = self.inner.discover()
        if not isinstance(found, Inventory):
            return found
        own = find_device_names(found)
        for label in own.keys() - self._own.keys():
            log_event(_log, logging.WARNING, "Device published under another name", device=own[label], name=label)
        self._own = own
        self._published = {own: label for label, own in self._own.items()}
        if not self._own:
            return found
        return replace(found, pools=tuple(map(self._rename, found.pools)))

    def prepare(self, request: PrepareRequest) -> PreparedDevices:
        """Prepare a claim under the driver's own names."""
        if not self._own:
            return self.inner.prepare(request)
        devices = tuple(_called(device, self._own) for device in request.devices)
        prepared = self.inner.prepare(replace(request, devices=devices))
        answers = tuple(self._answer(answer) for answer in prepared.devices)
        return replace(prepared, devices=answers)

    def unprepare(self, claim: ClaimKey) -> None:
        """Undo the preparation of a claim."""
        self.inner.unprepare(claim)

    def translate(self, health: DeviceHealth) -> DeviceHealth:
        """Return what the driver says of a device's health under the published name."""
        return replace(health, device=self._published.get(health.device, health.device))

    def _rename(self, pool: Pool) -> Pool:
        devices = (replace(item, name=self._published.get(item.name, item.name)) for item in pool.devices)
        return replace(pool, devices=tuple(devices))

    def _answer(self, answer: PreparedDevice) -> PreparedDevice:
        return replace(answer, device=_called(answer.device, self._published))


def _called(device: RequestedDevice, names: Mapping[str, str]) -> RequestedDevice:
    driver, pool, name = device.id
    return replace(device, id=DeviceId(driver, pool, names.get(name, name)))
