"""`GET /v1/refused-starts`: each user reads their own refused starts, and no other user's or tenant's."""

import json
from pathlib import Path

import pytest
from tests.client.rig import client_of
from tests.server.keyring import Keyring
from tests.server.rig import FAST, Json, ended, run, serving, talker

from tools import doc_blocks
from tools.files import ROOT
from windlass.agent.policy import allow_start
from windlass.errors import Denied
from windlass_protocol import DenyDecision, PolicyDecision, PolicyKind, PolicyRef, RunRequest, RuntimePackage
from windlass_server import Settings

REFS = (PolicyRef(kind=PolicyKind.HOST, id="manners"),)


def manners(request: RunRequest, package: RuntimePackage) -> PolicyDecision:
    if "please" in str(request.input):
        return allow_start(request, package)
    return DenyDecision(code="say_please", reason="Say please.", policy_refs=REFS)


def no_customer(request: RunRequest, package: RuntimePackage) -> PolicyDecision:
    return DenyDecision(code="shop.no_customer", reason="The request names no customer.", policy_refs=())


def test_a_refused_start_has_the_code_of_the_policy_as_the_page_shows_it(tmp_path: Path) -> None:
    page = (ROOT / "docs/server.md").read_text(encoding="utf-8")
    [shown] = [
        block.code
        for block in doc_blocks.blocks(page)
        if block.language == "json" and "policyCode" in block.code
    ]

    async def main() -> None:
        async with serving(tmp_path, start_policy=no_customer) as server, server.client() as client:
            answer = await client.post("/sessions", json={"message": "Pay."})
            assert answer.status_code == 403
            assert answer.json() | {"ids": {}, "instance": "urn:windlass:request:019a8f…"} == json.loads(
                shown
            )
            async with client_of(server.port) as remote:
                with pytest.raises(Denied) as refused:
                    await remote.sessions.create("Pay.")
        assert refused.value.policy_code == "shop.no_customer"

    run(main())


def test_users_read_their_own_refused_starts_and_no_other_tenants(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann, bob = keys.add("ann", "acme", "ann"), keys.add("bob", "acme", "bob")
        boss = keys.add("boss", "acme", "boss", roles=["approver"])
        # Another user with the same name, in another tenant.
        other_ann = keys.add("ann2", "evil", "ann")
        settings = Settings(keys=keys.path, limits=FAST)
        agents = [talker(), talker("other")]
        async with (
            serving(tmp_path / "data", agents, settings=settings, start_policy=manners) as server,
            server.client(ann) as client,
            server.client(bob) as colleague,
            server.client(boss) as approver,
            server.client(other_ann) as stranger,
        ):
            first: Json = {"message": "Secret plans.", "agent": "talker", "metadata": {"note": "hidden"}}
            answer = await client.post("/sessions", json=first)
            assert (answer.status_code, answer.json()["detail"]) == (403, "say_please: Say please.")
            begun = (await client.post("/sessions", json={**first, "message": "please"})).json()
            await ended(client, begun["runId"])
            path = f"/sessions/{begun['sessionId']}/messages"
            denied = await client.post(path, json={"message": "More."})
            assert (denied.status_code, denied.json()["policyCode"]) == (403, "say_please")
            steered = {"message": "More.", "delivery": "steer"}
            assert (await client.post(path, json=steered)).status_code == 403
            refused = await colleague.post("/sessions", json={"message": "Mine.", "agent": "other"})
            assert refused.status_code == 403

            found = (await client.get("/refused-starts")).json()["refusedStarts"]
            assert [one.get("sessionId") == begun["sessionId"] for one in found] == [True, True, False]
            for one in found:
                assert (one["owner"], one["agentId"], one["source"]["id"]) == ("ann", "talker", "ann")
                assert (one["code"], one["kind"]) == ("denied", "policy_denial")
                assert (one["retry"], one["message"]) == ("user_action_needed", "say_please: Say please.")
                assert one["policyCode"] == "say_please"
                assert "number" not in one
            text = (await client.get("/refused-starts")).text
            assert "Secret plans" not in text
            assert "hidden" not in text

            [theirs] = (await colleague.get("/refused-starts")).json()["refusedStarts"]
            assert (theirs["owner"], theirs["agentId"]) == ("bob", "other")
            for outsider in (approver, stranger):
                assert (await outsider.get("/refused-starts")).json() == {"refusedStarts": []}

            page = (await client.get("/refused-starts", params={"limit": 2})).json()
            rest = (await client.get("/refused-starts", params={"after": page["next"]})).json()
            assert [*page["refusedStarts"], *rest["refusedStarts"]] == found
            none = await client.get("/refused-starts", params={"agent": "other"})
            assert none.json() == {"refusedStarts": []}
            assert (await client.get("/refused-starts", params={"owner": "bob"})).status_code == 422
            assert (await client.get("/refused-starts", params={"after": "runs.1"})).status_code == 400

            async with client_of(server.port, key=ann) as mine:
                listed = await mine.runs.refused(agent="talker", limit=2)
                assert [one.at for one in listed.items] == [one["at"] for one in page["refusedStarts"]]
                assert listed.next == page["next"]

            assert (await client.delete(f"/sessions/{begun['sessionId']}")).status_code == 200
            [left] = (await client.get("/refused-starts")).json()["refusedStarts"]
            assert left == found[-1]

    run(main())


def test_refused_starts_need_a_key(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        keys.add("ann", "acme", "ann")
        settings = Settings(keys=keys.path, limits=FAST)
        async with serving(tmp_path / "data", settings=settings) as server, server.client() as client:
            assert (await client.get("/refused-starts")).status_code == 401

    run(main())
