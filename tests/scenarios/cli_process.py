"""Runs the command line as people do: a process of its own, with its own folder for temporary files."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from claimsmith.kube.client import KubeClient

__all__ = ["Ran", "UpProcess", "complaint", "environment", "run_claimsmith", "start_claimsmith", "up"]

_TIMEOUT_S = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str


def environment(temporary: Path, **changes: str) -> dict[str, str]:
    """Return the environment of a command: little of this one, and its own temporary folder."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "LC_ALL")}
    return {**kept, "TMPDIR": str(temporary), **changes}


async def start_claimsmith(*arguments: str, temporary: Path, **changes: str) -> Process:
    """Start a command."""
    return await asyncio.create_subprocess_exec(
        *_command(arguments), stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment(temporary, **changes), limit=2**24
    )


def run_claimsmith(*arguments: str, temporary: Path, text: bytes = b"", **changes: str) -> Ran:
    """Run a command to its end, with a text on its standard input."""
    ended = subprocess.run(
        _command(arguments),
        input=text,
        capture_output=True,
        env=environment(temporary, **changes),
        timeout=_TIMEOUT_S,
        check=False,
    )
    return Ran(code=ended.returncode, out=ended.stdout.decode(), err=ended.stderr.decode())


def _command(arguments: tuple[str, ...]) -> tuple[str, ...]:
    return (sys.executable, "-m", "claimsmith.cli.main", *arguments)


def complaint(ran: Ran, *, code: int = 2) -> str:
    """Return the one line with which a command has refused bad input; anything else fails the test.

    The line says what it is about and what to do, there is no traceback, and nothing was printed as a result.
    """
    assert ran.code == code, f"exit {ran.code}: {ran.err[-2000:]}"
    assert ran.out == ""
    assert ran.err.count("\n") == 1, ran.err[-2000:]
    line = ran.err.rstrip("\n")
    assert line.startswith("claimsmith: ")
    assert "; " in line
    assert len(line) < 800, f"{len(line)} characters"
    return line.removeprefix("claimsmith: ")


class UpProcess:
    """A running `claimsmith up`."""

    def __init__(self, process: Process, lines: list[str]) -> None:
        self.process, self.lines = process, lines
        self.client = KubeClient.for_url(self.url)

    @property
    def url(self) -> str:
        """Address of its API server."""
        return next(line.split()[2].rstrip(",") for line in self.lines if line.startswith("API server "))

    async def end(self, number: signal.Signals = signal.SIGTERM) -> Ran:
        """End it by a signal; return what it printed after `ready`."""
        self.process.send_signal(number)
        async with asyncio.timeout(_TIMEOUT_S):
            out, err = await self.process.communicate()
        assert self.process.returncode is not None
        return Ran(code=self.process.returncode, out=out.decode(), err=err.decode())

    async def kill(self) -> None:
        """End it as a power cut does."""
        if self.process.returncode is None:
            self.process.kill()
            await self.process.communicate()


@asynccontextmanager
async def up(*arguments: str, temporary: Path, text: bytes = b"", **changes: str) -> AsyncIterator[UpProcess]:
    """Run `claimsmith up` until the block ends, which begins when it is ready."""
    process = await start_claimsmith("up", *arguments, temporary=temporary, **changes)
    running: UpProcess | None = None
    try:
        assert process.stdin is not None
        process.stdin.write(text)
        process.stdin.close()
        running = UpProcess(process, await _read_until_ready(process))
        yield running
    finally:
        if running is not None:
            await running.client.close()
            await running.kill()
        elif process.returncode is None:
            process.kill()
            await process.wait()


async def _read_until_ready(process: Process) -> list[str]:
    """Return the lines up to `ready`."""
    lines: list[str] = []
    assert process.stdout is not None
    assert process.stderr is not None
    async with asyncio.timeout(_TIMEOUT_S):
        while not lines or lines[-1] != "ready":
            line = await process.stdout.readline()
            if not line:
                raise AssertionError(f"up has ended: {(await process.stderr.read()).decode()}")
            lines.append(line.decode().rstrip("\n"))
    return lines
