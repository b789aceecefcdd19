"""The lists of mutants: which text of which file is changed into what, and which tests must fail then."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

__all__ = ["LISTS", "ROOT", "Mutant", "Verdict", "find_faults", "judge", "mutate", "read_mutants"]

ROOT: Final = Path(__file__).resolve().parents[2]
LISTS: Final = (
    "search",
    "verify",
    "cel",
    "ledger",
    "health",
    "groups",
    "whatif",
    "gang",
    "lint",
    "mig",
    "explain",
    "cpsat",
)
"""Names of the lists; each is a file `<name>.toml` beside this one."""

_FAILED: Final = 1
"""Exit status of pytest when tests have failed; other numbers but 0 say that they could not be run."""
_CRASH: Final = re.compile(r" - (?:Attribute|Import|Name|Syntax|Type|UnboundLocal)Error\b")
"""A failure by which a test notices no broken rule, only broken code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One rule that is broken in one place.

    Args:
        list_name: The list that it stands in.
        rule: The rule that no longer holds.
        file: Path from the root of the checkout.
        old: What stands there once.
        new: What breaks the rule.
        tests: Tests that must all fail, as pytest names them; without parameters, one parameter set must fail.
        check: Number in the list of checks of an allocation; 0 in other lists.
    """

    list_name: str
    rule: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    check: int = 0

    @property
    def title(self) -> str:
        """Name for people, and for choosing it."""
        number = f" {self.check:02}" if self.check else ""
        return f"{self.list_name}{number}: {self.rule}"


class Verdict(Enum):
    """What became of a mutant."""

    CAUGHT = "caught"
    SURVIVED = "SURVIVED"
    BROKEN = "BROKEN"
    NO_ANSWER = "NO ANSWER"


def read_mutants(names: Iterable[str] = LISTS) -> tuple[Mutant, ...]:
    """Return the mutants of some lists, in order."""
    return tuple(_build(name, entry) for name in names for entry in _read_list(name))


def _read_list(name: str) -> list[Mapping[str, object]]:
    text = Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8")
    entries: list[Mapping[str, object]] = tomllib.loads(text)["mutant"]
    return entries


def _build(list_name: str, entry: Mapping[str, object]) -> Mutant:
    tests, check = entry["tests"], entry.get("check", 0)
    assert isinstance(tests, list)
    assert isinstance(check, int)
    texts = {key: str(entry[key]) for key in ("rule", "file", "old", "new")}
    return Mutant(list_name=list_name, tests=tuple(map(str, tests)), check=check, **texts)


def mutate(mutant: Mutant, text: str) -> str:
    """Return the text of the mutant's file with the rule broken.

    Raises:
        ValueError: The old text does not stand there exactly once.
    """
    if (count := text.count(mutant.old)) != 1:
        raise ValueError(
            f"{mutant.title}: {mutant.file}: found its old text {count} times, allowed once; the mutant is stale, "
            "break the rule where it stands now"
        )
    return text.replace(mutant.old, mutant.new)


def find_faults(mutant: Mutant, root: Path = ROOT) -> list[str]:
    """Return why a mutant can't be made in a checkout, or has no test that could notice it; empty when all is well."""
    try:
        changed = mutate(mutant, (root / mutant.file).read_text(encoding="utf-8"))
        ast.parse(changed)
    except (OSError, SyntaxError, ValueError) as error:
        return [f"{mutant.title}: {error}"]
    faults = [] if mutant.tests else [f"{mutant.title}: no test must notice it"]
    if mutant.old == mutant.new:
        faults.append(f"{mutant.title}: nothing is changed")
    return faults + [f"{mutant.title}: no test {name}" for name in mutant.tests if not _is_test(root, name)]


def _is_test(root: Path, name: str) -> bool:
    file, _, function = name.partition("::")
    path = root / file
    pattern = rf"^(?:async )?def {re.escape(function.partition('[')[0])}\("
    return path.is_file() and re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE) is not None


def judge(mutant: Mutant, status: int, output: str) -> tuple[Verdict, tuple[str, ...]]:
    """Return what pytest's answer says of a mutant, and the named tests that have not noticed it.

    A mutant that makes the code crash breaks no rule: it is broken itself.

    Args:
        status: Exit status of pytest.
        output: What it wrote with `-rf`: a line `FAILED name - why` for each failed test.
    """
    if status not in (0, _FAILED):
        return Verdict.BROKEN, mutant.tests
    failed = [line.removeprefix("FAILED ") for line in output.splitlines() if line.startswith("FAILED ")]
    if any(_CRASH.search(line) for line in failed):
        return Verdict.BROKEN, mutant.tests
    blind = tuple(name for name in mutant.tests if not any(_is_of(line, name) for line in failed))
    return (Verdict.SURVIVED if blind else Verdict.CAUGHT), blind


def _is_of(line: str, name: str) -> bool:
    """Tell whether a line about a failed test is about this one, with any parameters unless it names some."""
    return line == name or line.startswith((f"{name} - ", f"{name}["))
