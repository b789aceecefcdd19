from __future__ import annotations

from dataclasses import replace

from claimsmith.model.pool import ResourceSlice
from claimsmith.schedule.fruitless import FruitlessNodes, get_claims_key
from claimsmith.testing.builders import allocated, claim, device, device_id, request, result, slice_

KEY = "key"


def remembering(*nodes: str) -> FruitlessNodes:
    found = FruitlessNodes()
    for name in ("a", "b"):
        found.see_slice(None, slice_of(name))
    for name in nodes:
        found.add(KEY, name)
    return found


def slice_of(node: str | None, *, pool: str = "") -> ResourceSlice:
    name = pool or node or "shared"
    return slice_(device("gpu-0"), name=name, node=node, pool=name)


def test_claims_that_ask_for_the_same_share_a_key_whatever_their_names() -> None:
    other = claim("c", request("r", count=2))

    assert get_claims_key([claim("a")]) == get_claims_key([claim("b")]) != get_claims_key([other])


def test_a_node_is_remembered_for_its_key_alone() -> None:
    found = remembering("a")

    assert (found.find(KEY), found.find("other")) == ({"a"}, set())


def test_a_claim_that_gives_a_device_back_makes_its_node_hopeful() -> None:
    found, held = remembering("a", "b"), allocated(claim(), result(device_id("gpu-0", pool="a")))
    found.see_claim(held, replace(held, allocation=None))

    assert found.find(KEY) == {"b"}


def test_a_claim_that_holds_another_device_now_makes_both_nodes_hopeful() -> None:
    found = remembering("a", "b")
    before, after = (allocated(claim(), result(device_id("gpu-0", pool=name))) for name in ("a", "b"))
    found.see_claim(before, after)

    assert found.find(KEY) == set()


def test_a_claim_whose_users_change_makes_no_node_hopeful() -> None:
    found, held = remembering("a"), allocated(claim(), result(device_id("gpu-0", pool="a")))
    found.see_claim(held, replace(held, reserved_for=()))

    assert found.find(KEY) == {"a"}


def test_a_slice_of_a_node_makes_that_node_hopeful() -> None:
    found = remembering("a", "b")
    found.see_slice(slice_of("a"), replace(slice_of("a"), generation=2))

    assert found.find(KEY) == {"b"}


def test_a_pool_that_is_on_no_single_node_makes_all_nodes_hopeful() -> None:
    found = remembering("a", "b")
    found.see_slice(None, replace(slice_of(None), all_nodes=True))

    assert found.find(KEY) == set()


def test_a_slice_that_leaves_a_pool_makes_the_nodes_hopeful_that_reached_it() -> None:
    found = remembering("a", "b")
    found.see_slice(slice_of("a"), None)

    assert found.find(KEY) == {"b"}


def test_a_device_of_a_pool_that_nobody_publishes_makes_no_node_hopeful() -> None:
    found, held = remembering("a"), allocated(claim(), result(device_id("gpu-0", pool="gone")))
    found.see_claim(held, None)

    assert found.find(KEY) == {"a"}


def test_of_very_many_kinds_of_claims_the_latest_are_remembered() -> None:
    found = remembering("a")
    for number in range(200):
        found.add(str(number), "a")

    assert (found.find(KEY), found.find("199")) == (set(), {"a"})
