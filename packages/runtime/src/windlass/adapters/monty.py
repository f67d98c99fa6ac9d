"""Programs in Monty, a Python interpreter without access to the machine; each runs in a worker process.

The package `pydantic-monty` is part of the extra `code`. A snapshot is a line of JSON, the numbers that Monty
has for the calls, and the dump of the worker.
"""

import asyncio
import math
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any, Final, ParamSpec, TypeVar, cast

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from windlass.errors import Rejected, install_hint
from windlass.ports.interpreter import (
    CallError,
    CallOutcome,
    Diverged,
    NoSnapshot,
    NoVariables,
    Program,
    ProgramCall,
    ProgramFault,
    ProgramValue,
    Progress,
)
from windlass_protocol import ErrorKind, RetryClass
from windlass_protocol.lazy import lazy_pattern

_MORE: Final = """
from typing import Any
class PermissionError(OSError): ...
class FileNotFoundError(OSError): ...
def map(function: Any, *items: Any) -> Any: ...
def filter(function: Any, items: Any) -> Any: ...
def getattr(of: object, name: str, default: Any = ...) -> Any: ...
def hasattr(of: object, name: str) -> bool: ...
def format(value: object, spec: str = ...) -> str: ...
"""
"""Builtins that Monty has and its type checker does not know."""
P = ParamSpec("P")
R = TypeVar("R")
_FAULT_CHARS_MAX: Final = 4_000
_DEPTH_MAX: Final = 100
"""Levels of a value; records and arguments have room for fewer."""
_PART_CHARS_MIN: Final = 16
"""What a part of a value counts at least."""
_DECIMAL_BITS_MAX: Final = 10_000
"""Size of an integer that is written in decimals: Python refuses those of thousands of digits."""
_INPUT: Final = lazy_pattern(r"<python-input-\d+>")
"""Monty's name of a source in tracebacks; a session has several."""
_BEGIN: Final = "windlass_begin"
_LINE: Final = lazy_pattern(r"(program\.py:|line )(\d+)")
_SUSPENSIONS_MAX: Final = 100_000
"""The loop limits calls; Monty also counts lookups of names."""


def _monty() -> Any:
    try:
        import pydantic_monty  # noqa: PLC0415 - an optional dependency
    except ImportError:
        pass
    else:
        return pydantic_monty
    raise Rejected(
        f"code mode and workflows need the package pydantic-monty: {install_hint('code')}",
        kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
    )


class MontyInterpreter:
    """Runs programs in worker processes of Monty; they start with the first program.

    The synchronous client is called in threads: the asynchronous one of Monty 1.4 sometimes aborts the
    process when that exits.
    """

    def __init__(self) -> None:
        self._monty = _monty()
        self._threads = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="windlass-monty")
        self._opening = Lock()
        self._pool: Any = None
        self._is_closed = False

    @property
    def version(self) -> str:
        """Name and version."""
        return f"monty/{self._monty.__version__}"

    async def check(self, program: Program) -> str | None:
        """Return the findings of the parser and of the type checker; nothing is run."""
        return await self._in_thread(self._check, program)

    async def run(
        self,
        program: Program,
        outcomes: Sequence[tuple[int, CallOutcome]],
        *,
        snapshot: bytes | None = None,
    ) -> Progress:
        """Run a program; see `Interpreter.run`.

        A worker that dies, as by a kill from outside, is replaced once: a program has no effects here.
        """
        try:
            return await self._in_thread(self._run, program, outcomes, snapshot)
        except self._monty.MontyCrashedError:
            pass
        try:
            return await self._in_thread(self._run, program, outcomes, snapshot)
        except self._monty.MontyCrashedError as error:
            return Progress((), "", None, ProgramFault(_short(f"The program ended its interpreter: {error}")))

    async def aclose(self) -> None:
        """End the worker processes, after the programs that run now."""
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        self._threads.shutdown()
        with self._opening:
            pool, self._pool, self._is_closed = self._pool, None, True
        if pool is not None:
            pool.__exit__(None, None, None)

    async def _in_thread(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        work = partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _check(self, program: Program) -> str | None:
        monty, stubs = self._monty, f"{program.stubs}\ndef {_BEGIN}() -> None: ...\n"
        with self._checkout(replace(program, stubs=stubs), is_checked=True) as session:
            try:
                # The program waits in its first line, before it has done anything.
                state = session.feed_start(f"{_BEGIN}()\n{program.source}")
                while isinstance(state, monty.FunctionSnapshot) and state.is_os_function:
                    # The type checker looks for a module.
                    state = state.resume_not_handled()
            except (monty.MontyTypingError, monty.MontySyntaxError) as error:
                return _short(_LINE.sub(_line_before, error.display()))
            except monty.MontyError:
                # The run will say so.
                return None
        return None

    def _run(
        self, program: Program, outcomes: Sequence[tuple[int, CallOutcome]], snapshot: bytes | None
    ) -> Progress:
        monty = self._monty
        printed = _Printed(program.limits.printed_chars)
        with self._checkout(program) as session:
            turn = _Turn(monty, program)
            try:
                if snapshot is None:
                    self._load_variables(session, program.variables)
                    state = session.feed_start(program.source, print_callback=printed)
                else:
                    head, _, dump = snapshot.partition(b"\n")
                    turn.numbers = list(from_json(head))
                    state = self._load(session, dump, printed)
                state = turn.go(state)
                for number, outcome in outcomes:
                    state = turn.give(state, number, outcome)
                if isinstance(state, monty.MontyComplete):
                    end = ProgramValue(turn.plain(state.output))
                    kept = session.dump() if program.keeps_variables else None
                    return Progress(tuple(turn.calls), printed.text, None, end, kept)
                saved = to_json(turn.numbers) + b"\n" + state.dump()
                return Progress(tuple(turn.calls), printed.text, saved, None)
            except monty.MontyCrashedError as error:
                if not error.timed_out:
                    raise
                told = "The program used too much time or memory."
            except TooLarge:
                told = f"A value of the program is too large: over {program.limits.value_chars:,} characters."
            except (monty.MontyRuntimeError, monty.MontySyntaxError, monty.MontyTypingError) as error:
                told = _INPUT.sub("program.py", error.display())
        return Progress(tuple(turn.calls), printed.text, None, ProgramFault(_short(told)))

    def _load_variables(self, session: Any, variables: bytes | None) -> None:
        if variables is None:
            return
        try:
            session.load_session(variables)
        except (self._monty.MontyError, ValueError, RuntimeError) as error:
            raise NoVariables(str(error)) from error

    def _load(self, session: Any, dump: bytes, printed: object) -> object:
        try:
            return session.load_snapshot(dump, print_callback=printed)
        except (self._monty.MontyError, ValueError, RuntimeError) as error:
            raise NoSnapshot(str(error)) from error

    def _checkout(self, program: Program, *, is_checked: bool = False) -> Any:
        with self._opening:
            if self._is_closed:
                raise RuntimeError("the interpreter is closed")
            if self._pool is None:
                pool = self._monty.Monty()
                pool.__enter__()
                self._pool = pool
        limits = program.limits
        return self._pool.checkout(
            script_name="program.py",
            limits={
                "max_memory": limits.memory_bytes,
                "max_turn_duration_secs": limits.turn_ms / 1_000,
                "max_feed_duration_secs": limits.total_ms / 1_000,
                "max_suspensions": _SUSPENSIONS_MAX,
            },
            type_check=is_checked,
            type_check_stubs=f"{program.stubs}{_MORE}" if is_checked else None,
            type_check_format="concise",
            os_policy={
                # A session that is loaded has the policy that it was dumped with, and so an old time.
                "datetime": "call_host" if program.keeps_variables else program.at,
                "sleep": "zero",
                "random_start": {"seed": program.seed},
            },
        )


class _Turn:
    """One run of a program, between two waits."""

    def __init__(self, monty: Any, program: Program) -> None:
        self._monty = monty
        self._at = program.at
        self._value_chars = program.limits.value_chars
        self.plain = Plain(self._value_chars)
        self._functions = frozenset(program.functions)
        self.numbers: list[int] = []
        """Monty's number of each call of the program."""
        self.calls: list[ProgramCall] = []

    def go(self, state: Any) -> Any:
        """Continue until the program waits for calls, or ends."""
        monty = self._monty
        while True:
            if isinstance(state, monty.NameLookupSnapshot):
                state = self._look_up(state)
            elif not isinstance(state, monty.FunctionSnapshot):
                return state
            elif state.is_os_function:
                state = self._ask_host(state)
            elif state.function_name not in self._functions:
                told = f"name {state.function_name!r} is not defined"
                state = state.resume({"exc_type": "NameError", "message": told})
            else:
                named = {str(name): self.plain(value) for name, value in state.kwargs.items()}
                values = tuple(self.plain(value) for value in state.args)
                self.numbers.append(state.call_id)
                self.calls.append(ProgramCall(str(state.function_name), values, named))
                state = state.resume({"future": ...})

    def _ask_host(self, state: Any) -> Any:
        """Answer a call of the operating system: all but the clock are refused."""
        match state.function_name:
            case "datetime.now":
                (zone,) = state.args
                shown = self._at.replace(tzinfo=None) if zone is None else self._at.astimezone(zone)
                return state.resume({"return_value": shown})
            case "date.today":
                return state.resume({"return_value": self._at.date()})
            case "time.time":
                return state.resume({"return_value": self._at.timestamp()})
            case _:
                return state.resume_not_handled()

    def _look_up(self, state: Any) -> Any:
        name = state.variable_name
        if state.object_id is None and name in self._functions:
            return state.resume(value=_function(name))
        return state.resume()

    def give(self, state: Any, number: int, outcome: CallOutcome) -> Any:
        """Give the program the outcome of a call, and continue."""
        if isinstance(state, self._monty.MontyComplete):
            # It ended without awaiting this call.
            return state
        if number >= len(self.numbers) or self.numbers[number] not in state.pending_call_ids:
            raise Diverged(f"the program does not wait for call {number}")
        self.plain = Plain(self._value_chars)
        given: dict[str, object] = (
            {"exc_type": outcome.type_name, "message": outcome.message}
            if isinstance(outcome, CallError)
            else {"return_value": outcome.value}
        )
        return self.go(state.resume({self.numbers[number]: given}))


def _function(name: str) -> Callable[[], None]:
    def call() -> None: ...

    call.__name__ = name
    return call


def _line_before(found: "re.Match[str]") -> str:
    return f"{found[1]}{max(1, int(found[2]) - 1)}"


class TooLarge(Exception):
    """A value has more characters than are allowed."""


class Plain:
    """Values of a program as JSON; text stands for what has no JSON form.

    A value may contain another one many times, which costs the program little and its JSON much: so all
    values between two waits share a number of characters. An empty part counts as well.
    """

    def __init__(self, chars_max: int) -> None:
        self._left = chars_max

    def __call__(self, value: object, depth: int = 0) -> JsonValue:
        """Return a value as JSON.

        Raises:
            TooLarge: it has too many characters.
        """
        match value:
            case str():
                return self._text(value)
            case bytes():
                self._count(len(value))
                return str(value)
            case int() if not -(2**53) < value < 2**53:
                return self._text(_digits(value))
            case float() if not math.isfinite(value):
                return self._text(str(value))
            case None | bool() | int() | float():
                self._count(0)
                return value
            case dict() | list() | tuple() | set() | frozenset() if depth >= _DEPTH_MAX:
                return self._text("…")
            case dict():
                self._count(0)
                pairs = cast(dict[object, object], value).items()
                return {self._key(key, depth): self(one, depth + 1) for key, one in pairs}
            case list() | tuple() | set() | frozenset():
                self._count(0)
                return [self(one, depth + 1) for one in cast(list[object], value)]
            case _:
                # An object of a class of the program is shown by its attributes.
                fields: object = getattr(value, "attributes", None)
                return self._text(str(value)) if fields is None else self(fields, depth + 1)

    def _key(self, key: object, depth: int) -> str:
        plain = self(key, depth + 1)
        return plain if isinstance(plain, str) else str(plain)

    def _text(self, text: str) -> str:
        self._count(len(text))
        return text

    def _count(self, chars: int) -> None:
        self._left -= max(chars, _PART_CHARS_MIN)
        if self._left < 0:
            raise TooLarge


def _digits(number: int) -> str:
    return str(number) if number.bit_length() < _DECIMAL_BITS_MAX else hex(number)


class _Printed:
    """The beginning of what a program prints."""

    def __init__(self, chars_max: int) -> None:
        self._left = chars_max
        self._parts: list[str] = []

    def __call__(self, _: str, text: str) -> None:
        if self._left > 0:
            self._parts.append(text[: self._left])
            self._left -= len(text)

    @property
    def text(self) -> str:
        return "".join(self._parts)


def _short(text: str) -> str:
    # A long line of source may be in the middle: the place is before it, and the error after it.
    half = _FAULT_CHARS_MAX // 2
    return text if len(text) <= _FAULT_CHARS_MAX else f"{text[:half]}…{text[1 - half :]}"
