"""Events of a step: records and live deltas, shown to `handle_event` in the grammar of the configuration."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final, cast

from windlass.engine.approval import maybe_await
from windlass.engine.clocks import moment
from windlass.feed.live import LiveStep
from windlass.ports.clock import Clock
from windlass.ports.feed import LiveAnswer
from windlass.steps.contract import Grammar, ToolLoopHarnessConfig
from windlass_harness.record import Record
from windlass_harness.views.events import to_event
from windlass_protocol import (
    Event,
    EventMeta,
    HarnessSession,
    JsonObject,
    JsonValue,
    ModelMessage,
    RunMode,
    StepPlace,
    StepState,
    canonical,
)

_LOG: Final = logging.getLogger(__name__)


class Emitter:
    """Emits the events of one step, in place of the event bus of a runtime."""

    def __init__(
        self,
        config: ToolLoopHarnessConfig,
        session: HarnessSession,
        *,
        state: StepState,
        clock: Clock,
        actions: Mapping[str, JsonObject],
    ) -> None:
        self._config = config
        self._session_id = session.session_id
        self._clock = clock
        self.count = state.event_count
        """Number of events of the session so far."""
        is_older = config.grammar is Grammar.TURN_PER_INPUT
        self.older = OlderGrammar(state, actions, mode=config.mode) if is_older else None
        self._live: LiveStep | None = None
        self._index = 0

    def live(self, started: Record) -> LiveAnswer:
        """Start the live answer of a step."""
        self._index = 0
        self._live = LiveStep(started, on_change=lambda _: None, on_close=lambda _: None)
        return self._live

    async def flush(self) -> None:
        """Emit the deltas since the last flush."""
        pieces = None if self._live is None else self._live.pieces
        if pieces is None:
            return
        events = pieces.since(self._index, lambda: moment(self._clock).at)
        self._index = pieces.next_index
        for event in events:
            # Snapshots are for subscribers that join late; this handler misses no event.
            data = {name: value for name, value in event.data.items() if not name.endswith("SoFar")}
            if self.older is None:
                await self._show(event.model_copy(update={"data": data}))
            elif event.type in _OLDER:
                await self._show_older(event.type, self.older.placed(data), attempt=event.meta.attempt)

    async def show(self, record: Record, messages: Sequence[ModelMessage]) -> None:
        """Emit a record; `messages` is the history, passed with `step.started`."""
        await self.flush()
        if self.older is None:
            await self._show(to_event(record), messages if record.type == "step.started" else None)
            return
        for kind, data in self.older.take(record):
            await self._show_older(kind, data, attempt=record.attempt, messages=messages)

    async def end(self) -> None:
        """Emit the events that were held back, at the end of the step."""
        await self.flush()
        for kind, data in () if self.older is None else self.older.flush():
            await self._show_older(kind, data)

    async def _show_older(
        self,
        kind: str,
        data: JsonObject,
        *,
        attempt: int | None = None,
        messages: Sequence[ModelMessage] | None = None,
    ) -> None:
        meta = EventMeta(at=moment(self._clock).at, attempt=attempt)
        event = Event(type=kind, data=data, meta=meta, session_id=self._session_id)
        await self._show(event, messages if kind == "step.started" else None)

    async def _show(self, event: Event, messages: Sequence[ModelMessage] | None = None) -> None:
        self.count += 1
        config = self._config
        if config.handle_event is None:
            return
        name = sha256(canonical([self._session_id, config.attempt, self.count])).hexdigest()[:32]
        attempt = config.attempt - 1 + (event.meta.attempt or 1)
        meta = event.meta.model_copy(update={"id": f"evt_{name}", "attempt": attempt})
        identity = config.runtime_identity
        agent_id = event.agent_id if identity is None else identity.agent_id
        shown = event.model_copy(update={"meta": meta, "agent_id": agent_id})
        try:
            await maybe_await(config.handle_event(shown, messages))
        except Exception as error:  # noqa: BLE001 - host code: an exception must not end the session
            _LOG.warning("handle_event failed with %s on %s", type(error).__name__, event.type)


_OLDER: Final = frozenset(
    {"session.started", "session.waiting", "session.completed", "session.failed"}
    | {"turn.started", "turn.waiting", "turn.completed", "turn.failed", "message.received"}
    | {"step.started", "step.retrying", "step.completed", "step.failed", "result.completed"}
    | {"reasoning.appended", "reasoning.completed", "message.appended", "message.completed"}
    | {"actions.requested", "action.result", "input.requested", "subagent.called", "subagent.completed"}
    | {"compaction.requested", "compaction.completed", "compaction.failed"}
)
"""The types of events that older readers know."""
_OF_CALLS: Final = frozenset({"step.completed", "action.result", "input.requested"})
_Shown = tuple[str, JsonObject]


class OlderGrammar:
    """Records in the sequence of older tool loops.

    There, a wait for people ends the turn and the answers begin another. Calls that people are asked about
    are only in `input.requested`, and `step.completed` comes after the results of its calls.
    """

    def __init__(self, state: StepState, actions: Mapping[str, JsonObject], *, mode: RunMode) -> None:
        self.place = state.place
        """The place of the last emitted step; None before the first turn."""
        self.is_turn_open = state.is_turn_open
        self._actions = actions
        """Extra fields of an agent's action, by the name of the tool."""
        self._mode = mode
        self._keeps_index = state.pending_action_batch is not None
        """The next step keeps the index: it is the first of its turn, or follows calls of agents."""
        self._held: list[Record] = []
        self._late: list[Record] = []
        """Results of approved calls: they belong to the turn that the answers start."""

    def placed(self, data: JsonObject) -> JsonObject:
        """Return data with the turn and step of this grammar."""
        if self.place is None or "turnId" not in data:
            return data
        step: JsonObject = {"stepIndex": self.place.step_index} if "stepIndex" in data else {}
        return {**data, "sequence": self.place.sequence, "turnId": self.place.turn_id, **step}

    def take(self, record: Record) -> Iterator[_Shown]:
        """Return the events of a record: none if it is held back, or also those of earlier records."""
        kind, data = record.type, record.data
        is_again = kind == "step.started" and (record.attempt or 1) > 1
        if kind not in _OLDER or is_again or data.get("delivery") == "repair":
            return
        if kind == "actions.requested" or (self._held and kind in _OF_CALLS):
            self._held.append(record)
        elif kind == "action.result" and not self.is_turn_open and data["status"] != "rejected":
            self._late.append(record)
        elif kind in ("action.result", "session.started"):
            yield kind, self.placed(data)
        elif kind == "turn.waiting":
            yield from self.flush()
            if data["on"] == "input" and self.is_turn_open:
                yield from self._end_for_people()
        else:
            yield from self._within_turn(kind, data)

    def flush(self) -> Iterator[_Shown]:
        """Return the events that were held back."""
        held, self._held = self._held, []
        if held:
            yield from self._calls(held[0].data, held[1:])
        for record in self._late:
            yield record.type, self.placed(record.data)
        self._late = []

    def _within_turn(self, kind: str, data: JsonObject) -> Iterator[_Shown]:
        late, self._late = self._late, []
        yield from self.flush()
        if not self.is_turn_open and not kind.startswith("session."):
            self._open_turn()
            yield "turn.started", self._turn()
        if kind == "step.started" and self.place is not None:
            index = self.place.step_index + (not self._keeps_index)
            self.place, self._keeps_index = self.place.model_copy(update={"step_index": index}), False
        if kind != "turn.started":
            yield kind, self.placed(data)
        for record in late:
            yield record.type, self.placed(record.data)
        if kind in ("turn.completed", "turn.failed"):
            self.is_turn_open = False

    def _open_turn(self) -> None:
        sequence = 0 if self.place is None else self.place.sequence + 1
        self.place = StepPlace(sequence=sequence, step_index=0, turn_id=f"turn_{sequence}")
        self.is_turn_open = self._keeps_index = True

    def _turn(self) -> JsonObject:
        assert self.place is not None, "a turn has begun"
        return {"sequence": self.place.sequence, "turnId": self.place.turn_id}

    def _end_for_people(self) -> Iterator[_Shown]:
        self.is_turn_open = False
        if self._mode is not RunMode.TASK:
            yield "turn.completed", self._turn()
            yield "session.waiting", {"wait": "next-user-message"}

    def _calls(self, requested: JsonObject, records: Sequence[Record]) -> Iterator[_Shown]:
        """Return the calls of a step, their results in the order of the calls, and the requests to people."""
        actions = cast(list[JsonObject], requested["actions"])
        asks = [one for record in records if record.type == "input.requested" for one in _requests(record)]
        asked = [cast(JsonObject, request["action"])["callId"] for request in asks]
        shown: list[JsonValue] = [self._action(one) for one in actions if one["callId"] not in asked]
        if shown:
            yield "actions.requested", self.placed({**requested, "actions": shown})
        order = [action["callId"] for action in actions]
        results = [record.data for record in records if record.type == "action.result"]
        for data in sorted(results, key=lambda data: order.index(cast(JsonObject, data["result"])["callId"])):
            yield "action.result", self.placed(data)
        for record in records:
            if record.type == "step.completed":
                yield record.type, self.placed(record.data)
        if asks:
            first = next(record.data for record in records if record.type == "input.requested")
            yield "input.requested", self.placed({**first, "requests": [*asks]})

    def _action(self, action: JsonObject) -> JsonObject:
        return {**action, **self._actions.get(str(action.get("name")), {})}


def _requests(record: Record) -> list[JsonObject]:
    return cast(list[JsonObject], record.data["requests"])
