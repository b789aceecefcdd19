"""The doctor of a node: from facts to findings. Pure; who collects the facts is another matter."""

from __future__ import annotations

from collections.abc import Iterable

from claimsmith.node.doctor_checks import LOCAL_CHECKS
from claimsmith.node.doctor_checks_api import API_CHECKS, check_server
from claimsmith.node.doctor_facts import ApiFacts, LocalFacts
from claimsmith.node.doctor_findings import Finding

__all__ = ["examine", "is_sick", "is_unreachable"]


def examine(local: LocalFacts, api: ApiFacts | None = None) -> tuple[Finding, ...]:
    """Return what all checks found, in order; each check says something.

    Args:
        local: What was found on the machine.
        api: What the API server told; None when it was not asked.
    """
    found = [finding for check in LOCAL_CHECKS.values() for finding in check(local)]
    if api is not None:
        found.extend(check_server(local, api))
        if not api.error:
            found.extend(finding for check in API_CHECKS.values() for finding in check(local, api))
    return tuple(found)


def is_sick(findings: Iterable[Finding]) -> bool:
    """Tell whether something keeps devices from pods."""
    return any(finding.severity == "problem" for finding in findings)


def is_unreachable(api: ApiFacts | None) -> bool:
    """Tell whether an API server was asked and did not answer."""
    return api is not None and bool(api.error)
