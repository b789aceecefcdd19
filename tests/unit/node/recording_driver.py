"""A driver whose calls and answers a test sees and sets."""

from __future__ import annotations

from collections.abc import Callable

from claimsmith.model.inventory import Inventory
from claimsmith.model.prepared import (
    ClaimKey,
    ContainerEdits,
    DeviceNode,
    DeviceStatus,
    PreparedDevice,
    PreparedDevices,
    PrepareRequest,
)
from claimsmith.sdk.driver import Driver


class RecordingDriver(Driver):
    """Gives each device a device node and a variable of its own; `fail` is called before each call."""

    name = "gpu.example.test"

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.minor = 0
        self.status: DeviceStatus | None = None
        self.fail: Callable[[str], None] = lambda operation: None

    def discover(self) -> Inventory:
        return Inventory()

    def prepare(self, request: PrepareRequest) -> PreparedDevices:
        self.calls.append(("prepare", request.claim.uid))
        self.fail("prepare")
        return PreparedDevices(
            devices=tuple(
                PreparedDevice(
                    device=device,
                    edits=ContainerEdits(
                        env={f"DEVICE_{device.id.device.upper().replace('-', '_')}": device.id.device},
                        device_nodes=(
                            DeviceNode(path=f"/dev/{device.id.device}", type="c", major=240, minor=self.minor),
                        ),
                    ),
                    status=self.status,
                )
                for device in request.devices
            )
        )

    def unprepare(self, claim: ClaimKey) -> None:
        self.calls.append(("unprepare", claim.uid))
        self.fail("unprepare")
