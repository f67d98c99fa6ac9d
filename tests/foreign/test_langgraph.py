"""The checkpointer of LangGraph on each store: its conformance suite, its graphs, and `kill -9`."""

import asyncio
import operator
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from tests.contracts.stores import AnyStore, Play

pytest.importorskip("langgraph.graph", reason="make foreign installs langgraph")

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from windlass import Agent, AgentRuntime, Question, ToolContext, tool
from windlass.adapters.journals.memory import MemoryStore
from windlass.foreign.langgraph import WindlassSaver, run_graph
from windlass.testing import ScriptedModel, crash_everywhere
from windlass.workflow import WorkflowContext, workflow
from windlass_protocol import InputKind, InputRequest, InputResponse

THREAD: Any = {"configurable": {"thread_id": "t/1"}}


class State(TypedDict):
    lines: Annotated[list[str], operator.add]


def first(state: State) -> State:
    return {"lines": ["first"]}


async def ask_async(state: State) -> State:
    return ask(state)


def ask(state: State) -> State:
    return {"lines": [f"asked: {interrupt('go on?')}"]}


def builder() -> Any:
    graph: Any = StateGraph(State)
    graph.add_node("first", first)
    graph.add_node("ask", ask)
    graph.add_edge(START, "first")
    graph.add_edge("first", "ask")
    graph.add_edge("ask", END)
    return graph


def test_the_conformance_suite_passes_in_full(play: Play) -> None:
    suite = pytest.importorskip(
        "langgraph.checkpoint.conformance", reason="make foreign installs langgraph-checkpoint-conformance"
    )

    async def story(store: AnyStore, other: AnyStore) -> None:
        @suite.checkpointer_test(name="WindlassSaver")
        async def saver() -> AsyncGenerator[WindlassSaver]:
            yield WindlassSaver(store)

        report = await suite.validate(saver)
        failures = [failure for result in report.results.values() for failure in result.failures]
        assert failures == []
        assert report.conformance_level() == "FULL"
        assert [name for name, result in report.results.items() if not result.detected] == []

    play(story)


def test_a_graph_goes_on_from_an_interrupt_in_another_process(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        graph = builder().compile(checkpointer=WindlassSaver(store))
        assert "__interrupt__" in await graph.ainvoke({"lines": []}, THREAD)
        again = builder().compile(checkpointer=WindlassSaver(other))
        result = await again.ainvoke(Command(resume="yes"), THREAD)
        assert result["lines"] == ["first", "asked: yes"]
        history = [state.values["lines"] async for state in again.aget_state_history(THREAD)]
        assert history == [["first", "asked: yes"], ["first"], [], []]

    play(story)


def test_a_state_larger_than_a_document_comes_back(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        graph = builder().compile(checkpointer=WindlassSaver(store))
        large = ["x" * 1_000_000]
        await graph.ainvoke({"lines": large}, THREAD)
        state = await builder().compile(checkpointer=WindlassSaver(other)).aget_state(THREAD)
        assert state.values["lines"] == [*large, "first"]
        await WindlassSaver(other).adelete_thread("t/1")
        assert await store.documents("langgraph-checkpoint") == ()
        assert await store.documents("langgraph-checkpoint-part") == ()
        assert await store.documents("langgraph-writes") == ()

    play(story)


def test_programs_without_an_event_loop_use_it_with_with(tmp_path: Path) -> None:
    for lines in ([], ["first", "asked: 1"]):
        with WindlassSaver.open(tmp_path / "graphs.db") as saver:
            graph = builder().compile(checkpointer=saver)
            graph.invoke({"lines": []}, THREAD)
            result = graph.invoke(Command(resume=1), THREAD)
            assert result["lines"] == [*lines, "first", "asked: 1"]
            assert len(list(saver.list(THREAD, limit=2))) == 2
            saver.copy_thread("t/1", "t/2")
            saver.prune(["t/2"])
            saver.delete_for_runs(["unknown"])
            assert len(list(saver.list({"configurable": {"thread_id": "t/2"}}))) == 1
            saver.delete_thread("t/2")


def test_a_synchronous_call_in_the_thread_of_the_loop_says_what_to_write(tmp_path: Path) -> None:
    async def main() -> None:
        async with WindlassSaver.open(tmp_path / "graphs.db") as saver:
            with pytest.raises(RuntimeError, match="ainvoke"):
                builder().compile(checkpointer=saver).invoke({"lines": []}, THREAD)

    asyncio.run(main())


def test_the_store_of_a_runtime_holds_checkpoints_too(tmp_path: Path) -> None:
    async def main() -> None:
        guide = Agent("guide", model=ScriptedModel([]))
        async with AgentRuntime.open(tmp_path / "app.db", agents=[guide]) as runtime:
            graph = builder().compile(checkpointer=WindlassSaver.of(runtime))
            await graph.ainvoke({"lines": []}, THREAD)
            assert (await graph.aget_state(THREAD)).next == ("ask",)

    asyncio.run(main())


KILLED = """
import asyncio, operator, os, signal, sys
from typing import Annotated, TypedDict
from langgraph.graph import END, START, StateGraph
from windlass.foreign.langgraph import WindlassSaver

class State(TypedDict):
    lines: Annotated[list[str], operator.add]

kill_at, folder = int(sys.argv[1]), sys.argv[2]

def node(number):
    def run(state):
        with open(f"{folder}/log", "a") as log:
            log.write(f"{number}\\n")
        if number == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"lines": [str(number)]}
    return run

async def main():
    graph = StateGraph(State)
    for number in range(6):
        graph.add_node(f"n{number}", node(number))
        graph.add_edge(START if number == 0 else f"n{number - 1}", f"n{number}")
    graph.add_edge("n5", END)
    async with WindlassSaver.open(f"{folder}/graphs.db") as saver:
        app = graph.compile(checkpointer=saver)
        config = {"configurable": {"thread_id": "t"}}
        begun = (await app.aget_state(config)).created_at is not None
        print((await app.ainvoke(None if begun else {"lines": []}, config, durability="sync"))["lines"])

asyncio.run(main())
"""


@pytest.mark.slow
def test_no_node_that_has_ended_runs_again_after_kill_9(tmp_path: Path) -> None:
    for number in range(6):
        folder = tmp_path / str(number)
        folder.mkdir()
        killed = subprocess.run([sys.executable, "-c", KILLED, str(number), str(folder)], check=False)
        assert killed.returncode == -signal.SIGKILL
        again = subprocess.run(
            [sys.executable, "-c", KILLED, "-1", str(folder)], check=True, capture_output=True, text=True
        )
        assert again.stdout.strip() == str([str(each) for each in range(6)])
        ran = (folder / "log").read_text().split()
        assert ran == [str(each) for each in (*range(number + 1), *range(number, 6))]


async def twice(state: State) -> State:
    answers = [interrupt("first?"), interrupt({"and": "then?"})]
    return {"lines": [f"{', '.join(answers)}"]}


def asking(store: AnyStore) -> Any:
    graph: Any = StateGraph(State)
    # Time is not that of threads in the tests of crashes.
    graph.add_node("twice", twice)
    graph.add_node("ask", ask_async)
    graph.add_edge(START, "twice")
    graph.add_edge("twice", "ask")
    graph.add_edge("ask", END)
    return graph.compile(checkpointer=WindlassSaver(store))


CHECKPOINTS: list[AnyStore] = []


@tool(mode="safe_write", effect="idempotent")
async def handle(ctx: ToolContext, host: str) -> list[str]:
    """Handle a host."""
    return (await run_graph(ctx, asking(CHECKPOINTS[-1]), {"lines": [host]}))["lines"]


@workflow
async def incident(ctx: WorkflowContext, host: str) -> list[str]:
    return await ctx.call(handle, host)


def test_interrupts_of_a_graph_in_a_tool_are_questions_of_the_inbox(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        CHECKPOINTS.append(store)
        async with AgentRuntime.in_memory([incident]) as runtime:
            run = await runtime.start_run(incident, "db-1")
            prompts: list[str] = []
            async for request in run.requests():
                assert isinstance(request, Question)
                prompts.append(request.prompt)
                await request.reply(f"answer {len(prompts)}", by="ann")
            assert prompts == ["first?", '{"and":"then?"}', "go on?"]
            assert (await run.wait()).output == ["db-1", "answer 1, answer 2", "asked: answer 3"]

    play(story)


def test_a_graph_in_a_tool_goes_on_after_a_crash_at_any_point() -> None:
    def answer(request: InputRequest) -> InputResponse:
        if request.kind is InputKind.QUESTION:
            return InputResponse(request_id=request.request_id, text="yes", responder="ann")
        return InputResponse(request_id=request.request_id, option_id="retry", responder="ann")

    outputs: list[object] = []
    CHECKPOINTS.append(MemoryStore())
    for crash in crash_everywhere(incident, "db-1", answer=answer):
        outputs.append(crash.result.output)
        CHECKPOINTS.append(MemoryStore())
    assert set(outputs) == {'["db-1","yes, yes","asked: yes"]'}
    assert len(outputs) > 20
