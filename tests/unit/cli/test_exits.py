"""What becomes of an error: one line, and the exit code."""

from __future__ import annotations

import errno

import pytest

from claimsmith.cli.exits import Exit, exit_for, tell
from claimsmith.errors import (
    ClaimsmithError,
    ConfigError,
    DriverError,
    ForbiddenError,
    InputError,
    InvalidObjectError,
    NotFoundError,
    ThrottledError,
    UnreachableError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("file: wrong"), Exit.BAD_INPUT),
        (ConfigError("port: taken"), Exit.BAD_INPUT),
        (DriverError("driver: wrong"), Exit.BAD_INPUT),
        (InvalidObjectError("object: wrong"), Exit.BAD_INPUT),
        (NotFoundError("object: not there"), Exit.BAD_INPUT),
        (ForbiddenError("object: not allowed"), Exit.BAD_INPUT),
        (UnreachableError("server: silent"), Exit.UNREACHABLE),
        (ThrottledError("server: busy"), Exit.UNREACHABLE),
    ],
)
def test_an_error_says_itself_in_one_line(
    error: ClaimsmithError, code: Exit, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_for(error) is code
    assert capsys.readouterr().err == f"claimsmith: {error}\n"


def test_of_several_errors_the_one_to_act_upon_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    group = ExceptionGroup(
        "both", [UnreachableError("server: gone"), ExceptionGroup("inner", [ConfigError("port: taken")])]
    )

    assert exit_for(group) is Exit.BAD_INPUT
    assert capsys.readouterr().err == "claimsmith: port: taken\n"


def test_of_equal_errors_the_first_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    group = ExceptionGroup("both", [ConfigError("node a: wrong"), ConfigError("node b: wrong")])

    assert exit_for(group) is Exit.BAD_INPUT
    assert capsys.readouterr().err == "claimsmith: node a: wrong\n"


def test_what_the_system_refuses_is_no_bug(capsys: pytest.CaptureFixture[str]) -> None:
    error = OSError(errno.ENOSPC, "No space left on device", "/data/x")

    assert exit_for(error) is Exit.BAD_INPUT
    assert capsys.readouterr().err == (
        "claimsmith: /data/x: No space left on device; make room or correct the permissions, and try again\n"
    )


@pytest.mark.parametrize("error", [KeyError("x"), TimeoutError()])
def test_a_bug_shows_its_traceback_and_asks_for_a_report(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_for(error) is Exit.OUR_BUG

    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith(type(error).__name__)
    assert lines[-1] == "claimsmith: this is a bug in claimsmith; please report it with the lines above"


def test_a_bug_among_known_errors_is_not_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_for(ExceptionGroup("both", [ConfigError("port: taken"), KeyError("x")])) is Exit.OUR_BUG
    assert "KeyError: 'x'" in capsys.readouterr().err


def test_a_traceback_is_shown_when_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAIMSMITH_TRACEBACK", "1")

    assert exit_for(ConfigError("port: taken")) is Exit.BAD_INPUT
    assert capsys.readouterr().err == ("claimsmith.errors.ConfigError: port: taken\nclaimsmith: port: taken\n")


def test_a_sentence_stays_one_line_of_bearable_length(capsys: pytest.CaptureFixture[str]) -> None:
    tell("first\nsecond " + "x" * 5000 + " end")

    line = capsys.readouterr().err
    assert line.startswith("claimsmith: first second xxx")
    assert line.endswith(" end\n")
    assert len(line) < 1100
