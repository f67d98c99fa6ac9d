"""A lost answer: the request of every writing operation is repeated, and has its effect once."""

import json
from asyncio import create_subprocess_exec
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.client.rig import client_of
from tests.client.writes import STORIES, Write, agents, effects, losing
from tests.ledger.rig import GOAL
from tests.server.keyring import Keyring
from tests.server.receiver import receiving
from tests.server.rig import FAST, Json, run, serving
from tests.server.test_notifications import SECRET
from tests.server.test_proposals import thinker

from tools.files import ROOT
from tools.gen.python import attribute
from windlass.webhooks import Endpoint
from windlass_server import ImproveSettings, Settings
from windlass_server.generated.table import OPERATIONS

WRITES = {operation.id: operation for operation in OPERATIONS if operation.method != "GET"}
FREE = ("agui.", "ai.", "eve.")
"""Operations with a body of another protocol."""


def test_every_writing_operation_has_a_story_and_none_is_refused() -> None:
    assert set(STORIES) == set(WRITES)
    assert not [operation.id for operation in WRITES.values() if operation.repeat == "refused"]


async def ask_in_python(port: int, key: str, name: str, write: Write) -> None:
    """Send a request with the method of its operation."""
    group, method = (attribute(part) for part in name.split("."))
    fields = {attribute(key): value for key, value in {**(write.body or {}), **write.query}.items()}
    more: Json = {"windlass_agent": "talker"} if name == "eve.create" else {}
    async with client_of(port, key=key) as client:
        call: Any = getattr(getattr(client, group), method)
        answer = call(*write.ids, write.body, **more) if name.startswith(FREE) else call(*write.ids, **fields)
        if isinstance(answer, AsyncGenerator):
            async for _ in answer:  # pyright: ignore[reportUnknownVariableType] lines of a stream
                pass
        else:
            await answer


async def ask_in_typescript(port: int, key: str, name: str, write: Write) -> None:
    """Send a request with the method of its operation, in a process of Node."""
    group, method = name.split(".")
    parts = [write.body, write.query or None]
    more: list[object] = [{"windlass-agent": "talker"}] if name == "eve.create" else []
    request = {
        "baseUrl": f"http://127.0.0.1:{port}",
        "token": key,
        "group": group,
        "method": method,
        "args": [*write.ids, *(part for part in parts if part is not None), *more],
    }
    script = str(ROOT / "tests/client/writer.mjs")
    child = await create_subprocess_exec("node", script, json.dumps(request), stderr=PIPE)
    _, problem = await child.communicate()
    assert child.returncode == 0, problem.decode()


ASKS = {"python": ask_in_python, "typescript": ask_in_typescript}


@pytest.mark.parametrize("language", ["python", pytest.param("typescript", marks=pytest.mark.node)])
@pytest.mark.parametrize("name", sorted(WRITES))
def test_a_request_that_is_repeated_because_its_answer_was_lost_has_its_effect_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, language: str
) -> None:
    monkeypatch.setenv("NEW", SECRET)

    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        roles = ["approver", "improver"]
        holders = {
            tenant: keys.add(tenant, tenant, "ann", roles=roles, operator=True)
            for tenant in ("whole", "lossy")
        }
        settings = Settings(keys=keys.path, limits=FAST, improve=ImproveSettings(thinker(), [GOAL]))
        found: dict[str, Json] = {}
        async with receiving(lambda _: (410, b"")) as receiver:
            spec = {"url": receiver.url, "events": ["run.completed"], "secrets": ["NEW"], "is_private": True}
            tenants = holders if name.startswith("deliveries.") else ()
            endpoints = [Endpoint.read(tenant, {**spec, "tenant": tenant}) for tenant in tenants]
            async with (
                serving(tmp_path / "data", agents(), settings=settings, endpoints=endpoints) as server,
                losing(server.port) as network,
            ):
                for tenant, key in holders.items():
                    async with server.client(key) as plain:
                        write = await STORIES[name](plain)
                        network.loses, before = tenant == "lossy", len(network.requests)
                        await ASKS[language](network.port, key, name, write)
                        assert len(network.requests) - before == (2 if tenant == "lossy" else 1)
                        found[tenant] = await effects(plain, receiver)
        assert found["lossy"] == found["whole"]

    run(main())
