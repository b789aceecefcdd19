"""`claimsmith preempt`: who would have to go so that a pod or a gang gets a place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from claimsmith.cli.exits import Exit
from claimsmith.cli.options import Output
from claimsmith.cli.output import Format, print_table, print_value
from claimsmith.cli.sources import ClusterSource, reads_cluster
from claimsmith.errors import InputError

if TYPE_CHECKING:
    from claimsmith.allocate.replan.preempt import Preemption
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
    output: Output = Format.TABLE,
) -> None:
    """Say which pods of lower priority would have to go so that a waiting pod or pod group gets a place.

    It is the cheapest set: lowest priorities first, then fewest pods; none of them is there without need, and none has
    the same or a higher priority. Nothing is evicted. Exit code 1 says that nobody's removal helps.

    Example: claimsmith preempt pod/team/train --kubeconfig admin.conf
    """
    from claimsmith.allocate.replan.preempt import PreemptLimits, find_victims
    from claimsmith.daemons.trial import SchedulerTrial

    snapshot = source.open().snapshot
    pods, min_count = _find_target(snapshot, target)
    limits = PreemptLimits(violate_budgets=violate_budgets)
    found = find_victims(snapshot, pods, place=SchedulerTrial(), min_count=min_count, limits=limits)
    _show(target, found, snapshot, output)
    if found.status not in _FOUND:
        raise typer.Exit(Exit.DOES_NOT_FIT)


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


def _show(target: str, found: Preemption, snapshot: ClusterSnapshot, output: Format) -> None:
    from claimsmith.allocate.whatif.trial import Placement, find_pod_claims
    from claimsmith.cli.thought_values import decision_value, describe_devices, list_devices

    held = {
        pod.ref: tuple(snapshot.claims[ref] for ref in find_pod_claims(pod) if ref in snapshot.claims)
        for pod in found.victims
    }
    if output is not Format.TABLE:
        victims = [
            {
                "pod": str(pod.ref),
                "priority": pod.priority,
                "node": pod.node_name,
                "devices": list_devices(held[pod.ref]),
            }
            for pod in found.victims
        ]
        value: dict[str, Any] = {"target": target, "status": found.status, "victims": victims, "message": found.message}
        value |= {"leaving": [str(ref) for ref in found.leaving], "trials": found.trials}
        value |= {"cost": None if found.cost is None else found.cost._asdict()}
        print_value({**value, "pods": [decision_value(item) for item in found.decisions]}, output)
        return
    places = ", ".join(f"{item.pod.ref} on {item.node}" for item in found.decisions if isinstance(item, Placement))
    match found.status:
        case "needless":
            typer.echo(f"{target} fits without that anybody goes: {places}")
        case "leaving":
            typer.echo(f"{target} fits once {', '.join(map(str, found.leaving))} have ended: {places}")
        case "impossible":
            typer.echo(f"{target}: nobody's removal helps; without all that could go: {found.message}")
        case "forbidden":
            typer.echo(f"{target}: {found.message}")
        case _:
            rows = [(str(p.ref), str(p.priority), p.node_name, describe_devices(held[p.ref])) for p in found.victims]
            print_table(("VICTIM", "PRIORITY", "NODE", "GIVES BACK"), rows)
            typer.echo(f"then: {places}")
            typer.echo(_describe_cost(found))


def _describe_cost(found: Preemption) -> str:
    assert found.cost is not None
    cost, proven = found.cost, "no set is cheaper" if found.status == "optimal" else "none can be spared"
    pods = f"{cost.pods} pod{'s' if cost.pods > 1 else ''}"
    return f"cost: {pods} of priority {cost.highest_priority} at most, {cost.violations} against a budget; {proven}"
