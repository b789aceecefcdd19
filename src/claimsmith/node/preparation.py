"""Prepare and unprepare one claim after the other: driver, CDI file and checkpoint, in an order that a retry mends.

All of it is synchronous and runs in the one thread that belongs to the driver; a lock file keeps another process of the
same driver out, as during a rolling update. `checkpoint` tells the order of the writes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from claimsmith.errors import ClaimNotReadyError
from claimsmith.model.prepared import ClaimKey, PrepareRequest
from claimsmith.node.cdi import plan_cdi_spec, plan_entry
from claimsmith.node.cdi_files import CdiFiles
from claimsmith.node.checkpoint import Checkpoint
from claimsmith.node.claimfiles import ClaimFiles
from claimsmith.node.drivercalls import call_driver
from claimsmith.node.entry import PreparedClaim, parse_uid
from claimsmith.node.ledger import Ledger
from claimsmith.sdk.driver import Driver
from claimsmith.telemetry import CHECKPOINT_DAMAGED, CLAIMS_PREPARED, Meter

__all__ = ["Preparation"]

_Answer = TypeVar("_Answer")


class Preparation:
    """The claims of one driver on one node.

    Args:
        driver: Who prepares the devices.
        folder: The folder that belongs to the driver alone; has the checkpoint and the lock.
        cdi_folder: Where container runtimes read CDI files.
        boot_id: Which boot of the machine this is; what was prepared in another one must be prepared again.
        ledger: Has the claims, and what the device plugin gave away; one in the folder when not given.
        files: Has metadata and statuses of claims; those in the folder when not given.
    """

    def __init__(  # noqa: PLR0913 - each is an own fact of the node
        self,
        driver: Driver,
        *,
        folder: Path,
        cdi_folder: Path,
        boot_id: str,
        meter: Meter,
        ledger: Ledger | None = None,
        files: ClaimFiles | None = None,
    ) -> None:
        self._driver, self._boot_id, self._meter = driver, boot_id, meter
        self._cdi = CdiFiles(cdi_folder, driver.name)
        self.ledger = ledger or Ledger(folder, self._cdi.read_claims)
        """Who holds which device."""
        self.files = files or ClaimFiles(folder, driver.name)
        """Metadata and statuses of the claims."""

    def open(self) -> None:
        """Read what is prepared.

        Raises:
            ConfigError: A folder can't be used, or a later version wrote the checkpoint.
        """
        self.ledger.open()
        with self.ledger.writing() as checkpoint:
            self.files.open([entry.claim for entry in checkpoint.claims()])
        self._report()

    @property
    def damaged(self) -> tuple[Path, ...]:
        """Where damaged checkpoints were put since the start."""
        return self.ledger.damaged

    def claims(self) -> tuple[PreparedClaim, ...]:
        """Return all claims whose preparation was at least begun; safe to call from any thread."""
        return self.ledger.claims()

    def find_answer(self, claim: ClaimKey) -> PreparedClaim | None:
        """Return the entry of a claim that needs no driver call: finished in this boot, its CDI file in place."""
        with self.ledger.writing() as checkpoint:
            return self._find_answer(checkpoint, claim.uid)

    def find_unanswered(self) -> tuple[ClaimKey, ...]:
        """Return the claims that a stopped process had begun in this boot, and not finished."""
        with self.ledger.writing() as checkpoint:
            return tuple(
                entry.claim
                for entry in checkpoint.claims()
                if entry.boot_id == self._boot_id and self._find_answer(checkpoint, entry.claim.uid) is None
            )

    def prepare(self, request: PrepareRequest) -> PreparedClaim:
        """Prepare a claim, or return what was prepared before.

        What is written of the claim before the driver is called says already all that there is to say of it; that it is
        prepared is said by its CDI file.

        Raises:
            ClaimNotReadyError: The claim was prepared with other devices, or its uid is unusable.
            DeviceHeldError: Another claim holds one of its devices.
            DeviceGrantedError: A container of the device plugin has one, or hardware of it.
            DriverError: The driver failed or gave an answer that containers can't use.
            ConfigError: A file can't be written.
        """
        wanted = plan_entry(request, driver=self._driver.name, boot_id=self._boot_id)
        parse_uid(request.claim)
        with self.ledger.writing() as checkpoint:
            self._settle_other_devices(checkpoint, wanted)
            if (known := self._find_answer(checkpoint, request.claim.uid)) is not None:
                return known
            self.ledger.check_claim(wanted)
            self._cdi.remove(request.claim)
            if checkpoint.find(request.claim.uid) != wanted:
                checkpoint.begin(wanted)
            prepared = self._call("prepare", lambda: self._driver.prepare(request))
            mounts = self.files.write(request, prepared)
            plan = plan_cdi_spec(request, prepared, driver=self._driver.name, boot_id=self._boot_id, mounts=mounts)
            self._cdi.write(request.claim, plan.document)
        self._report()
        return wanted

    def refresh(self, request: PrepareRequest) -> bool:
        """Ask the driver again what it tells of a prepared claim; return whether that is anything new.

        Only status and metadata are written: containers keep what they were given.

        Raises:
            DriverError: The driver failed, or gave a status or metadata that nobody accepts.
            ConfigError: A file can't be written.
        """
        wanted = PreparedClaim.begun(request, self._boot_id)
        with self.ledger.writing() as checkpoint:
            known = self._find_answer(checkpoint, request.claim.uid)
            if known is None or not known.has_devices_of(wanted):
                return False  # It is told of when it is prepared.
            return self.files.update(request, self._call("prepare", lambda: self._driver.prepare(request)))

    def unprepare(self, claim: ClaimKey) -> None:
        """Undo the preparation of a claim; works for claims that are not known here.

        Raises:
            DriverError: The driver failed; the claim keeps its devices.
            ConfigError: A file can't be written.
        """
        with self.ledger.writing() as checkpoint:
            if (entry := checkpoint.find(claim.uid)) is not None:
                claim = entry.claim
            try:
                self._cdi.remove(claim)
            except ClaimNotReadyError:
                return  # No claim with such a uid was ever prepared.
            self._call("unprepare", lambda: self._driver.unprepare(claim))
            self.files.remove(claim)
            checkpoint.remove(claim.uid)
        self._report()

    def _find_answer(self, checkpoint: Checkpoint, uid: str) -> PreparedClaim | None:
        entry = checkpoint.find(uid)
        if entry is None or not entry.finished or entry.boot_id != self._boot_id:
            return None
        return entry if self._cdi.describes(entry, mounted_from=self.files.folder) else None

    def _settle_other_devices(self, checkpoint: Checkpoint, wanted: PreparedClaim) -> None:
        """Deal with an entry of the same claim for other devices, as after a new allocation."""
        known = checkpoint.find(wanted.claim.uid)
        if known is None or known.has_devices_of(wanted):
            return
        if self._find_answer(checkpoint, wanted.claim.uid) is not None:
            held = ", ".join(str(device.id) for device in known.devices)
            raise ClaimNotReadyError(wanted.claim, f"found it prepared with {held}, allowed the devices allocated now")
        self._call("unprepare", lambda: self._driver.unprepare(known.claim))
        checkpoint.remove(known.claim.uid)

    def _call(self, operation: str, call: Callable[[], _Answer]) -> _Answer:
        return call_driver(operation, call, driver=self._driver.name, meter=self._meter)

    def _report(self) -> None:
        self._meter.set(CLAIMS_PREPARED, len(self.ledger.claims()), driver=self._driver.name)
        self._meter.set(CHECKPOINT_DAMAGED, len(self.ledger.damaged), driver=self._driver.name)
