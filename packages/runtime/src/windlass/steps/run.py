"""One step while it runs: the session so far, and what is shown of it."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, cast

from pydantic import BaseModel, ValidationError

from windlass.engine.driver import moment
from windlass.engine.judge import settled
from windlass.engine.masking import masked
from windlass.errors import Corrupt
from windlass.steps.contract import Grammar
from windlass.steps.harness import Harness
from windlass.tools.context import STEPS_KEY
from windlass_protocol import (
    CausalIds,
    ErrorKind,
    Event,
    EventMeta,
    HarnessSession,
    JsonObject,
    JsonValue,
    ModelMessage,
    RetryClass,
    StepPlace,
    StepState,
    Usage,
    canonical,
)

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Shown:
    """An event that is yet to be shown."""

    type: str
    data: JsonObject


class StepRun:
    """One step while it runs."""

    def __init__(self, harness: Harness, session: HarnessSession) -> None:
        self.harness = harness
        self.session = session
        self.state = state_of(session)
        self.attempt = harness.config.attempt

    @property
    def place(self) -> StepPlace:
        """Where the step is; only a turn that has begun has a place."""
        assert self.state.place is not None, "a turn begins before its steps"
        return self.state.place

    @property
    def is_one_turn(self) -> bool:
        """Whether a turn goes on over a wait."""
        return self.harness.config.grammar is Grammar.ONE_TURN

    def change(self, **values: object) -> None:
        """Change the state of the steps; None takes a part away."""
        self.state = self.state.model_copy(update=values)

    def say(self, *messages: ModelMessage) -> None:
        """Add messages to the history."""
        history = (*self.session.history, *messages)
        self.session = self.session.model_copy(update={"history": history})

    def spend(self, usage: Mapping[str, JsonValue] | None) -> None:
        """Add what the model used to that of the turn."""
        if not usage:
            return
        so_far = {} if self.state.turn_usage is None else dump(self.state.turn_usage)
        total = {name: cast(int, so_far.get(name, 0)) + cast(int, count) for name, count in usage.items()}
        self.change(turn_usage=Usage.model_validate({**so_far, **total}))

    async def emit(
        self, event_type: str, data: JsonObject, *, messages: Sequence[ModelMessage] | None = None
    ) -> None:
        """Show an event, without secrets; whoever takes it cannot hurt the step."""
        count = self.state.event_count
        self.change(event_count=count + 1)
        config = self.harness.config
        if config.handle_event is None:
            return
        name = sha256(canonical([self.session.session_id, self.attempt, count])).hexdigest()[:32]
        identity = config.runtime_identity
        event = Event(
            type=event_type,
            data=cast(JsonObject, masked(config.redactor, data)),
            meta=EventMeta(at=moment(self.harness.clock).at, id=f"evt_{name}", attempt=self.attempt),
            session_id=self.session.session_id,
            agent_id=None if identity is None else identity.agent_id,
        )
        try:
            await settled(config.handle_event(event, messages))
        except Exception as error:  # noqa: BLE001 - the host's code: what it raises must not end the session
            _LOG.warning("handle_event failed with %s on %s", type(error).__name__, event_type)

    def saved(self) -> HarnessSession:
        """Return the session with the state of the steps in it."""
        state = {**(self.session.state or {}), STEPS_KEY: dump(self.state)}
        return self.session.model_copy(update={"state": state})


def state_of(session: HarnessSession) -> StepState:
    """Return what the steps keep in a session: what it waits for, for one.

    Raises:
        Corrupt: the state is not what the steps wrote.
    """
    raw = (session.state or {}).get(STEPS_KEY)
    if raw is None:
        return StepState(is_turn_open=False, event_count=0)
    try:
        return StepState.model_validate(raw)
    except ValidationError:
        pass
    raise Corrupt(
        f"the session's state under {STEPS_KEY} is not what a step wrote: load the session that one returned",
        kind=ErrorKind.RECOVERY_REPAIR_NEEDED,
        retry=RetryClass.USER_ACTION_NEEDED,
        causal_ids=CausalIds(session_id=session.session_id),
    )


def dump(model: BaseModel) -> JsonObject:
    """Return a wire type as plain JSON."""
    return cast(JsonObject, model.model_dump(mode="json"))


def at(place: StepPlace) -> JsonObject:
    """Return the place of a step as events have it."""
    return {"sequence": place.sequence, "stepIndex": place.step_index, "turnId": place.turn_id}


def at_turn(place: StepPlace) -> JsonObject:
    """Return the place of a turn as events have it."""
    return {"sequence": place.sequence, "turnId": place.turn_id}
