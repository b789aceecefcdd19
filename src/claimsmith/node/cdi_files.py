"""The CDI folder: one file per claim of this driver; all other files are left alone."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec

from claimsmith.errors import ConfigError
from claimsmith.model.prepared import ClaimKey
from claimsmith.node.cdi import cdi_kind, find_described_claim, find_mounted_files
from claimsmith.node.durable import remove_whole, write_whole
from claimsmith.node.entry import PreparedClaim, parse_uid
from claimsmith.telemetry import get_logger, log_event

__all__ = ["CdiFiles"]

_log = get_logger("node")


class CdiFiles:
    """The CDI files of one driver.

    Args:
        folder: A folder that the container runtime reads.
        driver: Name of the driver.
    """

    def __init__(self, folder: Path, driver: str) -> None:
        self._folder, self._driver = folder, driver
        self._prefix = cdi_kind(driver).replace("/", "-") + "_"

    def path_of(self, claim: ClaimKey) -> Path:
        """Return where the file of a claim is, or would be.

        Raises:
            ClaimNotReadyError: The uid does not fit into a file name.
        """
        return self._folder / f"{self._prefix}{parse_uid(claim)}.json"

    def write(self, claim: ClaimKey, document: Mapping[str, object]) -> None:
        """Write the file of a claim, whole or not at all; runtimes may read it.

        It need not outlive a loss of power: in the next boot the claim is prepared again.

        Raises:
            ConfigError: The folder can't be written.
        """
        data = msgspec.json.format(msgspec.json.encode(document), indent=1)
        write_whole(self.path_of(claim), data)

    def remove(self, claim: ClaimKey) -> None:
        """Remove the file of a claim; none is no error.

        It may be back after a loss of power: in the next boot it does not count.

        Raises:
            ConfigError: The folder can't be written.
        """
        remove_whole(self.path_of(claim))

    def describes(self, entry: PreparedClaim, *, mounted_from: Path | None = None) -> bool:
        """Tell whether the file of a claim is there, whole, and defines the devices of the entry for the same boot.

        Args:
            entry: The claim.
            mounted_from: A folder of ours; what the file mounts from there must be there too.
        """
        try:
            data = self.path_of(entry.claim).read_bytes()
        except OSError:
            return False
        if find_described_claim(data, self._driver) != entry:
            return False
        return mounted_from is None or all(path.exists() for path in find_mounted_files(data, mounted_from))

    def read_claims(self) -> tuple[PreparedClaim, ...]:
        """Return the claims that the files in the folder describe; damaged and foreign files are skipped, not touched.

        Raises:
            ConfigError: The folder can't be read.
        """
        try:
            paths = sorted(self._folder.glob(f"{self._prefix}*.json"))
            found = {path: find_described_claim(path.read_bytes(), self._driver) for path in paths if path.is_file()}
        except OSError as error:
            raise ConfigError(
                f"folder {self._folder}: can't be read: {error.strerror or error}, allowed a readable folder; "
                "correct its permissions"
            ) from error
        for path, claim in found.items():
            if claim is None:
                log_event(_log, logging.WARNING, "A CDI file can't be understood and is left alone", path=path)
        return tuple(claim for claim in found.values() if claim is not None)
