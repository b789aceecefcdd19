"""Decoding a list of ResourceSlices, as a scheduler does when it starts, beside two peers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
from lightkube.models.resource_v1 import ResourceSliceList as LightkubeList

from claimsmith.api.wire.resource_slice import ResourceSliceList
from tests.bench.figures import Figure, measure_best
from tests.bench.slices import make_slice_list

REPEATS = 3


def measure(*, slices: int = 10_000) -> Iterator[Figure]:
    """Measure the decoding of so many slices of 8 devices with 10 attributes each."""
    text = make_slice_list(slices)
    decoder = msgspec.json.Decoder(ResourceSliceList)
    peer = msgspec.json.Decoder(LightkubeList)
    work = f"{slices:,} slices, 8 devices each, {len(text) / 1e6:.1f} MB, to typed objects"
    ours = measure_best(lambda: decoder.decode(text), repeats=REPEATS)
    yield Figure(
        name="decode-slices",
        ours=ours * 1e3,
        peer=measure_best(lambda: peer.decode(text), repeats=REPEATS) * 1e3,
        peer_name="lightkube's types",
        unit="ms",
        work=work,
    )
    yield Figure(
        name="decode-slices-beside-json",
        ours=ours * 1e3,
        peer=measure_best(lambda: json.loads(text), repeats=REPEATS) * 1e3,
        peer_name="json of the standard library, to dicts",
        unit="ms",
        work=work,
    )
