"""Provider requests: messages, tools, files and cache marks in the format of each API."""

import base64
import json
from typing import Any

import pytest
from tests.models.wire import ANTHROPIC, OPENAI, Json, Reply, Wire, ask

from windlass.models import ModelSettings
from windlass.models.messages import wire_call_id, wire_name
from windlass.models.openai import is_strict
from windlass.models.transport import MAX_TOKENS
from windlass.ports.model import LLMMessage, ModelRejected
from windlass_protocol import JsonObject, ToolCall

PNG = base64.b64encode(b"\x89PNG").decode()
LOOK: JsonObject = {
    "name": "look",
    "description": "Look.",
    "inputSchema": {"type": "object", "properties": {}},
}
BARE: JsonObject = {"name": "bare", "description": "", "inputSchema": None}
STORY = (
    LLMMessage("system", "Be kind."),
    LLMMessage("system", "Be short."),
    LLMMessage("user", "Find both."),
    LLMMessage(
        "assistant",
        "I look. ",
        reasoning="Where?",
        tool_calls=(
            ToolCall(id="a.b+", name="files.look", arguments={"item": "ä"}),
            ToolCall(id="c", name="look", arguments={}),
        ),
    ),
    LLMMessage("tool", "here", tool_call_id="a.b+", name="files.look"),
    LLMMessage("tool", "gone", tool_call_id="c", name="look", is_error=True),
    LLMMessage("assistant", ""),
    LLMMessage("user", "Well?"),
)


def sent(wire: Wire, *messages: LLMMessage, settings: ModelSettings | None = None, **options: Any) -> Json:
    """The body that the server got."""
    _, [asked] = ask(wire, Reply(wire.text(["ok"])), messages=messages, settings=settings, **options)
    assert asked.path == ("/v1/chat/completions" if wire is OPENAI else "/v1/messages")
    return asked.body


def user(*parts: JsonObject) -> LLMMessage:
    return LLMMessage("user", parts=parts)


def test_a_story_as_chat_completions_has_it() -> None:
    body = sent(OPENAI, *STORY, tools=[LOOK, BARE], temperature=0.5)
    name = wire_name("files.look")
    arguments = json.dumps({"item": "ä"}, ensure_ascii=False, separators=(",", ":"))
    assert body == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
        "messages": [
            {"role": "system", "content": "Be kind.\n\nBe short."},
            {"role": "user", "content": "Find both."},
            {
                "role": "assistant",
                "content": "I look. ",
                "tool_calls": [
                    {
                        "id": wire_call_id("a.b+"),
                        "type": "function",
                        "function": {"name": name, "arguments": arguments},
                    },
                    {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": wire_call_id("a.b+"), "content": "here"},
            {"role": "tool", "tool_call_id": "c", "content": "Error: gone"},
            {"role": "user", "content": "Well?"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "look", "description": "Look.", "parameters": LOOK["inputSchema"]},
            },
            {
                "type": "function",
                "function": {"name": "bare", "parameters": {"type": "object", "properties": {}}},
            },
        ],
    }


def test_a_story_as_the_messages_api_has_it_with_four_marks_for_its_cache() -> None:
    body = sent(ANTHROPIC, *STORY, tools=[LOOK, BARE], temperature=1.5)
    cached = {"cache_control": {"type": "ephemeral"}}
    first = wire_call_id("a.b+")
    assert body == {
        "model": "m",
        "stream": True,
        "max_tokens": MAX_TOKENS,
        "temperature": 1.0,
        "system": [{"type": "text", "text": "Be kind."}, {"type": "text", "text": "Be short.", **cached}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Find both."}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I look."},
                    {
                        "type": "tool_use",
                        "id": first,
                        "name": wire_name("files.look"),
                        "input": {"item": "ä"},
                    },
                    {"type": "tool_use", "id": "c", "name": "look", "input": {}, **cached},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": first, "content": "here"},
                    {"type": "tool_result", "tool_use_id": "c", "content": "gone", "is_error": True},
                    {"type": "text", "text": "Well?", **cached},
                ],
            },
        ],
        "tools": [
            {"name": "look", "description": "Look.", "input_schema": LOOK["inputSchema"]},
            {"name": "bare", "input_schema": {"type": "object", "properties": {}}, **cached},
        ],
    }


def test_without_caching_a_request_has_no_cache_marks() -> None:
    body = sent(ANTHROPIC, *STORY, settings=ModelSettings(is_cached=False), tools=[LOOK])
    assert "cache_control" not in json.dumps(body)


def test_tool_results_precede_other_user_content() -> None:
    body = sent(ANTHROPIC, *STORY[2:4], LLMMessage("user", "Hurry."), *STORY[4:6])
    kinds = [block["type"] for block in body["messages"][-1]["content"]]
    assert kinds == ["tool_result", "tool_result", "text"]


def test_empty_texts_are_left_out_or_replaced() -> None:
    silent = (LLMMessage("system", ""), LLMMessage("assistant", " "), LLMMessage("user", ""))
    body = sent(ANTHROPIC, *silent, settings=ModelSettings(is_cached=False))
    assert "system" not in body
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "(nothing)"}]}]
    blank = sent(ANTHROPIC, user({"type": "text", "text": " "}), settings=ModelSettings(is_cached=False))
    assert blank["messages"][0]["content"] == [{"type": "text", "text": "(nothing)"}]
    assert sent(OPENAI, *silent)["messages"][-1] == {"role": "user", "content": ""}
    empty = LLMMessage("tool", "", tool_call_id="c")
    result = sent(ANTHROPIC, *STORY[2:4], empty)["messages"][-1]["content"][0]
    assert "content" not in result


def test_a_conversation_begins_with_the_user_and_keeps_later_system_messages() -> None:
    body = sent(ANTHROPIC, LLMMessage("assistant", "Hello."), LLMMessage("system", "Be kind."))
    assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "user"]
    assert body["messages"][-1]["content"][0]["text"] == "<system>\nBe kind.\n</system>"
    later = sent(OPENAI, LLMMessage("user", "Hi"), LLMMessage("system", "Be kind."))["messages"]
    assert later[-1] == {"role": "system", "content": "Be kind."}


def test_images_and_files_are_sent_in_the_format_of_each_api() -> None:
    parts: tuple[JsonObject, ...] = (
        {"type": "text", "text": "See:"},
        {"type": "text", "text": ""},
        {"type": "image", "image": f"data:image/png;base64,{PNG}"},
        {"type": "image", "image": "https://example.org/a.png", "mediaType": "image/png"},
        {"type": "file", "data": f"data:application/pdf;base64,{PNG}", "mediaType": "application/pdf"},
        {"type": "file", "data": f"data:;base64,{PNG}", "mediaType": "image/png"},
        {"type": "file", "data": "data:,a%20b", "mediaType": "text/csv", "filename": "a.csv"},
        {"type": "file", "data": "data:,", "mediaType": "text/csv"},
    )
    url = f"data:image/png;base64,{PNG}"
    assert sent(OPENAI, user(*parts))["messages"][0]["content"] == [
        {"type": "text", "text": "See:"},
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "file", "file": {"filename": "file", "file_data": f"data:application/pdf;base64,{PNG}"}},
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "text", "text": "File a.csv:\na b"},
    ]
    titled: JsonObject = {**parts[4], "filename": "a.pdf"}
    body = sent(ANTHROPIC, user(*parts, titled), settings=ModelSettings(is_cached=False))
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    document = {"type": "base64", "media_type": "application/pdf", "data": PNG}
    assert body["messages"][0]["content"] == [
        {"type": "text", "text": "See:"},
        {"type": "image", "source": source},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {"type": "document", "source": document},
        {"type": "image", "source": source},
        {"type": "text", "text": "File a.csv:\na b"},
        {"type": "document", "source": document, "title": "a.pdf"},
    ]


def test_files_of_text_alone_are_text() -> None:
    part: JsonObject = {"type": "file", "data": "data:,x", "mediaType": "text/plain"}
    assert sent(OPENAI, user({"type": "text", "text": "a"}, part))["messages"][0]["content"] == "a\n\nx"


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        (
            {"type": "file", "data": "https://example.org/a.pdf", "mediaType": "application/pdf"},
            "by their address",
        ),
        ({"type": "image", "image": "data:image/png;base64,%%"}, "not valid base64"),
        ({"type": "image", "image": ""}, "neither an http address"),
    ],
)
def test_unsendable_parts_are_refused(part: JsonObject, problem: str) -> None:
    with pytest.raises(ModelRejected, match=problem):
        sent(OPENAI, user(part))


@pytest.mark.parametrize("wire", [OPENAI, ANTHROPIC])
def test_unsendable_parts_of_earlier_messages_become_a_note(wire: Wire) -> None:
    old = user({"type": "image", "image": "blob:x"}, {"type": "file", "data": "?", "filename": "a.pdf"})
    body = json.dumps(sent(wire, old, LLMMessage("user", "And now?"))["messages"])
    assert "[image left out: it is neither an http address" in body
    assert "[file a.pdf left out: " in body
    assert "And now?" in body


def test_unsupported_files_of_earlier_messages_become_a_note() -> None:
    part: JsonObject = {"type": "file", "data": "https://a.b/c.pdf", "mediaType": "application/pdf"}
    [first, _] = sent(OPENAI, user(part), LLMMessage("user", "And now?"))["messages"]
    assert first["content"].startswith("[file left out: Chat Completions takes no files by their address")


def test_settings_have_their_place_and_unknown_ones_pass() -> None:
    settings = ModelSettings(max_tokens=7, body={"reasoning_effort": "low"}, headers={"x-team": "blue"})
    _, [asked] = ask(OPENAI, Reply(OPENAI.text(["ok"])), settings=settings)
    assert (asked.body["max_tokens"], asked.body["reasoning_effort"]) == (7, "low")
    assert asked.headers["x-team"] == "blue"
    assert sent(ANTHROPIC, *STORY, settings=settings)["max_tokens"] == 7


def test_thoughts_go_back_only_where_a_server_takes_them() -> None:
    assert "Where?" not in json.dumps(sent(OPENAI, *STORY))
    settings = ModelSettings(reasoning_field="reasoning_content")
    assert sent(OPENAI, *STORY, settings=settings)["messages"][2]["reasoning_content"] == "Where?"


def test_a_model_does_not_think_between_a_call_and_its_result() -> None:
    settings = ModelSettings(body={"thinking": {"type": "enabled", "budget_tokens": 1024}})
    assert "thinking" in sent(ANTHROPIC, *STORY, settings=settings)
    assert "thinking" not in sent(ANTHROPIC, *STORY[:6], settings=settings)


def test_names_are_kept_if_they_can_be_and_never_meet_if_not() -> None:
    assert wire_name("files_read-2") == "files_read-2"
    odd = ["a.b", "a b", "a_b", "ä" * 70, "ö" * 70, "x" * 65, "x" * 66, ""]
    assert len({wire_name(name) for name in odd}) == len(odd)
    assert all(0 < len(wire_name(name)) <= 64 for name in odd)
    assert all(0 < len(wire_call_id(name)) <= 40 for name in odd)


def test_a_schema_is_strict_only_if_every_object_in_it_is() -> None:
    closed: JsonObject = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert is_strict(closed)
    assert is_strict({"type": "string"})
    assert is_strict({"anyOf": [closed, {"type": "null"}]})
    assert not is_strict({**closed, "required": []})
    assert not is_strict({"anyOf": [closed, {"type": "object"}]})
