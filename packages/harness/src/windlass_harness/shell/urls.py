"""Addresses: which ones are public, in every spelling a resolver accepts."""

import ipaddress
import re
import unicodedata

from windlass_harness.addresses import is_public_address
from windlass_harness.shell.paths import matches_any
from windlass_harness.shell.tables_names import CAPTURE_HOSTS, LOCAL_HOSTS
from windlass_protocol.lazy import lazy_pattern

_URL = lazy_pattern(r"(?:([A-Za-z][A-Za-z0-9+.-]*):/{0,3})?([^/?#]*)(.*)", re.DOTALL)
_NUMBER = lazy_pattern(r"0[xX][0-9a-fA-F]*|[0-9]+")
_PUBLIC_SCHEMES = frozenset({"", "http", "https", "ftp", "ftps", "git", "ssh"})
_PARTS_MAX = 4
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_IPV4_BITS = 0xFFFFFFFF


def is_public_url(url: str) -> bool:
    """Say whether a URL has a public scheme and does not name a local host."""
    found = _URL.match(url.strip())
    scheme = (found[1] or "").lower() if found else "?"
    if found is None or scheme not in _PUBLIC_SCHEMES:
        return False
    return is_public_host(_host_of(found[2]))


def _host_of(authority: str) -> str:
    host = unicodedata.normalize("NFKC", authority.rpartition("@")[2])
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0] if host.count(":") <= 1 else host


def is_public_host(host: str) -> bool:
    """Say whether a host is not this machine, a private network or a metadata service."""
    clean = unicodedata.normalize("NFKC", host).lower().rstrip(".").partition("%")[0]
    if not clean or matches_any(clean, LOCAL_HOSTS) or matches_any(clean, CAPTURE_HOSTS):
        return False
    number = _as_ipv4(clean)
    if number is not None:
        return _is_public_ipv4(number)
    if ":" not in clean:
        return "." in clean or "\0" in clean
    return _is_public_ipv6(clean)


def _as_ipv4(host: str) -> int | None:
    """Read an IPv4 address as inet_aton does: any base, one to four parts."""
    parts = host.split(".")
    if len(parts) > _PARTS_MAX or not all(_NUMBER.fullmatch(part) for part in parts):
        return None
    numbers = [_number(part) for part in parts]
    last_bits = 8 * (5 - len(parts))
    value = numbers[-1] & ((1 << last_bits) - 1)
    for position, number in enumerate(numbers[:-1]):
        value |= (number & 255) << (24 - 8 * position)
    return value & _IPV4_BITS


def _number(text: str) -> int:
    if text[:2] in ("0x", "0X"):
        return int(text[2:] or "0", 16)
    is_octal = text.startswith("0") and re.fullmatch(r"[0-7]+", text) is not None
    return int(text[:20], 8 if is_octal else 10)


def _is_public_ipv4(number: int) -> bool:
    return is_public_address(ipaddress.IPv4Address(number))


def _is_public_ipv6(host: str) -> bool:
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return False
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and (address in _NAT64 or int(address) <= _IPV4_BITS):
        inner = ipaddress.IPv4Address(int(address) & _IPV4_BITS)
    if inner is not None:
        return _is_public_ipv4(int(inner))
    return is_public_address(address)
