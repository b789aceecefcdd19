"""Draw questions, ask upstream, and keep a choice with its answers as recorded cases, which need no Go to be judged.

    python -m tests.conformance.fuzz.record

Written anew is `tests/conformance/data/drawn.jsonl.gz`. A question is kept when two things come together in it that
came together in none before: what it asks for, who answers, what the answer is and has.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, Final

from tests.conformance.fuzz.session import KINDS, Kind, Session
from tests.conformance.fuzz.upstream import MODES, Upstream, build_upstream

__all__ = ["SEED", "TARGET", "main", "tag_question"]

Json = dict[str, Any]

TARGET: Final = Path(__file__).resolve().parents[1] / "data" / "drawn.jsonl.gz"
SEED: Final = 2_000_000
"""Far from the seeds that people try."""
DRAWN: Final[dict[Kind, int]] = {"problems": 800, "expressions": 1500}
"""How many questions are drawn."""
KEPT_MAX: Final[dict[Kind, int]] = {"problems": 250, "expressions": 250}
"""How many are kept."""
TIMES: Final = 4
"""How often the cost of an expression must come out the same: upstream's may depend on the order of Go's maps."""
_ASKED: Final = frozenset(
    {
        "taintRules", "perDeviceNodeSelection", "skipNodeOperations", "sharedCounters", "consumesCounters", "taints",
        "compatibilityGroups", "allowMultipleAllocations", "validRange", "validValues", "bindingConditions",
        "bindsToNode", "nodeSelector", "allNodes", "firstAvailable", "adminAccess", "derivedAttributes", "tolerations",
        "capacity", "matchAttribute", "distinctAttribute", "selectors", "config", "ints", "strings", "versions",
        "bools", "shareID", "All",
    }
)  # fmt: skip
"""Names in a problem that say what it is about."""
_GIVEN: Final = frozenset(
    {
        "shareID", "consumedCapacity", "adminAccess", "tolerations", "bindingConditions", "skipNodeOperations",
        "nodeSelector", "config", "matchFields", "matchExpressions",
    }
)  # fmt: skip
"""Names in an allocation that say what it has."""
_WORD: Final = re.compile(r"[A-Za-z_]+(?=\()|&&|\|\||[=!<>]=|[-+*/%<>?]")


def main() -> None:
    """Write the file of recorded cases."""
    program = build_upstream()
    kept: list[Json] = []
    for kind in KINDS:
        with Upstream(program, MODES[kind]) as upstream:
            kept += _choose(Session(kind, SEED, upstream, restart=True), upstream)
    with gzip.GzipFile(TARGET, "w", mtime=0) as out:
        for record in kept:
            out.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
    print(f"{TARGET.name}: {len(kept)} cases, {TARGET.stat().st_size} bytes")


def tag_question(question: Json, answer: Json) -> frozenset[str]:
    """Return the things that come together in a question and its answer."""
    if "expression" in question:
        words = _WORD.findall(question["expression"])
        return frozenset({answer["verdict"], answer.get("outputType", ""), *words})
    tags = {answer["impl"], *(name for name in _list_names(question) if name in _ASKED)}
    for result in answer["results"]:
        tags.add(f"answer {result['verdict']} {result.get('errorKind', '')} {len(str(result['steps']))}")
        tags.update(f"given {name}" for name in _list_names(result.get("allocation")) if name in _GIVEN)
    return frozenset(tags)


def _choose(session: Session, upstream: Upstream) -> Iterator[Json]:
    """Yield questions with answers that nothing speaks against, as long as something in them is new."""
    known: set[tuple[str, ...]] = set()
    count = 0
    for number in range(DRAWN[session.kind]):
        question = session.draw(number)
        answer = upstream.ask(question)
        pairs = set(combinations(sorted(tag_question(question, answer)), 2))
        if pairs <= known or not _is_settled(session, question) or not _answers_alike(question, upstream):
            continue
        known |= pairs
        count += 1
        yield {**question, "upstream": _strip(answer)}
        if count == KEPT_MAX[session.kind]:
            return


def _is_settled(session: Session, question: Json) -> bool:
    """Tell whether a question can be judged for good: nobody stops, and an expression does not deviate."""
    judgement = session.judge(question)
    refused = session.kind == "expressions" and judgement.deviations
    return not (judgement.differences or judgement.stops or refused)


def _list_names(value: Any) -> Iterator[str]:
    """Yield all keys, and all texts that are values, however deep."""
    if isinstance(value, str):
        yield value
    yield from value if isinstance(value, dict) else ()
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _list_names(child)


def _answers_alike(question: Json, upstream: Upstream) -> bool:
    """Tell whether upstream's answer is the same each time, where it may depend on the order of Go's maps."""
    if "expression" not in question:
        return True
    return len({json.dumps(_strip(upstream.ask(question)), sort_keys=True) for _ in range(TIMES)}) == 1


def _strip(answer: Json) -> Json:
    """Return an answer without what is different every time."""
    results = [{key: value for key, value in result.items() if key != "micros"} for result in answer.get("results", ())]
    return {**answer, "results": results} if results else answer


if __name__ == "__main__":
    main()
