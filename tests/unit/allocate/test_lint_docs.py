"""The page about lint tells each rule."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from claimsmith.allocate.lint.values import Rule

PAGE = Path(__file__).parents[3] / "docs" / "lint.md"


def test_the_page_has_a_line_for_each_rule_in_their_order() -> None:
    told = re.findall(r"^\| `([a-z-]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert tuple(told) == get_args(Rule)
