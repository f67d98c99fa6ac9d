"""The storage port: sessions, agents, messages and traces that a product keeps for itself.

This is the `StorageAdapter` of the Runtime Spec. Windlass does not use it: the journal is the only store that
a runtime, a server or a sidecar needs, and `AgentSession` is a view of it. A product that keeps such
documents in a database of its own uses one of the two adapters, or writes another.

Rules of every method:
- A document is stored whole. Fields that this version does not know come back unchanged.
- A write may be repeated: the same document written twice is stored once.
- A list is a `DocumentPage`. Its order does not change when documents are added, so following `next_cursor`
  yields each document that existed at the beginning exactly once. A cursor belongs to the list and the
  filters that returned it.
- Errors: `Rejected` if an argument or a document exceeds a limit, `Unavailable` if the database cannot be
  reached and nothing happened, `Ambiguous` if the connection was lost during a commit, `Corrupt` if a stored
  document is damaged.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from windlass.limits import STORAGE_PAGE_ITEMS_MAX
from windlass_protocol import AgentSession, ChatAgent, ChatMessage, HarnessTrace, TraceEvent, TraceSpan

T = TypeVar("T")


class DocumentPage(list[T]):
    """One page of a list."""

    def __init__(self, items: Iterable[T], next_cursor: str | None) -> None:
        super().__init__(items)
        self.next_cursor = next_cursor
        """Pass it to the same method for the next page; None on the last page."""


class StorageAdapter(Protocol):
    """Documents of the Runtime Spec in a store."""

    async def upsert_session(self, session: AgentSession) -> AgentSession:
        """Store a session, replacing the one with its id; return what is stored."""
        ...

    async def get_session(self, session_id: str) -> AgentSession | None:
        """Return a session; None if there is none."""
        ...

    async def list_sessions(
        self,
        *,
        user_id: str | None = None,
        chat_id: str | None = None,
        active_only: bool = False,
        limit: int = STORAGE_PAGE_ITEMS_MAX,
        cursor: str | None = None,
    ) -> DocumentPage[AgentSession]:
        """Return sessions by `createdAt`, newest first."""
        ...

    async def delete_session(self, session_id: str) -> bool:
        """Delete a session and what belongs to it, in one transaction; return whether it was stored.

        Its traces with their spans and events are deleted, and the messages of its chat unless another
        session uses that chat.
        """
        ...

    async def upsert_agent(self, agent: ChatAgent) -> ChatAgent:
        """Store an agent, replacing the one with its id; return what is stored."""
        ...

    async def get_agent(self, agent_id: str) -> ChatAgent | None:
        """Return an agent, archived or not; None if there is none."""
        ...

    async def list_agents(
        self,
        *,
        include_archived: bool = False,
        limit: int = STORAGE_PAGE_ITEMS_MAX,
        cursor: str | None = None,
    ) -> DocumentPage[ChatAgent]:
        """Return agents by `sortOrder` (agents without one last), then by `createdAt`."""
        ...

    async def append_message(self, message: ChatMessage) -> ChatMessage:
        """Append a message to its chat; return the stored message.

        Raises:
            Rejected: the message has no `chatId`.
            Conflict: the chat has another message with the same id.
        """
        ...

    async def list_messages(
        self, chat_id: str, limit: int = STORAGE_PAGE_ITEMS_MAX, *, cursor: str | None = None
    ) -> DocumentPage[ChatMessage]:
        """Return the newest `limit` messages of a chat, oldest first; the cursor leads to older ones."""
        ...

    async def upsert_trace(self, trace: HarnessTrace) -> HarnessTrace:
        """Store a trace, replacing the one with its id; return what is stored."""
        ...

    async def get_trace(self, trace_id: str) -> HarnessTrace | None:
        """Return a trace; None if there is none."""
        ...

    async def list_traces(
        self, session_id: str, *, limit: int = STORAGE_PAGE_ITEMS_MAX, cursor: str | None = None
    ) -> DocumentPage[HarnessTrace]:
        """Return the traces of a session by `startedAt`, newest first."""
        ...

    async def append_spans(self, trace_id: str, spans: Sequence[TraceSpan]) -> None:
        """Add spans to a trace, all or none; a span replaces the one with its id.

        A span can therefore be stored when it begins and again when it ends.

        Raises:
            Rejected: the trace is not stored.
        """
        ...

    async def list_spans(
        self, trace_id: str, *, limit: int = STORAGE_PAGE_ITEMS_MAX, cursor: str | None = None
    ) -> DocumentPage[TraceSpan]:
        """Return the spans of a trace in the order in which they were first appended."""
        ...

    async def append_events(self, trace_id: str, events: Sequence[TraceEvent]) -> None:
        """Append events to a trace, all or none.

        Raises:
            Rejected: the trace is not stored.
            Conflict: the trace has another event with the id of one of them.
        """
        ...

    async def list_events(
        self, trace_id: str, *, limit: int = STORAGE_PAGE_ITEMS_MAX, cursor: str | None = None
    ) -> DocumentPage[TraceEvent]:
        """Return the events of a trace in the order in which they were appended."""
        ...

    async def aclose(self) -> None:
        """Close the database; no method can be called afterwards."""
        ...
