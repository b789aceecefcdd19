"""The files of the checkout, as the rules read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]

_NOT_OURS = frozenset({".git", ".venv", "build", "dist", "__pycache__"})


def walk_text(folder: str = ".", *, suffix: str = "") -> Iterator[tuple[PurePosixPath, str]]:
    """Yield path and text of each text file below a folder of the checkout; caches and builds are left out."""
    for path in sorted((ROOT / folder).rglob(f"*{suffix}")):
        relative = path.relative_to(ROOT)
        if not path.is_file() or any(_is_left_out(part) for part in relative.parts):
            continue
        text = _read(path)
        if text is not None:
            yield PurePosixPath(relative), text


def _is_left_out(part: str) -> bool:
    return part in _NOT_OURS or (part.startswith(".") and part.endswith("_cache")) or part == ".hypothesis"


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None
