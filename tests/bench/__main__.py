"""`make bench`: run the benchmarks, print them beside their peers and write them to build/bench.

Arguments name the benchmarks to run (`decode`); without any, all run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from rich.console import Console

from tests.bench import bench_cel, bench_decode, bench_hard, bench_search
from tests.bench.figures import Figure, describe_machine, print_figures, write_figures

BENCHMARKS: Mapping[str, Callable[[], Iterator[Figure]]] = {
    "cel": bench_cel.measure,
    "decode": bench_decode.measure,
    "hard": bench_hard.measure,
    "search": bench_search.measure,
}
FOLDER = Path(__file__).resolve().parents[2] / "build" / "bench"


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all; return the exit status."""
    unknown = sorted(set(names) - set(BENCHMARKS))
    if unknown:
        print(f"benchmarks: found {', '.join(unknown)}, allowed {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    figures = [figure for name in names or BENCHMARKS for figure in BENCHMARKS[name]()]
    machine = describe_machine()
    write_figures(figures, FOLDER, machine=machine)
    print_figures(figures, Console(), machine=machine)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
