"""Runs the drivers of a machine once and tells what they would offer, without a kubelet and without an API server."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from claimsmith.daemons.agent_config import AgentConfig, create_configured, plugin_config
from claimsmith.daemons.agent_names import LabelledDriver
from claimsmith.errors import ClaimsmithError
from claimsmith.model.device import DeviceTaint
from claimsmith.model.inventory import DeviceHealth, Inventory
from claimsmith.model.names import DeviceId
from claimsmith.model.pool import ResourceSlice
from claimsmith.publish.content import DeviceNotes, PublishProblem, plan_content
from claimsmith.publish.health import HealthTaints
from claimsmith.publish.health_policy import HealthPolicy
from claimsmith.publish.health_spread import find_parents
from claimsmith.publish.labels_groups import LabelSource
from claimsmith.publish.plan import preview_slices
from claimsmith.sdk.driver import Driver
from claimsmith.sdk.registry import iter_plugins
from claimsmith.telemetry import get_logger, log_event

__all__ = ["Discovery", "discover_installed", "discover_node", "label_sources"]

_HEALTH_S: Final = 2.0

_log = get_logger("agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """What one driver offers now.

    Args:
        driver: Name of the driver.
        marked: Attributes that the driver wants labels to tell.
        inventory: Its devices; without any when it failed.
        taints: Taints of devices that it says have failed.
        slices: What would be published of it.
        problems: What would not be published, or in another form.
        error: Why the devices can't be listed; empty when they can.
    """

    driver: str
    marked: tuple[str, ...] = ()
    inventory: Inventory = field(default_factory=Inventory)
    taints: tuple[tuple[DeviceId, tuple[DeviceTaint, ...]], ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    problems: tuple[PublishProblem, ...] = ()
    error: str = ""


def discover_installed(settings: tuple[Path, ...], *, node: str) -> tuple[Discovery, ...]:
    """Return what all driver plugins that are installed find here; one that can't be used does not hide the others.

    Args:
        settings: Settings files, for those plugins that read any.
        node: Name of the node.
    """
    found: list[Discovery] = []
    for plugin in dict.fromkeys(entry.name for entry in iter_plugins()):
        try:
            found += discover_node(plugin_config((plugin,), settings), node=node)
        except ClaimsmithError as error:
            found.append(Discovery(driver=plugin, error=str(error)))
    return tuple(found)


def discover_node(config: AgentConfig, *, node: str, policy: HealthPolicy | None = None) -> tuple[Discovery, ...]:
    """Return what the drivers of a configuration find here; one that fails does not hide the others.

    Args:
        config: Which drivers.
        node: Name of the node.
        policy: How failures are graded.

    Raises:
        InputError: Settings of a plugin can't be used.
        ConfigError: A plugin can't be loaded.
    """
    chosen = create_configured(config, node_name=node)
    return tuple(_discover(item.driver, node, policy or HealthPolicy()) for item in chosen)


def label_sources(found: Iterable[Discovery], *, node: str) -> tuple[LabelSource, ...]:
    """Return what labels are made from."""
    return tuple(
        LabelSource(driver=item.driver, inventory=item.inventory, node=node, marked=item.marked)
        for item in found
        if not item.error
    )


def _discover(driver: Driver, node: str, policy: HealthPolicy) -> Discovery:
    labelled = LabelledDriver(driver)
    marked = tuple(driver.label_attributes)
    try:
        inventory = labelled.discover()
    except ClaimsmithError as error:
        return Discovery(driver=driver.name, marked=marked, error=str(error))
    except Exception as error:
        reason = f"driver {driver.name}: discover failed: {type(error).__name__}: {error}"
        return Discovery(driver=driver.name, marked=marked, error=reason)
    health = HealthTaints(driver.name, node, policy, find_parents(driver.name, inventory, node=node))
    for report in _ask_health(driver):
        health.note(labelled.translate(report), 0.0)
    notes = DeviceNotes(taints=health.taints(0.0))
    problems = (problem for pool in plan_content(driver.name, inventory, node=node) for problem in pool.problems)
    return Discovery(
        driver=driver.name,
        marked=marked,
        inventory=inventory,
        taints=tuple(sorted(notes.taints.items())),
        slices=preview_slices(driver.name, node, inventory, notes=notes),
        problems=tuple(problems),
    )


def _ask_health(driver: Driver) -> tuple[DeviceHealth, ...]:
    """Return the first that a driver says of the health of its devices; a watch that does not end is left behind."""
    if type(driver).watch_health is Driver.watch_health:
        return ()
    reports: list[DeviceHealth] = []
    first, stop = threading.Event(), threading.Event()

    def take(*devices: DeviceHealth) -> None:
        reports.extend(devices)
        first.set()

    def watch() -> None:
        try:
            driver.watch_health(take, stop)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            log_event(_log, logging.WARNING, "Health can't be asked", driver=driver.name, reason=reason)
        first.set()

    threading.Thread(target=watch, name=f"health-{driver.name}", daemon=True).start()
    first.wait(_HEALTH_S)
    stop.set()
    return tuple(reports)
