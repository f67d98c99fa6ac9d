"""`runtime.sessions`: the catalogue of sessions, and what is done with one of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import JsonValue

from windlass.catalog.agent_sessions import AgentSessions
from windlass.catalog.sessions import Sessions
from windlass.engine.driving.inbox import item_key
from windlass.engine.spending.spend_limits import SpendLimits
from windlass.ports.feed import EventStream
from windlass.ports.inbox import COMPACT, STATE
from windlass.refusals import bad_request, check_given, check_items
from windlass.runtime.handle import cursor_of
from windlass.runtime.runs import TERMINAL
from windlass.tools.context import SessionValues, ToolFailed, state_value
from windlass_harness.loop.authored import state_problem
from windlass_harness.loop.events import StateChange
from windlass_harness.views.family import ChildSession
from windlass_protocol import Cursor, InputRequest, InputResponse, JsonObject
from windlass_protocol.bodies import data_of

if TYPE_CHECKING:
    from windlass.runtime.core import Core


class RuntimeSessions(Sessions):
    """The sessions of a runtime; `runtime.sessions`."""

    def __init__(self, core: "Core") -> None:
        super().__init__(
            core.store,
            core.bus,
            content=core.content,
            machine=core.ports.machine,
            redactor=core.ports.scribe.redactor,
            sandboxes=tuple(core.ports.sandboxes.values()),
        )
        self._core = core

    @property
    def agent_sessions(self) -> AgentSessions:
        """The sessions as `AgentSession` documents: creates them without a run, updates and lists them."""
        core = self._core
        return AgentSessions(
            self,
            core.store,
            folds=core.folds,
            give_state=self._give_state,
            bus=core.bus,
            machine=core.ports.machine,
            redactor=core.ports.scribe.redactor,
        )

    @property
    def limits(self) -> SpendLimits:
        """The limits for people and teams, and what is left of them."""
        return self._core.limits

    def subscribe(self, session_id: str, cursor: Cursor | str | None = None) -> EventStream:
        """Subscribe to the events of a session, after a cursor."""
        return self._core.bus.subscribe_session(session_id, cursor_of(cursor))

    async def open_requests(self, session_id: str) -> tuple[InputRequest, ...]:
        """Return the open requests of a session, subagents included.

        A request with `is_answered` has an answer that waits for a process with the agent.

        Raises:
            Conflict: the session is unknown.
        """
        await self._core.runs.check_session_exists(session_id)
        return tuple((await self._core.runs.requests(session_id)).values())

    async def answer(
        self, session_id: str, responses: Sequence[InputResponse], *, key: str | None = None
    ) -> None:
        """Answer requests of a session; return once the answers are durable.

        Answers that were given with the same `key` before are accepted again.

        Raises:
            Conflict: the request is answered already, the session has no open request with this id, or the
                session is unknown.
            Denied: this responder may not answer.
            Rejected: an answer does not fit its request.
        """
        await self._core.answers.answer(session_id, responses, key=key)

    async def compact(self, session_id: str, *, key: str | None = None) -> None:
        """Compact the history of a session: now, or before the next model call of a run.

        With the same `key` it is one request.

        Raises:
            Conflict: the session is unknown.
        """
        await self._core.runs.check_session_exists(session_id)
        name = item_key(COMPACT, key or self._core.ports.machine.new_id())
        await self._core.store.post(session_id, kind=COMPACT, key=name, body={})
        await self._core.rouse(session_id)

    async def state(self, session_id: str) -> JsonObject:
        """Return a copy of the authored state of a session, see `ToolContext.state`.

        Raises:
            Conflict: the session is unknown.
        """
        await self._core.runs.check_session_exists(session_id)
        return dict(SessionValues((await self._core.folds.session(session_id)).authored))

    async def change_state(
        self, session_id: str, values: Mapping[str, JsonValue], *, remove: Iterable[str] = ()
    ) -> None:
        """Change the authored state of a session; return once the change is durable.

        The change is an item in the inbox of the session; calls that start after it see the new state. If the
        state has grown too large by then, the change is dropped.

        Raises:
            Rejected: a key or a value cannot be used, or the state would be too large.
            Conflict: the session is unknown.
        """
        check_given(values, Mapping, what="values", words="a mapping of keys to JSON")
        change = await self._change(values, tuple(check_items(remove, str, what="remove", words="keys")))
        await self._give_state(session_id, change)

    async def _change(self, values: Mapping[str, JsonValue], removed: tuple[str, ...]) -> StateChange:
        try:
            change = StateChange({key: state_value(key, value) for key, value in values.items()}, removed)
        except (TypeError, ToolFailed) as error:
            problem = str(error)
        else:
            return StateChange(await self._core.mask(change.values), removed)
        raise bad_request(problem)

    async def _give_state(self, session_id: str, change: StateChange, key: str | None = None) -> None:
        """Put a change of the authored state into the inbox of a session, and have it taken."""
        problem = state_problem(await self.state(session_id), change)
        if problem is not None:
            raise bad_request(problem)
        name = item_key(STATE, key or self._core.ports.machine.new_id())
        await self._core.store.post(session_id, kind=STATE, key=name, body=data_of(change.body))
        await self._core.rouse(session_id)

    async def descendants(self, session_id: str) -> tuple[ChildSession, ...]:
        """Return the sessions of all subagents below a session, callers first.

        Raises:
            Conflict: the session is unknown.
        """
        await self._core.runs.check_session_exists(session_id)
        children_below: list[ChildSession] = []
        waiting = [session_id]
        while waiting:
            state = await self._core.folds.session(waiting.pop(0))
            children = [await self._with_own_status(child) for child in [*state.family.children.values()]]
            children_below += children
            waiting += [child.session_id for child in children]
        return tuple(children_below)

    async def _with_own_status(self, child: ChildSession) -> ChildSession:
        """Return a subagent with its own status: the caller has no record of an end after its own."""
        row = (
            None
            if child.status is not None or child.run_id is None
            else await self._core.store.run(child.run_id)
        )
        return child if row is None or row.status not in TERMINAL else replace(child, status=row.status)
