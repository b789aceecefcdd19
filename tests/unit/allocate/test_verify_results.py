"""The independent checker sees what is wrong with a single device of an allocation: rules 8 to 15."""

from __future__ import annotations

from dataclasses import replace

import pytest

from claimsmith.model.claim import DeviceResult
from claimsmith.model.device import Capacity, Device, DeviceTaint, DeviceToleration
from claimsmith.model.features import Features
from claimsmith.model.pool import ResourceSlice
from claimsmith.testing.builders import (
    Amount,
    allocated,
    capacity,
    claim,
    consumes,
    counter_set,
    device,
    klass,
    request,
    result,
    slice_,
    taint,
    toleration,
)
from tests.unit.allocate.solving import problem
from tests.unit.allocate.verifying import SHARE_1, SHARE_2, declaring, find_broken, find_texts, granted

A, B = device("a"), device("b")


@pytest.mark.parametrize("expression", ["false", 'device.attributes["d"].missing == 1', "no such text"])
def test_selectors_of_class_and_request_must_be_true(expression: str) -> None:
    plain = problem(slice_(A), claim("c", request("r", "true")))
    by_class = problem(slice_(A), klass("gpu", "true", expression), claim("c"))
    by_request = problem(slice_(A), claim("c", request("r", "true", expression)))

    assert find_broken(plain, granted("a")) == []
    assert find_broken(by_class, granted("a")) == ["selector"]
    assert find_broken(by_request, granted("a")) == ["selector"]


def test_a_request_of_an_unknown_class_gets_nothing() -> None:
    assert find_broken(problem(slice_(A), claim("c", request("r", klass="nil"))), granted("a")) == ["selector"]


def test_selectors_read_whether_a_device_is_shared_unless_all_gates_are_off() -> None:
    pool = slice_(device("a", allow_multiple_allocations=True))
    asked = problem(pool, claim("c", request("r", "device.allowMultipleAllocations")))

    assert find_broken(asked, granted(result("a", share=SHARE_1))) == []
    assert find_broken(replace(asked, features=Features.none()), granted("a")) == ["selector"]


def test_a_device_with_binding_conditions_needs_their_gate() -> None:
    bound = problem(slice_(device("a", binding_conditions=("x.example/ready",))), claim("c"))
    off = replace(bound, features=Features(device_binding_and_status=False))
    got = replace(result("a"), binding_conditions=("x.example/ready",))

    assert find_broken(bound, granted(got)) == []
    assert "selector" in find_broken(off, granted("a"))


ADMIN = request("r", admin_access=True)


def admin(name: str, *, of: str = "r") -> DeviceResult:
    return replace(result(name, request=of), admin_access=True)


def test_a_device_that_another_claim_holds_is_in_use() -> None:
    asked = problem(slice_(A, B), allocated(claim("held"), "a"), claim("c"))

    assert find_broken(asked, granted("b")) == []
    assert find_broken(asked, granted("a")) == ["in-use"]


def test_a_device_that_is_held_for_administration_is_free() -> None:
    asked = problem(slice_(A), allocated(claim("held", ADMIN), admin("a")), claim("c"))

    assert find_broken(asked, granted("a")) == []


def test_a_device_is_given_to_one_claim_of_the_pod() -> None:
    asked = problem(slice_(A, B), claim("c"), claim("d"))

    assert find_broken(asked, granted("a"), granted("b")) == []
    assert find_broken(asked, granted("a"), granted("a")) == ["in-use"]


def test_an_administrator_may_have_what_others_hold_but_not_what_the_same_claim_has() -> None:
    held = problem(slice_(A), allocated(claim("held"), "a"), claim("c", ADMIN))
    same = problem(slice_(A, B), claim("c", request("s"), ADMIN))

    assert find_broken(held, granted(admin("a"))) == []
    assert find_broken(same, granted(result("a", request="s"), admin("b"))) == []
    assert find_broken(same, granted(result("a", request="s"), admin("a"))) == ["in-use"]


def test_a_device_that_an_administrator_got_is_not_given_to_a_later_claim() -> None:
    asked = problem(slice_(A), claim("c"), claim("d", ADMIN))
    reverse = problem(slice_(A), claim("d", ADMIN), claim("c"))

    assert find_broken(asked, granted("a"), granted(admin("a"))) == []
    assert find_broken(reverse, granted(admin("a")), granted("a")) == ["in-use"]


def test_a_device_that_somebody_holds_as_a_whole_gives_no_shares() -> None:
    pool = slice_(device("a", allow_multiple_allocations=True))
    whole = problem(pool, allocated(claim("held"), "a"), claim("c"))
    shared = problem(pool, allocated(claim("held"), result("a", share=SHARE_2)), claim("c"))

    assert find_broken(shared, granted(result("a", share=SHARE_1))) == []
    assert find_broken(whole, granted(result("a", share=SHARE_1))) == ["in-use"]


@pytest.mark.parametrize(
    ("found", "accepted", "rules"),
    [
        (taint("k"), None, ["taint"]),
        (taint("k", "NoExecute"), None, ["taint"]),
        (taint("k", "None"), None, []),
        (taint("k"), toleration("k"), []),
        (taint("k"), toleration("other"), ["taint"]),
        (taint("k"), toleration("k", effect="NoExecute"), ["taint"]),
        (DeviceTaint(key="k", effect="NoSchedule", value="v"), DeviceToleration(key="k", value="v"), []),
        (DeviceTaint(key="k", effect="NoSchedule", value="v"), DeviceToleration(key="k", value="w"), ["taint"]),
        (taint("k"), DeviceToleration(operator="Exists"), []),
    ],
)
def test_taints_must_be_tolerated(found: DeviceTaint, accepted: DeviceToleration | None, rules: list[str]) -> None:
    tolerations = () if accepted is None else (accepted,)
    asked = problem(slice_(device("a", taints=[found])), claim("c", request("r", tolerations=tolerations)))
    got = replace(result("a"), tolerations=tolerations)

    assert find_broken(asked, granted(got)) == rules
    assert find_broken(replace(asked, features=Features(device_taints=False)), granted(got)) == []


def test_one_tolerated_taint_does_not_excuse_another() -> None:
    tolerations = (toleration("k"),)
    pool = slice_(device("a", taints=[taint("k"), taint("l")]))
    asked = problem(pool, claim("c", request("r", tolerations=tolerations)))

    assert find_broken(asked, granted(replace(result("a"), tolerations=tolerations))) == ["taint"]


def test_an_administrator_must_tolerate_taints_too() -> None:
    asked = problem(slice_(device("a", taints=[taint("k")])), claim("c", ADMIN))

    assert find_broken(asked, granted(admin("a"))) == ["taint"]


def share(amount: Amount, *, id: str = SHARE_1) -> DeviceResult:
    return result("a", share=id, consumed={"m": amount})


def nic(room: Capacity) -> ResourceSlice:
    return slice_(device("a", capacity={"m": room}, allow_multiple_allocations=True))


RANGE = capacity(10, default=3, minimum=2, maximum=8, step=2)
VALUES = capacity(10, default=3, valid_values=(1, 4))


@pytest.mark.parametrize(
    ("room", "asked", "takes"),
    [
        (capacity(10), None, 10),
        (capacity(10), 4, 4),
        (RANGE, None, 3),
        (RANGE, 1, 2),
        (RANGE, 3, 4),
        (RANGE, 8, 8),
        (VALUES, None, 3),
        (VALUES, 2, 4),
        (capacity(10, minimum=2), 5, 5),
        (capacity(10, minimum="500m", step="500m"), "700m", 1),
        (capacity(10, minimum="500m", step="500m"), "1200m", "1500m"),
        (capacity(10, default=4, minimum=4, maximum=3), 1, 4),
        (capacity(10, default=7, valid_values=(1, 4)), 7, 7),
    ],
)
def test_a_share_records_exactly_what_the_policy_makes_of_the_request(
    room: Capacity, asked: Amount | None, takes: Amount
) -> None:
    wanted = request("r", capacity=None if asked is None else {"m": asked})
    case = problem(nic(room), claim("c", wanted))

    assert find_broken(case, granted(share(takes))) == []
    assert find_broken(case, granted(share("1m"))) == ["capacity"]
    assert find_broken(case, granted(result("a", share=SHARE_1))) == ["capacity"]


def test_thousandths_count_only_with_their_gate() -> None:
    wanted = claim("c", request("r", capacity={"m": "1200m"}))
    case = problem(nic(capacity(10, minimum="500m", step="500m")), wanted)

    assert find_broken(case, granted(share("1500m"))) == []
    assert find_broken(replace(case, features=Features()), granted(share("1500m"))) == ["capacity"]
    assert find_broken(replace(case, features=Features()), granted(share("2"))) == []


@pytest.mark.parametrize(
    ("room", "asked", "takes"),
    [(RANGE, 9, 10), (VALUES, 5, 5), (capacity(10), 11, 11)],
    ids=["maximum", "values", "all"],
)
def test_an_amount_that_the_device_does_not_give_is_refused(room: Capacity, asked: Amount, takes: Amount) -> None:
    case = problem(nic(room), claim("c", request("r", capacity={"m": asked})))

    assert find_broken(case, granted(share(takes))) == ["capacity"]


def test_a_device_that_would_give_a_negative_amount_is_not_one_of_all() -> None:
    broken = device("a", capacity={"m": capacity(10, default=-1)}, allow_multiple_allocations=True)
    asked = problem(slice_(broken, device("b")), claim("c", request("r", allocation_mode="All")))

    assert find_broken(asked, granted(result("b"))) == []


def test_a_capacity_that_the_device_lacks_is_refused() -> None:
    case = problem(nic(capacity(10)), claim("c", request("r", capacity={"n": 1})))

    assert find_broken(case, granted(share(10))) == ["capacity"]


def test_shares_of_earlier_and_of_new_claims_fit_together() -> None:
    wanted = [claim(name, request("r", capacity={"m": 4})) for name in ("c", "d")]
    held = allocated(claim("held"), result("a", share="held", consumed={"m": 4}))
    both = (granted(share(4)), granted(share(4, id=SHARE_2)))

    assert find_broken(problem(nic(capacity(12)), held, *wanted), *both) == []
    assert find_broken(problem(nic(capacity(11)), held, *wanted), *both) == ["capacity"]
    assert find_broken(problem(nic(capacity(7)), held, wanted[0]), both[0]) == ["capacity"]


def test_a_whole_device_records_no_amounts_and_must_be_large_enough() -> None:
    pool = slice_(device("a", capacity={"m": capacity(10)}))
    fits = problem(pool, claim("c", request("r", capacity={"m": 4})))
    large = problem(pool, claim("c", request("r", capacity={"m": 11})))

    assert find_broken(fits, granted("a")) == []
    assert find_broken(fits, granted(result("a", consumed={"m": 4}))) == ["capacity"]
    assert find_broken(large, granted("a")) == ["capacity"]


def card(units: int, *parts: Device) -> tuple[ResourceSlice, ResourceSlice]:
    """A counter slice with `units` of `card/u`, and a slice of devices."""
    counters = slice_(name="counters", slice_count=2, shared_counters=(counter_set("card", {"u": units}),))
    return counters, slice_(*parts, name="devices", slice_count=2)


def part(name: str, units: int, *groups: str, shared: bool = False) -> Device:
    return device(name, counters=[consumes("card", {"u": units}, groups=groups)], allow_multiple_allocations=shared)


def test_devices_take_no_more_counters_than_there_are() -> None:
    pool = card(3, part("a", 2), part("b", 1), part("c", 2))
    asked = problem(*pool, claim("c", request(count=2)))

    assert find_broken(asked, granted("a", "b")) == []
    assert find_broken(asked, granted("a", "c")) == ["counter"]


def test_devices_in_use_have_taken_their_counters_whole_or_shared_on_any_node() -> None:
    pool = card(3, part("a", 2), part("b", 2, shared=True), part("c", 2))
    far = slice_(part("far", 2), name="far", slice_count=3, node="node-b", pool="node-a")
    near = tuple(replace(item, slice_count=3) for item in pool)
    whole = problem(*pool, allocated(claim("held"), "a"), claim("c"))
    shared = problem(*pool, allocated(claim("held"), result("b", share=SHARE_1)), claim("c"))
    distant = problem(*near, far, allocated(claim("held"), "far"), claim("c"))

    assert find_broken(problem(*pool, claim("c")), granted("c")) == []
    assert find_broken(problem(*near, far, claim("c")), granted("c")) == []
    assert find_broken(whole, granted("c")) == ["counter"]
    assert find_broken(shared, granted("c")) == ["counter"]
    assert find_broken(distant, granted("c")) == ["counter"]


def test_a_shared_device_takes_its_counters_once() -> None:
    asked = problem(*card(3, part("a", 2, shared=True), part("b", 2)), claim("c"), claim("d"))
    held = allocated(claim("held"), result("a", share="held"))
    again = problem(*card(3, part("a", 2, shared=True)), held, claim("c"))
    one, two = granted(result("a", share=SHARE_1)), granted(result("a", share=SHARE_2))

    assert find_broken(asked, one, two) == []
    assert find_broken(asked, one, granted("b")) == ["counter"]
    assert find_broken(again, one) == []


def test_an_administrator_takes_counters_too() -> None:
    asked = problem(*card(3, part("a", 2)), claim("c"), claim("d", ADMIN))

    assert find_broken(asked, granted("a"), granted(admin("a"))) == ["counter"]


def test_counters_need_their_gate() -> None:
    asked = problem(*card(3, part("a", 2), device("plain")), claim("c"))
    off = replace(asked, features=Features(partitionable_devices=False))

    assert find_broken(asked, granted("a")) == []
    assert find_broken(off, granted("a")) == ["counter"]
    assert find_broken(off, granted("plain")) == []


@pytest.mark.parametrize(
    ("first", "second", "rules"),
    [
        ((), (), []),
        (("g",), ("g", "h"), []),
        (("g",), ("h",), ["compatibility-group"]),
        (("g",), (), ["compatibility-group"]),
    ],
)
def test_devices_of_one_counter_set_have_a_group_in_common(
    first: tuple[str, ...], second: tuple[str, ...], rules: list[str]
) -> None:
    pool = card(3, part("a", 1, *first), part("b", 1, *second))
    held = problem(*pool, allocated(claim("held"), "a"), claim("c"))

    assert find_broken(problem(*pool, claim("c", request(count=2))), granted("a", "b")) == rules
    assert find_broken(held, granted("b")) == rules


def test_one_group_is_common_to_all_devices() -> None:
    pool = card(3, part("a", 1, "g", "h"), part("b", 1, "h", "i"), part("c", 1, "i", "g"))

    assert find_broken(problem(*pool, claim("c", request(count=2))), granted("a", "b")) == []
    assert find_broken(problem(*pool, claim("c", request(count=3))), granted("a", "b", "c")) == ["compatibility-group"]


SKIPPING = slice_(A, skip_node_operations=("Prepare",))
SKIPPED = replace(result("a"), skip_node_operations=("Prepare",))


def test_only_a_node_that_says_so_does_without_node_operations() -> None:
    able = problem(SKIPPING, claim("c"), on=declaring("DRAOptionalNodeOperations"))
    other = problem(SKIPPING, claim("c"), on=declaring("DRASomethingElse"))

    assert find_broken(able, granted(SKIPPED)) == []
    assert find_broken(other, granted(SKIPPED)) == ["node-operations"]


def test_without_its_gate_upstreams_newest_implementation_gives_no_device_that_skips_node_operations() -> None:
    able = problem(SKIPPING, claim("c"), on=declaring("DRAOptionalNodeOperations"))
    newest = replace(able, features=replace(Features.all(), optional_node_operations=False))

    assert find_broken(newest, granted("a")) == ["node-operations"]
    assert find_broken(replace(able, features=Features()), granted("a")) == []


def test_administration_is_marked_exactly_when_it_was_asked_for() -> None:
    assert find_broken(problem(slice_(A), claim("c", ADMIN)), granted("a")) == ["fields"]
    assert find_broken(problem(slice_(A), claim("c")), granted(admin("a"))) == ["fields"]


def test_tolerations_are_copied_from_the_request() -> None:
    asked = problem(slice_(A), claim("c", request("r", tolerations=(toleration("k"),))))
    right = replace(result("a"), tolerations=(toleration("k"),))

    assert find_broken(asked, granted(right)) == []
    assert find_broken(asked, granted("a")) == ["fields"]
    assert find_broken(problem(slice_(A), claim("c")), granted(right)) == ["fields"]


def test_exactly_the_shares_of_shared_devices_have_an_id() -> None:
    shared = problem(slice_(device("a", allow_multiple_allocations=True)), claim("c"))
    whole = problem(slice_(A), claim("c"))
    off = replace(shared, features=Features(consumable_capacity=False))

    assert find_broken(shared, granted(result("a", share=SHARE_1))) == []
    assert find_broken(shared, granted("a")) == ["share"]
    assert find_broken(whole, granted(result("a", share=SHARE_1))) == ["share"]
    assert find_broken(off, granted("a")) == []


def test_no_share_id_is_given_twice() -> None:
    pool = slice_(*(device(name, allow_multiple_allocations=True) for name in ("a", "b")))
    held = problem(pool, allocated(claim("held"), result("b", share=SHARE_1)), claim("c"))
    one, other = result("a", share=SHARE_1), result("b", share=SHARE_2)
    again = replace(other, share_id=SHARE_1)

    assert find_broken(problem(pool, claim("c", request(count=2))), granted(one, other)) == []
    assert find_broken(problem(pool, claim("c", request(count=2))), granted(one, again)) == ["share"]
    assert find_broken(problem(pool, claim("c"), claim("d")), granted(one), granted(again)) == ["share"]
    assert find_broken(held, granted(one)) == ["share"]


def test_binding_conditions_are_copied_from_the_device() -> None:
    bound = device("a", binding_conditions=("x.example/ready",), binding_failure_conditions=("x.example/failed",))
    asked = problem(slice_(bound), claim("c"))
    right = replace(
        result("a"), binding_conditions=("x.example/ready",), binding_failure_conditions=("x.example/failed",)
    )

    assert find_broken(asked, granted(right)) == []
    assert find_broken(asked, granted(replace(right, binding_conditions=()))) == ["fields"]
    assert find_broken(asked, granted(replace(right, binding_failure_conditions=()))) == ["fields"]
    assert find_broken(problem(slice_(A), claim("c")), granted(right)) == ["fields"]


def test_skipped_node_operations_are_copied_from_the_slice() -> None:
    able = problem(SKIPPING, claim("c"), on=declaring("DRAOptionalNodeOperations"))

    assert find_broken(able, granted("a")) == ["fields"]
    assert find_broken(problem(slice_(A), claim("c")), granted(SKIPPED)) == ["fields"]


def test_a_violation_names_claim_device_and_rule() -> None:
    asked = problem(slice_(A), allocated(claim("held"), "a"), claim("c"))

    assert find_texts(asked, granted("a")) == [
        "default/c gpu.example.test/node-a/a: in-use: another claim holds the device"
    ]
