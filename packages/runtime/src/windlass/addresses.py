"""Addresses of the public web: URLs, host names, and the list of networks that are not public.

`web_fetch` and the proxy of sandboxes check every name and every resolved address here, and connect to the
address that was checked.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from socket import SOCK_STREAM
from typing import Final
from urllib.parse import urljoin, urlsplit

from windlass.tools import ToolFailed
from windlass_protocol.frozen import sealed

URL_CHARS_MAX: Final = 2_048
PORTS: Final = {"http": (80, 8080), "https": (443, 8443)}
"""Allowed ports by scheme; the first is the default. Other ports serve other protocols."""
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
        # Services of cloud providers for their machines, with credentials: Azure, Alibaba Cloud.
        "168.63.129.16/32",
        "100.100.100.200/32",
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


@sealed
class Target:
    """A checked URL in parts, without its fragment."""

    scheme: str
    host: str
    """A host name in ASCII, or an IP address without brackets."""
    port: int
    path: str
    """Path and query."""

    @property
    def authority(self) -> str:
        """The host, with the port if it is not the default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme][0] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def target_of(url: str, base: Target | None = None) -> Target:
    """Parse and check a URL; one without a scheme is relative to `base`.

    Raises:
        ToolFailed: it is not a URL of the public web, as far as its text shows.
    """
    if len(url) > URL_CHARS_MAX:
        raise ToolFailed(f"the address is too long: {len(url):,} characters, limit {URL_CHARS_MAX:,}")
    if base is not None:
        url = urljoin(base.url, url.strip())
    if _UNCLEAN.search(url):
        raise ToolFailed("the address contains a blank, a backslash or a control character; write it as %20")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ToolFailed("the address is not a valid URL; write it like https://example.com/page") from None
    scheme = parts.scheme.lower()
    if scheme not in PORTS:
        raise ToolFailed("only http and https addresses can be fetched; write https://example.com/page")
    if "@" in parts.netloc:
        raise ToolFailed("the address contains a user name or a password; leave them out")
    port = PORTS[scheme][0] if port is None else port
    if port not in PORTS[scheme]:
        ports = " or ".join(map(str, PORTS[scheme]))
        raise ToolFailed(f"port {port} is not allowed; over {scheme} it must be {ports}")
    query = f"?{parts.query}" if parts.query else ""
    return Target(
        scheme, _host(parts.hostname or "", parts.netloc), port, _encode_path(f"{parts.path or '/'}{query}")
    )


def check_public(addresses: Sequence[str]) -> list[str]:
    """Return the addresses of a host if all of them are public.

    Raises:
        ToolFailed: one is not public: it may be this machine, its network, or a metadata service of its
            cloud.
    """
    if not addresses:
        raise ToolFailed("the host has no address")
    if not all(is_public(address) for address in addresses):
        raise ToolFailed("the host is not on the public internet; only public addresses can be fetched")
    return list(addresses)


def is_public(address: str) -> bool:
    """Whether an IP address is on the public internet; an invalid one is not."""
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
        # Full-width digits and similar characters are normalised, as resolvers do.
        name = host.encode("idna").decode("ascii").lower().removesuffix(".")
    except UnicodeError:
        raise ToolFailed("the host name is not valid; write it in small latin letters") from None
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _literal(name)
    if len(name) > HOST_CHARS_MAX or not all(_LABEL.fullmatch(label) for label in labels):
        raise ToolFailed("the host name is not valid; write it like example.com")
    return name


def _literal(text: str) -> str:
    """Return an IP address given as numbers; short, octal and hexadecimal forms are refused."""
    try:
        parsed = IPv6Address(text) if ":" in text else IPv4Address(text)
    except AddressValueError:
        raise ToolFailed("the host is a number but not a plain IP address; write the name instead") from None
    return check_public([str(parsed)])[0]


def _encode_path(path: str) -> str:
    """Return a path in ASCII; percent-encoded parts stay as they are."""
    if path.isascii():
        return path
    return "".join(
        char if char.isascii() else "".join(f"%{byte:02X}" for byte in char.encode()) for char in path
    )


Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolves a host to IP addresses; raises OSError if it has none."""


async def resolve(host: str, port: int) -> list[str]:
    """Return the IP addresses of a host from the system resolver."""
    addresses = await asyncio.get_running_loop().getaddrinfo(host, port, type=SOCK_STREAM)
    return [str(entry[4][0]) for entry in addresses]
