"""ToolContext and the session state that a tool reads and writes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import KW_ONLY, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final, Generic, TypeVar, cast, overload

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from windlass.errors import kind_of
from windlass.limits import (
    FAILED_CHARS_MAX,
    LOG_LINE_CHARS_MAX,
    LOG_LINES_MAX,
    OPTION_CHARS_MAX,
    OPTIONS_MAX,
    PROGRESS_BYTES_MAX,
    PROGRESS_REPORTS_MAX,
    QUESTION_CHARS_MAX,
    STATE_KEY_CHARS_MAX,
    STATE_VALUE_BYTES_MAX,
)
from windlass.ports.interpreter import CallBody
from windlass.ports.sandbox import SandboxAccess
from windlass.tools.deps import ContextDepsT
from windlass.tools.results import result_value
from windlass_harness.loop.events import StateChange, WaitResult
from windlass_harness.loop.notes import ASK_QUESTION, SLEEP, WAIT_FOR
from windlass_harness.loop.rules import RequestedCall
from windlass_protocol import CodecError, CodecErrorCode, CodecLimits, JsonObject, canonical
from windlass_protocol.codec_errors import printable
from windlass_protocol.frozen import sealed
from windlass_protocol.generated import common, policy
from windlass_protocol.limits import FREE_LEVELS_MAX, ID_CHARS_MAX

EventT = TypeVar("EventT")


class ToolFailed(Exception):
    """Raised by a tool to tell the model, in its own words, what went wrong.

    With `retryable` the runtime calls the tool again before the model hears of it, up to its `retries`.
    """

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message[:FAILED_CHARS_MAX])
        self.message = message[:FAILED_CHARS_MAX]
        self.is_retryable = retryable


class Unanswered(ToolFailed):
    """Raised by `ToolContext.ask`: the question is closed and has no answer.

    A new message of the user passed it over, or it expired.
    """


class Suspended(BaseException):
    """Raised by `ToolContext.ask`, `sleep` and `wait_for` to end the tool until then; let it through."""


RESERVED: Final = "windlass."
"""Prefix of keys that only built-in tools set."""
STEPS_KEY: Final = f"{RESERVED}steps"
"""Where `windlass.steps` keeps what it needs; tools neither see it nor set it."""
_LIMITS: Final = CodecLimits(message_bytes_max=STATE_VALUE_BYTES_MAX, depth_max=FREE_LEVELS_MAX)
_KEY_SHOWN_CHARS: Final = 64


class SessionValues(Mapping[str, JsonValue]):
    """The state of a session at one moment, to be read; every value is a copy."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, JsonValue] | None = None) -> None:
        # The values themselves are never changed, so a copy of the mapping is enough.
        self._values: JsonObject = {} if values is None else dict(values)
        self._values.pop(STEPS_KEY, None)

    def __getitem__(self, key: str) -> JsonValue:
        return copy_json(self._values[key])

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._values))})"


class ToolState(SessionValues, MutableMapping[str, JsonValue]):
    """The state of a session while a call runs: JSON values by key.

    A call sees the state as it was at its start, and its own changes. They are recorded together with the
    result; those of a call that fails, or is cut off, are dropped. Reads return copies: to change a
    value, set it again.
    """

    __slots__ = ("_removed", "_set")

    def __init__(self, values: Mapping[str, JsonValue] | None = None) -> None:
        super().__init__(values)
        self._set: JsonObject = {}
        self._removed: dict[str, None] = {}

    def __setitem__(self, key: str, value: JsonValue) -> None:
        self._values[key] = self._set[key] = state_value(key, value)

    def keep_own(self, key: str, value: JsonValue) -> None:
        """Set a value of a built-in tool; its key begins with `windlass.`."""
        self._values[key] = self._set[key] = _stored_value(key, value)

    def __delitem__(self, key: str) -> None:
        del self._values[key]
        self._set.pop(key, None)
        self._removed[key] = None

    @property
    def change(self) -> "StateChange | None":
        """The changes of this call; None without any."""
        if not self._set and not self._removed:
            return None

        return StateChange(dict(self._set), tuple(self._removed))


def state_value(key: str, value: JsonValue) -> JsonValue:
    """Return a copy of a JSON value that the state can hold.

    Raises:
        TypeError: the key is not a string within the length limit, or the value is not JSON.
        ToolFailed: the value is too large.
    """
    _check_key(key)
    if key.startswith(RESERVED):
        raise TypeError(f"keys that begin with {RESERVED} are reserved for built-in tools; choose another")
    return _stored_value(key, value)


def _stored_value(key: str, value: JsonValue) -> JsonValue:
    name = printable(key, _KEY_SHOWN_CHARS)
    try:
        return cast(list[JsonValue], from_json(canonical([key, value], _LIMITS)))[1]
    except CodecError as error:
        if error.code is CodecErrorCode.TOO_LARGE:
            raise ToolFailed(f"{name} is too large for the state of a session: {error.message}") from None
        problem = _problem_text(error)
    raise TypeError(
        f"{name} cannot be stored in the state of a session: {problem}; use strings, numbers, booleans, "
        "None, and lists and dictionaries of these"
    )


def _problem_text(error: CodecError) -> str:
    """Return the problem and its place inside the value."""
    whole = f", at {error.path}"
    inside = (error.path or "").removeprefix("/1")
    return error.message.removesuffix(whole) + (f", at {inside}" if inside else "")


def _check_key(key: object) -> None:
    if not isinstance(key, str) or not 1 <= len(key) <= STATE_KEY_CHARS_MAX:
        actual = f"{len(key):,} characters" if isinstance(key, str) else kind_of(key)
        raise TypeError(
            f"a key of the state must be a string of 1 to {STATE_KEY_CHARS_MAX} characters, found {actual}"
        )


def copy_of(values: JsonObject | None) -> JsonObject:
    """Return a copy of JSON values; empty for None."""
    return {} if values is None else {key: copy_json(value) for key, value in values.items()}


def copy_json(value: JsonValue) -> JsonValue:
    """Return a copy of a JSON value."""
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    return [copy_json(item) for item in value] if isinstance(value, list) else value


@sealed
class CompactionContext:
    """The argument of `on_compaction`, before the history of a session is compacted."""

    session_id: str
    run_id: str
    """The newest run of the session; it may have ended."""
    _: KW_ONLY
    agent_id: str
    state: SessionValues = field(default_factory=SessionValues, repr=False, compare=False)
    """The state of the session, read-only."""


@sealed
class ToolQuestion:
    """A question of a tool to a person."""

    prompt: str
    options: tuple[str, ...]
    responders: tuple[str, ...] | None

    @property
    def arguments(self) -> JsonObject:
        """The question as the arguments of an `ask_question` call."""
        options: list[JsonValue] = [{"id": option, "label": option} for option in self.options]
        return {"prompt": self.prompt, **({"options": options} if options else {})}


class CallWaits:
    """What one call waits for: answers of people, times and events.

    `waited` has what earlier attempts waited for and what came, in order. `mask` makes a text what the record
    holds. `refusal` says why no person can be asked. `now` is the clock; without one the call is of no run.
    """

    def __init__(
        self,
        waited: Sequence[WaitResult] = (),
        *,
        now: Callable[[], datetime] | None = None,
        mask: Callable[[str], str] = str,
        refusal: str | None = None,
    ) -> None:
        self._waited = waited
        self._now = now
        self._mask = mask
        self._refusal = refusal
        self._count = 0
        self.new: list[ToolQuestion | RequestedCall] = []
        self.problem: str | None = None
        """Why the call cannot go on: it waits for something else than an earlier attempt did."""

    def ask(self, question: ToolQuestion) -> str:
        """Return the recorded answer.

        Raises:
            ToolFailed: no person can be asked.
            Unanswered: the question was closed without an answer.
            Suspended: there is no answer yet.
        """
        if self._refusal is not None:
            raise ToolFailed(self._refusal)
        originals = {self._mask(option): option for option in question.options}
        masked = ToolQuestion(self._mask(question.prompt), tuple(originals), question.responders)
        answer = self._take(ASK_QUESTION, masked.arguments, masked)
        reply = answer if isinstance(answer, dict) else {}
        if reply.get("status") != "answered":
            raise Unanswered(f"The question was not answered ({reply.get('status')}).")
        picked = str(reply["optionId"] if "optionId" in reply else reply.get("text", ""))
        return originals.get(picked, picked)

    def sleep(self, until: Callable[[datetime], datetime]) -> None:
        """Return if the time has come; `until` makes the time of now.

        Raises:
            ToolFailed: the call is of no run.
            Suspended: the time has not come.
        """
        self._take(SLEEP, {}, RequestedCall("", SLEEP, {"until": self._moment(until)}))

    def receive(self, name: str, until: Callable[[datetime], datetime] | None) -> JsonObject | None:
        """Return the event; None if its time is over.

        Raises:
            ToolFailed: the call is of no run.
            Suspended: it has not come.
        """
        if self._now is None:
            raise ToolFailed(_NO_RUN)
        arguments: JsonObject = {"name": name}
        limits: JsonObject = {} if until is None else {"until": self._moment(until)}
        event = self._take(WAIT_FOR, arguments, RequestedCall("", WAIT_FOR, arguments | limits))
        return event if isinstance(event, dict) else None

    def _moment(self, until: Callable[[datetime], datetime]) -> str:
        if self._now is None:
            raise ToolFailed(_NO_RUN)
        return until(self._now()).astimezone(UTC).isoformat().replace("+00:00", "Z")

    def _take(self, name: str, arguments: JsonObject, wait: "ToolQuestion | RequestedCall") -> JsonValue:
        """Return what came in an earlier attempt, which must have waited for the same."""
        number = self._count
        self._count += 1
        if number >= len(self._waited):
            self.new.append(wait)
            raise Suspended
        earlier = self._waited[number]
        recorded = earlier.arguments if isinstance(earlier.arguments, dict) else {}
        # A time is another one in each attempt; that of the first one counts.
        recorded = {key: value for key, value in recorded.items() if key != _UNTIL}
        if (earlier.name, recorded) != (name, arguments):
            self.problem = _DIVERGED.format(number=number + 1)
            raise Suspended
        return earlier.output


_UNTIL: Final = "until"
_DIVERGED: Final = (
    "The tool was run again after it had waited, and its wait {number} is not the one of before: another "
    "question, or another event. What it waits for must depend on nothing but its arguments, the session "
    "state and what came before."
)
_NO_RUN: Final = "Only a tool that an agent calls in a run can ask a person, sleep or wait for an event."
_NO_WORKFLOW: Final = "Only the workflow that holds the agent of this tool can call it."


def as_delta(delay: object) -> timedelta:
    """Return a delay in seconds as a timedelta.

    Raises:
        TypeError: it is none.
    """
    if isinstance(delay, int | float) and not isinstance(delay, bool):
        return timedelta(seconds=delay)
    if isinstance(delay, timedelta):
        return delay
    raise TypeError(f"expected seconds or a timedelta, found {kind_of(delay)}")


def as_timeout(timeout: object) -> timedelta:
    """Return a timeout in seconds as a timedelta.

    Raises:
        TypeError: it is none.
        ValueError: it is negative.
    """
    delta = as_delta(timeout)
    if delta < timedelta():
        raise ValueError(f"a timeout must not be negative, found {timeout}")
    return delta


def check_zone(moment: datetime) -> datetime:
    """Return a time that has a time zone.

    Raises:
        ValueError: it has none.
    """
    if moment.tzinfo is None:
        raise ValueError(f"sleep_until takes a time with a time zone, found {moment.isoformat()}")
    return moment


def question_of(prompt: object, options: object, of: object) -> ToolQuestion:
    """Return a question of a tool.

    Raises:
        TypeError: the prompt, the options or the names are of another type.
        ValueError: they exceed a limit, or an option is there twice.
    """
    names = (of,) if isinstance(of, str) else of
    if not isinstance(prompt, str) or not _are_texts(options):
        raise TypeError("ask takes the question as a text, and its options as a list of texts")
    if names is not None and not (names and _are_texts(names)):
        raise TypeError("of must be the name of a person or a role, or a list of such names")
    listed = tuple(cast(Sequence[str], options))
    if not 1 <= len(prompt) <= QUESTION_CHARS_MAX:
        raise ValueError(
            f"a question must have 1 to {QUESTION_CHARS_MAX:,} characters, found {len(prompt):,}"
        )
    if len(listed) > OPTIONS_MAX or any(not 1 <= len(option) <= OPTION_CHARS_MAX for option in listed):
        raise ValueError(
            f"a question has up to {OPTIONS_MAX} options of 1 to {OPTION_CHARS_MAX} characters each"
        )
    if len(set(listed)) < len(listed):
        raise ValueError("two options of the question are equal; give each its own text")
    return ToolQuestion(prompt, listed, None if names is None else tuple(cast(Sequence[str], names)))


def _are_texts(value: object) -> bool:
    is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return is_list and all(isinstance(item, str) for item in cast(Sequence[object], value))


class ToolControl:
    """The engine's side of a context: cancels the call, receives its progress and ends its waits.

    `report` is called in the thread of the event loop in which the control was made, also when the tool runs
    in another thread. Make one for each call.
    """

    def __init__(
        self,
        report: Callable[[JsonValue], None] | None = None,
        waits: CallWaits | None = None,
        find_body: Callable[[], Awaitable[CallBody | None]] | None = None,
    ) -> None:
        self.waits: Final = waits or CallWaits(refusal=_NO_RUN)
        self.lines: list[str] = []
        """Lines that the tool logged."""
        self._report = report
        self._find_body = find_body
        self._reports = 0
        self._loop = _running_loop()
        self._event: asyncio.Event | None = None
        self.is_cancelled = False

    def cancel(self) -> None:
        """Tell the tool to stop; call it in the thread of the event loop."""
        self.is_cancelled = True
        if self._event is not None:
            self._event.set()

    async def cancelled(self) -> None:
        """Return once the call is cancelled."""
        if self._event is None:
            self._event = asyncio.Event()
            if self.is_cancelled:
                self._event.set()
        await self._event.wait()

    async def body(self) -> CallBody:
        """Return what performs the call with what the workflow that made it holds in memory.

        Raises:
            ToolFailed: no workflow made the call, or it left the performance to the tool.
        """
        body = None if self._find_body is None else await self._find_body()
        if body is None:
            raise ToolFailed(_NO_WORKFLOW)
        return body

    def log(self, line: str) -> None:
        """Keep a line for the record of the call, and show it."""
        if len(self.lines) < LOG_LINES_MAX:
            self.lines.append(line[:LOG_LINE_CHARS_MAX])
            self.report({"log": self.lines[-1]})
        elif len(self.lines) == LOG_LINES_MAX:
            self.lines.append(f"({LOG_LINES_MAX} lines are kept; the rest is dropped)")

    def report(self, value: object) -> None:
        """Pass a partial result on; too large ones are replaced and too many are dropped."""
        if self._report is None or self._reports >= PROGRESS_REPORTS_MAX:
            return
        self._reports += 1
        partial: JsonValue = result_value(value)
        size = len(to_json(partial))
        if size > PROGRESS_BYTES_MAX:
            partial = {"$omitted": f"{size:,} bytes, limit {PROGRESS_BYTES_MAX:,}"}
        if self._loop is None or self._loop is _running_loop():
            self._report(partial)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._report, partial)


@sealed
class ToolContext(Generic[ContextDepsT]):
    """The call that a tool serves.

    A parameter of this type gets it, under any name, and is not part of the schema. `ToolContext[Deps]` says
    which dependencies of the agent the tool uses. The idempotency key
    is the same in every attempt at one call, also after a crash, and different for every other call: pass it
    to the service that performs the effect. By default it is derived from the ids.
    """

    session_id: str
    run_id: str
    call_id: str
    _: KW_ONLY
    agent_id: str = ""
    turn_id: str = ""
    step_index: int = 0
    attempt: int = 1
    idempotency_key: str = ""
    timeout_ms: int | None = None
    """The longest time that this attempt may take; None leaves it to the tool."""
    deadline: datetime | None = None
    """When that time is over, by the clock of the runtime."""
    budget: "policy.BudgetLimits | None" = None
    """The limits of the run, for a tool that passes work on; None without limits. They stay the same in every
    attempt at the call."""
    deps: ContextDepsT = field(default=cast(ContextDepsT, None), repr=False, compare=False)
    """The dependencies of the run: never recorded, and made again after a crash; None without any."""
    owner: str | None = None
    """The owner that the start of the run named."""
    source: "common.SourceRef | None" = None
    """Where the message of the run came from."""
    metadata: JsonObject = field(default_factory=dict[str, JsonValue])
    """The `metadata` of the start of the run."""
    state: ToolState = field(default_factory=ToolState, repr=False, compare=False)
    """The state of the session: JSON values by key, as of the start of the call. Changes are recorded with
    the result, and dropped if the call fails."""
    control: ToolControl = field(default_factory=ToolControl, repr=False, compare=False)
    sandbox: SandboxAccess | None = field(default=None, repr=False, compare=False)
    """The sandbox of the session, if the agent has one: `await ctx.sandbox.open()` returns it."""

    def __post_init__(self) -> None:
        if not self.idempotency_key:
            object.__setattr__(self, "idempotency_key", self._own_key())

    def _own_key(self) -> str:
        return idempotency_key(
            session_id=self.session_id, run_id=self.run_id, step_index=self.step_index, call_id=self.call_id
        )

    @property
    def is_cancelled(self) -> bool:
        """Whether the call was cancelled or timed out; for synchronous tools."""
        return self.control.is_cancelled

    async def cancelled(self) -> None:
        """Return once the call is cancelled or has timed out."""
        await self.control.cancelled()

    def progress(self, value: object) -> None:
        """Show a partial result to subscribers of the run; it is not recorded."""
        self.control.report(value)

    def log(self, line: str) -> None:
        """Log a line: subscribers of the run see it at once, and the record of the result keeps it.

        The model does not see it. Secrets are masked. The lines of an attempt that a crash interrupted are
        lost. At most 100 lines of 2,000 characters are kept.
        """
        self.control.log(line)

    async def ask(
        self, prompt: str, *, options: Sequence[str] = (), of: str | Sequence[str] | None = None
    ) -> str:
        """Ask a person, and return the answer: one of the options, or a text if there are none.

        `of` names who may answer: a person or a role, or several; anyone when left out. The question is
        recorded, and the tool ends here until it is answered, which may take days. Then the tool is run again
        from its start, with the same arguments and the same idempotency key, and `ask` returns the answer. So
        ask before the effect, and let the question depend on nothing that changes meanwhile.

        Raises:
            Unanswered: the question was closed without an answer.
            ToolFailed: no person can be asked in this run.
            TypeError, ValueError: the question is not valid.
        """
        return self.control.waits.ask(question_of(prompt, options, of))

    async def sleep(self, delay: timedelta | float) -> None:
        """Wait, for seconds or years: the run is a row in the store meanwhile.

        The tool ends here, and is run again from its start when the time has come, as for `ask`. So sleep
        before the effect. The time limit of the tool is for each of these attempts.

        Raises:
            ToolFailed: the tool is not called in a run.
            TypeError: `delay` is not a number of seconds or a timedelta.
        """
        delta = as_delta(delay)
        self.control.waits.sleep(lambda now: now + delta)

    async def sleep_until(self, moment: datetime) -> None:
        """Wait until a time, which must have a time zone; see `sleep`.

        Raises:
            ToolFailed: the tool is not called in a run.
            ValueError: the time has no time zone.
        """
        checked = check_zone(moment)
        self.control.waits.sleep(lambda _: checked)

    @overload
    async def wait_for(self, name: str, *, timeout: timedelta | float | None = None) -> JsonValue: ...  # noqa: ASYNC109 - of the records
    @overload
    async def wait_for(
        self,
        name: str,
        kind: type[EventT],
        *,
        timeout: timedelta | float | None = None,  # noqa: ASYNC109 - of the records
    ) -> EventT | None: ...
    async def wait_for(
        self,
        name: str,
        kind: type[EventT] | None = None,
        *,
        timeout: timedelta | float | None = None,  # noqa: ASYNC109 - of the records
    ) -> EventT | JsonValue:
        """Wait for an event that `run.send`, the server, the command or a webhook sends; return its data.

        The tool ends here and is run again with the event, see `sleep`. An event that was sent before is
        taken; each is taken once. After `timeout` the result is None.

        Raises:
            ToolFailed: the tool is not called in a run, or the data is not of the type `kind`.
            TypeError, ValueError: the name or the timeout is not valid.
        """
        if not 1 <= len(name) <= ID_CHARS_MAX:
            raise ValueError(f"the name of an event has 1 to {ID_CHARS_MAX} characters")
        delta = None if timeout is None else as_timeout(timeout)
        event = self.control.waits.receive(name, None if delta is None else lambda now: now + delta)
        if event is None:
            return None
        data = event.get("data")
        try:
            return data if kind is None else TypeAdapter(kind).validate_json(to_json(data))
        except ValidationError as error:
            problem = error.errors()[0]["msg"]
        raise ToolFailed(f"the data of event {name} is not {getattr(kind, '__name__', kind)}: {problem}")


def idempotency_key(*, session_id: str, run_id: str, step_index: int, call_id: str) -> str:
    """Return the idempotency key of a call; the call id is not enough, because models may reuse it."""
    return sha256(canonical([session_id, run_id, step_index, call_id])).hexdigest()


def _running_loop() -> "asyncio.AbstractEventLoop | None":
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
