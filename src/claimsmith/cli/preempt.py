"""`claimsmith preempt`: who would have to go so that a pod or a gang gets a place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from claimsmith.cli.carrying import Order, carry_out, done_value, find_lost, refuse_plan, show_done, tell_lost
from claimsmith.cli.exits import Exit
from claimsmith.cli.options import Force, Output, Yes
from claimsmith.cli.output import Format, print_table, print_value
from claimsmith.cli.short_reasons import shorten_reason
from claimsmith.cli.sources import ClusterSource, reads_cluster
from claimsmith.errors import InputError

if TYPE_CHECKING:
    from claimsmith.allocate.replan.preempt import Preemption
    from claimsmith.daemons.carryout import CarriedOut
    from claimsmith.daemons.trial import SchedulerTrial
    from claimsmith.model.claim import ResourceClaim
    from claimsmith.model.names import PodRef
    from claimsmith.model.snapshot import ClusterSnapshot
    from claimsmith.model.workload import Pod

__all__ = ["preempt"]

_FOUND: Final = ("needless", "leaving", "optimal", "minimal")


@reads_cluster
def preempt(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="pod/NAME or podgroup/NAME; with a namespace pod/NAMESPACE/NAME.")
    ],
    source: ClusterSource,
    violate_budgets: Annotated[
        bool, typer.Option("--violate-budgets", help="Go against disruption budgets when nothing else helps.")
    ] = False,
    yes: Yes = False,
    force: Force = False,
    output: Output = Format.TABLE,
) -> None:
    """Say which pods of lower priority would have to go so that a waiting pod or pod group gets a place.

    It is the cheapest set: lowest priorities first, then fewest pods; none of them is there without need, and none has
    the same or a higher priority. Without --yes nothing is evicted. With it nothing is done either if nothing makes a
    victim again, unless --force is named. Exit code 1 says that nobody's removal helps, or that the plan could not be
    carried out.

    Example: claimsmith preempt pod/team/train --kubeconfig admin.conf --yes
    """
    from claimsmith.allocate.replan.preempt import PreemptLimits, find_victims
    from claimsmith.daemons.trial import SchedulerTrial

    if yes:
        _check_order(source, violate_budgets=violate_budgets)
    snapshot, place = source.open().snapshot, SchedulerTrial()
    pods, min_count = _find_target(snapshot, target)
    limits = PreemptLimits(violate_budgets=violate_budgets)
    found = find_victims(snapshot, pods, place=place, min_count=min_count, limits=limits)
    if output is Format.TABLE:
        _show(target, found, snapshot)
    done = None
    if yes and found.victims:
        if not force:
            _check_victims(target, found, snapshot, output)
        tell_lost(found.victims)
        done = _carry_out(source, target, found, snapshot=snapshot, place=place, output=output)
    if output is not Format.TABLE:
        value = _value(target, found, snapshot)
        print_value(value if done is None else {**value, "carriedOut": done_value(done)}, output)
    elif done is not None:
        show_done(done)
    if found.status not in _FOUND or (done is not None and done.stopped):
        raise typer.Exit(Exit.DOES_NOT_FIT)


def _check_order(source: ClusterSource, *, violate_budgets: bool) -> None:
    """Refuse what can't be carried out, before anything is read.

    Raises:
        InputError: The source is no live cluster, or evictions would be refused.
    """
    source.check_live()
    if violate_budgets:
        raise InputError("--yes: found --violate-budgets too, allowed without: evictions respect budgets; leave it out")


def _check_victims(target: str, found: Preemption, snapshot: ClusterSnapshot, output: Format) -> None:
    """End the command when a victim would end for good."""
    lost = find_lost(found.victims)
    if lost:
        reason = f"nothing makes pod {lost[0]} again; name --force too if it may end for good"
        refuse_plan(reason, lambda: _value(target, found, snapshot), output)


def _split_victims(found: Preemption, snapshot: ClusterSnapshot) -> list[tuple[Pod, ...]]:
    """Return the victims one by one; those of a group that is only disrupted whole together."""
    from claimsmith.schedule.gangs import find_group_ref

    steps: dict[object, list[Pod]] = {}
    for pod in found.victims:
        ref = find_group_ref(pod)
        group = snapshot.pod_groups.get(ref) if ref is not None else None
        is_whole = group is not None and group.spec.disruption_mode == "all"
        steps.setdefault(ref if is_whole else pod.ref, []).append(pod)
    return [tuple(pods) for pods in steps.values()]


def _carry_out(
    source: ClusterSource, target: str, found: Preemption, *, snapshot: ClusterSnapshot, place: SchedulerTrial,
    output: Format,
) -> CarriedOut:  # fmt: skip
    from claimsmith.daemons.plan_checks import check_preemption

    check = check_preemption(lambda snapshot: _find_target(snapshot, target), place=place)
    order = Order(steps=_split_victims(found, snapshot), check=check, view=lambda live: live.open().snapshot)
    return carry_out(source, order, output)


def _find_target(snapshot: ClusterSnapshot, target: str) -> tuple[list[Pod], int | None]:
    """Return the pods to be placed, and how many of them must be.

    Raises:
        InputError: There is no such pod or group that waits.
    """
    from claimsmith.allocate.whatif.draining import find_waiting
    from claimsmith.model.podgroup import PodGroupRef
    from claimsmith.schedule.gangs import GangDirectory, find_group_ref

    kind, _, rest = target.partition("/")
    name = rest if "/" in rest else f"default/{rest}"
    waiting = find_waiting(snapshot)
    if kind == "pod":
        pods, min_count = [pod for pod in waiting if str(pod.ref) == name], None
    elif kind == "podgroup":
        namespace, _, group = name.partition("/")
        ref = PodGroupRef(namespace, group)
        pods = [pod for pod in waiting if find_group_ref(pod) == ref]
        gang = GangDirectory.of_pods(snapshot.pods.values(), snapshot.pod_groups).find(ref)
        least = gang.group.spec.min_count if gang.group is not None else None
        min_count = None if least is None else min(len(pods), max(0, least - len(gang.placed)))
    else:
        pods, min_count = [], None
    if not pods:
        known = [f"pod/{pod.ref}" for pod in waiting]
        known += sorted({f"podgroup/{pod.metadata.namespace}/{pod.pod_group}" for pod in waiting if pod.pod_group})
        allowed = ", ".join(known[:10]) + (" …" if len(known) > 10 else "") or "what waits; nothing does"
        raise InputError(f"target {target!r}: found no such pod or group that waits, allowed {allowed}; correct it")
    return pods, min_count


def _find_held(found: Preemption, snapshot: ClusterSnapshot) -> dict[PodRef, tuple[ResourceClaim, ...]]:
    """Return the claims of each victim."""
    from claimsmith.allocate.whatif.trial import find_pod_claims

    return {
        pod.ref: tuple(snapshot.claims[ref] for ref in find_pod_claims(pod) if ref in snapshot.claims)
        for pod in found.victims
    }


def _value(target: str, found: Preemption, snapshot: ClusterSnapshot) -> dict[str, Any]:
    from claimsmith.cli.thought_values import decision_value, list_devices

    held, lost = _find_held(found, snapshot), find_lost(found.victims)
    victims = [
        {
            "pod": str(pod.ref),
            "priority": pod.priority,
            "node": pod.node_name,
            "devices": list_devices(held[pod.ref]),
            "remade": pod.ref not in lost,
        }
        for pod in found.victims
    ]
    value: dict[str, Any] = {"target": target, "status": found.status, "victims": victims, "message": found.message}
    value |= {"leaving": [str(ref) for ref in found.leaving], "trials": found.trials}
    value["candidates"] = found.candidates
    value |= {"cost": None if found.cost is None else found.cost._asdict()}
    return {**value, "pods": [decision_value(item) for item in found.decisions]}


def _show(target: str, found: Preemption, snapshot: ClusterSnapshot) -> None:
    from claimsmith.allocate.whatif.trial import Placement
    from claimsmith.cli.thought_values import describe_devices

    held = _find_held(found, snapshot)
    places = ", ".join(f"{item.pod.ref} on {item.node}" for item in found.decisions if isinstance(item, Placement))
    match found.status:
        case "needless":
            typer.echo(f"{target} fits without that anybody goes: {places}")
        case "leaving":
            typer.echo(f"{target} fits once {', '.join(map(str, found.leaving))} have ended: {places}")
        case "impossible":
            message = shorten_reason(found.message, target)
            least = min((item.pod.priority for item in found.decisions), default=0)
            if found.candidates:
                typer.echo(f"{target}: nobody's removal helps; without all that could go: {message}")
            else:
                typer.echo(
                    f"{target}: nobody can go: no pod on a node has a priority below {least}; it waits: {message}"
                )
        case "forbidden":
            typer.echo(f"{target}: {found.message}")
        case _:
            notes = dict.fromkeys(find_lost(found.victims), "nothing makes it again: it ends for good")
            rows = [
                (str(p.ref), str(p.priority), p.node_name, describe_devices(held[p.ref]), notes.get(p.ref, ""))
                for p in found.victims
            ]
            print_table(("VICTIM", "PRIORITY", "NODE", "GIVES BACK", "NOTE"), rows)
            typer.echo(f"then: {places}")
            typer.echo(_describe_cost(found))


def _describe_cost(found: Preemption) -> str:
    assert found.cost is not None
    cost, proven = found.cost, "no set is cheaper" if found.status == "optimal" else "none can be spared"
    pods = f"{cost.pods} pod{'s' if cost.pods > 1 else ''}"
    return f"cost: {pods} of priority {cost.highest_priority} at most, {cost.violations} against a budget; {proven}"
