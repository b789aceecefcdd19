"""Builds the syntax tree of an expression: operator precedence with an explicit stack, so depth costs no recursion.

Source: parser/gen/CEL.g4, parser/parser.go and parser/helper.go in cel-go v0.29.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from claimsmith.cel.ast import (
    Call,
    Expr,
    Ident,
    IdSource,
    ListExpr,
    Literal,
    MapEntry,
    MapExpr,
    Select,
    StructExpr,
)
from claimsmith.cel.lexer import Token, parse_bytes, parse_string, tokenize
from claimsmith.cel.macros import MacroSite, expand_macro
from claimsmith.cel.nesting import MAX_NESTING, OUTERMOST, OpenRules
from claimsmith.cel.values import INT64_MAX, INT64_MIN, UINT64_MAX, Uint
from claimsmith.errors import CelCompileError

MAX_CODE_POINTS: Final = 100_000
"""Longest text in code points; the API allows 10 KiB. Source: expressionSizeCodePointLimit in parser.go."""

_BINARY: Final = {
    "||": (2, "_||_"), "&&": (3, "_&&_"), "==": (4, "_==_"), "!=": (4, "_!=_"), "<": (4, "_<_"), "<=": (4, "_<=_"),
    ">": (4, "_>_"), ">=": (4, "_>=_"), "in": (4, "@in"), "+": (5, "_+_"), "-": (5, "_-_"), "*": (6, "_*_"),
    "/": (6, "_/_"), "%": (6, "_%_"),
}  # fmt: skip
_UNARY: Final = {"!": "!_", "-": "-_"}
_UNARY_PRECEDENCE: Final = 7
_RESERVED: Final = frozenset(
    {"as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
     "namespace", "return", "var", "void", "while"}
)  # fmt: skip
_CLOSERS: Final = {"paren": ")", "list": "]", "map": "}", "call": ")", "index": "]", "struct": "}", "root": "end"}
_KEY_WORDS_AS_VALUES: Final = {"true": True, "false": False, "null": None}


def parse(text: str) -> Expr:
    """Return the syntax tree of an expression, with macros expanded.

    Raises:
        CelCompileError: The text is too long, nested too deeply, or not an expression.
    """
    if len(text) > MAX_CODE_POINTS:
        raise CelCompileError(
            f"{len(text)} characters, allowed {MAX_CODE_POINTS}", text=text, offset=0, hint="shorten the expression"
        )
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise CelCompileError(
            "a surrogate, which is half a character", text=text.encode(errors="replace").decode(), offset=0
        )
    return _Parser(text=text, tokens=tokenize(text)).run()


class _Operand(NamedTuple):
    """A finished part and its span, parentheses included; `depth` is how deeply cel-go finds parts in it."""

    expr: Expr
    start: int
    end: int
    depth: int = 0


@dataclass(slots=True, kw_only=True)
class _Operator:
    """An operator that waits for its right side; `terms` and `offsets` collect a chain of && or ||."""

    symbol: str
    precedence: int
    function: str
    offset: int
    terms: list[_Operand] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class _Frame:
    """What is open: brackets of some kind, with the operators and operands inside so far.

    Args:
        around: Rules that are open around the brackets.
        depth: That of the deepest of the finished items.
    """

    kind: str
    opener: Token
    start: int
    around: OpenRules = OUTERMOST
    depth: int = 0
    operands: list[_Operand] = field(default_factory=list)
    operators: list[_Operator] = field(default_factory=list)
    items: list[Expr] = field(default_factory=list)
    optional: set[int] = field(default_factory=set)
    target: _Operand | None = None
    name: str = ""
    pending: tuple[str, bool] = ("", False)
    fields: list[tuple[str, Expr]] = field(default_factory=list)
    entries: list[MapEntry] = field(default_factory=list)
    key: Expr | None = None


@dataclass(slots=True, kw_only=True)
class _Parser:
    """One run over the tokens of one text."""

    text: str
    tokens: list[Token]
    position: int = 0
    ids: IdSource = field(default_factory=IdSource)
    stack: list[_Frame] = field(default_factory=list)

    def run(self) -> Expr:
        """Read all tokens; every step reads an operand or what follows one."""
        self.stack.append(_Frame(kind="root", opener=self.tokens[0], start=0))
        wants_operand = True
        while True:
            if wants_operand:
                wants_operand = self.read_operand()
            else:
                token = self.take()
                if token.kind == "end" and len(self.stack) == 1:
                    return self.finish_expression(token).expr
                wants_operand = self.read_after_operand(token)

    # --- tokens ---------------------------------------------------------------------------------------------------

    def peek(self) -> Token:
        """The next token, not taken."""
        return self.tokens[self.position]

    def take(self) -> Token:
        """The next token, taken; the end can be taken again and again."""
        token = self.tokens[self.position]
        if token.kind != "end":
            self.position += 1
        return token

    def refusal(self, token: Token, wanted: str) -> CelCompileError:
        """Return the error of a token that can't stand where it stands."""
        found = "the end" if token.kind == "end" else repr(token.text)
        return CelCompileError(f"found {found}, allowed {wanted}", text=self.text, offset=token.start)

    # --- operands -------------------------------------------------------------------------------------------------

    def read_operand(self) -> bool:
        """Read the start of an operand; True when another one must follow first."""
        frame, token = self.stack[-1], self.take()
        kind = token.kind
        if self.may_close_empty(frame, token):
            return self.close(frame, token)
        if self.open_rules(frame).is_too_deep:
            raise self.too_deep(token.start)
        if kind in ("int", "uint", "float", "string") or kind in _KEY_WORDS_AS_VALUES:
            return self.push(self.literal(token, ""))
        if kind == "ident":
            return self.read_name(token, token)
        if kind == "." and self.peek().kind == "ident":
            return self.read_name(token, self.take())
        if kind in _UNARY:
            return self.read_unary(token)
        if kind == "(":
            return self.open("paren", token)
        if kind == "[":
            return self.open("list", token)
        if kind == "{":
            return self.open("map", token)
        if kind == "?" and self.may_be_optional(frame):
            frame.pending = (frame.pending[0], True)
            return True
        raise self.refusal(token, "a value")

    @staticmethod
    def open_rules(frame: _Frame) -> OpenRules:
        """The rules that are open where the next value of a frame begins."""
        waiting = (item.symbol for item in frame.operators if item.precedence != _UNARY_PRECEDENCE)
        return frame.around.enter(waiting)

    def too_deep(self, offset: int) -> CelCompileError:
        """Return the error of an expression that is nested too deeply."""
        return CelCompileError(
            f"nested more than {MAX_NESTING} levels deep", text=self.text, offset=offset, hint="split the expression"
        )

    def nest(self, offset: int, parts: Iterable[int]) -> int:
        """Return the depth of a part that adds a level to the deepest of its own parts."""
        depth = max(parts, default=0) + 1
        if depth > MAX_NESTING:
            raise self.too_deep(offset)
        return depth

    def read_unary(self, token: Token) -> bool:
        """Read a run of ! or of -; an even run is nothing, and a single - belongs to the number behind it."""
        run = [token]
        while self.peek().kind == token.kind:
            run.append(self.take())
        follower = self.peek()
        if token.kind == "-" and len(run) == 1 and follower.kind in ("int", "float"):
            return self.push(self.literal(self.take(), "-", start=token.start))
        signed_number = follower.kind == "-" and self.tokens[self.position + 1].kind in ("int", "float")
        if follower.kind in _UNARY and not (token.kind == "!" and signed_number):
            raise self.refusal(follower, "a value; put the inner sign in parentheses")
        if len(run) % 2:
            self.stack[-1].operators.append(
                _Operator(
                    symbol=token.kind,
                    precedence=_UNARY_PRECEDENCE,
                    function=_UNARY[token.kind],
                    offset=token.start,
                )
            )
        return True

    def read_name(self, first: Token, name: Token) -> bool:
        """Read a variable or the start of a call."""
        if name.text in _RESERVED:
            raise CelCompileError(
                f"{name.text!r} is a reserved word", text=self.text, offset=name.start, hint="use another name"
            )
        full = name.text if first is name else "." + name.text
        if self.peek().kind == "(":
            self.open("call", self.take(), name=full, start=first.start)
            return True
        ident = Ident(id=self.ids.next(), offset=name.start, start=first.start, end=name.end, name=full)
        return self.push(_Operand(ident, first.start, name.end))

    def literal(self, token: Token, sign: str, *, start: int | None = None) -> _Operand:
        """Return the operand of a constant."""
        begin = token.start if start is None else start
        value = self.literal_value(token, sign)
        node = Literal(id=self.ids.next(), offset=begin, start=begin, end=token.end, value=value)
        return _Operand(node, begin, token.end)

    def literal_value(self, token: Token, sign: str) -> object:
        """Return the value of a constant."""
        written = token.text
        if token.kind == "string":
            return parse_bytes(token, self.text) if written[0] in "bB" else parse_string(token, self.text)
        if token.kind == "float":
            return float(sign + written)
        if token.kind not in ("int", "uint"):
            return _KEY_WORDS_AS_VALUES[token.kind]
        digits = written.rstrip("uU") if token.kind == "uint" else written
        if len(digits) > 40 and not digits.lstrip("0x"):
            digits = "0"
        number = int(digits, 16 if digits.startswith("0x") else 10) if len(digits) <= 40 else UINT64_MAX + 1
        number = -number if sign else number
        low, high = (0, UINT64_MAX) if token.kind == "uint" else (INT64_MIN, INT64_MAX)
        if not low <= number <= high:
            raise CelCompileError(
                f"number {written[:40]} is out of range, allowed {low} to {high}", text=self.text, offset=token.start
            )
        return Uint(number) if token.kind == "uint" else number

    def push(self, operand: _Operand) -> bool:
        """Add a finished operand to the open frame."""
        self.stack[-1].operands.append(operand)
        return False

    def open(self, kind: str, opener: Token, *, name: str = "", start: int | None = None) -> bool:
        """Open brackets."""
        around = self.open_rules(self.stack[-1])
        begin = opener.start if start is None else start
        self.stack.append(_Frame(kind=kind, opener=opener, start=begin, name=name, around=around))
        if kind == "struct":
            self.read_field(self.stack[-1])
        return True

    @staticmethod
    def may_be_optional(frame: _Frame) -> bool:
        """Tell whether `?` may stand here: before an element or a key."""
        fresh = not frame.operands and not frame.operators and not frame.pending[1]
        return fresh and (frame.kind == "list" or (frame.kind == "map" and frame.key is None))

    @staticmethod
    def may_close_empty(frame: _Frame, token: Token) -> bool:
        """Tell whether brackets may close here, or hold a last comma, without another element."""
        if frame.operands or frame.operators or frame.pending[1] or frame.key is not None:
            return False
        if frame.kind in ("list", "map"):
            closes = token.kind == _CLOSERS[frame.kind]
            return closes or (token.kind == "," and not frame.items and not frame.entries)
        return frame.kind == "call" and token.kind == ")" and not frame.items

    # --- what follows an operand ----------------------------------------------------------------------------------

    def read_after_operand(self, token: Token) -> bool:
        """Read a selection, call, index, operator, comma or bracket; True when an operand must follow."""
        frame = self.stack[-1]
        if token.kind == ".":
            return self.read_selection(token)
        if token.kind == "[":
            return self.open_index(token)
        if token.kind == "{" and self.names_a_type(frame.operands[-1].expr):
            return self.open_struct(token)
        if token.kind in _BINARY:
            return self.read_binary(frame, token)
        if token.kind == "?":
            return self.read_question(frame, token)
        if token.kind == ":":
            return self.read_colon(frame, token)
        if token.kind == ",":
            return self.read_comma(frame, token)
        if token.kind == _CLOSERS[frame.kind]:
            self.finish_item(frame, token)
            return self.close(frame, token)
        raise self.refusal(
            token, "an operator" if frame.kind == "root" else f"an operator, ',' or {_CLOSERS[frame.kind]!r}"
        )

    def read_selection(self, dot: Token) -> bool:
        """Read `.name`, `.?name` or the start of `.name(…)`."""
        frame = self.stack[-1]
        optional = self.peek().kind == "?"
        if optional:
            self.take()
        name = self.take()
        if name.kind not in ("ident", "escaped"):
            raise self.refusal(name, "a name")
        target = frame.operands.pop()
        if self.peek().kind == "(" and name.kind == "ident" and not optional:
            opener = self.take()
            self.open("call", opener, name=name.text, start=target.start)
            self.stack[-1].target = target
            return True
        written = name.text.strip("`")
        span = (target.start, name.end)
        node: Expr
        if optional:
            key = Literal(id=self.ids.next(), offset=name.start, start=name.start, end=name.end, value=written)
            node = self.call(dot.start, "_?._", [target.expr, key], span)
        else:
            node = Select(
                id=self.ids.next(), offset=dot.start, start=span[0], end=span[1], operand=target.expr, field=written
            )
        return self.push(_Operand(node, *span, self.nest(dot.start, [target.depth])))

    def open_index(self, opener: Token) -> bool:
        """Open `target[index]` or `target[?index]`."""
        target = self.stack[-1].operands.pop()
        optional = self.peek().kind == "?"
        if optional:
            self.take()
        self.open("index", opener, name="_[?_]" if optional else "_[_]", start=target.start)
        self.stack[-1].target = target
        return True

    @staticmethod
    def names_a_type(expr: Expr) -> bool:
        """Tell whether a part can name a type: names joined by dots."""
        while isinstance(expr, Select):
            expr = expr.operand
        return isinstance(expr, Ident)

    def open_struct(self, opener: Token) -> bool:
        """Open `type.name{`; the empty one is closed at once."""
        target = self.stack[-1].operands.pop()
        name = self.text[target.start : target.end].replace(" ", "")
        if self.peek().kind == "}":
            closer = self.take()
            node = StructExpr(
                id=self.ids.next(), offset=opener.start, start=target.start, end=closer.end, type_name=name, fields=[]
            )
            return self.push(_Operand(node, target.start, closer.end))
        return self.open("struct", opener, name=name, start=target.start)

    def read_field(self, frame: _Frame) -> None:
        """Read `field:` of a struct."""
        if self.peek().kind == "?":
            self.take()
        name, colon = self.take(), self.take()
        if name.kind not in ("ident", "escaped"):
            raise self.refusal(name, "a field name")
        if colon.kind != ":":
            raise self.refusal(colon, "':'")
        frame.pending = (name.text.strip("`"), False)

    def read_binary(self, frame: _Frame, token: Token) -> bool:
        """Read a binary operator: first finish what binds tighter on its left."""
        precedence, function = _BINARY[token.kind]
        logical = precedence <= 3
        while frame.operators and (
            frame.operators[-1].precedence > precedence
            or (frame.operators[-1].precedence == precedence and not logical)
        ):
            self.reduce(frame)
        if logical and frame.operators and frame.operators[-1].symbol == token.kind:
            chain = frame.operators[-1]
        else:
            chain = _Operator(symbol=token.kind, precedence=precedence, function=function, offset=token.start)
            frame.operators.append(chain)
        if logical:
            chain.terms.append(frame.operands.pop())
            chain.offsets.append(token.start)
        return True

    def read_question(self, frame: _Frame, token: Token) -> bool:
        """Read the `?` of a condition."""
        self.reduce_to_marker(frame)
        if frame.operators and frame.operators[-1].symbol == "?":
            raise self.refusal(token, "':'; put the inner condition in parentheses")
        frame.operators.append(_Operator(symbol="?", precedence=1, function="_?_:_", offset=token.start))
        return True

    def read_colon(self, frame: _Frame, token: Token) -> bool:
        """Read the `:` of a condition or of a map entry."""
        self.reduce_to_marker(frame)
        if frame.operators and frame.operators[-1].symbol == "?":
            frame.operators[-1].symbol = ":"
            return True
        if frame.kind == "map" and frame.key is None:
            key = self.finish_expression_in(frame, token)
            frame.key, frame.depth = key.expr, max(frame.depth, key.depth)
            return True
        raise self.refusal(token, "an operator")

    def read_comma(self, frame: _Frame, token: Token) -> bool:
        """Read the comma between elements, entries, fields or arguments."""
        if frame.kind in ("root", "paren", "index"):
            raise self.refusal(
                token, "an operator" if frame.kind == "root" else f"an operator or {_CLOSERS[frame.kind]!r}"
            )
        self.finish_item(frame, token)
        if frame.kind == "struct" and self.peek().kind != "}":
            self.read_field(frame)
        elif frame.kind == "struct":
            return self.close(frame, self.take())
        elif frame.kind == "call" and self.peek().kind == ")":
            raise self.refusal(self.peek(), "an argument")
        return True

    # --- finishing ------------------------------------------------------------------------------------------------

    def finish_expression(self, token: Token) -> _Operand:
        """Return the whole expression."""
        return self.finish_expression_in(self.stack[-1], token)

    def finish_expression_in(self, frame: _Frame, token: Token) -> _Operand:
        """Finish all operators of a frame and take its operand."""
        while frame.operators:
            if frame.operators[-1].symbol == "?":
                raise self.refusal(token, "':' of the condition")
            self.reduce(frame)
        return frame.operands.pop()

    def finish_item(self, frame: _Frame, token: Token) -> None:
        """Finish one element, entry, field or argument."""
        if frame.kind == "map" and frame.key is None:
            raise self.refusal(token, "':' and a value")
        item = self.finish_expression_in(frame, token)
        expr, frame.depth = item.expr, max(frame.depth, item.depth)
        name, optional = frame.pending
        frame.pending = ("", False)
        if frame.kind == "struct":
            frame.fields.append((name, expr))
        elif frame.kind == "map" and frame.key is not None:
            frame.entries.append(MapEntry(key=frame.key, value=expr, optional=optional))
            frame.key = None
        else:
            if optional:
                frame.optional.add(len(frame.items))
            frame.items.append(expr)

    def close(self, frame: _Frame, closer: Token) -> bool:
        """Close brackets and hand their value to the frame around them."""
        if closer.kind == ",":
            closer = self.take()
            if closer.kind != _CLOSERS[frame.kind]:
                raise self.refusal(closer, repr(_CLOSERS[frame.kind]))
        self.stack.pop()
        depth = self.nest(frame.opener.start, [frame.depth, frame.target.depth]) if frame.target else frame.depth
        return self.push(_Operand(self.build(frame, (frame.start, closer.end)), frame.start, closer.end, depth))

    def build(self, frame: _Frame, span: tuple[int, int]) -> Expr:
        """Return the node that closed brackets stand for."""
        offset = frame.opener.start
        if frame.kind == "paren":
            return frame.items[0]
        if frame.kind == "list":
            return ListExpr(
                id=self.ids.next(), offset=offset, start=span[0], end=span[1], elements=frame.items,
                optional=frozenset(frame.optional),
            )  # fmt: skip
        if frame.kind == "map":
            return MapExpr(id=self.ids.next(), offset=offset, start=span[0], end=span[1], entries=frame.entries)
        if frame.kind == "struct":
            return StructExpr(
                id=self.ids.next(), offset=offset, start=span[0], end=span[1], type_name=frame.name,
                fields=frame.fields,
            )  # fmt: skip
        if frame.kind == "index" and frame.target is not None:
            return self.call(offset, frame.name, [frame.target.expr, *frame.items], span)
        target = frame.target.expr if frame.target else None
        site = MacroSite(text=self.text, ids=self.ids, offset=offset, start=span[0], end=span[1])
        expanded = expand_macro(site, frame.name, target, frame.items)
        if expanded is not None:
            return expanded
        return Call(
            id=self.ids.next(), offset=offset, start=span[0], end=span[1], function=frame.name, args=frame.items,
            target=target,
        )  # fmt: skip

    def reduce_to_marker(self, frame: _Frame) -> None:
        """Finish the operators that bind tighter than a condition."""
        while frame.operators and frame.operators[-1].precedence > 1:
            self.reduce(frame)

    def reduce(self, frame: _Frame) -> None:
        """Apply the last operator of a frame to its operands."""
        operator, operands = frame.operators.pop(), frame.operands
        last = operands.pop()
        if operator.terms:
            operands.append(self.balance([*operator.terms, last], operator))
            return
        if operator.precedence == _UNARY_PRECEDENCE:
            node = self.call(operator.offset, operator.function, [last.expr], (operator.offset, last.end))
            operands.append(_Operand(node, operator.offset, last.end, last.depth))
            return
        if operator.symbol == ":":
            middle, first = operands.pop(), operands.pop()
            parts = [first, middle, last]
        else:
            parts = [operands.pop(), last]
        span = (parts[0].start, last.end)
        depth = self.nest(operator.offset, [part.depth for part in parts])
        node = self.call(operator.offset, operator.function, [part.expr for part in parts], span)
        operands.append(_Operand(node, *span, depth))

    def balance(self, terms: list[_Operand], operator: _Operator) -> _Operand:
        """Join a chain of && or || into a balanced tree. Source: balancingLogicManager in parser/helper.go."""
        if len(terms) == 1:
            return terms[0]
        middle = (len(terms) - 1) // 2 + 1
        offset = operator.offsets[middle - 1]
        left_operator = _Operator(
            symbol=operator.symbol, precedence=operator.precedence, function=operator.function, offset=offset,
            offsets=operator.offsets[: middle - 1],
        )  # fmt: skip
        right_operator = _Operator(
            symbol=operator.symbol, precedence=operator.precedence, function=operator.function, offset=offset,
            offsets=operator.offsets[middle:],
        )  # fmt: skip
        left, right = self.balance(terms[:middle], left_operator), self.balance(terms[middle:], right_operator)
        span = (left.start, right.end)
        node = self.call(offset, operator.function, [left.expr, right.expr], span)
        return _Operand(node, *span, max(left.depth, right.depth))

    def call(self, offset: int, function: str, args: list[Expr], span: tuple[int, int]) -> Call:
        """Return the call of an operator."""
        return Call(id=self.ids.next(), offset=offset, start=span[0], end=span[1], function=function, args=args)
