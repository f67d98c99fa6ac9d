"""Approvers answer requests of other users, and see nothing else of their sessions."""

from collections.abc import Callable
from pathlib import Path

import httpx2
from tests.server.keyring import Keyring
from tests.server.rig import FAST, Json, ended, pay, payer, run, serving, waiting

from windlass import Agent, ToolContext, tool
from windlass.runtime.options import RuntimeOptions
from windlass.testing import ScriptedModel, by_history, call, say
from windlass_server import Settings


def test_an_approver_answers_for_others_and_sees_nothing_else(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann, bob = keys.add("ann", "acme", "ann"), keys.add("bob", "acme", "bob")
        boss = keys.add("boss", "acme", "boss", roles=["approver"])
        stranger = keys.add("eve", "evil", "eve", roles=["approver"])
        settings = Settings(keys=keys.path, limits=FAST)
        team: RuntimeOptions = {"responders": ["boss"], "four_eyes": True}
        async with (
            serving(tmp_path / "data", [payer()], settings=settings, **team) as server,
            server.client(ann) as asks,
            server.client(boss) as approves,
            server.client(bob) as other,
            server.client(stranger) as away,
        ):
            begun = (await asks.post("/sessions", json={"message": "Pay."})).json()
            await waiting(asks, begun["runId"])
            [open_] = (await approves.get("/approvals")).json()["requests"]
            assert (open_["owner"], open_["runId"]) == ("ann", begun["runId"])
            path = f"/approvals/{open_['request']['requestId']}"
            for who in (approves, asks):
                assert (await who.get(path)).json() == {"open": open_}
            for outsider in (other, away):
                assert (await outsider.get(path)).status_code == 404
                assert (await outsider.get("/approvals")).json()["requests"] == []
                assert (await outsider.post(path, json={"optionId": "approve"})).status_code == 404
            # The requester sees the request, and may not approve it.
            own = await asks.post(path, json={"optionId": "approve"})
            assert (own.status_code, own.json()["code"]) == (403, "denied")
            for closed in (
                f"/runs/{begun['runId']}",
                f"/sessions/{begun['sessionId']}",
                "/sessions",
                "/runs",
            ):
                seen = await approves.get(closed)
                assert seen.status_code == 404 or begun["sessionId"] not in seen.text
            responses = {"responses": [{"requestId": open_["request"]["requestId"], "optionId": "approve"}]}
            said = await approves.post(f"/sessions/{begun['sessionId']}/messages", json=responses)
            assert said.status_code == 404
            assert (await approves.post(path, json={"optionId": "approve"})).status_code == 202
            found = await ended(asks, begun["runId"])
            assert found["run"]["status"] == "completed"

            # A second answer gets the first outcome; a caller without access gets 404.
            for who in (approves, asks):
                late = await who.post(path, json={"optionId": "deny"})
                assert late.status_code == 409
                assert "approved (approve) by boss" in late.json()["detail"]
                assert late.json()["ids"]["runId"] == begun["runId"]
                settled = (await who.get(path)).json()["settled"]
                assert (settled["outcome"], settled["optionId"]) == ("approved", "approve")
                assert (settled["owner"], settled["responder"]) == ("ann", "boss")
                assert settled["runId"] == begun["runId"]
            for outsider in (other, away):
                assert (await outsider.post(path, json={"optionId": "deny"})).status_code == 404

    run(main())


Ways = Callable[[Json], tuple[str, Json]]
BODIES: dict[str, Ways] = {
    "approvals": lambda one: (f"/approvals/{one['request']['requestId']}", {"optionId": "approve"}),
    "in words": lambda one: (f"/approvals/{one['request']['requestId']}", {"text": "Approve"}),
    "messages": lambda one: (
        f"/sessions/{one['sessionId']}/messages",
        {
            "responses": [
                {"requestId": one["request"]["requestId"], "optionId": "approve", "responder": "boss"}
            ]
        },
    ),
    "eve": lambda one: (
        f"/../eve/v1/session/{one['sessionId']}",
        {
            "continuationToken": one["sessionId"],
            "inputResponses": [{"requestId": one["request"]["requestId"], "optionId": "approve"}],
        },
    ),
    "eve with a message": lambda one: (
        f"/../eve/v1/session/{one['sessionId']}",
        {
            "message": "Go on.",
            "continuationToken": one["sessionId"],
            "inputResponses": [{"requestId": one["request"]["requestId"], "optionId": "approve"}],
        },
    ),
}


def test_with_keys_a_customer_does_not_approve_their_own_call(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann, boss = keys.add("ann", "acme", "ann"), keys.add("boss", "acme", "boss", roles=["approver"])
        settings = Settings(keys=keys.path, limits=FAST)
        async with (
            serving(tmp_path / "data", [payer()], settings=settings) as server,
            server.client(ann) as asks,
            server.client(boss) as approves,
        ):
            begun = (await asks.post("/sessions", json={"message": "Pay."})).json()
            await waiting(asks, begun["runId"])
            [open_] = (await asks.get("/approvals")).json()["requests"]
            for name, way in BODIES.items():
                path, body = way(open_)
                refused = await asks.post(path, json=body)
                assert refused.status_code == 403, name
                assert "only users with the role approver may approve this call" in refused.text, name
            path, body = BODIES["approvals"](open_)
            assert (await approves.post(path, json=body)).status_code == 202
            assert (await ended(asks, begun["runId"]))["run"]["status"] == "completed"

            # A customer may refuse the call, and an approver asks for calls of their own.
            for who, option, end in ((asks, "deny", "All done."), (approves, "approve", "All done.")):
                begun = (await who.post("/sessions", json={"message": "Pay."})).json()
                await waiting(who, begun["runId"])
                [open_] = (await who.get("/approvals")).json()["requests"]
                path = f"/approvals/{open_['request']['requestId']}"
                assert (await who.post(path, json={"optionId": option})).status_code == 202
                assert (await ended(who, begun["runId"]))["result"]["output"] == end

    run(main())


def test_a_server_may_let_customers_approve_and_names_those_who_may_otherwise(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann = keys.add("ann", "acme", "ann")
        by_all = Settings(keys=keys.path, limits=FAST, own_approvals=True)
        by_name = Settings(keys=keys.path, limits=FAST)
        for settings, people, status, told in (
            (by_all, None, 202, ""),
            (by_all, ["boss", "dana"], 403, "it may be answered by: boss, dana"),
            (by_name, ["boss", "ann"], 202, ""),
            (by_name, ["boss", "dana"], 403, "this call may be approved by: boss, dana, and you are ann"),
        ):
            team: RuntimeOptions = {} if people is None else {"responders": people}
            folder = tmp_path / f"{settings.own_approvals}-{people}"
            async with (
                serving(folder, [payer()], settings=settings, **team) as server,
                server.client(ann) as asks,
            ):
                begun = (await asks.post("/sessions", json={"message": "Pay."})).json()
                await waiting(asks, begun["runId"])
                [open_] = (await asks.get("/approvals")).json()["requests"]
                path, body = BODIES["approvals"](open_)
                answered = await asks.post(path, json=body)
                assert answered.status_code == status
                assert told in answered.text

    run(main())


@tool(mode="safe_write", effect="once")
async def book(city: str, ctx: ToolContext) -> str:
    """Book a seat."""
    seat = await ctx.ask(f"Which seat to {city}?", options=["window", "aisle"], of=["bob", "improver"])
    return f"{seat} seat to {city}"


def test_a_person_whom_a_tool_asks_sees_and_answers_that_question_and_nothing_else(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann, bob = keys.add("ann", "acme", "ann"), keys.add("bob", "acme", "bob")
        eve = keys.add("eve", "acme", "eve", roles=["improver"])
        outsiders = [keys.add("carl", "acme", "carl"), keys.add("other", "evil", "bob")]
        model = ScriptedModel(
            by_history([call("book", {"city": "Oslo"}), call("pay", {"cents": 5}), say("Ok.")])
        )
        agent = Agent("travel", model=model, tools=[book, pay])
        settings = Settings(keys=keys.path, limits=FAST)
        async with (
            serving(tmp_path / "data", [agent], settings=settings, responders=["bob"]) as server,
            server.client(ann) as asks,
            server.client(bob) as named,
            server.client(eve) as by_role,
            server.client(outsiders[0]) as other,
            server.client(outsiders[1]) as away,
        ):
            begun = (await asks.post("/sessions", json={"message": "Book."})).json()
            await waiting(asks, begun["runId"])
            for who in (named, by_role):
                [open_] = (await who.get("/approvals")).json()["requests"]
                assert open_["request"]["prompt"] == "Which seat to Oslo?"
            path = f"/approvals/{open_['request']['requestId']}"
            for who in (other, away):
                assert (await who.get("/approvals")).json()["requests"] == []
                assert (await who.post(path, json={"optionId": "aisle"})).status_code == 404
            run_path, session_path = f"/runs/{begun['runId']}", f"/sessions/{begun['sessionId']}"
            closed = [
                run_path,
                f"{run_path}/events",
                f"{run_path}/trace",
                session_path,
                f"{session_path}/history",
            ]
            for place in [*closed, f"{session_path}/events?follow=false"]:
                assert (await named.get(place)).status_code == 404, place
            for place in ("/runs", "/sessions", "/events?follow=false"):
                assert begun["sessionId"] not in (await named.get(place)).text
            answer = {"responses": [{"requestId": open_["request"]["requestId"], "optionId": "aisle"}]}
            for post, body in (("messages", answer), ("cancel", {})):
                assert (await named.post(f"{session_path}/{post}", json=body)).status_code == 404
            assert (await asks.post(path, json={"optionId": "aisle"})).status_code == 403, "ann is not asked"

            key = {"idempotency-key": "once"}
            for _ in range(2):
                assert (await named.post(path, json={"optionId": "aisle"}, headers=key)).status_code == 202
            assert (await named.post(path, json={"optionId": "window"})).status_code == 409
            assert (await by_role.post(path, json={"optionId": "window"})).status_code == 404, (
                "not asked any more"
            )
            await waiting_for_approval(asks)
            # The next request is an approval, which the runtime lets bob answer: he needs the role to see it.
            assert (await named.get("/approvals")).json()["requests"] == []
            found = (await asks.get(run_path)).json()
            assert found["requests"][0]["responders"] == ["bob"]

    run(main())


async def waiting_for_approval(client: httpx2.AsyncClient) -> None:
    """Wait until the open request is an approval."""
    async with client.stream(
        "GET", "/events", params={"format": "ndjson", "types": "input.requested"}
    ) as feed:
        async for line in feed.aiter_lines():
            if '"approval"' in line:
                return
