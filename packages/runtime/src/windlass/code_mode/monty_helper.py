"""The helper process of programs: the client of Monty, and values of programs as JSON.

Monty runs a program in a worker process, but its client makes Python objects of the values of the program.
That may take for ever: a dictionary hashes its keys, and tuples of one another cost a program 40 steps and
their hash 2**40. So the client is here, in a process that is killed without loss, and all that leaves this
process is JSON of a bounded size, and dumps.

`windlass.code_mode.monty` starts it as `python -m windlass.code_mode.monty_helper`. Requests and answers are
frames on its stdin and stdout, which are one socket: a JSON object, a snapshot and variables. The kernel
enforces its limits: a timer of CPU time that ends the process by a signal, and `RLIMIT_AS`.
"""

import math
import os
import re
import resource
import signal
import struct
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import IO, Any, Final, cast

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from windlass.ports.interpreter import (
    CallError,
    CallOutcome,
    CallValue,
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
from windlass_protocol import JsonObject
from windlass_protocol.limits import FREE_LEVELS_MAX

_BUILTIN_STUBS: Final = """
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
_FAULT_CHARS_MAX: Final = 4_000
_PART_CHARS_MIN: Final = 16
"""The least number of characters that a part of a value counts."""
_DECIMAL_BITS_MAX: Final = 10_000
"""Size of an integer that is written in decimals: Python refuses those of thousands of digits."""
_INPUT: Final = re.compile(r"<python-input-\d+>")
"""Monty's name of a source in tracebacks; a session has several."""
_BEGIN: Final = "windlass_begin"
_LINE: Final = re.compile(r"(program\.py:|line )(\d+)")
_SUSPENSIONS_MAX: Final = 100_000
"""The loop limits calls; Monty also counts lookups of names."""
_CALLS_MAX: Final = 10_000
"""Calls of a program in one request; the loop allows fewer, and says so to the model."""
HELPER_MEMORY_BYTES_MAX: Final = 1 << 30
"""Address space of a helper, and of the worker of Monty that it starts."""
MEMORY_EXIT: Final = 77
"""Exit status of a helper that ran out of memory."""
TOO_MUCH: Final = "The program used too much time or memory."
_TICK_S: Final = 0.001
"""The timer cannot be set to no time at all."""
_SIZES: Final = struct.Struct("<QQQ")


class Helper:
    """Serves requests one after the other; the worker process of Monty starts with the first one."""

    def __init__(self, monty: Any) -> None:
        self._monty = monty
        self._pool: Any = None

    def answer(self, head: JsonObject, snapshot: bytes, variables: bytes) -> tuple[JsonObject, bytes, bytes]:
        """Return the answer to a request: an object, a snapshot and variables."""
        program = _read_program(head, variables)
        allowance = Allowance(program.limits)
        allowance.renew()
        try:
            if head["task"] == "check":
                return {"finding": self.check(program)}, b"", b""
            outcomes = [_read_outcome(fields) for fields in cast(list[list[JsonValue]], head["outcomes"])]
            progress = self.run(program, outcomes, snapshot or None, allowance)
        except (Diverged, NoSnapshot, NoVariables) as error:
            return {"error": type(error).__name__, "message": _short(str(error))}, b"", b""
        except self._monty.MontyCrashedError as error:
            return {"error": "Crashed", "message": _short(str(error))}, b"", b""
        except (self._monty.MontyError, OSError, RuntimeError) as error:
            # The runtime logs it, so it may not have a value of the program.
            message = str(error) if isinstance(error, OSError) else ""
            return {"error": "Failed", "message": f"{type(error).__name__} {message}".strip()}, b"", b""
        finally:
            allowance.end()
        answer: JsonObject = {
            "calls": [[call.name, [*call.positional], call.named] for call in progress.calls],
            "printed": progress.printed,
            "isOpen": progress.end is None,
        }
        match progress.end:
            case ProgramValue(value):
                answer["value"] = value
            case ProgramFault(message):
                answer["fault"] = message
            case None:
                pass
        return answer, progress.snapshot or b"", progress.variables or b""

    def check(self, program: Program) -> str | None:
        """Return the findings of the parser and of the type checker; nothing is run."""
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

    def run(
        self,
        program: Program,
        outcomes: Sequence[tuple[int, CallOutcome]],
        snapshot: bytes | None,
        allowance: "Allowance",
    ) -> Progress:
        """Run a program; see `Interpreter.run`."""
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
                    turn.numbers = _read_numbers(head)
                    state = self._load(session, dump, printed)
                state = turn.go(state)
                for number, outcome in outcomes:
                    allowance.renew()
                    state = turn.give(state, number, outcome)
                if isinstance(state, monty.MontyComplete):
                    end = ProgramValue(turn.plain(state.output))
                    variables = session.dump() if program.keeps_variables else None
                    return Progress(tuple(turn.calls), printed.text, None, end, variables)
                saved = to_json(turn.numbers) + b"\n" + state.dump()
                return Progress(tuple(turn.calls), printed.text, saved, None)
            except monty.MontyCrashedError as error:
                if not error.timed_out:
                    raise
                message = TOO_MUCH
            except TooLarge as error:
                message = str(error)
            except (monty.MontyRuntimeError, monty.MontySyntaxError, monty.MontyTypingError) as error:
                message = _INPUT.sub("program.py", error.display())
            except (TypeError, ValueError, OverflowError, RecursionError) as error:
                # Monty's client made no Python object of a value, such as a dictionary with an odd key.
                message = f"A value of the program has no JSON form: {type(error).__name__}: {error}"
        return Progress(tuple(turn.calls), printed.text, None, ProgramFault(_short(message)))

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
        if self._pool is None:
            pool = self._monty.Monty(max_processes=1)
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
            type_check_stubs=f"{program.stubs}{_BUILTIN_STUBS}" if is_checked else None,
            type_check_format="concise",
            os_policy={
                # A session that is loaded has the policy that it was dumped with, and so an old time.
                "datetime": "call_host" if program.keeps_variables else program.at,
                "sleep": "zero",
                "random_start": {"seed": program.seed},
            },
        )


class Allowance:
    """CPU time that this process may use for a request; the kernel ends it after that, by `SIGPROF`."""

    def __init__(self, limits: ProgramLimits) -> None:
        self._turn_s = limits.turn_ms / 1_000
        self._end_s = time.process_time() + limits.total_ms / 1_000

    def renew(self) -> None:
        """Allow the time of a turn, as far as the time of the request is left."""
        left_s = self._end_s - time.process_time()
        signal.setitimer(signal.ITIMER_PROF, max(min(self._turn_s, left_s), _TICK_S))

    def end(self) -> None:
        """Stop counting."""
        signal.setitimer(signal.ITIMER_PROF, 0)


def write_frame(stream: IO[bytes], head: JsonObject, snapshot: bytes, variables: bytes) -> None:
    """Write a request or an answer."""
    parts = (to_json(head), snapshot, variables)
    stream.write(_SIZES.pack(*map(len, parts)))
    stream.writelines(parts)
    stream.flush()


def read_frame(stream: IO[bytes], bytes_max: int) -> tuple[bytes, bytes, bytes] | None:
    """Return the object of a frame as JSON, its snapshot and its variables; None if the other side has ended.

    Raises:
        ValueError: it has over `bytes_max` bytes.
    """
    sizes = stream.read(_SIZES.size)
    if len(sizes) < _SIZES.size:
        return None
    lengths = _SIZES.unpack(sizes)
    if sum(lengths) > bytes_max:
        raise ValueError(f"the frame has {sum(lengths):,} bytes, limit {bytes_max:,}")
    head, snapshot, variables = (stream.read(length) for length in lengths)
    return (head, snapshot, variables) if len(variables) == lengths[2] else None


def program_fields(program: Program) -> JsonObject:
    """Return a program as it is sent to a helper; its variables go beside it."""
    limits = program.limits
    return {
        "source": program.source,
        "functions": [*program.functions],
        "stubs": program.stubs,
        "at": program.at.isoformat(),
        "seed": program.seed,
        "keeps_variables": program.keeps_variables,
        "limits": {name: getattr(limits, name) for name in limits.__dataclass_fields__},
    }


def _read_program(head: JsonObject, variables: bytes) -> Program:
    fields: Any = head["program"]
    return Program(
        fields["source"],
        functions=tuple(fields["functions"]),
        stubs=fields["stubs"],
        at=datetime.fromisoformat(fields["at"]),
        seed=fields["seed"],
        limits=ProgramLimits(**fields["limits"]),
        variables=variables or None,
        keeps_variables=fields["keeps_variables"],
    )


def _read_numbers(head: bytes) -> list[int]:
    try:
        return [int(number) for number in from_json(head)]
    except (TypeError, ValueError) as error:
        raise NoSnapshot("it does not begin with the numbers of its calls") from error


def outcome_fields(number: int, outcome: CallOutcome) -> list[JsonValue]:
    """Return the outcome of a call as it is sent to a helper."""
    if isinstance(outcome, CallError):
        return [number, outcome.message, outcome.type_name]
    return [number, outcome.value]


def _read_outcome(fields: list[JsonValue]) -> tuple[int, CallOutcome]:
    match fields:
        case [int(number), str(message), str(type_name)]:
            return number, CallError(type_name, message)
        case [int(number), value]:
            return number, CallValue(value)
        case _:
            raise ValueError("an outcome is a number, a value or a message, and the name of an exception")


def main() -> None:
    """Serve requests until stdin ends."""
    import pydantic_monty  # noqa: PLC0415 - the module is also imported by the runtime, which has no use for it

    resource.setrlimit(resource.RLIMIT_AS, (HELPER_MEMORY_BYTES_MAX, HELPER_MEMORY_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # A library that prints must not write into a frame.
    os.dup2(2, 1)
    helper = Helper(pydantic_monty)
    try:
        while (frame := read_frame(requests, sys.maxsize)) is not None:
            head, snapshot, variables = frame
            write_frame(answers, *helper.answer(from_json(head), snapshot, variables))
    except MemoryError:
        os._exit(MEMORY_EXIT)
    except ConnectionError:
        # The runtime has ended.
        os._exit(0)


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
                message = f"name {state.function_name!r} is not defined"
                state = state.resume({"exc_type": "NameError", "message": message})
            else:
                if len(self.calls) == _CALLS_MAX:
                    raise TooLarge(f"The program made over {_CALLS_MAX:,} calls. Make fewer in one program.")
                keywords = {self.plain.text(name): self.plain(value) for name, value in state.kwargs.items()}
                values = tuple(self.plain(value) for value in state.args)
                self.numbers.append(state.call_id)
                self.calls.append(ProgramCall(str(state.function_name), values, keywords))
                state = state.resume({"future": ...})

    def _ask_host(self, state: Any) -> Any:
        """Answer a call of the operating system: all but the clock are refused."""
        match state.function_name:
            case "datetime.now":
                (zone,) = state.args
                local_time = self._at.replace(tzinfo=None) if zone is None else self._at.astimezone(zone)
                return state.resume({"return_value": local_time})
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
        result: dict[str, object] = (
            {"exc_type": outcome.type_name, "message": outcome.message}
            if isinstance(outcome, CallError)
            else {"return_value": outcome.value}
        )
        return self.go(state.resume({self.numbers[number]: result}))


def _function(name: str) -> Callable[[], None]:
    def call() -> None: ...

    call.__name__ = name
    return call


def _line_before(line: "re.Match[str]") -> str:
    return f"{line[1]}{max(1, int(line[2]) - 1)}"


class TooLarge(Exception):
    """A program passes more than is allowed; the message is for the model."""


class Plain:
    """Values of a program as JSON; text stands for what has no JSON form.

    A value may contain another one many times, which costs the program little and its JSON much: so all
    values between two waits share a number of characters. An empty part counts as well.
    """

    def __init__(self, chars_max: int) -> None:
        self._left = self._chars_max = chars_max

    def __call__(self, value: object, depth: int = 0) -> JsonValue:
        """Return a value as JSON.

        Raises:
            TooLarge: it has too many characters.
        """
        match value:
            case str():
                return self.text(value)
            case bytes():
                self._count(len(value))
                return str(value)
            case int() if not -(2**53) < value < 2**53:
                return self.text(_digits(value))
            case float() if not math.isfinite(value):
                return self.text(str(value))
            case None | bool() | int() | float():
                self._count(0)
                return value
            case dict() | list() | tuple() | set() | frozenset() if depth >= FREE_LEVELS_MAX:
                return self.text("…")
            case dict():
                self._count(0)
                pairs = cast(dict[object, object], value).items()
                return {self._key(key, depth): self(item, depth + 1) for key, item in pairs}
            case list() | tuple() | set() | frozenset():
                self._count(0)
                return [self(item, depth + 1) for item in cast(list[object], value)]
            case _:
                # An object of a class of the program is shown by its attributes.
                fields: object = getattr(value, "attributes", None)
                return self.text(str(value)) if fields is None else self(fields, depth + 1)

    def _key(self, key: object, depth: int) -> str:
        plain = self(key, depth + 1)
        return plain if isinstance(plain, str) else str(plain)

    def text(self, text: str) -> str:
        """Return a text, which counts like a value."""
        self._count(len(text))
        return text

    def _count(self, chars: int) -> None:
        self._left -= max(chars, _PART_CHARS_MIN)
        if self._left < 0:
            raise TooLarge(f"A value of the program is too large: over {self._chars_max:,} characters.")


def _digits(number: int) -> str:
    return str(number) if number.bit_length() < _DECIMAL_BITS_MAX else hex(number)


class _Printed:
    """The text that a program prints, up to a limit."""

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
    # A long line of source may be in the middle: its number is before it, and the error after it.
    half = _FAULT_CHARS_MAX // 2
    return text if len(text) <= _FAULT_CHARS_MAX else f"{text[:half]}…{text[1 - half :]}"


if __name__ == "__main__":
    main()
