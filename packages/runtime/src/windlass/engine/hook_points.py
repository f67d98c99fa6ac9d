"""Hook points: where a run calls hooks, and what their answers change."""

import asyncio
from dataclasses import replace
from functools import partial

from windlass.agent.hooks import AFTER_TOOL_CALL, AFTER_VALIDATION, BEFORE_APPROVAL_REQUEST, BEFORE_VALIDATION
from windlass.agent.output import OutputContext, contract_hash
from windlass.engine.binding import Binding
from windlass.engine.hooks import HookOutcome
from windlass.engine.model_calls.output import OutputCheck, check_output
from windlass.errors import Rejected
from windlass.ports.clock import Clock
from windlass.ports.host import HookCall
from windlass.tools.calling import Arguments, after_few_checks, arguments_of, read_arguments
from windlass.tools.context import SessionValues, copy_of
from windlass_harness.loop.advance import last_text
from windlass_harness.loop.events import (
    CallHooks,
    CallRefused,
    CallReturned,
    HooksRan,
    JudgeCall,
    LoopEvent,
    OutputChecked,
    RunTool,
    Stopped,
)
from windlass_harness.loop.rules import AFTER_APPROVAL_DECISION, BEFORE_RUN_COMPLETE, BEFORE_TOOL_CALL
from windlass_harness.loop.state import LoopState
from windlass_harness.views.runs import RunState
from windlass_protocol import (
    ActionStatus,
    AskDecision,
    DenyDecision,
    OutputContract,
    OutputError,
    PolicyKind,
    PolicyRef,
)
from windlass_protocol.bodies import Body
from windlass_protocol.frozen import frozen


def hook_call(point: str, run: RunState, *, state: LoopState) -> HookCall:
    """Return the facts that every hook of a run receives."""
    values = SessionValues(state.session.authored)
    return HookCall(point, run.session_id, run.run_id, run.agent_id, state=values)


@frozen
class HookGate:
    """Outcome of hooks before a call is judged: changed arguments, or a denial."""

    arguments: Arguments
    notes: tuple[Body, ...] = ()
    decision: DenyDecision | None = None


async def before_call(
    binding: Binding, state: LoopState, *, effect: JudgeCall, arguments: Arguments, clock: Clock
) -> HookGate | CallRefused:
    """Call the hooks before the policy, once per call."""
    run, tool = state.run, binding.tools[effect.tool_name]
    is_seen = state.run_notes.hooked.has(BEFORE_TOOL_CALL, effect.call_id)
    if run is None or is_seen or BEFORE_TOOL_CALL not in binding.hooks.points:
        return HookGate(arguments)
    call = replace(
        hook_call(BEFORE_TOOL_CALL, run, state=state),
        call_id=effect.call_id,
        tool_name=effect.tool_name,
        arguments=arguments.json,
    )
    outcome = await binding.hooks.run(
        call, clock=clock, check=lambda changed: arguments_of(tool, changed.arguments)
    )
    if outcome.stop is not None:
        return CallRefused(effect.call_id, "hook.failed", outcome.stop.message, outcome.notes)
    final = await read_arguments(tool, outcome.call.arguments) if outcome.is_changed else arguments
    return HookGate(final, outcome.notes, _denial(outcome))


@frozen
class HookRequest:
    """Outcome of hooks before an approval request: changed text, or a denial."""

    decision: AskDecision | DenyDecision
    notes: tuple[Body, ...] = ()


async def before_request(
    binding: Binding, state: LoopState, *, effect: JudgeCall, decision: AskDecision, clock: Clock
) -> HookRequest | CallRefused:
    """Call the hooks before a person is asked."""
    run = state.run
    if run is None or BEFORE_APPROVAL_REQUEST not in binding.hooks.points:
        return HookRequest(decision)
    call = replace(
        hook_call(BEFORE_APPROVAL_REQUEST, run, state=state),
        call_id=effect.call_id,
        tool_name=effect.tool_name,
        prompt=decision.prompt or decision.reason,
    )
    outcome = await binding.hooks.run(call, clock=clock)
    if outcome.stop is not None:
        return CallRefused(effect.call_id, "hook.failed", outcome.stop.message, outcome.notes)
    denial = _denial(outcome)
    if denial is None and outcome.is_changed:
        decision = decision.model_copy(update={"prompt": outcome.call.prompt})
    return HookRequest(denial or decision, outcome.notes)


def _denial(outcome: HookOutcome) -> DenyDecision | None:
    refusal = outcome.refusal
    if refusal is None:
        return None
    refs = (PolicyRef(kind=PolicyKind.HOST, id=f"hook.{refusal.hook_id}"),)
    return DenyDecision(code=refusal.code, reason=refusal.reason, policy_refs=refs)


async def after_call(
    binding: Binding,
    run: RunState,
    *,
    state: LoopState,
    effect: RunTool,
    returned: CallReturned,
    clock: Clock,
) -> CallReturned:
    """Call the hooks after a tool returned, before the policy and the model see the result."""
    if AFTER_TOOL_CALL not in binding.hooks.points:
        return returned
    is_done = returned.status is ActionStatus.COMPLETED
    call = replace(
        hook_call(AFTER_TOOL_CALL, run, state=state),
        call_id=effect.call_id,
        tool_name=effect.tool_name,
        arguments=effect.arguments,
        result=returned.output,
        error=None if is_done else returned.message,
    )
    try:
        outcome = await binding.hooks.run(call, clock=clock)
    except asyncio.CancelledError:
        # The run ends, but the tool has run: keep its result.
        is_guarded = is_done and binding.hooks.guards(AFTER_TOOL_CALL)
        return _withheld(returned, "its hooks were interrupted") if is_guarded else returned
    if outcome.refusal is not None or outcome.stop is not None:
        why = outcome.refusal.reason if outcome.refusal else "a hook stopped the run"
        return replace(_withheld(returned, why), notes=outcome.notes)
    if outcome.is_changed:
        # Drop the content reference: it would lead to the unchanged result.
        returned = replace(returned, output=outcome.call.result, content=None)
    return replace(returned, notes=outcome.notes)


def _withheld(returned: CallReturned, reason: str) -> CallReturned:
    return replace(
        returned,
        status=ActionStatus.FAILED,
        output=None,
        code="hook.failed",
        message=f"The call ran; its result is withheld: {reason}",
        content=None,
    )


async def check_answer(
    binding: Binding, state: LoopState, *, contract: OutputContract, text: str, clock: Clock
) -> LoopEvent:
    """Validate an answer against its contract; if it is valid, call the completion hooks."""
    run, hooks = state.run, binding.hooks
    assert run is not None, "only a run is asked for output"
    before = await hooks.run(replace(hook_call(BEFORE_VALIDATION, run, state=state), text=text), clock=clock)
    if before.stop is not None:
        return HooksRan(BEFORE_VALIDATION, run.run_id, before.notes)
    checked = await after_few_checks(partial(check_output, contract, text))
    output = binding.output
    if output is not None and not checked.errors and output.contract_hash == contract_hash(contract):
        check = OutputCheck(output, contract, _output_context(binding, state), binding.redactor)
        try:
            checked = await check.run(checked, text)
        except Rejected as error:
            return Stopped(error.info(), before.notes)
    call = replace(
        hook_call(AFTER_VALIDATION, run, state=state), text=text, value=checked.value, errors=checked.errors
    )
    after = await hooks.run(call, clock=clock)
    notes = (*before.notes, *after.notes)
    if after.stop is not None:
        return HooksRan(AFTER_VALIDATION, run.run_id, notes)
    if after.refusal is not None:
        error = OutputError(path="", code="hook", message=after.refusal.reason)
        return OutputChecked(None, (*checked.errors, error), notes=notes)
    if checked.errors:
        return replace(checked, notes=notes)
    call = replace(hook_call(BEFORE_RUN_COMPLETE, run, state=state), text=text, value=checked.value)
    last = await hooks.run(call, clock=clock)
    notes = (*notes, *last.notes)
    if last.stop is not None:
        return HooksRan(BEFORE_RUN_COMPLETE, run.run_id, notes)
    return replace(checked, veto=None if last.refusal is None else last.refusal.reason, notes=notes)


def _output_context(binding: Binding, state: LoopState) -> OutputContext:
    run = state.run
    assert run is not None, "only a run is asked for output"
    return OutputContext(
        run.session_id,
        run.run_id,
        agent_id=run.agent_id,
        attempt=state.run_notes.rejections + 1,
        deps=binding.deps,
        owner=run.owner,
        source=run.source,
        metadata=copy_of(run.metadata),
        state=SessionValues(state.session.authored),
    )


async def at_point(binding: Binding, state: LoopState, *, effect: CallHooks, clock: Clock) -> LoopEvent:
    """Call the hooks of a point of the run."""
    run = effect.run
    outcome = await binding.hooks.run(_facts(state, effect), clock=clock)
    if effect.call_id is not None and outcome.refusal is not None:
        return CallRefused(effect.call_id, "hook.failed", outcome.refusal.reason, outcome.notes)
    return HooksRan(
        effect.point,
        run.run_id,
        outcome.notes,
        agent_id=run.agent_id,
        context=outcome.context,
        veto=None if outcome.refusal is None else outcome.refusal.reason,
    )


def _facts(state: LoopState, effect: CallHooks) -> HookCall:
    run = effect.run
    call = hook_call(effect.point, run, state=state)
    if effect.point == AFTER_APPROVAL_DECISION and effect.call_id is not None:
        note, tool_call = state.note(effect.call_id), state.call(effect.call_id)
        return replace(
            call,
            call_id=effect.call_id,
            tool_name=None if tool_call is None else tool_call.tool_name,
            arguments=note.arguments,
            decision=None if note.approval_outcome is None else note.approval_outcome.value,
        )
    if effect.point == BEFORE_RUN_COMPLETE:
        return replace(call, text=last_text(state), value=state.run_notes.structured)
    if run.result is not None:
        return replace(
            call,
            text=run.result.output,
            value=run.result.structured_output,
            status=run.status.value,
        )
    return call
