from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from claimsmith.errors import ClaimNotReadyError, DeviceHeldError, DriverError
from claimsmith.model.prepared import ClaimKey, DeviceMetadata, PreparedDevices, PrepareRequest
from claimsmith.node.ledger import CHECKPOINT_FILE
from claimsmith.node.preparation import Preparation
from claimsmith.telemetry import CHECKPOINT_DAMAGED, CLAIMS_PREPARED, Meter
from claimsmith.testing.builders import claim_key, prepare_request, requested
from tests.unit.node.recording_driver import RecordingDriver


class TellingDriver(RecordingDriver):
    """Tells programs in containers of each device."""

    def prepare(self, request: PrepareRequest) -> PreparedDevices:
        made = super().prepare(request)
        return replace(made, devices=tuple(replace(item, metadata=DeviceMetadata()) for item in made.devices))


class Bench:
    """A node with one driver; `start` is what a start of the driver's process does."""

    def __init__(self, root: Path) -> None:
        self.folder, self.cdi = root / "plugin", root / "cdi"
        self.folder.mkdir()
        self.cdi.mkdir()
        self.driver, self.meter = RecordingDriver(), Meter()
        self.boot_id = "first-boot"

    def start(self) -> Preparation:
        preparation = Preparation(
            self.driver, folder=self.folder, cdi_folder=self.cdi, boot_id=self.boot_id, meter=self.meter
        )
        preparation.open()
        return preparation

    def files(self) -> list[str]:
        return sorted(path.name for path in self.cdi.iterdir())


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def ask(name: str = "claim", *devices: str) -> PrepareRequest:
    return prepare_request(*(devices or ("gpu-0",)), claim=claim_key(name))


def test_the_second_call_answers_without_the_driver(bench: Bench) -> None:
    preparation = bench.start()
    first = preparation.prepare(ask())

    assert preparation.prepare(ask()) == first
    assert bench.driver.calls == [("prepare", "uid-claim")]


def test_the_answer_outlives_the_process(bench: Bench) -> None:
    first = bench.start().prepare(ask())

    assert bench.start().prepare(ask()) == first
    assert bench.driver.calls == [("prepare", "uid-claim")]


def test_the_entry_of_a_claim_is_flushed_and_named_before_the_driver_is_called_and_nothing_else_is(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    preparation, events, flush = bench.start(), list[tuple[str, bool]](), os.fsync

    def find_entry() -> bool:
        return b"uid-claim" in (bench.folder / CHECKPOINT_FILE).read_bytes()

    def note(descriptor: int) -> None:
        events.append((Path(os.readlink(f"/proc/self/fd/{descriptor}")).name, find_entry()))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    bench.driver.fail = lambda operation: events.append((operation, find_entry()))
    preparation.prepare(ask())

    assert events == [(f".{CHECKPOINT_FILE}.tmp", False), ("prepare", True)]


def test_a_claim_that_is_prepared_again_is_not_written_again(bench: Bench) -> None:
    preparation = bench.start()
    preparation.prepare(ask())
    (bench.cdi / bench.files()[0]).unlink()
    before = (bench.folder / CHECKPOINT_FILE).stat()
    preparation.prepare(ask())

    assert (bench.folder / CHECKPOINT_FILE).stat() == before


def test_what_was_written_before_a_failed_preparation_is_no_answer(bench: Bench) -> None:
    bench.driver = TellingDriver()
    preparation = bench.start()
    preparation.prepare(ask())
    (path,) = bench.folder.glob("dra-device-metadata/*/*/metadata.json")
    path.unlink()
    bench.driver.fail = _raise_once()
    with pytest.raises(DriverError):
        preparation.prepare(ask())

    assert (preparation.find_answer(claim_key()), bench.files()) == (None, [])


def test_claims_of_which_a_stopped_process_gave_no_answer_are_known(bench: Bench) -> None:
    preparation = bench.start()
    preparation.prepare(ask("answered", "gpu-0"))
    bench.driver.fail = _raise_once()
    with pytest.raises(DriverError):
        preparation.prepare(ask("begun", "gpu-1"))

    assert bench.start().find_unanswered() == (claim_key("begun"),)
    bench.boot_id = "second-boot"
    assert bench.start().find_unanswered() == ()


def test_a_device_of_another_claim_is_refused_with_its_holder(bench: Bench) -> None:
    preparation = bench.start()
    preparation.prepare(ask("held"))

    with pytest.raises(DeviceHeldError, match=r"/gpu-0: found prepared for claim default/held \(uid uid-held\)"):
        preparation.prepare(ask("thief"))
    assert bench.files() == ["k8s.gpu.example.test-claim_uid-held.json"]


def test_shares_of_one_device_go_to_several_claims(bench: Bench) -> None:
    preparation = bench.start()
    for name in ("a", "b"):
        preparation.prepare(prepare_request(requested("nic-0", share=f"share-{name}"), claim=claim_key(name)))

    assert len(preparation.claims()) == 2


def test_a_share_of_a_device_that_a_claim_has_for_itself_is_refused(bench: Bench) -> None:
    preparation = bench.start()
    preparation.prepare(ask("held"))

    with pytest.raises(DeviceHeldError):
        preparation.prepare(prepare_request(requested("gpu-0", share="s"), claim=claim_key("b")))


def test_unprepare_leaves_nothing_behind_and_frees_the_device(bench: Bench) -> None:
    preparation = bench.start()
    preparation.prepare(ask("held"))
    preparation.unprepare(claim_key("held"))

    assert (preparation.claims(), bench.files()) == ((), [])
    assert preparation.prepare(ask("next")).finished


@pytest.mark.parametrize("uid", ["never-seen", "../../etc/passwd", "", "a/b"])
def test_unprepare_of_an_unknown_claim_succeeds_whatever_its_uid(bench: Bench, uid: str) -> None:
    bench.start().unprepare(claim_key(uid=uid))

    assert bench.files() == []


def test_a_uid_that_is_no_file_name_is_refused(bench: Bench) -> None:
    with pytest.raises(ClaimNotReadyError, match=r"found uid '\.\./x', allowed"):
        bench.start().prepare(prepare_request("gpu-0", claim=claim_key(uid="../x")))


def test_a_removed_cdi_file_comes_back_with_the_next_call(bench: Bench) -> None:
    preparation = bench.start()
    first = preparation.prepare(ask())
    (bench.cdi / bench.files()[0]).unlink()

    assert preparation.prepare(ask()) == first
    assert len(bench.files()) == 1


def test_a_removed_metadata_file_comes_back_with_the_next_call(bench: Bench) -> None:
    bench.driver = TellingDriver()
    preparation = bench.start()
    first = preparation.prepare(ask())
    (path,) = bench.folder.glob("dra-device-metadata/*/*/metadata.json")
    whole = path.read_bytes()
    path.unlink()

    assert preparation.prepare(ask()) == first
    assert path.read_bytes() == whole


def test_after_a_reboot_devices_are_prepared_as_they_are_now_under_the_same_ids(bench: Bench) -> None:
    first = bench.start().prepare(ask())
    (bench.cdi / bench.files()[0]).unlink()
    bench.boot_id, bench.driver.minor = "second-boot", 3
    again = bench.start().prepare(ask())

    assert [device.cdi_ids for device in again.devices] == [device.cdi_ids for device in first.devices]
    assert '"minor": 3' in (bench.cdi / bench.files()[0]).read_text()


def test_after_a_reboot_a_cdi_file_that_is_still_there_does_not_count(bench: Bench) -> None:
    bench.start().prepare(ask())
    bench.boot_id, bench.driver.minor = "second-boot", 3
    bench.start().prepare(ask())

    assert '"minor": 3' in (bench.cdi / bench.files()[0]).read_text()


def test_a_cdi_file_that_describes_other_devices_is_written_anew(bench: Bench) -> None:
    preparation = bench.start()
    preparation.prepare(ask())
    path = bench.cdi / bench.files()[0]
    whole = path.read_text()
    path.write_text(whole.replace("gpu-0", "gpu-7"))
    preparation.prepare(ask())

    assert path.read_text() == whole


def test_after_a_reboot_a_claim_still_holds_its_devices(bench: Bench) -> None:
    bench.start().prepare(ask("held"))
    bench.boot_id = "second-boot"

    with pytest.raises(DeviceHeldError, match="uid-held"):
        bench.start().prepare(ask("thief"))


def test_a_damaged_checkpoint_is_rebuilt_so_that_a_thief_is_still_refused(bench: Bench) -> None:
    bench.start().prepare(ask("held"))
    (bench.folder / "checkpoint.json").write_bytes(b"")
    preparation = bench.start()

    with pytest.raises(DeviceHeldError, match="uid-held"):
        preparation.prepare(ask("thief"))
    preparation.unprepare(claim_key("held"))
    assert preparation.prepare(ask("thief")).finished
    assert bench.meter.values()[CHECKPOINT_DAMAGED, (("driver", bench.driver.name),)] == 1


def test_files_of_others_in_the_cdi_folder_stay_as_they_are(bench: Bench) -> None:
    foreign = {"other.json": b"{", "k8s.gpu.example.test-claim_u9.json": b"half a fi"}
    for name, data in foreign.items():
        (bench.cdi / name).write_bytes(data)
    (bench.folder / "checkpoint.json").write_bytes(b"")
    preparation = bench.start()
    preparation.prepare(ask())
    preparation.unprepare(claim_key())

    assert {name: (bench.cdi / name).read_bytes() for name in bench.files()} == foreign


@pytest.mark.parametrize("error", [RuntimeError("boom"), SystemExit(3)])
def test_whatever_a_driver_raises_is_an_error_of_the_claim(bench: Bench, error: BaseException) -> None:
    def fail(operation: str) -> None:
        raise error

    bench.driver.fail = fail

    with pytest.raises(
        DriverError, match=r"^driver gpu\.example\.test: prepare failed: (RuntimeError: boom|SystemExit: 3)$"
    ):
        bench.start().prepare(ask())


def test_a_prepare_that_answers_nothing_is_told_what_it_must_answer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.driver, "prepare", lambda request: None)

    with pytest.raises(DriverError, match=r"prepare: found null, allowed a PreparedDevices; correct the driver$"):
        bench.start().prepare(ask())


def test_a_claim_whose_preparation_failed_holds_its_devices_until_it_is_unprepared(bench: Bench) -> None:
    def fail(operation: str) -> None:
        if operation == "prepare":
            raise RuntimeError

    preparation, bench.driver.fail = bench.start(), fail
    with pytest.raises(DriverError):
        preparation.prepare(ask("failed"))
    bench.driver.fail = lambda operation: None

    with pytest.raises(DeviceHeldError, match="uid-failed"):
        preparation.prepare(ask("next"))
    preparation.unprepare(claim_key("failed"))
    assert preparation.prepare(ask("next")).finished


def test_a_claim_that_was_allocated_anew_after_a_failure_is_prepared_with_its_new_devices(bench: Bench) -> None:
    preparation = bench.start()
    bench.driver.fail = _raise_once()
    with pytest.raises(DriverError):
        preparation.prepare(ask("claim", "gpu-0"))
    preparation.prepare(ask("claim", "gpu-1"))

    assert [device.id.device for entry in preparation.claims() for device in entry.devices] == ["gpu-1"]
    assert bench.driver.calls[1] == ("unprepare", "uid-claim")


def test_a_prepared_claim_is_not_prepared_with_other_devices(bench: Bench) -> None:
    preparation = bench.start()
    preparation.prepare(ask("claim", "gpu-0"))

    with pytest.raises(ClaimNotReadyError, match=r"found it prepared with .*/gpu-0, allowed the devices allocated now"):
        preparation.prepare(ask("claim", "gpu-1"))


def test_a_failed_unprepare_keeps_the_devices_and_can_be_repeated(bench: Bench) -> None:
    preparation = bench.start()
    preparation.prepare(ask("held"))
    bench.driver.fail = _raise_once()
    with pytest.raises(DriverError):
        preparation.unprepare(claim_key("held"))

    with pytest.raises(DeviceHeldError):
        preparation.prepare(ask("thief"))
    preparation.unprepare(claim_key("held"))
    assert preparation.claims() == ()


def test_a_claim_whose_unprepare_failed_is_prepared_anew_by_the_driver(bench: Bench) -> None:
    preparation = bench.start()
    preparation.prepare(ask())
    bench.driver.fail = _raise_once()
    with pytest.raises(DriverError):
        preparation.unprepare(claim_key())
    preparation.prepare(ask())

    assert [operation for operation, _ in bench.driver.calls] == ["prepare", "unprepare", "prepare"]


def test_the_number_of_prepared_claims_is_measured(bench: Bench) -> None:
    preparation = bench.start()
    preparation.prepare(ask("a", "gpu-0"))
    preparation.prepare(ask("b", "gpu-1"))
    preparation.unprepare(claim_key("a"))

    assert bench.meter.values()[CLAIMS_PREPARED, (("driver", bench.driver.name),)] == 1


def _raise_once() -> Callable[[str], None]:
    """Return what fails the first call of a driver and lets the others pass."""
    raised: Iterator[bool] = iter((True,))

    def fail(operation: str) -> None:
        if next(raised, False):
            raise RuntimeError(operation)

    return fail


STEPS = range(1, 8)
"""Changes of file names in one prepare and one unprepare."""


class PowerLoss(BaseException):
    """Ends the process where it is."""


def _stop_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Let the step-th change of a file name (rename or removal) fail as if the process had ended before it."""
    steps = iter(range(1, 100))

    for name in ("replace", "unlink"):
        real = getattr(os, name)

        def change(*args: object, real: object = real) -> None:
            if next(steps) == step:
                raise PowerLoss
            real(*args)  # type: ignore[operator]

        monkeypatch.setattr(os, name, change)


def run_until(preparation: Preparation, request: PrepareRequest, step: int) -> bool:
    """Prepare and unprepare a claim; stop before the step-th change of a file; tell whether it came to that."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        _stop_at(monkeypatch, step)
        try:
            preparation.prepare(request)
            preparation.unprepare(request.claim)
        except PowerLoss:
            return True
    return False


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("reboots", [False, True])
def test_a_stop_between_any_two_steps_is_mended_by_the_next_prepare(bench: Bench, step: int, reboots: bool) -> None:
    assert run_until(bench.start(), ask(), step)
    bench.boot_id = "second-boot" if reboots else bench.boot_id
    entry = bench.start().prepare(ask())

    assert entry.finished
    assert bench.files() == ["k8s.gpu.example.test-claim_uid-claim.json"]


@pytest.mark.parametrize("step", STEPS)
def test_a_stop_between_any_two_steps_is_mended_by_the_next_unprepare(bench: Bench, step: int) -> None:
    assert run_until(bench.start(), ask(), step)
    preparation = bench.start()
    preparation.unprepare(claim_key())

    assert (preparation.claims(), bench.files()) == ((), [])
    assert preparation.prepare(ask("next")).finished


def test_the_steps_above_are_all_there_are(bench: Bench) -> None:
    assert not run_until(bench.start(), ask(), STEPS.stop)


def test_a_claim_made_again_under_the_same_name_is_another_claim(bench: Bench) -> None:
    preparation = bench.start()
    preparation.prepare(prepare_request("gpu-0", claim=claim_key("a", uid="u1")))

    with pytest.raises(DeviceHeldError, match="uid u1"):
        preparation.prepare(prepare_request("gpu-0", claim=ClaimKey(namespace="default", name="a", uid="u2")))
