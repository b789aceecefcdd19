"""One node of the embedded cluster: a kubelet and an agent that meet on real sockets."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from claimsmith.daemons.agent import Agent, AgentOptions
from claimsmith.daemons.agent_config import AgentConfig, ConfiguredDriver, build_agent_options, build_front_ends
from claimsmith.embedded.kubelet.node import ClusterServices, EmbeddedKubelet, NodeConfig
from claimsmith.errors import ConfigError
from claimsmith.kube.client import KubeClient
from claimsmith.kubelet.paths import NodePaths
from claimsmith.sdk.driver import Driver, DriverContext
from claimsmith.sdk.registry import create_drivers

__all__ = ["NodePlace", "run_node"]

_PLUGIN: Final = "simulated"
_START_TIMEOUT_S: Final = 120.0
_REGISTERED_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlace:
    """What belongs to one node alone.

    Args:
        config: What the node is.
        paths: Its folders.
        settings: Settings of its drivers.
        agent: How its agent offers their devices; None: by claims alone.
    """

    config: NodeConfig
    paths: NodePaths
    settings: DriverContext
    agent: AgentConfig | None = None


async def run_node(
    place: NodePlace,
    *,
    client: KubeClient,
    services: ClusterServices,
    options: AgentOptions,
    ready: asyncio.Future[tuple[Driver, ...]],
) -> None:
    """Run a node until cancelled.

    Args:
        options: Options of its agent; each call is a new boot.
        ready: Gets the drivers once the node is in the API server, drivers are registered and their devices published.

    Raises:
        InputError: Settings of a driver can't be used.
        ConfigError: A socket or folder can't be used, or the devices can't be published.
    """
    plugins = _create_drivers(place)
    drivers = tuple(driver for created in plugins.values() for driver in created)
    kubelet = EmbeddedKubelet(place.config, paths=place.paths, client=client, services=services)
    agent = Agent(
        drivers,
        node_name=place.config.name,
        client=client,
        paths=place.paths,
        options=replace(_configure(place, plugins, options), boot_id=str(uuid.uuid4())),
    )

    async def serve() -> None:
        await kubelet.wait_ready()
        async with agent:
            await _wait_usable(agent, place.config.name)
            ready.set_result(drivers)
            await asyncio.Event().wait()

    # Two tasks that are cancelled together: a kubelet that outlives the plugins would complain about them.
    async with asyncio.TaskGroup() as group:
        group.create_task(kubelet.run(), name=f"kubelet {place.config.name}")
        group.create_task(serve(), name=f"agent {place.config.name}")


def _create_drivers(place: NodePlace) -> Mapping[str, tuple[Driver, ...]]:
    """Return the drivers of a node by plugin: the simulated ones, and those of plugins that the configuration names.

    Raises:
        InputError: Settings of a driver can't be used.
        ConfigError: A plugin is not installed, or fails.
    """
    settings, config = place.settings, place.agent
    is_simulated = settings.settings_files or settings.documents
    created = {_PLUGIN: create_drivers(_PLUGIN, settings) if is_simulated else ()}
    if config is None:
        return created
    for chosen in config.content.drivers:
        if chosen.plugin not in created:
            files = tuple(config.folder / name for name in chosen.settings)
            context = DriverContext(node_name=settings.node_name, settings_files=files)
            created[chosen.plugin] = create_drivers(chosen.plugin, context)
    return created


def _configure(place: NodePlace, plugins: Mapping[str, Sequence[Driver]], options: AgentOptions) -> AgentOptions:
    """Return the options of a node's agent, with what the configuration says of its drivers.

    Raises:
        FieldError: It names settings of simulated devices, or says for several drivers what goes for one.
    """
    config = place.agent
    if config is None:
        return options
    configured: list[ConfiguredDriver] = []
    for index, chosen in enumerate(config.content.drivers):
        path = f"spec.drivers[{index}]"
        if chosen.settings and chosen.plugin == _PLUGIN:
            hint = "put the devices among the files of the cluster"
            raise config.refuse(f"{path}.settings", chosen.settings[0], allowed="none", hint=hint)
        meant = [driver for driver in plugins[chosen.plugin] if chosen.driver in ("", driver.name)]
        fronts = build_front_ends(config, chosen, path=path)
        if fronts.device_plugin is not None and len(meant) > 1:
            found, hint = ", ".join(driver.name for driver in meant), "name the driver that they are of"
            raise config.refuse(f"{path}.devicePlugin", found, allowed="resources of one driver", hint=hint)
        configured += [ConfiguredDriver(driver=driver, fronts=fronts) for driver in meant]
    built = build_agent_options(config, configured)
    return replace(built, loop=options.loop, hold=options.hold, sweep=options.sweep)


async def _wait_usable(agent: Agent, node: str) -> None:
    """Return once the API server shows the devices and the kubelet knows their drivers.

    Raises:
        ConfigError: It takes too long; such a node would never be ready.
    """
    try:
        async with asyncio.timeout(_START_TIMEOUT_S):
            await agent.wait_published()
        is_registered = await agent.wait_registered(_START_TIMEOUT_S)
    except TimeoutError:
        is_registered = False
    if not is_registered:
        found = "; ".join(error for state in agent.states() for error in state.errors) or "no error"
        raise ConfigError(
            f"node {node}: devices not usable after {_START_TIMEOUT_S:g} s, found {found}; "
            "correct the settings, or try again on a machine with less load"
        )
