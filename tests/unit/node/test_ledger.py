"""Who may have what, over both sides of one driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from claimsmith.errors import DeviceGrantedError, DeviceHeldError, DriverError, GrantRefusedError
from claimsmith.model.inventory import Inventory
from claimsmith.model.prepared import ClaimKey
from claimsmith.node.entry import Grant, HeldDevice, PreparedClaim, grant_key
from claimsmith.node.hardware import Hardware
from claimsmith.node.ledger import Ledger
from claimsmith.testing import builders as b

RESOURCE = "x.test/gpu"
CARD = Inventory.of(
    b.device("whole", counters=[b.consumes("card", {"slices": 2})]),
    b.device("half-0", counters=[b.consumes("card", {"slices": 1})]),
    b.device("half-1", counters=[b.consumes("card", {"slices": 1})]),
    b.device("solo"),
    counter_sets=(b.counter_set("card", {"slices": 2}),),
)


def claim(*devices: str, uid: str = "c", share: str = "", admin: bool = False) -> PreparedClaim:
    held = tuple(HeldDevice(id=b.device_id(name), request="r", share_id=share, admin_access=admin) for name in devices)
    return PreparedClaim(claim=ClaimKey(namespace="default", name=uid, uid=uid), devices=held, boot_id="boot")


def grant(*ids: str, resource: str = RESOURCE) -> Grant:
    held = tuple(
        HeldDevice(id=b.device_id(id_.partition("::")[0]), request="device", share_id=id_.partition("::")[2])
        for id_ in ids
    )
    entry = PreparedClaim(claim=grant_key(resource, ids), devices=held, boot_id="boot")
    return Grant(entry=entry, resource=resource, ids=ids)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    found = Ledger(tmp_path, tuple)
    found.open()
    found.learn(Hardware.of(b.DRIVER, CARD, node=b.NODE))
    return found


def put(ledger: Ledger, *entries: PreparedClaim | Grant) -> None:
    with ledger.writing() as checkpoint:
        checkpoint.put(*entries)


@pytest.mark.parametrize(("given", "wanted"), [("solo", "solo"), ("whole", "half-0"), ("half-1", "whole")])
def test_what_a_container_has_is_not_a_claims(ledger: Ledger, given: str, wanted: str) -> None:
    put(ledger, grant(given))

    with pytest.raises(DeviceGrantedError, match=f"given to a container as {RESOURCE}"):
        ledger.check_claim(claim(wanted))


@pytest.mark.parametrize(("held", "wanted"), [("solo", "solo"), ("whole", "half-0"), ("half-1", "whole")])
def test_what_a_claim_has_is_not_a_containers(ledger: Ledger, held: str, wanted: str) -> None:
    put(ledger, claim(held))

    with pytest.raises(DeviceHeldError, match="prepared for claim default/c"):
        ledger.check_grant(grant(wanted))


def test_partitions_that_fit_on_one_card_go_to_both_sides(ledger: Ledger) -> None:
    put(ledger, claim("half-0"))

    ledger.check_grant(grant("half-1"))
    assert ledger.find_refusal(grant("half-1")) is None


def test_a_whole_card_waits_for_the_claim_of_its_partition(ledger: Ledger) -> None:
    put(ledger, claim("half-0", uid="old"))

    with pytest.raises(DeviceHeldError, match=r"half-0 of the same hardware prepared for claim default/old"):
        ledger.check_claim(claim("whole", uid="new"))


def test_shares_and_admin_access_of_claims_go_together(ledger: Ledger) -> None:
    put(ledger, claim("solo", uid="a", share="s1"), claim("whole", uid="watcher", admin=True))

    ledger.check_claim(claim("solo", uid="b", share="s2"))
    ledger.check_grant(grant("whole"))


def test_a_share_is_not_free_for_a_container(ledger: Ledger) -> None:
    put(ledger, claim("solo", share="s1"))

    with pytest.raises(DeviceHeldError):
        ledger.check_grant(grant("solo::0"))


def test_replicas_of_one_device_go_to_several_containers_of_one_resource(ledger: Ledger) -> None:
    put(ledger, grant("solo::0"))

    ledger.check_grant(grant("solo::1"))
    with pytest.raises(DeviceGrantedError):
        ledger.check_grant(grant("solo::1", resource="x.test/other"))


def test_a_whole_device_is_no_replica_of_itself(ledger: Ledger) -> None:
    """As after a change of the rule, while a container has the device for itself."""
    put(ledger, grant("solo"))

    with pytest.raises(DeviceGrantedError):
        ledger.check_grant(grant("solo::0"))


def test_ids_that_the_kubelet_gives_again_are_its_own_affair(ledger: Ledger) -> None:
    put(ledger, grant("half-0", "half-1"))

    ledger.check_grant(grant("half-0"))


def test_devices_of_one_card_that_do_not_fit_are_not_given_together(ledger: Ledger) -> None:
    with pytest.raises(GrantRefusedError, match="found half-0 and whole of the same hardware asked for together"):
        ledger.check_grant(grant("half-0", "solo", "whole"))


def test_a_claim_waits_for_the_list_of_devices_while_containers_have_some(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, tuple)
    ledger.open()
    put(ledger, grant("solo"))

    with pytest.raises(DriverError, match="its devices are not listed yet"):
        ledger.check_claim(claim("half-0"))


def test_the_hardware_of_a_device_that_has_gone_is_remembered(ledger: Ledger) -> None:
    put(ledger, grant("whole"))
    left = Inventory.of(*CARD.pools[0].devices[1:], counter_sets=CARD.pools[0].counter_sets)
    ledger.learn(Hardware.of(b.DRIVER, left, node=b.NODE))

    with pytest.raises(DeviceGrantedError, match="whole of the same hardware"):
        ledger.check_claim(claim("half-0"))


def test_what_a_foreign_plugin_gave_away_is_nobodys(ledger: Ledger) -> None:
    ledger.note_foreign({b.device_id("half-0"): "nvidia.com/gpu"})

    with pytest.raises(DeviceGrantedError, match=r"given to a container as nvidia\.com/gpu"):
        ledger.check_claim(claim("whole"))
    with pytest.raises(DeviceGrantedError, match=r"given to a container as nvidia\.com/gpu"):
        ledger.check_grant(grant("half-0"))
    ledger.check_claim(claim("half-1"))
    ledger.note_foreign({})
    ledger.check_grant(grant("whole"))


def test_another_mark_tells_that_something_was_written(ledger: Ledger) -> None:
    before = ledger.mark
    assert ledger.mark is before
    put(ledger, grant("solo"))

    assert ledger.mark is not before
