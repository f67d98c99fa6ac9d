"""`/v1/experiments` and `/v1/datasets`: each user sees their own, with cases and comparisons."""

from pathlib import Path
from urllib.parse import quote

from tests.server.keyring import Keyring
from tests.server.rig import FAST, ended, run, serving, talker

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
            first = (await client.get("/experiments", params={"limit": 1})).json()
            assert [one["id"] for one in first["experiments"]] == ["new/1"]
            rest = (await client.get("/experiments", params={"limit": 1, "after": first["next"]})).json()
            assert ([one["id"] for one in rest["experiments"]], rest.get("next")) == (["old/1"], None)
            wrong = await client.get("/experiments", params={"after": "old/1"})
            assert (wrong.status_code, "not the next of a page" in wrong.json()["detail"]) == (400, True)
            for name, value in (("agent", "ghost"), ("dataset", "ghost")):
                found = (await client.get("/experiments", params={name: value})).json()
                assert found == {"experiments": []}, name
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


def test_data_sets_are_filled_from_runs_and_bodies_changed_and_downloaded(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann, bob = keys.add("ann", "acme", "ann"), keys.add("bob", "acme", "bob")
        settings = Settings(keys=keys.path, limits=FAST)
        async with (
            serving(tmp_path / "data", [talker()], settings=settings) as server,
            server.client(ann) as client,
            server.client(bob) as colleague,
        ):
            begun = (await client.post("/sessions", json={"message": "Hello."})).json()
            answer = (await ended(client, begun["runId"]))["result"]["output"]
            cases = "/datasets/desk/1/cases"
            assert (await client.post(cases, json={"inputs": "Hi."})).status_code == 404
            made = [(await client.post("/datasets", json={"name": "desk/1"})).json() for _ in range(2)]
            assert made[0] == made[1], "a second time is the same"
            taken = (await client.post(cases, json={"runId": begun["runId"], "tags": ["smoke"]})).json()
            assert (taken["inputs"], taken["expected"], taken["runId"]) == ("Hello.", answer, begun["runId"])
            other = {"runId": begun["runId"], "name": "open", "expected": None}
            assert "expected" not in (await client.post(cases, json=other)).json()
            given = (await client.post(cases, json={"inputs": {"conversation": ["a", "b"]}})).json()
            assert given["name"].startswith("case-")
            again = await client.post(cases, json={"inputs": "c", "name": given["name"]})
            assert again.status_code == 409
            for body in ({}, {"inputs": ""}, {"inputs": {"conversation": "a"}}):
                assert (await client.post(cases, json=body)).status_code in (400, 422), body
            changed = await client.patch(cases, json={"name": "open", "expected": "Bye.", "tags": []})
            assert (changed.status_code, changed.json()["expected"]) == (200, "Bye.")
            assert (await client.patch(cases, json={"name": "ghost"})).status_code == 404
            left = (await client.delete(cases, params={"name": given["name"]})).json()
            assert left["cases"] == 2
            for unknown in (given["name"], "not\tprintable"):
                assert (await client.delete(cases, params={"name": unknown})).status_code == 404
            shown = (await client.get("/datasets/desk/1", params={"limit": 1})).json()
            assert (shown["dataset"]["hash"], len(shown["cases"])) == (left["hash"], 1)
            rest = (await client.get("/datasets/desk/1", params={"after": shown["next"]})).json()
            assert [one["name"] for one in rest["cases"]] == ["open"]
            assert "next" not in rest
            file = await client.get("/datasets/desk/1/yaml")
            assert file.headers["content-disposition"] == 'attachment; filename="desk-1.yaml"'
            (tmp_path / "desk.yaml").write_text(file.text, encoding="utf-8")
            assert Dataset.load(tmp_path / "desk.yaml").hash == left["hash"]
            assert (await colleague.get("/datasets")).json() == {"datasets": []}
            await colleague.post("/datasets", json={"name": "desk/1"})
            stolen = await colleague.post(cases, json={"runId": begun["runId"]})
            assert (stolen.status_code, stolen.json()["detail"]) == (404, "there is no such run")
            assert [one["cases"] for one in (await client.get("/datasets")).json()["datasets"]] == [2]
            assert (await client.delete("/datasets/desk/1")).json() == {"deleted": ["desk/1"]}
            assert (await client.get("/datasets/desk/1")).status_code == 404

    run(main())
