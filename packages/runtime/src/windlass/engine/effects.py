"""Effects of a session: model calls, policy decisions, tool calls, hooks, deliveries."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from pydantic import JsonValue

from windlass.agent.agent import receipt_of
from windlass.agent.hooks import AFTER_MODEL_CALL, BEFORE_MODEL_CALL
from windlass.agent.policy import decides_by_rules
from windlass.engine.approval import Judged, deciders_of, judge, judge_allowed, settled_by_rules
from windlass.engine.binding import MISSING_AGENT, Binder, Binding
from windlass.engine.clocks import Lease, PauseClock
from windlass.engine.compaction import SummaryLimits, compact
from windlass.engine.deadline import Deadlines, Interruptible, Raised, TimedOut, run_with_deadline
from windlass.engine.dynamic import ResolverPorts, resolve_run, resolve_step
from windlass.engine.hook_points import after_call, at_point, check_answer, hook_call
from windlass.engine.masking import MaskedAnswer, SecretInputs, log_failure
from windlass.engine.model_call import Collector, ModelRequest, Prompt, elapsed_ms, listen, system_words
from windlass.engine.output import StructuredOutput
from windlass.engine.provider_limits import ProviderTurn, RuntimeLimits
from windlass.engine.results import (
    Results,
    broken_off,
    failed,
    kept_arguments,
    lost_secret,
    model_error,
    review,
)
from windlass.engine.session_sandbox import FindSandbox, SessionSandbox, attachments_of
from windlass.engine.subagents import Delegator, delegated, reviewed, with_subagents
from windlass.engine.writer import SessionWriter
from windlass.errors import AgentError, Conflict, Denied, Rejected, Unavailable, is_for_us
from windlass.limits import (
    DELIVERY_ATTEMPTS_MAX,
    DELIVERY_RETRY_DELAY_MS,
    DELIVERY_TIMEOUT_MS,
    MODEL_TIMEOUT_MS,
    PROGRAM_CALLS_AT_ONCE_MAX,
    TOOL_OUTPUT_CHARS_MAX,
)
from windlass.ports.clock import Clock, Random
from windlass.ports.feed import EventBus
from windlass.ports.host import Delivery, OutputSink
from windlass.ports.interpreter import Interpreter
from windlass.ports.model import LLMMessage
from windlass.ports.store import ContentStore, Standing
from windlass.tools import Tool, ToolFailed
from windlass.tools.calling import (
    Arguments,
    ManyChecks,
    ToolRun,
    call_tool,
    few_checks,
    late,
    outcome_of,
)
from windlass.tools.context import Questions, ToolContext, ToolControl, ToolState, copy_of
from windlass.tools.results import is_light
from windlass.tools.router import ToolGates
from windlass_harness.loop.events import (
    CallAsks,
    CallHooks,
    CallModel,
    CallRefused,
    CallReturned,
    CallUnbegun,
    CheckOutput,
    Compact,
    CompactionBroken,
    Deliver,
    DeliverySettled,
    Effect,
    JudgeCall,
    LoopEvent,
    ModelAnswered,
    ModelFailed,
    ReviewReport,
    RunProgram,
    RunTool,
    Stopped,
    ToolAsked,
    is_errand,
)
from windlass_harness.loop.rules import CALLS_PER_STEP_MAX, Rules
from windlass_harness.loop.state import LoopState
from windlass_harness.redact import Redactor
from windlass_harness.retry import DELAY_MS_MAX, RetryPolicy, next_retry_delay_ms
from windlass_harness.views.runs import RunState
from windlass_harness.views.session import SANDBOX_KEY
from windlass_protocol import (
    ActionStatus,
    AllowDecision,
    AskDecision,
    ContentRef,
    DeferDecision,
    ErrorCode,
    ErrorInfo,
    ErrorKind,
    JsonObject,
    RetryClass,
    ToolResult,
)
from windlass_protocol.bodies import Body, data_of
from windlass_protocol.frozen import frozen, mutable
from windlass_protocol.generated import records

if TYPE_CHECKING:
    from windlass.engine.programs import Programs

GRACE_S: Final = 2.0
"""Grace of a cancelled effect before it is abandoned."""
Performed = Coroutine[object, object, LoopEvent]


class Tasks:
    """Tasks of the effects in progress, and the grace period of cancelled ones."""

    def __init__(self, clock: Clock, session_id: str) -> None:
        self._clock = clock
        # Like the task of the driver: a stall of the event loop is logged with its session.
        self._name = f"windlass session {session_id}"
        self.ring: Callable[[], None] = lambda: None
        """Called when an effect has ended."""
        self._cancelled: set[asyncio.Task[LoopEvent]] = set()
        self._effects: dict[str, Effect] = {}
        """The effects in progress, by their keys."""
        self.under_way: dict[str, asyncio.Task[LoopEvent]] = {}
        self.errands: dict[str, asyncio.Task[LoopEvent]] = {}
        """Effects for runs that have ended; cancelling the next run does not touch them."""
        self._grace: asyncio.Task[None] | None = None

    def __bool__(self) -> bool:
        return bool(self.under_way or self.errands)

    @property
    def has_done(self) -> bool:
        """Whether an effect has ended and its event has not been collected."""
        for task in self.under_way.values():
            if task.done():
                return True
        return any(task.done() for task in self.errands.values()) if self.errands else False

    def start(self, effect: Effect, perform: Callable[[Effect], Performed]) -> None:
        """Perform an effect."""
        tasks, key = self.errands if is_errand(effect) else self.under_way, effect.key
        self._effects[key] = effect
        # Without the layers of `create_task`; a task factory of the application is not asked.
        tasks[key] = asyncio.Task(
            self._perform(perform, effect), loop=asyncio.get_running_loop(), name=self._name
        )

    def take_over(self, key: str, task: "asyncio.Task[LoopEvent]", finish: Callable[[], Performed]) -> None:
        """Finish an effect in another task, and leave its own to itself; nothing if it was dropped."""
        if self.under_way.get(key) is not task:
            return
        _LEFT.add(task)
        task.add_done_callback(_forget_left)
        self.under_way[key] = asyncio.create_task(self._perform(finish), name=self._name)

    async def _perform(self, perform: Callable[..., Performed], *given: Effect) -> LoopEvent:
        try:
            return await perform(*given)
        finally:
            # Here and not in a done callback: the driver is then woken one turn of the event loop earlier.
            self.ring()

    def collect(self) -> list[LoopEvent]:
        """Return the events of the effects that have ended."""
        events: list[LoopEvent] = []
        for tasks in (self.under_way, self.errands):
            for key, task in [*tasks.items()]:
                if task.done():
                    del tasks[key]
                    effect = self._effects.pop(key)
                    if not task.cancelled():
                        events.append(task.result())
                    elif task not in self._cancelled:
                        # Cancelled by the code that it ran: the effect may have happened.
                        events += _broken_off(effect)
                    self._cancelled.discard(task)
        if self._grace is not None and not self.under_way:
            self._end_grace()
        return events

    def cancel(self) -> None:
        """Cancel the effects of the run under way, and wait for their end for the grace at most."""
        if self.under_way and self._grace is None:
            self.cancel_all(self.under_way.values())
            self._begin_grace()

    def stop(self, *keys: str) -> None:
        """Cancel the effects that are named: the next owner of the session performs them."""
        self.cancel_all([task for key, task in self.under_way.items() if key in keys])

    @property
    def awaited(self) -> list[Effect]:
        """The effects in progress that were not cancelled."""
        tasks = {**self.under_way, **self.errands}
        return [effect for key, effect in self._effects.items() if tasks[key] not in self._cancelled]

    def is_cancelled(self) -> bool:
        """Return whether the current task was cancelled by the engine, not by the code that it runs."""
        return asyncio.current_task() in self._cancelled

    async def drop_stray_cancel(self) -> None:
        """Take back a cancel of the current task by the code that it ran, which has returned nevertheless."""
        task = asyncio.current_task()
        if task is None or task in self._cancelled:
            return
        with suppress(asyncio.CancelledError):
            # A cancel that is pending is raised here.
            await asyncio.sleep(0)  # noqa: TID251 - a turn, not a time
        while task.cancelling() and task not in self._cancelled:
            task.uncancel()

    def cancel_all(self, tasks: Iterable[asyncio.Task[LoopEvent]]) -> None:
        """Cancel tasks of effects."""
        for task in tasks:
            self._cancelled.add(task)
            task.cancel()
        # A task that is cancelled before its first turn does not ring; it has ended when this is called.
        asyncio.get_running_loop().call_soon(self.ring)

    def _begin_grace(self) -> None:
        if self._grace is None:
            self._grace = asyncio.create_task(self._clock.sleep(GRACE_S))
            self._grace.add_done_callback(self._on_grace_over)

    def _on_grace_over(self, grace: "asyncio.Task[None]") -> None:
        if not grace.cancelled():
            self.abandon(with_errands=False)

    def _end_grace(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None

    def abandon(self, *, with_errands: bool = True) -> None:
        """Abandon effects that do not end; their results are not recorded."""
        for tasks in (self.under_way, self.errands) if with_errands else (self.under_way,):
            self.cancel_all(tasks.values())
            for key in tasks:
                del self._effects[key]
            tasks.clear()
        self._end_grace()
        self.ring()


def _broken_off(effect: Effect) -> list[LoopEvent]:
    """Return the event of an effect that the code of the application has cancelled."""
    match effect:
        case RunTool():
            return [failed(effect.call_id, "cancelled", message=_CANCELLED.format(effect.tool_name))]
        case CallModel():
            return [ModelFailed(broken_off("answer"))]
        case Compact():
            return [CompactionBroken(broken_off("summary"))]
        case _:
            # A delivery without a result is recorded as unknown, and the others touch nothing.
            return []


_CANCELLED: Final = "{} cancelled itself; its outcome is unknown"
_TOOL_RETRY: Final = RetryPolicy()
_NOBODY_TO_ASK: Final = "The tool needs an answer of a person, and no person can be asked in this run."


def _forget_left(task: "asyncio.Task[LoopEvent]") -> None:
    _LEFT.discard(task)
    if not task.cancelled():
        # Retrieved, so that the event loop does not report it as lost.
        task.exception()


_LEFT: Final[set[asyncio.Task[LoopEvent]]] = set()
"""Abandoned tasks, referenced until they end: the event loop holds them weakly."""


def shown_by(live: MaskedAnswer | None, effect: RunTool) -> Callable[[JsonValue], None]:
    """Return the function that publishes partial results of a call."""

    def show(output: JsonValue) -> None:
        if live is not None:
            live.partial(effect.call_id, output, tool_name=effect.tool_name)

    return show


class CallTurns:
    """The turns of the calls of one session, for tools with a limit on concurrent calls.

    The turn of a call that changed the state of the session lasts until its result is recorded: the next call
    sees the change.
    """

    def __init__(self) -> None:
        self._lasting: set[str] = set()
        self.over: dict[str, asyncio.Semaphore] = {}
        """Semaphores of ended calls that keep their turn until their result is recorded."""

    def leave(self, call_id: str, gate: asyncio.Semaphore) -> None:
        """End the turn of a call, unless it lasts."""
        if call_id in self._lasting:
            self._lasting.remove(call_id)
            self.over[call_id] = gate
        else:
            gate.release()

    def last(self, call_id: str) -> None:
        """Let the turn of a call last until its result is recorded."""
        self._lasting.add(call_id)

    def recorded(self, is_open: Callable[[str], bool]) -> None:
        """End the turns of calls with recorded results."""
        for call_id in [one for one in self.over if not is_open(one)]:
            self.over.pop(call_id).release()


@frozen
class EffectPorts:
    """Ports and limits that all sessions of a runtime share to perform effects."""

    content: ContentStore
    bus: EventBus
    clock: Clock
    random: Random
    is_attended: bool
    calls_max: int = CALLS_PER_STEP_MAX
    """Calls per answer."""
    gates: ToolGates = field(default_factory=ToolGates)
    secret_inputs: SecretInputs = field(default_factory=SecretInputs)
    deadlines: Deadlines = field(default_factory=Deadlines)
    lease: Lease = field(default_factory=Lease)
    provider_limits: RuntimeLimits = field(default_factory=RuntimeLimits)
    delegator: Delegator | None = None
    interpreter: Interpreter | None = None
    """Runs the programs of models."""
    sandbox_of: FindSandbox | None = None
    """Finds the sandboxes of runs; without it no agent has one."""
    after_chunk: Callable[[], Awaitable[None]] | None = None
    """Awaited after each delta, if the application publishes deltas itself."""


async def deliver(sinks: Mapping[str, OutputSink], effect: Deliver, *, clock: Clock) -> DeliverySettled:
    """Deliver an output to its sink; retry only if the sink reports that nothing happened.

    Raises nothing but cancellation: the outcome is then unknown, and recovery records it so.
    """
    sink = sinks.get(effect.sink_id)
    if sink is None:
        return DeliverySettled(effect.delivery_id, error=_nobody(effect.sink_id))
    for attempt in range(DELIVERY_ATTEMPTS_MAX - 1):
        settled = await _attempt(sink, effect)
        if settled.error is None or settled.error.retry is not RetryClass.RETRYABLE:
            return settled
        await clock.sleep(DELIVERY_RETRY_DELAY_MS * 2**attempt / 1_000)
    return await _attempt(sink, effect)


async def _attempt(sink: OutputSink, effect: Deliver) -> DeliverySettled:
    delivery_id = effect.delivery_id
    outcome = await run_with_deadline(_given(sink, _output(effect)), DELIVERY_TIMEOUT_MS / 1_000)
    if isinstance(outcome, TimedOut):
        reason = f"The sink did not answer within {DELIVERY_TIMEOUT_MS:,} ms."
        return DeliverySettled(delivery_id, reason=reason)
    if not isinstance(outcome, Raised):
        return DeliverySettled(delivery_id, receipt=receipt_of(outcome.value))
    error = outcome.error
    if isinstance(error, Unavailable | Rejected | Denied | Conflict):
        return DeliverySettled(delivery_id, error=error.info())
    told = error.message if isinstance(error, AgentError) else "the outcome is unknown"
    return DeliverySettled(delivery_id, reason=f"The sink failed with {type(error).__name__}: {told}")


async def _given(sink: OutputSink, output: Delivery) -> JsonObject | None:
    return await sink.deliver(output)


def _output(effect: Deliver) -> Delivery:
    run = effect.run
    assert run.result is not None, "only the output of a run that has ended is delivered"
    return Delivery(
        effect.delivery_id,
        effect.dedupe_key,
        effect.sink_id,
        session_id=run.session_id,
        run_id=run.run_id,
        agent_id=run.agent_id,
        kind=effect.kind,
        output=run.result.output or "",
        structured_output=run.result.structured_output,
    )


def _nobody(sink_id: str) -> ErrorInfo:
    return ErrorInfo(
        code=ErrorCode.REJECTED,
        kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
        message=f"this process has no output sink {sink_id}",
    )


_BOUND_MAX: Final = 2
"""Bindings that a session keeps, one for each run."""


def _current_task() -> "asyncio.Task[LoopEvent]":
    task = asyncio.current_task()
    assert task is not None, "an effect is performed in a task"
    return cast("asyncio.Task[LoopEvent]", task)


def _family(run: RunState) -> str:
    """Return the session that a run and all its subagents work for."""
    return run.session_id if run.parent is None else run.parent.root_session_id


def _is_finished_at_once(binding: Binding, outcome: ToolRun) -> bool:
    """Return whether the result of a call is made without waiting: no hooks, no review, nothing large."""
    if binding.hooks.points or not decides_by_rules(binding.policy):
        return False
    data = outcome.result.data
    return is_light(data) and (not isinstance(data, str) or len(data) <= TOOL_OUTPUT_CHARS_MAX)


@mutable
class _Call:
    """A tool call in progress."""

    effect: RunTool
    task: "asyncio.Task[LoopEvent]"
    run: RunState
    binding: Binding
    tool: Tool[..., object]
    arguments: Arguments
    started: float
    """Start of the call, by the monotonic clock."""
    context: ToolContext | None = None
    sandbox: SessionSandbox | None = None
    on_end: Callable[[], None] | None = None
    """Ends the turn of the call at its concurrency limit."""

    def end(self) -> None:
        """End the turn of the call, once."""
        end, self.on_end = self.on_end, None
        if end is not None:
            end()


class Effects:
    """Performs the effects of one session."""

    def __init__(
        self,
        binder: Binder,
        writer: SessionWriter,
        *,
        shared: EffectPorts,
        pause_clock: PauseClock,
        prompt: Prompt | None = None,
        has_agent: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self.has_agent = has_agent
        self._binder = binder
        self._writer = writer
        self._shared = shared
        self._pause_clock = pause_clock
        self._prompt = prompt or Prompt()
        self._structured_output = StructuredOutput()
        self._live: MaskedAnswer | None = None
        self._bound: dict[str, Binding] = {}
        """Bindings by run id: the current run, and the previous one until it is delivered."""
        self._inputs: dict[str, JsonValue] = {}
        """Unmasked arguments of the calls of the last answer; records have them masked."""
        self._canonical: dict[str, bytes] = {}
        """Canonical JSON of these arguments, if known."""
        self._arguments: dict[str, Arguments] = {}
        """Arguments of judged calls, as they will run."""
        self._allowed: dict[tuple[str, frozenset[str], bool], AllowDecision] = {}
        """Decisions that hold for any arguments, by tool, taint and whether a program calls."""
        self._turns = CallTurns()
        self._unbegun: dict[str, asyncio.Task[LoopEvent]] = {}
        """Tasks of calls that have not begun: they had no effect."""
        self._is_stopping = False
        self._sandbox: SessionSandbox | None = None
        self._program_calls = asyncio.Semaphore(PROGRAM_CALLS_AT_ONCE_MAX)
        self.tasks = Tasks(pause_clock.clock, writer.session_id)

    def perform(self, state: LoopState, effect: Effect) -> Performed:
        """Return the coroutine that performs an effect; its result is the event that follows.

        It raises nothing but cancellation.
        """
        match effect:
            case CallModel():
                return self.ask(state)
            case RunTool():
                return self.run(state, effect)
            case RunProgram():
                return self.run_program(state, effect)
            case JudgeCall():
                return self.judge(state, effect)
            case Compact():
                return self.compact(state, effect)
            case ReviewReport():
                return self.review(state, effect)
            case CheckOutput():
                return self.check(state, effect)
            case CallHooks():
                return self.hooks(state, effect)
            case Deliver():
                return self.deliver(effect)

    async def _binding(self, state: LoopState) -> Binding | None:
        run = state.run
        return None if run is None else self._bound.get(run.run_id) or await self._bound_to(run)

    async def _bound_to(self, run: RunState) -> Binding | None:
        binding = self._bound.get(run.run_id)
        if binding is None:
            binding = await self._binder(run)
            if binding is not None:
                while len(self._bound) >= _BOUND_MAX:
                    del self._bound[next(iter(self._bound))]
                self._bound[run.run_id] = binding
                self._allowed.clear()
        return binding

    def _can_ask(self, state: LoopState) -> bool:
        """Whether a person can be asked, through the channel of the run."""
        return self._shared.is_attended and (state.run is None or state.run.can_ask)

    async def bind(self, state: LoopState, interruptible: Interruptible) -> tuple[Body, ...] | Stopped | None:
        """Bind the current run to the agent of this process."""
        try:
            binding = await self._binding(state)
        except Rejected as error:
            return Stopped(error.info())
        if binding is None or not binding.resolvers:
            return Stopped(MISSING_AGENT) if binding is None else binding.notes
        # Resolvers are application code: everything that they see must be durable.
        await self._writer.commit(standing=Standing.RUNNING, wake_at_ms=None)
        found = await interruptible.do(resolve_run(binding, state, means=self._means(state)))
        if found is None or isinstance(found, Stopped):
            return found
        self._use(found.binding, state)
        return (*binding.notes, *found.notes)

    def _means(self, state: LoopState) -> ResolverPorts:
        return ResolverPorts(self._shared.content, self._shared.clock, self._can_ask(state))

    def _use(self, binding: Binding, state: LoopState) -> None:
        if state.run is not None:
            self._bound[state.run.run_id] = binding
            self._allowed.clear()

    def recorded(self, state: LoopState) -> None:
        """Note that all drafted records are durable."""
        if self._turns.over:
            self._turns.recorded(lambda call_id: state.call(call_id) is not None)

    def close(self) -> None:
        """Stop publishing: this process no longer drives the session."""
        self._turns.recorded(lambda _: False)
        if self._live is not None:
            self._live.close()

    def stop(self) -> None:
        """Start no more tools; calls that have not begun report that."""
        self._is_stopping = True
        self.tasks.cancel_all(self._unbegun.values())

    def _task_of(self, key: str) -> "asyncio.Task[LoopEvent]":
        """Return the current task, which performs the effect of a key."""
        return self.tasks.under_way.get(key) or _current_task()

    def judge_at_once(self, state: LoopState, effect: JudgeCall) -> LoopEvent | None:
        """Judge a call of a tool that the rules are known to allow; None if that takes more."""
        run = state.run
        binding = None if run is None else self._bound.get(run.run_id)
        call_id, written = effect.call_id, self._inputs.get(effect.call_id)
        decision = self._allowed.get((effect.tool_name, state.session.taint, effect.is_inner))
        if decision is None or binding is None or written is None:
            return None
        if effect.approved_hash is not None or state.grants:
            return None
        work = partial(
            judge_allowed,
            binding,
            decision,
            call_id=call_id,
            tool_name=effect.tool_name,
            given=written,
            canonical_json=self._canonical.pop(call_id, None),
        )
        try:
            judged = few_checks(work)
        except ManyChecks:
            return None
        if isinstance(judged, CallRefused):
            return judged
        self._arguments[call_id] = judged.arguments
        self._inputs[call_id] = judged.arguments.json
        return judged.event

    async def judge(self, state: LoopState, effect: JudgeCall) -> LoopEvent:
        """Validate a call and ask the policy; has no side effects."""
        binding, shared = await self._binding(state), self._shared
        if binding is None:
            return Stopped(MISSING_AGENT)
        if effect.is_changed:
            effect, lost = self._with_change(effect, binding.redactor)
        else:
            lost = self._remember(effect, binding.redactor)
        tool = binding.tools.get(effect.tool_name)
        # An undo gets the call as it was recorded, with masks: its key finds the effect at the service.
        if lost is not None and not (tool is not None and tool.is_undo):
            return lost
        written = self._inputs.get(effect.call_id, effect.input)
        if written is not effect.input:
            # Records have it without secrets.
            effect = replace(effect, input=written)
        judged = await judge(
            binding, state, effect=effect, clock=shared.clock, is_attended=self._can_ask(state)
        )
        settled = settled_by_rules(binding, effect, judged)
        if settled is not None and not state.grants:
            self._allowed[effect.tool_name, state.session.taint, effect.is_inner] = settled
        if isinstance(judged, Judged):
            self._arguments[effect.call_id] = judged.arguments
            # If the call is judged again, these are the arguments that it runs with.
            self._inputs[effect.call_id] = judged.arguments.json
            self._canonical.pop(effect.call_id, None)
            if isinstance(judged.event.decision, AskDecision | DeferDecision):
                shared.secret_inputs.keep(
                    self._writer.session_id,
                    effect.call_id,
                    value=judged.arguments.json,
                    redactor=binding.redactor,
                )
            functions = binding.tools[effect.tool_name].program
            if functions is not None:
                return await self._programs(state).check(
                    judged, functions, redactor=binding.redactor, variables=state.variables
                )
            return await delegated(judged, state, binding=binding, delegator=shared.delegator)
        return judged

    async def run_program(self, state: LoopState, effect: RunProgram) -> LoopEvent:
        """Run a program until it waits for calls or ends; has no side effects."""
        binding = await self._binding(state)
        if binding is None:
            return Stopped(MISSING_AGENT)
        return await self._programs(state).run(effect, binding=binding)

    def _programs(self, state: LoopState) -> "Programs":
        from windlass.engine.programs import Programs  # noqa: PLC0415 - few agents have programs

        shared, run = self._shared, state.run
        return Programs(
            shared.interpreter,
            shared.content,
            shared.clock,
            owner=(run and run.owner) or "",
            family=self._writer.session_id if run is None else _family(run),
        )

    async def review(self, state: LoopState, effect: ReviewReport) -> LoopEvent:
        """Review a subagent's report before the model sees it; has no side effects."""
        run, binding, shared = state.run, await self._binding(state), self._shared
        if run is None or binding is None:
            return Stopped(MISSING_AGENT)
        return await reviewed(
            binding, run, state=state, effect=effect, content=shared.content, clock=shared.clock
        )

    def _remember(self, effect: JudgeCall, redactor: Redactor) -> CallRefused | None:
        """Restore the secrets of a call that waited; refuse the call if they are lost."""
        if effect.call_id in self._inputs:
            return None
        found = self._shared.secret_inputs.find(
            self._writer.session_id, effect.call_id, recorded=effect.input, redactor=redactor
        )
        if found is None:
            return lost_secret(effect.call_id, effect.input)
        self._inputs[effect.call_id] = found
        return None

    def _with_change(self, effect: JudgeCall, redactor: Redactor) -> tuple[JudgeCall, CallRefused | None]:
        """Return a call with the arguments that a person changed; refuse one with a secret that is lost.

        Masked arguments that the person left as they are stand for what the model wrote.
        """
        call_id, changed = effect.call_id, effect.input
        kept = self._shared.secret_inputs.original(self._writer.session_id, call_id)
        known = self._inputs.get(call_id, kept)
        if isinstance(known, dict) and isinstance(changed, dict):
            shown = cast(JsonObject, redactor.value(known))
            changed = {
                name: known[name] if name in known and shown[name] == value else value
                for name, value in changed.items()
            }
        self._inputs[call_id] = changed
        return replace(effect, input=changed), lost_secret(call_id, changed)

    async def check(self, state: LoopState, effect: CheckOutput) -> LoopEvent:
        """Validate an answer against the output contract; has no side effects."""
        contract, binding = state.run_notes.contract, await self._binding(state)
        assert contract is not None, "only an answer to a contract is checked"
        if binding is None:
            return Stopped(MISSING_AGENT)
        return await check_answer(
            binding, state, contract=contract, text=effect.text, clock=self._shared.clock
        )

    async def rules(self, run: RunState, rules: Rules) -> Rules:
        """Return the rules of a run: those given, its hooks and its sinks."""
        try:
            binding = await self._bound_to(run)
        except AgentError:
            return rules
        if binding is None:
            return rules
        return replace(binding.rules_from(rules), responders=deciders_of(binding, run))

    async def hooks(self, state: LoopState, effect: CallHooks) -> LoopEvent:
        """Call the hooks of a point."""
        binding = await self._bound_to(effect.run)
        assert binding is not None, "only a run that is bound has hooks"
        return await at_point(binding, state, effect=effect, clock=self._shared.clock)

    async def deliver(self, effect: Deliver) -> LoopEvent:
        """Deliver an output to a sink."""
        binding = await self._bound_to(effect.run)
        assert binding is not None, "only a run that is bound has sinks"
        await self._shared.lease.held(self._shared.clock)
        return await deliver(binding.sinks, effect, clock=self._shared.clock)

    async def ask(self, state: LoopState) -> LoopEvent:
        """Call the model; a failure is returned as an event."""
        binding = await self._binding(state)
        if binding is None:
            return Stopped(MISSING_AGENT)
        if not binding.resolvers:
            return await self._ask(binding, state)
        try:
            found = await resolve_step(binding, state, means=self._means(state))
        except Unavailable as error:
            return ModelFailed(error.info(), chance=self._shared.random())
        if isinstance(found, Stopped):
            return ModelFailed(found.error)
        self._use(found.binding, state)
        return await self._ask(found.binding, state, found.notes)

    async def _ask(
        self, binding: Binding, state: LoopState, notes: tuple[Body, ...] = ()
    ) -> ModelAnswered | ModelFailed:
        system = system_words(binding.instructions, state.run_notes.contract)
        messages = self._prompt.messages(state.session.history, system)
        run, hooks = state.run, binding.hooks
        assert run is not None, "only a run asks the model"
        if not hooks.points:
            return await self._converse(binding, state, messages, notes)
        clock = self._shared.clock
        gate = await hooks.run(
            replace(hook_call(BEFORE_MODEL_CALL, run, state=state), messages=tuple(messages)), clock=clock
        )
        notes = (*notes, *gate.notes)
        if gate.stop is not None:
            return ModelFailed(gate.stop, notes=notes)
        messages += [LLMMessage("user", text) for text in gate.context]
        answer = await self._converse(binding, state, messages, notes)
        if isinstance(answer, ModelFailed):
            return answer
        # In another task: the provider's code may still cancel this one.
        self.tasks.take_over(
            CallModel.key, _current_task(), partial(self._after_answer, binding, state, run, answer)
        )
        raise asyncio.CancelledError

    async def _after_answer(
        self, binding: Binding, state: LoopState, run: RunState, answer: ModelAnswered
    ) -> ModelAnswered | ModelFailed:
        """Let hooks see an answer."""
        call = replace(hook_call(AFTER_MODEL_CALL, run, state=state), text=answer.text, asked=answer.calls)
        after = await binding.hooks.run(call, clock=self._shared.clock)
        notes = (*answer.notes, *after.notes)
        if after.stop is None:
            return replace(answer, notes=notes)
        if self._live is not None:
            self._live.close()
        return ModelFailed(after.stop, usage=answer.usage, notes=notes)

    async def compact(self, state: LoopState, effect: Compact) -> LoopEvent:
        """Compact the history; a failure is returned as an event."""
        run, shared = state.session.run, self._shared
        assert run is not None, "only a session with a history is compacted"
        try:
            binding = await self._bound_to(run)
        except AgentError as error:
            return CompactionBroken(error.info(), chance=shared.random())
        if binding is None:
            return CompactionBroken(MISSING_AGENT)
        limit_ms = MODEL_TIMEOUT_MS
        if state.run is not None:
            limit_ms = self._pause_clock.time_left_ms(state, most_ms=limit_ms)
        turn = partial(self._begin_turn, state, binding.summary_route)
        patience = SummaryLimits(limit_ms, shared.random(), turn)
        return await compact(binding, state, effect=effect, patience=patience)

    async def _converse(
        self, binding: Binding, state: LoopState, messages: Sequence[LLMMessage], notes: tuple[Body, ...]
    ) -> ModelAnswered | ModelFailed:
        """Call the model; a failure is returned as an event."""
        shared, step = self._shared, self._writer.step
        assert step is not None, "a step begins before its model is called"
        task = self._task_of(CallModel.key)
        live = self._live = MaskedAnswer(shared.bus.live(step), binding.redactor)
        collector = Collector(live, binding.redactor, calls_max=shared.calls_max)
        turn: ProviderTurn | None = None
        tools = binding.definitions(can_ask=self._can_ask(state))
        provider = self._structured_output.of(
            binding.provider_for(state.run_notes.model_id), state.run_notes.contract, has_tools=bool(tools)
        )

        def leave() -> None:
            live.close()
            if turn is not None:
                turn.end(usage=collector.usage)
            late = model_error(TimeoutError(), binding.redactor)
            self.tasks.take_over(
                CallModel.key, task, partial(self._failed, state, late, collector.usage, notes)
            )

        try:
            turn = await self._begin_turn(state, binding.route_for(state.run_notes.model_id), live)
            started = shared.clock.monotonic()
            await listen(
                ModelRequest(provider, messages, tools, binding.temperature),
                collector,
                most_s=self._pause_clock.time_left_ms(state, most_ms=MODEL_TIMEOUT_MS) / 1000,
                deadlines=shared.deadlines,
                on_left=leave,
                after_chunk=shared.after_chunk,
            )
            if task.cancelling():
                await self.tasks.drop_stray_cancel()
            turn.end(usage=collector.usage)
            answer = collector.answer(latency_ms=elapsed_ms(shared.clock, started), notes=notes)
        except asyncio.CancelledError:
            live.close()
            if self.tasks.is_cancelled():
                raise
            failure = broken_off("answer")
        except BaseException as error:  # model boundary: a provider may raise anything
            live.close()
            if turn is not None:
                turn.end(error, usage=collector.usage)
            if is_for_us(error):
                raise
            failure = model_error(error, binding.redactor)
        else:
            if turn.queued_ms is not None:
                answer = replace(answer, queued_ms=turn.queued_ms)
            self._inputs = {call.call_id: call.input for call in answer.calls}
            self._canonical = collector.canonical
            self._arguments.clear()
            if shared.secret_inputs:
                shared.secret_inputs.forget(self._writer.session_id)
            return with_subagents(answer, binding.tools) if answer.calls else answer
        finally:
            if turn is not None:
                turn.end(usage=collector.usage)
        return await self._failed(state, failure, collector.usage, notes)

    async def _begin_turn(
        self, state: LoopState, route_id: str, live: MaskedAnswer | None = None
    ) -> ProviderTurn:
        """Return the turn of a model call at the limit of its provider; a call that waits is shown.

        The wait counts for the time budget of the run, and not for the time limit of the call.
        """
        shared = self._shared
        turn = shared.provider_limits.turn(route_id, shared.clock)
        if turn.try_begin():
            return turn

        def show(reason: str) -> None:
            if live is not None:
                body = records.StepQueued(provider=route_id, reason=reason, **state.place())
                live.show(body.TYPE, data_of(body))

        left_ms = DELAY_MS_MAX
        if state.run is not None:
            left_ms = self._pause_clock.time_left_ms(state, most_ms=left_ms)
        with shared.deadlines.limit(left_ms / 1_000):
            await turn.begin(show)
        return turn

    async def _failed(
        self, state: LoopState, failure: ErrorInfo, usage: records.Usage | None, notes: tuple[Body, ...]
    ) -> ModelFailed:
        if failure.retry_after_ms is not None:
            # A provider's retry-after must not exceed the time budget of the run.
            wait_ms = self._pause_clock.time_left_ms(state, most_ms=failure.retry_after_ms)
            failure = failure.model_copy(update={"retry_after_ms": wait_ms})
        return ModelFailed(failure, chance=self._shared.random(), usage=usage, notes=notes)

    async def run(self, state: LoopState, effect: RunTool) -> LoopEvent:
        """Run a tool; a failure is part of the result.

        A call that is stopped before it begins returns `CallUnbegun`.
        """
        call_id = effect.call_id
        if self._is_stopping:
            return CallUnbegun(call_id)
        task = self._task_of(effect.key)
        self._unbegun[call_id] = task
        try:
            if not effect.is_inner:
                return await self._run(state, effect, task)
            async with self._program_calls:
                return await self._run(state, effect, task)
        except asyncio.CancelledError:
            if self._unbegun.get(call_id) is task:
                return CallUnbegun(call_id)
            raise
        finally:
            if self._unbegun.get(call_id) is task:
                del self._unbegun[call_id]

    async def _run(self, state: LoopState, effect: RunTool, task: "asyncio.Task[LoopEvent]") -> LoopEvent:
        run, binding = state.run, await self._binding(state)
        assert run is not None, "only a run calls tools"
        call_id = effect.call_id
        tool = None if binding is None else binding.tools.get(effect.tool_name)
        if binding is None or tool is None:
            told = f"unknown tool: {effect.tool_name}; it was removed since the call was requested"
            return failed(call_id, "unknown_tool", message=told)
        arguments = self._arguments.get(call_id) or await kept_arguments(tool, effect)
        if isinstance(arguments, CallReturned):
            return arguments
        call = _Call(effect, task, run, binding, tool, arguments, self._shared.clock.monotonic())
        gate = self._shared.gates.of(tool)
        if gate is not None:
            await gate.acquire()
            call.on_end = partial(self._turns.leave, call_id, gate)
        try:
            # Wait for a valid lease: another owner may have taken the session.
            await self._shared.lease.held(self._shared.clock)
            # The call begins now: it may have an effect.
            del self._unbegun[call_id]
            problem = self._make_context(state, call)
            if problem is not None:
                return problem
            outcome = await self._call(state, call)
        except asyncio.CancelledError:
            if self.tasks.is_cancelled():
                raise
            told = _CANCELLED.format(tool.name)
            duration_ms = elapsed_ms(self._shared.clock, call.started)
            return failed(call_id, "cancelled", message=told, duration_ms=duration_ms)
        finally:
            call.end()
        if call.context is not None and (paused := self._paused(call, call.context.control.questions)):
            return paused
        if _is_finished_at_once(binding, outcome):
            return await self._finish(state, call, outcome)
        # In another task: the tool's code may still cancel this one.
        self.tasks.take_over(effect.key, task, partial(self._finish, state, call, outcome))
        raise asyncio.CancelledError

    async def _call(self, state: LoopState, call: "_Call") -> ToolRun:
        """Run the function of a tool with its time limit.

        A function that ignores cancellation is abandoned: another task finishes the call as timed out, with
        its hooks and its review.
        """
        tool = call.tool

        def leave() -> None:
            call.end()
            outcome = late(tool, tool.timeout_ms, context=call.context)
            self.tasks.take_over(call.effect.key, call.task, partial(self._finish, state, call, outcome))

        limit = self._shared.deadlines.limit(tool.timeout_ms / 1000, leave)
        try:
            with limit:
                outcome = ToolRun(await self._attempts(state, call))
        except BaseException as error:  # the tool boundary: every exception becomes a result
            if isinstance(error, asyncio.CancelledError) and limit.is_over and not self.tasks.is_cancelled():
                outcome = late(tool, tool.timeout_ms, context=call.context)
            elif is_for_us(error):
                if call.context is not None:
                    call.context.control.cancel()
                raise
            else:
                outcome = outcome_of(
                    error, tool, tool.timeout_ms, context=call.context, is_over=limit.is_over
                )
        if limit.is_left:
            # Another task has finished the call.
            raise asyncio.CancelledError
        if call.task.cancelling():
            await self.tasks.drop_stray_cancel()
        if call.context is not None and call.context.state.change is not None and call.on_end is not None:
            self._turns.last(call.effect.call_id)
        return outcome

    async def _attempts(self, state: LoopState, call: "_Call") -> ToolResult:
        """Call the function, and again after a failure that it marks as retryable, up to its retries.

        Each attempt has a context of its own: what a failed one wrote to the state is dropped.
        """
        tool, clock = call.tool, self._shared.clock
        attempt = 1
        while True:
            try:
                return await call_tool(tool, call.arguments.values, call.context)
            except ToolFailed as error:
                if not error.is_retryable or attempt > tool.retries:
                    raise
            delay_ms = next_retry_delay_ms(_TOOL_RETRY, attempt, self._shared.random)
            await clock.sleep(delay_ms / 1_000)
            attempt += 1
            if (before := call.context) is not None and (context := self._context(call, state)) is not None:
                context.control.lines = before.control.lines
                call.context = replace(context, deadline=before.deadline)

    def _paused(self, call: "_Call", questions: Questions) -> LoopEvent | None:
        """Return the event of a tool that asked a person, whatever it returned or raised then."""
        call_id, binding = call.effect.call_id, call.binding
        if questions.problem is not None:
            duration_ms = elapsed_ms(self._shared.clock, call.started)
            return failed(call_id, "diverged", message=questions.problem, duration_ms=duration_ms)
        if not questions.new:
            return None
        self._shared.secret_inputs.keep(
            self._writer.session_id, call_id, value=call.arguments.json, redactor=binding.redactor
        )
        asks = [
            CallAsks(
                call_id,
                one.arguments,
                one.prompt,
                options=tuple({"id": name, "label": name} for name in one.options),
                allow_freeform=not one.options,
                responders=one.responders,
            )
            for one in questions.new
        ]
        return ToolAsked(call_id, tuple(asks))

    async def _finish(self, state: LoopState, call: "_Call", outcome: ToolRun) -> CallReturned:
        """Return the result of a call: bounded, masked, and reviewed by hooks and the policy."""
        effect, run, binding, tool = call.effect, call.run, call.binding, call.tool
        clock, redactor = self._shared.clock, binding.redactor
        duration_ms = elapsed_ms(clock, call.started)
        if outcome.error is not None and not isinstance(outcome.error, ToolFailed):
            log_failure(f"tool {tool.name} failed", outcome.error, redactor=redactor)
        if call.context is not None and call.sandbox is not None:
            changed = await call.sandbox.state()
            if changed is not None:
                call.context.state.keep_own(SANDBOX_KEY, changed)
        results = Results(self._shared.content, clock=clock, redactor=redactor)
        returned = await results.returned(effect.call_id, outcome, duration_ms=duration_ms)
        change = None
        if call.context is not None and returned.status is ActionStatus.COMPLETED:
            change = call.context.state.change
        if change is not None:
            returned = replace(returned, state=change)
        if call.context is not None and call.context.control.lines:
            returned = replace(returned, log=tuple(map(redactor.text, call.context.control.lines)))
        if binding.hooks.points:
            returned = await after_call(
                binding, run, state=state, effect=effect, returned=returned, clock=clock
            )
        reviewed = await review(binding, tool, arguments=call.arguments, returned=returned)
        if reviewed is returned and not tool.reads:
            return returned
        # A failure can quote what the tool read, so taint applies; withholding a result undoes nothing.
        brought = tuple(one.value for one in tool.reads)
        return replace(reviewed, state=returned.state, notes=returned.notes, log=returned.log, taint=brought)

    def _make_context(self, state: LoopState, call: "_Call") -> CallReturned | None:
        """Make the context of a call; return a failure if its sandbox is not to be had.

        The call does not run outside of it.
        """
        try:
            call.sandbox = self._find_sandbox(state, call)
        except AgentError as error:
            message = call.binding.redactor.text(error.message)
            return failed(call.effect.call_id, error.code.value, message=message)
        call.context = self._context(call, state)
        return None

    def _find_sandbox(self, state: LoopState, call: "_Call") -> SessionSandbox | None:
        """Return the sandbox of the session; it is opened by the tool."""
        find, run = self._shared.sandbox_of, call.run
        if find is None or call.tool.shape.signature.context_name is None:
            return None
        place = find(run, call.binding.package)
        if place is None:
            return None
        if self._sandbox is None or self._sandbox.place != place:
            self._sandbox = SessionSandbox(
                place,
                content=self._shared.content,
                recorded=state.session.authored.get(SANDBOX_KEY),
                family=_family(run),
                attached=lambda: attachments_of(state.session.history.messages),
            )
        return self._sandbox

    def _questions(self, call: "_Call", state: LoopState) -> Questions:
        """Return the questions of a call, with the answers that people gave."""
        refusal = None if self._can_ask(state) else _NOBODY_TO_ASK
        return Questions(call.effect.answers, mask=call.binding.redactor.text, refusal=refusal)

    def _context(self, call: "_Call", state: LoopState) -> ToolContext | None:
        """Return the context of a call; None if the tool does not take it. The time limit starts now."""
        tool, run, effect = call.tool, call.run, call.effect
        if tool.shape.signature.context_name is None:
            return None
        return ToolContext(
            self._writer.session_id,
            run.run_id,
            effect.call_id,
            agent_id=run.agent_id,
            turn_id=run.turn_id or "",
            step_index=effect.step_index,
            attempt=effect.attempt,
            idempotency_key=effect.idempotency_key,
            timeout_ms=tool.timeout_ms,
            deadline=self._shared.clock.now() + timedelta(milliseconds=tool.timeout_ms),
            budget=run.budget,
            deps=call.binding.deps,
            owner=run.owner,
            source=run.source,
            metadata=copy_of(run.metadata),
            state=ToolState(state.session.authored),
            control=ToolControl(shown_by(self._live, effect), self._questions(call, state)),
            sandbox=call.sandbox,
        )


@frozen
class SessionContent:
    """A `ContentStore` that stores content for one session."""

    inner: ContentStore
    session_id: str

    async def put(
        self, content: bytes, *, media_type: str = "application/json", session_id: str | None = None
    ) -> ContentRef:
        """Store bytes for the session."""
        return await self.inner.put(content, media_type=media_type, session_id=session_id or self.session_id)

    async def get(self, ref: ContentRef) -> bytes:
        """Return bytes."""
        return await self.inner.get(ref)
