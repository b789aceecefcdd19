"""The Debian packages that a real cluster needs, installed where they are missing and apt is there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.cluster.daemons import ClusterError

__all__ = ["install_packages"]

_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "runc": ("/usr/sbin/runc", "/usr/bin/runc"),
    "busybox-static": ("/bin/busybox",),
    "containernetworking-plugins": ("/usr/lib/cni/loopback",),
    "openssl": ("/usr/bin/openssl",),
    "mount": ("/usr/bin/mount",),
    "util-linux": ("/usr/bin/unshare",),
}
"""What has to be there after a package is installed; one of several places."""


def install_packages() -> None:
    """Install what is missing.

    Raises:
        ClusterError: Something is missing and can't be installed.
    """
    missing = _find_missing()
    if not missing:
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise ClusterError(f"found no {', '.join(missing)}; install them with the package manager of this machine")
    print(f"claimsmith: installing {' '.join(missing)} by apt", file=sys.stderr, flush=True)
    _apt("update")
    _apt("install", "-y", "--no-install-recommends", *missing)
    if left := _find_missing():
        raise ClusterError(f"apt has installed {', '.join(left)}, but not where they are looked for")


def _find_missing() -> list[str]:
    return [name for name, places in _NEEDED.items() if not any(Path(place).exists() for place in places)]


def _apt(*words: str) -> None:
    run = subprocess.run(
        ["apt-get", "-qq", *words],
        check=False,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        capture_output=True,
        text=True,
    )
    if run.returncode:
        raise ClusterError(f"apt-get {words[0]}: {(run.stderr or run.stdout).strip()[-2000:]}")
