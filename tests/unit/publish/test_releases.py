"""Devices to be released are asked for in an annotation, which keeps what others ask for."""

from __future__ import annotations

from typing import Any

import pytest

from claimsmith.errors import FieldError
from claimsmith.model.names import DeviceId
from claimsmith.publish.releases import RELEASE_ANNOTATION, parse_device_id, plan_releases, read_releases

ONE, OTHER = DeviceId("gpu.example.test", "node-a", "gpu-0"), DeviceId("gpu.example.test", "rack/7", "gpu-1")


def node(text: str = "") -> dict[str, Any]:
    return {"metadata": {"resourceVersion": "7", "annotations": {RELEASE_ANNOTATION: text} if text else {}}}


def asked(patch: Any) -> Any:
    return patch["metadata"]["annotations"][RELEASE_ANNOTATION]


@pytest.mark.parametrize("device", [ONE, OTHER])
def test_a_device_is_read_as_it_is_printed(device: DeviceId) -> None:
    assert parse_device_id(str(device)) == device


@pytest.mark.parametrize("text", ["", "gpu-0", "driver/gpu-0", "/pool/gpu-0", "driver/pool/"])
def test_a_text_with_fewer_parts_is_no_device(text: str) -> None:
    with pytest.raises(FieldError, match="DRIVER/POOL/DEVICE"):
        parse_device_id(text)


def test_words_that_are_no_device_are_passed_over() -> None:
    assert read_releases(node(f"nonsense {ONE}  {OTHER}")) == {ONE, OTHER}


def test_asking_keeps_what_others_ask_for() -> None:
    assert asked(plan_releases(node(str(ONE)), add=[OTHER])) == f"{ONE} {OTHER}"


def test_what_is_done_goes_and_nothing_leaves_no_annotation() -> None:
    assert asked(plan_releases(node(f"{ONE} {OTHER}"), done=[ONE])) == str(OTHER)
    assert asked(plan_releases(node(str(ONE)), done=[ONE])) is None


def test_what_is_asked_for_already_is_not_written_again() -> None:
    assert plan_releases(node(str(ONE)), add=[ONE]) is None
