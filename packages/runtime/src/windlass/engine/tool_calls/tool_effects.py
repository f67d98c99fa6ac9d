"""Tool calls: slots, contexts, time limits, retries, and the results of calls."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final

from pydantic import JsonValue

from windlass.agent.hooks import AFTER_TOOL_CALL
from windlass.agent.policy import decides_by_rules
from windlass.engine.binding import Binding
from windlass.engine.effect_context import EffectContext, family_of
from windlass.engine.hook_points import after_call
from windlass.engine.model_calls.model_call import elapsed_ms
from windlass.engine.tasks import CANCELLED, EffectTask
from windlass.engine.tool_calls.call_judge import CallJudge
from windlass.engine.tool_calls.results import (
    CallResults,
    failure_result,
    read_recorded_arguments,
    review,
)
from windlass.engine.writing.masking import MaskedAnswer, log_failure
from windlass.errors import AgentError, is_for_us
from windlass.limits import PROGRAM_CALLS_AT_ONCE_MAX
from windlass.ports.interpreter import CallBody
from windlass.ports.sandbox import SessionSandbox
from windlass.tools import Tool, ToolFailed
from windlass.tools.calling import (
    Arguments,
    ToolRun,
    call_tool,
    outcome_of,
    timeout_run,
)
from windlass.tools.context import CallWaits, ToolContext, ToolControl, ToolQuestion, ToolState, copy_of
from windlass_harness.loop import programs
from windlass_harness.loop.events import (
    CallAsks,
    CallReturned,
    CallUnbegun,
    LoopEvent,
    RunTool,
    ToolWaits,
)
from windlass_harness.loop.rules import RequestedCall
from windlass_harness.loop.state import LoopState
from windlass_harness.retry import RetryPolicy, next_retry_delay_ms
from windlass_harness.views.runs import RunState
from windlass_harness.views.session import SANDBOX_KEY
from windlass_protocol import ActionStatus
from windlass_protocol.frozen import mutable

_TOOL_RETRY: Final = RetryPolicy()
_NO_PERSON_TO_ASK: Final = "The tool needs an answer of a person, and no person can be asked in this run."


def visible_to(live: MaskedAnswer | None, effect: RunTool) -> Callable[[JsonValue], None]:
    """Return the function that publishes partial results of a call."""

    def show(output: JsonValue) -> None:
        if live is not None:
            live.partial(effect.call_id, output, tool_name=effect.tool_name)

    return show


class CallSlots:
    """The slots of the calls of one session, for tools with a limit on concurrent calls.

    The slot of a call that changed the state of the session lasts until its result is recorded: the next call
    sees the change.
    """

    def __init__(self) -> None:
        self._lasting: set[str] = set()
        self._held: dict[str, asyncio.Semaphore] = {}
        """Semaphores of ended calls that keep their slot until their result is recorded."""

    def free(self, call_id: str, gate: asyncio.Semaphore) -> None:
        """Free the slot of a call, unless it lasts."""
        if call_id in self._lasting:
            self._lasting.remove(call_id)
            self._held[call_id] = gate
        else:
            gate.release()

    def keep(self, call_id: str) -> None:
        """Let the slot of a call last until its result is recorded."""
        self._lasting.add(call_id)

    def free_recorded(self, is_open: Callable[[str], bool]) -> None:
        """Free the slots of calls with recorded results."""
        for call_id in [call_id for call_id in self._held if not is_open(call_id)]:
            self._held.pop(call_id).release()


def _is_finished_at_once(binding: Binding, outcome: ToolRun) -> bool:
    """Return whether the result of a call is made without waiting: no hooks, no review, nothing large."""
    has_hooks = AFTER_TOOL_CALL in binding.hooks.points
    return not outcome.is_large and not has_hooks and decides_by_rules(binding.policy)


@mutable
class _Call:
    """A tool call in progress."""

    effect: RunTool
    task: EffectTask
    run: RunState
    binding: Binding
    tool: Tool[..., object]
    arguments: Arguments
    started: float
    """Start of the call, by the monotonic clock."""
    context: ToolContext | None = None
    sandbox: SessionSandbox | None = None
    on_end: Callable[[], None] | None = None
    """Frees the slot of the call at its concurrency limit."""

    def end(self) -> None:
        """Free the slot of the call, once."""
        end, self.on_end = self.on_end, None
        if end is not None:
            end()


class ToolEffects:
    """Runs the tools of one session."""

    def __init__(self, context: EffectContext, judge: CallJudge) -> None:
        self._context = context
        self._shared = context.shared
        self._tasks = context.tasks
        self._judge = judge
        self._call_slots = CallSlots()
        self._unbegun: dict[str, EffectTask] = {}
        """Tasks of calls that have not begun: they had no effect."""
        self._is_stopping = False
        self._sandbox: SessionSandbox | None = None
        self._program_calls = asyncio.Semaphore(PROGRAM_CALLS_AT_ONCE_MAX)

    def stop(self) -> None:
        """Start no more tools; calls that have not begun report that."""
        self._is_stopping = True
        self._tasks.cancel_all(self._unbegun.values())

    def free_slots(self, is_open: Callable[[str], bool] = lambda _: False) -> None:
        """Free the slots of calls whose results are recorded, or of all."""
        self._call_slots.free_recorded(is_open)

    async def run(self, state: LoopState, effect: RunTool) -> LoopEvent | None:
        """Run a tool; a failure is part of the result.

        A call that is stopped before it begins returns `CallUnbegun`.
        """
        call_id = effect.call_id
        if self._is_stopping:
            return CallUnbegun(call_id)
        task = self._context.task_of(effect.key)
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

    async def _run(self, state: LoopState, effect: RunTool, task: EffectTask) -> LoopEvent | None:
        run, binding = state.run, await self._context.binding(state)
        assert run is not None, "only a run calls tools"
        call_id = effect.call_id
        tool = None if binding is None else binding.tools.get(effect.tool_name)
        if binding is None or tool is None:
            message = f"unknown tool: {effect.tool_name}; it was removed since the call was requested"
            return failure_result(call_id, "unknown_tool", message=message)
        arguments = self._judge.arguments.get(call_id) or await read_recorded_arguments(tool, effect)
        if isinstance(arguments, CallReturned):
            return arguments
        call = _Call(effect, task, run, binding, tool, arguments, self._shared.clock.monotonic())
        gate = self._shared.gates.of(tool)
        if gate is not None:
            await gate.acquire()
            call.on_end = partial(self._call_slots.free, call_id, gate)
        try:
            # Wait for a valid lease: another owner may have taken the session.
            await self._shared.lease.wait_until_valid(self._shared.clock)
            # The call begins now: it may have an effect.
            del self._unbegun[call_id]
            problem = self._make_context(state, call)
            if problem is not None:
                return problem
            outcome = await self._call(state, call)
            if outcome is None:
                return None
        except asyncio.CancelledError:
            if self._tasks.is_cancelled():
                raise
            message = CANCELLED.format(tool.name)
            duration_ms = elapsed_ms(self._shared.clock, call.started)
            return failure_result(call_id, "cancelled", message=message, duration_ms=duration_ms)
        finally:
            call.end()
        if call.context is not None and (paused := self._waits_event(call, call.context.control.waits)):
            return paused
        if _is_finished_at_once(binding, outcome):
            return await self._finish(state, call, outcome)
        # In another task: the tool's code may still cancel this one.
        self._tasks.take_over(effect.key, task, partial(self._finish, state, call, outcome))
        return None

    async def _call(self, state: LoopState, call: "_Call") -> ToolRun | None:
        """Run the function of a tool with its time limit.

        A function that ignores cancellation is abandoned: another task finishes the call as timed out, with
        its hooks and its review. If the function ends nevertheless, None is returned.
        """
        tool = call.tool

        def leave() -> None:
            call.end()
            outcome = timeout_run(tool, tool.timeout_ms, context=call.context)
            self._tasks.take_over(call.effect.key, call.task, partial(self._finish, state, call, outcome))

        limit = self._shared.deadlines.limit(tool.timeout_ms / 1000, leave)
        try:
            with limit:
                outcome = await self._attempts(state, call)
        except BaseException as error:  # the tool boundary: every exception becomes a result
            if isinstance(error, asyncio.CancelledError) and limit.is_over and not self._tasks.is_cancelled():
                outcome = timeout_run(tool, tool.timeout_ms, context=call.context)
            elif is_for_us(error):
                if call.context is not None:
                    call.context.control.cancel()
                raise
            else:
                outcome = outcome_of(
                    error, tool, tool.timeout_ms, context=call.context, is_over=limit.is_over
                )
        if limit.is_left:
            return None
        if call.task.cancelling():
            await self._tasks.drop_stray_cancel()
        if call.context is not None and call.context.state.change is not None and call.on_end is not None:
            self._call_slots.keep(call.effect.call_id)
        return outcome

    async def _attempts(self, state: LoopState, call: "_Call") -> ToolRun:
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
            if (before := call.context) is not None and (
                context := self._tool_context(call, state)
            ) is not None:
                context.control.lines = before.control.lines
                call.context = replace(context, deadline=before.deadline)

    def _waits_event(self, call: "_Call", waits: CallWaits) -> LoopEvent | None:
        """Return the event of a tool that waits, whatever it returned or raised then."""
        call_id, binding = call.effect.call_id, call.binding
        if waits.problem is not None:
            duration_ms = elapsed_ms(self._shared.clock, call.started)
            return failure_result(call_id, "diverged", message=waits.problem, duration_ms=duration_ms)
        if not waits.new:
            return None
        self._shared.secret_inputs.keep(
            self._context.session_id, call_id, value=call.arguments.json, redactor=binding.redactor
        )
        return ToolWaits(call_id, tuple(_wait_of(call_id, wait) for wait in waits.new))

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
        results = CallResults(self._shared.content, clock=clock, redactor=redactor)
        returned = await results.result_of(effect.call_id, outcome, duration_ms=duration_ms)
        change = None
        if call.context is not None and returned.status is ActionStatus.COMPLETED:
            change = call.context.state.change
        if change is not None:
            returned = replace(returned, state=change)
        if call.context is not None and call.context.control.lines:
            returned = replace(returned, log=tuple(map(redactor.text, call.context.control.lines)))
        returned = await after_call(binding, run, state=state, effect=effect, returned=returned, clock=clock)
        reviewed = await review(binding, tool, arguments=call.arguments, returned=returned)
        if reviewed is returned and not tool.reads:
            return returned
        # A failure can quote what the tool read, so taint applies; withholding a result undoes nothing.
        brought = tuple(label.value for label in tool.reads)
        return replace(reviewed, state=returned.state, notes=returned.notes, log=returned.log, taint=brought)

    def _make_context(self, state: LoopState, call: "_Call") -> CallReturned | None:
        """Make the context of a call; return a failure if its sandbox is not to be had.

        The call does not run outside of it.
        """
        try:
            call.sandbox = self._find_sandbox(state, call)
        except AgentError as error:
            message = call.binding.redactor.text(error.message)
            return failure_result(call.effect.call_id, error.code.value, message=message)
        call.context = self._tool_context(call, state)
        return None

    def _find_sandbox(self, state: LoopState, call: "_Call") -> SessionSandbox | None:
        """Return the sandbox of the session; it is opened by the tool."""
        shared, run = self._shared, call.run
        if call.tool.shape.signature.context_name is None:
            return None
        sandbox_place = shared.sandbox_of(run, call.binding.package)
        if sandbox_place is None:
            return None
        if self._sandbox is None or self._sandbox.place != sandbox_place:
            self._sandbox = shared.session_sandboxes()(
                sandbox_place,
                content=shared.content,
                recorded=state.session.authored.get(SANDBOX_KEY),
                family=family_of(run),
                messages=lambda: state.session.history.messages,
            )
        return self._sandbox

    def _waits(self, call: "_Call", state: LoopState) -> CallWaits:
        """Return what a call waits for, with what came."""
        refusal = None if self._context.can_ask(state) else _NO_PERSON_TO_ASK
        return CallWaits(
            call.effect.waited, now=self._shared.clock.now, mask=call.binding.redactor.text, refusal=refusal
        )

    async def _body_of(self, state: LoopState, call: "_Call") -> CallBody | None:
        """Return what performs a call with what its workflow holds in memory."""
        call_id = call.effect.call_id
        made = state.call(call_id)
        parent = None if made is None or made.parent_id is None else state.call(made.parent_id)
        program = None if parent is None else state.note(parent.call_id).program
        if parent is None or program is None:
            return None
        number = [made_id for made_id, _, _ in program.calls].index(call_id)
        effect = programs.effect_of(parent, program)
        return await self._context.programs(state).body_of(effect, number, binding=call.binding)

    def _tool_context(self, call: "_Call", state: LoopState) -> ToolContext | None:
        """Return the context of a call; None if the tool does not take it. The time limit starts now."""
        tool, run, effect = call.tool, call.run, call.effect
        if tool.shape.signature.context_name is None:
            return None
        return ToolContext(
            self._context.session_id,
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
            control=ToolControl(
                visible_to(self._context.live, effect),
                self._waits(call, state),
                partial(self._body_of, state, call),
            ),
            sandbox=call.sandbox,
        )


def _wait_of(call_id: str, wait: ToolQuestion | RequestedCall) -> CallAsks | RequestedCall:
    """Return what a tool waits for as the loop records it."""
    if isinstance(wait, RequestedCall):
        return wait
    return CallAsks(
        call_id,
        wait.arguments,
        wait.prompt,
        options=tuple({"id": name, "label": name} for name in wait.options),
        allow_freeform=not wait.options,
        responders=wait.responders,
    )
