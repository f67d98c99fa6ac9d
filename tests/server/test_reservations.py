"""Idempotency keys: the same request is the same work, another one is refused."""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import httpx2
import pytest
from tests.server.rig import Json, ended, payer, run, serving, talker, waiting

from windlass.adapters.system import SystemClock, chance, new_id
from windlass.parts import Machine, MemoryStore
from windlass.testing import FakeClock
from windlass_server.reservations import KEY, Reservations
from windlass_server.settings import ANSWER_KEPT_BYTES_MAX, KEYS_KEPT_S

TAKEN = "the Idempotency-Key (or the continuationToken) was used with another request"


async def post(client: httpx2.AsyncClient, path: str, body: Json, key: str = "one") -> httpx2.Response:
    return await client.post(path, json=body, headers={"idempotency-key": key})


def refused(answer: httpx2.Response) -> bool:
    return answer.status_code == 409 and answer.json()["detail"].startswith(TAKEN)


def test_a_key_counts_beside_a_token(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Hello."})).json()
            path = f"/sessions/{begun['sessionId']}/messages"
            first = {"message": "One.", "continuationToken": begun["continuationToken"]}
            made = await post(client, path, first)
            assert made.status_code == 202
            other = {"message": "Two.", "continuationToken": made.json()["continuationToken"]}
            assert refused(await post(client, path, other))
            assert (await post(client, path, first)).json() == made.json()
            # And a token is still for one alone.
            assert (await post(client, path, {**first, "message": "Two."}, "two")).status_code == 409

    run(main())


def test_a_key_is_of_one_kind_of_message(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Hello."})).json()
            path = f"/sessions/{begun['sessionId']}/messages"
            steered = {"message": "Left.", "delivery": "steer"}
            assert (await post(client, path, steered)).status_code == 202
            assert refused(await post(client, path, {"message": "Left."}))
            assert (await post(client, path, {"message": "Left."}, "two")).status_code == 202
            assert refused(await post(client, path, steered, "two"))

    run(main())


def test_of_two_requests_with_one_key_at_once_one_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            for at in range(10):
                both: tuple[Json, Json] = ({"message": "Hello."}, {})
                answers = await asyncio.gather(*(post(client, "/sessions", one, f"k{at}") for one in both))
                assert sorted(one.status_code for one in answers) == [202, 409]

    run(main())


@pytest.mark.parametrize("is_inbox", [True, False])
def test_an_answer_with_a_key_can_be_sent_again(tmp_path: Path, is_inbox: bool) -> None:
    async def main() -> None:
        async with serving(tmp_path, [payer()]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Pay."})).json()
            found = await waiting(client, begun["runId"])
            request_id = found["requests"][0]["requestId"]
            path = f"/approvals/{request_id}" if is_inbox else f"/sessions/{begun['sessionId']}/messages"
            answer: Json = {"optionId": "approve"}
            body = answer if is_inbox else {"responses": [{**answer, "requestId": request_id}]}
            made = await post(client, path, body)
            assert made.status_code == 202
            again = await post(client, path, body)
            assert (again.status_code, again.json()) == (202, made.json())
            await ended(client, begun["runId"])
            assert (await post(client, path, body)).json() == made.json()
            # Another key, or none, is a new request: the answer was already given.
            assert (await post(client, path, body, "two")).status_code == 409
            assert (await client.post(path, json=body)).status_code == 409

    run(main())


def test_the_key_of_a_refused_request_can_be_reused(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            assert (await post(client, "/sessions", {"message": "Hello.", "agent": "no"})).status_code == 422
            assert (await post(client, "/sessions", {"message": "Hello."})).status_code == 202

    run(main())


def test_repeated_bodies_are_compared_as_json_values(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            first: Json = {"message": "Hello.", "metadata": {"a": "1", "b": "2"}}
            made = await post(client, "/sessions", first)
            again = await post(client, "/sessions", {"metadata": {"b": "2", "a": "1"}, "message": "Hello."})
            assert (again.status_code, again.json()) == (202, made.json())
            assert refused(await post(client, "/sessions", {"message": "Hello."}))

    run(main())


def test_a_key_is_kept_for_a_week_and_deleted_afterwards() -> None:
    async def main() -> None:
        store, clock = MemoryStore(), FakeClock()
        table = Reservations(store, clock)
        for number in range(40):
            assert await table.claim(f"old {number}", "digest") is not None
        clock.advance(KEYS_KEPT_S - 1)
        assert await table.claim("old 1", "other") is None
        clock.advance(1)
        for number in range(40):
            assert await table.claim(f"new {number}", "digest") is not None
            assert await table.claim(f"new {number}", "other") is None
        assert {one.name.partition(" ")[0] for one in await store.documents(KEY)} == {"new"}

    run(main())


class TurnedClock(SystemClock):
    """The clock of a machine, which can be set back."""

    def __init__(self) -> None:
        self.back = timedelta()

    def now(self) -> datetime:
        """Return the wall-clock time."""
        return super().now() - self.back


def test_a_new_key_cancels_a_run_that_began_by_a_later_clock(tmp_path: Path) -> None:
    async def main() -> None:
        clock = TurnedClock()
        machine = Machine(clock, new_id, chance)
        async with serving(tmp_path, [payer()], machine=machine) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Pay."})).json()
            await waiting(client, begun["runId"])
            clock.back = timedelta(seconds=2)
            path = f"/sessions/{begun['sessionId']}/cancel"
            cancelled = await post(client, path, {})
            assert cancelled.json().get("runId") == begun["runId"]
            assert (await ended(client, begun["runId"]))["run"]["status"] == "cancelled"
            assert (await post(client, path, {})).json() == cancelled.json()

    run(main())


def test_an_answer_is_kept_if_it_fits_as_json_and_accepted_if_not(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            await client.post("/datasets", json={"name": "quotes"})
            for count in (1_000, ANSWER_KEPT_BYTES_MAX // 2 - 36):
                case: Json = {"name": f"c{count}", "inputs": '"' * count}
                answers = [await post(client, "/datasets/quotes/cases", case, f"k{count}") for _ in range(2)]
                assert [answer.status_code for answer in answers] == [200, 200], answers[0].text
                assert answers[0].json() == answers[1].json()

    run(main())


def test_a_key_is_bound_to_the_headers_that_its_operation_declares(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [payer(), talker()]) as server, server.client() as client:
            path, body = str(client.base_url.copy_with(path="/eve/v1/session")), {"message": "Hello."}
            answers = [
                await client.post(path, json=body, headers={"idempotency-key": "one", "windlass-agent": name})
                for name in ("talker", "payer", "talker")
            ]
            assert [answer.status_code for answer in answers] == [202, 409, 202], answers[1].text
            assert answers[0].json() == answers[2].json()

    run(main())
