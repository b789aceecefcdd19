"""A kubeconfig is written for its owner, and never over somebody else's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from claimsmith.cli.kubeconfig import check_kubeconfig, written_kubeconfig
from claimsmith.errors import ConfigError

URL = "http://127.0.0.1:40123"


def test_it_is_there_while_the_cluster_is(tmp_path: Path) -> None:
    path = tmp_path / "kc"
    with written_kubeconfig(path, URL):
        server = yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["server"]
        mode = path.stat().st_mode & 0o777

    assert (server, mode, path.exists()) == (URL, 0o600, False)


def test_no_temporary_file_stays(tmp_path: Path) -> None:
    with written_kubeconfig(tmp_path / "kc", URL):
        assert os.listdir(tmp_path) == ["kc"]


def test_one_of_an_earlier_cluster_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "kc"
    with written_kubeconfig(path, URL):
        left_behind = path.read_text()
    path.write_text(left_behind)
    with written_kubeconfig(path, "http://127.0.0.1:2"):
        assert "127.0.0.1:2" in path.read_text()


def test_that_of_a_later_cluster_stays(tmp_path: Path) -> None:
    path = tmp_path / "kc"
    with written_kubeconfig(path, URL):
        later = path.read_text().replace("40123", "40124")
        path.write_text(later)

    assert path.read_text() == later


def test_it_goes_also_when_the_cluster_fails(tmp_path: Path) -> None:
    path = tmp_path / "kc"
    with pytest.raises(KeyError), written_kubeconfig(path, URL):
        raise KeyError

    assert not path.exists()


@pytest.mark.parametrize("make", ["file", "folder", "link", "dangling link"])
def test_what_somebody_else_has_there_is_left_alone(tmp_path: Path, make: str) -> None:
    path, other = tmp_path / "kc", tmp_path / "other"
    if make == "file":
        path.write_text("mine")
    elif make == "folder":
        path.mkdir()
    else:
        path.symlink_to(other)
        if make == "link":
            other.write_text("mine")

    with pytest.raises(ConfigError, match="found something that claimsmith did not write, allowed a new file; "):
        check_kubeconfig(path)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"found no folder {tmp_path}/a, allowed an existing one; make it first"):
        check_kubeconfig(tmp_path / "a" / "kc")


def test_a_relative_path_is_meant_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with written_kubeconfig(Path("kc"), URL):
        assert (tmp_path / "kc").exists()
