"""Evaluations of a selector per second on devices that are prepared, beside upstream's CEL and one written in Rust.

All three evaluate the same selector on the same devices in one run; type guards, error capture and the cost limit are
on in ours and in upstream's. By columns a whole cluster is judged at once: that figure stands beside our own scalar
engine, the making of the columns that the selector reads apart from the evaluation on columns that are made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cel as peer_cel

from claimsmith.api.resource import parse_resource_slice_list
from claimsmith.cel import Program, compile_expression, prepare_device
from claimsmith.cel.columns import DeviceColumns, evaluate_columns
from claimsmith.model.pool import ResourceSlice
from tests.bench.figures import Figure, measure_best
from tests.bench.slices import DRIVER, make_slice_list
from tests.bench.upstream import NAME, Peer, UpstreamPeer

REPEATS = 5
SCHEDULER = ", as its scheduler does it: each device is made ready for each evaluation"
RUST = "common-expression-language (Rust)"
SCALAR = "our own scalar engine, on the same devices"
ATTRIBUTES = (
    f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].model == "H100" && '
    f'device.attributes["{DRIVER}"].index >= 0'
)
QUANTITY = f'device.driver == "{DRIVER}" && device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
OWN_VALUE = f'device.attributes["{DRIVER}"].uuid > "GPU-" && device.capacity["{DRIVER}"].memory.isInteger()'
"""Each device has a value of its own, so that no two are alike."""
QUANTITY_AS_NUMBER = f'device.driver == "{DRIVER}" && device.capacity["{DRIVER}"].memory >= {40 * 2**30}'


def measure(*, slices: int = 2_500, upstream: Peer | None = None) -> Iterator[Figure]:
    """Measure selectors on the devices of so many slices.

    Args:
        upstream: Measures upstream's CEL; by default the real one, which is built on first use.
    """
    text = make_slice_list(slices, model="H100")
    published = parse_resource_slice_list(text)
    attributes = _measure_ours(ATTRIBUTES, published)
    quantity = _measure_ours(QUANTITY, published)
    devices = [device for item in json.loads(text)["items"] for device in item["spec"]["devices"]]
    peer = upstream or UpstreamPeer()
    for name, selector, ours in (("attributes", ATTRIBUTES, attributes), ("quantity", QUANTITY, quantity)):
        rates = peer.measure_selector(selector, devices, driver=DRIVER, repeats=REPEATS)
        for way, rate, note in (("", rates.prepared, ", prepared too"), ("-scheduler", rates.scheduler, SCHEDULER)):
            yield Figure(
                name=f"cel-{name}-beside-upstream{way}", ours=ours, peer=rate, peer_name=NAME + note, unit="eval/s",
                work=f"{selector} on {len(devices):,} devices",
            )  # fmt: skip
    yield Figure(
        name="cel-attributes",
        ours=attributes,
        peer=_measure_peer(ATTRIBUTES, published),
        peer_name=RUST,
        unit="eval/s",
        work=ATTRIBUTES,
    )
    yield Figure(
        name="cel-quantity",
        ours=quantity,
        peer=_measure_peer(QUANTITY_AS_NUMBER, published),
        peer_name=f"{RUST}, which has no quantities and compares numbers",
        unit="eval/s",
        work=QUANTITY,
    )
    cluster = parse_resource_slice_list(make_slice_list(2 * slices, model="H100"))
    yield from _measure_columns("quantity", QUANTITY, cluster)
    yield from _measure_columns("own-value", OWN_VALUE, cluster)


def _measure_columns(name: str, text: str, published: Sequence[ResourceSlice]) -> Iterator[Figure]:
    """Measure evaluation on columns that are made, and the making of them with one evaluation."""
    program = compile_expression(text)
    prepared = [prepare_device(slice.driver, device) for slice in published for device in slice.devices]
    scalar = _rate(program.evaluate, prepared)
    columns = DeviceColumns(prepared)
    work = f"{text} on {len(prepared):,} devices"
    ready = len(prepared) / measure_best(lambda: _judge(program, columns), repeats=REPEATS)
    yield Figure(
        name=f"cel-columns-{name}", ours=ready, peer=scalar, peer_name=SCALAR, unit="eval/s",
        work=f"{work}, on columns that are made",
    )  # fmt: skip
    anew = len(prepared) / measure_best(lambda: _judge(program, DeviceColumns(prepared)), repeats=REPEATS)
    yield Figure(
        name=f"cel-columns-{name}-built", ours=anew, peer=scalar, peer_name=SCALAR, unit="eval/s",
        work=f"{work}, with the making of the columns that it reads",
    )  # fmt: skip


def _judge(program: Program, columns: DeviceColumns) -> None:
    """Judge all devices by columns; each must match."""
    matching = int(evaluate_columns(program, columns).true.sum())
    if matching != len(columns):
        raise AssertionError(f"found {matching} matching devices, expected {len(columns)}")


def _measure_ours(text: str, published: Sequence[ResourceSlice]) -> float:
    program = compile_expression(text)
    prepared = [prepare_device(slice.driver, device) for slice in published for device in slice.devices]
    return _rate(program.evaluate, prepared)


def _measure_peer(text: str, published: Sequence[ResourceSlice]) -> float:
    program = peer_cel.compile(text)
    contexts = [peer_cel.Context(variables=_describe(slice)) for slice in published for _ in slice.devices]
    return _rate(program.execute, contexts)


def _describe(slice: ResourceSlice) -> dict[str, Any]:
    """Return what the peer's expression reads of a device."""
    attributes = {"model": "H100", "index": 1}
    capacity = {"memory": 80 * 2**30}
    return {"device": {"driver": slice.driver, "attributes": {DRIVER: attributes}, "capacity": {DRIVER: capacity}}}


def _rate(evaluate: Callable[[Any], object], inputs: Sequence[Any]) -> float:
    """Return the evaluations per second; each must say that the device matches."""

    def evaluate_all() -> None:
        matching = sum(1 for one in inputs if evaluate(one) is True)
        if matching != len(inputs):
            raise AssertionError(f"found {matching} matching devices, expected {len(inputs)}")

    return len(inputs) / measure_best(evaluate_all, repeats=REPEATS)
