"""Errors are problem+json with a stable code."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.server.rig import FAST, Server, run, serving, talker

from windlass import Agent, Ambiguous, Conflict, Corrupt, Denied, Rejected, Unavailable
from windlass.limits import INBOX_ITEM_BYTES_MAX
from windlass.ports.feed import CursorExpired
from windlass.testing import ScriptedModel
from windlass_protocol import CausalIds, ErrorKind, RetryClass
from windlass_server import Settings
from windlass_server.problems import PROBLEM_TYPE, of_agent_error

JSON = {"content-type": "application/json"}
WRONG: dict[str, tuple[str, str, dict[str, Any], int, str]] = {
    "unknown route": ("GET", "/nothing", {}, 404, "not_found"),
    "unknown session": ("POST", "/sessions/x/messages", {"json": {"message": "a"}}, 404, "not_found"),
    "unknown run": ("GET", "/runs/x", {}, 404, "not_found"),
    "an id with a control character": ("GET", "/runs/%00", {}, 404, "not_found"),
    "an id that is too long": ("GET", f"/runs/{'x' * 600}", {}, 404, "not_found"),
    "an id that is not unicode": ("GET", "/runs/%ff%fe", {}, 404, "not_found"),
    "method": ("PUT", "/sessions", {}, 405, "method_not_allowed"),
    "not json": ("POST", "/sessions", {"content": b"{", "headers": JSON}, 400, "rejected"),
    "no body": ("POST", "/sessions", {}, 422, "rejected"),
    "twice the same name": (
        "POST",
        "/sessions",
        {"content": b'{"mode":"task","mode":"task"}', "headers": JSON},
        400,
        "rejected",
    ),
    "not a number": (
        "POST",
        "/sessions",
        {"content": b'{"metadata":{"a":NaN}}', "headers": JSON},
        400,
        "rejected",
    ),
    "half a character": (
        "POST",
        "/sessions",
        {"content": b'{"message":"\\ud800"}', "headers": JSON},
        400,
        "rejected",
    ),
    "bytes that are no text": ("POST", "/sessions", {"content": b'"\xff"', "headers": JSON}, 400, "rejected"),
    "a deep body": ("POST", "/sessions", {"content": b"[" * 5000, "headers": JSON}, 400, "rejected"),
    "a long number": (
        "POST",
        "/sessions",
        {"content": b'{"metadata":{"a":' + b"9" * 5000 + b"}}", "headers": JSON},
        400,
        "rejected",
    ),
    "another kind of body": (
        "POST",
        "/sessions",
        {"content": b"a=1", "headers": {"content-type": "text/plain"}},
        415,
        "unsupported",
    ),
    "an unknown field": ("POST", "/sessions", {"json": {"massage": "a"}}, 422, "rejected"),
    "the name of python": ("POST", "/sessions", {"json": {"output_schema": {}}}, 422, "rejected"),
    "a wrong type": ("POST", "/sessions", {"json": {"message": 7}}, 422, "rejected"),
    "a wrong key": (
        "POST",
        "/sessions",
        {"json": {}, "headers": {"idempotency-key": "a b"}},
        422,
        "rejected",
    ),
    "a wrong query": ("GET", "/events?follow=perhaps", {}, 422, "rejected"),
    "a repeated query": ("GET", "/events?follow=false&follow=true", {}, 422, "rejected"),
    "an unknown query": ("GET", "/events?folow=false", {}, 422, "rejected"),
    "a schema that is none": (
        "POST",
        "/sessions",
        {"json": {"message": "a", "outputSchema": {"type": "nonsense"}}},
        400,
        "rejected",
    ),
}


def check(answer: Any, status: int, code: str) -> None:
    assert answer.headers["content-type"] == PROBLEM_TYPE
    body = answer.json()
    assert (answer.status_code, body["status"], body["code"]) == (status, status, code)
    assert body.keys() - {"issues"} == {"type", "title", "status", "detail", "code", "ids", "instance"}
    assert body["type"] == f"urn:windlass:problem:{code}"
    assert body["title"]
    assert body["detail"]


@pytest.mark.parametrize("name", WRONG)
def test_an_invalid_request_gets_a_problem_with_status_and_code(tmp_path: Path, name: str) -> None:
    async def main() -> None:
        method, path, given, status, code = WRONG[name]
        async with serving(tmp_path) as server, server.client() as client:
            check(await client.request(method, path, **given), status, code)

    run(main())


def test_an_internal_error_reveals_no_details(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server:

            async def broken() -> None:
                raise RuntimeError("secret-inside")

            server.app.add_api_route("/v1/broken", broken)
            async with server.client() as client:
                answer = await client.get("/broken")
                check(answer, 500, "internal")
                assert "secret-inside" not in answer.text

    run(main())


def test_the_values_of_a_refused_body_are_not_quoted(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            answer = await client.post(
                "/sessions", json={"message": {"secret": "hunter2"}, "mode": "hunter2"}
            )
            check(answer, 422, "rejected")
            assert "hunter2" not in answer.text
            assert {issue["path"].split("/")[1] for issue in answer.json()["issues"]} == {"message", "mode"}

    run(main())


@pytest.mark.parametrize(
    ("kind", "status"),
    [(Rejected, 400), (Denied, 403), (Conflict, 409), (Unavailable, 503), (Ambiguous, 504), (Corrupt, 500)],
)
def test_each_class_of_errors_has_its_status_and_its_code(kind: Any, status: int) -> None:
    ids = CausalIds(run_id="r1")
    error = kind(
        "words", kind=ErrorKind.TIMEOUT, retry=RetryClass.RETRYABLE, causal_ids=ids, retry_after_ms=2500
    )
    problem = of_agent_error(error)
    answer = problem.response()
    assert (answer.status_code, problem.named_code) == (status, kind.code.value)
    assert json.loads(problem.body())["ids"] == {"runId": "r1"}
    assert answer.headers.get("retry-after") == ("3" if kind is Unavailable else None)


def test_an_error_that_waiting_cannot_mend_names_no_time_to_wait() -> None:
    error = Unavailable(
        "no key",
        kind=ErrorKind.PROVIDER_FAILURE,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
        retry_after_ms=5,
    )
    answer = of_agent_error(error).response()
    assert (answer.status_code, answer.headers.get("retry-after")) == (503, None)


def test_an_expired_cursor_is_gone() -> None:
    problem = of_agent_error(CursorExpired("no longer kept"))
    assert (problem.status, problem.named_code) == (410, "cursor_expired")


def test_a_start_with_an_unknown_model_is_unavailable(tmp_path: Path) -> None:
    async def main() -> None:
        agent = Agent("lost", model="nobody/nothing")
        async with serving(tmp_path, [agent]) as server, server.client() as client:
            answer = await client.post("/sessions", json={"message": "Hello."})
            check(answer, 503, "unavailable")
            # Waiting does not mend it: an operator must add the provider.
            assert "retry-after" not in answer.headers

    run(main())


def test_a_start_that_the_host_policy_denies_is_forbidden(tmp_path: Path) -> None:
    async def main() -> None:
        async def deny(*_: object, **__: object) -> Any:
            raise PermissionError

        agent = Agent("shy", model=ScriptedModel([]))
        async with serving(tmp_path, [agent], start_policy=deny) as server, server.client() as client:
            check(await client.post("/sessions", json={"message": "Hello."}), 403, "denied")

    run(main())


def origin_headers(server: Server) -> dict[str, str]:
    return {"origin": "https://app.example.com", "access-control-request-method": "GET"}


def test_cors_headers_are_sent_to_configured_origins_only(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            answer = await client.options("/agents", headers=origin_headers(server))
            assert "access-control-allow-origin" not in answer.headers
            plain = await client.get("/agents", headers=origin_headers(server))
            assert "access-control-allow-origin" not in plain.headers
        named = Settings(cors_origins=("https://app.example.com",), limits=FAST)
        async with serving(tmp_path, settings=named) as server, server.client() as client:
            answer = await client.options("/agents", headers=origin_headers(server))
            assert answer.headers["access-control-allow-origin"] == "https://app.example.com"
            other = await client.get("/agents", headers={"origin": "https://evil.example.com"})
            assert "access-control-allow-origin" not in other.headers

    run(main())


@pytest.mark.parametrize("host", ["evil.example.com", "evil.example.com:80", "127.0.0.1.evil.example", ""])
def test_without_authentication_a_foreign_host_header_is_refused(tmp_path: Path, host: str) -> None:
    async def main() -> None:
        async with serving(tmp_path, [talker()]) as server, server.client() as client:
            check(await client.get("/agents", headers={"host": host}), 403, "denied")
            for fine in ("localhost", f"localhost:{server.port}", "[::1]:80", "127.0.0.1"):
                assert (await client.get("/agents", headers={"host": fine})).status_code == 200

    run(main())


@pytest.mark.parametrize(
    ("method", "path", "body", "words"),
    [
        ("POST", "/sessions", {"message": 5}, "body/message: expected a string, found a number"),
        (
            "POST",
            "/sessions",
            {"mesage": "a"},
            "body/mesage: expected no field of this name, found a string; did you mean message?",
        ),
        (
            "POST",
            "/sessions",
            {"message": [{"type": "text"}]},
            "body/message/0/text: expected this field, found",
        ),
        ("POST", "/sessions", {"message": None}, "body/message: expected a string, found null"),
        ("POST", "/sessions", {"message": "a", "agent": None}, "body/agent: expected an identifier"),
        (
            "POST",
            "/sessions",
            {"message": "a", "budget": {"maxCost": 5}},
            "body/budget/maxCost: expected no field of this name, found a number; did you mean maxCostMicros",
        ),
        ("POST", "/sessions", [], "body: expected an object, found an array"),
        ("POST", "/schedules", None, "body: expected an object, found no body"),
        ("POST", "/schedules", {}, "expected this field, found none"),
        ("GET", "/runs?limit=x", None, "query/limit: expected an integer, found a string"),
        (
            "GET",
            "/runs?limt=1",
            None,
            "query/limt: expected no field of this name, found a string; did you mean limit?",
        ),
        ("GET", "/runs?limit=1&limit=2", None, "query/limit: expected one value, found several"),
        ("GET", "/run", None, "there is no such route; GET /v1/openapi.json has all"),
        ("DELETE", "/runs", None, "this route does not take this method; it takes GET"),
    ],
)
def test_a_request_that_does_not_fit_says_what_was_expected_and_found(
    tmp_path: Path, method: str, path: str, body: object, words: str
) -> None:
    async def main() -> None:
        async with serving(tmp_path, [talker()]) as server, server.client() as client:
            detail = (await client.request(method, path, json=body)).json()["detail"]
            assert words in detail

    run(main())


def test_a_message_that_the_store_cannot_hold_is_too_large(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [talker()]) as server, server.client() as client:
            refused = await client.post("/sessions", json={"message": "x" * (INBOX_ITEM_BYTES_MAX + 1)})
            check(refused, 413, "too_large")
            assert "message with its options too large: 1,04" in refused.json()["detail"]
            created = (await client.post("/sessions", json={"message": "hi"})).json()
            path, steer = f"/sessions/{created['sessionId']}/messages", "x" * (INBOX_ITEM_BYTES_MAX + 1)
            check(await client.post(path, json={"message": steer, "delivery": "steer"}), 413, "too_large")

    run(main())


def test_a_problem_says_where_a_body_is_wrong_and_which_key_was_used(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            wrong = (await client.post("/sessions", json={"message": 5})).json()
            assert "body/message" in wrong["detail"]
            assert not any("[" in issue["path"] for issue in wrong["issues"]), "names of types are ours"
            key = {"idempotency-key": "one"}
            assert (await client.post("/sessions", json={"message": "a"}, headers=key)).status_code == 202
            again = await client.post("/sessions", json={"message": "b"}, headers=key)
            assert again.status_code == 409
            assert again.json()["detail"].startswith(
                "the Idempotency-Key (or the continuationToken) was used"
            )

    run(main())
