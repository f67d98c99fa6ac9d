"""What a runtime tells of its runs: nothing here changes one."""

from windlass.catalog.sessions import Sessions
from windlass.decisions import decisions_of
from windlass.ports.content import ContentStore
from windlass.ports.feed import CompiledEventFilter, EventBus, EventStream
from windlass.ports.journal import Store
from windlass.refusals import missing_port
from windlass.runs import Runs
from windlass.runtime_ports import RuntimePorts
from windlass_harness.views.deliveries import DeliveryState
from windlass_protocol import Cursor, DecisionRun


class RuntimeViews:
    """The part of a runtime that only reads."""

    def __init__(self, ports: RuntimePorts) -> None:
        self.ports = self._ports = ports

    def _store(self) -> Store:
        if self._ports.store is None:
            raise missing_port("run journal")
        return self._ports.store

    def _bus(self) -> EventBus:
        if self._ports.bus is None:
            raise missing_port("agent event bus")
        return self._ports.bus

    def _content(self) -> ContentStore:
        if self._ports.content is None:
            raise missing_port("content resolver")
        return self._ports.content

    @property
    def _runs(self) -> Runs:
        return Runs(self._store(), self._bus(), hide=self._ports.scribe.redactor.text)

    @property
    def sessions(self) -> Sessions:
        """The catalogue: lists, reads, forks, exports and deletes sessions.

        Raises:
            Rejected: the runtime has no journal, event bus or content store.
        """
        return Sessions(
            self._store(),
            self._bus(),
            content=self._content(),
            machine=self._ports.machine,
            redactor=self._ports.scribe.redactor,
        )

    # runs

    async def deliveries(self, run_id: str) -> tuple[DeliveryState, ...]:
        """Return what became of the output of a run at each of its sinks.

        One that is unknown may or may not have happened; it is never made again by itself.

        Raises:
            Conflict: nobody ever started it.
        """
        return await self._runs.deliveries(run_id)

    async def decisions(self, run_id: str) -> DecisionRun:
        """Return what a run chose, among what, what came of it, and what went wrong.

        It is read from the journal, whether the run goes on or has ended, and whoever drove it.

        Raises:
            Conflict: nobody ever started it, or it waits for its turn.
        """
        row = await self._runs.row(run_id)
        return await decisions_of(row, self._store(), content=self._content())

    # watching

    def events(self) -> EventBus:
        """Return the event bus.

        Raises:
            Rejected: the runtime has none.
        """
        return self._bus()

    def subscribe_all(self, cursor: Cursor | None = None) -> EventStream:
        """Watch everything."""
        return self._bus().subscribe_all(cursor)

    def subscribe_session(self, session_id: str, cursor: Cursor | None = None) -> EventStream:
        """Watch a session."""
        return self._bus().subscribe_session(session_id, cursor)

    def subscribe_run(
        self, run_id: str, cursor: Cursor | None = None, *, until_terminal: bool = False
    ) -> EventStream:
        """Watch a run."""
        return self._bus().subscribe_run(run_id, cursor, until_terminal=until_terminal)

    def subscribe_agent(self, agent_id: str, cursor: Cursor | None = None) -> EventStream:
        """Watch all runs of an agent."""
        return self._bus().subscribe_agent(agent_id, cursor)

    def subscribe_events(
        self, event_filter: CompiledEventFilter, cursor: Cursor | None = None
    ) -> EventStream:
        """Watch the events that a compiled filter lets through."""
        return self._bus().subscribe_filtered(event_filter, cursor)
