"""Which log lines of the components a command shows, and where."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from claimsmith.errors import ConfigError

__all__ = ["LEVELS", "show_logs"]

LEVELS: Final = {
    "off": logging.CRITICAL + 10,
    "error": logging.ERROR,
    "warning": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
}
"""Words that CLAIMSMITH_LOG may hold."""


def show_logs(
    verbosity: int,
    *,
    usual: str = "warning",
    write: Callable[[str], None] | None = None,
    as_json: bool = False,
) -> None:
    """Show log lines of claimsmith on stderr.

    Args:
        verbosity: How often `-v` was given: once for `info`, twice for `debug`.
        usual: Level without `-v` and without CLAIMSMITH_LOG.
        write: Takes each line; None: prints it.
        as_json: Each line is a JSON object, for machines.

    Raises:
        ConfigError: CLAIMSMITH_LOG holds another word.
    """
    word = os.environ.get("CLAIMSMITH_LOG", "").strip().lower() or usual
    if word not in LEVELS:
        raise ConfigError(f"CLAIMSMITH_LOG: found {word!r}, allowed {', '.join(LEVELS)}; correct it or unset it")
    asked = (LEVELS[word], logging.INFO, logging.DEBUG)[min(verbosity, 2)]
    logger = logging.getLogger("claimsmith")
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
    handler = _Lines(write or (lambda line: print(line, file=sys.stderr, flush=True)))
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt="%H:%M:%S")
    handler.setFormatter(_JsonLines() if as_json else text)
    logger.addHandler(handler)
    logger.setLevel(min(asked, LEVELS[word]))
    logger.propagate = False


class _JsonLines(logging.Formatter):
    """Each record as one JSON object; facts are fields of their own below `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        fields = {name: str(value) for name, value in getattr(record, "fields", {}).items()}
        message = (
            str(record.args[0]) if fields and isinstance(record.args, tuple) and record.args else record.getMessage()
        )
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message,
            **({"fields": fields} if fields else {}),
            **({"traceback": self.formatException(record.exc_info)} if record.exc_info else {}),
        }
        return json.dumps(line, ensure_ascii=False)


class _Lines(logging.Handler):
    """Hands each record on as one text."""

    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; what can't be written is lost, as for every log."""
        try:
            self._write(self.format(record))
        except OSError:
            return
