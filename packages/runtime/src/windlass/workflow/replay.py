"""Replay: runs a workflow function on an event loop without I/O, whose time and results come from records.

The loop runs until every task waits. A call of the workflow is a future; its result is set when the record of
the result is taken, one record after the other, so `gather`, `wait`, `as_completed` and `timeout` decide in
every process as they did in the first. A timer of the loop is a call of the tool `sleep`: a row in the store.
"""

import asyncio
import heapq
import inspect
import os
import sys
import traceback
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterable, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random  # noqa: TID251 - its seed is recorded
from typing import TYPE_CHECKING, Any, Final, TypeVar, TypeVarTuple, Unpack, cast

from pydantic import JsonValue
from pydantic_core import PydanticSerializationError, to_json

from windlass.ports.interpreter import (
    CallBody,
    CallOutcome,
    CallValue,
    Diverged,
    ProgramCall,
    ProgramFault,
    ProgramStart,
    ProgramValue,
    Progress,
    RecordedOutcome,
)
from windlass_harness.loop.notes import SLEEP, WAIT_FOR
from windlass_protocol import JsonObject
from windlass_protocol.frozen import mutable

if TYPE_CHECKING:
    from asyncio.events import TimerHandle

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

CHANGED: Final = "changed"
"""The tool under whose name a change of the function is recorded."""
_NO_IO: Final = (
    "A workflow cannot do this itself: its event loop has no {what}, because the function is run again after "
    "a crash. Do it in a tool, and call the tool with ctx.call"
)
_DEADLOCK: Final = (
    "The workflow waits for something that no call of it brings, such as a future of another event loop. "
    "Await ctx.call, ctx.run, ctx.ask, ctx.sleep, or what asyncio makes of them."
)
_CANCELS: Final = 3
"""Times that a task is cancelled which goes on nevertheless."""
_TURNS_MAX: Final = 100_000
"""Callbacks of the loop between two waits."""
_BUSY: Final = (
    f"The workflow ran {_TURNS_MAX:,} callbacks without waiting for a call: it has a loop without end, such "
    "as one that awaits asyncio.sleep(0)."
)
_FRAMES_MAX: Final = 5


class CallFailed(Exception):
    """Raised in a workflow by a call that failed, was denied or was not made.

    `type_name` is PermissionError for a call that was denied, TimeoutError for one that timed out, and
    RuntimeError otherwise.
    """

    def __init__(self, message: str, *, tool_name: str, type_name: str = "RuntimeError") -> None:
        super().__init__(message)
        self.message = message
        self.tool_name = tool_name
        self.type_name = type_name


class BeginAgain(BaseException):
    """Raised in a workflow that begins again with another argument."""

    def __init__(self, argument: JsonValue) -> None:
        super().__init__("the workflow begins again")
        self.argument = argument


class RemovedFromMemory(BaseException):
    """Raised in a workflow that is removed from memory; it is not its end."""


class _Task(asyncio.Task[T]):
    """A task with a hash that is the same each time: sets of tasks are iterated in the same order."""

    def __new__(cls, *_: object, loop: "WorkflowLoop", **__: object) -> "_Task[T]":  # pyright: ignore[reportInconsistentConstructor]
        task = super().__new__(cls)
        # Before `__init__`, which puts it into a set.
        task.number = loop.next_number()
        return task

    number: int

    def __hash__(self) -> int:
        return self.number


class _Future(asyncio.Future[T]):
    """A future with such a hash."""

    def __init__(self, *, loop: "WorkflowLoop") -> None:
        super().__init__(loop=loop)
        self.number = loop.next_number()

    def __hash__(self) -> int:
        return self.number


class WorkflowLoop(asyncio.AbstractEventLoop):
    """An event loop that runs callbacks until none is left; its clock stands still meanwhile.

    It has no I/O, no threads and no wall clock. `time()` is the time of the newest record that was taken.
    """

    records_calls: Final = True
    """Tools refuse to be called by themselves in it."""

    def __init__(self, at: datetime) -> None:
        self.now = at
        self.tasks: list[asyncio.Task[object]] = []
        self.problem: BaseException | None = None
        """What a callback raised; tasks keep their own exceptions."""
        self.workflow: LiveWorkflow | None = None
        """The workflow that runs in it."""
        self._began_at = at
        self._ready = deque[asyncio.Handle]()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timer_count = 0
        self._numbers = 0
        self._is_closed = False
        self._is_removed = False

    def run_until_waiting(self) -> None:
        """Run callbacks until all tasks wait for calls or timers."""
        # Private, and the only way: asyncio asks for the loop that runs, and this one runs inside another.
        outer, hooks = asyncio._get_running_loop(), sys.get_asyncgen_hooks()
        asyncio._set_running_loop(self)
        # An async generator that is dropped is closed in the loop that it ran in.
        sys.set_asyncgen_hooks(firstiter=_ignore, finalizer=self._close_generator)
        turns = 0
        try:
            while self._ready and self.problem is None:
                handle = self._ready.popleft()
                if handle.cancelled():
                    continue
                turns += 1
                if turns > _TURNS_MAX:
                    self.problem = RuntimeError(_BUSY)
                    return
                handle._run()
        finally:
            sys.set_asyncgen_hooks(*hooks)
            asyncio._set_running_loop(outer)

    def new_timers(self) -> list[tuple[float, "TimerHandle"]]:
        """Return the timers that were set since the last call and are not cancelled, earliest first."""
        timers = [(when, handle) for when, _, handle in sorted(self._timers[:]) if not handle.cancelled()]
        self._timers.clear()
        return timers

    def moment(self, when: float) -> datetime:
        """Return a time of this loop as a moment, in whole milliseconds."""
        return self._began_at + timedelta(milliseconds=round(when * 1000))

    def time(self) -> float:
        """Return the seconds since the workflow began, by its records."""
        return (self.now - self._began_at).total_seconds()

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Run a callback in this turn."""
        if self._is_removed:
            raise RemovedFromMemory
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> "TimerHandle":
        """Run a callback after a delay, which is a call of the tool `sleep`."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> "TimerHandle":
        """Run a callback at a time of this loop."""
        if self._is_removed:
            raise RemovedFromMemory
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if when <= self.time():
            self._ready.append(handle)
        else:
            self._timer_count += 1
            heapq.heappush(self._timers, (when, self._timer_count, handle))
        return handle

    def fire(self, handle: "TimerHandle") -> None:
        """Run the callback of a timer that has ended."""
        if not handle.cancelled():
            self._ready.append(handle)

    def create_future(self) -> "asyncio.Future[Any]":
        """Return a future of this loop."""
        return _Future(loop=self)

    def next_number(self) -> int:
        """Return a number that no task and no future of the loop has yet."""
        self._numbers += 1
        return self._numbers

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
        **_: object,
    ) -> asyncio.Task[T]:
        """Return a task of this loop."""
        task = _Task(cast("Coroutine[Any, Any, T]", coro), loop=self, name=name, context=context)
        self.tasks = [earlier for earlier in self.tasks if not earlier.done()]
        self.tasks.append(cast("asyncio.Task[object]", task))
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep the exception of a callback; exceptions of tasks that are not awaited have no effect."""
        if "handle" in context and self.problem is None:
            self.problem = context.get("exception") or RuntimeError(str(context.get("message")))

    def get_task_factory(self) -> None:
        """Return None: it makes its own tasks."""

    def get_debug(self) -> bool:
        """Return False: the loop has no debug mode."""
        return False

    def is_running(self) -> bool:
        """Return whether it has not been closed."""
        return not self._is_closed

    def is_closed(self) -> bool:
        """Return whether it has been closed."""
        return self._is_closed

    def close(self) -> None:
        """Cancel all tasks; calls that they make on the way are refused."""
        if self._is_closed:
            return
        self._is_closed = True
        for _ in range(_CANCELS):
            # The newest first: a task may hold others in a group.
            pending = [task for task in reversed(self.tasks) if not task.done()]
            for task in pending:
                task.cancel()
            self.problem = None
            self.run_until_waiting()
            if not pending:
                break
        self._is_removed = True
        self._ready.clear()
        self._timers.clear()
        for task in self.tasks:
            if not task.done():
                self._drop(task)

    def _drop(self, task: "asyncio.Task[object]") -> None:
        """End a task that goes on although it was cancelled."""
        # It is pending for good: asyncio would log that.
        task._log_destroy_pending = False  # pyright: ignore[reportAttributeAccessIssue]
        # Code of the application that must not run any more: what it raises has no effect.
        with suppress(BaseException):
            cast("Coroutine[Any, Any, object]", task.get_coro()).close()

    def _close_generator(self, generator: AsyncGenerator[object]) -> None:
        if not self._is_removed:
            self.create_task(generator.aclose())

    def _timer_handle_cancelled(self, handle: "TimerHandle") -> None:
        """Called by a timer that is cancelled; `new_timers` leaves it out."""


def _ignore(_: object) -> None:
    """Do nothing when an async generator begins."""


_as_completed: Final = asyncio.as_completed


def _ordered_as_completed(fs: Iterable[Any], **options: Any) -> Any:
    """Begin coroutines in their order, in a workflow; asyncio begins them in that of a set."""
    if isinstance(asyncio._get_running_loop(), WorkflowLoop):
        fs = [asyncio.ensure_future(future) for future in fs]
    return _as_completed(fs, **options)


# The only way to reach code that is written with asyncio; other loops have the function as it is.
asyncio.as_completed = asyncio.tasks.as_completed = _ordered_as_completed


def _refusal(name: str) -> Callable[..., object]:
    def refuse(*_args: object, **_options: object) -> object:
        raise RuntimeError(_NO_IO.format(what=name))

    return refuse


_REFUSED: Final = (
    "add_reader add_signal_handler add_writer call_soon_threadsafe connect_read_pipe connect_write_pipe "
    "create_connection create_datagram_endpoint create_server create_unix_connection create_unix_server "
    "getaddrinfo getnameinfo run_forever run_in_executor run_until_complete sendfile sock_accept "
    "sock_connect sock_recv sock_recv_into sock_sendall sock_sendfile start_tls subprocess_exec "
    "subprocess_shell"
)
"""Methods of an event loop for I/O, threads and processes."""
for _name in _REFUSED.split():
    setattr(WorkflowLoop, _name, _refusal(_name))


@mutable
class _Open:
    """A call of the workflow that has no result yet."""

    tool_name: str
    future: "asyncio.Future[JsonValue]"
    body: CallBody | None


@mutable
class _Calls:
    made: list[ProgramCall] = field(default_factory=list[ProgramCall])
    """All calls, by number."""
    open: dict[int, _Open] = field(default_factory=dict[int, _Open])
    timers: dict[int, asyncio.TimerHandle] = field(default_factory=dict[int, asyncio.TimerHandle])
    """Timers that have not ended, by the number of their call."""
    reported: int = 0
    """Calls that were returned as progress."""


class LiveWorkflow:
    """A workflow in memory; `run` gives it results, in the order of their records."""

    def __init__(self, start: ProgramStart, *, body: Callable[["LiveWorkflow"], Awaitable[object]]) -> None:
        self.loop: Final = WorkflowLoop(start.at)
        self.loop.workflow = self
        self.random: Final = Random(start.seed)
        self.taken = 0
        """Results that it has taken."""
        self._recorded = start.recorded
        self._mask = start.mask
        self._changes: dict[str, bool] = {}
        """Whether the function goes the new way, by the reason of the change."""
        self._calls = _Calls()
        self._body = body
        self._main: asyncio.Task[object] | None = None

    def call(
        self, tool_name: str, arguments: JsonObject, body: CallBody | None = None
    ) -> "asyncio.Future[JsonValue]":
        """Make a call; the future has its result. A tool that asks for the `body` performs it with that."""
        if self.loop.is_closed():
            raise RemovedFromMemory
        future: asyncio.Future[JsonValue] = self.loop.create_future()
        self._calls.open[len(self._calls.made)] = _Open(tool_name, future, body)
        self._add(ProgramCall(tool_name, named=arguments))
        return future

    def goes_new_way(self, reason: str) -> bool:
        """Return whether the function goes the new way: not where the old way is recorded from here on.

        The new way is recorded as a call, so that every later run of the function goes it.
        """
        if reason not in self._changes:
            number, arguments = len(self._calls.made), cast(JsonObject, {"reason": reason})
            is_new = number >= len(self._recorded) or self._recorded[number] == (CHANGED, arguments)
            self._changes[reason] = is_new
            if is_new:
                self.call(CHANGED, arguments)
        return self._changes[reason]

    def _add(self, call: ProgramCall) -> None:
        """Add a call, which must be the recorded one; a call that is another stops the function."""
        number = len(self._calls.made)
        self._calls.made.append(call)
        if number >= len(self._recorded):
            return
        name, arguments = self._recorded[number]
        if call.name != name or (call.named != arguments and self._mask(call.named) != arguments):
            came = f"{call_text(call.name, call.named)}{_line_of_caller()}"
            self._stop(f"Call {number} was {call_text(name, arguments)}, and is {came}.")

    def _stop(self, text: str) -> None:
        if not isinstance(self.loop.problem, Diverged):
            self.loop.problem = Diverged(text)

    def _check_made(self, count: int, *, before: str) -> None:
        """Stop if recorded calls up to a number were not made."""
        number = len(self._calls.made)
        if number < count and self._main is not None:
            line = _line_of_task(self._main)
            self._stop(
                f"Call {number} was {call_text(*self._recorded[number])}, and is not made {before}{line}."
            )

    async def run(self, outcomes: Sequence[RecordedOutcome]) -> Progress:
        """Take results, and return the calls that the workflow has made, or its end."""
        # Outside of the task of the caller: tasks of two loops must not run inside each other.
        turn = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(self._run, outcomes, turn)
        return await turn

    def body_of(self, number: int) -> CallBody | None:
        """Return what performs a call that has no outcome; see `LiveProgram`."""
        call = self._calls.open.get(number)
        return None if call is None else call.body

    def close(self) -> None:
        """Remove the workflow from memory."""
        self.loop.close()

    def _run(self, outcomes: Sequence[RecordedOutcome], turn: "asyncio.Future[Progress]") -> None:
        try:
            progress = self._take(outcomes)
        except BaseException as error:  # noqa: BLE001 - passed to the caller
            if not turn.done():
                turn.set_exception(error)
            return
        if not turn.done():
            turn.set_result(progress)

    def _take(self, outcomes: Sequence[RecordedOutcome]) -> Progress:
        if self._main is None:
            body = cast("Coroutine[Any, Any, object]", self._body(self))
            self._main = self.loop.create_task(body)
            self._wait()
        for recorded in outcomes:
            self._check_made(recorded.number + 1, before="before it has its result")
            if isinstance(self.loop.problem, Diverged):
                break
            self.taken += 1
            # Records of one process may have the same time, and a new owner's clock may be behind.
            self.loop.now = max(self.loop.now, recorded.at)
            self._settle(recorded.number, recorded.outcome)
            self._wait()
        self._check_made(len(self._recorded), before="by now")
        if isinstance(self.loop.problem, Diverged):
            raise self.loop.problem
        return self._progress(self._main)

    def _wait(self) -> None:
        """Run the workflow until it waits; timers that it set then are calls."""
        self.loop.run_until_waiting()
        for when, handle in self.loop.new_timers():
            self._calls.timers[len(self._calls.made)] = handle
            self._add(ProgramCall(SLEEP, named={"until": wire_moment(self.loop.moment(when))}))

    def _settle(self, number: int, outcome: CallOutcome) -> None:
        timer = self._calls.timers.pop(number, None)
        if timer is not None:
            self._end_timer(timer, outcome)
            return
        call = self._calls.open.pop(number, None)
        if call is None or call.future.done():
            # A timeout or a cancelled task does not wait for it any more.
            return
        if isinstance(outcome, CallValue):
            call.future.set_result(outcome.value)
        else:
            call.future.set_exception(
                CallFailed(outcome.message, tool_name=call.tool_name, type_name=outcome.type_name)
            )

    def _end_timer(self, timer: asyncio.TimerHandle, outcome: CallOutcome) -> None:
        if timer.cancelled():
            return
        if not isinstance(outcome, CallValue):
            self.loop.problem = CallFailed(outcome.message, tool_name=SLEEP, type_name=outcome.type_name)
            return
        # After an outage many timers are due, and are recorded in any order: the earlier ones end before.
        pending = sorted(self._calls.timers.items(), key=lambda item: (item[1].when(), item[0]))
        for number, earlier in pending:
            if earlier.when() < timer.when() and not earlier.cancelled():
                del self._calls.timers[number]
                self._fire(earlier)
                self._wait()
        self._fire(timer)

    def _fire(self, timer: asyncio.TimerHandle) -> None:
        # Its time has come, whatever the clock of this process says.
        self.loop.now = max(self.loop.now, self.loop.moment(timer.when()))
        self.loop.fire(timer)

    def _progress(self, main: "asyncio.Task[object]") -> Progress:
        first, self._calls.reported = self._calls.reported, len(self._calls.made)
        made = self._calls.made
        timers = (number for number, timer in self._calls.timers.items() if timer.cancelled())
        waits = (
            number
            for number, call in self._calls.open.items()
            if call.tool_name == WAIT_FOR and call.future.cancelled()
        )
        cancelled = (*timers, *waits)
        end = self._end(main)
        if end is not None:
            # A new timer that is cancelled already is not worth a call: no result is taken any more.
            reported = max(first, len(self._recorded))
            numbers = (
                number for number in range(first, len(made)) if number < reported or number not in cancelled
            )
            new = tuple(made[number] for number in numbers)
            return Progress(new, "", None, end, cancelled=tuple(n for n in cancelled if n < reported))
        if not self._calls.open.keys() and not self._calls.timers.keys() - set(cancelled):
            return Progress((), "", None, ProgramFault(_DEADLOCK))
        return Progress(tuple(made[first:]), "", None, None, cancelled=cancelled)

    def _end(self, main: "asyncio.Task[object]") -> ProgramValue | ProgramFault | None:
        problem = self.loop.problem
        if problem is None:
            if not main.done():
                return None
            if main.cancelled():
                return ProgramFault("The workflow cancelled itself.")
            problem = main.exception()
        if problem is not None:
            return ProgramFault(_fault_text(problem))
        try:
            return ProgramValue(cast(JsonValue, main.result()))
        except PydanticSerializationError as error:
            return ProgramFault(f"The workflow returned a value without a JSON form: {error}")


def current_workflow() -> LiveWorkflow | None:
    """Return the workflow that this code is a part of; None outside of one."""
    loop = asyncio._get_running_loop()
    return loop.workflow if isinstance(loop, WorkflowLoop) else None


def wire_moment(moment: datetime) -> str:
    """Return a moment as arguments of calls have it."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def call_text(name: str, arguments: JsonValue) -> str:
    """Return a call as a person reads it."""
    text = to_json(arguments).decode()
    return f"{name}({text if len(text) <= _ARGUMENTS_CHARS_MAX else text[:_ARGUMENTS_CHARS_MAX] + '…'})"


_ARGUMENTS_CHARS_MAX: Final = 300
_HERE: Final = f"{Path(__file__).parent}{os.sep}"


def _line_of_caller() -> str:
    """Return the line of the application that makes a call."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    is_loop = frame is None or frame.f_code.co_filename.startswith(_ASYNCIO)
    return "" if frame is None or is_loop else _line(frame.f_code.co_filename, frame.f_lineno)


def _line_of_task(task: "asyncio.Task[object]") -> str:
    """Return the line of the application at which a task waits; nothing for one that has ended."""
    coroutine: Any = task.get_coro()
    line = ""
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        if not frame.f_code.co_filename.startswith((_HERE, _ASYNCIO)):
            line = _line(frame.f_code.co_filename, frame.f_lineno)
        coroutine = coroutine.cr_await
    return line


def _line(path: str, number: int) -> str:
    return f" ({Path(path).name}, line {number})"


_ASYNCIO: Final = f"{Path(asyncio.__file__).parent}{os.sep}"


def _fault_text(error: BaseException) -> str:
    """Return an exception with the last lines of its traceback that are of the application."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    lines = [
        f"  {frame.filename.rpartition('/')[2]}, line {frame.lineno}, in {frame.name}" for frame in frames
    ]
    head = "".join(traceback.format_exception_only(error)).strip()
    return "\n".join([head, *lines[-_FRAMES_MAX:]])
