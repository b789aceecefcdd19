"""A node in small: a scheduler that knows only claims, a kubelet that knows only ids, and the one ledger between them.

The process of the driver may be killed at every write of the ledger, before or after it, and in every driver call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from claimsmith.errors import ClaimsmithError
from claimsmith.model.inventory import Inventory
from claimsmith.model.names import DeviceId, PodRef
from claimsmith.model.prepared import ClaimKey, PreparedDevice, PreparedDevices, PrepareRequest
from claimsmith.node.cdi_files import CdiFiles
from claimsmith.node.deviceplugin_rules import DevicePluginOptions, ResourceRule, plan_offers
from claimsmith.node.durable import write_durable
from claimsmith.node.grants import Grants
from claimsmith.node.grants_keeper import GrantKeeper
from claimsmith.node.hardware import Hardware
from claimsmith.node.ledger import Ledger
from claimsmith.node.podresources import ContainerDevices, KubeletView
from claimsmith.node.preparation import Preparation
from claimsmith.sdk.driver import Driver
from claimsmith.telemetry import Meter
from claimsmith.testing import builders as b

RESOURCE = "example.test/gpu"
CARD = b.counter_set("card", {"slices": 2})
INVENTORY = Inventory.of(
    b.device("whole", counters=[b.consumes("card", {"slices": 2})]),
    b.device("half-0", counters=[b.consumes("card", {"slices": 1})]),
    b.device("half-1", counters=[b.consumes("card", {"slices": 1})]),
    b.device("solo"),
    counter_sets=(CARD,),
)
NAMES = ("whole", "half-0", "half-1", "solo")
SLICES = {"whole": 2, "half-0": 1, "half-1": 1, "solo": 0}
RULE = ResourceRule(resource=RESOURCE)

_Value = TypeVar("_Value")


class KilledError(BaseException):
    """The process ends here."""


def fits(names: list[str]) -> bool:
    """Tell whether devices can be in use at the same time."""
    return len(set(names)) == len(names) and sum(SLICES[name] for name in names) <= SLICES["whole"]


class Inline(Executor):
    """Runs each call at once, in the same thread."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(call(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


class HardwareDriver(Driver):
    """Keeps which devices are prepared, over the ends of processes."""

    name = b.DRIVER

    def __init__(self, pulse: Callable[[], None]) -> None:
        self.prepared: dict[str, tuple[str, ...]] = {}
        self._pulse = pulse

    def discover(self) -> Inventory:
        return INVENTORY

    def prepare(self, request: PrepareRequest) -> PreparedDevices:
        self._pulse()
        self.prepared[request.claim.uid] = tuple(device.id.device for device in request.devices)
        self._pulse()
        return PreparedDevices(devices=tuple(PreparedDevice(device=device) for device in request.devices))

    def unprepare(self, claim: ClaimKey) -> None:
        self._pulse()
        self.prepared.pop(claim.uid, None)
        self._pulse()


@dataclass
class Container:
    """A container of the device plugin, as the kubelet knows it."""

    pod: str
    name: str
    ids: frozenset[str]
    is_init: bool = False


@dataclass
class Claim:
    """A claim that the scheduler has allocated; `in_use` from the kubelet's answer to the end of its pod."""

    uid: str
    device: str
    in_use: bool = False


@dataclass
class NodeModel:
    """The node: what everybody knows, and the process of the driver."""

    root: Path
    kill_in: int | None = None
    now_s: float = 0.0
    claims: dict[str, Claim] = field(default_factory=dict)
    containers: list[Container] = field(default_factory=list)
    stored: tuple[ContainerDevices, ...] = ()
    made: int = 0

    def __post_init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.driver = HardwareDriver(self._pulse)
        for name in ("driver", "cdi"):
            (self.root / name).mkdir()
        self.start()

    # --- the process --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the driver's process."""
        self.kill_in = None
        folder, cdi = self.root / "driver", self.root / "cdi"
        self.ledger = Ledger(folder, CdiFiles(cdi, self.driver.name).read_claims, write=self._write)
        self.ledger.learn(Hardware.of(self.driver.name, INVENTORY, node=b.NODE))
        self.preparation = Preparation(
            self.driver, folder=folder, cdi_folder=cdi, boot_id="boot", meter=Meter(), ledger=self.ledger
        )
        self.preparation.open()
        grants = Grants(driver=self.driver, ledger=self.ledger, cdi_folder=cdi, boot_id="boot", meter=Meter())
        self.offered = plan_offers(self.driver.name, INVENTORY, node=b.NODE, rules=[RULE])
        self.keeper = GrantKeeper(
            grants,
            options=DevicePluginOptions(rules=(RULE,), grace_s=30),
            kubelet=self,  # type: ignore[arg-type]
            executor=Inline(),
            now_s=lambda: self.now_s,
        )

    def run(self, work: Coroutine[Any, Any, _Value]) -> _Value:
        """Run a coroutine that waits for nothing outside."""
        return self.loop.run_until_complete(work)

    def attempt(self, call: Callable[[], Any]) -> bool:
        """Do something in the process, which may be killed in it and is then started again; tell whether it worked."""
        try:
            call()
        except KilledError:
            self.start()
            return False
        except ClaimsmithError:
            return False
        return True

    def _write(self, path: Path, data: bytes) -> None:
        self._pulse()
        write_durable(path, data)
        self._pulse()

    def _pulse(self) -> None:
        """A moment at which the process may be killed."""
        if self.kill_in is not None:
            self.kill_in -= 1
            if self.kill_in < 0:
                raise KilledError

    # --- the kubelet --------------------------------------------------------------------------------------------------

    async def look(self) -> KubeletView:
        """Answer as the kubelet does: the service leaves out init containers, the checkpoint is as old as it is."""
        self.now_s += 5
        listed = tuple(_described(item, with_pod=True) for item in self.containers if not item.is_init)
        pods = frozenset(PodRef("default", item.pod) for item in self.containers)
        return KubeletView(listed=listed, pods=pods, stored=self.stored)

    def write_checkpoint(self) -> None:
        """Write down which containers have which devices."""
        self.stored = tuple(_described(item, with_pod=False) for item in self.containers)

    def free_ids(self) -> list[str]:
        """Return the ids that the kubelet may give away."""
        taken = {id_ for item in self.containers for id_ in item.ids}
        return [id_ for id_ in NAMES if id_ not in taken]

    def admit(self, first: frozenset[str], rest: frozenset[str]) -> None:
        """Give devices to a pod: the first to an init container, if any, whose devices the app container takes over."""
        self.made += 1
        pod, given = f"pod-{self.made}", list[Container]()
        for name, ids, is_init in (("init", first, True), ("app", rest, False)):
            if not ids:
                continue
            wanted = [item for item in self.offered[RESOURCE] if item.id in ids]
            if not self.attempt(lambda wanted=wanted: self.run(self.keeper.give(RULE, wanted))):  # type: ignore[misc]
                return
            given.append(Container(pod=pod, name=name, ids=ids, is_init=is_init))
            before, self.containers = self.containers, [*self.containers, *given]
            self.write_checkpoint()
            self.containers = before
        self.containers += given

    def end_pod(self, pod: str) -> None:
        """End a pod; nobody is told, and the checkpoint stays as it is."""
        self.containers = [item for item in self.containers if item.pod != pod]

    def prepare(self, claim: Claim) -> None:
        """Call the driver for a claim, as often as it takes: a kubelet that gets no answer calls again."""
        request = b.prepare_request(claim.device, claim=_key(claim))
        if self.attempt(lambda: self.preparation.prepare(request)):
            claim.in_use = True

    def unprepare(self, claim: Claim) -> None:
        """End the claim's pod, then call the driver; a claim whose call fails is tried again later."""
        claim.in_use = False
        if self.attempt(lambda: self.preparation.unprepare(_key(claim))):
            del self.claims[claim.uid]

    def keep(self) -> None:
        """Let the driver's process look once at what containers have."""

        def work() -> None:
            if self.run(self.keeper.look(self.offered)).nudge:
                self.write_checkpoint()

        self.attempt(work)

    def close(self) -> None:
        """Give back what the model has open."""
        self.loop.close()

    # --- what must hold -----------------------------------------------------------------------------------------------

    def in_use(self) -> list[tuple[str, ...]]:
        """Return the devices of everybody who has an answer; the containers of one pod take turns."""
        pods: dict[str, set[str]] = {}
        for item in self.containers:
            pods.setdefault(item.pod, set()).update(item.ids)
        return [
            *(tuple(sorted(ids)) for ids in pods.values()),
            *((c.device,) for c in self.claims.values() if c.in_use),
        ]

    def held(self) -> set[DeviceId]:
        """Return the devices that the ledger says are held."""
        entries = (*self.ledger.claims(), *(grant.entry for grant in self.ledger.grants()))
        return {device.id for entry in entries for device in entry.devices}


def _key(claim: Claim) -> ClaimKey:
    return ClaimKey(namespace="default", name=f"claim-{claim.uid}", uid=claim.uid)


def _described(item: Container, *, with_pod: bool) -> ContainerDevices:
    pod = PodRef("default", item.pod) if with_pod else None
    return ContainerDevices(resource=RESOURCE, ids=item.ids, container=item.name, pod=pod, pod_uid=item.pod)
