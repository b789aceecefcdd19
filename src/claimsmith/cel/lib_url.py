"""URLs, read as Go's net/url reads them.

Source: pkg/cel/library/urls.go in k8s.io/apiserver v0.37.2; net/url of Go 1.26.
"""

from __future__ import annotations

import re
import string
from functools import lru_cache
from ipaddress import IPv6Address
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from claimsmith.cel.declarations import Function, function, method, overload
from claimsmith.cel.types import BOOL, STRING, URL, list_of, map_of
from claimsmith.cel.values import Url
from claimsmith.errors import CelFault

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(.*)", re.DOTALL)
_BAD_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ASCII_PERCENT: Final = re.compile(r"%(?!25)[0-7][0-9A-Fa-f]")
_PORT: Final = re.compile(r"(?::[0-9]*)?")
_UNRESERVED: Final = string.ascii_letters + string.digits + "-_.~"
_USERINFO: Final = frozenset(_UNRESERVED + ":!$&'()*+,;=%@")
_HOST: Final = frozenset(_UNRESERVED + "!\"$&'()*+,:;<=>[]%")
_PATH_SAFE: Final = "$&+,/:;=@"
_PATH_AS_WRITTEN: Final = frozenset(_UNRESERVED + _PATH_SAFE + "!'()*[]%")
_HOST_SAFE: Final = "!\"$&'()*+,:;<=>[]"
_STRICT_SCHEMES: Final = frozenset({"http", "https"})


@lru_cache(maxsize=512)
def parse_url(text: str) -> Url:
    """`url(text)`: an absolute URL, or an absolute path.

    Raises:
        CelFault: The text is neither.

    Source: ParseRequestURI, then Parse, of net/url.
    """
    scheme, rest, before_query = _check_request(text)
    if not before_query.startswith("/"):
        return _opaque_url(text, scheme, before_query)
    rest, _, fragment = rest.partition("#")
    _check_percent(fragment)
    path, question, query = rest.partition("?")
    user, host = "", ""
    has_authority = path.startswith("//") and (bool(scheme) or not path.startswith("///"))
    if has_authority:
        authority, slash, path = path[2:].partition("/")
        path = slash + path
        user, host = _parse_authority(scheme, authority)
    escaped = _escape_path(path)
    shown = f"{scheme}:" if scheme else ""
    if has_authority and (host or path or user):
        shown += f"//{user + '@' if user else ''}{quote(host, safe=_HOST_SAFE)}"
    shown += escaped + question + query + (f"#{fragment}" if fragment else "")
    hostname, port = _split_port(host)
    return Url(shown, scheme, host, hostname, port, escaped, _parse_query(query))


def _check_request(text: str) -> tuple[str, str, str]:
    """Return scheme, rest, and the rest before its query, of a text that a request may name.

    Source: ParseRequestURI of net/url, which knows no fragments.
    """
    scheme, rest = _split_scheme(text)
    before_query = rest.partition("?")[0]
    if before_query.startswith("/"):
        if scheme and before_query.startswith("//"):
            _parse_authority(scheme, before_query[2:].partition("/")[0])
        _check_percent(before_query)
    elif not scheme and text != "*":
        raise _refuse("invalid URI for request")
    return scheme, rest, before_query


def _refuse(reason: str) -> CelFault:
    return CelFault(f"URL parse error during conversion from string: {reason}")


def _split_scheme(text: str) -> tuple[str, str]:
    if not text:
        raise _refuse("empty url")
    if _CONTROL.search(text):
        raise _refuse("invalid control character in URL")
    if text.startswith(":"):
        raise _refuse("missing protocol scheme")
    match = _SCHEME.fullmatch(text)
    return (match.group(1).lower(), match.group(2)) if match else ("", text)


def _opaque_url(text: str, scheme: str, before_query: str) -> Url:
    """Return a URL such as mailto:a@b, whose part behind the scheme is not split, or `*`."""
    if text == "*":
        return Url("*", "", "", "", "", "*", {})
    rest, _, fragment = text.partition("#")
    _check_percent(fragment)
    _, question, query = rest.partition("?")
    opaque = before_query.partition("#")[0]
    shown = f"{scheme}:{opaque}{question}{query}{'#' + fragment if fragment else ''}"
    return Url(shown, scheme, "", "", "", "", _parse_query(query))


def _check_percent(part: str) -> None:
    if _BAD_PERCENT.search(part):
        raise _refuse("invalid URL escape")


def _parse_authority(scheme: str, authority: str) -> tuple[str, str]:
    """Return user information as written, and host with port."""
    user, at, host = authority.rpartition("@")
    if at and not _USERINFO.issuperset(user):
        raise _refuse("invalid userinfo")
    _check_percent(user)
    return user, _parse_host(scheme, host)


def _parse_host(scheme: str, host: str) -> str:
    bracket = host.rfind("[")
    if bracket > 0:
        raise _refuse("invalid IP-literal")
    if bracket == 0:
        return _parse_literal(host)
    colon = host.find(":")
    if colon >= 0:
        last = host.rfind(":")
        port = host[colon if scheme in _STRICT_SCHEMES else last :]
        if not _PORT.fullmatch(port):
            raise _refuse(f"invalid port {port!r} after host")
    return _unescape_host(host)


def _parse_literal(host: str) -> str:
    """Return an IPv6 address in brackets, with its port."""
    end = host.rfind("]")
    if end < 0 or not _PORT.fullmatch(host[end + 1 :]):
        raise _refuse("missing ']' in host, or an invalid port behind it")
    address, percent, zone = host[1:end].partition("%25")
    name = _unescape_host(address) + ("%" + unquote_to_bytes(zone).decode(errors="replace") if percent else "")
    try:
        IPv6Address(name)
    except ValueError as error:
        raise _refuse(f"invalid host {name!r}") from error
    return f"[{name}]{host[end + 1 :]}"


def _unescape_host(host: str) -> str:
    """Return a host with escapes resolved; only characters beyond ASCII may be escaped."""
    _check_percent(host)
    if _ASCII_PERCENT.search(host) or not all(character in _HOST or ord(character) >= 0x80 for character in host):
        raise _refuse("invalid character in host name")
    return unquote_to_bytes(host).decode(errors="replace")


def _split_port(host: str) -> tuple[str, str]:
    """Return host name and port, without brackets."""
    name, colon, port = host.rpartition(":")
    if not colon or not _PORT.fullmatch(":" + port):
        name, port = host, ""
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    return name, port


def _escape_path(path: str) -> str:
    """Return the path as written where that is a valid form, else escaped."""
    if _PATH_AS_WRITTEN.issuperset(path):
        return path
    return quote(unquote_to_bytes(path), safe=_PATH_SAFE + "~")


def _parse_query(query: str) -> dict[str, tuple[str, ...]]:
    """Return the values of a query by key; pairs that can't be read are left out. Source: url.ParseQuery."""
    values: dict[str, tuple[str, ...]] = {}
    for pair in query.split("&"):
        if not pair or ";" in pair or _BAD_PERCENT.search(pair):
            continue
        key, _, value = pair.replace("+", " ").partition("=")
        key, value = _unescape(key), _unescape(value)
        values[key] = (*values.get(key, ()), value)
    return values


def _unescape(part: str) -> str:
    return unquote_to_bytes(part).decode(errors="replace")


def is_url(text: str) -> bool:
    """`isURL(text)`."""
    try:
        _check_request(text)
    except CelFault:
        return False
    return True


FUNCTIONS: Final[tuple[Function, ...]] = (
    function("url", overload("string_to_url", (STRING,), URL, parse_url)),
    function("isURL", overload("is_url_string", (STRING,), BOOL, is_url)),
    function("getScheme", method("url_get_scheme", (URL,), STRING, lambda value: value.scheme)),
    function("getHost", method("url_get_host", (URL,), STRING, lambda value: value.host)),
    function("getHostname", method("url_get_hostname", (URL,), STRING, lambda value: value.hostname)),
    function("getPort", method("url_get_port", (URL,), STRING, lambda value: value.port)),
    function("getEscapedPath", method("url_get_escaped_path", (URL,), STRING, lambda value: value.escaped_path)),
    function(
        "getQuery",
        method(
            "url_get_query",
            (URL,),
            map_of(STRING, list_of(STRING)),
            lambda value: {key: list(values) for key, values in value.query.items()},
        ),
    ),
)
"""Functions of URLs."""
