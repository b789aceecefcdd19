"""The state file: every acknowledged write is in it, whenever the process dies."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from claimsmith.errors import ConfigError

__all__ = ["Change", "Journal", "SavedState", "SqliteJournal"]

_APPLICATION_ID = 0x636C6D73
_FORMAT = 1
_MAGIC = b"SQLite format 3\x00"
_RESTORE = "restore a copy or name another file, nothing was changed"
_LAYOUT = """
CREATE TABLE counter (only INTEGER PRIMARY KEY CHECK (only = 1), version INTEGER NOT NULL);
INSERT INTO counter VALUES (1, 0);
CREATE TABLE objects (
    kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (kind, namespace, name)
) WITHOUT ROWID;
"""
_PUT = "INSERT OR REPLACE INTO objects (kind, namespace, name, version, body) VALUES (?, ?, ?, ?, ?)"
_DROP = "DELETE FROM objects WHERE kind = ? AND namespace = ? AND name = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One write that has to be durable.

    Args:
        kind: Key of the kind, such as `/pods`.
        namespace: Namespace of the object; empty for none.
        name: Name of the object.
        version: resourceVersion of the write.
        body: The object as JSON; None when it was deleted.
    """

    kind: str
    namespace: str
    name: str
    version: int
    body: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedState:
    """What a state file holds: the last resourceVersion and every object."""

    version: int
    objects: tuple[Change, ...]


class Journal(Protocol):
    """Where writes are made durable. Methods block and are called by one thread at a time."""

    def load(self) -> SavedState:
        """Return everything that was committed before."""

    def commit(self, changes: Sequence[Change]) -> None:
        """Make changes durable, all or none; returns when they are."""

    def close(self) -> None:
        """Release the file."""


class SqliteJournal:
    """A state file in SQLite's format: WAL, synchronous=FULL, held by one process.

    Args:
        path: The file; made if it does not exist.

    Raises:
        ConfigError: The file can't be opened, is damaged, is held by another process, or belongs to something else.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        _check_header(path)
        try:
            self._db = sqlite3.connect(path, timeout=0.2, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        try:
            self._prepare()
        except sqlite3.Error as error:
            self._db.close()
            raise self._unusable(error) from error
        except ConfigError:
            self._db.close()
            raise

    def load(self) -> SavedState:
        """Return everything that was committed before.

        Raises:
            ConfigError: The file is damaged.
        """
        try:
            (version,) = self._db.execute("SELECT version FROM counter").fetchone()
            rows = self._db.execute("SELECT kind, namespace, name, version, body FROM objects ORDER BY version")
            objects = [Change(kind=a, namespace=b, name=c, version=d, body=e) for a, b, c, d, e in rows]
        except (sqlite3.Error, TypeError) as error:
            raise self._unusable(error) from error
        return SavedState(version=version, objects=tuple(objects))

    def commit(self, changes: Sequence[Change]) -> None:
        """Make changes durable, all or none; returns when they are.

        Raises:
            ConfigError: The disk is full or the file can't be written any more; nothing of the batch is kept.
        """
        puts = [(c.kind, c.namespace, c.name, c.version, c.body) for c in changes]
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for put in puts:
                self._db.execute(*((_DROP, put[:3]) if put[4] is None else (_PUT, put)))
            self._db.execute("UPDATE counter SET version = max(version, ?)", (max(c.version for c in changes),))
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise self._unusable(error) from error

    def close(self) -> None:
        """Release the file; all of the write-ahead log is moved into it."""
        self._db.close()

    def _prepare(self) -> None:
        (application_id,) = self._db.execute("PRAGMA application_id").fetchone()
        (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and application_id != _APPLICATION_ID:
            raise ConfigError(
                f"state file {self.path}: found a database of another program, "
                "allowed a state file of claimsmith; name another file"
            )
        (format_version,) = self._db.execute("PRAGMA user_version").fetchone()
        if format_version > _FORMAT:
            raise ConfigError(
                f"state file {self.path}: found format {format_version}, allowed up to {_FORMAT}; "
                "use the newer claimsmith that wrote it"
            )
        self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._check_content() if tables else self._lay_out()

    def _check_content(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute("COMMIT")
        problems = [row[0] for row in self._db.execute("PRAGMA quick_check(1)") if row[0] != "ok"]
        if problems:
            raise sqlite3.DatabaseError(problems[0])

    def _lay_out(self) -> None:
        self._db.executescript(
            f"BEGIN EXCLUSIVE; PRAGMA application_id={_APPLICATION_ID}; PRAGMA user_version={_FORMAT};{_LAYOUT}COMMIT;"
        )

    def _unusable(self, error: Exception) -> ConfigError:
        text = str(error)
        if "locked" in text:
            return ConfigError(
                f"state file {self.path}: another process holds it; stop that process or name another file"
            )
        if "readonly" in text or "unable to open" in text or "disk is full" in text or "disk I/O" in text:
            return ConfigError(f"state file {self.path}: can't be written ({text}); name a file in a writable folder")
        return ConfigError(
            f"state file {self.path}: damaged ({text}); restore a copy or name another file, nothing was changed"
        )


def _check_header(path: Path) -> None:
    """Refuse a file that is no database before SQLite touches it."""
    try:
        with path.open("rb") as file:
            header = file.read(len(_MAGIC))
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"state file {path}: can't be read ({error.strerror}); name another file") from error
    if header and header != _MAGIC:
        raise ConfigError(f"state file {path}: damaged (no database header); {_RESTORE}")
