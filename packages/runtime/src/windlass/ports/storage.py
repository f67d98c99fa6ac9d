"""Storage: the sessions, agents, messages and traces that products list and show.

It holds whole wire documents: fields that this version does not know come back as they were given. The
journal is the truth about runs; a server, a sidecar or an inspector keeps here what it shows.

Rules for every method:
- Reading and writing raise `Unavailable` if the database cannot be reached or is busy and nothing happened,
  `Ambiguous` if the connection was lost during a commit, `Corrupt` if stored data is damaged, and `Rejected`
  if an argument or a document breaks a limit.
- Every write may be repeated: the same document written twice is stored once.
- A list is a `Page`. Its order does not change when documents are added, so a reader that follows
  `next_cursor` sees each document that existed at the start exactly once. A cursor is valid only for the list
  and the filters that produced it; any other use is `Rejected`.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from windlass.limits import STORAGE_PAGE_ITEMS_MAX
from windlass_protocol import AgentSession, ChatAgent, ChatMessage, HarnessTrace, TraceEvent, TraceSpan

T = TypeVar("T")


class Page(list[T]):
    """One page of a list: a plain list with the cursor of the next page."""

    def __init__(self, items: Iterable[T], next_cursor: str | None) -> None:
        super().__init__(items)
        self.next_cursor = next_cursor
        """The argument for the next page; None at the end."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """Numbers of deleted documents."""

    sessions: int = 0
    messages: int = 0
    traces: int = 0
    spans: int = 0
    events: int = 0


class SessionStorage(Protocol):
    """Sessions by their id."""

    async def upsert_session(self, session: AgentSession) -> AgentSession:
        """Insert or replace a session; return the stored session."""
        ...

    async def get_session(self, session_id: str) -> AgentSession | None: ...

    async def list_sessions(
        self,
        *,
        user_id: str | None = None,
        chat_id: str | None = None,
        active_only: bool = False,
        limit: int = STORAGE_PAGE_ITEMS_MAX,
        cursor: str | None = None,
    ) -> Page[AgentSession]:
        """Return sessions, newest first, by `createdAt`."""
        ...

    async def search_sessions(
        self,
        text: str,
        *,
        user_id: str | None = None,
        limit: int = STORAGE_PAGE_ITEMS_MAX,
        cursor: str | None = None,
    ) -> Page[AgentSession]:
        """Return sessions that hold every word of `text`, newest first.

        A word is found anywhere in any text of the document, unknown fields and `stageData` included, and
        also inside a longer word. Case and character width are ignored; no character has a special meaning.
        """
        ...

    async def delete_session(self, session_id: str) -> Deleted:
        """Delete a session with its documents in one transaction.

        These are its traces with their spans and events, and the messages of its chat unless another session
        uses the chat. Traces of a session that was never stored are deleted as well.
        """
        ...

    def export_session(self, session_id: str) -> AsyncIterator[bytes]:
        """Yield one JSON document, in chunks, with a session and its documents.

        It has the fields `format`, `version`, `session`, `messages` and `traces`; each trace has `trace`,
        `spans` and `events`. All are in the order of writing, traces by `startedAt`. It is not one
        transaction: documents written during the export may be missing.

        Raises:
            Rejected: the session does not exist.
            Conflict: the session was deleted during the export; the yielded document is incomplete.
        """
        ...


class AgentStorage(Protocol):
    """Agents as chat clients list them."""

    async def upsert_agent(self, agent: ChatAgent) -> ChatAgent:
        """Insert or replace an agent; return the stored agent."""
        ...

    async def get_agent(self, agent_id: str) -> ChatAgent | None:
        """Return an agent, archived or not; None if it does not exist."""
        ...

    async def list_agents(
        self,
        *,
        include_archived: bool = False,
        limit: int = STORAGE_PAGE_ITEMS_MAX,
        cursor: str | None = None,
    ) -> Page[ChatAgent]:
        """Return agents by `sortOrder`, those without one last, then by `createdAt`."""
        ...


class MessageStorage(Protocol):
    """Messages of chats, in the order in which they were appended."""

    async def append_message(self, message: ChatMessage) -> ChatMessage:
        """Append a message to its chat; return the stored message.

        Raises:
            Rejected: the message names no chat.
            Conflict: the chat has another message with its id.
        """
        ...

    async def list_messages(
        self, chat_id: str, limit: int = STORAGE_PAGE_ITEMS_MAX, *, cursor: str | None = None
    ) -> Page[ChatMessage]:
        """Return the newest `limit` messages of a chat, oldest first. The cursor leads to older ones."""
        ...

    async def search_messages(
        self,
        text: str,
        *,
        chat_id: str | None = None,
        limit: int = STORAGE_PAGE_ITEMS_MAX,
        cursor: str | None = None,
    ) -> Page[ChatMessage]:
        """Return messages that hold every word of `text` in their `content`, newest first.

        Words match as in `search_sessions`.
        """
        ...


class TraceStorage(Protocol):
    """Traces of sessions, their spans and their events."""

    async def upsert_trace(self, trace: HarnessTrace) -> HarnessTrace:
        """Insert or replace a trace; return the stored trace."""
        ...

    async def get_trace(self, trace_id: str) -> HarnessTrace | None: ...

    async def list_traces(
        self, session_id: str, *, limit: int = STORAGE_PAGE_ITEMS_MAX, cursor: str | None = None
    ) -> Page[HarnessTrace]:
        """Return the traces of a session, the last started first."""
        ...

    async def append_spans(self, trace_id: str, spans: Sequence[TraceSpan]) -> None:
        """Append spans to a trace, all or none; a span replaces another with its id.

        So a span can be stored when it starts and again when it ends.

        Raises:
            Rejected: the trace does not exist.
        """
        ...

    async def list_spans(
        self, trace_id: str, *, limit: int = STORAGE_PAGE_ITEMS_MAX, cursor: str | None = None
    ) -> Page[TraceSpan]:
        """Return the spans of a trace in the order in which they were first appended."""
        ...

    async def append_events(self, trace_id: str, events: Sequence[TraceEvent]) -> None:
        """Append events to a trace, all or none.

        Raises:
            Rejected: the trace does not exist.
            Conflict: the trace has another event with the id of one of them.
        """
        ...

    async def list_events(
        self, trace_id: str, *, limit: int = STORAGE_PAGE_ITEMS_MAX, cursor: str | None = None
    ) -> Page[TraceEvent]:
        """Return the events of a trace in the order in which they were appended."""
        ...


class StorageAdapter(SessionStorage, AgentStorage, MessageStorage, TraceStorage, Protocol):
    """All storage that the Runtime Spec asks for."""

    async def aclose(self) -> None:
        """Close the database; every later call fails."""
        ...
