"""Why no node can take a pod, devices left aside, as one text for its condition and event: pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from claimsmith.model.decision import Reason

__all__ = ["render_refusal"]


def render_refusal(refused: Mapping[str, tuple[Reason, ...]]) -> str:
    """Return why no node can take a pod, each reason with the number of nodes, the most frequent first.

    Args:
        refused: The reasons of each node of the cluster.
    """
    if not refused:
        return "0/0 nodes can take the pod: the cluster has no node; add one"
    counts = Counter(text for reasons in refused.values() for text in {reason.text for reason in reasons})
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    parts = [f"{count} {'node' if count == 1 else 'nodes'}: {text}" for text, count in ordered]
    return f"0/{len(refused)} nodes can take the pod; {'; '.join(parts)}"
