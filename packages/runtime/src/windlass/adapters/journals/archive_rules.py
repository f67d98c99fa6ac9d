"""Rules about whole sessions that every store keeps alike."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from windlass.adapters.journals.codec import check_id, content_hash, encode_records
from windlass.adapters.journals.faults import rejected
from windlass.ports.store import SessionCopy, StoredAppend


def encoded(copy: SessionCopy) -> SessionCopy:
    """Return a session whose appends are all in the form in which they are kept.

    Raises:
        Rejected: its records are not numbered from 1 without gaps, one is too large, or a content is not what
            its hash says.
    """
    check_id("a session id", copy.session_id)
    _check_numbers(copy)
    for one in copy.contents:
        if content_hash(one.content) != one.ref.hash:
            raise rejected(f"content {one.ref.hash} is not what its hash says")
    appends = [
        one if one.body else StoredAppend(one.records, one.epoch, encode_records(one.records))
        for one in copy.appends
    ]
    return replace(copy, appends=tuple(appends))


def family_of(session_id: str, below: Callable[[str], Iterable[str]]) -> tuple[str, ...]:
    """Return a session and all that go with it, callers first, each once.

    Sessions that were brought in may say that they work for each other.
    """
    found = [session_id]
    seen = {session_id}
    for name in found:
        new = [one for one in dict.fromkeys(below(name)) if one not in seen]
        seen.update(new)
        found += new
    return tuple(found)


def _check_numbers(copy: SessionCopy) -> None:
    seq = 0
    for append in copy.appends:
        for record in append.records:
            seq += 1
            if record.seq != seq:
                raise rejected(f"record {seq:,} of session {copy.session_id} is missing")
