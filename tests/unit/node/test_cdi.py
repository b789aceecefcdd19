from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimsmith.errors import DriverAnswerError, DriverError
from claimsmith.model.prepared import (
    ContainerEdits,
    DeviceNode,
    Hook,
    Mount,
    PreparedDevice,
    PreparedDevices,
    PrepareRequest,
)
from claimsmith.node.cdi import CdiPlan, find_described_claim, plan_cdi_spec
from claimsmith.testing.builders import prepare_request, requested
from tests.unit.node.recording_driver import RecordingDriver

DRIVER = "gpu.example.test"
SCHEMA = json.loads(Path(__file__).with_name("cdi_schema.json").read_text(encoding="utf-8"))
NO_EDITS = ContainerEdits()


def plan(request: PrepareRequest, prepared: PreparedDevices) -> CdiPlan:
    return plan_cdi_spec(request, prepared, driver=DRIVER, boot_id="boot")


def answer(request: PrepareRequest, *edits: ContainerEdits, common: ContainerEdits = NO_EDITS) -> PreparedDevices:
    devices = tuple(
        PreparedDevice(device=device, edits=edit) for device, edit in zip(request.devices, edits, strict=True)
    )
    return PreparedDevices(devices=devices, common=common)


def edits_of(document: Mapping[str, Any], index: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = document["devices"][index]["containerEdits"]
    return found


FULL = ContainerEdits(
    env={"A": "two\nlines", "B": "x=y"},
    device_nodes=(DeviceNode(path="/dev/a", host_path="/dev/b", type="c", major=1, minor=2, permissions="rw"),),
    mounts=(Mount(host_path="/lib/x", container_path="/lib/y"),),
    hooks=(Hook(name="createContainer", path="/bin/h", args=("h", "-v"), env=("A=1",), timeout_s=3),),
)


def test_a_file_with_every_kind_of_edit_is_valid() -> None:
    request = prepare_request("gpu-0")

    jsonschema.validate(plan(request, answer(request, FULL, common=FULL)).document, SCHEMA)


def test_the_edits_are_those_of_the_driver_in_the_words_of_the_cdi() -> None:
    request = prepare_request("gpu-0")

    assert edits_of(plan(request, answer(request, FULL)).document) == {
        "env": ["A=two\nlines", "B=x=y"],
        "deviceNodes": [
            {"path": "/dev/a", "hostPath": "/dev/b", "type": "c", "permissions": "rw", "major": 1, "minor": 2}
        ],
        "mounts": [{"hostPath": "/lib/x", "containerPath": "/lib/y", "options": ["ro", "nosuid", "nodev", "bind"]}],
        "hooks": [{"hookName": "createContainer", "path": "/bin/h", "args": ["h", "-v"], "env": ["A=1"], "timeout": 3}],
    }


def test_a_device_without_edits_still_has_an_id_and_an_edit_that_runtimes_accept() -> None:
    request = prepare_request("gpu-0")
    made = plan(request, answer(request, NO_EDITS))

    assert made.entry.devices[0].cdi_ids == ("k8s.gpu.example.test/claim=uid-claim:r:gpu-0",)
    assert len(edits_of(made.document)["env"]) == 1


def test_each_request_has_its_own_devices_and_the_common_part_goes_to_all() -> None:
    request = prepare_request(requested("gpu-0", request="one"), requested("gpu-1", request="two"))
    common = ContainerEdits(env={"COMMON": "1"})
    made = plan(request, answer(request, ContainerEdits(env={"A": "0"}), ContainerEdits(env={"A": "1"}), common=common))

    assert [edits_of(made.document, index)["env"] for index in (0, 1)] == [["A=0"], ["A=1"]]
    assert made.document["containerEdits"] == {"env": ["COMMON=1"]}


def test_two_shares_of_one_device_for_one_request_have_different_ids() -> None:
    request = prepare_request(requested("nic-0", share="s1"), requested("nic-0", share="s2"))
    made = plan(request, answer(request, NO_EDITS, NO_EDITS))

    assert [device.cdi_ids[0].partition("=")[2] for device in made.entry.devices] == [
        "uid-claim:r:nic-0",
        "uid-claim:r:nic-0:2",
    ]


def test_the_answers_may_come_in_any_order() -> None:
    request = prepare_request("gpu-0", "gpu-1")
    prepared = answer(request, ContainerEdits(env={"A0": "0"}), ContainerEdits(env={"A1": "1"}))
    turned = replace(prepared, devices=prepared.devices[::-1])

    assert plan(request, turned) == plan(request, prepared)


@pytest.mark.parametrize(
    ("edits", "path"),
    [
        (ContainerEdits(env={"": "x"}), "env"),
        (ContainerEdits(env={"A=B": "x"}), "env"),
        (ContainerEdits(env={"A\n": "x"}), "env"),
        (ContainerEdits(env={"A": "x\0"}), "env[A]"),
        (ContainerEdits(device_nodes=(DeviceNode(path="dev/a"),)), "device_nodes[0].path"),
        (ContainerEdits(device_nodes=(DeviceNode(path="/dev/a", host_path="b"),)), "device_nodes[0].host_path"),
        (ContainerEdits(device_nodes=(DeviceNode(path="/dev/a", type="x"),)), "device_nodes[0].type"),
        (ContainerEdits(device_nodes=(DeviceNode(path="/dev/a", major=1),)), "device_nodes[0].type"),
        (ContainerEdits(device_nodes=(DeviceNode(path="/a", type="c", minor=-1),)), "device_nodes[0].minor"),
        (ContainerEdits(device_nodes=(DeviceNode(path="/a", permissions="rr"),)), "device_nodes[0].permissions"),
        (ContainerEdits(mounts=(Mount(host_path="", container_path="/a"),)), "mounts[0].host_path"),
        (ContainerEdits(mounts=(Mount(host_path="/a", container_path="a"),)), "mounts[0].container_path"),
        (ContainerEdits(hooks=(Hook(name="later", path="/a"),)), "hooks[0].name"),
        (ContainerEdits(hooks=(Hook(name="prestart", path="a"),)), "hooks[0].path"),
        (ContainerEdits(hooks=(Hook(name="prestart", path="/a", env=("A",)),)), "hooks[0].env[0]"),
        (ContainerEdits(hooks=(Hook(name="prestart", path="/a", timeout_s=0),)), "hooks[0].timeout_s"),
    ],
)
def test_a_value_that_a_runtime_refuses_is_refused_with_its_place(edits: ContainerEdits, path: str) -> None:
    request = prepare_request("gpu-0")

    with pytest.raises(DriverAnswerError) as caught:
        plan(request, answer(request, edits))
    assert caught.value.path == f"devices[0].edits.{path}"


def test_devices_of_one_request_that_disagree_about_a_variable_are_refused() -> None:
    request = prepare_request("gpu-0", "gpu-1")

    with pytest.raises(DriverAnswerError, match=r"^devices\[1\]\.edits\.env\[GPU\]: found '1', allowed '0', which the"):
        plan(request, answer(request, ContainerEdits(env={"GPU": "0"}), ContainerEdits(env={"GPU": "1"})))


def test_a_device_that_disagrees_with_the_common_part_about_a_variable_is_refused() -> None:
    request = prepare_request("gpu-0")

    with pytest.raises(DriverAnswerError, match=r"env\[GPU\]"):
        plan(request, answer(request, ContainerEdits(env={"GPU": "0"}), common=ContainerEdits(env={"GPU": "all"})))


def test_an_answer_without_one_of_the_devices_is_refused_with_its_name() -> None:
    request = prepare_request("gpu-0", "gpu-1")
    prepared = answer(request, NO_EDITS, NO_EDITS)

    with pytest.raises(DriverError, match=r"gpu-1 of request r: found 1 answer too few"):
        plan(request, replace(prepared, devices=prepared.devices[:1]))


def test_an_answer_for_a_device_that_nobody_asked_for_is_refused_with_its_name() -> None:
    request = prepare_request("gpu-0")
    surplus = PreparedDevice(device=requested("gpu-7"))
    prepared = answer(request, NO_EDITS)

    with pytest.raises(DriverError, match=r"gpu-7 of request r: found 1 answer too many"):
        plan(request, replace(prepared, devices=(*prepared.devices, surplus)))


def test_a_claim_is_read_back_from_its_file() -> None:
    request = prepare_request(requested("gpu-0"), requested("nic-0", request="n", share="s"))
    made = plan(request, RecordingDriver().prepare(request))

    assert find_described_claim(msgspec.json.encode(made.document), DRIVER) == made.entry


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", b'{"kind": "other/kind", "devices": []}'])
def test_a_file_that_is_damaged_or_not_ours_describes_no_claim(data: bytes) -> None:
    assert find_described_claim(data, DRIVER) is None


def test_a_file_of_another_driver_describes_no_claim() -> None:
    request = prepare_request("gpu-0")
    made = plan(request, answer(request, NO_EDITS))

    assert find_described_claim(msgspec.json.encode(made.document), "nic.example.com") is None


LABELS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
VARIABLES = st.dictionaries(
    st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="="), min_size=1, max_size=5),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20),
    max_size=4,
)


@given(names=st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=6), env=VARIABLES)
def test_every_file_is_valid_and_its_device_names_differ(names: list[tuple[str, str]], env: dict[str, str]) -> None:
    devices = [requested(device, request=name, share=f"s{i}") for i, (name, device) in enumerate(names)]
    request = prepare_request(*devices)
    made = plan(request, answer(request, *(ContainerEdits(env=env) for _ in devices)))
    ids = [id for device in made.entry.devices for id in device.cdi_ids]

    jsonschema.validate(json.loads(msgspec.json.encode(made.document)), SCHEMA)
    assert len(set(ids)) == len(names)
