"""A driver behind real unix sockets in a temporary folder, called as the kubelet calls it; needs no cluster."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from claimsmith.embedded.kubelet.cdi_registry import CdiRegistry, MergedEdits
from claimsmith.embedded.kubelet.plugins import ClaimCall, DraPlugins
from claimsmith.embedded.kubelet.watcher import PluginWatcher
from claimsmith.errors import NotFoundError
from claimsmith.kubelet.paths import NodePaths
from claimsmith.kubelet.services import DRA_PLUGIN_TYPE
from claimsmith.model.claim import DeviceResult, ResourceClaim
from claimsmith.model.names import ClaimRef
from claimsmith.model.prepared import ClaimKey, PrepareRequest
from claimsmith.node.holding import Holding, HoldPolicy
from claimsmith.node.plugin import NodePlugin, PluginOptions
from claimsmith.sdk.driver import Driver
from claimsmith.testing.builders import NODE, allocated, claim, request

__all__ = ["SocketBench"]


class SocketBench:
    """One node with one driver: its plugin, and the kubelet's side of the sockets.

    Args:
        driver: The driver.
        node: Name of the node.
    """

    def __init__(self, driver: Driver, *, node: str = NODE) -> None:
        self._driver, self._node = driver, node
        self._claims = _Claims()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            root = Path(tempfile.mkdtemp(prefix="cs-"))
            stack.callback(shutil.rmtree, root, ignore_errors=True)
            self._paths = NodePaths.compact(root)
            self._paths.make()
            self._plugins = DraPlugins()
            stack.push_async_callback(self._plugins.close)
            await stack.enter_async_context(self._plugin())
            await PluginWatcher(self._paths.plugins_registry, {DRA_PLUGIN_TYPE: self._plugins}).sync()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def _plugin(self) -> NodePlugin:
        return NodePlugin(
            self._driver,
            paths=self._paths,
            node_name=self._node,
            claims=self._claims,
            boot_id="bench",
            options=PluginOptions(holding=Holding(HoldPolicy(hold_s=0))),
        )

    @property
    def registered(self) -> bool:
        """Whether the kubelet's side took the driver."""
        return self._driver.name in self._plugins.drivers()

    async def prepare(self, asked: PrepareRequest) -> MergedEdits:
        """Prepare a claim as the kubelet does, and return what a container with all its devices gets.

        Raises:
            PodStartError: The driver failed, or its answer can't be used.
        """
        self._claims.put(asked, self._node)
        prepared = await self._plugins.get_plugin(self._driver.name).prepare([_call(asked.claim)])
        ids = [cdi_id for device in prepared[asked.claim.uid] for cdi_id in device.cdi_ids]
        return CdiRegistry(self._paths.cdi).resolve(ids)

    async def unprepare(self, key: ClaimKey) -> None:
        """Undo the preparation of a claim as the kubelet does.

        Raises:
            PodStartError: The driver failed.
        """
        await self._plugins.get_plugin(self._driver.name).unprepare([_call(key)])

    def cdi_files(self) -> tuple[str, ...]:
        """Return the names of the CDI files that are there."""
        return tuple(sorted(path.name for path in self._paths.cdi.iterdir()))


class _Claims:
    """Stands for the API server: has the claims that were asked for."""

    def __init__(self) -> None:
        self._claims: dict[ClaimRef, ResourceClaim] = {}

    def put(self, asked: PrepareRequest, node: str) -> None:
        key = asked.claim
        names = dict.fromkeys(device.request for device in asked.devices)
        wanted = claim(key.name, *(request(name) for name in names), namespace=key.namespace, uid=key.uid)
        results = (_result(asked, index) for index in range(len(asked.devices)))
        self._claims[ClaimRef(key.namespace, key.name)] = allocated(wanted, *results, node=node, reserved_for=["pod"])

    async def get_claim(self, ref: ClaimRef) -> ResourceClaim:
        if ref not in self._claims:
            raise NotFoundError(f"claim {ref}: found none, allowed one that was prepared; prepare it first", status=404)
        return self._claims[ref]


def _result(asked: PrepareRequest, index: int) -> DeviceResult:
    device = asked.devices[index]
    return DeviceResult(
        request=f"{device.request}/{device.subrequest}" if device.subrequest else device.request,
        driver=device.id.driver,
        pool=device.id.pool,
        device=device.id.device,
        admin_access=device.admin_access or None,
        share_id=device.share_id or None,
        consumed_capacity=dict(device.consumed_capacity) or None,
    )


def _call(key: ClaimKey) -> ClaimCall:
    return ClaimCall(namespace=key.namespace, name=key.name, uid=key.uid)
