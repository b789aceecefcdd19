from __future__ import annotations

from pathlib import Path

import pytest

from claimsmith.errors import ConfigError
from claimsmith.kubelet.paths import SOCKET_PATH_MAX_BYTES, NodePaths, parse_socket_path


def test_a_socket_path_of_the_longest_length_is_taken_as_it_is() -> None:
    path = Path("/" + "a" * (SOCKET_PATH_MAX_BYTES - 1))

    assert parse_socket_path(path) == path


def test_a_socket_path_is_measured_in_bytes_and_refused_with_its_length_and_the_limit() -> None:
    path = Path("/" + "é" * 100)

    with pytest.raises(ConfigError, match=r"^socket path /é+: found 201 bytes, allowed 107; choose a shorter folder$"):
        parse_socket_path(path)


def test_the_longest_driver_name_fits_below_a_compact_root() -> None:
    paths, driver = NodePaths.compact(Path("/" + "r" * 31)), "d" * 63

    for path in (paths.plugins_registry / f"{driver}-reg.sock", paths.folder_of(driver) / "dra.sock"):
        assert parse_socket_path(path) == path


def test_a_folder_that_can_not_be_made_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match=r"^folder .*/file/p: can't be made: Not a directory, allowed .*[^\n]$"):
        NodePaths.compact(tmp_path / "file").make()
