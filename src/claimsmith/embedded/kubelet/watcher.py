"""Watches the folder in which plugins put their registration sockets.

The folder is read from time to time: a list of a few names costs less than a notification service for each of many
nodes. A socket that was replaced under its name counts as gone and come.

Source: pkg/kubelet/pluginmanager of kubernetes v1.37.2.

Deviates: plugin-time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import grpc
import grpc.aio

from claimsmith.errors import PluginRefusedError
from claimsmith.kubelet import pluginregistration_v1_pb2 as messages
from claimsmith.kubelet.services import GET_INFO, NOTIFY, Method
from claimsmith.telemetry import get_logger, log_event

__all__ = ["PluginHandler", "PluginInfo", "PluginWatcher"]

_log = get_logger("embedded.kubelet")
_CALL_TIMEOUT_S: Final = 60.0
"""Longer than a real kubelet's 1 s and 5 s: plugins of a hundred nodes may share one busy process with all else."""
_PASSES_MAX: Final = 16
"""Longest pause between two tries to register one plugin, in passes over the folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """What a plugin says of itself."""

    type: str
    name: str
    endpoint: str
    services: tuple[str, ...]


class PluginHandler(Protocol):
    """Takes the plugins of one type."""

    async def register(self, info: PluginInfo) -> None:
        """Take a plugin.

        Raises:
            PluginRefusedError: It can't be used; the plugin is told why.
        """
        ...

    async def deregister(self, info: PluginInfo) -> None:
        """Drop a plugin."""
        ...


@dataclass(slots=True)
class _Seen:
    """A socket in the folder: which file it is, and what came of it.

    Args:
        trying: The registration that is under way.
    """

    inode: int
    made_ns: int
    info: PluginInfo | None = None
    failures: int = 0
    pause: int = 0
    trying: asyncio.Task[None] | None = None


class PluginWatcher:
    """Registers the plugins whose sockets appear in a folder and drops those whose sockets vanish.

    Args:
        folder: The folder.
        handlers: Who takes plugins, by their type.
    """

    def __init__(self, folder: Path, handlers: Mapping[str, PluginHandler]) -> None:
        self._folder, self._handlers = folder, handlers
        self._seen: dict[str, _Seen] = {}
        self._syncing = asyncio.Lock()

    async def sync(self, *, patience_s: float | None = None) -> None:
        """Compare the folder with what is registered, once; a plugin that fails is tried again in later passes.

        Args:
            patience_s: How long to wait for plugins that answer late, whose registration goes on meanwhile; None: until
                each has registered or failed.
        """
        async with self._syncing:
            found = _list_sockets(self._folder)
            for name in [name for name, seen in self._seen.items() if found.get(name) != (seen.inode, seen.made_ns)]:
                await self._drop(self._seen.pop(name))
            for name, (inode, made_ns) in found.items():
                self._seen.setdefault(name, _Seen(inode, made_ns))
            begun = self._begin()
            waited = begun if patience_s is not None else [seen.trying for seen in self._seen.values() if seen.trying]
            if waited:
                await asyncio.wait(waited, timeout=patience_s)
            else:
                await asyncio.sleep(0)  # What is under way must come on, however often this is called.
            self._reap()

    async def close(self) -> None:
        """Give up the registrations that are under way; what is registered stays."""
        await asyncio.gather(*(_give_up(seen) for seen in self._seen.values()))

    def _begin(self) -> list[asyncio.Task[None]]:
        """Begin to register what waits for that; one that answers late is not asked again meanwhile."""
        begun = []
        for name, seen in self._seen.items():
            if seen.info is not None or seen.trying is not None:
                continue
            if seen.pause > 0:
                seen.pause -= 1
                continue
            seen.trying = asyncio.create_task(self._try(name, seen), name=f"register {name}")
            begun.append(seen.trying)
        return begun

    def _reap(self) -> None:
        """Take note of what is over; a fault of ours is raised."""
        for seen in self._seen.values():
            if seen.trying is not None and seen.trying.done():
                done, seen.trying = seen.trying, None
                done.result()

    async def _drop(self, seen: _Seen) -> None:
        await _give_up(seen)
        if seen.info is not None:
            await self._handlers[seen.info.type].deregister(seen.info)

    async def _try(self, name: str, seen: _Seen) -> None:
        try:
            seen.info = await self._register(self._folder / name)
        except PluginRefusedError as error:
            seen.pause = min(2**seen.failures, _PASSES_MAX)
            seen.failures += 1
            log_event(_log, logging.WARNING, "Plugin not registered", socket=name, reason=error)

    async def _register(self, socket: Path) -> PluginInfo:
        async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
            answer = await _call(channel, GET_INFO, messages.InfoRequest())
            info = PluginInfo(
                type=answer.type,
                name=answer.name,
                endpoint=answer.endpoint or str(socket),
                services=tuple(answer.supported_versions),
            )
            try:
                await self._hand_over(info)
            except PluginRefusedError as error:
                status = messages.RegistrationStatus(plugin_registered=False, error=f"RegisterPlugin error -- {error}")
                await _call(channel, NOTIFY, status)
                raise
            try:
                await _call(channel, NOTIFY, messages.RegistrationStatus(plugin_registered=True))
            except (PluginRefusedError, asyncio.CancelledError):
                await self._handlers[info.type].deregister(info)
                raise
            return info

    async def _hand_over(self, info: PluginInfo) -> None:
        handler = self._handlers.get(info.type)
        if handler is None:
            raise PluginRefusedError(
                f"plugin {info.name}: found type {info.type!r}, allowed {', '.join(self._handlers)}; correct the plugin"
            )
        if not info.name:
            raise PluginRefusedError("plugin: found no name, allowed the name of a driver; correct the plugin")
        await handler.register(info)


async def _give_up(seen: _Seen) -> None:
    """End a registration that is under way, and return when it has ended."""
    trying, seen.trying = seen.trying, None
    if trying is not None:
        trying.cancel()
        await asyncio.gather(trying, return_exceptions=True)


async def _call(channel: grpc.aio.Channel, method: Method[Any, Any], message: Any) -> Any:
    rpc = channel.unary_unary(
        method.path,
        request_serializer=method.request.SerializeToString,
        response_deserializer=method.response.FromString,
    )
    try:
        return await rpc(message, timeout=_CALL_TIMEOUT_S)
    except grpc.aio.AioRpcError as error:
        raise PluginRefusedError(f"{method.name} failed: {error.code().name}: {error.details()}") from error


def _list_sockets(folder: Path) -> dict[str, tuple[int, int]]:
    """Return inode and time of the sockets in a folder by name, without hidden ones; a missing folder is empty."""
    found = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                try:
                    facts = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if stat.S_ISSOCK(facts.st_mode):
                    found[entry.name] = (facts.st_ino, facts.st_mtime_ns)
    except OSError:
        return {}
    return found
