"""What the pretended containers of all nodes have written, for `kubectl logs`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from claimsmith.embedded.api.logs import LogLine

__all__ = ["ContainerLogs"]


class _Output:
    """The lines of one container; `more` is set, and replaced, when there are more or it has ended."""

    def __init__(self) -> None:
        self.lines: list[LogLine] = []
        self.ended = False
        self.more = asyncio.Event()

    def wake(self) -> None:
        more, self.more = self.more, asyncio.Event()
        more.set()


class ContainerLogs:
    """Lines by pod and container; implements `LogSource` of the API server."""

    def __init__(self) -> None:
        self._outputs: dict[tuple[str, str], _Output] = {}

    def write(self, pod_uid: str, container: str, lines: Sequence[LogLine]) -> None:
        """Add lines to what a container has written; a container that had ended runs again."""
        output = self._outputs.setdefault((pod_uid, container), _Output())
        output.lines.extend(lines)
        output.ended = False
        output.wake()

    def end(self, pod_uid: str, container: str) -> None:
        """Say that a container writes no more, so that those who follow it end too."""
        if (output := self._outputs.get((pod_uid, container))) is not None:
            output.ended = True
            output.wake()

    def forget(self, pod_uid: str) -> None:
        """Drop everything of a pod that is gone."""
        for key in [key for key in self._outputs if key[0] == pod_uid]:
            self.end(*key)
            del self._outputs[key]

    def find_lines(self, pod_uid: str, container: str) -> Sequence[LogLine] | None:
        """Return what a container has written so far; None if it has not started."""
        output = self._outputs.get((pod_uid, container))
        return None if output is None else tuple(output.lines)

    async def follow_lines(self, pod_uid: str, container: str, *, after: int) -> AsyncIterator[LogLine]:
        """Yield what a container writes, without the first `after` lines, until it ends."""
        output = self._outputs.get((pod_uid, container))
        while output is not None:
            more = output.more
            while after < len(output.lines):
                after += 1
                yield output.lines[after - 1]
            if output.ended:
                return
            await more.wait()
