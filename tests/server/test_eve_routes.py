"""The routes of eve: a client of eve talks to this server, turn after turn."""

import base64
import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.server.eve_client import ROOT, EveClient, Refused, Turn, responses
from tests.server.keyring import Keyring
from tests.server.rig import (
    FAST,
    TIMEOUT_S,
    Json,
    Server,
    ended,
    http_client,
    payer,
    process,
    run,
    serving,
    talker,
)
from tests.server.test_eve_shape import SCHEMA, agent, expected, shown
from tests.steps.recorded import QUESTION, Step, meanings, pieces
from tests.steps.steps_rig import guarded

from windlass import Agent, LLMMessage
from windlass.testing import Answer, ScriptedModel, call, say
from windlass.tools.question import ask_question
from windlass_server import Settings
from windlass_server.auth import LOCAL


def same(turn: Turn, *names: str) -> bool:
    """Whether a turn is a recorded stream of eve."""
    return meanings(shown(turn.events)) == meanings(expected(*names))


async def session_ids(server: Server, key: str | None = None) -> set[str]:
    async with server.client(key) as client:
        found = (await client.get("/sessions", params={"subagents": "true"})).json()["sessions"]
    return {one["sessionId"] for one in found}


@pytest.mark.parametrize("cut_after", [None, 1, 3])
@pytest.mark.parametrize(
    ("name", "message", "steps", "wishes"),
    [
        ("echo", "ECHO hi", (pieces("echo"),), {}),
        (
            "two_tools",
            "TOOLS 2",
            (("add", {"a": 0, "b": 1}), ("add", {"a": 1, "b": 1}), pieces("two_tools")),
            {"mode": "conversation"},
        ),
        ("subagent_child", "ECHO child", (pieces("subagent_child"),), {"mode": "task"}),
    ],
)
def test_a_turn_is_the_recorded_stream_over_one_connection_or_many(
    tmp_path: Path, name: str, message: str, steps: Sequence[Step], wishes: Json, cut_after: int | None
) -> None:
    async def main() -> None:
        async with serving(tmp_path, [agent(*steps)]) as server:
            client = EveClient(server.port, cut_after=cut_after)
            turn = await client.send(message, **wishes)
            assert same(turn, name)
            assert turn.message == "".join(pieces(name))
            assert turn.status == ("completed" if wishes.get("mode") == "task" else "waiting")
            expected_connections = 1 if cut_after is None else -(-len(turn.events) // cut_after)
            assert client.connections == expected_connections

    run(main())


@pytest.mark.parametrize(("option", "name"), [("approve", "approval_given"), ("deny", "approval_denied")])
def test_an_approval_is_asked_and_answered(tmp_path: Path, option: str, name: str) -> None:
    async def main() -> None:
        steps: list[Step] = [("guarded", {"x": 1}), pieces(name)]
        async with serving(tmp_path, [agent(*steps)]) as server:
            client = EveClient(server.port)
            asked = await client.send("APPROVE it")
            assert same(asked, "approval_asked")
            assert asked.status == "waiting"
            assert same(await client.answer(asked, option), name)

    run(main())


def test_a_question_is_asked_and_answered(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [agent(("ask_question", QUESTION), ["Blue."])]) as server:
            client = EveClient(server.port)
            asked = await client.send("ASK me")
            assert same(asked, "question_asked")
            told = await client.answer(asked, "blue")
            assert told.types[:2] == ["turn.started", "step.started"]
            assert (told.message, told.status) == ("Blue.", "waiting")

    run(main())


def heard(messages: Sequence[LLMMessage]) -> Answer:
    """Say what the messages of users are."""
    texts = [f"{message.role}={message.content}" for message in messages if message.role == "user"]
    return say(" ".join(texts))


def test_turns_go_on_with_the_token_of_the_first(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [Agent("echo", model=ScriptedModel(heard))]) as server:
            client = EveClient(server.port)
            first = await client.send("One.")
            second = await client.send("Two.")
            third = await client.send("Three.")
            assert [turn.events[0]["data"].get("turnId") for turn in (second, third)] == ["turn_1", "turn_2"]
            assert first.types[0] == "session.started"
            assert third.message == "user=One. user=Two. user=Three."
            assert await session_ids(server) == {client.session_id}

    run(main())


def test_a_message_passes_over_the_requests_that_wait(tmp_path: Path) -> None:
    async def main() -> None:
        steps: list[Step] = [("guarded", {"x": 1}), ["Well."]]
        async with serving(tmp_path, [agent(*steps)]) as server:
            client = EveClient(server.port)
            await client.send("APPROVE it")
            turn = await client.send("Something else.")
            assert turn.types[:4] == ["action.result", "turn.started", "message.received", "step.started"]
            assert turn.events[0]["data"]["status"] == "rejected"
            assert (turn.message, turn.status) == ("Well.", "waiting")

    run(main())


@pytest.mark.parametrize(("option", "result"), [("approve", "completed"), ("deny", "rejected")])
def test_a_message_with_an_answer_is_in_the_same_turn(tmp_path: Path, option: str, result: str) -> None:
    async def main() -> None:
        def answer(messages: Sequence[LLMMessage]) -> Answer:
            is_first = all(message.role != "tool" for message in messages)
            return call("guarded", {"x": 1}) if is_first else heard(messages)

        agents = [Agent("guard", model=ScriptedModel(answer), tools=[guarded])]
        async with serving(tmp_path, agents) as server:
            client = EveClient(server.port)
            asked = await client.send("Do it.")
            turn = await client.answer(asked, option, message="Be quick.", clientContext="It is late.")
            results = [one["data"]["status"] for one in turn.events if one["type"] == "action.result"]
            said = [one["data"]["message"] for one in turn.events if one["type"] == "message.received"]
            assert (results, said) == ([result], ["Be quick."])
            assert turn.message == "user=Do it. user=It is late. user=Be quick."
            assert (turn.types.count("turn.started"), turn.status) == (1, "waiting")

    run(main())


def both(other: Answer) -> list[Agent]:
    """An agent that asks for two things in one step."""
    model = ScriptedModel([call("guarded", {"x": 1}) + other, say("Done.")])
    return [Agent("guard", model=model, tools=[guarded, ask_question])]


@pytest.mark.parametrize("option", ["approve", "deny"])
@pytest.mark.parametrize(
    ("other", "later"), [(call("guarded", {"x": 2}), "approve"), (call("ask_question", QUESTION), "blue")]
)
def test_after_an_answer_to_one_of_two_requests_the_client_may_answer_the_other(
    tmp_path: Path, other: Answer, later: str, option: str
) -> None:
    async def main() -> None:
        async with serving(tmp_path, both(other)) as server:
            client = EveClient(server.port)
            first, second = responses(await client.send("Do both."), option)
            half = await client.send(inputResponses=[first])
            assert half.types == ["action.result", "session.waiting"]
            done = await client.send(inputResponses=[{**second, "optionId": later}])
            assert (done.types[0], done.message, done.status) == ("turn.started", "Done.", "waiting")

    run(main())


def test_a_question_is_answered_with_the_other_requests_or_with_a_message(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, both(call("ask_question", QUESTION))) as server:
            client = EveClient(server.port)
            first, second = responses(await client.send("Do both."), "approve")
            question = {**second, "optionId": "blue"}
            with pytest.raises(Refused, match="answer the other open requests"):
                await client.post(inputResponses=[question])
            done = await client.send(inputResponses=[question, first])
            assert (done.types[0], done.message, done.status) == ("turn.started", "Done.", "waiting")
        async with serving(tmp_path / "2", both(call("ask_question", QUESTION))) as server:
            client = EveClient(server.port)
            _, second = responses(await client.send("Do both."), "blue")
            done = await client.send("Not the first.", inputResponses=[second])
            assert (done.types[0], done.message, done.status) == ("action.result", "Done.", "waiting")
            assert done.events[0]["data"]["status"] == "rejected"

    run(main())


def test_a_message_is_refused_while_a_subagent_waits_for_an_answer(tmp_path: Path) -> None:
    script = [call("guarded", {"x": 1}), say("The helper is done.")]
    helper = Agent("helper", model=ScriptedModel(script), tools=[guarded], description="Helps.")
    asks = [call("helper", {"message": "go"}), say("Done."), say("You are welcome.")]
    boss = Agent("boss", model=ScriptedModel(asks), subagents=[helper])

    async def main() -> None:
        async with serving(tmp_path, [boss]) as server:
            client = EveClient(server.port)
            (answer,) = responses(await client.send("Do it."), "approve")
            with pytest.raises(Refused, match="a subagent waits for an answer") as refused:
                await client.post("Hurry.")
            assert refused.value.status == 409
            assert (await client.send(inputResponses=[answer])).message == "Done."
            assert (await client.send("Thanks.")).message == "You are welcome."

    run(main())


def test_a_subagent_has_a_stream_of_its_own(tmp_path: Path) -> None:
    async def main() -> None:
        steps: list[Step] = [("agent", {"message": "ECHO child"}), pieces("subagent")]
        async with serving(tmp_path, [agent(*steps, child=[pieces("subagent_child")])]) as server:
            turn = await EveClient(server.port).send("SUB delegate")
            assert turn.types == [kind for kind, _ in expected("subagent")]
            called = next(one["data"] for one in turn.events if one["type"] == "subagent.called")
            child = EveClient(server.port)
            events = [one async for one in child.events(child=called["childSessionId"])]
            assert Turn(events).types == [kind for kind, _ in expected("subagent_child")]

    run(main())


def test_a_task_returns_data_and_the_next_message_begins_another_session(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [agent(['{"answer": 42}'], ["Hello."])]) as server:
            client = EveClient(server.port)
            turn = await client.send("SCHEMA", mode="task", outputSchema=SCHEMA)
            assert (turn.status, turn.data) == ("completed", {"answer": 42})
            assert [kind for kind in turn.types if kind != "message.completed"] == [
                kind for kind, _ in expected("task_output")
            ]
            assert (await client.send("Hello?")).message == "Hello."
            assert len(await session_ids(server)) == 2

    run(main())


def test_a_schema_that_comes_with_a_later_turn_holds_until_it_is_met(tmp_path: Path) -> None:
    async def main() -> None:
        steps: list[Step] = [["Hello."], ["No."], ["Never."], ["Not."], ['{"answer": 42}']]
        async with serving(tmp_path, [agent(*steps)]) as server:
            client = EveClient(server.port)
            assert (await client.send("Hi")).data is None
            unfit = await client.send("SCHEMA", outputSchema=SCHEMA)
            assert unfit.types[-3:] == ["step.failed", "turn.failed", "session.waiting"]
            fit = await client.send("Try again.")
            assert (fit.data, fit.status) == ({"answer": 42}, "waiting")

    run(main())


@pytest.mark.parametrize(
    ("context", "texts"),
    [
        ("The page is /cart.", ["The page is /cart."]),
        (["One.", "Two."], ["One.", "Two."]),
        ({"page": "/cart", "items": 2}, ['{"page":"/cart","items":2}']),
        ("", []),
        ([], []),
        (None, []),
    ],
)
def test_the_model_gets_the_context_of_a_client_before_the_message(
    tmp_path: Path, context: object, texts: list[str]
) -> None:
    async def main() -> None:
        async with serving(tmp_path, [Agent("echo", model=ScriptedModel(heard))]) as server:
            client = EveClient(server.port)
            first = await client.send("Hello.", clientContext=context)
            assert first.message == " ".join(f"user={text}" for text in [*texts, "Hello."])
            again = await client.send("Again.", clientContext=context)
            assert again.message is not None
            assert again.message.endswith(" ".join(f"user={text}" for text in [*texts, "Again."]))

    run(main())


def test_a_file_may_be_base64_or_a_data_url(tmp_path: Path) -> None:
    async def main() -> None:
        got: list[LLMMessage] = []

        def look(messages: Sequence[LLMMessage]) -> Answer:
            got.append(messages[-1])
            return say("A bill.")

        raw = base64.b64encode(b"%PDF-1.7").decode()
        url = f"data:application/pdf;base64,{raw}"
        file = {"type": "file", "mediaType": "application/pdf", "filename": "bill.pdf"}
        async with serving(tmp_path, [Agent("looker", model=ScriptedModel(look))]) as server:
            client = EveClient(server.port)
            parts = [{"type": "text", "text": "Look."}, {**file, "data": raw}, {**file, "data": url}]
            assert (await client.send(parts)).message == "A bill."
            assert list(got[0].parts) == [parts[0], {**file, "data": url}, {**file, "data": url}]
            with pytest.raises(Refused, match=r"not valid base64") as refused:
                await client.post([{**file, "data": "%%%"}])
            assert refused.value.status == 400

    run(main())


@pytest.mark.promise("F1")
def untimed(events: Sequence[Json]) -> list[Json]:
    """Return events without the times of pieces: a live piece has the time at which it was sent."""
    return [{**event, "meta": None} if event["type"].endswith(".appended") else event for event in events]


def test_a_client_goes_on_after_the_server_was_killed(tmp_path: Path) -> None:
    """A real process; the client has kept its session, its token and its number."""

    async def main() -> None:
        with process(tmp_path) as (child, port):
            client = EveClient(port, cut_after=2)
            asked = await client.send("Use weather, then pay.")
            assert asked.types[-3:] == ["input.requested", "turn.completed", "session.waiting"]
            child.send_signal(signal.SIGKILL)
            child.wait(TIMEOUT_S)
        with process(tmp_path) as (_, port):
            client = EveClient(port, {}, client.session_id, client.token, client.index)
            done = await client.answer(asked, "approve")
            assert done.types[:3] == ["turn.started", "step.started", "action.result"]
            assert "paid 1 cents" in (done.message or "")
            whole = EveClient(port)
            again = [event async for event in whole.events(child=client.session_id)]
            assert untimed(again) == untimed(asked.events)
            again = [event async for event in whole.events(child=client.session_id)]
            assert untimed(again) == untimed(done.events)

    run(main())


def test_the_agent_of_several_is_named_by_a_header(tmp_path: Path) -> None:
    async def main() -> None:
        agents = [talker("one", "I am one."), talker("two", "I am two.")]
        async with serving(tmp_path, agents) as server:
            with pytest.raises(Refused, match="agent is missing: give one of one, two"):
                await EveClient(server.port).post("Hello.")
            with pytest.raises(Refused, match="unknown agent; known are one, two"):
                await EveClient(server.port, {"windlass-agent": "three"}).post("Hello.")
            client = EveClient(server.port, {"windlass-agent": "two"})
            assert (await client.send("Hello.")).message == "I am two."
            client.headers.clear()
            assert (await client.send("Again.")).message == "I am two."

    run(main())


FITS: Json = {"message": "Hello."}
TURN: Json = {"continuationToken": "{id}", "message": "Hello."}
ANSWERS: Json = {
    "continuationToken": "{id}",
    "inputResponses": [{"requestId": "{request}", "optionId": "approve"}],
}


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/session", {}, 400, "message"),
        ("/session", {"message": ""}, 400, "message"),
        ("/session", {"message": []}, 400, "message"),
        ("/session", {"message": 5}, 400, "message"),
        ("/session", {"message": [{"type": "sound"}]}, 400, "message"),
        ("/session", {**FITS, "mode": "chat"}, 400, "mode"),
        ("/session", {**FITS, "clientContext": [5]}, 400, "clientContext"),
        ("/session", {**FITS, "clientContext": ["x"] * 65}, 400, "clientContext"),
        ("/session", {**FITS, "outputSchema": "text"}, 400, "outputSchema"),
        ("/session", {**FITS, "callback": {"url": "http://10.0.0.1/"}}, 400, "callback is not supported"),
        ("/session", {**FITS, "continuationToken": "eve:1"}, 400, "a new session has none"),
        ("/session", {**FITS, "surprise": 1}, 400, "surprise"),
        ("/session/{id}", FITS, 400, "continuationToken"),
        ("/session/{id}", {"continuationToken": "{id}"}, 400, "inputResponses"),
        ("/session/{id}", {"continuationToken": "{id}", "message": ""}, 400, "inputResponses"),
        ("/session/{id}", {"continuationToken": "{id}", "inputResponses": []}, 400, "inputResponses"),
        ("/session/{id}", {**TURN, "continuationToken": "eve:1"}, 404, "no such session"),
        ("/session/{id}", {**TURN, "continuationToken": "{other}"}, 404, "no such session"),
        ("/session/{other}", {**ANSWERS, "continuationToken": "{other}"}, 409, "request"),
        (
            "/session/{other}",
            {**ANSWERS, "continuationToken": "{other}", "outputSchema": SCHEMA},
            400,
            "outputSchema",
        ),
        ("/session/nothing", {**TURN, "continuationToken": "nothing"}, 404, "no such session"),
        ("/session/nothing", {**TURN, "continuationToken": "{id}"}, 404, "no such session"),
        ("/session/{id}", {**ANSWERS, "clientContext": "Late."}, 400, "clientContext"),
        ("/session/{id}", {**ANSWERS, "outputSchema": SCHEMA}, 400, "outputSchema"),
        ("/session/{id}", {**TURN, "outputSchema": SCHEMA}, 400, "outputSchema"),
        ("/session/{id}/stream?startIndex=-1", None, 400, "startIndex"),
        ("/session/{id}/stream?startIndex=x", None, 400, "startIndex"),
        ("/session/nothing/stream", None, 404, "no such session"),
        ("/dev/schedules/nightly", {}, 404, "no such route"),
    ],
)
def test_a_request_that_does_not_fit_is_refused_in_the_words_of_eve_and_changes_nothing(
    tmp_path: Path, path: str, body: Any, status: int, words: str
) -> None:
    async def main() -> None:
        async with serving(tmp_path, [payer()]) as server, server.client() as ours:
            client = EveClient(server.port)
            asked = await client.send("Pay.")
            other = EveClient(server.port)
            await other.send("leave it")
            [request] = asked.requests
            ids = {"{id}": client.session_id, "{other}": other.session_id, "{request}": request["requestId"]}
            filled = json.loads(fill(json.dumps(body), ids))
            address = f"http://127.0.0.1:{server.port}{ROOT}{fill(path, ids)}"
            before = await session_ids(server)
            refused = await (ours.get(address) if body is None else ours.post(address, json=filled))
            told: Json = refused.json()
            assert (refused.status_code, told["status"]) == (status, status), told
            assert told["ok"] is False
            assert words in told["error"]
            assert told["error"] == told["detail"]
            assert told["code"] == {400: "rejected", 404: "not_found", 409: "conflict"}[status]
            assert await session_ids(server) == before
            assert (await client.answer(asked, "approve")).message == "All done."

    run(main())


def fill(text: str, ids: dict[str, str | None]) -> str:
    for name, known in ids.items():
        text = text.replace(name, str(known))
    return text


def test_a_session_of_another_user_does_not_exist(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann, bob = (keys.add(name, "acme", name) for name in ("ann", "bob"))
        settings = Settings(keys=keys.path, limits=FAST, own_approvals=True)
        async with serving(tmp_path / "data", [payer()], settings=settings) as server:
            client = EveClient(server.port, {"authorization": f"Bearer {ann}"})
            asked = await client.send("Pay.")
            thief = EveClient(
                server.port, {"authorization": f"Bearer {bob}"}, client.session_id, client.token
            )
            for body in ({"message": "Pay."}, {"inputResponses": responses(asked, "approve")}):
                with pytest.raises(Refused, match="no such session") as refused:
                    await thief.post(**body)
                assert refused.value.status == 404
            assert await session_ids(server, bob) == set()
            stranger = EveClient(server.port)
            with pytest.raises(Refused, match="valid key or token") as refused:
                await stranger.post("Hello.")
            assert refused.value.status == 401
            assert refused.value.body["code"] == "unauthenticated"
            async with http_client() as plain:
                health = await plain.get(f"http://127.0.0.1:{server.port}{ROOT}/health")
                assert health.json() == {"ok": True, "status": "ready", "workflowId": "windlass"}
                hidden = await plain.get(f"http://127.0.0.1:{server.port}{ROOT}/info")
                assert hidden.status_code == 401
            assert (await client.answer(asked, "approve")).message == "All done."

    run(main())


@pytest.mark.parametrize("session_id", ["a/b c", "über/1", "s/stream"])
def test_a_session_may_have_any_id(tmp_path: Path, session_id: str) -> None:
    """A program that uses the same store chooses ids; a header cannot have all of them."""

    async def main() -> None:
        async with serving(tmp_path, [talker()]) as server, server.client() as ours:
            tenant = await server.tenants.take(LOCAL.tenant)
            handle = await tenant.runtime.start_run("talker", "Hi.", session_id=session_id, owner=LOCAL.user)
            await handle.wait(timeout=TIMEOUT_S)
            tenant.release()
            address = f"http://127.0.0.1:{server.port}{ROOT}/session/{quote(session_id, safe='')}"
            body = {"continuationToken": session_id, "message": "Again."}
            said = await ours.post(address, json=body)
            assert (said.status_code, said.json()) == (200, {"ok": True, "sessionId": session_id})
            read = await ours.get(f"{address}/stream", params={"follow": "false"})
            assert read.status_code == 200
            named = session_id if session_id.isascii() else None
            assert (said.headers.get("x-eve-session-id"), read.headers.get("x-eve-session-id")) == (
                named,
                named,
            )

    run(main())


@pytest.mark.parametrize("message", [None, "Be quick."])
def test_the_responder_is_the_caller_whatever_the_body_says(tmp_path: Path, message: str | None) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        key = keys.add("ann", "acme", "ann")
        settings = Settings(keys=keys.path, limits=FAST, own_approvals=True)
        async with serving(
            tmp_path / "data", [agent(("guarded", {"x": 1}), ["Done."])], settings=settings
        ) as server:
            client = EveClient(server.port, {"authorization": f"Bearer {key}"})
            asked = await client.send("APPROVE it")
            forged = [{**one, "responder": "boss"} for one in responses(asked, "approve")]
            assert (await client.send(message, inputResponses=forged)).message == "Done."
            async with server.client(key) as ours:
                path = f"/sessions/{client.session_id}/events?follow=false&format=ndjson"
                lines = (await ours.get(path)).text.splitlines()
        records = [json.loads(line) for line in lines if line]
        [resolved] = [one["data"]["resolutions"] for one in records if one["type"] == "input.resolved"]
        assert [one["response"]["responder"] for one in resolved] == ["ann"]

    run(main())


def test_a_session_of_our_routes_and_one_of_eve_are_the_same_thing(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [talker()]) as server, server.client() as ours:
            begun = (await ours.post("/sessions", json={"message": "Hello."})).json()
            await ended(ours, begun["runId"])
            client = EveClient(server.port, {}, begun["sessionId"], begun["sessionId"])
            first = [event async for event in client.events()]
            assert first[-1]["type"] == "session.waiting"
            assert (await client.send("Again.")).message == "Hello there."
            history = (await ours.get(f"/sessions/{begun['sessionId']}/history")).json()["messages"]
            assert [one["content"] for one in history if one["role"] == "user"] == ["Hello.", "Again."]
            # A session that has no message yet takes its first one.
            empty = (await ours.post("/sessions", json={})).json()["sessionId"]
            client = EveClient(server.port, {}, empty, empty)
            assert (await client.send("Hello.")).types[0] == "session.started"

    run(main())
