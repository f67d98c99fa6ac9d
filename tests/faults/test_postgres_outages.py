"""The PostgreSQL store when its server refuses, is replaced, runs out of room, or speaks TLS."""

import asyncio
import os
import random
import shutil
import ssl
import subprocess
import tempfile
import threading
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from tests.contracts.stores import NOW_MS, claim, draft, drafts, numbers, post, write
from tests.faults.outages import failover
from tests.faults.test_postgres import late, tell
from tests.story import play

from tools.postgres import Postgres, running_postgres
from windlass import Agent, AgentRuntime, tool
from windlass.adapters.journals.codec import encode_batch
from windlass.errors import AgentError, Rejected, Unavailable
from windlass.ports.journal import Batch
from windlass.postgres import schema as postgres_schema
from windlass.postgres import writer as postgres_writer
from windlass.postgres.link import (
    Failure,
    PostgresAddress,
    PostgresLink,
    parse_address,
    translate,
)
from windlass.postgres.store import PostgresStore
from windlass.testing import ScriptedModel, by_history, call, say
from windlass_harness.loop.subagents import CANCEL
from windlass_harness.record import Post
from windlass_protocol import RunStatus

SSL_REQUEST = bytes.fromhex("0000000804d2162f")


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """A server of its own: transactions that stay open would delay the tests of others."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_writer, "PAUSES_S", (0.0,))


@contextmanager
def database_of_few(postgres: Postgres) -> Generator[tuple[str, psycopg.Connection]]:
    """An empty database for a user without special rights, and a connection of one with all."""
    database = postgres.new_database()
    name = database.split("?")[0].rsplit("/", 1)[1]
    with psycopg.connect(database, autocommit=True) as admin:
        tell(admin, "CREATE ROLE few LOGIN")
        tell(admin, f"GRANT ALL ON DATABASE {name} TO few")
        yield database.replace("postgres@", "few@"), admin
        tell(admin, "DROP OWNED BY few CASCADE")
        tell(admin, "DROP ROLE few")


@pytest.mark.promise("J1")
@pytest.mark.promise("F1")
def test_runs_go_on_at_a_replica_that_takes_over() -> None:
    told = failover(1, records=2)
    assert told["wrong"] == []
    assert told["runs"] > 3


@pytest.mark.promise("F1")
@pytest.mark.parametrize("is_replica", [False, True])
def test_a_process_that_opens_a_busy_store_does_not_show_records_before_older_ones(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch, is_replica: bool
) -> None:
    """It gets its transaction number, then another process is given numbers, as happens at any start.

    A replica that took over may count from a lower number than the newest horizon.
    """
    read_version = postgres_schema.read_version

    async def story() -> None:
        place = postgres.new_schema()
        store = await PostgresStore.open(place[0], schema=place[1])
        slow, quick = await claim(store, "slow"), await claim(store, "quick")
        other = late(place, store)
        loop = asyncio.get_running_loop()

        async def meanwhile() -> None:
            batch = Batch(slow, 0, drafts(10))
            other.begin(())
            other.append(batch, encode_batch(batch))
            await write(store, quick, 1)
            if is_replica:
                with psycopg.connect(place[0], autocommit=True) as admin:
                    tell(admin, f"SELECT setval('{place[1]}.horizons', 4000000000)")
                    tell(admin, f"UPDATE {place[1]}.appends SET horizon = 4000000000")

        def first(link: PostgresLink, address: PostgresAddress) -> int:
            asyncio.run_coroutine_threadsafe(meanwhile(), loop).result()
            return read_version(link, address)

        monkeypatch.setattr(postgres_schema, "read_version", first)
        second = await PostgresStore.open(place[0], schema=place[1])
        assert await second.read_all() == ()
        other._link.check()  # pyright: ignore[reportPrivateUsage]
        other._link.commit()  # pyright: ignore[reportPrivateUsage]
        other._link.close()  # pyright: ignore[reportPrivateUsage]
        assert numbers(await second.read_all()) == [10, 1]
        await second.aclose()
        await store.aclose()

    play(story())


@pytest.mark.usefixtures("no_pauses")
def test_a_full_disk_refuses_writes_until_there_is_room(postgres: Postgres) -> None:
    async def story() -> None:
        address, schema = postgres.new_schema()
        store = await PostgresStore.open(address, schema=schema)
        mine = await claim(store)
        with psycopg.connect(address, autocommit=True) as admin:
            tell(admin, f"SET search_path = {schema}")
            tell(
                admin,
                """CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                RAISE EXCEPTION 'no room' USING ERRCODE = '53100'; END $$""",
            )
            tell(admin, "CREATE TRIGGER fails BEFORE INSERT ON appends EXECUTE FUNCTION fail()")
            with pytest.raises(Unavailable, match="is full, nothing was written: free some space"):
                await write(store, mine, 1)
            tell(admin, "DROP TRIGGER fails ON appends")
        await write(store, mine, 1)
        assert numbers(await store.read("s1")) == [1]
        await store.aclose()

    play(story())


def test_a_deadlock_is_resolved_by_repeating_the_write(postgres: Postgres) -> None:
    async def story() -> None:
        address, schema = postgres.new_schema()
        store = await PostgresStore.open(address, schema=schema)
        mine = await claim(store, "s1")
        await post(store, "a", "s2")
        sends = replace(draft(1), posts=(Post("s2", CANCEL, "b", {"runId": "r1"}),))
        with psycopg.connect(address) as foreign, psycopg.connect(address, autocommit=True) as admin:
            keys = admin.execute(f"SELECT session_key FROM {schema}.sessions ORDER BY 1".encode()).fetchall()
            lower, higher = (
                f"SELECT 1 FROM {schema}.sessions WHERE session_key = {key} FOR UPDATE" for (key,) in keys
            )
            # The store alone looks for deadlocks, so its transaction is the one that is undone.
            tell(foreign, "SET deadlock_timeout = '10min'")
            tell(foreign, higher)
            writing = asyncio.create_task(store.append(Batch(mine, 0, (sends,))))
            await until(
                admin, "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock')"
            )
            # It has the lower row and waits for the higher one.
            await asyncio.to_thread(tell, foreign, lower)
            tell(foreign, "COMMIT")
            assert (await writing).first_seq == 1
            # The statistics of a process come when it is idle.
            await until(
                admin, "SELECT deadlocks > 0 FROM pg_stat_database WHERE datname = current_database()"
            )
        assert numbers(await store.read("s1")) == [1]
        assert (await store.arrivals(after=1)).session_ids == {"s2"}
        await store.aclose()

    play(story())


async def until(admin: psycopg.Connection, question: str) -> None:
    """Ask until the answer is yes."""
    while await asyncio.to_thread(lambda: admin.execute(question.encode()).fetchall()) != [(True,)]:  # noqa: ASYNC110 - nothing tells
        await asyncio.sleep(0.02)


def test_a_run_goes_on_after_its_rights_were_taken_and_given_back(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = asyncio.Event()

    async def story() -> None:
        loop = asyncio.get_running_loop()

        def noted(error: Failure, name: str) -> AgentError:
            loop.call_soon_threadsafe(refused.set)
            return translate(error, name)

        monkeypatch.setattr(postgres_writer, "translate", noted)
        with database_of_few(postgres) as (address, admin):

            @tool(mode="read", effect="idempotent")
            async def look() -> str:
                """Look."""
                tell(admin, "REVOKE INSERT ON windlass.appends FROM few")
                return "seen"

            agent = Agent("clerk", model=ScriptedModel(by_history([call("look"), say("done")])), tools=[look])
            async with AgentRuntime.open(address, agents=[agent]) as runtime:
                run = await runtime.start_run(agent, "Go")
                await refused.wait()
                tell(admin, "GRANT INSERT ON windlass.appends TO few")
                assert (await run.wait()).status is RunStatus.COMPLETED

    play(story())


@pytest.mark.usefixtures("no_pauses")
def test_a_connection_to_a_server_that_became_a_replica_is_left(postgres: Postgres) -> None:
    async def story() -> None:
        with database_of_few(postgres) as (address, admin):
            store = await PostgresStore.open(address)
            tell(admin, "ALTER ROLE few SET default_transaction_read_only = on")
            with pytest.raises(Unavailable, match=r"is a replica .*: add target_session_attrs=read-write"):
                await store.enlist("o1", now_ms=NOW_MS)
            tell(admin, "ALTER ROLE few RESET default_transaction_read_only")
            # Both writers have connections that are of no use.
            await asyncio.gather(*(store.enlist("o1", now_ms=NOW_MS) for _ in range(8)))
            await store.aclose()

    play(story())


def test_a_server_that_is_gone_without_a_word_is_noticed_unless_the_address_says_otherwise() -> None:
    assert "tcp_user_timeout=25000" in parse_address("postgresql://host/app", schema="windlass").conninfo
    given = parse_address("postgresql://host/app?tcp_user_timeout=1&keepalives_idle=2", schema="windlass")
    assert "tcp_user_timeout=1 " in f"{given.conninfo} "
    assert "keepalives_idle=2 " in f"{given.conninfo} "


@asynccontextmanager
async def tls(server: Path, certificate: Path) -> AsyncGenerator[int]:
    """Serve a server with TLS, as PostgreSQL does where it is built with it; yield the port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))

    serving: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        above, upwards = await asyncio.open_unix_connection(server / ".s.PGSQL.5432")
        try:
            assert await reader.readexactly(len(SSL_REQUEST)) == SSL_REQUEST
            writer.write(b"S")
            await writer.start_tls(context)
            async with asyncio.TaskGroup() as group:
                group.create_task(copy(reader, upwards))
                group.create_task(copy(above, writer))
        finally:
            upwards.close()
            writer.close()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.close()

    def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.ensure_future(serve(reader, writer)))

    async with await asyncio.start_server(take, "127.0.0.1", 0) as listening:
        yield listening.sockets[0].getsockname()[1]
        # A client that does not like the certificate ends the connection, which is an error here.
        await asyncio.wait(serving)
        for one in serving:
            one.exception()


def certificate(folder: Path, name: str) -> Path:
    made = folder / f"{name}.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(made.with_suffix(".key")), "-out", str(made)]
    subprocess.run([*command.split(), *names, *files], check=True, capture_output=True)
    return made


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl to make a certificate with")
def test_the_certificate_of_the_server_is_verified(postgres: Postgres, tmp_path: Path) -> None:
    async def story() -> None:
        right, wrong = certificate(tmp_path, "right"), certificate(tmp_path, "wrong")
        async with tls(postgres.folder, right) as port:

            def address(host: str, root: Path) -> str:
                options = f"sslmode=verify-full&sslrootcert={root}"
                return f"postgresql://postgres@{host}:{port}/postgres?{options}"

            _, schema = postgres.new_schema()
            store = await PostgresStore.open(address("localhost", right), schema=schema)
            await write(store, await claim(store), 1)
            assert numbers(await store.read("s1")) == [1]
            await store.aclose()
            with pytest.raises(Rejected, match=r"refuses the connection: .*certificate verify failed"):
                await PostgresStore.open(address("localhost", wrong), schema=schema)
            with pytest.raises(Rejected, match=r"refuses the connection: .*certificate"):
                await PostgresStore.open(address("127.0.0.1", right), schema=schema)
            with pytest.raises(Rejected, match=r"refuses the connection: .*does not exist"):
                await PostgresStore.open(address("localhost", tmp_path / "none.pem"), schema=schema)

    play(story())


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A disk of 24 MB, which the user of the server may write to."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = ["mount", "-t", "tmpfs", "-o", "size=24m,mode=0777", "windlass-test", name]
        if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
            pytest.skip("a small disk needs the right to mount one")
        folder.parent.chmod(folder.parent.stat().st_mode | 0o011)
        try:
            yield folder
        finally:
            subprocess.run(["umount", "-l", name], check=True)


@pytest.mark.promise("J1")
def test_a_database_on_a_full_disk_is_told_and_written_again_when_there_is_space(
    postgres: Postgres, small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = postgres.new_database()
    name = place.split("?")[0].rsplit("/", 1)[1]
    space = small_disk / "space"
    space.mkdir()
    if postgres.user is not None:
        os.chown(space, postgres.user, postgres.user)

    async def story() -> None:
        with psycopg.connect(place, autocommit=True) as admin:
            tell(admin, f"CREATE TABLESPACE small LOCATION '{space}'")
            tell(admin, f"ALTER DATABASE {name} SET default_tablespace = small")
        store = await PostgresStore.open(place)
        mine = await claim(store)
        await write(store, mine, 0)
        (small_disk / "ballast").write_bytes(bytes(os.statvfs(small_disk).f_bavail * 4_096))
        content = random.Random(1).randbytes(4_000_000)
        with pytest.raises(
            Unavailable, match=r"the disk of .* is full, nothing was written: free some space"
        ):
            await store.put(content)
        (small_disk / "ballast").unlink()
        ref = await store.put(content)
        assert store.write_problem is None
        assert await store.get(ref) == content
        await write(store, mine, 1, after=1)
        assert numbers(await store.read("s1")) == [0, 1]
        await store.aclose()
        with psycopg.connect(postgres.base, autocommit=True) as admin:
            tell(admin, f"DROP DATABASE {name}")
            tell(admin, "DROP TABLESPACE small")

    play(story())
    told = [one.getMessage() for one in caplog.records if "written" in one.getMessage()]
    assert "cannot be written: the disk of the database is full (53100); the store tries again" in told[0]
    assert "is written again" in told[1]


@pytest.mark.promise("J1")
def test_a_database_that_is_away_is_told_until_a_write_succeeded(no_pauses: None) -> None:
    async def story() -> None:
        with running_postgres() as server:
            store = await PostgresStore.open(server.base)
            assert store.write_problem is None
            server.stop("fast")
            with pytest.raises(Unavailable):
                await store.put(b"content")
            assert "the database cannot be reached" in (store.write_problem or "")
            server.start()
            # Without a request: a server that is not ready gets none.
            while store.write_problem is not None:
                await asyncio.to_thread(threading.Event().wait, 0.001)
            await store.put(b"content")
            await store.aclose()

    play(story())
