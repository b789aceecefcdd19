"""Records upstream's own table test anew, in full, from its Go source.

    python -m tests.conformance.table.record

The module is copied, its runner of table cases calls `recorder/recording.go` after each call of Allocate, and the tests
that run the table run once for each implementation, and once for the one that the gates select. A line is one case in
one such run: everything that the allocator was given and what it gave. That it is what upstream expects is checked by
upstream's tests, which must pass. Written anew is `../data/upstream-table.jsonl.gz`; two runs differ in one case, since
the stable implementation walks pools at random.
"""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.conformance.fuzz.upstream import MODULE, SOURCES
from tests.toolchain import run_go

RECORDED: Final = Path(__file__).parents[1] / "data" / "upstream-table.jsonl.gz"
RECORDER: Final = Path(__file__).parent / "recorder" / "recording.go"
ERROR_KINDS: Final = SOURCES / "errorkinds.go"
SHARED_TESTS: Final = Path("structured", "internal", "allocatortesting")
CALL: Final = "results, err := allocator.Allocate(ctx, tc.node, unwrap(claimsToAllocate...))\n"
RECORD: Final = "recordTestCase(t, name, &tc, allocator, results, err)\n"
RUNS: Final = {
    "selected": "./structured",
    "stable": "./structured/internal/stable",
    "incubating": "./structured/internal/incubating",
    "experimental": "./structured/internal/experimental",
}
"""Packages whose tests run the table, by the implementation that they ask; the first lets the gates select it."""


def find_module() -> Path:
    """Return the folder of upstream's module, fetched if it is not there."""
    run_go(["mod", "download", MODULE], folder=SOURCES)
    return Path(run_go(["list", "-m", "-f", "{{.Dir}}", MODULE], folder=SOURCES).strip())


def copy_module(folder: Path) -> None:
    """Copy upstream's module and let its runner record.

    Raises:
        ValueError: The runner no longer has the one call that is to be recorded.
    """
    shutil.copytree(find_module(), folder, copy_function=shutil.copyfile)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    runner = folder / SHARED_TESTS / "allocator_testing.go"
    source = runner.read_text(encoding="utf-8")
    if source.count(CALL) != 1:
        raise ValueError(f"{runner.name}: found the call {source.count(CALL)} times, allowed once; adapt CALL")
    runner.write_text(source.replace(CALL, CALL + RECORD), encoding="utf-8")
    shutil.copyfile(RECORDER, folder / SHARED_TESTS / RECORDER.name)
    kinds = ERROR_KINDS.read_text(encoding="utf-8").replace("package main", "package allocatortesting")
    (folder / SHARED_TESTS / ERROR_KINDS.name).write_text(kinds, encoding="utf-8")


def run_table(module: Path, run: str, output: Path) -> list[dict[str, Any]]:
    """Return what one run of upstream's table records, by name of the case."""
    settings = {"CLAIMSMITH_RUN": run, "CLAIMSMITH_TABLE": str(output)}
    run_go(["test", "-count=1", "-run", "^TestAllocator$", RUNS[run]], folder=module, settings=settings)
    lines = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    return sorted(lines, key=lambda line: str(line["name"]))


def main() -> None:
    """Write the recorded file."""
    with tempfile.TemporaryDirectory() as scratch:
        module = Path(scratch) / "module"
        copy_module(module)
        lines = [line for run in RUNS for line in run_table(module, run, Path(scratch) / f"{run}.jsonl")]
    with gzip.GzipFile(RECORDED, "w", mtime=0) as out:
        for line in lines:
            out.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
    print(f"{RECORDED.name}: {len(lines)} lines")


if __name__ == "__main__":
    main()
