"""A model that never stops or asks for too much: every run ends, bounded."""

import json
import tracemalloc
from collections.abc import Sequence

import pytest
from tests.security.bank import DONE, Bank, codes, ended, machine, play, results

from windlass import Agent, AgentRuntime, Budget, LLMMessage, LLMUsage, ToolFailed, tool
from windlass.limits import (
    ARGUMENT_BYTES_MAX,
    ARGUMENT_VALUES_MAX,
    CONTENT_BYTES_MAX,
    FAILED_CHARS_MAX,
    TOOL_OUTPUT_CHARS_MAX,
)
from windlass.testing import Answer, FakeClock, ScriptedModel, call, run_in_fake_time, say
from windlass.testing.models import ScriptedCall
from windlass_harness.loop.rules import CALLS_PER_STEP_MAX, Rules
from windlass_protocol import JsonObject, JsonValue, RunResult, ToolResult


@tool(mode="read")
async def look(what: str = "") -> str:
    """Look."""
    return "there"


USAGE = LLMUsage(input_tokens=10, output_tokens=5, cost_micros=7)


# budgets


@pytest.mark.promise("L1")
@pytest.mark.parametrize(
    ("limit", "named", "requests"),
    [
        (Budget(max_steps=3), "steps", 3),
        (Budget(max_tool_calls=4), "tool_calls", 5),
        (Budget(max_tokens=100), "tokens", 7),
        (Budget(max_cost_micros=50), "cost", 8),
    ],
)
def test_a_run_that_never_ends_stops_at_its_budget_and_says_which(
    limit: Budget, named: str, requests: int
) -> None:
    model = ScriptedModel(lambda _: Answer(calls=(ScriptedCall("look", {}),), usage=USAGE))
    seen = list[str]()

    async def story() -> RunResult:
        agent = Agent("loop", model=model, tools=[look], prices={"*": 0})
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", budget=limit)
            result = await handle.wait(timeout=300)
            async for event in handle.events():
                if event.type == "run.budget_exhausted":
                    seen.append(str(event.data["exceeded"]))
            return result

    result = play(story())
    assert str(result.status) == "budget_exhausted"
    assert seen == [f"['{named}']"]
    assert len(model.requests) <= requests


@pytest.mark.promise("L1")
def test_a_run_that_takes_too_long_stops_at_its_budget() -> None:
    clock = FakeClock()
    model = ScriptedModel(lambda _: Answer(calls=(ScriptedCall("look", {}),), delay_s=10.0), clock=clock)
    limit = Budget(max_wall_ms=60_000)

    async def story() -> RunResult:
        agent = Agent("loop", model=model, tools=[look])
        async with AgentRuntime.in_memory([agent], machine=machine(clock)) as runtime:
            return await (await runtime.start_run(agent, "go", budget=limit)).wait(timeout=600)

    result = run_in_fake_time(story(), clock=clock)
    assert str(result.status) == "budget_exhausted"
    assert clock.monotonic() <= 61


@pytest.mark.promise("L1")
def test_two_agents_cannot_keep_each_other_busy_in_one_session() -> None:
    """Each started run has a budget of its own; within one run there is one agent."""

    def answer(messages: Sequence[LLMMessage]) -> Answer:
        return call("look", {"what": str(len(messages))})

    async def story() -> list[str]:
        one = Agent("one", model=ScriptedModel(answer), tools=[look])
        two = Agent("two", model=ScriptedModel(answer), tools=[look])
        ends = list[str]()
        async with AgentRuntime.in_memory([one, two]) as runtime:
            for at, agent in enumerate((one, two, one, two)):
                handle = await runtime.start_run(
                    agent, "go", session_id="s", run_id=f"r{at}", budget=Budget(max_steps=2)
                )
                ends.append(await ended(handle))
        return ends

    assert play(story()) == ["budget_exhausted"] * 4


# too much of the model


@pytest.mark.promise("L1")
@pytest.mark.parametrize("most", [2, CALLS_PER_STEP_MAX, CALLS_PER_STEP_MAX + 40])
@pytest.mark.parametrize("more", [0, 1, 10_000])
def test_calls_past_the_limit_of_one_answer_are_refused_and_none_is_made(most: int, more: int) -> None:
    count = most + more
    ran = list[str]()

    @tool(mode="read")
    async def note(n: int) -> str:
        """Note."""
        ran.append(str(n))
        return "ok"

    async def story() -> RunResult:
        many = Answer(calls=tuple(ScriptedCall("note", {"n": n}, f"c{n}") for n in range(count)))
        agent = Agent("many", model=ScriptedModel([many, DONE]), tools=[note])
        async with AgentRuntime.in_memory([agent], rules=Rules(calls_per_step_max=most)) as runtime:
            return await (await runtime.start_run(agent, "go")).wait(timeout=300)

    result = play(story())
    is_fine = not more
    assert str(result.status) == ("completed" if is_fine else "failed")
    assert len(ran) == (count if is_fine else 0)
    if not is_fine:
        assert result.error is not None
        assert f"limit of {most}" in result.error.message


@pytest.mark.promise("L1")
def test_a_tool_name_of_a_megabyte_is_refused_and_kept_short() -> None:
    bank = Bank()

    async def story() -> None:
        agent = bank.agent([call("pay" * 350_000, {"cents": 1}), say("ok")], mode="read")
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go")
            assert await ended(handle) == "completed"
            assert await codes(handle) == ["unknown_tool"]
            sizes = [len(str(event.data)) async for event in handle.events()]
            assert max(sizes) < 2_000

    play(story())


def large(size: int, chunk_chars: int | None) -> JsonObject | str:
    """Arguments of a size: whole, or as text that comes in pieces."""
    arguments: JsonObject = {"cents": 1, "to": "x" * size}
    return arguments if chunk_chars is None else json.dumps(arguments)


@pytest.mark.promise("L1")
@pytest.mark.parametrize("size", [ARGUMENT_BYTES_MAX + 1, 2_000_000])
@pytest.mark.parametrize("chunk_chars", [None, 100_000])
def test_arguments_that_are_too_large_fail_the_call(size: int, chunk_chars: int | None) -> None:
    bank = Bank()

    async def story() -> None:
        model = ScriptedModel([call("pay", large(size, chunk_chars)), say("sorry")], chunk_chars=chunk_chars)
        agent = bank.agent(model, mode="read")
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go")
            assert await ended(handle) == "completed"
            assert await codes(handle) == ["invalid_arguments"]

    play(story())
    assert bank.paid == []


@pytest.mark.promise("L1")
@pytest.mark.parametrize(
    ("values", "code"), [(ARGUMENT_VALUES_MAX, None), (ARGUMENT_VALUES_MAX + 1, "invalid_arguments")]
)
@pytest.mark.parametrize("chunk_chars", [None, 100_000])
def test_arguments_of_too_many_values_fail_the_call(
    values: int, code: str | None, chunk_chars: int | None
) -> None:
    @tool(mode="read")
    async def count(items: list[int]) -> int:
        """Count."""
        return len(items)

    async def story() -> None:
        # The object and the list are values, too.
        items: list[JsonValue] = [0] * (values - 1)
        arguments: JsonObject = {"items": items}
        plain = arguments if chunk_chars is None else json.dumps(arguments)
        model = ScriptedModel([call("count", plain), say("done")], chunk_chars=chunk_chars)
        async with AgentRuntime.in_memory([Agent("counter", model=model, tools=[count])]) as runtime:
            handle = await runtime.start_run("counter", "go")
            assert await ended(handle) == "completed"
            assert await codes(handle) == [code]
            if code is not None:
                assert (
                    f"they are too large: {values:,} values, limit {ARGUMENT_VALUES_MAX:,};"
                    in model.requests[1].messages[-1].content
                )

    play(story())


@pytest.mark.promise("L1")
@pytest.mark.parametrize("chunk_chars", [None, 100_000])
def test_arguments_of_ten_megabytes_end_the_run(chunk_chars: int | None) -> None:
    bank = Bank()

    async def story() -> RunResult:
        model = ScriptedModel([call("pay", large(10_000_000, chunk_chars))], chunk_chars=chunk_chars)
        agent = bank.agent(model, mode="read")
        async with AgentRuntime.in_memory([agent]) as runtime:
            return await (await runtime.start_run(agent, "go")).wait(timeout=300)

    result = play(story())
    assert str(result.status) == "failed"
    assert result.error is not None
    assert "too large" in result.error.message
    assert bank.paid == []


# too much of a tool


@pytest.mark.promise("L1")
@pytest.mark.parametrize(
    ("size", "words"), [(5_000_000, "content store"), (CONTENT_BYTES_MAX + 1, "too large to be stored")]
)
def test_an_output_that_is_too_large_is_cut_with_a_marker_and_memory_stays_bounded(
    size: int, words: str
) -> None:
    shown = list[str]()

    async def flood() -> str:
        """Return a lot."""
        return "x" * size

    async def story() -> int:
        made = tool(flood, mode="read")
        agent = Agent("flood", model=ScriptedModel([call("flood"), DONE]), tools=[made])
        async with AgentRuntime.in_memory([agent]) as runtime:
            tracemalloc.start()
            try:
                handle = await runtime.start_run(agent, "go")
                assert await ended(handle) == "completed"
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            (result,) = await results(handle)
            shown.append(str(result["result"]))
            return peak

    peak = play(story())
    assert words in shown[0]
    assert len(shown[0]) < TOOL_OUTPUT_CHARS_MAX + 1_000
    # The output itself, once more as JSON, and the working memory of masking.
    assert peak < 5 * size + 20_000_000


@pytest.mark.promise("L1")
@pytest.mark.parametrize("kind", ["raised", "failed", "result"])
def test_the_error_of_a_failed_call_is_bounded(kind: str) -> None:
    async def fail() -> ToolResult:
        """Fail."""
        if kind == "raised":
            raise RuntimeError("x" * 5_000_000)
        if kind == "failed":
            raise ToolFailed("x" * 5_000_000)
        return ToolResult(success=False, error="x" * 5_000_000)

    async def story() -> int:
        agent = Agent("a", model=ScriptedModel([call("fail"), DONE]), tools=[tool(fail, mode="read")])
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go")
            assert await ended(handle) == "completed"
            (result,) = await results(handle)
            return len(str(result))

    assert play(story()) < FAILED_CHARS_MAX + 1_000
