"""IP addresses and networks.

Source: pkg/cel/library/ip.go and cidr.go in k8s.io/apiserver v0.37.2; net/netip of Go.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address, ip_interface
from typing import Final

from claimsmith.cel.declarations import Function, function, method, overload
from claimsmith.cel.types import BOOL, CIDR, INT, IP, STRING
from claimsmith.cel.values import Cidr, Ip
from claimsmith.errors import CelFault

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
)
"""Functions of addresses and networks."""
