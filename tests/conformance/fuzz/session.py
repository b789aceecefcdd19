"""One run: questions of a seed in batches, a state file to go on from, differences shrunk and written down."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from tests.conformance.fuzz.expressions import draw_question
from tests.conformance.fuzz.judging import Judgement, judge_answer
from tests.conformance.fuzz.manifest import write_manifest
from tests.conformance.fuzz.problems import draw_near_border
from tests.conformance.fuzz.shrink import shrink_expression, shrink_problem
from tests.conformance.fuzz.stops import find_stops, without_stops
from tests.conformance.fuzz.upstream import UpstreamError

__all__ = ["FOLDER", "KINDS", "Kind", "Progress", "Session"]

Json = dict[str, Any]
Kind = Literal["problems", "expressions"]

KINDS: Final[tuple[Kind, ...]] = ("problems", "expressions")
FOLDER: Final = Path(__file__).resolve().parents[3] / "build" / "fuzz"
BATCH: Final = 250
"""Questions after which the state is saved and progress is told."""
STEPS_MAX: Final = 200_000
"""Steps of upstream's search on one node, which take it about a second."""
REPEATS: Final = 12
"""How often an expression is asked again whose cost differs: upstream's depends on the order of Go's maps."""
WALKER: Final = "stable"
"""The one of upstream's implementations that walks pools in the order of a Go map."""
WALKS: Final = 40
"""How often a problem is asked again that differs, where upstream walks pools at random."""
SHRINKING_S: Final = 90
"""Longest time that a question is made smaller: one that we can hardly answer takes long each time."""
VARIES: Final = "another answer each time, ours among them"


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far a seed has been asked.

    Args:
        done: Questions asked, which are those with the numbers below.
        verdicts, deviations: How often upstream said what, and why we differed.
        stops: How often upstream did what instead of answering, and what came of asking without what stopped it.
        open: Numbers of the questions that differ without an explanation.
    """

    done: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    deviations: Counter[str] = field(default_factory=Counter)
    stops: Counter[str] = field(default_factory=Counter)
    open: list[int] = field(default_factory=list)


class Answerer(Protocol):
    """What gives upstream's answers."""

    def ask(self, question: Json, /) -> Json:
        """Return upstream's answer to a question."""


class Session:
    """Asks the questions of one kind and seed."""

    def __init__(self, kind: Kind, seed: int, upstream: Answerer, *, restart: bool = False) -> None:
        self.kind, self.seed = kind, seed
        self._upstream = upstream
        self._path = FOLDER / f"{kind}-{seed}.json"
        self.progress = Progress() if restart else self._load()

    def run(self, count: int) -> Iterator[str]:
        """Ask questions until `count` are done, those that differed before first; yield what to print.

        Raises:
            UpstreamError: Upstream has ended.
        """
        progress = self.progress
        if progress.done:
            yield f"{self.kind}: going on after {progress.done}"
        yield from self._ask_again()
        while progress.done < count:
            started, end = time.monotonic(), min(progress.done + BATCH, count)
            batch = end - progress.done
            for number in range(progress.done, end):
                yield from self._ask(number)
                progress.done = number + 1
            self._save()
            pace = batch / (time.monotonic() - started)
            yield f"{self.kind}: {progress.done} of {count}, {len(progress.open)} differ, {pace:.0f}/s"

    def name(self, number: int) -> str:
        """Return the name of a question, which is all that it is drawn from."""
        return f"{self.kind}-{self.seed}-{number}"

    def draw(self, number: int) -> Json:
        """Return a question."""
        if self.kind == "expressions":
            return draw_question(self.name(number))
        return draw_near_border(self.name(number), self._upstream.ask)

    def judge(self, question: Json) -> Judgement:
        """Ask both sides, and once more without what stops upstream or lets us deviate, as far as that is known."""
        answer = self._upstream.ask(_bound(question))
        judgement = self._judge_answer(question, answer)
        stops = find_stops(answer)
        refused = bool(judgement.deviations) and self.kind == "expressions"
        substitute = without_stops(question) if stops or refused else None
        if substitute is None:
            named = tuple(f"{stop}, can't be asked otherwise" for stop in stops)
            return replace(judgement, stops=judgement.stops + named)
        answer = self._upstream.ask(substitute)
        again = "still stops" if find_stops(answer) else "answers when asked otherwise"
        found = self._judge_answer(substitute, answer).differences
        return replace(
            judgement,
            differences=judgement.differences + tuple(f"asked otherwise: {text}" for text in found),
            stops=judgement.stops + tuple(f"{stop}, {again}" for stop in stops),
        )

    def _judge_answer(self, question: Json, answer: Json) -> Judgement:
        judgement = judge_answer(question, answer)
        if judgement.differences and all(text.startswith("cost ") for text in judgement.differences):
            costs = {self._upstream.ask(question).get("cost") for _ in range(REPEATS)} | {answer.get("cost")}
            judgement = judge_answer(question, {**answer, "costVaries": sorted(cost for cost in costs if cost)})
        elif judgement.differences and answer.get("impl") == WALKER:
            return self._walk_again(question) or judgement
        return judgement

    def _walk_again(self, question: Json) -> Judgement | None:
        """Ask until upstream answers as we do; None when it never does."""
        for _ in range(WALKS):
            judgement = judge_answer(question, self._upstream.ask(_bound(question)))
            if not judgement.differences:
                return replace(judgement, stops=(VARIES,))
        return None

    def _ask_again(self) -> Iterator[str]:
        before, self.progress.open = self.progress.open, []
        for number in before:
            judgement = self.judge(self.draw(number))
            if judgement.differences:
                self.progress.open.append(number)
                yield from self._report(number, judgement)

    def _ask(self, number: int) -> Iterator[str]:
        judgement = self.judge(self.draw(number))
        self.progress.verdicts[judgement.verdict] += 1
        self.progress.deviations.update(judgement.deviations)
        self.progress.stops.update(judgement.stops)
        if judgement.differences:
            self.progress.open.append(number)
            yield from self._report(number, judgement)

    def _report(self, number: int, judgement: Judgement) -> Iterator[str]:
        """Shrink the question and write it down."""
        question = self.draw(number)
        pattern = _find_pattern(judgement.differences)
        shrink: Callable[[Json, Callable[[Json], bool]], Json] = (
            shrink_expression if self.kind == "expressions" else shrink_problem
        )
        end = time.monotonic() + SHRINKING_S
        smallest = shrink(question, lambda smaller: time.monotonic() < end and self._shows(smaller, pattern))
        answer = self._upstream.ask(smallest)
        differences = judge_answer(smallest, answer).differences or judgement.differences
        text = write_manifest(smallest, answer, differences, seed=self.seed)
        path = FOLDER / "differences" / f"{self.name(number)}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.with_suffix(".json").write_text(json.dumps({**smallest, "upstream": answer}), encoding="utf-8")
        yield text

    def _shows(self, question: Json, pattern: frozenset[str]) -> bool:
        try:
            return bool(pattern & _find_pattern(self.judge(question).differences))
        except UpstreamError:
            return False

    def _load(self) -> Progress:
        """Return the state of an earlier run, unless questions are drawn in another way now."""
        if not self._path.exists():
            return Progress()
        saved = json.loads(self._path.read_text(encoding="utf-8"))
        if saved.pop("drawn") != hash_generator(self.kind):
            return Progress()
        progress = Progress(**saved)
        for name in ("verdicts", "deviations", "stops"):
            setattr(progress, name, Counter(saved[name]))
        return progress

    def _save(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        saved = {field.name: getattr(self.progress, field.name) for field in fields(Progress)}
        saved["drawn"] = hash_generator(self.kind)
        scratch = self._path.with_suffix(".new")
        scratch.write_text(json.dumps(saved, indent=1), encoding="utf-8")
        scratch.replace(self._path)


def _bound(question: Json) -> Json:
    """Return the question with a limit for upstream's search that does not depend on how busy the machine is."""
    return question if "expression" in question else {**question, "stepsMax": STEPS_MAX}


def hash_generator(kind: Kind) -> str:
    """Return a mark of the code that questions of a kind are drawn with."""
    names = ["expressions", "mutations", "words"]
    if kind == "problems":
        names += ["claims", "cluster", "devices", "problems", "themes"]
    sources = (Path(__file__).with_name(f"{name}.py").read_bytes() for name in names)
    return hashlib.sha256(b"\0".join(sources)).hexdigest()[:12]


def _find_pattern(differences: Iterable[str]) -> frozenset[str]:
    """Return differences without what is particular to one question, so that smaller ones can be recognised."""
    patterns = set()
    for text in differences:
        mode, _, rest = (
            text.rpartition(", like upstream: ") if ", like upstream: " in text else text.rpartition(", by default: ")
        )
        words = (word for word in rest.replace("(", " (").split() if word.isalpha() or word.endswith(":"))
        patterns.add(f"{bool(mode)} {' '.join(list(words)[:3])} {rest.rpartition('upstream')[2][:18]}")
    return frozenset(patterns)
