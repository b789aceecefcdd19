"""`claimsmith agent` on the real node, as the process that operators run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from claimsmith.api.kinds import RESOURCE_SLICE
from claimsmith.daemons.controller_retries import RetryWatcher
from claimsmith.kube.client import KubeClient
from claimsmith.kubelet.paths import NodePaths
from tests.cluster.cleaning import delete_pods
from tests.cluster.cluster import RealCluster
from tests.cluster.recipe import NODE
from tests.cluster.watching import wait_for

__all__ = [
    "WITH_THE_TESTS",
    "AgentProcess",
    "agent_command",
    "replace_text",
    "retrying",
    "serving",
    "wait_published",
]

_WAIT_S: Final = 180.0
_STOP_S: Final = 60.0
_LINE_MAX_BYTES: Final = 1 << 20
WITH_THE_TESTS: Final = ("setpriv", "--pdeathsig", "KILL")
"""Begins a command that ends with the tests even when they are killed."""


class AgentProcess:
    """One process of the agent, and what it has logged.

    Args:
        command: Its command line.
        log: Where its lines go too.
        env: Environment variables that it gets beyond those of the tests.
    """

    def __init__(self, command: Sequence[str], log: Path, *, env: Mapping[str, str] | None = None) -> None:
        self.lines: list[dict[str, Any]] = []
        """What it has logged, as decoded JSON; a line that is none has only `message`."""
        self.settings = Path()
        """The file with its settings; one that is changed is read again."""
        self._command, self._log, self._env = command, log, {**os.environ, **(env or {})}
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._news = asyncio.Condition()

    def with_words(self, *words: str) -> AgentProcess:
        """Return another process of this command with further words, not started yet."""
        return AgentProcess([*self._command, *words], self._log, env=self._env)

    @property
    def process(self) -> asyncio.subprocess.Process:
        """The process."""
        assert self._process is not None, "start() comes first"
        return self._process

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    async def start(self) -> None:
        """Start it; what one before it has logged is forgotten."""
        self.lines = []
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env=self._env,
            limit=_LINE_MAX_BYTES,
        )
        self._reader = asyncio.create_task(self._read())

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    async def kill(self) -> None:
        """End it by SIGKILL, as the kernel does when memory is short."""
        self.send(signal.SIGKILL)
        await self._wait_end()

    async def stop(self) -> int:
        """End it by SIGTERM, as the kubelet does; return its exit status.

        Raises:
            TimeoutError: It goes on; it is killed.
        """
        if self.process.returncode is None:
            self.send(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_S):
                return await self._wait_end()
        except TimeoutError:
            await self.kill()
            raise

    async def wait_ended(self) -> int:
        """Return its exit status once it has ended by itself.

        Raises:
            TimeoutError: It goes on.
        """
        async with asyncio.timeout(_WAIT_S):
            return await self._wait_end()

    async def wait_logged(
        self, message: str, *, count: int = 1, timeout_s: float = _WAIT_S, **fields: str
    ) -> dict[str, Any]:
        """Return the last of `count` lines with a message and these fields, once they are logged.

        Raises:
            AssertionError: They are not; shows what is.
        """

        def is_wanted(line: dict[str, Any]) -> bool:
            return bool(line["message"] == message and fields.items() <= line.get("fields", {}).items())

        return await self._wait_lines(is_wanted, f"{message!r} {fields or ''}", count, timeout_s)

    async def wait_registered(self, *drivers: str) -> None:
        """Return once the kubelet has registered drivers; what it is asked before that, it refuses."""
        for driver in drivers:
            await self.wait_logged("The kubelet has registered the plugin", plugin=driver)

    async def _wait_lines(
        self, is_wanted: Callable[[dict[str, Any]], bool], what: str, count: int, timeout_s: float
    ) -> dict[str, Any]:
        def found() -> list[dict[str, Any]]:
            return [line for line in self.lines if is_wanted(line)]

        try:
            async with asyncio.timeout(timeout_s), self._news:
                await self._news.wait_for(lambda: len(found()) >= count or self.process.returncode is not None)
        except TimeoutError:
            pass
        if len(found()) < count:
            seen = "\n".join(map(str, self.lines[-40:]))
            raise AssertionError(f"agent: no {what} in {timeout_s:g} s; status {self.process.returncode}:\n{seen}")
        return found()[count - 1]

    async def _read(self) -> None:
        assert self.process.stderr is not None
        with self._log.open("ab") as copy:
            async for raw in self.process.stderr:
                copy.write(raw)
                copy.flush()
                async with self._news:
                    self.lines.append(_parse_line(raw))
                    self._news.notify_all()
        await self.process.wait()
        async with self._news:
            self._news.notify_all()

    async def _wait_end(self) -> int:
        status = await self.process.wait()
        if self._reader is not None:
            await self._reader
        return status


def agent_command(cluster: RealCluster, *words: str, kubeconfig: Path | None = None) -> list[str]:
    """Return the command line of an agent on the cluster's node.

    Args:
        words: Further options: `--config FILE`, or `--plugin NAME --settings FILE`.
        kubeconfig: As whom; None: as admin.
    """
    paths: NodePaths = cluster.paths
    return [
        *WITH_THE_TESTS, sys.executable, "-m", "claimsmith", "agent", "--node-name", NODE, "--log-format", "json",
        "-v",
        "--kubeconfig", str(kubeconfig or cluster.kubeconfig), "--kubelet-root", str(paths.state),
        "--device-plugin-dir", str(paths.device_plugins), "--cdi-dir", str(paths.cdi), *words,
    ]  # fmt: skip


def replace_text(file: Path, text: str) -> None:
    """Put another text into a file in one step, so that nobody reads a part of it."""
    hidden = file.with_name(f".{file.name}")
    hidden.write_text(text)
    hidden.replace(file)


@contextlib.asynccontextmanager
async def retrying(client: KubeClient) -> AsyncIterator[None]:
    """Do what the controller does after failed preparations, whose pods would wait for 60 to 90 s.

    No fault of a driver is needed for that: the authorizer of nodes refuses the kubelet a claim that it does not know
    yet.
    """
    work = asyncio.create_task(RetryWatcher(client).run(), name="retries")
    try:
        yield
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


@contextlib.asynccontextmanager
async def serving(
    cluster: RealCluster,
    client: KubeClient,
    settings: str = "",
    *words: str,
    plugin: str = "simulated",
    drivers: Sequence[str] = ("sim.claimsmith.dev",),
    kubeconfig: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> AsyncIterator[AgentProcess]:
    """Run an agent with one plugin; the kubelet knows it and the slices are there when the block begins.

    Beside it runs what the controller does after failed preparations. Pods are deleted when the block ends, before the
    agent is: nobody else could unprepare their claims.

    Args:
        settings: The document of its settings; none without it.
        words: Further options of the agent.
        plugin: Name of the plugin.
        drivers: Names of the drivers that it makes of the settings.
        kubeconfig: As whom; None: as admin.
        env: Environment variables that it gets beyond those of the tests.
    """
    with tempfile.TemporaryDirectory(dir=cluster.folder) as folder:
        file = Path(folder) / "devices.yaml"
        file.write_text(settings)
        options = ["--plugin", plugin, *(["--settings", str(file)] if settings else []), *words]
        command = agent_command(cluster, *options, kubeconfig=kubeconfig)
        agent = AgentProcess(command, cluster.folder / "agent.log", env=env)
        agent.settings = file
        await agent.start()
        try:
            async with retrying(client):
                await agent.wait_registered(*drivers)
                await wait_published(client, *drivers)
                yield agent
        finally:
            try:
                if agent.process.returncode is None:
                    await delete_pods(client)
            finally:
                await agent.stop()


async def wait_published(client: KubeClient, *drivers: str, timeout_s: float = _WAIT_S) -> None:
    """Return once the API server shows slices of drivers."""

    def all_there(items: Sequence[dict[str, Any]]) -> bool:
        return set(drivers) <= {item["spec"]["driver"] for item in items}

    await wait_for(client, RESOURCE_SLICE, all_there, timeout_s=timeout_s)


def _parse_line(raw: bytes) -> dict[str, Any]:
    text = raw.decode(errors="replace").rstrip()
    try:
        line = json.loads(text)
    except ValueError:
        return {"message": text}
    return line if isinstance(line, dict) and "message" in line else {"message": text}
