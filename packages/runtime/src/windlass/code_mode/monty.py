"""Programs in Monty, a Python interpreter without access to the machine.

The package `pydantic-monty` is part of the extra `code`. Its client runs in helper processes, see
`windlass.code_mode.monty_helper`; only JSON of a bounded size comes from there, and dumps. A snapshot is a
line of JSON, the numbers that Monty has for the calls, and the dump of the worker.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib import metadata
from threading import Lock
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

from pydantic import JsonValue
from pydantic_core import from_json

from windlass.code_mode.monty_helper import (
    MEMORY_EXIT,
    TOO_MUCH,
    outcome_fields,
    program_fields,
    read_frame,
    write_frame,
)
from windlass.errors import Rejected, install_hint
from windlass.ports.interpreter import (
    CallOutcome,
    Diverged,
    NoSnapshot,
    NoVariables,
    Program,
    ProgramCall,
    ProgramFault,
    ProgramLimits,
    ProgramValue,
    Progress,
)
from windlass_protocol import ErrorKind, JsonObject, RetryClass

_SECONDS_PER_CPU_SECOND: Final = 4
_TURN_SECONDS_PER_CPU_SECOND: Final = 10
"""How long a helper may take for each second of its CPU time, in a whole request and in its turns; after that
it is stuck, and killed."""
_JSON_BYTES_PER_CHAR_MAX: Final = 6
HALF_LIFE_S: Final = 60.0
"""Time after which the use of helpers counts half."""
BEGUN_S: Final = 1.0
"""What a request counts before it has ended."""
USERS_MAX: Final = 1_000
"""Owners, and families of sessions, that have a count of their use of helpers."""
_HEAD_BYTES: Final = 1_048_576
"""Bytes of an answer besides its values and its text: names, brackets and the message of a fault."""


class MontyInterpreter:
    """Runs programs in helper processes, which start with the first program; at most one for each CPU."""

    def __init__(self) -> None:
        self._version = f"monty/{_installed_version()}"
        self._threads = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="windlass-monty")
        self._lock = Lock()
        self._turns = Turns[tuple[_Work, Future[_Answer]]](time.monotonic)
        self._idle: list[HelperProcess] = []
        self._busy: set[HelperProcess] = set()
        self._is_closed = False

    @property
    def version(self) -> str:
        """Name and version."""
        return self._version

    async def check(self, program: Program) -> str | None:
        """Return the findings of the parser and of the type checker; nothing is run."""
        request: JsonObject = {"task": "check", "program": program_fields(program)}
        try:
            answer, _, _ = await self._ask(program, request)
        except (Crashed, Exceeded):
            # The run will say so.
            return None
        finding = answer["finding"]
        return None if finding is None else str(finding)

    async def run(
        self,
        program: Program,
        outcomes: Sequence[tuple[int, CallOutcome]],
        *,
        snapshot: bytes | None = None,
    ) -> Progress:
        """Run a program; see `Interpreter.run`.

        A process that dies, as by a kill from outside, is replaced once: a program has no effects here.
        """
        request: JsonObject = {
            "task": "run",
            "program": program_fields(program),
            "outcomes": [outcome_fields(number, outcome) for number, outcome in outcomes],
        }
        try:
            try:
                answer = await self._ask(program, request, snapshot or b"")
            except Crashed:
                answer = await self._ask(program, request, snapshot or b"")
        except Exceeded:
            return Progress((), "", None, ProgramFault(TOO_MUCH))
        except Crashed as error:
            return Progress((), "", None, ProgramFault(f"The program ended its interpreter: {error}"))
        return _progress(*answer)

    async def aclose(self) -> None:
        """End the helper processes, also in the middle of programs: these have no effects here."""
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._is_closed = True
            for _, answer in self._turns.clear():
                answer.cancel()
            for helper in self._busy:
                # Its thread closes it.
                helper.kill_group()
        self._threads.shutdown()
        for helper in self._idle:
            helper.kill()
        self._idle.clear()

    async def _ask(self, program: Program, request: JsonObject, snapshot: bytes = b"") -> "_Answer":
        answer = Future[_Answer]()
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the interpreter is closed")
            work = partial(self._ask_helper, program, request, snapshot)
            self._turns.add(User(program.owner, program.family), (work, answer))
            # As many turns as requests; which request a turn is for is decided when a thread is free.
            self._threads.submit(self._take_turn)
        return await asyncio.wrap_future(answer)

    def _take_turn(self) -> None:
        with self._lock:
            if self._is_closed:
                return
            user, (work, answer) = self._turns.take()
        try:
            if answer.set_running_or_notify_cancel():
                answer.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised where the answer is awaited
            answer.set_exception(error)
        finally:
            with self._lock:
                self._turns.end(user)

    def _ask_helper(self, program: Program, request: JsonObject, snapshot: bytes) -> "_Answer":
        helper = self._take_idle() or self._start_helper()
        with self._lock:
            self._busy.add(helper)
            if self._is_closed:
                helper.kill_group()
        try:
            answer = helper.ask(request, snapshot, program.variables or b"", limits=program.limits)
        except BaseException:
            # It may be in the middle of an answer.
            self._put_back(helper, is_idle=False)
            helper.kill()
            raise
        self._put_back(helper)
        head, saved, variables = answer
        if "error" in head:
            message = str(head["message"])
            raise _ERRORS.get(str(head["error"]), RuntimeError)(message)
        return head, saved, variables

    def _take_idle(self) -> "HelperProcess | None":
        """Return a helper that lives; those that were killed meanwhile, perhaps all of them, are removed."""
        while True:
            with self._lock:
                if self._is_closed:
                    raise RuntimeError("the interpreter is closed")
                helper = self._idle.pop() if self._idle else None
            if helper is None or helper.process.poll() is None:
                return helper
            helper.kill()

    def _put_back(self, helper: "HelperProcess", *, is_idle: bool = True) -> None:
        with self._lock:
            self._busy.discard(helper)
            if is_idle:
                self._idle.append(helper)

    def _start_helper(self) -> "HelperProcess":
        return HelperProcess()


_Answer = tuple[JsonObject, bytes, bytes]
_Work = Callable[[], _Answer]
W = TypeVar("W")
U = TypeVar("U")


class User(NamedTuple):
    """The owner and the family of sessions that a request is for."""

    owner: str
    family: str


class Turns(Generic[W]):
    """Requests that wait for a helper: the owner that used helpers least is next.

    Of the families of one owner, it is the one that used helpers least; then the first to come. So an owner
    gains no turns by beginning sessions.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._waiting: dict[User, deque[tuple[int, W]]] = {}
        self._owners = InterpreterUsage[str](now_s)
        self._families = InterpreterUsage[User](now_s)
        self._last = 0

    def add(self, user: User, request: W) -> None:
        """Let a request wait."""
        self._last += 1
        self._waiting.setdefault(user, deque()).append((self._last, request))

    def take(self) -> tuple[User, W]:
        """Return the next request, and its user; it begins now."""
        owners = {user.owner: self._owners.cost_s(user.owner) for user in self._waiting}
        user = min(
            self._waiting,
            key=lambda user: (owners[user.owner], self._families.cost_s(user), self._waiting[user][0][0]),
        )
        queue = self._waiting[user]
        _, request = queue.popleft()
        if not queue:
            del self._waiting[user]
        self._owners.begin(user.owner)
        self._families.begin(user)
        return user, request

    def end(self, user: User) -> None:
        """Count the request of a user that began first."""
        self._owners.end(user.owner)
        self._families.end(user)

    def clear(self) -> list[W]:
        """Return all requests that wait, and forget them."""
        requests = [request for queue in self._waiting.values() for _, request in queue]
        self._waiting.clear()
        return requests


class InterpreterUsage(Generic[U]):
    """The time that users have spent in helpers.

    It counts half after `HALF_LIFE_S`, so that none waits for ever. A request that runs counts `BEGUN_S`
    until it ends: a user with many requests does not take all helpers at once.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._begun: dict[U, list[float]] = {}
        self._used: dict[U, tuple[float, float]] = {}
        """Seconds that a user spent, and when they were counted."""

    def begin(self, user: U) -> None:
        """Count a request that begins."""
        self._begun.setdefault(user, []).append(self._now_s())

    def end(self, user: U) -> None:
        """Count the request of a user that began first."""
        now_s, begun = self._now_s(), self._begun[user]
        took_s = now_s - begun.pop(0)
        if not begun:
            del self._begun[user]
        self._used[user] = self._cpu_s(user, now_s) + took_s, now_s
        if len(self._used) > USERS_MAX:
            # What is counted least makes the least difference.
            self._used.pop(min(self._used, key=lambda name: self._cpu_s(name, now_s)))

    def cost_s(self, user: U) -> float:
        """Return what a user has spent, as it counts now."""
        return self._cpu_s(user, self._now_s()) + BEGUN_S * len(self._begun.get(user, ()))

    def _cpu_s(self, user: U, now_s: float) -> float:
        used_s, at_s = self._used.get(user, (0.0, now_s))
        return used_s * 0.5 ** ((now_s - at_s) / HALF_LIFE_S)


class Crashed(Exception):
    """A process of the interpreter died."""


class Exceeded(Exception):
    """A helper was ended by a limit of time or memory."""


_ERRORS: Final = {error.__name__: error for error in (Crashed, Diverged, NoSnapshot, NoVariables)}


class HelperProcess:
    """One helper process; one thread at a time asks it."""

    def __init__(self) -> None:
        # It needs the modules of this process, the program of Monty, and none of the variables with secrets.
        names = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "MONTY_BIN")
        environment = {name: os.environ[name] for name in names if name in os.environ}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        self._socket, its_socket = socket.socketpair()
        with its_socket:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "windlass.code_mode.monty_helper"],
                stdin=its_socket.fileno(),
                stdout=its_socket.fileno(),
                stderr=subprocess.DEVNULL,
                env=environment,
                # Ctrl-C in a terminal is for this process alone; a kill reaches the worker of Monty, too.
                start_new_session=True,
            )
        self._requests = self._socket.makefile("wb")
        self._answers = self._socket.makefile("rb")

    def ask(
        self, request: JsonObject, snapshot: bytes, variables: bytes, *, limits: ProgramLimits
    ) -> _Answer:
        """Return the answer to a request; a helper that is stuck is killed.

        Raises:
            Exceeded: the request took too much time or memory.
            Crashed: the process ended otherwise.
        """
        # Each wait is limited: for room to write, and for the next part of the answer.
        self._socket.settimeout(_time_limit_s(request, limits))
        try:
            write_frame(self._requests, request, snapshot, variables)
            frame = read_frame(self._answers, _answer_bytes_max(limits))
        except TimeoutError:
            self.kill_group()
            raise Exceeded from None
        except ConnectionError:
            frame = None
        if frame is None:
            raise self._death()
        head, saved, variables_after = frame
        return from_json(head), saved, variables_after

    def kill(self) -> None:
        """End the process and the worker of Monty that it has started."""
        self.kill_group()
        self.process.wait()
        for file in (self._requests, self._answers, self._socket):
            with suppress(ConnectionError, TimeoutError):
                file.close()

    def kill_group(self) -> None:
        """End it while another thread asks it, which gets `Crashed`."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def _death(self) -> Exception:
        status = self.process.wait()
        if status in (-signal.SIGPROF, MEMORY_EXIT):
            return Exceeded()
        return Crashed(f"exit status {status}")


def _time_limit_s(request: JsonObject, limits: ProgramLimits) -> float:
    """Return how long a request may take; the program has a turn after each outcome of a call."""
    outcomes = cast(list[JsonValue], request.get("outcomes", []))
    turns_ms = limits.turn_ms * (1 + len(outcomes)) * _TURN_SECONDS_PER_CPU_SECOND
    return min(turns_ms, limits.total_ms * _SECONDS_PER_CPU_SECOND) / 1_000


def _answer_bytes_max(limits: ProgramLimits) -> int:
    chars = limits.value_chars + limits.printed_chars
    return chars * _JSON_BYTES_PER_CHAR_MAX + 2 * limits.memory_bytes + _HEAD_BYTES


def _progress(answer: JsonObject, snapshot: bytes, variables: bytes) -> Progress:
    fields: Any = answer
    calls = tuple(ProgramCall(name, tuple(values), keywords) for name, values, keywords in fields["calls"])
    printed = fields["printed"]
    if fields["isOpen"]:
        return Progress(calls, printed, snapshot, None)
    if "fault" in fields:
        return Progress(calls, printed, None, ProgramFault(fields["fault"]))
    return Progress(calls, printed, None, ProgramValue(fields["value"]), variables or None)


def _installed_version() -> str:
    try:
        return metadata.version("pydantic-monty")
    except metadata.PackageNotFoundError:
        pass
    raise Rejected(
        f"code mode and workflows need the package pydantic-monty: {install_hint('code')}",
        kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
    )
