"""Requests and answers of the Responses API, Gemini, Bedrock and Azure, where they differ from the others."""

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import botocore.session
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.validate import ParamValidator
from openai.types.responses.response_input_item_param import ResponseInputItemParam
from openai.types.responses.tool_param import ToolParam
from pydantic import TypeAdapter
from tests.models.test_requests import BARE, LOOK, PNG, STORY, user
from tests.models.wire import (
    ANTHROPIC,
    BEDROCK,
    CLAUDE,
    GOOGLE,
    GOOGLE_USAGE,
    HI,
    KEY,
    OPENAI,
    RESPONSES,
    Asked,
    Json,
    Reply,
    Wire,
    ask,
    azure,
    bedrock_end,
    collect,
    event,
    frame,
    google_event,
    play,
    refusal,
    responses_end,
    responses_event,
    serving,
)

from windlass import Agent, AgentRuntime, LLMMessage
from windlass.errors import AgentError
from windlass.models import BedrockProvider, GoogleProvider, ModelSettings
from windlass.models.messages import SILENCE, wire_call_id, wire_name
from windlass.ports.model import ModelFault, ModelRejected, ModelUnavailable
from windlass.testing import ScriptedModel, call, fail
from windlass.tools import tool
from windlass_protocol import JsonObject, RetryClass, RunStatus, ToolCall

CALL = (ToolCall(id="c1", name="look", arguments={}),)
FIRST, LOOKS = wire_call_id("a.b+"), wire_name("files.look")
FILES: tuple[JsonObject, ...] = (
    {"type": "text", "text": "See:"},
    {"type": "image", "image": f"data:image/png;base64,{PNG}"},
    {"type": "file", "data": f"data:application/pdf;base64,{PNG}", "mediaType": "application/pdf"},
)
ADDRESSES: tuple[JsonObject, ...] = (
    {"type": "image", "image": "https://example.org/a.png", "mediaType": "image/png"},
    {"type": "file", "data": "https://example.org/a.pdf", "mediaType": "application/pdf"},
)


def sent(wire: Wire, *messages: LLMMessage, settings: ModelSettings | None = None, **options: Any) -> Asked:
    _, [asked] = ask(wire, Reply(wire.text(["ok"])), messages=messages, settings=settings, **options)
    return asked


def failure(wire: Wire, reply: Reply) -> AgentError:
    with pytest.raises(AgentError) as caught:
        ask(wire, reply)
    return caught.value


def kept(wire: Wire, events: Sequence[bytes]) -> JsonObject | None:
    """The provider data of an answer."""
    found: list[JsonObject] = []

    async def work() -> None:
        async with serving(Reply(events)) as server:
            provider = wire.make(server.url, ModelSettings())
            found.extend([one.provider_data async for one in provider.stream(HI) if one.provider_data])
            await provider.aclose()

    play(work)
    return found[-1] if found else None


def called(data: JsonObject | None, **changes: Any) -> list[LLMMessage]:
    """A question, a call with the data of its provider, and its result."""
    asked = LLMMessage("assistant", tool_calls=CALL, provider_options=data)
    result = LLMMessage("tool", "tea", tool_call_id="c1", name="look")
    return [LLMMessage("user", "Find it."), replace(asked, **changes), result]


# Responses


def test_a_story_as_the_responses_api_has_it() -> None:
    asked = sent(RESPONSES, *STORY, tools=[LOOK, BARE], temperature=0.5)
    assert asked.path == "/v1/responses"
    assert asked.body == {
        "model": "m",
        "stream": True,
        "store": False,
        "temperature": 0.5,
        "instructions": "Be kind.\n\nBe short.",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Find both."}]},
            {"role": "assistant", "content": "I look. "},
            {"type": "function_call", "call_id": FIRST, "name": LOOKS, "arguments": '{"item":"ä"}'},
            {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": FIRST, "output": "here"},
            {"type": "function_call_output", "call_id": "c", "output": "Error: gone"},
            {"role": "user", "content": [{"type": "input_text", "text": "Well?"}]},
        ],
        "tools": [
            {
                "type": "function",
                "name": "look",
                "description": "Look.",
                "parameters": LOOK["inputSchema"],
                "strict": False,
            },
            {
                "type": "function",
                "name": "bare",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            },
        ],
    }
    items, tools = TypeAdapter(list[ResponseInputItemParam]), TypeAdapter(list[ToolParam])
    items.validate_python(asked.body["input"])
    tools.validate_python(asked.body["tools"])


def test_images_and_files_of_the_responses_api() -> None:
    content = sent(RESPONSES, user(*FILES, *ADDRESSES)).body["input"][0]["content"]
    assert content == [
        {"type": "input_text", "text": "See:"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"},
        {"type": "input_file", "filename": "file", "file_data": f"data:application/pdf;base64,{PNG}"},
        {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "auto"},
        {"type": "input_file", "file_url": "https://example.org/a.pdf"},
    ]
    TypeAdapter(list[ResponseInputItemParam]).validate_python([{"role": "user", "content": content}])
    later = sent(RESPONSES, *HI, LLMMessage("system", "Be kind."), LLMMessage("system", "")).body["input"]
    assert later[1:] == [{"role": "developer", "content": "Be kind."}]
    limited = sent(
        RESPONSES, *HI, settings=ModelSettings(max_tokens=7, body={"reasoning": {"effort": "low"}})
    )
    assert (limited.body["max_output_tokens"], limited.body["reasoning"]) == (7, {"effort": "low"})


REASONING: Json = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Hm."}],
    "encrypted_content": "gAAA",
}


def test_encrypted_reasoning_goes_back_before_its_call_unless_it_was_changed() -> None:
    done = responses_event("response.output_item.done", output_index=0, item=REASONING)
    bare = responses_event("response.output_item.done", output_index=0, item={"type": "reasoning", "id": "x"})
    data = kept(RESPONSES, [bare, done, *RESPONSES.calls([("c1", "look", ["{}"])])])
    body = sent(RESPONSES, *called(data)).body
    assert body["input"][1] == REASONING
    assert body["input"][2]["type"] == "function_call"
    changed = json.loads(json.dumps(data).replace("gAAA", "****"))
    for other in (None, changed, json.loads(json.dumps(data).replace('"m"', '"other"'))):
        assert sent(RESPONSES, *called(other)).body["input"][1]["type"] == "function_call"
    assert kept(RESPONSES, RESPONSES.text(["a"])) is None


def test_answers_of_the_responses_api_end_for_a_reason() -> None:
    begin = RESPONSES.text(["Hello"])[:-1]
    reason: Json = {"incomplete_details": {"reason": "max_output_tokens"}}
    assert ask(RESPONSES, Reply([*begin, responses_end("incomplete", **reason)]))[0].finish == "length"
    filtered: Json = {"incomplete_details": {"reason": "content_filter"}, "usage": None}
    heard, _ = ask(RESPONSES, Reply([*begin, responses_end("incomplete", **filtered)]))
    assert (heard.finish, heard.usage) == ("content_filter", None)
    refused = responses_event("response.refusal.delta", delta="No.", output_index=0)
    heard, _ = ask(RESPONSES, Reply([refused, responses_end()]))
    assert (heard.text, heard.finish) == ("No.", "refusal")
    thought = responses_event("response.reasoning_summary_text.delta", delta="Hm.", output_index=0)
    assert ask(RESPONSES, Reply([thought, *RESPONSES.text(["a"])]))[0].reasoning == "Hm."


def test_a_failed_response_and_events_of_another_shape_are_errors() -> None:
    failed = responses_end("failed", error={"code": "rate_limit_exceeded", "message": "secret"})
    error = failure(RESPONSES, Reply([failed]))
    assert isinstance(error, ModelUnavailable)
    assert error.fault == "rate_limit"
    begin = responses_event(
        "response.output_item.added", output_index=0, item={"type": "function_call", "name": "f"}
    )
    for bad in (
        [responses_event("response.function_call_arguments.delta", output_index=5, delta="{}")],
        [responses_event("response.output_text.delta", delta=7)],
        [responses_event("response.output_item.added", output_index=0, item=7)],
        [begin, begin],
    ):
        error = failure(RESPONSES, Reply([*bad, responses_end()]))
        assert isinstance(error, ModelUnavailable)
        assert error.fault == "malformed"


# Azure


def test_azure_names_the_deployment_in_the_path_and_the_version_in_the_query() -> None:
    async def work() -> tuple[str, Asked]:
        async with serving(Reply(OPENAI.text(["Hello"]))) as server:
            provider = azure(server.url, ModelSettings(max_tokens=7))
            heard = await collect(provider.stream(HI))
            await provider.aclose()
            return heard.text, server.asked[0]

    text, asked = play(work)
    assert text == "Hello"
    assert asked.path == "/openai/deployments/m/chat/completions?api-version=2024-10-21"
    assert asked.headers["api-key"] == KEY
    assert asked.body["max_completion_tokens"] == 7


# Gemini


def test_a_story_as_the_gemini_api_has_it() -> None:
    asked = sent(GOOGLE, *STORY, tools=[LOOK, BARE], temperature=0.5, settings=ModelSettings(max_tokens=7))
    assert asked.path == "/v1beta/models/m:streamGenerateContent?alt=sse"
    assert asked.headers["x-goog-api-key"] == KEY
    assert asked.body == {
        "systemInstruction": {"parts": [{"text": "Be kind.\n\nBe short."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Find both."}]},
            {
                "role": "model",
                "parts": [
                    {"text": "I look. "},
                    {"functionCall": {"id": FIRST, "name": LOOKS, "args": {"item": "ä"}}},
                    {"functionCall": {"id": "c", "name": "look", "args": {}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": FIRST, "name": LOOKS, "response": {"output": "here"}}},
                    {"functionResponse": {"id": "c", "name": "look", "response": {"error": "gone"}}},
                    {"text": "Well?"},
                ],
            },
        ],
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "look", "description": "Look.", "parametersJsonSchema": LOOK["inputSchema"]},
                    {"name": "bare", "parametersJsonSchema": {"type": "object", "properties": {}}},
                ]
            }
        ],
        "generationConfig": {"temperature": 0.5, "maxOutputTokens": 7},
    }


def test_images_files_and_settings_of_the_gemini_api() -> None:
    more: JsonObject = {
        "generationConfig": {"thinkingConfig": {"includeThoughts": True}},
        "safetySettings": [],
    }
    settings = ModelSettings(max_tokens=7, body=more)
    body = sent(
        GOOGLE, user(*FILES, *ADDRESSES, {"type": "image", "image": "https://a.b/c"}), settings=settings
    ).body
    assert body["contents"][0]["parts"] == [
        {"text": "See:"},
        {"inlineData": {"mimeType": "image/png", "data": PNG}},
        {"inlineData": {"mimeType": "application/pdf", "data": PNG}},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://example.org/a.png"}},
        {"fileData": {"mimeType": "application/pdf", "fileUri": "https://example.org/a.pdf"}},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://a.b/c"}},
    ]
    assert body["generationConfig"] == {"maxOutputTokens": 7, "thinkingConfig": {"includeThoughts": True}}
    assert body["safetySettings"] == []
    odd = sent(
        GOOGLE, LLMMessage("user", ""), LLMMessage("assistant", ""), LLMMessage("system", "Be kind.")
    ).body
    assert odd["contents"] == [
        {"role": "user", "parts": [{"text": SILENCE}, {"text": "<system>\nBe kind.\n</system>"}]}
    ]
    assert "generationConfig" not in odd


def gemini3(url: str) -> GoogleProvider:
    return GoogleProvider("gemini-3-pro", api_key=KEY, base_url=url)


SIGNED: Json = {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "c2ln"}


def test_signatures_of_calls_go_back_with_them_and_calls_of_others_have_the_documented_one() -> None:
    async def work() -> list[Json]:
        signed = Reply([google_event([{"text": "Hm.", "thought": True}, SIGNED]), google_event([], "STOP")])
        async with serving(signed, Reply(GOOGLE.text(["ok"]))) as server:
            provider = gemini3(server.url)
            chunks = [chunk async for chunk in provider.stream(HI)]
            (data,) = [chunk.provider_data for chunk in chunks if chunk.provider_data]
            assert [chunk.reasoning_delta for chunk in chunks if chunk.reasoning_delta] == ["Hm."]
            for messages in (called(data), called(None), called({"google": "masked"})):
                await collect(provider.stream(messages))
            await provider.aclose()
            old = GoogleProvider("gemini-2.5-pro", api_key=KEY, base_url=server.url)
            await collect(old.stream(called(data)))
            await old.aclose()
            return [asked.body["contents"][1]["parts"][0] for asked in server.asked[1:]]

    mine, none, masked, old = play(work)
    assert mine["thoughtSignature"] == "c2ln"
    assert none["thoughtSignature"] == masked["thoughtSignature"] == "skip_thought_signature_validator"
    assert "thoughtSignature" not in old


def test_answers_of_the_gemini_api_end_for_a_reason() -> None:
    def ended(reason: str) -> str | None:
        return ask(GOOGLE, Reply([google_event([{"text": "a"}], reason)]))[0].finish

    assert [ended(one) for one in ("STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER")] == [
        "stop",
        "length",
        "content_filter",
        "content_filter",
        "other",
    ]
    blocked = event({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": GOOGLE_USAGE})
    assert ask(GOOGLE, Reply([blocked]))[0].finish == "content_filter"
    for bad in (
        google_event([], "MALFORMED_FUNCTION_CALL"),
        event({"candidates": [7]}),
        google_event([cast(Json, 7)]),
    ):
        error = failure(GOOGLE, Reply([bad]))
        assert isinstance(error, ModelUnavailable)
        assert error.fault == "malformed"


def test_a_call_without_an_id_gets_one_in_the_run() -> None:
    @tool(mode="read")
    async def look() -> str:
        """Look."""
        return "tea"

    async def work() -> tuple[object, Json]:
        parts: list[Json] = [{"functionCall": {"name": "look"}}, {"functionCall": {"name": "look"}}]
        first = Reply([google_event(parts), google_event([], "STOP")])
        async with serving(first, Reply(GOOGLE.text(["Tea."]))) as server:
            provider = GOOGLE.make(server.url, ModelSettings())
            result = await Agent("a", model=provider, tools=[look]).run("Find it.")
            await provider.aclose()
            return result.output, server.asked[-1].body

    output, body = play(work)
    assert output == "Tea."
    ids = [part["functionCall"]["id"] for part in body["contents"][1]["parts"]]
    assert len(set(ids)) == 2
    assert [part["functionResponse"]["id"] for part in body["contents"][2]["parts"]] == ids


def google_refusal(status: int, name: str, *details: Json) -> Reply:
    error: Json = {"code": status, "message": "secret", "status": name, "details": [*details]}
    return refusal(status, [{"error": error}])


def test_google_says_in_the_body_when_to_come_back_and_that_a_key_is_wrong() -> None:
    delay = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
    error = failure(
        GOOGLE, google_refusal(429, "RESOURCE_EXHAUSTED", {"reason": "RATE_LIMIT_EXCEEDED"}, delay)
    )
    assert isinstance(error, ModelUnavailable)
    assert (error.fault, error.retry_after_ms) == ("rate_limit", 34_500)
    wrong = failure(GOOGLE, google_refusal(400, "INVALID_ARGUMENT", {"reason": "API_KEY_INVALID"}))
    assert isinstance(wrong, ModelRejected)
    assert (wrong.fault, wrong.retry) == ("auth", RetryClass.HOST_CONFIGURATION_NEEDED)


# Bedrock

CACHED: Json = {"cachePoint": {"type": "default"}}


def check_converse(body: Json) -> None:
    """Hold a request to the model of the service that botocore has."""
    session = cast(Any, botocore.session.Session())
    shape = session.get_service_model("bedrock-runtime").operation_model("ConverseStream").input_shape
    report = cast(Any, ParamValidator()).validate({"modelId": CLAUDE, **body}, shape)
    assert not report.has_errors(), report.generate_report()


def test_a_story_as_converse_has_it_with_four_cache_points() -> None:
    settings = ModelSettings(max_tokens=7)
    asked = sent(BEDROCK, *STORY, tools=[LOOK, BARE], temperature=1.5, settings=settings)
    assert asked.path == f"/model/{CLAUDE.replace(':', '%3A')}/converse-stream"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body == {
        "system": [{"text": "Be kind."}, {"text": "Be short."}, CACHED],
        "messages": [
            {"role": "user", "content": [{"text": "Find both."}]},
            {
                "role": "assistant",
                "content": [
                    {"text": "I look."},
                    {"toolUse": {"toolUseId": FIRST, "name": LOOKS, "input": {"item": "ä"}}},
                    {"toolUse": {"toolUseId": "c", "name": "look", "input": {}}},
                    CACHED,
                ],
            },
            {
                "role": "user",
                "content": [
                    {"toolResult": {"toolUseId": FIRST, "content": [{"text": "here"}], "status": "success"}},
                    {"toolResult": {"toolUseId": "c", "content": [{"text": "gone"}], "status": "error"}},
                    {"text": "Well?"},
                    CACHED,
                ],
            },
        ],
        "toolConfig": {
            "tools": [
                {
                    "toolSpec": {
                        "name": "look",
                        "description": "Look.",
                        "inputSchema": {"json": LOOK["inputSchema"]},
                    }
                },
                {"toolSpec": {"name": "bare", "inputSchema": {"json": {"type": "object", "properties": {}}}}},
                CACHED,
            ]
        },
        "inferenceConfig": {"temperature": 1.0, "maxTokens": 7},
    }
    check_converse(asked.body)


@pytest.mark.parametrize(
    ("model", "count"),
    [
        (CLAUDE, 3),
        ("anthropic.claude-3-7-sonnet-20250219-v1:0", 3),
        ("anthropic.claude-3-5-haiku-20241022-v1:0", 3),
        ("anthropic.claude-3-haiku-20240307-v1:0", 0),
        ("us.amazon.nova-pro-v1:0", 1),
        ("meta.llama3-3-70b-instruct-v1:0", 0),
    ],
)
def test_cache_points_are_set_for_models_that_have_a_cache(model: str, count: int) -> None:
    async def work(settings: ModelSettings) -> str:
        async with serving(Reply(BEDROCK.text(["ok"]))) as server:
            provider = BedrockProvider(
                model, api_key=KEY, base_url=server.url, region="us-east-1", settings=settings
            )
            schema: JsonObject = {"type": "object"}
            await collect(provider.with_output(schema).stream(STORY[:3], tools=[LOOK]))
            await provider.aclose()
            assert ("outputConfig" in server.asked[0].body) is (model == CLAUDE)
            check_converse(server.asked[0].body)
            return json.dumps(server.asked[0].body)

    assert play(lambda: work(ModelSettings())).count("cachePoint") == count
    assert "cachePoint" not in play(lambda: work(ModelSettings(is_cached=False)))


def test_images_and_files_of_converse() -> None:
    titled: JsonObject = {**FILES[2], "filename": "Q3_report (final).v2.pdf"}
    settings = ModelSettings(is_cached=False)
    body = sent(BEDROCK, user(*FILES, titled), settings=settings).body
    source: Json = {"bytes": PNG}
    assert body["messages"][0]["content"] == [
        {"text": "See:"},
        {"image": {"format": "png", "source": source}},
        {"document": {"format": "pdf", "name": "file 2", "source": source}},
        {"document": {"format": "pdf", "name": "Q3 report (final) v2 3", "source": source}},
    ]
    check_converse(body)
    alone = sent(BEDROCK, user(FILES[2]), settings=settings).body["messages"][0]["content"]
    assert alone[-1] == {"text": SILENCE}
    for part, told in (
        (ADDRESSES[0], "by their address"),
        ({**FILES[1], "mediaType": "image/tiff"}, "image/tiff"),
    ):
        with pytest.raises(ModelRejected, match=told):
            sent(BEDROCK, user(part))
    odd = (LLMMessage("assistant", "Hello."), LLMMessage("user", ""), LLMMessage("system", "Be kind."))
    turns = sent(BEDROCK, *odd, LLMMessage("user", parts=({"type": "text", "text": " "},)), settings=settings)
    assert turns.body["messages"] == [
        {"role": "user", "content": [{"text": SILENCE}]},
        {"role": "assistant", "content": [{"text": "Hello."}]},
        {
            "role": "user",
            "content": [{"text": SILENCE}, {"text": "<system>\nBe kind.\n</system>"}, {"text": SILENCE}],
        },
    ]


def thought(index: int, **fields: str) -> bytes:
    return frame("contentBlockDelta", {"contentBlockIndex": index, "delta": {"reasoningContent": fields}})


THINKS = ModelSettings(body={"additionalModelRequestFields": {"thinking": {"type": "enabled"}, "top_k": 5}})


def test_signed_thoughts_of_bedrock_go_back_before_the_call_that_they_led_to() -> None:
    thoughts = [
        thought(0, text="Hm. "),
        thought(0, text="So."),
        thought(0, signature="c2ln"),
        thought(1, redactedContent="eHg="),
    ]
    answer = [*thoughts, *BEDROCK.calls([("c1", "look", ["{}"])])[1:]]
    heard, _ = ask(BEDROCK, Reply(answer))
    assert heard.reasoning == "Hm. So."
    data = kept(BEDROCK, answer)
    body = sent(BEDROCK, *called(data, reasoning="Hm. So."), settings=THINKS).body
    assert body["messages"][1]["content"][:2] == [
        {"reasoningContent": {"reasoningText": {"text": "Hm. So.", "signature": "c2ln"}}},
        {"reasoningContent": {"redactedContent": "eHg="}},
    ]
    assert "thinking" in body["additionalModelRequestFields"]
    check_converse(body)
    changed = sent(BEDROCK, *called(data, reasoning="Hm. No."), settings=THINKS).body
    assert "reasoningContent" not in json.dumps(changed)
    assert changed["additionalModelRequestFields"] == {"top_k": 5}


def test_answers_of_bedrock_end_for_a_reason() -> None:
    begin = BEDROCK.text(["Hello"])[:-2]

    def ended(reason: str) -> str | None:
        return ask(BEDROCK, Reply([*begin, *bedrock_end(reason)]))[0].finish

    assert ended("guardrail_intervened") == ended("content_filtered") == "content_filter"
    assert ended("max_tokens") == "max_tokens"
    start = frame("contentBlockStart", {"contentBlockIndex": 0, "start": {"toolUse": {"name": "f"}}})
    for bad in (
        bedrock_end("malformed_tool_use"),
        [start, start],
        [frame("contentBlockDelta", {"contentBlockIndex": 4, "delta": {"toolUse": {"input": "{}"}}})],
        [frame("contentBlockDelta", {"delta": {"text": "a"}})],
        [frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": 7}})],
        [frame("messageStart", 7)],
        [b"\x00\x00\x00\x10" * 4],
        [frame("messageStart", {})[:-1] + b"!"],
    ):
        error = failure(BEDROCK, Reply([*bad, *bedrock_end("end_turn")]))
        assert isinstance(error, ModelUnavailable)
        assert error.fault == "malformed", bad


@pytest.mark.parametrize(
    ("status", "name", "fault", "retry"),
    [
        (429, "ThrottlingException", "rate_limit", RetryClass.RETRYABLE),
        (424, "ModelErrorException", "server", RetryClass.RETRYABLE),
        (408, "ModelTimeoutException", "server", RetryClass.RETRYABLE),
        (403, "AccessDeniedException", "auth", RetryClass.HOST_CONFIGURATION_NEEDED),
        (400, "ValidationException", "invalid_request", RetryClass.NOT_RETRYABLE),
        (404, "ResourceNotFoundException", "invalid_request", RetryClass.NOT_RETRYABLE),
    ],
)
def test_errors_that_aws_names_in_a_header(status: int, name: str, fault: str, retry: RetryClass) -> None:
    reply = refusal(status, {"message": "secret"}, x_amzn_errortype=f"{name}:http://internal.amazon.com/")
    error = failure(BEDROCK, reply)
    assert isinstance(error, ModelUnavailable | ModelRejected)
    assert (error.fault, error.retry) == (fault, retry)
    assert name in error.message


def test_an_error_frame_without_an_exception_is_an_error_too() -> None:
    error = failure(BEDROCK, Reply([frame("internalServerException", {}, "exception")]))
    assert isinstance(error, ModelUnavailable)
    assert error.fault == "server"
    assert isinstance(failure(BEDROCK, Reply([frame("InternalError", {}, "error")])), ModelUnavailable)


def signed_by(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Asked:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    async def work() -> Asked:
        async with serving(Reply(BEDROCK.text(["ok"]))) as server:
            provider = BedrockProvider(CLAUDE, base_url=server.url, region="eu-west-1", environment={})
            try:
                await collect(provider.stream(HI))
            finally:
                await provider.aclose()
            return server.asked[0]

    return play(work)


def test_requests_to_bedrock_are_signed_with_the_credentials_of_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = signed_by({"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "s3cr3t"}, monkeypatch)
    content = json.dumps(asked.body, ensure_ascii=False).encode()
    again = cast(Any, AWSRequest)("POST", f"http://{asked.headers['host']}{asked.path}", data=content)
    again.headers["content-type"] = "application/json"
    again.context["timestamp"] = asked.headers["x-amz-date"]
    again.headers["X-Amz-Date"] = asked.headers["x-amz-date"]
    signer = cast(Any, SigV4Auth(Credentials("AKIDEXAMPLE", "s3cr3t"), "bedrock", "eu-west-1"))
    text = signer.string_to_sign(again, signer.canonical_request(again))
    assert asked.headers["authorization"].endswith(f"Signature={signer.signature(text, again)}")
    assert "Credential=AKIDEXAMPLE/" in asked.headers["authorization"]
    assert base64.b64encode(b"s3cr3t").decode() not in str(asked.headers)


def test_missing_credentials_of_aws_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelRejected, match="AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID") as caught:
        signed_by({}, monkeypatch)
    assert caught.value.retry is RetryClass.HOST_CONFIGURATION_NEEDED
    with pytest.raises(ModelRejected, match=r"could not be read \(PartialCredentialsError\)"):
        signed_by({"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE"}, monkeypatch)


# A run that changes its provider


@pytest.mark.parametrize("wire", [OPENAI, ANTHROPIC, RESPONSES, GOOGLE, BEDROCK], ids=lambda wire: wire.name)
def test_a_run_with_calls_of_one_provider_goes_on_with_another(wire: Wire) -> None:
    @tool(mode="read")
    async def look() -> str:
        """Look."""
        return "tea"

    async def work() -> tuple[RunStatus, str | None]:
        async with serving(Reply(wire.text(["Tea."]))) as server:
            other = wire.make(server.url, ModelSettings())
            away = ModelRejected("gone", fault=ModelFault.AUTH, retry=RetryClass.HOST_CONFIGURATION_NEEDED)
            first = ScriptedModel([call("look"), fail(away)])
            agent = Agent("a", model=[first, other], tools=[look])
            async with AgentRuntime.in_memory([agent]) as runtime:
                result = await (await runtime.start_run(agent, "Find it.")).wait(timeout=300)
            await other.aclose()
            return result.status, result.output

    assert play(work) == (RunStatus.COMPLETED, "Tea.")
