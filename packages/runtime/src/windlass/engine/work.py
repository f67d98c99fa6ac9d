"""The effects of a session: the model is asked, calls are judged and made."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from pydantic import JsonValue

from windlass.engine.answer import Collector, elapsed_ms
from windlass.engine.binding import NOBODY, Binder, Binding
from windlass.engine.compacting import Patience, compact
from windlass.engine.consent import deciders_of
from windlass.engine.delegating import delegated, reviewed, with_subagents
from windlass.engine.delivery import deliver
from windlass.engine.failures import log_failure
from windlass.engine.holding import Holding
from windlass.engine.inner import Inner
from windlass.engine.judge import Judged, judge
from windlass.engine.listening import Asked, listen
from windlass.engine.making import Beginnings, made, shown_by
from windlass.engine.masking import MaskedAnswer
from windlass.engine.points import after_call, at_point, check_answer, hook_call
from windlass.engine.prompt import Prompt, system_words
from windlass.engine.resolving import Means, resolve_run, resolve_step
from windlass.engine.results import (
    Results,
    broken_off,
    failed,
    kept_arguments,
    lost_secret,
    model_error,
    review,
)
from windlass.engine.shared import Shared
from windlass.engine.steady import Steady
from windlass.engine.turns import Turns
from windlass.engine.writer import SessionWriter
from windlass.errors import AgentError, Rejected, Unavailable, is_for_us, is_told_to_end
from windlass.hooks import AFTER_MODEL_CALL, BEFORE_MODEL_CALL
from windlass.limits import MODEL_TIMEOUT_MS
from windlass.ports.model import LLMMessage
from windlass.ports.store import Standing
from windlass.tools import Tool, ToolFailed
from windlass.tools.calling import Arguments
from windlass.tools.context import ToolContext, ToolControl, ToolState
from windlass_harness.loop.effects import (
    CallHooks,
    CallModel,
    CheckOutput,
    Compact,
    Deliver,
    JudgeCall,
    ReviewReport,
    RunTool,
)
from windlass_harness.loop.events import (
    CallRefused,
    CallReturned,
    CompactionBroken,
    LoopEvent,
    ModelAnswered,
    ModelFailed,
    Note,
    Stopped,
)
from windlass_harness.loop.rules import Rules
from windlass_harness.loop.state import LoopState
from windlass_harness.redact import Redactor
from windlass_harness.views.runs import RunState
from windlass_protocol import ActionStatus, AskDecision, DeferDecision

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
