# Generated from spec/events.schema.json by `make gen`. Do not edit.
"""One fact in the journal, what a subscriber sees of it, and where a subscriber stands."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, Field, JsonValue, StringConstraints

from windlass_protocol._wire import Closed, JsonObject, Maybe, Open, Str, Tagged, Says
from windlass_protocol.generated.common import CausalIds, Count, Id, Positive, Sha256, Timestamp

EventType = Annotated[
    Annotated[
        Str,
        StringConstraints(min_length=3, max_length=128, pattern="^[a-z][a-z0-9_]*(?:\\.[a-z][a-z0-9_]*)+$"),
    ],
    Says("a dotted name; the first word is the family. Unknown ones pass through"),
]
"""A dotted name; the first word is the family. Unknown ones pass through."""

EVENT_DATA: Mapping[str, type[BaseModel]]
"""Ties each known event type to the shape of its data."""

class EventMeta(Open):
    """Facts about an event."""

    at: Timestamp
    """When it happened."""
    id: Maybe[Id] = None
    """Stable identifier of the event."""
    attempt: Maybe[Positive] = None
    """Attempt of the step, from 1."""
    delivery_ids: Maybe[tuple[Id, ...]] = None
    """Deliveries that led to it."""
    position: Maybe[Count] = None
    """Place in the whole store."""

class Event(Open):
    """What a subscriber sees: a record, or a live delta that is never stored."""

    type: EventType
    """What happened."""
    meta: EventMeta
    """Facts about the event."""
    data: JsonObject = Field(validate_default=True, default_factory=dict[str, JsonValue])
    """The facts, in the shape of the type."""
    session_id: Maybe[Id] = None
    """Session it belongs to."""
    seq: Maybe[Count] = None
    """Number of its record in the session; on a live delta, that of its step or of a later record it comes
    behind.
    """
    index: Maybe[Count] = None
    """On a live delta only: its place in the step, from 0."""
    run_id: Maybe[Id] = None
    """Run it belongs to."""
    agent_id: Maybe[Id] = None
    """Agent it belongs to."""

class Record(Open):
    """One fact in the journal."""

    session_id: Id
    """Session it belongs to."""
    seq: Positive
    """Number in the session, from 1, without gaps; assigned by the journal."""
    type: EventType
    """What happened."""
    at: Timestamp
    """When it happened."""
    data: JsonObject = Field(validate_default=True, default_factory=dict[str, JsonValue])
    """The facts, in the shape of the type."""
    position: Maybe[Positive] = None
    """Place in the whole store, increasing."""
    event_id: Maybe[Id] = None
    """Stable identifier of the event it is shown as."""
    run_id: Maybe[Id] = None
    """The run."""
    agent_id: Maybe[Id] = None
    """The agent."""
    turn_id: Maybe[Id] = None
    """The turn."""
    step_index: Maybe[Count] = None
    """Number of the step in its turn, from 0."""
    attempt: Maybe[Positive] = None
    """Attempt of the step, from 1."""
    epoch: Maybe[Count] = None
    """Ownership number of the writer."""
    causal_ids: Maybe[CausalIds] = None
    """The things that led to it."""

class AllCursor(Tagged, Closed):
    """A place in everything."""

    __constants__ = ("scope",)

    position: Count
    """Last position seen; 0 for the beginning."""
    scope: Literal["all"] = "all"
    """What the cursor runs over."""

class SessionCursor(Tagged, Closed):
    """A place in a session."""

    __constants__ = ("scope",)

    session_id: Id
    """The session."""
    seq: Count
    """Last record seen; 0 for the beginning."""
    scope: Literal["session"] = "session"
    """What the cursor runs over."""
    index: Maybe[Count] = None
    """Live deltas of that step already seen."""

class RunCursor(Tagged, Closed):
    """A place in a run."""

    __constants__ = ("scope",)

    run_id: Id
    """The run."""
    seq: Count
    """Last record of its session seen; 0 for the beginning."""
    scope: Literal["run"] = "run"
    """What the cursor runs over."""
    index: Maybe[Count] = None
    """Live deltas of that step already seen."""

class AgentCursor(Tagged, Closed):
    """A place in the runs of an agent."""

    __constants__ = ("scope",)

    agent_id: Id
    """The agent."""
    position: Count
    """Last position seen; 0 for the beginning."""
    scope: Literal["agent"] = "agent"
    """What the cursor runs over."""

class FilterCursor(Tagged, Closed):
    """A place in what a filter lets through."""

    __constants__ = ("scope",)

    fingerprint: Sha256
    """Digest of the filter's criteria."""
    position: Count
    """Last position seen; 0 for the beginning."""
    scope: Literal["filter"] = "filter"
    """What the cursor runs over."""

Cursor = Annotated[
    AllCursor | SessionCursor | RunCursor | AgentCursor | FilterCursor,
    Field(discriminator="scope"),
]
"""Where a subscriber stands. A cursor of one scope is no good in another."""
