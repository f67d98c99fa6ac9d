"""Notes of the loop: facts about runs, calls, hooks and compactions, folded from records."""

from collections.abc import Collection
from dataclasses import field, replace
from typing import Final

from pydantic import JsonValue

from windlass_harness.budget import Budget, BudgetState
from windlass_harness.loop.rules import AFTER_APPROVAL_DECISION, BEFORE_RUN_COMPLETE
from windlass_harness.record import Record
from windlass_harness.times import elapsed_ms, ms_of, stamp_of
from windlass_harness.views.payloads import token_count
from windlass_protocol import (
    BudgetLimits,
    ErrorInfo,
    FinishReason,
    InputOutcome,
    JsonObject,
    OutputContract,
    PriceGap,
    PriceSource,
    RecoveryChoice,
    RunStatus,
    ToolOutput,
)
from windlass_protocol.frozen import frozen, mutable
from windlass_protocol.generated import records
from windlass_protocol.limits import INTEGER_MAX


@mutable
class HookNotes:
    """Hooks that have run."""

    points: set[str] = field(default_factory=set[str])
    """Points of the run."""
    calls: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """Points of the calls of the newest step."""
    arguments: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    """Arguments changed by hooks, by call id."""
    vetoes: int = 0
    """Number of vetoed completions."""

    def has(self, point: str, call_id: str | None = None) -> bool:
        """Whether the hooks of a point have run."""
        return point in (self.points if call_id is None else self.calls.get(call_id, ()))

    def apply(self, body: records.HookCompleted | records.HookFailed) -> None:
        """Apply the record of a hook."""
        done = body if isinstance(body, records.HookCompleted) else None
        if body.call_id is None:
            self.points.add(body.point)
            self.vetoes += body.point == BEFORE_RUN_COMPLETE and done is not None and done.vetoed is True
            return
        self.calls.setdefault(body.call_id, set()).add(body.point)
        arguments = None if done is None or done.change is None else done.change.get("arguments")
        if isinstance(arguments, dict):
            self.arguments[body.call_id] = arguments

    def ask(self, call_id: str) -> None:
        """Approval of a call was requested: the policy will decide again."""
        self.calls.get(call_id, set()).discard(AFTER_APPROVAL_DECISION)

    def begin_step(self) -> None:
        """Forget the hooks of the previous step."""
        self.points.discard(BEFORE_RUN_COMPLETE)
        self.calls.clear()
        self.arguments.clear()


CONSENTED: Final = "approval.granted"
"""Decision code of a call that a person approved."""
REFUSALS: Final = frozenset({"unknown_tool", "invalid_arguments", "invalid_code"})
"""Result codes of calls that were refused."""
NO_LIMITS: Final = Budget()
NO_USAGE: Final = records.Usage()
NO_USAGE_PRICE: Final = records.Price(source=PriceSource.NONE, gap=PriceGap.NO_USAGE)
"""The price of an answer of which the provider reported no usage."""
INTERRUPTED: Final = "interrupted"
"""Retry code: the owner crashed."""
HANDED_OVER: Final = "handed_over"
"""Retry code: the owner released the session in order."""
SUBAGENT: Final = "subagent"
"""`waits_on` value of a run that waits for subagents."""
PROVIDER: Final = "provider"
"""`waits_on` value of a run that waits for its model provider."""
RECOVERY: Final = "recovery"
"""`waits_on` value of a run that waits because processes end again and again."""
BATCH: Final = "batch"
"""`waits_on` value of a run that waits for its answer in a batch of its provider."""
HELD: Final = (PROVIDER, RECOVERY)
"""`waits_on` values of a run that waits for its next attempt."""
CONTEXT_OVERFLOW: Final = "context_overflow"
"""Retry code: the prompt exceeded the context window."""


@frozen
class Grant:
    """An approval for the rest of the session: a tool of an agent, under one policy version."""

    agent_id: str
    tool_name: str
    policy: str | None


@frozen
class Pause:
    """A period without attempts."""

    since_ms: int
    until_ms: int

    def has(self, now_ms: int) -> bool:
        """Whether the pause has not ended.

        False before its start: the clock was set back, so the remaining time is unknown.
        """
        return self.since_ms <= now_ms < self.until_ms


def pause_after(record: Record, wait_ms: int) -> Pause:
    """Return the pause that starts with a record."""
    since_ms = ms_of(record.at)
    return Pause(since_ms, since_ms + wait_ms)


@frozen
class Interruption:
    """An attempt of an effect that has no result, because its owner did not go on."""

    epoch: int | None
    """Epoch of the owner."""
    is_shared: bool
    """Whether other runs were at work."""
    has_lived: bool
    """Whether the process of the owner went on: it stood still, or was cut off, and lost the session."""


Interruptions = tuple[Interruption, ...]
"""Interruptions of one effect in a row."""


def with_survivors(interruptions: Interruptions, epochs: Collection[int | None]) -> Interruptions:
    """Return interruptions with those of owners that are known to have gone on."""
    return tuple(replace(past, has_lived=past.has_lived or past.epoch in epochs) for past in interruptions)


@frozen
class CachedPrompt:
    """The prompt of the newest model call, as its provider has it in the cache."""

    model_id: str | None
    parts: tuple[str, ...]
    """A digest of each part: tools, the system prompt, messages."""
    tokens: int
    """Tokens that the call read from the cache or wrote to it."""


@frozen
class Child:
    """The subagent of a call."""

    name: str
    session_id: str
    run_id: str


LIST_JOBS: Final = "list_jobs"
WAIT_FOR_JOB: Final = "wait_for_job"
MESSAGE_JOB: Final = "message_job"
CANCEL_JOB: Final = "cancel_job"
JOB_TOOLS: Final = frozenset({LIST_JOBS, WAIT_FOR_JOB, MESSAGE_JOB, CANCEL_JOB})
"""Tools of an agent that has background work; the loop settles their calls."""


@mutable
class BackgroundJob:
    """Work in the background of a session."""

    job_id: str
    name: str
    """The subagent, or the tool."""
    call_id: str
    run_id: str
    """The run that began it."""
    began_at: str
    child: Child
    lent: BudgetLimits | None = None
    """Its share of the limits of that run."""
    status: RunStatus | None = None
    """How it ended; None while it goes on."""
    report: records.SubagentCompleted | None = None
    """What it reported, until a message has brought it."""
    is_dropped: bool = False
    """Whether nothing waits for its report: the run that began it did not complete."""

    @property
    def is_open(self) -> bool:
        """Whether it goes on, and its report is waited for."""
        return self.status is None and not self.is_dropped


JOBS_KEPT_MAX: Final = 100
"""Jobs that have ended which a session lists; the oldest are dropped."""


@frozen
class ProgramResult:
    """The result of a call that a program made."""

    call_id: str
    output: ToolOutput
    content: records.ContentRef | None = None
    """Reference to the complete output, if `output` is a part of it."""
    code: str = ""
    """Error code, if the call failed."""
    at: str | None = None
    """The time of its record."""
    number: int = 0
    """The position of its call among those of the program."""


@frozen
class ProgramVariables:
    """Variables of programs that live for the session."""

    interpreter: str
    """Name and version of the interpreter that wrote them."""
    content: records.ContentRef
    """Reference to them."""
    names: tuple[str, ...] = ()


WORKFLOW: Final = "workflow/"
"""Prefix of the interpreter of programs that are functions of the application."""
ASK_QUESTION: Final = "ask_question"
"""The tool under whose name a question is recorded."""
SLEEP: Final = "sleep"
"""The tool under whose name a workflow or a tool waits for a time."""
WAIT_FOR: Final = "wait_for"
"""The tool under whose name it waits for an event."""
UNDO_CALLS: Final = "undo_calls"
"""The tool under whose name a workflow reverses its calls."""


@mutable
class ProgramNotes:
    """Progress of a program: a call that makes calls of its own."""

    interpreter: str
    """Name and version of the interpreter that began it."""
    started_at: str
    """The time that its clock shows."""
    variables: ProgramVariables | None = None
    """What it began with."""
    calls: list[tuple[str, str, JsonValue]] = field(default_factory=list[tuple[str, str, JsonValue]])
    """The id, the tool and the arguments of each of its calls, in the order in which it made them."""
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    """The positions of its calls, by id."""
    results: list[ProgramResult] = field(default_factory=list[ProgramResult])
    """Results of its calls, in the order of their records."""
    taken: int = 0
    """Number of results that it had taken when it paused last."""
    has_paused: bool = False
    snapshot: records.ContentRef | None = None
    """Reference to its state at that pause."""
    printed: str = ""
    """Text that it had printed by then."""
    end: records.ProgramEnded | None = None
    """How it ended, if calls of it were open."""
    epoch: int | None = None
    """Epoch of the owner that has to run it; None if that owner released it in order."""

    def add_call(self, call_id: str, tool_name: str, arguments: JsonValue) -> None:
        """Apply that it made a call."""
        self.numbers[call_id] = len(self.calls)
        self.calls.append((call_id, tool_name, arguments))

    @property
    def is_workflow(self) -> bool:
        """Whether it is a function of the application."""
        return self.interpreter.startswith(WORKFLOW)

    @property
    def is_of_application(self) -> bool:
        """Whether it is a workflow or a tool that waits, and no source of a model."""
        return self.is_tool or self.is_workflow

    @property
    def has_work(self) -> bool:
        """Whether it has something to do: to begin, or to take results."""
        return self.end is None and not (self.has_paused and len(self.results) == self.taken)

    def has_result(self, call_id: str) -> bool:
        """Return whether a call of it has a result."""
        return any(result.call_id == call_id for result in self.results)

    @property
    def is_tool(self) -> bool:
        """Whether it is a tool that waits; its calls are what it waits for: answers, times, events."""
        return not self.interpreter

    @property
    def is_tool_at_rest(self) -> bool:
        """Whether it is a tool that ended to wait."""
        return self.is_tool and self.has_paused


@mutable
class CallNotes:
    """Decisions, requests and attempts of a call."""

    policy_version: str | None = None
    """Version of the policy that decided last."""
    arguments: JsonObject | None = None
    """Arguments that a person was asked to approve."""
    is_changed: bool = False
    """Whether the person who approved the call changed these arguments."""
    arguments_hash: str | None = None
    open_request_id: str | None = None
    """Open request about the call; None if there is none."""
    is_dispatched: bool = False
    """Whether that request was dispatched."""
    last_request_id: str | None = None
    """Newest request about the call, open or settled."""
    consent_expires_ms: int | None = None
    """Expiry of that request; an unused consent expires with it."""
    approval_outcome: InputOutcome | None = None
    denial_reason: str | None = None
    pause: Pause | None = None
    """Deferral by a policy."""
    is_consented: bool = False
    """Whether a person approved the call, or running it again."""
    recovery_choice: RecoveryChoice | None = None
    asks: int = 0
    """Number of requests about the call."""
    interruptions: Interruptions = ()
    """Interruptions after which it was restarted without asking."""
    unbegun_handovers: int = 0
    """Number of handovers before it began."""
    child: Child | None = None
    lent: BudgetLimits | None = None
    """Limits of the child: its share of those of the run."""
    report: records.SubagentCompleted | None = None
    """What the child reported when it ended."""
    program: ProgramNotes | None = None
    """Set after the call of a program has begun, or a tool has waited."""
    undo: str | None = None
    """The tool that can reverse the call."""
    reversals: int = 0
    """How often a person chose to reverse the interrupted call."""

    @property
    def runs_alone(self) -> bool:
        """Whether a call that has begun is performed by its owner, and interrupted with it."""
        is_running = self.program is None or (self.program.is_tool and not self.program.has_paused)
        return self.child is None and self.recovery_choice is not RecoveryChoice.UNDO and is_running

    @property
    def is_judged_again(self) -> bool:
        """Whether a call that has begun is to be judged and begun again."""
        is_at_rest = self.program is not None and self.program.is_tool_at_rest
        return self.recovery_choice is RecoveryChoice.RETRY or is_at_rest


@mutable
class Used:
    """Usage of a run, counted in place; see `BudgetState`."""

    tokens_used: int = 0
    steps_used: int = 0
    tool_calls_used: int = 0
    cost_micros_used: int = 0
    wall_ms_used: int = 0


@mutable
class RunNotes:
    """Usage and attempts of a run."""

    limits: Budget = NO_LIMITS
    budget: Used = field(default_factory=Used)
    usage: records.Usage = NO_USAGE
    reserved: int | None = None
    """What is set aside for the open model call, in millionths of a dollar."""
    answer_tokens: int | None = None
    """Tokens of the longest answer that this pays for."""
    is_batched: bool = False
    """Whether the open model call is an item of a batch: it is asked for again, also by another owner."""
    shared_call: str | None = None
    """What the store knows the open model call by, if it counts for limits that runs share."""
    settled_micros: int | None = None
    """Reservations that count as spent, because the cost of their call is not known."""
    allowed_micros: int | None = None
    """What a person lets the run spend beyond limits that it shares: all that it may have spent then."""
    allowed_tokens: int | None = None
    limit_ask: str | None = None
    """The id of the request to exceed a limit that the run waits for, or has to act on."""
    contract: OutputContract | None = None
    active_since: str | None = None
    """Start of the current active period; None while the run waits for a person."""
    last_at: str | None = None
    """Time of the newest record."""
    epoch: int | None = None
    """Owner epoch of the newest record."""
    attempt: int = 0
    """Attempt number of the current or last failed model call."""
    is_retry: bool = False
    """Whether the next model call is a retry."""
    pause: Pause | None = None
    """Pause before the retry."""
    failures: int = 0
    """Failures of the current model call; interruptions do not count."""
    model_id: str | None = None
    """Fallback model of the run; None means the first model."""
    model_failures: int = 0
    """Failures of the current model call since the model was chosen."""
    was_away: bool = False
    """Whether a model was away during the current model call: its failure was followed by a pause."""
    retried_ms: int = 0
    """Time since the first of these failures: pauses and attempts, without the time of a stopped process."""
    interruptions: Interruptions = ()
    """Interrupted attempts of the current model call."""
    previous_epoch: int | None = None
    """Epoch of the owner before the present one."""
    isolated_epoch: int | None = None
    """Epoch of the owner that drives no other suspect beside this run, to find what ends its process."""
    was_shared: bool = False
    """Whether other runs were at work when the previous owner ended."""
    was_isolated: bool = False
    """Whether no other suspect was at work when the previous owner ended."""
    has_lived: bool = False
    """Whether the previous owner is known to have gone on without the session."""
    finish_reason: FinishReason | None = None
    """Finish reason of the newest answer; None if there is none."""
    failure: ErrorInfo | None = None
    """Error that ends the run when no effect is in progress."""
    rejections: int = 0
    """Answers that did not fit the output contract."""
    refusals: int = 0
    """Refused calls in a row."""
    is_validated: bool = False
    structured: JsonValue = None
    waits_on: str | None = None
    """What the run waits for; None if it does not wait."""
    children: int = 0
    """Number of subagent calls."""
    unreversed: list[str] = field(default_factory=list[str])
    """Undo tools whose calls failed or were denied, in a run that reverses calls."""
    hooked: HookNotes = field(default_factory=HookNotes)
    events: dict[str, list[JsonValue]] = field(default_factory=dict[str, list[JsonValue]])
    """Data of the events that no call has taken yet, by name, oldest first."""
    event_keys: set[str | None] = field(default_factory=set[str | None])
    """Keys of all events that were sent."""
    event_count: int = 0

    def wait(self, at: str, on: str) -> None:
        """Start waiting, or change what is waited for."""
        self.rest(at)
        self.waits_on = on
        self.is_batched |= on == BATCH
        # Time of subagents and of retries counts for the run; time of people does not.
        self.active_since = at if on in (SUBAGENT, PROVIDER) else None

    def resume(self, at: str) -> None:
        """Stop waiting."""
        self.rest(at)
        self.active_since, self.waits_on = at, None

    def use(
        self, *, tokens: int = 0, steps: int = 0, tool_calls: int = 0, cost: int = 0, wall_ms: int = 0
    ) -> None:
        """Add to the usage; same result as `consume_budget`."""
        used = self.budget
        used.tokens_used += tokens
        used.steps_used += steps
        used.tool_calls_used += tool_calls
        used.cost_micros_used += cost
        used.wall_ms_used += wall_ms

    @property
    def spent(self) -> BudgetState:
        """The usage in the form of the budget rules."""
        used = self.budget
        return BudgetState(
            used.tokens_used,
            used.steps_used,
            used.tool_calls_used,
            used.cost_micros_used,
            used.wall_ms_used,
        )

    def wall_ms(self, until: str) -> int:
        """Return the active time of the run until `until`."""
        since = self.active_since
        return self.budget.wall_ms_used + (0 if since is None else elapsed_ms(since, until))

    def rest(self, at: str) -> None:
        """Stop the active time of the run."""
        self.budget.wall_ms_used = self.wall_ms(at)
        self.active_since = None

    def active_until(self, now: str, paused_until_ms: int) -> str:
        """Return until when the previous owner's active time counts.

        Until its last record; a retry pause and the work of subagents continue without an owner.
        """
        last = self.last_at
        if last is None or paused_until_ms >= ms_of(now) or self.waits_on == SUBAGENT:
            return now
        return last if paused_until_ms <= ms_of(last) else stamp_of(paused_until_ms)

    def change_hands(self, record: Record, paused_until_ms: int) -> None:
        """Apply the first record of another owner."""
        self.previous_epoch, self.epoch = self.epoch, record.epoch
        if self.active_since is not None:
            self.rest(self.active_until(record.at, paused_until_ms))
            self.active_since = record.at

    def end_call(self) -> None:
        """The model call ended: its attempts do not count for the next one."""
        self.model_failures = self.retried_ms = 0
        self.interruptions = ()
        self.was_away = False

    def interruption(self, *, is_shared: bool) -> Interruption:
        """Return the interruption of an effect of the previous owner."""
        return Interruption(self.previous_epoch, is_shared, self.has_lived)

    def retrying_ms(self, at: str) -> int:
        """Return the time since the first failure of the current model call."""
        return 0 if not self.failures else self.retried_ms + elapsed_ms(self.last_at or at, at)

    @property
    def known_usage(self) -> records.Usage | None:
        """The usage; None if there was no model call with a known one."""
        return None if self.usage == NO_USAGE else self.usage

    @property
    def unknown_micros(self) -> int | None:
        """What counts as spent beside the usage, with what is set aside now; None if there is nothing."""
        if self.settled_micros is None and self.reserved is None:
            return None
        return (self.settled_micros or 0) + (self.reserved or 0)

    def allow(self, request: JsonObject, answer: JsonObject) -> None:
        """Apply that a person lets the run spend more than a limit; they may have changed the amount."""
        used, names = self.budget, (COST_AMOUNT, TOKENS_AMOUNT)
        micros, tokens = (amount_of(answer, name) if name in request else 0 for name in names)
        if PERIOD in request:
            if micros:
                self.allowed_micros = used.cost_micros_used + micros
            if tokens:
                self.allowed_tokens = used.tokens_used + tokens
            return
        limits = self.limits
        self.limits = replace(
            limits,
            max_cost_micros=used.cost_micros_used + micros if micros else limits.max_cost_micros,
            max_tokens=used.tokens_used + tokens if tokens else limits.max_tokens,
        )

    @property
    def overdraft(self) -> tuple[int, int]:
        """Money and tokens that the run may still spend beyond limits that it shares."""
        used = self.budget
        micros, tokens = self.allowed_micros or 0, self.allowed_tokens or 0
        return max(0, micros - used.cost_micros_used), max(0, tokens - used.tokens_used)

    def reserve(self, reservation: records.Reservation | None) -> None:
        """Set aside what a model call may cost."""
        if reservation is not None:
            self.reserved, self.answer_tokens = reservation.cost_micros, reservation.answer_tokens
            self.shared_call = reservation.shared_call

    def settle(
        self, usage: records.Usage | None, price: records.Price | None, *, is_lost: bool = False
    ) -> None:
        """Add the usage of a model call, or what was set aside for it if its cost is not known.

        A call without a price has cost nothing: it was refused. `is_lost` says that its process ended.
        """
        self.charge(usage)
        self.is_batched = False
        reserved, self.reserved, self.answer_tokens, self.shared_call = self.reserved, None, None, None
        has_cost = usage is not None and usage.cost_micros is not None
        if reserved is not None and not has_cost and (price is not None or is_lost):
            self.settled_micros = (self.settled_micros or 0) + reserved
            self.use(cost=reserved)

    def charge(self, usage: records.Usage | None) -> None:
        """Add the usage of a model call."""
        if usage is None:
            return
        self.usage = total_usage(self.usage, usage)
        used = self.budget
        used.tokens_used += token_count(usage)
        used.cost_micros_used += usage.cost_micros or 0


COST_AMOUNT: Final = "costMicros"
TOKENS_AMOUNT: Final = "tokens"
PERIOD: Final = "period"
"""Fields of the input of a request to exceed a limit."""


def amount_of(fields: JsonObject, name: str) -> int:
    """Return an amount that a person allows; 0 if it is none."""
    amount = fields.get(name)
    if not isinstance(amount, int) or isinstance(amount, bool):
        return 0
    return amount if 0 < amount <= INTEGER_MAX else 0


def total_usage(total: records.Usage, more: records.Usage) -> records.Usage:
    """Add two amounts, up to the largest number; a field that is unknown in both stays unknown."""
    return records.Usage(
        input_tokens=_sum(total.input_tokens, more.input_tokens),
        output_tokens=_sum(total.output_tokens, more.output_tokens),
        cache_read_tokens=_sum(total.cache_read_tokens, more.cache_read_tokens),
        cache_write_tokens=_sum(total.cache_write_tokens, more.cache_write_tokens),
        reasoning_tokens=_sum(total.reasoning_tokens, more.reasoning_tokens),
        cost_micros=_sum(total.cost_micros, more.cost_micros),
    )


def _sum(total: int | None, more: int | None) -> int | None:
    if more is None:
        return total
    amount = (total or 0) + more
    return min(INTEGER_MAX, amount)


def limits_of(limits: BudgetLimits | None) -> Budget:
    """Return the limits of a run in the form of the budget rules."""
    if limits is None:
        return NO_LIMITS
    return Budget(
        max_tokens=limits.max_tokens,
        max_steps=limits.max_steps,
        max_tool_calls=limits.max_tool_calls,
        max_cost_micros=limits.max_cost_micros,
        max_wall_ms=limits.max_wall_ms,
    )


def policy_version(decision: records.PolicyDecision) -> str | None:
    """Return the policy version of a decision."""
    for ref in decision.policy_refs:
        if ref.version is not None:
            return ref.version
    return None


THRESHOLD: Final = "threshold"
OVERFLOW: Final = "overflow"
ASKED: Final = "asked"


@mutable
class CompactionNotes:
    """The open compaction, and the result of the last one."""

    reason: str = ""
    """Reason of the newest one: threshold, overflow or asked."""
    epoch: int | None = None
    """Owner epoch of the open one; None if none is open."""
    tokens: int = 0
    """Tokens of the history when it was requested."""
    is_retry: bool = False
    """Whether the next one is a retry."""
    pause: Pause | None = None
    """Pause before the retry."""
    failures: int = 0
    retried_ms: int = 0
    """Pauses after these failures."""
    interruptions: Interruptions = ()
    """Interrupted attempts."""
    tokens_after: int = 0
    """Tokens of the history after the last one of this run; 0 if there was none."""
    learned: int | None = None
    """Prompt tokens that the model was found to accept, for the rest of the run."""
    is_overflow: bool = False
    """Whether the model refused the prompt length: a compaction is due."""
    has_overflowed: bool = False
    """Whether a compaction after an overflow was done for the current step."""

    def retrying_ms(self, _: str) -> int:
        """Return the time since the first failure, without the attempts."""
        return self.retried_ms if self.failures else 0

    @property
    def is_open(self) -> bool:
        """Whether a compaction is open."""
        return self.epoch is not None

    @property
    def is_due(self) -> bool:
        """Whether a compaction is open or is to be retried."""
        return self.is_open or self.is_retry

    def begin_run(self) -> None:
        """Reset at the start of a run: its model may have another window."""
        self.tokens_after, self.learned = 0, None
        self.end_step()

    def end_run(self) -> None:
        """Reset at the end of a run; a requested compaction stays due."""
        if self.reason != ASKED:
            self._close()

    def end_step(self) -> None:
        """The model call ended."""
        self.is_overflow = self.has_overflowed = False

    def apply_request(self, record: Record, body: records.CompactionRequested) -> None:
        """Apply a request."""
        self.reason = body.reason or THRESHOLD
        self.epoch = record.epoch or 0
        self.tokens = body.usage_input_tokens or 0
        self.is_retry = False
        if self.reason == OVERFLOW:
            self.learned = lower_threshold(self.tokens)

    def apply_failure(self, record: Record, body: records.CompactionFailed, run: RunNotes) -> None:
        """Apply a failure, final or to be retried."""
        delay_ms = body.delay_ms
        if delay_ms is None:
            self._finish(self.tokens)
            return
        self.epoch, self.is_retry = None, True
        self.pause = pause_after(record, delay_ms)
        if body.code not in (INTERRUPTED, HANDED_OVER):
            self.retried_ms = delay_ms + (self.retried_ms if self.failures else 0)
            self.failures += 1
        if body.code == INTERRUPTED:
            self.interruptions = (*self.interruptions, run.interruption(is_shared=body.shared is True))

    def apply_completion(self, body: records.CompactionCompleted) -> None:
        """Apply a completion."""
        self._finish(body.input_tokens_after or 0)

    def apply_clearing(self) -> None:
        """Apply that the history was cleared."""
        self.tokens_after = 0

    def _finish(self, tokens_after: int) -> None:
        self._close()
        self.tokens_after = tokens_after
        self.has_overflowed = self.has_overflowed or self.is_overflow
        self.is_overflow = False

    def _close(self) -> None:
        self.epoch, self.is_retry, self.pause = None, False, None
        self.failures = self.retried_ms = 0
        self.interruptions = ()


def lower_threshold(tokens: int) -> int:
    """Return the threshold after the model refused a prompt of this size."""
    return tokens * 3 // 4
