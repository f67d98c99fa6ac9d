"""Events, sagas, changed code, loops without end and runs in the background of workflows."""

import asyncio
import time
from collections import Counter
from datetime import timedelta
from typing import Any, cast

import pytest
from tests.workflow.test_workflows import error_of, note, play, triage, writer

from windlass import (
    Agent,
    AgentRuntime,
    Conflict,
    Interrupted,
    Rejected,
    RunResult,
    ToolContext,
    ToolFailed,
    tool,
)
from windlass.ports.machine import Machine
from windlass.testing import crash_everywhere
from windlass.testing.time import FakeClock, run_in_fake_time, seeded_random, sequential_ids
from windlass.tools import UndoCall
from windlass.workflow import CallFailed, WorkflowContext, workflow
from windlass.workflow.testing import check_workflow
from windlass_harness.loop.rules import Rules
from windlass_protocol import RunStatus

DONE: list[str] = []
KEYS: Counter[str] = Counter()


async def start(agent: Agent[Any, Any], argument: object, work: Any, **options: Any) -> RunResult:
    async with AgentRuntime.in_memory([agent], **options) as runtime:
        begin: Any = runtime.start_run
        run = await begin(agent, argument, run_id="r1")
        await work(run)
        return await run.wait()


def follow(agent: Agent[Any, Any], work: Any, argument: object = None, **options: Any) -> RunResult:
    """Run a workflow in fake time while `work` sends it events."""
    clock = FakeClock()
    machine = Machine(clock, sequential_ids(), seeded_random(0))
    return run_in_fake_time(start(agent, argument, work, machine=machine, **options), clock=clock)


@workflow
async def payments(ctx: WorkflowContext, count: int) -> list[object]:
    seen: list[object] = [await ctx.wait_for("paid", int) for _ in range(count)]
    seen.append(await ctx.wait_for("shipped", timeout=timedelta(minutes=9)))
    return seen


def test_events_are_kept_until_they_are_waited_for_in_order_and_once_by_key() -> None:
    async def work(run: Any) -> None:
        await run.send("paid", 1, key="a")
        await run.send("paid", 1, key="a")
        await run.send("paid", 2)
        await run.send("paid", 3, key="b", by="shop")
        with pytest.raises(Conflict, match="key"):
            await run.send("paid", 4, key="b")

    result = follow(payments, work, 3)
    assert result.structured_output == [1, 2, 3, None]


def test_an_event_wakes_a_run_that_left_memory_and_its_key_counts_after_it_was_taken() -> None:
    async def work(run: Any) -> None:
        async for event in run.events():
            if event.type == "run.waiting":
                break
        await asyncio.sleep(90)
        await run.send("paid", 7, key="a")
        await asyncio.sleep(90)
        await run.send("paid", 7, key="a")
        await run.send("paid", 8, key="b")
        await run.send("shipped")

    assert follow(payments, work, 2).structured_output == [7, 8, True]


def test_events_of_a_run_that_waits_behind_another_are_kept() -> None:
    async def main() -> list[object]:
        async with AgentRuntime.in_memory([payments]) as runtime:
            first = await runtime.start_run(payments, 1, session_id="s1", run_id="a")
            second = await runtime.start_run(payments, 1, session_id="s1", run_id="b")
            await second.send("paid", 2)
            await second.send("shipped")
            await first.send("paid", 1)
            await first.send("shipped", "x")
            return [(await run.wait()).structured_output for run in (first, second)]

    clock = FakeClock()
    assert run_in_fake_time(main(), clock=clock) == [[1, "x"], [2, True]]


def test_an_event_for_a_run_that_has_ended_or_that_is_no_json_is_refused() -> None:
    async def work(run: Any) -> None:
        for data, name in ((object(), "paid"), (1, "")):
            with pytest.raises(Rejected):
                await run.send(name, data)
        with pytest.raises(Rejected, match="by must be a text, found int"):
            await run.send("shipped", by=7)
        await run.send("shipped")
        await run.wait()
        with pytest.raises(Conflict, match=r"the run has ended \(completed\)"):
            await run.send("shipped")

    assert follow(payments, work, 0).structured_output == [True]


@pytest.mark.parametrize("field", ["name", "key"])
def test_an_event_of_which_the_name_or_the_key_would_be_masked_is_refused(field: str) -> None:
    """Masked keys are equal: the second of two events would be taken for the first, and be lost."""
    token = "ghp_" + "a1B2" * 9

    async def work(run: Any) -> None:
        with pytest.raises(Rejected, match=f"the {field} of the event would be masked"):
            await run.send(**({"name": "shipped"} | {field: token}))
        await run.send("shipped", {"password": "hunter22", "to": token})

    result = follow(payments, work, 0)
    assert result.structured_output == [{"password": "[redacted]", "to": "[redacted:token]"}]


def test_data_of_another_type_is_a_failed_call() -> None:
    async def work(run: Any) -> None:
        await run.send("paid", "much")

    result = follow(payments, work, 1)
    assert "the data of event paid is not int" in error_of(result)


def test_a_wait_that_was_given_up_takes_no_event() -> None:
    @workflow
    async def impatient(ctx: WorkflowContext) -> list[object]:
        waits = [asyncio.ensure_future(ctx.wait_for("paid")) for _ in range(2)]
        await ctx.sleep(60)
        waits[0].cancel()
        return [await waits[1], await ctx.wait_for("paid")]

    async def work(run: Any) -> None:
        await asyncio.sleep(200)
        await run.send("paid", 1)
        await run.send("paid", 2)

    assert follow(impatient, work).structured_output == [1, 2]


def test_too_many_events_end_the_run() -> None:
    async def work(run: Any) -> None:
        for number in range(4):
            await run.send("other", number)

    assert "more than 3 events" in error_of(follow(payments, work, 1, rules=Rules(workflow_events_max=3)))


def test_each_event_is_taken_once_wherever_the_process_dies() -> None:
    @workflow
    async def order(ctx: WorkflowContext) -> int | None:
        return await ctx.wait_for("paid", int, timeout=60)

    outputs = {crash.result.output for crash in crash_everywhere(order, None, send={"paid": 5})}
    assert outputs == {"5"}


# sagas


async def cancel_booking(ctx: ToolContext, call: UndoCall) -> str:
    DONE.append(f"cancel {call.arguments['what']} {call.result}")
    KEYS[ctx.idempotency_key] += 1
    return "cancelled"


@tool(mode="safe_write", effect="idempotent", undo=cancel_booking)
async def book(what: str) -> str:
    """Book."""
    DONE.append(f"book {what}")
    return f"{what}-1"


@workflow
async def trip(ctx: WorkflowContext, fails: bool) -> str:
    try:
        await ctx.call(book, "hotel")
        await asyncio.gather(ctx.call(book, "flight"), ctx.call(book, "car"))
        if fails:
            raise ValueError("no visa")
    except ValueError:
        return f"{await ctx.undo()} {await ctx.undo()}"
    return "booked"


def test_a_saga_reverses_its_calls_newest_first_each_once() -> None:
    DONE.clear()
    assert play(trip, True).output == "3 0"
    assert DONE[3:] == ["cancel car car-1", "cancel flight flight-1", "cancel hotel hotel-1"]


def test_a_run_whose_workflow_reversed_its_calls_has_nothing_left_to_undo() -> None:
    async def main() -> None:
        async with AgentRuntime.in_memory([trip]) as runtime:
            run = await runtime.start_run(trip, True)
            await run.wait()
            assert {item.status.value for item in (await run.undo_plan()).calls} == {"reversed"}

    run_in_fake_time(main(), clock=FakeClock())


@pytest.mark.slow
def test_a_saga_reverses_each_call_with_one_key_wherever_the_process_dies() -> None:
    KEYS.clear()
    for crash in crash_everywhere(trip, True):
        assert crash.result.output == "3 0", crash.point
    assert len(KEYS) == 3


def test_a_call_that_cannot_be_reversed_is_named_and_the_others_are_reversed() -> None:
    async def refuse(ctx: ToolContext, call: UndoCall) -> str:
        raise ToolFailed("too late")

    @tool(mode="safe_write", effect="idempotent", undo=refuse)
    async def pay(what: str) -> str:
        """Pay."""
        return what

    @workflow
    async def shop(ctx: WorkflowContext) -> str:
        await ctx.call(book, "table")
        await ctx.call(pay, "meal")
        try:
            await ctx.undo()
        except CallFailed as error:
            return error.message
        return ""

    DONE.clear()
    assert "Not reversed:" in play(shop).output
    assert DONE[-1] == "cancel table table-1"


# changed code


FLAGS = {"new": False}


@workflow(tools=[note])
async def evolving(ctx: WorkflowContext) -> list[str]:
    steps = ["old"]
    await ctx.call(note, "before")
    await ctx.ask("Go on?")
    if FLAGS["new"] and ctx.changed("notes first"):
        steps = ["new"]
        await ctx.call(note, "new")
    await ctx.call(note, "after")
    if FLAGS["new"] and ctx.changed("notes first"):
        steps.append("again")
    return steps


def test_new_runs_go_the_new_way_and_runs_with_the_old_one_in_their_records_go_that(tmp_path: Any) -> None:
    async def main() -> list[object]:
        outputs: list[object] = []
        for is_answered in (True, False):
            FLAGS["new"] = False
            path = tmp_path / f"{is_answered}.db"
            async with AgentRuntime.open(path, agents=[evolving]) as runtime:
                run = await runtime.start_run(evolving, run_id="r1")
                async for request in run.requests():
                    if not is_answered:
                        break
                    await request.reply("yes")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
                if is_answered:
                    outputs.append((await run.wait()).structured_output)
            FLAGS["new"] = True
            async with AgentRuntime.open(path, agents=[evolving]) as runtime:
                run = runtime.handle("r1")
                async for request in run.requests():
                    await request.reply("yes")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
                outputs.append((await run.wait()).structured_output)
        return outputs

    assert asyncio.run(main()) == [["old"], ["old"], ["new", "again"]]


def test_the_old_way_is_gone_to_its_end_by_a_run_that_has_begun_it(tmp_path: Any) -> None:
    @workflow(tools=[note])
    async def two(ctx: WorkflowContext) -> list[bool]:
        ways = [FLAGS["new"] and ctx.changed("x")]
        await ctx.call(note, "one")
        await ctx.ask("Go on?")
        return [*ways, FLAGS["new"] and ctx.changed("x")]

    async def main() -> object:
        for is_new in (False, True):
            FLAGS["new"] = is_new
            async with AgentRuntime.open(tmp_path / "app.db", agents=[two]) as runtime:
                run = runtime.handle("r1") if is_new else await runtime.start_run(two, run_id="r1")
                async for request in run.requests():
                    if not is_new:
                        break
                    await request.reply("yes")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        async with AgentRuntime.open(tmp_path / "app.db", agents=[two]) as runtime:
            return (await runtime.handle("r1").wait()).structured_output

    assert asyncio.run(main()) == [False, False]


@pytest.mark.parametrize("choice", ["retry", "skip"])
def test_a_function_that_went_another_way_waits_for_a_person(tmp_path: Any, choice: str) -> None:
    words = ["first"]

    @workflow(tools=[note])
    async def drifting(ctx: WorkflowContext) -> str:
        await ctx.call(note, words[0])
        return await ctx.ask("Go on?")

    async def main() -> RunResult:
        words[0] = "first"
        async with AgentRuntime.open(tmp_path / "app.db", agents=[drifting]) as runtime:
            async for _ in (await runtime.start_run(drifting, run_id="r1")).requests():
                break
            await runtime.handle("r1").open_requests()
        words[0] = "second"
        async with AgentRuntime.open(tmp_path / "app.db", agents=[drifting]) as runtime:
            run = runtime.handle("r1")
            async for request in run.requests():
                if isinstance(request, Interrupted):
                    assert (
                        'Call 0 was note({"words":"first"}), and is note({"words":"second"})'
                        in request.prompt
                    )
                    assert "test_events.py, line" in request.prompt
                    words[0] = "first"
                    await (request.retry(by="ann") if choice == "retry" else request.skip(by="ann"))
                else:
                    await request.reply("yes")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
            return await run.wait()

    result = asyncio.run(main())
    if choice == "retry":
        assert result.output == "yes"
    else:
        assert "went another way than its records, and a person ended the run" in error_of(result)


def test_a_recorded_call_that_is_not_made_is_told_with_the_line_that_waits() -> None:
    turns = [0]

    @workflow(tools=[note])
    async def forgetful(ctx: WorkflowContext) -> str:
        turns[0] += 1
        if turns[0] == 1:
            await ctx.call(note, "once")
        return await ctx.ask("Go on?")

    with pytest.raises(
        AssertionError, match=r"Call 0 was note\(.*and is ask_question\(.*test_events.py, line"
    ):
        check_workflow(forgetful)
    turns[0] = 0

    @workflow(tools=[note])
    async def shorter(ctx: WorkflowContext) -> str:
        turns[0] += 1
        if turns[0] == 1:
            await ctx.call(note, "once")
        await asyncio.get_running_loop().create_future()
        return ""

    with pytest.raises(AssertionError, match=r"is not made before it has its result .*test_events.py, line"):
        check_workflow(shorter)


# loops, runs in the background, checks


@workflow
async def poll(ctx: WorkflowContext, left: int) -> str:
    await ctx.call(note, f"poll {left}")
    await ctx.sleep(1)
    return ctx.begin_again(left - 1) if left else '{"windlass.begin_again": 5}'


def test_a_workflow_begins_again_in_the_same_run_with_another_argument() -> None:
    result = play(poll, 3)
    assert result.output == '{"windlass.begin_again": 5}'
    assert result.status is RunStatus.COMPLETED


def test_a_workflow_that_begins_again_ends_alike_wherever_the_process_dies() -> None:
    for crash in crash_everywhere(poll, 1):
        assert crash.result.output == '{"windlass.begin_again": 5}', crash.point


def test_many_children_run_with_a_limit_at_once() -> None:
    @workflow
    async def child(ctx: WorkflowContext, number: int) -> int:
        return number

    @workflow
    async def parent(ctx: WorkflowContext, count: int) -> int:
        limit = asyncio.Semaphore(8)

        async def one(number: int) -> int:
            async with limit:
                return await ctx.run(child, number)

        return sum(await asyncio.gather(*(one(number) for number in range(count))))

    assert play(parent, 40).structured_output == sum(range(40))


def test_a_run_in_the_background_is_a_task() -> None:
    @workflow
    async def both(ctx: WorkflowContext) -> list[str]:
        text = ctx.start(writer, "A text, please.")
        plan = await ctx.run(triage, "?")
        return [await text, str(plan.restart), str(await ctx.approve("Good?"))]

    assert check_workflow(both, answer="approve").structured_output == ["A text.", "True", "True"]


def test_a_clock_or_a_random_number_is_told_when_the_function_is_declared_and_when_it_is_checked() -> None:
    async def timed(ctx: WorkflowContext) -> float:
        return time.time()

    with pytest.warns(UserWarning, match=r"workflow timed uses time.time\(\)"):
        declared = workflow(timed)
    with pytest.raises(AssertionError, match=r"it uses time.time\(\)"):
        check_workflow(declared)


@workflow
async def patient(ctx: WorkflowContext) -> str:
    return await ctx.wait_for("closed", str) or ""


def test_a_workflow_whose_event_is_never_sent_is_told_instead_of_run_for_ever() -> None:
    with pytest.raises(RuntimeError, match=r"event of a workflow \(send="):
        check_workflow(patient)
    assert check_workflow(patient, send={"closed": "by bob"}).output == "by bob"


@workflow
async def sleepy(ctx: WorkflowContext, delay: str) -> None:
    await ctx.sleep(cast(float, delay))


def test_a_delay_that_is_no_number_is_refused_in_words() -> None:
    result = check_workflow(sleepy, "10m")
    assert result.error is not None
    assert "expected seconds or a timedelta, found str" in result.error.message
