"""Servers over one PostgreSQL: sessions without a message and idempotency keys are those of all of them."""

import asyncio
from pathlib import Path

import httpx2
import pytest
from tests.server.rig import Json, ended, http_client, payer, process, run, serving, waiting

from tools.postgres import Postgres


async def post(client: httpx2.AsyncClient, path: str, body: Json, key: str = "one") -> httpx2.Response:
    return await client.post(path, json=body, headers={"idempotency-key": key})


def test_a_session_without_a_message_is_begun_and_deleted_at_any_server(
    postgres: Postgres, tmp_path: Path
) -> None:
    async def main() -> None:
        address = postgres.new_database()
        async with (
            serving(tmp_path / "a", address=address) as first,
            serving(tmp_path / "b", address=address) as second,
            first.client() as one,
            second.client() as other,
        ):
            begun, left = [(await one.post("/sessions", json={})).json()["sessionId"] for _ in range(2)]
            assert (await other.get(f"/sessions/{begun}")).json()["runCount"] == 0
            said = await other.post(f"/sessions/{begun}/messages", json={"message": "Hello."})
            assert said.status_code == 202
            await ended(one, said.json()["runId"])
            assert (await one.get(f"/sessions/{begun}")).json()["runCount"] == 1
            assert (await other.delete(f"/sessions/{left}")).status_code == 200
            assert (await one.get(f"/sessions/{left}")).status_code == 404

    run(main())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [], "servers have no files"


def test_a_key_is_one_request_at_two_servers_also_at_once(postgres: Postgres, tmp_path: Path) -> None:
    async def main() -> None:
        address = postgres.new_database()
        async with (
            serving(tmp_path / "a", address=address) as first,
            serving(tmp_path / "b", address=address) as second,
            first.client() as one,
            second.client() as other,
        ):
            for number in range(10):
                key, body = f"key {number}".replace(" ", "-"), {"message": "Hello."}
                twice = await asyncio.gather(*(post(at, "/sessions", body, key) for at in (one, other)))
                assert [said.status_code for said in twice] == [202, 202]
                assert twice[0].json() == twice[1].json()
                assert (await post(other, "/sessions", {"message": "Bye."}, key)).status_code == 409
                path, pair = f"/sessions/{twice[0].json()['sessionId']}/messages", ("Left.", "Right.")
                said = await asyncio.gather(
                    *(
                        post(at, path, {"message": words})
                        for at, words in zip((one, other), pair, strict=True)
                    )
                )
                assert sorted(answer.status_code for answer in said) == [202, 409]
            assert len((await one.get("/sessions")).json()["sessions"]) == 10

    run(main())


@pytest.mark.parametrize("is_inbox", [True, False])
def test_an_answer_with_a_key_is_accepted_by_two_servers_and_counts_once(
    postgres: Postgres, tmp_path: Path, is_inbox: bool
) -> None:
    async def main() -> None:
        address = postgres.new_database()
        async with (
            serving(tmp_path / "a", [payer()], address=address) as first,
            serving(tmp_path / "b", [payer()], address=address, is_driving=False) as second,
            first.client() as one,
            second.client() as other,
        ):
            for _ in range(5):
                begun = (await other.post("/sessions", json={"message": "Pay."})).json()
                request_id = (await waiting(one, begun["runId"]))["requests"][0]["requestId"]
                path = f"/approvals/{request_id}" if is_inbox else f"/sessions/{begun['sessionId']}/messages"
                answer: Json = {"optionId": "approve"}
                body = answer if is_inbox else {"responses": [{**answer, "requestId": request_id}]}
                twice = await asyncio.gather(*(post(at, path, body) for at in (one, other)))
                assert [said.status_code for said in twice] == [202, 202], [said.text for said in twice]
                await ended(one, begun["runId"])
                assert (await post(other, path, body)).status_code == 202
                assert (await post(other, path, body, "two")).status_code == 409
                assert (await other.post(path, json=body)).status_code == 409

    run(main())


def test_a_key_of_a_server_that_was_killed_in_the_middle_is_honoured_by_another(
    postgres: Postgres, tmp_path: Path
) -> None:
    """One server dies with a key claimed and nothing done, one with an answer durable and not confirmed."""

    async def dies(address: str, at: str, path: str, body: Json) -> None:
        with process(tmp_path / at, "--address", address, "--at", at, module="tests.server.doomed") as (
            child,
            port,
        ):
            async with http_client(f"http://127.0.0.1:{port}/v1") as client:
                with pytest.raises(httpx2.TransportError):
                    await post(client, path, body)
            assert child.wait() == -9

    async def main() -> None:
        address = postgres.new_database()
        async with serving(tmp_path / "b", [payer()], address=address) as server, server.client() as client:
            hello: Json = {"message": "Pay."}
            await dies(address, "claim", "/sessions", hello)
            assert (await client.get("/sessions")).json()["sessions"] == []
            assert (await post(client, "/sessions", {"message": "Bye."})).status_code == 409
            begun = (await post(client, "/sessions", hello)).json()
            assert (await post(client, "/sessions", hello)).json() == begun

            request_id = (await waiting(client, begun["runId"]))["requests"][0]["requestId"]
            path, answer = f"/approvals/{request_id}", {"optionId": "approve"}
            await dies(address, "keep", path, answer)
            assert (await post(client, path, {"optionId": "deny"})).status_code == 409
            assert (await post(client, path, answer)).status_code == 202
            await ended(client, begun["runId"])
            assert (await post(client, path, answer, "two")).status_code == 409
            assert (await post(client, path, answer)).status_code == 202

    run(main())
