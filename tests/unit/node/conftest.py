from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder with a path so short that sockets fit."""
    with tempfile.TemporaryDirectory(prefix="cs-") as folder:
        yield Path(folder)
