"""What an operator applies to hold a daemon to less than roles can say: a policy on what its account writes. Pure.

Source: ValidatingAdmissionPolicy of admissionregistration.k8s.io/v1.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

__all__ = ["cel_list", "cel_text", "check", "guard", "keeps", "keeps_but", "plan_policy"]

_API: Final = "admissionregistration.k8s.io/v1"


def guard(group: str, resources: str, *operations: str) -> dict[str, Any]:
    """Return one rule of what a policy looks at.

    Args:
        group: API group; empty for the core group.
        resources: Names separated by spaces.
        operations: CREATE, UPDATE or DELETE.
    """
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "resources": resources.split(),
        "operations": list(operations),
    }


def check(kind: str, expression: str, message: str) -> dict[str, str]:
    """Return one test of a policy.

    Args:
        kind: Plural of the objects that it is for.
        expression: What must be true, in CEL.
        message: What is told when it is not: text in CEL.
    """
    return {"expression": f"variables.kind != '{kind}' || ({expression})", "messageExpression": message}


def keeps(*paths: str) -> str:
    """Return the CEL expression that is true when a change leaves fields as they are.

    Args:
        paths: Fields such as `metadata.labels`, which may be missing.
    """
    asked = (path.replace(".", ".?") for path in paths)
    return " && ".join(f"object.{path} == oldObject.{path}" for path in asked)


def keeps_but(new: str, old: str, *, may_come: str, may_go: str) -> str:
    """Return the CEL expression that is true when a change of a map leaves all entries as they are but for some.

    Args:
        new, old: The map after and before, in CEL.
        may_come: Whether the entry of key `k` may come or change, in CEL.
        may_go: Whether it may go.
    """
    same = f"k in {old} && {new}[k] == {old}[k]"
    return f"{new}.all(k, {same} || {may_come}) && {old}.all(k, k in {new} || {may_go})"


def cel_text(value: str) -> str:
    """Return a text as CEL writes it; no escape of JSON means anything else there."""
    return json.dumps(value, ensure_ascii=False)


def cel_list(values: Iterable[str]) -> str:
    """Return texts as a list of CEL, sorted."""
    return f"[{', '.join(map(cel_text, sorted(values)))}]"


def plan_policy(
    name: str,
    *,
    user: str,
    guards: Sequence[Mapping[str, Any]],
    variables: Mapping[str, str],
    checks: Sequence[Mapping[str, str]],
) -> list[dict[str, Any]]:
    """Return a policy that refuses what does not pass its tests, and its binding.

    Args:
        name: Name of both.
        user: Name of the user whose writes it looks at; those of everybody else pass.
        guards: What it looks at.
        variables: Expressions by name, of which each may use those before it; `kind` is there already.
        checks: The tests.
    """
    known = {"kind": "request.resource.resource", **variables}
    policy = {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": list(guards)},
            "matchConditions": [{"name": "is-the-daemon", "expression": f"request.userInfo.username == '{user}'"}],
            "variables": [{"name": key, "expression": expression} for key, expression in known.items()],
            "validations": list(checks),
        },
    }
    binding = {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    return [policy, binding]
