"""Provider faults: typed errors, and no partial answer taken for a whole one."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import cast

import anthropic
import botocore.exceptions
import httpx2
import openai
import pytest
from tests.models.wire import (
    ANTHROPIC,
    BEDROCK,
    DONE,
    FRAMES,
    GOOGLE,
    HI,
    KEY,
    OPENAI,
    RESPONSES,
    SSE,
    WIRES,
    Reply,
    Wire,
    anthropic_event,
    ask,
    event,
    openai_chunk,
    play,
    refusal,
    serving,
)

from windlass import Agent, AgentRuntime, LLMMessage, Rejected, Unavailable
from windlass.errors import AgentError
from windlass.models import ModelSettings
from windlass.models.batches import read_lines
from windlass.models.errors import EVENT_BYTES_MAX, EVENT_VALUES_MAX, ModelEndpoint, translate
from windlass.models.routes import EnvironmentProviders
from windlass.models.transport import endpoint_of
from windlass.ports.model import ModelFault, ModelRejected, ModelUnavailable, is_context_overflow, is_unpaid
from windlass_harness.loop.rules import Rules
from windlass_harness.retry import RetryPolicy
from windlass_protocol import ErrorKind, JsonObject, JsonValue, RetryClass, RunStatus

ALL_SSE = pytest.mark.parametrize("wire", SSE.values(), ids=SSE)
BOTH = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
SECRET = "the prompt was 12345 and the key sk-test"
SOON = ModelSettings(idle_timeout_s=0.05)
ENDPOINT = ModelEndpoint("models.example", "K")
NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


def failure(wire: Wire, *replies: Reply, settings: ModelSettings | None = None) -> AgentError:
    """The error of one request; it must not quote the server."""
    with pytest.raises(AgentError) as caught:
        ask(wire, *replies, settings=settings)
    error = caught.value
    assert KEY not in error.message
    assert SECRET not in error.message
    assert error.__context__ is None
    assert error.__cause__ is None
    return error


def fault(error: AgentError) -> str:
    details = error.info().details
    assert details is not None
    return str(details["fault"])


def body(wire: Wire, kind: str, message: str = SECRET, code: object = None) -> object:
    """The body of an error as the API writes it."""
    return wire.refuse(kind, message, code)


# Streams that break


@BOTH
@pytest.mark.parametrize("end", ["cut", "whole"])
def test_a_stream_that_ends_at_any_event_before_its_last_is_no_answer(wire: Wire, end: str) -> None:
    events = wire.text(["Hel", "lo"])
    for count in range(len(events) - 1 - wire.finish):
        reply = Reply(events[:count], end="cut" if end == "cut" else "whole")
        error = failure(wire, reply)
        assert isinstance(error, Unavailable)
        assert error.retry is RetryClass.RETRYABLE
        assert fault(error) == ("transport" if end == "cut" else "cut_off"), count


@BOTH
def test_a_connection_that_breaks_inside_an_event_is_no_answer(wire: Wire) -> None:
    stream = b"".join(wire.text(["Hello"]))
    for at in range(1, stream.rindex(wire.last), 40):
        assert fault(failure(wire, Reply([stream[:at]], end="cut"))) == "transport"


def test_an_answer_that_said_why_it_ends_and_then_breaks_is_asked_for_again() -> None:
    events = OPENAI.text(["Hello"])
    assert fault(failure(OPENAI, Reply(events[:-1], end="cut"))) == "transport"


def test_a_cut_after_the_final_event_is_no_error() -> None:
    for wire in (OPENAI, ANTHROPIC, RESPONSES):
        assert ask(wire, Reply(wire.text(["Hello"]), end="cut"))[0].text == "Hello"


GARBAGE = {
    "no JSON": b"data: {broken\n\n",
    "no text": b"data: \xff\xfe\n\n",
    "no object": b"data: [1]\n\n",
    "a number": b"data: 7\n\n",
}


@ALL_SSE
@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_in_a_stream_is_an_error_that_can_be_tried_again(wire: Wire, name: str) -> None:
    events = wire.text(["Hel", "lo"])
    error = failure(wire, Reply([*events[:3], GARBAGE[name], *events[3:]]))
    assert (fault(error), error.retry) == ("malformed", RetryClass.RETRYABLE)


MISSHAPEN = {
    "no choices": event({"id": "x"}),
    "a choice that is none": event({"choices": [1]}),
    "a delta that is none": event({"choices": [{"delta": 1}]}),
    "text that is none": openai_chunk({"content": 7}),
    "calls that are none": openai_chunk({"tool_calls": 7}),
    "a call that is none": openai_chunk({"tool_calls": [7]}),
    "a function that is none": openai_chunk({"tool_calls": [{"function": 7}]}),
    "arguments that are no text": openai_chunk({"tool_calls": [{"function": {"arguments": {"a": 1}}}]}),
}


@pytest.mark.parametrize("name", MISSHAPEN)
def test_chunks_of_another_shape_are_errors(name: str) -> None:
    assert fault(failure(OPENAI, Reply([MISSHAPEN[name], *OPENAI.text(["a"])]))) == "malformed"


BLOCKS = {
    "no index": anthropic_event("content_block_start", content_block={"type": "text"}),
    "a block that is none": anthropic_event("content_block_start", index=5, content_block=7),
    "a delta of no block": anthropic_event("content_block_delta", index=5, delta={"type": "text_delta"}),
    "an end of no block": anthropic_event("content_block_stop", index=5),
    "text that is none": anthropic_event(
        "content_block_delta", index=0, delta={"type": "text_delta", "text": 7}
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_of_another_shape_are_errors(name: str) -> None:
    events = ANTHROPIC.text(["a"])
    assert fault(failure(ANTHROPIC, Reply([*events[:3], BLOCKS[name], *events[3:]]))) == "malformed"


def test_an_answer_of_blocks_that_never_says_why_it_ends_is_none() -> None:
    events = ANTHROPIC.text(["a"])
    assert fault(failure(ANTHROPIC, Reply([*events[:-2], events[-1]]))) == "malformed"


def test_a_chunk_that_comes_twice_does_not_become_two_calls_or_two_ends() -> None:
    events = OPENAI.calls([("a", "f", ['{"x": 1}'])])
    begin, call, arguments, end, usage, done = events
    heard, _ = ask(OPENAI, Reply([begin, begin, call, call, arguments, end, end, usage, usage, done]))
    assert heard.calls == {0: ["a", "f", '{"x": 1}']}
    assert fault(failure(OPENAI, Reply([begin, call, arguments, end, arguments, usage, done]))) == "malformed"
    text = OPENAI.text(["a"])
    assert fault(failure(OPENAI, Reply([*text[:3], text[1], DONE]))) == "malformed"


def test_an_event_that_comes_twice_is_noticed_where_the_format_lets_it_be() -> None:
    events = ANTHROPIC.text(["a"])
    for at, twice in enumerate(events):
        kind = json.loads(twice.partition(b"data: ")[2])["type"]
        if kind in {"message_start", "content_block_start", "content_block_stop"}:
            doubled = [*events[: at + 1], *events[at:]]
            assert fault(failure(ANTHROPIC, Reply(doubled))) == "malformed", kind


@BOTH
def test_an_error_event_in_a_stream_maps_to_its_fault(wire: Wire) -> None:
    events = wire.text(["Hel", "lo"])

    def after(kind: str) -> AgentError:
        return failure(wire, Reply([*events[:3], wire.error(kind)]))

    assert (fault(after("overloaded_error")), after("overloaded_error").retry) == (
        "server",
        RetryClass.RETRYABLE,
    )
    assert fault(after("rate_limit_error")) == "rate_limit"
    assert (fault(after("invalid_request_error")), after("invalid_request_error").retry) == (
        "invalid_request",
        RetryClass.NOT_RETRYABLE,
    )
    assert after("something_new").retry is RetryClass.RETRYABLE


def test_errors_in_a_stream_as_other_servers_write_them() -> None:
    flat = event({"object": "error", "message": SECRET, "type": "InternalServerError", "code": 500})
    assert fault(failure(OPENAI, Reply([*OPENAI.text(["a"])[:2], flat]))) == "server"
    words = event({"error": "the request exceeds the available context size"})
    assert is_context_overflow(failure(OPENAI, Reply([words])))


@BOTH
def test_an_answer_that_is_no_stream_is_an_error(wire: Wire) -> None:
    page = Reply([b"<html>Log in</html>"], headers={"content-type": "text/html; charset=utf-8"})
    error = failure(wire, page)
    assert (fault(error), error.retry) == ("malformed", RetryClass.RETRYABLE)
    media = "text/event-stream" if wire.is_sse else FRAMES
    assert f"expected {media}, found text/html" in error.message
    assert "no content type" in failure(wire, Reply([b"{}"], headers={})).message
    told = refusal(200, body(wire, "overloaded_error"))
    assert fault(failure(wire, told)) == ("server" if wire.is_sse else "malformed")
    large = Reply([b"x" * 50_000] * 3, headers={"content-type": "text/plain"})
    assert fault(failure(wire, large)) == "malformed"


@ALL_SSE
@pytest.mark.parametrize("end", [b"", b"\ndata: x\n"], ids=["without an end", "of two lines"])
def test_an_event_over_the_limit_is_not_read_on(wire: Wire, end: bytes) -> None:
    error = failure(wire, Reply([b"data: " + b"x" * (EVENT_BYTES_MAX - 5) + end]))
    assert f"limit {EVENT_BYTES_MAX:,} bytes" in error.message
    assert fault(error) == "malformed"


@ALL_SSE
def test_an_event_with_too_many_values_is_not_read(wire: Wire) -> None:
    error = failure(wire, Reply([b"data: {" + b'"a":[' + b"1," * EVENT_VALUES_MAX + b"1]}\n\n"]))
    assert f"an event has too many values: limit {EVENT_VALUES_MAX:,}" in error.message
    assert fault(error) == "malformed"


# Servers that say no


@BOTH
def test_too_many_requests_say_when_to_come_back(wire: Wire) -> None:
    error = failure(wire, refusal(429, body(wire, "rate_limit_error"), retry_after="7"))
    assert (fault(error), error.retry) == ("rate_limit", RetryClass.RETRYABLE)
    assert error.info().retry_after_ms == 7_000
    assert error.message.startswith("the provider at 127.0.0.1:"), "the address is known to the log as well"
    date = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    later = (
        failure(wire, refusal(429, body(wire, "rate_limit_error"), retry_after=date)).info().retry_after_ms
    )
    assert later is not None
    assert 3_000_000 < later <= 3_600_000
    exact = failure(
        wire, refusal(429, body(wire, "rate_limit_error"), retry_after_ms="1500", retry_after="9")
    )
    assert exact.info().retry_after_ms == 1_500
    for odd in ("soon", ""):
        assert failure(wire, refusal(429, {}, retry_after=odd)).info().retry_after_ms is None
    assert failure(wire, refusal(429, {}, retry_after_ms="soon")).info().retry_after_ms is None


REFUSALS: dict[str, tuple[int, str, str, RetryClass]] = {
    "wrong key": (401, "authentication_error", "auth", RetryClass.HOST_CONFIGURATION_NEEDED),
    "no right": (403, "permission_error", "auth", RetryClass.HOST_CONFIGURATION_NEEDED),
    "no money": (402, "billing_error", "quota", RetryClass.USER_ACTION_NEEDED),
    "no model": (404, "not_found_error", "invalid_request", RetryClass.NOT_RETRYABLE),
    "bad request": (400, "invalid_request_error", "invalid_request", RetryClass.NOT_RETRYABLE),
    "unknown": (418, "teapot", "invalid_request", RetryClass.NOT_RETRYABLE),
    "too large": (413, "request_too_large", "context_overflow", RetryClass.REPAIR_NEEDED),
    "broken": (500, "api_error", "server", RetryClass.RETRYABLE),
    "gateway": (502, "bad_gateway", "server", RetryClass.RETRYABLE),
    "away": (503, "unavailable", "server", RetryClass.RETRYABLE),
    "late": (504, "timeout_error", "server", RetryClass.RETRYABLE),
    "busy": (529, "overloaded_error", "server", RetryClass.RETRYABLE),
    "conflict": (409, "conflict", "server", RetryClass.RETRYABLE),
}


@BOTH
@pytest.mark.parametrize("name", REFUSALS)
def test_every_refusal_maps_to_a_fault_and_a_retry_class(wire: Wire, name: str) -> None:
    status, kind, expected, retry = REFUSALS[name]
    error = failure(wire, refusal(status, body(wire, kind), retry_after="3"))
    assert (fault(error), error.retry) == (expected, retry)
    assert isinstance(error, Unavailable if retry is RetryClass.RETRYABLE else Rejected)
    assert f"HTTP {status}" in error.message
    assert error.info().retry_after_ms == (3_000 if retry is RetryClass.RETRYABLE else None)
    assert is_unpaid(error) is (status not in (502, 504))


@BOTH
def test_providers_do_not_retry_by_themselves(wire: Wire) -> None:
    async def work() -> int:
        async with serving(refusal(503, body(wire, "overloaded_error")), Reply(wire.text(["a"]))) as server:
            provider = wire.make(server.url, ModelSettings())
            with pytest.raises(Unavailable):
                await anext(provider.stream(HI))
            await provider.aclose()
            return len(server.asked)

    assert play(work) == 1


@BOTH
def test_a_refused_key_is_named_by_its_source_and_its_server(wire: Wire) -> None:
    """A key that was given as an argument is not blamed on a variable that is not set."""
    given = failure(wire, refusal(401, body(wire, "x"))).message
    assert "Check the argument api_key for 127.0.0.1:" in given
    assert "_API_KEY" not in given


def refused_by(route: str, environment: Mapping[str, str]) -> str:
    async def work() -> str:
        async with serving(refusal(401, body(OPENAI, "x"))) as server:
            found = {name: value.format(url=server.url) for name, value in environment.items()}
            providers = EnvironmentProviders(found)
            provider = providers.provider(route, "m")
            assert provider is not None
            with pytest.raises(AgentError) as caught:
                await anext(cast(AsyncIterator[object], provider.stream(HI)))
            await providers.aclose()
            return caught.value.message

    return play(work)


@pytest.mark.parametrize(
    ("route", "environment", "told"),
    [
        ("openai", {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "{url}"}, "Check OPENAI_API_KEY for 127"),
        ("anthropic", {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "{url}"}, "Check ANTHROPIC_API_KEY"),
        ("ollama", {"OLLAMA_HOST": "{url}"}, "Check OLLAMA_API_KEY for 127"),
        ("openai-compat", {"OPENAI_COMPAT_BASE_URL": "{url}"}, "Check OPENAI_COMPAT_API_KEY for 127"),
        (
            "openai-responses",
            {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "{url}"},
            "Check OPENAI_API_KEY for 1",
        ),
        (
            "azure",
            {"AZURE_OPENAI_API_KEY": KEY, "AZURE_OPENAI_ENDPOINT": "{url}"},
            "AZURE_OPENAI_API_KEY for",
        ),
        (
            "google",
            {"GOOGLE_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": "{url}"},
            "Check GOOGLE_API_KEY for 127",
        ),
        (
            "bedrock",
            {
                "AWS_BEARER_TOKEN_BEDROCK": KEY,
                "AWS_REGION": "eu-west-1",
                "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": "{url}",
            },
            "Check AWS_BEARER_TOKEN_BEDROCK for 127",
        ),
    ],
)
def test_a_refused_key_of_a_route_names_its_variable(
    route: str, environment: Mapping[str, str], told: str
) -> None:
    assert told in refused_by(route, environment)


@pytest.mark.parametrize(
    ("route", "variable", "more"),
    [
        ("openai", "OPENAI_BASE_URL", {"OPENAI_API_KEY": KEY}),
        ("anthropic", "ANTHROPIC_BASE_URL", {"ANTHROPIC_API_KEY": KEY}),
        ("ollama", "OLLAMA_HOST", {}),
        ("openai-compat", "OPENAI_COMPAT_BASE_URL", {}),
        ("openai-responses", "OPENAI_BASE_URL", {"OPENAI_API_KEY": KEY}),
        ("azure", "AZURE_OPENAI_ENDPOINT", {"AZURE_OPENAI_API_KEY": KEY}),
        ("google", "GOOGLE_GEMINI_BASE_URL", {"GEMINI_API_KEY": KEY}),
        (
            "bedrock",
            "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
            {"AWS_REGION": "eu-west-1", "AWS_BEARER_TOKEN_BEDROCK": KEY},
        ),
    ],
)
def test_a_mistyped_address_is_named_with_its_variable(
    route: str, variable: str, more: Mapping[str, str]
) -> None:
    async def work() -> str:
        async with serving() as server:
            url = server.url
        providers = EnvironmentProviders({**more, variable: url})
        provider = providers.provider(route, "m")
        assert provider is not None
        with pytest.raises(ModelUnavailable) as caught:
            await anext(cast(AsyncIterator[object], provider.stream(HI)))
        await providers.aclose()
        return caught.value.message

    told = play(work)
    assert f"(from {variable}) could not be reached" in told
    assert f"the address in {variable}" in told


def test_an_address_from_a_variable_names_the_variable() -> None:
    set_up = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "{url}"}
    assert "(from OPENAI_BASE_URL)" in refused_by("openai", set_up)


def test_a_missing_model_is_asked_after() -> None:
    error = failure(OPENAI, refusal(404, body(OPENAI, "x", code="model_not_found")))
    assert "Check the name of the model" in error.message


def test_credentials_in_a_base_url_are_not_shown() -> None:
    url, found = endpoint_of(
        "https://user:pass@models.example:8443/v1", "URL", "", api_key=None, key_variable="K", environment={}
    )
    assert "pass" in url
    assert found == ModelEndpoint("models.example:8443", "K", "the argument base_url")


def test_an_empty_key_is_not_blamed_for_the_key_of_the_environment() -> None:
    def key(api_key: str) -> str:
        default = "https://a.example"
        return endpoint_of(None, "URL", default, api_key=api_key, key_variable="K", environment={})[1].key

    assert (key(""), key("k")) == ("K", "the argument api_key")


def test_an_exhausted_quota_is_not_a_rate_limit() -> None:
    error = failure(OPENAI, refusal(429, body(OPENAI, "insufficient_quota", code="insufficient_quota")))
    assert (fault(error), error.retry) == ("quota", RetryClass.USER_ACTION_NEEDED)


@BOTH
@pytest.mark.parametrize("page", [b"<html>Bad gateway</html>", b"", b"[]", b'"no"', b'{"error": null}'])
def test_an_error_without_a_readable_body_maps_by_its_status(wire: Wire, page: bytes) -> None:
    error = failure(wire, Reply([page] if page else [], 502, {"content-type": "text/html"}))
    assert (fault(error), error.retry) == ("server", RetryClass.RETRYABLE)


OVERFLOWS: dict[str, tuple[Wire, int, object]] = {
    "openai": (OPENAI, 400, body(OPENAI, "invalid_request_error", code="context_length_exceeded")),
    "vllm": (
        OPENAI,
        400,
        body(OPENAI, "BadRequestError", "This model's maximum context length is 4096 tokens.", 400),
    ),
    "llama.cpp": (
        OPENAI,
        400,
        {"error": {"code": 400, "message": "too long", "type": "exceed_context_size_error"}},
    ),
    "anthropic": (
        ANTHROPIC,
        400,
        body(ANTHROPIC, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
    ),
    "responses": (RESPONSES, 400, body(RESPONSES, "invalid_request_error", code="context_length_exceeded")),
    "google": (
        GOOGLE,
        400,
        body(GOOGLE, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens"),
    ),
    "bedrock": (BEDROCK, 400, body(BEDROCK, "ValidationException", "Input is too long for requested model.")),
    "anthropic with max_tokens": (
        ANTHROPIC,
        400,
        body(
            ANTHROPIC,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 1 + 2 > 2",
        ),
    ),
}


@pytest.mark.parametrize("name", OVERFLOWS)
def test_context_overflow_is_distinguished_from_other_refusals(name: str) -> None:
    wire, status, told = OVERFLOWS[name]
    error = failure(wire, refusal(status, told))
    assert is_context_overflow(error)
    assert is_context_overflow(error.info())
    assert (error.code, error.retry) == ("rejected", RetryClass.REPAIR_NEEDED)
    plain = failure(wire, refusal(400, body(wire, "invalid_request_error")))
    assert not is_context_overflow(plain)
    assert not is_context_overflow(plain.info())


# Servers that say nothing


@BOTH
@pytest.mark.parametrize("count", [0, 3])
def test_a_server_that_falls_silent_is_given_up(wire: Wire, count: int) -> None:
    error = failure(wire, Reply(wire.text(["a", "b"])[:count], end="hang"), settings=SOON)
    assert (fault(error), error.kind, error.retry) == ("timeout", ErrorKind.TIMEOUT, RetryClass.RETRYABLE)


def test_a_finished_stream_that_stays_open_is_an_answer() -> None:
    for wire in (OPENAI, ANTHROPIC, RESPONSES):
        assert ask(wire, Reply(wire.text(["a"]), end="hang"))[0].text == "a"


@BOTH
def test_a_server_that_is_not_there_can_be_tried_again(wire: Wire) -> None:
    async def work() -> None:
        async with serving() as server:
            url = server.url
        await anext(wire.make(url, ModelSettings()).stream(HI))

    with pytest.raises(ModelUnavailable) as caught:
        play(work)
    assert caught.value.fault is ModelFault.TRANSPORT
    assert "the provider at 127.0.0.1:" in caught.value.message
    assert "check that it runs, and the address in the argument base_url" in caught.value.message


@BOTH
@pytest.mark.parametrize("url", ["ftp://x", "nonsense"])
def test_an_invalid_base_url_needs_a_change_of_host_configuration(wire: Wire, url: str) -> None:
    async def work() -> None:
        await anext(wire.make(url, ModelSettings()).stream(HI))

    with pytest.raises(ModelRejected) as caught:
        play(work)
    assert caught.value.retry is RetryClass.HOST_CONFIGURATION_NEEDED


@BOTH
def test_closing_the_answer_ends_the_request(wire: Wire) -> None:
    async def work() -> None:
        async with serving(Reply(wire.text(["a", "b"])[:4], end="hang")) as server:
            provider = wire.make(server.url, ModelSettings())
            stream = provider.stream(HI)
            assert (await anext(stream)).content_delta == "a"
            assert not server.left.is_set()
            await stream.aclose()
            await server.left.wait()
            await provider.aclose()

    play(work)


@BOTH
@pytest.mark.parametrize("count", [0, 4])
def test_cancelling_the_reader_closes_the_request(wire: Wire, count: int) -> None:
    async def work() -> None:
        async with serving(Reply(wire.text(["a", "b"])[:count], end="hang")) as server:
            provider = wire.make(server.url, ModelSettings())
            seen = asyncio.Event()

            async def read() -> None:
                async for _ in provider.stream(HI):
                    seen.set()

            task = asyncio.create_task(read())
            await server.is_asked.wait()
            if count:
                await seen.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.left.wait()
            await provider.aclose()

    play(work)


# In the loop


@BOTH
def test_a_run_tries_again_and_keeps_the_whole_answer_alone(wire: Wire) -> None:
    events = wire.text(["Hel", "lo"])
    broken = [Reply(events[:4], end="cut"), refusal(529, body(wire, "overloaded_error"))]

    async def work() -> tuple[str, object, list[JsonValue], int]:
        async with serving(*broken, Reply(events)) as server:
            provider = wire.make(server.url, ModelSettings())
            rules = Rules(retry=RetryPolicy(base_delay_ms=0, max_delay_ms=0))
            agent = Agent("a", model=provider)
            async with AgentRuntime.in_memory([agent], rules=rules) as runtime:
                handle = await runtime.start_run(agent, "Hi")
                result = await handle.wait()
                said = [
                    one.data["message"] async for one in handle.events() if one.type == "message.completed"
                ]
            await provider.aclose()
            return result.status, result.output, said, len(server.asked)

    assert play(work) == (RunStatus.COMPLETED, "Hello", ["Hello"], 3)


@BOTH
def test_a_run_that_is_refused_fails_with_the_reason(wire: Wire) -> None:
    async def work() -> tuple[RetryClass, str, int]:
        async with serving(refusal(400, body(wire, "invalid_request_error", "prompt is too long"))) as server:
            provider = wire.make(server.url, ModelSettings())
            result = await Agent("a", model=provider).run("Hi")
            await provider.aclose()
            assert result.error is not None
            return result.error.retry, result.error.message, len(server.asked)

    retry, told, asked = play(work)
    assert (retry, asked) == (RetryClass.USER_ACTION_NEEDED, 1), "there was nothing to compact"
    assert "is too long for the model and cannot be made shorter" in told


# Every foreign error


def foreign_errors(root: type[BaseException]) -> list[type[BaseException]]:
    found = [root]
    for kind in root.__subclasses__():
        found += foreign_errors(kind)
    return found


@pytest.mark.parametrize(
    "root",
    [
        openai.OpenAIError,
        anthropic.AnthropicError,
        httpx2.HTTPError,
        httpx2.StreamError,
        botocore.exceptions.BotoCoreError,
        botocore.exceptions.HTTPClientError,
        ConnectionError,
    ],
)
def test_no_foreign_error_gets_through(root: type[BaseException]) -> None:
    for kind in foreign_errors(root):
        error = kind.__new__(kind)
        error.args = (SECRET,)
        assert isinstance(error, Exception)
        translated = translate(error, to=ENDPOINT, now=NOW)
        assert isinstance(translated, ModelRejected | ModelUnavailable), kind
        assert SECRET not in translated.message


@pytest.mark.parametrize(
    ("cause", "is_free"),
    [
        (httpx2.ConnectError("x"), True),
        (httpx2.ConnectTimeout("x"), True),
        (httpx2.PoolTimeout("x"), True),
        (httpx2.ReadTimeout("x"), False),
        (httpx2.ReadError("x"), False),
        (httpx2.RemoteProtocolError("x"), False),
    ],
)
def test_a_request_that_was_not_sent_is_not_paid_for(cause: Exception, is_free: bool) -> None:
    error = openai.APIConnectionError(request=httpx2.Request("POST", "http://models.example"))
    error.__cause__ = cause
    for foreign in (cause, error):
        assert is_unpaid(translate(foreign, to=ENDPOINT, now=NOW)) is is_free


def test_our_own_errors_pass_and_a_bug_is_not_tried_again() -> None:
    own = ModelUnavailable("x", fault=ModelFault.SERVER)
    assert translate(own, to=ENDPOINT, now=NOW) is own
    bug = translate(TypeError(SECRET), to=ENDPOINT, now=NOW)
    assert (bug.retry, bug.message) == (
        RetryClass.NOT_RETRYABLE,
        "the request to the provider failed with TypeError",
    )


def test_an_unreadable_image_reference_is_refused_before_anything_is_sent() -> None:
    part: JsonObject = {"type": "image", "image": "sha256:abc"}
    with pytest.raises(ModelRejected, match="neither an http address nor a data URL"):
        ask(OPENAI, Reply(), messages=[LLMMessage("user", parts=(part,))])


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"a": [' + "1," * EVENT_VALUES_MAX + "1]}", f"too many values: limit {EVENT_VALUES_MAX:,}"),
        ("[" * (EVENT_VALUES_MAX - 1), "not JSON"),
        ("x" * (EVENT_BYTES_MAX + 1), f"too large: limit {EVENT_BYTES_MAX:,} characters"),
    ],
)
def test_a_line_of_the_results_of_a_batch_is_limited_as_an_event_is(line: str, problem: str) -> None:
    with pytest.raises(ModelUnavailable, match=f"a line of results .*{problem}"):
        lines_of([line.encode(), b"\n"])


def lines_of(pieces: Iterable[bytes]) -> list[JsonObject]:
    async def stream() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def read() -> list[JsonObject]:
        return [line async for line in read_lines(stream())]

    return asyncio.run(read())


def test_results_are_read_line_by_line_and_a_line_without_an_end_is_not_kept() -> None:
    assert lines_of([b'{"a":1}\r\n\n{"b"', b":2}\n", b'{"c":3}']) == [{"a": 1}, {"b": 2}, {"c": 3}]
    pieces = iter([b"x" * 65_536] * 1_000)
    with pytest.raises(ModelUnavailable, match="too large"):
        lines_of(pieces)
    assert len(list(pieces)) > 800
