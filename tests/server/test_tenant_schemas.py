"""Tenants in PostgreSQL: a schema each, of which no other sees anything."""

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psycopg
import pytest
from tests.server.keyring import Keyring
from tests.server.rig import FAST, ended, payer, run, serving, talker, waiting

from tools.postgres import Postgres
from windlass.ports.permits import PermitAsk
from windlass.postgres import PostgresStore, with_schema
from windlass.postgres.link import PostgresLink, parse_address
from windlass_server import Settings
from windlass_server.tenants import schema_name

NAMES: Final = (
    "acme",
    "ACME",
    "windlass",
    "acme'; DROP SCHEMA windlass_t_acme CASCADE; --",
    "x" * 120,
    "acme?schema=windlass_t_acme&sslmode=disable",
)


def test_schemas_of_tenants_are_plain_unique_and_short_enough() -> None:
    schemas = [
        schema_name(name) for name in ("local", *NAMES, "d_acme", "t_acme", "../../etc", "größe", 'a"."b')
    ]
    assert len(set(schemas)) == len(schemas)
    assert schemas[:2] == ["windlass", "windlass_t_acme"]
    assert all(len(one) <= 63 and one.replace("_", "a").isalnum() and one.isascii() for one in schemas)


@pytest.mark.promise("T1")
def test_tenants_in_schemas_see_their_own_runs_alone_whatever_they_are_called(
    postgres: Postgres, tmp_path: Path
) -> None:
    async def main() -> None:
        address = postgres.new_database()
        keys = Keyring(tmp_path / "keys.json")
        holders = [keys.add(f"k{number}", name, "ann") for number, name in enumerate(NAMES)]
        settings = Settings(keys=keys.path, limits=FAST)
        begun: dict[str, dict[str, str]] = {}
        async with serving(tmp_path, [talker()], settings=settings, address=address) as server:
            for key in holders:
                async with server.client(key) as client:
                    made = (await client.post("/sessions", json={"message": "Hello."})).json()
                    await ended(client, made["runId"])
                    begun[key] = made
            for key in holders:
                async with server.client(key) as client:
                    listed = (await client.get("/runs")).json()["runs"]
                    assert [one["runId"] for one in listed] == [begun[key]["runId"]]
                    for other in holders:
                        expected = 200 if other == key else 404
                        for path in (
                            f"/runs/{begun[other]['runId']}",
                            f"/sessions/{begun[other]['sessionId']}",
                        ):
                            assert (await client.get(path)).status_code == expected, path
                    for odd in ("x'%20OR%201=1--", "%22;--", "windlass_t_acme.runs"):
                        assert (await client.get(f"/runs/{odd}")).status_code == 404
        with psycopg.connect(address) as admin:
            rows = admin.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'windlass%'").fetchall()
        assert {name for (name,) in rows} == {schema_name(name) for name in NAMES}

    run(main())
    assert not [*tmp_path.glob("*.db")]


def test_a_row_of_another_tenant_is_recognised_as_foreign(postgres: Postgres, tmp_path: Path) -> None:
    async def main() -> None:
        address = postgres.new_database()
        keys = Keyring(tmp_path / "keys.json")
        ours, theirs = keys.add("k1", "ours", "ann"), keys.add("k2", "theirs", "bob")
        settings = Settings(keys=keys.path, limits=FAST)
        async with serving(tmp_path, [talker()], settings=settings, address=address) as server:
            async with server.client(ours) as client:
                made = (await client.post("/sessions", json={"message": "Hello."})).json()
                await ended(client, made["runId"])
            async with server.client(theirs) as client:
                assert (await client.get("/runs")).json()["runs"] == []
                with psycopg.connect(address, autocommit=True) as admin:
                    for table in ("sessions", "appends", "runs", "catalog"):
                        rows = f"SELECT * FROM windlass_t_ours.{table}"
                        admin.execute(f"INSERT INTO windlass_t_theirs.{table} {rows}".encode())
                # The seals of a row hold in its own store alone.
                assert (await client.get(f"/runs/{made['runId']}")).status_code >= 400
                assert (await client.get(f"/sessions/{made['sessionId']}")).status_code >= 400

    run(main())


def test_a_server_that_starts_again_continues_the_runs_of_all_tenants(
    postgres: Postgres, tmp_path: Path
) -> None:
    async def main() -> None:
        address = postgres.new_database()
        keys = Keyring(tmp_path / "keys.json")
        holders = [keys.add(f"k{number}", name, "ann") for number, name in enumerate(NAMES[:2])]
        bosses = [
            keys.add(f"b{number}", name, "bo", roles=["approver"]) for number, name in enumerate(NAMES[:2])
        ]
        settings = Settings(keys=keys.path, limits=FAST)
        runs: list[str] = []
        async with serving(tmp_path / "one", [payer()], settings=settings, address=address) as server:
            for key in holders:
                async with server.client(key) as client:
                    made = (await client.post("/sessions", json={"message": "Pay."})).json()
                    await waiting(client, made["runId"])
                    runs.append(made["runId"])
        # On another machine: nothing but the database is the same.
        async with serving(tmp_path / "two", [payer()], settings=settings, address=address) as server:
            for key, boss, run_id in zip(holders, bosses, runs, strict=True):
                async with server.client(key) as client, server.client(boss) as approver:
                    [asked] = (await approver.get("/approvals")).json()["requests"]
                    path = f"/approvals/{asked['request']['requestId']}"
                    given = await approver.post(path, json={"optionId": "approve"})
                    assert given.status_code == 202, given.text
                    assert (await ended(client, run_id))["run"]["status"] == "completed"

    run(main())


@pytest.mark.promise("T1")
def test_with_roles_the_database_refuses_a_tenant_the_tables_of_another(
    postgres: Postgres, tmp_path: Path
) -> None:
    """The user of the address may make roles, and is no superuser."""
    database = postgres.new_database()
    name = urlsplit(database).path.removeprefix("/")
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {name}_app LOGIN CREATEROLE".encode())
        admin.execute(f'GRANT CREATE ON DATABASE "{name}" TO {name}_app'.encode())
    address = f"{database.replace('postgres@', f'{name}_app@', 1)}&roles=on"
    ours, theirs = f"{name}_ours", f"{name}_theirs"

    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        holders = [keys.add("k1", ours, "ann"), keys.add("k2", theirs, "bob")]
        settings = Settings(keys=keys.path, limits=FAST)
        async with serving(tmp_path, [talker()], settings=settings, address=address) as server:
            for key in holders:
                async with server.client(key) as client:
                    made = [(await client.post("/sessions", json={"message": "Hello."})).json() for _ in "ab"]
                    for one in made:
                        await ended(client, one["runId"])
                    found = (await client.get("/sessions", params={"text": "hello"})).json()["sessions"]
                    assert len(found) == 2
                    fork = await client.post(f"/sessions/{made[0]['sessionId']}/fork", json={})
                    assert fork.status_code == 201
                    assert (await client.delete(f"/sessions/{made[0]['sessionId']}")).status_code == 200

        store = await PostgresStore.open(with_schema(address, schema_name(ours)))
        ask = PermitAsk("acme", "one", 1, at_once=1, per_minute=None, tokens_per_minute=None, held=0, wants=1)
        assert (await store.take_permits(ask)).count == 1, "limits of providers are counted for all tenants"
        await store.aclose()

    run(main())
    with psycopg.connect(database) as admin:
        rows = admin.execute(
            "SELECT relname, relkind::text FROM pg_class WHERE relnamespace = %s::regnamespace",
            (schema_name(theirs),),
        ).fetchall()
    tables = [table for table, kind in rows if kind == "r"]
    assert len(tables) > 10
    schema = schema_name(theirs)
    statements = [f"{what} FROM {schema}.{one}" for what in ("SELECT", "DELETE") for one in tables]
    statements += [f"SELECT nextval('{schema}.{one}')" for one, kind in rows if kind == "S"]
    assert refusals(with_schema(address, schema_name(ours)), statements) == len(statements)
    assert refusals(with_schema(address, schema_name(theirs)), statements) == 0
    # Without the wall the user of the address may read all of them.
    plain = address.replace("roles=on", "roles=off")
    assert refusals(with_schema(plain, schema_name(ours)), statements) == 0


def refusals(address: str, statements: list[str]) -> int:
    """Return how many statements the database refuses in transactions of a store; all are undone."""
    link, count = PostgresLink(parse_address(address, schema="windlass")), 0
    for statement in statements:
        link.begin()
        try:
            link.execute(statement)
            link.check()
        except psycopg.errors.InsufficientPrivilege:
            count += 1
        link.rollback()
    link.close()
    return count
