"""The usual step in one pass: an answer with one call that is allowed, and the result of that call.

`take`, `advance` and the fold of records define what a step does. In most steps the same happens: the model
requests one call, the rules allow it, its intent is written, its result arrives, and the next model call
begins. The functions here make the same records and the same state in one pass. A property test and the
simulator compare them with the general functions. At the first unusual thing a function here returns None
and has changed nothing: the general functions continue from there. `Rules.in_one_pass` turns all of it off.

The caller masks and numbers the drafts before it folds them. Drafts with a secret in them are dropped, and
the event is left to the general functions.
"""

from windlass_harness.loop.compaction import before_step
from windlass_harness.loop.events import (
    CallJudged,
    CallModel,
    CallReturned,
    Draft,
    JudgeCall,
    ModelAnswered,
    Moment,
    RunTool,
    within_limit,
)
from windlass_harness.loop.notes import CONSENTED, CallNotes, policy_version
from windlass_harness.loop.rules import Rules
from windlass_harness.loop.settled import KEPT_REASONS
from windlass_harness.loop.state import LoopState
from windlass_harness.loop.take import decision_data
from windlass_harness.record import Record
from windlass_harness.views.history import Call, CallStage, Step
from windlass_harness.views.payloads import EFFECTS, call_part, output_part, own, reasoning_part, text_part
from windlass_protocol import ActionStatus, JsonObject, ToolOutputType


def is_usual(state: LoopState, rules: Rules) -> bool:
    """Return whether a run is under way without hooks, open requests, requests of subagents or a cancel."""
    notes, session = state.run_notes, state.session
    return (
        state.run is not None
        and not state.is_ending
        and notes.waits_on is None
        and notes.epoch == state.epoch
        and not rules.hook_points
        and not session.requests
        and not session.family.proxied
    )


# the answer


def requested_call(state: LoopState, answer: ModelAnswered, *, now: Moment, rules: Rules) -> JudgeCall | None:
    """Return the call to judge, if an answer has one call and nothing but text beside it."""
    calls, step, turn = answer.calls, state.session.history.lone_step, state.session.turn
    if len(calls) != 1 or rules.calls_per_step_max < 1 or step is None or turn is None:
        return None
    call = calls[0]
    if (
        step.is_answered
        or step.calls
        or step.place != (turn.turn_id, turn.step_index)
        or call.subagent is not None
        or answer.provider_data
        or answer.notes
        or answer.finish_reason not in KEPT_REASONS
        or state.notes
        or state.run_notes.hooked.arguments
        or state.exceeding(now, tool_call=True)
    ):
        return None
    return JudgeCall(call.call_id, call.tool_name, call.input)


def begin_call(
    state: LoopState, answer: ModelAnswered, judged: CallJudged, *, now: Moment
) -> list[Draft] | None:
    """Return the records of an answer, and of the decision and the intent of its call."""
    run, turn, call = state.run, state.session.turn, answer.calls[0]
    assert run is not None
    assert turn is not None
    if (
        judged.decision.decision != "allow"
        or judged.delegation is not None
        or judged.interpreter is not None
        or judged.undo is not None
        or judged.notes
    ):
        return None
    at, reason, call_id, tool_name = now.at, answer.finish_reason._value_, call.call_id, call.tool_name
    place: JsonObject = {
        "sequence": turn.sequence,
        "turnId": turn.turn_id,
        "stepIndex": turn.step_index,
    }
    attempt = state.run_notes.attempt or None
    ids = run.run_id, run.agent_id, turn.turn_id, turn.step_index, attempt
    drafts: list[Draft] = []
    if answer.reasoning:
        drafts.append(Draft("reasoning.completed", at, {"reasoning": answer.reasoning, **place}, *ids))
    if answer.text:
        said: JsonObject = {"message": answer.text, "finishReason": reason, **place}
        drafts.append(Draft("message.completed", at, said, *ids))
    action: JsonObject = {"kind": "tool-call", "callId": call_id, "toolName": tool_name, "input": call.input}
    drafts.append(Draft("actions.requested", at, {"actions": [action], **place}, *ids))
    done: JsonObject = {"finishReason": reason, **place}
    if answer.usage:
        done["usage"] = answer.usage
    if answer.latency_ms is not None:
        done["latencyMs"] = answer.latency_ms
    if answer.queued_ms is not None:
        done["queuedMs"] = answer.queued_ms
    drafts.append(Draft("step.completed", at, done, *ids))
    decided: JsonObject = {
        "stage": "pre_tool",
        "decision": decision_data(judged.decision),
        "callId": call_id,
        "toolName": tool_name,
        **place,
    }
    drafts.append(Draft("policy.decided", at, decided, *ids))
    intent: JsonObject = {
        "callId": call_id,
        "toolName": tool_name,
        "effect": judged.effect,
        "idempotencyKey": within_limit(f"{run.run_id}/{turn.step_index}/{call_id}"),
        "argumentsHash": judged.arguments_hash,
        "mode": judged.mode,
        **place,
    }
    if judged.arguments != call.input:
        intent["arguments"] = judged.arguments
    drafts.append(Draft("action.started", at, intent, *ids))
    return drafts


def fold_begun_call(state: LoopState, records: list[Record], answer: ModelAnswered) -> RunTool:
    """Apply the records of `begin_call`, and return the effect of the call."""
    session, notes, asked = state.session, state.run_notes, answer.calls[0]
    decided, started = records[-2].data["decision"], records[-1]
    step, intent = session.history.lone_step, started.data
    assert step is not None
    assert isinstance(decided, dict)
    if answer.reasoning:
        step.parts.append(reasoning_part(text=answer.reasoning))
    if answer.text:
        step.parts.append(text_part(text=answer.text))
    given = own(asked.input)
    call = Call(
        asked.call_id,
        asked.tool_name,
        given,
        *step.place,
        CallStage.STARTED,
        EFFECTS[str(intent["effect"])],
        str(intent["idempotencyKey"]),
        own(intent.get("arguments")),
        started.epoch,
        1,
    )
    part = call_part(tool_call_id=call.call_id, tool_name=call.tool_name, input=given)
    session.history.begin_lone_call(step, part, call)
    usage = answer.usage
    session.follow_answer(started, tokens=usage.get("inputTokens") if usage else None)
    state.compacting.end_step()
    notes.end_call()
    notes.refusals = 0
    notes.finish_reason = answer.finish_reason
    notes.charge(usage)
    notes.budget.tool_calls_used += 1
    notes.last_at = started.at
    note = state.notes[call.call_id] = CallNotes(policy_version(decided))
    note.is_consented = decided.get("code") == CONSENTED
    note.arguments_hash = str(intent["argumentsHash"])
    arguments = given if call.arguments is None else call.arguments
    return RunTool(
        call.call_id,
        call.tool_name,
        arguments if isinstance(arguments, dict) else {},
        idempotency_key=str(call.idempotency_key),
        step_index=call.step_index,
        attempt=1,
    )


# the result


def _called_step(state: LoopState, call_id: str) -> Step | None:
    """Return the step of a call, if the call is the only one, and this owner has begun it."""
    step = state.session.history.lone_step
    call = None if step is None or len(step.calls) != 1 else step.calls.get(call_id)
    if step is None or call is None or not step.is_answered:
        return None
    return step if call.epoch == state.epoch else None


def end_call(state: LoopState, event: CallReturned, *, now: Moment) -> Draft | None:
    """Return the record of the result of the only call of a step."""
    step, run, turn = _called_step(state, event.call_id), state.run, state.session.turn
    is_plain = not (event.taint or event.notes or event.log)
    if event.status is not ActionStatus.COMPLETED or event.state is not None or not is_plain:
        return None
    if step is None or run is None or turn is None or turn.step_index != step.step_index:
        return None
    call_id = event.call_id
    if state.note(call_id).child is not None:
        return None
    result: JsonObject = {
        "kind": "tool-result",
        "callId": call_id,
        "toolName": step.calls[call_id].tool_name,
        "output": event.output,
    }
    turn_id, index = turn.turn_id, turn.step_index
    data: JsonObject = {
        "result": result,
        "status": "completed",
        "sequence": turn.sequence,
        "turnId": turn_id,
        "stepIndex": index,
    }
    if event.content is not None:
        data["contentRef"] = event.content
    if event.duration_ms is not None:
        data["durationMs"] = event.duration_ms
    attempt = state.run_notes.attempt or None
    return Draft("action.result", now.at, data, run.run_id, run.agent_id, turn_id, index, attempt)


def fold_ended_call(state: LoopState, record: Record, event: CallReturned) -> None:
    """Apply the record of `end_call`."""
    session, value = state.session, event.output
    is_text = type(value) is str
    kind = ToolOutputType.TEXT if is_text else ToolOutputType.JSON
    session.seq = record.seq
    session.history.end_lone_call(output_part(type=kind, value=value if is_text else own(value)))
    state.run_notes.last_at = record.at


# the next model call


def begin_step(state: LoopState, *, now: Moment, rules: Rules) -> Draft | None:
    """Return the record of the next model call after `fold_ended_call`, if nothing else is due."""
    notes, run, turn = state.run_notes, state.run, state.session.turn
    assert run is not None
    assert turn is not None
    assert turn.step_index is not None
    if (
        notes.is_retry
        or run.undo is not None
        or notes.refusals > rules.refusals_max
        or notes.budget.steps_used >= rules.steps_max
        or state.has_answered
        or state.exceeding(now, step=True, tokens=1)
        or before_step(state, now=now, rules=rules) is not None
    ):
        return None
    index = turn.step_index + 1
    data: JsonObject = {
        **state.place(index),
        "promptMessageCount": len(state.session.history.messages),
    }
    if state.model_id is not None:
        data["modelId"] = state.model_id
    return Draft("step.started", now.at, data, run.run_id, run.agent_id, turn.turn_id, index, 1)


def fold_begun_step(state: LoopState, record: Record) -> CallModel:
    """Apply the record of `begin_step`, and return its effect."""
    notes, index = state.run_notes, record.step_index or 0
    state.session.begin_next_step(record)
    state.notes.clear()
    notes.attempt = 1
    notes.finish_reason = None
    notes.is_validated, notes.structured = False, None
    notes.hooked.begin_step()
    notes.failures = 0
    notes.budget.steps_used += 1
    notes.last_at = record.at
    return CallModel(index, 1)
