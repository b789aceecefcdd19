"""However reports come: graded as by the slow twin, never back too soon, never out of use for ever."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from claimsmith.model.inventory import DeviceHealth
from claimsmith.model.names import DeviceId
from claimsmith.publish.health import HealthTaints
from claimsmith.publish.health_policy import CauseRule, Effect, Escalation, HealthPolicy
from tests.property.health_twin import Twin

DEVICE = DeviceId("gpu.example.test", "node-a", "gpu-0")
_EFFECTS: st.SearchStrategy[Effect] = st.sampled_from(["none", "NoSchedule", "NoExecute"])
_SECONDS = st.integers(0, 6)


@st.composite
def policies(draw: st.DrawFn) -> HealthPolicy:
    escalation = draw(
        st.none()
        | st.builds(Escalation, failures=st.integers(2, 4), effect=_EFFECTS, returns=st.booleans())
    )  # fmt: skip
    chosen = CauseRule(
        effect=draw(_EFFECTS), reports=draw(st.integers(1, 3)), within_s=draw(_SECONDS),
        lasting_s=draw(st.none() | _SECONDS), returns=draw(st.booleans()), escalation=escalation,
    )  # fmt: skip
    return HealthPolicy(
        rules=(chosen,), hold_s=draw(_SECONDS), factor=draw(st.integers(1, 3)), hold_max_s=draw(st.integers(0, 20)),
        forget_s=draw(st.integers(0, 25)),
    )  # fmt: skip


class OneDevice(RuleBasedStateMachine):
    """A device that fails and recovers at any time, looked at now and then."""

    @initialize(policy=policies())
    def begin(self, policy: HealthPolicy) -> None:
        self.now = 0
        self.health = HealthTaints(DEVICE.driver, DEVICE.pool, policy)
        self.twin = Twin(policy, policy.rules[0])
        self.was_tainted = False

    @rule(seconds=st.integers(0, 9))
    def fail(self, seconds: int) -> None:
        self._pass(seconds)
        self.health.note(DeviceHealth(device=DEVICE.device, healthy=False, cause="hot"), self.now)
        self.twin.report(True)

    @rule(seconds=st.integers(0, 9))
    def recover(self, seconds: int) -> None:
        self._pass(seconds)
        self.health.note(DeviceHealth(device=DEVICE.device, healthy=True), self.now)
        self.twin.report(False)

    @rule(seconds=st.integers(1, 60))
    def wait(self, seconds: int) -> None:
        self._pass(seconds)

    @invariant()
    def is_graded_as_by_the_twin(self) -> None:
        if hasattr(self, "twin"):
            found = [taint.effect for taint in self.health.taints(self.now).get(DEVICE, ())]

            assert found == ([self.twin.effect] if self.twin.effect else [])

    @invariant()
    def nothing_changes_before_it_is_told(self) -> None:
        if hasattr(self, "twin") and (next_s := self.health.find_next_s(self.now)) is not None:
            assert next_s > self.now

    @invariant()
    def a_device_that_may_return_is_never_out_of_use_for_ever(self) -> None:
        if hasattr(self, "twin") and self.twin.is_tainted and self.twin.returns and not self.twin._is_failing():
            next_s = self.health.find_next_s(self.now)
            policy = self.twin.policy

            assert next_s is not None
            assert next_s <= self.twin.reports[-1][0] + max(policy.hold_max_s, policy.hold_s)

    def _pass(self, seconds: int) -> None:
        """Let time pass, and see that a taint goes only after the device was healthy as long as it must be."""
        before = self.twin.is_tainted
        hold_s = self.twin.hold_s() if before else 0.0
        self.now += seconds
        self.twin.advance(self.now)
        if before and not self.health.taints(self.now):
            last_failure = max(at for at, failed in self.twin.reports if failed)

            assert self.now - last_failure >= hold_s


OneDevice.TestCase.settings = settings(OneDevice.TestCase.settings, stateful_step_count=40)
TestOneDevice = OneDevice.TestCase
