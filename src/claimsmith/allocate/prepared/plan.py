"""A pod's claims made ready for the search: classes found, gates checked, constraints assigned; the same for all nodes.

Source: Allocate and validateDeviceRequest in structured/internal/experimental, k8s.io/dynamic-resource-allocation
v0.37.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from claimsmith.allocate.prepared.eligibility import RequestShape, is_stable
from claimsmith.model.claim import (
    ALLOCATION_RESULTS_MAX,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    ResourceClaim,
    SubRequest,
)
from claimsmith.model.decision import Refused, RefusedKind
from claimsmith.model.features import Features
from claimsmith.model.names import RequestName

__all__ = ["ClaimPlan", "ConstraintPlan", "PodPlan", "RequestGroup", "RequestPlan", "plan_claims", "refuse_limit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintPlan:
    """One constraint: `match` (one value for all) or `distinct` (no value twice) of an attribute."""

    kind: Literal["match", "distinct"]
    attribute: str
    requests: tuple[str, ...] = ()

    def applies_to(self, name: RequestName) -> bool:
        """Tell whether devices of the request, or of the alternative, are bound by the constraint."""
        return not self.requests or name.request in self.requests or str(name) in self.requests


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RequestPlan:
    """One request, or one alternative of a request. Compared by identity.

    Args:
        claim, request, alternative: Places in the pod's claims, the claim's requests and the request's alternatives.
        label: The name as results have it: `request` or `request/subrequest`.
        takes_all: Allocation mode All; `count` is then not known before the node is.
        constraints: Places of the claim's constraints that bind its devices.
        derived: Expressions by the name of the derived attribute.
    """

    claim: int
    request: int
    alternative: int
    name: RequestName
    label: str
    spec: SubRequest
    device_class: DeviceClass
    shape: RequestShape
    takes_all: bool
    count: int
    constraints: tuple[int, ...] = ()
    derived: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RequestGroup:
    """One request with its alternatives; `prioritized` when it is a firstAvailable list."""

    request: DeviceRequest
    alternatives: tuple[RequestPlan, ...]
    prioritized: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClaimPlan:
    """One claim with its requests and constraints.

    Args:
        before_refusal: Alternatives of the request that is refused, up to the one that is not in order.
    """

    claim: ResourceClaim
    groups: tuple[RequestGroup, ...]
    constraints: tuple[ConstraintPlan, ...]
    before_refusal: tuple[RequestPlan, ...] = ()

    @property
    def requests(self) -> tuple[RequestPlan, ...]:
        """All requests and alternatives of the claim, in order."""
        return tuple([request for group in self.groups for request in group.alternatives])

    @property
    def takes_all(self) -> bool:
        """Whether any alternative asks for all devices."""
        return any(plan.takes_all for plan in (*self.requests, *self.before_refusal))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PodPlan:
    """The claims of one pod.

    Args:
        refusal: Why no search is possible on any node; the claims before the bad one are planned all the same.
        takes_all: Any alternative asks for all devices, so that each node must be looked at first.
        requests: All requests and alternatives of all claims, in order.
    """

    claims: tuple[ClaimPlan, ...]
    refusal: Refused | None = None
    takes_all: bool = False
    requests: tuple[RequestPlan, ...] = field(init=False)

    def __post_init__(self) -> None:
        requests = tuple([request for claim in self.claims for request in claim.requests])
        object.__setattr__(self, "requests", requests)


def plan_claims(
    claims: Iterable[ResourceClaim],
    classes: Mapping[str, DeviceClass],
    *,
    features: Features,
    intern: Callable[[RequestShape], RequestShape],
) -> PodPlan:
    """Return the plan of the claims, checked in upstream's order: claim by claim, request by request.

    Args:
        intern: Gives the one instance of a shape that all pods share.
    """
    planner = _Planner(classes, features, intern)
    plans: list[ClaimPlan] = []
    refusal: Refused | None = None
    for position, claim in enumerate(claims):
        groups: list[RequestGroup] = []
        constraints = _plan_constraints(claim)
        place = _Place(claim, position, constraints)
        refusal = planner.plan_requests(place, groups)
        refusal = refusal or _refuse_unknown_constraint(claim, features)
        before = tuple(place.before_refusal)
        plans.append(ClaimPlan(claim=claim, groups=tuple(groups), constraints=constraints, before_refusal=before))
        if refusal is not None:
            break
    return PodPlan(claims=tuple(plans), refusal=refusal, takes_all=any(plan.takes_all for plan in plans))


def refuse_limit(claim: ResourceClaim, request: str, total: int) -> Refused:
    """Return the refusal of a claim that wants more devices than a claim can hold."""
    text = f"{total} devices requested, at most {ALLOCATION_RESULTS_MAX} allowed per claim"
    return Refused(kind="limit", text=f"claim {claim.ref}: {text}", claim=claim.ref, request=request)


@dataclass(frozen=True, slots=True)
class _Place:
    """The claim at hand: where it stands among the pod's claims, its constraints, and what came before a refusal."""

    claim: ResourceClaim
    position: int
    constraints: tuple[ConstraintPlan, ...]
    before_refusal: list[RequestPlan] = field(default_factory=list)


@dataclass(slots=True)
class _Planner:
    classes: Mapping[str, DeviceClass]
    features: Features
    intern: Callable[[RequestShape], RequestShape]

    def plan_requests(self, place: _Place, groups: list[RequestGroup]) -> Refused | None:
        """Append the claim's requests to the groups until one is not in order; return why it isn't."""
        total, claim = 0, place.claim
        for index, request in enumerate(claim.spec.requests):
            refused = self._refuse_gates(claim, request)
            if refused is not None:
                return refused
            plans: list[RequestPlan] = []
            for spec in request.first_available or request.alternatives:
                plan = self._plan(place, request, spec, index=index, alternative=len(plans))
                if isinstance(plan, Refused):
                    place.before_refusal.extend(plans)
                    return plan
                plans.append(plan)
            group = RequestGroup(request=request, prioritized=bool(request.first_available), alternatives=tuple(plans))
            groups.append(group)
            if any(plan.takes_all for known in groups for plan in known.alternatives):
                continue
            total += min((plan.count for plan in plans), default=0)
            if total > ALLOCATION_RESULTS_MAX:
                return refuse_limit(claim, request.name, _sum_counts(claim))
        return None

    def _refuse_gates(self, claim: ResourceClaim, request: DeviceRequest) -> Refused | None:
        if request.first_available and not self.features.prioritized_list:
            return _refuse("feature-off", claim, request.name, "has alternatives, but DRAPrioritizedList is off")
        asks = any(spec.capacity is not None for spec in request.alternatives)
        if asks and not self.features.consumable_capacity and not is_stable(self.features):
            return _refuse("feature-off", claim, request.name, "asks for capacity, but DRAConsumableCapacity is off")
        return None

    def _plan(
        self, place: _Place, request: DeviceRequest, spec: SubRequest, *, index: int, alternative: int
    ) -> RequestPlan | Refused:
        name = RequestName(request.name, spec.name if request.first_available else "")
        refused = self._refuse_spec(place.claim, spec, str(name))
        if refused is not None:
            return refused
        device_class = self.classes.get(spec.device_class)
        if device_class is None:
            return _refuse("no-class", place.claim, str(name), f"device class {spec.device_class} does not exist")
        if spec.allocation_mode not in ("ExactCount", "All"):
            text = f"allocation mode {spec.allocation_mode!r} is not known"
            return _refuse("invalid-claim", place.claim, str(name), text)
        return RequestPlan(
            claim=place.position,
            request=index,
            alternative=alternative,
            name=name,
            label=str(name),
            spec=spec,
            device_class=device_class,
            shape=self.intern(RequestShape.of(spec, device_class)),
            takes_all=spec.allocation_mode == "All",
            count=spec.count,
            constraints=tuple(i for i, constraint in enumerate(place.constraints) if constraint.applies_to(name)),
            derived={attribute.name: attribute.expression for attribute in spec.derived_attributes},
        )

    def _refuse_spec(self, claim: ResourceClaim, spec: SubRequest, name: str) -> Refused | None:
        if spec.derived_attributes and not self.features.derived_attributes:
            return _refuse("feature-off", claim, name, "has derived attributes, but DRADerivedAttributes is off")
        if any(selector.expression is None for selector in spec.selectors):
            return _refuse("invalid-claim", claim, name, "has a selector without a CEL expression")
        if spec.admin_access is not None and not self.features.admin_access:
            return _refuse("feature-off", claim, name, "asks for admin access, but DRAAdminAccess is off")
        if not spec.device_class:
            return _refuse("invalid-claim", claim, name, "names no device class")
        return None


def _plan_constraints(claim: ResourceClaim) -> tuple[ConstraintPlan, ...]:
    """The constraints of a claim; those of unknown kind are refused later, after the requests."""
    return tuple(
        ConstraintPlan(
            kind="match" if constraint.match_attribute is not None else "distinct",
            attribute=_attribute_of(constraint),
            requests=constraint.requests,
        )
        for constraint in claim.spec.constraints
    )


def _attribute_of(constraint: DeviceConstraint) -> str:
    return constraint.match_attribute or constraint.distinct_attribute or ""


def _refuse_unknown_constraint(claim: ResourceClaim, features: Features) -> Refused | None:
    """Refuse a constraint of unknown kind; upstream's stable implementation knows no distinct attributes."""
    for position, constraint in enumerate(claim.spec.constraints):
        if constraint.match_attribute is not None:
            continue
        if constraint.distinct_attribute is None:
            return _refuse("invalid-claim", claim, "", f"constraint {position} is empty")
        if is_stable(features):
            text = f"constraint {position} has a distinctAttribute, but DRAConsumableCapacity is off"
            return _refuse("invalid-claim", claim, "", text)
    return None


def _sum_counts(claim: ResourceClaim) -> int:
    """How many devices the claim wants at least; requests for all devices count as one."""
    return sum(
        min(1 if spec.allocation_mode == "All" else spec.count for spec in request.alternatives)
        for request in claim.spec.requests
        if request.alternatives
    )


def _refuse(kind: RefusedKind, claim: ResourceClaim, request: str, text: str) -> Refused:
    where = f"claim {claim.ref}, request {request}" if request else f"claim {claim.ref}"
    return Refused(kind=kind, text=f"{where}: {text}", claim=claim.ref, request=request)
