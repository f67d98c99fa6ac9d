"""The playground over HTTP: who may use it, what it refuses, and a server that is killed meanwhile."""

import signal
from pathlib import Path

import httpx2
import pytest
from tests.server.keyring import Keyring
from tests.server.rig import (
    FAST,
    TIMEOUT_S,
    Json,
    ended,
    http_client,
    payer,
    process,
    run,
    serving,
    talker,
    waiting,
)

from windlass_server import Settings

APP = '''
import asyncio
from pathlib import Path

from windlass import Agent, tool
from windlass.testing import ScriptedModel, call, say

HERE = Path(__file__).parent


@tool(mode="read")
async def note(text: str) -> str:
    """Write a note."""
    with (HERE / "notes").open("a") as notes:
        notes.write(text + "\\n")
    return "noted"


class Model:
    """Answers at once, or never if the instructions say so and no file says go."""

    route_id, model_id = "own", "own"

    async def stream(self, messages, *, tools=None, temperature=None):
        if "wait" in messages[0].content and messages[-1].role == "tool" and not (HERE / "go").exists():
            (HERE / "waits").touch()
            await asyncio.Event().wait()
        said = f"{messages[0].content} {messages[-1].content}"
        answer = say(said) if messages[-1].role == "tool" else call("note", {"text": "once"})
        async for chunk in ScriptedModel([answer]).stream(messages):
            yield chunk


agent = Agent("clerk", model=Model(), instructions="Be short.", tools=[note])
'''


async def first_run(client: httpx2.AsyncClient, message: str = "Pay.") -> Json:
    return (await client.post("/sessions", json={"message": message})).json()


def test_a_step_is_changed_and_run_again_over_http(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [talker()]) as server, server.client() as client:
            begun = await first_run(client, "Hello.")
            await ended(client, begun["runId"])
            path = f"/runs/{begun['runId']}/steps/0/playground"
            draft = (await client.get(path)).json()
            assert draft["messages"] == [{"role": "user", "content": "Hello."}]
            assert draft["answer"]["text"] == "Hello there."
            assert draft["models"] == [draft["model"]]

            change = {"instructions": "Be kind.", "messages": draft["messages"], "size": "call"}
            headers = {"idempotency-key": "again"}
            asked = [await client.post(path, json=change, headers=headers) for _ in range(2)]
            assert [one.status_code for one in asked] == [202, 202]
            again = asked[0].json()
            assert asked[1].json() == again
            found = await ended(client, again["runId"])
            assert found["result"]["status"] == "completed"
            assert found["run"]["playground"] == {
                "runId": begun["runId"],
                "sessionId": begun["sessionId"],
                "stepIndex": 0,
                "size": "call",
                "calls": "recorded",
            }
            there = (await client.get(f"/runs/{again['runId']}/steps/0/playground")).json()
            assert (there["instructions"], there["answer"]["text"]) == ("Be kind.", "Hello there.")
            assert there["origin"]["runId"] == begun["runId"]

            rows = (await client.get("/runs")).json()["runs"]
            assert [one["runId"] for one in rows] == [begun["runId"]]
            rows = (await client.get("/runs", params={"playground": True})).json()["runs"]
            assert {one["runId"]: one["isPlayground"] for one in rows} == {
                again["runId"]: True,
                begun["runId"]: False,
            }
            other = await client.post(path, json={"instructions": "Be rude."}, headers=headers)
            assert other.status_code == 409

    run(main())


def test_real_calls_need_the_role_approver(tmp_path: Path) -> None:
    """The messages of a playground run can be edited: its tools would act on what never happened."""

    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann = keys.add("ann", "acme", "ann")
        boss = keys.add("boss", "acme", "boss", roles=["approver"])
        settings = Settings(keys=keys.path, limits=FAST)
        async with serving(tmp_path / "data", [talker()], settings=settings) as server:
            for key, status in ((ann, 403), (boss, 202)):
                async with server.client(key) as client:
                    begun = await first_run(client, "Hello.")
                    await ended(client, begun["runId"])
                    path = f"/runs/{begun['runId']}/steps/0/playground"
                    answer = await client.post(path, json={"calls": "real"})
                    assert answer.status_code == status, answer.text
                    assert (await client.post(path, json={})).status_code == 202

    run(main())


def test_the_playground_refuses_with_a_status_that_says_why(tmp_path: Path) -> None:
    async def main() -> None:
        boss = talker("boss")
        async with serving(tmp_path, [talker(), boss]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Hi.", "agent": "talker"})).json()
            await ended(client, begun["runId"])
            path = f"/runs/{begun['runId']}/steps/0/playground"
            refusals: tuple[tuple[Json, int, str], ...] = (
                ({"model": "openai/gpt-5"}, 403, "no agent of this runtime has it"),
                ({"tools": {"pay": "Pay."}}, 400, "no tool pay"),
                ({"temperature": 9}, 422, "temperature"),
                ({"messages": [{"role": "assistant", "content": "Hi."}]}, 400, "last message"),
                ({"budget": {}}, 422, "budget"),
            )
            for change, status, words in refusals:
                refused = await client.post(path, json=change)
                assert refused.status_code == status, refused.text
                assert words in refused.text
            assert (await client.get(path.replace("/0/", "/7/"))).status_code == 404
            assert (await client.post(path.replace("/0/", "/7/"), json={})).status_code == 404
            rows = (await client.get("/runs", params={"playground": True})).json()["runs"]
            assert len(rows) == 1

    run(main())


def test_playground_runs_belong_to_the_owner_of_their_run(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann, bob = keys.add("ann", "acme", "ann"), keys.add("bob", "acme", "bob")
        settings = Settings(keys=keys.path, limits=FAST)
        async with serving(tmp_path / "data", [payer()], settings=settings) as server:
            async with server.client(ann) as client:
                begun = await first_run(client)
                await waiting(client, begun["runId"])
                path = f"/runs/{begun['runId']}/steps/0/playground"
                again = (await client.post(path, json={"size": "call"})).json()
                await ended(client, again["runId"])
            async with server.client(bob) as client:
                assert (await client.get(path)).status_code == 404
                assert (await client.post(path, json={})).status_code == 404
                assert (await client.get(f"/runs/{again['runId']}")).status_code == 404
                rows = (await client.get("/runs", params={"playground": True})).json()["runs"]
                assert rows == []

    run(main())


@pytest.mark.promise("J1")
def test_a_server_that_is_killed_during_a_playground_run_ends_it_and_executes_nothing(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(APP, encoding="utf-8")

    async def main() -> None:
        with process(tmp_path / "data", "--agents", f"{app}:agent") as (child, port):
            async with http_client(f"http://127.0.0.1:{port}/v1") as client:
                begun = await first_run(client)
                await ended(client, begun["runId"])
                path = f"/runs/{begun['runId']}/steps/0/playground"
                again = (await client.post(path, json={"instructions": "Then wait."})).json()
                events, steps = f"/runs/{again['runId']}/events", 0
                async with client.stream("GET", events, params={"format": "ndjson"}) as stream:
                    async for line in stream.aiter_lines():
                        steps += '"step.started"' in line
                        if steps == 2:
                            break
            child.send_signal(signal.SIGKILL)
            child.wait(TIMEOUT_S)
        (tmp_path / "go").touch()
        with process(tmp_path / "data", "--agents", f"{app}:agent") as (child, port):
            async with http_client(f"http://127.0.0.1:{port}/v1") as client:
                found = await ended(client, again["runId"])
                assert found["result"]["output"] == "Then wait. noted"
        assert (tmp_path / "notes").read_text(encoding="utf-8") == "once\n"

    run(main())
