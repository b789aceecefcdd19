"""Which log lines are shown."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from claimsmith.cli.logs import show_logs
from claimsmith.errors import ConfigError
from claimsmith.telemetry import get_logger, log_event


@pytest.fixture(autouse=True)
def _logger_as_before() -> Iterator[None]:
    logger = logging.getLogger("claimsmith")
    before = logger.level, list(logger.handlers), logger.propagate
    yield
    logger.setLevel(before[0])
    logger.handlers[:], logger.propagate = before[1], before[2]


def shown(verbosity: int, *, usual: str = "warning") -> list[str]:
    """Return the levels of which lines are shown."""
    lines: list[str] = []
    show_logs(verbosity, usual=usual, write=lines.append)
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        log_event(get_logger("node"), level, "Something happened", device="gpu-0")
    return [line.split()[1] for line in lines]


@pytest.mark.parametrize(
    ("verbosity", "levels"),
    [
        (0, ["WARNING", "ERROR"]),
        (1, ["INFO", "WARNING", "ERROR"]),
        (2, ["DEBUG", "INFO", "WARNING", "ERROR"]),
        (5, ["DEBUG", "INFO", "WARNING", "ERROR"]),
    ],
)
def test_each_v_shows_more(verbosity: int, levels: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLAIMSMITH_LOG", raising=False)

    assert shown(verbosity) == levels


@pytest.mark.parametrize(
    ("word", "levels"), [("off", []), ("ERROR", ["ERROR"]), ("info ", ["INFO", "WARNING", "ERROR"])]
)
def test_the_environment_says_what_is_usual(word: str, levels: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAIMSMITH_LOG", word)

    assert shown(0) == levels


def test_v_never_shows_less_than_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAIMSMITH_LOG", "debug")

    assert shown(1) == ["DEBUG", "INFO", "WARNING", "ERROR"]


def test_another_word_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAIMSMITH_LOG", "loud")

    with pytest.raises(ConfigError, match="CLAIMSMITH_LOG: found 'loud', allowed off, error, warning, info, debug; "):
        show_logs(0)


def test_a_line_tells_time_level_component_and_facts() -> None:
    lines: list[str] = []
    show_logs(0, write=lines.append)
    log_event(get_logger("agent"), logging.WARNING, "Device unhealthy", device="gpu-0", cause="xid-79")

    assert lines[0][8:] == " WARNING claimsmith.agent: Device unhealthy device=gpu-0 cause=xid-79"


def test_showing_twice_shows_each_line_once(capsys: pytest.CaptureFixture[str]) -> None:
    show_logs(0)
    show_logs(0)
    log_event(get_logger("agent"), logging.WARNING, "Once")

    assert capsys.readouterr().err.count("Once") == 1
