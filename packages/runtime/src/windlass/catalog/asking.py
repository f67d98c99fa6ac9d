"""What the catalogue can be asked for, checked."""

from typing import Final, TypeVar

from windlass.definitions import kind_of
from windlass.ports.listing import SessionStatus
from windlass.refusals import bad_request
from windlass.setup_check import check_id
from windlass_harness.views.listing import words_in
from windlass_protocol import RunStatus
from windlass_protocol.codec_errors import shown

T = TypeVar("T", SessionStatus, RunStatus)

SEARCH_CHARS_MAX: Final = 256
STATUS_SHOWN_CHARS_MAX: Final = 40
"""What is quoted of a status that there is not."""


def member(kind: type[T], value: object) -> T:
    """Return a status."""
    try:
        return kind(value)
    except ValueError:
        pass
    found = repr(shown(value, STATUS_SHOWN_CHARS_MAX)) if isinstance(value, str) else kind_of(value)
    raise bad_request(f"status is one of {', '.join(one.value for one in kind)}, found {found}")


def name_of(value: object, what: str) -> str | None:
    """Return a name, if one is given."""
    return None if value is None else check_id(value, what)


def words_of(text: object) -> tuple[str, ...]:
    """Return the words that are searched for, if there are any."""
    if text is None:
        return ()
    if not isinstance(text, str) or len(text) > SEARCH_CHARS_MAX:
        raise bad_request(f"text is a text of at most {SEARCH_CHARS_MAX} characters")
    words = words_in(text)
    if not words:
        raise bad_request("text has no word to search for")
    return words


def number_of(value: object, what: str) -> int:
    """Return the number of a record."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        found = value if type(value) is int else kind_of(value)
        raise bad_request(f"{what} is the number of a record, found {found}")
    return value
