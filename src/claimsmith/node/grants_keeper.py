"""Keeps the grants as they are in truth: gives back what no container has, writes down what one has unknown to us."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final, TypeVar

from claimsmith.errors import ClaimsmithError
from claimsmith.node.deviceplugin_rules import DevicePluginOptions, OfferedDevice, ResourceRule
from claimsmith.node.entry import Grant
from claimsmith.node.grants import Given, Grants
from claimsmith.node.grants_release import GrantWatch
from claimsmith.node.podresources import ContainerDevices, KubeletView, PodResources
from claimsmith.telemetry import get_logger, log_event

__all__ = ["GrantKeeper", "LookOutcome"]

_TOLD_MAX: Final = 256

_log = get_logger("node")
_Value = TypeVar("_Value")
_Offered = Mapping[str, Sequence[OfferedDevice]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LookOutcome:
    """What came of one look at what containers have.

    Args:
        view: What the kubelet told.
        freed: Whether a device was given back.
        nudge: Whether the list of devices should be sent again, so that the kubelet writes its checkpoint anew.
        soon: Whether the next look need not wait as long as usual.
    """

    view: KubeletView
    freed: bool
    nudge: bool
    soon: bool


class GrantKeeper:
    """Gives, looks and takes back, for one driver.

    Args:
        grants: Does it.
        options: The rules of the resources, and how long a grant is kept that the kubelet does not list yet.
        kubelet: Tells what containers have.
        executor: The one thread in which the driver is called.
        now_s: Monotonic seconds.
    """

    def __init__(
        self,
        grants: Grants,
        *,
        options: DevicePluginOptions,
        kubelet: PodResources,
        executor: Executor,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._grants, self._kubelet, self._executor, self._now_s = grants, kubelet, executor, now_s
        self._rules = {rule.resource: rule for rule in options.rules}
        self._watch = GrantWatch(grace_s=options.grace_s)
        self._trouble = ""
        self._told: set[tuple[str, str]] = set()

    async def give(self, rule: ResourceRule, wanted: Sequence[OfferedDevice]) -> Given:
        """Prepare devices for a container.

        Raises:
            ClaimsmithError: They can't be had now.
        """
        now_s = self._now_s()
        over = {grant for grant in self._grants.ledger.grants() if self._watch.must_be_over(grant, now_s)}
        given = await self._run(lambda: self._grants.give(rule, wanted, is_over=over.__contains__))
        self._watch.note_made(given.grant, self._now_s())
        return given

    async def make_sure(self, rule: ResourceRule, wanted: Sequence[OfferedDevice]) -> Grant:
        """Prepare devices again that a container has, if what it needs to start was lost.

        Raises:
            ClaimsmithError: It can't be done now.
        """
        return await self._run(lambda: self._grants.make_sure(rule, wanted))

    async def refresh(self) -> None:
        """Take in what another process of the driver has written."""
        try:
            await self._run(self._grants.ledger.refresh)
        except ClaimsmithError as error:
            self._tell_once("ledger", "The ledger can't be read again", self._grants.driver.name, error)

    async def look(self, offered: _Offered) -> LookOutcome:
        """Ask the kubelet once what containers have, and do what follows.

        Args:
            offered: What is offered, by resource.
        """
        view = await self._kubelet.look()
        await self.refresh()
        devices = {(resource, item.id): item for resource, items in offered.items() for item in items}
        plan = self._watch.look(
            view,
            self._grants.ledger.grants(),
            now_s=self._now_s(),
            resources=offered,
            devices={key: item.device for key, item in devices.items()},
        )
        self._tell_trouble(view)
        freed = [await self._take_back(grant) for grant in plan.over]
        for item in plan.unknown:
            await self._adopt(item, devices)
        for grant in plan.listed:
            await self._prepare_again(grant, devices)
        soon = plan.nudge or self._watch.is_waiting
        return LookOutcome(view=view, freed=any(freed), nudge=plan.nudge, soon=soon)

    async def _take_back(self, grant: Grant) -> bool:
        try:
            done = await self._run(lambda: self._grants.take_back(grant))
        except ClaimsmithError as error:
            self._tell_once(
                grant.uid, "Devices of a container that has ended can't be given back", grant.resource, error
            )
            return False
        if done:
            ids = ",".join(grant.ids)
            log_event(_log, logging.INFO, "Devices given back", resource=grant.resource, ids=ids)
        return done

    async def _adopt(self, item: ContainerDevices, devices: Mapping[tuple[str, str], OfferedDevice]) -> None:
        """Write down what a container has; ids that are offered no more stand for no device that we could give away."""
        known = [devices[item.resource, id_] for id_ in sorted(item.ids) if (item.resource, id_) in devices]
        if len(known) < len(item.ids):
            return
        try:
            is_news = await self._run(lambda: self._grants.adopt(item.resource, known))
        except ClaimsmithError as error:
            self._tell_once(item.container, "Devices of a container can't be written down", item.resource, error)
            return
        if is_news:
            ids = ",".join(sorted(item.ids))
            log_event(
                _log, logging.WARNING, "A container has devices that were not noted", resource=item.resource, ids=ids
            )

    async def _prepare_again(self, grant: Grant, devices: Mapping[tuple[str, str], OfferedDevice]) -> None:
        """Prepare a grant of another boot, or one that was only begun, so that its container can start."""
        rule = self._rules.get(grant.resource)
        wanted = [devices[grant.resource, id_] for id_ in grant.ids if (grant.resource, id_) in devices]
        current = grant.entry.finished and grant.entry.boot_id == self._grants.boot_id
        if current or rule is None or not wanted or len(wanted) < len(grant.ids):
            return
        try:
            await self.make_sure(rule, wanted)
        except ClaimsmithError as error:
            self._tell_once(grant.uid, "Devices of a container can't be prepared again", grant.resource, error)

    def _tell_trouble(self, view: KubeletView) -> None:
        if not self._grants.ledger.grants():
            return
        if view.trouble and view.trouble != self._trouble:
            log_event(
                _log,
                logging.WARNING,
                "Devices of containers are not given back, since the kubelet does not tell which it has",
                driver=self._grants.driver.name,
                reason=view.trouble,
            )
        self._trouble = view.trouble

    def _tell_once(self, subject: str, message: str, resource: str, error: ClaimsmithError) -> None:
        if (subject, str(error)) not in self._told:
            if len(self._told) >= _TOLD_MAX:
                self._told.clear()
            self._told.add((subject, str(error)))
            log_event(_log, logging.WARNING, message, resource=resource, reason=error)

    async def _run(self, call: Callable[[], _Value]) -> _Value:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)
