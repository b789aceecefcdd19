"""`make fuzz`: random problems and expressions, answered by the real upstream and by us.

    make fuzz ARGS="--seed 1 --problems 20000 --expressions 5000"

A run goes on where the last one with the same seed has stopped. A difference is shrunk, printed as a manifest and kept
in build/fuzz/differences. The exit status is 1 while any difference is not explained, 2 when upstream can't be built.
"""

from __future__ import annotations

import argparse
import sys

from claimsmith.testing.conformance.deviations import HEADINGS
from tests.conformance.fuzz.judging import OF_SELECTORS
from tests.conformance.fuzz.session import KINDS, Progress, Session
from tests.conformance.fuzz.upstream import MODES, Upstream, UpstreamError, build_upstream


def main(arguments: list[str]) -> int:
    """Run what the arguments ask for; return the exit status."""
    parser = argparse.ArgumentParser(prog="make fuzz", description="Compare claimsmith with the real upstream.")
    parser.add_argument("--seed", type=int, default=1, help="questions are drawn from it (default: 1)")
    parser.add_argument("--problems", type=int, default=1000, help="allocation problems (default: 1000)")
    parser.add_argument("--expressions", type=int, default=1000, help="expressions (default: 1000)")
    parser.add_argument("--restart", action="store_true", help="forget what earlier runs with this seed have done")
    options = parser.parse_args(arguments)
    try:
        program = build_upstream()
        unexplained = 0
        for kind in KINDS:
            with Upstream(program, MODES[kind]) as upstream:
                session = Session(kind, options.seed, upstream, restart=options.restart)
                for line in session.run(getattr(options, kind)):
                    print(line, flush=True)
                print_summary(kind, session.progress)
                unexplained += len(session.progress.open)
    except UpstreamError as error:
        print(error, file=sys.stderr)
        return 2
    return 1 if unexplained else 0


def print_summary(kind: str, progress: Progress) -> None:
    """Print how often upstream said what, which deviations were met, and what is left."""
    print(f"{kind}: {progress.done} asked, {len(progress.open)} differ without an explanation")
    for verdict, count in progress.verdicts.most_common():
        print(f"  {count:6} upstream: {verdict}")
    for name, count in progress.deviations.most_common():
        print(f"  {count:6} {name}: {HEADINGS.get(name, OF_SELECTORS.get(name))}")
    for name, count in progress.stops.most_common():
        print(f"  {count:6} not compared at once: {name}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
