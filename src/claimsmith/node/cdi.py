"""From what a driver answered to a CDI file, and back: pure.

One file describes one claim. Each device is one CDI device, named after claim, request and device, so that a container
that names one request gets the devices of that request alone; what is common to the claim comes with any of them.

Source: Container Device Interface specification 0.6.0, whose features suffice, so that older runtimes read the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from claimsmith.errors import DriverError
from claimsmith.model.names import DeviceId
from claimsmith.model.prepared import ClaimKey, Mount, PreparedDevice, PreparedDevices, PrepareRequest, RequestedDevice
from claimsmith.node.cdi_edits import check_environment, plan_edits
from claimsmith.node.entry import HeldDevice, PreparedClaim

__all__ = [
    "CDI_VERSION",
    "CdiPlan",
    "cdi_kind",
    "find_described_claim",
    "find_mounted_files",
    "plan_cdi_spec",
    "plan_entry",
]

CDI_VERSION: Final = "0.6.0"
"""Version that the files name: the lowest with annotations and device names that begin with a digit."""


class _ClaimNote(msgspec.Struct, frozen=True):
    """Annotation of a file: whose it is."""

    namespace: str
    name: str
    uid: str
    boot: str


class _DeviceNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """Annotation of a CDI device: which device it is."""

    driver: str
    pool: str
    device: str
    request: str
    share: str = ""
    admin: bool = False


class _Mount(msgspec.Struct, frozen=True, rename="camel"):
    host_path: str = ""


class _Edits(msgspec.Struct, frozen=True):
    mounts: tuple[_Mount, ...] = ()


class _Device(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    annotations: dict[str, str]
    container_edits: _Edits = _Edits()


class _Spec(msgspec.Struct, frozen=True):
    kind: str
    annotations: dict[str, str]
    devices: list[_Device]


_CLAIM: Final = "claimsmith.dev/claim"
_DEVICE: Final = "claimsmith.dev/device"


@dataclass(frozen=True, slots=True, kw_only=True)
class CdiPlan:
    """What to write for a claim, and what to remember of it.

    Args:
        document: The content of the CDI file, as JSON values.
        entry: The claim with the CDI ids of its devices.
    """

    document: Mapping[str, object]
    entry: PreparedClaim


def cdi_kind(driver: str) -> str:
    """Return the CDI kind `vendor/class` of a driver's claims; the prefix makes it begin with a letter."""
    return f"k8s.{driver}/claim"


def plan_entry(request: PrepareRequest, *, driver: str, boot_id: str) -> PreparedClaim:
    """Return what to remember of a claim once it is prepared: it is known before the driver is called."""
    return _with_ids(PreparedClaim.begun(request, boot_id), cdi_kind(driver))


def plan_cdi_spec(
    request: PrepareRequest,
    prepared: PreparedDevices,
    *,
    driver: str,
    boot_id: str,
    mounts: Mapping[str, Mount] | None = None,
) -> CdiPlan:
    """Return the CDI file for what a driver answered.

    Args:
        request: The claim.
        prepared: The driver's answer.
        driver: Name of the driver.
        boot_id: Which boot of the machine this is.
        mounts: By request, what each of its containers gets besides.

    Raises:
        DriverAnswerError: A field of the answer can't be given to a container; the error names it.
        DriverError: The answer is not for exactly the devices that were asked for.
    """
    answers = _with_mounts(_match_answers(request, prepared), mounts or {})
    check_environment(answers, prepared.common)
    entry = plan_entry(request, driver=driver, boot_id=boot_id)
    note = _ClaimNote(namespace=request.claim.namespace, name=request.claim.name, uid=request.claim.uid, boot=boot_id)
    document: dict[str, object] = {
        "cdiVersion": CDI_VERSION,
        "kind": cdi_kind(driver),
        "annotations": {_CLAIM: _text(note)},
        "devices": [
            _plan_device(held, answer, f"devices[{index}].edits")
            for index, (held, answer) in enumerate(zip(entry.devices, answers, strict=True))
        ],
    }
    if common := plan_edits(prepared.common, "common"):
        document["containerEdits"] = common
    return CdiPlan(document=document, entry=entry)


def find_described_claim(data: bytes, driver: str) -> PreparedClaim | None:
    """Return the claim that a CDI file of this driver describes; None for a damaged or foreign file."""
    try:
        spec = msgspec.json.decode(data, type=_Spec)
        claim = msgspec.json.decode(spec.annotations.get(_CLAIM, ""), type=_ClaimNote)
        notes = [msgspec.json.decode(device.annotations.get(_DEVICE, ""), type=_DeviceNote) for device in spec.devices]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if spec.kind != cdi_kind(driver):
        return None
    devices = tuple(
        HeldDevice(
            id=DeviceId(note.driver, note.pool, note.device),
            request=note.request,
            share_id=note.share,
            admin_access=note.admin,
            cdi_ids=(f"{spec.kind}={device.name}",),
        )
        for note, device in zip(notes, spec.devices, strict=True)
    )
    key = ClaimKey(namespace=claim.namespace, name=claim.name, uid=claim.uid)
    return PreparedClaim(claim=key, devices=devices, boot_id=claim.boot)


def find_mounted_files(data: bytes, folder: Path) -> tuple[Path, ...]:
    """Return which files below a folder a CDI file mounts; none for a damaged file."""
    try:
        spec = msgspec.json.decode(data, type=_Spec)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ()
    paths = (Path(mount.host_path) for device in spec.devices for mount in device.container_edits.mounts)
    return tuple(path for path in paths if path.is_relative_to(folder))


def _identity(device: RequestedDevice) -> tuple[DeviceId, str, str]:
    return (device.id, device.request, device.share_id)


def _match_answers(request: PrepareRequest, prepared: PreparedDevices) -> Sequence[PreparedDevice]:
    """Return the answers in the order of the request."""
    answers = {_identity(answer.device): answer for answer in prepared.devices}
    asked = Counter(_identity(device) for device in request.devices)
    answered = Counter(_identity(answer.device) for answer in prepared.devices)
    for (device, name, _), surplus in (asked - answered).items():
        raise DriverError(f"device {device} of request {name}: found {surplus} answer too few; correct the driver")
    for (device, name, _), surplus in (answered - asked).items():
        raise DriverError(f"device {device} of request {name}: found {surplus} answer too many; correct the driver")
    return [answers[_identity(device)] for device in request.devices]


def _with_mounts(answers: Sequence[PreparedDevice], mounts: Mapping[str, Mount]) -> Sequence[PreparedDevice]:
    """Return the answers; the first device of each request brings what all its containers get."""
    left = dict(mounts)

    def mounted(answer: PreparedDevice) -> PreparedDevice:
        mount = left.pop(answer.device.request, None)
        if mount is None:
            return answer
        return replace(answer, edits=replace(answer.edits, mounts=(*answer.edits.mounts, mount)))

    return [mounted(answer) for answer in answers]


def _with_ids(entry: PreparedClaim, kind: str) -> PreparedClaim:
    """Return the entry, finished, with the CDI id of each device; equal names are told apart by their number."""
    seen: Counter[str] = Counter()
    devices = []
    for device in entry.devices:
        name = f"{entry.claim.uid}:{device.request}:{device.id.device}"
        seen[name] += 1
        number = f":{seen[name]}" if seen[name] > 1 else ""
        devices.append(replace(device, cdi_ids=(f"{kind}={name}{number}",)))
    return replace(entry, devices=tuple(devices), finished=True)


def _plan_device(held: HeldDevice, answer: PreparedDevice, path: str) -> dict[str, object]:
    name = held.cdi_ids[0].partition("=")[2]
    note = _DeviceNote(
        driver=held.id.driver,
        pool=held.id.pool,
        device=held.id.device,
        request=held.request,
        share=held.share_id,
        admin=held.admin_access,
    )
    # A runtime refuses a CDI device without any edit.
    edits = plan_edits(answer.edits, path) or {"env": [f"{_filler_name(name)}={held.id}"]}
    return {"name": name, "annotations": {_DEVICE: _text(note)}, "containerEdits": edits}


def _filler_name(name: str) -> str:
    return "CLAIMSMITH_DEVICE_" + "".join(letter if letter.isalnum() else "_" for letter in name)


def _text(note: msgspec.Struct) -> str:
    return msgspec.json.encode(note).decode()
