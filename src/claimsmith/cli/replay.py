"""`claimsmith replay`: a workload trace as claims, and how much of the cluster a policy fills."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from claimsmith.cli.exits import tell
from claimsmith.cli.options import Output
from claimsmith.cli.output import Format, print_table, print_value
from claimsmith.cli.replay_mig import replay_mixes
from claimsmith.errors import FieldError, InputError

if TYPE_CHECKING:
    from claimsmith.replay.experiment import Experiment, Series
    from claimsmith.replay.offline import OfflineResult

__all__ = ["replay"]

_OF_TRACES = ("trace", "policy", "profile", "batch", "migrate", "to", "permuted", "offline", "fgd", "plot")
_OF_MIXES = ("load", "events", "moves")
_NO_SOLVER = "the bound is left out, since OR-tools is not installed; install claimsmith[solver]"


_Folder = Annotated[Path | None, typer.Argument(metavar="TRACE_FOLDER", help="The folder with the trace's CSV files.")]
_Profile = Annotated[
    str, typer.Option(help="What the policy knows of the demand: learned, trace, or both one after the other.")
]
_Migrate = Annotated[
    int, typer.Option(min=0, max=10_000, help="Pods that may be moved after the trace has arrived once.")
]
_Offline = Annotated[bool, typer.Option("--offline", help="All pods are known beforehand, and the best ones are kept.")]
_Mig = Annotated[
    str, typer.Option(metavar="MIX", help="Instead of a trace: parts of boards; a mix, or all.", show_default=False)
]


def replay(  # noqa: PLR0913 - each is one option of the command
    context: typer.Context,
    folder: _Folder = None,
    trace: Annotated[str, typer.Option(metavar="NAME", help="Which list of pods.")] = "default",
    policy: Annotated[str, typer.Option(metavar="NAME", help="Where pods go.")] = "fragmentation",
    profile: _Profile = "both",
    batch: Annotated[int, typer.Option(min=1, max=1000, help="Pods that are decided together.")] = 1,
    migrate: _Migrate = 0,
    seeds: Annotated[str, typer.Option(metavar="N-M", help="Seeds, e.g. 42-51 or 42,44.")] = "42",
    to: Annotated[int, typer.Option(min=1, max=1000, help="Arrivals in percent of the cluster's GPUs.")] = 130,
    permuted: Annotated[bool, typer.Option("--permuted", help="Nodes in random order instead of by name.")] = False,
    offline: _Offline = False,
    fgd: Annotated[bool, typer.Option("--fgd/--no-fgd", help="Run FGD beside the policy, to compare with.")] = True,
    plot: Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Draw the curves.")] = None,
    mig: _Mig = "",
    load: Annotated[float, typer.Option(min=0.01, max=10, help="With --mig: offered compute slices, of all.")] = 0.9,
    events: Annotated[int, typer.Option(min=10, max=1_000_000, help="With --mig: requests of a run.")] = 12_000,
    moves: Annotated[int, typer.Option(min=0, max=1, help="With --mig: partitions moved for a request.")] = 0,
    output: Output = Format.TABLE,
) -> None:
    """Replay a workload trace, every pod of it as a claim, and print how much of all GPUs gets allocated.

    Each pod is decided by the scheduler's own placing, and each allocation is verified. Beside the rates stands the
    most that any allocation of the same pods could reach.

    With --mig, requests for parts of 100 boards come and go, and what each rule refuses is printed; the mixes are
    uniform, small, bimodal, large, no-7g and five-sizes.

    Example: claimsmith replay openb --seeds 42-51 --plot rates.svg
    """
    if mig or folder is None:
        _check_source(mig, folder)
        _refuse_options(context, _OF_TRACES, "those of --mig: --load, --events, --seeds, --moves")
        replay_mixes(mig, output, load=load, events=events, seeds=_parse_seeds(seeds), moves=moves)
        return
    _refuse_options(context, _OF_MIXES, "those of traces")
    from claimsmith.replay.experiment import Experiment
    from claimsmith.replay.trace import read_trace

    experiment = Experiment(
        trace=read_trace(folder, trace),
        policy=_parse_policy(policy),
        profiles=_parse_profiles(profile),
        seeds=_parse_seeds(seeds),
        batch=batch,
        migrate=migrate,
        to_percent=to,
        permuted=permuted,
    )
    _print_offline(experiment, output) if offline else _print_run(experiment, output, fgd=fgd, plot=plot)


def _check_source(mig: str, folder: Path | None) -> None:
    """Refuse a mix beside a folder, and neither of them."""
    if mig and folder is not None:
        raise FieldError("--mig", mig, allowed="either a mix or a folder", hint="leave one of the two away")
    if not mig:
        raise InputError("replay: found neither TRACE_FOLDER nor --mig, allowed one of them; name the folder or a mix")


def _refuse_options(context: typer.Context, names: tuple[str, ...], allowed: str) -> None:
    """Refuse options on the command line that would count for nothing.

    Raises:
        InputError: There is one.
    """
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise InputError(f"replay: found --{name}, which counts for nothing here, allowed {allowed}; leave it out")


def _print_run(experiment: Experiment, output: Format, *, fgd: bool, plot: Path | None) -> None:
    from claimsmith.replay.experiment import run_experiment

    series = run_experiment(experiment, with_fgd=fgd, tell=tell)
    if plot is not None:
        from claimsmith.replay.plot import draw_plot

        plot.write_text(
            draw_plot(series, title=f"Trace {experiment.trace.name}: {len(experiment.seeds)} seeds"), encoding="utf-8"
        )
    if output is Format.TABLE:
        _print_series(experiment, series)
    else:
        print_value(_series_value(experiment, series), output)


def _parse_policy(name: str) -> Any:
    from claimsmith.allocate.policy.objective import POLICIES, find_policy

    found = find_policy(name)
    if found is None:
        raise FieldError("--policy", name, allowed=", ".join(POLICIES), hint="name one of them")
    return found


def _parse_profiles(name: str) -> tuple[str, ...]:
    known = {"learned": ("learned",), "trace": ("trace",), "both": ("learned", "trace")}
    if name not in known:
        raise FieldError("--profile", name, allowed=", ".join(known), hint="name one of them")
    return known[name]


def _parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds of `42`, `42-51` or `42,44`."""
    if not re.fullmatch(r"\d{1,9}(-\d{1,9})?(,\d{1,9}(-\d{1,9})?)*", text):
        raise FieldError("--seeds", text, allowed="numbers and ranges such as 42-51", hint="correct the seeds")
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds.extend(range(int(first), int(last or first) + 1)[:1000])
    if not seeds:
        raise FieldError("--seeds", text, allowed="at least one seed", hint="put the smaller number first")
    return tuple(dict.fromkeys(seeds))


def _print_series(experiment: Experiment, series: list[Series]) -> None:
    from claimsmith.replay.online import MARKS
    from claimsmith.replay.report import PUBLISHED_FGD, summarize

    title = f"trace {experiment.trace.name}, {len(experiment.seeds)} seeds: GPUs allocated, % of all"
    columns = ("POLICY", *(f"AT {mark} %" for mark in MARKS), "END", "MOVES", "FRAGMENTS", "SECONDS")
    rows = []
    for item in series:
        summary, runs = summarize(item.runs), item.runs
        rates = [_spread(summary[mark]) if mark in summary else "-" for mark in MARKS]
        end = _spread(_summarize([run.final for run in runs]))
        moves = f"{sum(run.moves for run in runs) / len(runs):.0f}"
        fragments = f"{sum(run.fragments for run in runs) / len(runs):.2f}"
        seconds = f"{sum(run.seconds for run in runs) / len(runs):.1f}"
        rows.append((item.name, *rates, end, moves, fragments, seconds))
    published = PUBLISHED_FGD.get(experiment.trace.name, {})
    if published and not experiment.migrate:
        rates = [f"{published[mark]:.2f}" if mark in published else "-" for mark in MARKS]
        rows.append(("fgd, as published", *rates, "-", "-", "-", "-"))
    bounds = [_mean_bound(series, mark) for mark in MARKS]
    rows.append(("bound", *bounds, _mean_end(series), "-", "-", "-"))
    print_table(columns, rows, title=title)
    if all(bound == "-" for bound in bounds):
        tell(_NO_SOLVER)


def _summarize(values: list[float]) -> tuple[float, float]:
    from statistics import mean, stdev

    return mean(values), stdev(values) if len(values) > 1 else 0.0


def _spread(found: tuple[float, float]) -> str:
    return f"{found[0]:.2f} ±{found[1]:.2f}"


def _mean_bound(series: list[Series], mark: int) -> str:
    found = [run.bounds[mark] for item in series for run in item.runs if mark in run.bounds]
    return f"{sum(found) / len(found):.2f}" if found else "-"


def _mean_end(series: list[Series]) -> str:
    found = [run.final_bound for item in series for run in item.runs if run.final_bound is not None]
    return f"{sum(found) / len(found):.2f}" if found else "-"


def _series_value(experiment: Experiment, series: list[Series]) -> dict[str, Any]:
    from claimsmith.replay.report import PUBLISHED_FGD, summarize

    return {
        "trace": experiment.trace.name,
        "series": [
            {
                "name": item.name,
                "summary": {
                    str(mark): {"mean": middle, "deviation": deviation}
                    for mark, (middle, deviation) in summarize(item.runs).items()
                },
                "runs": [
                    {
                        "seed": seed,
                        "rates": {str(percent): rate for percent, rate in run.rates.items()},
                        "bounds": {str(percent): bound for percent, bound in run.bounds.items()},
                        "final": run.final,
                        "finalBound": run.final_bound,
                        "fragments": run.fragments,
                        "moves": run.moves,
                        "placed": run.placed,
                        "refused": run.refused,
                        "verified": run.verified,
                        "seconds": run.seconds,
                    }
                    for seed, run in zip(experiment.seeds, item.runs, strict=True)
                ],
            }
            for item in series
        ],
        "publishedFgd": {str(mark): rate for mark, rate in PUBLISHED_FGD.get(experiment.trace.name, {}).items()},
    }


def _print_offline(experiment: Experiment, output: Format) -> None:
    from claimsmith.allocate.cpsat.relaxation import is_installed
    from claimsmith.errors import MissingExtraError

    if not is_installed():
        raise MissingExtraError("ortools", extra="solver")
    found = [(seed, _run_offline(experiment, seed)) for seed in experiment.seeds]
    results = [(seed, result) for seed, result in found if result is not None]
    if output is Format.TABLE:
        rows = [
            (
                str(seed),
                *(f"{percent:.3f}" for percent in (item.rate, item.bound)),
                *map(str, (item.placed, item.refused, item.moves)),
                f"{item.seconds:.1f}",
            )
            for seed, item in results
        ]
        print_table(("SEED", "ALLOCATED %", "BOUND %", "PLACED", "REFUSED", "MOVES", "SECONDS"), rows)
        return
    names = ("rate", "bound", "placed", "refused", "moves", "verified", "seconds")
    runs = [{"seed": seed, **{name: getattr(item, name) for name in names}} for seed, item in results]
    print_value({"trace": experiment.trace.name, "offline": runs}, output)


def _run_offline(experiment: Experiment, seed: int) -> OfflineResult | None:
    from claimsmith.replay.cluster import ReplayCluster
    from claimsmith.replay.offline import replay_offline

    tell(f"offline: seed {seed}")
    cluster = ReplayCluster(experiment.trace, experiment.policy, knows_trace=True)
    return replay_offline(cluster, seed=seed)
