"""Why a pod got no node, as one text for its condition and event: pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from claimsmith.model.decision import Decision, Pending, Reason, Refused, Undecided

__all__ = ["render_refusal"]


def render_refusal(
    refused: Mapping[str, tuple[Reason, ...]], decisions: Iterable[Decision], *, devices_text: str = ""
) -> str:
    """Return why no node can take a pod: first what its claims lack, then what nodes lack, each with their number.

    Args:
        refused: Reasons of the nodes that can't take the pod, devices left aside.
        decisions: The allocator's answers for the other nodes.
        devices_text: What an explanation of the claims says; empty to say no more than that they don't fit.
    """
    answers = tuple(decisions)
    total = len(refused) + len(answers)
    if not total:
        return "there is no node; add one"
    fatal = next((item for item in answers if isinstance(item, Refused) and not item.node_only), None)
    if fatal is not None:
        return fatal.text
    parts = [devices_text] if devices_text else []
    counts = Counter(_describe(item) for item in answers) if not devices_text else Counter[str]()
    counts.update(reason.text for reasons in refused.values() for reason in reasons)
    parts += [f"{_nodes(count)}: {text}" for text, count in counts.most_common()]
    return f"0/{total} nodes can take the pod: {'; '.join(parts)}"


def _describe(decision: Decision) -> str:
    match decision:
        case Pending():
            return _join_reasons(decision) or "its devices do not serve the pod's claims"
        case Refused():
            return decision.text
        case Undecided():
            return "no answer within the search budget"
        case _:
            return "its devices serve the pod's claims"


def _join_reasons(decision: Pending) -> str:
    return ", ".join(dict.fromkeys(reason.text for reason in decision.reasons))


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
