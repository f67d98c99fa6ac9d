import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Coroutine
from itertools import pairwise
from typing import Any, TypeVar

import pytest

from windlass import Agent, AgentRuntime
from windlass.limits import FAILED_CHARS_MAX, FAILURE_CHARS_MAX
from windlass.parts import Machine
from windlass.testing import (
    FakeClock,
    ScriptedModel,
    call,
    run_in_fake_time,
    say,
    seeded_random,
    sequential_ids,
)
from windlass.tools import Tool, ToolFailed, tool
from windlass.tools import calling as tool_thread
from windlass.tools.calling import ToolRun, TurnGate, failure_text, run_tool
from windlass.tools.context import ToolContext
from windlass_protocol import JsonObject, ToolResult

T = TypeVar("T")
VARIABLE = contextvars.ContextVar("VARIABLE", default="unset")


def run(main: Coroutine[object, object, T]) -> T:
    return asyncio.run(asyncio.wait_for(main, 300))


async def tried(made: Tool[..., object], **values: object) -> ToolRun:
    return await run_tool(made, values, context=ToolContext("s", "r", "c"))


def test_an_async_tool_runs_in_the_loop_and_gets_its_context():
    @tool
    async def look(item: str, context: ToolContext) -> list[object]:
        return [item, context.run_id, threading.current_thread() is threading.main_thread()]

    assert run(tried(look, item="a")) == ToolRun(ToolResult(success=True, data=["a", "r", True]))


def test_another_tool_runs_in_a_thread_with_the_callers_context_variables():
    @tool
    def look(context: ToolContext) -> list[object]:
        return [context.call_id, VARIABLE.get(), threading.current_thread() is threading.main_thread()]

    async def main() -> ToolRun:
        VARIABLE.set("set")
        return await tried(look)

    assert run(main()).result.data == ["c", "set", False]


def test_an_awaitable_returned_by_a_plain_function_is_awaited():
    async def later() -> int:
        return 5

    @tool
    def look() -> Awaitable[int]:
        return later()

    assert run(tried(look)).result.data == 5


@pytest.mark.parametrize("is_async", [True, False])
def test_an_exception_of_a_tool_becomes_one_short_line(is_async: bool):
    def broken() -> None:
        raise KeyError("token AKIAIOSFODNN7EXAMPLE\nand the second line" + "x" * 5_000)

    async def broken_later() -> None:
        broken()

    answer = run(tried(tool(broken_later if is_async else broken)))
    assert answer.result.success is False
    assert answer.result.needs_followup is True
    assert answer.result.error is not None
    assert answer.result.error.startswith("KeyError: ")
    assert "AKIA" not in answer.result.error
    assert len(answer.result.error) <= FAILURE_CHARS_MAX
    assert isinstance(answer.error, KeyError)
    assert (answer.is_timeout, answer.is_retryable) == (False, False)


def test_a_failure_in_the_tools_own_words_reaches_the_model():
    @tool
    async def charge() -> None:
        raise ToolFailed("the card was refused\nask for another", retryable=True)

    answer = run(tried(charge))
    assert answer.result == ToolResult(
        success=False, error="the card was refused\nask for another", needs_followup=True
    )
    assert answer.is_retryable
    assert len(ToolFailed("x" * 9_000).message) == FAILED_CHARS_MAX


@pytest.mark.parametrize("error", [StopIteration(), SystemExit(), KeyboardInterrupt(), GeneratorExit()])
def test_a_thread_that_would_hang_or_end_the_program_is_a_failure(error: BaseException):
    @tool
    def stops() -> None:
        raise error

    if isinstance(error, GeneratorExit):
        with pytest.raises(GeneratorExit):
            run(tried(stops))
        return
    answer = run(tried(stops))
    assert answer.result.error == f"RuntimeError: the function raised {type(error).__name__}"


def test_a_result_that_fails_when_it_is_looked_at_is_a_failure():
    class Liar(dict[str, object]):
        def items(self) -> Any:
            raise RuntimeError("no")

    @tool
    async def lie() -> dict[str, object]:
        return Liar({"a": object()})

    assert "it holds a value of type Liar;" in (run(tried(lie)).result.error or "")


def test_a_tool_that_takes_too_long_is_cancelled_and_its_effect_unknown():
    cancelled: list[bool] = []

    @tool(timeout=0.001)
    async def hang(context: ToolContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)

    answer = run(tried(hang))
    assert answer.is_timeout
    assert cancelled == [True]
    assert answer.result.error == "hang did not finish within 1 ms; whether it did anything is not known"


def test_the_time_of_the_context_counts_when_it_is_shorter():
    @tool(timeout=60)
    async def hang() -> None:
        await asyncio.Event().wait()

    answer = run(run_tool(hang, {}, context=ToolContext("s", "r", "c", timeout_ms=1)))
    assert answer.is_timeout
    assert "within 1 ms" in (answer.result.error or "")


def test_a_timeout_inside_a_tool_is_an_error_like_any_other():
    @tool
    async def fetch() -> None:
        raise TimeoutError("the server is slow")

    answer = run(tried(fetch))
    assert not answer.is_timeout
    assert answer.result.error == "TimeoutError: the server is slow"


def test_a_tool_thread_sees_that_it_timed_out():
    begun, seen = threading.Event(), threading.Event()

    @tool(timeout=0.001)
    def busy(context: ToolContext) -> None:
        begun.set()
        while not context.is_cancelled:
            pass
        seen.set()

    # A thread that a busy machine starts after the time limit does not call the tool.
    while not begun.is_set():
        assert run(tried(busy)).is_timeout
    assert seen.wait(300)


def test_cancelling_a_tool_call_sets_is_cancelled():
    async def main() -> None:
        started = asyncio.Event()
        context = ToolContext("s", "r", "c")

        @tool
        async def hang() -> None:
            started.set()
            await asyncio.Event().wait()

        task = asyncio.ensure_future(run_tool(hang, {}, context=context))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert context.is_cancelled

    run(main())


def test_no_more_threads_than_the_limit_run_and_the_others_wait(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tool_thread, "_THREADS", type(tool_thread.__dict__["_THREADS"])("one", 1))
    order: list[str] = []
    release = threading.Event()

    def first() -> None:
        release.wait(300)
        order.append("first")

    async def main() -> None:
        one = asyncio.ensure_future(tool_thread.in_thread(first))
        given_up = asyncio.ensure_future(tool_thread.in_thread(lambda: order.append("given up")))
        two = asyncio.ensure_future(tool_thread.in_thread(lambda: order.append("second")))
        await asyncio.sleep(0)
        assert not two.done()
        given_up.cancel()
        await asyncio.sleep(0)
        release.set()
        await asyncio.gather(one, two)

    run(main())
    assert order == ["first", "second"]


def test_an_exception_without_a_message_is_described_by_its_class():
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    assert "Mute" in failure_text(Mute())
    assert failure_text(ValueError()) == "ValueError"


def test_a_result_that_is_no_data_is_a_failure_that_says_the_tool_has_run():
    @tool
    def look() -> object:
        return {"rows": threading.Lock()}

    ran = run(tried(look))
    assert not ran.result.success
    assert ran.result.error is not None
    assert ran.result.error.startswith(
        "the tool has run, and its effects have happened, but its result cannot"
    )
    assert "it holds a value of type lock;" in ran.result.error
    assert isinstance(ran.error, ToolFailed)
    assert not ran.is_retryable


@pytest.mark.parametrize(("failures", "told"), [(2, "paid on attempt 3"), (3, "the bank is busy")])
def test_a_failure_that_a_tool_marks_as_retryable_is_retried_with_the_same_key(
    failures: int, told: str
) -> None:
    keys: list[str] = []

    @tool(mode="safe_write", effect="idempotent", retries=2)
    async def pay(ctx: ToolContext) -> str:
        keys.append(ctx.idempotency_key)
        ctx.state[f"attempt {len(keys)}"] = True
        ctx.log(f"attempt {len(keys)}")
        if len(keys) <= failures:
            raise ToolFailed("the bank is busy", retryable=True)
        return f"paid on attempt {len(keys)}"

    model = ScriptedModel([call("pay", {}), say("Done.")])
    agent = Agent("clerk", model=model, tools=[pay])
    clock = FakeClock()

    async def story() -> tuple[JsonObject, JsonObject]:
        machine = Machine(clock, sequential_ids(), seeded_random(1))
        async with AgentRuntime.in_memory([agent], machine=machine) as runtime:
            handle = await runtime.start_run(agent, "Pay.", session_id="s")
            await handle.wait()
            [data] = [event.data async for event in handle.events() if event.type == "action.result"]
            return data, await runtime.sessions.state("s")

    began = clock.monotonic()
    data, state = run_in_fake_time(story(), clock=clock)
    assert model.requests[1].messages[-1].content == told
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert data["log"] == ["attempt 1", "attempt 2", "attempt 3"]
    assert clock.monotonic() - began >= 0.48, "pauses of 0.2 and 0.4 seconds, less a fifth"
    assert state == ({"attempt 3": True} if failures == 2 else {}), "a failed attempt changes nothing"


def test_a_failure_without_the_mark_is_not_retried_and_the_timeout_covers_the_retries() -> None:
    calls: list[str] = []

    @tool(mode="read", retries=2)
    async def plain() -> str:
        calls.append("plain")
        raise ToolFailed("no")

    @tool(mode="read", retries=10, timeout=1)
    async def slow() -> str:
        calls.append("slow")
        raise ToolFailed("busy", retryable=True)

    model = ScriptedModel([call("plain", {}), call("slow", {}), say("Done.")])
    agent = Agent("clerk", model=model, tools=[plain, slow])
    clock = FakeClock()

    async def story() -> list[str]:
        machine = Machine(clock, sequential_ids(), seeded_random(1))
        async with AgentRuntime.in_memory([agent], machine=machine) as runtime:
            handle = await runtime.start_run(agent, "Look.")
            await handle.wait()
            results = [event.data async for event in handle.events() if event.type == "action.result"]
            return [str(data.get("error")) for data in results]

    plain_error, slow_error = run_in_fake_time(story(), clock=clock)
    assert "no" in plain_error
    assert "did not finish within 1,000 ms" in slow_error
    assert calls == ["plain", "slow", "slow", "slow"], "after pauses of 0.2 and 0.4 seconds the time is over"


def test_a_gate_lets_so_many_go_on_in_a_turn_in_their_order() -> None:
    async def story() -> None:
        gate, order = TurnGate(3), list[int]()

        async def go(number: int) -> None:
            await gate.wait()
            order.append(number)

        tasks = [asyncio.create_task(go(number)) for number in range(10)]
        await asyncio.sleep(0)
        # Who leaves takes no place.
        tasks[4].cancel()
        counts = [len(order)]
        while len(order) < 9:
            await asyncio.sleep(0)
            counts.append(len(order))
        assert order == [0, 1, 2, 3, 5, 6, 7, 8, 9]
        assert max(after - before for before, after in pairwise([0, *counts])) == 3
        for _ in range(3):
            # A turn later it is as before.
            await asyncio.sleep(0)
        await asyncio.gather(*(go(number) for number in range(3)))
        assert order[9:] == [0, 1, 2]

    run(story())
