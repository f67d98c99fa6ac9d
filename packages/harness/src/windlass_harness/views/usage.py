"""Token and cost usage per session, run, turn and model.

A step counts once, regardless of the number of attempts; the usage of failed attempts is included. A call
counts when it starts; a refused call does not count. The usage of subagents is separate, because their own
sessions count it too, but it is charged to the budget of the calling run.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import Final

from windlass_harness.record import Record
from windlass_harness.times import elapsed_ms
from windlass_harness.views.fold import START, Handlers, Position, fold
from windlass_harness.views.payloads import token_count, usage_model
from windlass_harness.views.runs import RUN_END_BODIES, UNKNOWN_MODEL, RunEnd, run_id_of
from windlass_protocol import ActionStatus, BudgetUsage, Usage
from windlass_protocol.frozen import sealed
from windlass_protocol.generated import records
from windlass_protocol.limits import INTEGER_MAX

MICROS: Final = 1_000_000
NO_USAGE: Final = Usage.model_construct()


@sealed
class Tally:
    """An amount used. `delegated` is the usage of subagents."""

    usage: Usage = NO_USAGE
    steps: int = 0
    tool_calls: int = 0
    delegated: Usage = NO_USAGE


NOTHING: Final = Tally()


@sealed
class RunTime:
    """Start and end of a run."""

    started_at: str
    ended_at: str | None = None


@sealed
class UsageState:
    """The usage of a session, with runs, turns and models by id."""

    position: Position = START
    session: Tally = NOTHING
    runs: Mapping[str, Tally] = field(default_factory=dict[str, Tally])
    turns: Mapping[str, Tally] = field(default_factory=dict[str, Tally])
    models: Mapping[str, Tally] = field(default_factory=dict[str, Tally])
    times: Mapping[str, RunTime] = field(default_factory=dict[str, RunTime])
    run_id: str | None = None
    turn_id: str | None = None
    model_id: str | None = None
    step: tuple[str, int] | None = None
    running: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    """Calls without a result, each with its run; a late result does not count again."""

    def budget_usage(self, run_id: str, now: str) -> BudgetUsage:
        """Return the budget consumption of a run; its time ends with it, or is `now`."""
        tally = self.runs.get(run_id, NOTHING)
        time = self.times.get(run_id)
        wall_ms = 0 if time is None else elapsed_ms(time.started_at, time.ended_at or now)
        own, delegated = tally.usage, tally.delegated
        return BudgetUsage(
            tokens_used=min(token_count(own) + token_count(delegated), INTEGER_MAX),
            steps_used=tally.steps,
            tool_calls_used=tally.tool_calls,
            cost_micros_used=_add(own.cost_micros, delegated.cost_micros) or 0,
            wall_ms_used=wall_ms,
        )


def fold_usage(entries: Iterable[Record], state: UsageState | None = None) -> UsageState:
    """Fold records of a session into its usage.

    Raises:
        Gap: a record is not the next one of the session.
    """
    return fold(_Draft(state or UsageState()), entries)


def add_usage(first: Usage, second: Usage) -> Usage:
    """Add two amounts, up to the largest number; a field that is unknown in both stays unknown."""
    return _each(_add, first, second)


def subtract_usage(whole: Usage, part: Usage) -> Usage:
    """Return an amount without a part that it includes; a field that the part does not know stays."""
    return _each(_subtract, whole, part)


def _each(rule: Callable[[int | None, int | None], int | None], first: Usage, second: Usage) -> Usage:
    return Usage(
        input_tokens=rule(first.input_tokens, second.input_tokens),
        output_tokens=rule(first.output_tokens, second.output_tokens),
        cache_read_tokens=rule(first.cache_read_tokens, second.cache_read_tokens),
        cache_write_tokens=rule(first.cache_write_tokens, second.cache_write_tokens),
        reasoning_tokens=rule(first.reasoning_tokens, second.reasoning_tokens),
        cost_micros=rule(first.cost_micros, second.cost_micros),
    )


def _subtract(whole: int | None, part: int | None) -> int | None:
    return whole if whole is None or part is None else max(whole - part, 0)


def _add(first: int | None, second: int | None) -> int | None:
    if first is None and second is None:
        return None
    return min((first or 0) + (second or 0), INTEGER_MAX)


_ON: Final = Handlers["_Draft", Record, [], None]()
_OF_TURN: Final = (
    records.TurnStarted,
    records.StepStarted,
    records.StepCompleted,
    records.StepFailed,
    records.StepRetrying,
    records.CompactionCompleted,
    records.CompactionFailed,
    records.ActionStarted,
    records.ActionResult,
)


class _Draft:
    def __init__(self, state: UsageState) -> None:
        self.position = state.position
        self._session = state.session
        self._runs = dict(state.runs)
        self._turns = dict(state.turns)
        self._models = dict(state.models)
        self._times = dict(state.times)
        self._run_id, self._turn_id, self._model_id = state.run_id, state.turn_id, state.model_id
        self._step = state.step
        self._running = dict(state.running)

    def freeze(self) -> UsageState:
        return UsageState(
            position=self.position,
            session=self._session,
            runs=self._runs,
            turns=self._turns,
            models=self._models,
            times=self._times,
            run_id=self._run_id,
            turn_id=self._turn_id,
            model_id=self._model_id,
            step=self._step,
            running=self._running,
        )

    def apply(self, record: Record) -> None:
        handle = _ON.by_type.get(record.type)
        if handle is not None:
            body = record.body
            turn_id = body.turn_id if isinstance(body, _OF_TURN) else None
            self._turn_id = record.turn_id or turn_id or self._turn_id
            handle(self, record, body)

    @_ON.on(records.RunStarted)
    def run_started(self, record: Record, body: records.RunStarted) -> None:
        run_id = body.run_id
        if run_id not in self._times:
            self._run_id = run_id
            self._times[run_id] = RunTime(record.at)

    @_ON.on(records.SessionForked)
    def forked(self, record: Record, body: records.SessionForked) -> None:
        """Drop the usage so far: it belongs to the session that this one was copied from."""
        self.__init__(UsageState(self.position))

    @_ON.on(records.TurnStarted)
    def turn_started(self, record: Record, body: records.TurnStarted) -> None:
        """Only note the turn that the next records belong to."""

    @_ON.on(*RUN_END_BODIES)
    def run_ended(self, record: Record, body: RunEnd) -> None:
        run_id = run_id_of(record)
        time = self._times.get(run_id or "")
        if run_id is not None and time is not None and time.ended_at is None:
            self._times[run_id] = replace(time, ended_at=record.at)

    @_ON.on(records.StepStarted)
    def step_started(self, record: Record, body: records.StepStarted) -> None:
        self._model_id = body.model_id or UNKNOWN_MODEL
        step = (body.turn_id, body.step_index)
        if step != self._step:
            self._step = step
            self._charge(record, Tally(steps=1), self._model_id)

    @_ON.on(records.StepCompleted)
    def step_completed(self, record: Record, body: records.StepCompleted) -> None:
        usage = usage_model(body.usage) or NO_USAGE
        if usage.cost_micros is None and body.cost_usd is not None:
            usage = usage.model_copy(update={"cost_micros": round(min(body.cost_usd * MICROS, INTEGER_MAX))})
        self._charge(record, Tally(usage), self._model_id or UNKNOWN_MODEL)

    @_ON.on(records.StepFailed)
    def step_failed(self, record: Record, body: records.StepFailed) -> None:
        self._charge(record, Tally(usage_model(body.usage) or NO_USAGE), self._model_id or UNKNOWN_MODEL)

    @_ON.on(records.StepRetrying)
    def step_retrying(self, record: Record, body: records.StepRetrying) -> None:
        self._charge(record, Tally(usage_model(body.usage) or NO_USAGE), self._model_id or UNKNOWN_MODEL)

    @_ON.on(records.CompactionCompleted)
    def compaction_completed(self, record: Record, body: records.CompactionCompleted) -> None:
        self._charge(record, Tally(usage_model(body.usage) or NO_USAGE), body.model_id)

    @_ON.on(records.CompactionFailed)
    def compaction_failed(self, record: Record, body: records.CompactionFailed) -> None:
        self._charge(
            record,
            Tally(usage_model(body.usage) or NO_USAGE),
            body.model_id or self._model_id or UNKNOWN_MODEL,
        )

    @_ON.on(records.SubagentCompleted)
    def subagent_completed(self, record: Record, body: records.SubagentCompleted) -> None:
        self._charge(record, Tally(delegated=usage_model(body.usage) or NO_USAGE), None)

    @_ON.on(records.ActionStarted)
    def action_started(self, record: Record, body: records.ActionStarted) -> None:
        call_id = body.call_id
        run_id = record.run_id or self._run_id
        if call_id not in self._running or self._running[call_id] != run_id:
            self._running[call_id] = run_id
            self._charge(record, Tally(tool_calls=1), None)

    @_ON.on(records.ActionResult)
    def action_result(self, record: Record, body: records.ActionResult) -> None:
        if body.result.call_id in self._running:
            del self._running[body.result.call_id]
        elif body.status is not ActionStatus.REJECTED:
            self._charge(record, Tally(tool_calls=1), None)

    def _charge(self, record: Record, amount: Tally, model_id: str | None) -> None:
        if amount == NOTHING:
            return
        self._session = _plus(self._session, amount)
        for tallies, key in (
            (self._runs, record.run_id or self._run_id),
            (self._turns, self._turn_id),
            (self._models, model_id),
        ):
            if key is not None:
                tallies[key] = _plus(tallies.get(key, NOTHING), amount)


def _plus(first: Tally, second: Tally) -> Tally:
    # Most amounts are a step or a call without tokens; adding nothing is the common case.
    return Tally(
        usage=first.usage if second.usage is NO_USAGE else add_usage(first.usage, second.usage),
        steps=first.steps + second.steps,
        tool_calls=first.tool_calls + second.tool_calls,
        delegated=first.delegated
        if second.delegated is NO_USAGE
        else add_usage(first.delegated, second.delegated),
    )
