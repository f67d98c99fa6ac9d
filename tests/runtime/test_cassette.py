"""Answers that are recorded once and played again."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from windlass import LLMMessage, LLMStreamChunk, LLMUsage, Rejected, ToolCall, ToolCallDelta
from windlass.ports.model import BilledRequest
from windlass.testing import Answer, Cassette, ScriptedModel, call, say
from windlass_protocol import JsonObject

SECRET = "hunter2-hunter2-hunter2"
HI = (LLMMessage("user", "Hi"),)
TOOL: JsonObject = {"name": "look", "description": "", "inputSchema": {"type": "object"}}


def play(
    cassette: Cassette, *, messages: Sequence[LLMMessage] = HI, **options: float
) -> list[LLMStreamChunk]:
    async def work() -> list[LLMStreamChunk]:
        stream = cassette.stream(messages, tools=[TOOL], temperature=options.get("temperature"))
        return [chunk async for chunk in stream]

    return asyncio.run(work())


def text(chunks: Sequence[LLMStreamChunk]) -> str:
    return "".join(chunk.content_delta or "" for chunk in chunks)


def test_a_recorded_answer_is_played_without_a_provider(tmp_path: Path) -> None:
    path = tmp_path / "tapes" / "a.jsonl"
    billed = BilledRequest("chat", {"prompt_tokens": 3}, "m", more={"web_searches": 1})
    usage = LLMUsage(3, 4, billed=(billed,))
    answer = say("Hello", reasoning="Hm.", usage=usage) + call("look", {"item": "key"}, call_id="c")
    answer += Answer(provider_data={"me": 1})
    first = play(Cassette(path, ScriptedModel([answer], chunk_chars=3)))
    again = play(Cassette(path))
    assert text(again) == text(first) == "Hello"
    assert "".join(chunk.reasoning_delta or "" for chunk in again) == "Hm."
    deltas = [chunk.tool_call_delta for chunk in again if isinstance(chunk.tool_call_delta, ToolCallDelta)]
    assert (deltas[0].id, deltas[0].name) == ("c", "look")
    assert json.loads("".join(delta.arguments_delta for delta in deltas)) == {"item": "key"}
    assert (again[-1].usage, again[-1].finish_reason) == (usage, "tool-calls")
    assert again[-1].usage is not None
    assert again[-1].usage.billed == (billed,)
    assert again[-1].provider_data == {"me": 1}


def test_a_whole_call_stays_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    play(Cassette(path, ScriptedModel([call("look", {"item": "key"}, call_id="c")])))
    [chunk] = [chunk for chunk in play(Cassette(path)) if chunk.tool_call_delta]
    assert chunk.tool_call_delta == ToolCall(id="c", name="look", arguments={"item": "key"})


def test_a_request_without_a_recording_is_rejected_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    play(Cassette(path, ScriptedModel([say("Hello")])))
    cassette = Cassette(path)
    more = (*HI, LLMMessage("assistant", "Hello"), LLMMessage("user", "Ho"))
    for messages, options, told in (
        ((LLMMessage("user", "Ho"),), {}, "message 1 (user) changed;"),
        (more, {}, "message 2 (assistant) is new, message 3 (user) is new;"),
        ((), {}, "message 1 (user) is missing;"),
        (HI, {"temperature": 0.5}, "temperature changed;"),
    ):
        with pytest.raises(Rejected) as refused:
            play(cassette, messages=messages, **options)
        assert f"has no recording of this request: in the nearest one of 1, {told}" in refused.value.message
        assert "give the cassette a provider" in refused.value.message
        assert "Ho" not in refused.value.message, "an error has no payload"
    with pytest.raises(Rejected, match="there are no recordings"):
        play(Cassette(tmp_path / "b.jsonl"))


def test_a_repeated_request_plays_the_next_recording_and_then_the_last_one(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    recorder = Cassette(path, ScriptedModel([say("one"), say("two")]))
    assert [text(play(recorder)), text(play(recorder))] == ["one", "two"]
    player = Cassette(path)
    assert [text(play(player)) for _ in range(3)] == ["one", "two", "two"]


def test_secrets_are_not_kept_even_if_they_come_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    words = f"It is {SECRET}, and sk-ant-api03-{'a' * 40} too."
    answer = say(words, reasoning=SECRET) + call("look", {"item": SECRET}, call_id="c")
    for size in (None, 4):
        model = ScriptedModel([answer], chunk_chars=size)
        asked = [LLMMessage("user", f"My key is {SECRET}, attempt {size}")]
        assert text(play(Cassette(path, model, secrets=[SECRET]), messages=asked)) == words
    kept = path.read_text(encoding="utf-8")
    assert "hunter2" not in kept
    assert "My key is" not in kept, "a request is kept as digests"
    assert "aaaa" not in kept
    assert "It is " in kept


def test_a_secret_that_has_changed_is_the_same_request(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    old = [LLMMessage("user", f"key {SECRET}")]
    play(Cassette(path, ScriptedModel([say("ok")]), secrets=[SECRET]), messages=old)
    new = [LLMMessage("user", "key another-secret-of-mine")]
    assert text(play(Cassette(path, secrets=["another-secret-of-mine"]), messages=new)) == "ok"


def test_half_an_answer_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    play(Cassette(path, ScriptedModel([Answer("Hel", is_cut_off=True)])))
    assert not path.exists()


@pytest.mark.parametrize("line", ["nonsense", "[]", "{}", '{"version": 1, "key": "a", "chunks": []}'])
def test_a_file_that_is_no_cassette_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(line, encoding="utf-8")
    with pytest.raises(Rejected, match="line 1"):
        Cassette(path)
