"""JSON of clients that is stored: one limit of levels at every route, so that every record can be sent."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx2
import pytest
from tests.nesting import nested
from tests.server.rig import payer, run, serving, talker
from tests.server.waiting import until

from windlass_protocol.limits import FREE_LEVELS_MAX

Door = Callable[[httpx2.AsyncClient, int], Awaitable[httpx2.Response]]


async def new_session(client: httpx2.AsyncClient, levels: int) -> httpx2.Response:
    return await client.post("/sessions", json={"agent": "talker", "stageData": nested(levels)})


async def changed_session(client: httpx2.AsyncClient, levels: int) -> httpx2.Response:
    begun = (await client.post("/sessions", json={"agent": "talker", "message": "Hello."})).json()
    return await client.post(
        f"/sessions/{begun['sessionId']}/agent-session", json={"stageData": nested(levels)}
    )


async def new_run(client: httpx2.AsyncClient, levels: int) -> httpx2.Response:
    body = {"agent": "talker", "message": "Hello.", "metadata": nested(levels)}
    return await client.post("/sessions", json=body)


async def message(client: httpx2.AsyncClient, levels: int) -> httpx2.Response:
    part = {"type": "text", "text": "Hello.", "later": nested(levels - 2)}
    return await client.post("/sessions", json={"agent": "talker", "message": [part]})


async def schema(client: httpx2.AsyncClient, levels: int) -> httpx2.Response:
    body = {"agent": "talker", "message": "Hello.", "outputSchema": {"const": nested(levels - 1)}}
    return await client.post("/sessions", json=body)


async def answer(client: httpx2.AsyncClient, levels: int) -> httpx2.Response:
    begun = (await client.post("/sessions", json={"agent": "payer", "message": "Pay."})).json()
    requests: list[str] = []

    async def is_asked() -> bool:
        run = (await client.get(f"/runs/{begun['runId']}")).json()
        requests[:] = [request["requestId"] for request in run["requests"]]
        return bool(requests)

    await until(is_asked)
    response = {"requestId": requests[0], "optionId": "deny", "later": nested(levels)}
    path = f"/sessions/{begun['sessionId']}/messages"
    return await client.post(path, json={"responses": [response]})


async def dataset_case(client: httpx2.AsyncClient, levels: int) -> httpx2.Response:
    await client.post("/datasets", json={"name": "prices"})
    body = {"name": f"case {levels}", "inputs": nested(levels), "metadata": nested(levels)}
    return await client.post("/datasets/prices/cases", json=body)


DOORS: list[Door] = [new_session, changed_session, new_run, message, schema, answer, dataset_case]


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_json_of_clients_has_one_limit_of_levels(tmp_path: Path, door: Door) -> None:
    async def main() -> None:
        async with serving(tmp_path, [talker(), payer()]) as server, server.client() as client:
            refused = await door(client, FREE_LEVELS_MAX + 1)
            assert refused.status_code == 400, refused.text
            words = f"message too deep: {FREE_LEVELS_MAX + 1} levels, limit {FREE_LEVELS_MAX}"
            assert words in refused.json()["detail"]
            taken = await door(client, FREE_LEVELS_MAX)
            assert taken.status_code < 300, taken.text
            feed = await client.get("/events", params={"follow": "false", "format": "ndjson"})
            types = [json.loads(line)["type"] for line in feed.text.splitlines()]
            assert "event.unsent" not in types

    run(main())
