"""The id and the trace of a request: in its answer, its problem, the log, and the runs that it starts."""

import json
import re
from pathlib import Path

import httpx2
import pytest
from starlette.types import Receive, Scope, Send
from tests.server.keyring import Keyring
from tests.server.rig import FAST, Json, run, serving, talker
from tests.server.test_log import TRACE

from windlass.testing import FakeClock
from windlass_server import Settings, Tenants
from windlass_server.auth import Doorman
from windlass_server.guard import Guard, Metrics

TRACED = {"traceparent": TRACE, "tracestate": "vendor=1"}


def test_each_answer_has_an_id_of_its_own_or_that_of_its_request(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            paths = ("/agents", "/health", "/nothing", "/runs/r/events", "/../webhooks/none")
            answers = [await client.get(path) for path in (*paths, *paths)]
            ids = {answer.headers["x-request-id"] for answer in answers}
            assert len(ids) == len(answers)
            assert all(re.fullmatch(r"[0-9a-f]{32,}", name) for name in ids)
            assert not any("traceparent" in answer.headers for answer in answers)
            for path in paths:
                answer = await client.get(path, headers={"x-request-id": "proxy/7", **TRACED})
                assert answer.headers.get_list("x-request-id") == ["proxy/7"], path
                assert answer.headers["traceparent"] == TRACE
            for wrong in ("", "two words", "x" * 129):
                headers = {"x-request-id": wrong, "traceparent": "00-00-00-00"}
                answer = await client.get("/agents", headers=headers)
                assert answer.headers["x-request-id"] not in (wrong, "")
                assert "traceparent" not in answer.headers

    run(main())


def test_a_problem_names_its_request(tmp_path: Path) -> None:
    keys = Keyring(tmp_path / "keys.json")
    key = keys.add("ann", "acme", "ann")

    async def main() -> None:
        async with (
            serving(tmp_path / "data", settings=Settings(keys=keys.path, limits=FAST)) as server,
            server.client(key) as client,
            server.client("wrong") as stranger,
        ):
            for problem in (
                await client.get("/runs/r"),
                await client.post("/sessions", json={"message": 5}),
                await client.post("/../eve/v1/session", json={"message": 5}),
                await stranger.get("/runs/r"),
            ):
                assert problem.status_code >= 400
                request_id = problem.headers["x-request-id"]
                assert problem.json()["instance"] == f"urn:windlass:request:{request_id}"

    run(main())


def test_the_traceback_of_an_unexpected_error_names_its_request(tmp_path: Path) -> None:
    clock, settings = FakeClock(), Settings()

    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("a bug")

    guard = Guard(
        fail,
        settings.limits,
        doorman=Doorman(settings, clock),
        tenants=Tenants(tmp_path, [talker()]),
        clock=clock,
        metrics=Metrics(),
    )

    async def main() -> None:
        transport = httpx2.ASGITransport(guard)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            await client.get("/page", headers={"x-request-id": "r-1"})

    with pytest.raises(ValueError, match="a bug") as failure:
        run(main())
    assert failure.value.__notes__ == ["x-request-id: r-1"]


async def started(client: httpx2.AsyncClient, headers: dict[str, str], metadata: Json | None = None) -> Json:
    """The data of the run that a message of this request starts."""
    body: Json = {"message": "Hello.", **({} if metadata is None else {"metadata": metadata})}
    begun = (await client.post("/sessions", json=body, headers=headers)).json()
    feed = await client.get(f"/runs/{begun['runId']}/events", params={"format": "ndjson"})
    [event] = [event for event in map(json.loads, feed.text.splitlines()) if event["type"] == "run.started"]
    return event["data"]


def test_a_run_is_in_the_trace_of_the_request_that_starts_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            assert (await started(client, TRACED))["metadata"] == TRACED
            mine = {"traceparent": TRACE.replace("0af7", "1af7"), "order": "7"}
            assert (await started(client, TRACED, mine))["metadata"] == mine
            assert (await started(client, TRACED, {"order": "7"}))["metadata"] == {**TRACED, "order": "7"}
            assert "metadata" not in await started(client, {"traceparent": "00-00-00-00"})

    run(main())


def test_a_request_is_the_same_in_another_trace(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            key = {"idempotency-key": "k1"}
            first = await client.post("/sessions", json={"message": "Hello."}, headers={**TRACED, **key})
            again = await client.post("/sessions", json={"message": "Hello."}, headers=key)
            assert (first.status_code, again.json()) == (202, first.json())

    run(main())
