"""The stage of scripts about a foreign device plugin: a plugin written by hand on the node of the agent.

The pods that have its cards run on the embedded kubelet, which tells of them as a real one does.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from claimsmith.api.kinds import DEVICE_REPORT, EVENT, POD
from claimsmith.api.kinds import NODE as NODES
from claimsmith.api.reports import parse_device_report
from claimsmith.daemons.agent import Agent, AgentOptions
from claimsmith.daemons.agent_options import FrontEnds
from claimsmith.errors import FieldError
from claimsmith.model.device import Device
from claimsmith.node.deviceplugin_rules import DevicePluginOptions, ResourceRule
from claimsmith.node.podresources import ForeignRule
from claimsmith.publish.reports import ReportPace
from tests.cases.node_stage import NodeStage, node_stage
from tests.cases.plugin_stage import Process
from tests.cases.scripts import Action, Check, Play, Step
from tests.scenarios.embedded_node import NODE
from tests.scenarios.published_node import list_slices
from tests.scenarios.small_plugin import SmallPlugin

_DRIVER: Final = "gpu.example.test"
_RESOURCE: Final = "example.test/gpu"
_LONG_S: Final = 31.0
"""Longer than a kubelet keeps the slices of a driver that has gone."""


class ForeignStage:
    """One node with a foreign plugin. `given` is that of the script."""

    def __init__(self, stage: NodeStage, given: Mapping[str, Any]) -> None:
        self.stage, self.node, self.given = stage, stage.node, given
        self.running: Process | None = None
        self.start_error = ""

    async def breathe(self) -> None:
        await self.stage.breathe()

    async def wait(self, seconds: float) -> None:
        await self.stage.wait(seconds)

    async def occupy(self) -> None:
        """Run the pods that have the plugin's cards; the kubelet gives the first card to the first pod."""
        resource = self.given["foreign-plugin"]["resource"]
        while self.node.kubelet.devices.stock.find(resource) is None:
            await self.breathe()
        for pod in self.given["foreign-plugin"]["gave"].values():
            container = {
                "name": "main",
                "image": "i",
                "command": ["sleep", "3600"],
                "resources": {"limits": {resource: "1"}},
            }
            await self.node.create_pod(pod, spec={"containers": [container]})
            await self.node.bind(pod)
            await self.node.reaches(pod, "Running")

    async def start(self, mode: str, *, in_addition: bool) -> None:
        """Start an agent in a mode."""
        if self.running is not None and not in_addition:
            raise FieldError("in-addition", in_addition, allowed="true", hint="teach the stage to change the mode")
        plugin = DevicePluginOptions(
            rules=(ResourceRule(resource=_RESOURCE),) if mode == "device-plugin" else (), reconcile_s=0.05
        )
        fronts = FrontEnds(
            dra=mode == "dra", device_plugin=plugin, foreign=ForeignRule(), report=ReportPace(interval_s=0.05)
        )
        options = AgentOptions(boot_id="boot", fronts={_DRIVER: fronts})
        agent = Agent(
            [self.stage.driver],
            node_name=NODE,
            client=self.stage.agent_client,
            paths=self.node.paths,
            options=options,
        )
        process = Process(agent, mode)
        self.start_error = await process.start()
        if not self.start_error:
            self.running = process
            await self.node.kubelet.check_plugins()

    async def stop(self) -> None:
        """Stop the agent for good."""
        if self.running is not None:
            await self.running.stop()
            self.running = None

    async def devices(self) -> dict[str, Device]:
        """Return the devices in the slices by name."""
        return {device.name: device for item in await list_slices(self.node.client) for device in item.devices}


@contextlib.asynccontextmanager
async def _enter(given: Mapping[str, Any]) -> AsyncIterator[ForeignStage]:
    """Start the node, the foreign plugin and its pods."""
    cards = dict.fromkeys(given["cards"], "Healthy")
    async with node_stage({"driver": _DRIVER, "node": given["node"], "devices": given["cards"]}) as stage:
        found = ForeignStage(stage, given)
        async with SmallPlugin(stage.node.paths.device_plugins, cards) as plugin:
            await plugin.register(resource=given["foreign-plugin"]["resource"])
            try:
                await found.occupy()
                yield found
            finally:
                await found.stop()


# --- actions ----------------------------------------------------------------------------------------------------------


async def _start(stage: ForeignStage, step: Step) -> None:
    await stage.start(step["mode"], in_addition=step.get("in-addition", False))


async def _release(stage: ForeignStage, step: Step) -> None:
    pod = stage.given["foreign-plugin"]["gave"][step["card"]]
    await stage.node.client.delete(POD, pod, namespace="default")
    await stage.node.goes(pod)


async def _uninstall(stage: ForeignStage, step: Step) -> None:
    await stage.stop()
    await stage.wait(1)
    await stage.wait(_LONG_S)


# --- states -----------------------------------------------------------------------------------------------------------


def _compare(found: object, wanted: object) -> str:
    return "" if found == wanted else f"{found}, right is {wanted}"


def _is_free(device: Device) -> bool:
    return not any(taint.effect in ("NoSchedule", "NoExecute") for taint in device.taints)


async def _taint(stage: ForeignStage, wanted: Mapping[str, str]) -> str:
    device = (await stage.devices()).get(wanted["device"])
    effects = [] if device is None else [taint.effect for taint in device.taints]
    return "" if wanted["effect"] in effects else f"effects {effects}, right is {wanted['effect']}"


async def _free(stage: ForeignStage, wanted: list[str]) -> str:
    return _compare(sorted(name for name, device in (await stage.devices()).items() if _is_free(device)), wanted)


async def _warned(stage: ForeignStage, wanted: bool) -> str:
    events = (await stage.node.client.list(EVENT)).items
    cards = stage.given["foreign-plugin"]["gave"]
    found = [
        item for item in events if item.get("type") == "Warning" and any(card in item["message"] for card in cards)
    ]
    return _compare(bool(found), wanted)


async def _start_error(stage: ForeignStage, wanted: list[str]) -> str:
    missing = [word for word in wanted if word not in stage.start_error]
    return f"the error does not mention {', '.join(missing)}: {stage.start_error or 'no error'}" if missing else ""


async def _cards(stage: ForeignStage, wanted: list[str]) -> str:
    """What there is to see of the node is the agent's report."""
    reports = [parse_device_report(item) for item in (await stage.node.client.list(DEVICE_REPORT)).items]
    return _compare([item.device.name for report in reports for item in report.devices], wanted)


async def _slices(stage: ForeignStage, wanted: int) -> str:
    return _compare(len(await list_slices(stage.node.client)), wanted)


async def _node_status(stage: ForeignStage, wanted: Mapping[str, str]) -> str:
    if dict(wanted) != {"our-resource": "0-or-absent"}:
        raise FieldError("node-status", wanted, allowed="our-resource: 0-or-absent", hint="teach the stage this")
    status = (await stage.node.client.get(NODES, NODE)).get("status") or {}
    amounts = [(status.get(part) or {}).get(_RESOURCE, "0") for part in ("capacity", "allocatable")]
    return _compare(amounts, ["0", "0"])


_ACTIONS: Final = {
    "start-driver": Action(act=_start, fields=frozenset({"mode", "in-addition"})),
    "foreign-plugin.release": Action(act=_release, fields=frozenset({"card"})),
    "uninstall-driver": Action(act=_uninstall),
}

_CHECKS: Final[Mapping[str, Check]] = {
    "taint": _taint,
    "free-for-dra": _free,
    "warning-event": _warned,
    "start-error-mentions": _start_error,
    "status-page-cards": _cards,
    "slices": _slices,
    "node-status": _node_status,
}

FOREIGN_PLAY: Final = Play(
    given=frozenset({"node", "cards", "foreign-plugin"}), actions=_ACTIONS, checks=_CHECKS, enter=_enter, variants={}
)
