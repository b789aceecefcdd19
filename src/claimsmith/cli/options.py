"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from claimsmith.cli.output import Format

__all__ = ["LikeUpstream", "ManifestPaths", "OnlyNode", "Output", "Strict", "Verbosity"]

ManifestPaths = Annotated[
    list[str],
    typer.Option("-f", "--files", metavar="PATH", help="Manifests: a file, a folder, or - for stdin; may be repeated."),
]
"""What a command works on."""
OnlyNode = Annotated[str, typer.Option(metavar="NAME", help="Look at this node alone.", show_default=False)]
"""The only node to look at."""
LikeUpstream = Annotated[
    bool, typer.Option("--like-upstream", help="Choose exactly as upstream does, also where it is wrong.")
]
"""Whether to repeat upstream's faults."""
Output = Annotated[Format, typer.Option("-o", "--output", metavar="FORMAT", help="One of table, json, yaml.")]
"""How to print."""
Strict = Annotated[
    bool, typer.Option("--strict", help="Refuse fields that a kind does not have instead of leaving them out.")
]
"""Whether an unknown field is an error."""
Verbosity = Annotated[
    int,
    typer.Option("-v", "--verbose", count=True, show_default=False, help="Show more of the log; -vv shows all of it."),
]
"""How much of what components log is shown."""
