"""Protobuf bodies, as kubectl writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimsmith.embedded.api.protobuf import decode_protobuf
from claimsmith.errors import RequestError

# The body of `kubectl create namespace foo`, as kubectl 1.32 sends it.
CREATE_NAMESPACE = bytes.fromhex(
    "6b3873000a0f0a02763112094e616d657370616365121b0a130a03666f6f12001a0022002a0032003800420012001a020a001a002200"
)


def message(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def body(kind: bytes, raw: bytes) -> bytes:
    return b"k8s\x00" + message(1, message(1, b"v1") + message(2, kind)) + message(2, raw)


def test_the_body_of_kubectl_create_namespace() -> None:
    assert decode_protobuf(CREATE_NAMESPACE) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "foo"},
    }


def test_numbers_maps_and_lists() -> None:
    metadata = message(1, b"p") + message(11, message(1, b"k") + message(2, b"v")) + message(14, b"f")
    raw = message(1, metadata) + b"\x10" + b"\xfb\xff\xff\xff\xff\xff\xff\xff\xff\x01" + b"\x18\x01"

    assert decode_protobuf(body(b"PriorityClass", raw)) == {
        "apiVersion": "v1",
        "kind": "PriorityClass",
        "metadata": {"name": "p", "labels": {"k": "v"}, "finalizers": ["f"]},
        "value": -5,
        "globalDefault": True,
    }


def test_a_grace_period_of_zero_is_kept() -> None:
    assert decode_protobuf(body(b"DeleteOptions", b"\x08\x00"))["gracePeriodSeconds"] == 0


def test_other_kinds_are_to_be_sent_as_json() -> None:
    with pytest.raises(RequestError, match="Pod is not accepted as protobuf; send application/json") as caught:
        decode_protobuf(body(b"Pod", b""))
    assert caught.value.status == 415


@given(st.binary(max_size=60), st.integers(0, len(CREATE_NAMESPACE)))
def test_damage_is_a_bad_request_at_worst(noise: bytes, cut: int) -> None:
    for damaged in (CREATE_NAMESPACE[:cut] + noise, body(b"Namespace", noise)):
        try:
            decode_protobuf(damaged)
        except RequestError as error:
            if error.status not in (400, 415):
                raise
