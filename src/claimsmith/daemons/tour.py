"""The scripted tour of the demo: what is put into the embedded cluster, and what must then be seen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, Protocol, runtime_checkable

from claimsmith.api.manifests import Manifest, parse_manifests
from claimsmith.daemons.agent import AgentOptions
from claimsmith.daemons.agent_driver import LoopOptions
from claimsmith.daemons.clusterplan import ClusterPlan, PlannedObject, plan_cluster
from claimsmith.daemons.offline import OfflineCluster
from claimsmith.daemons.onlooker import Onlooker, SeenPod
from claimsmith.daemons.playground import Playground, PlaygroundOptions
from claimsmith.errors import DemoError
from claimsmith.model.names import PodRef
from claimsmith.publish.health import HealthPolicy

__all__ = ["TOUR_FOLDER", "TOUR_OPTIONS", "Fact", "StepReport", "Tour", "plan_tour"]

TOUR_FOLDER: Final = Path(__file__).parent.parent / "examples" / "mixed-gpus"
"""The manifests of the tour."""
TOUR_OPTIONS: Final = PlaygroundOptions(agent=AgentOptions(loop=LoopOptions(health=HealthPolicy(hold_s=1.0))))
"""How the tour's cluster is run: a card that was repaired is trusted sooner than usual, so that nobody has to wait."""
_START: Final = ("00-devices.yaml", "10-classes.yaml")
_STREAMS: Final = tuple(f"stream-{number:02d}" for number in range(21))
_FULL: Final = 20
_GANG: Final = "85-gang.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One thing that was seen.

    Args:
        what: A pod `runs` or `waits`, a device `fails`, so many pods run (`count`), or a gang `starves` if its pods
            are taken one after the other.
        text: The same as a sentence.
        pod: Name of the pod.
        node: Node on which it runs.
        devices: Devices with which it runs, or the device that fails.
        reason: Why it waits, or would wait.
    """

    what: Literal["runs", "waits", "fails", "count", "starves"]
    text: str
    pod: str = ""
    node: str = ""
    devices: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """What one step of the tour has shown.

    Args:
        title: What it is about.
        facts: What was seen, in order.
    """

    title: str
    facts: tuple[Fact, ...]


@runtime_checkable
class _Scripted(Protocol):
    """A driver whose devices fail and recover on demand."""

    def run_step(self, name: str) -> None:
        """Let the steps of that name happen."""
        ...


def plan_tour() -> ClusterPlan:
    """Return the cluster that the tour begins with: devices and classes, no pods."""
    return plan_cluster(manifest for name in _START for manifest in _read(name))


class Tour:
    """Eight steps on a cluster made by `plan_tour`.

    Args:
        playground: The cluster.
        onlooker: Sees it change.
        timeout_s: Seconds until a step must have shown what it is about.
    """

    def __init__(self, playground: Playground, onlooker: Onlooker, *, timeout_s: float = 60.0) -> None:
        self._playground, self._onlooker, self._timeout_s = playground, onlooker, timeout_s

        self._steps: tuple[tuple[str, Callable[[], Awaitable[tuple[Fact, ...]]]], ...] = (
            ("pods that need more than 10 GiB, a node with a GPU of 8 GiB and one of 12 GiB", self._more_than_10_gib),
            ("an A100 cut into partitions on demand", self._partitions),
            ("one A100-80, or else two A100-40", self._large_or_small),
            ("2 Gbit/s for each pod of a NIC with 40 Gbit/s, until it is full", self._bandwidth),
            ("one claim shared by two pods", self._shared_claim),
            ("a GPU fails, and comes back", self._failing_card),
            ("a pod that just counts: nvidia.com/gpu: 1", self._counted),
            ("two pods that start together or not at all, a card that is one whole or two halves", self._gang),
        )

    @property
    def titles(self) -> tuple[str, ...]:
        """What the steps are about, in order."""
        return tuple(title for title, _ in self._steps)

    async def steps(self) -> AsyncIterator[StepReport]:
        """Run the steps one after the other.

        Raises:
            DemoError: A step did not show what it is about.
        """
        for title, step in self._steps:
            yield StepReport(title=title, facts=await self._within(title, step()))

    async def _within(self, title: str, step: Awaitable[tuple[Fact, ...]]) -> tuple[Fact, ...]:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await step
        except TimeoutError:
            pods = ", ".join(f"{pod.metadata.name} {pod.phase}" for pod in self._onlooker.list_pods())
            raise DemoError(title, found=pods or "no pods", timeout_s=self._timeout_s) from None

    # --- the steps ----------------------------------------------------------------------------------------------------

    async def _more_than_10_gib(self) -> tuple[Fact, ...]:
        await self._add("20-more-than-10-gib.yaml")
        first = await self._see("train-0")
        waiting = await self._hear("train-1")
        second = await self._see("train-1")
        return (first, waiting, replace(second, text=f"train-0 has ended: {second.text}"))

    async def _partitions(self) -> tuple[Fact, ...]:
        await self._add("30-partitions.yaml")
        return tuple([await self._see(f"infer-{number}") for number in range(4)])

    async def _large_or_small(self) -> tuple[Fact, ...]:
        await self._add("40-one-large-or-two-small.yaml")
        return tuple([await self._see(f"tune-{number}") for number in range(2)])

    async def _bandwidth(self) -> tuple[Fact, ...]:
        await self._add("50-bandwidth.yaml")
        running = await self._onlooker.until(self._find_full)
        last = next(name for name in _STREAMS if name not in running)
        full = Fact(what="count", text=f"{len(running)} pods run")
        return (await self._see(running[0]), full, await self._hear(last))

    def _find_full(self) -> list[str] | None:
        running = [name for name in _STREAMS if PodRef("default", name) in self._onlooker.seen]
        return running if len(running) == _FULL else None

    async def _shared_claim(self) -> tuple[Fact, ...]:
        await self._add("60-shared-claim.yaml")
        return (await self._see("left"), await self._see("right"))

    async def _failing_card(self) -> tuple[Fact, ...]:
        objects = plan_cluster(_read("70-failing-card.yaml")).objects
        late = [item for item in objects if _name_of(item) == "late"]
        await self._create([item for item in objects if item not in late])
        steady = await self._see("steady")
        self._run_script("fail-second-h100")
        device = await self._onlooker.until(lambda: self._onlooker.find_tainted("h100-1"))
        await self._create(late)
        waiting = await self._hear("late")
        await self._onlooker.until(lambda: self._onlooker.find_pod("steady", "Running"))
        self._run_script("repair-second-h100")
        repaired = await self._see("late")
        failed = Fact(what="fails", devices=(str(device),), text=f"{device} fails and is tainted; steady runs on")
        return (steady, failed, waiting, replace(repaired, text=f"repaired: {repaired.text}"))

    async def _counted(self) -> tuple[Fact, ...]:
        await self._add("80-counted.yaml")
        return (await self._see("vector-add"),)

    async def _gang(self) -> tuple[Fact, ...]:
        starving = await asyncio.to_thread(_decide_like_upstream)
        await self._add(_GANG)
        return (starving, await self._see("pair-0"), await self._see("pair-1"))

    # --- doing and seeing ---------------------------------------------------------------------------------------------

    async def _add(self, name: str) -> None:
        await self._create(plan_cluster(_read(name)).objects)

    async def _create(self, objects: Sequence[PlannedObject]) -> None:
        for item in objects:
            await self._playground.create(item)

    def _run_script(self, step: str) -> None:
        for driver in self._playground.drivers["spare"]:
            if isinstance(driver, _Scripted):
                driver.run_step(step)

    async def _see(self, name: str) -> Fact:
        """Wait until a pod has run, and say on which devices."""
        return _tell(await self._onlooker.until(lambda: self._onlooker.seen.get(PodRef("default", name))))

    async def _hear(self, name: str) -> Fact:
        """Wait until it is said why a pod has to wait."""
        reason = await self._onlooker.until(lambda: self._onlooker.find_event(name, "FailedScheduling"))
        return Fact(what="waits", pod=name, reason=reason, text=f"{name} waits: {reason}")


def _read(name: str) -> tuple[Manifest, ...]:
    path = TOUR_FOLDER / name
    return parse_manifests(path.read_text(encoding="utf-8"), source=str(path))


def _decide_like_upstream() -> Fact:
    """Decide for the gang on the same devices as upstream does, one pod after the other, and say what comes of it.

    Raises:
        DemoError: Nobody waits.
    """
    manifests = [item for name in (*_START, _GANG) for item in _read(name)]
    waiting = [item for item in OfflineCluster(manifests, like_upstream=True).decide() if item.outcome == "pending"]
    if not waiting:
        raise DemoError("the gang decided like upstream", found="a place for all its pods", timeout_s=0.0)
    text = "one after the other, as upstream takes them: pair-0 gets the whole card, pair-1 nothing, neither starts"
    return Fact(what="starves", pod="pair", reason=waiting[0].message, text=text)


def _name_of(item: PlannedObject) -> str:
    return str(item.manifest.object["metadata"]["name"])


def _tell(seen: SeenPod) -> Fact:
    text = f"{seen.pod.name} runs on {seen.node} with {', '.join(seen.devices)}"
    return Fact(what="runs", pod=seen.pod.name, node=seen.node, devices=seen.devices, text=text)
