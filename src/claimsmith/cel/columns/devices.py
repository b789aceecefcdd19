"""The devices of a cluster as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from claimsmith.cel.columns.encoding import MISSING, Column
from claimsmith.cel.device import CelDevice
from claimsmith.cel.reads import DeviceRead
from claimsmith.cel.values import Value

_EMPTY: Final[dict[str, Value]] = {}
_SPARE_VALUES: Final = 1024
"""A column may hold this many values more than twice the devices, before it is made anew."""


class DeviceColumns:
    """Prepared devices, by row, with a column for everything that programs have read so far.

    A column is made when a program first reads it, and then kept up to date. Devices are read when they come in and
    must not change afterwards; put the new state of a device in with `replace`.

    Args:
        devices: Devices of the first rows, from prepare_device.
    """

    __slots__ = ("_columns", "_devices", "_is_lent")

    def __init__(self, devices: Iterable[CelDevice] = ()) -> None:
        self._devices = list(devices)
        self._columns: dict[DeviceRead, Column] = {}
        self._is_lent = False

    def __len__(self) -> int:
        return len(self._devices)

    def append(self, device: CelDevice) -> int:
        """Add a device; return its row."""
        self._devices.append(device)
        return len(self._devices) - 1

    def extend(self, devices: Iterable[CelDevice]) -> None:
        """Add devices, in the order of the rows that they get."""
        self._devices.extend(devices)

    def replace(self, row: int, device: CelDevice) -> None:
        """Put another device into a row; verdicts that were given before keep the old one.

        Raises:
            IndexError: There is no such row.
        """
        if not 0 <= row < len(self._devices):
            raise IndexError(f"row {row}: found {len(self._devices)} rows")
        if self._is_lent:
            self._devices, self._is_lent = list(self._devices), False
        self._devices[row] = device
        for read, column in tuple(self._columns.items()):
            if len(column.values) > 2 * len(self._devices) + _SPARE_VALUES:
                del self._columns[read]
            elif row < len(column):
                column.replace(row, device)

    def lend(self) -> Sequence[CelDevice]:
        """Return the devices by row; the rows of today stay as they are in it."""
        self._is_lent = True
        return self._devices

    def column(self, read: DeviceRead) -> Column:
        """Return what a read gives on each device, up to date.

        Args:
            read: From Program.attributes_read; one that names less reads all it may mean.
        """
        read = _normalize(read)
        found = self._columns.get(read)
        if found is None:
            found = self._columns[read] = Column(_finder(read))
        if len(found) < len(self._devices):
            found.extend(self._devices[len(found) :])
        return found


def _normalize(read: DeviceRead) -> DeviceRead:
    """Return the read of which a column is kept: without the parts that don't narrow it."""
    if read.field not in ("attributes", "capacity") or read.domain is None:
        return DeviceRead(read.field)
    return read


def _finder(read: DeviceRead) -> Callable[[CelDevice], Value]:
    """Return what finds the value of a read on a device."""
    field, domain, key = read
    if field == "driver":
        return lambda device: device.driver
    if field == "allowMultipleAllocations":
        return lambda device: device.allow_multiple_allocations
    if field == "device":
        return lambda device: device.as_value()
    if domain is None:
        return lambda device: getattr(device, field)
    if field == "attributes":
        if key is None:
            return lambda device: device.attributes.get(domain, MISSING)
        return lambda device: device.attributes.get(domain, _EMPTY).get(key, MISSING)
    if key is None:
        return lambda device: device.capacity.get(domain, MISSING)
    return lambda device: device.capacity.get(domain, {}).get(key, MISSING)
