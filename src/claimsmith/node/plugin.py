"""A driver served to the kubelet of one node."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from claimsmith.errors import ConfigError
from claimsmith.kubelet.paths import NodePaths, make_folder
from claimsmith.kubelet.services import DRA_PLUGIN_TYPE
from claimsmith.model.inventory import DeviceHealth
from claimsmith.model.prepared import ClaimKey
from claimsmith.node.claimfiles import ClaimFiles
from claimsmith.node.draplugin import DRA_SERVICES, ClaimReader, ConsumerReader, DraPlugin
from claimsmith.node.entry import PreparedClaim
from claimsmith.node.health import HEALTH_SERVICES, HealthService
from claimsmith.node.holding import Holding
from claimsmith.node.kubeletclaims import read_kubelet_claims
from claimsmith.node.ledger import Ledger
from claimsmith.node.metadata import MetadataPolicy
from claimsmith.node.preparation import Preparation
from claimsmith.node.preparednews import PreparedNews
from claimsmith.node.registration import Registration, registration_socket, service_socket
from claimsmith.node.sockets import SocketServer, remove_dead_sockets
from claimsmith.node.statusreports import ClaimStatusWriter, StatusReports
from claimsmith.node.sweep import Sweeper, SweepPolicy
from claimsmith.sdk.driver import Driver
from claimsmith.telemetry import PREPARES_WAITING, Meter, get_logger, log_event

__all__ = ["BOOT_ID_FILE", "NodePlugin", "PluginOptions", "read_boot_id"]

BOOT_ID_FILE: Final = Path("/proc/sys/kernel/random/boot_id")
"""The kernel makes a new id at each boot. Source: random(4)."""

_SOCKETS_S: Final = 1.0

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginOptions:
    """How a driver is served.

    Args:
        instance_uid: uid of the driver's pod; needed only for two at a time, as during a rolling update.
        serves_health: Whether `report_health` will be called for the devices; else the kubelet asks for no health.
        meter: Takes the numbers; a meter of its own when not given.
        holding: Lets a prepare that can't succeed yet wait; for as long as the kubelet does when not given.
        sweep: How often to look for claims that are over.
        metadata: Which devices get a file for programs in their containers.
        consumers: Knows whether pods for which a prepare waits are being deleted; nobody asks when not given.
        statuses: Writes what the driver says of devices into their claims; nobody does when not given.
        only_if_held: Whether to serve only if claims are prepared already: the devices are offered in another way now,
            but what was prepared must still be given back.
    """

    instance_uid: str = ""
    serves_health: bool = False
    meter: Meter | None = None
    holding: Holding | None = None
    sweep: SweepPolicy | None = None
    metadata: MetadataPolicy | None = None
    consumers: ConsumerReader | None = None
    statuses: ClaimStatusWriter | None = None
    only_if_held: bool = False


class NodePlugin:
    """Serves a driver on a registration and a service socket while it is entered.

    Args:
        driver: The driver; called in one thread, never twice at a time.
        paths: The folders of the node.
        node_name: Name of the node in the API.
        claims: Reads claims from the API server.
        boot_id: Which boot of the machine this is.
        options: How it is served.

    Raises:
        ConfigError: A socket's path is too long.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        paths: NodePaths,
        node_name: str,
        claims: ClaimReader,
        boot_id: str,
        options: PluginOptions | None = None,
    ) -> None:
        chosen = options or PluginOptions()
        self._driver, self._paths = driver, paths
        self._folder = paths.folder_of(driver.name)
        self.meter = chosen.meter or Meter()
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"driver-{driver.name}")
        self._preparation = self._make_preparation(boot_id, chosen)
        self.holding = chosen.holding or Holding()
        """The prepare calls that wait; who gives a device back in another way than through this plugin wakes them."""
        self.holding.on_waiting = lambda count: self.meter.set(PREPARES_WAITING, count, driver=driver.name)
        self._reports = StatusReports(chosen.statuses, self._preparation.files.find_status) if chosen.statuses else None
        self._dra = DraPlugin(
            driver.name,
            node_name=node_name,
            claims=claims,
            preparation=self._preparation,
            executor=self._executor,
            holding=self.holding,
            consumers=chosen.consumers,
            observer=self._reports,
        )
        self.news = PreparedNews(self._dra.refresh)
        """Takes claims of which the driver has learnt more since they were prepared."""
        self.sweeper = Sweeper(
            self._preparation.claims,
            claims=claims,
            release=self._dra.release,
            books=lambda: read_kubelet_claims(paths),
            policy=chosen.sweep,
        )
        """Releases claims that are over; whoever runs the plugin runs it."""
        self._health = HealthService(node_name)
        self._only_if_held = chosen.only_if_held
        self.is_serving = False
        """Whether the kubelet's calls are answered."""
        self.unanswered: tuple[ClaimKey, ...] = ()
        """Claims whose preparation a stopped process had begun."""
        self._make_servers(chosen)
        self._lost = ""
        self._stack = AsyncExitStack()

    def _make_preparation(self, boot_id: str, options: PluginOptions) -> Preparation:
        return Preparation(
            self._driver,
            folder=self._folder,
            cdi_folder=self._paths.cdi,
            boot_id=boot_id,
            meter=self.meter,
            files=ClaimFiles(self._folder, self._driver.name, policy=options.metadata),
        )

    def _make_servers(self, options: PluginOptions) -> None:
        name, paths = self._driver.name, self._paths
        endpoint = service_socket(self._folder, options.instance_uid)
        services = (*DRA_SERVICES, *HEALTH_SERVICES) if options.serves_health else DRA_SERVICES
        self.registration = Registration(DRA_PLUGIN_TYPE, name, endpoint=endpoint, services=services)
        """What the kubelet said of the registration."""
        health = self._health.handlers() if options.serves_health else ()
        self._service = SocketServer(endpoint, (*self._dra.handlers(), *health))
        registrar = registration_socket(paths.plugins_registry, name, options.instance_uid)
        self._registrar = SocketServer(registrar, self.registration.handlers(), is_watched=True)

    async def __aenter__(self) -> Self:
        """Read the checkpoint, then serve: first the service, then the registration that names it.

        Raises:
            ConfigError: A folder or a socket can't be used, or a later version wrote the checkpoint.
        """
        loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            stack.callback(self._executor.shutdown, wait=False, cancel_futures=True)
            for folder in (self._folder, self._paths.plugins_registry, self._paths.cdi):
                make_folder(folder)
            await loop.run_in_executor(self._executor, self._preparation.open)
            self.unanswered = await loop.run_in_executor(self._executor, self._preparation.find_unanswered)
            self.is_serving = not self._only_if_held or bool(self.prepared())
            for server in (self._service, self._registrar) if self.is_serving else ():
                await server.start()
                stack.push_async_callback(server.stop)
            self._remove_dead_sockets()
            if self.is_serving:
                keeping = asyncio.create_task(self._keep_sockets(), name=f"sockets {self._driver.name}")
                stack.callback(keeping.cancel)
            if self._reports is not None:
                reporting = asyncio.create_task(self._reports.run(self._known()), name=f"status {self._driver.name}")
                stack.callback(reporting.cancel)
            telling = asyncio.create_task(self.news.run(), name=f"news {self._driver.name}")
            stack.callback(telling.cancel)
            self._stack = stack.pop_all()
        if self.is_serving:
            log_event(_log, logging.INFO, "Plugin serves", driver=self._driver.name, socket=self._registrar.path)
        return self

    def _remove_dead_sockets(self) -> None:
        """Remove what killed instances of the driver left, so that the kubelet tries them no more."""
        name = self._driver.name
        places = {self._folder: "dra*.sock", self._paths.plugins_registry: f"{name}-*reg.sock"}
        found = (path for folder, pattern in places.items() for path in folder.glob(pattern))
        for path in remove_dead_sockets(found):
            log_event(_log, logging.INFO, "A dead socket is removed", driver=name, socket=path)

    async def _keep_sockets(self) -> None:
        """Look again and again whether somebody has removed a socket: nothing else would tell the kubelet of us."""
        while True:
            await asyncio.sleep(_SOCKETS_S)
            await self.restore_sockets()

    async def restore_sockets(self) -> None:
        """Serve again on sockets that somebody has removed or replaced, the service first."""
        for server in (self._service, self._registrar):
            if not server.is_lost:
                continue
            try:
                await server.serve_again()
            except ConfigError as error:
                self._note_lost(str(error))
                return
            self._lost = ""
            log_event(
                _log, logging.WARNING, "A socket was removed and is served again",
                driver=self._driver.name, socket=server.path,
            )  # fmt: skip

    def _note_lost(self, reason: str) -> None:
        if reason != self._lost:
            log_event(_log, logging.WARNING, "A socket can't be served again", driver=self._driver.name, reason=reason)
        self._lost = reason

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

    def _known(self) -> list[ClaimKey]:
        return [entry.claim for entry in self.prepared()]

    def report_health(self, *devices: DeviceHealth) -> None:
        """Tell the kubelet how some devices fare; others keep what was told of them. In the event loop only."""
        self._health.report(*devices)
