"""IP addresses, networks and URLs.

Source: pkg/cel/library/ip.go, cidr.go and urls.go in k8s.io/apiserver v0.37.2; net/netip and net/url of Go.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address, ip_interface
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from claimsmith.cel.declarations import Function, function, method, overload
from claimsmith.cel.types import BOOL, CIDR, INT, IP, STRING, URL, list_of, map_of
from claimsmith.cel.values import CelFault, Cidr, Ip, Url

_PREFIX_LENGTH: Final = re.compile(r"0|[1-9][0-9]{0,2}")
_MAX_IP_TEXT: Final = 64


def parse_ip(text: str) -> Ip:
    """`ip(text)`: without a zone, and no IPv4 address in IPv6 form.

    Raises:
        CelFault: The text is no such address.
    """
    if "%" in text:
        raise CelFault(f'IP address "{text}" with zone value is not allowed')
    try:
        address = ip_address(text) if len(text) <= _MAX_IP_TEXT and text.isascii() else None
    except (AddressValueError, ValueError):
        address = None
    if address is None:
        raise CelFault(f'IP Address "{text}" parse error during conversion from string')
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        raise CelFault(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return Ip(address)


def is_ip(text: str) -> bool:
    """`isIP(text)`."""
    return _succeeds(parse_ip, text)


def is_canonical(text: str) -> bool:
    """`ip.isCanonical(text)`."""
    return format_address(parse_ip(text).address) == text


def format_address(address: IPv4Address | IPv6Address) -> str:
    """Return an address as Go prints it."""
    return str(address)


def is_global_unicast(value: Ip) -> bool:
    """`value.isGlobalUnicast()`: not unspecified, loopback, multicast, link-local or the IPv4 broadcast address."""
    address = value.address
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or address == IPv4Address("255.255.255.255")
    )


def is_link_local_multicast(value: Ip) -> bool:
    """`value.isLinkLocalMulticast()`."""
    packed = value.address.packed
    if len(packed) == 4:
        return packed[:3] == b"\xe0\x00\x00"
    return packed[0] == 0xFF and packed[1] & 0x0F == 0x02


def parse_cidr(text: str) -> Cidr:
    """`cidr(text)`.

    Raises:
        CelFault: The text is no network.
    """
    host, slash, length = text.rpartition("/")
    try:
        address = parse_ip(host).address
    except CelFault as error:
        raise CelFault(f"network address parse error during conversion from string: {text!r}") from error
    if not slash or not _PREFIX_LENGTH.fullmatch(length) or int(length) > address.max_prefixlen:
        raise CelFault(f"network address parse error during conversion from string: {text!r}")
    return Cidr(ip_interface((address, int(length))))


def is_cidr(text: str) -> bool:
    """`isCIDR(text)`."""
    return _succeeds(parse_cidr, text)


def contains_ip(network: Cidr, address: Ip | str) -> bool:
    """`network.containsIP(address)`."""
    inner = parse_ip(address) if isinstance(address, str) else address
    return inner.address in network.interface.network


def contains_cidr(network: Cidr, other: Cidr | str) -> bool:
    """`network.containsCIDR(other)`: they overlap, and the other is not wider."""
    inner = (parse_cidr(other) if isinstance(other, str) else other).interface.network
    outer = network.interface.network
    return inner.version == outer.version and outer.prefixlen <= inner.prefixlen and inner.network_address in outer


def masked(network: Cidr) -> Cidr:
    """`network.masked()`: without host bits."""
    return Cidr(ip_interface((network.interface.network.network_address, network.interface.network.prefixlen)))


_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(.*)", re.DOTALL)
_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_HOST_REFUSED: Final = re.compile(r"[\s<>\"^`{}|\\#?/@]")
_PORT: Final = re.compile(r"(?::[0-9]*)?")
_USERINFO: Final = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_PATH_SAFE: Final = "/-_.~!$&'()*+,;=:@[]"


@lru_cache(maxsize=512)
def parse_url(text: str) -> Url:
    """`url(text)`: an absolute URL, or an absolute path.

    Raises:
        CelFault: The text is no such URL. Source: url.ParseRequestURI.
    """
    error = CelFault(f'URL parse error during conversion from string: parse "{text}": invalid URI for request')
    if not text or _CONTROL.search(text):
        raise error
    match = _SCHEME.fullmatch(text)
    scheme, rest = (match.group(1).lower(), match.group(2)) if match else ("", text)
    if not rest.startswith("/"):
        if not scheme:
            raise error
        return _opaque(text, scheme, rest)
    rest, _, _fragment = rest.partition("#")
    rest, _, query = rest.partition("?")
    host = ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        host, rest = _parse_host(authority, error), slash + path
    if _PERCENT.search(rest):
        raise error
    hostname, port = _split_port(host)
    return Url(
        text, scheme, host, hostname, port, _escape_path(rest),
        _parse_query(query),
    )  # fmt: skip


def _opaque(text: str, scheme: str, rest: str) -> Url:
    """A URL such as mailto:a@b, whose part behind the scheme is not split; its query is."""
    _, _, query = rest.partition("#")[0].partition("?")
    return Url(text, scheme, "", "", "", "", _parse_query(query))


def _parse_query(query: str) -> dict[str, tuple[str, ...]]:
    """Return the values of a query by key; pairs that can't be read are left out. Source: url.ParseQuery."""
    values: dict[str, tuple[str, ...]] = {}
    for pair in query.split("&"):
        if not pair or ";" in pair or _PERCENT.search(pair):
            continue
        key, _, value = pair.replace("+", " ").partition("=")
        key, value = _unescape(key), _unescape(value)
        values[key] = (*values.get(key, ()), value)
    return values


def _unescape(part: str) -> str:
    return unquote_to_bytes(part).decode(errors="replace")


def _parse_host(authority: str, error: CelFault) -> str:
    userinfo, at, host = authority.rpartition("@")
    if at and not _USERINFO.fullmatch(userinfo):
        raise error
    if host.startswith("["):
        inner, bracket, port = host.partition("]")
        if not bracket or not _PORT.fullmatch(port) or not inner[1:]:
            raise error
        return host
    name, colon, port = host.rpartition(":")
    if colon and not port.isdigit() and port:
        raise error
    if _HOST_REFUSED.search(name if colon else host) or _PERCENT.search(host):
        raise error
    return unquote_to_bytes(host).decode(errors="replace")


def _split_port(host: str) -> tuple[str, str]:
    """Return host name and port, without brackets."""
    if host.startswith("["):
        inner, _, port = host[1:].partition("]")
        return inner, port.removeprefix(":")
    name, colon, port = host.rpartition(":")
    return (name, port) if colon else (host, "")


def _escape_path(path: str) -> str:
    """Return the path as Go escapes it: as written when that is a valid form."""
    if all(character.isascii() and (character.isalnum() or character in _PATH_SAFE + "%") for character in path):
        return path
    return quote(unquote_to_bytes(path), safe="/-_.~$&+,:;=@!'()*")


def is_url(text: str) -> bool:
    """`isURL(text)`."""
    return _succeeds(parse_url, text)


def _succeeds(parse: object, text: str) -> bool:
    assert callable(parse)
    try:
        parse(text)
    except CelFault:
        return False
    return True


FUNCTIONS: Final[tuple[Function, ...]] = (
    function(
        "ip",
        overload("string_to_ip", (STRING,), IP, parse_ip),
        method("cidr_ip", (CIDR,), IP, lambda value: Ip(value.interface.ip)),
    ),
    function("isIP", overload("is_ip", (STRING,), BOOL, is_ip)),
    function("ip.isCanonical", overload("ip_is_canonical", (STRING,), BOOL, is_canonical)),
    function("family", method("ip_family", (IP,), INT, lambda value: value.address.version)),
    function("isUnspecified", method("ip_is_unspecified", (IP,), BOOL, lambda value: value.address.is_unspecified)),
    function("isLoopback", method("ip_is_loopback", (IP,), BOOL, lambda value: value.address.is_loopback)),
    function("isLinkLocalMulticast", method("ip_is_link_local_multicast", (IP,), BOOL, is_link_local_multicast)),
    function(
        "isLinkLocalUnicast", method("ip_is_link_local_unicast", (IP,), BOOL, lambda value: value.address.is_link_local)
    ),
    function("isGlobalUnicast", method("ip_is_global_unicast", (IP,), BOOL, is_global_unicast)),
    function("cidr", overload("string_to_cidr", (STRING,), CIDR, parse_cidr)),
    function("isCIDR", overload("is_cidr", (STRING,), BOOL, is_cidr)),
    function(
        "containsIP",
        method("cidr_contains_ip_string", (CIDR, STRING), BOOL, contains_ip),
        method("cidr_contains_ip_ip", (CIDR, IP), BOOL, contains_ip),
    ),
    function(
        "containsCIDR",
        method("cidr_contains_cidr_string", (CIDR, STRING), BOOL, contains_cidr),
        method("cidr_contains_cidr", (CIDR, CIDR), BOOL, contains_cidr),
    ),
    function(
        "prefixLength", method("cidr_prefix_length", (CIDR,), INT, lambda value: value.interface.network.prefixlen)
    ),
    function("masked", method("cidr_masked", (CIDR,), CIDR, masked)),
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
"""Functions of addresses, networks and URLs."""
