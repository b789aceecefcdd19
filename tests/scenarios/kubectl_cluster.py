"""Runs the stock kubectl against an embedded API server in this process."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from claimsmith.embedded.api.logs import LogLine
from claimsmith.embedded.api.served import stored_kinds
from claimsmith.embedded.api.server import EmbeddedApiServer, kubeconfig_for
from claimsmith.embedded.store import Store

__all__ = ["Kubectl", "Ran", "open_cluster"]

_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str


class Kubectl:
    """Stock kubectl with its own home, so that nothing of this machine's user is read or written."""

    def __init__(self, server: EmbeddedApiServer, home: Path) -> None:
        self.server, self.home = server, home
        program = shutil.which("kubectl")
        assert program is not None, "kubectl is not on PATH"
        self._program = program
        config = home / "kubeconfig.yaml"
        config.write_text(yaml.safe_dump(kubeconfig_for(server.url)))
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "KUBECONFIG": str(config),
            "KUBECACHEDIR": str(home / "cache"),
        }

    async def start(self, *arguments: str, **environment: str) -> asyncio.subprocess.Process:
        """Start a command; end it with `communicate(b"")`: without an argument its input stays open in Python 3.11."""
        return await asyncio.create_subprocess_exec(
            self._program,
            *arguments,
            env=self._environment | environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def run(self, *arguments: str, text: str = "", **environment: str) -> Ran:
        """Run a command to its end, with a text on its standard input."""
        process = await self.start(*arguments, **environment)
        async with asyncio.timeout(_TIMEOUT_S):
            out, err = await process.communicate(text.encode())
        assert process.returncode is not None
        return Ran(code=process.returncode, out=out.decode(), err=err.decode())

    async def __call__(self, *arguments: str, text: str = "", **environment: str) -> str:
        """Run a command that must succeed; return what it printed."""
        ran = await self.run(*arguments, text=text, **environment)
        assert ran.code == 0, f"kubectl {' '.join(arguments)}: {ran.err}"
        return ran.out

    async def fails(self, *arguments: str, text: str = "") -> str:
        """Run a command that must fail; return its complaint."""
        ran = await self.run(*arguments, text=text)
        assert ran.code != 0, f"kubectl {' '.join(arguments)}: {ran.out}"
        return ran.err


class PaperLogs:
    """Every container of every pod has written the same two lines and has ended."""

    def find_lines(self, pod_uid: str, container: str) -> Sequence[LogLine]:
        """Return the two lines."""
        return [LogLine(time_s=0, text=f"hello from {container}"), LogLine(time_s=1, text="bye")]

    async def follow_lines(self, pod_uid: str, container: str, *, after: int) -> AsyncIterator[LogLine]:
        """Yield nothing more."""
        for line in self.find_lines(pod_uid, container)[after:]:
            yield line


@asynccontextmanager
async def open_cluster(home: Path) -> AsyncIterator[Kubectl]:
    """Open an API server without nodes or controllers."""
    async with Store(stored_kinds()) as store, EmbeddedApiServer(store, logs=PaperLogs()) as server:
        yield Kubectl(server, home)
