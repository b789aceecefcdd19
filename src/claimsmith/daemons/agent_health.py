"""Health of one driver's devices: graded by the policy, and told to all who want to know."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from claimsmith.model.device import DeviceTaint
from claimsmith.model.inventory import DeviceHealth, Inventory
from claimsmith.model.names import DeviceId
from claimsmith.publish.health import HealthTaints
from claimsmith.publish.health_policy import HealthPolicy
from claimsmith.publish.health_report import HealthReporter
from claimsmith.publish.health_spread import find_parents
from claimsmith.publish.taintrules import TaintRuleKeeper

__all__ = ["DriverHealth"]


class DriverHealth:
    """What is known of the health of a driver's devices. Times are monotonic seconds.

    Args:
        driver: Name of the driver.
        node: Name of the node.
        policy: How failures are graded.
        tell_kubelet: Gets the health of devices as it is graded, whenever that changes.
        reporter: Tells of changes; None: nobody does.
        rules: Keeps DeviceTaintRules; None when taints go elsewhere.
        can_adopt: Whether the driver reports health, so that taints of an earlier process can end.
        wake: Called when another look is due.
        clock: Monotonic seconds.
    """

    def __init__(  # noqa: PLR0913 - each is somebody to be told
        self,
        driver: str,
        node: str,
        policy: HealthPolicy,
        *,
        tell_kubelet: Callable[..., None],
        reporter: HealthReporter | None = None,
        rules: TaintRuleKeeper | None = None,
        can_adopt: bool = False,
        wake: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._driver, self._node, self._policy = driver, node, policy
        self._tell_kubelet, self._reporter, self._rules = tell_kubelet, reporter, rules
        self._graded = HealthTaints(driver, node, policy)
        self._told: dict[tuple[str, str], DeviceHealth] = {}
        self._can_adopt, self._wake, self._clock = can_adopt, wake, clock
        self._is_adopted = False
        if rules is not None:
            rules.subscribe(self._adopt_rules)

    def place(self, inventory: Inventory) -> None:
        """Learn which devices are parts of which cards."""
        self._graded.parents = find_parents(self._driver, inventory, node=self._node)

    def adopt(self, taints: Mapping[DeviceId, tuple[DeviceTaint, ...]]) -> bool:
        """Take over the taints that an earlier process has published; tell whether there were any.

        Only the first call counts, and only for a driver that reports health.
        """
        if self._is_adopted or not self._can_adopt:
            return False
        self._is_adopted = True
        self._graded.adopt(taints, self._clock())
        self._wake()
        return bool(taints)

    def note(self, reports: Iterable[DeviceHealth], now_s: float) -> None:
        """Take in what the driver says."""
        for report in reports:
            self._graded.note(report, now_s)
        self.look(now_s)

    def release(self, device: DeviceId) -> bool:
        """Take a device back into use by hand; tell whether a taint went."""
        is_done = self._graded.release(device, self._clock())
        self._wake()
        return is_done

    def look(self, now_s: float) -> Mapping[DeviceId, tuple[DeviceTaint, ...]]:
        """Return the taints that hold now, and tell all who want to know of what has changed."""
        failures, changes = self._graded.failures(now_s), self._graded.take_changes()
        if self._reporter is not None:
            self._reporter.tell(changes, failures)
        if self._rules is not None:
            self._rules.publish(self._driver, failures)
        graded = {(item.pool, item.device): item for item in self._graded.graded(now_s)}
        # A partition that failed along with its card, and of which the driver never speaks, is not known again.
        gone = {
            key: DeviceHealth(pool=key[0], device=key[1], healthy=None) for key in self._told.keys() - graded.keys()
        }
        graded = {**gone, **graded}
        if news := [item for key, item in graded.items() if self._told.get(key) != item]:
            self._tell_kubelet(*news)
        self._told = graded
        return self._graded.taints(now_s)

    def for_slices(
        self, taints: Mapping[DeviceId, tuple[DeviceTaint, ...]]
    ) -> Mapping[DeviceId, tuple[DeviceTaint, ...]]:
        """Return those taints that slices show; none when the policy wants them elsewhere."""
        return taints if self._policy.taints == "slices" else {}

    def _adopt_rules(self, taints: Mapping[DeviceId, tuple[DeviceTaint, ...]]) -> None:
        """Take over rules, and ask for them again at once, lest they be deleted."""
        if self.adopt(taints):
            self.look(self._clock())

    def find_next_s(self, now_s: float) -> float | None:
        """Return when something changes by itself; None when nothing does."""
        return self._graded.find_next_s(now_s)
