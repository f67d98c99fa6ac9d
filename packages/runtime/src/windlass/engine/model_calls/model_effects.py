"""Model calls: answers to runs, with hooks and resolvers, and summaries of histories."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final

from windlass.agent.hooks import AFTER_MODEL_CALL, BEFORE_MODEL_CALL
from windlass.engine.binding import MISSING_AGENT, Binding, load_prices
from windlass.engine.dynamic import resolve_step
from windlass.engine.effect_context import EffectContext, current_task
from windlass.engine.hook_points import hook_call
from windlass.engine.model_calls.compaction import SummaryLimits, compact
from windlass.engine.model_calls.model_call import (
    Collector,
    ModelRequest,
    Prompt,
    PromptParts,
    elapsed_ms,
    listen,
    system_words,
)
from windlass.engine.model_calls.output import StructuredOutput
from windlass.engine.spending.batches import BatchedCall, Batches, BatchItem, ItemState
from windlass.engine.spending.provider_limits import ProviderSlot
from windlass.engine.spending.spend_limits import SUMMARY_CALL, SummaryTooDear
from windlass.engine.tool_calls.call_judge import CallJudge
from windlass.engine.tool_calls.results import broken_off, model_error
from windlass.engine.tool_calls.subagents import with_subagents
from windlass.engine.writing.masking import MaskedAnswer, UnseenAnswer
from windlass.engine.writing.writer import retry_store_call
from windlass.errors import AgentError, Conflict, Unavailable, is_for_us
from windlass.limits import MODEL_TIMEOUT_MS
from windlass.ports.batches import BatchProvider
from windlass.ports.feed import LiveAnswer
from windlass.ports.model import LLMMessage, LLMStreamChunk, is_unpaid
from windlass.ports.purses import CallRefusal
from windlass.prices import NO_BILL, Bill, shorten_answer
from windlass_harness.loop.events import (
    CallModel,
    Compact,
    CompactionBroken,
    LoopEvent,
    ModelAnswered,
    ModelBatched,
    ModelFailed,
    Stopped,
)
from windlass_harness.loop.failures import out_of_budget
from windlass_harness.loop.purse import call_bounds
from windlass_harness.loop.rules import NO_RUN_LIMITS
from windlass_harness.loop.state import LoopState
from windlass_harness.prompt_cache import compare_prompts, describe_loss
from windlass_harness.retry import DELAY_MS_MAX
from windlass_harness.views.runs import RunState
from windlass_protocol import BudgetName, ContentRef, ErrorInfo, JsonObject
from windlass_protocol.bodies import Body, data_of
from windlass_protocol.frozen import frozen
from windlass_protocol.generated import records

_LOG: Final = logging.getLogger(__name__)


@frozen
class AnswerOfItem:
    """The answer to an item of a batch, as a provider that answers with it."""

    provider: BatchProvider
    batches: Batches
    item: BatchItem

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncGenerator[LLMStreamChunk]:
        """Yield the answer; see `LLMProvider`."""
        answer = await self.batches.answer(self.item)
        for chunk in self.provider.read_answer(answer, tools=tools or ()):
            yield chunk


def _batch_reason(binding: Binding, state: LoopState) -> str:
    """Return why the run waits."""
    model = binding.tariff_for(state.run_notes.model_id).name
    return f"{model} answers in a batch, within 24 hours"


@frozen
class _Turn:
    """When a model is asked, and where its answer is shown meanwhile."""

    route_id: str
    slot: ProviderSlot
    shown: LiveAnswer
    asked_at: datetime | None = None
    """When an item was offered; None for a call that is sent once it has its slot."""


class ModelEffects:
    """Calls the models of one session."""

    def __init__(self, context: EffectContext, judge: CallJudge, prompt: Prompt) -> None:
        self._context = context
        self._shared = context.shared
        self._tasks = context.tasks
        self._pause_clock = context.pause_clock
        self._judge = judge
        self._prompt = prompt
        self._parts = PromptParts()
        self._structured_output = StructuredOutput()
        self._answered: BatchItem | None = None
        """The item of the newest answer, until that is in the records."""

    async def call_model(self, state: LoopState) -> LoopEvent | None:
        """Call the model; a failure is returned as an event."""
        binding = await self._context.binding(state)
        if binding is None:
            return Stopped(MISSING_AGENT)
        if not binding.resolvers:
            return await self._call_model(binding, state)
        try:
            resolved = await resolve_step(binding, state, means=self._context.resolver_ports(state))
        except Unavailable as error:
            return ModelFailed(error.info(), chance=self._shared.random())
        if isinstance(resolved, Stopped):
            return ModelFailed(resolved.error)
        self._context.use(resolved.binding, state)
        return await self._call_model(resolved.binding, state, resolved.notes)

    async def _call_model(
        self, binding: Binding, state: LoopState, notes: tuple[Body, ...] = ()
    ) -> ModelAnswered | ModelBatched | ModelFailed | None:
        system = system_words(binding.instructions, state.run_notes.contract)
        try:
            messages = await self._prompt.messages(state.session.history, system, self._read_content)
        except Unavailable as error:
            return ModelFailed(error.info(), chance=self._shared.random(), notes=notes)
        run, hooks = state.run, binding.hooks
        assert run is not None, "only a run asks the model"
        item: BatchItem | None = None
        if binding.is_batched_by(state.run_notes.model_id):
            try:
                item = await self._batches.item(run.run_id, state.place()["step_index"])
            except AgentError as error:
                return ModelFailed(error.info(), chance=self._shared.random(), notes=notes)
            if item is not None and item.state is not ItemState.ENDED:
                return ModelBatched(_batch_reason(binding, state), notes)
        if item is None and BEFORE_MODEL_CALL in hooks.points:
            call = replace(hook_call(BEFORE_MODEL_CALL, run, state=state), messages=tuple(messages))
            gate = await hooks.run(call, clock=self._shared.clock)
            notes = (*notes, *gate.notes)
            if gate.stop is not None:
                return ModelFailed(gate.stop, notes=notes)
            messages += [LLMMessage("user", text) for text in gate.context]
        answer = await self._answer(binding, state, messages, notes, item)
        if not isinstance(answer, ModelAnswered) or AFTER_MODEL_CALL not in hooks.points:
            return answer
        # In another task: the provider's code may still cancel this one.
        self._tasks.take_over(
            CallModel.key, current_task(), partial(self._after_answer, binding, state, run, answer)
        )
        return None

    async def _read_content(self, ref: ContentRef) -> bytes:
        return await retry_store_call(lambda: self._shared.content.get(ref), self._shared.clock)

    async def _after_answer(
        self, binding: Binding, state: LoopState, run: RunState, answer: ModelAnswered
    ) -> ModelAnswered | ModelFailed:
        """Let hooks see an answer."""
        call = replace(hook_call(AFTER_MODEL_CALL, run, state=state), text=answer.text, asked=answer.calls)
        after = await binding.hooks.run(call, clock=self._shared.clock)
        notes = (*answer.notes, *after.notes)
        if after.stop is None:
            return replace(answer, notes=notes)
        if self._context.live is not None:
            self._context.live.close()
        return ModelFailed(after.stop, usage=answer.usage, price=answer.price, notes=notes)

    async def compact(self, state: LoopState, effect: Compact) -> LoopEvent:
        """Compact the history; a failure is returned as an event."""
        run, shared = state.session.run, self._shared
        assert run is not None, "only a session with a history is compacted"
        try:
            binding = await self._context.bound_to(run)
        except AgentError as error:
            return CompactionBroken(error.info(), chance=shared.random())
        if binding is None:
            return CompactionBroken(MISSING_AGENT)
        limit_ms = MODEL_TIMEOUT_MS
        if state.run is not None:
            limit_ms = self._pause_clock.time_left_ms(state, most_ms=limit_ms)
        slot = shared.provider_limits.slot(binding.summary_route, shared.clock)
        limits = SummaryLimits(
            limit_ms,
            shared.random(),
            slot,
            partial(self._take, slot, binding.summary_route, state),
            shared.clock.now,
            partial(self._reserve_summary, state, run),
        )
        return await compact(binding, state, effect=effect, limits=limits)

    async def _reserve_summary(
        self, state: LoopState, run: RunState, binding: Binding, prompt_tokens: int
    ) -> int | None:
        """Set aside what a summary may cost; return the tokens of its longest answer, None without a limit.

        In limits that the run shares, the record of the summary takes the place of what is set aside.

        Raises:
            SummaryTooDear: it does not fit a limit.
        """
        shared, notes = self._shared, state.run_notes
        most = None if state.run is None else notes.limits.max_cost_micros
        limits = shared.spend_limits
        purses = () if limits is None else limits.purses(run.owner, run.agent_id, overdraft=notes.overdraft)
        is_priced = most is not None or any(purse.max_cost_micros is not None for purse in purses)
        if most is None and not purses:
            return None
        if is_priced:
            await load_prices()
        terms = binding.summary_terms(shared.clock.now(), is_priced=is_priced)
        left = None if most is None else most - notes.budget.cost_micros_used
        bounds = None if terms is None else call_bounds(terms, prompt_tokens, left=left)
        if bounds is None:
            spent = (BudgetName.COST, notes.budget.cost_micros_used, most or 0)
            run_limits = NO_RUN_LIMITS if limits is None else limits.run_limits(run, can_ask=False)
            raise SummaryTooDear(BudgetName.COST, out_of_budget([spent], run_limits=run_limits))
        if limits is None or not purses:
            return bounds.answer_tokens
        answer = await self._context.writer.hold_call(limits.store, SUMMARY_CALL, purses, bounds)
        if isinstance(answer, CallRefusal):
            raise SummaryTooDear(answer.budget, limits.over_limit(answer))
        return answer.answer_tokens

    async def _answer(
        self,
        binding: Binding,
        state: LoopState,
        messages: Sequence[LLMMessage],
        notes: tuple[Body, ...],
        item: BatchItem | None,
    ) -> ModelAnswered | ModelBatched | ModelFailed | None:
        """Call the model, or read the answer of its item, which is offered if there is none.

        A failure is returned as an event. None: the call was abandoned meanwhile.
        """
        shared, step, contract = self._shared, self._context.writer.step, state.run_notes.contract
        model_id, route_id = state.run_notes.model_id, binding.route_for(state.run_notes.model_id)
        tools = binding.definitions(can_ask=self._context.can_ask(state))
        provider = shorten_answer(binding.provider_for(model_id), state.run_notes.answer_tokens)
        if not binding.is_batched_by(model_id) or not isinstance(provider, BatchProvider):
            provider = self._structured_output.of(provider, contract, has_tools=bool(tools))
            request = ModelRequest(provider, messages, tools, binding.temperature)
            shown = UnseenAnswer() if step is None else shared.bus.live(step)
            turn = _Turn(route_id, shared.provider_limits.slot(route_id, shared.clock), shown)
            return await self._converse(binding, state, request, notes, turn)
        provider = self._structured_output.of_batch(provider, contract, has_tools=bool(tools))
        request = ModelRequest(provider, messages, tools, binding.temperature)
        if item is None:
            return await self._offer(binding, state, provider, request, notes)
        if item.error is not None:
            answer = await self._model_failure(state, item.error, NO_BILL, notes)
        else:
            request = replace(request, provider=AnswerOfItem(provider, self._batches, item))
            slot = ProviderSlot(None, shared.clock, queued_ms=item.wait_ms)
            turn = _Turn(route_id, slot, UnseenAnswer(), datetime.fromisoformat(item.asked_at))
            answer = await self._converse(binding, state, request, notes, turn)
        if isinstance(answer, ModelAnswered):
            self._answered = item
        elif answer is not None:
            # The next attempt offers another item.
            with suppress(Unavailable):
                await retry_store_call(lambda: self._batches.release(item), shared.clock)
        return answer

    async def _converse(
        self,
        binding: Binding,
        state: LoopState,
        request: ModelRequest,
        notes: tuple[Body, ...],
        turn: _Turn,
    ) -> ModelAnswered | ModelFailed | None:
        """Call the model; a failure is returned as an event. None: the call was abandoned meanwhile."""
        shared, slot, task = self._shared, turn.slot, self._context.task_of(CallModel.key)
        live = self._context.live = MaskedAnswer(turn.shown, binding.redactor)
        tariff = binding.tariff_for(state.run_notes.model_id)
        collector = Collector(live, binding.redactor, tariff=tariff, calls_max=shared.calls_max)

        def leave() -> None:
            live.close()
            slot.free(usage=collector.usage)
            late = model_error(TimeoutError(), binding.redactor)
            self._tasks.take_over(
                CallModel.key, task, partial(self._model_failure, state, late, collector.bill(), notes)
            )

        try:
            await self._take(slot, turn.route_id, state, live)
            started, collector.asked_at = shared.clock.monotonic(), turn.asked_at or shared.clock.now()
            is_heard = await listen(
                request,
                collector,
                most_s=self._pause_clock.time_left_ms(state, most_ms=MODEL_TIMEOUT_MS) / 1000,
                deadlines=shared.deadlines,
                on_left=leave,
                after_chunk=shared.after_chunk,
            )
            if not is_heard:
                return None
            if task.cancelling():
                await self._tasks.drop_stray_cancel()
            slot.free(usage=collector.usage)
            answer = collector.answer(latency_ms=elapsed_ms(shared.clock, started), notes=notes)
        except asyncio.CancelledError:
            live.close()
            if self._tasks.is_cancelled():
                raise
            failure = broken_off("answer")
        except BaseException as error:  # model boundary: a provider may raise anything
            live.close()
            slot.free(error, usage=collector.usage)
            if is_for_us(error):
                raise
            collector.is_refused = is_unpaid(error)
            failure = model_error(error, binding.redactor)
        else:
            if slot.queued_ms is not None:
                answer = replace(answer, queued_ms=slot.queued_ms)
            cache = self._compare_prompts(state, answer.usage, request.messages, request.tools)
            if cache is not None:
                answer = replace(answer, cache=cache)
            if answer.price is not None and answer.price.gap is not None:
                shared.unpriced.warn(binding.package.agent.agent_id, tariff, answer.price.gap)
            self._judge.take_answer(answer.calls, collector.canonical)
            return with_subagents(answer, binding.tools) if answer.calls else answer
        finally:
            slot.free(usage=collector.usage)
        return await self._model_failure(state, failure, collector.bill(), notes)

    async def _offer(
        self,
        binding: Binding,
        state: LoopState,
        provider: BatchProvider,
        request: ModelRequest,
        notes: tuple[Body, ...],
    ) -> ModelBatched | ModelFailed:
        """Offer a call as an item of a batch; its run waits."""
        run, model_id = state.run, state.run_notes.model_id
        assert run is not None, "only a run asks the model"
        tariff = binding.tariff_for(model_id)
        try:
            body = provider.batch_body(request.messages, tools=request.tools, temperature=request.temperature)
            await self._batches.offer(
                BatchedCall(
                    run.run_id,
                    self._context.session_id,
                    state.place()["step_index"],
                    agent_id=run.agent_id,
                    route_id=tariff.route_id,
                    model_id=tariff.model_id,
                    provider=provider,
                    body=body,
                )
            )
        except Conflict:
            # Another process has offered it.
            pass
        except AgentError as error:
            return await self._model_failure(state, error.info(), NO_BILL, notes)
        return ModelBatched(_batch_reason(binding, state), notes)

    def forget_answered(self, state: LoopState) -> None:
        """Drop the item of an answer that is in the records."""
        if self._answered is not None and state.session.history.unanswered is None:
            self._batches.forget(self._answered)
            self._answered = None

    @property
    def _batches(self) -> Batches:
        assert self._shared.batches is not None, "a runtime with a store has batches"
        return self._shared.batches

    def _compare_prompts(
        self,
        state: LoopState,
        usage: records.Usage | None,
        messages: Sequence[LLMMessage],
        tools: Sequence[JsonObject],
    ) -> records.PromptCache | None:
        """Return the prompt as its provider has it in the cache, and log what was paid again."""
        if usage is None:
            return None
        if state.cached_prompt is None and not usage.cache_read_tokens and not usage.cache_write_tokens:
            return None
        parts = self._parts.of(messages, tools)
        cache = compare_prompts(state.cached_prompt, parts, usage, model_id=state.model_id)
        if cache is not None and cache.loss is not None and state.run is not None:
            level = logging.INFO if cache.loss.part is None else logging.WARNING
            _LOG.log(
                level,
                "run %s, model call %d: %s",
                state.run.run_id,
                state.place()["step_index"] + 1,
                describe_loss(cache.loss),
            )
        return cache

    async def _take(
        self, slot: ProviderSlot, route_id: str, state: LoopState, live: MaskedAnswer | None = None
    ) -> None:
        """Take the slot of a model call at the limit of its provider; a call that waits is shown.

        The wait counts for the time budget of the run, and not for the time limit of the call.
        """
        if slot.try_take():
            return

        def show(reason: str) -> None:
            if live is not None:
                body = records.StepQueued(provider=route_id, reason=reason, **state.place())
                live.show(body.TYPE, data_of(body))

        left_ms = DELAY_MS_MAX
        if state.run is not None:
            left_ms = self._pause_clock.time_left_ms(state, most_ms=left_ms)
        with self._shared.deadlines.limit(left_ms / 1_000):
            await slot.take(show)

    async def _model_failure(
        self, state: LoopState, failure: ErrorInfo, bill: Bill, notes: tuple[Body, ...]
    ) -> ModelFailed:
        if failure.retry_after_ms is not None:
            # A provider's retry-after must not exceed the time budget of the run.
            wait_ms = self._pause_clock.time_left_ms(state, most_ms=failure.retry_after_ms)
            failure = failure.model_copy(update={"retry_after_ms": wait_ms})
        chance = self._shared.random()
        return ModelFailed(failure, chance=chance, usage=bill.usage, price=bill.price, notes=notes)
