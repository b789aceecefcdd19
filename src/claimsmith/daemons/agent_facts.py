"""What an agent tells of its node as a whole: labels, and amounts of extended resources without a device plugin."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from claimsmith.daemons.agent_driver import Found
from claimsmith.daemons.agent_options import AgentOptions, FrontEnds
from claimsmith.errors import ClaimsmithError, ConfigError
from claimsmith.kube.backoff import Backoff
from claimsmith.kube.client import KubeClient
from claimsmith.model.names import DeviceId
from claimsmith.node.deviceplugin_rules import plan_offers
from claimsmith.node.durable import write_durable
from claimsmith.publish.labels import LabelOptions, plan_labels, render_feature_file
from claimsmith.publish.labels_groups import LabelSource
from claimsmith.publish.labels_write import apply_labels
from claimsmith.publish.nodestatus import configured_amounts
from claimsmith.publish.nodestatus_keeper import CapacityKeeper
from claimsmith.telemetry import get_logger, log_event

__all__ = ["NodeFacts", "plan_amounts", "plan_label_sources"]

_REFRESH_S: Final = 300.0
_BLOCKING: Final = frozenset({"NoSchedule", "NoExecute"})

_log = get_logger("agent")


class NodeFacts:
    """Keeps labels and amounts of the node as the devices of its drivers are.

    Nothing is written before each driver that takes part has listed its devices once, so that a start takes no label
    away.

    Args:
        client: The API server.
        node_name: Name of the node.
        drivers: Names of all drivers.
        options: How the agent works.
        marked: Attributes that drivers want labels to tell, by driver.
    """

    def __init__(
        self,
        client: KubeClient,
        node_name: str,
        *,
        drivers: tuple[str, ...],
        options: AgentOptions,
        marked: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.last_error: ClaimsmithError | None = None
        """Why labels can't be written now; None when they can."""
        self._client, self._node_name, self._options = client, node_name, options
        fronts = {name: options.fronts.get(name) or FrontEnds() for name in drivers}
        self._labelled = {name: front for name, front in fronts.items() if front.labels}
        self._counted = {name: front for name, front in fronts.items() if front.amounts}
        self._marked = marked or {}
        self._found: dict[str, Found] = {}
        self._wake = asyncio.Event()
        self._keeper = CapacityKeeper(client, node_name) if self._counted or options.keeps_capacity else None

    def take(self, driver: str, found: Found) -> None:
        """Take in what is known of a driver's devices. In the event loop only."""
        self._found[driver] = found
        if self._keeper is not None and self._counted and self._counted.keys() <= self._found.keys():
            self._keeper.keep(configured_amounts(plan_amounts(self._counted, self._found, node=self._node_name)))
        if driver in self._labelled and self._labelled.keys() <= self._found.keys():
            self._wake.set()

    def works(self) -> Iterator[tuple[Coroutine[Any, Any, None], str]]:
        """Yield what runs as long as the agent does, with names."""
        if self._keeper is not None:
            yield self._keeper.run(), "node capacity"
        if self._labelled and self._options.labels.place != "off":
            yield self._keep_labels(), "node labels"

    async def _keep_labels(self) -> None:
        """Write the labels whenever they change, and now and then lest somebody has edited them."""
        backoff = Backoff(initial_s=1.0, max_s=60.0)
        await self._wake.wait()
        while True:
            self._wake.clear()
            labels = plan_labels(
                plan_label_sources(self._labelled, self._found, node=self._node_name, marked=self._marked),
                self._options.labels,
            )
            try:
                await self._write(labels, self._options.labels)
            except ClaimsmithError as error:
                if str(error) != str(self.last_error):
                    log_event(_log, logging.WARNING, "Labels can't be written", node=self._node_name, reason=error)
                self.last_error = error
                await backoff.wait()
                continue
            self.last_error = None
            backoff.reset()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_REFRESH_S):
                    await self._wake.wait()

    async def _write(self, labels: Mapping[str, str], options: LabelOptions) -> None:
        if options.place == "file":
            await asyncio.to_thread(_write_file, Path(options.file), render_feature_file(labels))
            return
        done = await apply_labels(self._client, self._node_name, labels, force=options.force)
        if done.body is not None:
            added, removed = len(done.added), len(done.removed)
            log_event(_log, logging.INFO, "Labels written", node=self._node_name, added=added, removed=removed)
        for key, owner in sorted(done.left.items()):
            log_event(_log, logging.INFO, "A label is somebody else's", label=key, owner=owner)


def plan_label_sources(
    fronts: Mapping[str, FrontEnds],
    found: Mapping[str, Found],
    *,
    node: str,
    marked: Mapping[str, tuple[str, ...]] | None = None,
) -> tuple[LabelSource, ...]:
    """Return what the labels are made from.

    Args:
        fronts: In which ways the devices are offered, by driver.
        found: What is known of the devices, by driver.
        node: Name of the node.
        marked: Attributes that drivers want labels to tell, by driver.
    """
    return tuple(
        LabelSource(
            driver=name,
            inventory=found[name].inventory,
            node=node,
            marked=(marked or {}).get(name, ()),
            replicas=_replicas(name, front, found[name], node),
        )
        for name, front in sorted(fronts.items())
    )


def plan_amounts(fronts: Mapping[str, FrontEnds], found: Mapping[str, Found], *, node: str) -> Mapping[str, int]:
    """Return the amounts of extended resources: devices that are tainted are not counted.

    Args:
        fronts: In which ways the devices are offered, by driver.
        found: What is known of the devices, by driver.
        node: Name of the node.
    """
    amounts: dict[str, int] = {}
    for name, front in fronts.items():
        known = found[name]
        tainted = {
            device for device, taints in known.taints.items() if any(taint.effect in _BLOCKING for taint in taints)
        }
        for resource, items in plan_offers(name, known.inventory, node=node, rules=front.amounts).items():
            usable = sum(item.device not in tainted for item in items)
            amounts[resource] = amounts.get(resource, 0) + usable
    return amounts


def _replicas(name: str, front: FrontEnds, found: Found, node: str) -> Mapping[str, int]:
    """Return to how many containers the device plugin offers each device, by device name."""
    if front.device_plugin is None:
        return {}
    counts: dict[DeviceId, int] = {}
    for items in plan_offers(name, found.inventory, node=node, rules=front.device_plugin.rules).values():
        for item in items:
            counts[item.device] = counts.get(item.device, 0) + 1
    return {device.device: count for device, count in counts.items()}


def _write_file(path: Path, data: bytes) -> None:
    try:
        write_durable(path, data)
    except OSError as error:
        raise ConfigError(
            f"feature file {path}: can't be written ({error.strerror}), allowed a writable folder; mount it"
        ) from error
