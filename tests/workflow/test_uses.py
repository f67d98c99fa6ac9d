"""What can be done with an agent can be done with a workflow: it is one."""

import json
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, JsonValue
from tests.faults.scene import Scene
from tests.runtime.engine.test_owners import WAIT_S
from tests.server.rig import ended, run, serving
from tests.server.test_webhooks import SECRETS, github

from windlass import AgentRuntime, ToolContext, tool
from windlass.adapters.journals.memory import MemoryStore
from windlass.evals import Calls, Case, Dataset, Exact, Experiment
from windlass.schedules import Schedule
from windlass.testing import FakeClock
from windlass.tools import UndoCall
from windlass.webhooks import Webhook
from windlass.workflow import WorkflowContext, workflow
from windlass_protocol import RunStatus

START = FakeClock().now()
UNDONE: list[str] = []


class Trip(BaseModel):
    city: str
    nights: int = 1


async def cancel(ctx: ToolContext, call: UndoCall) -> None:
    UNDONE.append(str(call.arguments["city"]))


@tool(mode="safe_write", effect="idempotent", undo=cancel)
async def book(city: str, nights: int) -> int:
    """Book a hotel."""
    return 90 * nights


@tool(mode="read")
async def rate(city: str) -> str:
    """Rate a city."""
    return f"{city} is splendid"


@workflow
async def travel(ctx: WorkflowContext, trip: Trip) -> list[object]:
    """Book a trip."""
    cost = await ctx.call(book, trip.city, trip.nights)
    await ctx.sleep(30)
    return [cost, await ctx.call(rate, trip.city)]


OSLO = Trip(city="Oslo", nights=2)
BOOKED: list[JsonValue] = [180, "Oslo is splendid"]


def opened(scene: Scene, agent: Any) -> AgentRuntime:
    return scene.runtime([agent])


def test_a_workflow_is_started_by_a_schedule() -> None:
    async def story(scene: Scene) -> None:
        async with opened(scene, travel) as runtime:
            await runtime.schedules.put(
                Schedule("hourly", agent="travel", message=OSLO.model_dump_json(), every_s=3600)
            )
            await scene.clock.sleep(3700)
            (tick,) = (await runtime.sessions.runs(agent_id="travel")).items
            result = await runtime.handle(tick.run_id).wait(timeout=WAIT_S)
            assert (result.status, result.structured_output) == (RunStatus.COMPLETED, BOOKED)

    Scene().play(story)


def test_a_workflow_is_started_by_a_webhook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @workflow
    async def order(ctx: WorkflowContext, trip: Trip) -> int:
        return await ctx.call(book, trip.city, trip.nights)

    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)
    message = '{"city": "{city}", "nights": {nights}}'
    hook = Webhook("orders", agent="order", scheme="github", secrets=("NEW",), message=message)

    async def main() -> None:
        agents: list[Any] = [order]
        async with serving(tmp_path, agents, webhooks=[hook]) as server, server.client() as client:
            body = json.dumps({"city": "Rome", "nights": 3}).encode()
            answers = [
                await client.post("../webhooks/orders", content=body, headers=github(body)) for _ in range(2)
            ]
            assert {answer.status_code for answer in answers} == {HTTPStatus.ACCEPTED}, answers[0].text
            (run_id,) = {answer.json()["runId"] for answer in answers}
            assert (await ended(client, run_id))["result"]["structuredOutput"] == 270

    run(main())


def test_a_workflow_is_evaluated() -> None:
    cases = Dataset(
        "trips",
        [
            Case("oslo", OSLO.model_dump(), BOOKED),
            Case("rome", {"city": "Rome"}, ["not", "this"]),
        ],
        scorers=[Exact(), Calls(["travel", "book", "sleep", "rate"], order="exact")],
    )

    async def story(scene: Scene) -> None:
        async with opened(scene, travel) as runtime:
            result = await Experiment(cases, travel).run(runtime)
            assert {case.name: case.is_passed for case in result.cases} == {"oslo": True, "rome": False}, [
                case.why for case in result.cases
            ]

    Scene().play(story)


def test_a_run_of_a_workflow_is_undone() -> None:
    async def story(scene: Scene) -> None:
        UNDONE.clear()
        async with opened(scene, travel) as runtime:
            handle = await runtime.start_run(travel, OSLO, run_id="r")
            await handle.wait(timeout=WAIT_S)
            undo = await handle.undo()
            async for request in undo.requests():
                await request.approve(by="ann")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
            assert (await undo.wait(timeout=WAIT_S)).status is RunStatus.COMPLETED
        assert UNDONE == ["Oslo"]

    Scene().play(story)


def test_a_session_of_a_workflow_is_forked_and_goes_on_with_another_argument() -> None:
    async def story(scene: Scene) -> None:
        async with opened(scene, travel) as runtime:
            handle = await runtime.start_run(travel, OSLO, session_id="s", run_id="r")
            async for event in handle.events():
                if event.type == "run.waiting":
                    break
            await runtime.sessions.fork("s", session_id_new="copy")
            rome = Trip(city="Rome")
            copied = await runtime.start_run(travel, rome, session_id="copy")
            assert (await copied.wait(timeout=WAIT_S)).structured_output == [90, "Rome is splendid"]
            assert (await handle.wait(timeout=WAIT_S)).structured_output == BOOKED

    Scene().play(story)


def test_a_session_of_a_workflow_is_exported_and_goes_on_where_it_is_imported() -> None:
    @workflow
    async def asking(ctx: WorkflowContext, trip: Trip) -> list[object]:
        return [await ctx.call(book, trip.city, trip.nights), await ctx.ask("Well?")]

    async def story(scene: Scene) -> None:
        async with opened(scene, asking) as runtime:
            handle = await runtime.start_run(asking, OSLO, session_id="s", run_id="r")
            async for _ in handle.requests():
                break
            lines = [line async for line in runtime.sessions.export("s")]
        other = Scene(clock=scene.clock, store=MemoryStore())
        async with opened(other, asking) as runtime:
            await runtime.sessions.import_(lines)
            handle = runtime.handle("r")
            async for request in handle.requests():
                await request.reply("yes")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
            assert (await handle.wait(timeout=WAIT_S)).structured_output == [180, "yes"]

    Scene().play(story)


def test_runs_of_workflows_are_found_by_their_arguments_and_results() -> None:
    async def story(scene: Scene) -> None:
        async with opened(scene, travel) as runtime:
            for run_id, city in (("a", "Oslo"), ("b", "Rome")):
                await (await runtime.start_run(travel, Trip(city=city), run_id=run_id)).wait(timeout=WAIT_S)
            for text in ("rome", "Rome splendid"):
                assert [item.run_id for item in (await runtime.sessions.runs(text=text)).items] == ["b"]

    Scene().play(story)


def _seconds(at: str) -> float:
    return (datetime.fromisoformat(at) - START).total_seconds()


def test_the_trace_of_a_workflow_is_its_calls_as_a_tree_with_their_waits() -> None:
    @workflow
    async def all_of_it(ctx: WorkflowContext) -> str:
        await ctx.call(rate, "Oslo")
        await ctx.run(travel, OSLO)
        await ctx.wait_for("paid", timeout=60)
        await ctx.ask("Well?")
        return "done"

    async def story(scene: Scene) -> None:
        async with opened(scene, all_of_it) as runtime:
            handle = await runtime.start_run(all_of_it, run_id="r")
            async for request in handle.requests():
                await scene.clock.sleep(5)
                await request.reply("yes")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
            await handle.wait(timeout=WAIT_S)
            spans = (await runtime.sessions.trace("r")).spans
            names = {span.span_id: span.name.removeprefix("tool.dispatch:") for span in spans}
            lasted = {
                (names.get(span.parent_id or ""), names[span.span_id]): (
                    _seconds(span.start_at),
                    _seconds(span.end_at or ""),
                )
                for span in spans
            }
            assert lasted == {
                (None, "run"): (0, 95),
                ("run", "turn"): (0, 95),
                ("turn", "llm.complete"): (95, 95),
                ("turn", "all_of_it"): (0, 95),
                ("all_of_it", "rate"): (0, 0),
                ("all_of_it", "travel"): (0, 30),
                ("all_of_it", "wait_for"): (30, 90),
                ("all_of_it", "ask_question"): (90, 95),
                ("turn", "wait"): (90, 95),
            }

    Scene().play(story)
