"""Events of a step: records and live deltas, in the grammar of the configuration.

Each event is shown to `handle_event`, then to the event hooks.
"""

import logging
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final

from windlass.agent.hooks import EventHook
from windlass.engine.clocks import moment
from windlass.engine.hooks import call_event_hooks
from windlass.engine.tool_calls.approval import maybe_await
from windlass.feed.live import LiveStep
from windlass.ports.clock import Clock
from windlass.ports.feed import LiveAnswer
from windlass.steps.contract import Grammar, ToolLoopHarnessConfig
from windlass_harness.record import Record, to_event
from windlass_harness.views.eve import EVE_TYPES, EveGrammar
from windlass_protocol import (
    Event,
    EventMeta,
    HarnessSession,
    JsonObject,
    ModelMessage,
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
        event_hooks: Sequence[EventHook] = (),
    ) -> None:
        self._config = config
        self._session_id = session.session_id
        self._clock = clock
        self._event_hooks = event_hooks
        self.count = state.event_count
        """Number of events of the session so far."""
        batch = state.pending_input_batch
        self.older = (
            EveGrammar(
                state.place,
                is_turn_open=state.is_turn_open,
                keeps_index=state.pending_action_batch is not None,
                mode=config.mode,
                actions=actions,
                requests=() if batch is None else batch.requests,
            )
            if config.grammar is Grammar.TURN_PER_INPUT
            else None
        )
        self._live: LiveStep | None = None
        self._index = 0

    def live(self, step_start: Record) -> LiveAnswer:
        """Start the live answer of a step."""
        self._index = 0
        self._live = LiveStep(step_start, on_change=lambda _: None, on_close=lambda _: None)
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
            elif event.type in EVE_TYPES:
                await self._show_older(event.type, self.older.with_position(data), attempt=event.meta.attempt)

    async def show(self, record: Record, messages: Sequence[ModelMessage]) -> None:
        """Emit a record; `messages` is the history, passed with `step.started`."""
        await self.flush()
        if self.older is None:
            await self._show(to_event(record), messages if record.type == "step.started" else None)
            return
        for kind, data in self.older.take(record.type, record.data, attempt=record.attempt):
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
        if config.handle_event is None and not self._event_hooks:
            return
        name = sha256(canonical([self._session_id, config.attempt, self.count])).hexdigest()[:32]
        attempt = config.attempt - 1 + (event.meta.attempt or 1)
        meta = event.meta.model_copy(update={"id": f"evt_{name}", "attempt": attempt})
        identity = config.runtime_identity
        agent_id = event.agent_id if identity is None else identity.agent_id
        visible = event.model_copy(update={"meta": meta, "agent_id": agent_id})
        if config.handle_event is not None:
            try:
                await maybe_await(config.handle_event(visible, messages))
            except Exception as error:  # noqa: BLE001 - host code: an exception must not end the session
                _LOG.warning("handle_event failed with %s on %s", type(error).__name__, event.type)
        await call_event_hooks(self._event_hooks, visible, redactor=config.redactor)
