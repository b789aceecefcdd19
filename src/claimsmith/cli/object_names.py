"""Names of objects as people write them on a command line: alone, or after their kind as kubectl prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from claimsmith.errors import InputError

if TYPE_CHECKING:
    from claimsmith.model.names import PodRef

__all__ = ["parse_node_name", "parse_pod_ref"]


def parse_node_name(text: str) -> str:
    """Return the name of a node of `NAME` or `node/NAME`.

    Raises:
        InputError: It names another kind, or nothing.
    """
    kind, sign, name = text.rpartition("/")
    if not name or (sign and kind != "node"):
        raise InputError(f"node {text!r}: found no name of a node, allowed NAME or node/NAME; correct it")
    return name


def parse_pod_ref(text: str) -> PodRef:
    """Return the pod of `NAME` or `NAMESPACE/NAME`, both also after `pod/`; the namespace is `default` without one.

    Raises:
        InputError: The text has more parts, or an empty one.
    """
    from claimsmith.model.names import PodRef

    parts = text.removeprefix("pod/").split("/")
    if len(parts) > 2 or not all(parts):
        raise InputError(
            f"pod {text!r}: found no name of a pod, allowed NAME or NAMESPACE/NAME, also after pod/; correct it"
        )
    return PodRef(*(("default", *parts)[-2:]))
