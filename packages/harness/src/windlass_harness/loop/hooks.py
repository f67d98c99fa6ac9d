"""Hooks of a run: when they are due, and the records of their answers."""

from windlass_harness.loop import ends
from windlass_harness.loop.events import CallHooks, Draft, HooksRan, Moment
from windlass_harness.loop.rules import BEFORE_RUN_COMPLETE, RUN_STARTING, Rules
from windlass_harness.loop.state import LoopState
from windlass_harness.views.payloads import CORRECTION
from windlass_protocol import ErrorCode, ErrorInfo, ErrorKind, RetryClass
from windlass_protocol.generated import records


def due(state: LoopState, point: str, *, rules: Rules, call_id: str | None = None) -> tuple[CallHooks, ...]:
    """Return the effect that calls the hooks of a point, if they have not run."""
    run = state.session.run
    if run is None or point not in rules.hook_points or state.run_notes.hooked.has(point, call_id):
        return ()
    return (CallHooks(point, run, call_id),)


def take_results(state: LoopState, event: HooksRan, *, now: Moment, rules: Rules) -> list[Draft]:
    """Return the records of hooks that ran; the run may have ended since."""
    run = state.run
    if run is None or run.run_id != event.run_id:
        run_id, agent_id = event.run_id, event.agent_id
        return [Draft(note.TYPE, now.at, note, run_id=run_id, agent_id=agent_id) for note in event.notes]
    drafts = [state.draft(note, now=now) for note in event.notes]
    if run.is_cancel_requested or state.run_notes.failure is not None:
        return drafts
    if event.point == RUN_STARTING and event.context:
        drafts.append(_message_draft(state, event.context, now, delivery="hook"))
    if event.point == BEFORE_RUN_COMPLETE and event.veto is not None:
        drafts += apply_veto(state, event.veto, now=now, rules=rules)
    return drafts


def apply_veto(state: LoopState, reason: str, *, now: Moment, rules: Rules) -> list[Draft]:
    """Send the veto to the model; fail the run after too many vetoes."""
    if state.run_notes.hooked.vetoes < rules.completion_vetoes_max:
        text = f"You are not done yet: {reason}\nGo on, and answer again when this is settled."
        return [_message_draft(state, (text,), now, delivery=CORRECTION)]
    message = f"A hook did not let the run complete, over {rules.completion_vetoes_max} times: {reason}"
    error = ErrorInfo(
        code=ErrorCode.DENIED,
        kind=ErrorKind.POLICY_DENIAL,
        retry=RetryClass.USER_ACTION_NEEDED,
        message=message,
    )
    return [*ends.fail_run(state, error, now=now)]


def _message_draft(state: LoopState, context: tuple[str, ...], now: Moment, *, delivery: str) -> Draft:
    body = records.MessageReceived(message="", context=[*context], delivery=delivery, **state.turn_place)
    return state.draft(body, now=now)
