"""Signed tokens: their principal, and invalid tokens."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import jwt
import pytest
from tests.server.keyring import AUDIENCE, ISSUER, Issuer, Keyring
from tests.server.rig import FAST, run, serving
from tests.toolbox.web_rig import reply, served

from windlass import Rejected
from windlass.testing import FakeClock
from windlass_server import JwtSettings, Settings
from windlass_server.auth import JWKS_RETRY_S, KeySource, Principal, Tokens


def test_a_token_authenticates_its_tenant_and_user(tmp_path: Path) -> None:
    async def main() -> None:
        issuer = Issuer()
        keys = Keyring(tmp_path / "keys.json")
        key = keys.add("k", "acme", "ann")
        settings = Settings(jwt=issuer.settings(tmp_path), keys=keys.path, limits=FAST)
        async with serving(tmp_path / "data", settings=settings) as server:
            async with server.client(issuer.token()) as client:
                begun = (await client.post("/sessions", json={})).json()
            async with server.client(key) as client:
                found = await client.get(f"/sessions/{begun['sessionId']}/events?follow=false")
                assert found.status_code == 200
            async with server.client(issuer.token(user="bob")) as client:
                found = await client.get(f"/sessions/{begun['sessionId']}/events?follow=false")
                assert found.status_code == 404

    run(main())


def hmac_with_the_public_key(issuer: Issuer) -> str:
    """Algorithm confusion: the public key used as an HMAC secret."""
    secret = json.loads(issuer.jwks)["keys"][0]["x"] + "x" * 32
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "tenant": "acme"}
    claims |= {"exp": datetime.now(UTC) + timedelta(minutes=5)}
    return jwt.encode(claims, secret, algorithm="HS256", headers={"kid": issuer.key_id})


def unsigned(issuer: Issuer) -> str:
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "tenant": "acme"}
    return jwt.encode(claims, "", algorithm="none", headers={"kid": issuer.key_id})


def without_key_id(issuer: Issuer) -> str:
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "tenant": "acme"}
    claims |= {"exp": datetime.now(UTC) + timedelta(minutes=5)}
    return jwt.encode(claims, issuer.key, algorithm="EdDSA")


ANN = Principal("acme", "ann", is_claimed=True)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
WORTHLESS: dict[str, Callable[[Issuer], str]] = {
    "expired": lambda issuer: issuer.token(exp=LONG_AGO),
    "never expires": lambda issuer: issuer.token(exp=None),
    "not yet": lambda issuer: issuer.token(nbf=datetime.now(UTC) + timedelta(hours=1)),
    "other issuer": lambda issuer: issuer.token(iss="https://evil.example"),
    "other audience": lambda issuer: issuer.token(aud="somebody else"),
    "no audience": lambda issuer: issuer.token(aud=None),
    "no tenant": lambda issuer: issuer.token(tenant=None),
    "no user": lambda issuer: issuer.token(user=None),
    "a user with a reserved name": lambda issuer: issuer.token(user="windlass-builder"),
    "a tenant that is no text": lambda issuer: issuer.token(tenant=["acme"]),
    "an empty tenant": lambda issuer: issuer.token(tenant=""),
    "a tenant with a line in it": lambda issuer: issuer.token(tenant="a\nb"),
    "a tenant with half a character": lambda issuer: issuer.token(tenant="\ud800"),
    "deep": lambda issuer: "W1tb" * 2_000 + ".e30.e30",
    "other key": lambda issuer: Issuer().token(),
    "unknown key": lambda issuer: replace(issuer, key_id="k2").token(),
    "no key id": without_key_id,
    "unsigned": unsigned,
    "signed with the public key": hmac_with_the_public_key,
    "garbage": lambda issuer: "a.b.c",
    "not even three parts": lambda issuer: "x",
    "cut": lambda issuer: issuer.token()[:-4],
    "too long": lambda issuer: issuer.token(more="x" * 9000),
    "not ascii": lambda issuer: "é.ü.ñ",
}


@pytest.mark.promise("T1")
@pytest.mark.parametrize("name", WORTHLESS)
def test_an_invalid_token_has_no_principal(tmp_path: Path, name: str) -> None:
    async def main() -> None:
        issuer = Issuer()
        tokens = Tokens(issuer.settings(tmp_path), FakeClock())
        assert await tokens.principal(issuer.token()) == ANN
        assert await tokens.principal(WORTHLESS[name](issuer)) is None

    run(main())


def test_keys_of_an_issuer_are_fetched_again_for_a_new_one_and_not_for_every_wrong_one() -> None:
    async def main() -> None:
        issuer, clock = Issuer(), FakeClock()
        fetched = 0

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal fetched
            await reader.readuntil(b"\r\n\r\n")
            fetched += 1
            writer.write(reply(issuer.jwks))

        async with served(handler, "127.0.0.1", 0) as port:
            place = f"http://127.0.0.1:{port}/jwks"
            tokens = Tokens(JwtSettings(ISSUER, AUDIENCE, place), clock)
            assert await tokens.principal(issuer.token()) is not None
            for _ in range(5):
                assert await tokens.principal(replace(issuer, key_id="k2").token()) is None
            assert fetched == 1
            issuer.key_id = "k2"
            clock.advance(JWKS_RETRY_S + 1)
            assert await tokens.principal(issuer.token()) is not None
            assert fetched == 2
        # The issuer is unreachable: known keys stay valid.
        clock.advance(10_000)
        assert await tokens.principal(issuer.token()) is not None

    run(main())


def test_concurrent_requests_wait_for_the_first_fetch_of_the_keys() -> None:
    async def main() -> None:
        issuer, asked, may = Issuer(), asyncio.Event(), asyncio.Event()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            asked.set()
            await may.wait()
            writer.write(reply(issuer.jwks))

        async with served(handler, "127.0.0.1", 0) as port:
            tokens = Tokens(JwtSettings(ISSUER, AUDIENCE, f"http://127.0.0.1:{port}/jwks"), FakeClock())
            first = asyncio.create_task(tokens.principal(issuer.token()))
            await asked.wait()
            others = [asyncio.create_task(tokens.principal(issuer.token())) for _ in range(3)]
            await asyncio.sleep(0)
            may.set()
            assert await asyncio.gather(first, *others) == [ANN] * 4

    run(main())


def test_tokens_are_answered_with_503_until_the_issuer_was_reached(tmp_path: Path) -> None:
    async def main() -> None:
        issuer, led = Issuer(), 0

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal led
            asked = await reader.readuntil(b"\r\n\r\n")
            led += b"/elsewhere" in asked
            writer.write(
                reply(issuer.jwks)
                if led
                else reply(status="302 Found", location=f"http://127.0.0.1:{port}/elsewhere")
            )

        async with served(handler, "127.0.0.1", 0) as port:
            given = JwtSettings(ISSUER, AUDIENCE, f"http://127.0.0.1:{port}/jwks")
            limits = replace(FAST, failures_per_s=0.01, failures_burst=1)
            settings = Settings(jwt=given, limits=limits)
            async with (
                serving(tmp_path, settings=settings) as server,
                server.client(issuer.token()) as client,
                server.client("garbage") as stranger,
            ):
                for _ in range(3):
                    answer = await client.get("/agents")
                    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
                assert (await stranger.get("/agents")).status_code == 401
                assert led == 0

    run(main())


def test_keys_of_an_issuer_are_fetched_without_the_proxies_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        issuer = Issuer()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(reply(issuer.jwks))

        async with served(handler, "127.0.0.1", 0) as port:
            monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
            tokens = Tokens(JwtSettings(ISSUER, AUDIENCE, f"http://127.0.0.1:{port}/jwks"), FakeClock())
            assert await tokens.principal(issuer.token()) == ANN

    run(main())


def test_keys_of_an_issuer_are_not_fetched_in_the_clear_from_elsewhere() -> None:
    with pytest.raises(Rejected, match="by https"):
        KeySource("http://issuer.example/jwks", FakeClock())


@pytest.mark.parametrize("algorithm", ["HS256", "hs512", "none", "None"])
def test_an_algorithm_without_public_keys_is_refused_at_the_start(algorithm: str) -> None:
    with pytest.raises(Rejected, match="has no public keys"):
        JwtSettings("https://issuer.example", "windlass", "keys.json", algorithms=("RS256", algorithm))
