"""Where an expression names attributes and capacities, so that its text can be changed there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from claimsmith.allocate.lint.published import Field, Name
from claimsmith.cel.ast import Call, Expr, Ident, Literal, Select, walk

__all__ = ["Edit", "PathUse", "apply_edits", "edit_name", "find_uses", "guard_text", "is_identifier", "quote"]

_FIELDS: Final[dict[str, Field]] = {"attributes": "attributes", "capacity": "capacity"}
_INDEXING: Final = frozenset({"_[_]", "_[?_]", "_?._"})
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED: Final = frozenset(
    ("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
     "namespace", "null", "package", "return", "true", "var", "void", "while")
)  # fmt: skip


class Edit(NamedTuple):
    """A replacement of a part of a text."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PathUse:
    """One place where an expression names an attribute or a capacity.

    Args:
        node: The node with the whole path.
        is_safe: Whether it gives something also where the name is not there: in `has(…)`, with `?`, with `in`.
        field, domain, id: Where the parts of the name stand in the text.
    """

    name: Name
    node: Expr
    is_safe: bool
    field: tuple[int, int]
    domain: tuple[int, int]
    id: tuple[int, int]


def find_uses(tree: Expr, text: str) -> tuple[PathUse, ...]:
    """Return all places of an expression that name an attribute or a capacity by constants, in their order."""
    found = (_find_use(node, text) or _find_membership(node) for node in walk(tree))
    return tuple(sorted((use for use in found if use is not None), key=lambda use: use.node.start))


def edit_name(use: PathUse, name: Name, text: str) -> tuple[Edit, ...]:
    """Return the edits that let a place name something else."""
    old = text[slice(*use.id)]
    is_quoted = old[:1] in ("'", '"')
    new = quote(name.id) if is_quoted else name.id
    return (Edit(*use.field, name.field), Edit(*use.domain, quote(name.domain)), Edit(*use.id, new))


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return the text with all replacements made; they don't overlap, equal ones count once."""
    for edit in sorted(set(edits), reverse=True):
        text = f"{text[: edit.start]}{edit.text}{text[edit.end :]}"
    return text


def is_identifier(id: str) -> bool:
    """Tell whether an id can stand behind a dot."""
    return bool(_IDENTIFIER.fullmatch(id)) and id not in _RESERVED


def guard_text(name: Name) -> str:
    """Return the condition that a device has the name."""
    if is_identifier(name.id):
        return f"has({name})"
    return f"{quote(name.id)} in device.{name.field}[{quote(name.domain)}]"


def quote(text: str) -> str:
    """Return a text as a string of the language."""
    return json.dumps(text, ensure_ascii=False)


def _find_use(node: Expr, text: str) -> PathUse | None:
    """Return the use that ends with a node, such as `device.attributes["d"].x`; None when it is no such path."""
    if isinstance(node, Select):
        id, end = node.field, node.end
        operand: Expr = node.operand
        start = text.rfind(id, node.start, end)
        place, is_safe = (start, start + len(id)), node.test_only
    elif isinstance(node, Call) and node.function in _INDEXING and _constant(node.args[1]) is not None:
        id = _constant(node.args[1]) or ""
        operand = node.args[0]
        place, is_safe = (node.args[1].start, node.args[1].end), node.function != "_[_]"
    else:
        return None
    inner = _find_domain(operand)
    if inner is None or place[0] < 0:
        return None
    field, holder, domain, is_optional = inner
    return PathUse(
        name=Name(field, _constant(domain) or "", id),
        node=node,
        is_safe=is_safe or is_optional,
        field=(holder.end - len(field), holder.end),
        domain=(domain.start, domain.end),
        id=place,
    )


def _find_membership(node: Expr) -> PathUse | None:
    """Return the use in `"x" in device.attributes["d"]`."""
    if not (isinstance(node, Call) and node.function == "@in") or _constant(node.args[0]) is None:
        return None
    inner = _find_domain(node.args[1])
    if inner is None:
        return None
    field, holder, domain, _ = inner
    return PathUse(
        name=Name(field, _constant(domain) or "", _constant(node.args[0]) or ""),
        node=node,
        is_safe=True,
        field=(holder.end - len(field), holder.end),
        domain=(domain.start, domain.end),
        id=(node.args[0].start, node.args[0].end),
    )


def _find_domain(node: Expr) -> tuple[Field, Select, Literal, bool] | None:
    """Return field and domain of `device.attributes["d"]`, and whether the domain may be absent."""
    if not (isinstance(node, Call) and node.function in ("_[_]", "_[?_]")):
        return None
    holder, domain = node.args
    if not (isinstance(holder, Select) and isinstance(domain, Literal) and type(domain.value) is str):
        return None
    field = _FIELDS.get(holder.field)
    is_device = isinstance(holder.operand, Ident) and holder.operand.name.removeprefix(".") == "device"
    return (field, holder, domain, node.function == "_[?_]") if field is not None and is_device else None


def _constant(node: Expr) -> str | None:
    return node.value if isinstance(node, Literal) and type(node.value) is str else None
