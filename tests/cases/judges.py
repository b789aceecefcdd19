"""Which judge a case is for, and which cases none can judge yet."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from claimsmith.errors import ClaimsmithError
from tests.cases.allocation import judge_allocation
from tests.cases.casefile import CaseFile, list_cases, read_case
from tests.cases.cluster_stage import CLUSTER_PLAY
from tests.cases.containers import find_gaps, judge_containers
from tests.cases.expressions import judge_expressions
from tests.cases.foreign_stage import FOREIGN_PLAY
from tests.cases.gangs import find_missing, judge_gang
from tests.cases.labelling import judge_labels
from tests.cases.node_script import NODE_PLAY
from tests.cases.plugin_stage import PLUGIN_PLAY
from tests.cases.publishing import judge_publishing
from tests.cases.tables import judge_device_files, judge_normalising

Judge = Callable[[CaseFile], Awaitable[list[str]]]

PLAYS: Final = (NODE_PLAY, CLUSTER_PLAY, PLUGIN_PLAY, FOREIGN_PLAY)
"""Where scripts can be played."""


MISSING: Final[Mapping[str, str]] = {
    "driver": "needs the driver for NVIDIA cards",
    "extender": "needs the scheduler extender",
}
"""What the product does not have yet, by kind of case."""

_SHOWN: Final = 4


async def judge_script(case: CaseFile) -> list[str]:
    """Return what differs from the right states, on the stage that knows all of the script."""
    case.check_fields("given", "steps", "variants", *(name for name in case.content if name.startswith("for-each-")))
    return await next(play for play in PLAYS if not play.find_missing(case)).play(case)


JUDGES: Final[Mapping[str, Judge]] = {
    "allocate": judge_allocation,
    "cel": judge_expressions,
    "cli": judge_device_files,
    "labels": judge_labels,
    "normalise": judge_normalising,
    "publish": judge_publishing,
    "schedule": judge_gang,
    "script": judge_script,
}


def find_obstacle(case: CaseFile) -> str:
    """Return why a case can't be judged yet; empty when it can."""
    if case.kind == "schedule":
        return ", ".join(find_missing(case))
    if case.kind == "driver" and "containers" in case.content:
        return ""
    if case.kind == "script":
        return _describe(min((play.find_missing(case) for play in PLAYS), key=len))
    return "" if case.kind in JUDGES else MISSING.get(case.kind, f"no judge for kind {case.kind}")


def _describe(missing: list[str]) -> str:
    """Return what no stage knows, a few in full and the rest counted."""
    if not missing:
        return ""
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    return f"no stage knows {', '.join(missing[:_SHOWN])}{more}"


def list_gaps(paths: Iterable[Path]) -> dict[str, list[str]]:
    """Return the parts of cases that are left out when they are judged, by name of the case."""
    found = {}
    for path in paths:
        with contextlib.suppress(ClaimsmithError):
            case = read_case(path)
            if "containers" in case.content and (gaps := find_gaps(case)):
                found[case.name] = gaps
    return found


async def judge(path: Path) -> list[str]:
    """Return what differs from the right result of a case; none when all is right."""
    try:
        case = read_case(path)
        chosen = judge_containers if case.kind == "driver" else JUDGES[case.kind]
        return await chosen(case)
    except ClaimsmithError as error:
        return [f"not understood: {error}"]


def sort_cases(folder: Path) -> tuple[list[Path], dict[str, str]]:
    """Return the files that can be judged, and the names of the others with the reason.

    A file that is no case counts among the first: it must fail.
    """
    judged, others = [], {}
    for path in list_cases(folder):
        obstacle = _find_obstacle(path)
        if obstacle:
            others[path.stem] = obstacle
        else:
            judged.append(path)
    return judged, others


def _find_obstacle(path: Path) -> str:
    try:
        return find_obstacle(read_case(path))
    except ClaimsmithError:
        return ""
