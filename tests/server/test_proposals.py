"""Proposals over HTTP: made and checked in the background, for improvers only."""

import json
from collections.abc import Sequence
from pathlib import Path

import httpx2
import pytest
from tests.ledger.rig import BETTER, GOAL, clerk
from tests.server.keyring import Issuer, Keyring
from tests.server.rig import FAST, Json, ended, run, serving
from tests.server.waiting import until

from windlass import LLMMessage, Rejected
from windlass.testing import ScriptedModel, call, say
from windlass.testing.models import Answer
from windlass_protocol import JsonObject, encode
from windlass_server import ImproveSettings, Settings


def thinker(change: str = BETTER) -> ScriptedModel:
    """A model that looks at the runs, and proposes other instructions."""

    def script(messages: Sequence[LLMMessage]) -> Answer:
        told = [one for one in messages if one.role == "tool"]
        if not told:
            return call("list_runs", {"goal_id": "parcels"})
        newest = json.loads(told[-1].content)[0]
        draft: JsonObject = {
            "changes": [{"part": "instructions", "text": change}],
            "rationale": "It never says the number.",
            "evidence": [newest["run_id"]],
        }
        return say(encode(draft).decode())

    return ScriptedModel(script)


async def make_runs(client: httpx2.AsyncClient, count: int = 2) -> None:
    for number in range(count):
        body = {"message": f"Where is the parcel of Ada{number}", "goal": "parcels"}
        await ended(client, (await client.post("/sessions", json=body)).json()["runId"])


async def settled(client: httpx2.AsyncClient, proposal_id: str) -> Json:
    """Wait until nothing is at work for a proposal; return it."""

    async def idle() -> bool:
        return not any(one["status"] == "working" for one in (await client.get("/proposals")).json()["work"])

    await until(idle)
    return (await client.get(f"/proposals/{proposal_id}")).json()


def test_a_change_is_proposed_checked_and_decided_with_the_callers_name(tmp_path: Path) -> None:
    async def main() -> None:
        given = Settings(limits=FAST, improve=ImproveSettings(thinker(), [GOAL]))
        async with serving(tmp_path, [clerk()], settings=given) as server, server.client() as client:
            await make_runs(client)
            headers = {"idempotency-key": "first"}
            wanted = {"goal": "parcels", "agent": "clerk"}
            answer = await client.post("/proposals", json=wanted, headers=headers)
            assert answer.status_code == 202
            proposal_id = answer.json()["proposalId"]
            made = await settled(client, proposal_id)
            assert made["status"] == "open"
            assert made["proposal"]["changes"][0]["after"] == BETTER
            assert made["proposal"]["differences"][0]["path"] == "/agent/instructions"
            again = await client.post("/proposals", json=wanted, headers=headers)
            assert again.json()["proposalId"] == proposal_id
            other = await client.post("/proposals", json={"goal": "parcels"}, headers=headers)
            assert (other.status_code, other.json()["code"]) == (409, "conflict")

            assert (await client.post(f"/proposals/{proposal_id}/check", json={})).status_code == 202
            checked = await settled(client, proposal_id)
            assert (checked["check"]["fixed"], checked["check"]["broken"]) == (2, 0)

            stale = {"fingerprint": made["proposal"]["baseFingerprint"]}
            assert (await client.post(f"/proposals/{proposal_id}/approve", json=stale)).status_code == 409
            words = {"reason": "It is clear.", "fingerprint": made["proposal"]["fingerprint"]}
            said = (await client.post(f"/proposals/{proposal_id}/approve", json=words)).json()
            assert said["status"] == "accepted"
            assert (said["settled"]["by"], said["settled"]["reason"]) == ("local", "It is clear.")
            refused = (await client.post(f"/proposals/{proposal_id}/refuse", json={"reason": "No."})).json()
            assert (refused["status"], refused["settled"]["isAccepted"]) == ("refused", False)
            listed = (await client.get("/proposals", params={"status": "refused"})).json()
            assert [one["proposal"]["id"] for one in listed["proposals"]] == [proposal_id]
            assert (await client.get("/proposals", params={"agent": "other"})).json()["proposals"] == []
        # It is kept.
        async with serving(tmp_path, [clerk()], settings=given) as server, server.client() as client:
            assert (await client.get(f"/proposals/{proposal_id}")).json() == refused

    run(main())


def test_a_failed_proposal_is_reported_at_once_or_in_the_list(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [clerk()]) as server, server.client() as client:
            answer = await client.post("/proposals", json={"goal": "parcels"})
            assert (answer.status_code, "--builder-model" in answer.json()["detail"]) == (409, True)
        given = Settings(limits=FAST, improve=ImproveSettings(thinker(), [GOAL]))
        async with serving(tmp_path, [clerk()], settings=given) as server, server.client() as client:
            answer = await client.post("/proposals", json={"goal": "other"})
            assert (answer.status_code, "known are parcels" in answer.json()["detail"]) == (409, True)
            begun = (await client.post("/proposals", json={"goal": "parcels"})).json()
            problem = await settled(client, begun["proposalId"])
            assert problem.pop("instance").startswith("urn:windlass:request:")
            assert problem == {
                "type": "urn:windlass:problem:not_found",
                "title": "Not Found",
                "status": 404,
                "detail": "there is no such proposal",
                "code": "not_found",
                "ids": {},
            }
            [work] = (await client.get("/proposals")).json()["work"]
            assert (work["proposalId"], work["status"]) == (begun["proposalId"], "failed")
            assert "has no run of an agent" in work["problem"]
            assert (await client.post("/proposals/ghost/check", json={})).status_code == 404

    run(main())


def test_only_improvers_see_proposals_by_key_or_by_token(tmp_path: Path) -> None:
    async def main() -> None:
        keys, issuer = Keyring(tmp_path / "keys.json"), Issuer()
        jwt = issuer.settings(tmp_path)
        holders = {
            keys.add("ann", "acme", "ann"): 404,
            keys.add("boss", "acme", "boss", roles=["approver"]): 404,
            keys.add("ida", "acme", "ida", roles=["improver"]): 200,
            issuer.token(): 404,
            issuer.token(roles="reader improver"): 200,
            issuer.token(roles=["improver", 7]): 200,
            issuer.token(roles={"improver": True}): 404,
        }
        given = Settings(
            keys=keys.path,
            jwt=type(jwt)(jwt.issuer, jwt.audience, jwt.jwks, roles_claim="roles"),
            limits=FAST,
        )
        async with serving(tmp_path / "data", [clerk()], settings=given) as server:
            for key, status in holders.items():
                async with server.client(key) as client:
                    assert (await client.get("/proposals")).status_code == status

    run(main())


def test_invalid_goals_are_refused_with_the_settings() -> None:
    with pytest.raises(Rejected, match="goals"):
        ImproveSettings(goals=["parcels"])  # pyright: ignore[reportArgumentType] what a newcomer writes
