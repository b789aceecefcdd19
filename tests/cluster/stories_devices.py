"""Stories of device plugins: what is done to a node, and what is seen of it."""

from __future__ import annotations

from typing import Any

from claimsmith.api.kinds import NODE
from tests.cluster.recipe import NODE as NODE_NAME
from tests.cluster.story import Story
from tests.cluster.watching import wait_phase
from tests.scenarios.small_plugin import SmallPlugin

__all__ = ["STORIES"]


async def containers_get_devices(story: Story) -> Any:
    """Two containers want devices, and one has a value of its own for a variable of the plugin."""
    async with story.plugin(numa={"gpu-0": 0}) as plugin:
        pod = await story.start("p", {"gpus": 2}, {"gpus": 1, "env": {"OWN": "kept", "GPUS": "mine"}})
        seen = (
            _calls(plugin),
            [(name, await story.world.output(pod, name)) for name in ("main", "c1")],
            await story.status("p"),
            await story.listed("p"),
            await story.described("p"),
            await story.described("nobody"),
            await story.allocatable(),
            story.device_checkpoint(),
        )
        await story.delete("p")
        return seen


async def init_containers_share(story: Story) -> Any:
    """An init container that ends gives its devices on, a sidecar keeps them."""
    init = [story.container("first", {"gpus": 1, "seconds": 0}), story.container("stays", {"gpus": 1, "stays": True})]
    async with story.plugin() as plugin:
        pod = await story.start("p", {"gpus": 2}, initContainers=init)
        seen = _calls(plugin), await story.world.output(pod), await story.listed("p"), await story.status("p")
        await story.delete("p")
        return seen


async def the_plugin_is_asked_what_it_prefers(story: Story) -> Any:
    """The plugin prefers a device that there is, and one that there is not."""
    async with story.plugin() as plugin:
        plugin.prefers_first, plugin.prefers = False, ("gpu-2", "gpu-9")
        pod = await story.start("p", {"gpus": 1})
        seen = _calls(plugin), await story.world.output(pod)
        await story.delete("p")
        return seen


async def all_devices_are_wanted(story: Story) -> Any:
    """The plugin is asked also when there is nothing to choose."""
    async with story.plugin() as plugin:
        await story.start("p", {"gpus": 3})
        await story.delete("p")
        return _calls(plugin)


async def a_plugin_without_options(story: Story) -> Any:
    """The plugin wants nothing but to allocate."""
    async with story.plugin(pinned=False) as plugin:
        pod = await story.start("p", {"gpus": 3})
        seen = _calls(plugin), await story.world.output(pod)
        await story.delete("p")
        return seen


async def containers_are_announced(story: Story) -> Any:
    """The plugin wants to know that a container starts."""
    async with story.plugin(options={"pre_start_required": True}) as plugin:
        await story.start("p", {"gpus": 1}, {})
        await story.delete("p")
        return _calls(plugin)


async def a_container_may_not_start(story: Story) -> Any:
    """The plugin does not let a container start."""
    async with story.plugin(options={"pre_start_required": True}) as plugin:
        plugin.refusals["pre_start"] = "no power"
        await story.create("p", {"gpus": 1})
        await story.bind("p")
        message = await story.warning("p", "Failed")
        await story.waits_for("p", "CreateContainerConfigError")
        status = await story.status("p")
        await story.delete("p")
        return message, status


async def a_plugin_refuses(story: Story) -> Any:
    """The plugin does not give out a device."""
    async with story.plugin() as plugin:
        plugin.refusals["allocate"] = "no power"
        return await _rejected(story, {"gpus": 1})


async def more_is_wanted_than_is_left(story: Story) -> Any:
    """Two of three devices are taken when two more are wanted."""
    async with story.plugin():
        await story.start("first", {"gpus": 2})
        seen = await _rejected(story, {"gpus": 2})
        await story.delete("first")
        return seen


async def nothing_healthy_is_left(story: Story) -> Any:
    """All devices have failed when one is wanted."""
    async with story.plugin() as plugin:
        plugin.set_health(gpu_0="Unhealthy", gpu_1="Unhealthy", gpu_2="Unhealthy")
        await story.amounts("3", "0")
        return await _rejected(story, {"gpus": 1})


async def a_preference_fails(story: Story) -> Any:
    """The plugin can't say what it prefers."""
    async with story.plugin() as plugin:
        plugin.refusals["prefer"] = "no idea"
        return await _rejected(story, {"gpus": 1})


async def a_device_fails_and_returns(story: Story) -> Any:
    """A device fails while a container has it, and another that is free."""
    async with story.plugin() as plugin:
        await story.start("p", {"gpus": 1})
        seen: list[Any] = [await story.status("p")]
        plugin.set_health(gpu_0="Unhealthy", gpu_1="Unhealthy")
        await story.amounts("3", "1")
        await story.wait_devices("p", "'Unhealthy'")
        seen += [await story.status("p"), await story.allocatable(), await story.checkpoint_of("gpu-2")]
        plugin.set_health(gpu_0="Healthy")
        await story.amounts("3", "2")
        await story.wait_devices("p", "'Healthy'")
        seen += [await story.status("p")]
        await story.delete("p")
        return tuple(seen)


async def a_plugin_goes_and_comes_back(story: Story) -> Any:
    """The plugin ends while a container has a device; another pod is rejected; it registers again."""
    async with story.plugin():
        await story.start("p", {"gpus": 1})
    await story.amounts("3", "0")
    seen = [await story.status("p"), await _rejected(story, {"gpus": 1}), await story.allocatable()]
    async with story.plugin() as again:
        await story.start("second", {"gpus": 2})
        seen += [_calls(again), await story.listed("p"), await story.listed("second")]
        await story.delete("p", "second")
    return tuple(seen)


async def the_kubelet_starts_anew(story: Story) -> Any:
    """The kubelet is restarted while a container has a device."""
    async with story.plugin() as plugin:
        await story.start("p", {"gpus": 1})
        socket = story.world.paths.device_plugins / plugin.endpoint
        await story.world.restart_kubelet()
        await story.amounts("0", "0")
        seen = [socket.exists(), story.device_checkpoint(), await story.status("p"), _calls(plugin)]
    async with story.plugin() as again:
        await story.start("second", {"gpus": 2})
        seen += [_calls(again), await story.status("p"), await story.listed("p"), await story.listed("second")]
        await story.delete("p", "second")
    return tuple(seen)


async def plugins_are_refused(story: Story) -> Any:
    """Plugins register in ways that are not allowed."""
    told = []
    odd: tuple[dict[str, str], ...] = ({"version": "v1alpha1"}, {"resource": "gpu"}, {"resource": "kubernetes.io/gpu"})
    async with SmallPlugin(story.world.paths.device_plugins, {"a": "Healthy"}, endpoint="odd.sock") as plugin:
        for changes in odd:
            told.append(await story.refusal(plugin.register(**changes)))
    return tuple(told)


async def a_plugin_registers_twice(story: Story) -> Any:
    """A plugin that has registered does it once more, and ends: its kubelet does not notice, until it starts anew."""
    try:
        async with story.plugin() as plugin:
            twice = await story.refusal(plugin.register())
        async with SmallPlugin(story.world.paths.device_plugins, {"a": "Healthy"}) as plugin:
            again = await story.refusal(plugin.register())
    finally:
        await story.world.restart_kubelet()
    async with story.plugin() as plugin:
        return twice, again, await story.allocatable()


async def pods_end_and_give_devices_back(story: Story) -> Any:
    """A pod ends by itself; its devices go to the next one."""
    async with story.plugin() as plugin:
        await story.create("short", {"gpus": 3, "seconds": 1})
        await story.bind("short")
        await wait_phase(story.client, "short")
        seen = await story.status("short"), await story.listed("short")
        await story.start("next", {"gpus": 3})
        later = _calls(plugin), await story.listed("next"), await story.described("short")
        await story.delete("short", "next")
        return seen, later


async def amounts_set_by_hand(story: Story) -> Any:
    """Somebody sets an extended resource by hand; the kubelet keeps it, and keeps pods away that want more."""
    patch = {"status": {"capacity": {"example.test/tape": "2"}}}
    await story.client.patch(NODE, NODE_NAME, patch, subresource="status")
    await story.offered("example.test/tape", "2")
    await story.start("first", {"limits": {"example.test/tape": "1"}})
    seen = await _rejected(story, {"limits": {"example.test/tape": "2"}})
    await story.delete("first")
    gone = {"status": {"capacity": {"example.test/tape": None}}}
    await story.client.patch(NODE, NODE_NAME, gone, subresource="status")
    await story.offered("example.test/tape", None)
    return seen


async def _rejected(story: Story, container: Any) -> Any:
    await story.create("rejected", container)
    await story.bind("rejected")
    pod = await wait_phase(story.client, "rejected", "Failed")
    reason = pod["status"]["reason"]
    seen = await story.status("rejected"), await story.warning("rejected", reason), await story.listed("rejected")
    await story.delete("rejected")
    return seen


def _calls(plugin: SmallPlugin) -> tuple[Any, ...]:
    """Return the calls that a plugin has got."""
    return tuple(plugin.calls)


STORIES = {
    told.__name__: told
    for told in (
        containers_get_devices,
        init_containers_share,
        the_plugin_is_asked_what_it_prefers,
        all_devices_are_wanted,
        a_plugin_without_options,
        containers_are_announced,
        a_container_may_not_start,
        a_plugin_refuses,
        more_is_wanted_than_is_left,
        nothing_healthy_is_left,
        a_preference_fails,
        a_device_fails_and_returns,
        a_plugin_goes_and_comes_back,
        the_kubelet_starts_anew,
        plugins_are_refused,
        a_plugin_registers_twice,
        pods_end_and_give_devices_back,
        amounts_set_by_hand,
    )
}
