from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimsmith.errors import CheckpointError, ConfigError
from claimsmith.model.names import DeviceId
from claimsmith.model.prepared import ClaimKey
from claimsmith.node.checkpoint import Checkpoint, Content, encode_content, parse_content
from claimsmith.node.entry import Grant, HeldDevice, PreparedClaim, grant_key
from tests.unit.node import checkpoint_v1

PATH = Path("checkpoint.json")


def entry(uid: str, device: str = "gpu-0", *, boot_id: str = "boot", finished: bool = True) -> PreparedClaim:
    held = HeldDevice(id=DeviceId("gpu.example.test", "node-a", device), request="r", share_id="s", cdi_ids=("a/b=c",))
    key = ClaimKey(namespace="default", name=f"claim-{uid}", uid=uid)
    return PreparedClaim(claim=key, devices=(held,), boot_id=boot_id, finished=finished)


def grant(*ids: str, finished: bool = True) -> Grant:
    devices = tuple(HeldDevice(id=DeviceId("gpu.example.test", "node-a", id_), request="device") for id_ in ids)
    key = grant_key("example.test/gpu", ids)
    held = PreparedClaim(claim=key, devices=devices, boot_id="boot", finished=finished)
    return Grant(entry=held, resource="example.test/gpu", ids=ids, granted_s=1.5)


def encode_claims(entries: list[PreparedClaim]) -> bytes:
    return encode_content(Content.of(entries))


def opened(path: Path, *rebuilt: PreparedClaim) -> Checkpoint:
    checkpoint = Checkpoint(path, lambda: rebuilt)
    checkpoint.open()
    return checkpoint


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
DEVICES = st.builds(
    HeldDevice,
    id=st.builds(DeviceId, TEXT, TEXT, TEXT),
    request=TEXT,
    share_id=TEXT,
    admin_access=st.booleans(),
    cdi_ids=st.tuples(TEXT),
)
ENTRIES = st.builds(
    PreparedClaim,
    claim=st.builds(ClaimKey, namespace=TEXT, name=TEXT, uid=TEXT),
    devices=st.lists(DEVICES, max_size=3).map(tuple),
    boot_id=TEXT,
    finished=st.booleans(),
)


GRANTS = st.builds(
    Grant,
    entry=ENTRIES,
    resource=TEXT,
    ids=st.lists(TEXT, max_size=3).map(tuple),
    granted_s=st.floats(0, 1e10, allow_nan=False),
)


@given(claims=st.lists(ENTRIES, max_size=4), grants=st.lists(GRANTS, max_size=3))
def test_what_is_written_is_read(claims: list[PreparedClaim], grants: list[Grant]) -> None:
    content = Content.of(claims, grants)

    assert parse_content(encode_content(content), PATH) == content


@given(st.integers(min_value=0, max_value=900), st.integers(min_value=1, max_value=255))
def test_a_file_with_one_changed_byte_is_never_read_as_something_else(position: int, change: int) -> None:
    whole = Content.of([entry("u1")], [grant("gpu-1")])
    data = bytearray(encode_content(whole))
    data[position % len(data)] ^= change

    try:
        found = parse_content(bytes(data), PATH)
    except CheckpointError:
        found = None
    assert found in (None, whole)


def test_entries_outlive_the_process(tmp_path: Path) -> None:
    first = opened(tmp_path / PATH)
    first.put(entry("u1"))
    first.put(entry("u2"))
    first.remove("u1")

    assert opened(tmp_path / PATH).claims() == (entry("u2"),)


def test_what_is_put_and_removed_is_on_the_disk_under_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, flushed, flush = opened(tmp_path / PATH), list[tuple[str, bool]](), os.fsync

    def note(descriptor: int) -> None:
        """Remember what was flushed, and whether the file knew the grant by then."""
        name = Path(os.readlink(f"/proc/self/fd/{descriptor}")).name
        flushed.append((name, b"gpu-0" in (tmp_path / PATH).read_bytes()))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    checkpoint.put(grant("gpu-0"))
    checkpoint.remove_grant(grant("gpu-0").uid)

    hidden, folder = f".{PATH.name}.tmp", tmp_path.name
    assert flushed == [(hidden, False), (folder, True), (hidden, True), (folder, False)]


def test_grants_outlive_the_process(tmp_path: Path) -> None:
    first = opened(tmp_path / PATH)
    first.put(grant("gpu-0"), grant("gpu-1"))
    first.remove_grant(grant("gpu-0").uid)

    assert opened(tmp_path / PATH).grants() == (grant("gpu-1"),)


def test_a_claim_and_a_grant_are_written_together_or_not_at_all(tmp_path: Path) -> None:
    writes = []
    checkpoint = Checkpoint(tmp_path / PATH, lambda: (), write=lambda path, data: writes.append(data))
    checkpoint.put(entry("u1"), grant("gpu-1"))

    assert [parse_content(data, PATH) for data in writes] == [Content.of([entry("u1")], [grant("gpu-1")])]


def test_what_cdi_files_tell_of_grants_is_a_grant_again(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path / PATH, entry("u1"), grant("gpu-1").entry)

    assert checkpoint.claims() == (entry("u1"),)
    (found,) = checkpoint.grants()
    assert (found.entry, found.resource, found.ids) == (grant("gpu-1").entry, "example.test/gpu", ())


def test_another_process_of_the_driver_sees_what_was_written(tmp_path: Path) -> None:
    old, new = opened(tmp_path / PATH), opened(tmp_path / PATH)
    old.put(entry("u1"))
    new.refresh()

    assert new.find("u1") == entry("u1")


def _replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "random bytes": lambda path: path.write_bytes(bytes(range(256))),
    "wrong checksum": lambda path: path.write_bytes(path.read_bytes().replace(b"gpu-0", b"gpu-1")),
    "folder": _replace_by_folder,
    "other JSON": lambda path: path.write_bytes(b"[1, 2]"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_put_aside_and_rebuilt_from_the_cdi_files(tmp_path: Path, damage: str) -> None:
    opened(tmp_path / PATH).put(entry("u1"))
    DAMAGES[damage](tmp_path / PATH)
    checkpoint = opened(tmp_path / PATH, entry("u1"))

    assert checkpoint.claims() == (entry("u1"),)
    assert checkpoint.damaged == (tmp_path / "checkpoint.json.damaged-1",)
    assert checkpoint.damaged[0].exists()


def test_a_file_that_is_cut_at_any_byte_is_damaged() -> None:
    data = encode_content(Content.of([entry("u1")], [grant("gpu-1")]))

    assert [parse_content(data[:length], PATH) for length in range(len(data))] == [None] * len(data)


def test_damage_loses_neither_claims_nor_grants(tmp_path: Path) -> None:
    opened(tmp_path / PATH).put(entry("u1"), grant("gpu-1"))
    (tmp_path / PATH).write_bytes((tmp_path / PATH).read_bytes()[:300])
    checkpoint = opened(tmp_path / PATH, entry("u1"), grant("gpu-1").entry)

    assert checkpoint.claims() == (entry("u1"),)
    assert [item.entry for item in checkpoint.grants()] == [grant("gpu-1").entry]


def test_a_second_damaged_file_does_not_replace_the_first_one(tmp_path: Path) -> None:
    for content in (b"one", b"two"):
        (tmp_path / PATH).write_bytes(content)
        opened(tmp_path / PATH)

    assert [(tmp_path / f"checkpoint.json.damaged-{n}").read_bytes() for n in (1, 2)] == [b"one", b"two"]


def test_a_missing_file_is_rebuilt_from_the_cdi_files(tmp_path: Path) -> None:
    opened(tmp_path / PATH, entry("u1"))

    assert opened(tmp_path / PATH).claims() == (entry("u1"),)


def test_damage_while_the_driver_runs_loses_no_claim(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path / PATH)
    checkpoint.put(entry("u1"))
    (tmp_path / PATH).write_bytes(b"")
    checkpoint.refresh()

    assert checkpoint.claims() == (entry("u1"),)


def _written_by(version: int, min_reader: int) -> bytes:
    document = json.loads(encode_claims([entry("u1")]))
    return json.dumps({**document, "version": version, "minReader": min_reader, "later": True}).encode()


def test_a_file_of_a_later_version_that_must_not_be_read_is_refused_and_kept(tmp_path: Path) -> None:
    data = _written_by(4, 3)
    (tmp_path / PATH).write_bytes(data)

    with pytest.raises(CheckpointError, match=r"found version 4, readable from version 3 on, allowed at most 2; start"):
        opened(tmp_path / PATH)
    assert (tmp_path / PATH).read_bytes() == data


def test_a_file_of_a_later_version_that_may_be_read_is_read() -> None:
    # Written by hand: spaces in the claims would change their checksum.
    data = encode_claims([entry("u1")]).replace(b'"version":2', b'"later":true,"version":3')

    assert parse_content(data, PATH) == Content.of([entry("u1")])


OLD_CLAIM = checkpoint_v1.Claim(
    namespace="default",
    name="claim-u1",
    uid="u1",
    boot="boot",
    finished=True,
    devices=(
        checkpoint_v1.Device(
            driver="gpu.example.test", pool="node-a", device="gpu-0", request="r", share="s", cdi=("a/b=c",)
        ),
    ),
)


def test_the_file_of_the_version_before_is_read(tmp_path: Path) -> None:
    (tmp_path / PATH).write_bytes(checkpoint_v1.encode([OLD_CLAIM]))

    assert opened(tmp_path / PATH).claims() == (entry("u1"),)


def test_the_version_before_reads_the_claims_as_long_as_there_are_no_grants(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path / PATH)
    checkpoint.put(entry("u1"), grant("gpu-1"))
    checkpoint.remove_grant(grant("gpu-1").uid)

    assert checkpoint_v1.parse((tmp_path / PATH).read_bytes(), PATH) == [OLD_CLAIM]


def test_the_version_before_refuses_a_file_with_grants_that_it_would_forget(tmp_path: Path) -> None:
    opened(tmp_path / PATH).put(entry("u1"), grant("gpu-1"))

    with pytest.raises(CheckpointError, match="found version 2"):
        checkpoint_v1.parse((tmp_path / PATH).read_bytes(), PATH)


def test_going_up_and_back_and_up_again_loses_no_claim(tmp_path: Path) -> None:
    (tmp_path / PATH).write_bytes(checkpoint_v1.encode([OLD_CLAIM]))
    opened(tmp_path / PATH).put(entry("u2", "gpu-2"))
    back = checkpoint_v1.parse((tmp_path / PATH).read_bytes(), PATH)
    assert back is not None
    (tmp_path / PATH).write_bytes(checkpoint_v1.encode(back))

    assert opened(tmp_path / PATH).claims() == (entry("u1"), entry("u2", "gpu-2"))


def test_a_folder_that_can_not_be_written_shows_at_the_start_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match=r"^file .*checkpoint\.json: can't be written: .*; correct [^\n]*$"):
        opened(tmp_path / "file" / PATH)
