"""Sessions and runs over HTTP, on a real server with a real file."""

from pathlib import Path

from tests.client.rig import client_of
from tests.server.rig import Json, Wire, ended, payer, run, serving, talker, waiting

from windlass import Agent, Budget, ToolContext, tool
from windlass.testing import ScriptedModel, by_history, call, fail, say
from windlass.tools import UndoCall
from windlass_protocol import BudgetLimits


def test_a_first_message_begins_a_session_and_its_run_ends_with_the_answer(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            begun = await client.post("/sessions", json={"message": "Hello."})
            assert begun.status_code == 202
            found = await ended(client, begun.json()["runId"])
            assert found["result"]["output"] == "Hello there."
            assert found["run"]["sessionId"] == begun.json()["sessionId"]
            assert found["requests"] == []

    run(main())


def test_a_client_narrows_the_budget_of_the_agent_and_cannot_raise_it(tmp_path: Path) -> None:
    async def main() -> None:
        model = ScriptedModel(by_history([say("Hello there.")]))
        careful = Agent("careful", model=model, budget=Budget(max_steps=12, max_tool_calls=5))
        async with serving(tmp_path, [careful]) as server, server.client() as client:
            wish = {"maxSteps": 1_000, "maxToolCalls": 2, "maxTokens": 900}
            begun = (await client.post("/sessions", json={"message": "Hello.", "budget": wish})).json()
            await ended(client, begun["runId"])
            events = await client.get(f"/runs/{begun['runId']}/events", params={"follow": "false"})
            assert '"budget":{"maxTokens":900,"maxSteps":12,"maxToolCalls":2}' in events.text.replace(" ", "")

    run(main())


def test_a_session_may_begin_empty_and_go_on_later(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            begun = await client.post("/sessions", json={})
            assert begun.status_code == 202
            assert begun.json().keys() == {"sessionId", "continuationToken"}
            session_id = begun.json()["sessionId"]
            said = await client.post(f"/sessions/{session_id}/messages", json={"message": "Hello."})
            assert (said.status_code, said.json()["sessionId"]) == (202, session_id)
            assert (await ended(client, said.json()["runId"]))["run"]["status"] == "completed"

    run(main())


def test_the_same_key_with_the_same_request_is_the_same_work(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            headers = {"idempotency-key": "order-17"}
            body = {"message": "Hello.", "metadata": {"a": 1}}
            first = await client.post("/sessions", json=body, headers=headers)
            again = await client.post("/sessions", json=body, headers=headers)
            assert first.json() == again.json()
            other = await client.post("/sessions", json={"message": "Bye."}, headers=headers)
            assert (other.status_code, other.json()["code"]) == (409, "conflict")
            path = f"/sessions/{first.json()['sessionId']}/messages"
            said = [await client.post(path, json={"message": "More."}, headers=headers) for _ in range(3)]
            assert len({answer.json()["runId"] for answer in said}) == 1
            other = await client.post(path, json={"message": "Less."}, headers=headers)
            assert other.status_code == 409

    run(main())


def test_the_same_key_begins_the_same_empty_session(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            headers = {"idempotency-key": "empty"}
            first = await client.post("/sessions", json={}, headers=headers)
            again = await client.post("/sessions", json={}, headers=headers)
            assert first.json() == again.json()
            other = await client.post("/sessions", json={"mode": "task"}, headers=headers)
            assert other.status_code == 409

    run(main())


def test_answers_in_a_session_are_recorded_with_the_caller_as_responder(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [payer()]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Pay."})).json()
            [request] = (await waiting(client, begun["runId"]))["requests"]
            answer = {"requestId": request["requestId"], "optionId": "approve", "responder": "the boss"}
            path = f"/sessions/{begun['sessionId']}/messages"
            assert (await client.post(path, json={"responses": [answer]})).status_code == 202
            assert (await ended(client, begun["runId"]))["result"]["output"] == "All done."
            again = await client.post(path, json={"responses": [answer]})
            assert (again.status_code, again.json()["code"]) == (409, "conflict")
            events = await client.get(f"/runs/{begun['runId']}/events?follow=false&format=ndjson")
            assert '"responder":"local"' in events.text
            assert "the boss" not in events.text

    run(main())


def test_a_message_can_be_steered_into_a_running_run(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [payer()]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Pay."})).json()
            await waiting(client, begun["runId"])
            path = f"/sessions/{begun['sessionId']}/messages"
            steered = await client.post(path, json={"message": "No, leave it.", "delivery": "steer"})
            assert steered.status_code == 202
            assert steered.json().keys() == {"sessionId", "messageId"}
            found = await ended(client, begun["runId"])
            assert found["result"]["output"] == "I left it."

    run(main())


def test_a_run_can_be_cancelled(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [payer()]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Pay."})).json()
            await waiting(client, begun["runId"])
            told = await client.post(f"/runs/{begun['runId']}/cancel", json={"reason": "Changed my mind."})
            assert told.status_code == 202
            assert (await ended(client, begun["runId"]))["run"]["status"] == "cancelled"
            again = await client.post(f"/runs/{begun['runId']}/cancel")
            assert again.status_code == 202

    run(main())


def test_a_run_can_be_undone(tmp_path: Path) -> None:
    done: list[str] = []

    async def unbook(call: UndoCall) -> str:
        done.append(f"unbook {call.arguments['city']}")
        return "gone"

    @tool(mode="safe_write", undo=unbook)
    async def book(city: str) -> str:
        """Book a trip."""
        done.append(f"book {city}")
        return "booked"

    async def main() -> None:
        script = [call("book", {"city": "Oslo"}), say("Done.")]
        agent = Agent("clerk", model=ScriptedModel(script), tools=[book])
        async with serving(tmp_path, [agent]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Go."})).json()
            await ended(client, begun["runId"])
            (item,) = (await client.get(f"/runs/{begun['runId']}/undo")).json()["calls"]
            assert (item["toolName"], item["status"], item["undoName"]) == ("book", "reversible", "unbook")
            told = await client.post(f"/runs/{begun['runId']}/undo")
            assert told.status_code == 202
            assert (await ended(client, told.json()["runId"]))["run"]["status"] == "completed"
            assert done == ["book Oslo", "unbook Oslo"]
            async with client_of(server.port) as remote:
                assert (await remote.runs.undo(begun["runId"])).run_id == told.json()["runId"]
                (item,) = (await remote.runs.undo_plan(begun["runId"])).calls
                assert item.status == "reversed"

    run(main())


def test_a_call_can_be_approved_with_changed_arguments(tmp_path: Path) -> None:
    paid: list[int] = []

    @tool(mode="external")
    async def pay(cents: int) -> str:
        """Pay an amount."""
        paid.append(cents)
        return "paid"

    async def main() -> None:
        agent = Agent("clerk", model=ScriptedModel([call("pay", {"cents": 900}), say("Done.")]), tools=[pay])
        async with serving(tmp_path, [agent]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Go."})).json()
            (request,) = (await waiting(client, begun["runId"]))["requests"]
            address = f"/approvals/{request['requestId']}"
            bad = await client.post(address, json={"optionId": "approve", "arguments": {"cents": "all"}})
            assert (bad.status_code, "/cents" in bad.text) == (400, True)
            told = await client.post(address, json={"optionId": "approve", "arguments": {"cents": 5}})
            assert told.status_code == 202
            await ended(client, begun["runId"])
            assert paid == [5]

    run(main())


def test_a_question_may_name_a_role_as_its_responder(tmp_path: Path) -> None:
    @tool(mode="read")
    async def check(ctx: ToolContext) -> str:
        """Ask an approver."""
        return await ctx.ask("Is it paid?", options=["yes", "no"], of="approver")

    async def main() -> None:
        agent = Agent("clerk", model=ScriptedModel([call("check", {}), say("Done.")]), tools=[check])
        async with serving(tmp_path, [agent]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Go."})).json()
            (request,) = (await waiting(client, begun["runId"]))["requests"]
            told = await client.post(f"/approvals/{request['requestId']}", json={"optionId": "yes"})
            assert told.status_code == 202, told.text
            assert (await ended(client, begun["runId"]))["result"]["output"] == "Done."

    run(main())


def test_a_failed_run_can_be_continued(tmp_path: Path) -> None:
    async def main() -> None:
        script = [fail(ValueError("broken")), say("Done.")]
        agent = Agent("clerk", model=ScriptedModel(script))
        async with serving(tmp_path, [agent]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Go."})).json()
            assert (await ended(client, begun["runId"]))["run"]["status"] == "failed"
            told = await client.post(f"/runs/{begun['runId']}/retry")
            assert told.status_code == 202
            assert told.json() == {"sessionId": begun["sessionId"], "runId": f"retry:{begun['runId']}"}
            assert (await ended(client, told.json()["runId"]))["result"]["output"] == "Done."
            again = await client.post(f"/runs/{told.json()['runId']}/retry")
            assert again.status_code == 409
            async with client_of(server.port) as remote:
                assert (await remote.runs.retry(begun["runId"])).run_id == told.json()["runId"]
            body = {"budget": {"maxSteps": 7}}
            other = await client.post(f"/runs/{begun['runId']}/retry", json=body)
            assert (other.status_code, "continues it already" in other.text) == (409, True)

    run(main())


def test_a_run_that_used_up_its_budget_is_continued_with_a_larger_one(tmp_path: Path) -> None:
    looked: list[int] = []

    @tool(mode="read")
    async def look(at: int) -> str:
        """Look."""
        looked.append(at)
        return "seen"

    async def main() -> None:
        script = [call("look", {"at": 1}), call("look", {"at": 2}), say("Done.")]
        agent = Agent("clerk", model=ScriptedModel(by_history(script)), tools=[look])
        async with serving(tmp_path, [agent]) as server, server.client() as client:
            wish = {"message": "Go.", "budget": {"maxSteps": 1}}
            begun = (await client.post("/sessions", json=wish)).json()
            path = f"/runs/{begun['runId']}/retry"
            assert (await ended(client, begun["runId"]))["run"]["status"] == "budget_exhausted"
            for body in ({}, {"budget": {"maxSteps": 1}}, None):
                refused = await client.post(path, json=body)
                assert refused.status_code == 409, refused.text
                assert "nothing is left of its budget (maxSteps)" in refused.json()["detail"]
            for body in ({"budget": {"maxSteps": -1}}, {"budget": 5}, {"limits": {"maxSteps": 9}}):
                assert (await client.post(path, json=body)).status_code == 422
            told = await client.post(path, json={"budget": {"maxSteps": 2}})
            assert told.status_code == 202, told.text
            second = told.json()["runId"]
            assert (await ended(client, second))["run"]["status"] == "budget_exhausted"
            async with client_of(server.port) as remote:
                third = await remote.runs.retry(second, budget=BudgetLimits(max_steps=9))
            assert (await ended(client, third.run_id))["result"]["output"] == "Done."
        assert looked == [1, 2]

    run(main())


def test_a_client_that_continues_a_run_cannot_raise_the_budget_of_the_agent(tmp_path: Path) -> None:
    @tool(mode="read")
    async def look() -> str:
        """Look."""
        return "seen"

    async def main() -> None:
        model = ScriptedModel(by_history([call("look", {}), call("look", {}), say("Done.")]))
        agent = Agent("careful", model=model, tools=[look], budget=Budget(max_steps=2))
        async with serving(tmp_path, [agent]) as server, server.client() as client:
            wish = {"message": "Go.", "budget": {"maxSteps": 1}}
            begun = (await client.post("/sessions", json=wish)).json()
            await ended(client, begun["runId"])
            told = await client.post(f"/runs/{begun['runId']}/retry", json={"budget": {"maxSteps": 9}})
            second = told.json()["runId"]
            assert (await ended(client, second))["run"]["status"] == "budget_exhausted"
            again = await client.post(f"/runs/{second}/retry", json={"budget": {"maxSteps": 9}})
            assert again.status_code == 409, again.text

    run(main())


def test_output_can_be_requested_with_a_schema(tmp_path: Path) -> None:
    async def main() -> None:
        agent = Agent("typed", model=ScriptedModel([say('{"city": "Oslo"}')]))
        schema = {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        }
        async with serving(tmp_path, [agent]) as server, server.client() as client:
            body = {"message": "Where?", "outputSchema": schema, "mode": "task"}
            begun = await client.post("/sessions", json=body)
            assert begun.status_code == 202, begun.text
            found = await ended(client, begun.json()["runId"])
            assert found["result"]["structuredOutput"] == {"city": "Oslo"}, found

    run(main())


def test_a_request_must_name_its_agent_if_there_are_several(tmp_path: Path) -> None:
    async def main() -> None:
        agents = [talker("a", "I am a."), talker("b", "I am b.")]
        async with serving(tmp_path, agents) as server, server.client() as client:
            unclear = await client.post("/sessions", json={"message": "Hello."})
            assert (unclear.status_code, unclear.json()["code"]) == (422, "rejected")
            assert "a, b" in unclear.json()["detail"]
            unknown = await client.post("/sessions", json={"agent": "c", "message": "Hello."})
            assert unknown.status_code == 422
            begun = (await client.post("/sessions", json={"agent": "b"})).json()
            path = f"/sessions/{begun['sessionId']}/messages"
            said = (await client.post(path, json={"message": "Hello."})).json()
            assert (await ended(client, said["runId"]))["result"]["output"] == "I am b."

    run(main())


def test_a_body_has_either_a_message_or_answers(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            session_id = (await client.post("/sessions", json={})).json()["sessionId"]
            path = f"/sessions/{session_id}/messages"
            for body in ({}, {"message": "a", "responses": [{"requestId": "r"}]}):
                assert (await client.post(path, json=body)).status_code == 422

    run(main())


def test_the_decisions_of_a_run_can_be_read(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [payer()]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Pay."})).json()
            await waiting(client, begun["runId"])
            found = await client.get(f"/runs/{begun['runId']}/decisions")
            assert found.status_code == 200
            assert len(found.json()["decisions"]) == 2

    run(main())


def test_agents_and_tools_are_listed(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [payer("one"), payer("two")]) as server, server.client() as client:
            agents = (await client.get("/agents")).json()["agents"]
            assert [agent["agentId"] for agent in agents] == ["one", "two"]
            tools = (await client.get("/tools")).json()["tools"]
            assert {(one["name"], one["mode"], tuple(one["agents"])) for one in tools} == {
                ("look", "read", ("one", "two")),
                ("pay", "external", ("one", "two")),
            }

    run(main())


DOCUMENT: Json = {
    "chatId": "chat-7",
    "currentStage": "PLANNING",
    "scenario": "travel",
    "stageData": {"city": "Oslo"},
    "projectId": "p1",
}


def test_a_session_is_created_with_its_agent_session(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [payer()]) as server, server.client() as client:
            created = await client.post("/sessions", json=DOCUMENT, headers={"idempotency-key": "k1"})
            session_id = created.json()["sessionId"]
            path = f"/sessions/{session_id}/agent-session"
            found = (await client.get(path)).json()
            assert DOCUMENT.items() <= found.items()
            assert (found["userId"], found["isActive"]) == ("local", True)
            again = await client.post("/sessions", json=DOCUMENT, headers={"idempotency-key": "k1"})
            assert again.json() == created.json()
            other = {**DOCUMENT, "chatId": "chat-8"}
            taken = await client.post("/sessions", json=other, headers={"idempotency-key": "k1"})
            assert taken.status_code == 409

            # As over the sidecar: it is listed, and its stage changes, before the first message.
            listed = (await client.get("/agent-sessions", params={"chatId": "chat-7"})).json()["sessions"]
            assert [one["sessionId"] for one in listed] == [session_id]
            changed = await client.post(path, json={"currentStage": "PAYING"})
            assert (changed.status_code, changed.json()["currentStage"]) == (200, "PAYING")

            said = (await client.post(f"/sessions/{session_id}/messages", json={"message": "Pay."})).json()
            await waiting(client, said["runId"])
            after = (await client.get(path)).json()
            assert {**DOCUMENT, "currentStage": "PAYING"}.items() <= after.items()
            trace = (await client.get(f"/runs/{said['runId']}/trace")).json()["trace"]
            assert (trace["chatId"], trace["userId"]) == ("chat-7", "local")

    run(main())


def test_a_session_is_created_with_its_agent_session_and_a_message_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [payer()]) as server, server.client() as client:
            body, headers = {**DOCUMENT, "message": "Pay."}, {"idempotency-key": "k1"}
            begun = (await client.post("/sessions", json=body, headers=headers)).json()
            await waiting(client, begun["runId"])
            assert (await client.post("/sessions", json=body, headers=headers)).json() == begun
            found = (await client.get(f"/sessions/{begun['sessionId']}/agent-session")).json()
            assert DOCUMENT.items() <= found.items()
            page = (await client.get("/runs", params={"session": begun["sessionId"]})).json()
            assert len(page["runs"]) == 1

    run(main())


def test_the_stage_of_a_session_is_read_changed_listed_and_watched(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [payer()]) as server, server.client() as client:
            empty = (await client.post("/sessions", json={})).json()["sessionId"]
            found = await client.get(f"/sessions/{empty}/agent-session")
            assert (found.json()["currentStage"], found.json()["isActive"]) == ("START", True)
            refused = await client.post(f"/sessions/{empty}/agent-session", json={"currentStage": "B"})
            assert (refused.status_code, refused.json()["code"]) == (409, "conflict")

            begun = (await client.post("/sessions", json={"message": "Pay."})).json()
            session_id, path = begun["sessionId"], f"/sessions/{begun['sessionId']}/agent-session"
            await waiting(client, begun["runId"])
            first = (await client.get(path)).json()
            assert (first["sessionId"], first["chatId"], first["currentStage"]) == (
                session_id,
                session_id,
                "START",
            )
            change = {"currentStage": "PAYING", "nextStage": "DONE", "stageData": {"cents": 5}}
            changed = await client.post(path, json=change)
            assert changed.status_code == 200
            assert change.items() <= changed.json().items()
            cleared = (await client.post(path, json={"nextStage": None})).json()
            assert (cleared.get("nextStage"), cleared["currentStage"]) == (None, "PAYING")
            assert (await client.get(path)).json() == cleared
            listed = (await client.get("/agent-sessions", params={"activeOnly": "true"})).json()
            assert listed == {"sessions": [cleared]}
            other = await client.get("/agent-sessions", params={"chatId": "another"})
            assert other.json() == {"sessions": []}
            wrongs: tuple[Json, ...] = (
                {"currentStage": 5},
                {"stage": "B"},
                {"stageData": "x"},
                {"current_stage": "B"},
            )
            for wrong in wrongs:
                assert (await client.post(path, json=wrong)).status_code == 422

            wire = await Wire.get(server.port, f"/sessions/{session_id}/events")
            stages: list[object] = []
            async for frame in wire.frames():
                if frame.type == "session.state_changed":
                    stages.append(frame.json["data"]["set"].get("windlass.session.currentStage"))
                if len(stages) == 2:
                    break
            assert stages == ["PAYING", None]
            wire.cut()

    run(main())
