"""A driver whose devices a case writes down; nothing of it exists but what it answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from claimsmith.model.device import Device
from claimsmith.model.inventory import Inventory
from claimsmith.model.prepared import ContainerEdits, DeviceNode, PreparedDevice, PreparedDevices, PrepareRequest
from claimsmith.sdk import Driver, DriverError, InventoryChanged, RequestedDevice, StopSignal
from claimsmith.testing import builders as b


class PaperDriver(Driver):
    """Gives each device its device nodes, or a variable where it has none.

    Args:
        name: Name of the driver.
        devices: The devices in order.
        nodes: Device nodes by device.
    """

    def __init__(
        self, name: str, devices: Iterable[Device], nodes: Mapping[str, tuple[DeviceNode, ...]] | None = None
    ) -> None:
        self.name = name
        self.devices = {device.name: device for device in devices}
        self.nodes = dict(nodes or {})
        self._changed: InventoryChanged | None = None

    def become(self, names: Iterable[str]) -> None:
        """Have devices of these names from now on, and say so."""
        self.devices = {name: self.devices.get(name) or b.device(name) for name in names}
        if self._changed is not None:
            self._changed()

    def watch_inventory(self, changed: InventoryChanged, stop: StopSignal) -> None:
        self._changed = changed
        changed()
        stop.wait()

    def discover(self) -> Inventory:
        return Inventory.of(*self.devices.values())

    def prepare(self, request: PrepareRequest) -> PreparedDevices:
        return PreparedDevices(devices=tuple(self._prepare(device) for device in request.devices))

    def _prepare(self, device: RequestedDevice) -> PreparedDevice:
        name = device.id.device
        if name not in self.devices:
            raise DriverError(f"device {device.id}: found nothing, allowed {', '.join(self.devices)}; plug it in")
        variable = f"{name}-of-{self.name}".upper().replace("-", "_").replace(".", "_")
        edits = ContainerEdits(env={variable: str(device.id)}, device_nodes=self.nodes.get(name, ()))
        return PreparedDevice(device=device, edits=edits)
