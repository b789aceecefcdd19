"""The files of a claim besides its CDI file: metadata for its containers, and what its status must say.

All of it is in the driver's own folder, is written before the claim counts as prepared, and goes when it does. As CDI
files, it need not outlive a loss of power: in the next boot the claim is prepared again.
    dra-device-metadata/<namespace>_<claim>/<request>/metadata.json
    claim-status/<uid>.json

Source of the first path: kubeletplugin/metadata.go of k8s.io/dynamic-resource-allocation v0.37.2.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final

import msgspec

from claimsmith.errors import ConfigError
from claimsmith.kubelet.paths import make_folder
from claimsmith.model.prepared import ClaimKey, Mount, PreparedDevices, PrepareRequest
from claimsmith.node.claimstatus import ClaimStatus, encode_claim_status, find_claim_status, plan_claim_status
from claimsmith.node.durable import remove_whole, write_in_place, write_whole
from claimsmith.node.entry import parse_uid
from claimsmith.node.metadata import MetadataFile, MetadataPolicy, metadata_mount, plan_metadata
from claimsmith.telemetry import get_logger, log_event

__all__ = ["METADATA_FOLDER", "STATUS_FOLDER", "ClaimFiles"]

METADATA_FOLDER: Final = "dra-device-metadata"
"""Name of the folder of the metadata files, as upstream has it."""
STATUS_FOLDER: Final = "claim-status"
"""Name of the folder of what the statuses of claims must say."""

_log = get_logger("node")


class _Owner(msgspec.Struct, frozen=True):
    uid: str
    generation: int = 1


class _Metadata(msgspec.Struct, frozen=True):
    metadata: _Owner


class ClaimFiles:
    """The files of the claims of one driver on one node. The caller holds the driver's lock.

    Args:
        folder: The folder that belongs to the driver alone.
        driver: Name of the driver.
        policy: Which devices get metadata.
        now_s: Seconds since 1970.
    """

    def __init__(
        self,
        folder: Path,
        driver: str,
        *,
        policy: MetadataPolicy | None = None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self.folder = folder
        """Where the files are."""
        self._metadata, self._statuses = folder / METADATA_FOLDER, folder / STATUS_FOLDER
        self._driver, self._policy, self._now_s = driver, policy or MetadataPolicy(), now_s

    def open(self, claims: Collection[ClaimKey]) -> None:
        """Remove what a stopped process left of claims that are not prepared.

        Raises:
            ConfigError: A folder can't be used.
        """
        kept = {_folder_name(claim) for claim in claims}
        for folder in _list(self._metadata):
            if folder.name not in kept:
                _remove_folder(folder)
        uids = {claim.uid for claim in claims}
        for path in _list(self._statuses):
            if path.stem not in uids:
                remove_whole(path)

    def write(self, request: PrepareRequest, prepared: PreparedDevices) -> Mapping[str, Mount]:
        """Write the files of a claim; return, by request, what its containers must mount.

        Raises:
            DriverAnswerError: The driver gave a status or metadata that nobody accepts.
            ConfigError: A folder can't be written.
        """
        files = self._plan(request, prepared)
        self._write_status(request, prepared)
        mounts = {}
        for file in files:
            path = self._metadata_path(request.claim, file.request)
            make_folder(path.parent)
            write_whole(path, file.data)
            mounts[file.request] = metadata_mount(request, file.request, driver=self._driver, host_path=str(path))
        return mounts

    def update(self, request: PrepareRequest, prepared: PreparedDevices) -> bool:
        """Write what the driver tells now of a claim whose containers have its files; return whether it is news.

        A request that had no file when the claim was prepared gets none: no container would see it.

        Raises:
            DriverAnswerError: The driver gave a status or metadata that nobody accepts.
            ConfigError: A file can't be written.
        """
        before = self.find_status(request.claim.uid)
        names = dict.fromkeys(device.request for device in request.devices)
        written = {name: _read(self._metadata_path(request.claim, name)) for name in names}
        known = {name: found for name, data in written.items() if (found := _find_head(data))}
        same = self._plan(request, prepared, {name: found.generation for name, found in known.items()})
        later = self._plan(request, prepared, {name: found.generation + 1 for name, found in known.items()})
        self._write_status(request, prepared)
        is_new = self.find_status(request.claim.uid) != before
        for old, new in zip(same, later, strict=True):
            if old.request in known and written[old.request] != old.data:
                write_in_place(self._metadata_path(request.claim, old.request), new.data)
                is_new = True
        return is_new

    def _plan(
        self, request: PrepareRequest, prepared: PreparedDevices, generations: Mapping[str, int] | None = None
    ) -> tuple[MetadataFile, ...]:
        return plan_metadata(request, prepared, driver=self._driver, policy=self._policy, generations=generations)

    def _write_status(self, request: PrepareRequest, prepared: PreparedDevices) -> None:
        status = plan_claim_status(request, prepared, now_s=self._now_s(), before=self.find_status(request.claim.uid))
        if status.devices:
            make_folder(self._statuses)
            write_whole(self._status_path(request.claim), encode_claim_status(status))
        else:
            _remove_in(self._statuses, self._status_path(request.claim))

    def remove(self, claim: ClaimKey) -> None:
        """Remove the files of a claim; none is no error. Those of a later claim of the same name stay.

        Raises:
            ConfigError: A folder can't be written.
        """
        _remove_in(self._statuses, self._status_path(claim))
        folder = self._metadata / _folder_name(claim)
        heads = (_find_head(_read(path)) for path in folder.glob("*/metadata.json"))
        if any(head is not None and head.uid == claim.uid for head in heads):
            _remove_folder(folder)

    def find_status(self, uid: str) -> ClaimStatus | None:
        """Return what the status of a claim must say; None for nothing, or when that can't be read."""
        try:
            return find_claim_status((self._statuses / f"{uid}.json").read_bytes())
        except (OSError, ValueError):
            return None

    def _metadata_path(self, claim: ClaimKey, request: str) -> Path:
        return self._metadata / _folder_name(claim) / request / "metadata.json"

    def _status_path(self, claim: ClaimKey) -> Path:
        return self._statuses / f"{parse_uid(claim)}.json"


def _remove_in(folder: Path, path: Path) -> None:
    """Remove a file, if its folder is there at all."""
    if folder.exists():
        remove_whole(path)


def _folder_name(claim: ClaimKey) -> str:
    return f"{claim.namespace}_{claim.name}"


def _list(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(
            f"folder {folder}: can't be read: {error.strerror or error}, allowed a readable folder; "
            "correct its permissions"
        ) from error


def _remove_folder(folder: Path) -> None:
    """Remove a folder and all in it; what can't be removed is logged and does not keep a claim from being released."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        log_event(_log, logging.WARNING, "Metadata of a claim stays", folder=folder, reason=error)


def _read(path: Path) -> bytes:
    """Return the content of a file; empty when it can't be read."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _find_head(data: bytes) -> _Owner | None:
    """Return which claim a metadata file is about, and how often it was written; None when it does not say so."""
    try:
        return msgspec.json.decode(data.partition(b"\n}\n")[0] + b"\n}", type=_Metadata).metadata
    except (ValueError, msgspec.DecodeError):
        return None
