"""Requests of the client: repeated where that is safe, and their errors."""

import asyncio
import json
import logging
import traceback
from pathlib import Path
from typing import Any, cast

import pytest
from tests.client.rig import Counter, Jumps, client_of, faking, problem, proxy, reply
from tests.server.keyring import Keyring
from tests.server.rig import FAST, payer, run, serving, talker

from windlass import AgentError, Ambiguous, Conflict, Corrupt, Denied, Rejected, Unavailable
from windlass.client import (
    Broken,
    Client,
    Means,
    NotFound,
    NotWindlass,
    RateLimited,
    Unauthenticated,
    Unreachable,
)
from windlass.client.connection import ANSWER_VALUES_MAX
from windlass_protocol import InputResponse, RetryClass
from windlass_server import Settings

TAKEN = reply(202, {"sessionId": "s", "runId": "r", "somethingNew": 1})
HEALTH = reply(200, {"status": "ok", "version": "1"})


def test_a_session_from_its_first_message_to_its_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            serving(tmp_path, [payer()], settings=Settings(limits=FAST)) as server,
            client_of(server.port) as client,
        ):
            assert (await client.server.health()).status == "ok"
            assert [agent.agent_id for agent in (await client.agents.list()).agents] == ["payer"]
            empty = await client.sessions.create_empty()
            assert empty.run_id is None
            begun = await client.sessions.send(
                empty.session_id,
                "Pay.",
                continuation_token=empty.continuation_token,
                metadata={"order": 7},
                context=["It rains."],
            )
            await reached(client, begun.run_id, "run.waiting")
            found = await client.runs.get(begun.run_id)
            [request] = found.requests
            approve = InputResponse(request_id=request.request_id, option_id="approve")
            await client.sessions.answer(begun.session_id, [approve])
            await reached(client, begun.run_id, "run.completed")
            found = await client.runs.get(begun.run_id)
            assert found.result is not None
            assert found.result.output == "All done."
            listed = await client.sessions.list(text="Pay", subagents=True)
            assert [one.session_id for one in listed.items] == [begun.session_id]
            assert (await client.sessions.get(begun.session_id)).run_count == 1
            first = await client.sessions.history(begun.session_id, limit=2)
            rest = await client.sessions.history(begun.session_id, after=first.next)
            assert first.items[0].content == "Pay."
            assert rest.items[-1].content == "All done."
            assert [one.run_id for one in (await client.runs.list(agent="payer")).items] == [begun.run_id]
            assert (await client.runs.trace(begun.run_id)).spans
            assert (await client.runs.decisions(begun.run_id)).decisions
            fork = await client.sessions.fork(begun.session_id, at=5)
            assert fork.predecessor_seq == 5
            lines = [line async for line in client.sessions.export(begun.session_id)]
            assert lines[0].startswith('{"')
            assert (await client.sessions.compact(begun.session_id)).session_id == begun.session_id
            assert (await client.sessions.cancel(begun.session_id)).run_id is None
            assert (await client.sessions.delete(fork.session_id)).deleted == (fork.session_id,)
            with pytest.raises(NotFound):
                await client.sessions.get(fork.session_id)

    run(main())


def test_a_run_is_steered_and_cancelled(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            serving(tmp_path, [payer()], settings=Settings(limits=FAST)) as server,
            client_of(server.port) as client,
        ):
            begun = await client.sessions.create("Pay.")
            await reached(client, begun.run_id, "run.waiting")
            assert (await client.sessions.steer(begun.session_id, "Please leave it.")).message_id
            await reached(client, begun.run_id, "run.completed")
            again = await client.sessions.send(begun.session_id, "Pay now.")
            await reached(client, again.run_id, "run.waiting")
            await client.runs.cancel(again.run_id, reason="Too dear.")
            await reached(client, again.run_id, "run.cancelled")
            result = (await client.runs.get(again.run_id)).result
            assert result is not None
            assert result.reason == "Too dear."

    run(main())


def test_a_session_is_created_with_its_chat_scenario_project_and_stage(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [payer()]) as server, client_of(server.port) as client:
            empty = await client.sessions.create_empty(
                chat_id="chat-7",
                current_stage="PLANNING",
                scenario="travel",
                stage_data={"city": "Oslo"},
                project_id="p1",
            )
            found = await client.agent_sessions.get(empty.session_id)
            assert (found.chat_id, found.current_stage, found.scenario) == ("chat-7", "PLANNING", "travel")
            assert (found.stage_data, found.project_id) == ({"city": "Oslo"}, "p1")
            assert (await client.agent_sessions.list(chat_id="chat-7")).items == (found,)
            begun = await client.sessions.create("Pay.", chat_id="chat-8")
            assert (await client.agent_sessions.get(begun.session_id)).chat_id == "chat-8"

    run(main())


def test_the_stage_of_a_session_is_read_changed_and_listed(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            serving(tmp_path, [payer()], settings=Settings(limits=FAST)) as server,
            client_of(server.port) as client,
        ):
            empty = (await client.sessions.create_empty()).session_id
            assert (await client.agent_sessions.get(empty)).is_active
            with pytest.raises(Conflict, match="no message yet"):
                await client.agent_sessions.update(empty, "PAYING")
            begun = await client.sessions.create("Pay.")
            await reached(client, begun.run_id, "run.waiting")
            changed = await client.agent_sessions.update(
                begun.session_id, "PAYING", next_stage="DONE", stage_data={"cents": 5}
            )
            assert (changed.current_stage, changed.next_stage, changed.stage_data) == (
                "PAYING",
                "DONE",
                {"cents": 5},
            )
            assert await client.agent_sessions.get(begun.session_id) == changed
            again = await client.agent_sessions.update(begun.session_id, next_stage=None)
            assert (again.current_stage, again.next_stage) == ("PAYING", None)
            ended = await client.sessions.create("leave it")
            await reached(client, ended.run_id, "run.completed")
            listed = (await client.agent_sessions.list()).items
            assert [one.session_id for one in listed] == [ended.session_id, begun.session_id]
            first = await client.agent_sessions.list(limit=1)
            assert first.items == listed[:1]
            assert (await client.agent_sessions.list(limit=1, after=first.next)).items == listed[1:]
            assert (await client.agent_sessions.list(active_only=True)).items == listed[1:]
            assert (await client.agent_sessions.list(chat_id=ended.session_id)).items == listed[:1]
            with pytest.raises(NotFound):
                await client.agent_sessions.get("nothing")
            with pytest.raises(Rejected, match="currentStage"):
                await client.agent_sessions.update(begun.session_id, cast(Any, 5))

    run(main())


async def reached(client: Client, run_id: str, kind: str) -> None:
    async with client.events(run_id=run_id) as feed:
        async for event in feed:
            if event.type == kind:
                return
    raise AssertionError(f"there was no {kind}")


def test_wherever_a_request_is_cut_it_is_the_same_session(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            serving(tmp_path, [talker()], settings=Settings(limits=FAST)) as server,
            proxy(server.port) as network,
            client_of(server.port) as direct,
        ):
            made: set[str] = set()
            keys = Counter()
            for at in [*range(1, 400, 23)]:
                for cut in ({"to_server": at}, {"to_client": at}):
                    network.to_server, network.to_client = cut.get("to_server"), cut.get("to_client")
                    means = Means(Jumps(), keys, lambda: 0.5)
                    async with Client(f"http://127.0.0.1:{network.port}", means=means) as client:
                        made.add((await client.sessions.create(f"Cut at {at}.")).session_id)
            assert len(made) == keys.count
            assert len((await direct.sessions.list(limit=200)).items) == keys.count

    run(main())


def test_a_request_to_a_busy_server_waits_for_retry_after() -> None:
    async def main() -> None:
        clock = Jumps()
        answers = [
            problem(429, "rate_limited", retry_after="2"),
            problem(503, "unavailable", retry_after="3"),
            b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 4\r\n\r\nnope",
            TAKEN,
        ]
        async with faking(*answers) as fake, client_of(fake.port, clock) as client:
            assert (await client.sessions.create("Hello.")).session_id == "s"
        assert clock.waits == [2.0, 3.0, 1.0]
        assert {request.headers["idempotency-key"] for request in fake.requests} == {"k1"}
        assert len({request.body for request in fake.requests}) == 1

    run(main())


def test_a_server_that_lacks_something_is_not_asked_again() -> None:
    """Such as the key of a model: it says no time to come back at."""

    async def main() -> None:
        async with faking(problem(503, "unavailable")) as fake, client_of(fake.port) as client:
            with pytest.raises(Unavailable):
                await client.sessions.create("Hello.")
        assert len(fake.requests) == 1

    run(main())


def test_retries_end_when_retry_after_is_too_long_or_the_attempts_are_used_up() -> None:
    async def main() -> None:
        async with (
            faking(problem(503, "unavailable", retry_after="7200")) as fake,
            client_of(fake.port) as client,
        ):
            with pytest.raises(Unavailable) as raised:
                await client.sessions.create("Hello.")
        assert raised.value.retry_after_ms == 7_200_000
        assert len(fake.requests) == 1
        async with (
            faking(problem(429, "rate_limited", retry_after="1")) as fake,
            client_of(fake.port) as client,
        ):
            with pytest.raises(RateLimited):
                await client.server.health()
        assert len(fake.requests) == 5

    run(main())


def test_a_request_of_unknown_effect_is_repeated_with_its_key_or_is_harmless() -> None:
    async def main() -> None:
        async with faking(b"") as fake, client_of(fake.port) as client:
            for ask, has_key in (
                (lambda: client.approvals.answer("q", "approve"), True),
                (lambda: client.sessions.delete("s"), True),
                (lambda: client.agent_sessions.update("s", "PAYING"), True),
                (lambda: client.schedules.run("nightly"), True),
                (lambda: client.runs.cancel("r"), False),
                (lambda: client.runs.get("r"), False),
            ):
                before = len(fake.requests)
                with pytest.raises(Broken, match="check whether the request took effect"):
                    await ask()
                keys = [request.headers.get("idempotency-key") for request in fake.requests[before:]]
                assert len(keys) == 5
                assert len(set(keys)) == 1
                assert (keys[0] is not None) == has_key
            before = len(fake.requests)
            with pytest.raises(Broken):
                await client.sessions.send("s", "Hello.", idempotency_key="mine")
            assert [one.headers["idempotency-key"] for one in fake.requests[before:]] == ["mine"] * 5

    run(main())


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "rejected", Rejected),
        (401, "unauthenticated", Unauthenticated),
        (403, "denied", Denied),
        (404, "not_found", NotFound),
        (405, "method_not_allowed", Rejected),
        (409, "conflict", Conflict),
        (413, "too_large", Rejected),
        (500, "corrupt", Corrupt),
        (500, "internal", Ambiguous),
        (504, "ambiguous", Ambiguous),
        (418, "new_kind", Rejected),
    ],
)
def test_problem_codes_map_to_error_classes(status: int, code: str, kind: type[AgentError]) -> None:
    async def main() -> None:
        body = {"code": code, "detail": "Do this.", "ids": {"runId": "r7", "odd": 3}}
        async with faking(reply(status, body)) as fake, client_of(fake.port) as client:
            with pytest.raises(kind, match=r"^Do this\.$") as raised:
                await client.runs.cancel("r7")
        assert type(raised.value) is kind
        assert raised.value.causal_ids.run_id == "r7"

    run(main())


def test_an_invalid_request_is_rejected_with_its_paths(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            serving(tmp_path, [talker()], settings=Settings(limits=FAST)) as server,
            client_of(server.port) as client,
        ):
            with pytest.raises(Rejected) as refused:
                await client.sessions.list(status=cast(Any, "asleep"), limit=0)
            assert refused.value.message.count("query/limit: expected a value of at least 1") == 1
            assert refused.value.message.count("; query/status: expected 'idle', 'pending'") == 1

    run(main())


@pytest.mark.parametrize(
    "answer",
    [
        reply(200, b"<html>hello</html>", content_type="text/html"),
        reply(200, {"ok": True}),
        reply(200, []),
        reply(200, b"\xff\xfe"),
        reply(200, b'{"status": "ok", "status": "ok", "version": "1"}'),
        reply(302, {}, location="http://elsewhere.example/"),
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99999999\r\n\r\n"
        + b" " * 70_000_000,
        reply(200, b'{"status": "ok", "version": "1", "a": [' + b"[]," * ANSWER_VALUES_MAX + b"1]}"),
    ],
    ids=["page", "other", "list", "bytes", "twice", "elsewhere", "huge", "many values"],
)
def test_an_answer_of_another_kind_of_server_raises_not_windlass(answer: bytes) -> None:
    async def main() -> None:
        async with faking(answer) as fake, client_of(fake.port) as client:
            with pytest.raises(NotWindlass) as raised:
                await client.server.health()
        assert raised.value.retry is RetryClass.HOST_CONFIGURATION_NEEDED
        assert len(fake.requests) == 1

    run(main())


def test_a_server_that_does_not_speak_http_raises_broken() -> None:
    async def main() -> None:
        async with faking(b"220 mail.example ESMTP\r\n") as fake, client_of(fake.port) as client:
            with pytest.raises(Broken, match="broke before the answer arrived"):
                await client.server.health()

    run(main())


def test_an_unreachable_server_is_retried_and_then_unavailable() -> None:
    async def main() -> None:
        async with faking(HEALTH) as fake:
            port = fake.port
        clock = Jumps()
        async with client_of(port, clock) as client:
            with pytest.raises(Unreachable, match=f"cannot connect to http://127.0.0.1:{port} "):
                await client.server.health()
        assert clock.waits == [0.25, 0.5, 1.0, 2.0]

    run(main())


def test_the_key_is_needed_and_is_in_no_text(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def main() -> None:
        keyring = Keyring(tmp_path / "keys.json")
        key = keyring.add("a", "acme", user="ann")
        wrong = "wl_" + "x" * 40
        async with serving(
            tmp_path / "data", [talker()], settings=Settings(limits=FAST, keys=keyring.path)
        ) as server:
            async with client_of(server.port, key=lambda: key) as client:
                assert (await client.sessions.create("Hello.")).session_id
            texts: list[str] = []
            async with client_of(server.port, key=wrong) as client:
                texts.append(f"{client!r} {client.__dict__}")
                with pytest.raises(Unauthenticated, match="valid key") as raised:
                    await client.sessions.create("Hello.")
                with pytest.raises(Unauthenticated):
                    await anext(client.events(run_id="r"))
            texts += traceback.format_exception(raised.value)
            texts += [repr(raised.value), str(raised.value.info()), caplog.text]
            assert not any(wrong in text or key in text for text in texts)
            async with client_of(server.port, key=lambda: None) as client:
                with pytest.raises(Denied, match="no key for"):
                    await client.agents.list()

    run(main())


def test_addresses_keys_and_names_that_cannot_be_used_are_refused_without_being_quoted() -> None:
    for url in (
        "",
        "localhost:8700",
        "ftp://x",
        "http://",
        "http://x?y=1",
        "http://u:s3cret@x",
        "http://x\n",
        7,
    ):
        with pytest.raises(Rejected) as raised:
            Client(url)  # pyright: ignore[reportArgumentType] on purpose
        assert "s3cret" not in str(raised.value)
    for key in ("", "s3cret\r\nx: y", "s3crét", "x" * 20_000, 7):
        with pytest.raises(Rejected) as raised:
            Client("http://x", key=key)  # pyright: ignore[reportArgumentType] on purpose
        assert "s3cr" not in str(raised.value)

    async def main() -> None:
        with pytest.raises(Rejected, match="not open"):
            await Client("http://x").server.health()
        async with faking(TAKEN) as fake, client_of(fake.port) as client:
            for name in ("", "x" * 513, "\ud800", 7):
                with pytest.raises(Rejected):
                    await client.runs.get(name)  # pyright: ignore[reportArgumentType] on purpose
            for key in ("", "two words", "k" * 256):
                with pytest.raises(Rejected, match="idempotency_key must be 1 to 255 ASCII characters"):
                    await client.sessions.create("x", idempotency_key=key)
            assert fake.requests == []
            await client.sessions.create("x", idempotency_key="k" * 255)
            assert fake.requests[-1].headers["idempotency-key"] == "k" * 255
            for name, path in (("a/b c", "a%2Fb%20c"), ("..", "%2E%2E"), ("%2e", "%252e")):
                await client.runs.cancel(name)
                assert fake.requests[-1].line == f"POST /v1/runs/{path}/cancel HTTP/1.1"

    run(main())


def test_a_client_can_be_closed_and_opened_again() -> None:
    async def main() -> None:
        async with faking(HEALTH) as fake:
            client = client_of(fake.port)
            client.open()
            client.open()
            assert (await client.server.health()).version == "1"
            await client.aclose()
            await client.aclose()
            async with client:
                assert (await asyncio.wait_for(client.server.health(), 300)).status == "ok"

    run(main())


KEY = "wl_s3cret/key"


@pytest.mark.parametrize("echo", [KEY, KEY.replace("/", "\\/"), "\\u0077" + KEY[1:]])
def test_a_server_that_repeats_the_key_does_not_spread_it(
    echo: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    refusal = f'{{"code": "denied", "detail": "{"x" * 990}{echo}", "ids": {{"runId": "{echo}"}}}}'.encode()
    meta = '{"at": "2026-01-31T09:30:00.000Z"}'
    data = f'{{"{echo}": ["{echo}"]}}'
    event = f'{{"type": "x.y", "data": {data}, "schemaVersion": 1, "meta": {meta}}}'
    stream = f"id: {echo}\ndata: {event}\n\nevent: error\ndata: {refusal.decode()}\n\n".encode()

    async def main() -> None:
        answers = [
            reply(403, refusal),
            reply(200, f'{{"status": "ok", "version": "{echo}"}}'.encode()),
            reply(200, f'{{"a": "{echo}"}}\n"{echo}"'.encode()),
            reply(200, b"", content_type=f"text/{KEY}"),
            reply(200, stream, content_type="text/event-stream"),
        ]
        async with faking(*answers) as fake, client_of(fake.port, key=KEY) as client:
            with pytest.raises(Denied) as refused:
                await client.server.health()
            texts = [str(refused.value), str(refused.value.info())]
            assert (await client.server.health()).version == "[key]"
            lines = [line async for line in client.sessions.export("s")]
            assert [json.loads(line) for line in lines] == [{"a": "[key]"}, "[key]"]
            with pytest.raises(NotWindlass) as other:
                await anext(client.events(run_id="r"))
            feed = client.events(run_id="r")
            texts += [str(other.value), repr(await anext(feed))]
            with pytest.raises(Denied) as ended:
                await anext(feed)
            texts.append(str(ended.value))
        assert not [text for text in [*texts, caplog.text] if "s3cret" in text]

    run(main())


def test_bad_gateway_answers_are_ambiguous_in_the_end() -> None:
    async def main() -> None:
        gateway = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 4\r\n\r\nnope"
        async with faking(gateway) as fake, client_of(fake.port) as client:
            for ask in (
                lambda: client.approvals.answer("q", "approve"),
                lambda: client.sessions.cancel("s"),
                lambda: client.sessions.delete("s"),
            ):
                before = len(fake.requests)
                with pytest.raises(Ambiguous):
                    await ask()
                assert len({request.headers["idempotency-key"] for request in fake.requests[before:]}) == 1

    run(main())


def test_a_key_sent_without_tls_is_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    for url in ("http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1", "https://far.example"):
        Client(url, key="wl_s3cret").open()
    Client("http://far.example").open()
    assert not caplog.records
    for _ in range(2):
        Client("http://far.example", key="wl_s3cret").open()
    [told] = caplog.records
    assert "the key for http://far.example is sent without TLS" in told.getMessage()
    assert "s3cret" not in told.getMessage()
