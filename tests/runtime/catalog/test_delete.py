"""Deleting a session removes all its data, and ends its open readers with an error."""

import asyncio
from pathlib import Path

import pytest
from tests.runtime.catalog.rig import PAYS, agent, approve, play, until

from windlass import AgentRuntime
from windlass.errors import Conflict
from windlass.ledger import BuilderQuery
from windlass.ports.feed import CursorExpired, StreamOptions
from windlass.testing import call, say
from windlass_protocol import RunStatus, SessionCursor


@pytest.fixture(params=["memory", "sqlite"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "memory" else tmp_path / "app.db"


def test_a_session_with_a_run_under_way_is_deleted_only_after_it_was_cancelled(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        handle = await runtime.start_run("clerk", "Pay.", session_id="s1", run_id="r1")
        await until(handle, "run.waiting")
        with pytest.raises(Conflict, match="cancel it first"):
            await runtime.sessions.delete("s1")
        await handle.cancel()
        assert (await handle.wait()).status is RunStatus.CANCELLED
        assert await runtime.sessions.delete("s1") == ("s1",)
        for gone in (runtime.sessions.get("s1"), handle.status(), runtime.sessions.state("s1")):
            with pytest.raises(Conflict):
                await gone
        with pytest.raises(Conflict, match="was deleted"):
            await runtime.start_run("clerk", "again", session_id="s1", run_id="r1")
        other = await runtime.start_run("clerk", "again", session_id="s2", run_id="r1")
        await until(other, "run.waiting")
        await approve(other)
        assert (await other.wait()).status is RunStatus.COMPLETED

    play(story, path, agent(*PAYS))


def test_a_session_can_be_deleted_as_soon_as_its_run_has_ended(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        for number in range(20):
            await (await runtime.start_run("clerk", "go", session_id=f"s{number}")).wait()
            await runtime.sessions.delete(f"s{number}")
        assert (await runtime.sessions.list()).items == (await runtime.sessions.runs()).items == ()

    play(story, path, agent())


def test_readers_of_a_deleted_session_end_with_an_error_and_others_read_on(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        await (await runtime.start_run("clerk", "go", session_id="s1")).wait()
        await (await runtime.start_run("clerk", "go", session_id="s2")).wait()
        last = (await runtime.sessions.records("s1"))[-1].seq
        behind = runtime.sessions.subscribe("s1", SessionCursor(session_id="s1", seq=last))
        middle = runtime.sessions.subscribe("s1", SessionCursor(session_id="s1", seq=2))
        everything = runtime.subscribe_all()
        for stream in (behind, middle):
            await stream.open()
        first = await anext(everything)
        assert first.session_id == "s1"
        await runtime.sessions.delete("s1")
        for stream in (behind, middle):
            with pytest.raises(CursorExpired):
                async for _ in stream:
                    pass
        stored = StreamOptions(follow=False)
        rest = [event.session_id async for event in runtime.events().subscribe_all(options=stored)]
        assert set(rest) == {"s2"}
        handle = await runtime.start_run("clerk", "go", session_id="s3")
        async for event in everything:
            if event.session_id == "s3":
                break
        await handle.wait()

    play(story, path, agent())


def test_a_reader_that_begins_before_or_after_the_deletion_is_told_of_it(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        handle = await runtime.start_run("clerk", "go", session_id="s1", run_id="r1")
        await handle.wait()
        last = (await runtime.sessions.records("s1"))[-1].seq
        opened = runtime.sessions.subscribe("s1")
        await opened.open()
        of_run = handle.events()
        await of_run.open()
        await runtime.sessions.delete("s1")
        later = [
            runtime.sessions.subscribe("s1"),
            runtime.sessions.subscribe("s1", SessionCursor(session_id="s1", seq=0)),
            runtime.sessions.subscribe("s1", SessionCursor(session_id="s1", seq=2)),
            runtime.sessions.subscribe("s1", SessionCursor(session_id="s1", seq=last)),
        ]
        for stream in (opened, *later):
            with pytest.raises(CursorExpired, match="cursor_expired: the session was deleted"):
                async for _ in stream:
                    pass
        assert [event.type async for event in of_run][-1] == "run.completed", "it was read before"
        with pytest.raises(Conflict, match="unknown run: r1"):
            await anext(runtime.subscribe_run("r1"))
        early = runtime.sessions.subscribe("s2")
        await early.open()
        await (await runtime.start_run("clerk", "go", session_id="s2")).wait()
        assert (await anext(early)).type == "session.started", "a session that never was may still come"

    play(story, path, agent())


def test_the_sessions_of_subagents_go_with_their_caller(path: Path | None) -> None:
    boss = agent(
        call("helper", {"message": "Look."}),
        say("Seen."),
        name="boss",
        subagents=[agent(call("look", {"item": "bill"}), say("There."), name="helper")],
    )

    async def story(runtime: AgentRuntime) -> None:
        await (await runtime.start_run("boss", "go", session_id="top")).wait()
        [child] = await runtime.sessions.descendants("top")
        assert await runtime.sessions.delete("top") == ("top", child.session_id)
        assert (await runtime.sessions.list(root_only=False)).items == ()

    play(story, path, boss)


def test_nothing_that_was_said_is_left_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "app.db"

    async def story(runtime: AgentRuntime) -> None:
        handle = await runtime.start_run("clerk", "xylophone quark", session_id="s1")
        await handle.wait()
        await (await runtime.start_run("clerk", "other", session_id="s2")).wait()

    play(story, path, agent())
    assert b"xylophone" in path.read_bytes()

    async def delete(runtime: AgentRuntime) -> None:
        await runtime.sessions.delete("s1")

    play(delete, path, agent())
    assert b"xylophone" not in path.read_bytes()
    assert not path.with_name("app.db-wal").exists()


def test_the_ledger_over_all_runs_forgets_a_deleted_session_and_does_not_count_a_fork(
    path: Path | None,
) -> None:
    async def story(runtime: AgentRuntime) -> None:
        query = BuilderQuery(runtime=runtime)

        def found() -> list[tuple[str, int]]:
            runs = query.list_runs_for_goal("g")
            return sorted((run.run_id, run.decision_count) for run in runs)

        await (await runtime.start_run("clerk", "go", session_id="s1", run_id="r1", goal_id="g")).wait()
        await (await runtime.start_run("clerk", "go", session_id="s2", run_id="r2", goal_id="g")).wait()
        before = await asyncio.to_thread(found)
        assert [name for name, _ in before] == ["r1", "r2"]
        await runtime.sessions.fork("s1", at=5, session_id_new="s3")
        assert await asyncio.to_thread(found) == before
        await runtime.sessions.delete("s1")
        assert await asyncio.to_thread(found) == before[1:]
        assert await asyncio.to_thread(query.get_run_summary, "r1") is None
        await asyncio.to_thread(query.close)

    play(story, path, agent())


def test_an_export_of_a_session_that_is_deleted_meanwhile_ends_without_its_last_line(
    path: Path | None,
) -> None:
    async def export(runtime: AgentRuntime, name: str, kind: str) -> None:
        handle = await runtime.start_run("clerk", "go", session_id=name)
        await handle.wait()
        async for line in runtime.sessions.export(name):
            assert '"kind":"end"' not in line
            if line.startswith(f'{{"kind":"{kind}"'):
                await runtime.sessions.delete(name)
                kind = "none"

    async def story(runtime: AgentRuntime) -> None:
        for kind in ("header", "append", "item", "content"):
            with pytest.raises(Conflict, match="was deleted during the export"):
                await export(runtime, f"s-{kind}", kind)

    play(story, path, agent(call("look", {"item": "book"}), say("Long.")))
