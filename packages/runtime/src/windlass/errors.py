"""Errors, by what the caller should do about them.

    AgentError
    ├── Rejected      fix the request
    ├── Denied        ask a person; do not retry
    ├── Conflict      read again, then decide
    ├── Unavailable   retry later, with the same key
    ├── Ambiguous     reconcile; never retry blindly
    └── Corrupt       stop; call a human

`kind` says which part failed and `retry` whether trying again can help. Codes
are stable, texts are not. A message never carries a payload.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Self, TypedDict, TypeVar, Unpack

from windlass.limits import CLOSE_NAMES_MAX, NAME_CHARS_MAX
from windlass_harness.retry import DELAY_MS_MAX
from windlass_protocol import ErrorCode, ErrorKind, RetryClass
from windlass_protocol.frozen import closest_name
from windlass_protocol.generated import common, errors
from windlass_protocol.limits import ERROR_MESSAGE_CHARS_MAX

if TYPE_CHECKING:
    from windlass_protocol import CausalIds, ErrorInfo, PolicyRef, SourceRef


class Reasons(TypedDict, total=False):
    """Optional fields of an error, as keyword arguments."""

    causal_ids: CausalIds | None
    policy_refs: Sequence[PolicyRef]
    policy_code: str | None
    """The code of the decision of a policy that refused."""
    source: SourceRef | None
    retry_after_ms: int | None
    """The wait that the provider or server asked for before another attempt; see `parse_retry_after_ms`.

    A retried model call waits at least that long, up to `RETRY_AFTER_MS_MAX`, one hour.
    """


_REASONS: Final = tuple(Reasons.__annotations__)


ErrorT = TypeVar("ErrorT", bound="AgentError")


def _without_keywords(error: type[ErrorT], message: str) -> ErrorT:
    """Return an error that gets its fields later: a copy, or one from another process."""
    return error.__new__(error, message)


class AgentError(Exception):
    """The base class of every error that Windlass raises; catch a subclass to act on it."""

    code: ClassVar[ErrorCode]

    def __init__(
        self,
        message: str,
        *,
        kind: ErrorKind,
        retry: RetryClass,
        **reasons: Unpack[Reasons],
    ) -> None:
        unknown = sorted(set(reasons) - set(_REASONS))
        if unknown:
            raise TypeError(
                f"unknown option of an error: {', '.join(unknown)}; it takes {', '.join(_REASONS)}"
            )
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.retry = retry
        self.causal_ids = reasons.get("causal_ids") or common.CausalIds()
        self.policy_refs = tuple(reasons.get("policy_refs", ()))
        self.policy_code = reasons.get("policy_code")
        self.source = reasons.get("source")
        after_ms = reasons.get("retry_after_ms")
        self.retry_after_ms = None if after_ms is None else min(max(after_ms, 0), DELAY_MS_MAX)

    def __reduce__(
        self,
    ) -> tuple[Callable[[type[Self], str], Self], tuple[type[Self], str], dict[str, object]]:
        # By default the class is called with the message alone, without its keywords.
        return _without_keywords, (type(self), self.message), self.__dict__

    def caused_by(self, ids: CausalIds) -> Self:
        """Return the error itself with `ids` added; ids it already has stay."""
        own_ids = self.causal_ids.model_dump()
        self.causal_ids = common.CausalIds.model_validate({**ids.model_dump(), **own_ids})
        return self

    def info(self) -> ErrorInfo:
        """Return the error as it crosses the wire, its message cut to fit."""
        return errors.ErrorInfo(
            code=self.code,
            kind=self.kind,
            retry=self.retry,
            message=self.message[:ERROR_MESSAGE_CHARS_MAX] or type(self).__name__,
            causal_ids=self.causal_ids if self.causal_ids.model_dump() else None,
            policy_refs=self.policy_refs or None,
            policy_code=self.policy_code,
            source=self.source,
            retry_after_ms=self.retry_after_ms,
        )


class Rejected(AgentError):
    """The request is wrong: fix it."""

    code = ErrorCode.REJECTED


class Denied(AgentError):
    """A policy or a person refused: ask a person, do not retry."""

    code = ErrorCode.DENIED


class Conflict(AgentError):
    """The state is not what the request assumed: read again, then decide."""

    code = ErrorCode.CONFLICT


class UnknownName(Conflict):
    """The store has no run, session or document with this name."""


class Unavailable(AgentError):
    """Nothing happened: retry later, with the same key."""

    code = ErrorCode.UNAVAILABLE


class Ambiguous(AgentError):
    """It may have happened: reconcile, never retry blindly."""

    code = ErrorCode.AMBIGUOUS


class Corrupt(AgentError):
    """Stored data is damaged: stop and call a human."""

    code = ErrorCode.CORRUPT


def is_for_us(error: BaseException) -> bool:
    """Whether an exception is a cancellation or an interrupt, which the caller must let through.

    Every other exception of host code, `SystemExit` included, is a failure of that code.
    """
    from asyncio import CancelledError  # noqa: PLC0415 - a recorder has no event loop

    return isinstance(error, CancelledError | KeyboardInterrupt | GeneratorExit)


def is_told_to_end() -> bool:
    """Whether this task was cancelled from outside, rather than the task it awaits."""
    from asyncio import current_task  # noqa: PLC0415 - a recorder has no event loop

    task = current_task()
    return task is not None and task.cancelling() > 0


CLASS_OF_KIND: dict[ErrorKind, type[AgentError]] = {
    ErrorKind.INVALID_PACKAGE: Rejected,
    ErrorKind.INVALID_STATE_TRANSITION: Conflict,
    ErrorKind.PROVIDER_FAILURE: Unavailable,
    ErrorKind.PROJECTION_FAILURE: Rejected,
    ErrorKind.TOOL_FAILURE: Unavailable,
    ErrorKind.APPROVAL_FAILURE: Denied,
    ErrorKind.POLICY_DENIAL: Denied,
    ErrorKind.JOURNAL_FAILURE: Unavailable,
    ErrorKind.TELEMETRY_FAILURE: Unavailable,
    ErrorKind.STREAM_RULE_FAILURE: Denied,
    ErrorKind.CHILD_LIFECYCLE_FAILURE: Ambiguous,
    ErrorKind.EXTENSION_FAILURE: Unavailable,
    ErrorKind.SUBAGENT_FAILURE: Unavailable,
    ErrorKind.ISOLATION_FAILURE: Denied,
    ErrorKind.STRUCTURED_OUTPUT_FAILURE: Rejected,
    ErrorKind.CANCELLATION: Conflict,
    ErrorKind.HOOK_FAILURE: Denied,
    ErrorKind.TIMEOUT: Ambiguous,
    ErrorKind.RECOVERY_REPAIR_NEEDED: Ambiguous,
    ErrorKind.HOST_CONFIGURATION_NEEDED: Rejected,
}
"""The class of an error by its kind, unless the code that raises it chooses another."""

_LAMBDA: Final = (lambda: None).__name__
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")


def wrong(message: str) -> Rejected:
    """Return the error for an invalid definition of an agent, a tool or a hook."""
    return Rejected(message, kind=ErrorKind.INVALID_PACKAGE, retry=RetryClass.NOT_RETRYABLE)


def option_problem(
    options: Mapping[str, object], declared: type, *, what: str, beside: Sequence[str] = ()
) -> str | None:
    """Return a message that names the keywords missing in the typed dictionary `declared`; None if all are
    known.

    `beside` are keywords of the function itself.
    """
    names = [*beside, *declared.__annotations__]
    unknown = sorted(options.keys() - set(names)) if options else ()
    if not unknown:
        return None
    hint = near_names(unknown, names)
    return f"{what}: unknown option {', '.join(unknown)}; it takes {', '.join(names)}{hint}"


def near_names(unknown: Iterable[str], names: Sequence[str]) -> str:
    """Return `; did you mean …?` with the names that are close to those asked for."""
    matches = [closest_name(name[:NAME_CHARS_MAX], names) for name in unknown]
    close = [name for name in dict.fromkeys(matches) if name is not None][:CLOSE_NAMES_MAX]
    return f"; did you mean {', '.join(close)}?" if close else ""


def check_name(name: object, what: str, *, option: str = "name") -> str:
    """Return the name of a tool or an agent if every provider and store can hold it.

    `option` is the keyword to name in the error for a lambda.
    """
    if not isinstance(name, str):
        raise wrong(f"the name of {what} must be a string, found {kind_of(name)}")
    if name == _LAMBDA:
        raise wrong(f'{what} that is a lambda has no name; write {option}="…"')
    if len(name) > NAME_CHARS_MAX:
        raise wrong(f"the name of {what} is too long: {len(name):,} characters, limit {NAME_CHARS_MAX}")
    if not _NAME.fullmatch(name):
        raise wrong(
            f"the name of {what} must be letters, digits, _ and -, not starting with -; found {name!r}"
        )
    return name


def check_text(text: object, what: str, *, chars_max: int) -> str:
    """Return a string that has at most `chars_max` characters, and that a record can hold."""
    if not isinstance(text, str):
        raise wrong(f"{what} must be a string, found {kind_of(text)}")
    if len(text) > chars_max:
        raise wrong(f"{what} is too long: {len(text):,} characters, limit {chars_max:,}")
    if (problem := unicode_problem(text)) is not None:
        raise wrong(f"{what} is not valid Unicode: {problem}")
    return text


def unicode_problem(text: str) -> str | None:
    """Return why no record can hold a text; None if a record can."""
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"character {error.start:,} is half of a surrogate pair"
    return None


def check_whole(number: object, what: str, *, most: int, least: int = 1) -> int:
    """Return a whole number from `least` to `most`."""
    if not isinstance(number, int) or isinstance(number, bool):
        raise wrong(f"{what} must be a whole number, found {kind_of(number)}")
    if not least <= number <= most:
        raise wrong(f"{what} must be {least} to {most:,}, found {number:,}")
    return number


def kind_of(value: object) -> str:
    """Return the type of a value for an error message, without the value."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def install_hint(extra: str) -> str:
    """Return how an extra of this package is installed, also if the package came from a checkout."""
    return f"pip install 'windlass-runtime[{extra}]'"
