"""Which causes of failed devices keep pods away or send them away, how soon, and when the device may be used again."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, cast

import msgspec

from claimsmith.errors import FieldError
from claimsmith.sdk.strict import parse_strictly
from claimsmith.validate.names import check_label_key, check_label_value

__all__ = [
    "APPLICATION_XIDS",
    "UNHEALTHY_KEY",
    "CauseRule",
    "Effect",
    "Escalation",
    "HealthPolicy",
    "Spread",
    "TaintPlace",
    "parse_health_policy",
    "stronger",
]

Effect = Literal["none", "NoSchedule", "NoExecute"]
"""What a cause leads to: only a record of it, no new pods, or running pods evicted as well."""
TaintPlace = Literal["slices", "rules", "off"]
"""Where taints are published: in ResourceSlices, as DeviceTaintRules, or not at all."""

UNHEALTHY_KEY: Final = "claimsmith.dev/unhealthy"
"""Key of the taint of a device that its driver reports unhealthy; the value is the cause."""
_RANKS: Final[dict[Effect, int]] = {"none": 0, "NoSchedule": 1, "NoExecute": 2}
_XID: Final = re.compile(r"xid-(?:[0-9*?]|\[!?[0-9-]+\])+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalation:
    """What becomes of a cause that comes back again and again.

    Args:
        failures: At which failure it applies, the first being 1; >= 2. A device that was healthy for `forget_s`
            starts anew.
        effect: The effect from then on; never weaker than the rule's own.
        returns: Whether the device may still come back by itself.

    Raises:
        FieldError: `failures` is below 2.
    """

    failures: int
    effect: Effect = "NoExecute"
    returns: bool = True

    def __post_init__(self) -> None:
        if self.failures < 2:
            raise FieldError("escalation.failures", self.failures, allowed=">= 2", hint="set the rule's own effect")


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseRule:
    """What happens when a device fails for some causes. The first rule that matches a cause counts.

    Args:
        causes: Patterns (`*`, `?`, `[...]`) of causes, such as `xid-79` or `xid-*`.
        effect: What the failure leads to.
        key: Key of the taint.
        value: Value of the taint; None: the cause.
        reports: How many reports within `within_s` it takes; each report counts, also one that repeats the last.
        within_s: How far apart they may lie, in seconds.
        lasting_s: The device is tainted as well when it has failed for so long without a break, in seconds; None: the
            number of reports alone decides.
        returns: Whether the device comes back by itself once it has been healthy long enough.
        hold_s: How long it must have been healthy, in seconds; None: as the policy says.
        escalation: What changes when it fails again and again.

    Raises:
        FieldError: A value is out of its bounds, or a pattern can match nothing.
    """

    causes: tuple[str, ...] = ("*",)
    effect: Effect = "NoSchedule"
    key: str = UNHEALTHY_KEY
    value: str | None = None
    reports: int = 1
    within_s: float = 60.0
    lasting_s: float | None = None
    returns: bool = True
    hold_s: float | None = None
    escalation: Escalation | None = None

    def __post_init__(self) -> None:
        if not self.causes:
            raise FieldError("causes", self.causes, allowed="one pattern or more", hint="write * for all causes")
        for index, pattern in enumerate(self.causes):
            _check_pattern(pattern, f"causes[{index}]")
        if self.reports < 1:
            raise FieldError("reports", self.reports, allowed=">= 1", hint="write 1 to act at once")
        for name, seconds in (("within_s", self.within_s), ("lasting_s", self.lasting_s), ("hold_s", self.hold_s)):
            if seconds is not None:
                _check_seconds(name, seconds)
        for issue in (*check_label_key(self.key, "key"), *check_label_value(self.value or "", "value")):
            raise FieldError(issue.path, self.key if issue.path == "key" else self.value, allowed=issue.message,
                             hint="correct it")  # fmt: skip

    def matches(self, cause: str) -> bool:
        """Tell whether the rule is for a cause."""
        return any(fnmatchcase(cause, pattern) for pattern in self.causes)


APPLICATION_XIDS: Final = ("xid-13", "xid-31", "xid-43", "xid-45", "xid-68", "xid-94")
"""Errors of the program that uses the card, not of the card. Source: NVIDIA's XID catalogue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """To which devices of the same card a failure is extended.

    Args:
        to_parts: A failed card fails all its partitions.
        to_whole: A failed partition fails the card that it is a part of, for those who want all of the card.
        to_siblings: A failed partition fails the card's other partitions.
    """

    to_parts: bool = True
    to_whole: bool = True
    to_siblings: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthPolicy:
    """How failures of devices are graded, and when a device that failed may be used again.

    Args:
        rules: Rules by cause; the first that matches counts.
        standard_rules: Whether the rules that come with the product follow: errors of applications have no effect.
        effect: Effect of a cause that no rule matches; running pods stay with NoSchedule.
        hold_s: How long a device must have been healthy, in seconds, after its first failure.
        factor: By how much longer it must after each further failure; >= 1.
        hold_max_s: Longest such time in seconds.
        forget_s: A device that was healthy for so long starts anew, in seconds.
        spread: Which devices of the same card fail along.
        taints: Where taints are published.
        events: Whether changes are told in events about the node.

    Raises:
        FieldError: A value is out of its bounds.
    """

    rules: tuple[CauseRule, ...] = ()
    standard_rules: bool = True
    effect: Effect = "NoSchedule"
    hold_s: float = 5.0
    factor: float = 2.0
    hold_max_s: float = 600.0
    forget_s: float = 3600.0
    spread: Spread = field(default_factory=Spread)
    taints: TaintPlace = "slices"
    events: bool = True

    def __post_init__(self) -> None:
        for name in ("hold_s", "hold_max_s", "forget_s"):
            _check_seconds(name, getattr(self, name))
        if not 1 <= self.factor < math.inf:
            raise FieldError("factor", self.factor, allowed="a number >= 1", hint="write 1 for equal times")

    @property
    def all_rules(self) -> tuple[CauseRule, ...]:
        """All rules in the order in which they are tried; the last one matches every cause."""
        standard = _STANDARD_RULES if self.standard_rules else ()
        return (*self.rules, *standard, CauseRule(effect=self.effect))

    @property
    def keeps_some_out(self) -> bool:
        """Whether there are causes after which a device never returns by itself."""
        return any(not (rule.returns and (rule.escalation is None or rule.escalation.returns)) for rule in self.rules)

    def get_rule(self, cause: str) -> CauseRule:
        """Return the rule for a cause."""
        return next(rule for rule in self.all_rules if rule.matches(cause))

    def find_rule_of(self, key: str, value: str) -> CauseRule | None:
        """Return the rule that a taint comes from; None when no rule makes such a taint."""
        for rule in self.all_rules:
            if rule.key == key and (rule.matches(value) if rule.value is None else rule.value == value):
                return rule if rule.effect != "none" or rule.escalation is not None else None
        return None

    def hold_of(self, rule: CauseRule, failures: int) -> float:
        """Return how long a device must be healthy before it returns, in seconds.

        Args:
            rule: The rule of the cause.
            failures: How often it has failed; >= 1.
        """
        first_s = self.hold_s if rule.hold_s is None else rule.hold_s
        longest_s = max(self.hold_max_s, first_s)
        return float(min(longest_s, first_s * self.factor ** min(failures - 1, 64)))


def stronger(one: Effect, other: Effect) -> Effect:
    """Return the stronger of two effects."""
    return one if _RANKS[one] >= _RANKS[other] else other


def _check_seconds(name: str, seconds: float) -> None:
    if not 0 <= seconds < math.inf:
        raise FieldError(name, seconds, allowed="seconds >= 0", hint="correct the number")


def _check_pattern(pattern: str, path: str) -> None:
    """Refuse what can match no cause: a slip in a number would silently leave a rule without use."""
    if not pattern or any(letter.isspace() for letter in pattern):
        raise FieldError(path, pattern, allowed="a pattern without spaces", hint="write * for all causes")
    if pattern.startswith("xid-") and not _XID.fullmatch(pattern):
        raise FieldError(path, pattern, allowed="xid- and a number, * or ? for digits", hint="correct the number")


_STANDARD_RULES: Final = (CauseRule(causes=APPLICATION_XIDS, effect="none"),)


# --- the form in configuration files ----------------------------------------------------------------------------------


class _Escalation(msgspec.Struct, rename="camel", frozen=True):
    failures: int
    effect: Effect = "NoExecute"
    returns: bool = True


class _Rule(msgspec.Struct, rename="camel", frozen=True):
    causes: tuple[str, ...]
    effect: Effect = "NoSchedule"
    key: str = UNHEALTHY_KEY
    value: str | None = None
    reports: int = 1
    within_seconds: float = 60.0
    lasting_seconds: float | None = None
    returns: bool = True
    hold_seconds: float | None = None
    escalation: _Escalation | None = None


class _Spread(msgspec.Struct, rename="camel", frozen=True):
    to_parts: bool = True
    to_whole: bool = True
    to_siblings: bool = False


class _Policy(msgspec.Struct, rename="camel", frozen=True):
    rules: tuple[_Rule, ...] = ()
    standard_rules: bool = True
    effect: Effect = "NoSchedule"
    hold_seconds: float = 5.0
    factor: float = 2.0
    hold_max_seconds: float = 600.0
    forget_seconds: float = 3600.0
    spread: _Spread = _Spread()
    taints: TaintPlace = "slices"
    events: bool = True


def parse_health_policy(
    value: object, *, path: str = "health", locate: Callable[[str], str] | None = None
) -> HealthPolicy:
    """Return the policy of a configuration file's `health` section.

    Args:
        value: The section as decoded JSON or YAML; None for one that is left out.
        path: Path of the section, for messages.
        locate: Gives where a path stands, for messages.

    Raises:
        FieldError: A field is unknown, or holds what is not allowed.
    """
    wire = parse_strictly({} if value is None else value, _Policy, path=path, locate=locate)
    where = _Where(path, locate)
    rules = tuple(
        cast(CauseRule, where.build(CauseRule, _rule_fields(rule, where, index), f"rules[{index}]"))
        for index, rule in enumerate(wire.rules)
    )
    given = {name: item for name, item in _renamed(wire) if name not in ("rules", "spread")}
    spread = Spread(**dict(_renamed(wire.spread)))
    return cast(HealthPolicy, where.build(HealthPolicy, {**given, "rules": rules, "spread": spread}, ""))


def _rule_fields(rule: _Rule, where: _Where, index: int) -> dict[str, Any]:
    found = dict(_renamed(rule))
    if rule.escalation is not None:
        found["escalation"] = where.build(Escalation, dict(_renamed(rule.escalation)), f"rules[{index}]")
    return found


def _renamed(wire: msgspec.Struct) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a section under the names that the values have."""
    for name in wire.__struct_fields__:
        yield re.sub(r"_seconds$", "_s", name), getattr(wire, name)


@dataclass(frozen=True, slots=True)
class _Where:
    """Where a section stands, to name the field of a value that is refused."""

    path: str
    locate: Callable[[str], str] | None

    def build(self, cls: type[Any], given: dict[str, Any], place: str) -> object:
        """Make a value; its error names the field as the file spells it."""
        names = {item.name for item in fields(cls)}
        try:
            return cls(**{name: value for name, value in given.items() if name in names})
        except FieldError as error:
            field_path = re.sub(r"_s$", "_seconds", error.path)
            field_path = re.sub(r"_([a-z])", lambda match: match[1].upper(), field_path)
            full = ".".join(part for part in (self.path, place, field_path) if part)
            source = self.locate(full) if self.locate is not None else ""
            raise FieldError(full, error.found, allowed=error.allowed, hint=error.hint, source=source) from error
