"""What the kubelet sees of a folder that it watches: sockets, and hidden folders that it leaves alone."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.plugin_bench import DRIVER, PluginBench

IN_CREATE, IN_MOVED_TO = 0x100, 0x80
"""What the kubelet hears of. Source: inotify(7)."""
HEADER = struct.Struct("iIII")


class Watch:
    """Names that appear in a folder, as inotify tells them."""

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert libc.inotify_add_watch(self._descriptor, os.fsencode(folder), IN_CREATE | IN_MOVED_TO) >= 0

    def names(self) -> list[str]:
        """Return the names since the last call."""
        found = []
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._descriptor, 65536):
                while data:
                    size = HEADER.unpack_from(data)[3]
                    found.append(data[HEADER.size : HEADER.size + size].rstrip(b"\0").decode())
                    data = data[HEADER.size + size :]
        return found

    def close(self) -> None:
        os.close(self._descriptor)


@pytest.fixture
def bench() -> Iterator[PluginBench]:
    with tempfile.TemporaryDirectory(prefix="cs-") as folder:
        yield PluginBench(Path(folder))


@pytest.fixture
def watch(bench: PluginBench) -> Iterator[Watch]:
    watch = Watch(bench.paths.plugins_registry)
    yield watch
    watch.close()


async def test_each_name_that_appears_in_the_watched_folder_is_still_there_afterwards(
    bench: PluginBench, watch: Watch
) -> None:
    async with bench.plugin():
        names = watch.names()
        there = [name for name in names if (bench.paths.plugins_registry / name).exists()]
        plain = [name for name in names if not name.startswith(".")]

        assert there == names
        assert plain == [f"{DRIVER}-reg.sock"]


async def test_the_watched_folder_is_empty_when_the_plugin_has_ended(bench: PluginBench) -> None:
    async with bench.plugin():
        pass

    assert list(bench.paths.plugins_registry.iterdir()) == []


async def test_old_hidden_folders_of_killed_plugins_go_and_young_ones_stay(bench: PluginBench) -> None:
    old, young, foreign = (bench.paths.plugins_registry / name for name in (".0a1b2c", ".abcdef", ".elsewhere"))
    for folder in (old, young, foreign):
        folder.mkdir()
    for folder in (old, foreign):
        os.utime(folder, (0, 0))
    async with bench.plugin():
        there = {name.name for name in bench.paths.plugins_registry.iterdir()}

    assert old.name not in there
    assert {young.name, foreign.name} <= there
