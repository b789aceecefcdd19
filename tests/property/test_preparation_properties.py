"""A node in random trouble: whatever stops, breaks or overlaps, no device is handed out twice and no claim forgotten.

The model is what a kubelet knows: which claims it was told are prepared. Two processes of one driver share the node, as
during a rolling update; either may be killed before any change of a file.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from claimsmith.errors import DeviceHeldError
from claimsmith.model.device import DeviceAttribute
from claimsmith.model.prepared import (
    ClaimKey,
    DeviceCondition,
    DeviceMetadata,
    DeviceStatus,
    PreparedDevices,
    PrepareRequest,
)
from claimsmith.node.claimfiles import METADATA_FOLDER, STATUS_FOLDER
from claimsmith.node.ledger import CHECKPOINT_FILE
from claimsmith.node.preparation import Preparation
from claimsmith.telemetry import Meter
from claimsmith.testing.builders import claim_key, prepare_request
from tests.unit.node.recording_driver import RecordingDriver

CLAIMS = {"a": "gpu-0", "b": "gpu-0", "c": "gpu-1", "d": "gpu-1"}
"""Claims and the device that each has: an allocation never changes."""
STATUS = DeviceStatus(conditions=(DeviceCondition(type="Ready", status="True", reason="Configured"),))

names = st.sampled_from(sorted(CLAIMS))
instances = st.sampled_from([0, 1])
steps = st.none() | st.integers(1, 14)


class KilledError(BaseException):
    """Ends a process where it is."""


class TellingDriver(RecordingDriver):
    """Tells of each device, so that a claim has every kind of file; knows which claim the hardware is set up for."""

    def __init__(self, hardware: dict[str, str]) -> None:
        super().__init__()
        self.hardware = hardware

    def unprepare(self, claim: ClaimKey) -> None:
        for device in [device for device, uid in self.hardware.items() if uid == claim.uid]:
            del self.hardware[device]

    def prepare(self, request: PrepareRequest) -> PreparedDevices:
        for device in request.devices:
            assert self.hardware.setdefault(device.id.device, request.claim.uid) == request.claim.uid
        made = super().prepare(request)
        metadata = DeviceMetadata(attributes={"model": DeviceAttribute.of("A100")})
        return replace(made, devices=tuple(replace(item, status=STATUS, metadata=metadata) for item in made.devices))


@contextmanager
def killed_at(step: int | None) -> Iterator[None]:
    """Let the step-th change of a file name end the process, as if it had been killed right before."""
    done = 0
    with pytest.MonkeyPatch.context() as patch:

        def counting(real: Callable[..., Any]) -> Callable[..., Any]:
            def change(*args: Any, **options: Any) -> Any:
                nonlocal done
                done += 1
                if done == step:
                    raise KilledError
                return real(*args, **options)

            return change

        for name in ("replace", "unlink", "rmdir", "mkdir"):
            patch.setattr(os, name, counting(getattr(os, name)))
        yield


class TroubledNode(RuleBasedStateMachine):
    """One node with two processes of one driver."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="cs-"))
        self.folder, self.cdi = self.root / "plugin", self.root / "cdi"
        for folder in (self.folder, self.cdi):
            folder.mkdir()
        self.boot = 0
        self.hardware: dict[str, str] = {}
        self.processes = [self.start(), self.start()]
        self.answered: set[str] = set()
        self.called: set[str] = set()

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    def start(self) -> Preparation:
        made = Preparation(
            TellingDriver(self.hardware),
            folder=self.folder,
            cdi_folder=self.cdi,
            boot_id=f"boot-{self.boot}",
            meter=Meter(),
        )
        made.open()
        return made

    @rule(name=names, instance=instances, step=steps)
    def prepare(self, name: str, instance: int, step: int | None) -> None:
        """The kubelet asks for a claim; it is told of a device that another claim has, never given it."""
        rivals = {other for other in self.answered if other != name and CLAIMS[other] == CLAIMS[name]}
        try:
            with killed_at(step):
                entry = self.processes[instance].prepare(prepare_request(CLAIMS[name], claim=claim_key(name)))
        except KilledError:
            self.called.add(name)
            self.processes[instance] = self.start()
        except DeviceHeldError:
            assert rivals | self.called
        else:
            assert not rivals
            assert entry.finished
            self.answered.add(name)
            self.called.discard(name)

    @rule(name=names, instance=instances, step=steps)
    def unprepare(self, name: str, instance: int, step: int | None) -> None:
        """The kubelet gives a claim back; from the moment of its call it uses the claim no more."""
        self.answered.discard(name)
        try:
            with killed_at(step):
                self.processes[instance].unprepare(claim_key(name))
        except KilledError:
            self.called.add(name)
            self.processes[instance] = self.start()
        else:
            self.called.discard(name)

    @rule(instance=instances, step=steps)
    def restart(self, instance: int, step: int | None) -> None:
        try:
            with killed_at(step):
                self.processes[instance] = self.start()
        except KilledError:
            self.processes[instance] = self.start()

    @rule()
    def reboot(self) -> None:
        """The CDI folder is a tmpfs; the kubelet asks again for the claims of the pods that it starts again."""
        self.boot += 1
        self.hardware.clear()
        for path in self.cdi.iterdir():
            path.unlink()
        self.processes = [self.start(), self.start()]
        for name in sorted(self.answered):
            assert self.processes[0].prepare(prepare_request(CLAIMS[name], claim=claim_key(name))).finished

    @precondition(lambda self: not self.called)
    @rule(part=st.floats(0, 1, exclude_max=True))
    def damage_checkpoint(self, part: float) -> None:
        """The file loses its end; what a call left half done then can't be known, so none is."""
        path = self.folder / CHECKPOINT_FILE
        data = path.read_bytes()
        path.write_bytes(data[: int(part * len(data))])
        self.processes = [self.start(), self.start()]

    @rule(name=names)
    def lose_cdi_file(self, name: str) -> None:
        """Somebody removes a CDI file; the next call brings it back."""
        if name in self.answered:
            next(self.cdi.glob(f"*_uid-{name}.json")).unlink()
            assert self.processes[0].prepare(prepare_request(CLAIMS[name], claim=claim_key(name))).finished

    @invariant()
    def no_claim_is_forgotten(self) -> None:
        with self.processes[0].ledger.writing() as checkpoint:
            known = {entry.claim.name for entry in checkpoint.claims() if entry.finished}

        assert self.answered <= known

    @invariant()
    def no_device_is_handed_out_twice(self) -> None:
        devices = [CLAIMS[name] for name in self.answered]

        assert len(devices) == len(set(devices))

    @invariant()
    def every_claim_has_its_files_and_others_have_none(self) -> None:
        described = {path.stem.partition("_uid-")[2] for path in self.cdi.glob("k8s*.json")}
        statuses = {path.stem.removeprefix("uid-") for path in (self.folder / STATUS_FOLDER).glob("*.json")}
        metadata = {path.parents[1].name.removeprefix("default_") for path in self.metadata_files()}

        for found in (described, statuses, metadata):
            assert self.answered <= found <= self.answered | self.called

    def metadata_files(self) -> list[Path]:
        return list((self.folder / METADATA_FOLDER).glob("*/*/metadata.json"))


TroubledNode.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
test_no_trouble_hands_a_device_out_twice_or_forgets_a_claim = TroubledNode.TestCase
