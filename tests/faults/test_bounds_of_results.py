"""Results that are large or odd: the call has happened, so they are kept."""

import asyncio
import json
import threading
from typing import Any, Final

import pytest
from tests.faults.test_host_code import calling, played

from windlass import Agent, AgentRuntime, Change, ToolFailed, Veto, hook, tool
from windlass.agent.agent import output_contract
from windlass.limits import FAILURE_CHARS_MAX, MODEL_PART_BYTES_MAX, OUTPUT_BYTES_MAX, THREADS_MAX
from windlass.testing import ScriptedModel, call, say
from windlass.testing.models import by_history
from windlass.tools.calling import failure_text, in_thread
from windlass.tools.results import is_light
from windlass_protocol import ToolResult

HALF: Final = "caf\udce9"
"""Text that UTF-8 cannot hold."""


async def failing() -> object:
    raise ToolFailed(HALF)


async def noting() -> object:
    return ToolResult.model_validate({"success": True, "data": 1}).model_copy(update={"note": object()})


async def erring() -> object:
    return ToolResult.model_construct(success=False, error=HALF)


async def numbering() -> object:
    return ToolResult.model_construct(success=False, error=5)


@pytest.mark.parametrize("function", [failing, noting, erring, numbering])
def test_an_unwritable_result_is_converted_and_recorded(function: Any) -> None:
    made = tool(function, name="t", mode="safe_write", description="Do.")
    result, found, _ = played(calling(made))
    assert (result.status, len(found)) == ("completed", 1)


@hook("before_tool_call", right="veto", timeout_ms=30_000)
async def vetoes(_: Any) -> Veto:
    return Veto(HALF)


@hook("run_starting", right="mutate", timeout_ms=30_000)
async def adds(_: Any) -> Change:
    return Change(context=[HALF])


@pytest.mark.parametrize("one", [vetoes, adds], ids=["veto", "context"])
def test_unwritable_texts_of_a_hook_are_converted_and_recorded(one: Any) -> None:
    @tool(mode="read")
    async def look() -> str:
        """Look."""
        return "seen"

    result, _, _ = played(calling(look, hooks=[one]))
    assert result.status == "completed"


@pytest.mark.parametrize("fails", ["raises", "hangs"])
def test_a_hook_that_only_observes_denies_nothing_when_it_fails(fails: str) -> None:
    @hook("before_tool_call")
    async def watch(_: Any) -> None:
        if fails == "raises":
            raise ValueError
        await asyncio.sleep(1_000)

    @tool(mode="read")
    async def look() -> str:
        """Look."""
        return "seen"

    result, (found,), _ = played(calling(look, hooks=[watch]))
    assert (result.status, found["status"]) == ("completed", "completed")


# sizes


def run_typed(size: int) -> Any:
    text = json.dumps({"rows": [["a", "b"]] * size}, separators=(",", ":"))
    assert len(text) <= OUTPUT_BYTES_MAX
    schema = {"type": "object", "properties": {"rows": {"type": "array"}}, "required": ["rows"]}
    contract = output_contract(schema, "shop").model_copy(update={"max_candidate_bytes": OUTPUT_BYTES_MAX})
    model = ScriptedModel(lambda _: say(text))

    async def story() -> Any:
        async with AgentRuntime.in_memory([Agent("shop", model=model)]) as runtime:
            handle = await runtime.start_run("shop", "go", output=contract)
            return await handle.wait(timeout=300)

    return asyncio.run(story())


@pytest.mark.promise("L1")
def test_an_output_is_taken_only_if_the_end_of_its_run_can_hold_it() -> None:
    assert run_typed(39_000).status == "completed"
    refused = run_typed(45_000)
    assert refused.error.kind == "structured_output_failure"


@pytest.mark.promise("L1")
@pytest.mark.parametrize("letter", ["y", "\u20ac", '"'])
def test_the_largest_answer_that_is_taken_can_be_recorded(letter: str) -> None:
    width = len(json.dumps(letter, ensure_ascii=False).encode()) - 2
    most = MODEL_PART_BYTES_MAX // width - 2

    def ended(count: int) -> Any:
        return played(Agent("shop", model=ScriptedModel([say(letter * count)])))[0]

    assert ended(most).status == "completed"
    refused = ended(most + 10)
    assert (refused.status, refused.error.kind) == ("failed", "provider_failure")
    assert "answer too large" in refused.error.message


# the event loop and its threads


def test_a_long_text_of_an_exception_is_cut_before_it_is_looked_through() -> None:
    seen = list[int]()

    def mask(text: str) -> str:
        seen.append(len(text))
        return text

    told = failure_text(ValueError("word " * 1_000_000), mask)
    assert told.startswith("ValueError: word word")
    assert len(told) <= FAILURE_CHARS_MAX
    assert max(seen) < 100_000


@pytest.mark.parametrize(
    ("value", "is_small"),
    [
        ("x" * 65_536, True),
        ("x" * 65_537, False),
        ([1] * 5_000, True),
        ([1] * 10_000, False),
        ({"a": [{"b": 1}] * 3_000}, True),
        ({"a": [{"b": 1}] * 9_999}, False),
        ([["x"] * 4_000] * 4, False),
        (None, True),
    ],
)
def test_a_value_is_light_if_it_is_small_enough_to_scan_on_the_event_loop(
    value: object, is_small: bool
) -> None:
    assert is_light(value) is is_small


@pytest.mark.parametrize("is_async", [True, False])
def test_a_large_result_is_made_fit_beside_the_event_loop(is_async: bool) -> None:
    where = list[str]()

    class Rows(list[Any]):
        def __iter__(self) -> Any:
            where.append(threading.current_thread().name)
            return super().__iter__()

    async def slow() -> object:
        return [Rows([1])] + [2] * 20_000

    def fast() -> object:
        return [Rows([1])] + [2] * 20_000

    made = tool(slow if is_async else fast, name="t", mode="read", description="Read.")

    async def story() -> list[Any]:
        async with AgentRuntime.in_memory([calling(made)]) as runtime:
            handle = await runtime.start_run("shop", "go")
            await handle.wait(timeout=300)
            return [event.data["status"] async for event in handle.events() if event.type == "action.result"]

    assert asyncio.run(story()) == ["completed"]
    assert where
    assert "MainThread" not in where


def test_tools_that_hang_in_all_threads_do_not_hold_up_a_large_result() -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()

    def hang() -> None:
        begun.release()
        go_on.wait()

    @tool(mode="read")
    async def large() -> str:
        """Read."""
        return "x" * 1_500_000

    async def story() -> str:
        stuck = [asyncio.create_task(in_thread(hang)) for _ in range(THREADS_MAX)]
        try:
            for _ in stuck:
                await asyncio.to_thread(begun.acquire)
            model = ScriptedModel(by_history([call("large"), say("done")]))
            async with AgentRuntime.in_memory([Agent("shop", model=model, tools=[large])]) as runtime:
                return (await (await runtime.start_run("shop", "go")).wait(timeout=300)).status
        finally:
            go_on.set()
            await asyncio.gather(*stuck)

    assert asyncio.run(story()) == "completed"
