"""What operators apply to give a daemon its rights: what the command prints, without what would need an image."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

from tests.cluster.cluster import RealCluster

__all__ = ["SPACE", "granted"]

SPACE: Final = "claimsmith-system"
"""The namespace that is printed."""
_NEED_IMAGES: Final = ("kind: DaemonSet", "kind: Deployment")


@contextlib.contextmanager
def granted(cluster: RealCluster, *words: str) -> Iterator[None]:
    """Apply what `claimsmith` prints with some words while the context is open."""
    command = [sys.executable, "-m", "claimsmith", *words]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    manifests = [text for text in printed.split("---\n") if not any(kind in text for kind in _NEED_IMAGES)]
    applied = "---\n".join(manifests)
    cluster.kubectl("apply", "-f", "-", stdin=applied)
    try:
        yield
    finally:
        cluster.kubectl("delete", "-f", "-", "--wait=false", stdin=applied)
        cluster.kubectl("wait", "--for=delete", f"namespace/{SPACE}", "--timeout=60s")
