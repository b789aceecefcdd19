"""Which devices are tainted so that their users must go: kept up to date from slices and rules. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from claimsmith.embedded.controllers.taint_plans import EvictingTaint, rule_selects
from claimsmith.model.device import Device
from claimsmith.model.names import DeviceId, PoolId
from claimsmith.model.pool import DeviceTaintRule, ResourceSlice

__all__ = ["TaintIndex"]

_NO_EXECUTE = "NoExecute"


@dataclass(slots=True)
class _Pool:
    """The slices of a pool by name; only those of the newest generation count."""

    slices: dict[str, ResourceSlice] = field(default_factory=dict)

    def current(self) -> Iterator[tuple[ResourceSlice, Device]]:
        newest = max((item.generation for item in self.slices.values()), default=0)
        for item in self.slices.values():
            if item.generation == newest:
                for device in item.devices:
                    yield item, device

    def find_taints(self) -> dict[str, tuple[EvictingTaint, ...]]:
        found: dict[str, tuple[EvictingTaint, ...]] = {}
        for item, device in self.current():
            taints = tuple(
                EvictingTaint(
                    taint=taint, source=f"ResourceSlice {item.name} {item.pool_id}/{device.name} taint #{number}"
                )
                for number, taint in enumerate(device.taints)
                if taint.effect == _NO_EXECUTE
            )
            if taints and device.name not in found:
                found[device.name] = taints
        return found


class TaintIndex:
    """The evicting taints of all devices, whether published or not: a rule also strikes a device that has vanished."""

    def __init__(self) -> None:
        self._pools: dict[PoolId, _Pool] = {}
        self._tainted: dict[PoolId, Mapping[str, tuple[EvictingTaint, ...]]] = {}
        self._rules: dict[str, DeviceTaintRule] = {}

    def find_taints(self, device: DeviceId) -> Iterator[EvictingTaint]:
        """Yield the evicting taints of a device: those of its slice, then those of rules by name."""
        yield from self._tainted.get(device.pool_id, {}).get(device.device, ())
        for _, rule in sorted(self._rules.items()):
            yield from _taint_of(rule, device)

    def find_taints_as_if(self, device: DeviceId, rule: DeviceTaintRule) -> Iterator[EvictingTaint]:
        """Yield the evicting taints of a device if this rule's effect were NoExecute and there were no other rule."""
        yield from self._tainted.get(device.pool_id, {}).get(device.device, ())
        yield from _taint_of(replace(rule, taint=replace(rule.taint, effect=_NO_EXECUTE)), device)

    def see_slice(self, old: ResourceSlice | None, new: ResourceSlice | None) -> frozenset[DeviceId]:
        """Take in a change of a slice; returns the devices whose evicting taints changed."""
        changed: set[DeviceId] = set()
        for pool_id in {item.pool_id for item in (old, new) if item is not None}:
            pool = self._pools.setdefault(pool_id, _Pool())
            if old is not None and old.pool_id == pool_id:
                pool.slices.pop(old.name, None)
            if new is not None and new.pool_id == pool_id:
                pool.slices[new.name] = new
            changed |= self._settle(pool_id, pool)
        return frozenset(changed)

    def _settle(self, pool_id: PoolId, pool: _Pool) -> set[DeviceId]:
        before, after = self._tainted.pop(pool_id, {}), pool.find_taints()
        if after:
            self._tainted[pool_id] = after
        if not pool.slices:
            del self._pools[pool_id]
        names = {name for name in (*before, *after) if before.get(name) != after.get(name)}
        return {DeviceId(pool_id.driver, pool_id.pool, name) for name in names}

    def see_rule(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        """Take in a change of a rule."""
        if old is not None:
            self._rules.pop(old.metadata.name, None)
        if new is not None and new.taint.effect == _NO_EXECUTE:
            self._rules[new.metadata.name] = new

    def count_published(self, rule: DeviceTaintRule) -> int:
        """Return how many published devices a rule selects."""
        return sum(
            rule_selects(rule, DeviceId(pool_id.driver, pool_id.pool, device.name))
            for pool_id, pool in self._pools.items()
            for _, device in pool.current()
        )


def _taint_of(rule: DeviceTaintRule, device: DeviceId) -> Iterator[EvictingTaint]:
    if rule_selects(rule, device):
        source = f"DeviceTaintRule {rule.metadata.name}"
        yield EvictingTaint(taint=rule.taint, rule_uid=rule.metadata.uid, source=source)
