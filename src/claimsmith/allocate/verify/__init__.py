"""An independent check of an allocation: replays it over the rules and lists every one that is broken.

It shares no code with the solvers, so that a mistake in a rule has to be made twice to stay hidden.
"""

from __future__ import annotations

from claimsmith.allocate.verify.case import VerifyCase, Violation
from claimsmith.allocate.verify.replay import verify_allocation

__all__ = ["VerifyCase", "Violation", "verify_allocation"]
