"""The contract of lists of runs: filters, order, and what a row tells."""

from pydantic import JsonValue
from tests.contracts.stores import AT, AnyStore, Play
from tests.contracts.test_store_catalog import LATER, PARENT, begin, end, fact, start

from windlass.ports.journal import Batch, Claim, Standing
from windlass.ports.listing import (
    RunFilter,
    RunInfo,
    RunOrder,
    RunSort,
    SessionFilter,
    SessionOrder,
    SessionSort,
    place_of_run,
    place_of_session,
)
from windlass.ports.store import Store
from windlass_protocol import RunStatus, SessionStatus

LATEST = "2026-01-31T10:30:00.250Z"
REQUEST: dict[str, JsonValue] = {
    "requestId": "q1",
    "action": {"kind": "tool-call", "callId": "c1", "toolName": "pay", "input": {}},
    "prompt": "Run pay?\nIt costs 9.",
    "display": "confirmation",
}


async def ids(store: Store, order: RunOrder | None = None, **wanted: object) -> list[str]:
    found = await store.list_runs(RunFilter(**wanted), order=order or RunOrder())  # pyright: ignore[reportArgumentType] - filters by name
    return [run.run_id for run in found]


async def run_of(store: Store, run_id: str) -> RunInfo:
    [found] = [run for run in await store.list_runs(RunFilter()) if run.run_id == run_id]
    return found


async def park(store: Store, mine: Claim, after: int, usage: dict[str, JsonValue]) -> None:
    """Let a run wait for a person, and say what it has used."""
    asked = fact("input.requested", "r3", requests=[REQUEST])
    waits = fact("run.waiting", "r3", on="input", usage=usage)
    await store.append(
        Batch(mine, after, (asked, waits), standing=Standing.WAITING, runs=(("r3", RunStatus.WAITING),))
    )


async def three(store: Store) -> None:
    """One run completed, one failed after a crash, one waits for a person."""
    await end(store, await begin(store, message="Pay the hotel", owner="ann"), tokens=9)
    mine = await begin(store, "s2", "r2", message="Refund order 7")
    crash = fact("recovery.started", "r2", epoch=2)
    error: JsonValue = {
        "code": "unavailable",
        "kind": "provider_failure",
        "message": "overloaded,\n try later",
    }
    failed = fact("run.failed", "r2", at=LATEST, error=error, usage={"outputTokens": 1, "costMicros": 90})
    runs = (("r2", RunStatus.FAILED),)
    await store.append(Batch(mine, 2, (crash,)))
    await store.append(Batch(mine, 3, (failed,), standing=Standing.IDLE, runs=runs, is_last=True))
    mine = await begin(store, "s3", "r3", message="Cancel the flight")
    await park(store, mine, 2, {"inputTokens": 4, "costMicros": 3})


def test_a_row_tells_the_wish_the_outcome_what_is_waited_for_and_crashes(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await start(store, "s9", "r9", message="  Wait\tfor me ", owner="bob")
        queued = await run_of(other, "r9")
        assert (queued.status, queued.input, queued.at, queued.owner) == ("pending", "Wait for me", AT, "bob")
        await three(store)
        done, failed, waits = [await run_of(other, name) for name in ("r1", "r2", "r3")]
        assert (done.input, done.tokens, done.cost_micros, done.duration_ms) == (
            "Pay the hotel",
            9,
            7,
            59_750,
        )
        assert (failed.error, failed.error_message, failed.crashes) == (
            "provider_failure",
            "overloaded, try later",
            1,
        )
        assert (failed.output, failed.waits_for) == ("", None), "an error is no output"
        assert (waits.waits_on, waits.waits_for) == ("input", "Run pay? It costs 9.")
        assert (waits.output, waits.error_message) == ("", None), "nor is a question"
        assert (waits.duration_ms, waits.error) == (0, None)

    play(story)


def test_a_question_about_an_interrupted_call_is_a_wait_for_a_decision_and_ends_with_the_answer(
    play: Play,
) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await begin(store)
        asked = fact("input.requested", requests=[{**REQUEST, "kind": "recovery"}])
        waits = (asked, fact("run.waiting", on="input"))
        await store.append(
            Batch(mine, 2, waits, standing=Standing.WAITING, runs=(("r1", RunStatus.WAITING),))
        )
        assert await ids(other, waits_on="recovery") == ["r1"]
        resumed = (fact("run.resumed", reason="ready"),)
        await store.append(
            Batch(mine, 4, resumed, standing=Standing.RUNNING, runs=(("r1", RunStatus.RUNNING),))
        )
        run = await run_of(other, "r1")
        assert (run.waits_on, run.output) == (None, "")

    play(story)


def test_runs_are_filtered_by_every_column(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await three(store)
        assert await ids(other) == ["r3", "r2", "r1"]
        assert await ids(other, status=RunStatus.FAILED) == ["r2"]
        assert await ids(other, waits_on="input") == ["r3"]
        assert await ids(other, waits_on="person") == ["r3"]
        assert await ids(other, owner="ann") == ["r1"]
        assert await ids(other, agent_id="a1", fingerprint="f1") == ["r3", "r2", "r1"]
        assert await ids(other, fingerprint="f2") == []
        assert await ids(other, error="") == ["r2"]
        assert await ids(other, error="provider_failure") == ["r2"]
        assert await ids(other, error="tool_failure") == []
        assert await ids(other, has_crashed=True) == ["r2"]
        assert await ids(other, has_crashed=False) == ["r3", "r1"]
        assert await ids(other, cost_micros=(7, 89)) == ["r1"]
        assert await ids(other, cost_micros=(3, 6)) == ["r3"]
        assert await ids(other, cost_micros=(None, 2)) == []
        assert await ids(other, duration_ms=(60_000, None)) == ["r2"]
        assert await ids(other, since=AT, until=LATER) == ["r3", "r2", "r1"]
        assert await ids(other, since=LATER) == []
        assert await ids(other, until=AT) == []
        assert await ids(other, words=("refund", "ord")) == ["r2"]
        assert await ids(other, session_id="s2", status=RunStatus.FAILED) == ["r2"]
        assert await ids(other, run_ids=("r3", "r1", "unknown")) == ["r3", "r1"]

    play(story)


def test_runs_are_sorted_and_the_next_page_goes_on_behind_equal_values(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await three(store)
        await begin(store, "s4", "r4")
        for by, expected in (
            (RunSort.STARTED, ["r4", "r3", "r2", "r1"]),
            (RunSort.COST, ["r2", "r1", "r3", "r4"]),
            (RunSort.DURATION, ["r2", "r1", "r4", "r3"]),
        ):
            assert await ids(other, RunOrder(by)) == expected
            assert await ids(other, RunOrder(by, is_ascending=True)) == expected[::-1]
            for is_ascending in (False, True):
                seen: list[str] = []
                order, wanted = RunOrder(by, is_ascending), RunFilter()
                while page := await other.list_runs(wanted, order=order, limit=1):
                    seen += [run.run_id for run in page]
                    order = RunOrder(by, is_ascending, place_of_run(page[-1], where=wanted, by=by))
                assert seen == (expected[::-1] if is_ascending else expected)

    play(story)


def test_tags_come_from_the_start_and_from_feedback_and_a_thumb_is_the_newest_one(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await start(store, "s1", "r1")
        mine = await begin(store, "s2", "r2")
        begun = fact("run.started", "r2", agentId="a1", metadata={"tags": ["beta", "beta", 7, ""]})
        await store.append(Batch(mine, 2, (begun,), runs=(("r2", RunStatus.RUNNING),)))
        assert await ids(other, tag="beta") == ["r2"]
        await store.append(Batch(mine, 3, (fact("feedback.given", "r2", thumb="down", tags=["wrong"]),)))
        assert (await run_of(other, "r2")).tags == ("beta", "wrong")
        assert await ids(other, tag="wrong", rating=-1) == ["r2"]
        await store.append(Batch(mine, 4, (fact("feedback.given", "r2", thumb="up"),)))
        await store.append(Batch(mine, 5, (fact("feedback.given", "r2", note="so"),)))
        assert await ids(other, rating=1) == ["r2"]
        assert await ids(other, rating=0) == ["r1"]
        await store.append(Batch(mine, 6, (fact("feedback.given", "unknown", thumb="up"),)))

    play(story)


def test_runs_of_subagents_are_left_out_on_demand(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await begin(store)
        await start(store, "s2", "r2", parent=PARENT)  # pyright: ignore[reportArgumentType] - an object
        assert await ids(other, root_only=True) == ["r1"]
        assert not (await run_of(other, "r2")).is_root

    play(story)


def test_a_run_that_waits_tells_what_it_used_and_its_session_counts_it_once(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await begin(store, "s3", "r3")
        await park(store, mine, 2, {"inputTokens": 4, "costMicros": 3})
        resumed = (fact("run.resumed", "r3", reason="ready"),)
        await store.append(
            Batch(mine, 4, resumed, standing=Standing.RUNNING, runs=(("r3", RunStatus.RUNNING),))
        )
        [session], run = await other.list_sessions(SessionFilter()), await run_of(other, "r3")
        assert (run.status, run.tokens, run.cost_micros) == (RunStatus.RUNNING, 4, 3)
        assert (session.usage.input_tokens, session.cost_micros) == (4, 3)
        await park(store, mine, 5, {"inputTokens": 9, "costMicros": 5})
        await end(store, mine, "r3", after=7, tokens=11)
        [session], run = await other.list_sessions(SessionFilter()), await run_of(other, "r3")
        assert (run.tokens, run.cost_micros) == (11, 7)
        assert (session.usage.input_tokens, session.cost_micros) == (11, 7)

    play(story)


def test_a_session_tells_what_its_newest_run_said_or_waits_for_and_how_often_runs_crashed(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await three(store)
        await start(store, "s2", "r9")
        waits, failed, done = await other.list_sessions(SessionFilter())
        assert waits == await other.session_info("s3")
        assert (waits.waits_for, waits.waits_on, waits.error) == ("Run pay? It costs 9.", "input", None)
        assert (waits.output, waits.error_message, failed.output, failed.waits_for) == ("", None, "", None)
        assert (failed.error_message, failed.error, failed.crashes) == (
            "overloaded, try later",
            "provider_failure",
            1,
        ), "the run that has not started yet is passed over"
        assert (done.output, done.waits_on, done.crashes) == ("", None, 0)

    play(story)


def test_sessions_are_filtered_by_time_cost_and_their_runs_and_counted_up_to_a_bound(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await three(store)
        for expected, wanted in (
            ("s3 s2 s1", SessionFilter()),
            ("s2", SessionFilter(since=LATEST)),
            ("s3 s1", SessionFilter(until=LATEST)),
            ("s2 s1", SessionFilter(cost_micros=(7, None))),
            ("s3 s1", SessionFilter(cost_micros=(None, 7))),
            ("s2", SessionFilter(run=RunFilter(has_crashed=True))),
            ("s2", SessionFilter(run=RunFilter(error="", has_crashed=True))),
            ("s3", SessionFilter(run=RunFilter(waits_on="person"))),
            ("", SessionFilter(run=RunFilter(tag="beta"))),
            ("s1", SessionFilter(owner="ann", since=AT, status=SessionStatus.COMPLETED)),
        ):
            found = [one.session_id for one in await other.list_sessions(wanted)]
            assert found == expected.split(), wanted
            assert await other.count_listed(wanted, most=9) == len(found)
        assert await other.count_listed(SessionFilter(), most=2) == 2
        assert await other.count_listed_runs(RunFilter(), most=2) == 2
        assert await other.count_listed_runs(RunFilter(error=""), most=2) == 1
        assert await other.count_listed_runs(RunFilter(session_id="s1", words=("hotel",)), most=2) == 1

    play(story)


def test_sessions_are_sorted_and_the_next_page_goes_on_behind_equal_values(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await three(store)
        await begin(store, "s4", "r4")
        for by, expected in (
            (SessionSort.CREATED, ["s4", "s3", "s2", "s1"]),
            (SessionSort.UPDATED, ["s2", "s1", "s4", "s3"]),
            (SessionSort.COST, ["s2", "s1", "s3", "s4"]),
        ):
            for is_ascending in (False, True):
                seen: list[str] = []
                order = SessionOrder(by, is_ascending)
                while page := await other.list_sessions(SessionFilter(), order=order, limit=1):
                    seen += [one.session_id for one in page]
                    order = SessionOrder(by, is_ascending, place_of_session(page[-1], by=by))
                assert seen == (expected[::-1] if is_ascending else expected)

    play(story)
