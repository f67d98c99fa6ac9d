"""Programs: calls that make calls of their own. Tools that wait are programs, too.

A program is source code that the model wrote. Running it has no effect outside: all that it does is to make
calls, which are judged, recorded and performed like those of the model. It takes their results in the order
of their records, one after the other. So the source and the records define every state of a program. A
snapshot of the interpreter saves running it again, and may be lost.

A tool that asks a person, sleeps or waits for an event ends there, and what it waits for is recorded as a
call that it made: of `ask_question`, `sleep` or `wait_for`. Until that has a result the call of the tool is
at rest: nothing runs, and nothing can be interrupted. Then the tool is judged, begun and run again from its
start, and finds the answer, the event or that the time has come.
"""

from collections import Counter
from typing import Final

from msgspec import structs

from windlass_harness.loop import people, subagents
from windlass_harness.loop.events import (
    CallAsks,
    CallReturned,
    Draft,
    Moment,
    ProgramEnded,
    ProgramPaused,
    RunProgram,
    ToolWaits,
    WaitResult,
    join_ids,
)
from windlass_harness.loop.notes import ASK_QUESTION, SLEEP, WAIT_FOR, ProgramNotes, ProgramVariables
from windlass_harness.loop.rules import RequestedCall, Rules
from windlass_harness.loop.state import LoopState
from windlass_harness.views.history import Call, CallStage
from windlass_protocol import ActionStatus, InputRequest
from windlass_protocol.generated import records

TOO_MANY_CALLS: Final = "too_many_calls"
CANCELLED_TIMER: Final = "timer_cancelled"
_NAMES_MAX: Final = 20


def due(call: Call, program: ProgramNotes) -> RunProgram | None:
    """Return the effect of a program that has something to do: to begin, or to take results."""
    return effect_of(call, program) if program.has_work else None


def effect_of(call: Call, program: ProgramNotes) -> RunProgram:
    """Return the effect that runs a program from where it is."""
    assert call.idempotency_key is not None, "a call that has begun has a key"
    arguments = call.input if call.arguments is None else call.arguments
    return RunProgram(
        call.call_id,
        call.tool_name,
        arguments if isinstance(arguments, dict) else {},
        idempotency_key=call.idempotency_key,
        step_index=call.step_index,
        started_at=program.started_at,
        calls=tuple(program.calls),
        results=tuple(program.results),
        taken=program.taken,
        interpreter=program.interpreter,
        snapshot=program.snapshot,
        printed=program.printed,
        variables=program.variables,
    )


def take_pause(state: LoopState, event: ProgramPaused, *, now: Moment, rules: Rules) -> list[Draft]:
    """Return the records of a program that waits for calls: its pause, and the calls that it has made."""
    call, program = state.call(event.call_id), state.note(event.call_id).program
    if call is None or program is None or program.end is not None or _is_stale(program, event.taken):
        return []
    if len(program.calls) + len(event.calls) > _calls_max(program, rules):
        return _end(state, call, _too_many(call, _calls_max(program, rules)), taken=event.taken, now=now)
    body = records.ProgramPaused(
        call_id=call.call_id,
        taken=event.taken,
        interpreter=event.interpreter or None,
        snapshot=event.snapshot,
        printed=event.printed[len(program.printed) :] or None,
        **state.place_of(call),
    )
    return [
        state.draft(body, now=now),
        *_end_timers(state, program, event.cancelled, now=now),
        *_request_calls(state, call, event.calls, recorded_count=len(program.calls), now=now),
    ]


def _end_timers(
    state: LoopState, program: ProgramNotes, numbers: tuple[int, ...], *, now: Moment
) -> list[Draft]:
    """Return the results of timers that a program does not wait for any more."""
    ids = (program.calls[number][0] for number in numbers if number < len(program.calls))
    calls = [call for call_id in ids if (call := state.call(call_id)) is not None]
    error = records.ActionError(code=CANCELLED_TIMER, message="The workflow does not wait for it any more.")
    return [
        subagents.fail_call(state, call, error, now=now)
        for call in calls
        if call.stage is CallStage.REQUESTED
    ]


def _is_stale(program: ProgramNotes, taken: int) -> bool:
    """Whether another run of the program has come as far."""
    return taken < program.taken or (program.has_paused and taken == program.taken)


def end_turn(state: LoopState, event: ProgramEnded, *, now: Moment, rules: Rules) -> list[Draft]:
    """Return the result of a program; while calls of it are open, the record that it has ended."""
    returned = event.returned
    call, program = state.call(returned.call_id), state.note(returned.call_id).program
    if call is None or program is None or program.end is not None:
        return []
    if len(program.calls) + len(event.calls) > _calls_max(program, rules):
        return _end(state, call, _too_many(call, _calls_max(program, rules)), taken=event.taken, now=now)
    requested = _request_calls(state, call, event.calls, recorded_count=len(program.calls), now=now)
    variables = event.variables
    end = _end(
        state, call, returned, taken=event.taken, now=now, is_open=bool(requested), variables=variables
    )
    return [*requested, *_end_timers(state, program, event.cancelled, now=now), *end]


def finish(state: LoopState, call: Call, program: ProgramNotes, *, now: Moment) -> list[Draft]:
    """Return the result of a program that ended before its last calls did; empty while one is open."""
    if program.end is None or _has_open_calls(state, call):
        return []
    return [_result(state, call, program.end, now=now)]


def describe_calls(state: LoopState, call: Call) -> str:
    """Return which calls of an open program have begun, as the model is told; empty if none has."""
    made = state.session.history.calls_of(call.call_id)
    begun = Counter(inner.tool_name for inner in made if inner.attempt and not state.is_unbegun(inner))
    names = ", ".join(f"{name} ({count})" for name, count in begun.most_common(_NAMES_MAX))
    return names and f"Calls of it that had begun: {names}. Their effects remain."


def _result(state: LoopState, call: Call, end: records.ProgramEnded, *, now: Moment) -> Draft:
    error = end.error
    if error is not None:
        lines = [error.message, describe_calls(state, call)]
        error = structs.replace(error, message="\n".join(filter(None, lines)))
    body = records.ActionResult(
        result=subagents.result_of(state, call, output=end.output, is_error=error is not None),
        status=end.status,
        error=error,
        content_ref=end.content_ref,
        **state.place_of(call),
    )
    return state.draft(body, now=now)


def pause_tool(state: LoopState, event: ToolWaits, *, now: Moment, rules: Rules) -> list[Draft]:
    """Return the records of a tool that waits: its pause, its waits as calls, its questions as requests."""
    call, program = state.call(event.call_id), state.note(event.call_id).program
    if call is None or call.stage is not CallStage.STARTED or (program is not None and program.has_paused):
        return []
    earlier_calls = [] if program is None else program.calls
    if len(earlier_calls) + len(event.waits) > rules.program_calls_max:
        error = records.ActionError(code=TOO_MANY_CALLS, message=_TOO_MANY_WAITS)
        return [subagents.fail_call(state, call, error, now=now)]
    calls = tuple(
        RequestedCall("", ASK_QUESTION, wait.arguments) if isinstance(wait, CallAsks) else wait
        for wait in event.waits
    )
    paused = records.ProgramPaused(call_id=call.call_id, taken=len(earlier_calls), **state.place_of(call))
    actions = _actions(state, call, calls, recorded_count=len(earlier_calls))
    requests: list[InputRequest] = []
    for action, wait in zip(actions, event.waits, strict=True):
        if isinstance(wait, CallAsks):
            question = Call(action.call_id, ASK_QUESTION, wait.arguments, call.turn_id, call.step_index)
            requests.append(people.question_request(state, question, asks=wait))
    drafts = [state.draft(paused, now=now), _request(state, call, actions, now=now)]
    return [*drafts, people.request_record(state, requests, now=now)] if requests else drafts


_TOO_MANY_WAITS: Final = "The tool asked, slept or waited for events too often in one call."
_WAITS: Final = (ASK_QUESTION, SLEEP, WAIT_FOR)
"""Tools under the names of which the waits of a tool are recorded."""


def has_waited(program: ProgramNotes) -> bool:
    """Whether all that a tool waits for has come."""
    return len(program.results) == len(program.calls)


def waits_of(state: LoopState, call: Call, program: ProgramNotes | None) -> tuple[WaitResult, ...]:
    """Return what a tool has waited for, with what came."""
    if program is None:
        return ()
    outputs = {inner.call_id: inner.output.value for inner in program.results}
    waits = [inner for inner in state.session.history.calls_of(call.call_id) if inner.tool_name in _WAITS]
    return tuple(WaitResult(inner.tool_name, inner.input, outputs[inner.call_id]) for inner in waits)


def _has_open_calls(state: LoopState, call: Call) -> bool:
    return any(inner.output is None for inner in state.session.history.calls_of(call.call_id))


def _request_calls(
    state: LoopState, call: Call, calls: tuple[RequestedCall, ...], *, recorded_count: int, now: Moment
) -> list[Draft]:
    """Return the record of calls; `recorded_count` is the number of those that were recorded before."""
    if not calls:
        return []
    return [_request(state, call, _actions(state, call, calls, recorded_count=recorded_count), now=now)]


def _actions(
    state: LoopState, call: Call, calls: tuple[RequestedCall, ...], *, recorded_count: int
) -> list[records.RuntimeActionRequest]:
    actions: list[records.RuntimeActionRequest] = []
    for index, requested in enumerate(calls, recorded_count):
        call_id = join_ids(call.call_id, str(index))
        while state.session.history.knows(call_id):
            # The model may have chosen this id for another call of the step.
            call_id = join_ids(call_id, "again")
        actions.append(action_of(requested, call_id))
    return actions


def _request(
    state: LoopState, call: Call, actions: list[records.RuntimeActionRequest], *, now: Moment
) -> Draft:
    body = records.ActionsRequested(
        actions=actions, parent_call_id=call.call_id, **state.place(call.step_index)
    )
    return state.draft(body, now=now)


def action_of(call: RequestedCall, call_id: str) -> records.RuntimeActionRequest:
    """Return a requested call as the action of `actions.requested`."""
    if call.subagent is None:
        return records.ToolCallAction(call_id=call_id, tool_name=call.tool_name, input=call.input)
    return records.SubagentCallAction(
        call_id=call_id, name=call.tool_name, subagent_name=call.subagent, input=call.input
    )


def _end(
    state: LoopState,
    call: Call,
    returned: CallReturned,
    *,
    taken: int,
    now: Moment,
    is_open: bool = False,
    variables: ProgramVariables | None = None,
) -> list[Draft]:
    error = records.ActionError(code=returned.code or "failed", message=returned.message or "It failed.")
    body = records.ProgramEnded(
        call_id=call.call_id,
        taken=taken,
        status=returned.status,
        output=returned.output,
        error=None if returned.status is ActionStatus.COMPLETED else error,
        content_ref=returned.content,
        interpreter=None if variables is None else variables.interpreter,
        variables=None if variables is None else variables.content,
        names=None if variables is None else [*variables.names],
        **state.place_of(call),
    )
    if is_open or variables is not None or _has_open_calls(state, call):
        return [state.draft(body, now=now)]
    return [_result(state, call, body, now=now)]


def _calls_max(program: ProgramNotes, rules: Rules) -> int:
    return rules.workflow_calls_max if program.is_workflow else rules.program_calls_max


def _too_many(call: Call, most: int) -> CallReturned:
    message = f"The program made over {most:,} calls. Make fewer in one program."
    return CallReturned(call.call_id, ActionStatus.FAILED, None, code=TOO_MANY_CALLS, message=message)
