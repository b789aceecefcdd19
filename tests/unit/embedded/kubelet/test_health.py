from __future__ import annotations

import pytest

from claimsmith.embedded.kubelet.health import DeviceState, HealthBook, read_states
from claimsmith.kubelet import dra_health_v1_pb2 as v1
from claimsmith.kubelet import dra_health_v1alpha1_pb2 as v1alpha1

A, B = ("pool", "a"), ("pool", "b")
GOOD, BAD = DeviceState(health="Healthy"), DeviceState(health="Unhealthy", message="hot")


def told(**states: DeviceState) -> HealthBook:
    book = HealthBook()
    book.update("d", {("pool", name): state for name, state in states.items()}, 0.0)
    return book


@pytest.mark.parametrize("messages", [v1, v1alpha1])
def test_both_versions_of_the_service_say_the_same(messages: object) -> None:
    device = messages.DeviceHealth(  # type: ignore[attr-defined]
        device={"pool_name": "pool", "device_name": "a"}, health=2, message="hot", health_check_timeout_seconds=9
    )

    assert read_states([device]) == {A: DeviceState(health="Unhealthy", message="hot", timeout_s=9)}


def test_a_long_message_is_cut_and_a_timeout_of_nothing_is_30_s() -> None:
    device = v1.DeviceHealth(device={"pool_name": "pool", "device_name": "a"}, message="x" * 1025)
    state = read_states([device])[A]

    assert (len(state.message), state.message[-4:], state.timeout_s) == (1024, "x...", 30)


def test_what_was_never_said_is_unknown() -> None:
    assert HealthBook().find("d", A, 0.0) == DeviceState()


@pytest.mark.parametrize(("now_s", "health"), [(30, "Unhealthy"), (31, "Unknown")])
def test_what_was_said_holds_for_its_time(now_s: float, health: str) -> None:
    assert told(a=BAD).find("d", A, now_s).health == health


def test_only_devices_that_fare_otherwise_are_told() -> None:
    assert told(a=GOOD, b=GOOD).update("d", {A: GOOD, B: BAD}, 1.0) == {B}


def test_a_device_that_is_left_out_becomes_unknown_after_its_time() -> None:
    book = told(a=GOOD, b=GOOD)
    early, late = book.update("d", {A: GOOD}, 30.0), book.update("d", {A: GOOD}, 31.0)

    assert (early, late) == (frozenset(), frozenset({B}))


def test_silence_of_a_driver_is_told_once() -> None:
    book = told(a=GOOD)

    assert [book.expire(31.0), book.expire(32.0)] == [{"d": frozenset({A})}, {}]


def test_the_end_of_a_stream_forgets_what_was_said() -> None:
    book = told(a=BAD)

    assert (book.clear("d"), book.find("d", A, 0.0).health) == (frozenset({A}), "Unknown")


def test_no_more_than_16384_devices_of_a_driver_are_kept() -> None:
    book = HealthBook()
    book.update("d", {("pool", str(number)): GOOD for number in range(16_384)}, 0.0)
    changed = book.update("d", {("pool", "one more"): GOOD, ("pool", "7"): BAD}, 1.0)

    assert changed == {("pool", "7")}
