"""What a vendor implements: a class that finds devices and prepares them for containers.

All methods are plain synchronous Python. claimsmith calls them in threads, serves them on the kubelet's protocols and
publishes what they find. A driver sees no socket, no API server and no claim object.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from claimsmith.api.manifests import Manifest
from claimsmith.model.inventory import DeviceHealth, Inventory
from claimsmith.model.prepared import ClaimKey, PreparedDevices, PrepareRequest

__all__ = [
    "Driver",
    "DriverContext",
    "InventoryChanged",
    "PreparedChanged",
    "ReportHealth",
    "StopSignal",
    "WatchesInventory",
    "WatchesPrepared",
]


class StopSignal(Protocol):
    """Tells a watching method to end; `threading.Event` is one."""

    def is_set(self) -> bool:
        """Tell whether the method must end."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the method must end, at most `timeout` seconds; tell whether it must.

        This is the clock of a watching method: a driver that polls calls nothing else to wait.
        """
        ...


class ReportHealth(Protocol):
    """Takes what a driver says of the health of its devices; safe to call from any thread."""

    def __call__(self, *devices: DeviceHealth) -> None:
        """Report some devices; devices that are not named keep what was reported of them before."""
        ...


class InventoryChanged(Protocol):
    """Asks claimsmith to call `discover` again soon; safe to call from any thread."""

    def __call__(self) -> None:
        """Say that `discover` would now give another answer."""
        ...


class PreparedChanged(Protocol):
    """Asks claimsmith to tell anew of the devices of a claim; safe to call from any thread."""

    def __call__(self, claim: ClaimKey) -> None:
        """Say that `prepare` would now give another status or other metadata for a claim that is prepared."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverContext:
    """Where and with which settings a driver is made.

    Args:
        node_name: Name of the node; empty when there is none, as on the command line.
        settings_files: Files with the driver's settings, for drivers that follow their changes.
        documents: Settings that were given directly.
    """

    node_name: str = ""
    settings_files: tuple[Path, ...] = ()
    documents: tuple[Manifest, ...] = ()


class Driver(ABC):
    """A device driver. A subclass sets `name`, and defines `discover` and `prepare`.

    Attributes:
        name: Name of the driver in the API, such as `gpu.example.com`: a DNS subdomain of at most 63 characters.
        label_attributes: Attributes that node labels tell, for each model whose devices agree on them.
    """

    name: str = ""
    label_attributes: tuple[str, ...] = ()

    @classmethod
    def create(cls, context: DriverContext) -> tuple[Driver, ...]:
        """Return the drivers for one node: most plugins have one. The default calls the class without arguments.

        Raises:
            InputError: The settings can't be used.
            ConfigError: Something that the driver needs on this machine is missing.
        """
        del context
        return (cls(),)

    @abstractmethod
    def discover(self) -> Inventory:
        """Return all devices that are here now, in order of preference within each pool.

        Called at the start, again from time to time, and after `changed()` of `WatchesInventory`.

        Raises:
            DriverError: The devices can't be listed now; the last answer stays published and the call is repeated.
        """

    @abstractmethod
    def prepare(self, request: PrepareRequest) -> PreparedDevices:
        """Make the devices of a claim ready and return what its containers get: one answer for each device.

        Called again for the same claim after a restart or a failure, and must then give an equal answer. Calls of
        `prepare` and `unprepare` come one after the other; `discover` and the watches run in other threads.

        Raises:
            DriverError: It can't be done now; the kubelet asks again.
        """

    def unprepare(self, claim: ClaimKey) -> None:  # noqa: B027 - an optional method, not a forgotten one
        """Undo `prepare`. A claim that is not known, or no longer, is no error.

        Raises:
            DriverError: It can't be done now; the kubelet asks again.
        """

    def watch_health(self, report: ReportHealth, stop: StopSignal) -> None:  # noqa: B027 - as above
        """Report the health of the devices, and each change of it, until `stop` is set.

        The default returns at once: the health of the devices is then not known. A driver that raises is called
        again after a while.
        """


@runtime_checkable
class WatchesInventory(Protocol):
    """A driver that notices by itself that devices came or went."""

    def watch_inventory(self, changed: InventoryChanged, stop: StopSignal) -> None:
        """Call `changed` after each change until `stop` is set."""
        ...


@runtime_checkable
class WatchesPrepared(Protocol):
    """A driver that learns more of devices while containers have them, such as the addresses of a network device."""

    def watch_prepared(self, changed: PreparedChanged, stop: StopSignal) -> None:
        """Call `changed` with each claim whose devices are to be told of differently, until `stop` is set.

        `prepare` is then called for the claim again: status and metadata of its answer are told, in the claim and in
        the files of its containers. What containers were given at their start stays: the edits must be equal.
        """
        ...
