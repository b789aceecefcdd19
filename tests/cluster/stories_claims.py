"""Stories of DRA drivers: what is done to a node, and what is seen of it."""

from __future__ import annotations

from typing import Any

from claimsmith.kube.client import KubeObject
from tests.cluster.story import Story
from tests.cluster.watching import wait_phase
from tests.scenarios.small_dra import SmallDra

__all__ = ["STORIES"]

_ONE = {"c": [("gpu-0", ["r"])]}
_OTHER = "other.vendor.example"
_SHARES = ("11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222")


async def containers_get_their_requests(story: Story) -> Any:
    """One container takes a whole claim, one a request of it, one nothing."""
    devices = {"c": [("gpu-0", ["big"]), ("gpu-1", ["big"]), ("gpu-2", ["small"]), ("gpu-3", [])]}
    async with story.driver(devices) as driver:
        wanted: tuple[list[str], ...] = (["c"], ["c/small"], [])
        containers = ({"claims": claims} for claims in wanted)
        pod = await story.create("p", *containers, resourceClaims=[story.uses("c")])
        await story.claim("c", ("gpu-0", "big"), ("gpu-1", "big"), ("gpu-2", "small"), pods=[pod])
        await story.bind("p")
        running = await wait_phase(story.client, "p", "Running")
        seen = (
            [(name, await story.world.output(running, name)) for name in ("main", "c1", "c2")],
            await story.status("p"),
            await story.listed("p"),
            story.claim_checkpoint(),
        )
        await story.delete("p")
        return seen, tuple(driver.calls), story.claim_checkpoint()


async def claims_of_a_pod_come_in_one_call(story: Story) -> Any:
    """A pod uses three claims of a driver."""
    names = ("a", "b", "c")
    async with story.driver({name: [(f"gpu-{i}", ["r"])] for i, name in enumerate(names)}) as driver:
        pod = await story.create("p", {"claims": names}, resourceClaims=[story.uses(name) for name in names])
        for i, name in enumerate(names):
            await story.claim(name, (f"gpu-{i}", "r"), pods=[pod])
        await story.bind("p")
        running = await wait_phase(story.client, "p", "Running")
        seen = await story.world.output(running), await story.listed("p")
        await story.delete("p")
        last, first = [call for call in driver.calls if len(call[1]) == 3], driver.calls[-1]
        return seen, [sorted(claims) for _, claims in last], sorted(first[1])


async def two_pods_share_a_claim(story: Story) -> Any:
    """The claim is prepared before the first and given back after the last of its pods."""
    async with story.driver(_ONE) as driver:
        first = await story.create("first", {"claims": ["c"]}, resourceClaims=[story.uses("c")])
        await story.claim("c", ("gpu-0", "r"), pods=[first])
        await story.bind("first")
        await wait_phase(story.client, "first", "Running")
        second = await story.create("second", {"claims": ["c"]}, resourceClaims=[story.uses("c")])
        await story.reserve("c", first, second)
        await story.bind("second")
        await wait_phase(story.client, "second", "Running")
        seen = [await story.listed("first"), await story.listed("second"), tuple(driver.calls)]
        await story.delete("first")
        seen.append(tuple(driver.calls))
        await story.delete("second")
        return tuple(seen), tuple(driver.calls)


async def a_claim_is_not_for_the_pod(story: Story) -> Any:
    """The claim has no devices yet, and so is for no pod."""
    async with story.driver(_ONE):
        await story.claim("c")
        await story.create("p", {"claims": ["c"]}, resourceClaims=[story.uses("c")])
        await story.bind("p")
        seen = (
            await story.warning("p", "FailedPrepareDynamicResources"),
            await story.status("p"),
            await story.listed("p"),
        )
        await story.delete("p")
        return seen


async def a_claim_is_missing(story: Story) -> Any:
    """The claim is not there at all."""
    await story.create("p", {"claims": ["c"]}, resourceClaims=[story.uses("c")])
    await story.bind("p")
    seen = await story.warning("p", "FailedPrepareDynamicResources"), await story.status("p")
    await story.delete("p")
    return seen


async def a_driver_is_missing(story: Story) -> Any:
    """The claim's driver has not registered."""
    pod = await story.create("p", {"claims": ["c"]}, resourceClaims=[story.uses("c")])
    await story.claim("c", ("gpu-0", "r"), pods=[pod], driver="other.vendor.example")
    await story.bind("p")
    seen = await story.warning("p", "FailedPrepareDynamicResources"), await story.status("p"), story.claim_checkpoint()
    await story.delete("p")
    return seen


async def a_driver_fails(story: Story) -> Any:
    """The driver answers with an error for the claim; the pod is deleted while it waits."""
    return await _failing(story, "no power")


async def a_driver_forgets_the_claim(story: Story) -> Any:
    """The driver's answer has no entry for the claim."""
    return await _failing(story, "-")


async def _failing(story: Story, failure: str) -> Any:
    async with story.driver(_ONE) as driver:
        story.fail(driver, "c", failure)
        pod = await story.create("p", {"claims": ["c"]}, resourceClaims=[story.uses("c")])
        await story.claim("c", ("gpu-0", "r"), pods=[pod])
        await story.bind("p")
        message = await story.warning("p", "FailedPrepareDynamicResources")
        seen = message, await story.status("p"), await story.listed("p"), story.claim_checkpoint()
        story.fail(driver, "c", "")
        first, tries = driver.calls[0], sorted({name for name, _ in driver.calls})
        await story.delete("p")
        return seen, first, tries, driver.calls[-1], story.claim_checkpoint()


async def a_cdi_device_is_missing(story: Story) -> Any:
    """The driver names a CDI device that no file describes."""
    async with story.driver({"c": [("gpu-77", ["r"])]}) as driver:
        pod = await story.create("p", {"claims": ["c"]}, resourceClaims=[story.uses("c")])
        await story.claim("c", ("gpu-77", "r"), pods=[pod])
        await story.bind("p")
        await story.warning("p", "Failed")
        await story.waits_for("p", "CreateContainerError")
        phase = await story.phase("p")
        await story.delete("p")
        return phase, driver.calls[0], driver.calls[-1]


async def devices_fail_and_return(story: Story) -> Any:
    """The driver says how a claimed device fares; then it ends."""
    async with story.driver(_ONE) as driver:
        pod = await story.create(
            "p", {"claims": ["c"]}, {"claims": ["c/r"]}, resourceClaims=[story.uses("c")], nodeName=""
        )
        await story.claim("c", ("gpu-0", "r"), pods=[pod])
        await story.bind("p")
        await wait_phase(story.client, "p", "Running")
        seen: list[Any] = []
        for state, text in (("Healthy", ""), ("Unhealthy", "too hot"), ("Unknown", "no sensor"), ("Healthy", "cool")):
            driver.set_health("gpu-0", state, text)
            await story.wait_devices("p", f"'{state}'", f"'{text}'" if text else "")
            seen.append(await story.status("p"))
        await story.delete("p")
        return tuple(seen)


async def the_kubelet_starts_anew(story: Story) -> Any:
    """The kubelet is restarted while a pod uses a claim, which a second pod then uses too."""
    async with story.driver(_ONE) as driver:
        first = await story.create("first", {"claims": ["c"]}, resourceClaims=[story.uses("c")])
        await story.claim("c", ("gpu-0", "r"), pods=[first])
        await story.bind("first")
        await wait_phase(story.client, "first", "Running")
        await story.world.restart_kubelet()
        await driver.registered()
        seen = [tuple(driver.calls), await story.wait_listed("first"), story.claim_checkpoint()]
        second = await story.create("second", {"claims": ["c"]}, resourceClaims=[story.uses("c")])
        await story.reserve("c", first, second)
        await story.bind("second")
        await wait_phase(story.client, "second", "Running")
        seen += [tuple(driver.calls), await story.listed("second")]
        await story.delete("first", "second")
        return tuple(seen), tuple(driver.calls)


async def a_pod_goes_while_its_driver_is_away(story: Story) -> Any:
    """The driver ends, the pod is deleted, the driver comes back."""
    async with story.driver(_ONE):
        pod = await story.create("p", {"claims": ["c"]}, resourceClaims=[story.uses("c")])
        await story.claim("c", ("gpu-0", "r"), pods=[pod])
        await story.bind("p")
        await wait_phase(story.client, "p", "Running")
    await story.ask_to_go("p")
    seen = story.claim_checkpoint()
    async with story.driver(_ONE) as again:
        await story.is_gone("p")
        return seen, sorted({name for name, _ in again.calls}), story.claim_checkpoint()


async def slices_of_the_node_go_when_the_kubelet_starts(story: Story) -> Any:
    """The kubelet is restarted while a driver has published slices."""
    async with story.driver(_ONE) as driver:
        await story.publish("mine")
        before = await story.slices()
        await story.world.restart_kubelet()
        await driver.registered()
        await story.slices_become([])
        return before


async def slices_go_when_their_driver_stays_away(story: Story) -> Any:
    """The driver ends and does not come back within half a minute."""
    async with story.driver(_ONE):
        await story.publish("mine")
    before = await story.slices()
    await story.slices_become([])
    return before


async def shares_of_a_device_keep_their_ids(story: Story) -> Any:
    """A claim has two shares of one device, each for a request of its own."""
    devices = {"c": [("gpu-0", [request], share) for request, share in zip("rs", _SHARES, strict=True)]}
    async with story.driver(devices):
        pod = await story.create("p", {"claims": ["c/r"]}, {"claims": ["c"]}, resourceClaims=[story.uses("c")])
        changes = [{"shareID": share} for share in _SHARES]
        await story.claim("c", ("gpu-0", "r"), ("gpu-0", "s"), pods=[pod], changes=changes)
        await story.bind("p")
        running = await wait_phase(story.client, "p", "Running")
        seen = await _seen(story, running, "main", "c1")
        await story.delete("p")
        return seen


async def a_claim_has_devices_of_two_drivers(story: Story) -> Any:
    """Each of two drivers prepares and gives back what is its own of a claim."""
    async with story.driver(_ONE) as one, story.driver({"c": [("gpu-1", ["s"])]}, name=_OTHER) as other:
        pod = await story.create("p", {"claims": ["c"]}, {"claims": ["c/s"]}, resourceClaims=[story.uses("c")])
        await story.claim("c", ("gpu-0", "r"), ("gpu-1", "s"), pods=[pod], changes=[{}, {"driver": _OTHER}])
        await story.bind("p")
        running = await wait_phase(story.client, "p", "Running")
        seen = await _seen(story, running, "main", "c1")
        await story.delete("p")
        return seen, tuple(one.calls), tuple(other.calls), story.claim_checkpoint()


async def a_driver_can_not_give_back(story: Story) -> Any:
    """The driver fails to unprepare; the pod stays until it can."""
    async with story.driver(_ONE) as driver:
        pod = await story.create("p", {"claims": ["c"]}, resourceClaims=[story.uses("c")])
        await story.claim("c", ("gpu-0", "r"), pods=[pod])
        await story.bind("p")
        await wait_phase(story.client, "p", "Running")
        story.fail(driver, "c", "no power")
        await story.ask_to_go("p")
        await story.called(driver, "unprepare")
        seen = [story.claim_checkpoint(), await story.phase("p")]
        story.fail(driver, "c", "")
        await story.is_gone("p")
        return seen, driver.calls[0], driver.calls[-1], story.claim_checkpoint()


async def limits_are_met_by_a_claim(story: Story) -> Any:
    """A scheduler has made a claim for the extended resources of a container; another container has none."""
    resource = "dra.vendor.example/gpu"
    async with story.driver({"c": [("gpu-0", ["container-0-request-0"])]}) as driver:
        pod = await story.create("p", {"limits": {resource: "1"}}, {})
        await story.claim("c", ("gpu-0", "container-0-request-0"), pods=[pod])
        await story.counts("p", "c", ("main", resource, "container-0-request-0"))
        await story.bind("p")
        running = await wait_phase(story.client, "p", "Running")
        seen = await _seen(story, running, "main", "c1")
        await story.delete("p")
        return seen, tuple(driver.calls), story.claim_checkpoint()


async def init_containers_use_claims(story: Story) -> Any:
    """An init container that ends uses one request of a claim, a sidecar another, the pod's container all of it."""
    init = [
        story.container("first", {"claims": ["c/r"], "seconds": 0}),
        story.container("stays", {"claims": ["c/s"], "stays": True}),
    ]
    async with story.driver({"c": [("gpu-0", ["r"]), ("gpu-1", ["s"])]}) as driver:
        pod = await story.create("p", {"claims": ["c"]}, resourceClaims=[story.uses("c")], initContainers=init)
        await story.claim("c", ("gpu-0", "r"), ("gpu-1", "s"), pods=[pod])
        await story.bind("p")
        running = await wait_phase(story.client, "p", "Running")
        seen = await _seen(story, running, "first", "stays", "main")
        await story.delete("p")
        return seen, tuple(driver.calls)


async def _seen(story: Story, pod: KubeObject, *containers: str) -> Any:
    """Return what containers see, and what the kubelet tells and keeps of their pod."""
    outputs = [(name, await story.world.output(pod, name)) for name in containers]
    name = pod["metadata"]["name"]
    return outputs, await story.status(name), await story.listed(name), story.claim_checkpoint()


async def plugins_are_refused(story: Story) -> Any:
    """A driver registers with services that the kubelet does not know."""
    async with SmallDra(story.world.paths, _ONE, services=["v9.DRAPlugin"]) as driver:
        await driver.registered()
        return [taken for taken, _ in driver.said[:1]]


STORIES = {
    told.__name__: told
    for told in (
        containers_get_their_requests,
        claims_of_a_pod_come_in_one_call,
        two_pods_share_a_claim,
        a_claim_is_not_for_the_pod,
        a_claim_is_missing,
        a_driver_is_missing,
        a_driver_fails,
        a_driver_forgets_the_claim,
        a_cdi_device_is_missing,
        devices_fail_and_return,
        the_kubelet_starts_anew,
        a_pod_goes_while_its_driver_is_away,
        slices_of_the_node_go_when_the_kubelet_starts,
        slices_go_when_their_driver_stays_away,
        shares_of_a_device_keep_their_ids,
        a_claim_has_devices_of_two_drivers,
        a_driver_can_not_give_back,
        limits_are_met_by_a_claim,
        init_containers_use_claims,
        plugins_are_refused,
    )
}
