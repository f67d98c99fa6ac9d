"""Records inside Windlass: a typed body, the JSON that is stored, and the wire model at the border.

`windlass_protocol.Record` is the wire model: it validates, and costs accordingly. Records are created and
read for every step, so inside there is this class with the same fields. `from_wire`, `to_wire` and `to_event`
convert.
"""

from dataclasses import dataclass, field, fields
from typing import Final

from msgspec import Raw, to_builtins

from windlass_protocol import CausalIds, Event, EventMeta, JsonObject
from windlass_protocol import Record as WireRecord
from windlass_protocol.bodies import Body, data_of, decode_body, decode_data, read_body
from windlass_protocol.frozen import frozen
from windlass_protocol.generated.records import BODIES
from windlass_protocol.unchecked import maker


@frozen
class Post:
    """An item for the inbox of another session, durable together with a record of this one.

    A key that is known there is the same item, whatever its body.
    """

    session_id: str
    kind: str
    key: str
    body: JsonObject


@dataclass(slots=True, init=False)
class Record:
    """One fact of a session.

    It is made of a body, of data in the form of the wire, or of stored JSON. The other forms follow when they
    are first read, and share no values: a change of one is none of the other. `data` has unknown fields, too.

    The loop makes a record without numbers. The writer of the session sets `session_id`, `seq` and `epoch`
    when it takes the record, and `position` when the record is durable. Nothing else is ever changed.
    """

    type: str
    at: str
    data: JsonObject
    """The form of the wire."""
    run_id: str | None
    agent_id: str | None
    turn_id: str | None
    step_index: int | None
    attempt: int | None
    posts: tuple[Post, ...]
    """Items for other sessions; not part of the record on the wire."""
    session_id: str
    seq: int
    """The number in the session, from 1; 0 before it has one."""
    epoch: int | None
    position: int | None
    event_id: str | None
    causal_ids: CausalIds | None
    body: Body | None = field(init=False, compare=False, repr=False)
    """The data as the class of its type; None for an unknown type."""
    stored: Raw | None = field(init=False, compare=False, repr=False)
    """The JSON of the data, if it was read from a store."""

    def __init__(
        self,
        type: str,  # noqa: A002 - the name on the wire
        at: str,
        data: JsonObject | Body | Raw,
        run_id: str | None = None,
        agent_id: str | None = None,
        turn_id: str | None = None,
        step_index: int | None = None,
        attempt: int | None = None,
        posts: tuple[Post, ...] = (),
        session_id: str = "",
        seq: int = 0,
        epoch: int | None = None,
        position: int | None = None,
        event_id: str | None = None,
        causal_ids: CausalIds | None = None,
    ) -> None:
        self.type = type
        self.at = at
        self.stored = None
        if isinstance(data, Body):
            self.body = data
        elif isinstance(data, Raw):
            self.stored = data
        else:
            self.data = data
        self.run_id = run_id
        self.agent_id = agent_id
        self.turn_id = turn_id
        self.step_index = step_index
        self.attempt = attempt
        self.posts = posts
        self.session_id = session_id
        self.seq = seq
        self.epoch = epoch
        self.position = position
        self.event_id = event_id
        self.causal_ids = causal_ids

    def __getattr__(self, name: str) -> object:
        """Make a form that is not there yet; called for slots without a value.

        Raises:
            BodyError: the data does not fit its type.
        """
        if name == "body":
            body_type = BODIES.get(self.type)
            if body_type is None:
                self.body = None
            elif self.stored is not None:
                self.body = decode_body(body_type, self.stored)
            else:
                self.body = read_body(body_type, self.data)
            return self.body
        if name == "data":
            if self.stored is None:
                body = self.body
                assert body is not None, "a record is made of data or of a body"
                self.data = data_of(body)
            else:
                self.data = decode_data(self.stored)
            return self.data
        raise AttributeError(name)


def body_of(event: Record | Event) -> Body | None:
    """Return the data of a record or an event as the class of its type; None for an unknown type.

    Raises:
        BodyError: the data does not fit its type.
    """
    if isinstance(event, Record):
        return event.body
    body_type = BODIES.get(event.type)
    return None if body_type is None else read_body(body_type, event.data)


def number(record: Record, session_id: str, *, seq: int, epoch: int, position: int | None = None) -> Record:
    """Give a record its place in a session, and in the store if that is known; return it."""
    record.session_id, record.seq, record.epoch, record.position = session_id, seq, epoch, position
    return record


_FIELDS: Final = tuple(spec.name for spec in fields(Record) if spec.init and spec.name != "posts")


def from_wire(value: object) -> Record:
    """Return a record from its JSON, by wire names.

    Raises:
        ValidationError: it is not a record.
    """
    wire = (
        value
        if isinstance(value, WireRecord)
        else WireRecord.model_validate(value, by_alias=True, by_name=False)
    )
    return Record(**{name: getattr(wire, name) for name in _FIELDS})


def to_wire(record: Record) -> JsonObject:
    """Return the JSON of a record, by wire names; fields without a value are left out."""
    wire = WireRecord.model_construct(
        _fields_set=set(_FIELDS), **{name: getattr(record, name) for name in _FIELDS}
    )
    return wire.model_dump(mode="json", by_alias=True)


_event: Final = maker(Event, *Event.model_fields)
_event_meta: Final = maker(EventMeta, *EventMeta.model_fields)


def to_event(record: Record) -> Event:
    """Return the feed event of a record, which shares no values with it."""
    return _event(
        type=record.type,
        data=to_builtins(record.data),
        meta=_event_meta(at=record.at, id=record.event_id, attempt=record.attempt, position=record.position),
        session_id=record.session_id,
        seq=record.seq,
        run_id=record.run_id,
        agent_id=record.agent_id,
    )


def to_delta(
    started: Record, event_type: str, *, data: JsonObject, position: tuple[int, int], at: str
) -> Event:
    """Return a live delta of the step that a record started.

    `position` is the sequence number of the record before it, and its index in the step.
    """
    seq, index = position
    return _event(
        type=event_type,
        data=data,
        meta=_event_meta(at=at, attempt=started.attempt),
        session_id=started.session_id,
        seq=seq,
        index=index,
        run_id=started.run_id,
        agent_id=started.agent_id,
    )
