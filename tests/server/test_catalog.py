"""Finding, reading, copying and deleting sessions, and lists of open requests."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
from tests.server.keyring import Keyring
from tests.server.rig import FAST, Json, Wire, ended, payer, run, serving, talker, waiting

from windlass import Agent, AgentRuntime
from windlass.testing import ScriptedModel, call, say
from windlass_server import Settings


async def begin(client: httpx2.AsyncClient, message: str = "Hello.") -> dict[str, str]:
    """Begin a session and wait for the end of its run."""
    begun = (await client.post("/sessions", json={"message": message})).json()
    await ended(client, begun["runId"])
    return begun


def test_sessions_are_listed_newest_first_in_pages_and_only_to_their_owner(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann, bob = keys.add("a", "acme", "ann"), keys.add("b", "acme", "bob")
        settings = Settings(keys=keys.path, limits=FAST)
        async with (
            serving(tmp_path / "data", settings=settings) as server,
            server.client(ann) as client,
            server.client(bob) as other,
        ):
            begun = [await begin(client, f"Question {at}.") for at in range(5)]
            theirs = await begin(other, "Not yours.")
            await client.post("/sessions", json={})
            found: list[Any] = []
            after: dict[str, str] = {}
            while True:
                page = (await client.get("/sessions", params={"limit": 2, **after})).json()
                found += page["sessions"]
                if "next" not in page:
                    break
                after = {"after": page["next"]}
            assert [one["sessionId"] for one in found] == [one["sessionId"] for one in reversed(begun)]
            assert found[0]["title"] == "Question 4."
            assert found[0]["status"] == "completed"
            searched = (await client.get("/sessions", params={"text": "question 3"})).json()
            assert [one["sessionId"] for one in searched["sessions"]] == [begun[3]["sessionId"]]
            none = (await client.get("/sessions", params={"status": "failed"})).json()
            assert none == {"sessions": []}
            mine = (await other.get("/sessions")).json()["sessions"]
            assert [one["sessionId"] for one in mine] == [theirs["sessionId"]]
            runs = (await client.get("/runs", params={"session": begun[0]["sessionId"]})).json()["runs"]
            assert [one["runId"] for one in runs] == [begun[0]["runId"]]
            assert len((await other.get("/runs")).json()["runs"]) == 1
            hidden = await other.get("/runs", params={"session": begun[0]["sessionId"]})
            assert hidden.json() == {"runs": []}

    run(main())


def test_a_session_can_be_read_also_before_anything_was_said_in_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            empty = (await client.post("/sessions", json={})).json()
            path = f"/sessions/{empty['sessionId']}"
            found = (await client.get(path)).json()
            assert (found["status"], found["runCount"], found["agentId"]) == ("idle", 0, "talker")
            assert (await client.get(f"{path}/history")).json() == {"messages": []}
            said = (await client.post(f"{path}/messages", json={"message": "Hello."})).json()
            await ended(client, said["runId"])
            found = (await client.get(path)).json()
            assert (found["status"], found["runCount"], found["title"]) == ("completed", 1, "Hello.")
            history = (await client.get(f"{path}/history")).json()["messages"]
            assert [(one["role"], one["content"]) for one in history] == [
                ("user", "Hello."),
                ("assistant", "Hello there."),
            ]
            first = (await client.get(f"{path}/history", params={"limit": 1})).json()
            rest = (await client.get(f"{path}/history", params={"limit": 1, "after": first["next"]})).json()
            assert [*first["messages"], *rest["messages"]] == history
            bad = await client.get(f"{path}/history", params={"after": "sessions.1"})
            assert (bad.status_code, bad.json()["code"]) == (400, "rejected")

    run(main())


def test_everything_that_waits_for_a_person_is_in_one_list_and_answered_there(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [payer()]) as server, server.client() as client:
            begun: list[Json] = []
            for _ in range(3):
                # One after the other: the list is in the order of the requests.
                begun.append((await client.post("/sessions", json={"message": "Pay."})).json())
                await waiting(client, begun[-1]["runId"])
            asked = (await client.get("/approvals")).json()["requests"]
            assert [one["runId"] for one in asked] == [one["runId"] for one in begun]
            first = asked[0]["request"]
            assert first["action"]["toolName"] == "pay"
            path = f"/approvals/{first['requestId']}"
            wrong = {"optionId": "approve", "argumentsHash": "sha256:" + "0" * 64}
            refused = await client.post(path, json=wrong)
            assert refused.status_code in (400, 409), refused.text
            given = {"optionId": "approve", "argumentsHash": first["argumentsHash"]}
            assert (await client.post(path, json=given)).json()["runId"] == begun[0]["runId"]
            assert (await ended(client, begun[0]["runId"]))["result"]["output"] == "All done."
            assert (await client.post(path, json=given)).status_code == 409
            denied = await client.post(
                f"/approvals/{asked[1]['request']['requestId']}", json={"optionId": "deny"}
            )
            assert denied.status_code == 202
            nonsense = await client.post(
                f"/approvals/{asked[2]['request']['requestId']}", json={"optionId": "maybe"}
            )
            assert (nonsense.status_code, nonsense.json()["code"]) == (400, "rejected")
            left = (await client.get("/approvals", params={"limit": 1})).json()["requests"]
            assert [one["runId"] for one in left] == [begun[2]["runId"]]

    run(main())


def test_a_request_of_a_subagent_is_listed_for_the_owner_of_its_root_session(tmp_path: Path) -> None:
    async def main() -> None:
        def answer(messages: Any) -> Any:
            done = any(message.role == "tool" for message in messages)
            return say("The boss is done.") if done else call("payer", {"message": "Pay."})

        boss = Agent("boss", model=ScriptedModel(answer), subagents=[payer()])
        async with serving(tmp_path, [boss]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Go.", "agent": "boss"})).json()
            await waiting(client, begun["runId"])
            [asked] = (await client.get("/approvals")).json()["requests"]
            assert asked["rootSessionId"] == begun["sessionId"]
            assert asked["sessionId"] != begun["sessionId"]
            below = await client.get(f"/runs/{asked['runId']}")
            assert below.json()["run"]["agentId"] == "payer"
            child = await client.get(f"/sessions/{asked['sessionId']}")
            assert child.json()["parentSessionId"] == begun["sessionId"]
            assert len((await client.get("/sessions")).json()["sessions"]) == 1
            assert len((await client.get("/sessions?subagents=true")).json()["sessions"]) == 2
            assert len((await client.get("/runs")).json()["runs"]) == 2
            [root] = (await client.get("/runs?subagents=false")).json()["runs"]
            assert root["agentId"] == "boss"
            path = f"/approvals/{asked['request']['requestId']}"
            assert (await client.post(path, json={"optionId": "approve"})).status_code == 202
            assert (await ended(client, begun["runId"]))["result"]["output"] == "The boss is done."

    run(main())


def test_a_session_can_be_copied_and_both_go_on_by_themselves(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            begun = await begin(client)
            path = f"/sessions/{begun['sessionId']}"
            headers = {"idempotency-key": "copy"}
            made = await client.post(f"{path}/fork", json={}, headers=headers)
            assert made.status_code == 201
            again = await client.post(f"{path}/fork", headers=headers)
            assert again.json()["sessionId"] == made.json()["sessionId"]
            other = made.json()
            assert other["predecessorId"] == begun["sessionId"]
            said = await client.post(f"/sessions/{other['sessionId']}/messages", json={"message": "More."})
            await ended(client, said.json()["runId"])
            assert (await client.get(path)).json()["runCount"] == 1
            assert len((await client.get(f"/sessions/{other['sessionId']}/history")).json()["messages"]) == 4
            wrong = await client.post(f"{path}/fork", json={"at": 9_999})
            assert (wrong.status_code, wrong.json()["code"]) == (400, "rejected")

    run(main())


def test_an_export_can_be_imported_into_another_store(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            begun = await begin(client)
            exported = await client.get(f"/sessions/{begun['sessionId']}/export")
            assert exported.headers["content-type"].startswith("application/x-ndjson")
            lines = exported.text.splitlines()
            assert json.loads(lines[0])["sessionId"] == begun["sessionId"]
        async with AgentRuntime.in_memory([talker()]) as other:
            info = await other.sessions.import_(lines)
            assert (info.session_id, info.title) == (begun["sessionId"], "Hello.")

    run(main())


def test_a_deleted_session_is_gone_for_every_caller(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [payer()]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Pay."})).json()
            await waiting(client, begun["runId"])
            path = f"/sessions/{begun['sessionId']}"
            busy = await client.delete(path)
            assert (busy.status_code, busy.json()["code"]) == (409, "conflict")
            told = await client.post(f"{path}/cancel", json={"reason": "Enough."})
            assert told.json()["runId"] == begun["runId"]
            await ended(client, begun["runId"])
            again = await client.post(f"{path}/cancel")
            assert again.json() == {"sessionId": begun["sessionId"]}
            wire = await Wire.get(server.port, f"{path}/events")
            removed = await client.delete(path)
            assert removed.json() == {"deleted": [begun["sessionId"]]}
            frames = [frame async for frame in wire.frames()]
            assert (frames[-1].event, frames[-1].json["code"]) == ("error", "cursor_expired")
            assert (await client.get(path)).status_code == 404
            assert (await client.get(f"/runs/{begun['runId']}")).status_code == 404
            assert (await client.post(f"{path}/messages", json={"message": "Hello."})).status_code == 404
            empty = (await client.post("/sessions", json={})).json()["sessionId"]
            assert (await client.delete(f"/sessions/{empty}")).json() == {"deleted": [empty]}
            assert (await client.delete(f"/sessions/{empty}")).status_code == 404

    run(main())


def test_the_trace_of_a_run_has_its_spans_without_message_texts(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [payer()]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Pay secretly."})).json()
            await waiting(client, begun["runId"])
            found = await client.get(f"/runs/{begun['runId']}/trace")
            assert found.status_code == 200
            kinds = {span["name"].partition(":")[0].partition(" ")[0] for span in found.json()["spans"]}
            assert kinds >= {"llm.complete", "wait"}, kinds
            assert "secretly" not in found.text
            bare = await client.get(f"/runs/{begun['runId']}/trace", params={"events": "false"})
            assert found.json()["events"], "the policy asked"
            assert bare.json() == {**found.json(), "events": []}
            after = {"after": found.json()["seq"]}
            fresh = (await client.get(f"/runs/{begun['runId']}/trace", params=after)).json()
            assert fresh == {**found.json(), "spans": [], "events": []}
            row = (await client.get(f"/runs/{begun['runId']}")).json()["row"]
            assert (row["runId"], row["input"], row["waitsOn"]) == (begun["runId"], "Pay secretly.", "input")
            assert row["startedAt"] == found.json()["trace"]["startedAt"]

    run(main())


def test_a_large_answer_is_compressed_if_the_client_accepts_that(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Long. " * 4_000})).json()
            await ended(client, begun["runId"])

            async def sent(path: str, accepted: str) -> tuple[bytes, int, str | None]:
                async with client.stream("GET", path, headers={"accept-encoding": accepted}) as answer:
                    length = int(answer.headers["content-length"])
                    return await answer.aread(), length, answer.headers.get("content-encoding")

            path = f"/sessions/{begun['sessionId']}/history"
            whole, length, coding = await sent(path, "identity")
            assert (length, coding) == (len(whole), None)
            assert length > 16_384
            packed, length, coding = await sent(path, "gzip")
            assert (packed, coding) == (whole, "gzip")
            assert length < len(whole) / 10
            assert (await sent(path, "gzip;q=0"))[2] is None
            assert (await sent("/agents", "gzip"))[2] is None, "a small answer is as good without"

    run(main())


def test_with_a_token_only_one_of_two_goes_on_from_the_same_place(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            begun = (await client.post("/sessions", json={})).json()
            path, token = f"/sessions/{begun['sessionId']}", begun["continuationToken"]
            assert (await client.get(path)).json()["continuationToken"] == token
            bodies = [{"message": f"Word {at}.", "continuationToken": token} for at in range(8)]
            said = await asyncio.gather(*[client.post(f"{path}/messages", json=body) for body in bodies])
            assert sorted(answer.status_code for answer in said) == [202] + [409] * 7
            [winner] = [answer for answer in said if answer.status_code == 202]
            at = said.index(winner)
            again = await client.post(f"{path}/messages", json=bodies[at])
            assert again.json() == winner.json()
            await ended(client, winner.json()["runId"])
            token = winner.json()["continuationToken"]
            assert (await client.get(path)).json()["continuationToken"] == token
            stale = await client.post(f"{path}/messages", json={**bodies[at - 1]})
            assert (stale.status_code, stale.json()["code"]) == (409, "conflict")
            other = (await client.post("/sessions", json={})).json()["continuationToken"]
            for wrong in ("nonsense", other):
                body = {"message": "More.", "continuationToken": wrong}
                assert (await client.post(f"{path}/messages", json=body)).status_code == 409
            body = {"message": "More.", "continuationToken": token}
            assert (await client.post(f"{path}/messages", json=body)).status_code == 202
            found = (await client.get(path)).json()
            assert found["runCount"] == 2
            assert len((await client.get("/sessions")).json()["sessions"]) == 1

    run(main())


def test_a_key_is_for_one_request_also_after_the_session_went_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            headers = {"idempotency-key": "k"}
            empty = (await client.post("/sessions", json={}, headers=headers)).json()
            said = await client.post("/sessions", json={"message": "Hello."}, headers=headers)
            assert said.status_code == 409
            path = f"/sessions/{empty['sessionId']}/messages"
            await ended(client, (await client.post(path, json={"message": "Hello."})).json()["runId"])
            said = await client.post("/sessions", json={"message": "Hello."}, headers=headers)
            assert said.status_code == 409
            again = await client.post("/sessions", json={}, headers=headers)
            assert again.json() == empty
            async with server.tenants.use("local") as tenant:
                assert await tenant.reservations.find(empty["sessionId"], "local") is None, (
                    "it is no empty one any more"
                )
            headers = {"idempotency-key": "m"}
            await client.post("/sessions", json={"message": "Hello."}, headers=headers)
            assert (await client.post("/sessions", json={}, headers=headers)).status_code == 409

    run(main())


def test_a_prompt_and_safe_points_are_those_of_the_owner(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [payer()]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Pay."})).json()
            await waiting(client, begun["runId"])
            found = (await client.get(f"/runs/{begun['runId']}/steps/1/prompt")).json()
            assert [one["role"] for one in found["messages"]] == ["user", "assistant", "tool"]
            assert found["messages"][1]["toolCalls"][0]["name"] == "look"
            assert {one["name"] for one in found["tools"]} == {"look", "pay"}
            assert (found["stepIndex"], found["modelId"]) == (1, "scripted")
            assert (await client.get(f"/runs/{begun['runId']}/steps/9/prompt")).status_code == 404

            path = f"/sessions/{begun['sessionId']}/safe-points"
            points = (await client.get(path)).json()["safePoints"]
            assert points == sorted(points)
            newest = (await client.get(path, params={"limit": 1})).json()
            assert newest == {"safePoints": points[-1:], "next": points[-1]}
            older = (await client.get(path, params={"before": newest["next"]})).json()
            assert older == {"safePoints": points[:-1]}
            # A fork begins exactly there, and in between at the last one before.
            for at in range(points[0], points[-1] + 1):
                fork = (await client.post(f"/sessions/{begun['sessionId']}/fork", json={"at": at})).json()
                assert fork["predecessorSeq"] == max(one for one in points if one <= at)
            empty = (await client.post("/sessions", json={})).json()["sessionId"]
            assert (await client.get(f"/sessions/{empty}/safe-points")).json() == {"safePoints": []}

    run(main())
