"""`claimsmith`: which command runs, and what becomes of an error."""

from __future__ import annotations

import os
import sys

from claimsmith.cli.exits import Exit, exit_for

__all__ = ["main"]


def main() -> None:
    """Run the command line and end the process: 0 done, 1 does not fit, 2 bad input, 3 unreachable, 4 our bug."""
    try:
        code = _run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (`head`, `less`) has seen enough; Python must not complain when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(Exit.DONE)
    except Exception as error:
        sys.exit(exit_for(error))
    sys.exit(code or Exit.DONE)


def _run(arguments: list[str]) -> int | None:
    """Run one command. The agent, which every node runs, is not made to load what parses all the others."""
    if arguments[:1] == ["agent"]:
        from claimsmith.cli.agent import run_agent_command

        run_agent_command(arguments[1:])
        return None
    from claimsmith.cli.commands import run_command

    return run_command()


if __name__ == "__main__":
    main()
