"""What is in use: by whom, as a whole or in shares, and how it goes away again."""

from __future__ import annotations

from dataclasses import replace

from claimsmith.allocate.prepared.usage import AllocatedState, DeviceUse, UsageLedger
from claimsmith.model.claim import ResourceClaim
from claimsmith.testing.builders import allocated, claim, claim_ref, device_id, result

POOL = device_id("a").pool_id
WHOLE = allocated(claim("whole"), "a")
SHARE = allocated(claim("share"), result("b", share="s1", consumed={"memory": 2}))


def count(*claims: ResourceClaim, consumable_capacity: bool = True) -> UsageLedger:
    ledger = UsageLedger(consumable_capacity=consumable_capacity)
    for item in claims:
        ledger.add(item)
    return ledger


def test_results_without_a_share_hold_the_whole_device() -> None:
    use = count(WHOLE).uses[device_id("a")]

    assert (use.dedicated, use.shares, use.holders) == (True, 0, (claim_ref("whole"),))


def test_shares_add_up() -> None:
    other = allocated(claim("other"), result("b", share="s2", consumed={"memory": 3}))
    use = count(SHARE, other).uses[device_id("b")]

    assert (use.dedicated, use.shares, use.consumed) == (False, 2, {"memory": 5 * 10**9})


def test_a_share_counts_as_the_whole_device_while_the_gate_is_off() -> None:
    use = count(SHARE, consumable_capacity=False).uses[device_id("b")]

    assert use.dedicated


def test_admin_access_holds_nothing() -> None:
    assert WHOLE.allocation is not None
    admin = replace(WHOLE.allocation.results[0], admin_access=True)
    held = replace(WHOLE, allocation=replace(WHOLE.allocation, results=(admin,)))

    assert count(held).uses == {}


def test_what_is_removed_is_free_again() -> None:
    ledger = UsageLedger()
    ledger.add(SHARE)
    other = allocated(claim("other"), result("b", share="s2", consumed={"memory": 3}))
    ledger.add(other)
    ledger.pop_changed()
    ledger.remove(SHARE)

    assert ledger.pop_changed() == {device_id("b").pool_id}
    assert ledger.uses[device_id("b")].consumed == {"memory": 3 * 10**9}
    ledger.remove(other)
    assert ledger.uses == {}


def test_devices_can_be_in_use_without_a_claim() -> None:
    ledger = UsageLedger()
    ledger.preset(AllocatedState(uses={device_id("a"): DeviceUse(dedicated=True)}))

    assert ledger.uses[device_id("a")].dedicated


def test_a_claim_with_two_shares_of_a_device_that_was_added_twice_holds_it_once_more() -> None:
    both = allocated(
        claim("both"),
        result("b", share="s1", consumed={"memory": 1}),
        result("b", share="s2", consumed={"memory": 1}),
    )
    ledger = UsageLedger()
    ledger.add(both)
    ledger.add(both)
    ledger.remove(both)

    assert ledger.uses[device_id("b")].shares == 2


def test_a_device_that_one_of_two_holders_gives_back_is_held_as_a_whole() -> None:
    ledger, other = UsageLedger(), allocated(claim("other"), "a")
    ledger.add(WHOLE)
    ledger.add(other)
    ledger.remove(other)

    assert ledger.find_whole(POOL) is not None


def test_a_pool_is_used_as_a_whole_as_long_as_nobody_holds_a_share() -> None:
    ledger, found = count(WHOLE), list[bool]()
    for change in (ledger.add, ledger.add, ledger.remove, ledger.remove):
        change(SHARE)
        found.append(ledger.find_whole(POOL) is not None)

    assert found == [False, False, False, True]


def test_shares_of_other_pools_leave_a_pool_used_as_a_whole() -> None:
    both = allocated(claim("both"), result("a"), result(device_id("b", pool="other"), share="s"))
    ledger = count(both)

    assert ledger.find_whole(POOL) is not None
    assert ledger.find_whole(device_id("b", pool="other").pool_id) is None


def test_shares_count_as_whole_devices_while_the_gate_is_off() -> None:
    assert count(SHARE, consumable_capacity=False).find_whole(POOL) is not None
