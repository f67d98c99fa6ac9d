"""The PostgreSQL store with lost connections, a restarted server, late commits and refused statements."""

import asyncio
import struct
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

import psycopg
import pytest
from psycopg import errors
from tests.contracts.stores import NOW_MS, claim, draft, drafts, numbers, post, write
from tests.contracts.test_store_runs import three
from tests.story import play

from tools.postgres import Place, Postgres, running_postgres
from windlass.adapters.journals.codec import encode_batch
from windlass.errors import Ambiguous, Conflict, Rejected, Unavailable
from windlass.limits import OWNER_LEASE_MS
from windlass.ports.journal import Appended, Batch, Claim, Standing
from windlass.ports.listing import RunFilter
from windlass.ports.permits import PermitAsk
from windlass.postgres import schema as postgres_schema
from windlass.postgres import store as postgres_store
from windlass.postgres import writer as postgres_writer
from windlass.postgres.link import PostgresLink, is_lost, parse_address, translate
from windlass.postgres.reads import PostgresReads
from windlass.postgres.schema import migrate_tables
from windlass.postgres.store import PostgresStore
from windlass.postgres.writes import LeaseOwners, PostgresTransaction
from windlass.runtime.opening import open_store
from windlass.sql.integrity import RUN_COLUMNS

STARTUP = 4
NEWEST = len(postgres_schema.MIGRATIONS)
PARSE, EXECUTE = b"P", b"E"


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """A server of its own: transactions that stay open would delay the tests of others."""
    with running_postgres() as server:
        yield server


class Proxy:
    """A socket before a server, which counts statements and cuts the connection at one of them."""

    def __init__(self, server: Path) -> None:
        self._server = server
        self.cut_at: int | None = None
        """The statement, counted from now, at which the connection is cut."""
        self.counts = b""
        """Only statements with this text are counted."""
        self.loses: Literal["request", "answer"] = "request"
        self.is_closed_after = False
        """Whether no connection is possible after the cut."""
        self.at_cut: Callable[[], None] = lambda: None
        """Called before the client notices the cut."""
        self.cuts = 0
        self._writers: list[asyncio.StreamWriter] = []

    @asynccontextmanager
    async def listen(self, folder: Path) -> AsyncGenerator[str]:
        """Serve a socket in a folder; yield the address of the database through it."""
        server = await asyncio.start_unix_server(self._serve, folder / ".s.PGSQL.5432")
        async with server:
            yield f"postgresql://postgres@/postgres?host={folder}"
            for writer in self._writers:
                writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            if self.is_closed_after and self.cuts:
                writer.close()
                return
            above, upwards = await asyncio.open_unix_connection(self._server / ".s.PGSQL.5432")
            answers = asyncio.ensure_future(_copy(above, writer))
            try:
                await self._pass_on(reader, upwards, answers)
            finally:
                answers.cancel()
                upwards.close()
                writer.close()

    async def _pass_on(
        self, reader: asyncio.StreamReader, upwards: asyncio.StreamWriter, answers: "asyncio.Future[None]"
    ) -> None:
        [size] = struct.unpack(">I", await reader.readexactly(STARTUP))
        upwards.write(struct.pack(">I", size) + await reader.readexactly(size - STARTUP))
        statement = b""
        while True:
            kind = await reader.readexactly(1)
            [size] = struct.unpack(">I", await reader.readexactly(4))
            message = kind + struct.pack(">I", size) + await reader.readexactly(size - 4)
            if kind == PARSE:
                statement = message
            if kind == EXECUTE and self.cut_at is not None and self.counts in statement:
                self.cut_at -= 1
                if self.cut_at < 0:
                    self.cut_at = None
                    self.cuts += 1
                    if self.loses == "answer":
                        answers.cancel()
                        upwards.write(message)
                        await upwards.drain()
                    await asyncio.to_thread(self.at_cut)
                    return
            upwards.write(message)
            await upwards.drain()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()


def tell(connection: psycopg.Connection, statement: str) -> None:
    """Run a statement of a test."""
    connection.execute(statement.encode())


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_writer, "PAUSES_S", (0.0,))


@pytest.mark.promise("J1")
@pytest.mark.parametrize("loses", ["request", "answer"])
def test_a_connection_cut_at_any_statement_of_a_write_leaves_it_written_once(
    postgres: Postgres, tmp_path_factory: pytest.TempPathFactory, loses: Literal["request", "answer"]
) -> None:
    async def story() -> None:
        proxy = Proxy(postgres.folder)
        folder = Path(tmp_path_factory.mktemp("pg"))
        async with proxy.listen(folder) as address:
            _, schema = postgres.new_schema()
            store = await PostgresStore.open(address, schema=schema)
            mine = await claim(store)
            statement, seq = 0, 0
            while True:
                # Both writers have connections, so that the statements of the write alone are counted.
                await asyncio.gather(*(store.enlist("o1", now_ms=NOW_MS) for _ in range(8)))
                before = proxy.cuts
                proxy.cut_at, proxy.loses = statement, loses
                done = await store.append(Batch(mine, seq, drafts(seq, seq + 1)))
                assert done.first_seq == seq + 1
                seq += 2
                if proxy.cuts == before:
                    break
                statement += 1
            proxy.cut_at = None
            assert statement > 8
            assert numbers(await store.read("s1", limit=1_000)) == [n for n in range(seq) for _ in (0,)]
            assert [one.seq for one in await store.read_all(limit=1_000)] == list(range(1, seq + 1))
            await store.aclose()

    play(story())


@pytest.mark.usefixtures("no_pauses")
def test_a_commit_whose_outcome_cannot_be_read_back_is_ambiguous(
    postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def story() -> None:
        proxy = Proxy(postgres.folder)
        proxy.is_closed_after, proxy.loses = True, "answer"
        async with proxy.listen(Path(tmp_path_factory.mktemp("pg"))) as address:
            place = postgres.new_schema()
            store = await PostgresStore.open(address, schema=place[1])
            mine = await claim(store)
            proxy.cut_at, proxy.counts = 0, b"COMMIT"
            with pytest.raises(Ambiguous, match="may or may not"):
                await write(store, mine, 1)
            proxy.is_closed_after = False
            # What the caller does: it claims again, and reads.
            again = await store.claim("s1", "o1", now_ms=NOW_MS)
            assert numbers(await store.read("s1")) == [1]
            assert again == Claim("s1", "o1", epoch=2, last_seq=1)
            await store.aclose()

    play(story())


@pytest.mark.promise("J1")
@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize("is_given_anew", [False, True], ids=["free", "given anew"])
def test_a_commit_that_a_crash_of_the_server_loses_is_not_taken_for_another_with_its_number(
    tmp_path_factory: pytest.TempPathFactory, *, is_given_anew: bool
) -> None:
    async def story() -> None:
        # The log is written with a commit, and else as seldom as possible.
        with running_postgres(synchronous_commit="on", wal_writer_delay="10s") as server:
            proxy = Proxy(server.folder)

            def crash() -> None:
                server.restart()
                if is_given_anew:
                    with psycopg.connect(server.base, autocommit=True) as other:
                        for _ in range(100):
                            tell(other, "INSERT INTO others SELECT")

            async with proxy.listen(Path(tmp_path_factory.mktemp("pg"))) as address:
                store = await PostgresStore.open(address, schema=server.new_schema()[1])
                with psycopg.connect(server.base, autocommit=True) as other:
                    tell(other, "CREATE TABLE others ()")
                mine = await claim(store)
                proxy.cut_at, proxy.counts, proxy.at_cut = 0, b"COMMIT", crash
                if is_given_anew:
                    with pytest.raises(Ambiguous, match="may or may not"):
                        await write(store, mine, 1)
                    mine = await store.claim("s1", "o1", now_ms=NOW_MS)
                    assert mine.last_seq == 0
                await write(store, mine, 1)
                assert numbers(await store.read("s1")) == [1]
                await store.aclose()

    play(story())


@pytest.mark.promise("J1")
def test_a_server_that_is_killed_again_and_again_keeps_every_acknowledged_record_once() -> None:
    async def work(store: PostgresStore, name: str) -> list[int]:
        """Append until 40 records are acknowledged; return them."""
        mine, known = await store.claim(name, "o1", now_ms=NOW_MS), list[int]()
        while len(known) < 40:
            number = len(known)
            try:
                await store.append(Batch(mine, number, (draft(number),)))
            except (Ambiguous, Unavailable, Conflict):
                mine = await store.claim(name, "o1", now_ms=NOW_MS)
                if mine.last_seq == number:
                    continue
            known.append(number)
        return known

    async def story() -> None:
        with running_postgres(synchronous_commit="on") as server:
            address, schema = server.new_schema()
            store = await PostgresStore.open(address, schema=schema)
            await store.enlist("o1", now_ms=NOW_MS)
            names = [f"s{number}" for number in range(6)]
            working = asyncio.gather(*(work(store, name) for name in names))
            for _ in range(3):
                await asyncio.to_thread(server.restart)
            known = await working
            for name, facts in zip(names, known, strict=True):
                assert numbers(await store.read(name)) == facts
            every = await store.read_all(limit=1_000)
            assert len(every) == 6 * 40
            assert [one.position for one in every] == sorted({one.position or 0 for one in every})
            await store.aclose()

    play(story())


def late(place: Place, key_of: PostgresStore) -> PostgresTransaction:
    """Return a transaction of another process."""
    address, schema = place
    link = PostgresLink(parse_address(address, schema=schema))
    return PostgresTransaction(link, key_of._key, owners=LeaseOwners())  # pyright: ignore[reportPrivateUsage]


@pytest.mark.promise("F1")
def test_a_record_that_commits_late_is_not_skipped_by_the_feed_over_all_sessions(postgres: Postgres) -> None:
    async def story() -> None:
        place = postgres.new_schema()
        store = await PostgresStore.open(place[0], schema=place[1])
        slow, quick = await claim(store, "slow"), await claim(store, "quick")
        await write(store, quick, 1)
        # The slow one has its position before the next quick ones, and commits after them.
        other = late(place, store)
        batch = Batch(slow, 0, drafts(10))
        other.begin(())
        assert other.append(batch, encode_batch(batch)) == Appended(first_seq=1, first_position=2)
        assert (await write(store, quick, 2, after=1)).first_position == 3
        assert numbers(await store.read("quick")) == [1, 2]
        assert numbers(await store.read_all()) == [1]
        assert await store.last_position() == 1
        other._link.check()  # pyright: ignore[reportPrivateUsage]
        other._link.commit()  # pyright: ignore[reportPrivateUsage]
        assert numbers(await store.read_all(after=1)) == [10, 2]
        assert await store.last_position() == 3
        other._link.close()  # pyright: ignore[reportPrivateUsage]
        await store.aclose()

    play(story())


def test_an_undone_transaction_leaves_a_gap_and_the_feed_goes_on(postgres: Postgres) -> None:
    async def story() -> None:
        place = postgres.new_schema()
        store = await PostgresStore.open(place[0], schema=place[1])
        mine = await claim(store)
        other = late(place, store)
        batch = Batch(await claim(store, "s2"), 0, drafts(10))
        other.begin(())
        other.append(batch, encode_batch(batch))
        await write(store, mine, 1)
        assert await store.read_all() == ()
        other._link.rollback()  # pyright: ignore[reportPrivateUsage]
        assert [(one.position, one.seq) for one in await store.read_all()] == [(2, 1)]
        other._link.close()  # pyright: ignore[reportPrivateUsage]
        await store.aclose()

    play(story())


def test_an_inbox_item_that_commits_late_is_not_skipped(postgres: Postgres) -> None:
    async def story() -> None:
        place = postgres.new_schema()
        store = await PostgresStore.open(place[0], schema=place[1])
        await post(store, "a", "s1")
        with psycopg.connect(place[0]) as foreign:
            # A transaction of any kind that is older than the next item.
            foreign.execute("SELECT pg_current_xact_id()")
            await post(store, "b", "s2")
            seen = await store.arrivals(after=1)
            assert (seen.newest, seen.session_ids) == (1, frozenset({"s2"}))
        seen = await store.arrivals(after=seen.newest)
        assert (seen.newest, seen.session_ids) == (2, frozenset({"s2"}))
        await store.aclose()

    play(story())


@pytest.mark.parametrize("sqlstate", ["40001", "40P01", "23505", "55P03"])
def test_a_transaction_that_the_database_wants_repeated_is_repeated(
    postgres: Postgres, sqlstate: str
) -> None:
    async def story() -> None:
        address, schema = postgres.new_schema()
        store = await PostgresStore.open(address, schema=schema)
        with psycopg.connect(address, autocommit=True) as admin:
            tell(admin, f"SET search_path = {schema}")
            tell(admin, "CREATE SEQUENCE tries")
            tell(
                admin,
                f"""CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF nextval('{schema}.tries') <= 3 THEN
                    RAISE EXCEPTION 'again' USING ERRCODE = '{sqlstate}'; END IF;
                RETURN NEW; END $$""",
            )
            admin.execute(
                "CREATE TRIGGER fails BEFORE INSERT ON appends FOR EACH ROW EXECUTE FUNCTION fail()"
            )
        mine = await claim(store)
        await asyncio.gather(write(store, mine, 1), post(store, "a", "s2"), post(store, "b", "s3"))
        assert numbers(await store.read("s1")) == [1]
        assert (await store.arrivals(after=0)).session_ids == {"s2", "s3"}
        await store.aclose()

    play(story())


@pytest.mark.parametrize(
    "error", [errors.SerializationFailure(), errors.UniqueViolation(), errors.LockNotAvailable()]
)
def test_what_another_transaction_was_faster_with_is_no_damage(error: psycopg.Error) -> None:
    assert isinstance(translate(error, "the store"), Unavailable)


@pytest.mark.usefixtures("no_pauses")
def test_a_statement_that_always_fails_fails_its_own_request_alone(postgres: Postgres) -> None:
    async def story() -> None:
        address, schema = postgres.new_schema()
        store = await PostgresStore.open(address, schema=schema)
        with psycopg.connect(address, autocommit=True) as admin:
            tell(admin, f"SET search_path = {schema}")
            tell(admin, "ALTER TABLE items ADD CHECK (key != 'bad')")
        bad, good = await asyncio.gather(
            post(store, "bad", "s1"), post(store, "good", "s2"), return_exceptions=True
        )
        assert isinstance(bad, Exception)
        assert "bad" not in str(bad)
        assert bad.__cause__ is bad.__context__ is None
        assert isinstance(good, int)
        await store.aclose()

    play(story())


def test_a_server_without_a_free_connection_makes_reads_and_writes_unavailable_after_the_same_pauses(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused: list[int] = []

    def pause(_: object, attempt: int) -> None:
        paused.append(attempt)

    monkeypatch.setattr(postgres_writer.PostgresWriter, "pause", pause)

    async def story() -> None:
        database = postgres.new_database()
        name = database.split("?")[0].rsplit("/", 1)[1]
        with psycopg.connect(database, autocommit=True) as admin:
            tell(admin, "CREATE ROLE few LOGIN")
            tell(admin, f"GRANT ALL ON DATABASE {name} TO few")
            store = await PostgresStore.open(database.replace("postgres@", "few@"))
            tell(admin, "ALTER ROLE few CONNECTION LIMIT 0")
            tell(admin, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'few'")
            with pytest.raises(Unavailable, match="too many connections"):
                await store.enlist("o1", now_ms=NOW_MS)
            with pytest.raises(Unavailable, match="too many connections"):
                await store.session("s1")
            assert paused == 2 * [*range(1, postgres_writer.ATTEMPTS_MAX)]
            tell(admin, "ALTER ROLE few CONNECTION LIMIT -1")
            await store.enlist("o1", now_ms=NOW_MS)
            await store.aclose()
            tell(admin, "DROP OWNED BY few")
            tell(admin, "DROP ROLE few")

    play(story())


def test_reads_have_a_limit(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_store, "WAITING_READS_MAX", 2)

    async def story() -> None:
        address, schema = postgres.new_schema()
        store = await PostgresStore.open(address, schema=schema)
        async with asyncio.TaskGroup() as group:
            with psycopg.connect(address) as admin:
                tell(admin, f"LOCK TABLE {schema}.sessions IN ACCESS EXCLUSIVE MODE")
                tasks = [group.create_task(store.session("s1")) for _ in range(2)]
                await asyncio.gather(*(asyncio.sleep(0) for _ in range(3)))
                with pytest.raises(Unavailable, match="too many reads are waiting: 2"):
                    await store.session("s1")
        assert [task.result() for task in tasks] == [None, None]
        assert await store.session("s1") is None
        await store.aclose()

    play(story())


def test_writes_that_wait_have_a_limit(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_writer, "WAITING_JOBS_MAX", 2)

    async def story() -> None:
        address, schema = postgres.new_schema()
        store = await PostgresStore.open(address, schema=schema)
        with psycopg.connect(address) as admin:
            tell(admin, f"LOCK TABLE {schema}.sessions IN ACCESS EXCLUSIVE MODE")
            # Both writers take at most two, and two wait.
            tasks = [asyncio.create_task(post(store, "k", f"s{number}")) for number in range(7)]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        refused = [outcome for outcome in outcomes if not isinstance(outcome, int)]
        assert 1 <= len(refused) <= 5
        assert {str(one) for one in refused} == {
            "too many writes are waiting: 2, nothing was written: try again"
        }
        await store.aclose()

    play(story())


def test_a_schema_of_another_version_is_refused_with_what_to_do(postgres: Postgres) -> None:
    async def story() -> None:
        address, schema = postgres.new_schema()
        await (await PostgresStore.open(address, schema=schema)).aclose()
        with psycopg.connect(address, autocommit=True) as admin:
            tell(admin, f"UPDATE {schema}.store SET version = 99")
            with pytest.raises(
                Rejected, match=f"schema version 99, this release knows up to {NEWEST}: use a newer"
            ):
                await PostgresStore.open(address, schema=schema)

    play(story())


def test_a_store_of_the_first_version_shows_its_runs_as_before_after_it_was_migrated(
    postgres: Postgres,
) -> None:
    async def story() -> None:
        address, schema = postgres.new_schema()
        store = await PostgresStore.open(address, schema=schema)
        await three(store)
        before = await store.list_runs(RunFilter())
        await store.aclose()
        with psycopg.connect(address, autocommit=True) as admin:
            tell(admin, f"SET search_path = {schema}")
            tell(admin, "DROP INDEX catalog_by_update, catalog_by_cost")
            tell(admin, "DROP TABLE asked_of")
            tell(admin, "ALTER TABLE asked RENAME COLUMN request TO body")
            tell(admin, "DROP TABLE run_tags")
            for name in RUN_COLUMNS.split(", ")[10:-1]:
                tell(admin, f"ALTER TABLE runs DROP COLUMN {name}")
            tell(admin, "ALTER TABLE runs RENAME COLUMN used TO usage")
            tell(admin, "CREATE INDEX runs_by_start ON runs (started_at)")
            tell(admin, "UPDATE store SET version = 1")
        with pytest.raises(Rejected, match="run windlass migrate"):
            await PostgresStore.open(address, schema=schema)
        assert migrate_tables(parse_address(address, schema=schema), is_trial=False) == (1, NEWEST)
        store = await PostgresStore.open(address, schema=schema)
        assert await store.list_runs(RunFilter()) == before
        await store.aclose()

    play(story())


def test_a_store_that_was_restored_into_another_cluster_shows_its_records(postgres: Postgres) -> None:
    async def story() -> None:
        address, schema = postgres.new_schema()
        store = await PostgresStore.open(address, schema=schema)
        await write(store, await claim(store), 1)
        await store.aclose()
        with psycopg.connect(address, autocommit=True) as admin:
            # The other cluster had counted more transactions.
            tell(admin, f"UPDATE {schema}.appends SET horizon = 4000000000")
            tell(admin, f"SELECT setval('{schema}.horizons', 4000000000)")
        store = await PostgresStore.open(address, schema=schema)
        mine = await claim(store)
        assert numbers(await store.read_all()) == [1]
        await write(store, mine, 2, after=1)
        assert numbers(await store.read_all()) == [1, 2]
        await store.aclose()

    play(story())


def test_a_schema_and_its_role_may_be_a_word_of_sql(postgres: Postgres) -> None:
    async def story() -> None:
        store = await PostgresStore.open(f"{postgres.new_database()}&roles=on", schema="select")
        ask = PermitAsk("acme", "one", 1, at_once=1, per_minute=None, tokens_per_minute=None, held=0, wants=1)
        assert (await store.take_permits(ask)).count == 1
        await write(store, await claim(store), 1)
        await store.aclose()

    play(story())


def test_a_migration_may_take_longer_than_a_statement_of_a_run(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        address, schema = postgres.new_schema()
        await (await PostgresStore.open(address, schema=schema)).aclose()
        step = "CREATE TABLE limits AS SELECT current_setting('statement_timeout') AS of_a_statement"
        monkeypatch.setattr(postgres_schema, "MIGRATIONS", (*postgres_schema.MIGRATIONS, (step,)))
        await asyncio.to_thread(migrate_tables, parse_address(address, schema=schema), is_trial=False)
        with psycopg.connect(address) as admin:
            found = admin.execute(f"SELECT of_a_statement FROM {schema}.limits".encode()).fetchall()
            assert found == [("0",)]

    play(story())


def test_a_machine_with_a_wrong_clock_takes_no_session_and_loses_none(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        address, schema = postgres.new_schema()
        right, wrong = [await PostgresStore.open(address, schema=schema) for _ in range(2)]
        for off_ms in (120_000, -120_000):
            now_ms, theirs, mine = postgres_store.machine_ms(), f"right {off_ms}", f"wrong {off_ms}"
            before_ms = wrong.ahead_ms
            await right.enlist(theirs, now_ms=now_ms)
            await right.claim("taken", theirs, now_ms=now_ms)
            with monkeypatch.context() as machine:
                machine.setattr(postgres_store, "machine_ms", lambda now_ms=now_ms + off_ms: now_ms)
                # The clock was set since it was last compared: the heartbeat has the right time.
                await wrong.enlist(mine, now_ms=now_ms + off_ms + before_ms)
                assert abs(wrong.ahead_ms + off_ms) < 1_000
                store_ms = now_ms + off_ms + wrong.ahead_ms
                with pytest.raises(Conflict, match="belongs to"):
                    await wrong.claim("taken", mine, now_ms=store_ms)
                await wrong.claim("free", mine, now_ms=store_ms)
            await right.enlist(theirs, now_ms=now_ms)
            with pytest.raises(Conflict, match="belongs to"):
                await right.claim("free", theirs, now_ms=now_ms)
            await right.retire(theirs)
            await wrong.retire(mine)
        for store in (right, wrong):
            await store.aclose()

    play(story())


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("postgresql://nobody-here@/postgres", "refuses the connection"),
        ("postgresql://postgres@/nothing", "refuses the connection"),
        ("postgresql://u:s3cret@host/db?nonsense=1", "the address is not valid"),
        ("postgresql://u:s3cret@host/db?schema=pg_mine", "does not begin with pg_"),
        ("postgresql://u:p@s3cret@host/db", "percent-encode"),
        ("postgresql://u:p/s3cret@host/db", "percent-encode"),
        ("postgresql://u:s3cret@:99999/db", "invalid port number"),
        ("postgresql+psycopg://u:s3cret@host/db", "an address of another form"),
    ],
)
def test_a_wrong_address_is_told_without_its_password(postgres: Postgres, address: str, words: str) -> None:
    async def story() -> None:
        whole = address if "?" in address else f"{address}?host={postgres.folder}"
        with pytest.raises(Rejected, match=words) as caught:
            await open_store(whole)
        assert "s3cret" not in repr(caught.value)

    play(story())


def test_a_text_with_a_null_character_comes_back_as_it_was(postgres: Postgres) -> None:
    async def story() -> None:
        address, schema = postgres.new_schema()
        store = await PostgresStore.open(address, schema=schema)
        odd = "a\0b\uf8ff0\uf8ff"
        ref = await store.put(b"x", media_type=odd, session_id="s1")
        [found] = await store.contents_of("s1")
        assert (found.hash, found.media_type) == (ref.hash, odd)
        mine = await claim(store)
        await store.append(Batch(mine, 0, (replace(draft(1), data={"number": 1, "text": odd}),)))
        assert [one.data["text"] for one in await store.read("s1")] == [odd]
        await store.aclose()

    play(story())


def test_a_defect_in_a_read_leaves_no_transaction_open(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(reads: PostgresReads, _: str) -> None:
        reads.last_position()
        raise LookupError("a defect")

    async def story() -> None:
        address, schema = postgres.new_schema()
        store = await PostgresStore.open(address, schema=schema)
        with monkeypatch.context() as patched:
            patched.setattr(PostgresReads, "session", broken)
            with pytest.raises(LookupError):
                await store.session("s1")
        assert [link.is_broken for link in store._links] == [True]  # pyright: ignore[reportPrivateUsage]
        assert await store.session("s1") is None
        await store.aclose()

    play(story())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_defect_in_the_writer_fails_what_waits_and_writes_nothing(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise LookupError("a defect")

    async def story() -> None:
        address, schema = postgres.new_schema()
        store = await PostgresStore.open(address, schema=schema)
        mine = await claim(store)
        with monkeypatch.context() as patched:
            patched.setattr(PostgresTransaction, "append", broken)
            outcomes = await asyncio.gather(
                *(write(store, mine, number) for number in range(200)), return_exceptions=True
            )
        assert all(isinstance(one, Unavailable) for one in outcomes)
        with pytest.raises(Unavailable, match="open it again"):
            await write(store, mine, 1)
        assert await store.read("s1") == ()
        await store.aclose()

    play(story())


def test_a_heartbeat_and_the_burial_of_a_dead_owner_wait_for_no_session(postgres: Postgres) -> None:
    async def story() -> None:
        address, schema = postgres.new_schema()
        store, other = [await PostgresStore.open(address, schema=schema) for _ in range(2)]
        for name in ("locked", "free"):
            mine = await claim(store, name, "dead")
            await write(store, mine, 1, standing=Standing.RUNNING)
        later_ms = NOW_MS + OWNER_LEASE_MS
        with psycopg.connect(address) as admin:
            tell(admin, f"SELECT 1 FROM {schema}.sessions WHERE session_id = 'locked' FOR UPDATE")
            # Both are at once: nothing ends the transaction of the other application.
            await other.enlist("o2", now_ms=later_ms)
            assert await other.due(now_ms=later_ms) == ("free",)
            assert await other.living(now_ms=later_ms) == {"o2"}
        assert await other.due(now_ms=later_ms) == ("locked", "free")
        with psycopg.connect(address) as admin:
            assert admin.execute(f"SELECT owner_id FROM {schema}.leases".encode()).fetchall() == [("o2",)]
        for opened in (store, other):
            await opened.aclose()

    play(story())


def test_a_writer_has_a_limit_for_its_transaction_on_a_server_that_knows_one(postgres: Postgres) -> None:
    async def story() -> None:
        address, schema = postgres.new_schema()
        parsed = parse_address(address, schema=schema)
        for is_writer, limit in ((True, "1min"), (False, "0")):
            writer = PostgresLink(parsed, is_writer=is_writer)
            writer.begin()
            assert writer.execute("SHOW transaction_timeout").fetchall() == [(limit,)]
            writer.commit()
            assert writer.execute("SHOW transaction_timeout").fetchall() == [("0",)]
            writer.close()

    play(story())


def test_a_transaction_that_the_server_ends_is_a_lost_connection(postgres: Postgres) -> None:
    writer = PostgresLink(parse_address(postgres.new_database(), schema="windlass"))
    writer.begin()
    writer.execute("SET transaction_timeout = '1ms'")
    with pytest.raises(psycopg.Error) as failure:
        writer.execute("SELECT pg_sleep(10)").fetchall()
    assert is_lost(failure.value)
    writer.close()
