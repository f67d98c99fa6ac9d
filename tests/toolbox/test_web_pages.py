"""web_fetch: conversion of pages, and faulty answers."""

import asyncio
import gzip
import shutil
import ssl
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path

import pytest
from tests.toolbox.rig import Failed, play, text
from tests.toolbox.web_rig import PUBLIC, Page, redirect, reply, web

from windlass import Rejected
from windlass.addresses import URL_CHARS_MAX
from windlass.toolbox import web_fetch_tool
from windlass.toolbox.fetch import unpack
from windlass.toolbox.limits import BODY_BYTES_MAX, OUTPUT_LINES_MAX, REDIRECTS_MAX
from windlass.tools import ToolFailed

URL = "http://shop.example/"


def fetch(page: Page, **arguments: object) -> str:
    """The result of the tool for a page."""

    async def story() -> str:
        async with web({"/": page}) as world:
            told = await text(web_fetch_tool(network=world.network()), url=URL, **arguments)
            head, _, body = told.partition("\n")
            assert head == f"[200 {URL}]"
            return body

    return play(story())


@pytest.mark.parametrize(
    ("body", "kind", "shown"),
    [
        ("grün".encode(), "text/plain; charset=utf-8", "grün"),
        ("grün".encode("latin-1"), "text/plain; charset=ISO-8859-1", "grün"),
        ("“grün”".encode("cp1252"), "text/html; charset=latin1", "“grün”"),
        ("grün".encode("utf-16"), "text/plain", "grün"),
        ("\ufeffgrün".encode(), "text/plain", "grün"),
        ("緑".encode("shift_jis"), 'text/plain; charset="Shift_JIS"', "緑"),
        ("<meta charset=koi8-r><p>зелёный".encode("koi8-r"), "text/html", "зелёный"),
        (b"gr\xfcn", "text/plain", "gr\ufffdn"),
        (b"green", "text/plain; charset=rot13", "green"),
        (b"green", "text/plain; charset=zip", "green"),
        (b"green", "text/plain; charset=unicode_escape", "green"),
        (b"green", "text/plain; charset=utf-7", "green"),
        (b"green", "text/plain; charset=no-such-charset", "green"),
        (b"green", f"text/plain; charset={'x' * 99}", "green"),
        (b'{"a": 1}', "application/json", '{"a": 1}'),
        (b'{"a": 1}', "application/vnd.api+json", '{"a": 1}'),
        (b"<a>1</a>", "application/xml", "<a>1</a>"),
        (b"<html><p>green", "", "green"),
        (b"green", "", "green"),
        (b"", "text/plain", "[the page is empty]"),
    ],
)
def test_a_page_is_decoded_as_it_says_and_as_browsers_do(body: bytes, kind: str, shown: str) -> None:
    assert fetch(reply(body, Content_Type=kind)) == shown


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (reply(b"\x89PNG\0", Content_Type="image/png"), "not text: 5 bytes of image/png"),
        (reply(b"a\0b", Content_Type="text/plain"), "not text"),
        (reply(b"%PDF", Content_Type="application/pdf"), "application/pdf"),
        (reply(b"x", "404 Not Found"), "the server answered 404"),
        (reply(b"x", "500 Oops"), "the server answered 500"),
        (reply(b"x", Content_Encoding="br"), "unsupported way"),
        (reply(b"x", Content_Encoding="gzip, gzip"), "unsupported way"),
        (reply(b"no gzip", Content_Encoding="gzip"), "damaged"),
        (reply(gzip.compress(b"x" * 1_000)[:-4], Content_Encoding="gzip"), "cut off"),
        (reply(b"x" * (BODY_BYTES_MAX + 1)), "too large: limit"),
        (
            reply(gzip.compress(bytes(BODY_BYTES_MAX + 1)), Content_Encoding="gzip"),
            "too large when decompressed",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
            "did not answer with HTTP|closed the connection",
        ),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "did not answer with HTTP"),
        (
            b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
            "did not answer with HTTP|closed the connection",
        ),
        (b"", "did not answer with HTTP|closed the connection"),
        (redirect(""), "redirects"),
        (reply("", "302 Found"), "redirects"),
    ],
)
def test_a_faulty_page_is_refused_with_a_message(page: bytes, words: str) -> None:
    with pytest.raises(Failed, match=words):
        fetch(page)


def test_an_endless_page_is_cut_at_the_limit() -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
            await writer.drain()

    with pytest.raises(Failed, match="too large"):
        fetch(endless)


def test_packed_pages_are_unpacked_up_to_the_limit_and_not_one_byte_more() -> None:
    at = bytes(BODY_BYTES_MAX)
    assert unpack(gzip.compress(at), "gzip") == at
    assert unpack(gzip.compress(b"a") + gzip.compress(b"b"), "x-gzip") == b"ab"
    with pytest.raises(ToolFailed, match="too large when decompressed"):
        unpack(gzip.compress(at) + gzip.compress(b"b"), "gzip")
    with pytest.raises(ToolFailed, match="damaged"):
        unpack(zlib.compress(b"x"), "gzip")


@pytest.mark.uncounted
def test_a_page_that_unpacks_to_a_gigabyte_takes_no_memory() -> None:
    packer = zlib.compressobj(9, wbits=16 + zlib.MAX_WBITS)
    bomb = b"".join(packer.compress(bytes(1_048_576)) for _ in range(1_024)) + packer.flush()
    assert len(bomb) < BODY_BYTES_MAX
    tracemalloc.start()
    try:
        with pytest.raises(ToolFailed, match="too large when decompressed"):
            unpack(bomb, "gzip")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * BODY_BYTES_MAX


def test_redirects_are_followed_as_far_as_the_limit() -> None:
    async def story() -> None:
        pages: dict[str, Page] = {f"/{hop}": redirect(f"{hop + 1}") for hop in range(REDIRECTS_MAX + 1)}
        pages[f"/{REDIRECTS_MAX + 1}"] = reply("end")
        async with web(pages) as world:
            tool = web_fetch_tool(network=world.network())
            told = await text(tool, url=f"{URL}1")
            assert told == f"[200 {URL}{REDIRECTS_MAX + 1}]\nend"
            with pytest.raises(Failed, match=f"too many redirects: limit {REDIRECTS_MAX}"):
                await text(tool, url=f"{URL}0")

    play(story())


def test_a_long_page_is_shown_in_parts() -> None:
    page = reply("".join(f"line {number}\n" for number in range(1, OUTPUT_LINES_MAX + 2)))
    first = fetch(page)
    assert first.startswith("line 1\n")
    assert f"go on with offset={OUTPUT_LINES_MAX + 1}]" in first
    assert fetch(page, offset=OUTPUT_LINES_MAX + 1) == f"line {OUTPUT_LINES_MAX + 1}"
    with pytest.raises(Failed, match="past its end"):
        fetch(page, offset=OUTPUT_LINES_MAX + 2)


def test_an_address_that_is_too_long_is_refused() -> None:
    with pytest.raises(Failed, match="url"):
        play(text(web_fetch_tool(), url=f"https://example.com/{'x' * URL_CHARS_MAX}"))


def test_the_tool_declares_that_it_reaches_out() -> None:
    tool = web_fetch_tool()
    assert (str(tool.mode), str(tool.effect), tool.is_outbound) == ("external", "idempotent", True)


def test_the_error_without_the_web_extra_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "windlass.toolbox.web_connect", raising=False)
    monkeypatch.setitem(sys.modules, "httpcore2", None)
    with pytest.raises(Rejected, match=r"windlass-runtime\[web\]"):
        web_fetch_tool()


def certificates(folder: Path, host: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server certificate for this host, and a client that trusts no other."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    command = [
        *"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2".split(),
        *("-keyout", "key.pem", "-out", "cert.pem", "-subj", f"/CN={host}"),
        *("-addext", f"subjectAltName=DNS:{host}"),
    ]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return server, ssl.create_default_context(cafile=folder / "cert.pem")


def test_over_https_the_certificate_must_be_that_of_the_name(tmp_path: Path) -> None:
    server_tls, client_tls = certificates(tmp_path, "shop.example")
    names: list[str | None] = []
    server_tls.sni_callback = lambda _object, name, _context: names.append(name)

    async def story() -> None:
        async with web({"/": reply("safe")}, server_tls=server_tls, client_tls=client_tls) as world:
            tool = web_fetch_tool(network=world.network())
            assert await text(tool, url="https://shop.example/") == "[200 https://shop.example/]\nsafe"
            with pytest.raises(Failed, match="could not be reached"):
                await text(tool, url="https://other.example/")
            assert world.dialled == [(PUBLIC, 443)] * 2
            assert names == ["shop.example", "other.example"]
            assert len(world.requests) == 1, "nothing is asked of a server that is not who it should be"
            world.tls = None
            with pytest.raises(Failed, match="could not be reached"):
                await text(web_fetch_tool(network=world.network()), url="https://shop.example/")

    play(story())
