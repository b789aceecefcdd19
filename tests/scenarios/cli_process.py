"""Runs the command line as people do: a process of its own, with its own folder for temporary files."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from claimsmith.cli.main import main
from claimsmith.kube.client import KubeClient

__all__ = [
    "Ran",
    "UpProcess",
    "call_claimsmith",
    "complaint",
    "environment",
    "run_claimsmith",
    "start_claimsmith",
    "up",
]

_TIMEOUT_S = 200


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


def start_claimsmith(*arguments: str, temporary: Path, **changes: str) -> subprocess.Popen[bytes]:
    """Start a command; its output is read through pipes."""
    return subprocess.Popen(
        _command(arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(temporary, **changes),
    )


def run_claimsmith(*arguments: str, temporary: Path, text: bytes = b"", **changes: str) -> Ran:
    """Run a command to its end, with a text on its standard input."""
    return _run(_command(arguments), text, environment(temporary, **changes))


def call_claimsmith(*arguments: str, text: bytes = b"") -> Ran:
    """Run a command to its end in this process, which is faster; it sees this process's environment."""
    out, err, argv, stdin = io.StringIO(), io.StringIO(), sys.argv, sys.stdin
    code: object = None
    try:
        sys.argv, sys.stdin = ["claimsmith", *arguments], io.TextIOWrapper(io.BytesIO(text))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as ended:
        code = ended.code
    finally:
        sys.argv, sys.stdin = argv, stdin
    assert isinstance(code, int)
    return Ran(code=code, out=out.getvalue(), err=err.getvalue())


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
    assert len(line) < 1100, f"{len(line)} characters"
    return line.removeprefix("claimsmith: ")


class UpProcess:
    """A running `claimsmith up`.

    Args:
        process: It, from its start on; its stderr goes to a file.
        home: A folder for the file, for its kubeconfig and for kubectl.
        temporary: Where it makes temporary folders.
    """

    def __init__(self, process: subprocess.Popen[bytes], home: Path, temporary: Path) -> None:
        self.process, self.temporary, self._home = process, temporary, home
        self.kubeconfig = home / "kubeconfig"
        self.lines: list[str] = []

    def wait_ready(self) -> None:
        """Return when it has printed `ready`."""
        assert self.process.stdout is not None
        while not self.lines or self.lines[-1] != "ready":
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError(f"up has ended: {self.err[-3000:]}")
            self.lines.append(line.decode().rstrip("\n"))

    @property
    def err(self) -> str:
        """What it has printed to stderr so far."""
        return (self._home / "stderr").read_text(encoding="utf-8")

    @property
    def url(self) -> str:
        """Address of its API server."""
        return next(line.split()[2].rstrip(",") for line in self.lines if line.startswith("API server "))

    def open_client(self) -> KubeClient:
        """Return a client, which the caller closes."""
        return KubeClient.for_url(self.url)

    def kubectl(self, *arguments: str, text: str = "", fails: bool = False) -> str:
        """Run stock kubectl with the kubeconfig that it has written; return what kubectl printed or complained."""
        ran = _run(self._kubectl(arguments), text.encode(), self._kubectl_environment())
        assert (ran.code != 0) == fails, f"kubectl {' '.join(arguments)}: {ran.out}{ran.err}"
        return ran.err if fails else ran.out

    def start_kubectl(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start stock kubectl; its output is read through a pipe."""
        return subprocess.Popen(
            self._kubectl(arguments), env=self._kubectl_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def _kubectl(self, arguments: tuple[str, ...]) -> tuple[str, ...]:
        program = shutil.which("kubectl")
        assert program is not None, "kubectl is not on PATH"
        return (program, *arguments)

    def _kubectl_environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self._home),
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECACHEDIR": str(self._home / "cache"),
        }

    def end(self, number: signal.Signals = signal.SIGTERM) -> Ran:
        """End it by a signal; return what it printed after `ready`, and all of its complaints."""
        self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=_TIMEOUT_S)
        return Ran(code=self.process.returncode, out=out.decode(), err=self.err)

    def kill(self) -> None:
        """End it as a power cut does, if it has not ended."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


@contextlib.contextmanager
def up(*arguments: str, home: Path, text: bytes = b"", **changes: str) -> Iterator[UpProcess]:
    """Run `claimsmith up` until the block ends, which begins when it is ready.

    Temporary files go to a folder with a short name, since sockets are in it.

    Args:
        home: A folder for `kubeconfig` and `stderr`.
        text: Its standard input.
        changes: Further environment variables.
    """
    command = _command(("up", *arguments, "--write-kubeconfig", str(home / "kubeconfig")))
    with tempfile.TemporaryDirectory(prefix="cs-") as temporary, (home / "stderr").open("wb") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment(Path(temporary), **changes),
        )
        running = UpProcess(process, home, Path(temporary))
        try:
            assert process.stdin is not None
            process.stdin.write(text)
            process.stdin.close()
            process.stdin = None
            running.wait_ready()
            yield running
        finally:
            running.kill()


def _command(arguments: tuple[str, ...]) -> tuple[str, ...]:
    return (sys.executable, "-m", "claimsmith.cli.main", *arguments)


def _run(command: tuple[str, ...], text: bytes, env: dict[str, str]) -> Ran:
    ended = subprocess.run(command, input=text, capture_output=True, env=env, timeout=_TIMEOUT_S, check=False)
    return Ran(code=ended.returncode, out=ended.stdout.decode(), err=ended.stderr.decode())
