"""The application below a path of another one: routes, credentials, links and pages."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp
from tests.server.keyring import Keyring
from tests.server.rig import FAST, Json, run, talker

from windlass_server import Settings, Tenants, create_app

Around = Callable[[ASGIApp], Starlette]
IMAGE = "data:image/png;base64," + "iVBORw0KGgo" + "A" * 200_000 + "="


def starlette(app: ASGIApp) -> Starlette:
    return Starlette(routes=[Mount("/shop/agents", app)])


def fastapi(app: ASGIApp) -> Starlette:
    outer = FastAPI()
    outer.mount("/shop/agents", app)
    return outer


def twice(app: ASGIApp) -> Starlette:
    return Starlette(routes=[Mount("/shop", Starlette(routes=[Mount("/agents", app)]))])


def like_a_route(app: ASGIApp) -> Starlette:
    return Starlette(routes=[Mount("/v1", Starlette(routes=[Mount("/v1", app)]))])


@asynccontextmanager
async def mounted(
    around: Around, folder: Path, settings: Settings, root: str = "/shop/agents"
) -> AsyncGenerator[httpx2.AsyncClient]:
    app = create_app(settings, Tenants(folder, [talker()], durability="process"))
    transport = httpx2.ASGITransport(around(app))
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url=f"http://127.0.0.1{root}") as client,
    ):
        yield client


@pytest.mark.parametrize(
    ("around", "root"),
    [
        (starlette, "/shop/agents"),
        (fastapi, "/shop/agents"),
        (twice, "/shop/agents"),
        (like_a_route, "/v1/v1"),
    ],
)
def test_routes_answer_below_any_path(tmp_path: Path, around: Around, root: str) -> None:
    async def main() -> None:
        async with mounted(around, tmp_path, Settings(limits=FAST), root) as client:
            assert (await client.get("/v1/health")).json()["status"] == "ok"
            begun = await client.post("/v1/sessions", json={"message": "Hello.", "agent": "talker"})
            assert begun.status_code == 202, begun.text
            feed = await client.get(f"/v1/runs/{begun.json()['runId']}/events", params={"format": "ndjson"})
            assert '"run.completed"' in feed.text.splitlines()[-1]
            assert feed.headers["cache-control"] == "no-store"
            listed = (await client.get("/v1/sessions")).json()["sessions"]
            assert [session["sessionId"] for session in listed] == [begun.json()["sessionId"]]
            assert (await client.get("/v1/openapi.json")).json()["openapi"]
            problem = await client.get("/v1/nothing")
            assert (problem.status_code, problem.json()["code"]) == (404, "not_found")
            assert (await client.post("/eve/v1/session", json=[])).json()["ok"] is False

    run(main())


def test_credentials_are_asked_for_below_a_path(tmp_path: Path) -> None:
    keys = Keyring(tmp_path / "keys.json")
    key = keys.add("ann", "acme", "ann")

    async def main() -> None:
        settings = Settings(keys=keys.path, limits=FAST)
        async with mounted(starlette, tmp_path / "data", settings) as client:
            for path in ("/v1/sessions", "/v1/agents", "/v1/metrics", "/eve/v1/session/x/stream"):
                assert (await client.get(path)).status_code == 401, path
            headers = {"authorization": f"Bearer {key}"}
            assert (await client.get("/v1/sessions", headers=headers)).status_code == 200

    run(main())


def test_links_of_answers_have_the_path(tmp_path: Path) -> None:
    async def main() -> None:
        async with mounted(starlette, tmp_path, Settings(limits=FAST)) as client:
            message: Json = {
                "id": "m1",
                "role": "user",
                "parts": [{"type": "file", "mediaType": "image/png", "url": IMAGE}],
            }
            body = {"id": "chat-1", "trigger": "submit-message", "messages": [message]}
            assert (await client.post("/v1/ai/talker/chat", json=body)).status_code == 200
            chat = (await client.get("/v1/ai/talker/chat/chat-1")).json()
            [url] = [part["url"] for part in chat[0]["parts"] if part["type"] == "file"]
            assert url.startswith("/shop/agents/v1/sessions/")
            assert (await client.get(f"http://127.0.0.1{url}")).status_code == 200
            card = await client.get("/v1/a2a/talker/.well-known/agent-card.json")
            [interface] = card.json()["supportedInterfaces"]
            assert interface["url"] == "http://127.0.0.1/shop/agents/v1/a2a/talker"

    run(main())


def test_the_inspector_is_at_the_root_alone(tmp_path: Path) -> None:
    async def main() -> None:
        async with mounted(starlette, tmp_path, Settings(limits=FAST)) as client:
            page = await client.get("/", headers={"accept": "text/html"})
            assert (page.status_code, page.json()["code"]) == (404, "not_found")

    run(main())
