"""The session between two steps: as bytes, and with the state of the loop inside."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from pydantic import ValidationError

from windlass.errors import Corrupt
from windlass.limits import SNAPSHOT_BYTES_MAX
from windlass.tools.context import STEPS_KEY
from windlass_harness.loop.people import match_option, refusal
from windlass_harness.loop.state import LoopState, dump_loop, load_loop
from windlass_harness.views.fold import Position
from windlass_harness.views.payloads import usage_model
from windlass_harness.views.session import (
    SANDBOX_KEY,
    SessionDraft,
    SessionState,
    SessionStatus,
    TurnState,
    sandbox_state,
)
from windlass_protocol import (
    CausalIds,
    CodecLimits,
    ErrorKind,
    HarnessSession,
    InputRequest,
    InputResponse,
    PendingActionBatch,
    PendingInputBatch,
    RetryClass,
    RuntimeActionRequest,
    StepPlace,
    StepState,
    decode,
    encode,
)
from windlass_protocol.limits import DEPTH_CEILING

EPOCH: Final = 1
"""Epoch of all records: an interrupted step leaves none, so there is no earlier owner."""
_LIMITS: Final = CodecLimits(message_bytes_max=SNAPSHOT_BYTES_MAX, depth_max=DEPTH_CEILING)


def write_session(session: HarnessSession) -> bytes:
    """Return a session as JSON.

    It holds messages, arguments of open calls and the continuation token: treat it as a secret.

    Raises:
        CodecError: it is larger than `SNAPSHOT_BYTES_MAX`.
    """
    return encode(session, _LIMITS)


def read_session(raw: bytes) -> HarnessSession:
    """Return the session that was written.

    Raises:
        CodecError: the bytes are not a session.
    """
    return decode(HarnessSession, raw, limits=_LIMITS)


def answer_to(request: InputRequest, text: str) -> InputResponse | None:
    """Return a text as the answer to a request; None if it does not answer it.

    For channels with text only: call it after the person has seen the request. A text names an option by id,
    label or number; a question may take any text, and an approval takes an id or a label alone.
    """
    response = match_option(request, InputResponse(request_id=request.request_id, text=text))
    open_request = request.model_copy(update={"expires_at": None, "responders": None})
    return response if refusal(open_request, response, now_ms=0) is None else None


def state_of(session: HarnessSession) -> StepState:
    """Return the state of the steps in a session, such as its open requests.

    Raises:
        Corrupt: the state was not written by a step of this release.
    """
    raw = (session.state or {}).get(STEPS_KEY)
    if raw is None:
        return StepState(is_turn_open=False, event_count=0)
    try:
        return StepState.model_validate(raw)
    except ValidationError:
        pass
    raise _unreadable(session)


def _unreadable(session: HarnessSession) -> Corrupt:
    return Corrupt(
        f"the session's state under {STEPS_KEY} is not what a step of this release wrote: load the session "
        "that a step returned, with the release that returned it",
        kind=ErrorKind.RECOVERY_REPAIR_NEEDED,
        retry=RetryClass.USER_ACTION_NEEDED,
        causal_ids=CausalIds(session_id=session.session_id),
    )


def open_loop(session: HarnessSession, state: StepState) -> LoopState:
    """Return the loop of a session.

    The history, the compaction, the output schema and the authored state are those of the session itself.

    Raises:
        Corrupt: a turn is open, and its state cannot be read.
    """
    loop = None if state.loop is None else load_loop(state.loop.encode())
    waits = state.is_turn_open or state.pending_input_batch or state.pending_action_batch
    if loop is None and waits:
        raise _unreadable(session)
    stored = _fresh(session, state) if loop is None else loop.session.freeze()
    loop = loop or LoopState()
    loop.epoch = EPOCH
    authored = {key: value for key, value in (session.state or {}).items() if key != STEPS_KEY}
    if session.sandbox_state is not None:
        authored[SANDBOX_KEY] = session.sandbox_state.model_dump(mode="json")
    loop.use(
        SessionDraft(
            replace(
                stored,
                compaction=session.compaction,
                output_schema=session.output_schema,
                authored=authored,
                history=replace(stored.history, messages=session.history),
            )
        )
    )
    return loop


def _fresh(session: HarnessSession, state: StepState) -> SessionState:
    """Return a session between two turns, with the next sequence number."""
    position = Position(session.session_id, state.event_count)
    if state.place is None:
        return SessionState(position=position)
    turn = TurnState(state.place.turn_id, state.place.sequence, step_index=state.place.step_index)
    return SessionState(position=position, status=SessionStatus.WAITING, turn=turn)


def close_loop(
    session: HarnessSession,
    loop: LoopState,
    *,
    event_count: int,
    event_grammar: tuple[StepPlace | None, bool] | None,
    actions: Iterable[RuntimeActionRequest],
) -> HarnessSession:
    """Return the session with the loop inside.

    `shown` is the place and whether the turn is open, in the grammar of the events.
    """
    frozen = loop.session.freeze()
    # Fields of the session itself are not stored twice, and run ids come from the turn.
    slim = replace(frozen, agent=None, history=replace(frozen.history, messages=()), authored={}, run_ids=())
    turn, run, requests = frozen.turn, loop.run, frozen.requests
    step_place, is_turn_open = event_grammar or (None, run is not None)
    if event_grammar is None and turn is not None:
        step_place = StepPlace(sequence=turn.sequence, step_index=turn.step_index or 0, turn_id=turn.turn_id)
    input_batch, delegated = None, tuple(actions)
    if requests and step_place is not None:
        input_batch = PendingInputBatch(event=step_place, requests=requests)
    usage = usage_model(loop.run_notes.known_usage)
    loop.use(SessionDraft(slim))
    state = StepState(
        place=step_place,
        is_turn_open=is_turn_open,
        event_count=event_count,
        pending_input_batch=input_batch,
        pending_action_batch=(
            PendingActionBatch(event=step_place, actions=delegated)
            if delegated and step_place is not None
            else None
        ),
        approved_tools=tuple(dict.fromkeys(grant.tool_name for grant in loop.grants.values())) or None,
        turn_usage=usage,
        loop=dump_loop(loop).decode(),
    )
    values = {**frozen.authored, STEPS_KEY: state.model_dump(mode="json")}
    values.pop(SANDBOX_KEY, None)
    changed = {"history": frozen.history.messages, "compaction": frozen.compaction, "state": values}
    changed |= {"output_schema": frozen.output_schema, "sandbox_state": sandbox_state(frozen.authored)}
    return session.model_copy(update=changed)
