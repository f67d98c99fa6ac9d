"""AgentSession documents are a view of the journal."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.catalog.rig import PAYS, agent, approve, lines_of, opened, play, until

from windlass import AgentRuntime
from windlass.catalog import SessionStatus
from windlass.errors import Conflict, Rejected
from windlass.testing import say
from windlass_protocol import AgentSessionChange, RunStatus


@pytest.fixture(params=["memory", "sqlite"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "memory" else tmp_path / "app.db"


async def listed(runtime: AgentRuntime, **filters: str | bool | int) -> list[str]:
    page = await runtime.sessions.agent_sessions.list(**filters)  # pyright: ignore[reportArgumentType] - filters by name
    return [session.session_id for session in page.items]


def test_a_session_without_a_run_is_journaled_listed_and_the_first_run_goes_on_in_it(
    path: Path | None,
) -> None:
    async def story(runtime: AgentRuntime) -> None:
        session = await runtime.sessions.agent_sessions.create(
            "chat", session_id="trip", user_id="ada", current_stage="PLANNING", stage_data={"n": 1}
        )
        assert (session.user_id, session.chat_id, session.current_stage) == ("ada", "chat", "PLANNING")
        assert (session.stage_data, session.is_active) == ({"n": 1}, True)
        assert [record.type for record in await runtime.sessions.records("trip")] == ["session.state_changed"]
        assert (await runtime.sessions.get("trip")).status is SessionStatus.IDLE
        assert (await runtime.sessions.history("trip")).items == ()
        assert await listed(runtime) == ["trip"]
        handle = await runtime.start_run("clerk", "Pay.", session_id="trip")
        await until(handle, "run.waiting")
        assert await listed(runtime, active_only=True) == ["trip"]
        await approve(handle)
        assert (await handle.wait()).status is RunStatus.COMPLETED
        types = [record.type for record in await runtime.sessions.records("trip")]
        assert types[:3] == ["session.state_changed", "session.started", "run.started"]
        ended = await runtime.sessions.agent_sessions.get("trip")
        assert not ended.is_active
        assert ended.model_copy(update={"is_active": True, "updated_at": session.updated_at}) == session
        assert await listed(runtime, active_only=True) == []
        assert (await runtime.sessions.get("trip")).title == "Pay."

    play(story, path, agent(*PAYS))


def test_the_same_request_is_the_same_session_and_another_of_its_id_is_refused(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        create = runtime.sessions.agent_sessions.create
        first = await create("chat", session_id="trip", stage_data={"password": "hunter2-hunter2"})
        assert "hunter2" not in str(first.stage_data)
        assert await create("chat", session_id="trip", stage_data={"password": "hunter2-hunter2"}) == first
        with pytest.raises(Conflict, match="another session has the id trip"):
            await create("other", session_id="trip")
        assert (await create("chat")).session_id != (await create("chat")).session_id
        assert len(await listed(runtime)) == 3
        await runtime.sessions.delete("trip")
        assert len(await listed(runtime)) == 2
        with pytest.raises(Conflict, match="deleted"):
            await create("chat", session_id="trip")

    play(story, path, agent())


def test_a_session_that_a_run_made_is_listed_if_the_run_named_it(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        await (await runtime.start_run("clerk", "hi", session_id="named", owner="ann")).wait()
        await (await runtime.start_run("clerk", "hi", run_id="r1")).wait()
        [found] = (await runtime.sessions.agent_sessions.list()).items
        assert (found.session_id, found.chat_id, found.user_id) == ("named", "named", "ann")
        assert (found.current_stage, found.is_active) == ("START", False)
        assert (await runtime.sessions.agent_sessions.get("session:r1")).user_id == "local"
        with pytest.raises(Conflict):
            await runtime.sessions.agent_sessions.get("nobody")

    play(story, path, agent())


def test_sessions_are_listed_newest_first_filtered_and_up_to_a_limit(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        for number in range(210):
            chat, user = f"c{number % 2}", "ada" if number < 5 else "bob"
            await runtime.sessions.agent_sessions.create(chat, session_id=f"s{number:03}", user_id=user)
        assert await listed(runtime, limit=2) == ["s209", "s208"]
        assert await listed(runtime, user_id="ada", limit=1_000) == ["s004", "s003", "s002", "s001", "s000"]
        assert await listed(runtime, user_id="ada", chat_id="c1", limit=9) == ["s003", "s001"]
        assert len(await listed(runtime, limit=1_000)) == 210
        names: list[str] = []
        after: str | None = None
        while after is not None or not names:
            page = await runtime.sessions.agent_sessions.list(chat_id="c1", after=after, limit=7)
            names += [session.session_id for session in page.items]
            after = page.next
        assert names == [f"s{number:03}" for number in range(209, 0, -2)]

    play(story, path, agent())


def test_forks_and_imports_of_a_session_keep_its_chat_and_user(tmp_path: Path) -> None:
    async def story(runtime: AgentRuntime) -> None:
        await runtime.sessions.agent_sessions.create("chat", session_id="s1", user_id="ada")
        await runtime.sessions.fork("s1", session_id_new="fork")
        assert (await runtime.sessions.agent_sessions.get("fork")).user_id == "ada"
        await (await runtime.start_run("clerk", "hi", session_id="fork")).wait()
        lines = await lines_of(runtime, "s1")
        async with opened(None, agent()) as other:
            await other.sessions.import_(lines)
            assert await other.sessions.agent_sessions.get("s1") == await runtime.sessions.agent_sessions.get(
                "s1"
            )

    play(story, tmp_path / "app.db", agent(say("hello")))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"session_id": "notes:x"}, "notes"),
        ({"session_id": "session:subagent:x"}, "subagents"),
        ({"session_id": "sk-ant-api03-0123456789abcdef0123456789abcdef"}, "would be masked"),
        ({"user_id": 5}, "userId"),
        ({"stage_data": {"x": "y" * 300_000}}, "limit 262,144"),
    ],
)
def test_a_session_that_cannot_be_kept_is_refused_and_nothing_is_written(
    fields: dict[str, object], words: str
) -> None:
    async def story(runtime: AgentRuntime) -> None:
        with pytest.raises(Rejected, match=words):
            await runtime.sessions.agent_sessions.create("chat", **fields)  # pyright: ignore[reportArgumentType] - wrong on purpose
        assert await listed(runtime) == []

    play(story, None, agent())


def test_the_stage_of_a_session_changes_with_and_without_a_run(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        sessions = runtime.sessions.agent_sessions
        made = await sessions.create("chat", session_id="trip", current_stage="PLANNING", stage_data={"n": 1})
        found = await sessions.update("trip", AgentSessionChange(current_stage="PAYING", next_stage="DONE"))
        assert (found.current_stage, found.next_stage, found.stage_data) == ("PAYING", "DONE", {"n": 1})
        assert (found.chat_id, found.created_at) == (made.chat_id, made.created_at)
        assert found.updated_at >= made.updated_at
        handle = await runtime.start_run("clerk", "Pay.", session_id="trip")
        await until(handle, "run.waiting")
        found = await sessions.update("trip", AgentSessionChange(stage_data={"n": 2}))
        assert (found.current_stage, found.next_stage, found.stage_data) == ("PAYING", "DONE", {"n": 2})
        await approve(handle)
        await handle.wait()
        found = await sessions.update("trip", AgentSessionChange(current_stage="DONE", next_stage=None))
        assert (found.current_stage, found.next_stage, found.is_active) == ("DONE", None, False)
        assert (await sessions.list()).items == (found,)
        # Every change is in the journal, in its order.
        stream = runtime.events().subscribe_session("trip")
        told: list[object] = []
        async for event in stream:
            if event.type == "session.state_changed":
                told.append(event.data["set"])
            if len(told) == 4:
                break
        await stream.aclose()
        assert ["windlass.session.currentStage" in str(one) for one in told] == [False, True, False, True]
        assert ["PAYING" in str(one) for one in told] == [False, True, False, False]

    play(story, path, agent(*PAYS))


def test_an_update_is_shown_before_its_record_is_written_and_survives_a_restart(
    tmp_path: Path,
) -> None:
    path = tmp_path / "app.db"

    async def story(runtime: AgentRuntime) -> None:
        await (await runtime.start_run("clerk", "hi", session_id="named")).wait()
        store = runtime.core.ports.store
        assert store is not None
        # The session is claimed by another process: no driver of ours takes its inbox.
        now_ms = time.time_ns() // 1_000_000
        await store.enlist("another process", now_ms=now_ms)
        await store.claim("named", "another process", now_ms=now_ms)
        before = await runtime.sessions.records("named")
        for number in range(3):
            change = AgentSessionChange(
                current_stage=f"S{number}", stage_data={"password": "hunter2-hunter2"}
            )
            found = await runtime.sessions.agent_sessions.update("named", change)
            assert found.current_stage == f"S{number}"
            assert (await runtime.sessions.agent_sessions.list()).items == (found,)
        assert await runtime.sessions.records("named") == before
        waiting = await store.pending("named")
        assert len(waiting) == 3
        assert "hunter2" not in str(waiting)
        await store.retire("another process")

    async def again(runtime: AgentRuntime) -> None:
        found = await runtime.sessions.agent_sessions.get("named")
        assert (found.current_stage, found.chat_id) == ("S2", "named")

    play(story, path, agent(say("hello")))
    play(again, path, agent())


def test_updates_of_different_fields_never_undo_each_other(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        update = runtime.sessions.agent_sessions.update
        await runtime.sessions.agent_sessions.create("chat", session_id="trip")
        changes = (
            AgentSessionChange(current_stage="B"),
            AgentSessionChange(next_stage="C"),
            AgentSessionChange(stage_data={"password": "hunter2-hunter2", "n": 3}),
        )
        await asyncio.gather(*(update("trip", change) for change in changes))
        found = await runtime.sessions.agent_sessions.get("trip")
        assert (found.current_stage, found.next_stage) == ("B", "C")
        assert found.stage_data is not None
        assert found.stage_data["n"] == 3
        assert "hunter2" not in str(found.stage_data)
        assert await update("trip", AgentSessionChange()) == found

    play(story, path, agent())


def test_an_update_that_does_not_fit_is_refused_and_changes_nothing(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        update: Any = runtime.sessions.agent_sessions.update
        before = await runtime.sessions.agent_sessions.create("chat", session_id="trip")
        with pytest.raises(Conflict, match="unknown session"):
            await update("other", AgentSessionChange(current_stage="B"))
        with pytest.raises(Conflict, match="unknown session"):
            await update("notes:proposals", AgentSessionChange(current_stage="B"))
        with pytest.raises(Rejected, match="change must be an AgentSessionChange, found dict"):
            await update("trip", {"currentStage": "B"})
        with pytest.raises(Rejected, match="the state of the session would have"):
            await update("trip", AgentSessionChange(stage_data={"n": "x" * 300_000}))
        assert await runtime.sessions.agent_sessions.get("trip") == before

    play(story, path, agent())
