import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar, cast

import pytest
from tests.simulator import simulate

from windlass import Agent, AgentRuntime, testing, tool
from windlass.errors import Rejected, Unavailable
from windlass.parts import Machine
from windlass.ports.clock import Clock, IdFactory, Random
from windlass.ports.model import LLMMessage, LLMProvider, LLMStreamChunk, LLMUsage, ToolCallDelta
from windlass.runtime.options import RuntimeOptions
from windlass.testing import (
    Answer,
    FakeClock,
    ScriptedModel,
    by_history,
    call,
    fail,
    run_in_fake_time,
    say,
    seeded_random,
    sequential_ids,
)
from windlass.testing.time import IDLE_S_MAX
from windlass_protocol import ErrorKind, FinishReason, JsonObject, RetryClass, ToolCall

T = TypeVar("T")
STOP = LLMStreamChunk(finish_reason=FinishReason.STOP, usage=LLMUsage(1, 2))
LOOK: JsonObject = {"name": "look"}
DOWN = Unavailable("down", kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.RETRYABLE)


def run(main: Coroutine[object, object, T]) -> T:
    return asyncio.run(asyncio.wait_for(main, 300))


async def read(model: LLMProvider, *messages: LLMMessage) -> list[LLMStreamChunk]:
    return [chunk async for chunk in model.stream(messages)]


def chunks_of(model: LLMProvider, *messages: LLMMessage) -> list[LLMStreamChunk]:
    return run(read(model, *messages))


def test_the_testing_fakes_implement_the_ports():
    provider: LLMProvider = ScriptedModel([])
    clock: Clock = FakeClock()
    ids: IdFactory = sequential_ids()
    chance: Random = seeded_random(1)
    assert all([provider, clock, ids, chance])
    assert set(dir(testing)) >= {"ScriptedModel", "FakeClock", "say", "call", "fail"}


def test_a_scripted_model_gives_its_answers_in_order_and_records_its_requests():
    usage = LLMUsage(input_tokens=3, output_tokens=1)
    model = ScriptedModel([say("one", usage=usage), say("two", reasoning="hm")])
    question = LLMMessage("user", "hello")
    assert chunks_of(model, question) == [
        LLMStreamChunk(content_delta="one"),
        LLMStreamChunk(finish_reason=FinishReason.STOP, usage=usage),
    ]
    assert chunks_of(model) == [
        LLMStreamChunk(reasoning_delta="hm"),
        LLMStreamChunk(content_delta="two"),
        STOP,
    ]
    assert [request.messages for request in model.requests] == [(question,), ()]


def test_tools_and_temperature_are_kept_too():
    model = ScriptedModel([say("x")])

    async def main() -> None:
        async for _ in model.stream([], tools=iter([LOOK]), temperature=0.5):
            pass

    run(main())
    assert (model.requests[0].tools, model.requests[0].temperature) == (({"name": "look"},), 0.5)


def test_a_script_at_its_end_says_so():
    model = ScriptedModel([say("one")])
    chunks_of(model)
    with pytest.raises(Rejected, match="the script has 1 answers, and this is request number 2"):
        chunks_of(model)


def test_a_call_comes_whole_and_is_numbered_by_the_history():
    model = ScriptedModel([call("look", {"item": "pen"}) + call("pay"), call("look", call_id="mine")])
    first, second = ToolCall(id="call-1", name="look", arguments={"item": "pen"}), None
    chunks = chunks_of(model)
    assert chunks == [
        LLMStreamChunk(tool_call_delta=first),
        LLMStreamChunk(tool_call_delta=ToolCall(id="call-2", name="pay", arguments={})),
        LLMStreamChunk(finish_reason=FinishReason.TOOL_CALLS, usage=LLMUsage(1, 1)),
    ]
    second = chunks_of(model, LLMMessage("assistant", tool_calls=(first,)))[0].tool_call_delta
    assert isinstance(second, ToolCall)
    assert second.id == "mine"
    again = ScriptedModel([call("look")])
    third = chunks_of(again, LLMMessage("assistant", tool_calls=(first, first)))[0].tool_call_delta
    assert isinstance(third, ToolCall)
    assert third.id == "call-3"


def test_an_answer_comes_in_pieces_if_asked():
    model = ScriptedModel([say("abcde", reasoning="xyz") + call("look", {"a": 1})], chunk_chars=2)
    chunks = chunks_of(model)
    assert [chunk.reasoning_delta for chunk in chunks[:2]] == ["xy", "z"]
    assert [chunk.content_delta for chunk in chunks[2:5]] == ["ab", "cd", "e"]
    deltas = [chunk.tool_call_delta for chunk in chunks[5:-1]]
    assert deltas[0] == ToolCallDelta(0, id="call-1", name="look")
    assert "".join(delta.arguments_delta for delta in deltas if isinstance(delta, ToolCallDelta)) == '{"a":1}'
    assert all(isinstance(delta, ToolCallDelta) and delta.index == 0 for delta in deltas)
    with pytest.raises(ValueError, match="1 or more"):
        ScriptedModel([], chunk_chars=0)


def test_arguments_that_are_no_json_are_sent_as_they_are():
    deltas = [chunk.tool_call_delta for chunk in chunks_of(ScriptedModel([call("look", '{"a":')]))]
    assert deltas == [
        ToolCallDelta(0, id="call-1", name="look"),
        ToolCallDelta(0, arguments_delta='{"a":'),
        None,
    ]


@pytest.mark.parametrize(("at_chunk", "said"), [(0, ""), (1, "a"), (2, "ab"), (None, "abc"), (9, "abc")])
def test_an_answer_breaks_where_it_should(at_chunk: int | None, said: str):
    model = ScriptedModel([fail(DOWN, at_chunk=at_chunk, after="abc")], chunk_chars=1)
    text: list[str] = []

    async def main() -> None:
        async for chunk in model.stream([]):
            assert chunk.finish_reason is None
            text.append(chunk.content_delta or "")

    with pytest.raises(Unavailable):
        run(main())
    assert "".join(text) == said
    assert model.closed_early == 0


def test_a_stream_can_be_cut_off():
    assert chunks_of(ScriptedModel([Answer("abc", is_cut_off=True)])) == [LLMStreamChunk(content_delta="abc")]


def test_a_finish_reason_can_be_given():
    assert chunks_of(ScriptedModel([Answer("abc", finish_reason="length")]))[-1].finish_reason == "length"


def test_a_script_may_be_a_function_of_the_messages():
    def write(messages: Sequence[LLMMessage]) -> Answer:
        return say(messages[-1].content.upper())

    model = ScriptedModel(write)
    assert chunks_of(model, LLMMessage("user", "a"))[0].content_delta == "A"
    assert chunks_of(model, LLMMessage("user", "b"))[0].content_delta == "B"


def test_a_script_by_history_goes_on_where_the_history_ends():
    history = (LLMMessage("user", "a"), LLMMessage("assistant", "one"), LLMMessage("user", "b"))
    for _ in range(2):
        model = ScriptedModel(by_history([say("one"), say("two")]))
        assert chunks_of(model, *history)[0].content_delta == "two"
        assert chunks_of(model, *history[:1])[0].content_delta == "one"


def test_a_stream_closed_before_its_end_is_counted():
    model = ScriptedModel([say("abc")], chunk_chars=1)

    async def main() -> None:
        stream = model.stream([])
        await anext(stream)
        await cast(AsyncGenerator[LLMStreamChunk], stream).aclose()

    run(main())
    assert model.closed_early == 1


def test_an_answer_waits_for_its_gate():
    async def main() -> None:
        gate = asyncio.Event()
        reading = asyncio.ensure_future(read(ScriptedModel([Answer("a", gate=gate)])))
        await asyncio.sleep(0)
        assert not reading.done()
        gate.set()
        assert len(await reading) == 2

    run(main())


def test_delays_pass_by_the_clock_of_the_model():
    async def main() -> None:
        clock = FakeClock()
        model = ScriptedModel([Answer("a", delay_s=2)], clock=clock)
        reading = asyncio.ensure_future(read(model))
        for _ in range(2):
            await clock.until_sleeping()
            assert not reading.done()
            clock.advance(2)
        assert len(await reading) == 2

    run(main())
    with pytest.raises(ValueError, match="needs a clock"):
        chunks_of(ScriptedModel([Answer("a", delay_s=2)]))


def test_parts_of_an_answer_join_and_the_right_one_counts():
    gate, usage = asyncio.Event(), LLMUsage(input_tokens=1)
    left = Answer(
        "a", reasoning="x", usage=usage, finish_reason="stop", error=DOWN, error_at_chunk=3, gate=gate
    )
    assert left + say("b") == Answer(
        "ab", reasoning="x", usage=usage, finish_reason="stop", error=DOWN, error_at_chunk=3, gate=gate
    )
    right = Answer(usage=usage, finish_reason="length", error_at_chunk=1, delay_s=2, is_cut_off=True)
    joined = say("a") + right
    assert (joined.usage, joined.finish_reason, joined.error_at_chunk) == (usage, "length", 1)
    assert (joined.delay_s, joined.is_cut_off) == (2, True)


def test_a_fake_clock_changes_only_when_it_is_advanced():
    clock = FakeClock()
    assert clock.now() == datetime(2026, 1, 1, tzinfo=UTC)
    clock.advance(1.5)
    assert (clock.now(), clock.monotonic()) == (datetime(2026, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC), 1.5)
    clock.jump(-60)
    assert clock.monotonic() == 1.5
    assert clock.now() == datetime(2025, 12, 31, 23, 59, 1, 500_000, tzinfo=UTC)
    with pytest.raises(ValueError, match="advance takes 0 or more seconds"):
        clock.advance(-1)
    with pytest.raises(ValueError, match="start needs a time zone"):
        FakeClock(datetime(2026, 1, 1))  # noqa: DTZ001 - the test is about it


def sleeper(clock: FakeClock, woken: list[str]) -> Callable[[str, float], Coroutine[object, object, None]]:
    async def sleep(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    return sleep


def test_sleepers_wake_in_the_order_of_their_moments():
    async def main() -> None:
        clock, woken = FakeClock(), list[str]()
        sleep = sleeper(clock, woken)
        tasks = [
            asyncio.ensure_future(sleep(name, seconds))
            for name, seconds in (("c", 3), ("a", 1), ("b1", 2), ("b2", 2), ("now", 0), ("gone", 1))
        ]
        await clock.until_sleeping(5)
        await clock.until_sleeping(5)
        assert (clock.sleepers, clock.next_wake, woken) == (5, 1, ["now"])
        tasks[-1].cancel()
        clock.advance(0.5)
        await asyncio.gather(tasks[-1], return_exceptions=True)
        assert clock.sleepers == 4
        clock.advance(2.5)
        await asyncio.gather(*tasks[:-1])
        assert woken == ["now", "a", "b1", "b2", "c"]
        assert (clock.sleepers, clock.next_wake) == (0, None)

    run(main())


def test_a_cancelled_sleeper_is_no_moment_to_wait_for():
    async def main() -> None:
        clock = FakeClock()
        task = asyncio.ensure_future(clock.sleep(1))
        await clock.until_sleeping()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert clock.next_wake is None

    run(main())


def test_until_sleeping_returns_when_enough_tasks_sleep():
    async def main() -> None:
        clock = FakeClock()
        watching = asyncio.ensure_future(clock.until_sleeping(2))
        given_up = asyncio.ensure_future(clock.until_sleeping(2))
        await asyncio.sleep(0)
        given_up.cancel()
        tasks = [asyncio.ensure_future(clock.sleep(1))]
        await clock.until_sleeping()
        assert not watching.done()
        tasks.append(asyncio.ensure_future(clock.sleep(1)))
        await watching
        clock.advance(1)
        await asyncio.gather(*tasks)

    run(main())


def test_in_fake_time_an_hour_of_sleeps_and_timeouts_takes_a_moment():
    clock, order, moments = FakeClock(), list[str](), list[float]()

    async def sleep(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        order.append(name)
        moments.append(clock.monotonic())

    async def main() -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(sleep("three", 3_000))
            group.create_task(sleep("one", 1_000))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(2_000):
                    await clock.sleep(10**9)
            order.append("timeout")
            moments.append(clock.monotonic())
        for _ in range(10):
            await clock.sleep(0.1)
        return "done"

    assert run_in_fake_time(main(), clock=clock) == "done"
    assert order == ["one", "timeout", "three"]
    assert moments == [1_000, 2_000, 3_000]
    assert clock.monotonic() == pytest.approx(3_001)
    assert clock.now() - datetime(2026, 1, 1, tzinfo=UTC) == timedelta(seconds=3_001)


def test_fake_time_waits_for_threads_and_reports_stuck_tasks(monkeypatch: pytest.MonkeyPatch):
    assert run_in_fake_time(asyncio.to_thread(lambda: 5), clock=FakeClock()) == 5
    monkeypatch.setattr("windlass.testing.time.REAL_WAIT_S_MAX", 0.0)

    async def stuck() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="stuck: all tasks wait"):
        run_in_fake_time(stuck(), clock=FakeClock())


def unanswered(clock: FakeClock, expires_s: float | None = None) -> Coroutine[object, object, str | None]:
    """Wait for a run with a request that is never answered."""

    @tool(mode="external")
    async def mail() -> str:
        """Ask first."""
        return "sent"

    async def story() -> str | None:
        agent = Agent("clerk", model=ScriptedModel([call("mail"), say("Nobody answered.")]), tools=[mail])
        machine = Machine(clock, sequential_ids(), seeded_random(1))
        options: RuntimeOptions = {"machine": machine}
        if expires_s is not None:
            options["approval_expires_ms"] = int(expires_s * 1_000)
        async with AgentRuntime.in_memory([agent], **options) as runtime:
            return (await (await runtime.start_run(agent, "go")).wait()).output

    return story()


def test_a_stuck_test_beside_a_runtime_fails_with_the_reason() -> None:
    clock = FakeClock()
    with pytest.raises(RuntimeError, match="stuck: for 600 s only pollers have slept"):
        run_in_fake_time(unanswered(clock), clock=clock)
    assert clock.monotonic() < 2 * IDLE_S_MAX


def test_a_wait_of_a_parked_session_is_not_taken_for_one_without_end() -> None:
    clock, long_s = FakeClock(), 3 * IDLE_S_MAX
    assert run_in_fake_time(unanswered(clock, long_s), clock=clock) == "Nobody answered."
    assert clock.monotonic() >= long_s


def test_fake_ids_and_randomness_repeat():
    ids = sequential_ids("run")
    assert [ids(), ids()] == ["run-1", "run-2"]
    assert sequential_ids()() == "id-1"
    one, other = seeded_random(7), seeded_random(7)
    numbers = [one() for _ in range(1_000)]
    assert numbers == [other() for _ in range(1_000)]
    assert numbers != [seeded_random(8)() for _ in range(1_000)]
    assert all(0 <= number < 1 for number in numbers)
    assert 450 < sum(number < 0.5 for number in numbers) < 550
    assert seeded_random(0)() == pytest.approx(0.8833108082136426)


def test_a_simulation_inside_a_running_loop_says_so() -> None:
    async def story() -> None:
        with pytest.raises(RuntimeError, match=r"await asyncio.to_thread\(simulate, …\)"):
            simulate(1)
        with pytest.raises(RuntimeError, match=r"run_in_fake_time\(\) runs an event loop of its own"):
            run_in_fake_time(asyncio.sleep(0), clock=FakeClock())
        assert (await asyncio.to_thread(simulate, 1)).problems == ()

    asyncio.run(story())


def test_the_repr_of_a_message_to_a_model_shows_no_content() -> None:
    asked = ToolCall(id="c1", name="look", arguments={"word": "swordfish"})
    message = LLMMessage("assistant", "swordfish", tool_calls=(asked,), reasoning="swordfish")
    assert repr(message) == "LLMMessage(role='assistant', content=<9 characters>, tool_calls=<1>)"
    assert repr(LLMMessage("user", "swordfish")) == "LLMMessage(role='user', content=<9 characters>)"
