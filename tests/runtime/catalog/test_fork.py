"""Forks: a session that continues from another one's records, and repeats no effect."""

from pathlib import Path

import pytest
from tests.runtime.catalog.rig import PAYS, agent, approve, made, play, until

from windlass import AgentRuntime
from windlass.catalog import SessionInfo, SessionStatus
from windlass.catalog import archive as forking
from windlass.errors import Conflict, Rejected
from windlass.ports.archive import Archive
from windlass.testing import call, say
from windlass_harness.loop.events import Moment
from windlass_harness.views import fold_session
from windlass_protocol import ChatRole, RunStatus


@pytest.fixture(params=["memory", "sqlite"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "memory" else tmp_path / "app.db"


def test_a_fork_of_a_finished_session_goes_on_by_itself_and_the_old_one_does_not_notice(
    path: Path | None,
) -> None:
    async def story(runtime: AgentRuntime) -> None:
        await (await runtime.start_run("clerk", "one", session_id="old", owner="ann")).wait()
        before = await runtime.sessions.records("old")
        info = await runtime.sessions.get("old")
        fork = await runtime.sessions.fork("old", session_id_new="new")
        assert (fork.session_id, fork.title, fork.owner, fork.agent_id) == ("new", "one", "ann", "clerk")
        assert (fork.predecessor_id, fork.predecessor_seq) == ("old", before[-1].seq)
        assert (fork.status, fork.run_count, fork.usage.input_tokens) == (SessionStatus.IDLE, 0, None)
        assert (fork.root_session_id, fork.parent_session_id) == ("new", None)
        copied = await runtime.sessions.records("new")
        assert [record.data for record in copied[:-1]] == [record.data for record in before]
        assert copied[-1].type == "session.forked"
        result = await (await runtime.start_run("clerk", "two", session_id="new", owner="ann")).wait()
        assert result.output == "second"
        said = [message.content for message in (await runtime.sessions.history("new")).items]
        assert said == ["one", "first", "two", "second"]
        assert await runtime.sessions.records("old") == before
        assert await runtime.sessions.get("old") == info
        assert (await runtime.sessions.get("new")).run_count == 1

    play(story, path, agent(say("first"), say("second")))


def test_a_run_under_way_is_cancelled_in_the_fork_and_goes_on_in_the_old_session(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        handle = await runtime.start_run("clerk", "Pay.", session_id="old", run_id="r1")
        at = await until(handle, "run.waiting")
        fork = await runtime.sessions.fork("old", at=at)
        assert fork.request_count == 0
        types = [record.type for record in await runtime.sessions.records(fork.session_id)]
        assert types[at:] == [
            "session.forked",
            "run.cancel_requested",
            "input.resolved",
            "approval.settled",
            "turn.cancelled",
            "run.cancelled",
            "session.waiting",
        ]
        assert await runtime.sessions.open_requests(fork.session_id) == ()
        assert len(await handle.open_requests()) == 1
        await approve(handle)
        assert (await handle.wait()).status is RunStatus.COMPLETED
        assert made == ["look bill", "pay 9"]
        result = await (await runtime.start_run("clerk", "Well?", session_id=fork.session_id)).wait()
        assert result.status is RunStatus.COMPLETED
        assert made == ["look bill", "pay 9"]

    play(story, path, agent(*PAYS))


def test_a_fork_is_never_cut_between_a_call_and_its_result(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        await (await runtime.start_run("clerk", "Look.", session_id="old")).wait()
        records = await runtime.sessions.records("old")
        begun = next(record.seq for record in records if record.type == "action.started")
        done = next(record.seq for record in records if record.type == "action.result")
        first = next(record.seq for record in records if record.type == "step.started")
        for at in range(1, records[-1].seq + 1):
            if at < first:
                with pytest.raises(Rejected, match="no safe point"):
                    await runtime.sessions.fork("old", at=at)
                continue
            fork = await runtime.sessions.fork("old", at=at)
            assert fork.predecessor_seq is not None
            assert fork.predecessor_seq <= at
            assert not begun <= fork.predecessor_seq < done
            state = fold_session(await runtime.sessions.records(fork.session_id))
            assert state.run is None or state.run.result is not None
            assert state.requests == ()
        assert made == ["look bill"]
        for at in (0, records[-1].seq + 1):
            with pytest.raises(Rejected, match=f"records 1 to {records[-1].seq}, found {at}"):
                await runtime.sessions.fork("old", at=at)

    play(story, path, agent(call("look", {"item": "bill"}), say("There.")))


def test_the_same_fork_again_is_the_same_session_and_another_one_is_refused(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        await (await runtime.start_run("clerk", "one", session_id="old")).wait()
        await (await runtime.start_run("clerk", "one", session_id="other")).wait()
        last = (await runtime.sessions.records("old"))[-1].seq
        first = await runtime.sessions.fork("old", at=last, session_id_new="new")
        assert await runtime.sessions.fork("old", at=last, session_id_new="new") == first
        await (await runtime.start_run("clerk", "two", session_id="old")).wait()
        assert await runtime.sessions.fork("old", session_id_new="new") == first
        assert len(await runtime.sessions.records("new")) == last + 1
        end = (await runtime.sessions.records("old"))[-1].seq
        for session_id, at in (("old", end), ("other", None)):
            with pytest.raises(Conflict, match="session new exists already"):
                await runtime.sessions.fork(session_id, at=at, session_id_new="new")
        with pytest.raises(Conflict, match="session other exists already"):
            await runtime.sessions.fork("old", session_id_new="other")

    play(story, path, agent(say("first"), say("second")))


def test_a_fork_of_a_fork_remembers_where_it_came_from(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        await (await runtime.start_run("clerk", "one", session_id="a")).wait()
        await runtime.sessions.fork("a", session_id_new="b")
        await (await runtime.start_run("clerk", "two", session_id="b")).wait()
        third = await runtime.sessions.fork("b", session_id_new="c")
        assert third.predecessor_id == "b"
        result = await (await runtime.start_run("clerk", "three", session_id="c")).wait()
        assert result.output == "third"

    play(story, path, agent(say("first"), say("second"), say("third")))


def test_state_of_tools_comes_along_and_consent_for_the_session_does_not(path: Path | None) -> None:
    answers = (
        call("note", {"text": "hi"}),
        call("pay", {"cents": 1}),
        say("one"),
        call("pay", {"cents": 2}),
        say("two"),
    )

    async def story(runtime: AgentRuntime) -> None:
        handle = await runtime.start_run("clerk", "go", session_id="old")
        await until(handle, "run.waiting")
        [request] = await handle.open_requests()
        await handle.answer(request.request_id, "approve_session")
        await handle.wait()
        await runtime.sessions.fork("old", session_id_new="new")
        assert await runtime.sessions.state("new") == {"text": "hi"}
        again = await runtime.start_run("clerk", "once more", session_id="old")
        assert (await again.wait()).output == "two"
        assert made == ["note hi", "pay 1", "pay 2"]
        asks = await runtime.start_run("clerk", "once more", session_id="new")
        await until(asks, "run.waiting")
        assert made == ["note hi", "pay 1", "pay 2"]
        await asks.cancel()
        await asks.wait()

    play(story, path, agent(*answers))


def test_a_fork_of_a_caller_leaves_its_subagent_alone(path: Path | None) -> None:
    boss = agent(
        call("helper", {"message": "Pay it."}),
        say("All paid."),
        name="boss",
        subagents=[agent(call("pay", {"cents": 3}), say("Paid."), name="helper")],
    )

    async def story(runtime: AgentRuntime) -> None:
        handle = await runtime.start_run("boss", "go", session_id="old")
        at = await until(handle, "input.requested")
        fork = await runtime.sessions.fork("old", at=at)
        [child] = await runtime.sessions.descendants("old")
        nephew = await runtime.sessions.fork(child.session_id)
        assert await runtime.sessions.descendants(fork.session_id) == ()
        assert nephew.parent_session_id is None
        assert fork.request_count == nephew.request_count == 0
        await approve(handle)
        assert (await handle.wait()).output == "All paid."
        assert made == ["pay 3"]
        roles = [message.role for message in (await runtime.sessions.history(fork.session_id)).items]
        assert roles[0] is ChatRole.USER

    play(story, path, boss)


def test_decisions_and_traces_of_a_run_stay_with_the_session_that_made_them(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        await (await runtime.start_run("clerk", "Look.", session_id="old", run_id="r1")).wait()
        decisions = await runtime.handle("r1").decisions()
        await runtime.sessions.fork("old", session_id_new="new")
        assert await runtime.handle("r1").decisions() == decisions
        assert (await runtime.sessions.trace("r1")).trace.session_id == "old"
        then = await runtime.sessions.at("new", (await runtime.sessions.records("new"))[-1].seq)
        assert then.usage.session.steps == 0
        assert (await runtime.sessions.runs(session_id="new")).items == ()

    play(story, path, agent(call("look", {"item": "bill"}), say("There.")))


def test_a_fork_of_a_session_that_is_deleted_meanwhile_brings_nothing_back(
    path: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = forking.prepare

    async def story(runtime: AgentRuntime) -> None:
        async def late(archive: Archive, info: SessionInfo, *, new_id: str, at: int, now: Moment) -> object:
            copy = await prepare(archive, info, new_id=new_id, at=at, now=now)
            await runtime.sessions.delete("old")
            return copy

        await (await runtime.start_run("clerk", "go", session_id="old")).wait()
        monkeypatch.setattr(forking, "prepare", late)
        with pytest.raises(Conflict, match="unknown session: old"):
            await runtime.sessions.fork("old", session_id_new="new")
        assert (await runtime.sessions.list()).items == ()

    play(story, path, agent())
