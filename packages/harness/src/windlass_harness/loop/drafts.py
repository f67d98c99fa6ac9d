"""Records before the journal has numbered them."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from windlass_protocol import JsonObject, PrivacyClass, Record
from windlass_protocol.unchecked import unchecked

ID_CHARS_MAX: Final = 512


@dataclass(frozen=True, slots=True)
class Post:
    """Something for the inbox of another session, kept with a record of this one.

    A key that is known there is the same item, whatever its body says.
    """

    session_id: str
    kind: str
    key: str
    body: JsonObject


@dataclass(frozen=True, slots=True)
class Draft:
    """A fact that is to become a record.

    `data` is in the form of the wire and is never changed after.
    """

    type: str
    at: str
    data: JsonObject
    run_id: str | None = None
    agent_id: str | None = None
    turn_id: str | None = None
    step_index: int | None = None
    attempt: int | None = None
    privacy: PrivacyClass | None = None
    posts: tuple[Post, ...] = ()
    """What other sessions are told with it; no part of the record."""


def number(draft: Draft, session_id: str, *, seq: int, epoch: int) -> Record:
    """Return the record that a draft becomes at a place in the journal.

    Its position is not known yet.

    The draft is trusted: the runtime made it, and nothing is checked again.
    """
    fields: dict[str, object] = {
        "session_id": session_id,
        "seq": seq,
        "type": draft.type,
        "at": draft.at,
        "data": draft.data,
        "position": None,
        "event_id": None,
        "run_id": draft.run_id,
        "agent_id": draft.agent_id,
        "turn_id": draft.turn_id,
        "step_index": draft.step_index,
        "attempt": draft.attempt,
        "epoch": epoch,
        "causal_ids": None,
        "privacy": draft.privacy,
    }
    return unchecked(Record, fields, given=_FIELDS)


def place(record: Record, position: int) -> Record:
    """Give a record its position in the store, before anybody else has seen it."""
    vars(record)["position"] = position
    return record


def within_limit(text: str, *, most: int = ID_CHARS_MAX) -> str:
    """Return an identifier made of others; its digest if it is longer than one may be."""
    if len(text) <= most:
        return text
    return f"sha256:{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def joined(*parts: str) -> str:
    """Return one identifier for several: no two lists of parts have the same."""
    return within_limit("/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts))


_FIELDS: Final = set(Record.model_fields)
