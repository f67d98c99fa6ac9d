"""Addresses: which are on the public internet."""

from ipaddress import ip_network

import pytest

from windlass_harness.addresses import NOT_PUBLIC_4, NOT_PUBLIC_6, is_public_address
from windlass_harness.shell.urls import is_public_host

PUBLIC = ("1.1.1.1", "8.8.8.8", "168.63.129.15", "168.63.129.17", "2606:4700::1111", "2a00:1450::1")
OTHERS = ("168.63.129.16", "100.100.100.200", "::1", "fe80::1%eth0", "fd00::1", "ff02::1", "no address", "")


def test_public_addresses_are_public_for_web_fetch_and_shell() -> None:
    assert all(is_public_address(one) and is_public_host(one) for one in PUBLIC)


@pytest.mark.parametrize("address", OTHERS)
def test_no_other_address_is_public(address: str) -> None:
    assert not is_public_address(address)
    assert not is_public_host(address) or address == "no address"


@pytest.mark.parametrize("network", [*NOT_PUBLIC_4, *NOT_PUBLIC_6])
def test_the_first_and_last_address_of_a_network_on_the_list_are_not_public(network: str) -> None:
    found = ip_network(network)
    for address in (found[0], found[-1]):
        assert not is_public_address(address)
        assert not is_public_host(str(address))
