"""Provider answers, against a server that speaks the wire format."""

import json
import subprocess
import sys
from collections.abc import Callable

import pytest
from tests.models.wire import (
    ANTHROPIC,
    BEDROCK,
    HI,
    KEY,
    OPENAI,
    SSE,
    WIRES,
    Json,
    Reply,
    Wire,
    anthropic_blocks,
    ask,
    collect,
    event,
    openai_chunk,
    play,
    serving,
)

from tools.files import ROOT
from windlass.models import ModelSettings
from windlass.ports.model import LLMUsage
from windlass_protocol import JsonObject

BOTH = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
ODD: JsonObject = {"name": "files.read ä", "description": "Read.", "inputSchema": {"type": "object"}}


@BOTH
def test_text_comes_in_the_pieces_that_the_server_sent(wire: Wire) -> None:
    async def work() -> list[str]:
        async with serving(Reply(wire.text(["Hel", "lo", " ", "ä🙂"]))) as server:
            provider = wire.make(server.url, ModelSettings())
            chunks = [chunk async for chunk in provider.stream(HI)]
            await provider.aclose()
            return [chunk.content_delta for chunk in chunks if chunk.content_delta]

    assert play(work) == ["Hel", "lo", " ", "ä🙂"]


@BOTH
def test_an_answer_ends_with_finish_reason_and_usage(wire: Wire) -> None:
    heard, _ = ask(wire, Reply(wire.text(["Hello"])))
    assert heard.text == "Hello"
    assert heard.finish in {"stop", "end_turn"}
    written = 1 if wire in (ANTHROPIC, BEDROCK) else None
    thought = None if wire is BEDROCK else 2
    assert heard.usage == LLMUsage(
        12, 5, cache_read_tokens=8, cache_write_tokens=written, reasoning_tokens=thought
    )


@BOTH
def test_calls_side_by_side_are_put_together_by_their_index(wire: Wire) -> None:
    asked = [("call_a", "look", ['{"it', 'em": "key"}']), ("call_b", "mail", ["{}"])]
    heard, _ = ask(wire, Reply(wire.calls(asked)))
    assert heard.calls == {0: ["call_a", "look", '{"item": "key"}'], 1: ["call_b", "mail", "{}"]}
    assert heard.finish in {"tool_calls", "tool_use"}


@BOTH
def test_events_may_be_cut_anywhere(wire: Wire) -> None:
    stream = b"".join(wire.text(["Hel", "lä"]))
    pieces = [stream[at : at + 3] for at in range(0, len(stream), 3)]
    assert ask(wire, Reply(pieces))[0].text == "Hellä"


@pytest.mark.parametrize("wire", SSE.values(), ids=SSE)
def test_lines_may_end_as_in_windows_and_comments_say_nothing(wire: Wire) -> None:
    stream = b": hello\r\n\r\n" + b"".join(wire.text(["Hello"])).replace(b"\n", b"\r\n")
    assert ask(wire, Reply([stream]))[0].text == "Hello"


@BOTH
def test_a_name_that_the_api_forbids_is_replaced_and_comes_back(wire: Wire) -> None:
    async def work() -> tuple[str, str]:
        # The name on the wire is known once it was sent.
        async with serving(Reply(wire.text(["ok"]))) as server:
            provider = wire.make(server.url, ModelSettings())
            await collect(provider.stream(HI, tools=[ODD]))
            await provider.aclose()
        [sent] = wire.names(server.asked[0].body)
        async with serving(Reply(wire.calls([("c", sent, ["{}"])]))) as server:
            provider = wire.make(server.url, ModelSettings())
            heard = await collect(provider.stream(HI, tools=[ODD]))
            await provider.aclose()
        return sent, heard.calls[0][1]

    sent, back = play(work)
    assert sent.isascii()
    assert sent.replace("_", "").replace("-", "").isalnum()
    assert len(sent) <= 64
    assert back == ODD["name"]


@BOTH
def test_a_connection_is_used_again(wire: Wire) -> None:
    async def work() -> tuple[int, int]:
        async with serving(Reply(wire.text(["a"])), Reply(wire.text(["b"]))) as server:
            provider = wire.make(server.url, ModelSettings())
            for _ in range(3):
                await collect(provider.stream(HI))
            await provider.aclose()
            return server.connections, len(server.asked)

    assert play(work) == (1, 3)


TWO_LOOPS = """
from tests.models.wire import HI, WIRES, Reply, collect, play, serving
from windlass.models import ModelSettings

wire, made, ports = WIRES["{name}"], [], [0]

async def work():
    async with serving(Reply(wire.text(["a"])), port=ports[0]) as server:
        ports[0] = server.port
        if not made:
            made.append(wire.make(server.url, ModelSettings()))
        print((await collect(made[0].stream(HI))).text, end="")

play(work)
play(work)
"""
"""A script that closes nothing; the resource warnings of Python are not tested."""


@pytest.mark.slow
@BOTH
def test_a_provider_can_be_used_in_one_event_loop_after_another(wire: Wire) -> None:
    program = TWO_LOOPS.replace("{name}", wire.name)
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout, done.stderr) == ("aa", "")


@BOTH
def test_the_key_is_sent_and_never_shown(wire: Wire) -> None:
    _, [asked] = ask(wire, Reply(wire.text(["a"])))
    assert KEY in "".join(asked.headers.values())
    provider = wire.make("http://user:hunter22@127.0.0.1", ModelSettings())
    assert KEY not in repr(provider) + repr(vars(provider))
    assert "hunter22" not in repr(provider) + repr(vars(provider))


@BOTH
def test_answers_can_be_held_to_a_schema_without_changing_the_model(wire: Wire) -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }

    async def work() -> list[Json]:
        async with serving(Reply(wire.text(["{}"]))) as server:
            provider = wire.make(server.url, ModelSettings())
            await collect(provider.with_output(schema).stream(HI))
            await collect(provider.stream(HI))
            await provider.aclose()
            assert server.connections == 1
            return [asked.body for asked in server.asked]

    first, second = play(work)
    place, expected = SCHEMAS[wire.name](schema)
    assert first[place] == expected
    assert place not in second


SCHEMAS: dict[str, Callable[[JsonObject], tuple[str, object]]] = {
    "openai": lambda schema: (
        "response_format",
        {"type": "json_schema", "json_schema": {"name": "output", "schema": schema, "strict": True}},
    ),
    "anthropic": lambda schema: ("output_config", {"format": {"type": "json_schema", "schema": schema}}),
    "responses": lambda schema: (
        "text",
        {"format": {"type": "json_schema", "name": "output", "schema": schema, "strict": True}},
    ),
    "google": lambda schema: (
        "generationConfig",
        {"responseMimeType": "application/json", "responseJsonSchema": schema},
    ),
    "bedrock": lambda schema: (
        "outputConfig",
        {
            "textFormat": {
                "type": "json_schema",
                "structure": {
                    "jsonSchema": {"name": "output", "schema": json.dumps(schema, separators=(",", ":"))}
                },
            }
        },
    ),
}


# OpenAI's format as other servers speak it


def openai(*deltas: JsonObject, finish: str = "stop") -> Reply:
    return Reply([*(openai_chunk(delta) for delta in deltas), openai_chunk({}, finish)])


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_thoughts_come_wherever_a_server_puts_them(name: str) -> None:
    heard, _ = ask(OPENAI, openai({name: "Hm. "}, {name: "So."}, {"content": "Yes"}))
    assert (heard.reasoning, heard.text) == ("Hm. So.", "Yes")


def test_calls_with_the_same_index_are_distinguished_by_id() -> None:
    def whole(call_id: str) -> JsonObject:
        return {"tool_calls": [{"index": 0, "id": call_id, "function": {"name": "f", "arguments": "{}"}}]}

    heard, _ = ask(OPENAI, openai(whole("a"), whole("b"), finish="tool_calls"))
    assert heard.calls == {0: ["a", "f", "{}"], 1: ["b", "f", "{}"]}


def test_a_call_without_an_index_and_with_its_id_in_every_piece_is_one_call() -> None:
    def piece(arguments: str) -> JsonObject:
        return {"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": arguments}}]}

    heard, _ = ask(OPENAI, openai(piece('{"x"'), piece(": 1}"), finish="tool_calls"))
    assert heard.calls == {0: ["a", "f", '{"x": 1}']}


def test_a_refusal_is_shown_and_ends_as_one() -> None:
    heard, _ = ask(OPENAI, openai({"refusal": "I will not."}))
    assert (heard.text, heard.finish) == ("I will not.", "refusal")


def test_a_stream_without_its_done_mark_is_complete_after_the_finish_reason() -> None:
    assert ask(OPENAI, openai({"content": "Yes"}))[0].text == "Yes"


def test_a_chunk_without_a_delta_or_usage_says_nothing() -> None:
    odd = event({"choices": [{"index": 0, "delta": None, "finish_reason": None}], "usage": None})
    assert ask(OPENAI, Reply([odd, *OPENAI.text(["Yes"])]))[0].text == "Yes"


# Anthropic's


def test_thoughts_of_blocks_come_apart_from_their_text_and_signatures_are_not_shown() -> None:
    thoughts: list[Json] = [
        {"type": "thinking_delta", "thinking": "Hm."},
        {"type": "signature_delta", "signature": "x"},
    ]
    blocks: list[tuple[Json, list[Json]]] = [
        ({"type": "thinking", "thinking": "So. "}, thoughts),
        ({"type": "redacted_thinking", "data": "x"}, []),
        ({"type": "text", "text": "Y"}, [{"type": "text_delta", "text": "es"}]),
    ]
    heard, _ = ask(ANTHROPIC, Reply(anthropic_blocks(blocks, "end_turn")))
    assert (heard.reasoning, heard.text) == ("So. Hm.", "Yes")


def test_unknown_stream_events_are_passed_over() -> None:
    events = ANTHROPIC.text(["Yes"])
    news = event({"type": "weather", "fine": True}, "weather")
    assert ask(ANTHROPIC, Reply([events[0], news, *events[1:]]))[0].text == "Yes"
