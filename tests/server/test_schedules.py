"""`/v1/schedules`: each user has their own, and the server starts their runs."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.client.rig import client_of
from tests.server.keyring import Keyring
from tests.server.rig import FAST, Json, run, serving, talker

from windlass import Conflict, Rejected
from windlass.client import Client, NotFound
from windlass_server import Settings

POLL_S = 0.05
HOURLY: Json = {"name": "hourly", "agent": "talker", "message": "Hello.", "everyS": 3_600}


def test_a_user_has_schedules_that_no_other_user_can_see_or_change(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann, bob = keys.add("ann", "acme", "ann"), keys.add("bob", "acme", "bob")
        settings = Settings(keys=keys.path, limits=FAST)
        async with (
            serving(tmp_path / "data", [talker()], settings=settings) as server,
            server.client(ann) as client,
            server.client(bob) as colleague,
        ):
            made = await client.post("/schedules", json=HOURLY)
            assert (made.status_code, made.json()["owner"]) == (200, "ann")
            assert made.json() == (await client.get("/schedules/hourly")).json()
            assert (await client.get("/schedules")).json() == {"schedules": [made.json()]}
            assert (await colleague.get("/schedules")).json() == {"schedules": []}
            for method, path in (
                ("GET", "hourly"),
                ("DELETE", "hourly"),
                ("POST", "hourly/pause"),
                ("POST", "hourly/resume"),
                ("POST", "hourly/run"),
                ("GET", "hourly/ticks"),
                ("GET", "unknown"),
            ):
                answer = await colleague.request(method, f"/schedules/{path}")
                assert (answer.status_code, answer.json()["detail"]) == (404, "there is no such schedule")
            # Users may give the same names.
            theirs = await colleague.post("/schedules", json=HOURLY)
            assert (theirs.status_code, theirs.json()["owner"], theirs.json()["name"]) == (
                200,
                "bob",
                "hourly",
            )
            assert (await colleague.delete("/schedules/hourly")).json() == {"deleted": ["hourly"]}
            assert (await client.get("/schedules/hourly")).json()["owner"] == "ann"
            # The session of a webhook or of another schedule: it would not be theirs any more.
            for session in ("slack:T1:C1:1.1", "session:schedule:hourly:20270101T000000Z", "eval-x/a/1"):
                mine = {**HOURLY, "name": "mine", "sessionId": session}
                answer = await colleague.post("/schedules", json=mine)
                assert (answer.status_code, "without : and /" in answer.json()["detail"]) == (400, True)
            begun = await client.post("/schedules/hourly/run")
            assert begun.status_code == 202
            again = {**HOURLY, "name": "again", "sessionId": begun.json()["sessionId"]}
            assert (await client.post("/schedules", json=again)).status_code == 200
            assert (await client.delete("/schedules/again")).status_code == 200
            row = (await client.get(f"/runs/{begun.json()['runId']}")).json()
            assert row["run"]["sessionId"] == begun.json()["sessionId"]
            ticks = (await client.get("/schedules/hourly/ticks")).json()
            assert len(ticks["next"]) == 10
            assert ticks["next"][0] >= made.json()["nextAt"], "an hour may end in between"
            assert ticks["last"] == []
            passed = datetime.now(UTC) - timedelta(hours=2)
            prefix = begun.json()["runId"].rpartition(":")[0]
            assert prefix.startswith("schedule:hourly~")
            run_id = f"{prefix}:{passed:%Y%m%dT%H}0000Z"
            async with server.tenants.use("acme") as tenant:
                await (await tenant.runtime.start_run("talker", "Hello.", run_id=run_id, owner="ann")).wait()
            ticks = (await client.get("/schedules/hourly/ticks")).json()
            assert [(one["runId"], one["status"]) for one in ticks["last"]] == [(run_id, "completed")]
            paused = (await client.post("/schedules/hourly/pause")).json()
            assert (await client.get("/schedules/hourly/ticks")).json()["next"] == []
            assert (paused["isPaused"], "nextAt" in paused) == (True, False)
            assert (await client.post("/schedules/hourly/resume")).json()["isPaused"] is False
            assert (await client.delete("/schedules/hourly")).status_code == 200
            assert (await client.get("/schedules/hourly")).status_code == 404

    run(main())


def test_a_schedule_does_not_tell_whether_another_user_has_the_session_that_it_names(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann, bob = keys.add("ann", "acme", "ann"), keys.add("bob", "acme", "bob")
        settings = Settings(keys=keys.path, limits=FAST)
        async with (
            serving(tmp_path / "data", [talker()], settings=settings) as server,
            server.client(ann) as client,
            server.client(bob) as colleague,
        ):
            theirs = (await client.post("/sessions", json={"message": "Hello."})).json()["sessionId"]
            own = (await colleague.post("/sessions", json={"message": "Hello."})).json()["sessionId"]
            sessions: list[str] = []
            for number, named in enumerate([theirs, "unknown", own]):
                body = {**HOURLY, "name": f"s{number}", "sessionId": named}
                made = await colleague.post("/schedules", json=body)
                assert made.status_code == 200
                assert (await colleague.post("/schedules", json=body)).json() == made.json(), "it stays"
                begun = await colleague.post(f"/schedules/s{number}/run")
                assert begun.status_code == 202, begun.text
                sessions.append(begun.json()["sessionId"])
            assert [one.partition("~")[0] for one in sessions] == [theirs, "unknown", own]
            assert sessions[0] != theirs
            assert sessions[2] == own
            assert (await colleague.get(f"/sessions/{sessions[0]}")).status_code == 200
            assert (await client.get(f"/sessions/{sessions[0]}")).status_code == 404

    run(main())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({**HOURLY, "name": "n" * 112}, "name: at most 111 characters, found 112"),
        ({**HOURLY, "cron": "* * * * *"}, "needs one of cron, every_s and at, found cron and every_s"),
        ({"name": "x", "agent": "talker", "message": "x", "cron": "99 * * * *"}, "Bad minute"),
        ({**HOURLY, "agent": "nobody"}, "unknown agent; known are talker"),
        ({**HOURLY, "owner": "bob"}, "owner"),
        ({**HOURLY, "name": "a\nb"}, "without control characters"),
        ({**HOURLY, "name": "ghp_" + "a1B2" * 9}, "would be masked"),
    ],
)
def test_a_schedule_that_cannot_be_kept_is_refused(tmp_path: Path, body: Json, words: str) -> None:
    async def main() -> None:
        async with serving(tmp_path / "data", [talker()]) as server, server.client() as client:
            answer = await client.post("/schedules", json=body)
            assert answer.status_code in (400, 422)
            assert words in answer.text
            assert (await client.get("/schedules")).json() == {"schedules": []}

    run(main())


def test_the_server_starts_the_runs_of_a_schedule_also_after_a_restart(tmp_path: Path) -> None:
    async def ticks(often: int) -> None:
        async with (
            serving(tmp_path / "data", [talker()]) as server,
            Client(f"http://127.0.0.1:{server.port}") as client,
        ):
            await client.schedules.put("often", "talker", "Hello.", every_s=1)
            while (await client.schedules.get("often")).started < often:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(POLL_S)
            found = await client.schedules.pause("often")
            assert (await client.schedules.ticks("often")).next == ()
            assert found.last_run_id is not None
            session = (await client.runs.get(found.last_run_id)).run
            assert session.agent_id == "talker"
            await client.schedules.resume("often")

    async def main() -> None:
        await ticks(1)
        await ticks(3)

    run(main())


def test_the_client_makes_lists_and_deletes_schedules(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "data", [talker()]) as server, client_of(server.port) as client:
            for name in ("b", "a"):
                await client.schedules.put(
                    name, "talker", "Hello.", cron="0 3 * * *", timezone="Europe/Berlin"
                )
            first = await client.schedules.list(limit=1)
            assert [one.name for one in first.items] == ["a"]
            rest = await client.schedules.list(after=first.next, limit=1)
            assert rest.next is None, "the last page says so"
            assert [(one.name, one.timezone) for one in rest.items] == [("b", "Europe/Berlin")]
            await client.schedules.delete("a")
            with pytest.raises(NotFound):
                await client.schedules.get("a")
            with pytest.raises((Rejected, Conflict)):
                await client.schedules.put("c", "nobody", "x", every_s=5)

    run(main())


def test_a_user_has_a_limited_number_of_schedules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass_server.routes.schedules.SCHEDULES_MAX", 2)

    async def main() -> None:
        async with serving(tmp_path / "data", [talker()]) as server, server.client() as client:
            codes = [
                (await client.post("/schedules", json={**HOURLY, "name": name})).status_code
                for name in ("a", "b", "c", "a")
            ]
            assert codes == [200, 200, 409, 200]

    run(main())
