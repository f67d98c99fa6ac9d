"""Event hooks of a session: its durable events, passed in the order of the journal."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final
from weakref import WeakValueDictionary

from windlass.engine.hooks import call_event_hooks
from windlass.engine.masking import log_failure
from windlass.engine.writer import SessionWriter
from windlass.hooks import EventHook
from windlass.limits import EVENT_HOOKS_CLOSE_S, EVENT_HOOKS_PENDING_MAX
from windlass_harness import views
from windlass_harness.record import Record
from windlass_harness.redact import Redactor
from windlass_harness.views.runs import RunState

_RUNS_MAX: Final = 64
"""Newest runs of a session that its later records are assigned to; a delivery may end after further runs."""
FindEventHooks = Callable[[str], Sequence[EventHook]]
"""Returns the event hooks of an agent of this process, by agent id."""


class EventHooks:
    """The event hooks of the agents that this process drives.

    Sessions without event hooks are not observed. The run of a session does not wait for its hooks, unless
    `EVENT_HOOKS_PENDING_MAX` events are pending.
    """

    def __init__(self, hooks_of: FindEventHooks, redactor: Redactor) -> None:
        self._hooks_of = hooks_of
        self._redactor = redactor
        self._sessions: WeakValueDictionary[str, SessionEvents] = WeakValueDictionary()
        """Sessions that are driven or have pending events: the next drive of one continues its order."""
        self._tasks: set[asyncio.Task[None]] = set()

    def observe(self, writer: SessionWriter, run: RunState) -> None:
        """Pass the events of a session from now on: this run is driven."""
        events = self._sessions.get(writer.session_id)
        if events is None:
            if not self._hooks_of(run.agent_id):
                return
            events = SessionEvents(self._hooks_of, self._redactor, tasks=self._tasks)
            self._sessions[writer.session_id] = events
        events.follow(run)
        writer.observe(events)

    async def aclose(self) -> None:
        """Wait until all pending events are passed, for `EVENT_HOOKS_CLOSE_S` at most."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=EVENT_HOOKS_CLOSE_S)
        left = sum(events.drop() for events in [*self._sessions.values()])
        if left:
            told = f"{left} events did not reach their event hooks before the runtime was closed"
            log_failure(told, None, redactor=self._redactor)
        if self._tasks:
            await asyncio.wait(self._tasks)


class SessionEvents:
    """Passes the events of one session to event hooks, one after the other; see `Observer`."""

    def __init__(
        self, hooks_of: FindEventHooks, redactor: Redactor, *, tasks: set[asyncio.Task[None]]
    ) -> None:
        self._hooks_of = hooks_of
        self._redactor = redactor
        self._tasks = tasks
        """Tasks that pass events, of all sessions."""
        self._agent_by_run: dict[str, str] = {}
        """Agents of the newest runs, by run id."""
        self._newest_agent_id = ""
        self._pending: deque[tuple[Record, Sequence[EventHook]]] = deque()
        self._room: asyncio.Event | None = None
        """Set when there is room; None while nothing waits for room."""
        self._task: asyncio.Task[None] | None = None

    def follow(self, run: RunState) -> None:
        """Note the agent of a run.

        A record without an agent id goes to the agent of its run; a record without a run id, to the agent of
        the newest run.
        """
        while len(self._agent_by_run) >= _RUNS_MAX:
            del self._agent_by_run[next(iter(self._agent_by_run))]
        self._agent_by_run[run.run_id] = self._newest_agent_id = run.agent_id

    async def make_room(self) -> None:
        """Return when fewer than `EVENT_HOOKS_PENDING_MAX` events are pending."""
        while self._task is not None and len(self._pending) >= EVENT_HOOKS_PENDING_MAX:
            self._room = self._room or asyncio.Event()
            await self._room.wait()

    def take(self, records: Sequence[Record]) -> None:
        """Pass durable records to the hooks that want them, after all that are pending."""
        for record in records:
            hooks = self._hooks_of(record.agent_id or self._agent_of(record.run_id))
            if any(hook.wants(record.type) for hook in hooks):
                self._pending.append((record, hooks))
        if self._pending and self._task is None:
            self._task = asyncio.create_task(self._pass(), name="windlass event hooks")
            self._tasks.add(self._task)
            self._task.add_done_callback(self._tasks.discard)

    def _agent_of(self, run_id: str | None) -> str:
        return self._newest_agent_id if run_id is None else self._agent_by_run.get(run_id, "")

    async def _pass(self) -> None:
        try:
            while self._pending:
                record, hooks = self._pending.popleft()
                self._give_room()
                try:
                    event = views.to_event(record)
                except ValueError as error:
                    told = f"{record.type}, record {record.seq} of {record.session_id}, is no valid event"
                    log_failure(told, error, redactor=self._redactor)
                    continue
                await call_event_hooks(hooks, event, redactor=self._redactor)
        finally:
            self._task = None
            self._give_room()

    def drop(self) -> int:
        """Drop the pending events and cancel the hook that runs; return the number of these events."""
        left = len(self._pending)
        self._pending.clear()
        if self._task is not None:
            self._task.cancel()
            left += 1
        return left

    def _give_room(self) -> None:
        if self._room is not None:
            self._room.set()
            self._room = None
