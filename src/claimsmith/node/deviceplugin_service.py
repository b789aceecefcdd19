"""The device plugin service of one resource: what the kubelet calls to learn of devices and to give them to containers.

Source: device plugin v1beta1 of k8s.io/kubelet v0.37.2; pkg/kubelet/cm/devicemanager of kubernetes v1.37.2.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from claimsmith.errors import ClaimsmithError, PluginCallError
from claimsmith.kubelet import deviceplugin_v1beta1_pb2 as messages
from claimsmith.kubelet.services import ALLOCATE, GET_OPTIONS, GET_PREFERRED, LIST_AND_WATCH, PRE_START
from claimsmith.node.deviceplugin_rules import OfferedDevice, Passing, ResourceRule
from claimsmith.node.entry import Grant
from claimsmith.node.grants import Given
from claimsmith.node.preferred import find_places, plan_preferred
from claimsmith.node.sockets import Handler, stream_handler, unary_handler
from claimsmith.telemetry import get_logger, log_event

__all__ = ["HEALTHY", "UNHEALTHY", "GrantGiver", "Offer", "ResourceService", "encode_given"]

HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"
"""The only words for health that the kubelet knows."""
_IDS_MAX: Final = 16_384
"""Ids that one call may name; far more than any node has."""
_CDI_ANNOTATION: Final = "cdi.k8s.io/claimsmith_{}"

_log = get_logger("node")


class GrantGiver(Protocol):
    """Gives devices to containers."""

    async def give(self, rule: ResourceRule, wanted: Sequence[OfferedDevice]) -> Given:
        """Prepare devices for a container.

        Raises:
            ClaimsmithError: They can't be had now.
        """
        ...

    async def make_sure(self, rule: ResourceRule, wanted: Sequence[OfferedDevice]) -> Grant:
        """Prepare devices again that a container has, if what it needs to start was lost.

        Raises:
            ClaimsmithError: It can't be done now.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One id, and why it can't be given away now; empty when it can."""

    device: OfferedDevice
    obstacle: str = ""


class ResourceService:
    """Serves one resource.

    Args:
        driver: Name of the driver.
        rule: The resource and its rule.
        passing: How containers get their devices.
        pre_start: Whether the kubelet asks before each start of a container.
        giver: Gives devices to containers.
    """

    def __init__(
        self, driver: str, rule: ResourceRule, *, passing: Passing, pre_start: bool, giver: GrantGiver
    ) -> None:
        self.rule = rule
        self._driver, self._passing, self._pre_start, self._giver = driver, passing, pre_start, giver
        self._offers: Mapping[str, Offer] = {}
        self._changed = asyncio.Event()
        self._closed = False
        self._behind: set[object] = set()
        self._all_told = asyncio.Event()
        self._followers: set[object] = set()

    @property
    def streams(self) -> int:
        """How many calls follow the list of devices now."""
        return len(self._followers)

    @property
    def options(self) -> messages.DevicePluginOptions:
        """What the kubelet may call."""
        return messages.DevicePluginOptions(pre_start_required=self._pre_start, get_preferred_allocation_available=True)

    @property
    def offers(self) -> tuple[Offer, ...]:
        """What is offered now."""
        return tuple(self._offers.values())

    def handlers(self) -> tuple[Handler, ...]:
        """Return what serves the resource's socket."""
        return (
            unary_handler(GET_OPTIONS, self._get_options),
            stream_handler(LIST_AND_WATCH, self._list_and_watch),
            unary_handler(GET_PREFERRED, self._get_preferred),
            unary_handler(ALLOCATE, self._allocate),
            unary_handler(PRE_START, self._pre_start_container),
        )

    def offer(self, offers: Iterable[Offer]) -> None:
        """Offer devices from now on; the kubelet is told when anything has changed. In the event loop only."""
        new = {offer.device.id: offer for offer in offers}
        if new != self._offers:
            self._tell_changes(new)
            self._offers = new
            self.tell()

    def tell(self) -> None:
        """Send the list again, changed or not. In the event loop only."""
        self._behind = set(self._followers)
        self._all_told.clear()
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def wait_told(self, timeout_s: float) -> bool:
        """Wait until somebody follows the list, and all that do have got the present one; tell whether they have."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._behind or not self._followers:
                    await self._all_told.wait()
                    self._all_told.clear()
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """End all calls that follow the list: the kubelet then counts the devices as unusable."""
        self._closed = True
        self.tell()

    def _tell_changes(self, new: Mapping[str, Offer]) -> None:
        for id_, offer in new.items():
            before = self._offers.get(id_)
            if before is not None and before.obstacle != offer.obstacle:
                state = offer.obstacle or "usable again"
                log_event(
                    _log, logging.DEBUG, "Device on offer changed", resource=self.rule.resource, id=id_, state=state
                )

    async def _get_options(self, request: messages.Empty) -> messages.DevicePluginOptions:
        return self.options

    async def _list_and_watch(self, request: messages.Empty) -> AsyncIterator[messages.ListAndWatchResponse]:
        follower = object()
        self._followers.add(follower)
        self._behind.add(follower)
        try:
            while not self._closed:
                changed = self._changed
                yield messages.ListAndWatchResponse(devices=[_encode_device(offer) for offer in self.offers])
                if changed is self._changed:
                    self._note_told(follower)
                await changed.wait()
        finally:
            self._followers.discard(follower)
            self._note_told(follower)

    def _note_told(self, follower: object) -> None:
        self._behind.discard(follower)
        if not self._behind:
            self._all_told.set()

    async def _get_preferred(
        self, request: messages.PreferredAllocationRequest
    ) -> messages.PreferredAllocationResponse:
        places = find_places(self._driver, self.rule, (offer.device for offer in self.offers))
        order = {id_: number for number, id_ in enumerate(self._offers)}
        responses = []
        for asked in request.container_requests:
            ids = _checked(asked.available_deviceIDs, self.rule)
            known = sorted((id_ for id_ in ids if id_ in order), key=lambda id_: order[id_])
            chosen = plan_preferred(
                known,
                must_include=_checked(asked.must_include_deviceIDs, self.rule),
                size=asked.allocation_size,
                places={} if self.rule.replicas > 1 else places,
                policy=self.rule.preference,
            )
            responses.append(messages.ContainerPreferredAllocationResponse(deviceIDs=chosen))
        return messages.PreferredAllocationResponse(container_responses=responses)

    async def _allocate(self, request: messages.AllocateRequest) -> messages.AllocateResponse:
        responses = []
        for asked in request.container_requests:
            wanted = self._find(asked.devices_ids)
            try:
                given = await self._giver.give(self.rule, wanted)
            except ClaimsmithError as error:
                ids = ", ".join(asked.devices_ids)
                log_event(_log, logging.WARNING, "Allocate refused", resource=self.rule.resource, ids=ids, reason=error)
                raise PluginCallError(str(error)) from error
            responses.append(encode_given(given, self.rule, self._passing))
        return messages.AllocateResponse(container_responses=responses)

    async def _pre_start_container(
        self, request: messages.PreStartContainerRequest
    ) -> messages.PreStartContainerResponse:
        try:
            await self._giver.make_sure(self.rule, self._find(request.devices_ids))
        except ClaimsmithError as error:
            log_event(_log, logging.WARNING, "A container can't start", resource=self.rule.resource, reason=error)
            raise PluginCallError(str(error)) from error
        return messages.PreStartContainerResponse()

    def _find(self, ids: Sequence[str]) -> tuple[OfferedDevice, ...]:
        ids = _checked(ids, self.rule)
        unknown = [id_ for id_ in ids if id_ not in self._offers]
        if unknown or not ids:
            found = f"unknown ids {', '.join(unknown[:8])}" if unknown else "no ids"
            raise PluginCallError(
                f"resource {self.rule.resource}: found {found}, allowed some that are on offer; list the devices again"
            )
        return tuple(self._offers[id_].device for id_ in ids)


def _checked(ids: Sequence[str], rule: ResourceRule) -> tuple[str, ...]:
    if len(ids) > _IDS_MAX:
        raise PluginCallError(f"resource {rule.resource}: found {len(ids)} ids, allowed {_IDS_MAX}; ask for fewer")
    return tuple(dict.fromkeys(ids))


def _encode_device(offer: Offer) -> messages.Device:
    nodes = [messages.NUMANode(ID=node) for node in offer.device.numa_nodes]
    return messages.Device(
        ID=offer.device.id,
        health=UNHEALTHY if offer.obstacle else HEALTHY,
        topology=messages.TopologyInfo(nodes=nodes) if nodes else None,
    )


def encode_given(given: Given, rule: ResourceRule, passing: Passing) -> messages.ContainerAllocateResponse:
    """Return what a container gets in the words of the protocol."""
    annotations = dict(rule.annotations)
    if passing == "cdi":
        names = [messages.CDIDevice(name=cdi_id) for cdi_id in given.cdi_ids]
        return messages.ContainerAllocateResponse(cdi_devices=names, annotations=annotations)
    if passing == "cdi-annotations":
        annotations[_CDI_ANNOTATION.format(given.grant.uid)] = ",".join(given.cdi_ids)
        return messages.ContainerAllocateResponse(annotations=annotations)
    mounts = {mount.container_path: mount for edits in given.edits for mount in edits.mounts}
    nodes = {node.path: node for edits in given.edits for node in edits.device_nodes}
    return messages.ContainerAllocateResponse(
        envs={name: value for edits in given.edits for name, value in edits.env.items()},
        mounts=[
            messages.Mount(container_path=path, host_path=mount.host_path, read_only="ro" in mount.options)
            for path, mount in mounts.items()
        ],
        devices=[
            messages.DeviceSpec(
                container_path=path, host_path=node.host_path or path, permissions=node.permissions or "rwm"
            )
            for path, node in nodes.items()
        ],
        annotations=annotations,
    )
