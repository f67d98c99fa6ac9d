"""Parts of a chat request: messages in two dialects, providers by name, keys."""

import re
from typing import cast

import pytest
from pydantic import ValidationError
from tests.sidecar.rig import play, sidecar

from windlass.errors import Ambiguous, Conflict, Corrupt, Denied, Rejected, Unavailable
from windlass.models import ROUTE_IDS, AnthropicProvider, DemoModel, OpenAICompatProvider
from windlass_protocol import ErrorInfo, ErrorKind, JsonObject, JsonValue, RetryClass
from windlass_sidecar.chat import ChatConversation, ChatStream, HostMessage, close, conversation, provider_of
from windlass_sidecar.limits import KEYS_MAX
from windlass_sidecar.rpc import Code, RpcError, of_agent_error, stream_kind
from windlass_sidecar.streams import GrowingScribe

USER: JsonObject = {"role": "user", "content": "hi"}


def talk(*messages: JsonObject) -> ChatConversation:
    return conversation([HostMessage.model_validate(message) for message in messages])


def test_system_messages_are_instructions_and_the_last_of_the_user_is_asked() -> None:
    found = talk(
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
        USER,
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image", "image": "data:x"}]},
    )
    assert found.instructions == "Be brief.\n\nBe kind."
    assert [message.role for message in found.past] == ["user", "assistant"]
    assert not isinstance(found.question, str)
    assert len(found.question) == 2
    assert found.since == ()
    assert not found.is_one_message


def test_pictures_that_were_sent_before_are_kept_and_calls_of_both_dialects_too() -> None:
    picture: JsonObject = {"type": "image", "image": "data:x"}
    ours: JsonObject = {"id": "c1", "name": "look", "arguments": {"at": 1}}
    theirs: JsonObject = {"id": "c2", "function": {"name": "see", "arguments": '{"at": 2}'}}
    parsed: JsonObject = {"id": "c3", "function": {"name": "see", "arguments": {"at": 3}}}
    empty: JsonObject = {"id": "c4", "function": {"name": "see"}}
    found = talk(
        {"role": "user", "content": [picture]},
        {"role": "assistant", "content": None, "tool_calls": [ours, theirs, parsed, empty]},
        {"role": "tool", "toolCallId": "c1", "content": "seen", "name": "look"},
        USER,
    )
    assert found.past[0].parts == (picture,)
    assert [call.arguments for call in found.past[1].tool_calls] == [{"at": 1}, {"at": 2}, {"at": 3}, {}]
    past = cast(list[JsonObject], found.data["past"])
    assert past[0]["content"] == [picture]
    assert past[1]["toolCalls"]
    assert past[2]["toolCallId"] == "c1"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"role": "tool", "content": "x"}, "toolCallId"),
        ({"role": "assistant", "toolCalls": [{"id": "c"}]}, "name in each tool call"),
        (
            {"role": "assistant", "toolCalls": [{"id": "c", "function": {"name": "x", "arguments": "{"}}]},
            "JSON",
        ),
        (
            {"role": "assistant", "toolCalls": [{"id": "c", "function": {"name": "x", "arguments": "[]"}}]},
            "JSON",
        ),
        ({"role": "user", "content": [{"type": "smell"}]}, "text, image and file"),
    ],
)
def test_a_message_that_cannot_be_used_is_refused(message: JsonObject, words: str) -> None:
    with pytest.raises(RpcError, match=words):
        talk(message, USER)


def test_an_address_is_plain_and_nothing_else() -> None:
    given: JsonObject = {"provider": "x", "model": "m", "messages": [USER]}
    assert ChatStream.model_validate({**given, "baseUrl": None}).base_url is None
    assert ChatStream.model_validate({**given, "baseUrl": "https://x/v1"}).base_url == "https://x/v1"
    for bad in ("ftp://x", "x", "http://", "http://u@x", "http://x/?a=b"):
        with pytest.raises(ValidationError):
            ChatStream.model_validate({**given, "baseUrl": bad})
    assert "sk-1" not in repr(ChatStream.model_validate({**given, "apiKey": "sk-1"}))


@pytest.mark.parametrize(
    ("name", "base_url", "api_key", "kind"),
    [
        ("demo", None, None, DemoModel),
        ("openai", None, "k", OpenAICompatProvider),
        ("openai", "http://x", None, OpenAICompatProvider),
        ("anthropic", None, "k", AnthropicProvider),
        ("anthropic", "http://x", "k", AnthropicProvider),
        ("ollama", None, None, OpenAICompatProvider),
        ("ollama", None, "k", OpenAICompatProvider),
        ("openai-compat", "http://x", "k", OpenAICompatProvider),
    ],
)
def test_a_provider_is_found_by_its_name_or_its_address(
    name: str, base_url: str | None, api_key: str | None, kind: type
) -> None:
    async def story() -> None:
        found = provider_of(name, "m", base_url=base_url, api_key=api_key, max_tokens=None)
        assert isinstance(found, kind)
        await close(found)

    play(story())


@pytest.mark.parametrize("base_url", [None, "http://x"])
@pytest.mark.parametrize(("name", "api_key"), [("nobody", None), ("nobody", "k"), ("demo2", None)])
def test_an_unknown_provider_is_refused_with_the_known_ones(
    name: str, api_key: str | None, base_url: str | None
) -> None:
    with pytest.raises(RpcError, match=re.escape(f"expected one of {', '.join(ROUTE_IDS)}")):
        provider_of(name, "m", base_url=base_url, api_key=api_key, max_tokens=None)


def test_keys_are_masked_from_when_they_are_known_and_there_is_a_limit() -> None:
    scribe = GrowingScribe()
    assert scribe.redactor.text("my-own-key-1") == "my-own-key-1"
    scribe.learn("my-own-key-1")
    scribe.learn("my-own-key-1")
    scribe.learn("short")
    assert "my-own-key-1" not in scribe.redactor.text("it is my-own-key-1")
    assert scribe.redactor.text("short") == "short"
    with pytest.raises(RpcError, match="at most"):
        scribe.learn("x" * 20_000)


def test_too_many_keys_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass_sidecar.streams.KEYS_MAX", 1)
    scribe = GrowingScribe()
    scribe.learn("the-first-key")
    with pytest.raises(RpcError, match="more than"):
        scribe.learn("the-second-key")
    assert KEYS_MAX > 1


@pytest.mark.parametrize(
    ("kind", "cause", "code"),
    [
        (Denied, ErrorKind.POLICY_DENIAL, Code.POLICY_DENIED),
        (Rejected, ErrorKind.INVALID_PACKAGE, Code.INVALID_PARAMS),
        (Conflict, ErrorKind.INVALID_STATE_TRANSITION, Code.INVALID_PARAMS),
        (Unavailable, ErrorKind.PROVIDER_FAILURE, Code.INVALID_PARAMS),
        (Unavailable, ErrorKind.JOURNAL_FAILURE, Code.STORAGE),
        (Corrupt, ErrorKind.JOURNAL_FAILURE, Code.STORAGE),
        (Ambiguous, ErrorKind.JOURNAL_FAILURE, Code.STORAGE),
    ],
)
def test_errors_of_the_runtime_have_their_codes(kind: type[Denied], cause: ErrorKind, code: Code) -> None:
    found = of_agent_error(kind("x" * 2_000, kind=cause, retry=RetryClass.NOT_RETRYABLE))
    assert found.wire.code == code
    assert len(found.wire.message) == 1_024
    assert isinstance(found.wire.data, dict)


@pytest.mark.parametrize(
    ("cause", "details", "kind"),
    [
        (ErrorKind.PROVIDER_FAILURE, {"fault": "transport"}, "transport_closed"),
        (ErrorKind.PROVIDER_FAILURE, {"fault": "auth"}, "internal"),
        (ErrorKind.TIMEOUT, None, "timeout"),
        (ErrorKind.POLICY_DENIAL, None, "policy_denied"),
        (ErrorKind.TOOL_FAILURE, None, "tool_failed"),
        (ErrorKind.CANCELLATION, None, "cancelled"),
    ],
)
def test_an_error_kind_maps_to_the_kind_of_a_stream_error(
    cause: ErrorKind, details: JsonObject | None, kind: str
) -> None:
    info = {"code": "unavailable", "kind": cause, "retry": "retryable", "message": "x", "details": details}
    assert stream_kind(ErrorInfo.model_validate(info)) == kind


def test_a_missing_api_key_is_refused_before_anything_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)

    async def story() -> None:
        async with sidecar() as client:
            asked: JsonValue = {"provider": "anthropic", "model": "m", "streamId": "s1", "messages": [USER]}
            error = await client.error("agent.chat.stream", asked)
            assert error["code"] == -32602
            assert "ANTHROPIC_API_KEY" in str(error["message"])
            assert (await client.error("trace.fetch", {"traceId": "s1"}))["code"] == -32004

    play(story())
