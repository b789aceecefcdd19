"""Reads the files, folders and standard input that a user names with -f, and hands on objects."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from claimsmith.api.manifests import Manifest, parse_manifests
from claimsmith.errors import InputError

__all__ = ["MANIFEST_SUFFIXES", "read_manifests", "read_text"]

MANIFEST_SUFFIXES: Final = (".yaml", ".yml", ".json")
"""Files that are read from a folder; a file that is named itself may have any suffix."""
MAX_FILE_BYTES: Final = 512 * 1024 * 1024
"""Largest file that is read."""


def read_manifests(paths: Iterable[str | Path], *, stdin: BinaryIO | None = None) -> tuple[Manifest, ...]:
    """Return the objects of all paths, in the order of the paths.

    Args:
        paths: Files, folders (their manifests sorted by name, folders below not entered), or `-` for standard input.
        stdin: What `-` reads; the process's own standard input by default.

    Raises:
        InputError: A path can't be read, is binary or empty, or its text is no manifest.
    """
    found: list[Manifest] = []
    for path in paths:
        if str(path) == "-":
            data = (stdin or sys.stdin.buffer).read()
            found.extend(_parse(data, "<stdin>"))
            continue
        for file in _list_files(Path(path)):
            found.extend(_parse(_read_bytes(file), str(file)))
    return tuple(found)


def read_text(path: str | Path, *, stdin: BinaryIO | None = None) -> str:
    """Return the text of one file, or of standard input for `-`.

    Raises:
        InputError: The path can't be read, is a folder, or is no UTF-8 text.
    """
    if str(path) == "-":
        return _decode((stdin or sys.stdin.buffer).read(), "<stdin>")
    return _decode(_read_bytes(Path(path)), str(path))


def _list_files(path: Path) -> Iterator[Path]:
    """Yield the file itself, or the manifests of a folder."""
    try:
        if not path.is_dir():
            yield path
            return
        files = sorted(child for child in path.iterdir() if child.suffix in MANIFEST_SUFFIXES and _can_end(child))
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if not files:
        suffixes = " ".join(f"*{suffix}" for suffix in MANIFEST_SUFFIXES)
        raise InputError(f"{path}: found no manifest in the folder, allowed {suffixes}; name another path")
    yield from files


def _can_end(path: Path) -> bool:
    """Tell whether reading comes to an end: not for folders, pipes and devices. What is not there fails at once."""
    return path.is_file() or not path.exists()


def _read_bytes(path: Path) -> bytes:
    """Return the content of a file."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if len(data) > MAX_FILE_BYTES:
        raise InputError(f"{path}: found more than {MAX_FILE_BYTES} bytes, allowed {MAX_FILE_BYTES}; split the file")
    return data


def _unreadable(path: Path, error: OSError | ValueError) -> InputError:
    """Return the error of a path that can't be read."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return InputError(f"{path}: can't be read ({reason}), allowed a readable file or folder; correct the path")


def _decode(data: bytes, source: str) -> str:
    """Return UTF-8 text (or UTF-16 with its mark, as some editors save it)."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        reason = f"found binary data at byte {error.start}"
        raise InputError(f"{source}: {reason}, allowed UTF-8 text; name a YAML or JSON file") from error
    if "\0" in text:
        raise InputError(f"{source}: found binary data, allowed UTF-8 text; name a YAML or JSON file")
    return text


def _parse(data: bytes, source: str) -> tuple[Manifest, ...]:
    """Return the objects of one input; at least one."""
    manifests = parse_manifests(_decode(data, source), source=source)
    if not manifests:
        found = "no object" if data.strip() else "nothing"
        raise InputError(f"{source}: found {found}, allowed one or more manifests; fill it or leave it out")
    return manifests
