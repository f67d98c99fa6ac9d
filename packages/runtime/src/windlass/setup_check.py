"""Checks of values that a host gives to a runtime; a refusal says what to write instead."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar, cast

from pydantic import JsonValue, ValidationError

from windlass.definitions import kind_of, option_problem
from windlass.limits import CONTENT_BYTES_MAX, WAIT_MS_MAX
from windlass.refusals import bad_request, bad_setup, invalid_package
from windlass_harness.loop.drafts import ID_CHARS_MAX
from windlass_harness.views.listing import TURNING
from windlass_protocol import CodecError, CodecLimits, RunRequest, canonical
from windlass_protocol.codec_issues import invalid

T = TypeVar("T")
REQUEST_LEVELS_MAX: Final = 56
"""Objects and lists inside one another; an event puts some more around them."""
_FREE_JSON: Final = CodecLimits(message_bytes_max=CONTENT_BYTES_MAX, depth_max=REQUEST_LEVELS_MAX)
_SPOKEN: Final = {"input": "message"}
"""What callers know under another name than the wire."""
_WRITE: Final[Mapping[str, str]] = {
    "metadata": "a dictionary of JSON",
    "budget": "a BudgetLimit, such as BudgetLimit(max_steps=20)",
    "capabilities": "a SessionCapabilities of windlass_protocol",
    "source": "a SourceRef of windlass_protocol",
    "context": "a list of texts",
    "message": "a text, or a list of TextPart, ImagePart and FilePart of windlass_protocol",
}
"""What fits, by the name of what does not."""
_ID: Final = re.compile(rf"[^\x00-\x1f\x7f\ud800-\udfff{TURNING}]{{1,{ID_CHARS_MAX}}}")


def check_options(
    options: Mapping[str, object], known: type, *, what: str, beside: Sequence[str] = ()
) -> None:
    """Refuse a keyword that is none of a typed dictionary, nor `beside` it."""
    problem = option_problem(options, known, what=what, beside=beside)
    if problem is not None:
        raise bad_setup(problem)


def check_id(value: object, what: str) -> str:
    """Return a name that the wire can hold."""
    if not isinstance(value, str):
        raise bad_request(f"{what} is a text, found {kind_of(value)}")
    if not _ID.fullmatch(value):
        raise bad_request(
            f"{what} must be 1 to {ID_CHARS_MAX} characters, none of them a control character or a mark that "
            f"turns the direction of text; found {len(value):,}"
        )
    return value


def check_given(value: object, kind: type[T], *, what: str, words: str) -> T:
    """Return a value of a request that is of a kind; `words` say what to write."""
    if not isinstance(value, kind):
        raise bad_request(f"{what} is {words}, found {kind_of(value)}")
    return value


def check_seconds(value: object, what: str) -> float | None:
    """Return a number of seconds, or None."""
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        raise bad_request(f"{what} is a number of seconds or None, found {kind_of(value)}")
    return value


def misfit(error: ValidationError, what: str, *, value: Mapping[str, object]) -> str:
    """Say where a value does not fit its type; nothing of the value is quoted.

    What may be of several types is told of by the innermost place, where it came closest to one.
    """
    issues = invalid(error, cast(JsonValue, value)).issues
    first = max(issues, key=lambda issue: issue.path.count("/"))
    names = [str(part) for part in error.errors(include_url=False, include_input=False)[0]["loc"][:1]]
    steps = first.path.split("/")[1:3] or names or ["the value"]
    # The keys of what callers make up themselves may hold anything.
    steps[0] = _SPOKEN.get(steps[0], steps[0])
    place = ".".join(steps if steps[-1].isdigit() else steps[:1])
    remedy = f"; write {_WRITE[steps[0]]}" if steps[0] in _WRITE else ""
    return f"{what}: {place} cannot be used: {first.message}{remedy}"


def check_items(value: Iterable[T], kind: type, *, what: str, words: str) -> tuple[T, ...]:
    """Return the items of a list, all of a kind; one of them alone is no list."""
    if isinstance(value, str | bytes | Mapping | type) or not _is_iterable(value):
        raise bad_setup(f"{what} takes a list of {words}, found {kind_of(cast(object, value))}")
    items = tuple(value)
    for at, item in enumerate(items):
        if not isinstance(item, kind):
            raise bad_setup(f"{what} are {words}; number {at} is {kind_of(item)}")
    return items


def _is_iterable(value: object) -> bool:
    return isinstance(value, Iterable)


def check_flag(value: object, what: str) -> bool:
    """Return True or False, and nothing that only counts as one."""
    if not isinstance(value, bool):
        raise bad_setup(f"{what} is True or False, found {kind_of(value)}")
    return value


def check_ms(value: object, what: str) -> int:
    """Return a whole number of milliseconds."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise bad_setup(f"{what} is a whole number of milliseconds, found {kind_of(value)}")
    if value < 1:
        raise bad_setup(f"{what} must be 1 or more, found {value:,}")
    if value > WAIT_MS_MAX:
        raise bad_setup(f"{what} must be at most {WAIT_MS_MAX:,}, found {value:,}")
    return value


def check_part(value: T, kind: type, *, what: str, words: str) -> T:
    """Return a part of a runtime that is of a kind; `words` say what to write."""
    if not isinstance(value, kind):
        raise bad_setup(f"{what} is {words}, found {kind_of(value)}")
    return value


def check_port(value: T, what: str, *, has: Sequence[str], words: str) -> T:
    """Return an object that has the methods of a port; `words` say what to write."""
    missing = [name for name in has if not callable(getattr(value, name, None))]
    if isinstance(value, type) or missing:
        lacks = f", which has no {missing[0]}()" if missing else ""
        raise bad_setup(f"{what} is {words}, found {kind_of(value)}{lacks}")
    return value


def check_callable(value: T, what: str, *, words: str) -> T:
    """Return something that can be called; `words` say what it is called with."""
    if not callable(value) or isinstance(value, type):
        raise bad_setup(f"{what} is {words}, found {kind_of(value)}")
    return value


def check_name(value: object, what: str) -> str:
    """Return the name of a package, a route, a tool or a sink."""
    if not value:
        raise invalid_package(f"missing required field: {what}")
    if not isinstance(value, str):
        raise invalid_package(f"{what} is a text, found {kind_of(value)}")
    return value


def check_request(request: object) -> None:
    """Refuse what is no request for a run."""
    words = "a RunRequest; start() takes an agent and a message"
    if not check_given(request, RunRequest, what="a request", words=words).input:
        raise bad_request("the message is empty: say what the run is for")


def check_json(request: RunRequest) -> None:
    """Refuse what a record could hold and an event could not."""
    free = {name for name in ("metadata", "input") if not isinstance(getattr(request, name), str | None)}
    for name, value in request.model_dump(mode="json", by_alias=True, include=free).items() if free else ():
        problem = ""
        try:
            canonical(value, _FREE_JSON)
        except CodecError as error:
            problem = error.message
        if problem:
            raise bad_request(f"{name} cannot be used: {problem}", request.run_id)
