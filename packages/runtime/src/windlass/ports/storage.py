"""Storage: the sessions, agents, messages and traces that products list and show.

It holds documents of the wire, whole: fields that this version does not know come back as they were given.
The journal is the truth about runs; this is where a server, a sidecar or an inspector keeps what it shows.

What holds for every method:
- Reading and writing raise `Unavailable` if the database cannot be reached or is busy and nothing happened,
  `Ambiguous` if the connection was lost while a write was being made durable, `Corrupt` if what is stored is
  damaged, and `Rejected` if an argument or a document breaks a limit.
- Every write may be repeated: the same document written twice is stored once.
- A list is a `Page`. Its order does not change when documents are added, so whoever follows `next_cursor`
  sees each document that was there from the beginning exactly once. A cursor belongs to the list and the
  filters that made it; with any other it is `Rejected`.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from windlass.limits import STORAGE_PAGE_ITEMS_MAX
from windlass_protocol import AgentSession, ChatAgent, ChatMessage, HarnessTrace, TraceEvent, TraceSpan

T = TypeVar("T")


class Page(list[T]):
    """A part of a list: a plain list that also knows where the next part is."""

    def __init__(self, items: Iterable[T], next_cursor: str | None) -> None:
        super().__init__(items)
        self.next_cursor = next_cursor
        """Give it to the same method for the next part; None at the end."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """How many documents are gone."""

    sessions: int = 0
    messages: int = 0
    traces: int = 0
    spans: int = 0
    events: int = 0


class SessionStorage(Protocol):
    """Sessions by their id."""

    async def upsert_session(self, session: AgentSession) -> AgentSession:
        """Store a session, in place of one with its id; return what is stored."""
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
    ) -> Page[AgentSession]:
        """Return sessions, the last made first, by `createdAt`."""
        ...

    async def search_sessions(
        self,
        text: str,
        *,
        user_id: str | None = None,
        limit: int = STORAGE_PAGE_ITEMS_MAX,
        cursor: str | None = None,
    ) -> Page[AgentSession]:
        """Return sessions that hold every word of `text`, the last made first.

        A word is found anywhere in any text of the document, unknown fields and `stageData` included, and
        also inside a longer word. Upper and lower case, and wide and narrow letters, are alike; no character
        is special.
        """
        ...

    async def delete_session(self, session_id: str) -> Deleted:
        """Delete a session with all that belongs to it, at once or not at all.

        That is its traces with their spans and events, and the messages of its chat unless another session
        uses the chat. Traces of a session that was never stored are deleted as well.
        """
        ...

    def export_session(self, session_id: str) -> AsyncIterator[bytes]:
        """Yield one JSON document, in pieces, of a session and all that belongs to it.

        It has the fields `format`, `version`, `session`, `messages` and `traces`, and each of the traces has
        `trace`, `spans` and `events`; all in the order of writing, traces by `startedAt`. It is read in small
        parts: what is written meanwhile may be in it or not.

        Raises:
            Rejected: there is no such session.
            Conflict: the session was deleted meanwhile; what was yielded is no whole document.
        """
        ...


class AgentStorage(Protocol):
    """Agents as chat clients list them."""

    async def upsert_agent(self, agent: ChatAgent) -> ChatAgent:
        """Store an agent, in place of one with its id; return what is stored."""
        ...

    async def get_agent(self, agent_id: str) -> ChatAgent | None:
        """Return an agent, also an archived one; None if there is none."""
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
        """Add a message to the end of its chat; return what is stored.

        Raises:
            Rejected: it names no chat.
            Conflict: the chat has another message with its id.
        """
        ...

    async def list_messages(
        self, chat_id: str, limit: int = STORAGE_PAGE_ITEMS_MAX, *, cursor: str | None = None
    ) -> Page[ChatMessage]:
        """Return the newest `limit` messages of a chat, oldest first.

        The cursor leads to older ones.
        """
        ...

    async def search_messages(
        self,
        text: str,
        *,
        chat_id: str | None = None,
        limit: int = STORAGE_PAGE_ITEMS_MAX,
        cursor: str | None = None,
    ) -> Page[ChatMessage]:
        """Return messages whose `content` holds every word of `text`, the newest first.

        Words are found as by `search_sessions`.
        """
        ...


class TraceStorage(Protocol):
    """Traces of sessions, their spans and their events."""

    async def upsert_trace(self, trace: HarnessTrace) -> HarnessTrace:
        """Store a trace, in place of one with its id; return what is stored."""
        ...

    async def get_trace(self, trace_id: str) -> HarnessTrace | None:
        """Return a trace; None if there is none."""
        ...

    async def list_traces(
        self, session_id: str, *, limit: int = STORAGE_PAGE_ITEMS_MAX, cursor: str | None = None
    ) -> Page[HarnessTrace]:
        """Return the traces of a session, the last begun first."""
        ...

    async def append_spans(self, trace_id: str, spans: Sequence[TraceSpan]) -> None:
        """Add spans to a trace, all or none; one replaces another with its id.

        So a span may be stored when it begins and again when it ends.

        Raises:
            Rejected: there is no such trace.
        """
        ...

    async def list_spans(
        self, trace_id: str, *, limit: int = STORAGE_PAGE_ITEMS_MAX, cursor: str | None = None
    ) -> Page[TraceSpan]:
        """Return the spans of a trace in the order in which they were first appended."""
        ...

    async def append_events(self, trace_id: str, events: Sequence[TraceEvent]) -> None:
        """Add events to a trace, all or none.

        Raises:
            Rejected: there is no such trace.
            Conflict: the trace has another event with the id of one of them.
        """
        ...

    async def list_events(
        self, trace_id: str, *, limit: int = STORAGE_PAGE_ITEMS_MAX, cursor: str | None = None
    ) -> Page[TraceEvent]:
        """Return the events of a trace in the order in which they were appended."""
        ...


class StorageAdapter(SessionStorage, AgentStorage, MessageStorage, TraceStorage, Protocol):
    """Everything that the Runtime Spec wants stored."""

    async def aclose(self) -> None:
        """Let go of the database; nothing works after it."""
        ...
