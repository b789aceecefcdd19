"""How the devices of DRA drivers fare, as drivers say on their health streams.

A device that a driver did not name for longer than its timeout counts as unknown.

Source: pkg/kubelet/cm/dra/healthinfo.go of kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from claimsmith.kubelet import dra_health_v1_pb2 as messages

__all__ = ["DeviceKey", "DeviceState", "HealthBook", "read_states"]

_TIMEOUT_S: Final = 30.0
_MESSAGE_MAX: Final = 1024
_DEVICES_MAX: Final = 16_384
_NAMES: Final = {messages.HEALTHY: "Healthy", messages.UNHEALTHY: "Unhealthy"}
_UNKNOWN: Final = "Unknown"

DeviceKey = tuple[str, str]
"""Pool and name of a device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceState:
    """How a device fares.

    Args:
        health: Healthy, Unhealthy or Unknown.
        message: What the driver says besides; at most 1,024 characters.
        timeout_s: For how long that holds, in seconds.
    """

    health: str = _UNKNOWN
    message: str = ""
    timeout_s: float = _TIMEOUT_S


def read_states(devices: Iterable[Any]) -> dict[DeviceKey, DeviceState]:
    """Return what a driver's message says, of either version of the service."""
    return {(item.device.pool_name, item.device.device_name): _read_state(item) for item in devices}


def _read_state(item: Any) -> DeviceState:
    timeout_s = float(item.health_check_timeout_seconds)
    text: str = item.message
    message = text if len(text) <= _MESSAGE_MAX else text[: _MESSAGE_MAX - 3] + "..."
    return DeviceState(
        health=_NAMES.get(item.health, _UNKNOWN), message=message, timeout_s=timeout_s if timeout_s > 0 else _TIMEOUT_S
    )


class HealthBook:
    """What drivers said last of each device, and when."""

    def __init__(self) -> None:
        self._drivers: dict[str, dict[DeviceKey, tuple[DeviceState, float]]] = {}

    def find(self, driver: str, device: DeviceKey, now_s: float) -> DeviceState:
        """Return how a device fares now."""
        state, said_s = self._drivers.get(driver, {}).get(device, (DeviceState(), now_s))
        return DeviceState() if now_s - said_s > state.timeout_s else state

    def update(self, driver: str, states: Mapping[DeviceKey, DeviceState], now_s: float) -> frozenset[DeviceKey]:
        """Take a driver's message; return the devices of which it says something new."""
        known = self._drivers.setdefault(driver, {})
        changed = set(self._forget_old(known, now_s, but=states))
        for key, state in states.items():
            old = known.get(key)
            if old is None and len(known) >= _DEVICES_MAX:
                continue
            if old is None or old[0] != state:
                changed.add(key)
            known[key] = (state, now_s)
        return frozenset(changed)

    def clear(self, driver: str) -> frozenset[DeviceKey]:
        """Forget all that a driver said, since its stream ended; return the devices."""
        return frozenset(self._drivers.pop(driver, {}))

    def expire(self, now_s: float) -> dict[str, frozenset[DeviceKey]]:
        """Forget what holds no longer; return the devices by driver."""
        found = {driver: frozenset(self._forget_old(known, now_s)) for driver, known in self._drivers.items()}
        return {driver: devices for driver, devices in found.items() if devices}

    def _forget_old(
        self,
        known: dict[DeviceKey, tuple[DeviceState, float]],
        now_s: float,
        *,
        but: Mapping[DeviceKey, DeviceState] | None = None,
    ) -> list[DeviceKey]:
        old = [
            key for key, (state, said_s) in known.items() if now_s - said_s > state.timeout_s and key not in (but or {})
        ]
        gone = [key for key in old if known[key][0].health != _UNKNOWN]
        for key in old:
            del known[key]
        return gone
