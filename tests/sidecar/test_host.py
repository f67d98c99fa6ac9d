"""Requests to the host: tools that it executes, and questions to people."""

import asyncio
from pathlib import Path
from typing import cast

import pytest
from tests.sidecar.rig import Client, params_of, play, said, sidecar
from tests.sidecar.test_streams import chunks, mail

from windlass import tool
from windlass.tools.question import ask_question
from windlass_protocol import JsonObject, JsonValue

OPEN_FILE: JsonObject = {
    "name": "open_file",
    "description": "Open a file in the editor.",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    "mode": "read",
}
AS_OPENAI: JsonObject = {
    "type": "function",
    "function": {"name": "open_file", "parameters": OPEN_FILE["inputSchema"]},
    "mode": "read",
}
INPUT: JsonObject = {"host": {"features": ["host.input.request"]}}


async def start(client: Client, text: str, **params: JsonValue) -> None:
    asked: JsonValue = [{"role": "user", "content": text}]
    given: JsonObject = {"provider": "demo", "model": "m", "streamId": "s1", "messages": asked, **params}
    await client.result("agent.chat.stream", given)


@pytest.mark.parametrize("described", [OPEN_FILE, AS_OPENAI], ids=["ours", "as OpenAI writes it"])
def test_a_tool_of_the_host_is_executed_by_the_host(described: JsonObject) -> None:
    async def story() -> None:
        async with sidecar() as client:
            await start(client, "open_file", tools=[described])
            request = await client.method("host.tool.call")
            params = params_of(request)
            assert params["call"] == {"id": "demo-1", "name": "open_file", "arguments": {"path": "open_file"}}
            assert (params["streamId"], params["attempt"]) == ("s1", 1)
            assert isinstance(params["idempotencyKey"], str)
            client.answer(request, {"success": True, "data": {"lines": 3}})
            done = await client.method("stream.done")
            assert params_of(done)["ok"] is True
            assert {"lines": 3} in [
                cast(JsonObject, one).get("data") for one in chunks(_stream_messages(client), "toolResult")
            ]

    play(story())


def _stream_messages(client: Client) -> list[JsonObject]:
    return [message for message in client.heard if str(message.get("method")).startswith("stream.")]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"error": {"code": -32601, "message": "no such thing"}}, "no such thing"),
        ({"result": {"success": False, "error": "the disk is full"}}, "the disk is full"),
        ({"result": "yes"}, "something else than a ToolResult"),
        ({"result": 1, "error": 2}, "no JSON-RPC response"),
    ],
    ids=["refused", "failed", "something else", "nonsense"],
)
def test_the_error_of_a_host_tool_is_passed_to_the_model(answer: JsonObject, words: str) -> None:
    async def story() -> None:
        async with sidecar() as client:
            await start(client, "open_file", tools=[OPEN_FILE])
            request = await client.method("host.tool.call")
            client.send({"jsonrpc": "2.0", "id": request["id"], **answer})
            await client.method("stream.done")
            [result] = chunks(_stream_messages(client), "toolResult")
            assert isinstance(result, dict)
            assert result["success"] is False
            assert words in str(result["error"])

    play(story())


def test_cancelling_a_stream_withdraws_its_call_to_the_host() -> None:
    async def story() -> None:
        async with sidecar() as client:
            await start(client, "open_file", tools=[OPEN_FILE])
            request = await client.method("host.tool.call")
            await client.result("agent.chat.cancel", {"streamId": "s1"})
            await client.method("stream.done")
            withdrawn = [
                params_of(one) for one in client.heard if one.get("method") == "host.request.cancelled"
            ]
            assert withdrawn == [{"id": request["id"]}]
            client.answer(request, {"success": True})
            assert (await client.call("system.ping"))["result"]

    play(story())


def test_an_approval_is_a_request_to_the_host_and_its_answer_counts() -> None:
    async def story() -> None:
        async with sidecar(mail) as client:
            await client.result("protocol.describe", INPUT)
            await start(client, "mail")
            request = await client.method("host.input.request")
            asked = cast(JsonObject, params_of(request)["request"])
            assert asked["kind"] == "approval"
            assert "Run mail?" in str(asked["prompt"])
            client.answer(request, {"optionId": "approve", "responder": "ada"})
            await client.method("stream.done")
            [result] = chunks(_stream_messages(client), "toolResult")
            assert isinstance(result, dict)
            assert result["data"] == "sent"
            [requests] = chunks(_stream_messages(client), "inputRequests")
            assert requests == [asked]

    play(story())


def test_an_invalid_answer_is_asked_for_again_with_the_reason() -> None:
    async def story() -> None:
        async with sidecar(mail) as client:
            await client.result("protocol.describe", INPUT)
            await start(client, "mail")
            first = await client.method("host.input.request")
            assert "problem" not in params_of(first)
            client.answer(first, {"optionId": "maybe"})
            second = await client.method("host.input.request")
            assert params_of(second)["problem"]
            client.answer(second, ["approve"])
            third = await client.method("host.input.request")
            assert "expected an object with optionId" in str(params_of(third)["problem"])
            client.refuse(third)
            # The host is not asked again; an answer by `agent.input.answer` still counts.
            request_id = str(cast(JsonObject, params_of(third)["request"])["requestId"])
            given: JsonObject = {"streamId": "s1", "requestId": request_id, "optionId": "deny"}
            assert await client.result("agent.input.answer", given) is None
            await client.method("stream.done")
            [result] = chunks(_stream_messages(client), "toolResult")
            assert isinstance(result, dict)
            assert result["success"] is False
            assert (await client.error("agent.input.answer", given))["code"] == -32602

    play(story())


def test_a_host_may_answer_later_and_a_settled_request_is_withdrawn() -> None:
    async def story() -> None:
        async with sidecar(mail) as client:
            await client.result("protocol.describe", INPUT)
            await start(client, "mail")
            request = await client.method("host.input.request")
            request_id = str(cast(JsonObject, params_of(request)["request"])["requestId"])
            given: JsonObject = {"streamId": "s1", "requestId": request_id, "optionId": "approve"}
            assert await client.result("agent.input.answer", given) is None
            withdrawn = await client.method("host.request.cancelled")
            assert params_of(withdrawn) == {"id": request["id"]}
            assert params_of(await client.method("stream.done"))["ok"] is True

    play(story())


def test_a_host_that_defers_its_answer_is_not_asked_again() -> None:
    async def story() -> None:
        async with sidecar(mail) as client:
            await client.result("protocol.describe", INPUT)
            await start(client, "mail")
            client.answer(await client.method("host.input.request"), None)
            await client.result("system.ping")
            await client.result("agent.chat.cancel", {"streamId": "s1"})
            await client.method("stream.done")
            asked = [one for one in client.heard if one.get("method") == "host.input.request"]
            assert len(asked) == 1

    play(story())


def test_a_question_of_the_model_reaches_the_host() -> None:
    async def story() -> None:
        async with sidecar(ask_question) as client:
            await start(client, "ask question", requestInput=True, tools=["ask_question"])
            [requests] = [
                params_of(await client.until(lambda one: "inputRequests" in params_of(one)))["inputRequests"]
            ]
            [request] = cast(list[JsonObject], requests)
            assert request["kind"] == "question"
            given: JsonObject = {"streamId": "s1", "requestId": request["requestId"], "text": "in Oslo"}
            await client.result("agent.input.answer", given)
            await client.method("stream.done")
            assert "in Oslo" in said(_stream_messages(client))
            assert all(one.get("method") != "host.input.request" for one in client.heard), (
                "it never said it can"
            )

    play(story())


def test_a_stream_that_was_cut_off_goes_on_when_it_is_asked_for_again(tmp_path: Path) -> None:
    done: list[str] = []

    @tool(mode="safe_write", effect="once")
    async def note(text: str) -> str:
        """Write something down."""
        done.append(text)
        return "noted"

    async def story() -> None:
        async with sidecar(note, mail, store=tmp_path / "store.db") as client:
            await client.result("protocol.describe", INPUT)
            await start(client, "note then mail")
            await client.method("host.input.request")
        ends = [params_of(one) for one in _drained(client) if one.get("method") == "stream.error"]
        assert [end["kind"] for end in ends] == ["transport_closed"]
        async with sidecar(note, mail, store=tmp_path / "store.db") as client:
            await client.result("protocol.describe", INPUT)
            await start(client, "note then mail")
            client.answer(await client.method("host.input.request"), {"optionId": "approve"})
            assert params_of(await client.method("stream.done"))["ok"] is True
            assert len(chunks(_stream_messages(client), "toolResult")) == 2
        assert done == ["note then mail"]

    play(story())


def _drained(client: Client) -> list[JsonObject]:
    found = [*client.heard]
    while not client.line.sent.empty():
        found.append(client.line.sent.get_nowait())
    return found


def test_the_number_of_concurrent_calls_to_the_host_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass_sidecar.rpc.HOST_CALLS_MAX", 0)

    async def story() -> None:
        async with sidecar() as client:
            await start(client, "open_file", tools=[OPEN_FILE])
            await client.method("stream.done")
            [result] = chunks(_stream_messages(client), "toolResult")
            assert "too many requests to the host" in str(result)

    play(story())


def test_requests_beyond_the_limit_are_refused_and_ping_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("windlass_sidecar.rpc.REQUESTS_MAX", 1)

    async def story() -> None:
        gate = asyncio.Event()

        @tool(mode="read")
        async def slow() -> str:
            """Wait."""
            await gate.wait()
            return "done"

        async with sidecar(slow) as client:
            client.ask("tool.invoke", {"name": "slow"}, call_id="slow")
            assert (await client.error("tool.list"))["code"] == -32005
            assert (await client.call("system.ping"))["result"]
            gate.set()
            answer = await client.until(lambda one: one.get("id") == "slow")
            assert answer["result"] == {"success": True, "data": "done"}
            assert isinstance(await client.result("tool.list"), list)

    play(story())
