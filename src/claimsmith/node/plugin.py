"""A driver served to the kubelet of one node."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from claimsmith.errors import ConfigError
from claimsmith.kubelet.paths import NodePaths, make_folder
from claimsmith.kubelet.services import DRA_PLUGIN_TYPE
from claimsmith.model.inventory import DeviceHealth
from claimsmith.node.draplugin import DRA_SERVICES, ClaimReader, DraPlugin
from claimsmith.node.entry import PreparedClaim
from claimsmith.node.health import HEALTH_SERVICES, HealthService
from claimsmith.node.holding import Holding
from claimsmith.node.ledger import Ledger
from claimsmith.node.preparation import Preparation
from claimsmith.node.registration import Registration, registration_socket, service_socket
from claimsmith.node.sockets import SocketServer
from claimsmith.node.sweep import ClaimsInUse, Sweeper, SweepPolicy
from claimsmith.sdk.driver import Driver
from claimsmith.telemetry import Meter, get_logger, log_event

__all__ = ["BOOT_ID_FILE", "NodePlugin", "read_boot_id"]

BOOT_ID_FILE: Final = Path("/proc/sys/kernel/random/boot_id")
"""The kernel makes a new id at each boot. Source: random(4)."""

_log = get_logger("node")


def read_boot_id(path: Path = BOOT_ID_FILE) -> str:
    """Return the id of this boot of the machine.

    Raises:
        ConfigError: The kernel does not tell it.
    """
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"boot id {path}: can't be read: {error}, allowed a readable file; mount /proc") from error


class NodePlugin:
    """Serves a driver on a registration and a service socket while it is entered.

    Args:
        driver: The driver; called in one thread, never twice at a time.
        paths: The folders of the node.
        node_name: Name of the node in the API.
        claims: Reads claims from the API server.
        boot_id: Which boot of the machine this is.
        instance_uid: uid of the driver's pod; needed only for two at a time, as during a rolling update.
        meter: Takes the numbers; a meter of its own when not given.
        serves_health: Whether `report_health` will be called for the devices; else the kubelet asks for no health.
        holding: Lets a prepare that can't succeed yet wait; for as long as the kubelet does when not given.
        sweep: How often to look for claims that are over.
        in_use: Tells which claims the kubelet's pods use, so that none of those is released.

    Raises:
        ConfigError: A socket's path is too long.
    """

    def __init__(  # noqa: PLR0913 - each is an own fact of the node
        self,
        driver: Driver,
        *,
        paths: NodePaths,
        node_name: str,
        claims: ClaimReader,
        boot_id: str,
        instance_uid: str = "",
        meter: Meter | None = None,
        serves_health: bool = False,
        holding: Holding | None = None,
        sweep: SweepPolicy | None = None,
        in_use: ClaimsInUse | None = None,
    ) -> None:
        self._driver, self._paths = driver, paths
        folder = paths.folder_of(driver.name)
        endpoint = service_socket(folder, instance_uid)
        self._folder = folder
        self.meter = meter or Meter()
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"driver-{driver.name}")
        self._preparation = Preparation(driver, folder=folder, cdi_folder=paths.cdi, boot_id=boot_id, meter=self.meter)
        self.holding = holding or Holding()
        """The prepare calls that wait; who gives a device back in another way than through this plugin wakes them."""
        self._dra = DraPlugin(
            driver.name,
            node_name=node_name,
            claims=claims,
            preparation=self._preparation,
            executor=self._executor,
            holding=self.holding,
        )
        self.sweeper = Sweeper(
            self._preparation.claims, claims=claims, release=self._dra.unprepare, in_use=in_use, policy=sweep
        )
        """Releases claims that are over; whoever runs the plugin runs it."""
        self._health = HealthService(node_name)
        services = (*DRA_SERVICES, *HEALTH_SERVICES) if serves_health else DRA_SERVICES
        self.registration = Registration(DRA_PLUGIN_TYPE, driver.name, endpoint=endpoint, services=services)
        """What the kubelet said of the registration."""
        health = self._health.handlers() if serves_health else ()
        self._service = SocketServer(endpoint, (*self._dra.handlers(), *health))
        self._registrar = SocketServer(
            registration_socket(paths.plugins_registry, driver.name, instance_uid), self.registration.handlers()
        )
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Read the checkpoint, then serve: first the service, then the registration that names it.

        Raises:
            ConfigError: A folder or a socket can't be used, or a later version wrote the checkpoint.
        """
        async with AsyncExitStack() as stack:
            stack.callback(self._executor.shutdown, wait=False, cancel_futures=True)
            for folder in (self._folder, self._paths.plugins_registry, self._paths.cdi):
                make_folder(folder)
            await asyncio.get_running_loop().run_in_executor(self._executor, self._preparation.open)
            for server in (self._service, self._registrar):
                await server.start()
                stack.push_async_callback(server.stop)
            self._stack = stack.pop_all()
        log_event(_log, logging.INFO, "Plugin serves", driver=self._driver.name, socket=self._registrar.path)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop serving, the registration first; what is prepared stays prepared."""
        await self._stack.aclose()

    @property
    def ledger(self) -> Ledger:
        """Who holds which device; the device plugin of the same driver writes into it too."""
        return self._preparation.ledger

    @property
    def executor(self) -> Executor:
        """The one thread in which the driver is called to prepare and unprepare."""
        return self._executor

    @property
    def damaged(self) -> tuple[Path, ...]:
        """Where damaged checkpoints were put since the start; what is prepared was read from the CDI files again."""
        return self._preparation.damaged

    def prepared(self) -> tuple[PreparedClaim, ...]:
        """Return the claims that are prepared, or whose preparation was begun."""
        return self._preparation.claims()

    def report_health(self, *devices: DeviceHealth) -> None:
        """Tell the kubelet how some devices fare; others keep what was told of them. In the event loop only."""
        self._health.report(*devices)
