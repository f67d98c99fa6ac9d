"""Addresses that are not on the public internet: the one list, for web_fetch and for the shell grader."""

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

NOT_PUBLIC_4: Final = (
    # this host, private networks, shared address space, link-local
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
    # protocol assignments, documentation, AS112, relays, benchmarks
    *(
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
    ),
    *("192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
    # multicast, reserved
    *("224.0.0.0/4", "240.0.0.0/4"),
    # services of cloud providers for their machines, with credentials: Azure, Alibaba Cloud
    *("168.63.129.16/32", "100.100.100.200/32"),
)
NOT_PUBLIC_6: Final = (
    # 2001::/23 holds Teredo and other tunnels, 2002::/16 is 6to4: both carry an IPv4 address inside.
    *("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"),
)
_PUBLIC_6: Final = "2000::/3"


@lru_cache(maxsize=1)
def _networks_4() -> tuple[IPv4Network, ...]:
    return tuple(IPv4Network(text) for text in NOT_PUBLIC_4)


@lru_cache(maxsize=1)
def _networks_6() -> tuple[IPv6Network, ...]:
    return tuple(IPv6Network(text) for text in NOT_PUBLIC_6)


def is_public_address(address: str | IPv4Address | IPv6Address) -> bool:
    """Whether an IP address is on the public internet; an invalid one is not.

    An IPv6 address with an IPv4 address inside is not.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv4Address):
        return parsed.is_global and not any(parsed in network for network in _networks_4())
    if parsed.scope_id is not None or parsed not in IPv6Network(_PUBLIC_6):
        return False
    return parsed.is_global and not any(parsed in network for network in _networks_6())
