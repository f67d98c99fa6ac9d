"""What people want of a session: a run, a word to it, an answer, its end."""

from typing import assert_never

from windlass_harness.loop import people, unstarted
from windlass_harness.loop.drafts import Draft
from windlass_harness.loop.events import (
    AnswersGiven,
    CancelAsked,
    Moment,
    RequestDispatched,
    RunAsked,
    RunRefused,
    RunWithdrawn,
    Steered,
)
from windlass_harness.loop.state import LoopState
from windlass_harness.views.session import SessionStatus
from windlass_protocol import JsonObject

Wish = RunAsked | Steered | AnswersGiven | RequestDispatched | CancelAsked | RunWithdrawn | RunRefused


def granted(state: LoopState, wish: Wish, *, now: Moment) -> list[Draft]:
    """Return the records that a wish causes; none if it comes too late to matter."""
    match wish:
        case RunAsked():
            return _start(state, wish, now)
        case Steered():
            return _steered(state, wish, now)
        case AnswersGiven():
            return people.answered(state, wish, now=now)
        case RequestDispatched():
            return people.dispatched(state, wish, now=now)
        case CancelAsked():
            return _cancel(state, wish, now)
        case RunWithdrawn() | RunRefused():
            return unstarted.ended(state, wish, now=now)
        case _:
            assert_never(wish)


def _start(state: LoopState, event: RunAsked, now: Moment) -> list[Draft]:
    body = event.body
    run_id, agent_id = str(body["runId"]), str(body["agentId"])
    if run_id in state.session.run_ids:
        return []
    assert state.run is None, "a run waits until the one before it has ended"
    run = unstarted.facts_of(body)
    turn = state.session.turn
    sequence = 0 if turn is None else turn.sequence + 1
    given = body.get("turnId")
    turn_id = given if isinstance(given, str) else f"turn_{sequence}"
    place: JsonObject = {"sequence": sequence, "turnId": turn_id}

    def draft(kind: str, data: JsonObject) -> Draft:
        return Draft(kind, now.at, data, run_id=run_id, agent_id=agent_id, turn_id=turn_id)

    message: JsonObject = {"message": "", **_said(body), **place}
    drafts: list[Draft] = []
    if state.session.status is SessionStatus.NEW:
        opening = body.get("session")
        data: JsonObject = opening if isinstance(opening, dict) else {}
        drafts.append(Draft("session.started", now.at, data, agent_id=agent_id))
    drafts += [draft("run.started", run), draft("turn.started", place), draft("message.received", message)]
    if body.get("contract") is not None:
        drafts.append(draft("output.requested", {"contract": body["contract"], "runId": run_id}))
    return drafts


def _steered(state: LoopState, event: Steered, now: Moment) -> list[Draft]:
    """Whoever speaks instead of answering goes on without the answer."""
    if state.run is None or state.is_ending:
        return []
    source = event.body.get("source")
    sender: JsonObject = {"sender": source["id"]} if isinstance(source, dict) else {}
    said = {"message": "", **sender, **_said(event.body)}
    message: JsonObject = {**said, "delivery": "steer", **state.turn_place()}
    return [*people.passed_over(state, now), state.draft("message.received", message, now=now)]


def _said(body: JsonObject) -> JsonObject:
    return {name: body[name] for name in unstarted.SAID if body.get(name) is not None}


def _cancel(state: LoopState, event: CancelAsked, now: Moment) -> list[Draft]:
    run = state.run
    if run is None or run.run_id != event.run_id or run.is_cancel_requested:
        return []
    return [state.draft("run.cancel_requested", unstarted.cancel_facts(event.run_id, event), now=now)]
