"""Webhooks in: signed requests of GitHub, Slack, Stripe and others start runs, each delivery once."""

import asyncio
import hmac
import json
from base64 import b64encode
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.server.rig import FAST, Json, Server, Wire, ended, run, serving, talker

from windlass import Rejected
from windlass.limits import LIGHT_CHARS_MAX
from windlass.webhooks import SCHEMES, Scheme, SignatureRefused, SlackChannel, Webhook, Webhooks
from windlass.webhooks.channel import Message, SignedRequest
from windlass_server import Settings

RECORDED = Path(__file__).parent / "recorded"
SECRETS = {
    "NEW": "It's a Secret to Everybody",
    "OLD": "whsec-of-last-year",
    "STANDARD": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
}
NOW = datetime(2026, 3, 14, 9, 26, 53, tzinfo=UTC)


def signed_by(scheme: str, body: bytes, *, secret: str = SECRETS["NEW"], at: datetime | None = None) -> Json:
    """Sign as the senders do, without the code under test."""
    seconds = str(int((at or datetime.now(UTC)).timestamp()))
    key = secret.encode()

    def digest(before: str) -> "hmac.HMAC":
        return hmac.new(key, before.encode() + body, sha256)

    match scheme:
        case "github":
            return {"X-Hub-Signature-256": f"sha256={digest('').hexdigest()}", "X-GitHub-Event": "issues"}
        case "slack":
            signature = digest(f"v0:{seconds}:").hexdigest()
            return {"X-Slack-Signature": f"v0={signature}", "X-Slack-Request-Timestamp": seconds}
        case _:
            return {"Stripe-Signature": f"t={seconds},v1={digest(f'{seconds}.').hexdigest()},v0=old"}


# signatures, by the examples that the senders publish


@pytest.mark.parametrize(
    ("scheme", "secret", "headers", "body"),
    [
        (
            "github",
            "It's a Secret to Everybody",
            {
                "x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a"
                "37570b6d7586c22c46f4379c8b043e17"
            },
            b"Hello, World!",
        ),
        (
            "slack",
            "8f742231b10e8888abcd99yyyzzz85a5",
            {
                "x-slack-request-timestamp": "1531420618",
                "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
            },
            b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
            b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
            b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F"
            b"96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
        ),
        (
            "standard",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            {
                "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
                "webhook-timestamp": "1614265330",
                "webhook-signature": "v1,b2xk v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
            },
            b'{"test": 2432232314}',
        ),
    ],
)
def test_the_examples_of_the_senders_are_genuine(
    scheme: str, secret: str, headers: dict[str, str], body: bytes
) -> None:
    given = SCHEMES[scheme]
    now_s = float(headers.get(given.timestamp_header or "", "0"))
    given.check(headers, body, ["another", secret] if not given.has_base64_secrets else [secret], now_s=now_s)
    with pytest.raises(SignatureRefused, match="does not fit"):
        given.check(headers, body + b" ", [secret], now_s=now_s)


@pytest.mark.parametrize("scheme", ["slack", "stripe"])
@pytest.mark.parametrize("late_s", [300, -300, 301, -301])
def test_a_signed_time_counts_within_five_minutes(scheme: str, late_s: int) -> None:
    headers = {key.lower(): value for key, value in signed_by(scheme, b"{}", at=NOW).items()}
    now_s = (NOW + timedelta(seconds=late_s)).timestamp()
    if abs(late_s) == 300:
        SCHEMES[scheme].check(headers, b"{}", [SECRETS["NEW"]], now_s=now_s)
        return
    with pytest.raises(SignatureRefused) as refused:
        SCHEMES[scheme].check(headers, b"{}", [SECRETS["NEW"]], now_s=now_s)
    assert refused.value.code == "webhook_stale"


@pytest.mark.parametrize(
    "header",
    ["", "v1=", "t=1", "t=,v1=x", "t=x,v1=x", "t=١,v1=x", f"t={'9' * 13},v1=x", "v1=x", "t=1;v1=x", "ü"],
)
def test_a_malformed_signature_is_refused(header: str) -> None:
    with pytest.raises(SignatureRefused) as refused:
        SCHEMES["stripe"].check({"stripe-signature": header}, b"{}", ["s"], now_s=1)
    assert refused.value.code in ("webhook_unsigned", "webhook_signature")


def test_more_signatures_than_a_sender_has_are_not_compared() -> None:
    genuine = signed_by("stripe", b"{}", at=NOW)["Stripe-Signature"].split(",")[1]
    headers = {"stripe-signature": ",".join([f"t={int(NOW.timestamp())}", *["v1=x"] * 16, genuine])}
    with pytest.raises(SignatureRefused):
        SCHEMES["stripe"].check(headers, b"{}", [SECRETS["NEW"]], now_s=NOW.timestamp())


# over the server


def by_hand(delivery: SignedRequest) -> Message | None:
    """Route Stripe's events in Python."""
    data: Any = delivery.payload["data"]
    if delivery.event == "charge.refunded":
        return None
    return Message(session=data["object"]["customer"], text=f"{delivery.event} for {data['object']['id']}")


WEBHOOKS = (
    Webhook(
        "issues",
        agent="talker",
        scheme="github",
        secrets=("NEW", "OLD"),
        session="{repository.full_name}#{issue.number}",
        message="{sender.login} {event}: {issue.title}",
        events=("issues.opened", "issue_comment"),
    ),
    Webhook("payments", agent="talker", scheme="stripe", secrets=("NEW",), route=by_hand),
    Webhook("any", agent="talker", scheme="standard", secrets=("STANDARD",), message="{type}"),
)


@asynccontextmanager
async def receiving(
    folder: Path, monkeypatch: pytest.MonkeyPatch, webhooks: Sequence[Webhook] = WEBHOOKS
) -> AsyncGenerator[tuple[Server, httpx2.AsyncClient]]:
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)
    async with (
        serving(folder, [talker()], settings=Settings(limits=FAST), webhooks=webhooks) as server,
        server.client() as client,
    ):
        yield server, client


def github(body: bytes, delivery: str = "72d3162e-cc78-11e3-81ab-4c9367dc0958", **more: str) -> Json:
    return {**signed_by("github", body), "X-GitHub-Delivery": delivery, **more}


ISSUE = (RECORDED / "github_issue.json").read_bytes()
CHARGE = (RECORDED / "stripe_charge.json").read_bytes()


def test_a_delivery_of_github_starts_one_run_however_often_it_arrives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with receiving(tmp_path, monkeypatch) as (server, client):
            first = await client.post("../webhooks/issues", content=ISSUE, headers=github(ISSUE))
            assert first.status_code == 202, first.text
            assert first.json()["sessionId"] == "issues:Codertocat/Hello-World#1"
            again = await client.post("../webhooks/issues", content=ISSUE, headers=github(ISSUE))
            assert (again.status_code, again.json()) == (202, first.json())
            found = await ended(client, first.json()["runId"])
            assert found["result"]["output"] == "Hello there."
            # Another delivery of the same issue goes on in the same session.
            other = await client.post("../webhooks/issues", content=ISSUE, headers=github(ISSUE, "another"))
            assert other.json()["sessionId"] == first.json()["sessionId"]
            assert other.json()["runId"] != first.json()["runId"]
            await ended(client, other.json()["runId"])
            wire = await Wire.get(server.port, f"/runs/{first.json()['runId']}/events?follow=false")
            events = [one.json async for one in wire.frames() if one.type]
            said = [one["data"] for one in events if one["type"] == "message.received"]
            assert said[0]["message"] == "Codertocat issues.opened: Spelling error in the README file"
            started = next(one["data"] for one in events if one["type"] == "run.started")
            assert started["metadata"]["webhook"] == "issues"
            assert started["source"] == {"kind": "remote_channel", "id": "issues"}

    run(main())


@pytest.mark.parametrize(("size", "in_thread"), [(LIGHT_CHARS_MAX + 1, True), (LIGHT_CHARS_MAX, False)])
def test_the_signature_of_a_large_body_is_checked_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, in_thread: bool
) -> None:
    verify, threads = Webhooks.verify, list[bool]()

    def noted(self: Webhooks, name: str, headers: Mapping[str, str], body: bytes) -> SignedRequest:
        try:
            asyncio.get_running_loop()
            threads.append(False)
        except RuntimeError:
            threads.append(True)
        return verify(self, name, headers, body)

    monkeypatch.setattr(Webhooks, "verify", noted)
    body = ISSUE + b" " * (size - len(ISSUE))

    async def main() -> None:
        async with receiving(tmp_path, monkeypatch) as (_, client):
            answer = await client.post("../webhooks/issues", content=body, headers=github(body))
            assert answer.status_code == 202, answer.text
            await ended(client, answer.json()["runId"])
            wrong = {**github(body), "X-Hub-Signature-256": f"sha256={'0' * 64}"}
            assert (await client.post("../webhooks/issues", content=body, headers=wrong)).status_code == 401

    run(main())
    assert threads == [in_thread, in_thread]


def test_a_form_of_github_and_a_rotated_secret_are_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with receiving(tmp_path, monkeypatch) as (_, client):
            form = httpx2.Request("POST", "http://x", data={"payload": ISSUE.decode()}).read()
            headers = {
                **signed_by("github", form, secret=SECRETS["OLD"]),
                "content-type": "application/x-www-form-urlencoded",
            }
            answer = await client.post("../webhooks/issues", content=form, headers=headers)
            assert answer.status_code == 202, answer.text
            assert answer.json()["sessionId"] == "issues:Codertocat/Hello-World#1"

    run(main())


def test_json_that_is_sent_as_a_form_is_refused_with_the_content_type_to_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with receiving(tmp_path, monkeypatch) as (_, client):
            headers = {
                **signed_by("github", ISSUE, secret=SECRETS["OLD"]),
                "content-type": "application/x-www-form-urlencoded",
            }
            answer = await client.post("../webhooks/issues", content=ISSUE, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (400, "webhook_payload")
            assert "send JSON as application/json" in answer.json()["detail"]

    run(main())


def test_a_function_chooses_the_message_or_ignores_the_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with receiving(tmp_path, monkeypatch) as (_, client):
            answer = await client.post(
                "../webhooks/payments", content=CHARGE, headers=signed_by("stripe", CHARGE)
            )
            assert (answer.status_code, answer.json()["sessionId"]) == (202, "payments:cus_NffrFeUfNV2Hib")
            refunded = CHARGE.replace(b"charge.succeeded", b"charge.refunded")
            ignored = await client.post(
                "../webhooks/payments", content=refunded, headers=signed_by("stripe", refunded)
            )
            assert (ignored.status_code, ignored.content) == (204, b"")
            push = b'{"ref": "main"}'
            other = await client.post("../webhooks/issues", content=push, headers=github(push))
            assert other.status_code == 204
            assert len((await client.get("/sessions")).json()["sessions"]) == 1

    run(main())


def test_a_request_that_is_not_genuine_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stale = datetime.now(UTC) - timedelta(minutes=6)
    forged = {**signed_by("github", ISSUE, secret="guess"), "X-GitHub-Delivery": "d"}
    cases: list[tuple[str, bytes, Json, int, str]] = [
        ("issues", ISSUE, {}, 401, "webhook_unsigned"),
        ("issues", ISSUE, forged, 401, "webhook_signature"),
        ("issues", ISSUE + b" ", github(ISSUE), 401, "webhook_signature"),
        ("payments", CHARGE, signed_by("stripe", CHARGE, at=stale), 401, "webhook_stale"),
        ("payments", CHARGE, {"Authorization": "Bearer x"}, 401, "webhook_unsigned"),
        ("unknown", ISSUE, github(ISSUE), 404, "not_found"),
        ("issues", b"{", github(b"{"), 400, "webhook_payload"),
        ("issues", b"[1]", github(b"[1]"), 400, "webhook_payload"),
        ("issues", b"[" * 50_001, github(b"[" * 50_001), 400, "webhook_payload"),
        ("issues", b'{"a":' * 40_000, github(b'{"a":' * 40_000), 400, "webhook_payload"),
        ("issues", b'{"action": "opened"}', github(b'{"action": "opened"}'), 400, "webhook_payload"),
        ("payments", b'{"type": "x"}', signed_by("stripe", b'{"type": "x"}'), 400, "webhook_payload"),
        ("issues", b"x" * 1_048_577, github(b"x" * 1_048_577), 413, "too_large"),
    ]

    async def main() -> None:
        async with receiving(tmp_path, monkeypatch) as (_, client):
            for name, body, headers, status, code in cases:
                answer = await client.post(f"../webhooks/{name}", content=body, headers=headers)
                assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
            assert (await client.get("../webhooks/issues")).status_code == 405
            assert (await client.get("/sessions")).json()["sessions"] == []

    run(main())
    assert not any(secret in caplog.text for secret in SECRETS.values())


def test_a_delivery_id_with_another_body_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with receiving(tmp_path, monkeypatch) as (_, client):
            assert (
                await client.post("../webhooks/issues", content=ISSUE, headers=github(ISSUE))
            ).status_code == 202
            other = ISSUE.replace(b"Spelling error", b"Grammar error")
            answer = await client.post("../webhooks/issues", content=other, headers=github(other))
            assert (answer.status_code, answer.json()["code"]) == (409, "conflict")

    run(main())


def test_a_secret_that_a_message_quotes_is_in_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = SECRETS["STANDARD"]
    body = json.dumps({"type": f"leak {secret}"}).encode()
    seconds = str(int(datetime.now(UTC).timestamp()))
    scheme = SCHEMES["standard"]
    signature = scheme.signature(scheme.signed("m1", seconds, body), secret)
    headers = {"webhook-id": "m1", "webhook-timestamp": seconds, "webhook-signature": f"v1,{signature}"}

    async def main() -> None:
        async with receiving(tmp_path, monkeypatch) as (_, client):
            answer = await client.post("../webhooks/any", content=body, headers=headers)
            assert answer.status_code == 202
            await ended(client, answer.json()["runId"])

    run(main())
    files = [one for one in tmp_path.rglob("*") if one.is_file()]
    assert files
    assert not any(secret.encode() in one.read_bytes() for one in files)


# declarations


def test_a_webhook_can_be_declared_by_a_table() -> None:
    table = {
        "agent": "talker",
        "scheme": {
            "signature_header": "x-signature",
            "encoding": "base64",
            "timestamp_header": "x-time",
            "content": "{timestamp}|{body}",
            "id_path": "meta.id",
        },
        "secrets": ["NEW"],
        "message": "{meta.words.0}",
        "session": "{meta.flag}",
    }
    webhook = Webhook.read("own", table)
    assert isinstance(webhook.scheme, Scheme)
    hooks = Webhooks([webhook], variable=SECRETS.get)
    assert (hooks.secrets, [one.name for one in hooks]) == ((SECRETS["NEW"],), ["own"])
    body = b'{"meta": {"id": 7, "words": ["Hello."], "flag": true}}'
    seconds = str(int(datetime.now(UTC).timestamp()))
    digest = hmac.new(SECRETS["NEW"].encode(), f"{seconds}|".encode() + body, sha256).digest()
    headers = {"X-Signature": b64encode(digest).decode(), "X-Time": seconds}
    delivery = hooks.verify("own", headers, body)
    assert (delivery.delivery_id, webhook.identify(delivery)) == ("7", Message("true", "Hello."))
    long = "x" * 600
    assert webhook.session_id(long) == webhook.session_id(long) != webhook.session_id(f"{long}x")
    assert len(webhook.session_id(long)) < 64


GOOD: Json = {"agent": "a", "scheme": "github", "secrets": ["NEW"], "message": "x"}


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("Bad", {}, "small letters"),
        ("x", {"agent": ""}, "the agent of webhook x"),
        ("x", {"scheme": "gitlab"}, "one of github, slack, stripe, standard"),
        ("x", {"scheme": {"prefix": "v"}}, "signature_header is missing"),
        ("x", {"scheme": {"signature_header": "x", "prefx": "v"}}, "did you mean prefix"),
        ("x", {"scheme": {"signature_header": "x", "has_base64_secrets": "yes"}}, "true or false"),
        ("x", {"secrets": []}, "one or more environment variables"),
        ("x", {"secrets": ["no variable"]}, "one or more environment variables"),
        ("x", {"secrets": [1]}, "texts"),
        ("x", {"message": ""}, "needs one of message, sends, route and channel, found none"),
        ("x", {"message": 5}, "message is a text"),
        ("x", {"mesage": "x"}, "did you mean message"),
        ("x", {"approvers": ["ann"]}, "need a channel"),
    ],
)
def test_a_wrong_declaration_is_refused(name: str, change: Json, words: str) -> None:
    with pytest.raises(Rejected, match=words):
        Webhook.read(name, {**GOOD, **change})


@pytest.mark.parametrize("missing", ["agent", "scheme", "secrets"])
def test_a_field_that_is_needed_is_named(missing: str) -> None:
    with pytest.raises(Rejected, match=f"{missing} is missing"):
        Webhook.read("x", {key: value for key, value in GOOD.items() if key != missing})


def test_events_beside_a_channel_are_refused() -> None:
    with pytest.raises(Rejected, match="events of webhook x: leave them out, its channel chooses"):
        Webhook("x", "a", "slack", ("S",), channel=SlackChannel("TOKEN"), events=("message",))


def test_a_missing_secret_stops_the_start_and_is_named() -> None:
    webhook = Webhook.read("x", GOOD)
    with pytest.raises(Rejected, match="variable NEW with its secret: it is not set"):
        Webhooks([webhook], variable=lambda name: None)
    with pytest.raises(Rejected, match="two webhooks have the same name"):
        Webhooks([webhook, webhook], variable=SECRETS.get)
    with pytest.raises(Rejected, match="it is not base64"):
        Webhooks([Webhook.read("x", {**GOOD, "scheme": "standard"})], variable=lambda name: "whsec_%")


@pytest.mark.parametrize("scheme", ["github", "slack", "stripe", "standard"])
@pytest.mark.parametrize("size", [1, 15, 16, 64])
def test_a_secret_that_is_short_enough_to_be_guessed_stops_the_start(scheme: str, size: int) -> None:
    secret = f"whsec_{b64encode(b'x' * size).decode()}" if scheme == "standard" else "x" * size
    webhook = Webhook.read("x", {**GOOD, "scheme": scheme})
    if size >= 16:
        assert Webhooks([webhook], variable=lambda name: secret).secrets == (secret,)
        return
    with pytest.raises(Rejected, match=f"it has {size} bytes, and a secret has 16 or more"):
        Webhooks([webhook], variable=lambda name: secret)


def test_a_webhook_of_an_unknown_agent_stops_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with receiving(tmp_path, monkeypatch, [Webhook.read("x", {**GOOD, "agent": "nobody"})]) as (
            server,
            _,
        ):
            with pytest.raises(Rejected, match="webhook x: unknown agent nobody; known are talker"):
                await server.tenants.check()

    run(main())
