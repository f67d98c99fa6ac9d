"""T1: every route and method, called without access.

The routes are those of the router: a new one fails here until `IDS` has its path parameters.
"""

import json
import os
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, get_args

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from tests.server.keyring import Keyring
from tests.server.rig import FAST, Json, Server, ended, payer, run, serving, waiting

from tools.files import ROOT
from windlass.adapters.loop_watch import COUNTS
from windlass.evals import Case, Dataset, Datasets, Experiment
from windlass.parts import loop_stalls
from windlass.ports.documents import Document
from windlass.ports.machine import Stall
from windlass.webhooks import DELIVERY
from windlass_server import Settings
from windlass_server.guard import PUBLIC
from windlass_server.models import Who
from windlass_server.requests import EVE_PREFIX, PREFIX, PREFIXES
from windlass_server.routing import operation_of

CANARY = "canary-7f3a"
"""A text of Ann that no other caller may see."""
NOBODY = "019a" + "0" * 40
BODIES = {
    "/sessions": {"message": "Hello."},
    "/sessions/{session_id:path}/messages": {"message": "Hello."},
    "/runs/{run_id:path}/cancel": {},
    "/approvals/{request_id:path}": {"optionId": "approve"},
    "/sessions/{session_id:path}/fork": {},
    "/sessions/{session_id:path}/agent-session": {"currentStage": "PAYING"},
    "/agui/{agent:path}": {
        "threadId": "{session_id}",
        "runId": "run",
        "resume": [{"interruptId": "{request_id}", "status": "resolved", "payload": {"approved": True}}],
    },
    "/ai/{agent:path}/chat": {
        "id": "{session_id}",
        "messages": [
            {
                "role": "user",
                "parts": [
                    {"type": "data-answer", "data": {"requestId": "{request_id}", "optionId": "approve"}}
                ],
            }
        ],
    },
    f"{EVE_PREFIX}/session": {"message": "Hello."},
    f"{EVE_PREFIX}/session/{{session_id:path}}": {
        "continuationToken": "{session_id}",
        "inputResponses": [{"requestId": "{request_id}", "optionId": "approve"}],
    },
}
NOTHING = {"/ai/{agent:path}/chat/{chat_id:path}/stream": 204, "/ai/{agent:path}/chat/{chat_id:path}": 200}
"""Routes that answer otherwise than with 404 when something is not there."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Ann has a waiting session; the other callers have no access to it."""

    server: Server
    keys: Keyring
    holders: dict[str, str]
    ids: dict[str, str]


@asynccontextmanager
async def scene(folder: Path) -> AsyncGenerator[Scene]:
    keys = Keyring(folder / "keys.json")
    past = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    holders = {
        "ann": keys.add("ann", "acme", "ann"),
        "other user": keys.add("bob", "acme", "bob"),
        "other tenant": keys.add("eve", "evil", "ann"),
        "approver": keys.add("boss", "acme", "boss", roles=["approver"]),
        "expired": keys.add("old", "acme", "ann", expiresAt=past),
        "revoked": keys.add("gone", "acme", "ann", revoked=True),
    }
    holders["wrong"] = holders["ann"][:-1] + ("0" if holders["ann"][-1] != "0" else "1")
    settings = Settings(keys=keys.path, limits=FAST)
    async with serving(folder / "data", [payer()], settings=settings) as server:
        async with server.client(holders["ann"]) as ann:
            begun = (await ann.post("/sessions", json={"message": f"Pay {CANARY}."})).json()
            found = await waiting(ann, begun["runId"])
            schedule = {"name": CANARY, "agent": "payer", "message": "Pay.", "at": "2999-01-01T00:00:00"}
            assert (await ann.post("/schedules", json=schedule)).status_code == 200
        body: Json = {"target": "ops", "sessionId": begun["sessionId"], "owner": "ann", "attempts": 1}
        async with server.tenants.use("acme") as tenant:
            cases = Dataset("cases", [Case(CANARY, f"Pay {CANARY}.", run_id=begun["runId"])])
            kept = Experiment(cases.tagged("none"), "payer", experiment_id=CANARY, owner="ann")
            await kept.run(tenant.runtime)
            await Datasets(tenant.runtime, owner="ann").save(replace(cases, name=CANARY))
            await tenant.store.put_document(Document(DELIVERY, CANARY, 1, {**body, "createdMs": 0}))
        ids = {
            "session_id": begun["sessionId"],
            "run_id": begun["runId"],
            "request_id": found["requests"][0]["requestId"],
            "proposal_id": "proposal-1",
            "chat_id": begun["sessionId"],
            "schedule_id": CANARY,
            "experiment_id": CANARY,
            "dataset_id": CANARY,
            "delivery_id": CANARY,
        }
        yield Scene(server, keys, holders, ids)


def routes(app: FastAPI) -> list[tuple[str, str]]:
    """Every route with each of its methods, except the public ones."""
    found = [
        (method, route.path)
        for route in app.routes
        if isinstance(route, APIRoute)
        for method in sorted(route.methods or ())
        if route.path not in PUBLIC
    ]
    assert len(found) >= 10
    return found


def target(path: str, ids: dict[str, str]) -> str:
    """The path of a route with ids in it."""
    filled = path.replace("{agent:path}", "payer")
    filled = (
        filled.replace("{step_index}", "0")
        .replace("{limit_name}", CANARY)
        .replace("{content_hash}", f"sha256:{'0' * 64}")
    )
    for name, value in ids.items():
        filled = filled.replace(f"{{{name}:path}}", value)
    assert "{" not in filled, f"{path}: say in the scene what is in its place"
    return filled


async def ask(
    client: httpx2.AsyncClient,
    method: str,
    path: str,
    *,
    ids: dict[str, str],
    query: dict[str, str] | None = None,
) -> httpx2.Response:
    """Ask once; a stream would be one that ends."""
    address = client.base_url.copy_with(path=target(path, ids))
    text = json.dumps(BODIES.get(path.removeprefix(PREFIX)))
    for name, value in ids.items():
        text = text.replace(f"{{{name}}}", value)
    body = json.loads(text)
    is_feed = path.endswith(("/events", "/stream")) and not path.startswith(f"{PREFIX}/ai/")
    params = {"follow": "false"} if is_feed else query or {}
    return await client.request(method, address, json=body, params=params, headers=SAME)


SAME = {"x-request-id": "same"}
"""The id of every request: answers are compared."""


def seen(answer: httpx2.Response) -> tuple[int, str, tuple[tuple[str, str], ...]]:
    """Status, body and headers of an answer, without its date."""
    headers = [(name, value) for name, value in answer.headers.items() if name != "date"]
    return answer.status_code, answer.text, tuple(sorted(headers))


@pytest.mark.promise("T1")
@pytest.mark.parametrize("who", ["none", "wrong", "expired", "revoked", "basic", "empty"])
def test_an_unauthenticated_caller_gets_the_same_answer_on_every_route(tmp_path: Path, who: str) -> None:
    async def main() -> None:
        async with scene(tmp_path) as at:
            headers = {
                "none": {},
                "basic": {"authorization": f"Basic {at.holders['ann']}"},
                "empty": {"authorization": "Bearer"},
            }.get(who, {"authorization": f"Bearer {at.holders.get(who, '')}"})
            answers = {prefix: set[tuple[int, str, tuple[tuple[str, str], ...]]]() for prefix in PREFIXES}
            async with at.server.client() as client:
                client.headers.update(headers)
                unknown = [("GET", f"{prefix}no/such/route") for prefix in PREFIXES]
                for method, path in [*routes(at.server.app), *unknown]:
                    [same] = [found for prefix, found in answers.items() if path.startswith(prefix)]
                    for ids in (at.ids, dict.fromkeys(at.ids, NOBODY)):
                        same.add(seen(await ask(client, method, path, ids=ids)))
            for [(status, text, shown)] in answers.values():
                assert status == 401
                assert json.loads(text)["code"] == "unauthenticated"
                assert ("www-authenticate", 'Bearer realm="windlass"') in shown

    run(main())


@pytest.mark.promise("T1")
@pytest.mark.parametrize("who", ["other user", "other tenant", "approver"])
def test_a_resource_of_another_user_answers_like_a_missing_one(tmp_path: Path, who: str) -> None:
    async def main() -> None:
        async with scene(tmp_path) as at, at.server.client(at.holders[who]) as client:
            checked = 0
            for method, path in routes(at.server.app):
                if who == "approver" and "/approvals" in path:
                    continue  # allowed for approvers
                if "{" not in path:
                    answer = await ask(client, method, path, ids={})
                    assert CANARY not in answer.text
                    assert not any(one in answer.text for one in at.ids.values()), path
                    continue
                theirs = seen(await ask(client, method, path, ids=at.ids))
                guessed = seen(await ask(client, method, path, ids=dict.fromkeys(at.ids, NOBODY)))
                assert theirs == guessed, f"{method} {path}"
                expected = NOTHING.get(path.removeprefix(PREFIX), 404)
                assert theirs[0] == expected, f"{method} {path}: {theirs}"
                assert expected != 404 or json.loads(theirs[1])["code"] == "not_found"
                checked += 1
            assert checked >= 6
            # And nothing of all that has done anything.
            async with at.server.client(at.holders["ann"]) as ann:
                found = (await ann.get(f"/runs/{at.ids['run_id']}")).json()
                assert found["run"]["status"] == "waiting"
                assert [one["requestId"] for one in found["requests"]] == [at.ids["request_id"]]

    run(main())


IN_BODIES: dict[str, tuple[str, Json]] = {
    "an approval of a request": (
        "/sessions/{own}/messages",
        {"responses": [{"requestId": "{request_id}", "optionId": "approve"}]},
    ),
    "a denial of a request": (
        "/sessions/{own}/messages",
        {"responses": [{"requestId": "{request_id}", "optionId": "deny"}]},
    ),
    "a text for a request": (
        "/sessions/{own}/messages",
        {"responses": [{"requestId": "{request_id}", "text": "Yes."}]},
    ),
    "an answer of eve": (
        f"{EVE_PREFIX}/session/{{own}}",
        {
            "continuationToken": "{token}",
            "inputResponses": [{"requestId": "{request_id}", "optionId": "approve"}],
        },
    ),
    "a request of a chat": (
        "/agui/payer",
        {
            "threadId": "{own}",
            "runId": "run",
            "resume": [{"interruptId": "{request_id}", "status": "resolved", "payload": True}],
        },
    ),
    "the answer of a chat": (
        "/ai/payer/chat",
        {
            "id": "{own}",
            "messages": [
                {
                    "role": "user",
                    "parts": [{"type": "data-answer", "data": {"requestId": "{request_id}", "text": "Yes."}}],
                }
            ],
        },
    ),
    "the session of a schedule": (
        "/schedules",
        {
            "name": "mine",
            "agent": "payer",
            "message": "x",
            "at": "2999-01-01T00:00:00",
            "sessionId": "{session_id}",
        },
    ),
    "the name of a schedule": (
        "/schedules",
        {"name": "{schedule_id}", "agent": "payer", "message": "x", "at": "2999-01-01T00:00:00"},
    ),
    "the name of a data set": ("/datasets", {"name": "{dataset_id}"}),
    "the run of a case": ("/datasets/own/cases", {"runId": "{run_id}"}),
    "the token of a session": (
        "/sessions/{own}/messages",
        {"message": "Hello.", "continuationToken": "{session_id}"},
    ),
}
"""Requests of another user with ids of Ann in their bodies; `own` is a session of the other user."""


@pytest.mark.promise("T1")
@pytest.mark.parametrize("what", IN_BODIES)
@pytest.mark.parametrize("is_settled", [False, True])
def test_an_id_of_another_user_in_a_body_answers_like_an_unknown_one(
    tmp_path: Path, what: str, is_settled: bool
) -> None:
    path, body = IN_BODIES[what]

    async def main() -> None:
        async with scene(tmp_path) as at, at.server.client(at.holders["other user"]) as client:
            if is_settled:
                async with at.server.client(at.holders["ann"]) as ann:
                    answer = {"optionId": "deny"}
                    settled = await ann.post(f"/approvals/{at.ids['request_id']}", json=answer)
                    assert settled.status_code == 202
                    await ended(ann, at.ids["run_id"])
            assert (await client.post("/datasets", json={"name": "own"})).status_code == 200
            begun = (await client.post("/sessions", json={"message": "Pay."})).json()
            await waiting(client, begun["runId"])
            unknown = {name: f"{value[:-4]}0000" for name, value in at.ids.items()}

            async def send(ids: dict[str, str]) -> tuple[int, str]:
                own = begun["sessionId"]
                text = json.dumps(body).replace("{own}", own).replace("{token}", begun["continuationToken"])
                for name, value in ids.items():
                    text = text.replace(f"{{{name}}}", value)
                address = path if path.startswith(EVE_PREFIX) else f"{PREFIX}{path}"
                url = client.base_url.copy_with(path=address.replace("{own}", own))
                made = await client.post(url, json=json.loads(text), headers=SAME)
                shown = made.text
                for name in sorted(ids, key=lambda name: -len(ids[name])):
                    shown = shown.replace(ids[name], name)
                return made.status_code, shown

            theirs, guessed = await send(at.ids), await send(unknown)
            assert theirs[0] == guessed[0] != 500, (theirs, guessed)
            assert _timeless(theirs[1]) == _timeless(guessed[1])
            async with at.server.client(at.holders["ann"]) as ann:
                requests = (await ann.get(f"/runs/{at.ids['run_id']}")).json()["requests"]
                assert len(requests) == (0 if is_settled else 1), "nothing of all that has done anything"

    run(main())


def test_a_session_with_an_agent_session_and_no_message_belongs_to_its_caller(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            scene(tmp_path) as at,
            at.server.client(at.holders["ann"]) as ann,
            at.server.client(at.holders["other user"]) as stranger,
        ):
            created = (await ann.post("/sessions", json={"chatId": "trip"})).json()
            path = f"/sessions/{created['sessionId']}/agent-session"
            assert (await ann.get(path)).json()["userId"] == "ann"
            assert (await stranger.get(path)).status_code == 404
            assert (await stranger.post(path, json={"currentStage": "B"})).status_code == 404
            listed = (await stranger.get("/agent-sessions", params={"chatId": "trip"})).json()
            assert listed == {"sessions": []}

    run(main())


def _timeless(text: str) -> str:
    """Return a body without its times."""
    return re.sub(r"20\d\d-\d\d-\d\dT[\d:.]+Z", "TIME", text)


SHARED = {"/agents", "/tools"}
"""Lists that are the same for all callers."""
FOR_ROLES = {"/proposals", "/metrics"}
"""Lists that only a role opens; without it there is no such route."""


@pytest.mark.promise("T1")
@pytest.mark.parametrize("who", ["other user", "approver"])
def test_every_list_shows_a_stranger_the_same_as_a_tenant_in_which_nothing_happened(
    tmp_path: Path, who: str
) -> None:
    async def main() -> None:
        async with scene(tmp_path) as at:
            fresh = at.keys.add("new", "fresh", "ann")
            operator = at.keys.add("ops", "acme", "ops", operator=True)
            async with at.server.client(operator) as client:
                limit: Json = {"name": CANARY, "per": "day", "maxTokens": 1_000_000, "owner": "ann"}
                assert (await client.post("/limits", json=limit)).status_code == 200
            async with (
                at.server.client(at.holders["ann"]) as ann,
                at.server.client(at.holders[who]) as stranger,
                at.server.client(fresh) as newcomer,
            ):
                begun = (await ann.post("/sessions", json={"message": "leave it"})).json()
                await ended(ann, begun["runId"])
                refused: Json = {"message": "leave it", "outputSchema": {"type": "no such type"}}
                assert (await ann.post("/sessions", json=refused)).status_code == 400
                made = (await ann.get("/versions", params={"agent": "payer"})).json()["versions"]
                fingerprint = made[0]["tally"]["fingerprint"]
                day = datetime.now(UTC).date()
                queries = {
                    "/stats": {
                        "since": f"{day - timedelta(1)}T00:00:00Z",
                        "until": f"{day + timedelta(2)}T00:00:00Z",
                    },
                    "/versions": {"agent": "payer"},
                    "/compare": {"agent": "payer", "old": fingerprint, "new": fingerprint},
                }
                lists = [
                    path for method, path in routes(at.server.app) if method == "GET" and "{" not in path
                ]
                assert len(lists) >= 10
                for path in lists:
                    name = path.removeprefix(PREFIX)
                    if who == "approver" and name == "/approvals":
                        continue  # allowed for approvers
                    query = queries.get(name, {})
                    own = await ask(ann, "GET", path, ids={}, query=query)
                    theirs = await ask(stranger, "GET", path, ids={}, query=query)
                    empty = await ask(newcomer, "GET", path, ids={}, query=query)
                    assert (theirs.status_code, theirs.text) == (empty.status_code, empty.text), name
                    if name in FOR_ROLES:
                        assert own.status_code == 404
                    else:
                        # A list that shows its owner nothing would prove nothing of strangers.
                        assert own.status_code == 200
                        assert (own.text == empty.text) == (name in SHARED), f"{name}: {own.text}"

    run(main())


@pytest.mark.promise("T1")
def test_two_tenants_with_the_same_names_and_keys_share_no_byte(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as at:
            headers = {"idempotency-key": "same"}
            begun: list[dict[str, str]] = []
            for who in ("ann", "other user", "other tenant"):
                async with at.server.client(at.holders[who]) as client:
                    body = {"message": f"leave {who}"}
                    answer = await client.post("/sessions", json=body, headers=headers)
                    assert answer.status_code == 202
                    begun.append(answer.json())
            assert len({one["sessionId"] for one in begun}) == 3
            assert len({one["runId"] for one in begun}) == 3
        stores = {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir() if path.is_file()}
        theirs = b"".join(raw for name, raw in stores.items() if name.startswith("evil"))
        ours = b"".join(raw for name, raw in stores.items() if name.startswith("acme"))
        for one in begun[:2]:
            assert one["sessionId"].encode() in ours
            assert one["sessionId"].encode() not in theirs
        assert begun[2]["sessionId"].encode() in theirs
        assert begun[2]["sessionId"].encode() not in ours

    run(main())


def test_a_key_counts_until_it_is_revoked_and_a_new_one_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as at, at.server.client(at.holders["ann"]) as client:
            assert (await client.get("/agents")).status_code == 200
            at.keys.change("ann", revoked=True)
            assert (await client.get("/agents")).status_code == 401
            at.keys.change("ann", revoked=False)
            assert (await client.get("/agents")).status_code == 200
            added = at.keys.add("new", "acme", "ann")
            async with at.server.client(added) as other:
                assert (await other.get(f"/runs/{at.ids['run_id']}")).status_code == 200
            at.keys.path.unlink()
            assert (await client.get("/agents")).status_code == 401

    run(main())


def test_a_server_tells_its_process_to_its_own_machine_alone(tmp_path: Path) -> None:
    keys = Keyring(tmp_path / "keys.json")
    keys.add("ops", "acme", "ann")

    async def story() -> None:
        for settings, pid in (
            (Settings(limits=FAST), os.getpid()),
            (Settings(keys=keys.path, limits=FAST), None),
        ):
            folder = tmp_path / f"data-{pid}"
            async with (
                serving(folder, [payer()], settings=settings) as server,
                httpx2.AsyncClient() as client,
            ):
                health = await client.get(f"http://127.0.0.1:{server.port}/v1/health")
                assert health.json().get("pid") == pid

    run(story())


@pytest.mark.promise("T1")
@pytest.mark.parametrize("who", ["none", "user", "improver", "operator"])
def test_the_guard_follows_the_rule_of_every_operation(tmp_path: Path, who: Who | Literal["none"]) -> None:
    spec = json.loads((ROOT / "spec/operations.json").read_text("utf-8"))
    rules = {
        f"{group}.{name}": operation["who"]
        for group, body in spec["groups"].items()
        for name, operation in body["operations"].items()
    }
    assert set(rules.values()) == set(get_args(Who))

    async def main() -> None:
        async with scene(tmp_path) as at:
            keys = {
                "user": at.holders["other user"],
                "improver": at.keys.add("maker", "acme", "maker", roles=["improver"]),
                "operator": at.keys.add("ops", "acme", "ops", operator=True),
            }
            async with at.server.client(keys.get(who)) as client:
                for route in at.server.app.routes:
                    if not isinstance(route, APIRoute):
                        continue
                    [method] = list(route.methods or ())
                    rule = rules.pop(operation_of(method, route.path).id)
                    answer = await ask(client, method, route.path, ids=at.ids)
                    is_open = rule == "public" or (who != "none" and rule in ("user", who))
                    is_hidden = answer.status_code == 404 and "there is no such route" in answer.text
                    is_refused = answer.status_code == 401 if who == "none" else is_hidden
                    assert is_refused == (not is_open), (method, route.path)
            assert rules == {}

    run(main())


def test_only_operators_may_see_the_numbers_of_the_whole_server(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as at:
            async with at.server.client(at.holders["ann"]) as client:
                assert (await client.get("/metrics")).status_code == 404
            operator = at.keys.add("ops", "acme", "ops", operator=True)
            async with at.server.client(operator) as client:
                shown = await client.get("/metrics")
                assert shown.status_code == 200
                assert "windlass_http_requests_total" in shown.text
                assert 'route="/v1/runs/{run_id:path}"' in shown.text
                before = loop_stalls()
                COUNTS.add(Stall(1_500, "s1", "", ""))
                shown = await client.get("/metrics")
                assert f"windlass_loop_stalls_total {before.count + 1}.0" in shown.text
                seconds = (before.total_ms + 1_500) / 1_000
                assert f"windlass_loop_stall_seconds_total {seconds}" in shown.text
                assert "windlass_loop_stall_longest_seconds" in shown.text
                assert not any(name in shown.text for name in ("acme", "ann", "evil", CANARY))

    run(main())
