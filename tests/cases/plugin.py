"""What the case files need of pytest: the option `--cases DIR`, and a list of the cases that nothing can judge yet.

Such cases are no tests: they neither pass nor are they skipped, but every run that includes this folder names them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--cases", metavar="DIR", help="folder of case files (default: tests/cases/data)")


def find_folder(config: pytest.Config) -> Path:
    """Return the folder of case files.

    Raises:
        pytest.UsageError: It is no folder.
    """
    folder = Path(config.getoption("--cases") or FOLDER / "data")
    if not folder.is_dir():
        raise pytest.UsageError(f"--cases {folder}: found no folder, allowed a folder of case files; correct the path")
    return folder


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the cases that are not run, and those that are known to fail."""
    if not _is_included(config):
        return
    from tests.cases.judges import list_gaps, sort_cases
    from tests.cases.not_yet import NOT_YET

    judged, others = sort_cases(find_folder(config))
    names = {path.stem for path in judged}
    failing = [
        f"{name}: {part}: {why}" for name, parts in NOT_YET.items() if name in names for part, why in parts.items()
    ]
    _write(terminalreporter, f"cases not runnable yet: {len(others)}", [f"{n}: {why}" for n, why in others.items()])
    gaps = [f"{name}: {text}" for name, texts in list_gaps(judged).items() for text in texts]
    _write(terminalreporter, f"parts of cases not runnable yet: {len(gaps)}", gaps)
    _write(terminalreporter, f"parts of cases that are known to fail: {len(failing)}", failing)


def _write(reporter: pytest.TerminalReporter, title: str, lines: list[str]) -> None:
    if lines:
        reporter.section(title)
        for line in lines:
            reporter.write_line(line)


def _is_included(config: pytest.Config) -> bool:
    """Tell whether the run includes this folder: the processes that share a run know only what was asked for."""
    paths = (Path(config.invocation_params.dir, arg.partition("::")[0]).resolve() for arg in config.args)
    return any(path == FOLDER or path in FOLDER.parents or path.parent == FOLDER for path in paths)
