"""The kubelet is told of each change of health as the policy grades it, and of nothing twice."""

from __future__ import annotations

from claimsmith.daemons.agent_health import DriverHealth
from claimsmith.model.device import DeviceTaint
from claimsmith.model.inventory import DeviceHealth, Inventory
from claimsmith.publish.health_policy import UNHEALTHY_KEY, CauseRule, HealthPolicy, TaintPlace
from claimsmith.testing import builders as b

CARD = b.device("gpu-0", attributes={"uuid": "GPU-0"})
PART = b.device("gpu-0-a", attributes={"parentUUID": "GPU-0"})
TAINT = DeviceTaint(key=UNHEALTHY_KEY, value="xid-79", effect="NoSchedule")


class Bench:
    """The health of a card and its partition, with what the kubelet was told."""

    def __init__(self, *, taints: TaintPlace = "slices", can_adopt: bool = True) -> None:
        self.told: list[tuple[str, bool | None]] = []
        self.wakes = 0
        self.now_s = 0.0
        policy = HealthPolicy(hold_s=10, taints=taints, rules=(CauseRule(causes=("soft",), effect="none"),))
        self.health = DriverHealth(
            b.DRIVER, b.NODE, policy, tell_kubelet=self._tell, can_adopt=can_adopt, wake=self._wake,
            clock=lambda: self.now_s,
        )  # fmt: skip
        self.health.place(Inventory.of(CARD, PART))

    def say(self, device: str, *, healthy: bool, cause: str = "xid-79") -> list[tuple[str, bool | None]]:
        """Let the driver report; return what the kubelet was told thereupon."""
        report = DeviceHealth(device=device, healthy=healthy, cause="" if healthy else cause)
        self.health.note([report], self.now_s)
        return self.take()

    def take(self) -> list[tuple[str, bool | None]]:
        told, self.told = sorted(self.told), []
        return told

    def _tell(self, *devices: DeviceHealth) -> None:
        self.told += [(device.device, device.healthy) for device in devices]

    def _wake(self) -> None:
        self.wakes += 1


def test_a_failed_card_and_its_partition_are_told_once() -> None:
    bench = Bench()

    assert bench.say("gpu-0", healthy=False) == [("gpu-0", False), ("gpu-0-a", False)]
    assert bench.say("gpu-0", healthy=False) == []


def test_the_return_is_told_when_it_comes_by_itself() -> None:
    bench = Bench()
    bench.say("gpu-0-a", healthy=False)
    bench.say("gpu-0-a", healthy=True)
    bench.health.look(10)

    assert ("gpu-0-a", True) in bench.take()


def test_a_partition_of_which_the_driver_never_speaks_is_not_known_again() -> None:
    bench = Bench()
    bench.say("gpu-0", healthy=False)
    bench.say("gpu-0", healthy=True)
    bench.health.look(10)

    assert bench.take() == [("gpu-0", True), ("gpu-0-a", None)]


def test_a_harmless_cause_leaves_a_device_healthy() -> None:
    assert Bench().say("gpu-0", healthy=False, cause="soft") == [("gpu-0", True)]


def test_taints_are_taken_over_once_and_by_drivers_that_report_health() -> None:
    bench, silent = Bench(), Bench(can_adopt=False)
    published = {b.device_id("gpu-0"): (TAINT,)}

    assert (bench.health.adopt(published), bench.health.adopt(published)) == (True, False)
    assert not silent.health.adopt(published)
    assert (bench.wakes, silent.wakes) == (1, 0)


def test_slices_show_taints_only_where_the_policy_wants_them() -> None:
    taints = {b.device_id("gpu-0"): (TAINT,)}

    assert Bench().health.for_slices(taints) == taints
    assert Bench(taints="rules").health.for_slices(taints) == {}
    assert Bench(taints="off").health.for_slices(taints) == {}
