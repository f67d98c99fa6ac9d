"""Metrics, failures and versions over many runs, separate for each user."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
from tests.server.keyring import Keyring
from tests.server.rig import FAST, ended, payer, run, serving, waiting

from windlass import Agent, LLMUsage, ToolFailed, tool
from windlass.testing import ScriptedModel, call, say
from windlass_server import Settings

HOUR = {"since": "2020-01-01T00:00:00Z", "until": "2120-01-01T00:00:00Z", "bucket": 366 * 86_400}
"""All of the time, in a hundred parts."""


@tool(mode="read")
async def lookup(number: int) -> str:
    """Look a number up."""
    raise ToolFailed(f"there is no number {number}")


def seeker(instructions: str = "Seek.") -> Agent:
    """An agent with one failing tool; it gives up if the message says so."""

    def answer(messages: Sequence[Any]) -> Any:
        words = messages[-1].content
        usage = LLMUsage(input_tokens=10, output_tokens=2, cost_micros=3)
        if messages[-1].role == "user" and "seek" in words:
            return call("lookup", {"number": 7}) + say("", usage=usage)
        return say("I give up.", usage=usage)

    return Agent("seeker", model=ScriptedModel(answer), tools=[lookup], instructions=instructions)


async def do(client: httpx2.AsyncClient, message: str, agent: str = "seeker", **more: object) -> str:
    begun = (await client.post("/sessions", json={"message": message, "agent": agent, **more})).json()
    await ended(client, begun["runId"])
    return begun["runId"]


def test_each_user_sees_their_own_runs_in_numbers(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        holders = {name: keys.add(name, "acme", name) for name in ("ann", "bob")}
        settings = Settings(keys=keys.path, limits=FAST)
        async with (
            serving(tmp_path / "data", [seeker(), payer()], settings=settings) as server,
            server.client(holders["ann"]) as ann,
            server.client(holders["bob"]) as bob,
        ):
            await do(ann, "seek")
            await do(ann, "rest")
            failed = await do(ann, "seek it", budget={"maxSteps": 1})
            begun = (await ann.post("/sessions", json={"message": "Pay.", "agent": "payer"})).json()
            await waiting(ann, begun["runId"])

            found = (await ann.get("/stats", params=HOUR)).json()
            total = found["total"]
            assert (total["runs"], total["completed"], total["failed"], total["open"]) == (4, 2, 1, 1)
            assert (total["inputTokens"], total["outputTokens"], total["costMicros"]) == (47, 10, 12)
            assert 0 <= total["p50Ms"] <= total["p95Ms"]
            assert found["waiting"]["runs"] == found["waiting"]["requests"] == 1
            assert found["failingTools"] == [{"tool": "lookup", "calls": 2, "failed": 2}]
            assert sum(one["runs"] for one in found["buckets"]) == 4
            assert found["buckets"][0]["at"] == found["since"] == "2020-01-01T00:00:00.000Z"
            assert "p50Ms" not in found["buckets"][0]
            paid = (await ann.get("/stats", params={**HOUR, "agent": "payer"})).json()
            assert (paid["total"]["runs"], paid["failingTools"]) == (1, [])
            assert (await ann.get("/stats")).json()["total"]["runs"] == 4

            assert "groups" not in found
            by_split = (("agent", ["seeker", "payer"]), ("user", ["ann"]), ("model", ["scripted/scripted"]))
            for split, names in by_split:
                groups = (await ann.get("/stats", params={**HOUR, "split": split})).json()["groups"]
                assert [one["name"] for one in groups] == names
                assert sum(one["total"]["runs"] for one in groups) == 4
                assert sum(bucket["failed"] for one in groups for bucket in one["buckets"]) == 1
            versions = (await ann.get("/stats", params={**HOUR, "split": "version"})).json()["groups"]
            assert [one["total"]["runs"] for one in versions] == [3, 1]
            assert all(one["name"].startswith("sha256:") for one in versions)
            assert (await ann.get("/stats", params={"split": "mood"})).status_code == 422
            by_tool = (await ann.get("/stats", params={"split": "tool"})).json()
            assert [(one["tool"], one["calls"], one["failed"]) for one in by_tool["tools"]] == [
                ("lookup", 2, 2),
                ("look", 1, 0),
                ("pay", 1, 0),
            ]
            assert sum(part["calls"] for one in by_tool["tools"] for part in one["buckets"]) == 4
            assert [part["at"] for part in by_tool["tools"][0]["buckets"]] == [
                part["at"] for part in by_tool["buckets"]
            ]
            assert "meanMs" in by_tool["tools"][0]
            assert "groups" not in by_tool
            assert "tools" not in found

            why = (await ann.get("/failures")).json()
            assert (why["runs"], why["failed"], why["isAll"]) == (3, 1, True)
            [group] = why["groups"]
            assert (group["kind"], group["causes"][0]["runIds"]) == ("budget", [failed])
            assert (await ann.get("/failures", params={"agent": "payer"})).json()["runs"] == 0
            assert (await ann.get("/failures", params={"until": "2021-01-01T00:00:00Z"})).json()["runs"] == 0

            assert (await bob.get("/stats", params=HOUR)).json()["total"]["runs"] == 0
            assert (await bob.get("/stats")).json()["waiting"] == {"runs": 0, "requests": 0}
            assert (await bob.get("/stats")).json()["failingTools"] == []
            assert (await bob.get("/stats", params={"split": "tool"})).json()["tools"] == []
            assert (await bob.get("/failures")).json() == {
                "runs": 0,
                "failed": 0,
                "isAll": True,
                "groups": [],
            }
            assert (await bob.get("/versions", params={"agent": "seeker"})).json()["versions"] == []

    run(main())


def test_two_versions_of_an_agent_are_compared_by_the_runs_of_each(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [seeker()]) as server, server.client() as client:
            await do(client, "rest")
            await do(client, "seek it", budget={"maxSteps": 1})
        async with serving(tmp_path, [seeker("Seek well.")]) as server, server.client() as client:
            await do(client, "rest")
            listed = (await client.get("/versions", params={"agent": "seeker"})).json()
            new, old = (one["tally"]["fingerprint"] for one in listed["versions"])
            assert listed["current"] == new
            assert [one["tally"]["runs"] for one in listed["versions"]] == [1, 2]
            names = {"agent": "seeker", "old": old, "new": new}
            found = (await client.get("/compare", params=names)).json()
            assert (found["comparison"]["verdict"], found["comparison"]["pValue"]) == ("unclear", 1)
            assert found["comparison"]["old"]["succeeded"] == 1
            assert (
                found["comparison"]["successRate"]["low"] < 0.5 < found["comparison"]["successRate"]["high"]
            )
            assert found["changes"] == ["agent.instructions changed"]
            [difference] = [one for one in found["differences"] if one["path"] == "/agent/instructions"]
            assert difference["after"] == "Seek well."
            unknown = await client.get("/compare", params={**names, "old": "sha256:" + "0" * 64})
            assert unknown.status_code == 404

    run(main())


def test_a_cause_of_failures_names_every_run(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [seeker()]) as server, server.client() as client:
            for _ in range(4):
                await do(client, "seek it", budget={"maxSteps": 1})
            [group] = (await client.get("/failures")).json()["groups"]
            assert len(set(group["causes"][0]["runIds"])) == group["count"] == 4

    run(main())


def test_a_time_that_cannot_be_counted_is_refused_in_words(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            for params, words in (
                (
                    {"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"},
                    "end must be after start",
                ),
                ({"since": "2020-01-01T00:00:00Z", "bucket": 60}, "limit 1,000"),
            ):
                answer = await client.get("/stats", params=params)
                assert (answer.status_code, words in answer.json()["detail"]) == (400, True), answer.text
            assert (await client.get("/stats", params={"since": "yesterday"})).status_code == 422
            # Times are since and until on every route.
            assert (await client.get("/stats", params={"from": "2026-01-01T00:00:00Z"})).status_code == 422

    run(main())


def test_runs_are_listed_by_what_they_are_and_by_what_people_say_of_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [seeker(), payer()]) as server, server.client() as client:
            done = await do(client, "rest")
            begun = (await client.post("/sessions", json={"message": "Pay.", "agent": "payer"})).json()
            await waiting(client, begun["runId"])
            path = f"/runs/{done}/feedback"
            given = await client.post(path, json={"thumb": "down", "note": "So.", "tags": ["odd"]})
            assert given.status_code == 202, given.text
            assert (await client.post(path, json={"thumb": "good"})).status_code == 422
            assert (await client.post(path, json={})).status_code == 400
            assert (await client.post("/runs/unknown/feedback", json={"thumb": "up"})).status_code == 404

            async def ids(**params: str) -> list[str]:
                answer = await client.get("/runs", params=params)
                assert answer.status_code == 200, answer.text
                return [one["runId"] for one in answer.json()["runs"]]

            while not (said := (await client.get(path)).json()["feedback"]):
                continue
            assert (said[0]["thumb"], said[0]["note"], said[0]["tags"]) == ("down", "So.", ["odd"])
            assert await ids(waitsOn="person") == [begun["runId"]]
            assert await ids(feedback="down", tag="odd") == [done]
            assert await ids(sort="cost", ascending="true", since="2020-01-01T00:00:00Z", text="pay") == [
                begun["runId"]
            ]
            assert await ids(error="any") == []
            assert (await client.get("/runs", params={"sort": "size"})).status_code == 422
            first = (await client.get("/runs", params={"limit": 1})).json()
            rest = (await client.get("/runs", params={"after": first["next"]})).json()
            assert [one["runId"] for one in (*first["runs"], *rest["runs"])] == [begun["runId"], done]
            other = {"after": first["next"], "sort": "cost"}
            assert (await client.get("/runs", params=other)).status_code == 400
            decisions = (await client.get(f"/runs/{done}/decisions", params={"after": 99, "limit": 1})).json()
            assert decisions["decisions"] == []
            assert decisions["metrics"]["totalDecisions"] > 0

    run(main())
