"""Requests as objects with answers: the loop over `handle.requests()`, and the text of a run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import JsonValue
from tests.runtime.runtime_rig import mail, play, shop, until

from windlass import (
    Agent,
    AgentRuntime,
    Approval,
    Denied,
    Question,
    Rejected,
    RunHandle,
    RunStatus,
    tool,
)
from windlass.testing import ScriptedModel, by_history, call, say
from windlass.tools.question import ask_question

COLOURS: JsonValue = [{"id": "red", "label": "Deep red"}, {"id": "blue", "label": "Blue"}]
ASKS = [call("mail", {"to": "ada"}), say("done")]
TWICE = [call("mail", {"to": "ada"}), call("mail", {"to": "bob"}), say("done")]


def told(model: ScriptedModel, number: int) -> str:
    return str(model.requests[number].messages[-1].content)


def test_the_loop_shows_each_request_once_and_ends_with_the_run() -> None:
    async def story() -> None:
        model = ScriptedModel(TWICE)
        async with AgentRuntime.in_memory([shop(model)]) as runtime:
            handle = await runtime.start_run("shop", "go", run_id="r1")
            seen: list[tuple[str, JsonValue]] = []
            async for request in handle.requests():
                assert isinstance(request, Approval)
                assert request.prompt.startswith("Run mail?")
                assert repr(request) == f"Approval({request.request_id!r})"
                seen.append((request.tool_name, request.arguments))
                given = request.approve(by="ann") if len(seen) == 1 else request.deny("no room", by="ann")
                assert await given
            assert seen == [("mail", {"to": "ada"}), ("mail", {"to": "bob"})]
            assert (await handle.wait()).output == "done"
            assert [one async for one in handle.requests()] == []
        assert told(model, 1) == "sent to ada"
        assert "no room" in told(model, 2)

    play(story())


def test_an_approval_for_the_session_covers_the_next_call() -> None:
    async def story() -> None:
        async with AgentRuntime.in_memory([shop(ScriptedModel(TWICE))]) as runtime:
            handle = await runtime.start_run("shop", "go")
            count = 0
            async for request in handle.requests():
                assert isinstance(request, Approval)
                count += await request.approve(for_session=True)
            assert (count, (await handle.wait()).output) == (1, "done")

    play(story())


def test_a_question_takes_an_option_or_words() -> None:
    async def story() -> None:
        model = ScriptedModel(
            [
                call("ask_question", {"prompt": "Which?", "options": COLOURS}),
                call("ask_question", {"prompt": "And why?"}),
                say("painted"),
            ]
        )
        agent = Agent("painter", model=model, tools=[ask_question])
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "paint")
            async for request in handle.requests():
                assert isinstance(request, Question)
                if request.options:
                    assert [one.label for one in request.options] == ["Deep red", "Blue"]
                    with pytest.raises(Rejected, match="unknown option"):
                        await request.choose("green")
                    assert await request.choose("red")
                else:
                    assert await request.reply("It is warm.")
            assert (await handle.wait()).output == "painted"
        assert '"optionId":"red"' in told(model, 1)
        assert "It is warm." in told(model, 2)

    play(story())


def test_an_answer_from_elsewhere_comes_first_and_the_loop_goes_on() -> None:
    async def story() -> None:
        async with AgentRuntime.in_memory([shop(ScriptedModel(TWICE))]) as runtime:
            handle = await runtime.start_run("shop", "go", run_id="r1")
            taken: list[bool] = []
            async for request in handle.requests():
                assert isinstance(request, Approval)
                if not taken:
                    await runtime.handle("r1").answer(request.request_id, "deny")
                taken.append(await request.approve())
            assert taken == [False, True]
            assert (await handle.wait()).status is RunStatus.COMPLETED

    play(story())


def test_a_cancel_ends_the_loop_and_an_answer_after_it_is_not_taken() -> None:
    async def story() -> None:
        async with AgentRuntime.in_memory([shop(ScriptedModel(ASKS))]) as runtime:
            handle = await runtime.start_run("shop", "go")
            taken: list[bool] = []
            async for request in handle.requests():
                assert isinstance(request, Approval)
                await handle.cancel()
                taken.append(await request.approve())
            assert taken == [False]
            assert (await handle.wait()).status is RunStatus.CANCELLED

    play(story())


def test_who_may_not_answer_is_denied() -> None:
    async def story() -> None:
        async with AgentRuntime.in_memory([shop(ScriptedModel(ASKS))], responders=["ann"]) as runtime:
            handle = await runtime.start_run("shop", "go")
            async for request in handle.requests():
                assert isinstance(request, Approval)
                assert request.data.responders == ("ann",)
                with pytest.raises(Denied, match="may not answer"):
                    await request.approve(by="bob")
                assert await request.approve(by="ann")
            assert (await handle.wait()).output == "done"

    play(story())


def test_after_a_restart_the_loop_shows_open_requests_alone(tmp_path: Path) -> None:
    def agent() -> Agent:
        return shop(ScriptedModel(by_history(TWICE)))

    async def first() -> None:
        async with AgentRuntime.open(tmp_path / "app.db", agents=[agent()]) as runtime:
            handle = await runtime.start_run("shop", "go", run_id="r1")
            async for request in handle.requests():
                assert isinstance(request, Approval)
                if request.arguments == {"to": "bob"}:
                    break  # it stays open
                await request.approve()

    async def second(handle: RunHandle) -> list[JsonValue]:
        seen: list[JsonValue] = []
        async for request in handle.requests():
            assert isinstance(request, Approval)
            seen.append(request.arguments)
            await request.approve()
        return seen

    async def story() -> None:
        await first()
        async with AgentRuntime.open(tmp_path / "app.db", agents=[agent()]) as runtime:
            handle = await runtime.start_run("shop", "go", run_id="r1")
            assert await second(handle) == [{"to": "bob"}]
            assert (await handle.wait()).output == "done"
            assert await second(handle) == []

    play(story())


def test_an_answer_that_waits_for_a_process_is_not_asked_for_again(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "app.db"
        async with AgentRuntime.open(path, agents=[shop(ScriptedModel(by_history(ASKS)))]) as runtime:
            handle = await runtime.start_run("shop", "go", run_id="r1")
            await until(handle, "run.waiting")
            (asked,) = await handle.open_requests()
        async with AgentRuntime.open(path, agents=[]) as runtime:
            await runtime.handle("r1").answer(asked.request_id, "approve")
            (asked,) = await runtime.handle("r1").open_requests()
            assert asked.is_answered
        async with AgentRuntime.open(path, agents=[shop(ScriptedModel(by_history(ASKS)))]) as runtime:
            assert [one async for one in runtime.handle("r1").requests()] == []
            assert (await runtime.handle("r1").wait()).output == "done"

    play(story())


def test_requests_of_subagents_are_in_the_loop() -> None:
    async def story() -> None:
        below = Agent("clerk", model=ScriptedModel(ASKS), tools=[mail])
        model = ScriptedModel([call("clerk", {"message": "write"}), say("told them")])
        lead = Agent("lead", model=model, subagents=[below])
        async with AgentRuntime.in_memory([lead]) as runtime:
            handle = await runtime.start_run(lead, "go")
            async for request in handle.requests():
                assert isinstance(request, Approval)
                assert await request.approve()
            assert (await handle.wait()).output == "told them"

    play(story())


CRASHING = """
import asyncio, logging, os, signal, sys
from pathlib import Path
from windlass import Agent, AgentRuntime, Approval, Interrupted, Question, ToolContext, tool
from windlass.testing import ScriptedModel, by_history, call, say

ledger, answer = Path("ledger"), sys.argv[1]
logging.basicConfig(format="%(name)s %(levelname)s %(message)s", level=logging.INFO)

@tool(mode="external", effect="once")
async def refund(cents: int, ctx: ToolContext) -> str:
    with ledger.open("a") as file:
        file.write(f"attempt {ctx.attempt}\\n")
    if ctx.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "refunded"

model = ScriptedModel(by_history([call("refund", {"cents": 990}), say("Done.")]))
desk = Agent("desk", model=model, tools=[refund])

async def main() -> None:
    async with AgentRuntime.open("app.db", agents=[desk]) as runtime:
        run = await runtime.start_run(desk, "Refund order 77.", run_id="ticket-1042")
        async for request in run.requests():
            print(type(request).__name__, request.tool_name, flush=True)
            match request:
                case Approval():
                    await request.approve(by="ann")
                case Question():
                    await request.reply("the blue one")
                case Interrupted():
                    if answer == "retry":
                        await request.retry()
                    elif answer == "skip":
                        await request.skip()
                    else:
                        await request.supply({"receipt": "r-1"})
        print((await run.wait()).output)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "attempts"),
    [("retry", ["attempt 1", "attempt 2"]), ("skip", ["attempt 1"]), ("supply", ["attempt 1"])],
)
def test_the_same_loop_is_right_after_a_kill_in_the_middle_of_a_call(
    tmp_path: Path, answer: str, attempts: list[str]
) -> None:
    def start() -> tuple[int, list[str]]:
        command = [sys.executable, "-c", CRASHING, answer]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        return done.returncode, done.stdout.splitlines()

    assert start() == (-9, ["Approval refund"])
    assert start() == (0, ["Interrupted refund", "Done."])
    assert start() == (0, ["Done."])
    assert (tmp_path / "ledger").read_text().splitlines() == attempts


@pytest.mark.slow
def test_a_supplied_result_is_json_and_the_log_tells_what_a_crash_left(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CRASHING, "supply"]
    ends = [
        subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        for _ in range(2)
    ]
    who = "run ticket-1042 of agent desk"
    assert ends[1].stderr.splitlines() == [
        f"windlass.runs INFO {who} continues here: the process that drove it ended",
        f"windlass.runs WARNING {who} waits for a person: a call was interrupted and may have taken effect",
    ]

    async def story() -> JsonValue:
        async with AgentRuntime.open(tmp_path / "app.db", agents=[]) as runtime:
            results = [
                event.data["result"]
                async for event in runtime.handle("ticket-1042").events()
                if event.type == "action.result"
            ]
            return results[0]

    assert '"receipt": "r-1"' in json.dumps(play(story()))


def test_the_text_of_a_run_is_streamed_as_it_is_written() -> None:
    async def story() -> None:
        model = ScriptedModel([say("Let me look."), say("It is there.")], chunk_chars=4)
        async with AgentRuntime.in_memory([shop(model)]) as runtime:
            handle = await runtime.start_run("shop", "go")
            pieces = [piece async for piece in handle.stream_text()]
            assert "".join(pieces) == "Let me look."
            # The text of a run that has ended is read from the journal.
            assert [piece async for piece in handle.stream_text()] == ["Let me look."]

    play(story())


@tool(mode="read")
async def look_up(item: str) -> str:
    """Look something up."""
    return f"{item} is there"


def test_an_empty_line_is_between_the_texts_of_two_steps() -> None:
    async def story() -> None:
        first = say("Let me look.") + call("look_up", {"item": "key"})
        agent = shop(ScriptedModel([first, say("It is there.")], chunk_chars=4), tools=[look_up])
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go")
            text = "".join([piece async for piece in handle.stream_text()])
            assert text == "Let me look.\n\nIt is there."

    play(story())
