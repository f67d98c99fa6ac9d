"""What the loop notes about a run and its calls while it folds their records."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from pydantic import JsonValue

from windlass_harness.budget import BudgetLimit, BudgetState
from windlass_harness.record import Record
from windlass_harness.times import elapsed_ms, ms_of, stamp_of
from windlass_harness.views.runs import RUN_ENDS
from windlass_protocol import (
    BudgetLimits,
    ErrorInfo,
    FinishReason,
    InputOutcome,
    JsonObject,
    OutputContract,
    RecoveryChoice,
)
from windlass_protocol.frozen import frozen
from windlass_protocol.limits import INTEGER_MAX

RUN_STARTING: Final = "run_starting"
BEFORE_TOOL_CALL: Final = "before_tool_call"
AFTER_APPROVAL_DECISION: Final = "after_approval_decision"
BEFORE_RUN_COMPLETE: Final = "before_run_complete"
ON_RUN_CANCEL_REQUESTED: Final = "on_run_cancel_requested"
AFTER_RUN_TERMINAL: Final = "after_run_terminal"


@dataclass(slots=True)
class Hooked:
    """The hooks that have run."""

    points: set[str] = field(default_factory=set[str])
    """Points of the run itself."""
    calls: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """Points of the calls of the newest step."""
    arguments: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    """What hooks made of the arguments of calls."""
    vetoes: int = 0
    """How often the run was not allowed to complete."""

    def has(self, point: str, call_id: str | None = None) -> bool:
        """Whether the hooks of a point have run."""
        return point in (self.points if call_id is None else self.calls.get(call_id, ()))

    def apply(self, record: Record) -> None:
        """Take the record of a hook that ran."""
        point, call_id = str(record.data.get("point")), record.data.get("callId")
        if not isinstance(call_id, str):
            self.points.add(point)
            self.vetoes += point == BEFORE_RUN_COMPLETE and record.data.get("vetoed") is True
            return
        self.calls.setdefault(call_id, set()).add(point)
        change = record.data.get("change")
        given = change.get("arguments") if isinstance(change, dict) else None
        if isinstance(given, dict):
            self.arguments[call_id] = given

    def ask(self, call_id: str) -> None:
        """People are asked about a call: there will be another decision."""
        self.calls.get(call_id, set()).discard(AFTER_APPROVAL_DECISION)

    def begin_step(self) -> None:
        """Forget what belonged to the answer before."""
        self.points.discard(BEFORE_RUN_COMPLETE)
        self.calls.clear()
        self.arguments.clear()


CONSENTED: Final = "approval.granted"
"""Code of a decision that lets a call through because a person consented to it."""
REFUSALS: Final = frozenset({"unknown_tool", "invalid_arguments"})
"""Codes of results that say that a call could not be made at all."""
NO_LIMITS: Final = BudgetLimit()
NOTHING_USED: Final = BudgetState()
INTERRUPTED: Final = "interrupted"
"""Code of an attempt that ended with its owner."""
HANDED_OVER: Final = "handed_over"
"""Code of an attempt that its owner broke off to let go of the session in order."""
SUBAGENT: Final = "subagent"
"""What a run waits on while others work for it."""
CONTEXT_OVERFLOW: Final = "context_overflow"
"""Code of an attempt that the model refused because there was too much to read."""


@frozen
class Grant:
    """What a person allowed for the rest of the session.

    A tool of an agent, under the rules of then.
    """

    agent_id: str
    tool_name: str
    policy: str | None


@frozen
class Pause:
    """A time in which nothing is tried."""

    since_ms: int
    until_ms: int

    def has(self, now_ms: int) -> bool:
        """Tell whether it goes on.

        A clock that was put back to before it began cannot tell, so it does not.
        """
        return self.since_ms <= now_ms < self.until_ms


def pause_after(record: Record, wait_ms: int) -> Pause:
    """Return the time that begins with a record."""
    since_ms = ms_of(record.at)
    return Pause(since_ms, since_ms + wait_ms)


@frozen
class Child:
    """The subagent that works for a call."""

    name: str
    session_id: str
    run_id: str


@dataclass(slots=True)
class CallNotes:
    """What became of a call before it could run."""

    policy: str | None = None
    """The version of the policy that decided last."""
    arguments: JsonObject | None = None
    """Those that a person was asked about."""
    arguments_hash: str | None = None
    request_id: str | None = None
    """Open: somebody is being asked."""
    is_dispatched: bool = False
    """That request was taken to whoever answers."""
    asked_as: str | None = None
    """The newest request about it, open or not."""
    until_ms: int | None = None
    """When that request lapses, and with it a consent that nobody has used."""
    outcome: InputOutcome | None = None
    reason: str | None = None
    pause: Pause | None = None
    """Put off by a policy."""
    is_consented: bool = False
    """A person has consented to what it began with, or to running it again."""
    choice: RecoveryChoice | None = None
    asks: int = 0
    """How often people were asked about it."""
    interruptions: int = 0
    """How often in a row it ended with its owner and was begun again by itself."""
    passed_on: int = 0
    """How often it was left to the next owner before it began."""
    child: Child | None = None
    report: JsonObject | None = None
    """What `subagent.completed` says, once the child has ended."""


@dataclass(slots=True)
class RunNotes:
    """What a run has used and tried so far; `Usage` fields by their wire names."""

    limits: BudgetLimit = NO_LIMITS
    budget: BudgetState = NOTHING_USED
    usage: dict[str, int] = field(default_factory=dict[str, int])
    contract: OutputContract | None = None
    active_since: str | None = None
    """When the run last began to do something, or came to another owner; None while it waits."""
    last_at: str | None = None
    """When the newest record was written."""
    epoch: int | None = None
    """Of the owner that wrote it."""
    attempt: int = 0
    """Of the model call under way, or that failed last."""
    is_retry: bool = False
    """The next model call repeats the last one."""
    pause: Pause | None = None
    """Before that."""
    failures: int = 0
    """Of the model call under way; that its owner was interrupted is none."""
    interruptions: int = 0
    """Attempts of the model call under way that ended with their owner."""
    finish_reason: FinishReason | None = None
    """Of the newest answer; None while there is none."""
    failure: ErrorInfo | None = None
    """Why the run has to end; it does as soon as nothing is under way."""
    rejections: int = 0
    """Answers that did not fit the output contract."""
    refusals: int = 0
    """Calls in a row that could not be made at all."""
    is_validated: bool = False
    structured: JsonValue = None
    waits_on: str | None = None
    """What for, while it waits."""
    children: int = 0
    """Subagents that were called."""
    hooked: Hooked = field(default_factory=Hooked)

    def wait(self, record: Record) -> None:
        """Begin to wait, or to wait for something else."""
        self.rest(record.at)
        self.waits_on = str(record.data["on"])
        # Others work for it meanwhile: unlike the time of people, that is the run's own.
        self.active_since = record.at if self.waits_on == SUBAGENT else None

    def resume(self, record: Record) -> None:
        """Wait no more."""
        self.rest(record.at)
        self.active_since, self.waits_on = record.at, None

    def use(
        self, *, tokens: int = 0, steps: int = 0, tool_calls: int = 0, cost: int = 0, wall_ms: int = 0
    ) -> None:
        """Count what was used.

        As `consume_budget` does it, but this is done for every step and call.
        """
        used = self.budget
        self.budget = BudgetState(
            used.tokens_used + tokens,
            used.steps_used + steps,
            used.tool_calls_used + tool_calls,
            used.cost_micros_used + cost,
            used.wall_ms_used + wall_ms,
        )

    def wall_ms(self, until: str) -> int:
        """Return how long the run has gone on until then."""
        since = self.active_since
        return self.budget.wall_ms_used + (0 if since is None else elapsed_ms(since, until))

    def rest(self, at: str) -> None:
        """The time of the run stands still from now on."""
        self.use(wall_ms=self.wall_ms(at) - self.budget.wall_ms_used)
        self.active_since = None

    def left_at(self, now: str, paused_until_ms: int) -> str:
        """Return until when the last owner is charged, if another one has come by now.

        Until its last record; a pause before a retry passes whether anybody is there or not, and so does the
        time in which subagents work.
        """
        last = self.last_at
        if last is None or paused_until_ms >= ms_of(now) or self.waits_on == SUBAGENT:
            return now
        return last if paused_until_ms <= ms_of(last) else stamp_of(paused_until_ms)

    def change_hands(self, record: Record, paused_until_ms: int) -> None:
        """Take the first record of another owner."""
        self.epoch = record.epoch
        if self.active_since is not None:
            self.rest(self.left_at(record.at, paused_until_ms))
            self.active_since = record.at

    def charge(self, usage: JsonValue) -> None:
        """Count what a model call cost."""
        if not isinstance(usage, dict):
            return
        totals = self.usage
        for name, value in usage.items():
            if isinstance(value, int):
                totals[name] = min(totals.get(name, 0) + value, INTEGER_MAX)
        tokens = number_in(usage, "inputTokens") + number_in(usage, "outputTokens")
        self.use(tokens=tokens, cost=number_in(usage, "costMicros"))


def limits_of(limits: BudgetLimits | None) -> BudgetLimit:
    """Return the limits of a run as the rules of the budget take them."""
    if limits is None:
        return NO_LIMITS
    return BudgetLimit(
        max_tokens=limits.max_tokens,
        max_steps=limits.max_steps,
        max_tool_calls=limits.max_tool_calls,
        max_cost_micros=limits.max_cost_micros,
        max_wall_ms=limits.max_wall_ms,
    )


def number_in(data: Mapping[str, JsonValue], name: str) -> int:
    """Return a number of an object; 0 if it is missing or something else."""
    value = data.get(name)
    return value if isinstance(value, int) else 0


def policy_version(decision: Mapping[str, JsonValue]) -> str | None:
    """Return the version of the policy that made a decision."""
    refs = decision.get("policyRefs")
    for ref in refs if isinstance(refs, list) else ():
        version = ref.get("version") if isinstance(ref, dict) else None
        if isinstance(version, str):
            return version
    return None


def objects_in(data: Mapping[str, JsonValue], name: str) -> list[JsonObject]:
    """Return a list of objects, which the record would not be valid without."""
    return cast(list[JsonObject], data[name])


def follow_child(record: Record, *, note: CallNotes, run: RunNotes) -> None:
    """Note what became of a subagent; what it used was used by the run that called it."""
    data = record.data
    if record.type == "subagent.called":
        note.child = Child(str(data["name"]), str(data["childSessionId"]), str(data.get("childRunId")))
        run.children += 1
        return
    note.report = data
    run.charge(data.get("usage"))
    run.use(steps=number_in(data, "steps"), tool_calls=number_in(data, "toolCalls"))


THRESHOLD: Final = "threshold"
OVERFLOW: Final = "overflow"
ASKED: Final = "asked"


@dataclass(slots=True)
class Compacting:
    """The compaction under way, and what became of the last one."""

    reason: str = ""
    """Why the newest one was asked for: threshold, overflow or asked."""
    epoch: int | None = None
    """Of the owner that asked for the one under way; None if none is."""
    tokens: int = 0
    """What the history filled when it was asked for."""
    is_retry: bool = False
    """The next one repeats the last one."""
    pause: Pause | None = None
    """Before that."""
    failures: int = 0
    interruptions: int = 0
    """Attempts that ended with their owner."""
    tokens_after: int = 0
    """What the history filled after the last one of this run; 0 if there was none."""
    learned: int | None = None
    """What the model turned out to read at most, for the rest of the run."""
    is_overflow: bool = False
    """The model refused the length of the prompt: a compaction is due."""
    has_overflowed: bool = False
    """That was done for the step under way."""

    @property
    def is_open(self) -> bool:
        """Whether one is under way."""
        return self.epoch is not None

    @property
    def is_due(self) -> bool:
        """Whether one is under way, or is to be tried again."""
        return self.is_open or self.is_retry

    def apply(self, record: Record, *, is_at_rest: bool) -> None:
        """Take a record of a compaction, or of the end of a run."""
        if record.type not in RUN_ENDS:
            _FOLLOW[record.type](self, record)
        elif is_at_rest:
            self.end_run()

    def begin_run(self) -> None:
        """A run begins: what the last one found out may not hold for its model."""
        self.tokens_after, self.learned = 0, None
        self.end_step()

    def end_run(self) -> None:
        """A run has ended; what somebody asked for is done all the same."""
        if self.reason != ASKED:
            self._close()

    def end_step(self) -> None:
        """A model call came to its end."""
        self.is_overflow = self.has_overflowed = False

    def requested(self, record: Record) -> None:
        """Take that one is wanted."""
        reason = record.data.get("reason")
        self.reason = reason if isinstance(reason, str) else THRESHOLD
        self.epoch = record.epoch or 0
        self.tokens = number_in(record.data, "usageInputTokens")
        self.is_retry = False
        if self.reason == OVERFLOW:
            self.learned = lowered(self.tokens)

    def failed(self, record: Record) -> None:
        """Take that one failed, for now or for good."""
        if "delayMs" not in record.data:
            self._finish(self.tokens)
            return
        code = record.data.get("code")
        self.epoch, self.is_retry = None, True
        self.pause = pause_after(record, number_in(record.data, "delayMs"))
        self.failures += code not in (INTERRUPTED, HANDED_OVER)
        self.interruptions += code == INTERRUPTED

    def completed(self, record: Record) -> None:
        """Take that one is done."""
        self._finish(number_in(record.data, "inputTokensAfter"))

    def cleared(self, _: Record) -> None:
        """Take that there is no history any more."""
        self.tokens_after = 0

    def _finish(self, tokens_after: int) -> None:
        self._close()
        self.tokens_after = tokens_after
        self.has_overflowed = self.has_overflowed or self.is_overflow
        self.is_overflow = False

    def _close(self) -> None:
        self.epoch, self.is_retry, self.pause = None, False, None
        self.failures = self.interruptions = 0


def lowered(tokens: int) -> int:
    """Return the threshold for a history that has to get shorter, whatever it fills."""
    return tokens * 3 // 4


_FOLLOW: Final[dict[str, Callable[[Compacting, Record], None]]] = {
    "compaction.requested": Compacting.requested,
    "compaction.failed": Compacting.failed,
    "compaction.completed": Compacting.completed,
    "context.cleared": Compacting.cleared,
}
COMPACTION_RECORDS: Final = frozenset({*_FOLLOW, *RUN_ENDS})
"""What it is folded from; more is told by the loop."""
