"""Bugs, planted one at a time.

The simulator has to find each of them, or it proves nothing.
"""

# A bug is planted where it hurts, in private parts and without types.
# pyright: basic, reportPrivateUsage=false

import asyncio
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Final

from msgspec import structs

from windlass.adapters.journals import memory
from windlass.engine.clocks import PauseClock
from windlass.engine.driving import driver
from windlass.engine.driving import inbox as mailbox
from windlass.engine.driving.driver import Driver
from windlass.engine.tool_calls import tool_effects
from windlass.engine.tool_calls.call_judge import CallJudge
from windlass.engine.tool_calls.tool_effects import ToolEffects
from windlass.engine.writing import writer as loading
from windlass.engine.writing.writer import SessionWriter
from windlass.errors import Ambiguous
from windlass.feed.bus import Feed
from windlass.feed.subscription import SessionRecords, StoreRecords
from windlass.ports.inbox import Posted
from windlass.ports.journal import Appended, Claim
from windlass.runtime import runs
from windlass.testing.stores import WrappedStore
from windlass_harness.loop.events import (
    AnswersGiven,
    CallJudged,
    CallReturned,
    CancelRequested,
    ModelFailed,
    Plan,
    RunRequested,
    RunTool,
    RunWithdrawn,
)
from windlass_harness.loop.notes import Pause
from windlass_protocol import AllowDecision, PolicyKind, PolicyRef, RetryClass

Mutation = Callable[[], AbstractContextManager[None]]
MUTATIONS: Final[dict[str, Mutation]] = {}
RARE: Final = {
    "an_approval_counts_after_it_expired": 131,
    "a_stale_owner_may_write": 152,
    "a_call_that_has_begun_is_passed_on_as_if_it_had_not": 80,
    "one_approval_counts_for_every_later_call": 48,
    "a_hopeless_failure_is_tried_again": 178,
    "a_post_is_acknowledged_before_it_is_durable": 22,
}
"""Bugs that few seeds find, each with a seed that finds it. A wrong seed costs time and hides nothing."""
_REFS: Final = (PolicyRef(kind=PolicyKind.HOST, id="mutation", version="1"),)


@contextmanager
def _patched(*patches: tuple[Any, str, Any]) -> Generator[None]:
    """Put something else in the place of something that is there."""
    with ExitStack() as stack:
        for owner, name, value in patches:
            before = vars(owner)[name]
            stack.callback(setattr, owner, name, before)
            setattr(owner, name, value)
        yield


def mutation(make: Callable[[], list[tuple[Any, str, Any]]]) -> Mutation:
    """Keep a mutation by its name.

    `make` returns the patches, anew for each simulation.
    """

    def planted() -> AbstractContextManager[None]:
        return _patched(*make())

    MUTATIONS[make.__name__] = planted
    return planted


def _taking(kind: type, change: Callable[..., Any]) -> list[tuple[Any, str, Any]]:
    """Change the records of one kind of event."""
    take = driver.take

    def taken(state: Any, event: Any, **more: Any) -> Any:
        if isinstance(event, kind):
            return change(take, state, event, **more)
        return take(state, event, **more)

    return [(driver, "take", taken)]


def _advancing(change: Callable[[Plan], Plan]) -> list[tuple[Any, str, Any]]:
    """Change the planned records."""
    advance = driver.advance
    return [(driver, "advance", lambda *given, **more: change(advance(*given, **more)))]


def _judging(change: Callable[[Any, Any, Any], Any]) -> list[tuple[Any, str, Any]]:
    """Change the policy decision about a call."""
    judge = CallJudge.judge

    async def judged(self: CallJudge, state: Any, effect: Any) -> Any:
        event = await judge(self, state, effect)
        return change(state, effect, event) if isinstance(event, CallJudged) else event

    return [(CallJudge, "judge", judged)]


def _allowed(event: CallJudged, code: str = "ok") -> CallJudged:
    decision = AllowDecision(code=code, reason="fine", policy_refs=_REFS)
    return replace(event, decision=decision, approval_request=None)


# intents, effects and results


@mutation
def effects_begin_before_their_intent_is_durable() -> list[tuple[Any, str, Any]]:
    commit = Driver._commit

    async def early(self: Driver) -> None:
        for effect in self._ready:
            self._start(effect)
        self._ready.clear()
        await commit(self)

    return [(Driver, "_commit", early)]


@mutation
def the_result_of_a_tool_is_dropped() -> list[tuple[Any, str, Any]]:
    return _taking(CallReturned, lambda *_, **__: [])


@mutation
def effects_that_must_happen_once_are_repeated_after_a_crash() -> list[tuple[Any, str, Any]]:
    return _judging(lambda state, effect, event: replace(event, effect="idempotent"))


@mutation
def a_call_that_has_begun_is_passed_on_as_if_it_had_not() -> list[tuple[Any, str, Any]]:
    call = ToolEffects._call

    def unnoticed(self: ToolEffects, state: Any, made: Any) -> Any:
        self._unbegun[made.effect.call_id] = made.task
        return call(self, state, made)

    return [(ToolEffects, "_call", unnoticed)]


@mutation
def a_repeated_effect_gets_another_key() -> list[tuple[Any, str, Any]]:
    def other(effect: Any) -> Any:
        if isinstance(effect, RunTool) and effect.attempt > 1:
            return replace(effect, idempotency_key=f"{effect.idempotency_key}+")
        return effect

    return _advancing(lambda plan: structs.replace(plan, effects=tuple(other(one) for one in plan.effects)))


@mutation
def other_arguments_are_executed() -> list[tuple[Any, str, Any]]:
    call_tool = tool_effects.call_tool

    async def changed(tool: Any, values: Any, context: Any) -> Any:
        return await call_tool(tool, {**values, "verdict": "allow"}, context)

    return [(tool_effects, "call_tool", changed)]


# policy and people


@mutation
def the_policy_is_not_asked() -> list[tuple[Any, str, Any]]:
    return _judging(lambda state, effect, event: _allowed(event))


@mutation
def one_approval_counts_for_every_later_call() -> list[tuple[Any, str, Any]]:
    approved: set[int] = set()

    def reused(state: Any, effect: Any, event: CallJudged) -> CallJudged:
        if effect.approved_hash is not None:
            approved.add(id(state))
        is_asked = event.decision.decision == "ask"
        return _allowed(event, "approval.granted") if is_asked and id(state) in approved else event

    return _judging(reused)


@mutation
def an_approval_counts_after_it_expired() -> list[tuple[Any, str, Any]]:
    def late(take: Any, state: Any, event: Any, **more: Any) -> Any:
        return take(state, replace(event, given_ms=0), **more)

    refusal = runs.refusal
    return [
        *_taking(AnswersGiven, late),
        (runs, "refusal", lambda request, response, **_: refusal(request, response, now_ms=0)),
    ]


@mutation
def a_no_is_taken_for_a_yes() -> list[tuple[Any, str, Any]]:
    def yes(take: Any, state: Any, event: AnswersGiven, **more: Any) -> Any:
        drafts = take(state, event, **more)
        return [
            replace(one, data={**one.data, "outcome": "approved"}) if one.type == "approval.settled" else one
            for one in drafts
        ]

    return _taking(AnswersGiven, yes)


@mutation
def an_answer_is_taken_without_a_record() -> list[tuple[Any, str, Any]]:
    return _taking(AnswersGiven, lambda *_, **__: [])


# runs


@mutation
def a_cancel_is_forgotten() -> list[tuple[Any, str, Any]]:
    return _taking(CancelRequested, lambda *_, **__: [])


@mutation
def a_start_is_lost_when_another_run_goes_on() -> list[tuple[Any, str, Any]]:
    sort = mailbox.sort

    def lost(items: Any, **more: Any) -> Any:
        mail = sort(items, **more)
        mail.taken += [item.number for item in mail.left]
        mail.left.clear()
        return mail

    return [(mailbox, "sort", lost)]


@mutation
def two_runs_go_on_at_once() -> list[tuple[Any, str, Any]]:
    sort = mailbox.sort

    def at_once(items: Any, *, intake: mailbox.Intake, **more: Any) -> Any:
        whole = sort((), intake=mailbox.Intake.STARTS, **more)
        for item in items:
            mail = sort((item,), intake=mailbox.Intake.STARTS, **more)
            whole.events += mail.events
            whole.taken += mail.taken
        return whole

    return [(mailbox, "sort", at_once)]


@mutation
def a_cancel_of_a_queued_run_is_forgotten() -> list[tuple[Any, str, Any]]:
    return _taking(RunWithdrawn, lambda *_, **__: [])


@mutation
def a_queued_run_that_was_cancelled_starts_all_the_same() -> list[tuple[Any, str, Any]]:
    sort = mailbox.sort

    def kept(items: Any, **more: Any) -> Any:
        mail = sort(items, **more)
        gone = {str(event.body["runId"]) for event in mail.events if isinstance(event, RunWithdrawn)}
        back = [item for item in items if item.kind == "start" and item.body["runId"] in gone]
        mail.taken = [number for number in mail.taken if number not in [item.number for item in back]]
        mail.left = [*back, *mail.left]
        return mail

    return [(mailbox, "sort", kept)]


@mutation
def a_run_ends_twice() -> list[tuple[Any, str, Any]]:
    def twice(plan: Plan) -> Plan:
        ends = tuple(one for one in plan.drafts if one.type in ("run.completed", "run.failed"))
        return structs.replace(plan, drafts=(*plan.drafts, *ends))

    return _advancing(twice)


@mutation
def the_turn_ends_after_its_run() -> list[tuple[Any, str, Any]]:
    def swapped(plan: Plan) -> Plan:
        drafts = list(plan.drafts)
        for at, one in enumerate(drafts[:-1]):
            if one.type.startswith("turn.") and drafts[at + 1].type == "run.completed":
                drafts[at], drafts[at + 1] = drafts[at + 1], one
        return structs.replace(plan, drafts=tuple(drafts))

    return _advancing(swapped)


@mutation
def the_output_of_a_run_is_lost() -> list[tuple[Any, str, Any]]:
    def emptied(plan: Plan) -> Plan:
        drafts = [
            replace(one, data={**one.data, "output": ""}) if one.type == "run.completed" else one
            for one in plan.drafts
        ]
        return structs.replace(plan, drafts=tuple(drafts))

    return _advancing(emptied)


# the model and time


@mutation
def a_hopeless_failure_is_tried_again() -> list[tuple[Any, str, Any]]:
    def again(take: Any, state: Any, event: ModelFailed, **more: Any) -> Any:
        error = event.error.model_copy(update={"retry": RetryClass.RETRYABLE})
        return take(state, replace(event, error=error), **more)

    return _taking(ModelFailed, again)


@mutation
def model_retries_do_not_wait() -> list[tuple[Any, str, Any]]:
    return [(Pause, "has", lambda *_: False)]


@mutation
def timers_never_ring() -> list[tuple[Any, str, Any]]:
    return [(PauseClock, "timer", lambda *_: None)]


# the journal


@mutation
def a_stale_owner_may_write() -> list[tuple[Any, str, Any]]:
    return [(memory, "check_fence", lambda *_: None)]


@mutation
def a_new_owner_gets_an_old_epoch() -> list[tuple[Any, str, Any]]:
    claim = memory.MemoryStore.claim

    async def same(self: Any, session_id: str, owner_id: str, **more: Any) -> Claim:
        claimed = await claim(self, session_id, owner_id, **more)
        session = self._sessions[session_id]
        session.row = replace(session.row, epoch=max(1, claimed.epoch - 1))
        return replace(claimed, epoch=max(1, claimed.epoch - 1))

    return [(memory.MemoryStore, "claim", same)]


@mutation
def a_post_is_acknowledged_before_it_is_durable() -> list[tuple[Any, str, Any]]:
    post = WrappedStore.post
    left: list[Any] = []

    async def early(self: Any, session_id: str, **item: Any) -> Posted:
        async def later() -> None:
            await asyncio.sleep(0)
            await post(self, session_id, **item)

        left.append(asyncio.ensure_future(later()))
        return Posted(1, is_new=True)

    return [(WrappedStore, "post", early)]


@mutation
def a_doubtful_append_is_taken_for_done() -> list[tuple[Any, str, Any]]:
    append = WrappedStore.append

    async def believed(self: Any, batch: Any) -> Appended:
        try:
            return await append(self, batch)
        except Ambiguous:
            return Appended(batch.expected_seq + 1, 1)

    return [(WrappedStore, "append", believed)]


@mutation
def a_record_is_skipped_after_the_snapshot() -> list[tuple[Any, str, Any]]:
    unpacked = loading._unpack_snapshot

    def older(snapshot: bytes) -> Any:
        state = unpacked(snapshot)
        if state is not None:
            state.notes.clear()
            state.run_notes = type(state.run_notes)()
        return state

    return [(loading, "_unpacked", older)]


# the feed


@mutation
def records_are_shown_before_they_are_durable() -> list[tuple[Any, str, Any]]:
    commit = SessionWriter.commit

    async def early(self: SessionWriter, **more: Any) -> None:
        journal: Any = self.journal
        for at, record in enumerate(self._records, 1 + await journal.inner.last_position()):
            record.position = at
        if self._records:
            self._publisher.publish([*self._records])
        await commit(self, **more)

    return [(SessionWriter, "commit", early)]


@mutation
def a_cursor_skips_one() -> list[tuple[Any, str, Any]]:
    begin = SessionRecords.begin

    async def further(self: Any, order: int | None) -> Any:
        span = await begin(self, order)
        return replace(span, after=span.after + 1) if order else span

    return [(SessionRecords, "begin", further)]


@mutation
def a_cursor_repeats_one() -> list[tuple[Any, str, Any]]:
    begin = StoreRecords.begin

    async def back(self: Any, order: int | None) -> Any:
        span = await begin(self, order)
        return replace(span, after=max(0, span.after - 1))

    return [(StoreRecords, "begin", back)]


@mutation
def records_of_other_processes_go_unnoticed() -> list[tuple[Any, str, Any]]:
    return [(Feed, "notify", lambda _: None)]


@mutation
def the_last_record_of_a_start_is_dropped() -> list[tuple[Any, str, Any]]:
    def shortened(take: Any, state: Any, event: RunRequested, **more: Any) -> Any:
        return take(state, event, **more)[:-1]

    return _taking(RunRequested, shortened)
