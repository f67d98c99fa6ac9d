"""Store files of tenants: damage stays in one tenant, and waiting runs need no open store."""

import asyncio
import json
import os
from pathlib import Path
from typing import Unpack

import pytest
from fastapi.routing import APIRoute
from tests.server.keyring import Issuer, Keyring
from tests.server.rig import FAST, Wire, ended, eventually, payer, run, serving, talker, waiting

from windlass import Agent, Unavailable
from windlass.runtime.options import RuntimeOptions
from windlass.testing import Answer, ScriptedModel
from windlass_server import Settings, Tenants
from windlass_server.tenants import Tenant

GARBAGE = b"not a database at all" * 100


def test_a_damaged_tenant_is_unavailable_without_naming_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        keys, data = Keyring(tmp_path / "keys.json"), tmp_path / "data"
        holders = [keys.add(name, name, "ann") for name in ("torn", "folder")]
        well = keys.add("well", "well", "ann")
        async with serving(data, settings=Settings(keys=keys.path, limits=FAST)) as server:
            (data / "torn.db").write_bytes(GARBAGE)
            (data / "folder.db").mkdir()
            for key in holders:
                async with server.client(key) as client:
                    answers = [await client.get("/sessions") for _ in range(3)]
                assert {one.status_code for one in answers} == {503}
                [text] = {json.dumps(answer.json() | {"instance": ""}) for answer in answers}
                assert json.loads(text)["code"] == "unavailable"
                assert not any(word in text for word in ("torn", "folder", ".db", str(tmp_path)))
            assert len([one for one in caplog.records if one.name == "windlass.server"]) == len(holders)
            async with server.client(well) as client:
                assert (await client.get("/sessions")).status_code == 200
            (data / "torn.db").unlink()
            async with server.client(holders[0]) as client:
                assert (await client.get("/sessions")).status_code == 200

    run(main())


def test_a_tenant_is_released_after_each_request_whatever_its_answer(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Hello."})).json()
            await ended(client, begun["runId"])
            for path, status in (
                ("/sessions", 200),
                ("/runs/r9", 404),
                (f"/runs/{begun['runId']}/events", 200),
            ):
                assert (await client.get(path)).status_code == status
            async with server.tenants.use("local") as tenant:
                await eventually(lambda: tenant.users == 1)
            assert tenant.users == 0

    run(main())


def test_a_damaged_store_is_not_kept_open(tmp_path: Path) -> None:
    async def main() -> None:
        tenants = Tenants(tmp_path, [talker()], durability="process")
        await tenants.start()
        (tmp_path / "a.db").write_bytes(GARBAGE)

        async def use() -> None:
            with pytest.raises(Unavailable):
                async with tenants.use("a"):
                    pass

        await use()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            await use()
        assert len(os.listdir("/proc/self/fd")) == before
        await tenants.aclose()

    run(main())


def test_only_the_user_of_the_server_can_use_the_files_of_tenants(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "data"

    async def main() -> None:
        tenants = Tenants(folder, [talker()], durability="process")
        await tenants.start()
        async with tenants.use("ann@example.org"):
            pass
        await tenants.aclose()

    before = os.umask(0)
    try:
        run(main())
    finally:
        os.umask(before)
    found = {path: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert {path.suffix for path in found} == {"", ".db", ".tenant"}
    assert found == {path: 0o700 if path.is_dir() else 0o600 for path in found}


def test_a_folder_that_somebody_made_keeps_its_permissions(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    async def main() -> None:
        tenants = Tenants(tmp_path, [talker()], durability="process")
        await tenants.start()
        async with tenants.use("ann"):
            pass
        await tenants.aclose()

    run(main())
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_one_damaged_tenant_keeps_no_other_from_being_served(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [payer()]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Pay."})).json()
            await waiting(client, begun["runId"])
        (tmp_path / "acme.db").write_bytes(GARBAGE)
        (tmp_path / "acme.tenant").write_text("acme")
        (tmp_path / "other.db").write_bytes((tmp_path / "local.db").read_bytes())
        (tmp_path / "other.tenant").write_bytes(b"\xff\xfe")
        async with serving(tmp_path, [payer()]) as server, server.client() as client:
            assert (await client.get(f"/runs/{begun['runId']}")).status_code == 200

    run(main())


async def park(tenants: Tenants, name: str) -> str:
    """Leave a waiting run in a tenant; return its request."""
    async with tenants.use(name) as tenant:
        await tenant.runtime.start_run("payer", "Pay.", run_id="r1", owner="ann")
        feed = tenant.runtime.events().subscribe_run("r1")
        async for event in feed:
            if event.type == "run.waiting":
                break
        await feed.aclose()
        return (await tenant.runtime.handle("r1").open_requests())[0].request_id


def tenants_of(folder: Path, *more: Agent, open_max: int, **options: Unpack[RuntimeOptions]) -> Tenants:
    return Tenants(folder, [payer(), talker(), *more], durability="process", open_max=open_max, **options)


def test_a_run_that_waits_for_a_person_keeps_no_store_open(tmp_path: Path) -> None:
    async def main() -> None:
        tenants = tenants_of(tmp_path, open_max=2)
        await tenants.start()
        asked = {name: await park(tenants, name) for name in ("a", "b", "c")}
        assert tenants.open_count == 2
        # An answer opens the store again, and the run goes on.
        async with tenants.use("a") as tenant:
            handle = tenant.runtime.handle("r1")
            await handle.answer(asked["a"], option_id="approve")
            assert (await handle.wait()).output == "All done."
        await tenants.aclose()

    run(main())


def test_a_lower_limit_of_open_tenants_keeps_no_server_from_starting(tmp_path: Path) -> None:
    async def main() -> None:
        first = tenants_of(tmp_path, open_max=3)
        await first.start()
        for name in ("a", "b", "c"):
            await park(first, name)
        await first.aclose()
        again = tenants_of(tmp_path, open_max=1)
        await again.start()
        assert again.open_count == 0
        async with again.use("b") as tenant:
            assert len(await tenant.runtime.handle("r1").open_requests()) == 1
        await again.aclose()

    run(main())


def test_a_run_that_waits_for_a_moment_keeps_its_store_open(tmp_path: Path) -> None:
    async def main() -> None:
        tenants = tenants_of(tmp_path, open_max=1, approval_expires_ms=3_600_000)
        await tenants.start()
        await park(tenants, "a")
        with pytest.raises(Unavailable, match="busy"):
            await park(tenants, "b")
        await tenants.aclose()
        again = tenants_of(tmp_path, open_max=1, approval_expires_ms=3_600_000)
        await again.start()
        assert again.open_count == 1
        await again.aclose()

    run(main())


def slow(gate: asyncio.Event) -> Agent:
    return Agent("slow", model=ScriptedModel(lambda _: Answer("Done.", gate=gate)))


def test_unfinished_runs_of_all_tenants_go_on_after_a_restart_under_a_low_store_limit(tmp_path: Path) -> None:
    async def main() -> None:
        gate = asyncio.Event()
        first = tenants_of(tmp_path, slow(gate), open_max=2)
        await first.start()
        for name in ("a", "b"):
            async with first.use(name) as tenant:
                await tenant.runtime.start_run("slow", "Hello.", run_id="r1")
        await first.aclose()
        again = tenants_of(tmp_path, slow(gate), open_max=1)
        await again.start()
        assert again.open_count == 2
        gate.set()
        for name in ("a", "b"):
            async with again.use(name) as tenant:
                assert (await tenant.runtime.handle("r1").wait()).output == "Done."
        async with again.use("c"):
            assert again.open_count == 1
        await again.aclose()

    run(main())


def test_a_tenant_in_which_something_begins_while_it_is_closed_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def is_parked(self: Tenant) -> bool:
        return True

    async def main() -> None:
        gate = asyncio.Event()
        tenants = tenants_of(tmp_path, slow(gate), open_max=1)
        await tenants.start()
        async with tenants.use("a") as tenant:
            await tenant.runtime.start_run("slow", "Hello.", run_id="r1")
        monkeypatch.setattr(Tenant, "is_parked", is_parked)
        with pytest.raises(Unavailable, match="busy"):
            async with tenants.use("b"):
                pass
        assert tenants.open_count == 1
        gate.set()
        async with tenants.use("a") as tenant:
            assert (await tenant.runtime.handle("r1").wait()).output == "Done."
        await tenants.aclose()

    run(main())


@pytest.mark.promise("T1")
def test_reading_with_a_new_tenant_in_the_token_makes_no_files(tmp_path: Path) -> None:
    async def main() -> None:
        issuer, data = Issuer(), tmp_path / "data"
        settings = Settings(jwt=issuer.settings(tmp_path), limits=FAST)
        async with serving(data, settings=settings) as server, server.client(issuer.token("new")) as client:
            paths = [
                route.path.removeprefix("/v1").replace("{step_index}", "0")
                for route in server.app.router.routes
                if isinstance(route, APIRoute)
                and "GET" in (route.methods or ())
                and route.path.startswith("/v1/")
            ]
            assert len(paths) > 20
            for path in paths:
                query = {"follow": "false"} if path.endswith("/events") else {}
                if path == "/events":
                    continue  # it does not end; see below
                found = await client.get(path, params=query)
                assert found.status_code < 500, path
            assert list(data.iterdir()) == []
            assert (await client.get("/sessions")).json()["sessions"] == []

            # A stream from before the first message ends, so that its client connects to the tenant.
            key = f"Bearer {issuer.token('new')}"
            wire = await Wire.get(server.port, "/events", authorization=key)
            begun = (await client.post("/sessions", json={"message": "Hello."})).json()
            frames = [frame async for frame in wire.frames()]
            assert frames[-1].event == "reconnect"
            again = await Wire.get(server.port, "/events", authorization=key, last_event_id=frames[0].id)
            async for frame in again.frames():
                if frame.type == "run.completed":
                    break
            again.cut()
            assert (await client.get(f"/runs/{begun['runId']}")).status_code == 200
            assert (data / "new.db").exists()

    run(main())


def test_an_empty_tenant_makes_room_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def main() -> None:
        tenants = Tenants(tmp_path, [talker()], durability="process", open_max=1)
        await tenants.start()
        for name in ("a", "b"):
            tenant = await tenants.take(name, may_create=False)
            assert tenant.blank is not None
            tenant.release()
        assert (tenants.open_count, os.listdir(tmp_path)) == (1, [])
        # Another process makes the tenant.
        other = Tenants(tmp_path, [talker()], durability="process")
        async with other.use("b"):
            assert tenant.is_outdated
            assert (await tenants.take("b", may_create=False)).blank is None
        await other.aclose()
        await tenants.aclose()

    run(main())
