"""What the sources must look like, beyond what ruff, mypy and import-linter check.

Each rule is pure: it takes the path of a file, relative to the checkout, and its text; it returns one line per finding.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import PurePosixPath

MAX_MODULE_LINES = 600
MAX_FUNCTION_LINES = 50

PURE_ROOMS = ("model", "api", "cel", "validate", "allocate", "cluster/build")

Rule = Callable[[PurePosixPath, str], list[str]]
_Function = ast.FunctionDef | ast.AsyncFunctionDef

_VAGUE_NAMES = re.compile(r"(?:^|_)(?:utils?|helpers?|commons?|manager|misc)$")
_IMPURE_CALLS = frozenset({"open", "print", "input", "breakpoint"})
_CLOCK_CALLS = frozenset({"now", "utcnow", "today"})
_BUILTIN_EXCEPTIONS = frozenset(
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
)
_GENERATED_ROOMS = ("src/claimsmith/api/wire/", "src/claimsmith/kubelet/")
_FOREIGN_PLACES = re.compile(
    r"(?<![\w./-])/(?:root|work)/\w"
    r"|/home/(?!nonroot\b)\w"
    r"|\bpypi\.org|\bpythonhosted\.org|\bproxy\.golang\.org|\bregistry\.npmjs\.org"
)


@lru_cache(maxsize=2048)
def _parse(text: str) -> ast.Module:
    """Parse a source once for all rules; none of them changes the tree."""
    return ast.parse(text)


def is_generated(path: PurePosixPath, text: str) -> bool:
    """Tell whether a file is a generated one, which nobody reads or edits."""
    return str(path).startswith(_GENERATED_ROOMS) and any(
        line.startswith("# Generated") for line in text.splitlines()[:5]
    )


def find_long_module(path: PurePosixPath, text: str) -> list[str]:
    """Find a module of more than 600 lines."""
    count = len(text.splitlines())
    if count <= MAX_MODULE_LINES or is_generated(path, text):
        return []
    return [f"{path}: {count} lines, allowed {MAX_MODULE_LINES}; split it by subject"]


def find_long_functions(path: PurePosixPath, text: str) -> list[str]:
    """Find functions of more than 50 lines; the docstring doesn't count."""
    if is_generated(path, text):
        return []
    return [
        f"{path}:{node.lineno}: {node.name} has {count} lines, allowed {MAX_FUNCTION_LINES}; split it"
        for node in ast.walk(_parse(text))
        if isinstance(node, _Function) and (count := _count_lines(node)) > MAX_FUNCTION_LINES
    ]


def _count_lines(node: _Function) -> int:
    first = node.body[0]
    docstring = 0
    if ast.get_docstring(node) is not None:
        docstring = (first.end_lineno or first.lineno) - first.lineno + 1
    return (node.end_lineno or node.lineno) - node.lineno + 1 - docstring


def find_vague_name(path: PurePosixPath, text: str) -> list[str]:
    """Find a module or package whose name says nothing about its subject."""
    return [
        f"{path}: {part!r} names no subject; name the module after what it knows"
        for part in (path.stem, *path.parent.parts)
        if _VAGUE_NAMES.search(part)
    ]


def find_missing_docstrings(path: PurePosixPath, text: str) -> list[str]:
    """Find public modules, classes, functions and methods without a docstring."""
    if is_generated(path, text):
        return []
    tree = _parse(text)
    missing = [] if not text.strip() or ast.get_docstring(tree) else [f"{path}:1: the module has no docstring"]
    return missing + [
        f"{path}:{node.lineno}: {node.name} has no docstring; say in one line what it gives"
        for node in _walk_public(tree)
        if ast.get_docstring(node) is None
    ]


def _walk_public(tree: ast.Module | ast.ClassDef) -> Iterator[_Function | ast.ClassDef]:
    for node in tree.body:
        if not isinstance(node, _Function | ast.ClassDef) or node.name.startswith("_"):
            continue
        if not _repeats_another(node):
            yield node
        if isinstance(node, ast.ClassDef):
            yield from _walk_public(node)


def _repeats_another(node: _Function | ast.ClassDef) -> bool:
    """Tell whether a definition is an overload, an override or a setter: the docstring stands at the other one."""
    return any(_last_name(decorator) in {"overload", "override", "setter"} for decorator in node.decorator_list)


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Call(func=inner) | ast.Subscript(value=inner):
            return _last_name(inner)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def find_stray_exceptions(path: PurePosixPath, text: str) -> list[str]:
    """Find exception classes outside of errors.py, where they are grouped by who must act.

    A private one is control flow that never leaves its module.
    """
    if path.name == "errors.py" or is_generated(path, text):
        return []
    return [
        f"{path}:{node.lineno}: exception {node.name} is defined here; move it to errors.py"
        for node in ast.walk(_parse(text))
        if isinstance(node, ast.ClassDef)
        and not node.name.startswith("_")
        and any(_is_exception(_last_name(base)) for base in node.bases)
    ]


def _is_exception(name: str) -> bool:
    return name in _BUILTIN_EXCEPTIONS or name.endswith(("Error", "Exception"))


def find_impure_calls(path: PurePosixPath, text: str) -> list[str]:
    """Find calls of a pure room that reach a file, the terminal or the clock, and asynchronous code."""
    if not is_pure(path):
        return []
    return [
        f"{path}:{node.lineno}: {what} in a pure room; take the value as an argument"
        for node in ast.walk(_parse(text))
        if isinstance(node, ast.stmt | ast.expr) and (what := _impure_name(node))
    ]


def is_pure(path: PurePosixPath) -> bool:
    """Tell whether a source file belongs to a room without effects."""
    return any(f"{path.with_suffix('')}/".startswith(f"src/claimsmith/{room}/") for room in PURE_ROOMS)


def _impure_name(node: ast.AST) -> str:
    match node:
        case ast.AsyncFunctionDef(name=name):
            return f"async {name}"
        case ast.ImportFrom(module="urllib.request") | ast.Import(names=[ast.alias(name="urllib.request")]):
            return "urllib.request"
        case ast.Call(func=ast.Name(id=name)) if name in _IMPURE_CALLS:
            return f"{name}()"
        case ast.Call(func=ast.Attribute(attr=name, value=owner)) if name in _CLOCK_CALLS and _last_name(owner) in {
            "datetime",
            "date",
        }:
            return f"{name}()"
        case ast.Attribute(attr="stdin" | "stdout" | "stderr" | "argv" as name, value=ast.Name(id="sys")):
            return f"sys.{name}"
    return ""


def find_foreign_places(path: PurePosixPath, text: str) -> list[str]:
    """Find paths of a developer's machine and hosts of package registries: a clone works anywhere."""
    return [
        f"{path}:{number}: names {match[0]!r}; nothing may depend on one machine or registry"
        for number, line in enumerate(text.splitlines(), start=1)
        if (match := _FOREIGN_PLACES.search(line))
    ]


def find_test_habits(path: PurePosixPath, text: str) -> list[str]:
    """Find mocks and sleeps in tests: a fake or an event says more and waits less."""
    return [
        f"{path}:{node.lineno}: {what}; use a fake, an event or a clock that the test turns"
        for node in ast.walk(_parse(text))
        if isinstance(node, ast.stmt | ast.expr) and (what := _bad_habit(node))
    ]


def _bad_habit(node: ast.AST) -> str:
    match node:
        case ast.ImportFrom(module="unittest.mock" | "mock" as name):
            return f"imports {name}"
        case ast.ImportFrom(module="unittest", names=names) if any(alias.name == "mock" for alias in names):
            return "imports unittest.mock"
        case ast.Import(names=names) if any(alias.name in {"unittest.mock", "mock"} for alias in names):
            return "imports unittest.mock"
        case ast.Call(func=ast.Attribute(attr="sleep", value=ast.Name(id="time"))):
            return "sleeps"
    return ""


SOURCE_RULES: tuple[Rule, ...] = (
    find_long_module,
    find_long_functions,
    find_vague_name,
    find_missing_docstrings,
    find_stray_exceptions,
    find_impure_calls,
)
