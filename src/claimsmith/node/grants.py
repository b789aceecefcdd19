"""Gives devices to containers of the device plugin, and takes them back: driver, CDI file and ledger, as for a claim.

All of it is synchronous and runs in the one thread that belongs to the driver. Order of writes:
    give:  entry (begun) → driver → CDI file → entry (finished) → answer
    take:  CDI file removed → driver → entry removed
A grant that was begun was never answered, so that nobody has it; it is undone when its devices are asked for again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from claimsmith.errors import ClaimsmithError, GrantRefusedError
from claimsmith.model.prepared import ContainerEdits, PreparedDevices, PrepareRequest, RequestedDevice
from claimsmith.node.cdi import plan_cdi_spec
from claimsmith.node.cdi_files import CdiFiles
from claimsmith.node.checkpoint import Checkpoint
from claimsmith.node.deviceplugin_rules import OfferedDevice, Passing, ResourceRule
from claimsmith.node.drivercalls import call_driver
from claimsmith.node.entry import Grant, PreparedClaim, grant_key
from claimsmith.node.ledger import Ledger
from claimsmith.sdk.driver import Driver
from claimsmith.telemetry import GRANTS_HELD, Meter, get_logger, log_event

__all__ = ["GIVEN_AGAIN", "REQUEST", "Given", "Grants"]

REQUEST = "device"
"""Name of the request as which a driver sees the devices of a grant."""

GIVEN_AGAIN = "Devices are given again"
"""What is logged when the kubelet gives to a container what another one had."""

_log = get_logger("node")
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a container gets.

    Args:
        grant: What is remembered.
        edits: What its devices bring, one after the other, and what is common to them.
    """

    grant: Grant
    edits: tuple[ContainerEdits, ...]

    @property
    def cdi_ids(self) -> tuple[str, ...]:
        """CDI names of the devices."""
        return tuple(cdi_id for device in self.grant.entry.devices for cdi_id in device.cdi_ids)


@dataclass(slots=True, kw_only=True)
class Grants:
    """The grants of one driver on one node.

    Args:
        driver: Who prepares the devices.
        ledger: Who holds which device.
        cdi_folder: Where container runtimes read CDI files.
        boot_id: Which boot of the machine this is.
        passing: How containers get their devices; without CDI no CDI file is written.
        now_s: Seconds since 1970.
    """

    driver: Driver
    ledger: Ledger
    cdi_folder: Path
    boot_id: str
    meter: Meter
    passing: Passing = "cdi"
    now_s: Callable[[], float] = time.time
    _cdi: CdiFiles = field(init=False)

    def __post_init__(self) -> None:
        self._cdi = CdiFiles(self.cdi_folder, self.driver.name)

    def give(self, rule: ResourceRule, wanted: Sequence[OfferedDevice], *, is_over: Callable[[Grant], bool]) -> Given:
        """Prepare devices for a container. What was given before under the same ids was another container's.

        The kubelet is believed that this one has ended, and not asked: a list that it makes within its call drops what
        it is just giving away, so that the next pod gets that too; and one that has forgotten a container names it no
        more. Source: UpdateAllocatedDevices and allocateContainerResources in pkg/kubelet/cm/devicemanager/manager.go
        of kubernetes v1.37.2.

        Args:
            rule: Under which resource.
            wanted: The devices, or replicas of them.
            is_over: Tells of a grant that has some of the same ids whether it is over.

        Raises:
            GrantRefusedError: The rule does not allow it, or the devices can't be passed in this way.
            DeviceHeldError, DeviceGrantedError: Somebody else holds a device, or hardware of it.
            DriverError: The driver failed or gave an answer that containers can't use.
            ConfigError: A file can't be written.
        """
        _check_replicas(rule, wanted)
        begun, request = self._begin(rule.resource, wanted)
        with self.ledger.writing() as checkpoint:
            self._check_readers(rule.resource)
            for old in checkpoint.grants():
                same = old.resource == rule.resource and not set(old.ids).isdisjoint(begun.ids)
                if same and (old.uid == begun.uid or is_over(old)):
                    self._undo(checkpoint, old)
                    _tell_given_again(old)
            self.ledger.check_grant(begun)
            checkpoint.begin(begun)
            try:
                given = self._prepare(checkpoint, begun, request)
            except ClaimsmithError:
                self._try_to_undo(checkpoint, begun)
                raise
        self.report()
        return given

    def make_sure(self, rule: ResourceRule, wanted: Sequence[OfferedDevice]) -> Grant:
        """Prepare devices again that a container has, if what it needs to start was lost; return the grant.

        Raises:
            DeviceHeldError, DeviceGrantedError: Somebody else holds a device, or hardware of it.
            DriverError: The driver failed or gave an answer that containers can't use.
            ConfigError: A file can't be written.
        """
        begun, request = self._begin(rule.resource, wanted)
        with self.ledger.writing() as checkpoint:
            known = checkpoint.find_grant(begun.uid)
            if known is not None and self._is_usable(known):
                return known
            if known is None:
                self.ledger.check_grant(begun)
            else:
                begun = replace(begun, granted_s=known.granted_s)
            checkpoint.begin(begun)
            given = self._prepare(checkpoint, begun, request)
        self.report()
        return given.grant

    def adopt(self, resource: str, wanted: Sequence[OfferedDevice]) -> bool:
        """Write down that a container has devices, if that is not known yet, as after a lost checkpoint.

        It has them whoever else claims to, so that nothing is checked.

        Raises:
            ConfigError: A file can't be written.
        """
        begun, _ = self._begin(resource, wanted)
        with self.ledger.writing() as checkpoint:
            known = checkpoint.find_grant(begun.uid)
            # One that was read from CDI files lacks nothing but its ids.
            found = begun if known is None else replace(known, ids=begun.ids)
            if found != known:
                checkpoint.put(found)
        self.report()
        return found != known

    def take_back(self, grant: Grant) -> bool:
        """Undo a grant, if it is still the one that it was; return whether it was.

        Raises:
            DriverError: The driver failed; the grant keeps its devices.
            ConfigError: A file can't be written.
        """
        with self.ledger.writing() as checkpoint:
            if checkpoint.find_grant(grant.uid) != grant:
                return False
            self._undo(checkpoint, grant)
        self.report()
        return True

    def _begin(self, resource: str, wanted: Sequence[OfferedDevice]) -> tuple[Grant, PrepareRequest]:
        ids = sorted(offered.id for offered in wanted)
        by_id = {offered.id: offered for offered in wanted}
        devices = tuple(_requested(by_id[id_]) for id_ in ids)
        request = PrepareRequest(claim=grant_key(resource, ids), devices=devices)
        entry = PreparedClaim.begun(request, self.boot_id)
        return Grant(entry=entry, resource=resource, ids=tuple(ids), granted_s=self.now_s()), request

    def _check_readers(self, resource: str) -> None:
        if earlier := self.ledger.find_earlier_reader():
            raise GrantRefusedError(
                resource,
                f"found {earlier} of an earlier version, which could not read of a grant, allowed versions that can",
                hint="wait until it has ended",
            )

    def _prepare(self, checkpoint: Checkpoint, begun: Grant, request: PrepareRequest) -> Given:
        prepared = self._call("prepare", lambda: self.driver.prepare(request))
        plan = plan_cdi_spec(request, prepared, driver=self.driver.name, boot_id=self.boot_id)
        edits = _edits(prepared)
        if self.passing != "edits":
            self._cdi.write(request.claim, plan.document)
        elif any(item.hooks for item in edits):
            raise GrantRefusedError(
                begun.resource,
                f"found hooks for {', '.join(begun.ids)}, which are no device plugin answer, allowed env, mounts and "
                "device nodes",
                hint="let devices be passed by CDI",
            )
        grant = replace(begun, entry=plan.entry)
        checkpoint.put(grant)
        return Given(grant=grant, edits=edits)

    def _is_usable(self, grant: Grant) -> bool:
        entry = grant.entry
        whole = entry.finished and entry.boot_id == self.boot_id
        return whole and (self.passing == "edits" or self._cdi.describes(entry))

    def _undo(self, checkpoint: Checkpoint, grant: Grant) -> None:
        self._cdi.remove(grant.entry.claim)
        self._call("unprepare", lambda: self.driver.unprepare(grant.entry.claim))
        checkpoint.remove_grant(grant.uid)

    def _try_to_undo(self, checkpoint: Checkpoint, grant: Grant) -> None:
        """Undo what was never answered; what can't be undone now is later, since the kubelet does not list it."""
        try:
            self._undo(checkpoint, grant)
        except ClaimsmithError as error:
            log_event(_log, logging.WARNING, "A failed grant stays for now", resource=grant.resource, reason=error)

    def _call(self, operation: str, call: Callable[[], _Answer]) -> _Answer:
        return call_driver(operation, call, driver=self.driver.name, meter=self.meter)

    def report(self) -> None:
        """Tell the meter how many containers have devices."""
        self.meter.set(GRANTS_HELD, len(self.ledger.grants()), driver=self.driver.name)


def _tell_given_again(grant: Grant) -> None:
    """Log that the kubelet gives to a container what another one had: normally that has just ended."""
    if grant.entry.finished:
        ids = ",".join(grant.ids)
        log_event(_log, logging.INFO, GIVEN_AGAIN, resource=grant.resource, ids=ids)


def _check_replicas(rule: ResourceRule, wanted: Sequence[OfferedDevice]) -> None:
    if rule.replicas > 1 and not rule.several_replicas and len(wanted) > 1:
        raise GrantRefusedError(
            rule.resource,
            f"found a container that asks for {len(wanted)}, allowed 1 of a resource whose devices are shared: more "
            "would bring no more of a device",
            hint="ask for 1, or allow several replicas in the rule",
        )


def _requested(offered: OfferedDevice) -> RequestedDevice:
    """Return a device as a claim would ask for it; one that is made for shares comes as one share with all there is."""
    if not offered.source.allow_multiple_allocations:
        return RequestedDevice(id=offered.device, request=REQUEST, share_id=offered.replica)
    amounts = {
        name: capacity.policy.default
        if offered.replica and capacity.policy and capacity.policy.default
        else capacity.value
        for name, capacity in offered.source.capacity.items()
    }
    return RequestedDevice(
        id=offered.device, request=REQUEST, share_id=offered.replica or "0", consumed_capacity=amounts
    )


def _edits(prepared: PreparedDevices) -> tuple[ContainerEdits, ...]:
    return (*(answer.edits for answer in prepared.devices), prepared.common)
