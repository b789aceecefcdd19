"""Judges cases of kind `publish`: a publisher on an embedded API server, which accepts what a real one would."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from claimsmith.daemons.agent import Agent, AgentOptions
from claimsmith.errors import FieldError
from claimsmith.kube.backoff import Backoff
from claimsmith.kubelet.paths import NodePaths
from claimsmith.model.inventory import Inventory, Pool
from claimsmith.model.pool import ResourceSlice
from claimsmith.publish.publisher import SlicePublisher
from claimsmith.testing import builders as b
from tests.cases.casefile import CaseFile, check_fields
from tests.cases.discovered import judge_discovered, parse_discovered
from tests.cases.paper_driver import PaperDriver
from tests.scenarios.published_node import api_server, list_slices

DRIVER: Final = "gpu.example.test"


async def judge_publishing(case: CaseFile) -> list[str]:
    """Return what differs from the right result.

    Raises:
        InputError: Something in the case is not understood.
    """
    if "discovered" in case.content:
        case.check_fields("discovered")
        return await _judge_discovered(case)
    case.check_fields("generate", "then")
    return await _judge_generated(case)


@contextlib.asynccontextmanager
async def published(
    inventory: Inventory,
) -> AsyncIterator[tuple[SlicePublisher, Callable[[], Any]]]:
    """Publish an inventory; gives the publisher, and a call that reads the slices once all is published."""
    async with api_server(b.NODE) as client:
        publisher = SlicePublisher(client, driver=DRIVER, node=b.NODE, backoff=Backoff(initial_s=0.01, max_s=0.1))
        task = asyncio.create_task(publisher.run())

        async def read() -> tuple[ResourceSlice, ...]:
            async with asyncio.timeout(60):
                await publisher.wait_published()
            return await list_slices(client)

        publisher.publish(inventory)
        try:
            yield publisher, read
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def _judge_discovered(case: CaseFile) -> list[str]:
    """Let the agent of a node publish what a driver reports."""
    driver = PaperDriver(DRIVER, map(parse_discovered, case.content["discovered"]))
    with tempfile.TemporaryDirectory(prefix="cs-") as folder:
        paths = NodePaths.compact(Path(folder))
        paths.make()
        async with api_server(b.NODE) as client:
            options = AgentOptions(boot_id="boot")
            async with Agent([driver], node_name=b.NODE, client=client, paths=paths, options=options) as agent:
                async with asyncio.timeout(60):
                    await agent.wait_published()
                return list(judge_discovered(case.content["expect"], await list_slices(client), agent.states()[0]))


async def _judge_generated(case: CaseFile) -> list[str]:
    pools = {item["pool"]: _generate(item) for item in case.content["generate"]}
    expected = dict(case.content["expect"])
    every = expected.pop("every-pool")
    check_fields(expected, *pools)
    async with published(Inventory(pools=tuple(pools.values()))) as (publisher, read):
        slices = await read()
        problems = list(map(str, publisher.problems))
        differences = list(_judge_pools(expected, pools, slices)) + list(_judge_every(every, pools, slices, problems))
        for step in case.content.get("then") or ():
            if "expect" in step:
                differences += _judge_pools(step["expect"], pools, await read())
            else:
                _change(step, pools)
                publisher.publish(Inventory(pools=tuple(pools.values())))
    return differences


def _change(step: Mapping[str, Any], pools: dict[str, Pool]) -> None:
    check_fields(step, "do", "pool")
    if step["do"] != "remove-all-devices":
        raise FieldError("do", step["do"], allowed="remove-all-devices", hint="teach the judge this step")
    pools[step["pool"]] = Pool(name=step["pool"])


def _generate(item: Mapping[str, Any]) -> Pool:
    """Return a pool of plain devices, or of cards with a counter set and parts each."""
    check_fields(item, "pool", "devices", "name-format", "taint-on", "cards", "counter-set-format", "parts-per-card")
    if "cards" not in item:
        names = [item["name-format"] % index for index in range(item["devices"])]
        taint = (b.taint(),)
        devices = (b.device(name, taints=taint if name == item.get("taint-on") else ()) for name in names)
        return Pool(name=item["pool"], devices=tuple(devices))
    cards, parts = range(item["cards"]), item["parts-per-card"]
    sets = tuple(b.counter_set(item["counter-set-format"] % card, {"parts": parts}) for card in cards)
    return Pool(
        name=item["pool"],
        counter_sets=sets,
        devices=tuple(
            b.device(item["name-format"] % (card, part), counters=[b.consumes(sets[card].name, {"parts": 1})])
            for card in cards
            for part in range(parts)
        ),
    )


def _judge_pools(
    expected: Mapping[str, Mapping[str, int]], pools: Mapping[str, Pool], slices: Iterable[ResourceSlice]
) -> Iterator[str]:
    by_pool = {name: [item for item in slices if item.pool == name] for name in pools}
    for name, wanted in expected.items():
        check_fields(wanted, *_COUNTS)
        for rule, right in wanted.items():
            found = _COUNTS[rule](by_pool[name])
            if found > right if rule.endswith("at-most") else found != right:
                yield f"{name}: {rule} is {found}, right is {right}"


_COUNTS: Final[Mapping[str, Callable[[list[ResourceSlice]], int]]] = {
    "slices": len,
    "devices": lambda slices: sum(len(item.devices) for item in slices),
    "devices-per-slice-at-most": lambda slices: max(len(item.devices) for item in slices),
    "devices-per-slice-that-uses-taints-at-most": lambda slices: max(
        len(item.devices) for item in slices if any(device.taints for device in item.devices)
    ),
    "counter-sets-per-slice-at-most": lambda slices: max(len(item.shared_counters) for item in slices),
}


def _judge_every(
    expected: Mapping[str, bool], pools: Mapping[str, Pool], slices: Iterable[ResourceSlice], problems: list[str]
) -> Iterator[str]:
    """What holds of every pool; that the slices are there says that the API server took them."""
    check_fields(expected, "one-generation", "slice-count-correct", "accepted-by-apiserver")
    for name, pool in pools.items():
        own = [item for item in slices if item.pool == name]
        if len({item.generation for item in own}) != 1:
            yield f"{name}: generations {[item.generation for item in own]}, right is one"
        if {item.slice_count for item in own} != {len(own)}:
            yield f"{name}: slice counts {[item.slice_count for item in own]}, right is {len(own)}"
        shown = [device.name for item in own for device in item.devices]
        if shown != [device.name for device in pool.devices] or problems:
            yield f"{name}: {len(shown)} devices accepted, right is {len(pool.devices)}; {problems}"
        used = {item.counter_set for s in own for device in s.devices for item in device.consumes_counters}
        if used - {item.name for s in own for item in s.shared_counters}:
            yield f"{name}: counter sets of {sorted(used)} are missing in the pool"
