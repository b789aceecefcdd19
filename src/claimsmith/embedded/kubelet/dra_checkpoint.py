"""The file in which a kubelet keeps the claims that its pods use, in the form of a real one.

Source: pkg/kubelet/cm/dra/state (checkpoint.go, state.go) of kubernetes v1.37.2.

Deviates: damaged-state.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from claimsmith.embedded.kubelet.plugins import ClaimCall, PreparedDevice
from claimsmith.errors import CheckpointError

__all__ = ["CHECKPOINT_FILE", "ClaimState", "decode_claims", "encode_claims"]

CHECKPOINT_FILE: Final = "dra_manager_state"
"""Name of the file in the kubelet's state folder."""

_KIND: Final = "DRACheckpoint"
_VERSION: Final = "checkpoint.dra.kubelet.k8s.io/v1"
_UNPREPARE: Final = frozenset({"All", "NodeUnprepareResources"})


class ClaimState(msgspec.Struct):
    """What the kubelet remembers of one claim.

    Args:
        pods: uids of the pods that use it.
        skips: Which calls each of its drivers can do without.
        devices: Prepared devices by driver.
        prepared: Not kept over restarts: after one, drivers are asked again.
        unpreparing: Whether its drivers are being called; not kept over restarts either.
    """

    namespace: str
    name: str
    uid: str
    pods: set[str] = msgspec.field(default_factory=set)
    skips: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    devices: dict[str, tuple[PreparedDevice, ...]] = msgspec.field(default_factory=dict)
    prepared: bool = False
    unpreparing: bool = False

    @property
    def call(self) -> ClaimCall:
        """The claim as a driver is told of it."""
        return ClaimCall(namespace=self.namespace, name=self.name, uid=self.uid)

    @property
    def undo(self) -> tuple[str, ...]:
        """Drivers that must unprepare it."""
        return tuple(driver for driver, skipped in self.skips.items() if not _UNPREPARE & set(skipped))

    def cdi_ids(self, request: str) -> list[str]:
        """Return the CDI ids of the devices for a request; empty: for all."""
        return [
            cdi_id
            for devices in self.devices.values()
            for device in devices
            if not request or not device.requests or request in device.requests
            for cdi_id in device.cdi_ids
        ]


class _Device(msgspec.Struct, frozen=True, rename="pascal"):
    pool_name: str
    device_name: str
    share_id: str | None = msgspec.field(name="ShareID", default=None)
    request_names: tuple[str, ...] | None = None
    cdi_device_ids: tuple[str, ...] | None = msgspec.field(name="CDIDeviceIDs", default=None)


class _Driver(msgspec.Struct, frozen=True, omit_defaults=True):
    devices: tuple[_Device, ...] | None = msgspec.field(name="Devices")
    skipped: tuple[str, ...] = msgspec.field(name="skipNodeOperations", default=())


class _Claim(msgspec.Struct, frozen=True, rename="pascal"):
    claim_uid: str = msgspec.field(name="ClaimUID")
    claim_name: str
    namespace: str
    pod_uids: dict[str, dict[str, int]] | None = msgspec.field(name="PodUIDs")
    driver_state: dict[str, _Driver] | None


class _Data(msgspec.Struct, frozen=True):
    kind: str
    version: str = msgspec.field(name="apiVersion")
    claims: tuple[_Claim, ...] | None = msgspec.field(name="ClaimInfoStateList")


class _File(msgspec.Struct, frozen=True, rename="pascal"):
    data: str
    checksum: int


def encode_claims(states: Iterable[ClaimState]) -> bytes:
    """Return the content of the file."""
    claims = tuple(_encode(state) for state in states)
    data = msgspec.json.encode(_Data(kind=_KIND, version=_VERSION, claims=claims))
    return msgspec.json.encode(_File(data=data.decode(), checksum=zlib.crc32(data)))


def decode_claims(content: bytes, path: object) -> tuple[ClaimState, ...]:
    """Return the claims that a file tells of.

    Args:
        path: The file, for errors.

    Raises:
        CheckpointError: It is no checkpoint, or its checksum is wrong.
    """
    hint = "drain the node and remove the file"
    try:
        file = msgspec.json.decode(content, type=_File)
        data = msgspec.json.decode(file.data, type=_Data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CheckpointError(path, f"can't be read: {error}", hint=hint) from error
    if (actual := zlib.crc32(file.data.encode())) != file.checksum:
        raise CheckpointError(path, f"found checksum {file.checksum}, allowed {actual}", hint=hint)
    return tuple(_decode(claim) for claim in data.claims or ())


def _encode(state: ClaimState) -> _Claim:
    drivers = {driver: _Driver(_encode_devices(state, driver), skipped) for driver, skipped in state.skips.items()}
    return _Claim(
        claim_uid=state.uid,
        claim_name=state.name,
        namespace=state.namespace,
        pod_uids={uid: {} for uid in sorted(state.pods)},
        driver_state=drivers,
    )


def _encode_devices(state: ClaimState, driver: str) -> tuple[_Device, ...] | None:
    devices = state.devices.get(driver)
    return None if devices is None else tuple(map(_encode_device, devices))


def _encode_device(device: PreparedDevice) -> _Device:
    return _Device(
        pool_name=device.pool,
        device_name=device.device,
        share_id=device.share_id or None,
        request_names=device.requests or None,
        cdi_device_ids=device.cdi_ids or None,
    )


def _decode(claim: _Claim) -> ClaimState:
    drivers = claim.driver_state or {}
    return ClaimState(
        namespace=claim.namespace,
        name=claim.claim_name,
        uid=claim.claim_uid,
        pods=set(claim.pod_uids or ()),
        skips={driver: state.skipped for driver, state in drivers.items()},
        devices={
            driver: tuple(_decode_device(device) for device in state.devices)
            for driver, state in drivers.items()
            if state.devices is not None
        },
    )


def _decode_device(device: _Device) -> PreparedDevice:
    return PreparedDevice(
        pool=device.pool_name,
        device=device.device_name,
        requests=device.request_names or (),
        cdi_ids=device.cdi_device_ids or (),
        share_id=device.share_id or "",
    )
