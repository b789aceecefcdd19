from __future__ import annotations

from claimsmith.embedded.kubelet.addresses import PodAddresses


def test_pods_have_different_addresses_and_keep_theirs() -> None:
    addresses = PodAddresses("10.244.3.0/24")

    assert [addresses.take(uid) for uid in ("a", "b", "a")] == ["10.244.3.2", "10.244.3.3", "10.244.3.2"]


def test_an_address_that_a_pod_had_before_stays_its_own() -> None:
    addresses = PodAddresses("10.244.3.0/24")
    addresses.take("old", known="10.244.3.2")

    assert addresses.take("new") == "10.244.3.3"


def test_an_address_is_used_again_only_after_all_others() -> None:
    addresses = PodAddresses("10.244.3.0/29")
    first = addresses.take("a")
    addresses.release("a")
    others = [addresses.take(uid) for uid in "bcdef"]

    assert first not in others[:4]
    assert others[4] == first


def test_a_full_range_still_gives_an_address() -> None:
    addresses = PodAddresses("10.244.3.0/30")

    assert all(addresses.take(str(number)).startswith("10.244.3.") for number in range(9))


def test_an_address_of_another_range_is_not_taken_over() -> None:
    assert PodAddresses("10.244.3.0/24").take("a", known="10.9.9.9") == "10.244.3.2"
