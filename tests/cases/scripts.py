"""Scripts of cases: actions one after the other, and states that must then be reached.

A stage says which actions and states it knows, and with which fields; a script with others can't be played on it. No
state is waited for by the clock: it is looked at again after every answer of the API server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tests.cases.casefile import CaseFile

Step = Mapping[str, Any]
Act = Callable[[Any, Step], Awaitable[None]]
Check = Callable[[Any, Any], Awaitable[str]]
"""Gets the stage and what is wanted; gives what differs, empty when it holds."""

TRIES: Final = 10_000
"""How often a state is looked at before it counts as not reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Something that happens, and the fields that say how."""

    act: Act
    fields: frozenset[str] = frozenset()


class Stage(Protocol):
    """Where a script is played."""

    async def breathe(self) -> None:
        """Let everything else go on for a moment: one request to the API server."""

    async def wait(self, seconds: float) -> None:
        """Let time pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """A kind of stage.

    Args:
        given: Fields of `given` that it knows.
        actions, checks: What it knows.
        variants: For each text of `change`, the steps that it makes of the script's.
        enter: Makes the stage.
    """

    given: frozenset[str]
    actions: Mapping[str, Action]
    checks: Mapping[str, Check]
    enter: Callable[[Mapping[str, Any]], AbstractAsyncContextManager[Stage]]
    variants: Mapping[str, Callable[[Sequence[Step]], list[Step]]]

    def find_missing(self, case: CaseFile) -> list[str]:
        """Return what the script has that this stage does not know."""
        missing = [f"given {name}" for name in case.content["given"] if name not in self.given]
        for step in case.content["steps"]:
            missing += self._missing_in(step)
        for variant in case.content.get("variants") or ():
            if variant["change"] not in self.variants:
                missing.append(f"variant {variant['change']!r}")
            missing += self._missing_in({"expect": variant["expect"]})
        return list(dict.fromkeys(missing))

    def _missing_in(self, step: Step) -> Iterator[str]:
        for name in step.get("expect") or ():
            if name not in self.checks:
                yield f"state {name}"
        name = step.get("do")
        if name is None:
            return
        if name not in self.actions:
            yield f"action {name}"
            return
        for field in step:
            if field != "do" and field not in self.actions[name].fields:
                yield f"action {name} with {field}"

    async def play(self, case: CaseFile) -> list[str]:
        """Return what differs, over all that the script is to be played for, and its variants."""
        given, steps = case.content["given"], list(case.content["steps"])
        differences: list[str] = []
        for word, values in _repetitions(case):
            for value in values:
                found = await self._play_once(given, _put(steps, word, value))
                differences += [f"{value}: {text}" if value else text for text in found]
        for variant in case.content.get("variants") or ():
            changed = [*self.variants[variant["change"]](steps), {"expect": variant["expect"]}]
            found = await self._play_once(given, changed)
            differences += [f"variant {variant['change']!r}: {text}" for text in found]
        return differences

    async def _play_once(self, given: Mapping[str, Any], steps: Sequence[Step]) -> list[str]:
        differences = []
        async with self.enter(given) as stage:
            for number, step in enumerate(steps, start=1):
                if "do" in step:
                    await self.actions[step["do"]].act(stage, step)
                elif "wait" in step:
                    await stage.wait(float(str(step["wait"]).removesuffix("s")))
                for name, wanted in (step.get("expect") or {}).items():
                    problem = await _reach(stage, self.checks[name], wanted)
                    if problem:
                        differences.append(f"step {number}, {name}: {problem}")
        return differences


async def _reach(stage: Stage, check: Check, wanted: Any) -> str:
    """Look at a state until it holds; return what differs at the end."""
    problem = await check(stage, wanted)
    for _ in range(TRIES):
        if not problem:
            break
        await stage.breathe()
        problem = await check(stage, wanted)
    return problem


def _repetitions(case: CaseFile) -> list[tuple[str, list[str]]]:
    """Return the word to be replaced and its values; one empty value for a script that is played once."""
    found = [
        (f"${name.removeprefix('for-each-')}", list(values))
        for name, values in case.content.items()
        if name.startswith("for-each-")
    ]
    return found or [("", [""])]


def _put(value: Any, word: str, replacement: str) -> Any:
    """Return a script with a word replaced everywhere."""
    if isinstance(value, Mapping):
        return {key: _put(item, word, replacement) for key, item in value.items()}
    if isinstance(value, list):
        return [_put(item, word, replacement) for item in value]
    return replacement if word and value == word else value
