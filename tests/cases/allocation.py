"""Judges cases of kind `allocate`: the claims of each query together, on each node by itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from claimsmith.allocate.explain import explain_refusal
from claimsmith.allocate.explain.text import format_reasons
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.search.decide import allocate
from claimsmith.allocate.verify import verify_allocation
from claimsmith.errors import FieldError
from claimsmith.model.claim import DeviceResult, ResourceClaim
from claimsmith.model.decision import Allocation, Decision, Pending, Refused, Undecided
from claimsmith.model.deviations import LIKE_UPSTREAM, OURS
from claimsmith.model.device import Device
from claimsmith.model.names import DeviceId
from claimsmith.model.node import Node
from claimsmith.model.quantity import parse_quantity
from claimsmith.testing.conformance.shares import ShareIds
from tests.cases.casefile import CaseFile, check_fields
from tests.cases.placement import judge_placement
from tests.cases.preparation import judge_preparation
from tests.cases.problems import Query, list_queries, parse_seconds
from tests.cases.words import find_unsaid

STEPS_PER_SECOND: Final = 1_000
"""Time limits of cases become limits of search steps: a slow machine does at least as many in a second."""

_OUTCOMES: Final[Mapping[str, tuple[type[Decision], ...]]] = {
    "allocated": (Allocation,),
    "pending": (Pending,),
    "error": (Refused,),
    "refused": (Refused,),
    "not-allocated": (Pending, Refused),
}
_SHARE_RULE: Final = "all different and different from the committed one"


async def judge_allocation(case: CaseFile) -> list[str]:
    """Return what differs from the right result.

    Raises:
        InputError: Something in the case is not understood.
    """
    suffixes = ("", "2", "3")
    names = [f"{name}{suffix}" for suffix in suffixes for name in ("query", "add-for-query", "expect")]
    case.check_fields(*names, "history", "gang", "upstream-1.37.2")
    differences = []
    for query in list_queries(case):
        expected = dict(case.content[f"expect{query.suffix}"])
        placed, prepared = expected.pop("pod", None), expected.pop("prepare", None)
        check_fields(expected, *(node.name for node in query.nodes))
        for node in query.nodes:
            found = _NodeAnswer.ask(query, node).judge(expected[node.name])
            differences += [f"query{query.suffix}, {node.name}: {text}" for text in found]
        if placed is not None:
            differences += await judge_placement(case, str(case.content["query"]["pod"]), placed)
        if prepared is not None:
            differences += await judge_preparation(query, prepared)
    return [*differences, *_judge_gang(case), *_judge_upstream(case)]


def _judge_gang(case: CaseFile) -> Iterator[str]:
    """A gang is decided by the query that names all its claims."""
    pods = (case.content.get("gang") or {}).get("pods") or ()
    together = sorted(claim for pod in pods for claim in pod["claims"])
    if pods and not any(sorted(str(c.ref) for c in query.claims) == together for query in list_queries(case)):
        yield f"no query asks for all claims of the gang: {', '.join(together)}"


def _judge_upstream(case: CaseFile) -> Iterator[str]:
    """Where a case says what upstream does, `like_upstream` must do the same."""
    recorded = case.content.get("upstream-1.37.2") or {}
    for query in list_queries(case):
        text = recorded.get(f"query{query.suffix}")
        if text is None:
            continue
        outcome, _, device = text.partition(" ")
        for node in query.nodes:
            answer = _NodeAnswer.ask(query, node, like_upstream=True)
            devices = [result.device for result in answer.results()]
            if not isinstance(answer.decision, _OUTCOMES[outcome]) or devices != [device]:
                yield f"like upstream on {node.name}: {answer.describe()}, recorded: {text}"


@dataclass(slots=True, eq=False, kw_only=True)
class _NodeAnswer:
    """Our decision for one query on one node."""

    query: Query
    node: Node
    decision: Decision

    @classmethod
    def ask(cls, query: Query, node: Node, *, like_upstream: bool = False) -> _NodeAnswer:
        budget = None if query.timeout_s is None else int(query.timeout_s * STEPS_PER_SECOND)
        problem = query.problem(node)
        decision = allocate(
            problem, share_ids=ShareIds(), budget_steps=budget, deviations=LIKE_UPSTREAM if like_upstream else OURS
        )
        return cls(query=query, node=node, decision=decision)

    def judge(self, expected: Mapping[str, Any]) -> list[str]:
        """Return what differs; every allocation must also satisfy the independent checker."""
        check_fields(expected, "outcome", *_CHECKS)
        if not isinstance(self.decision, _OUTCOMES[expected["outcome"]]):
            return [f"{self.describe()}, right is {expected['outcome']}"]
        differences = [
            text for name, check in _CHECKS.items() if name in expected for text in check(self, expected[name])
        ]
        if isinstance(self.decision, Allocation):
            found = verify_allocation(self.query.verify_case(self.node), self.decision.results)
            differences += [f"not valid: {violation}" for violation in found]
        return differences

    def describe(self) -> str:
        match self.decision:
            case Allocation():
                return f"allocated {', '.join(str(result.device_id) for result in self.results())}"
            case Undecided(steps=steps):
                return f"undecided after {steps} steps"
            case _:
                return f"{type(self.decision).__name__.lower()}: {'; '.join(self.sentences())}"

    def sentences(self) -> list[str]:
        """Return the explanation as people read it, sentence by sentence."""
        match self.decision:
            case Pending(reasons=reasons):
                return [format_reasons([reason]) for reason in reasons]
            case Refused():
                return [format_reasons([explain_refusal(self.decision)])]
            case _:
                return []

    def results(self, claim: str = "") -> list[DeviceResult]:
        """Return what one claim got, or all claims."""
        if not isinstance(self.decision, Allocation):
            return []
        pairs = zip(self.query.claims, self.decision.results, strict=True)
        return [result for owner, got in pairs if claim in ("", str(owner.ref)) for result in got.results]

    def check_because(self, phrases: list[str]) -> Iterator[str]:
        for phrase in find_unsaid(phrases, self.sentences()):
            yield f"the explanation does not say {phrase!r} but: {'; '.join(self.sentences())}"

    def check_accept(self, answers: list[dict[str, list[str]]]) -> Iterator[str]:
        found = {
            str(claim.ref): sorted(str(r.device_id) for r in self.results(str(claim.ref)))
            for claim in self.query.claims
        }
        if found not in [{claim: sorted(devices) for claim, devices in answer.items()} for answer in answers]:
            yield f"found {found}, right is one of {answers}"

    def check_within(self, limit: str) -> Iterator[str]:
        steps = int(parse_seconds(limit) * STEPS_PER_SECOND)
        if self.decision.steps > steps:
            yield f"{self.decision.steps} steps, allowed {steps}"

    def check_request_names(self, wanted: Mapping[str, list[str]]) -> Iterator[str]:
        for claim, names in wanted.items():
            found = [result.request for result in self.results(claim)]
            if found != names:
                yield f"{claim}: request names {found}, right is {names}"

    def check_tolerations(self, claims: list[str]) -> Iterator[str]:
        for claim in self.query.claims:
            asked = {r.name: r.alternatives[0].tolerations for r in claim.spec.requests}
            for result in self.results(str(claim.ref)) if str(claim.ref) in claims else ():
                if not result.tolerations or result.tolerations != asked[result.request]:
                    yield f"{claim.ref}: the result carries {result.tolerations}, right is {asked[result.request]}"

    def check_share_ids(self, rule: str) -> Iterator[str]:
        if rule != _SHARE_RULE:
            raise FieldError("share-ids", rule, allowed=_SHARE_RULE, hint="teach the judge this rule")
        shares = [r.share_id for r in (*self.results(), *self._committed())]
        if None in shares or len(set(shares)) < len(shares):
            yield f"share ids {shares}, right is one for each result, {rule}"

    def check_consumed(self, wanted: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
        found: dict[tuple[str, str], int] = defaultdict(int)
        for result in (*self.results(), *self._committed()):
            for name, amount in (result.consumed_capacity or {}).items():
                found[str(result.device_id), name] += amount.nanos
        right = {
            (d, name): parse_quantity(text).nanos for d, amounts in wanted.items() for name, text in amounts.items()
        }
        if found != right:
            yield f"consumed in all {dict(found)}, right is {right} (nano units)"

    def check_same_attribute(self, wanted: Mapping[str, Any]) -> Iterator[str]:
        check_fields(wanted, "claim", "attribute", "devices")
        results = self.results(wanted["claim"])
        devices = {result.device_id for result in results}
        if len(results) != wanted["devices"] or len(devices) != wanted["devices"]:
            yield f"{len(results)} results on {len(devices)} devices, right is {wanted['devices']}"
        values = {self._read(device, wanted["attribute"]) for device in devices}
        if len(values) != 1 or None in values:
            yield f"values {values} of {wanted['attribute']}, right is one"

    def check_usable(self, wanted: int) -> Iterator[str]:
        view = PreparedCluster.from_problem(self.query.problem(self.node)).view_node(self.node)
        found = sum(len(pool.devices) for pool in view.pools if pool.usable)
        if found != wanted:
            yield f"{found} usable devices, right is {wanted}"

    def _committed(self) -> list[DeviceResult]:
        claims: list[ResourceClaim] = list(self.query.objects.claims.values())
        return [result for claim in claims if claim.allocation for result in claim.allocation.results]

    def _read(self, id: DeviceId, attribute: str) -> object:
        """Return the value of a device's attribute; a driver's own may be published without its domain."""
        short = attribute.removeprefix(f"{id.driver}/")
        for device in self._published(id):
            found = device.attributes.get(attribute) or device.attributes.get(short)
            if found is not None:
                return found.value
        return None

    def _published(self, id: DeviceId) -> Iterator[Device]:
        for item in self.query.objects.slices:
            if (item.driver, item.pool) == id[:2]:
                yield from (device for device in item.devices if device.name == id.device)


_CHECKS: Final[Mapping[str, Callable[[_NodeAnswer, Any], Iterator[str]]]] = {
    "because": _NodeAnswer.check_because,
    "accept": _NodeAnswer.check_accept,
    "within": _NodeAnswer.check_within,
    "request-names": _NodeAnswer.check_request_names,
    "results-carry-tolerations": _NodeAnswer.check_tolerations,
    "share-ids": _NodeAnswer.check_share_ids,
    "consumed": _NodeAnswer.check_consumed,
    "same-attribute": _NodeAnswer.check_same_attribute,
    "usable-devices": _NodeAnswer.check_usable,
}
