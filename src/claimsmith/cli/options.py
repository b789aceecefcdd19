"""Options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from claimsmith.cli.object_names import parse_node_name
from claimsmith.cli.output import Format
from claimsmith.errors import InputError

if TYPE_CHECKING:
    from claimsmith.allocate.policy.objective import Policy

__all__ = [
    "Force",
    "LikeUpstream",
    "ManifestPaths",
    "OnlyNode",
    "Output",
    "Patience",
    "PolicyName",
    "Strict",
    "Verbosity",
    "Yes",
    "parse_policy",
]

ManifestPaths = Annotated[
    list[str],
    typer.Option("-f", "--files", metavar="PATH", help="Manifests: a file, a folder, or - for stdin; may be repeated."),
]
"""What a command works on."""
OnlyNode = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Look at this node alone.",
        show_default=False,
        parser=lambda text: parse_node_name(text) if text else "",
    ),
]
"""The only node to look at."""
LikeUpstream = Annotated[
    bool, typer.Option("--like-upstream", help="Choose exactly as upstream does, also where it is wrong.")
]
"""Whether to repeat upstream's faults."""
Output = Annotated[Format, typer.Option("-o", "--output", metavar="FORMAT", help="One of table, json, yaml.")]
"""How to print."""
PolicyName = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="NAME",
        show_default=False,
        help="How devices and nodes are chosen: first, pack, spread, fragmentation or fgd. Default: first; gangs pack.",
    ),
]
"""What makes one decision better than another."""
Strict = Annotated[
    bool, typer.Option("--strict", help="Refuse fields that a kind does not have instead of leaving them out.")
]
"""Whether an unknown field is an error."""
Yes = Annotated[
    bool,
    typer.Option(
        "--yes", help="Carry the plan out on the live cluster, by evictions; each step is looked at again before."
    ),
]
"""Whether a plan is carried out."""
Force = Annotated[
    bool, typer.Option("--force", help="With --yes: evict pods that nothing makes again as well; they end for good.")
]
"""Whether pods without a controller may go."""
Patience = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=1,
        help="With --yes: how long the pods of a step get to end, and their successors to get nodes.",
    ),
]
"""How long a step may take."""
Verbosity = Annotated[
    int,
    typer.Option("-v", "--verbose", count=True, show_default=False, help="Show more of the log; -vv shows all of it."),
]
"""How much of what components log is shown."""


def parse_policy(name: str) -> Policy | None:
    """Return the policy that a user names; None when none is named.

    Raises:
        InputError: There is no policy of that name.
    """
    from claimsmith.allocate.policy.objective import POLICIES, find_policy

    found = find_policy(name) if name else None
    if name and found is None:
        raise InputError(f"--policy: found {name!r}, allowed {', '.join(POLICIES)}; name one of them")
    return found
