"""Which addresses may be fetched: public ones, checked where they are used.

A name means what it resolves to at that moment, so the address that is checked is the address that is
connected to, on every hop. Everything that is not known to be public is refused.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import urljoin, urlsplit

from windlass.toolbox.limits import URL_CHARS_MAX
from windlass.tools import ToolFailed

PORTS: Final = {"http": (80, 8080), "https": (443, 8443)}
"""Where web servers are; the first is the usual one. Others speak other protocols."""
_NOT_PUBLIC_4: Final = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
_PUBLIC_6: Final = IPv6Network("2000::/3")
_NOT_PUBLIC_6: Final = tuple(
    # 2001::/23 holds Teredo and other tunnels, 2002::/16 is 6to4: both carry an IPv4 address inside.
    IPv6Network(text)
    for text in ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")
)
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"(?:\d+|0x[0-9a-f]*)")
_UNCLEAN: Final = re.compile(r"[\x00-\x20\x7f-\xa0\\\u2028\u2029\ufeff]")
HOST_CHARS_MAX: Final = 253


@dataclass(frozen=True, slots=True)
class Target:
    """An address that may be asked for, in parts; fragments are left out."""

    scheme: str
    host: str
    """A name in ASCII, or an address without brackets."""
    port: int
    path: str
    """With the query."""

    @property
    def authority(self) -> str:
        """The host, with the port if it is not the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme][0] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The address as a text."""
        return f"{self.scheme}://{self.authority}{self.path}"


def target_of(url: str, base: Target | None = None) -> Target:
    """Take an address apart; one without a scheme is relative to `base`.

    Raises:
        ToolFailed: it is not an address of the public web, as far as its text tells.
    """
    if len(url) > URL_CHARS_MAX:
        raise ToolFailed(f"the address is too long: {len(url):,} characters, limit {URL_CHARS_MAX:,}")
    if base is not None:
        url = urljoin(base.url, url.strip())
    if _UNCLEAN.search(url):
        raise ToolFailed("the address has a blank, a backslash or a control character in it; write it as %20")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ToolFailed("the address cannot be read; write it like https://example.com/page") from None
    scheme = parts.scheme.lower()
    if scheme not in PORTS:
        raise ToolFailed("only http and https addresses can be fetched; write https://example.com/page")
    if "@" in parts.netloc:
        raise ToolFailed("leave out the user name and password: addresses are fetched without them")
    port = PORTS[scheme][0] if port is None else port
    if port not in PORTS[scheme]:
        known = " or ".join(map(str, PORTS[scheme]))
        raise ToolFailed(f"port {port} is not fetched; over {scheme} it must be {known}")
    query = f"?{parts.query}" if parts.query else ""
    return Target(
        scheme, _host(parts.hostname or "", parts.netloc), port, _encoded(f"{parts.path or '/'}{query}")
    )


def check_public(addresses: Sequence[str]) -> list[str]:
    """Return the addresses that a name has, if every one of them is public.

    Raises:
        ToolFailed: one is not: it may be the host itself, its network, or a service of its cloud.
    """
    if not addresses:
        raise ToolFailed("the host has no address")
    if not all(is_public(address) for address in addresses):
        raise ToolFailed("the host is not on the public internet; only public addresses can be fetched")
    return list(addresses)


def is_public(address: str) -> bool:
    """Whether an address is one of the public internet; what is not understood is not."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv4Address):
        return parsed.is_global and not any(parsed in network for network in _NOT_PUBLIC_4)
    if parsed.scope_id is not None or parsed not in _PUBLIC_6:
        return False
    return parsed.is_global and not any(parsed in network for network in _NOT_PUBLIC_6)


def _host(host: str, netloc: str) -> str:
    if "[" in netloc or ":" in host:
        return _literal(host)
    try:
        # Full-width digits and their like become what every resolver takes them for.
        name = host.encode("idna").decode("ascii").lower().removesuffix(".")
    except UnicodeError:
        raise ToolFailed("the host cannot be read; write it in small latin letters") from None
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _literal(name)
    if len(name) > HOST_CHARS_MAX or not all(_LABEL.fullmatch(label) for label in labels):
        raise ToolFailed("the host is not a name; write it like example.com")
    return name


def _literal(text: str) -> str:
    """Return an address given as numbers; short, octal and hexadecimal are refused."""
    try:
        parsed = IPv6Address(text) if ":" in text else IPv4Address(text)
    except AddressValueError:
        raise ToolFailed("the host is a number that is no plain address; write the name instead") from None
    return check_public([str(parsed)])[0]


def _encoded(path: str) -> str:
    """Return a path in ASCII; what is encoded already stays as it is."""
    if path.isascii():
        return path
    return "".join(one if one.isascii() else "".join(f"%{byte:02X}" for byte in one.encode()) for one in path)
