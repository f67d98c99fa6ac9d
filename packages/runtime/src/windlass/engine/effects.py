"""Effects of a session: each is performed by the part that knows how.

Calls are judged and run in `windlass.engine.tool_calls`, models are called in `windlass.engine.model_calls`.
The tasks of effects are in `windlass.engine.tasks`.
"""

from collections.abc import Callable
from dataclasses import replace

from windlass.engine.binding import MISSING_AGENT, Binder, load_prices
from windlass.engine.clocks import PauseClock
from windlass.engine.deadline import Interruptible
from windlass.engine.delivery import deliver
from windlass.engine.dynamic import resolve_run
from windlass.engine.effect_context import EffectContext, EffectPorts
from windlass.engine.hook_points import at_point, check_answer
from windlass.engine.model_calls.model_call import Prompt
from windlass.engine.model_calls.model_effects import ModelEffects
from windlass.engine.tasks import Performed
from windlass.engine.tool_calls.approval import deciders_of
from windlass.engine.tool_calls.call_judge import CallJudge
from windlass.engine.tool_calls.subagents import review_report
from windlass.engine.tool_calls.tool_effects import ToolEffects
from windlass.engine.writing.writer import SessionWriter
from windlass.errors import AgentError, Rejected
from windlass.ports.journal import Standing
from windlass.ports.purses import CallGrant
from windlass_harness.loop.events import (
    CallHooks,
    CallModel,
    CallReserved,
    CheaperCall,
    CheckOutput,
    Compact,
    Deliver,
    Effect,
    JudgeCall,
    LoopEvent,
    ReserveCall,
    ReviewReport,
    RunProgram,
    RunTool,
    Stopped,
)
from windlass_harness.loop.purse import reservation_of
from windlass_harness.loop.rules import Rules, RunLimit
from windlass_harness.loop.state import LoopState
from windlass_harness.views.runs import RunState
from windlass_protocol import BudgetName
from windlass_protocol.bodies import Body


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
        self._context = EffectContext(binder, writer, shared=shared, pause_clock=pause_clock)
        self._judge = CallJudge(self._context)
        self._tools = ToolEffects(self._context, self._judge)
        self._models = ModelEffects(self._context, self._judge, prompt or Prompt())
        self.tasks = self._context.tasks
        self.spend_limits = shared.spend_limits

    def perform(self, state: LoopState, effect: Effect) -> Performed:
        """Return the coroutine that performs an effect; its result is the event that follows.

        It raises nothing but cancellation.
        """
        match effect:
            case CallModel():
                return self._models.call_model(state)
            case RunTool():
                return self._tools.run(state, effect)
            case RunProgram():
                return self.run_program(state, effect)
            case JudgeCall():
                return self._judge.judge(state, effect)
            case Compact():
                return self._models.compact(state, effect)
            case ReviewReport():
                return self.review(state, effect)
            case ReserveCall():
                return self.reserve(state, effect)
            case CheckOutput():
                return self.check(state, effect)
            case CallHooks():
                return self.hooks(state, effect)
            case Deliver():
                return self.deliver(effect)

    async def bind(self, state: LoopState, interruptible: Interruptible) -> tuple[Body, ...] | Stopped | None:
        """Bind the current run to the agent of this process."""
        try:
            binding = await self._context.binding(state)
        except Rejected as error:
            return Stopped(error.info())
        if binding is None or not binding.resolvers:
            return Stopped(MISSING_AGENT) if binding is None else binding.notes
        # Resolvers are application code: everything that they see must be durable.
        await self._context.writer.commit(standing=Standing.RUNNING, wake_at_ms=None)
        resolved = await interruptible.do(
            resolve_run(binding, state, means=self._context.resolver_ports(state))
        )
        if resolved is None or isinstance(resolved, Stopped):
            return resolved
        self._context.use(resolved.binding, state)
        return (*binding.notes, *resolved.notes)

    def free_recorded(self, state: LoopState) -> None:
        """Free what calls kept that have ended in the records: slots of tools, items of batches."""
        self._tools.free_slots(lambda call_id: state.call(call_id) is not None)
        self._models.forget_answered(state)

    def close(self) -> None:
        """Stop publishing: this process no longer drives the session, and its driver is not rung."""
        self.tasks.ring = lambda: None
        self._tools.free_slots()
        self._context.close_programs()
        if self._context.live is not None:
            self._context.live.close()

    def stop(self) -> None:
        """Start no more tools; calls that have not begun report that."""
        self._tools.stop()

    def judge_at_once(self, state: LoopState, effect: JudgeCall) -> LoopEvent | None:
        """Judge a call of a tool that the rules are known to allow; None if that takes more."""
        return self._judge.judge_at_once(state, effect)

    async def run_program(self, state: LoopState, effect: RunProgram) -> LoopEvent:
        """Run a program until it waits for calls or ends; has no side effects."""
        binding = await self._context.binding(state)
        if binding is None:
            return Stopped(MISSING_AGENT)
        return await self._context.programs(state).run_turn(effect, binding=binding)

    async def review(self, state: LoopState, effect: ReviewReport) -> LoopEvent:
        """Review a subagent's report before the model sees it; has no side effects."""
        run, binding, shared = state.run, await self._context.binding(state), self._context.shared
        if run is None or binding is None:
            return Stopped(MISSING_AGENT)
        return await review_report(
            binding, run, state=state, effect=effect, content=shared.content, clock=shared.clock
        )

    async def check(self, state: LoopState, effect: CheckOutput) -> LoopEvent:
        """Validate an answer against the output contract; has no side effects."""
        contract, binding = state.run_notes.contract, await self._context.binding(state)
        assert contract is not None, "only an answer to a contract is checked"
        if binding is None:
            return Stopped(MISSING_AGENT)
        return await check_answer(
            binding, state, contract=contract, text=effect.text, clock=self._context.shared.clock
        )

    async def rules(self, run: RunState, rules: Rules) -> Rules | None:
        """Return the rules of a run: those given, its hooks and its sinks; None if its agent is not here.

        Why it is not here is said where the run is bound.
        """
        try:
            binding = await self._context.bound_to(run)
        except AgentError:
            return None
        if binding is None:
            return None
        rules = replace(binding.rules_from(rules), responders=deciders_of(binding, run))
        limits, run_limits = (), dict[BudgetName, RunLimit]()
        if self.spend_limits is not None:
            limits = self.spend_limits.period_limits(run.owner, run.agent_id)
            can_ask = self._context.shared.is_attended and run.can_ask
            run_limits = self.spend_limits.run_limits(run, can_ask=can_ask)
        is_priced = run.budget is not None and run.budget.max_cost_micros is not None
        is_priced |= any(limit.max_cost_micros is not None for limit in limits)
        if not is_priced and not limits and not run_limits:
            return rules
        if is_priced:
            await load_prices()
        terms = binding.terms(self._context.shared.clock.now(), is_priced=is_priced)
        return replace(rules, terms=terms, is_shared=bool(limits), run_limits=run_limits)

    async def reserve(self, state: LoopState, effect: ReserveCall) -> LoopEvent:
        """Set aside what the next model call may cost, in the purses that the run counts for."""
        run, limits = state.run, self.spend_limits
        assert run is not None, "only a run calls a model"
        assert limits is not None, "only a run with shared limits asks"
        purses = limits.purses(run.owner, run.agent_id, overdraft=state.run_notes.overdraft)
        if not purses:
            # The limits were removed just now.
            return CallReserved(effect.call, reservation_of(effect.bounds), model_id=effect.model_id)
        offer: ReserveCall | CheaperCall = effect
        others = iter(effect.cheaper)
        while True:
            answer = await self._context.writer.hold_call(limits.store, effect.call, purses, offer.bounds)
            if isinstance(answer, CallGrant):
                bounds = replace(offer.bounds, answer_tokens=answer.answer_tokens)
                held = reservation_of(bounds, shared=effect.call)
                return CallReserved(effect.call, held, model_id=offer.model_id)
            cheaper = next(others, None) if limits.is_at_limit(answer, "cheaper") else None
            if cheaper is None:
                can_ask = self._context.can_ask(state)
                return limits.refusal(effect.call, answer, offer.bounds, can_ask=can_ask)
            offer = cheaper

    async def hooks(self, state: LoopState, effect: CallHooks) -> LoopEvent:
        """Call the hooks of a point."""
        binding = await self._context.bound_to(effect.run)
        assert binding is not None, "only a run that is bound has hooks"
        return await at_point(binding, state, effect=effect, clock=self._context.shared.clock)

    async def deliver(self, effect: Deliver) -> LoopEvent:
        """Deliver an output to a sink."""
        binding = await self._context.bound_to(effect.run)
        assert binding is not None, "only a run that is bound has sinks"
        await self._context.shared.lease.wait_until_valid(self._context.shared.clock)
        return await deliver(binding.sinks, effect, clock=self._context.shared.clock)
