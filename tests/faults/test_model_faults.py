"""Models that hang, break off or never stop: the run ends in time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast
from unittest.mock import patch

import pytest
from tests.faults.scene import Scene, agent_of, ends_of, records_of

from windlass import LLMMessage, LLMStreamChunk, LLMUsage, ToolCall, ToolCallDelta, Unavailable, tool
from windlass.engine.model_calls import model_call as answers
from windlass.limits import MODEL_IDLE_TIMEOUT_MS, MODEL_TIMEOUT_MS
from windlass.ports.clock import Clock
from windlass.testing import Answer, ScriptedModel, fail, say
from windlass_harness.record import Record
from windlass_harness.retry import RETRY_AFTER_MS_MAX
from windlass_protocol import (
    BudgetLimits,
    ErrorKind,
    FinishReason,
    JsonObject,
    RetryClass,
    RunResult,
    RunStatus,
)

ATTEMPTS: Final = 3
RETRIES_S: Final = 11.0
"""The longest total delay between all attempts."""
IDLE_S: Final = MODEL_IDLE_TIMEOUT_MS / 1000
TIMEOUT_S: Final = MODEL_TIMEOUT_MS / 1000
TEXT: Final = "all of the answer"

Chunks = Callable[[Clock], AsyncIterator[LLMStreamChunk]]


@dataclass(slots=True)
class RawModel:
    """A provider that gives out exactly these chunks, each time."""

    chunks: Chunks
    clock: Clock
    route_id: str = "raw"
    model_id: str = "raw"
    asked: int = 0

    def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        self.asked += 1
        if any(message.role == "tool" for message in messages):
            return _listed(_text("done"), _finish())
        return self.chunks(self.clock)


@dataclass(frozen=True, slots=True)
class FaultRun:
    """The course of a run."""

    result: RunResult
    records: list[Record]
    took_s: float
    asked: int
    calls: list[object]

    @property
    def said(self) -> list[object]:
        """The messages of the model that are recorded as complete."""
        return [record.data["message"] for record in self.records if record.type == "message.completed"]


def run(chunks: Chunks, *, budget: BudgetLimits | None = None, script: Sequence[Answer] = ()) -> FaultRun:
    """Run an agent on a model in fake time."""

    async def story(scene: Scene) -> FaultRun:
        calls: list[object] = []

        @tool(mode="read", effect="read", description="Look at something.")
        async def look(at: int = 0) -> int:
            calls.append(at)
            return at

        provider = ScriptedModel(script, chunk_chars=1) if script else RawModel(chunks, scene.clock)
        agent = replace(agent_of(provider, [look]), retry_for_ms=0)
        async with scene.runtime([agent]) as runtime:
            began = scene.clock.monotonic()
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1", budget=budget)
            result = await handle.wait(timeout=ATTEMPTS * TIMEOUT_S * 3)
            took_s = scene.clock.monotonic() - began
            records = await records_of(scene.store)
            assert ends_of(records) == [f"run.{result.status}"]
            asked = len(provider.requests) if isinstance(provider, ScriptedModel) else provider.asked
            return FaultRun(result, records, took_s, asked, calls)

    return cast(FaultRun, Scene().play(story))


def _text(text: str) -> LLMStreamChunk:
    return LLMStreamChunk(content_delta=text)


def _finish(reason: FinishReason | str = "stop") -> LLMStreamChunk:
    return LLMStreamChunk(finish_reason=reason)


async def _listed(*chunks: Any) -> AsyncIterator[LLMStreamChunk]:
    for chunk in chunks:
        if isinstance(chunk, BaseException):
            raise chunk
        yield chunk


def listed(*chunks: Any) -> Chunks:
    return lambda clock: _listed(*chunks)


def _call(index: int, call_id: str | None, name: str | None, text: str) -> LLMStreamChunk:
    return LLMStreamChunk(tool_call_delta=ToolCallDelta(index, id=call_id, name=name, arguments_delta=text))


# silence


async def _never(clock: Clock) -> AsyncIterator[LLMStreamChunk]:
    await asyncio.Event().wait()
    yield _finish()


async def _stops(clock: Clock) -> AsyncIterator[LLMStreamChunk]:
    yield _text("half of it")
    await asyncio.Event().wait()


async def _drips(clock: Clock) -> AsyncIterator[LLMStreamChunk]:
    while True:
        yield _text("x")
        await clock.sleep(IDLE_S / 2)


@pytest.mark.parametrize(
    ("chunks", "each_s"),
    [(_never, IDLE_S), (_stops, IDLE_S), (_drips, TIMEOUT_S)],
    ids=["mute", "stops", "drips"],
)
def test_a_model_that_does_not_end_is_given_up_in_time(chunks: Chunks, each_s: float) -> None:
    told = run(chunks)
    assert told.result.status is RunStatus.FAILED
    assert told.asked == ATTEMPTS
    assert told.took_s <= ATTEMPTS * each_s + RETRIES_S + 1
    assert told.said == []


@pytest.mark.parametrize("chunks", [_never, _stops, _drips], ids=["mute", "stops", "drips"])
def test_a_run_with_a_deadline_ends_with_it(chunks: Chunks) -> None:
    told = run(chunks, budget=BudgetLimits(max_wall_ms=30_000))
    assert told.result.status is RunStatus.BUDGET_EXHAUSTED
    assert told.took_s <= 31
    assert told.said == []


def test_a_run_with_a_deadline_does_not_wait_longer_for_a_busy_server() -> None:
    busy = status_error(RetryClass.RETRYABLE, 3_600_000)
    told = run(listed(busy), budget=BudgetLimits(max_wall_ms=30_000))
    assert told.took_s <= 31


# errors


def status_error(retry: RetryClass, retry_after_ms: int | None = None) -> Unavailable:
    """Return the error of an adapter for an HTTP status."""
    return Unavailable(
        "the provider refused", kind=ErrorKind.PROVIDER_FAILURE, retry=retry, retry_after_ms=retry_after_ms
    )


def test_a_server_that_is_busy_is_asked_again_when_it_says_so() -> None:
    busy = status_error(RetryClass.RETRYABLE, 60_000)
    told = run(listed(), script=[fail(busy), fail(busy), say(TEXT)])
    assert told.result.output == TEXT
    assert 120 <= told.took_s <= 121


def test_a_huge_retry_after_is_capped_at_the_limit() -> None:
    busy = status_error(RetryClass.RETRYABLE, 30 * 86_400_000)
    told = run(listed(), script=[fail(busy), say(TEXT)])
    assert told.result.output == TEXT
    waits = [record.data["delayMs"] for record in told.records if record.type == "step.retrying"]
    assert waits == [RETRY_AFTER_MS_MAX]
    assert RETRY_AFTER_MS_MAX / 1_000 <= told.took_s <= RETRY_AFTER_MS_MAX / 1_000 + 2


def test_a_server_that_stays_broken_fails_the_run_after_its_attempts() -> None:
    broken = status_error(RetryClass.RETRYABLE)
    told = run(listed(_text("half"), broken))
    assert (told.result.status, told.asked, told.said) == (RunStatus.FAILED, ATTEMPTS, [])
    assert told.took_s <= RETRIES_S


def test_an_error_that_cannot_pass_is_not_tried_again() -> None:
    told = run(listed(_text("half"), status_error(RetryClass.NOT_RETRYABLE)))
    assert (told.result.status, told.asked, told.said) == (RunStatus.FAILED, 1, [])


@pytest.mark.parametrize(
    "error", [ConnectionError(), TimeoutError(), ValueError("prompt"), asyncio.CancelledError()], ids=repr
)
@pytest.mark.parametrize("at", range(len(TEXT) + 1))
def test_a_connection_that_breaks_at_any_chunk_leaves_no_partial_message(
    error: BaseException, at: int
) -> None:
    pieces = [*TEXT[:at]]
    told = run(listed(*map(_text, pieces), error))
    assert told.result.status is RunStatus.FAILED
    assert told.asked == (1 if isinstance(error, ValueError) else ATTEMPTS)
    assert told.said == []
    assert told.took_s <= RETRIES_S
    again = run(listed(), script=[fail(error, after=TEXT[:at]), say(TEXT)])
    if not isinstance(error, ValueError):
        assert again.result.output == TEXT
        assert again.said == [TEXT]


# nonsense

NOTHING: Final = LLMStreamChunk()
MALFORMED: Final[dict[str, Sequence[Any]]] = {
    "no chunks": (),
    "no finish": (_text("half"),),
    "a chunk that is nothing": (None,),
    "a chunk of another kind": ("text",),
    "no arguments": (_call(0, "a", "look", cast(Any, None)),),
    "a number for a text": (_text(cast(Any, 7)),),
    "an index that is none": (
        _call(cast(Any, "x"), "a", "look", "{}"),
        _call(0, "b", "look", "{}"),
        _finish(),
    ),
}


@pytest.mark.parametrize("chunks", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_answer_fails_the_run_and_records_no_message(chunks: Sequence[Any]) -> None:
    told = run(listed(*chunks))
    assert told.result.status is RunStatus.FAILED
    assert told.said == []
    assert told.took_s <= RETRIES_S


@pytest.mark.parametrize("reason", ["length", "content_filter", "error"])
def test_an_answer_that_was_cut_off_does_not_complete_the_run(reason: str) -> None:
    told = run(listed(_text("half"), _finish(reason)))
    assert told.result.status is RunStatus.FAILED


def test_an_unknown_finish_reason_ends_the_answer() -> None:
    told = run(listed(_text(TEXT), _finish("because"), NOTHING))
    assert told.result.output == TEXT


CALLS: Final[dict[str, tuple[Sequence[Any], list[int]]]] = {
    "out of order": (
        (
            _call(1, "b", "look", '{"at"'),
            _call(0, "a", "look", '{"at": 1'),
            _call(1, None, None, ": 2}"),
            _call(0, None, None, "}"),
        ),
        [1, 2],
    ),
    "the same id twice": ((_call(0, "a", "look", '{"at": 1}'), _call(1, "a", "look", '{"at": 2}')), [1, 2]),
    "no ids": ((_call(0, None, "look", '{"at": 1}'), _call(1, None, "look", '{"at": 2}')), [1, 2]),
    "whole calls among pieces": (
        (
            _call(1, "b", "look", '{"at": 2'),
            LLMStreamChunk(tool_call_delta=ToolCall(id="c", name="look", arguments={"at": 3})),
            _call(1, None, None, "}"),
            _call(0, "a", "look", '{"at": 1}'),
        ),
        [1, 2, 3],
    ),
    "pieces of nothing": ((NOTHING, _call(0, "a", "look", ""), NOTHING, _call(0, None, None, "")), [0]),
}


@pytest.mark.parametrize(("chunks", "calls"), CALLS.values(), ids=CALLS)
def test_calls_are_assembled_from_any_split_of_chunks(chunks: Sequence[Any], calls: list[int]) -> None:
    told = run(listed(*chunks, _finish("tool_calls")))
    assert told.result.status is RunStatus.COMPLETED
    assert sorted(cast(list[int], told.calls)) == calls
    ids = [record.data["callId"] for record in told.records if record.type == "action.started"]
    assert len(ids) == len(set(map(str, ids))) == len(calls)


@pytest.mark.parametrize("text", ["{", '{"at": }', "[1]", '"look"', "{} {}", '{"at": 1e999}', "\ud800"])
def test_broken_arguments_are_refused_and_nothing_runs(text: str) -> None:
    told = run(listed(_call(0, "a", "look", text), _finish("tool_calls")))
    assert told.result.status is RunStatus.COMPLETED
    assert told.calls == []


def test_halves_of_characters_are_joined_or_replaced() -> None:
    told = run(listed(_text("\ud83d"), _text("\ude00 and \ud83d"), _finish()))
    assert told.said == ["😀 and \ufffd"]


# too much


def test_an_endless_stream_of_text_is_cut_off() -> None:
    async def endless(clock: Clock) -> AsyncIterator[LLMStreamChunk]:
        while True:
            yield _text("x" * 100_000)

    told = run(endless)
    assert (told.result.status, told.asked, told.said) == (RunStatus.FAILED, 1, [])


def test_an_endless_stream_of_nothing_is_cut_off() -> None:
    async def endless(clock: Clock) -> AsyncIterator[LLMStreamChunk]:
        while True:
            yield LLMStreamChunk(usage=LLMUsage(input_tokens=1))

    with patch.object(answers, "MODEL_TEXT_CHARS_MAX", 10_000):
        told = run(endless)
    assert (told.result.status, told.asked, told.said) == (RunStatus.FAILED, 1, [])


def test_an_endless_stream_of_calls_is_cut_off() -> None:
    async def endless(clock: Clock) -> AsyncIterator[LLMStreamChunk]:
        for index in range(1_000_000):
            yield _call(index, None, "look", "{}")

    told = run(endless)
    assert (told.result.status, told.calls, told.said) == (RunStatus.FAILED, [], [])
