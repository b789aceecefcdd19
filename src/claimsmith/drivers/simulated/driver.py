"""The simulated driver: devices from documents, for trying things out and for tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from claimsmith.drivers.simulated.devices import SimulatedDevice, list_devices
from claimsmith.drivers.simulated.script import Condition, apply_step, find_next_s, list_due
from claimsmith.drivers.simulated.settings import DEFAULT_DRIVER, KIND, Settings, Step, group_by_driver, read_documents
from claimsmith.sdk import (
    ConfigError,
    ContainerEdits,
    DeviceHealth,
    DeviceNode,
    Driver,
    DriverContext,
    DriverError,
    InputError,
    Inventory,
    InventoryChanged,
    Mount,
    Pool,
    PreparedDevice,
    PreparedDevices,
    PrepareRequest,
    ReportHealth,
    RequestedDevice,
    StopSignal,
    decode_opaque,
)

__all__ = ["ClaimSettings", "SimulatedDriver"]

POLL_S: Final = 0.5
"""How often settings files are looked at, in seconds."""
LIBRARIES: Final = Mount(host_path="/usr/lib", container_path="/usr/local/claimsmith/lib")
"""Stands for the libraries that a real driver mounts."""
VISIBLE: Final = "CLAIMSMITH_VISIBLE_DEVICES"
"""Variable with the uuids of the devices that a container's request got."""
_NULL_MAJOR, _NULL_MINOR = 1, 3


class ClaimSettings(msgspec.Struct, frozen=True, rename="camel"):
    """Opaque parameters that a claim or class may give.

    Args:
        env: Further environment variables.
        prepare_error: Preparing fails with this text.
    """

    env: dict[str, str] = {}
    prepare_error: str = ""


class SimulatedDriver(Driver):
    """Devices that exist only on paper.

    Args:
        context: Node, files and documents.
        name: Which driver of the documents this is.
        documents: Its documents if they were read already.
        clock: Monotonic seconds.
    """

    label_attributes = ("driverVersion",)

    def __init__(
        self,
        context: DriverContext,
        *,
        name: str = DEFAULT_DRIVER,
        documents: tuple[Settings, ...] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._context, self._clock = context, clock
        self._lock = threading.RLock()
        self._start_s = clock()
        self._stamps = _stamp_files(context.settings_files)
        self._script: tuple[Step, ...] = ()
        self._devices: tuple[SimulatedDevice, ...] = ()
        self._condition = Condition()
        self._problem: InputError | ConfigError | None = None
        self._report: ReportHealth | None = None
        self._changed: InventoryChanged | None = None
        self._load(self._read() if documents is None else documents)

    @classmethod
    def create(cls, context: DriverContext) -> tuple[SimulatedDriver, ...]:
        """Return one driver for each driver name in the documents of the node.

        Raises:
            InputError: A document can't be used.
            ConfigError: A file can't be read, or there are no settings at all.
        """
        if not context.settings_files and not context.documents:
            raise ConfigError(f"simulated driver: found no settings, allowed documents of kind {KIND}; name a file")
        groups = group_by_driver(read_documents(context))
        return tuple(cls(context, name=name, documents=documents) for name, documents in groups.items())

    # --- what is there ------------------------------------------------------------------------------------------------

    def discover(self) -> Inventory:
        """Return the devices that are plugged in, as the files said when they were last good.

        Raises:
            DriverError: The files have become unusable since the last call; told once for each change of them.
        """
        with self._lock:
            self._advance()
            problem, self._problem = self._problem, None
            if problem is not None:
                raise DriverError(f"driver {self.name}: the last good devices stay: {problem}") from problem
            names = dict.fromkeys(item.pool for item in self._devices) or ("",)
            return Inventory(pools=tuple(map(self._build_pool, names)))

    def _build_pool(self, name: str) -> Pool:
        members = [item for item in self._devices if item.pool == name]
        present = tuple(item.device for item in members if self._is_plugged(item))
        return Pool(
            name=name, devices=present, counter_sets=tuple(found for item in members for found in item.counters)
        )

    def _is_plugged(self, item: SimulatedDevice) -> bool:
        return self._condition.is_plugged(item.device.name, item.card)

    def _read(self) -> tuple[Settings, ...]:
        return group_by_driver(read_documents(self._context)).get(self.name, ())

    def _load(self, documents: tuple[Settings, ...]) -> None:
        devices = list_devices(documents, node=self._context.node_name)
        self._devices = devices
        self._script = tuple(step for document in documents for step in document.script)

    def _advance(self) -> None:
        """Do the steps whose time has come, and take in edited files."""
        for step in list_due(self._script, self._condition, self._clock() - self._start_s):
            self._condition = apply_step(self._condition, step)
        stamps = _stamp_files(self._context.settings_files)
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            self._load(self._read())
            self._problem = None
        except (InputError, ConfigError) as error:
            self._problem = error

    # --- what changes -------------------------------------------------------------------------------------------------

    def run_step(self, name: str) -> None:
        """Let the steps of a name of the script happen now.

        Raises:
            DriverError: The script has no such step.
        """
        with self._lock:
            steps = [step for step in self._script if step.step == name]
            if not steps:
                known = ", ".join(sorted({step.step for step in self._script if step.step})) or "none"
                raise DriverError(f"driver {self.name}: found step {name!r}, allowed {known}; correct the name")
            for step in steps:
                self._condition = apply_step(self._condition, step)
        self._tell()

    def watch_inventory(self, changed: InventoryChanged, stop: StopSignal) -> None:
        """Call `changed` when a device comes or goes, or a file was edited."""
        self._changed = changed
        before = self._seen()
        while (pause_s := self._find_pause_s(POLL_S if self._stamps else None)) is not None:
            if stop.wait(pause_s):
                return
            with self._lock:
                self._advance()
                now = self._seen()
            if now != before:
                before = now
                self._tell()

    def watch_health(self, report: ReportHealth, stop: StopSignal) -> None:
        """Report all devices now, and again when a scripted fault comes or goes."""
        self._report = report
        report(*self._list_health())
        while (pause_s := self._find_pause_s(None)) is not None:
            if stop.wait(pause_s):
                return
            with self._lock:
                self._advance()
            report(*self._list_health())

    def _seen(self) -> object:
        """Return all that a change is told by."""
        return self._devices, self._condition, self._problem

    def _tell(self) -> None:
        if self._changed is not None:
            self._changed()
        if self._report is not None:
            self._report(*self._list_health())

    def _find_pause_s(self, poll_s: float | None) -> float | None:
        """Return how long to wait for the next change in seconds; None when none can come."""
        with self._lock:
            next_s = find_next_s(self._script, self._condition)
        if next_s is None:
            return poll_s
        left_s = max(0.0, next_s - (self._clock() - self._start_s))
        return left_s if poll_s is None else min(left_s, poll_s)

    def _list_health(self) -> tuple[DeviceHealth, ...]:
        with self._lock:
            return tuple(self._find_health(item) for item in self._devices if self._is_plugged(item))

    def _find_health(self, item: SimulatedDevice) -> DeviceHealth:
        fault = self._condition.find_fault(item.device.name, item.card, item.fault)
        if fault is None:
            return DeviceHealth(device=item.device.name, pool=item.pool, healthy=True)
        cause, message = fault
        text = message or f"failed: {cause}"
        return DeviceHealth(device=item.device.name, pool=item.pool, healthy=False, cause=cause, message=text)

    # --- what containers get ------------------------------------------------------------------------------------------

    def prepare(self, request: PrepareRequest) -> PreparedDevices:
        """Return environment, a device node and a mount for each device.

        A failed one too: what a failure means, and for whom, is said by the health policy.

        Raises:
            DriverError: A device is not there, or the claim asks for a failure.
            FieldError: The claim's parameters are not allowed.
        """
        with self._lock:
            self._advance()
            node = self._context.node_name
            known = {(item.pool or node, item.device.name): item for item in self._devices if self._is_plugged(item)}
        devices = tuple(self._prepare_one(device, known) for device in request.devices)
        visible = _list_visible(request.devices, known)
        if len(visible) == 1:
            env = {VISIBLE: next(iter(visible.values()))}
            return PreparedDevices(devices=devices, common=ContainerEdits(env=env, mounts=(LIBRARIES,)))
        named = tuple(_add_visible(prepared, visible[prepared.device.request]) for prepared in devices)
        return PreparedDevices(devices=named, common=ContainerEdits(mounts=(LIBRARIES,)))

    def _prepare_one(self, device: RequestedDevice, known: Mapping[tuple[str, str], SimulatedDevice]) -> PreparedDevice:
        item = known.get((device.id.pool, device.id.device))
        if item is None:
            raise DriverError(f"device {device.id}: found nothing, allowed a plugged device; plug it in again")
        settings = decode_opaque(device, ClaimSettings)
        if settings.prepare_error:
            raise DriverError(f"device {device.id}: {settings.prepare_error}")
        env = {**_device_env(device, item), **settings.env}
        return PreparedDevice(device=device, edits=ContainerEdits(env=env, device_nodes=(_device_node(item),)))


def _list_visible(
    devices: Iterable[RequestedDevice], known: Mapping[tuple[str, str], SimulatedDevice]
) -> dict[str, str]:
    """Return the uuids of the devices for each request of a claim, with commas between them."""
    uuids: dict[str, dict[str, None]] = {}
    for device in devices:
        uuids.setdefault(device.request, {})[known[device.id.pool, device.id.device].uuid] = None
    return {request: ",".join(found) for request, found in uuids.items()}


def _add_visible(prepared: PreparedDevice, uuids: str) -> PreparedDevice:
    """Return a device that brings the list of its request, in a claim of several: a container may name just one.

    A variable has one value in a container, the one of the device that is injected last; so each request has a
    variable of its own besides.
    """
    env = {VISIBLE: uuids, f"{VISIBLE}_{_plain(prepared.device.request)}": uuids}
    return replace(prepared, edits=replace(prepared.edits, env={**env, **prepared.edits.env}))


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name.upper())


def _device_env(device: RequestedDevice, item: SimulatedDevice) -> dict[str, str]:
    """Return a variable for the device, and for a share of it its id and each amount, named after the device."""
    name = f"{item.pool}_{item.device.name}" if item.pool else item.device.name
    prefix = f"CLAIMSMITH_{_plain(name)}"
    amounts = {f"{prefix}_{_plain(name)}": str(amount) for name, amount in device.consumed_capacity.items()}
    # Last, so that no capacity of that name hides it.
    share = {f"{prefix}_SHARE_ID": device.share_id} if device.share_id else {}
    return {prefix: item.uuid, **amounts, **share}


def _device_node(item: SimulatedDevice) -> DeviceNode:
    """Return a device file that every machine can make: it is /dev/null under another name."""
    path = f"/dev/claimsmith/{item.pool}/{item.device.name}" if item.pool else f"/dev/claimsmith/{item.device.name}"
    return DeviceNode(
        path=path, host_path="/dev/null", type="c", major=_NULL_MAJOR, minor=_NULL_MINOR, permissions="rw"
    )


def _stamp_files(paths: tuple[Path, ...]) -> tuple[tuple[int, int, int] | None, ...]:
    """Return what changes when a file does: inode, size and time; None for a file that is not there."""

    def stamp(path: Path) -> tuple[int, int, int] | None:
        try:
            found = path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    return tuple(map(stamp, paths))
