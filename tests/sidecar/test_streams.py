"""Chat streams: the durable tool loop, streamed while it runs."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import pytest
from tests.models.wire import (
    ANTHROPIC,
    BEDROCK,
    GOOGLE,
    KEY,
    OPENAI,
    RESPONSES,
    Reply,
    Wire,
    serving,
)
from tests.sidecar.rig import Client, params_of, play, said, sidecar

from windlass import RunHandle, tool
from windlass.errors import Unavailable
from windlass.models import ROUTE_IDS
from windlass_protocol import ErrorKind, Event, JsonObject, JsonValue, RetryClass, StreamEvent, encode
from windlass_sidecar.limits import STREAMS_MAX

HELLO: JsonValue = [{"role": "user", "content": "hello"}]


@tool(mode="read")
async def weather(city: str) -> str:
    """Return the weather."""
    return f"rain, {city}"


@tool(mode="external")
async def mail(text: str) -> str:
    """Send a mail."""
    return "sent"


def chunks(messages: list[JsonObject], name: str) -> list[JsonValue]:
    """All values of one field of the chunks."""
    return [params_of(message)[name] for message in messages if name in params_of(message)]


def test_a_stream_sends_text_call_result_and_end() -> None:
    async def story() -> None:
        async with sidecar(weather) as client:
            told = await client.stream(
                streamId="s1", messages=[{"role": "user", "content": "weather please"}]
            )
            assert {str(params_of(message)["streamId"]) for message in told} == {"s1"}
            call = {"id": "demo-1", "name": "weather", "arguments": {"city": "weather please"}}
            assert chunks(told, "toolCall") == [call]
            result = {"id": "demo-1", "name": "weather", "success": True, "data": "rain, weather please"}
            assert chunks(told, "toolResult") == [result]
            assert "weather says: rain, weather please" in said(told)
            assert chunks(told, "finishReason") == ["tool-calls", "stop"]
            assert all(isinstance(usage, dict) for usage in chunks(told, "usage"))
            assert params_of(told[-1]) == {"streamId": "s1", "ok": True}
            assert len(client.app.streams) == 0
            assert client.app.runtime.core.ports.registry.names == ()

    play(story())


def test_the_answer_to_the_request_comes_before_anything_of_the_stream() -> None:
    async def story() -> None:
        async with sidecar() as client:
            client.ask("agent.chat.stream", {"provider": "demo", "model": "m", "messages": HELLO})
            await client.method("stream.done")
            result = client.heard[0]["result"]
            assert isinstance(result, dict)
            assert result == {"streamId": params_of(client.heard[1])["streamId"]}

    play(story())


def test_a_stream_with_the_same_id_and_messages_is_the_same_run_and_other_messages_are_refused() -> None:
    async def story() -> None:
        async with sidecar(weather) as client:
            messages: JsonValue = [{"role": "user", "content": "weather"}]
            first = await client.stream(streamId="s1", messages=messages)
            again = await client.stream(streamId="s1", messages=messages)
            assert said(first) == said(again)
            assert chunks(again, "toolResult") == chunks(first, "toolResult")
            other = {"provider": "demo", "model": "guide", "streamId": "s1", "messages": HELLO}
            assert (await client.error("agent.chat.stream", other))["code"] == -32602
            assert len(client.app.streams) == 0

    play(story())


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_cancel_right_behind_its_stream_ends_it(tmp_path: Path, is_durable: bool) -> None:
    store = tmp_path / "store.db" if is_durable else None

    async def story() -> None:
        gate = asyncio.Event()

        @tool(mode="read")
        async def slow() -> str:
            """Take long."""
            await gate.wait()
            return "late"

        async with sidecar(slow, store=store) as client:
            asked: JsonValue = [{"role": "user", "content": "slow"}]
            client.ask(
                "agent.chat.stream",
                {"provider": "demo", "model": "m", "messages": asked, "streamId": "s1"},
            )
            client.ask("agent.chat.cancel", {"streamId": "s1"}, call_id=2)
            done = await client.method("stream.done")
            assert params_of(done) == {"streamId": "s1", "ok": False, "cancelled": True}
            assert next(one for one in client.heard if one.get("id") == 2)["result"] is None
            # One that has ended stays as it is.
            assert await client.result("agent.chat.cancel", {"streamId": "s1"}) is None

    play(story())


def test_a_slow_tool_blocks_neither_ping_nor_cancel() -> None:
    async def story() -> None:
        entered = asyncio.Event()

        @tool(mode="read")
        async def slow() -> str:
            """Never end."""
            entered.set()
            await asyncio.Event().wait()
            return ""

        async with sidecar(slow) as client:
            asked: JsonValue = [{"role": "user", "content": "slow"}]
            await client.result(
                "agent.chat.stream",
                {"provider": "demo", "model": "m", "messages": asked, "streamId": "s1"},
            )
            client.ask("tool.invoke", {"name": "slow"}, call_id="invoked")
            await entered.wait()
            health = await client.result("system.ping")
            assert isinstance(health, dict)
            assert (health["status"], health["activeTraces"]) == ("ok", 1)
            assert await client.result("agent.chat.cancel", {"streamId": "s1"}) is None
            assert params_of(await client.method("stream.done"))["cancelled"] is True

    play(story())


def test_a_stream_that_runs_cannot_be_begun_again_and_there_is_a_limit() -> None:
    async def story() -> None:
        async with sidecar() as client:
            for number in range(STREAMS_MAX):
                client.app.streams.reserve(f"s{number}")
            same = {"provider": "demo", "model": "m", "messages": HELLO, "streamId": "s1"}
            assert (await client.error("agent.chat.stream", same))["code"] == -32602
            more = {**same, "streamId": "more"}
            assert (await client.error("agent.chat.stream", more))["code"] == -32005

    play(story())


def test_earlier_messages_reach_the_model_in_order() -> None:
    async def story() -> None:
        replies = [Reply(_openai("I am fine."))]
        async with serving(*replies) as server, sidecar() as client:
            messages: JsonValue = [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "My name is Ada."},
                {
                    "role": "assistant",
                    "content": "",
                    "toolCalls": [{"id": "c1", "name": "look", "arguments": {"at": 1}}],
                },
                {"role": "tool", "toolCallId": "c1", "content": "seen"},
                {"role": "assistant", "content": "Hello Ada."},
                {"role": "user", "content": "How are you?"},
                {
                    "role": "assistant",
                    "tool_calls": [
                        {"id": "c2", "type": "function", "function": {"name": "feel", "arguments": "{}"}}
                    ],
                },
                {"role": "tool", "tool_call_id": "c2", "toolResult": {"success": False, "error": "numb"}},
            ]
            told = await client.stream(
                provider="openai-compat", baseUrl=server.url, apiKey=KEY, maxTokens=77, messages=messages
            )
            assert said(told) == "I am fine."
            asked = server.asked[0]
            assert asked.headers["authorization"] == f"Bearer {KEY}"
            assert asked.body["max_tokens"] == 77
            roles = [message["role"] for message in asked.body["messages"]]
            assert roles == ["system", "user", "assistant", "tool", "assistant", "user", "assistant", "tool"]
            assert asked.body["messages"][5]["content"] == "How are you?"
            assert asked.body["messages"][-1]["tool_call_id"] == "c2"

    play(story())


@pytest.mark.promise("S1")
def test_the_key_is_never_written_even_if_the_server_repeats_it(tmp_path: Path) -> None:
    key = "a-key-that-has-no-shape-at-all"

    async def story() -> None:
        replies = [Reply(_openai(f"Your key is {key}."))]
        async with serving(*replies) as server, sidecar(store=tmp_path / "store.db") as client:
            past: JsonValue = [
                {"role": "user", "content": f"I have {key}"},
                {"role": "assistant", "content": "ok"},
                {"role": "user", "content": "what is it?"},
            ]
            told = await client.stream(
                provider="openai", baseUrl=server.url, apiKey=key, messages=past, streamId="s1"
            )
            assert server.asked[0].headers["authorization"] == f"Bearer {key}"
            assert key not in str(told)
            trace = await client.result("trace.fetch", {"traceId": "s1"})
            assert key not in str(trace)

    play(story())
    found = [path for path in tmp_path.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]
    assert found == []


def test_the_key_of_the_environment_is_not_sent_to_an_address_of_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)

    async def story() -> None:
        async with serving(Reply(_openai("hi"))) as server, sidecar() as client:
            await client.stream(provider="openai", baseUrl=server.url, messages=HELLO)
            assert server.asked[0].headers["authorization"] == "Bearer none"
            asked = {"provider": "anthropic", "model": "m", "baseUrl": server.url, "messages": HELLO}
            error = await client.error("agent.chat.stream", asked)
            assert error["code"] == -32602

    play(story())


@pytest.mark.parametrize(
    ("provider", "wire", "path", "header"),
    [
        ("openai", OPENAI, "/chat/completions", "authorization"),
        ("openai-compat", OPENAI, "/chat/completions", "authorization"),
        ("ollama", OPENAI, "/chat/completions", "authorization"),
        ("openai-responses", RESPONSES, "/responses", "authorization"),
        ("azure", OPENAI, "/openai/deployments/m-1/chat/completions?api-version=2024-10-21", "api-key"),
        ("anthropic", ANTHROPIC, "/v1/messages", "authorization"),
        ("google", GOOGLE, "/v1beta/models/m-1:streamGenerateContent?alt=sse", "x-goog-api-key"),
        ("bedrock", BEDROCK, "/model/m-1/converse-stream", "authorization"),
    ],
)
def test_every_provider_keeps_its_own_protocol_at_an_address_of_the_host(
    provider: str, wire: Wire, path: str, header: str
) -> None:
    async def story() -> None:
        async with serving(Reply(wire.text(["I am ", "fine."]))) as server, sidecar() as client:
            told = await client.stream(
                provider=provider, model="m-1", baseUrl=server.url, apiKey=KEY, maxTokens=9, messages=HELLO
            )
            assert said(told) == "I am fine."
            [asked] = server.asked
            assert asked.path == path
            assert asked.headers[header].removeprefix("Bearer ") == KEY
            assert "hello" in str(asked.body[wire.said])
            assert "9" in str({name: value for name, value in asked.body.items() if name != wire.said})

    play(story())


def test_the_sidecar_has_the_providers_of_the_runtime() -> None:
    async def story() -> None:
        async with sidecar() as client:
            health = cast(JsonObject, await client.result("system.ping"))
            assert health["loadedProviders"] == [*ROUTE_IDS]

    play(story())


@pytest.mark.parametrize("provider", ["anthropic", "azure", "google", "bedrock"])
def test_a_provider_that_needs_a_key_does_not_take_it_from_the_environment_for_an_address(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "AZURE_OPENAI_API_KEY", "GOOGLE_API_KEY", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("AWS_REGION", "us-east-1")

    async def story() -> None:
        async with serving(Reply()) as server, sidecar() as client:
            asked = {"provider": provider, "model": "m", "baseUrl": server.url, "messages": HELLO}
            error = await client.error("agent.chat.stream", asked)
            assert error["code"] == -32602
            assert server.asked == []

    play(story())


def test_a_cut_provider_stream_sends_restart_and_is_retried() -> None:
    async def story() -> None:
        cut = Reply(_openai("half an ans")[:1], end="cut")
        async with serving(cut, Reply(_openai("A whole answer."))) as server, sidecar() as client:
            told = await client.stream(provider="openai-compat", baseUrl=server.url, messages=HELLO)
            assert said(told) == "A whole answer."
            assert params_of(told[-1])["ok"] is True
            assert {"restart"} <= {name for message in told for name in params_of(message)}

    play(story())


def test_a_failed_run_sends_stream_error_and_then_done() -> None:
    async def story() -> None:
        refusal = Reply([b'{"error":{"message":"no such model"}}'], 404, {"content-type": "application/json"})
        async with serving(refusal) as server, sidecar() as client:
            told = await client.stream(provider="openai-compat", baseUrl=server.url, messages=HELLO)
            assert [message["method"] for message in told[-2:]] == ["stream.error", "stream.done"]
            assert params_of(told[-2])["kind"] == "internal"
            assert params_of(told[-1])["ok"] is False

    play(story())


def test_an_exhausted_budget_is_a_stream_error_of_its_own_kind() -> None:
    async def story() -> None:
        async with sidecar(weather) as client:
            told = await client.stream(
                messages=[{"role": "user", "content": "weather"}], budget={"maxSteps": 1}
            )
            assert params_of(told[-2])["kind"] == "budget_exhausted"
            assert "steps" in str(params_of(told[-2])["message"])

    play(story())


def test_a_call_that_needs_approval_is_denied_if_the_host_cannot_ask() -> None:
    async def story() -> None:
        async with sidecar(mail) as client:
            told = await client.stream(messages=[{"role": "user", "content": "mail"}])
            [result] = chunks(told, "toolResult")
            assert isinstance(result, dict)
            assert result["success"] is False
            assert chunks(told, "inputRequests") == []
            assert params_of(told[-1])["ok"] is True

    play(story())


def test_a_session_keeps_the_history_and_takes_one_message_at_a_time(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(Reply(_openai("one")), Reply(_openai("two"))) as server:
            async with sidecar(store=tmp_path / "store.db") as client:
                session = await client.result(
                    "agent.session.create", {"chatId": "c1", "sessionId": "trip", "userId": "ada"}
                )
                assert isinstance(session, dict)
                await client.stream(
                    provider="openai-compat",
                    baseUrl=server.url,
                    sessionId="trip",
                    streamId="s1",
                    messages=HELLO,
                )
                assert await _is_active(client) is False
            async with sidecar(store=tmp_path / "store.db") as client:
                await client.stream(
                    provider="openai-compat",
                    baseUrl=server.url,
                    sessionId="trip",
                    streamId="s2",
                    messages=HELLO,
                )
                said_then = [message["content"] for message in server.asked[1].body["messages"]]
                assert said_then == ["hello", "one", "hello"]
                trace = await client.result("trace.fetch", {"traceId": "s2"})
                assert isinstance(trace, dict)
                assert isinstance(trace["trace"], dict)
                assert trace["trace"]["chatId"] == "c1"
                assert trace["trace"]["userId"] == "ada"
                two: JsonValue = [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}]
                asked: JsonObject = {"provider": "demo", "model": "m", "sessionId": "trip", "messages": two}
                assert (await client.error("agent.chat.stream", asked))["code"] == -32602

    play(story())


async def _is_active(client: Client) -> JsonValue:
    sessions = await client.result("agent.session.list")
    assert isinstance(sessions, list)
    assert isinstance(sessions[0], dict)
    return sessions[0]["isActive"]


def _openai(text: str) -> list[bytes]:
    pieces = [f'{{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}']
    pieces += ['{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}', "[DONE]"]
    return [f"data: {piece}\n\n".encode() for piece in pieces]


def test_a_stream_with_unreadable_events_ends_with_an_error_and_can_be_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def broken(handle: RunHandle) -> AsyncGenerator[Event]:
        raise Unavailable("the disk is away", kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.RETRYABLE)
        yield

    async def story() -> None:
        async with sidecar(weather) as client:
            messages: JsonValue = [{"role": "user", "content": "weather"}]
            with monkeypatch.context() as patch:
                patch.setattr(RunHandle, "events", broken)
                told = await client.stream(streamId="s1", messages=messages)
            assert [message["method"] for message in told] == ["stream.error", "stream.done"]
            assert params_of(told[0])["message"] == "the disk is away"
            again = await client.stream(streamId="s1", messages=messages)
            assert params_of(again[-1])["ok"] is True

    play(story())


def test_a_stream_with_a_new_session_id_makes_a_session_that_is_listed(tmp_path: Path) -> None:
    async def story() -> None:
        async with sidecar(store=tmp_path / "store.db") as client:
            await client.stream(streamId="s1", sessionId="trip", messages=HELLO)
            await client.stream(streamId="s2", messages=HELLO)
            again = await client.stream(streamId="s1", sessionId="trip", messages=HELLO)
            assert params_of(again[-1]) == {"streamId": "s1", "ok": True}
            [session] = cast(list[JsonObject], await client.result("agent.session.list"))
            assert (session["sessionId"], session["chatId"], session["isActive"]) == ("trip", "trip", False)
            assert await client.result("agent.session.resume", {"sessionId": "trip"}) == session
            taken: JsonObject = {"sessionId": "trip", "chatId": "another"}
            assert (await client.error("agent.session.create", taken))["code"] == -32602
            # A host may choose any id, also one that looks like those of the runtime.
            await client.stream(streamId="s3", sessionId="session:mine", messages=HELLO)
            listed = cast(list[JsonObject], await client.result("agent.session.list"))
            assert [one["sessionId"] for one in listed] == ["session:mine", "trip"]

    play(story())


def test_sessions_are_in_the_journal_and_in_no_other_file(tmp_path: Path) -> None:
    async def story() -> None:
        async with sidecar(store=tmp_path / "store.db") as client:
            await client.result("agent.session.create", {"chatId": "c1", "sessionId": "trip"})
            records = await client.app.store.read("trip")
            assert [record.type for record in records] == ["session.state_changed"]

    play(story())
    names = {path.name for path in tmp_path.iterdir()}
    assert names >= {"store.db"}
    assert not {name for name in names if "session" in name}


def test_a_stream_of_shape_events_sends_the_events_of_the_run_and_nothing_else() -> None:
    async def story() -> None:
        async with sidecar(weather) as client:
            messages: JsonValue = [{"role": "user", "content": "weather"}]
            told = await client.stream(streamId="s1", messages=messages, shape="events")
            assert {str(message["method"]) for message in told} == {"stream.event", "stream.done"}
            assert params_of(told[-1]) == {"streamId": "s1", "ok": True}
            shown = [StreamEvent.model_validate(params_of(message)).event for message in told[:-1]]
            stored = [event for event in shown if event.meta.position is not None]
            feed = [event async for event in client.app.runtime.handle("s1").events()]
            wanted = [encode(event) for event in feed if event.meta.position is not None]
            assert [encode(event) for event in stored] == wanted
            assert stored[-1].type == "run.completed"
            assert "message.appended" in {event.type for event in shown}
            # The shape is no part of the run: the same stream can be asked for in the other one.
            again = await client.stream(streamId="s1", messages=messages)
            assert {str(message["method"]) for message in again} == {"stream.chunk", "stream.done"}
            error = await client.error(
                "agent.chat.stream", {"provider": "demo", "model": "m", "messages": messages, "shape": "eve"}
            )
            assert error["code"] == -32602

    play(story())


def test_a_stream_of_shape_events_that_fails_says_so_in_its_events_and_at_its_end() -> None:
    async def story() -> None:
        async with sidecar(weather) as client:
            messages: JsonValue = [{"role": "user", "content": "weather"}]
            told = await client.stream(
                streamId="s1", messages=messages, shape="events", budget={"maxSteps": 1}
            )
            assert {str(message["method"]) for message in told} == {"stream.event", "stream.done"}
            types = [StreamEvent.model_validate(params_of(message)).event.type for message in told[:-1]]
            assert types[-1] == "run.budget_exhausted"
            assert params_of(told[-1]) == {"streamId": "s1", "ok": False}

    play(story())
