"""`python -m tests.cluster`: get all that the tests of a real cluster need; `stop FOLDER`: end one that was kept."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.binaries import build_binaries
from tests.cluster.daemons import ClusterError
from tests.cluster.kept import stop_kept
from tests.cluster.packages import install_packages
from tests.cluster.place import find_obstacle, is_left_out
from tests.toolchain import ToolchainError


def main(words: Sequence[str]) -> int:
    """Do what the words say; return the exit status."""
    try:
        match words:
            case []:
                return _prepare()
            case ["stop", folder]:
                stop_kept(Path(folder))
                return 0
            case _:
                print("usage: python -m tests.cluster [stop FOLDER]", file=sys.stderr)
                return 2
    except (ClusterError, ToolchainError) as error:
        print(f"claimsmith: {error}", file=sys.stderr)
        return 1


def _prepare() -> int:
    if is_left_out():
        print(f"claimsmith: no real cluster here: {find_obstacle()}", file=sys.stderr)
        return 0
    if reason := find_obstacle():
        raise ClusterError(f"a real cluster must run under CI=true: {reason}")
    install_packages()
    build_binaries()
    return 0


sys.exit(main(sys.argv[1:]))
