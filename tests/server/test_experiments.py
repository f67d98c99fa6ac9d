"""`/v1/experiments`: each user sees their own, with cases and comparisons."""

from pathlib import Path
from urllib.parse import quote

from tests.server.keyring import Keyring
from tests.server.rig import FAST, run, serving, talker

from windlass.evals import Case, Contains, Dataset, Exact, Experiment
from windlass_server import Settings

CASES = [Case("first", "Hello."), Case("second", "Good day.")]


def test_a_user_sees_their_experiments_and_compares_them(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann, bob = keys.add("ann", "acme", "ann"), keys.add("bob", "acme", "bob")
        settings = Settings(keys=keys.path, limits=FAST)
        agent = talker()
        async with (
            serving(tmp_path / "data", [agent], settings=settings) as server,
            server.client(ann) as client,
            server.client(bob) as colleague,
        ):
            assert (await client.get("/experiments")).json() == {"experiments": []}
            async with server.tenants.use("acme") as tenant:
                for name, scorer in (("old/1", Exact("no")), ("new/1", Contains("e"))):
                    data = Dataset("greetings", CASES, scorers=[scorer])
                    plan = Experiment(data, agent, experiment_id=name, owner="ann")
                    await plan.run(tenant.runtime)
            listed = (await client.get("/experiments")).json()["experiments"]
            assert [(one["id"], one["passed"]) for one in listed] == [("new/1", 2), ("old/1", 0)]
            found = (await client.get("/experiments/old/1")).json()
            assert [(one["name"], one["isPassed"]) for one in found["cases"]] == [
                ("first", False),
                ("second", False),
            ]
            trace = await client.get(f"/runs/{quote(found['cases'][0]['runId'], safe='')}/trace")
            assert trace.status_code == 200, "from a failed case to its trace"
            compared = (await client.get("/experiments/new/1/comparison", params={"old": "old/1"})).json()
            assert (compared["fixed"], compared["comparison"]["verdict"]) == (2, "unclear")
            assert (await client.get("/experiments/new/1/comparison")).status_code == 422
            assert (await colleague.get("/experiments")).json() == {"experiments": []}
            for caller, path in (
                (colleague, "old/1"),
                (colleague, "old/1/comparison?old=new/1"),
                (client, "old/1/comparison?old=ghost"),
                (client, "ghost"),
            ):
                answer = await caller.get(f"/experiments/{path}")
                assert (answer.status_code, answer.json()["detail"]) == (404, "there is no such experiment")

    run(main())
