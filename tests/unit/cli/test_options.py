"""The options that commands share."""

from __future__ import annotations

from typing import get_args

from claimsmith.allocate.policy.objective import POLICIES
from claimsmith.cli.options import PolicyName


def test_the_help_of_a_policy_names_all_that_are_allowed() -> None:
    said = get_args(PolicyName)[1].help

    assert [name for name in POLICIES if name not in said] == []
