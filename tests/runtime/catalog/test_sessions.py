"""The catalogue: sessions are listed, found and read, on a file and in memory."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from tests.runtime.catalog.rig import PAYS, USAGE, agent, approve, play, until

from windlass import AgentRuntime
from windlass.adapters.journals.rules import unavailable
from windlass.catalog import SessionStatus
from windlass.catalog.reading import BATCH_BYTES_MAX, Traces, pages_of
from windlass.errors import Conflict, Denied, Rejected, Unavailable
from windlass.ports.catalog import RunRow
from windlass.ports.journal import Journal
from windlass.testing import call, say
from windlass_harness.record import Record
from windlass_harness.views import fold_chat, fold_session
from windlass_protocol import ChatMessage, ChatRole, InputResponse, RunStatus, TraceOutcome


@pytest.fixture(params=["memory", "sqlite"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "memory" else tmp_path / "app.db"


def test_a_session_is_listed_with_the_status_and_usage_of_its_runs(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        first = await runtime.start_run("clerk", "Pay the hotel in Oslo", session_id="trip", owner="ann")
        [info] = (await runtime.sessions.list()).items
        assert (info.session_id, info.title, info.owner) == ("trip", "Pay the hotel in Oslo", "ann")
        await until(first, "run.waiting")
        waiting = await runtime.sessions.get("trip")
        assert (waiting.status, waiting.request_count, waiting.run_count) == (SessionStatus.WAITING, 1, 1)
        await approve(first)
        await first.wait()
        done = await runtime.sessions.get("trip")
        assert (done.status, done.request_count) == (SessionStatus.COMPLETED, 0)
        assert (done.usage.input_tokens, done.usage.cost_micros) == (USAGE.input_tokens, USAGE.cost_micros)
        assert done.created_at <= waiting.updated_at <= done.updated_at
        [run] = (await runtime.sessions.runs(session_id="trip")).items
        assert (run.run_id, run.status, run.ended_at) == (
            first.run_id,
            RunStatus.COMPLETED,
            done.updated_at,
        )
        assert run.usage.output_tokens == USAGE.output_tokens

    play(story, path, agent(*PAYS))


def test_readers_of_a_long_session_leave_the_event_loop_to_others_between_large_records(
    path: Path | None,
) -> None:
    async def story(runtime: AgentRuntime) -> None:
        for number in range(5):
            await (await runtime.start_run("clerk", f"{number}" * 200_000, session_id="s")).wait()
        turns = [0]

        async def work() -> None:
            while True:
                turns[0] += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(work())
        export = [turns[0] async for _ in runtime.sessions.export("s")]
        assert len(set(export)) == len(export)
        journal = runtime.core.store
        batches = [(batch, turns[0]) async for batch in pages_of(journal, "s")]
        assert [record for batch, _ in batches for record in batch] == [*await journal.read("s")]
        assert len({turn for _, turn in batches}) == len(batches)
        if path is not None:
            assert len(batches) > 1
            sizes = [[len(record.stored or b"") for record in batch] for batch, _ in batches]
            assert all(len(batch) == 1 or sum(batch) <= BATCH_BYTES_MAX for batch in sizes)
        other.cancel()

    play(story, path, agent(*[say("Yes.")] * 5))


def test_pages_follow_one_another_and_a_strange_cursor_is_refused(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        for number in range(5):
            await (await runtime.start_run("clerk", f"number {number}", session_id=f"s{number}")).wait()
        catalogue = runtime.sessions
        first = await catalogue.list(limit=2)
        second = await catalogue.list(limit=2, after=first.next)
        third = await catalogue.list(limit=2, after=second.next)
        pages = [[info.session_id for info in page.items] for page in (first, second, third)]
        assert pages == [["s4", "s3"], ["s2", "s1"], ["s0"]]
        assert third.next is None
        assert (await catalogue.list(limit=5)).next is None
        runs = await catalogue.runs(limit=3)
        assert [run.session_id for run in (await catalogue.runs(limit=3, after=runs.next)).items] == [
            "s1",
            "s0",
        ]
        assert runs.next is not None
        for strange in (
            "",
            "x",
            "sessions.4",
            "sessions.cost.4.0",
            runs.next,
            "sessions.created.9999999999999999.4",
        ):
            with pytest.raises(Rejected, match="after must be the `next` of a page"):
                await catalogue.list(after=strange)
        for limit in (0, -1, 201):
            with pytest.raises(Rejected, match="limit must be 1 to 200"):
                await catalogue.list(limit=limit)
        with pytest.raises(Rejected, match="limit must be 1 to 1,000"):
            await catalogue.records("s0", limit=1_001)

    play(story, path, agent())


def test_sessions_are_sorted_over_all_pages_and_counted_and_runs_are_named(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        for number in range(5):
            await (
                await runtime.start_run(
                    "clerk", f"number {number}", session_id=f"s{number}", run_id=f"r{number}"
                )
            ).wait()
        catalogue = runtime.sessions
        for sort in ("created", "updated", "cost"):
            for is_ascending in (False, True):
                seen: list[str] = []
                page = await catalogue.list(limit=2, sort=sort, is_ascending=is_ascending)
                seen += [info.session_id for info in page.items]
                while page.next is not None:
                    page = await catalogue.list(
                        limit=2, sort=sort, is_ascending=is_ascending, after=page.next
                    )
                    seen += [info.session_id for info in page.items]
                names = [f"s{number}" for number in range(5)]
                assert seen == (names if is_ascending else names[::-1])
        by_cost = await catalogue.list(limit=2, sort="cost")
        with pytest.raises(Rejected, match="after must be the `next` of a page"):
            await catalogue.list(sort="updated", after=by_cost.next)
        with pytest.raises(Rejected, match="sort must be one of created, updated, cost"):
            await catalogue.list(sort="name")
        assert (await catalogue.count(), await catalogue.count(text="3")) == (5, 1)
        assert await catalogue.count(cost_micros_min=10**9) == 0
        assert (await catalogue.count_runs(), await catalogue.count_runs(error="any")) == (5, 0)
        named = await catalogue.runs(run_ids=("r3", "r1", "no such run"))
        assert [run.run_id for run in named.items] == ["r3", "r1"]
        with pytest.raises(Rejected, match="run_ids: found 101, limit 100"):
            await catalogue.runs(run_ids=["r1"] * 101)

    play(story, path, agent())


def test_a_run_that_waits_tells_what_it_has_used_so_far(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        handle = await runtime.start_run("clerk", "Pay the hotel", session_id="trip")
        await until(handle, "run.waiting")
        [run], session = (await runtime.sessions.runs()).items, await runtime.sessions.get("trip")
        assert (run.status, run.usage.input_tokens) == (RunStatus.WAITING, USAGE.input_tokens)
        assert (session.usage, session.waits_on) == (run.usage, "input")
        assert session.waits_for == run.waits_for is not None
        assert (session.output, run.output) == ("", "")
        await approve(handle)
        await handle.wait()
        session = await runtime.sessions.get("trip")
        assert session.usage.input_tokens == USAGE.input_tokens
        assert (session.waits_on, session.output) == (None, "Paid.")

    play(story, path, agent(replace(call("pay", {"cents": 9}), usage=USAGE), say("Paid.")))


def test_sessions_are_found_by_what_was_said_later_and_by_the_tools_that_were_called(
    path: Path | None,
) -> None:
    clerk = agent(call("look", {"item": "bill"}), say("It is due on Friday."), say("You are welcome."))

    async def story(runtime: AgentRuntime) -> None:
        await (await runtime.start_run("clerk", "When must I pay?", session_id="s1")).wait()
        await runtime.sessions.fork("s1", session_id_new="s2")
        await (await runtime.start_run("clerk", "Thank you, Clara", session_id="s1")).wait()

        async def found(text: str) -> list[str]:
            return [info.session_id for info in (await runtime.sessions.list(text=text)).items]

        assert await found("look must friday") == ["s2", "s1"]
        assert await found("clara when") == await found("welcome") == ["s1"]
        assert await found("bill") == []

    play(story, path, clerk)


def test_sessions_are_found_by_words_status_agent_and_owner(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        await (await runtime.start_run("clerk", "Pay the Hotel", session_id="s1", owner="ann")).wait()
        await (await runtime.start_run("other", "Pay the taxi", session_id="s2", owner="bob")).wait()

        async def found(**wanted: object) -> list[str]:
            page = await runtime.sessions.list(**wanted)  # pyright: ignore[reportArgumentType] - options by name
            return [info.session_id for info in page.items]

        assert await found(text="hot PAY") == ["s1"]
        assert await found(text="pay") == ["s2", "s1"]
        assert await found(owner="bob") == await found(agent_id="other") == ["s2"]
        assert await found(status="completed") == await found(status=SessionStatus.COMPLETED) == ["s2", "s1"]
        assert await found(status="failed") == []
        with pytest.raises(Rejected, match="status must be one of idle, pending"):
            await found(status="sleeping")
        with pytest.raises(Rejected, match="no word"):
            await found(text="!?")
        with pytest.raises(Rejected, match="at most 256"):
            await found(text="x" * 257)
        with pytest.raises(Rejected, match="did you mean owner"):
            await found(ower="ann")
        runs = (await runtime.sessions.runs(owner="ann", status="completed")).items
        assert [run.session_id for run in runs] == ["s1"]

    play(story, path, agent(), agent(name="other"))


def test_everything_that_waits_for_a_person_is_in_one_list(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        one = await runtime.start_run("clerk", "go", session_id="s1", owner="ann")
        two = await runtime.start_run("clerk", "go", session_id="s2", owner="bob")
        for handle in (one, two):
            await until(handle, "run.waiting")
        page = await runtime.sessions.requests()
        assert {asked.session_id for asked in page.items} == {"s1", "s2"}
        [asked] = (await runtime.sessions.requests(owner="bob")).items
        assert (asked.session_id, asked.run_id, asked.agent_id) == ("s2", two.run_id, "clerk")
        assert asked.request.action.input == {"cents": 9}
        head = await runtime.sessions.requests(limit=1)
        tail = await runtime.sessions.requests(limit=1, after=head.next)
        assert head.items + tail.items == page.items
        answer = InputResponse(request_id=asked.request.request_id, option_id="deny")
        await runtime.sessions.answer(asked.session_id, (answer,))
        await two.wait()
        assert [left.session_id for left in (await runtime.sessions.requests()).items] == ["s1"]
        await one.cancel()
        await one.wait()
        assert (await runtime.sessions.requests()).items == ()

    play(story, path, agent(*PAYS))


def test_a_request_of_a_subagent_is_listed_once_with_its_session_and_owner(path: Path | None) -> None:
    boss = agent(
        call("helper", {"message": "Pay it."}),
        say("All paid."),
        name="boss",
        subagents=[agent(call("pay", {"cents": 3}), say("Paid."), name="helper")],
    )

    async def story(runtime: AgentRuntime) -> None:
        handle = await runtime.start_run("boss", "go", session_id="top", owner="ann")
        await until(handle, "input.requested")
        [asked] = (await runtime.sessions.requests(owner="ann")).items
        assert asked.session_id != "top"
        assert (asked.root_session_id, asked.agent_id) == ("top", "helper")
        child = await runtime.sessions.get(asked.session_id)
        assert (child.parent_session_id, child.root_session_id, child.owner) == ("top", "top", "ann")
        assert [info.session_id for info in (await runtime.sessions.list()).items] == ["top"]
        assert len((await runtime.sessions.list(root_only=False)).items) == 2
        answer = InputResponse(request_id=asked.request.request_id, option_id="approve")
        await runtime.sessions.answer(asked.session_id, (answer,))
        assert (await handle.wait()).output == "All paid."

    play(story, path, boss)


def test_the_history_is_the_chat_in_pages(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        for number in range(3):
            await (await runtime.start_run("clerk", f"message {number}", session_id="s1")).wait()
        records = await runtime.sessions.records("s1", limit=1_000)
        chat = fold_chat(records).messages
        assert [message.role for message in chat] == [ChatRole.USER, ChatRole.ASSISTANT] * 3
        found: list[ChatMessage] = []
        after = None
        while True:
            page = await runtime.sessions.history("s1", after=after, limit=4)
            found += page.items
            after = page.next
            if after is None:
                break
        assert found == [*chat]

    play(story, path, agent(say("one"), say("two"), say("three")))


def test_records_are_paged_exactly_and_a_session_can_be_seen_as_it_was(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        await (await runtime.start_run("clerk", "go", session_id="s1")).wait()
        everything = await runtime.sessions.records("s1")
        assert [record.seq for record in await runtime.sessions.records("s1", after=2, limit=3)] == [3, 4, 5]
        assert await runtime.sessions.records("s1", after=everything[-1].seq) == ()
        for seq in (0, 4, everything[-1].seq):
            then = await runtime.sessions.at("s1", seq)
            assert then.session == fold_session(everything[:seq])
            assert then.messages == fold_chat(everything[:seq]).messages
            assert then.seq == seq
        with pytest.raises(Rejected, match=f"records 1 to {everything[-1].seq}, found 99"):
            await runtime.sessions.at("s1", 99)

    play(story, path, agent())


def test_the_trace_of_a_run_has_its_spans_and_its_owner(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        handle = await runtime.start_run("clerk", "go", session_id="s1", owner="ann")
        await until(handle, "run.waiting")
        open_trace = await runtime.sessions.trace(handle.run_id)
        assert open_trace.trace.ended_at is None
        again = await runtime.sessions.trace(handle.run_id, after=open_trace.seq)
        assert (again.spans, again.events, again.seq) == ((), (), open_trace.seq)
        await approve(handle)
        await handle.wait()
        trace = await runtime.sessions.trace(handle.run_id)
        assert (trace.trace.user_id, trace.trace.outcome) == ("ann", TraceOutcome.OK)
        kinds = {span.name.split(".")[0] for span in trace.spans}
        assert {"run", "turn", "llm", "tool", "wait"} <= kinds
        fresh = await runtime.sessions.trace(handle.run_id, after=open_trace.seq)
        followed = {span.span_id: span for span in (*open_trace.spans, *fresh.spans)}
        assert tuple(followed.values()) == trace.spans
        assert 0 < len(fresh.spans) < len(trace.spans)
        with pytest.raises(Conflict, match="unknown run"):
            await runtime.sessions.trace("nobody")

    play(story, path, agent(*PAYS))


def test_readers_of_an_open_trace_read_only_new_records_also_at_once_and_after_a_failure() -> None:
    async def story(runtime: AgentRuntime) -> None:
        handle = await runtime.start_run("clerk", "go", session_id="s1")
        last = await until(handle, "run.waiting")
        journal = ReadJournal(await runtime.sessions.records("s1"))
        row = RunRow(handle.run_id, "s1", "clerk", "", RunStatus.WAITING, 1, last, None)
        traces, read = Traces(), cast("Journal", journal)
        await traces.read(row, read, owner=None, after=0)
        assert journal.begun == [0, last]
        journal.is_failing = True
        with pytest.raises(Unavailable):
            await traces.read(row, read, owner=None, after=0)
        journal.is_failing, journal.begun = False, []
        await asyncio.gather(*(traces.read(row, read, owner=None, after=0) for _ in range(2)))
        assert journal.begun == [last, last]

    play(story, None, agent(*PAYS))


class ReadJournal:
    """Records that are read; notes where each read begins."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records
        self.begun: list[int] = []
        self.is_failing = False

    async def read(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
        self.begun.append(after)
        await asyncio.sleep(0)
        if self.is_failing:
            raise unavailable(f"{session_id} cannot be read")
        return tuple(self.records[after : after + limit])


def test_every_query_about_an_unknown_run_or_session_is_a_conflict(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        catalogue = runtime.sessions
        questions = (
            catalogue.get("none"),
            catalogue.history("none"),
            catalogue.records("none"),
            catalogue.at("none", 1),
            catalogue.fork("none"),
            anext(catalogue.export("none")),
            catalogue.delete("none"),
        )
        for question in questions:
            with pytest.raises(Conflict, match=r"unknown (run|session)"):
                await question

    play(story, path, agent())


def test_a_session_belongs_to_the_owner_of_its_first_run(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        handle = await runtime.start_run("clerk", "go", session_id="s1", run_id="r1", owner="ann")
        await until(handle, "run.waiting")
        before = await runtime.sessions.get("s1")
        with pytest.raises(Denied, match="belongs to another owner"):
            await runtime.start_run("clerk", "mine now", session_id="s1", run_id="r2", owner="bob")
        with pytest.raises(Denied, match="belongs to another owner"):
            await runtime.steer("clerk", "mine now", session_id="s1", owner="bob")
        assert await runtime.sessions.get("s1") == before
        await runtime.steer("clerk", "never mind", session_id="s1", owner="ann")
        await handle.wait()
        records = await runtime.sessions.records("s1")
        [started] = [record for record in records if record.type == "run.started"]
        assert started.data["owner"] == "ann"
        assert "mine now" not in str(records)

    play(story, path, agent(*PAYS))


@pytest.mark.parametrize("mark", ["\u202e", "\u2066", "\u200f", "\u061c"])
@pytest.mark.parametrize("name", ["run_id", "session_id", "owner"])
def test_names_that_look_like_others_are_refused(name: str, mark: str) -> None:
    async def story(runtime: AgentRuntime) -> None:
        with pytest.raises(Rejected, match=f"{name} must be .* change the direction of text"):
            await runtime.start_run("clerk", "go", **{name: f"ab{mark}cd"})  # pyright: ignore[reportCallIssue, reportArgumentType] - ids alone
        await (await runtime.start_run("clerk", f"a{mark}b\x1b", session_id="s1")).wait()
        assert (await runtime.sessions.get("s1")).title == "ab"
        with pytest.raises(Rejected, match="change the direction of text"):
            await runtime.sessions.fork("s1", session_id_new=f"ab{mark}cd")

    play(story, None, agent())
