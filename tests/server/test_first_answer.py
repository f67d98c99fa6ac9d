"""The first answer counts at every server and over every protocol; the others get 409 with the first one."""

import asyncio
from pathlib import Path

import pytest
from tests.server.keyring import Keyring
from tests.server.rig import FAST, Json, ended, payer, run, serving, waiting

from tools.postgres import Postgres
from windlass_server import Settings

RACES = 10


@pytest.mark.promise("A1")
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_of_two_approvers_at_two_servers_one_is_told_yes(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address = ""
    if store == "postgres":
        server: Postgres = request.getfixturevalue("postgres")
        address = server.new_database()
    keys = Keyring(tmp_path / "keys.json")
    ann, boss, chief = (keys.add(name, "acme", name, roles=["approver"]) for name in ("ann", "boss", "chief"))
    settings = Settings(keys=keys.path, limits=FAST)

    async def main() -> None:
        folders = (tmp_path / "a", tmp_path / "b") if address else (tmp_path / "a", tmp_path / "a")
        async with (
            serving(folders[0], [payer()], settings=settings, address=address) as first,
            serving(folders[1], [payer()], settings=settings, address=address) as second,
            first.client(ann) as owner,
            first.client(boss) as one,
            second.client(chief) as other,
        ):
            for number in range(RACES):
                begun = (await owner.post("/sessions", json={"message": "Pay."})).json()
                found = await waiting(owner, begun["runId"])
                path = f"/approvals/{found['requests'][0]['requestId']}"
                body: Json = {"optionId": "approve", "text": f"yes {number}"}
                both = await asyncio.gather(*(client.post(path, json=body) for client in (one, other)))
                winners = [
                    name for name, made in zip(("boss", "chief"), both, strict=True) if made.is_success
                ]
                [refused] = [made for made in both if not made.is_success]
                assert (len(winners), refused.status_code) == (1, 409)
                assert f"(approve) by {winners[0]}, at 20" in refused.json()["detail"]
                await ended(owner, begun["runId"])
                late = (await other.post(path, json=body)).json()["detail"]
                assert f"already settled: approved (approve) by {winners[0]}" in late

    run(main())


def test_an_answer_in_a_chat_that_was_not_the_first_is_refused_with_the_first(tmp_path: Path) -> None:
    keys = Keyring(tmp_path / "keys.json")
    ann, boss = (keys.add(name, "acme", name, roles=["approver"]) for name in ("ann", "boss"))
    settings = Settings(keys=keys.path, limits=FAST)

    def said(part: Json) -> Json:
        return {"id": "chat-1", "messages": [{"id": "m1", "role": "user", "parts": [part]}]}

    async def main() -> None:
        async with (
            serving(tmp_path / "data", [payer()], settings=settings) as server,
            server.client(ann) as owner,
            server.client(boss) as other,
        ):
            begun = await owner.post("/ai/payer/chat", json=said({"type": "text", "text": "Pay."}))
            assert begun.status_code == 200
            [asked] = (await other.get("/approvals")).json()["requests"]
            request_id = asked["request"]["requestId"]
            answer = {"requestId": request_id, "optionId": "approve"}
            denied = await other.post(f"/approvals/{request_id}", json={"optionId": "deny"})
            assert denied.status_code == 202
            await ended(owner, asked["runId"])
            late = await owner.post("/ai/payer/chat", json=said({"type": "data-answer", "data": answer}))
            assert late.status_code == 409
            assert "already settled: denied (deny) by boss" in late.json()["detail"]

    run(main())


def test_an_answer_in_a_chat_is_accepted_again_from_the_same_person(tmp_path: Path) -> None:
    def said(part: Json) -> Json:
        return {"id": "chat-1", "messages": [{"id": "m1", "role": "user", "parts": [part]}]}

    async def main() -> None:
        async with serving(tmp_path / "data", [payer()]) as server, server.client() as client:
            await client.post("/ai/payer/chat", json=said({"type": "text", "text": "Pay."}))
            [asked] = (await client.get("/approvals")).json()["requests"]
            answer = {"requestId": asked["request"]["requestId"], "optionId": "approve"}
            for _ in range(2):
                made = await client.post("/ai/payer/chat", json=said({"type": "data-answer", "data": answer}))
                assert made.status_code == 200, made.text

    run(main())
