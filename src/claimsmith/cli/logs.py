"""Which log lines of the components a command shows, and where."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
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


def show_logs(verbosity: int, *, usual: str = "warning", write: Callable[[str], None] | None = None) -> None:
    """Show log lines of claimsmith on stderr.

    Args:
        verbosity: How often `-v` was given: once for `info`, twice for `debug`.
        usual: Level without `-v` and without CLAIMSMITH_LOG.
        write: Takes each line; None: prints it.

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
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt="%H:%M:%S"))
    logger.addHandler(handler)
    logger.setLevel(min(asked, LEVELS[word]))
    logger.propagate = False


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
