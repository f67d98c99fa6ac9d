"""The effects of a session: the model is asked, calls are judged and made."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from pydantic import JsonValue

from windlass.agent import receipt_of
from windlass.engine.approval import Judged, deciders_of, judge
from windlass.engine.binding import NOBODY, Binder, Binding
from windlass.engine.clocks import Lease, Steady
from windlass.engine.compaction import Patience, compact
from windlass.engine.deadline import Inner, Late, Raised, Returned, cut
from windlass.engine.dynamic import Means, resolve_run, resolve_step
from windlass.engine.hook_points import after_call, at_point, check_answer, hook_call
from windlass.engine.masking import MaskedAnswer, SecretInputs, log_failure
from windlass.engine.model_call import LEAVE_S, Asked, Collector, Prompt, elapsed_ms, listen, system_words
from windlass.engine.output import Holding
from windlass.engine.results import (
    Results,
    broken_off,
    failed,
    kept_arguments,
    lost_secret,
    model_error,
    review,
)
from windlass.engine.subagents import Delegator, delegated, reviewed, with_subagents
from windlass.engine.writer import SessionWriter
from windlass.errors import AgentError, Conflict, Denied, Rejected, Unavailable, is_for_us, is_told_to_end
from windlass.hooks import AFTER_MODEL_CALL, BEFORE_MODEL_CALL
from windlass.limits import (
    DELIVERY_ATTEMPTS_MAX,
    DELIVERY_RETRY_DELAY_MS,
    DELIVERY_TIMEOUT_MS,
    MODEL_TIMEOUT_MS,
)
from windlass.ports.clock import Clock, Random
from windlass.ports.feed import EventBus
from windlass.ports.host import Delivery, OutputSink
from windlass.ports.model import LLMMessage
from windlass.ports.store import ContentStore, Standing
from windlass.tools import Tool, ToolFailed
from windlass.tools.calling import Arguments, ToolRun, late, run_tool
from windlass.tools.context import ToolContext, ToolControl, ToolState
from windlass.tools.router import ToolGates
from windlass_harness.loop.events import (
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
    JudgeCall,
    LoopEvent,
    ModelAnswered,
    ModelFailed,
    Note,
    ReviewReport,
    RunTool,
    Stopped,
)
from windlass_harness.loop.rules import CALLS_PER_STEP_MAX, Rules
from windlass_harness.loop.state import LoopState
from windlass_harness.redact import Redactor
from windlass_harness.views.runs import RunState
from windlass_protocol import (
    ActionStatus,
    AskDecision,
    ContentRef,
    DeferDecision,
    ErrorCode,
    ErrorInfo,
    ErrorKind,
    JsonObject,
    RetryClass,
)


class Beginnings:
    """Knows which calls have begun: of the others it is certain that they did nothing."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Task[object] | None] = {}
        """Calls that have not begun, and who makes them."""
        self._is_stopping = False

    def stop(self) -> None:
        """Let no call begin any more."""
        self._is_stopping = True
        for task in self._waiting.values():
            if task is not None:
                task.cancel()

    def begin(self, call_id: str) -> None:
        """Note that a call begins now."""
        del self._waiting[call_id]

    async def made(self, call_id: str, make: Callable[[], Awaitable[LoopEvent]]) -> LoopEvent:
        """Make a call; one that is told to end before it begins says so."""
        if self._is_stopping:
            return CallUnbegun(call_id)
        self._waiting[call_id] = asyncio.current_task()
        try:
            return await make()
        except asyncio.CancelledError:
            if call_id in self._waiting:
                return CallUnbegun(call_id)
            raise
        finally:
            self._waiting.pop(call_id, None)


async def made(tool: Tool[..., object], arguments: Arguments, *, context: ToolContext) -> ToolRun:
    """Run a tool; one that does not even end when its time is over is left to itself."""
    running = run_tool(tool, arguments.values, context=context)
    if not tool.shape.signature.is_async:
        # Whoever waits for a thread can always be told to stop waiting.
        return await running
    outcome = await cut(running, tool.timeout_ms / 1000 + LEAVE_S, is_patient=True)
    match outcome:
        case Returned(found):
            return found
        case Raised(error):
            raise error
        case _:
            return late(tool, tool.timeout_ms, context=context)


def shown_by(live: MaskedAnswer | None, effect: RunTool) -> Callable[[JsonValue], None]:
    """Return who shows partial results of a call."""

    def show(output: JsonValue) -> None:
        if live is not None:
            live.partial(effect.call_id, output, tool_name=effect.tool_name)

    return show


class Turns:
    """The turns of the calls of one session.

    One that keeps something in the session lasts until that is recorded: the next call sees it.
    """

    def __init__(self, gates: Callable[[], ToolGates]) -> None:
        self._gates = gates
        self._lasting: set[str] = set()
        self._over: dict[str, asyncio.Semaphore] = {}
        """Gates of calls that are done, and whose turns last."""

    @asynccontextmanager
    async def of(self, tool: Tool[..., object], call_id: str) -> AsyncGenerator[None]:
        """Wait for the turn of a call, and let the next one have it after."""
        gate = self._gates().of(tool)
        if not isinstance(gate, asyncio.Semaphore):
            yield
            return
        await gate.acquire()
        try:
            yield
        finally:
            if call_id in self._lasting:
                self._lasting.remove(call_id)
                self._over[call_id] = gate
            else:
                gate.release()

    def last(self, call_id: str) -> None:
        """Let the turn of a call last until its result is recorded."""
        self._lasting.add(call_id)

    def recorded(self, is_open: Callable[[str], bool]) -> None:
        """Let the next have their turns, after calls that have their results."""
        for call_id in [one for one in self._over if not is_open(one)]:
            self._over.pop(call_id).release()


@dataclass(frozen=True, slots=True)
class Shared:
    """What all sessions of a runtime share to perform effects."""

    content: ContentStore
    bus: EventBus
    clock: Clock
    random: Random
    is_attended: bool
    calls_max: int = CALLS_PER_STEP_MAX
    """Calls of one answer."""
    gates: ToolGates = field(default_factory=ToolGates)
    secret_inputs: SecretInputs = field(default_factory=SecretInputs)
    lease: Lease = field(default_factory=Lease)
    delegator: Delegator | None = None
    after_chunk: Callable[[], Awaitable[None]] | None = None
    """Awaited after each piece of an answer, by a host that shows pieces itself instead of a bus."""


async def deliver(sinks: Mapping[str, OutputSink], effect: Deliver, *, clock: Clock) -> DeliverySettled:
    """Give an output to its sink; again only if the sink says that nothing happened.

    Raises nothing but cancellation: then nobody knows what happened, and whoever looks next says so.
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
    outcome = await cut(_given(sink, _output(effect)), DELIVERY_TIMEOUT_MS / 1_000)
    if isinstance(outcome, Late):
        reason = f"The sink did not answer within {DELIVERY_TIMEOUT_MS:,} ms."
        return DeliverySettled(delivery_id, reason=reason)
    if not isinstance(outcome, Raised):
        return DeliverySettled(delivery_id, receipt=receipt_of(outcome.value))
    error = outcome.error
    if isinstance(error, Unavailable | Rejected | Denied | Conflict):
        return DeliverySettled(delivery_id, error=error.info())
    told = error.message if isinstance(error, AgentError) else "it may or may not have happened"
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
"""Runs of a session that are bound at the same time."""


class AgentWork:
    """Performs the effects of one session."""

    def __init__(
        self,
        binder: Binder,
        writer: SessionWriter,
        *,
        shared: Shared,
        steady: Steady,
        prompt: Prompt | None = None,
        has_agent: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self.has_agent = has_agent
        self._binder = binder
        self._writer = writer
        self._shared = shared
        self._steady = steady
        self._prompt = prompt or Prompt()
        self._holding = Holding()
        self._live: MaskedAnswer | None = None
        self._bound: dict[str, Binding] = {}
        """By run: the one under way, and the one before it while it is delivered."""
        self._inputs: dict[str, JsonValue] = {}
        """What the model wrote for the calls of its last answer; records have it without secrets."""
        self._arguments: dict[str, Arguments] = {}
        """What calls that were judged will run with."""
        self._beginnings = Beginnings()
        self._turns = Turns(lambda: shared.gates)

    async def _binding(self, state: LoopState) -> Binding | None:
        return None if state.run is None else await self._bound_to(state.run)

    async def _bound_to(self, run: RunState) -> Binding | None:
        binding = self._bound.get(run.run_id)
        if binding is None:
            binding = await self._binder(run)
            if binding is not None:
                while len(self._bound) >= _BOUND_MAX:
                    del self._bound[next(iter(self._bound))]
                self._bound[run.run_id] = binding
        return binding

    def _can_ask(self, state: LoopState) -> bool:
        """Whether anybody is there to ask, and the channel of the run can reach them."""
        return self._shared.is_attended and (state.run is None or state.run.can_ask)

    async def bind(self, state: LoopState, inner: Inner) -> tuple[Note, ...] | Stopped | None:
        """Find what the run under way needs of this process."""
        try:
            binding = await self._binding(state)
        except Rejected as error:
            return Stopped(error.info())
        if binding is None or not binding.resolvers:
            return Stopped(NOBODY) if binding is None else binding.notes
        # Resolvers are the host's code, and see nothing that a crash could make untrue.
        await self._writer.commit(standing=Standing.RUNNING, wake_at_ms=None)
        found = await inner.do(resolve_run(binding, state, means=self._means(state)))
        if found is None or isinstance(found, Stopped):
            return found
        self._use(found.binding, state)
        return (*binding.notes, *found.notes)

    def _means(self, state: LoopState) -> Means:
        return Means(self._shared.content, self._shared.clock, self._can_ask(state))

    def _use(self, binding: Binding, state: LoopState) -> None:
        if state.run is not None:
            self._bound[state.run.run_id] = binding

    def recorded(self, state: LoopState) -> None:
        """Note that all that was drafted is durable."""
        self._turns.recorded(lambda call_id: state.call(call_id) is not None)

    def close(self) -> None:
        """Show nothing more: the session is not driven here any more."""
        self._turns.recorded(lambda _: False)
        if self._live is not None:
            self._live.close()

    def stop(self) -> None:
        """Begin no tool any more; those that have not begun say so."""
        self._beginnings.stop()

    async def judge(self, state: LoopState, effect: JudgeCall) -> LoopEvent:
        """Check a call and ask the policy about it; touches nothing."""
        binding, shared = await self._binding(state), self._shared
        if binding is None:
            return Stopped(NOBODY)
        lost = self._remember(effect, binding.redactor)
        if lost is not None:
            return lost
        written = self._inputs.get(effect.call_id, effect.input)
        if written is not effect.input:
            effect = replace(effect, input=written)
        judged = await judge(
            binding, state, effect=effect, clock=shared.clock, is_attended=self._can_ask(state)
        )
        if isinstance(judged, Judged):
            self._arguments[effect.call_id] = judged.arguments
            # Whoever judges it again judges what it would run with.
            self._inputs[effect.call_id] = judged.arguments.json
            if isinstance(judged.event.decision, AskDecision | DeferDecision):
                shared.secret_inputs.keep(
                    self._writer.session_id,
                    effect.call_id,
                    value=judged.arguments.json,
                    redactor=binding.redactor,
                )
            return await delegated(judged, state, binding=binding, delegator=shared.delegator)
        return judged

    async def review(self, state: LoopState, effect: ReviewReport) -> LoopEvent:
        """See what a subagent returned before the model does; touches nothing."""
        run, binding, shared = state.run, await self._binding(state), self._shared
        if run is None or binding is None:
            return Stopped(NOBODY)
        return await reviewed(
            binding, run, state=state, effect=effect, content=shared.content, clock=shared.clock
        )

    def _remember(self, effect: JudgeCall, redactor: Redactor) -> CallRefused | None:
        """Find the secrets of a call that has waited; refuse it if they are lost."""
        if effect.call_id in self._inputs:
            return None
        found = self._shared.secret_inputs.find(
            self._writer.session_id, effect.call_id, recorded=effect.input, redactor=redactor
        )
        if found is None:
            return lost_secret(effect.call_id, effect.input)
        self._inputs[effect.call_id] = found
        return None

    async def check(self, state: LoopState, effect: CheckOutput) -> LoopEvent:
        """Hold an answer against the output contract; touches nothing."""
        contract, binding = state.run_notes.contract, await self._binding(state)
        assert contract is not None, "only an answer to a contract is checked"
        if binding is None:
            return Stopped(NOBODY)
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
        """Give an output to a sink."""
        binding = await self._bound_to(effect.run)
        assert binding is not None, "only a run that is bound has sinks"
        await self._shared.lease.held(self._shared.clock)
        return await deliver(binding.sinks, effect, clock=self._shared.clock)

    async def ask(self, state: LoopState, effect: CallModel) -> LoopEvent:
        """Ask the model; whatever goes wrong is an answer too."""
        binding = await self._binding(state)
        if binding is None:
            return Stopped(NOBODY)
        if not binding.resolvers:
            return await self._ask(binding, state)
        try:
            found = await resolve_step(binding, state, means=self._means(state))
        except Unavailable as error:
            return ModelFailed(error.info(), chance=self._shared.random())
        if isinstance(found, Stopped):
            return ModelFailed(found.error)
        self._use(found.binding, state)
        answer = await self._ask(found.binding, state)
        return replace(answer, notes=(*found.notes, *answer.notes))

    async def _ask(self, binding: Binding, state: LoopState) -> ModelAnswered | ModelFailed:
        system = system_words(binding.instructions, state.run_notes.contract)
        messages = self._prompt.messages(state.session.history, system)
        run, hooks = state.run, binding.hooks
        assert run is not None, "only a run asks the model"
        if not hooks.points:
            return await self._converse(binding, state, messages)
        clock = self._shared.clock
        gate = await hooks.run(
            replace(hook_call(BEFORE_MODEL_CALL, run, state=state), messages=tuple(messages)), clock=clock
        )
        if gate.stop is not None:
            return ModelFailed(gate.stop, notes=gate.notes)
        messages += [LLMMessage("user", text) for text in gate.context]
        answer = await self._converse(binding, state, messages)
        if isinstance(answer, ModelFailed):
            return replace(answer, notes=gate.notes)
        call = replace(hook_call(AFTER_MODEL_CALL, run, state=state), text=answer.text, asked=answer.calls)
        after = await hooks.run(call, clock=clock)
        notes = (*gate.notes, *after.notes)
        if after.stop is None:
            return replace(answer, notes=notes)
        if self._live is not None:
            self._live.close()
        return ModelFailed(after.stop, usage=answer.usage, notes=notes)

    async def compact(self, state: LoopState, effect: Compact) -> LoopEvent:
        """Make the history shorter; whatever goes wrong is an answer too."""
        run, shared = state.session.run, self._shared
        assert run is not None, "only a session with a history is compacted"
        try:
            binding = await self._bound_to(run)
        except AgentError as error:
            return CompactionBroken(error.info(), chance=shared.random())
        if binding is None:
            return CompactionBroken(NOBODY)
        limit_ms = MODEL_TIMEOUT_MS
        if state.run is not None:
            limit_ms = self._steady.time_left_ms(state, most_ms=limit_ms)
        patience = Patience(limit_ms, shared.random())
        return await compact(binding, state, effect=effect, patience=patience)

    async def _converse(
        self, binding: Binding, state: LoopState, messages: Sequence[LLMMessage]
    ) -> ModelAnswered | ModelFailed:
        assert self._writer.step is not None, "a step begins before its model is asked"
        self._live = MaskedAnswer(self._shared.bus.live(self._writer.step), binding.redactor)
        collector = Collector(self._live, binding.redactor, calls_max=self._shared.calls_max)
        clock = self._shared.clock
        started = clock.monotonic()
        most_ms = self._steady.time_left_ms(state, most_ms=MODEL_TIMEOUT_MS)
        try:
            tools = binding.definitions(can_ask=self._can_ask(state))
            provider = self._holding.of(binding.provider, state.run_notes.contract, has_tools=bool(tools))
            asked = Asked(provider, messages, tools, binding.temperature)
            after = self._shared.after_chunk
            await listen(asked, collector, most_s=most_ms / 1000, after_chunk=after)
            answer = collector.answer(latency_ms=elapsed_ms(clock, started))
            self._inputs = {call.call_id: call.input for call in answer.calls}
            self._arguments.clear()
            self._shared.secret_inputs.forget(self._writer.session_id)
            return with_subagents(answer, binding.tools)
        except asyncio.CancelledError:
            self._live.close()
            if is_told_to_end():
                raise
            failure = broken_off("answer")
        except BaseException as error:  # the model boundary: a provider may raise anything
            self._live.close()
            if is_for_us(error):
                raise
            failure = model_error(error, binding.redactor)
        if failure.retry_after_ms is not None:
            # A run does not wait for a busy server longer than it may live.
            wait_ms = self._steady.time_left_ms(state, most_ms=failure.retry_after_ms)
            failure = failure.model_copy(update={"retry_after_ms": wait_ms})
        return ModelFailed(failure, chance=self._shared.random(), usage=collector.usage)

    async def run(self, state: LoopState, effect: RunTool) -> LoopEvent:
        """Run a tool; whatever goes wrong is a result too."""
        return await self._beginnings.made(effect.call_id, lambda: self._run(state, effect))

    async def _run(self, state: LoopState, effect: RunTool) -> LoopEvent:
        run, binding = state.run, await self._binding(state)
        assert run is not None, "only a run calls tools"
        tool = None if binding is None else binding.tools.get(effect.tool_name)
        if binding is None or tool is None:
            told = f"there is no tool {effect.tool_name} any more"
            return failed(effect.call_id, "unknown_tool", message=told)
        arguments = self._arguments.get(effect.call_id) or kept_arguments(tool, effect)
        if isinstance(arguments, CallReturned):
            return arguments
        clock = self._shared.clock
        started = clock.monotonic()
        try:
            async with self._turns.of(tool, effect.call_id):
                # Only what is still ours to begin is begun.
                await self._shared.lease.held(clock)
                self._beginnings.begin(effect.call_id)
                context = self._context(tool, state, run=run, effect=effect)
                outcome = await made(tool, arguments, context=context)
                if context.state.change is not None:
                    self._turns.last(effect.call_id)
        except asyncio.CancelledError:
            if is_told_to_end():
                raise
            told = f"{tool.name} broke off by itself; whether it did anything is not known"
            return failed(effect.call_id, "cancelled", message=told, duration_ms=elapsed_ms(clock, started))
        if outcome.error is not None and not isinstance(outcome.error, ToolFailed):
            log_failure(f"tool {tool.name} failed", outcome.error, redactor=binding.redactor)
        results = Results(self._shared.content, clock=clock, redactor=binding.redactor)
        returned = await results.returned(effect.call_id, outcome, duration_ms=elapsed_ms(clock, started))
        if returned.status is ActionStatus.COMPLETED:
            returned = replace(returned, state=context.state.change)
        returned = await after_call(binding, run, state=state, effect=effect, returned=returned, clock=clock)
        reviewed = await review(binding, tool, arguments=arguments, returned=returned)
        # Also a failure may quote what the tool has read; and whoever withholds a result undoes no call.
        brought = tuple(one.value for one in tool.reads)
        return replace(reviewed, state=returned.state, notes=returned.notes, taint=brought)

    def _context(
        self, tool: Tool[..., object], state: LoopState, *, run: RunState, effect: RunTool
    ) -> ToolContext:
        """Return what a tool is told of its call; its time begins now."""
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
            state=ToolState(state.session.authored),
            control=ToolControl(shown_by(self._live, effect)),
        )


@dataclass(frozen=True, slots=True)
class SessionContent:
    """A `ContentStore` that knows for which session something is put."""

    inner: ContentStore
    session_id: str

    async def put(
        self, content: bytes, *, media_type: str = "application/json", session_id: str | None = None
    ) -> ContentRef:
        """Keep bytes for the session."""
        return await self.inner.put(content, media_type=media_type, session_id=session_id or self.session_id)

    async def get(self, ref: ContentRef) -> bytes:
        """Return bytes."""
        return await self.inner.get(ref)
