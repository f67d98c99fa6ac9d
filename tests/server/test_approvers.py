"""Approvers answer requests of other users, and see nothing else of their sessions."""

from pathlib import Path

from tests.server.keyring import Keyring
from tests.server.rig import FAST, ended, payer, run, serving, waiting

from windlass.runtime.options import RuntimeOptions
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
            for outsider in (other, away):
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
            for outsider in (other, away):
                assert (await outsider.post(path, json={"optionId": "deny"})).status_code == 404

    run(main())
