"""One tool call: argument validation, timeout, threads, failures.

The policy of a call is decided before; see `windlass.agent.policy`.
"""

import asyncio
import inspect
import os
import re
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from hashlib import sha256
from queue import SimpleQueue
from threading import Lock, Semaphore, Thread
from traceback import format_exception_only
from typing import Final, Literal, TypeVar, cast

from pydantic import JsonValue, ValidationError
from pydantic_core import ErrorDetails

from windlass.errors import Rejected, is_for_us
from windlass.json_value import JsonForm, NoJsonForm
from windlass.limits import (
    ARGUMENT_BYTES_MAX,
    ARGUMENT_VALUES_MAX,
    FAILED_CHARS_MAX,
    FAILURE_CHARS_MAX,
    LIGHT_CHARS_MAX,
    MASKING_THREADS_MAX,
    NAMES_SHOWN_MAX,
    OWN_THREADS_MAX,
    PROBLEM_CHARS_MAX,
    PROBLEMS_MAX,
    THREADS_MAX,
)
from windlass.tools import Tool, ToolFailed
from windlass.tools.context import ToolContext
from windlass.tools.json_schema import FEW_CHECKS, ManyChecks
from windlass.tools.results import Weight, is_light, no_json_form_text, result_value, weigh
from windlass.tools.schema import Unfit
from windlass_harness.redact import mask_text
from windlass_protocol import (
    CodecError,
    CodecLimits,
    ErrorKind,
    JsonObject,
    RetryClass,
    ToolResult,
    canonical,
    parse,
)
from windlass_protocol.codec_errors import CodecErrorCode, printable
from windlass_protocol.codec_issues import invalid
from windlass_protocol.frozen import sealed
from windlass_protocol.limits import ERROR_COUNTED_MAX, FREE_LEVELS_MAX
from windlass_protocol.unchecked import maker

ARGUMENT_LIMITS: Final = CodecLimits(message_bytes_max=ARGUMENT_BYTES_MAX, depth_max=FREE_LEVELS_MAX)
_OMITTED: Final = re.compile(r"\(arguments of ([\d,]+) (characters|values), which are too many to be kept\)")
_OMITTED_LIMITS: Final = {
    "characters": f"{ARGUMENT_BYTES_MAX:,} bytes",
    "values": f"{ARGUMENT_VALUES_MAX:,}",
}
_OWN_CHECKS: Final = frozenset({"value_error", "assertion_error"})
_UNKNOWN: Final = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
_RESULT: Final = JsonForm(unknown="refuse")
_success: Final = maker(ToolResult, "success", "data")


def tool_result(value: object, *, is_json: bool = False) -> ToolResult:
    """Return the result of a call; a tool may return a ToolResult itself.

    `is_json` says that `weigh` found the value, or the data of the result, to be JSON.

    Raises:
        NoJsonForm: it holds a value of a type that has no JSON form.
    """
    if not isinstance(value, ToolResult):
        # Not validated: it was just made of JSON.
        return _success(success=True, data=result_value(value, _RESULT, is_json=is_json))
    if "data" not in value.model_fields_set:
        return value
    return value.model_copy(update={"data": result_value(value.data, _RESULT, is_json=is_json)})


@sealed
class Arguments:
    """The validated arguments of one call: JSON, hash and Python values."""

    json: JsonObject
    """The arguments as the model wrote them."""
    hash: str
    """`sha256:` and the digest of the canonical JSON."""
    values: dict[str, object]
    """The arguments of the function, without parameters that were left out."""


Mask = Callable[[str], str]


def omitted_arguments(count: int, unit: Literal["characters", "values"]) -> str:
    """Return the text that a record holds in place of arguments that are too large. It never changes."""
    return f"(arguments of {count:,} {unit}, which are too many to be kept)"


def arguments_of(
    tool: Tool[..., object], raw: JsonValue, *, mask: Mask = mask_text, canonical_json: bytes | None = None
) -> Arguments:
    """Decode and validate the arguments of a call; a string is parsed as JSON.

    `canonical_json` is the canonical JSON of `raw`, if the caller has it. Quoted text is masked with `mask`
    before it is cut: a half secret would not be recognised later.

    Raises:
        Rejected: they are not a JSON object, or do not fit; the message is for the model: it names each place
            and what was expected there, and quotes no values.
    """
    omitted = _OMITTED.fullmatch(raw) if isinstance(raw, str) else None
    if omitted is not None:
        size = f"{omitted[1]} {omitted[2]}, limit {_OMITTED_LIMITS[omitted[2]]}"
        raise _refusal(tool, [f"they are too large: {size}; send less, or in several calls"])
    try:
        value = parse(raw, ARGUMENT_LIMITS) if isinstance(raw, str) else raw
        text = canonical_json or canonical(value, ARGUMENT_LIMITS)
    except CodecError as error:
        problem = error.message
        if error.code is CodecErrorCode.TOO_LARGE:
            raise _refusal(tool, [f"they are too large: {problem}; send less, or in several calls"]) from None
    else:
        return _validate(tool, value, text, mask=mask)
    raise _refusal(tool, [f"they are not valid JSON: {problem}"])


async def read_arguments(
    tool: Tool[..., object], raw: JsonValue, *, mask: Mask = mask_text, canonical_json: bytes | None = None
) -> Arguments:
    """Like `arguments_of`; large arguments, and those whose checks take long, are read in a thread."""
    read = partial(arguments_of, tool, raw, mask=mask, canonical_json=canonical_json)
    return await (after_few_checks if is_light(raw) else in_masking_thread)(read)


def arguments_hash(arguments: JsonObject) -> str:
    """Return the hash that binds a decision to these arguments."""
    return _hash(canonical(arguments, ARGUMENT_LIMITS))


def _validate(tool: Tool[..., object], value: JsonValue, text: bytes, *, mask: Mask) -> Arguments:
    if not isinstance(value, dict):
        raise _refusal(tool, ["expected an object with the parameters by name"])
    try:
        values = tool.shape.validate(text)
    except ValidationError as error:
        problems = _problems(tool, error, value, mask=mask)
    except Unfit as error:
        problems = [printable(mask(text), PROBLEM_CHARS_MAX) for text in error.problems]
    except ManyChecks:
        raise
    except BaseException as error:  # validators are host code that a model can reach
        if is_for_us(error):
            raise
        problems = [f"a check of the tool failed with {type(error).__name__}"]
    else:
        return Arguments(value, _hash(text), values)
    # Raised outside of the except block: the validation error holds the input and must not become the
    # context.
    raise _refusal(tool, problems)


def _hash(text: bytes) -> str:
    return f"sha256:{sha256(text).hexdigest()}"


def _problems(tool: Tool[..., object], error: ValidationError, value: JsonValue, *, mask: Mask) -> list[str]:
    issues = invalid(error, value).issues
    # pydantic lists all or none, and hundreds of thousands hold up the event loop.
    is_listed = error.error_count() <= ERROR_COUNTED_MAX
    details = error.errors(include_url=False, include_input=False)[: len(issues)] if is_listed else []
    messages = [own_words(detail) for detail in details] or [None]
    problems: list[str] = []
    for issue, message in zip(issues, messages, strict=True):
        problems.append(
            printable(mask(f"{issue.path or 'the top'}: {message or issue.message}"), PROBLEM_CHARS_MAX)
        )
    if any(detail["type"] in _UNKNOWN and len(detail["loc"]) == 1 for detail in details):
        problems.append(
            f"the parameters are {_name_list([part.name for part in tool.shape.signature.parameters])}"
        )
    return problems


def own_words(detail: ErrorDetails) -> str | None:
    """Return the message of the author's own validator, for the model."""
    if detail["type"] not in _OWN_CHECKS:
        return None
    message = str(detail.get("ctx", {}).get("error", "")).partition("\n")[0]
    return message or None


def _refusal(tool: Tool[..., object], problems: Sequence[str]) -> Rejected:
    lines = list(problems[:PROBLEMS_MAX])
    if len(problems) > PROBLEMS_MAX:
        lines.append(f"and {len(problems) - PROBLEMS_MAX} more")
    return Rejected(
        f"the arguments of {tool.name} do not fit: {'; '.join(lines)}",
        kind=ErrorKind.TOOL_FAILURE,
        retry=RetryClass.REPAIR_NEEDED,
    )


def _name_list(names: Sequence[str]) -> str:
    text = ", ".join(names[:NAMES_SHOWN_MAX]) or "none"
    return text if len(names) <= NAMES_SHOWN_MAX else f"{text} and {len(names) - NAMES_SHOWN_MAX} more"


T = TypeVar("T")


class _Threads:
    """A thread pool that starts a thread when all others are busy."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._is_registered = False
        self._forget_threads()

    def _forget_threads(self) -> None:
        """Begin without threads and jobs: in a process that was forked, those of its parent do not exist."""
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._idle = Semaphore(0)
        self._lock = Lock()
        self._count = 0

    def submit(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)
        if self._idle.acquire(blocking=False):
            return
        with self._lock:
            if self._count >= self._most:
                return
            self._count += 1
            if not self._is_registered:
                self._is_registered = True
                os.register_at_fork(after_in_child=self._forget_threads)
        Thread(target=self._work, name=self._name, daemon=True).start()

    def _work(self) -> None:
        while True:
            self._jobs.get()()
            self._idle.release()


_THREADS = _Threads("windlass-tool", THREADS_MAX)
_OWN = _Threads("windlass-own", OWN_THREADS_MAX)
_MASKING = _Threads("windlass-masking", MASKING_THREADS_MAX)


async def in_thread(function: Callable[[], T]) -> T:
    """Call a function in a thread, with the context variables of the caller.

    Cancelling stops the wait, and the call if it has not started; a running thread cannot be stopped.
    """
    return await _call_in_thread(_THREADS, function)


async def in_own_thread(function: Callable[[], T]) -> T:
    """Call a function of the runtime in a thread of a separate pool: hanging tools do not block it."""
    return await _call_in_thread(_OWN, function)


async def in_masking_thread(function: Callable[[], T]) -> T:
    """Call a function that masks or serialises a large value, in a thread of the process for such work."""
    with CONVERSIONS:
        return await _call_in_thread(_MASKING, function)


async def read_by_size(size: int, read: Callable[[], T]) -> T:
    """Call a function that reads a text of this size, in characters or bytes; a large one in a thread."""
    return read() if size <= LIGHT_CHARS_MAX else await in_masking_thread(read)


async def after_few_checks(check: Callable[[], T]) -> T:
    """Call a function that checks values by schemas; again in a thread if it takes more than few checks."""
    try:
        return few_checks(check)
    except ManyChecks:
        return await in_masking_thread(check)


def few_checks(check: Callable[[], T]) -> T:
    """Call a function that checks values by schemas.

    Raises:
        ManyChecks: it would hold up the event loop.
    """
    is_few = FEW_CHECKS.set(True)
    try:
        return check()
    finally:
        FEW_CHECKS.reset(is_few)


class TurnGate:
    """Lets so many callers go on in each turn of the event loop, in the order in which they came.

    A turn lasts as long as all that goes on in it: what hundreds begin at the same moment would hold up
    every stream and timer.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._passed = 0
        """Callers that have gone on in this turn."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Return when it is the turn of the caller."""
        loop = asyncio.get_running_loop()
        if self._passed == self._most:
            turn = loop.create_future()
            self._waiting.append(turn)
            await turn
            return
        if not self._passed:
            loop.call_soon(self._begin_turn, loop)
        self._passed += 1

    def _begin_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._passed = 0
        while self._waiting and self._passed < self._most:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._passed += 1
        if self._passed:
            loop.call_soon(self._begin_turn, loop)


class Conversions:
    """Counts the conversions of values that are in threads now; fake time waits for them."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        self.count -= 1


CONVERSIONS: Final = Conversions()


async def _call_in_thread(threads: _Threads, function: Callable[[], T]) -> T:
    # Without a future of `concurrent.futures` between: its lock and callbacks cost as much as the rest.
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    threads.submit(partial(_answer, loop, answer, partial(copy_context().run, function)))
    return await answer


def _answer(loop: asyncio.AbstractEventLoop, answer: asyncio.Future[T], function: Callable[[], T]) -> None:
    """Call a function in a thread, and let its caller in the event loop go on; nothing if that has left."""
    if answer.cancelled():
        return
    # A closed loop has no callers left.
    with suppress(RuntimeError):
        try:
            result = function()
        except (StopIteration, SystemExit, KeyboardInterrupt) as error:
            # asyncio loses a StopIteration, and ends the program on the others.
            problem = RuntimeError(f"the function raised {type(error).__name__}")
            loop.call_soon_threadsafe(_set_error, answer, problem)
        except BaseException as error:  # noqa: BLE001 - the tool boundary, in its thread
            loop.call_soon_threadsafe(_set_error, answer, error)
        else:
            loop.call_soon_threadsafe(_set_result, answer, result)


def _set_result(answer: asyncio.Future[T], result: T) -> None:
    if not answer.done():
        answer.set_result(result)


def _set_error(answer: asyncio.Future[T], error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)


@sealed
class ToolRun:
    """Result of one attempt at a call."""

    result: ToolResult
    error: BaseException | None = None
    """The exception of the tool, for the log; the model gets `result`. Its text may hold secrets."""
    is_timeout: bool = False
    """The call timed out: its effect is unknown."""
    is_retryable: bool = False
    """The tool marked its failure as retryable."""
    is_large: bool = False
    """The data of a success takes long to convert, so it is not done on the event loop."""


def run_of_json(value: JsonValue) -> ToolRun:
    """Return the result of a call whose value is JSON already: it is not validated again."""
    return ToolRun(_success(success=True, data=value), is_large=not is_light(value))


async def run_tool(tool: Tool[..., object], values: Mapping[str, object], *, context: ToolContext) -> ToolRun:
    """Run a tool once with validated values, within its timeout and that of the context.

    An exception of the tool is part of the result; only cancellation is raised. When the wait ends, the
    context is cancelled, so that a synchronous tool can notice.
    """
    timeout_ms = min(tool.timeout_ms, context.timeout_ms or tool.timeout_ms)
    limit = asyncio.timeout(timeout_ms / 1_000)
    try:
        async with limit:
            return await call_tool(tool, values, context)
    except BaseException as error:  # the tool boundary: every exception becomes a result
        if is_for_us(error):
            context.control.cancel()
            raise
        return outcome_of(error, tool, timeout_ms, context=context, is_over=limit.expired())


def outcome_of(
    error: BaseException,
    tool: Tool[..., object],
    timeout_ms: int,
    *,
    context: ToolContext | None,
    is_over: bool,
) -> ToolRun:
    """Return the outcome of a tool that raised an error; `is_over` says that its time was over."""
    if isinstance(error, ToolFailed):
        # The result is masked again with the secrets of the runtime.
        message = mask_text(error.message[: 2 * FAILED_CHARS_MAX])[:FAILED_CHARS_MAX]
        return ToolRun(failure(message), error, is_retryable=error.is_retryable)
    if isinstance(error, NoJsonForm):
        message = no_json_form_text(error)
        return ToolRun(failure(message), ToolFailed(message))
    if is_over:
        return timeout_run(tool, timeout_ms, context=context)
    return ToolRun(failure(failure_text(error)), error)


def timeout_run(tool: Tool[..., object], timeout_ms: int, *, context: ToolContext | None) -> ToolRun:
    """Return the result of a call that timed out, and cancel its context."""
    if context is not None:
        context.control.cancel()
    message = f"{tool.name} did not finish within {timeout_ms:,} ms; whether it did anything is not known"
    return ToolRun(failure(message), is_timeout=True)


async def call_tool(
    tool: Tool[..., object], values: Mapping[str, object], context: ToolContext | None
) -> ToolRun:
    """Call the function of a tool; in a thread if it is not async.

    Raises:
        BaseException: whatever the tool raises; see `outcome_of`.
    """
    signature = tool.shape.signature
    arguments = dict(values)
    if signature.context_name is not None:
        arguments[signature.context_name] = context
    if signature.is_async:
        return await _convert(await cast(Awaitable[object], tool.function(**arguments)))
    returned = await in_thread(partial(_call_tool, tool, arguments))
    return returned if isinstance(returned, ToolRun) else await _convert(await returned.value)


@sealed
class _Later:
    """An awaitable that a synchronous function returned."""

    value: Awaitable[object]


def _call_tool(tool: Tool[..., object], arguments: Mapping[str, object]) -> ToolRun | _Later:
    """Call a function in its thread, and make there what is kept of its result."""
    returned = tool.function(**arguments)
    return _Later(returned) if inspect.isawaitable(returned) else _success_of(returned, _weigh(returned))


async def _convert(value: object) -> ToolRun:
    weight = _weigh(value)
    if weight.is_light:
        return _success_of(value, weight)
    with CONVERSIONS:
        return await in_own_thread(partial(_success_of, value, weight))


def _weigh(value: object) -> Weight:
    return weigh(value.data if isinstance(value, ToolResult) else value)


def _success_of(value: object, weight: Weight) -> ToolRun:
    return ToolRun(tool_result(value, is_json=weight.is_json), is_large=not weight.is_light)


def failure(message: str) -> ToolResult:
    """Return the result of a call that failed and that the model should react to."""
    return ToolResult(success=False, error=message, needs_followup=True)


def failure_text(error: BaseException, mask: Callable[[str], str] = mask_text) -> str:
    """Return the text of an exception for the model: one short line, without secrets."""
    text = "".join(format_exception_only(error))
    line = (text[:_LINE_CHARS_MAX].splitlines() or [type(error).__name__])[0]
    masked = mask(line)
    if len(line) == _LINE_CHARS_MAX < len(text):
        # Half a secret at the cut is none to the mask; it is far behind what is shown.
        masked = masked[: -_LINE_CHARS_MAX // 4] or type(error).__name__
    return printable(masked, FAILURE_CHARS_MAX)


_LINE_CHARS_MAX: Final = 32_768
"""Characters of an exception's text that are redacted."""
