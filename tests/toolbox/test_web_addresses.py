"""web_fetch reaches public addresses only, in every notation."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.toolbox.rig import Failed, play, text
from tests.toolbox.web_rig import OTHER, PUBLIC, Canary, canary, redirect, reply, web

from windlass.addresses import PORTS, is_public, target_of
from windlass.toolbox import web_fetch_tool
from windlass.tools import ToolFailed

URLS_MIN = 80
HOSTS = """
127.0.0.1 127.1 127.0.1 127.0.0.1. 127.255.255.254 0 0.0.0.0 0.0.0.0. 0.1.2.3 2130706433 017700000001
0x7f000001 0x7f.0.0.1 0177.0.0.1 127.0.0.0x1 0x7F.1 00000177.1 127.0x000001 4294967295 4294967296 99999999999
256.0.0.1 1.2.3
１２７.０.０.１ ①②⑦.⓪.⓪.① 127。0。0。1 127．0．0．1 [::1] [::] [::1%25lo] [0:0:0:0:0:0:0:1] [::ffff:127.0.0.1]
[::ffff:7f00:1] [::ffff:0:127.0.0.1] [::127.0.0.1] [::7f00:1] [64:ff9b::7f00:1] [64:ff9b::127.0.0.1]
[64:ff9b:1::7f00:1] [2002:7f00:1::] [2002:7f00:1::1] [2001:0:7f00:1::] [2001::1] [2001:db8::1] [fe80::1]
[fe80::1%25eth0]
[fec0::1] [fc00::1] [fd00::1] [fd00:ec2::254] [ff02::1] [100::1] [3fff::1] [5f00::1] [::ffff:10.0.0.1]
10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 192.168.1.254 169.254.169.254 169.254.170.2
100.64.0.1 100.127.255.255 192.0.0.8 192.0.2.1 192.0.2.2 192.88.99.1 198.18.0.1 198.19.255.255 198.51.100.1
203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
168.63.129.16 100.100.100.200 localhost LOCALHOST localhost. ip6-localhost
loop.example private.example metadata.example mapped.example mixed.example sixtofour.example ula.example
user@127.0.0.1 user:pass@127.0.0.1 example.com@127.0.0.1 127.0.0.1#@example.com 127.0.0.1\\@example.com
example.com:80@127.0.0.1
[127.0.0.1] [localhost] ..127.0.0.1 127.0.0.1%00.example.com %6c%6f%63%61%6c%68%6f%73%74
""".split()
NAMES: dict[str, Sequence[str]] = {
    "loop.example": ["127.0.0.1"],
    "private.example": ["10.0.0.1"],
    "metadata.example": ["169.254.169.254"],
    "mapped.example": ["::ffff:127.0.0.1"],
    "mixed.example": [PUBLIC, "127.0.0.1"],
    "sixtofour.example": ["2002:7f00:1::"],
    "ula.example": ["fd00::2"],
}
OTHER_URLS = [
    "file:///etc/passwd",
    "gopher://127.0.0.1:{port}/_x",
    "ftp://127.0.0.1:{port}/",
    "data:text/plain,hello",
    "javascript:alert(1)",
    "dict://127.0.0.1:{port}/",
    "ldap://127.0.0.1:{port}/",
    "ws://127.0.0.1:{port}/",
    "unix:///var/run/docker.sock",
    "jar:http://127.0.0.1:{port}!/",
    "//127.0.0.1:{port}/",
    "127.0.0.1:{port}",
    "http:127.0.0.1:{port}",
    "http:/127.0.0.1:{port}/",
    "http:///127.0.0.1:{port}/",
    "http://",
    "https://",
    "http://127.0.0.1:{port}:80/",
    "http://127.0.0.1:99999/",
    "http://127.0.0.1:-1/",
    "http://127.0.0.1:{port}x/",
    "http://127.0.0.1 :{port}/",
    "http://127.0.0.1\t:{port}/",
    "http://127.0.0.1\n:{port}/",
    " http://127.0.0.1:{port}/",
    "http://example.com\r\nHost: 127.0.0.1:{port}/",
    "http://example.com:25/",
    "http://example.com:22/",
    "http://[::1",
    "http://example.com:6379/",
    "HTTP://127.0.0.1:{port}/",
    "hTTp://[::1]:{port}/",
    "http://\u2488\u2488/",
    "http://\ud800/",
]


def urls(bird: Canary) -> list[str]:
    hosts = [f"http://{host}:{bird.port}/" for host in HOSTS if "#" not in host and "\\" not in host]
    hosts += [f"http://{host}/" for host in HOSTS]
    hosts += [f"https://{host}:{bird.port}/x?y#z" for host in HOSTS[:12]]
    return [*hosts, *(url.replace("{port}", str(bird.port)) for url in OTHER_URLS)]


def test_no_address_leads_to_this_machine_or_its_network(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with canary() as bird:
            monkeypatch.setitem(PORTS, "http", (80, bird.port))
            monkeypatch.setitem(PORTS, "https", (443, bird.port))
            monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{bird.port}")
            monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{bird.port}")
            monkeypatch.setenv("ALL_PROXY", f"socks5://127.0.0.1:{bird.port}")
            fetch = web_fetch_tool(network=bird.network(NAMES))
            asked = urls(bird)
            assert len(set(asked)) >= URLS_MIN
            for url in asked:
                with pytest.raises(Failed) as failure:
                    await text(fetch, url=url)
                assert "could not be reached" not in str(failure.value), f"{url} was dialled"
                assert "Traceback" not in str(failure.value)
            assert bird.visits == 0
            reader, writer = await asyncio.open_connection("127.0.0.1", bird.port)
            assert await reader.read()
            assert bird.visits == 1, "the canary does not see who comes: nothing was proved"
            writer.close()
            await writer.wait_closed()

    play(story())


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1:{port}/",
        "http://[::1]:{port}/",
        "//127.0.0.1:{port}/",
        "http://localhost:{port}/",
        "http://loop.example:{port}/",
        "http://2130706433:{port}/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:{port}/",
        "http://user:pass@loop.example:{port}/",
        "\thttp://127.0.0.1:{port}/",
        "http:\\\\127.0.0.1:{port}\\",
    ],
)
@pytest.mark.parametrize("hops", [1, 3])
def test_a_redirect_is_checked_like_the_first_address(
    target: str, hops: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with canary() as bird:
            monkeypatch.setitem(PORTS, "http", (80, bird.port))
            pages = {f"/{hop}": redirect(f"/{hop + 1}") for hop in range(1, hops)}
            pages[f"/{hops}"] = redirect(target.replace("{port}", str(bird.port)))
            async with web(pages, {name: [addresses] for name, addresses in NAMES.items()}) as world:
                world.names |= {"localhost": [["127.0.0.1", "::1"]]}
                with pytest.raises(Failed):
                    await text(web_fetch_tool(network=world.network()), url="http://shop.example/1")
                assert world.dialled == [(PUBLIC, 80)] * hops
                assert bird.visits == 0

    play(story())


def test_a_name_that_changes_its_address_is_checked_each_time_it_is_used() -> None:
    async def story() -> None:
        pages = {"/": redirect("/again"), "/again": reply("inside")}
        async with web(pages, {"rebind.example": [[PUBLIC], ["127.0.0.1"]]}) as world:
            with pytest.raises(Failed, match="not on the public internet"):
                await text(web_fetch_tool(network=world.network()), url="http://rebind.example/")
            assert world.dialled == [(PUBLIC, 80)]

    play(story())


def test_the_address_that_was_checked_is_the_one_that_is_dialled_and_is_resolved_once() -> None:
    async def story() -> None:
        async with web({"/": reply("page")}, {"rebind.example": [[OTHER], ["127.0.0.1"]]}) as world:
            told = await text(web_fetch_tool(network=world.network()), url="http://rebind.example/")
            assert told == "[200 http://rebind.example/]\npage"
            assert world.dialled == [(OTHER, 80)]
            assert "Host: rebind.example\r\n" in world.requests[0]

    play(story())


def test_a_second_address_is_tried_when_the_first_does_not_answer() -> None:
    async def story() -> None:
        async with web({"/": reply("page")}, {"two.example": [[OTHER, PUBLIC]]}) as world:
            world.silent.add(OTHER)
            assert "page" in await text(web_fetch_tool(network=world.network()), url="http://two.example/")
            assert world.dialled == [(OTHER, 80), (PUBLIC, 80)]
            world.names["two.example"] = [[OTHER]]
            with pytest.raises(Failed, match="could not be reached"):
                await text(web_fetch_tool(network=world.network()), url="http://two.example/")

    play(story())


def test_an_alternative_service_and_cookies_are_forgotten() -> None:
    async def story() -> None:
        pages = {
            "/": redirect("/next").replace(
                b"\r\n\r\n", b'\r\nAlt-Svc: h2="127.0.0.1:1"\r\nSet-Cookie: session=1\r\n\r\n'
            ),
            "/next": reply("page", Alt_Svc='h3=":1"', Set_Cookie="session=2"),
        }
        async with web(pages) as world:
            fetch = web_fetch_tool(network=world.network())
            for _ in range(2):
                await text(fetch, url="http://shop.example/")
            assert world.dialled == [(PUBLIC, 80)] * 4
            assert not [
                head for head in world.requests if "cookie" in head.lower() or "authorization" in head.lower()
            ]

    play(story())


def test_the_resolver_of_the_machine_is_asked_for_names() -> None:
    async def story() -> None:
        fetch = web_fetch_tool()
        with pytest.raises(Failed, match="not on the public internet"):
            await text(fetch, url="http://localhost/")
        with pytest.raises(Failed, match="host name cannot be resolved"):
            await text(fetch, url="http://nobody.invalid/")

    play(story())


def test_a_host_without_addresses_or_with_an_unreadable_one_is_refused() -> None:
    async def story() -> None:
        async with web({}, {"none.example": [[]], "odd.example": [["not an address"]]}) as world:
            fetch = web_fetch_tool(network=world.network())
            for host in ("none.example", "odd.example"):
                with pytest.raises(Failed, match=r"no address|not on the public internet"):
                    await text(fetch, url=f"http://{host}/")
            assert world.dialled == []

    play(story())


@pytest.mark.parametrize(
    ("url", "whole"),
    [
        ("https://Example.COM", "https://example.com/"),
        ("http://example.com:8080/a?b=c#d", "http://example.com:8080/a?b=c"),
        ("http://example.com:80/", "http://example.com/"),
        ("https://bücher.example/größe", "https://xn--bcher-kva.example/gr%C3%B6%C3%9Fe"),
        ("https://example.com./x", "https://example.com/x"),
        ("https://[2606:2800:21f::1]:8443/", "https://[2606:2800:21f::1]:8443/"),
        ("https://93.184.215.14/", "https://93.184.215.14/"),
        ("https://my_host.example-1.com/%7Ex", "https://my_host.example-1.com/%7Ex"),
    ],
)
def test_valid_addresses_are_normalised(url: str, whole: str) -> None:
    assert target_of(url).url == whole


@pytest.mark.parametrize(
    "url", ["https://-x.com/", "https://a..b/", f"https://{'a' * 64}.com/", "https://x.123/"]
)
def test_invalid_host_names_are_refused(url: str) -> None:
    with pytest.raises(ToolFailed):
        target_of(url)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", PUBLIC, OTHER, "2a00:1450:4001::1"])
def test_public_addresses_are_public(address: str) -> None:
    assert is_public(address)


def test_a_fetch_has_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        await writer.drain()
        await reader.read()

    async def story() -> None:
        monkeypatch.setattr("windlass.toolbox.fetch.FETCH_TIMEOUT_S", 0.05)
        async with web({"/": drip}) as world:
            with pytest.raises(Failed, match="did not arrive within"):
                await text(web_fetch_tool(network=world.network()), url="http://slow.example/")

    play(story())
