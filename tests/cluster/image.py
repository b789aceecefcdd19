"""Writes the one image of the tests: Debian's static busybox, as a tar that containerd imports."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Final

__all__ = ["IMAGE", "write_image"]

IMAGE: Final = "registry.example.test/busybox:1"
"""Its name; nothing ever asks a registry for it."""
_BUSYBOX: Final = Path("/bin/busybox")
_APPLETS: Final = (
    "cat", "echo", "env", "grep", "ls", "mkdir", "mount", "readlink", "sh", "sleep", "stat", "test", "touch", "wc",
)  # fmt: skip


def write_image(path: Path, *, machine: str, busybox: Path = _BUSYBOX) -> None:
    """Write the image.

    Args:
        path: The tar to write.
        machine: What `uname -m` says.
        busybox: A statically linked busybox.
    """
    layer = _pack_layer(busybox.read_bytes())
    digest = hashlib.sha256(layer).hexdigest()
    config = json.dumps(
        {
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine),
            "os": "linux",
            "config": {"Cmd": ["/bin/sleep", "1000000"], "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": name, "RepoTags": [IMAGE], "Layers": [f"{digest}/layer.tar"]}]
    with tarfile.open(path, "w") as tar:
        _add(tar, name, config)
        _add(tar, f"{digest}/layer.tar", layer)
        _add(tar, "manifest.json", json.dumps(manifest).encode())


def _pack_layer(busybox: bytes) -> bytes:
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for folder in ("bin", "tmp"):
            _add(tar, folder, kind=tarfile.DIRTYPE)
        _add(tar, "bin/busybox", busybox)
        for applet in _APPLETS:
            _add(tar, f"bin/{applet}", kind=tarfile.SYMTYPE, link="busybox")
    return layer.getvalue()


def _add(tar: tarfile.TarFile, name: str, data: bytes = b"", *, kind: bytes = tarfile.REGTYPE, link: str = "") -> None:
    info = tarfile.TarInfo(name)
    info.mode, info.type, info.linkname, info.size = 0o755, kind, link, len(data)
    tar.addfile(info, io.BytesIO(data))
