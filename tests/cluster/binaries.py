"""The programs of a real cluster, built from Go modules once for each version and kept outside the checkout."""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.toolchain import CACHE, hash_files, run_go

__all__ = ["VERSION", "build_binaries", "find_binaries"]

VERSION: Final = "v1.37.2"
"""The Kubernetes release."""
_MODULES: Final = Path(__file__).parent / "modules"
_MAJOR, _MINOR = VERSION.removeprefix("v").split(".")[:2]
_STAMP: Final = "k8s.io/component-base/version"
_FLAGS: Final = ("-trimpath",)
_LINK_FLAGS: Final = "-s -w"
"""Without symbols, as releases are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recipe:
    """How the programs of one module are built; the packages, and flags beyond those of every build."""

    module: str
    packages: tuple[str, ...]
    stamps: tuple[str, ...] = ()
    tags: str = ""

    @property
    def programs(self) -> tuple[str, ...]:
        """Names of the programs."""
        return tuple(self.module if package == "." else package.rsplit("/", 1)[1] for package in self.packages)


_RECIPES: Final = (
    _Recipe(module="etcd", packages=(".",)),
    _Recipe(
        module="containerd",
        packages=tuple(
            f"github.com/containerd/containerd/v2/cmd/{name}"
            for name in ("containerd", "containerd-shim-runc-v2", "ctr")
        ),
        tags="no_btrfs,no_zfs,no_devmapper",
    ),
    _Recipe(
        module="kubernetes",
        packages=tuple(
            f"k8s.io/kubernetes/cmd/{name}"
            for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
        ),
        stamps=(f"{_STAMP}.gitVersion={VERSION}", f"{_STAMP}.gitMajor={_MAJOR}", f"{_STAMP}.gitMinor={_MINOR}"),
    ),
)


def find_binaries() -> Path | None:
    """Return the folder of the programs; None if they are not built yet."""
    folder = _folder()
    return folder if folder.exists() else None


def build_binaries() -> Path:
    """Return the folder of the programs, built if nobody has; it takes about ten minutes on two cores.

    Raises:
        ToolchainError: They can't be built.
    """
    folder = _folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_name(f"{folder.name}.lock")):
        if folder.exists():
            return folder
        _say(f"building Kubernetes {VERSION}, etcd and containerd into {folder}, once; some ten minutes on two cores")
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            made = Path(scratch) / "bin"
            made.mkdir()
            for recipe in _RECIPES:
                _build(recipe, made)
            made.rename(folder)
    return folder


def _folder() -> Path:
    sources = [path for path in sorted(_MODULES.glob("*/*")) if path.suffix in {".mod", ".sum", ".go"}]
    recipes = hashlib.sha256(repr((_FLAGS, _LINK_FLAGS, _RECIPES)).encode()).hexdigest()[:6]
    return CACHE / f"cluster-{VERSION}-{hash_files(sources)}-{recipes}"


def _build(recipe: _Recipe, made: Path) -> None:
    """Build the programs of one module into a folder."""
    began_s = time.monotonic()
    _say(f"building {', '.join(recipe.programs)}")
    links = " ".join([_LINK_FLAGS, *(f"-X {stamp}" for stamp in recipe.stamps)])
    flags = [*_FLAGS, "-ldflags", links, *(["-tags", recipe.tags] if recipe.tags else [])]
    target = made / recipe.module if recipe.packages == (".",) else f"{made}{os.sep}"
    run_go(["build", *flags, "-o", target, *recipe.packages], folder=_MODULES / recipe.module)
    sizes_mb = sum((made / name).stat().st_size for name in recipe.programs) // 1_000_000
    _say(f"built {', '.join(recipe.programs)} in {time.monotonic() - began_s:.0f} s, {sizes_mb} MB")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process at a time in; the others wait, and say so."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another process builds the programs of the cluster; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(f"claimsmith: {time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
