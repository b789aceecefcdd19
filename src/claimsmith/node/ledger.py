"""The one book of a driver on a node: who holds which device, claims and containers of the device plugin alike.

Whoever writes first wins, since an entry is on the disk before anybody is answered. Partitions of a card, and the card
itself, are the same hardware: what one of them holds is not free for the other side either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from claimsmith.errors import DeviceGrantedError, DeviceHeldError, DriverError, GrantRefusedError
from claimsmith.model.names import DeviceId
from claimsmith.node.checkpoint import GRANTS_READER, Checkpoint
from claimsmith.node.durable import locked, write_durable
from claimsmith.node.entry import Grant, PreparedClaim, check_free
from claimsmith.node.hardware import Hardware
from claimsmith.node.ledger_owner import find_earlier_reader

__all__ = ["CHECKPOINT_FILE", "LOCK_FILE", "Ledger"]

CHECKPOINT_FILE: Final = "checkpoint.json"
"""Name of the checkpoint in the driver's folder."""
LOCK_FILE: Final = "serialize.lock"
"""Name of the lock in the driver's folder."""


class Ledger:
    """The claims and grants of one driver on one node, shared by all processes of the driver.

    Args:
        folder: The folder that belongs to the driver alone.
        rebuild: Returns claims and grants as the CDI files tell them, for when the checkpoint is damaged or missing.
        write: Writes a file so that it is on the disk, whole, when this returns.
    """

    def __init__(
        self,
        folder: Path,
        rebuild: Callable[[], Iterable[PreparedClaim]],
        *,
        write: Callable[[Path, bytes], None] = write_durable,
    ) -> None:
        self._folder, self._lock = folder, folder / LOCK_FILE
        self._checkpoint = Checkpoint(folder / CHECKPOINT_FILE, rebuild, write=write)
        self._hardware: Hardware | None = None
        self._foreign: Mapping[DeviceId, str] = {}

    def open(self) -> None:
        """Read the checkpoint, or make it.

        Raises:
            ConfigError: The folder can't be used, or a later version wrote the checkpoint.
        """
        with locked(self._lock):
            self._checkpoint.open()

    @contextmanager
    def writing(self) -> Iterator[Checkpoint]:
        """Keep all other processes of the driver out while the context is open; gives what they wrote last.

        Raises:
            ConfigError: The lock or the checkpoint can't be used.
        """
        with locked(self._lock):
            self._checkpoint.refresh()
            yield self._checkpoint

    @property
    def is_outdated(self) -> bool:
        """Whether another process of the driver has written since; safe to ask from any thread, and cheap."""
        return self._checkpoint.is_outdated

    def refresh(self) -> None:
        """Take in what another process of the driver has written.

        Raises:
            ConfigError: The lock or the checkpoint can't be used.
        """
        with self.writing():
            pass

    @property
    def damaged(self) -> tuple[Path, ...]:
        """Where damaged checkpoints were put since the start."""
        return self._checkpoint.damaged

    def claims(self) -> tuple[PreparedClaim, ...]:
        """Return all claims whose preparation was at least begun; safe to call from any thread."""
        return self._checkpoint.claims()

    def grants(self) -> tuple[Grant, ...]:
        """Return all grants that were at least begun; safe to call from any thread."""
        return self._checkpoint.grants()

    @property
    def mark(self) -> object:
        """Another object whenever what is known here has changed; safe to read from any thread."""
        return self._checkpoint.content

    @property
    def hardware(self) -> Hardware:
        """What is known of the driver's devices; empty until they are listed."""
        return self._hardware or Hardware()

    def learn(self, hardware: Hardware) -> None:
        """Take in what the driver's devices take of each other; those of before are remembered. From any thread."""
        self._hardware = hardware if self._hardware is None else hardware.and_before(self._hardware)

    def note_foreign(self, held: Mapping[DeviceId, str]) -> None:
        """Take in which devices other device plugins have given away, with their resources. From any thread.

        It is not written down: the kubelet tells it again and again.
        """
        self._foreign = dict(held)

    def find_earlier_reader(self) -> str:
        """Return which living process would refuse to go on if there were a first grant; empty when none would.

        Raises:
            ConfigError: The folder can't be used.
        """
        return "" if self.grants() else find_earlier_reader(self._folder, GRANTS_READER)

    def check_claim(self, wanted: PreparedClaim) -> None:
        """Check that nobody else holds what a claim wants; the caller is writing.

        Shares of one device go together; admin access goes with everything.

        Raises:
            DeviceHeldError: Another claim does.
            DeviceGrantedError: A container of a device plugin does.
            DriverError: It can't be told yet.
        """
        claims = [entry for entry in self._checkpoint.claims() if entry.claim.uid != wanted.claim.uid]
        check_free(wanted, claims)
        devices = _devices([wanted])
        holders = {device: holder for device, holder in _devices(claims).items() if device not in devices}
        grants = _granted(self._checkpoint.grants())
        if grants and devices and self._hardware is None:
            raise DriverError(
                f"claim {wanted.claim}: found containers of the device plugin with devices of this driver, and its "
                "devices are not listed yet, allowed known devices; the kubelet asks again"
            )
        self._check(devices, {**self._foreign, **holders, **grants})

    def check_grant(self, wanted: Grant) -> None:
        """Check that nobody else holds what a grant wants; the caller is writing.

        Who has which id of one resource is the kubelet's affair: it gives the devices of an init container to the
        next ones. Replicas of one device go together under one resource.

        Raises:
            GrantRefusedError: Two of the devices are of the same hardware.
            DeviceHeldError: A claim does.
            DeviceGrantedError: Another grant does, or a foreign plugin gave it away.
        """
        self._check_together(wanted)
        grants = [
            grant for grant in self._checkpoint.grants() if grant.uid != wanted.uid and not _same_ids(grant, wanted)
        ]
        together = _shared(wanted.entry)
        others = {
            device: grant
            for device, grant in _granted(grants).items()
            if grant.resource != wanted.resource or device not in together & _shared(grant.entry)
        }
        self._check(_devices([wanted.entry]), {**self._foreign, **others, **_devices(self._checkpoint.claims())})

    def find_refusal(self, wanted: Grant) -> DriverError | None:
        """Return why a grant would be refused now; None when it would not. Safe to call from any thread."""
        try:
            self.check_grant(wanted)
        except (DeviceHeldError, DeviceGrantedError) as error:
            return error
        return None

    def _check_together(self, wanted: Grant) -> None:
        """Check that the devices of a grant go together; those of a claim were chosen by who knows their counters."""
        for number, device in enumerate(wanted.devices):
            found = self.hardware.find_obstacle([device], wanted.devices[:number])
            if found is not None:
                raise GrantRefusedError(
                    wanted.resource,
                    f"found {found.held.device} and {device.device} of the same hardware asked for together, allowed "
                    "devices that go together",
                    hint="offer partitions of different sizes under different resources",
                )

    def _check(self, wanted: Iterable[DeviceId], holders: Mapping[DeviceId, PreparedClaim | Grant | str]) -> None:
        """Check that nobody holds what is wanted; a text is the resource of a foreign plugin."""
        found = self.hardware.find_obstacle(wanted, holders)
        if found is None:
            return
        holder = holders[found.held]
        if isinstance(holder, PreparedClaim):
            claim = holder.claim
            raise DeviceHeldError(found.wanted, holder=claim, holder_uid=claim.uid, held=found.held)
        resource, uid = (holder.resource, holder.uid) if isinstance(holder, Grant) else (holder, "")
        raise DeviceGrantedError(found.wanted, held=found.held, resource=resource, holder_uid=uid)


def _devices(entries: Iterable[PreparedClaim]) -> dict[DeviceId, PreparedClaim]:
    return {device.id: entry for entry in entries for device in entry.devices if not device.admin_access}


def _granted(grants: Iterable[Grant]) -> dict[DeviceId, Grant]:
    return {device: grant for grant in grants for device in grant.devices}


def _shared(entry: PreparedClaim) -> frozenset[DeviceId]:
    return frozenset(device.id for device in entry.devices if device.share_id)


def _same_ids(one: Grant, other: Grant) -> bool:
    return one.resource == other.resource and not set(one.ids).isdisjoint(other.ids)
