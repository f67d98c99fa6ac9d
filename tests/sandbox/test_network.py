"""The network of a sandbox: a proxy that lets the hosts of a list through, and nothing else."""

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.sandbox.rig import Outcome, command, require_bwrap
from tests.toolbox.rig import play

from windlass.errors import Rejected
from windlass.sandboxes.bubblewrap import BubblewrapSandboxes
from windlass.sandboxes.proxy import Proxy
from windlass_protocol import SandboxSpec

pytestmark = pytest.mark.promise("S3")
ALLOWED = "api.example.com"
PUBLIC = "93.184.216.34"
SPEC = SandboxSpec(adapter="bubblewrap", network=(ALLOWED,))


@dataclass
class Web:
    """A name server and a web server behind the proxy, which show what they were asked."""

    answers: list[list[str]] = field(default_factory=lambda: [[PUBLIC]])
    """Addresses by look-up; the last answer stays."""
    names: list[str] = field(default_factory=list[str])
    dialled: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    heard: list[str] = field(default_factory=list[str])

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.names.append(host)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    async def run(self, root: Path, text: str, spec: SandboxSpec = SPEC) -> Outcome:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.heard.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        async def connect(address: str, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            self.dialled.append((address, number))
            return await asyncio.open_connection("127.0.0.1", port)

        sandboxes = BubblewrapSandboxes(root, resolver=self.resolve, connect=connect)
        async with server:
            try:
                return await command(sandboxes, text, spec=spec)
            finally:
                await sandboxes.aclose()


def ask(*requests: str) -> str:
    """Send requests to the proxy, each over a connection of its own, and show the answers."""
    shown = [
        one.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n").replace("%", "%%")
        for one in requests
    ]
    lines = [f"exec 3<> /dev/tcp/127.0.0.1/3128; printf '{one}' >&3; cat <&3; exec 3>&-" for one in shown]
    return "\n".join(lines)


def get(url: str) -> str:
    return f"GET {url} HTTP/1.1\r\nHost: {ALLOWED}\r\n\r\n"


@pytest.fixture(autouse=True)
def bwrap() -> None:
    require_bwrap()


def test_a_page_of_an_allowed_host_is_fetched_from_the_checked_address(tmp_path: Path) -> None:
    web = Web()
    request = (
        f"GET http://{ALLOWED}/a?b=c HTTP/1.1\r\nHost: evil.test\r\nProxy-Authorization: x\r\n"
        "Connection: upgrade\r\nAccept: text/plain\r\n\r\n"
    )
    outcome = play(web.run(tmp_path, ask(request)))
    assert outcome.output.endswith("hello"), outcome
    assert (web.names, web.dialled) == ([ALLOWED], [(PUBLIC, 80)])
    assert web.heard == [
        f"GET /a?b=c HTTP/1.1\r\nHost: {ALLOWED}\r\nConnection: close\r\nAccept: text/plain\r\n\r\n"
    ]


def test_a_tunnel_to_an_allowed_host_carries_bytes_both_ways(tmp_path: Path) -> None:
    web = Web()
    inner = "GET / HTTP/1.1\r\n\r\n"
    outcome = play(web.run(tmp_path, ask(f"CONNECT {ALLOWED.upper()}.:443 HTTP/1.1\r\n\r\n{inner}")))
    assert outcome.output.startswith("HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK"), outcome
    assert (web.dialled, web.heard) == ([(PUBLIC, 443)], [inner])


def test_programs_find_the_proxy_by_their_variables(tmp_path: Path) -> None:
    web = Web()
    source = f"import urllib.request as u; print(u.urlopen('http://{ALLOWED}/').read().decode())"
    outcome = play(web.run(tmp_path, f'python3 -c "{source}"'))
    assert outcome == Outcome(0, "hello\n")


@pytest.mark.parametrize(
    "request_",
    [
        get("http://example.com/"),
        get("http://www.api.example.com/"),
        get("http://api.example.com.evil.test/"),
        get("http://api.example.com@169.254.169.254/"),
        get("http://169.254.169.254@api.example.com/"),
        get("http://api.example.com:22/"),
        get("http://api.example.com%00.evil.test/"),
        get("http://api.example.com\\@evil.test/"),
        get("http://127.0.0.1/"),
        get("http://2130706433/"),
        get("http://0x7f.1/"),
        get("http://[::1]/"),
        get("http://[::ffff:127.0.0.1]/"),
        get("http://localhost/"),
        get("https://api.example.com/"),
        get("ftp://api.example.com/"),
        get("/"),
        f"CONNECT {ALLOWED}:22 HTTP/1.1\r\n\r\n",
        f"CONNECT {ALLOWED}:80 HTTP/1.1\r\n\r\n",
        f"CONNECT {ALLOWED}:8080 HTTP/1.1\r\n\r\n",
        f"CONNECT {ALLOWED}:0 HTTP/1.1\r\n\r\n",
        "CONNECT 127.0.0.1:443 HTTP/1.1\r\n\r\n",
        "CONNECT [::1]:443 HTTP/1.1\r\n\r\n",
        "CONNECT evil.test:443 HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
        f"CONNECT {ALLOWED} HTTP/1.1\r\n\r\n",
        f"GET http://{ALLOWED}/ HTTP/1.1\r\n Host: folded\r\n\r\n",
        f"GET http://{ALLOWED}/ HTTP/1.1\nX: bare newline\r\n\r\n",
        f"GET http://{ALLOWED}/ HTTP/2.0\r\n\r\n",
        f"CONNECT user@{ALLOWED}:443 HTTP/1.1\r\n\r\n",
        f"CONNECT {ALLOWED}:443@evil.test:443 HTTP/1.1\r\n\r\n",
        f"CONNECT {ALLOWED}:65979 HTTP/1.1\r\n\r\n",
        f"CONNECT {ALLOWED}:0x1bb HTTP/1.1\r\n\r\n",
        f"CONNECT {ALLOWED}%2eevil.test:443 HTTP/1.1\r\n\r\n",
        "CONNECT [::ffff:7f00:1]:443 HTTP/1.1\r\n\r\n",
        "CONNECT 0177.0.0.1:443 HTTP/1.1\r\n\r\n",
        "CONNECT 127.1:80 HTTP/1.1\r\n\r\n",
        f"connect {ALLOWED}:443 HTTP/1.1\r\n\r\n",
        f"GET  http://{ALLOWED}/ HTTP/1.1\r\n\r\n",
        f"GET http://{ALLOWED}/ HTTP/1.1 \r\n\r\n",
        f"GET http://{ALLOWED}/\tx HTTP/1.1\r\n\r\n",
        f"GET http://{ALLOWED}/ HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n",
        f"GET http://{ALLOWED}/ HTTP/1.1\r\nA: b\rC: d\r\n\r\n",
        f"GET gopher://{ALLOWED}:80/ HTTP/1.1\r\n\r\n",
        f"GET //{ALLOWED}/ HTTP/1.1\r\n\r\n",
        "GET http:///etc/passwd HTTP/1.1\r\n\r\n",
        "GET file:///etc/passwd HTTP/1.1\r\n\r\n",
    ],
)
def test_every_other_request_is_refused_and_nothing_is_dialled(request_: str, tmp_path: Path) -> None:
    web = Web()
    outcome = play(web.run(tmp_path, ask(request_)))
    assert outcome.output.startswith("HTTP/1.1 403 "), outcome
    assert not web.dialled


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["169.254.169.254"],
        ["10.0.0.1"],
        ["100.64.0.1"],
        ["0.0.0.0"],
        ["::1"],
        ["::ffff:10.0.0.1"],
        ["64:ff9b::a00:1"],
        ["fd00::1"],
        ["fe80::1%eth0"],
        [PUBLIC, "192.168.0.1"],
        [],
    ],
)
def test_an_allowed_name_with_an_address_that_is_not_public_is_refused(
    addresses: list[str], tmp_path: Path
) -> None:
    web = Web([addresses])
    outcome = play(
        web.run(tmp_path, ask(get(f"http://{ALLOWED}/"), f"CONNECT {ALLOWED}:443 HTTP/1.1\r\n\r\n"))
    )
    assert outcome.output.count("HTTP/1.1 403 ") == 2, outcome
    assert not web.dialled


def test_a_name_that_changes_its_address_reaches_only_the_one_that_was_checked(tmp_path: Path) -> None:
    web = Web([[PUBLIC], ["127.0.0.1"]])
    outcome = play(web.run(tmp_path, ask(get(f"http://{ALLOWED}/"), get(f"http://{ALLOWED}/"))))
    assert "hello" in outcome.output
    assert "HTTP/1.1 403 " in outcome.output
    assert web.dialled == [(PUBLIC, 80)]


def test_a_head_without_end_is_cut_off(tmp_path: Path) -> None:
    web = Web()
    text = "exec 3<> /dev/tcp/127.0.0.1/3128; head -c 1000000 /dev/zero >&3; cat <&3; echo over"
    outcome = play(web.run(tmp_path, text))
    assert outcome.output.endswith("over\n"), outcome
    assert not web.dialled


FIRST = f"POST http://{ALLOWED}/one HTTP/1.1\r\n"
SECOND = f"GET http://{ALLOWED}/two HTTP/1.1\r\nHost: intern.test\r\n\r\n"
HEAD = f"POST /one HTTP/1.1\r\nHost: {ALLOWED}\r\nConnection: close\r\n"


async def through_proxy(sent: bytes, ends_with: bytes) -> tuple[bytes, bytes]:
    """Send bytes to a proxy over a plain socket; return all that the host behind it got, and the answer.

    The host answers once it got what `ends_with` shows, and reads on until the proxy closes.
    """
    heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        content = b""
        while not content.endswith(ends_with) and (chunk := await reader.read(4_096)):
            content += chunk
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        writer.write_eof()
        heard.set_result(content + await reader.read())
        writer.close()

    host = await asyncio.start_server(serve, "127.0.0.1", 0)
    web = Web()
    port = host.sockets[0].getsockname()[1]

    async def connect(_address: str, _port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", port)

    proxy = Proxy((ALLOWED,), resolver=web.resolve, connect=connect)
    listener = socket.create_server(("127.0.0.1", 0))
    await proxy.listen(listener)
    async with host:
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(sent)
        answer = await reader.read()
        writer.close()
        proxy.close()
        return (await heard if answer.startswith(b"HTTP/1.1 200") else b""), answer


@pytest.mark.parametrize(
    ("headers", "body", "passed"),
    [
        ("", "", "\r\n"),
        ("Content-Length: 4\r\n", "body", "Content-Length: 4\r\n\r\nbody"),
        ("Content-Length: 0\r\n", "", "Content-Length: 0\r\n\r\n"),
        (
            "Transfer-Encoding: chunked\r\n",
            "4;a=b\r\nbody\r\n0\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
        ),
        (
            "Transfer-Encoding: chunked\r\n",
            "0\r\nX: trailer\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
    ],
)
def test_nothing_after_the_body_of_a_request_is_passed_on(headers: str, body: str, passed: str) -> None:
    expected = f"{HEAD}{passed}".encode()
    sent = f"{FIRST}{headers}\r\n{body}{SECOND}".encode()
    heard, answer = play(through_proxy(sent, expected))
    assert heard == expected
    assert answer.endswith(b"hello")


@pytest.mark.parametrize(
    "headers",
    [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 4\r\nContent-Length: 60\r\n",
        "Content-Length: 4, 60\r\n",
        "Content-Length: +4\r\n",
        "Content-Length: 0x4\r\n",
        "Content-Length:\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    ],
)
def test_a_body_whose_end_is_ambiguous_is_refused(headers: str) -> None:
    _, answer = play(through_proxy(f"{FIRST}{headers}\r\nbody{SECOND}".encode(), b"body"))
    assert answer.startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize(
    "body", ["5\r\nbody\r\n0\r\n\r\n", "-1\r\n", "4\nbody\r\n", "fffffffffffff\r\n", "4 x\r\n"]
)
def test_chunks_that_are_not_valid_end_the_connection(body: str) -> None:
    sent = f"{FIRST}Transfer-Encoding: chunked\r\n\r\n{body}{SECOND}".encode()
    heard, _ = play(through_proxy(sent, b"never"))
    assert b"/two" not in heard


def test_without_a_list_there_is_no_proxy(tmp_path: Path) -> None:
    web = Web()
    text = "env | grep -i proxy; (: < /dev/tcp/127.0.0.1/3128) && echo ESCAPED"
    outcome = play(web.run(tmp_path, text, SandboxSpec(adapter="bubblewrap")))
    assert "ESCAPED" not in outcome.output
    assert "proxy" not in outcome.output.replace("/dev/tcp", "")


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "http://a.example", "a.example/b", "a.example:80", "a b", "*.example"]
)
def test_a_list_with_anything_but_names_is_refused(host: str, tmp_path: Path) -> None:
    with pytest.raises(Rejected, match=r"^Bubblewrap: a host of its network is not valid, '"):
        play(BubblewrapSandboxes(tmp_path).check(SandboxSpec(adapter="bubblewrap", network=(host,))))
