"""`make bench`: run the benchmarks, print them beside their peers and write them to build/bench.

Arguments name the benchmarks to run (`decode`); without any, all run. With `--write` the figures become
docs/benchmarks.md:

    make bench ARGS="scale hard --write"
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from rich.console import Console

from tests.bench import bench_cel, bench_decode, bench_explain, bench_hard, bench_mixed, bench_scale, bench_search
from tests.bench.figures import Figure, describe_machine, format_markdown, print_figures, write_figures

BENCHMARKS: Mapping[str, Callable[[], Iterator[Figure]]] = {
    "cel": bench_cel.measure,
    "decode": bench_decode.measure,
    "explain": bench_explain.measure,
    "hard": bench_hard.measure,
    "scale": bench_scale.measure,
    "mixed": bench_mixed.measure,
    "search": bench_search.measure,
}
ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "bench"
PAGE = ROOT / "docs" / "benchmarks.md"
WRITE = "--write"


def main(arguments: list[str]) -> int:
    """Run the named benchmarks, or all; return the exit status."""
    names = [name for name in arguments if name != WRITE]
    unknown = sorted(set(names) - set(BENCHMARKS))
    if unknown:
        print(f"benchmarks: found {', '.join(unknown)}, allowed {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    figures = [figure for name in names or BENCHMARKS for figure in BENCHMARKS[name]()]
    machine = describe_machine()
    write_figures(figures, FOLDER, machine=machine)
    print_figures(figures, Console(), machine=machine)
    if WRITE in arguments:
        command = f'make bench ARGS="{" ".join([*names, WRITE])}"'
        PAGE.write_text(format_markdown(figures, command=command, machine=machine), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
