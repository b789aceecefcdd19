"""Splits the text of an expression into tokens.

Source: parser/gen/CEL.g4 and parser/unescape.go in cel-go v0.29.2.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from claimsmith.errors import CelCompileError

_TOKEN: Final = re.compile(
    r"""
    (?P<space>(?:[\t\x20\r\n\x0c]|//[^\n]*)++)
  | (?P<float>[0-9]++\.[0-9]++(?:[eE][+-]?[0-9]++)?|[0-9]++[eE][+-]?[0-9]++|\.[0-9]++(?:[eE][+-]?[0-9]++)?)
  | (?P<uint>(?:0x[0-9a-fA-F]++|[0-9]++)[uU])
  | (?P<int>0x[0-9a-fA-F]++|[0-9]++)
  | (?P<string>[bB]?(?:[rR](?:\"\"\"(?s:.)*?\"\"\"|'''(?s:.)*?'''|"[^"\n\r]*+"|'[^'\n\r]*+')
      |\"\"\"(?:[^\\]|\\(?s:.))*?\"\"\"|'''(?:[^\\]|\\(?s:.))*?'''
      |"(?:[^\\"\n\r]|\\.)*+"|'(?:[^\\'\n\r]|\\.)*+'))
  | (?P<ident>[A-Za-z_][A-Za-z0-9_]*+)
  | (?P<escaped>`[A-Za-z0-9_.\-/\x20]++`)
  | (?P<op>==|!=|<=|>=|&&|\|\||[<>\[\]{}().,\-!?:+*/%])
    """,
    re.VERBOSE,
)
_KEYWORDS: Final = frozenset({"in", "true", "false", "null"})


class Token(NamedTuple):
    """One token.

    Args:
        kind: int, uint, float, string, ident, escaped, end; or the operator or keyword itself.
        text: As written.
        start, end: Its span in the text.
    """

    kind: str
    text: str
    start: int
    end: int


def tokenize(text: str) -> list[Token]:
    """Return the tokens of a text, and an `end` token behind the last.

    Raises:
        CelCompileError: A character starts no token, or a string is not closed.
    """
    tokens = []
    position, length = 0, len(text)
    while position < length:
        match = _TOKEN.match(text, position)
        if match is None:
            raise _unknown_token(text, position)
        position = match.end()
        kind = match.lastgroup or ""
        if kind == "space":
            continue
        written = match.group()
        if kind == "op" or written in _KEYWORDS:
            kind = written
        tokens.append(Token(kind, written, match.start(), position))
    tokens.append(Token("end", "", length, length))
    return tokens


def _unknown_token(text: str, position: int) -> CelCompileError:
    character = text[position]
    if character in "\"'":
        return CelCompileError("a string that is not closed", text=text, offset=position, hint="close the quote")
    hint = {"&": "write && for and", "|": "write || for or", "=": "write == to compare"}.get(character, "remove it")
    return CelCompileError(f"unexpected character {character!r}", text=text, offset=position, hint=hint)


_SIMPLE_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", "'": "'", '"': '"',
    "`": "`", "?": "?",
}  # fmt: skip
_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\\'\"`?])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2}))"
)


def parse_string(token: Token, text: str) -> str:
    """Return the value of a string token, with escapes resolved.

    Raises:
        CelCompileError: An escape is not known, or stands for no character.
    """
    raw, body = _strip_quotes(token.text)
    if raw or "\\" not in body:
        return body
    parts, position = [], 0
    while position < len(body):
        backslash = body.find("\\", position)
        if backslash < 0:
            parts.append(body[position:])
            break
        parts.append(body[position:backslash])
        match = _ESCAPE.match(body, backslash)
        code = _code_point(match) if match else None
        if match is None or code is None:
            raise _bad_escape(token, text)
        parts.append(code)
        position = match.end()
    return "".join(parts)


def parse_bytes(token: Token, text: str) -> bytes:
    """Return the value of a bytes token: hexadecimal and octal escapes are bytes, the rest is UTF-8.

    Raises:
        CelCompileError: An escape is not known or not allowed in bytes.
    """
    raw, body = _strip_quotes(token.text[1:])
    if raw or "\\" not in body:
        return body.encode()
    parts, position = [], 0
    while position < len(body):
        if body[position] != "\\":
            parts.append(body[position].encode())
            position += 1
            continue
        match = _ESCAPE.match(body, position)
        if match is None or match.group(3) or match.group(4):
            raise _bad_escape(token, text)
        simple, hexadecimal, _, _, octal = match.groups()
        if simple:
            parts.append(_SIMPLE_ESCAPES[simple].encode())
        else:
            parts.append(bytes([int(hexadecimal, 16) if hexadecimal else int(octal, 8)]))
        position = match.end()
    return b"".join(parts)


def _strip_quotes(written: str) -> tuple[bool, str]:
    """Return whether a string is raw, and what stands between its quotes, with every line end as a line feed."""
    written = written.replace("\r\n", "\n").replace("\r", "\n")
    raw = written[0] in "rR"
    if raw:
        written = written[1:]
    width = 3 if len(written) >= 6 and written[:3] in ('"""', "'''") else 1
    return raw, written[width:-width]


def _code_point(match: re.Match[str]) -> str | None:
    simple, two, four, eight, octal = match.groups()
    if simple:
        return _SIMPLE_ESCAPES[simple]
    number = int(octal, 8) if octal else int(two or four or eight, 16)
    if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
        return None
    return chr(number)


def _bad_escape(token: Token, text: str) -> CelCompileError:
    return CelCompileError(
        f"a wrong escape in {token.text[:40]}",
        text=text,
        offset=token.start,
        hint=r"use \n \t \" \\ \xHH \uHHHH, or a raw string r'…'",
    )
