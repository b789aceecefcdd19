"""What docs/whatif.md shows is what the commands print, and the rights that it names are those that are used."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

import pytest
import yaml

from claimsmith.cluster.read import READ_BY_SNAPSHOT
from tests.scenarios.cli_process import call_claimsmith

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs/whatif.md").read_text(encoding="utf-8")
SHOWN: Final = re.findall(r"^```console\n\$ claimsmith ([^\n]+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("command", "told"), SHOWN, ids=lambda text: text.partition("\n")[0][:60])
def test_the_page_shows_what_is_printed(
    command: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in (ROOT / "examples/what-if").iterdir():
        (tmp_path / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    ran = call_claimsmith(*shlex.split(command))
    printed = lines_of(ran.out + ran.err)

    assert printed[: len(lines_of(told))] == lines_of(told)


def lines_of(text: str) -> list[str]:
    """Return the lines that are not empty, without spaces at their ends."""
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def test_the_page_shows_all_kinds_of_questions() -> None:
    assert len(SHOWN) >= 7


def test_the_page_names_the_rights_that_are_used() -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    rules = yaml.safe_load(text)["rules"]
    named = {(group, plural) for rule in rules for group in rule["apiGroups"] for plural in rule["resources"]}

    assert named == {(kind.group, kind.plural) for kind in READ_BY_SNAPSHOT}
    assert {verb for rule in rules for verb in rule["verbs"]} == {"list"}
