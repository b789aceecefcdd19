"""Evaluations of a selector per second on devices that are prepared, beside a CEL engine written in Rust.

By columns a whole cluster is judged at once: that figure stands beside our own scalar engine, the making of the columns
that the selector reads apart from the evaluation on columns that are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cel as peer_cel

from claimsmith.api.resource import parse_resource_slice_list
from claimsmith.cel import Program, compile_expression, prepare_device
from claimsmith.cel.columns import DeviceColumns, evaluate_columns
from claimsmith.model.pool import ResourceSlice
from tests.bench.figures import Figure, measure_best
from tests.bench.slices import DRIVER, make_slice_list

REPEATS = 5
RUST = "common-expression-language (Rust)"
UPSTREAM = "upstream's cel v0.37.2 (Go), recorded on another 2-core machine"
SCALAR = "our own scalar engine, on the same devices"
UPSTREAM_RATE = 325_000
"""Middle of the recorded range, 300,000 to 350,000 evaluations per second."""

ATTRIBUTES = (
    f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].model == "H100" && '
    f'device.attributes["{DRIVER}"].index >= 0'
)
QUANTITY = f'device.driver == "{DRIVER}" && device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
OWN_VALUE = f'device.attributes["{DRIVER}"].uuid > "GPU-" && device.capacity["{DRIVER}"].memory.isInteger()'
"""Each device has a value of its own, so that no two are alike."""
QUANTITY_AS_NUMBER = f'device.driver == "{DRIVER}" && device.capacity["{DRIVER}"].memory >= {40 * 2**30}'


def measure(*, slices: int = 2_500) -> Iterator[Figure]:
    """Measure selectors on the devices of so many slices."""
    published = parse_resource_slice_list(make_slice_list(slices, model="H100"))
    attributes = _measure_ours(ATTRIBUTES, published)
    quantity = _measure_ours(QUANTITY, published)
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
    yield Figure(
        name="cel-quantity-beside-upstream",
        ours=quantity,
        peer=UPSTREAM_RATE,
        peer_name=UPSTREAM,
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
