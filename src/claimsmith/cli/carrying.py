"""Carrying a plan out from the command line: what is done, what is left, and what it means for the exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

import typer

from claimsmith.cli.exits import Exit, tell
from claimsmith.cli.output import Format, print_value
from claimsmith.cli.sources import ClusterSource

if TYPE_CHECKING:
    from claimsmith.daemons.carryout import CarriedOut, Check, Step
    from claimsmith.kube.client import KubeClient
    from claimsmith.model.names import PodRef
    from claimsmith.model.snapshot import ClusterSnapshot
    from claimsmith.model.workload import Pod

__all__ = ["Order", "carry_out", "done_value", "find_lost", "refuse_plan", "show_done", "tell_lost"]

_MANAGER: Final = "claimsmith-plan"
_SIGNALLED: Final = 128

Around = Callable[["KubeClient"], AbstractAsyncContextManager[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be carried out, and how.

    Args:
        steps: Pods to evict.
        check: Looks at what is left before each step.
        view: Returns the cluster as decisions see it, for a source of which the live cluster was read.
        around: Opened around all steps: prepares the cluster for them.
        patience_s: See `CarryOut`.
    """

    steps: Sequence[Step]
    check: Check
    view: Callable[[ClusterSource], ClusterSnapshot]
    around: Around = lambda _: nullcontext()
    patience_s: float | None = None


def carry_out(source: ClusterSource, order: Order, output: Format) -> CarriedOut:
    """Carry a plan out on the live cluster; what is done is told as it happens.

    Raises:
        InputError: The source is no live cluster.
        ApiError: The cluster can't be prepared for it.
    """
    from claimsmith.cli.interrupts import run_interruptible

    say: Callable[[str], None] = typer.echo if output is Format.TABLE else tell
    done = run_interruptible(_run(source, order, say))
    if isinstance(done, int):
        tell("interrupted; what was told is done, the rest is not")
        raise typer.Exit(_SIGNALLED + done)
    return done


async def _run(source: ClusterSource, order: Order, say: Callable[[str], None]) -> CarriedOut:
    from claimsmith.cluster.read import read_cluster
    from claimsmith.daemons.carryout import CarryOut

    client = source.open_client(manager=_MANAGER)

    async def read() -> ClusterSnapshot:
        return order.view(replace(source, base=(await read_cluster(client)).snapshot))

    try:
        async with order.around(client):
            plan = CarryOut(client=client, read=read, check=order.check, tell=say, patience_s=order.patience_s)
            return await plan.run(order.steps)
    finally:
        await client.close()


def find_lost(pods: Iterable[Pod]) -> tuple[PodRef, ...]:
    """Return the pods that nothing makes again: an eviction ends them for good.

    Source: unreplicatedFilter of filters.go in k8s.io/kubectl v0.37.2 pkg/drain.
    """
    from claimsmith.allocate.whatif.draining import is_remade

    return tuple(pod.ref for pod in pods if not is_remade(pod))


def tell_lost(pods: Iterable[Pod]) -> None:
    """Say which pods are about to end for good."""
    for ref in find_lost(pods):
        tell(f"pod {ref} ends for good: nothing makes it again")


def refuse_plan(reason: str, value: Callable[[], Any], output: Format) -> NoReturn:
    """Say why a plan is not carried out, and end with the exit code of what does not fit.

    Args:
        value: Returns the plan for machines, which is printed unless a table was.
    """
    if output is not Format.TABLE:
        print_value(value(), output)
    tell(f"--yes: nothing was done: {reason}")
    raise typer.Exit(Exit.DOES_NOT_FIT)


def show_done(done: CarriedOut) -> None:
    """Print what came of a plan."""
    if done.stopped:
        typer.echo(f"stopped: {done.stopped}")
        if done.left:
            typer.echo(f"left: {', '.join(map(str, done.left))}")
        return
    spared = f"; {', '.join(map(str, done.left))} need not go" if done.left else ""
    count = len(done.evicted)
    typer.echo(f"carried out: {count} pod{'' if count == 1 else 's'} evicted{spared}")


def done_value(done: CarriedOut) -> dict[str, Any]:
    """Return what came of a plan as JSON."""
    left = [str(ref) for ref in done.left]
    return {"evicted": [str(ref) for ref in done.evicted], "left": left, "stopped": done.stopped}
