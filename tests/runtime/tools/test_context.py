import asyncio
from dataclasses import FrozenInstanceError

import pytest
from pydantic import JsonValue

from windlass.limits import PROGRESS_BYTES_MAX, PROGRESS_REPORTS_MAX
from windlass.tools.context import ToolContext, ToolControl, idempotency_key


def test_a_context_made_by_hand_needs_three_ids():
    context = ToolContext("s", "r", "c")
    assert (context.session_id, context.run_id, context.call_id, context.attempt) == ("s", "r", "c", 1)
    assert not context.is_cancelled
    context.progress("nobody listens")
    with pytest.raises(FrozenInstanceError):
        context.__setattr__("run_id", "other")


def test_the_key_is_one_call_and_not_one_attempt():
    key = ToolContext("s", "r", "c").idempotency_key
    assert key == ToolContext("s", "r", "c", attempt=2).idempotency_key
    assert len(key) == 64
    others = {
        ToolContext("s2", "r", "c").idempotency_key,
        ToolContext("s", "r2", "c").idempotency_key,
        ToolContext("s", "r", "c2").idempotency_key,
        ToolContext("s", "r", "c", step_index=1).idempotency_key,
        ToolContext("sr", "", "c").idempotency_key,
    }
    assert len(others) == 5
    assert key not in others
    assert ToolContext("s", "r", "c", idempotency_key="mine").idempotency_key == "mine"
    assert key == idempotency_key(session_id="s", run_id="r", step_index=0, call_id="c")


def test_a_tool_can_wait_for_its_cancellation():
    async def main() -> None:
        context = ToolContext("s", "r", "c")
        waiting = [asyncio.ensure_future(context.cancelled()) for _ in range(2)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        context.control.cancel()
        await asyncio.wait_for(asyncio.gather(*waiting), 300)
        assert context.is_cancelled
        late = ToolContext("s", "r", "c")
        late.control.cancel()
        await asyncio.wait_for(late.cancelled(), 300)

    asyncio.run(main())


def test_progress_is_reported_as_json_up_to_its_limits():
    told: list[JsonValue] = []
    context = ToolContext("s", "r", "c", control=ToolControl(told.append))
    context.progress({1, 2})
    context.progress("a" * (PROGRESS_BYTES_MAX - 2))
    context.progress("a" * (PROGRESS_BYTES_MAX - 1))
    assert told == [[1, 2], "a" * (PROGRESS_BYTES_MAX - 2), {"$omitted": "16,385 bytes, limit 16,384"}]
    for number in range(PROGRESS_REPORTS_MAX):
        context.progress(number)
    assert len(told) == PROGRESS_REPORTS_MAX


def test_progress_from_a_thread_is_reported_in_the_event_loop():
    async def main() -> None:
        told: asyncio.Queue[JsonValue] = asyncio.Queue()
        control = ToolControl(told.put_nowait)
        await asyncio.to_thread(control.report, "half")
        assert await asyncio.wait_for(told.get(), 300) == "half"

    asyncio.run(main())


def test_progress_after_the_end_of_the_loop_is_dropped():
    async def made() -> ToolControl:
        return ToolControl(told.append)

    told: list[JsonValue] = []
    asyncio.run(made()).report("late")
    assert told == []
