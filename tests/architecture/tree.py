"""The files of the checkout, as the rules read them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]

_NOT_OURS = frozenset({".git", ".venv", "build", "dist", "__pycache__"})


@cache
def walk_text(folder: str = ".", *, suffix: str = "") -> tuple[tuple[PurePosixPath, str], ...]:
    """Return path and text of each text file below a folder of the checkout; caches and builds are left out."""
    return tuple(
        (PurePosixPath(path.relative_to(ROOT)), text)
        for path in _walk_files(ROOT / folder)
        if path.name.endswith(suffix) and (text := _read(path)) is not None
    )


def _walk_files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not _is_left_out(name))
        yield from (Path(parent, name) for name in sorted(names))


def _is_left_out(part: str) -> bool:
    return part in _NOT_OURS or (part.startswith(".") and part.endswith("_cache")) or part == ".hypothesis"


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None
