"""Folders that one process works in."""

from __future__ import annotations

from pathlib import Path

import pytest

from claimsmith.daemons.folderlock import find_temporary_place, hold_folder, open_temporary_folder
from claimsmith.errors import ConfigError


def test_a_held_folder_can_not_be_held_again(tmp_path: Path) -> None:
    with hold_folder(tmp_path), pytest.raises(ConfigError, match="another process works in it, allowed one; "):
        hold_folder(tmp_path).__enter__()


def test_a_folder_can_be_held_again_afterwards_and_keeps_its_files(tmp_path: Path) -> None:
    with hold_folder(tmp_path / "new") as folder:
        (folder / "file").write_text("mine")
    with hold_folder(tmp_path / "new"):
        assert (tmp_path / "new" / "file").read_text() == "mine"


def test_an_error_of_the_work_inside_is_not_taken_for_a_lock(tmp_path: Path) -> None:
    with pytest.raises(BlockingIOError), hold_folder(tmp_path):
        raise BlockingIOError


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match="can't be made: File exists"):
        hold_folder(tmp_path / "file").__enter__()


def test_a_temporary_folder_goes_with_its_content(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with open_temporary_folder() as folder:
        (folder / "below").mkdir()
        expected = find_temporary_place()

    assert (folder.parent, len(str(folder))) == (tmp_path, len(str(expected)))
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_can_not_be_written_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/proc/claimsmith")

    with pytest.raises(ConfigError, match="temporary folder in /proc/claimsmith: can't be made"):
        open_temporary_folder().__enter__()
