"""The catalog contract of a store: its index, and whole sessions."""

from dataclasses import replace
from typing import Any, cast

import pytest
from pydantic import JsonValue
from tests.contracts.stores import AT, NOW_MS, AnyStore, Play, claim, write

from windlass.adapters.journals.codec import content_ref
from windlass.errors import Conflict, Denied, Rejected
from windlass.ports.archive import KeptContent, KeptItem, SessionCopy, StoredAppend
from windlass.ports.documents import OF_RUNS, Document
from windlass.ports.inbox import STEER, NewRun
from windlass.ports.journal import Batch, Claim, Standing
from windlass.ports.listing import (
    CountFilter,
    RunCell,
    RunCounts,
    RunFilter,
    RunOrder,
    RunTimes,
    SessionFilter,
    SessionOrder,
    SettledRequest,
    Waiting,
)
from windlass.ports.store import Store
from windlass_harness.loop.events import Draft
from windlass_harness.loop.subagents import CANCEL, START
from windlass_harness.record import Post, Record
from windlass_harness.views.listing import SessionNews
from windlass_protocol import InputKind, InputOutcome, InputRequest, JsonObject, RunStatus, SessionStatus

LATER = "2026-01-31T09:31:00.000Z"
EVERYTHING = SessionFilter(root_only=False)
PARENT: JsonObject = {"sessionId": "s1", "runId": "r1", "callId": "c1", "rootSessionId": "s1", "depth": 1}


def body(run_id: str = "r1", message: str = "Pay the hotel", **more: str) -> JsonObject:
    return {"runId": run_id, "agentId": "a1", "packageFingerprint": "f1", "message": message, **more}


async def start(store: Store, session_id: str = "s1", run_id: str = "r1", **more: str) -> int:
    """Ask for a run."""
    run = NewRun(run_id, "a1", "f1", at=AT)
    item = body(run_id, **more)
    return (await store.post(session_id, kind=START, key=f"start:{run_id}", body=item, run=run)).number


def fact(kind: str, run_id: str = "r1", *, at: str = AT, **data: JsonValue) -> Draft:
    return Draft(kind, at, {"runId": run_id, **data}, run_id=run_id, agent_id="a1")


def settlement_of(*resolutions: JsonValue, at: str = AT, **data: JsonValue) -> Draft:
    """A record that requests were settled."""
    data |= {"turnId": "t1", "sequence": 0, "stepIndex": 0}
    return fact("input.resolved", at=at, resolutions=[*resolutions], **cast(Any, data))


async def begin(store: Store, session_id: str = "s1", run_id: str = "r1", **more: str) -> Claim:
    """Ask for a run and let it begin."""
    number = await start(store, session_id, run_id, **more)
    mine = await claim(store, session_id)
    said = fact("message.received", run_id, message=more.get("message", "Pay the hotel"))
    drafts = (fact("run.started", run_id, agentId="a1"), said)
    batch = Batch(
        mine,
        mine.last_seq,
        drafts,
        consumes=(number,),
        standing=Standing.RUNNING,
        runs=((run_id, RunStatus.RUNNING),),
    )
    await store.append(batch)
    return mine


async def end(
    store: Store, mine: Claim, run_id: str = "r1", *, after: int = 2, tokens: int = 5, at: str = LATER
) -> None:
    """End a run, and let go of the session."""
    done = fact("run.completed", run_id, at=at, usage={"inputTokens": tokens, "costMicros": 7})
    runs = ((run_id, RunStatus.COMPLETED),)
    await store.append(Batch(mine, after, (done,), standing=Standing.IDLE, runs=runs, is_last=True))


def asking(name: str) -> InputRequest:
    return InputRequest.model_validate(
        {
            "requestId": name,
            "action": {"kind": "tool-call", "callId": "c1", "toolName": "pay", "input": {"cents": 3}},
            "prompt": "Pay?",
            "display": "confirmation",
        }
    )


async def ask_bob(store: Store) -> None:
    """Let a run wait with an approval and a question that names a person."""
    mine = await begin(store)
    question = asking("q2").model_copy(update={"kind": InputKind.QUESTION, "responders": ("bob",)})
    waiting, runs = (fact("run.waiting", on="input"),), (("r1", RunStatus.WAITING),)
    asked = (asking("q1"), question)
    await store.append(
        Batch(mine, 2, waiting, standing=Standing.WAITING, runs=runs, asked=asked, is_last=True)
    )


async def names(store: Store, wanted: SessionFilter = EVERYTHING, limit: int = 50) -> list[str]:
    return [info.session_id for info in await store.list_sessions(wanted, limit=limit)]


# the index


def test_a_session_is_listed_as_soon_as_its_first_run_is_asked_for(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await start(store, message="  Pay the\nhotel ", owner="ann")
        [info] = await other.list_sessions(SessionFilter())
        assert info == await other.session_info("s1")
        assert (info.session_id, info.title, info.agent_id) == ("s1", "Pay the hotel", "a1")
        assert (info.owner, info.status) == ("ann", SessionStatus.PENDING)
        assert (info.created_at, info.updated_at, info.run_count) == (AT, AT, 1)
        assert (info.root_session_id, info.parent_session_id, info.request_count) == ("s1", None, 0)
        [run] = await other.list_runs(RunFilter())
        assert (run.run_id, run.session_id, run.status, run.started_at) == (
            "r1",
            "s1",
            RunStatus.PENDING,
            None,
        )
        assert await store.session_info("s2") is None
        row = await other.run("r1")
        assert row is not None
        assert (row.owner, row.last_seq) == ("ann", 0)

    play(story)


def test_the_index_follows_runs_from_their_beginning_to_their_end(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await begin(store)
        [info] = await other.list_sessions(EVERYTHING)
        assert info.status is SessionStatus.RUNNING
        await end(store, mine)
        second = await begin(store, "s1", "r2")
        await end(store, second, "r2", after=5, tokens=30)
        [info] = await other.list_sessions(EVERYTHING)
        assert (info.status, info.run_count, info.updated_at) == (SessionStatus.COMPLETED, 2, LATER)
        assert (info.usage.input_tokens, info.usage.cost_micros) == (35, 14)
        latest, first = await other.list_runs(RunFilter(session_id="s1"))
        assert (first.run_id, first.status, first.started_at, first.ended_at) == (
            "r1",
            RunStatus.COMPLETED,
            AT,
            LATER,
        )
        assert (first.usage.input_tokens, first.first_seq, latest.usage.input_tokens) == (5, 1, 30)

    play(story)


def test_appends_of_steps_change_nothing_in_the_index(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await begin(store)
        before = await other.session_info("s1")
        await write(store, mine, 1, 2, 3, after=2)
        assert await other.session_info("s1") == before

    play(story)


def test_a_run_that_is_withdrawn_counts_only_in_a_session_without_others(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        number = await start(store)
        mine = await claim(store)
        gone = fact("run.cancelled", "r1", unstarted=body())
        await store.append(
            Batch(mine, 0, (gone,), consumes=(number,), runs=(("r1", RunStatus.CANCELLED),), is_last=True)
        )
        info = await other.session_info("s1")
        assert info is not None
        assert info.status is SessionStatus.CANCELLED
        mine = await begin(store, "s2", "r2")
        number = await start(store, "s2", "r3")
        gone = fact("run.cancelled", "r3", unstarted=body("r3"))
        await store.append(Batch(mine, 2, (gone,), consumes=(number,), runs=(("r3", RunStatus.CANCELLED),)))
        info = await other.session_info("s2")
        assert info is not None
        assert info.status is SessionStatus.RUNNING

    play(story)


def test_the_message_that_begins_a_session_is_its_title(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        posted = await store.post("s1", kind=STEER, key="steer:m1", body=body(message="Wait!", owner="ann"))
        with pytest.raises(Denied):
            await start(store, owner="bob")
        mine = await claim(store)
        drafts = (fact("run.started", agentId="a1"), fact("message.received", message="Wait!"))
        run = NewRun("r1", "a1", "f1")
        await store.append(
            Batch(
                mine,
                0,
                drafts,
                consumes=(posted.number,),
                new_runs=((run, posted.number),),
                runs=(("r1", RunStatus.RUNNING),),
            )
        )
        info = await other.session_info("s1")
        assert info is not None
        assert (info.title, info.owner, info.created_at, info.run_count) == ("Wait!", "ann", AT, 1)
        assert info.status is SessionStatus.RUNNING

    play(story)


def test_open_requests_of_a_session_are_listed_until_they_are_settled(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await begin(store, owner="ann")
        await begin(store, "s2", "r2")
        waiting = fact("run.waiting", on="input")
        first, second = asking("q1"), asking("q2")
        await store.append(
            Batch(mine, 2, (waiting,), runs=(("r1", RunStatus.WAITING),), asked=(first, second))
        )
        found = await other.list_requests()
        assert [one.request for one in found] == [first, second]
        one = found[0]
        assert (one.session_id, one.run_id, one.agent_id, one.owner, one.asked_at) == (
            "s1",
            "r1",
            "a1",
            "ann",
            AT,
        )
        assert await other.list_requests(owner="ann") == found
        assert await other.list_requests(owner="bob") == ()
        assert await other.list_requests(after=one.number, limit=1) == found[1:]
        info = await other.session_info("s1")
        assert info is not None
        assert (info.status, info.request_count) == (SessionStatus.WAITING, 2)
        settlement = settlement_of(at=LATER)
        await store.append(Batch(mine, 3, (settlement,), asked=(second, asking("q3"))))
        left = await other.list_requests()
        assert [(each.request.request_id, each.asked_at) for each in left] == [("q2", AT), ("q3", LATER)]
        await store.append(Batch(mine, 4, (settlement,), asked=()))
        assert await other.list_requests() == ()

    play(story)


def test_a_question_is_listed_for_those_that_it_names_and_an_approval_is_not(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await begin(store, owner="ann")
        question = {"kind": InputKind.QUESTION, "responders": ("bob", "zoë", 'de"sk')}
        plain, named = asking("q1"), asking("q2").model_copy(update=question)
        approval = named.model_copy(update={"request_id": "q3", "kind": InputKind.APPROVAL})
        action = named.action.model_copy(update={"input": {"responders": ["carl"]}})
        decoy = named.model_copy(update={"request_id": "q4", "action": action})
        asked = (plain, named, approval, decoy)
        runs = (("r1", RunStatus.WAITING),)
        await store.append(Batch(mine, 2, (fact("run.waiting", on="input"),), runs=runs, asked=asked))

        async def ids(owner: str, *named: str, after: int = 0, limit: int = 50) -> list[str]:
            found = await other.list_requests(owner=owner, responders=named, after=after, limit=limit)
            return [one.request_id for one in found]

        for name in ("bob", "zoë", 'de"sk'):
            assert await ids("u", "x", name) == ["q2", "q4"], name
        assert await ids("u", "bo", "carl", "zoe") == []
        assert await ids("u", "bob", limit=1) == ["q2"]
        [first, *_] = await other.list_requests(owner="u", responders=("bob",))
        assert await ids("u", "bob", after=first.number) == ["q4"]
        assert await ids("ann", "bob") == ["q1", "q2", "q3", "q4"]
        assert await ids("ann", "bob", limit=2) == ["q1", "q2"]
        await store.append(Batch(mine, 3, (fact("run.cancelling", at=LATER),), asked=(decoy,)))
        assert await ids("u", "bob") == ["q4"]
        assert await ids("u", "bob", "zoë") == ["q4"]
        await end(store, mine, after=4)
        await store.delete("s1", now_ms=NOW_MS)
        assert await ids("u", "bob") == []

    play(story)


def resolution(name: str, **response: str) -> JsonValue:
    answer: JsonObject = {"requestId": name, **response}
    return {"requestId": name, "outcome": "approved", **({"response": answer} if response else {})}


def test_a_request_is_found_by_its_id_while_it_is_open_and_after_it_was_settled(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await begin(store, owner="ann")
        first, second = asking("q1"), asking("q2")
        runs = (("r1", RunStatus.WAITING),)
        await store.append(
            Batch(mine, 2, (fact("run.waiting", on="input"),), runs=runs, asked=(first, second))
        )
        found = await other.find_request("q2")
        assert found == (await other.list_requests())[1]
        assert await other.find_request("q3") is None

        answered = resolution("q1", optionId="approve", responder="boss")
        drafts = (settlement_of(answered, at=LATER),)
        await store.append(Batch(mine, 3, drafts, asked=(second,)))
        assert await other.find_request("q1") == SettledRequest(
            "q1", "s1", "r1", "ann", InputOutcome.APPROVED, "approve", "boss", LATER
        )
        drafts = (settlement_of(resolution("q2"), at=LATER),)
        await store.append(Batch(mine, 4, drafts, asked=()))
        settled = await other.find_request("q2")
        assert isinstance(settled, SettledRequest)
        assert (settled.option_id, settled.responder) == (None, None)

        await end(store, mine, after=5)
        await store.delete("s1", now_ms=NOW_MS)
        assert await other.find_request("q1") is None

    play(story)


def test_a_request_that_one_append_makes_and_closes_is_settled(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await begin(store, owner="ann")
        expired: JsonValue = {"requestId": "q1", "outcome": "expired"}
        above: JsonValue = {"requestId": "q2", "outcome": "denied"}
        drafts = (
            fact("input.requested", requests=[asking("q1").model_dump(mode="json", by_alias=True)]),
            settlement_of(expired, at=LATER),
            settlement_of(above, callId="c1", childSessionId="s9"),
            fact("run.completed", at=LATER),
        )
        runs = (("r1", RunStatus.COMPLETED),)
        await store.append(Batch(mine, 2, drafts, standing=Standing.IDLE, runs=runs, asked=()))
        assert await other.find_request("q1") == SettledRequest(
            "q1", "s1", "r1", "ann", InputOutcome.EXPIRED, None, None, LATER
        )
        # The request of a subagent is settled in its own session.
        assert await other.find_request("q2") is None

    play(story)


def test_a_request_that_is_closed_without_a_resolution_is_settled_as_cancelled(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await begin(store)
        runs = (("r1", RunStatus.WAITING),)
        await store.append(
            Batch(mine, 2, (fact("run.waiting", on="input"),), runs=runs, asked=(asking("q1"),))
        )
        await store.append(Batch(mine, 3, (fact("run.cancelling", at=LATER),), asked=()))
        assert await other.list_requests() == ()
        assert await other.find_request("q1") == SettledRequest(
            "q1", "s1", "r1", None, InputOutcome.CANCELLED, None, None, LATER
        )

    play(story)


def test_the_next_page_continues_after_the_last_row_while_sessions_change(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        for index in range(6):
            await start(store, f"s{index}", f"r{index}")
        first = await store.list_sessions(EVERYTHING, limit=3)
        assert [info.session_id for info in first] == ["s5", "s4", "s3"]
        await start(store, "s6", "r6")
        await start(store, "s1", "r7")
        rest = await other.list_sessions(
            EVERYTHING, order=SessionOrder(after=(first[-1].number, first[-1].number)), limit=10
        )
        assert [info.session_id for info in rest] == ["s2", "s1", "s0"]
        runs = await store.list_runs(RunFilter(), limit=2)
        assert [run.run_id for run in runs] == ["r7", "r6"]
        order = RunOrder(after=(runs[-1].at, runs[-1].number))
        more = await store.list_runs(RunFilter(), order=order, limit=2)
        assert [run.run_id for run in more] == ["r5", "r4"]

    play(story)


def test_sessions_and_runs_are_found_by_owner_agent_status_and_words(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await begin(store, "s1", "r1", message="Pay the Straße bill", owner="ann")
        await start(store, "s2", "r2", message="Pay the hotel", owner="bob")
        await store.post(
            "s3", kind=START, key="start:r3", body=body("r3", message="Books"), run=NewRun("r3", "a2", "f1")
        )
        assert await names(other, SessionFilter(owner="ann")) == ["s1"]
        assert await names(other, SessionFilter(owner="ann", agent_id="a2")) == []
        assert await names(other, SessionFilter(agent_id="a2")) == ["s3"]
        assert await names(other, SessionFilter(status=SessionStatus.PENDING)) == ["s3", "s2"]
        assert await names(other, SessionFilter(status=SessionStatus.PENDING, owner="bob")) == ["s2"]
        assert await names(other, SessionFilter(words=("pay",))) == ["s2", "s1"]
        assert await names(other, SessionFilter(words=("pa", "stras"))) == ["s1"]
        assert await names(other, SessionFilter(words=("otel",))) == []
        assert [run.run_id for run in await other.list_runs(RunFilter(owner="bob"))] == ["r2"]
        assert [run.run_id for run in await other.list_runs(RunFilter(agent_id="a2"))] == ["r3"]
        assert [run.run_id for run in await other.list_runs(RunFilter(run_ids=("r3",)))] == ["r3"]
        running = await other.list_runs(RunFilter(status=RunStatus.RUNNING))
        assert [run.run_id for run in running] == ["r1"]

    play(story)


def test_a_subagents_session_has_a_root_a_parent_and_the_owner_of_its_caller(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await begin(store, owner="ann")
        item = Post("s2", START, "start:r2", {**body("r2", owner="ann"), "parent": PARENT})
        called = replace(fact("subagent.called"), posts=(item,))
        await store.append(Batch(mine, 2, (called,)))
        info = await other.session_info("s2")
        assert info is not None
        assert (info.parent_session_id, info.root_session_id, info.owner) == ("s1", "s1", "ann")
        assert [run.run_id for run in await other.list_runs(RunFilter())] == ["r2", "r1"]
        assert [run.run_id for run in await other.list_runs(RunFilter(root_only=True))] == ["r1"]
        assert info.created_at == AT
        assert await names(other, SessionFilter()) == ["s1"]
        assert await names(other) == ["s2", "s1"]

    play(story)


def test_a_start_with_another_owner_is_denied_and_one_without_an_owner_is_allowed(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await start(store, "s1", "r1", owner="ann")
        await start(store, "s2", "r2")
        for session_id, owner in (("s1", "bob"), ("s2", "ann")):
            with pytest.raises(Denied, match="belongs to another owner"):
                await start(other, session_id, "r3", owner=owner)
        assert await other.run("r3") is None
        await start(other, "s1", "r4")
        await start(other, "s1", "r5", owner="ann")
        assert await start(other, "s1", "r1", owner="ann") == 1

    play(story)


def test_runs_are_counted_by_when_they_began_and_how_they_ended(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        for number, took_s in enumerate((1, 2, 60), 1):
            mine = await begin(store, f"s{number}", f"r{number}", owner="ann")
            at = f"2026-01-31T09:3{took_s // 60}:{took_s % 60:02}.250Z"
            await end(store, mine, f"r{number}", at=at)
        await begin(store, "s4", "r4", owner="bob")
        await start(store, "s5", "r5", owner="ann")
        hour = CountFilter("2026-01-31T09:00:00.000Z", "2026-01-31T10:00:00.000Z", 1_800_000)
        found = await other.run_counts(hour)
        assert found.cells == (
            RunCell(1, RunStatus.COMPLETED, 3, input_tokens=15, output_tokens=0, cost_micros=21),
            RunCell(1, RunStatus.RUNNING, 1, 0, 0, 0),
        )
        assert found.times == (RunTimes(1, 2_000, 60_000), RunTimes(None, 2_000, 60_000))
        by_owner = await other.run_counts(replace(hour, split="owner"))
        assert [(cell.group, cell.count, cell.cost_micros) for cell in by_owner.cells] == [
            ("ann", 3, 21),
            ("bob", 1, 0),
        ]
        theirs = await other.run_counts(replace(hour, owner="bob"))
        assert theirs == RunCounts((RunCell(1, RunStatus.RUNNING, 1, 0, 0, 0),), ())
        assert await other.run_counts(replace(hour, agent_id="a2")) == RunCounts((), ())
        # The end is not in it, and the beginning is: to the millisecond.
        assert (await other.run_counts(replace(hour, end=AT))).cells == ()
        since = await other.run_counts(replace(hour, start=AT, bucket_ms=1))
        assert [cell.bucket for cell in since.cells] == [0, 0]

    play(story)


def test_runs_are_counted_apart_by_agent_and_by_version(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        for number, took_s in enumerate((1, 2), 1):
            mine = await begin(store, f"s{number}", f"r{number}")
            await end(store, mine, f"r{number}", at=f"2026-01-31T09:30:{took_s:02}.250Z")
        run = NewRun("r3", "a2", "f2", at=AT)
        item = {**body("r3"), "agentId": "a2"}
        number = (await store.post("s3", kind=START, key="start:r3", body=item, run=run)).number
        mine = await claim(store, "s3")
        begun = replace(fact("run.started", "r3", agentId="a2"), agent_id="a2")
        runs = (("r3", RunStatus.RUNNING),)
        await store.append(Batch(mine, 0, (begun,), consumes=(number,), standing=Standing.RUNNING, runs=runs))
        hour = CountFilter("2026-01-31T09:00:00.000Z", "2026-01-31T10:00:00.000Z", 1_800_000)
        whole = await other.run_counts(hour)
        by_agent = await other.run_counts(replace(hour, split="agent"))
        assert [(cell.group, cell.status, cell.count) for cell in by_agent.cells] == [
            ("a1", RunStatus.COMPLETED, 2),
            ("a2", RunStatus.RUNNING, 1),
        ]
        assert by_agent.times == (RunTimes(1, 1_000, 2_000, "a1"), RunTimes(None, 1_000, 2_000, "a1"))
        by_version = await other.run_counts(replace(hour, split="version"))
        assert [cell.group for cell in by_version.cells] == ["f1", "f2"]
        assert [replace(cell, group="") for cell in by_version.cells] == list(whole.cells)

    play(story)


async def begin_subagent(store: Store, parent: JsonValue) -> Claim:
    """Let the run r2 of the agent a2 begin in the session s2."""
    run = NewRun("r2", "a2", "f2", at=AT)
    item = {**body("r2"), "agentId": "a2", "parent": parent}
    number = (await store.post("s2", kind=START, key="start:r2", body=item, run=run)).number
    mine = await claim(store, "s2")
    begun = replace(fact("run.started", "r2", agentId="a2", parent=parent), agent_id="a2")
    runs = (("r2", RunStatus.RUNNING),)
    await store.append(Batch(mine, 0, (begun,), consumes=(number,), standing=Standing.RUNNING, runs=runs))
    return mine


async def wait(store: Store, mine: Claim, run_id: str, *asked: InputRequest) -> None:
    """Let a run wait."""
    row = await store.session(mine.session_id)
    assert row is not None
    drafts = (fact("run.waiting", run_id, at=LATER),)
    runs = ((run_id, RunStatus.WAITING),)
    await store.append(Batch(mine, row.last_seq, drafts, standing=Standing.WAITING, runs=runs, asked=asked))


def test_runs_of_subagents_count_only_for_their_own_agent(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await begin(store)
        mine = await begin_subagent(store, PARENT)
        day = CountFilter("2026-01-31T00:00:00.000Z", "2026-02-01T00:00:00.000Z", 86_400_000)
        assert [cell.count for cell in (await other.run_counts(day)).cells] == [1]
        below = await other.run_counts(replace(day, agent_id="a2"))
        assert [cell.count for cell in below.cells] == [1]
        await wait(store, mine, "r2")
        assert await other.waiting() == Waiting(0, 0, None)
        assert await other.waiting(agent_id="a2") == Waiting(1, 0, None)

    play(story)


def test_waiting_runs_are_counted_by_owner_and_agent(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await begin(store, owner="ann")
        await wait(store, mine, "r1", asking("q1"), asking("q2"))
        assert await other.waiting() == Waiting(1, 2, LATER)
        assert await other.waiting(owner="ann", agent_id="a1") == Waiting(1, 2, LATER)
        for unmatched in ({"owner": "bob"}, {"agent_id": "a2"}):
            assert await other.waiting(**unmatched) == Waiting(0, 0, None)

    play(story)


def test_playground_runs_do_not_count_as_waiting_but_their_requests_do(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await wait(store, await begin(store), "r1")
        news = SessionNews(LATER, AT, agent_id="a1", parent="s1", predecessor="s1", predecessor_seq=2)
        await store.keep(a_copy("s9", news=news))
        await wait(store, await begin(store, "s9", "r9"), "r9", asking("q1"))
        parent: JsonObject = {**PARENT, "sessionId": "s9", "runId": "r9", "rootSessionId": "s9"}
        await wait(store, await begin_subagent(store, parent), "r2")
        assert await other.waiting() == Waiting(1, 1, LATER)
        assert await other.waiting(agent_id="a1") == Waiting(1, 1, LATER)
        assert await other.waiting(agent_id="a2") == Waiting(0, 0, None)

    play(story)


# whole sessions


def a_record(seq: int, kind: str = "note.made", session_id: str = "s9", epoch: int = 3) -> Record:
    return Record(session_id=session_id, seq=seq, type=kind, at=AT, data={"number": seq}, epoch=epoch)


def a_copy(session_id: str = "s9", **parts: object) -> SessionCopy:
    records = tuple(a_record(seq, session_id=session_id) for seq in (1, 2, 3))
    appends = (StoredAppend(records[:2], 3), StoredAppend(records[2:], 3))
    made = SessionCopy(session_id, appends, SessionNews(LATER, AT, title="Hello", agent_id="a1"))
    return replace(made, **parts)  # pyright: ignore[reportArgumentType] - fields by name


def test_an_imported_session_keeps_its_records_and_is_idle(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await begin(store)
        before = await store.last_position()
        item = KeptItem(START, "start:r9", b"digest", 1, "r9")
        kept = a_copy(items=(item,))
        await store.keep(kept)
        records = await other.read("s9")
        assert [(one.seq, one.epoch, one.position) for one in records] == [
            (seq, 3, before + seq) for seq in (1, 2, 3)
        ]
        assert await other.read_all(after=before) == records
        row = await other.session("s9")
        assert row is not None
        assert (row.standing, row.last_seq, row.epoch, row.owner_id) == (Standing.IDLE, 3, 3, None)
        assert "s9" not in await other.due(now_ms=NOW_MS)
        found = await other.appends("s9")
        assert [len(one.records) for one in found] == [2, 1]
        assert await other.appends("s9", after=2) == found[1:]
        assert await other.appends("s9", limit=1) == found[:1]
        [back] = await other.read_items("s9")
        assert back == replace(item, run_id=None, number=back.number)
        info = await other.session_info("s9")
        assert info is not None
        assert (info.title, info.created_at, info.updated_at, info.status) == (
            "Hello",
            AT,
            LATER,
            SessionStatus.IDLE,
        )
        mine = await claim(store, "s9")
        assert (mine.epoch, mine.last_seq) == (4, 3)
        await write(store, mine, 4, after=3)
        assert len(await other.read("s9")) == 4

    play(story)


def test_a_refused_import_leaves_nothing_in_the_store(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await begin(store, "s9", "r9")
        [run] = await store.list_runs(RunFilter())
        before = await store.last_position()
        with pytest.raises(Conflict, match="session s9 exists already"):
            await store.keep(a_copy())
        with pytest.raises(Conflict, match="run r9 exists already"):
            await store.keep(a_copy("s8", runs=(run,)))
        with pytest.raises(Rejected, match="record 2"):
            await store.keep(a_copy("s7", appends=(StoredAppend((a_record(1), a_record(3)), 3),)))
        assert await other.session("s8") is await other.session("s7") is None
        assert await other.last_position() == before
        assert len(await other.read_all()) == before

    play(story)


def test_a_deleted_session_is_gone_with_all_that_was_its_own(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        for name, run_id in (("s1", "r1"), ("s2", "r2"), ("s3", "r3")):
            await end(store, await begin(store, name, run_id), run_id)
        shared = await store.put(b"both", session_id="s2")
        assert shared == await store.put(b"both", session_id="s3")
        own, package = await store.put(b"own", session_id="s2"), await store.put(b"package")
        await store.save("s2", 1, state=b"state")
        for run_id in ("r1", "r2"):
            for kind in OF_RUNS:
                await store.put_document(Document(kind, run_id, 1, {}))
            await store.put_document(Document("other", run_id, 1, {}))
        everything = await store.read_all()
        assert await other.contents_of("s2") == tuple(sorted((shared, own), key=lambda ref: ref.hash))
        assert await store.delete("s2", now_ms=NOW_MS) == ("s2",)
        for kind in OF_RUNS:
            assert [one.name for one in await other.documents(kind)] == ["r1"]
        assert [one.name for one in await other.documents("other")] == ["r1", "r2"]
        assert await other.session("s2") is await other.run("r2") is await other.load("s2") is None
        assert await other.read("s2") == await other.pending("s2") == await other.appends("s2") == ()
        assert await other.read_items("s2") == await other.contents_of("s2") == ()
        assert await names(other) == ["s3", "s1"]
        assert await names(other, SessionFilter(words=("pay",))) == ["s3", "s1"]
        assert [run.run_id for run in await other.list_runs(RunFilter())] == ["r3", "r1"]
        assert await other.get(shared) == b"both"
        assert await other.get(package) == b"package"
        with pytest.raises(Rejected):
            await other.get(own)
        left = tuple(record for record in everything if record.session_id != "s2")
        assert await other.read_all() == left
        for after in range(len(everything) + 1):
            behind = tuple(record for record in left if (record.position or 0) > after)
            assert await other.read_all(after=after) == behind
            page = await other.read_all(after=after, limit=1)
            assert page == behind[: len(page)]
            assert bool(page) == bool(behind)

    play(story)


def test_positions_and_item_numbers_of_deleted_sessions_are_not_reused(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await end(store, await begin(store, "s1", "r1"), "r1")
        await end(store, await begin(store, "s2", "r2"), "r2")
        newest, position = (await store.arrivals(after=0)).newest, await store.last_position()
        await store.delete("s2", now_ms=NOW_MS)
        assert await other.last_position() == position
        assert (await other.arrivals(after=0)).newest == newest
        assert await start(other, "s3", "r3") == newest + 1
        mine = await claim(store, "s3")
        appended = await write(store, mine, 1)
        assert appended.first_position == position + 1
        assert [record.session_id for record in await other.read_all()] == ["s1"] * 3 + ["s3"]
        await store.append(Batch(mine, 1, (), is_last=True))

    play(story)


def test_the_id_of_a_deleted_session_is_not_used_again(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await end(store, await begin(store))
        mine = await begin(store, "s2", "r2")
        await store.delete("s1", now_ms=NOW_MS)
        with pytest.raises(Conflict, match="session s1 was deleted"):
            await start(other)
        with pytest.raises(Conflict, match="session s1 was deleted"):
            await claim(other, "s1", "o2")
        with pytest.raises(Conflict, match="session s1 was deleted"):
            await other.keep(a_copy("s1"))
        with pytest.raises(Conflict, match="unknown session: s1"):
            await other.delete("s1", now_ms=NOW_MS)
        # A post of another session to a deleted session is dropped.
        told = replace(fact("subagent.completed"), posts=(Post("s1", CANCEL, "cancel:r1", {"runId": "r1"}),))
        await store.append(Batch(mine, 2, (told,)))
        assert await other.session("s1") is None

    play(story)


def test_a_session_with_a_run_under_way_is_not_deleted_nor_is_its_caller(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await begin(store)
        item = Post("s2", START, "start:r2", {**body("r2"), "parent": PARENT})
        await store.append(Batch(mine, 2, (replace(fact("subagent.called"), posts=(item,)),)))
        with pytest.raises(Conflict, match="run is under way in session s1: cancel it first"):
            await store.delete("s1", now_ms=NOW_MS)
        done = (fact("run.completed"),)
        await store.append(
            Batch(mine, 3, done, standing=Standing.RUNNING, runs=(("r1", RunStatus.COMPLETED),))
        )
        with pytest.raises(Conflict, match="run is under way in session s2"):
            await store.delete("s2", now_ms=NOW_MS)
        with pytest.raises(Conflict, match="session s1 is being driven"):
            await store.delete("s1", now_ms=NOW_MS)
        await store.append(Batch(mine, 4, (), standing=Standing.IDLE, is_last=True))
        with pytest.raises(Conflict, match="run is under way in session s2"):
            await store.delete("s1", now_ms=NOW_MS)
        assert len(await other.read("s1")) == 4
        child = await claim(store, "s2")
        [pending] = await store.pending("s2")
        ended = fact("run.cancelled", "r2")
        await store.append(
            Batch(
                child,
                0,
                (ended,),
                consumes=(pending.number,),
                runs=(("r2", RunStatus.CANCELLED),),
                is_last=True,
            )
        )
        assert await store.delete("s1", now_ms=NOW_MS) == ("s1", "s2")
        assert await names(other) == []
        assert await other.read_all() == ()

    play(story)


def test_contents_that_are_brought_in_go_with_the_session_unless_they_are_packages(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        own, package = content_ref(b"own", "text/plain"), content_ref(b"package", "text/plain")
        await end(store, await begin(store))
        contents = (KeptContent(own, b"own"), KeptContent(package, b"package", is_own=False))
        with pytest.raises(Rejected, match="does not match its hash"):
            await store.keep(a_copy(contents=(KeptContent(own, b"other"),)))
        await store.keep(a_copy(contents=contents))
        assert await other.contents_of("s9") == (own,)
        await store.delete("s9", now_ms=NOW_MS)
        assert await other.get(package) == b"package"
        with pytest.raises(Rejected):
            await other.get(own)

    play(story)


def test_sessions_that_say_they_work_for_each_other_are_deleted_once_each(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        for name, parent in (("s1", "s2"), ("s2", "s1"), ("s3", "s3")):
            await store.keep(a_copy(name, news=SessionNews(LATER, AT, parent=parent)))
        assert await store.delete("s1", now_ms=NOW_MS) == ("s1", "s2")
        assert await store.delete("s3", now_ms=NOW_MS) == ("s3",)
        assert await names(other) == []

    play(story)


@pytest.mark.parametrize("is_first", [True, False])
def test_content_put_without_a_session_survives_the_deletion_of_sessions_that_share_it(
    play: Play, is_first: bool
) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        package = content_ref(b"package", "application/json")
        copies = (a_copy("s8", contents=(KeptContent(package, b"package"),)), a_copy(uses=(package.hash,)))
        if is_first:
            await store.put(b"package")
        for copy in copies:
            await store.keep(copy)
        if not is_first:
            await store.put(b"package")
        await store.put(b"package", session_id="s9")
        for copy in copies:
            await store.delete(copy.session_id, now_ms=NOW_MS)
        assert await other.get(package) == b"package"

    play(story)


def test_a_copy_of_a_session_that_was_deleted_meanwhile_is_not_brought_in(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await store.keep(a_copy("s1"))
        await store.keep(a_copy("s2", copied_from="s1"))
        await other.delete("s1", now_ms=NOW_MS)
        with pytest.raises(Conflict, match="unknown session: s1"):
            await store.keep(a_copy("s3", copied_from="s1"))
        assert await names(other) == ["s2"]
        assert await other.read("s3") == ()

    play(story)


def test_the_next_page_of_items_continues_after_the_last_while_items_are_consumed(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await begin(store)
        numbers = [
            (await store.post("s1", kind=STEER, key=f"k{at}", body={"runId": "r1"})).number for at in range(4)
        ]
        await store.append(Batch(mine, 2, (fact("note.made"),), consumes=(numbers[1], numbers[2])))
        page = await other.read_items("s1", limit=2)
        assert [item.key for item in page] == ["start:r1", "k1"]
        await store.append(Batch(mine, 3, (fact("note.made"),), consumes=(numbers[0], numbers[3])))
        rest = await other.read_items("s1", after=page[-1].number)
        assert [item.key for item in rest] == ["k2", "k3"]

    play(story)


def test_an_idle_session_is_deleted_only_if_nothing_came_since(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        for name in ("used", "asks", "told", "old"):
            mine = await begin(store, name, f"r-{name}")
            asked = (asking("q1"),) if name == "asks" else None
            if asked is not None:
                await store.append(Batch(mine, 2, (fact("run.waiting", f"r-{name}"),), asked=asked))
            at = LATER if name == "used" else AT
            await end(store, mine, f"r-{name}", after=2 if asked is None else 3, at=at)
        await other.post("told", kind=STEER, key="steer:1", body={"message": "wait"})
        for name in ("used", "asks", "told"):
            with pytest.raises(Conflict, match="has changed since, or has an open request or an item"):
                await other.delete(name, now_ms=NOW_MS, idle_since=LATER)
        assert await other.delete("old", now_ms=NOW_MS, idle_since=LATER) == ("old",)
        assert sorted(await names(store)) == ["asks", "told", "used"]

    play(story)
