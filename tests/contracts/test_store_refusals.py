"""The contract of the audit of refused starts, in every store."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.contracts.stores import (
    AT,
    NOW_MS,
    AnyStore,
    Play,
    Story,
    claim,
    play_in_memory,
    play_on_sqlite,
    post,
)

from windlass.errors import Unavailable
from windlass.ports.journal import Batch, Standing
from windlass.ports.listing import RefusedStart
from windlass.sqlite.schema import MIGRATIONS, connect, prepare
from windlass.sqlite.store import SqliteStore
from windlass_protocol import (
    ErrorCode,
    ErrorKind,
    PolicyKind,
    PolicyRef,
    RetryClass,
    RunStatus,
    SourceKind,
    SourceRef,
    TrustClass,
)

KEPT = 4
"""How many refused starts the stores of these tests keep."""


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    """A way to let a story happen to a fresh store that keeps few refused starts."""
    if request.param == "memory":
        return partial(play_in_memory, refusals_max=KEPT)
    if request.param == "postgres":
        return partial(request.getfixturevalue("postgres_stores").play, refusals_max=KEPT)

    def play(story: Story) -> None:
        play_on_sqlite(story, tmp_path / "store.db", refusals_max=KEPT)

    return play


def refused(run_id: str | None = "r1", **parts: str | None) -> RefusedStart:
    whole = RefusedStart(
        at=AT,
        run_id=run_id,
        session_id=None,
        agent_id="a1",
        owner=None,
        source=None,
        code=ErrorCode.DENIED,
        kind=ErrorKind.POLICY_DENIAL,
        retry=RetryClass.USER_ACTION_NEEDED,
        message="closed",
    )
    return replace(whole, **parts)


@pytest.mark.parametrize("source", [None, SourceRef(kind=SourceKind.USER, id="ann")])
@pytest.mark.parametrize("code", [None, "policy.night"])
def test_a_refusal_of_a_policy_keeps_its_code_and_its_references(
    play: Play, source: SourceRef | None, code: str | None
) -> None:
    refs = (PolicyRef(kind=PolicyKind.PERMISSION, id="night", version="2"),)
    entry = replace(refused(), source=source, policy_code=code, policy_refs=refs if code else ())

    async def story(store: AnyStore, other: AnyStore) -> None:
        await store.record_refusal(entry)
        [kept] = await other.list_refusals()
        assert replace(kept, number=0) == entry

    play(story)


async def runs(store: AnyStore, **wanted: str | int) -> list[str | None]:
    return [one.run_id for one in await store.list_refusals(**wanted)]  # pyright: ignore[reportArgumentType] - options by name


def test_a_refused_start_comes_back_as_it_was_written(play: Play) -> None:
    whole = replace(
        refused(session_id="s/1", owner="ann"),
        source=SourceRef(kind=SourceKind.USER, id="ann", trust=TrustClass.UNTRUSTED),
        code=ErrorCode.CONFLICT,
        kind=ErrorKind.INVALID_STATE_TRANSITION,
        retry=RetryClass.NOT_RETRYABLE,
        message="ünsinn",
    )
    least = replace(refused(None, agent_id=None), message="")

    async def story(store: AnyStore, other: AnyStore) -> None:
        assert await store.list_refusals() == ()
        await store.record_refusal(whole)
        await other.record_refusal(least)
        newer, older = await store.list_refusals()
        assert (newer, older) == (replace(least, number=newer.number), replace(whole, number=older.number))
        assert newer.number > older.number

    play(story)


def test_only_the_newest_are_kept_and_numbers_are_never_used_again(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        for number in range(3 * KEPT):
            await (store if number % 2 else other).record_refusal(refused(f"r{number}"))
        found = await other.list_refusals(limit=100)
        assert [one.run_id for one in found] == [f"r{3 * KEPT - 1 - at}" for at in range(KEPT)]
        await post(store, "k1", run_id="r11")
        mine = await claim(store)
        ended = (("r11", RunStatus.CANCELLED),)
        await store.append(Batch(mine, 0, (), standing=Standing.IDLE, runs=ended, is_last=True))
        await store.delete("s1", now_ms=NOW_MS)
        await store.record_refusal(refused("next"))
        newest, *_ = await other.list_refusals()
        assert newest.run_id == "next"
        assert newest.number > found[0].number

    play(story)


def test_pages_and_filters_leave_out_the_others(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        for run_id, owner, agent_id in (
            ("r1", "ann", "a1"),
            ("r2", "bob", "a1"),
            ("r3", "ann", "a2"),
            ("r4", None, "a2"),
        ):
            await store.record_refusal(refused(run_id, owner=owner, agent_id=agent_id))
        assert await runs(other) == ["r4", "r3", "r2", "r1"]
        assert await runs(other, owner="ann") == ["r3", "r1"]
        assert await runs(other, agent_id="a1") == ["r2", "r1"]
        assert await runs(other, owner="ann", agent_id="a1") == ["r1"]
        assert await runs(other, owner="eve") == []
        first = await other.list_refusals(limit=2)
        assert await runs(other, before=first[-1].number, limit=2) == ["r2", "r1"]
        assert await runs(other, before=first[-1].number, owner="ann") == ["r1"]

    play(story)


def test_entries_that_name_a_deleted_session_or_one_of_its_runs_are_deleted_with_it(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await post(store, "k1", run_id="r1")
        mine = await claim(store)
        ended = (("r1", RunStatus.CANCELLED),)
        await store.append(Batch(mine, 0, (), standing=Standing.IDLE, runs=ended, is_last=True))
        await store.record_refusal(refused("x1", session_id="s1"))
        await store.record_refusal(refused("r1", session_id="s2"))
        await store.record_refusal(refused("x3", session_id="s2"))
        await store.record_refusal(refused("x4"))
        assert await store.delete("s1", now_ms=NOW_MS) == ("s1",)
        assert await runs(other) == ["x4", "x3"]

    play(story)


def test_a_closed_store_takes_none(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await store.aclose()
        with pytest.raises(Unavailable):
            await store.record_refusal(refused())
        with pytest.raises(Unavailable):
            await store.list_refusals()

    play(story)


def test_an_older_file_gets_the_audit_when_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    connection = connect(path)
    prepare(connection, path, durability="process", migrations=MIGRATIONS[:6])
    connection.close()

    async def story(store: AnyStore, other: AnyStore) -> None:
        await store.record_refusal(refused())
        assert await runs(other) == ["r1"]

    play_on_sqlite(story, path)


def test_the_bytes_of_a_deleted_entry_are_not_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def story(store: AnyStore, other: AnyStore) -> None:
        assert isinstance(store, SqliteStore)
        await post(store, "k1", run_id="r1")
        mine = await claim(store)
        ended = (("r1", RunStatus.CANCELLED),)
        await store.append(Batch(mine, 0, (), standing=Standing.IDLE, runs=ended, is_last=True))
        await store.record_refusal(refused("x1", session_id="s1", message="personal-words"))
        await store.delete("s1", now_ms=NOW_MS)

    play_on_sqlite(story, path)
    assert b"personal-words" not in path.read_bytes()
