"""`/v1/limits`: operators set limits, and people see what is left for them."""

from pathlib import Path

from tests.server.keyring import Keyring
from tests.server.rig import FAST, Json, ended, payer, run, serving, talker, waiting

from windlass_server import Settings

PEOPLE: Json = {"name": "people", "per": "month", "maxTokens": 1_000_000, "owner": "*"}
RUNS: Json = {"name": "runs", "per": "run", "maxTokens": 500_000}
DEFAULTS: Json = {"timezone": "UTC", "atLimit": "refuse"}


def test_an_operator_sets_limits_and_people_see_what_is_left_for_them(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ops = keys.add("ops", "acme", "ops", operator=True)
        ann, bob = keys.add("ann", "acme", "ann"), keys.add("bob", "acme", "bob")
        other = keys.add("other", "rival", "ann")
        async with (
            serving(tmp_path / "data", [talker()], settings=Settings(keys=keys.path, limits=FAST)) as server,
            server.client(ops) as operator,
            server.client(ann) as ann_client,
            server.client(bob) as bob_client,
            server.client(other) as rival,
        ):
            for body in (PEOPLE, RUNS):
                made = await operator.post("/limits", json=body)
                assert made.status_code == 200
                assert made.json() == {**body, **DEFAULTS}
            answer = await ann_client.post("/sessions", json={"agent": "talker", "message": "Hi"})
            run_id = answer.json()["runId"]
            await ended(ann_client, run_id)
            used, runs = (await ann_client.get("/limits")).json()["limits"]
            assert (used["subject"], used["tokensLeft"]) == ("ann", 1_000_000 - used["tokens"])
            assert used["tokens"] > 0
            assert (used["heldTokens"], used["heldMicros"]) == (0, 0)
            assert runs == {**RUNS, **DEFAULTS}
            # Bob has spent nothing yet, and does not see what others have.
            assert (await bob_client.get("/limits")).json()["limits"] == [
                {**PEOPLE, **DEFAULTS},
                {**RUNS, **DEFAULTS},
            ]
            assert (await operator.get("/limits")).json()["limits"] == [used, runs]
            first = (await operator.get("/limits", params={"limit": 1})).json()
            second = await operator.get("/limits", params={"limit": 1, "after": first["next"]})
            assert (first["limits"], second.json()) == ([used], {"limits": [runs]})
            assert (await rival.get("/limits")).json()["limits"] == []
            tight = {**PEOPLE, "maxTokens": used["tokens"]}
            assert (await operator.post("/limits", json=tight)).status_code == 200
            refused = await ann_client.post("/sessions", json={"agent": "talker", "message": "Hi"})
            assert (refused.status_code, refused.json()["code"]) == (403, "denied")
            assert refused.json()["detail"].startswith("limit people of ann for ")
            assert (await operator.delete("/limits/people")).json()["name"] == "people"
            assert (await operator.delete("/limits/people")).status_code == 404

    run(main())


def test_only_operators_may_change_limits(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann = keys.add("ann", "acme", "ann", roles=("approver", "improver"))
        settings = Settings(keys=keys.path, limits=FAST)
        async with (
            serving(tmp_path / "data", [talker()], settings=settings) as server,
            server.client(ann) as client,
        ):
            assert (await client.post("/limits", json=PEOPLE)).status_code == 404
            assert (await client.delete("/limits/people")).status_code == 404

    run(main())


def test_a_limit_that_says_nothing_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "data", [talker()]) as server, server.client() as client:
            answer = await client.post("/limits", json={"name": "empty", "per": "day"})
            assert answer.status_code == 400
            assert answer.json()["detail"] == "limit empty needs max_cost_micros, max_tokens, or both"
            answer = await client.post("/limits", json={**PEOPLE, "name": "a\nb"})
            assert (answer.status_code, "the name of a limit" in answer.json()["detail"]) == (400, True)
            answer = await client.post("/limits", json={**PEOPLE, "timezone": "Mars"})
            assert (answer.status_code, "timezone of limit people is unknown" in answer.json()["detail"]) == (
                400,
                True,
            )

    run(main())


def test_finance_lets_a_run_spend_more_over_http(tmp_path: Path) -> None:
    asks: Json = {**PEOPLE, "maxTokens": 300, "atLimit": "ask", "responders": ["eve"]}

    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ops = keys.add("ops", "acme", "ops", operator=True)
        ann = keys.add("ann", "acme", "ann")
        eve = keys.add("eve", "acme", "eve", roles=("approver",))
        async with (
            serving(tmp_path / "data", [payer()], settings=Settings(keys=keys.path, limits=FAST)) as server,
            server.client(ops) as operator,
            server.client(ann) as ann_client,
            server.client(eve) as finance,
        ):
            made = await operator.post("/limits", json=asks)
            assert made.json() == {**asks, "timezone": "UTC"}
            message: Json = {"agent": "payer", "message": "Please leave it."}
            started = (await ann_client.post("/sessions", json=message)).json()
            run_id, session_id = started["runId"], started["sessionId"]
            await waiting(ann_client, run_id)
            [asked] = (await finance.get("/approvals")).json()["requests"]
            request = asked["request"]
            assert request["prompt"].startswith("The limit people of ann for 20")
            assert set(request["action"]["input"]) == {"limit", "tokens", "subject", "period"}
            paths = [f"/sessions/{session_id}{path}" for path in ("", "/history", "/agent-session")]
            paths += [f"/runs/{run_id}{path}" for path in ("", "/trace", "/costs", "/decisions")]
            answer: Json = {"optionId": "approve", "arguments": {"tokens": 100_000}}
            path = f"/approvals/{request['requestId']}"
            assert (await ann_client.post(path, json=answer)).status_code in (403, 404)
            assert (await finance.post(path, json=answer)).status_code == 202
            assert (await ended(ann_client, run_id))["result"]["status"] == "completed"
            assert [(await ann_client.get(path)).status_code for path in paths] == [200] * len(paths)
            assert not (await ann_client.get(f"/runs/{run_id}/costs")).json().get("tools")

    run(main())
