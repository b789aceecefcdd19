"""Code that a process of the agent runs before its own, for what no test could bring about on a machine it shares.

Python imports a module `sitecustomize` at its start, if one can be found. Source: `site`, Python standard library.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["LATER", "OLDER", "MovedClock", "change_startup"]

_CHECKPOINT_V1: Final = Path(__file__).resolve().parents[1] / "unit" / "node" / "checkpoint_v1.py"

_CLOCK: Final = '''
"""Moves what this process takes for the time of day by the seconds that a file holds; monotonic clocks go on."""

import datetime
import sys
import time
import types

import grpc.aio

_real, _plain = time.time, datetime.datetime
# gRPC's core, in C, reads the clock of the machine, and what its Python part computes from is to be the same one.
_unmoved = types.SimpleNamespace(**vars(time))
for name, module in list(sys.modules.items()):
    if name.startswith("grpc") and getattr(module, "time", None) is time:
        module.time = _unmoved


def moved():
    with open({file!r}) as file:
        return _real() + float(file.read())


class Moved(_plain):
    @classmethod
    def now(cls, tz=None):
        return _plain.fromtimestamp(moved(), tz)


time.time = moved
datetime.datetime = Moved
'''

OLDER: Final = '''
"""Makes this process read and write checkpoints as version 1 did: without grants."""

import checkpoint_v1
from claimsmith.node import checkpoint, ledger_owner

ledger_owner.VERSION = checkpoint_v1.VERSION
_encode, _parse = checkpoint.encode_content, checkpoint.parse_content


def encode(content):
    assert not content.grants, "version 1 has none"
    return checkpoint_v1.encode(checkpoint_v1.parse(_encode(content), None))


def parse(data, path):
    claims = checkpoint_v1.parse(data, path)
    return None if claims is None else _parse(checkpoint_v1.encode(claims), path)


checkpoint.encode_content, checkpoint.parse_content = encode, parse
'''
"""A process of the version before: `tests/unit/node/checkpoint_v1.py` reads and writes its checkpoints."""

LATER: Final = '''
"""Makes this process write checkpoints as a later version may: with more in them, and readable for the present one."""

from claimsmith.node import checkpoint

_encode = checkpoint.encode_content


def encode(content):
    data = _encode(content)
    written = data.replace(b'{"version":2,', b'{"version":3,"later":{"more":1},', 1)
    assert written != data
    return written


checkpoint.encode_content = encode
'''
"""A process of a version to come."""


def change_startup(folder: Path, source: str) -> Mapping[str, str]:
    """Write code into a folder of its own; return the variables of a process that runs it first."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(source)
    (folder / "checkpoint_v1.py").write_text(_CHECKPOINT_V1.read_text())
    return {"PYTHONPATH": str(folder)}


class MovedClock:
    """The time of day as one process sees it.

    All that Python code asks for it is moved: `time.time` and `datetime.now`. The clocks of the machine stay, so that
    other tests and the kubelet do not notice; deadlines of gRPC, which end up in C, stay with them.

    Args:
        folder: Where to write, a folder that is not there yet.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "seconds"
        self.env = change_startup(folder, _CLOCK.format(file=str(self._file)))
        """Variables of the process."""
        self.jump(0.0)

    def jump(self, to_s: float) -> None:
        """Set how far ahead of the real one the clock is, in seconds; negative: behind."""
        hidden = self._file.with_name("seconds.new")
        hidden.write_text(str(to_s))
        hidden.replace(self._file)
