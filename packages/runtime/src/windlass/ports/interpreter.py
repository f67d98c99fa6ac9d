"""The port of interpreters: they run programs of models, which can do nothing but make calls."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, field
from datetime import datetime
from typing import Final, Protocol

from pydantic import JsonValue

from windlass_protocol import JsonObject
from windlass_protocol.frozen import sealed

FIRST_CALL: Final = "call"
"""The id of the call that runs a function of the application for the first time in a run."""


@sealed
class ProgramLimits:
    """Limits of a program; one that exceeds them fails, but for text that it prints, which is cut."""

    memory_bytes: int
    turn_ms: int
    """CPU time between two waits for calls."""
    total_ms: int
    """CPU time since the program was begun, or loaded."""
    printed_chars: int
    value_chars: int
    """Characters of its value, and of the arguments that it passes between two waits, as JSON."""


@sealed
class Program:
    """Source code with all that its run depends on: equal programs run alike."""

    source: str
    _: KW_ONLY
    functions: tuple[str, ...]
    """Names of the functions that it may call."""
    stubs: str
    """Their signatures, as Python source."""
    at: datetime
    """The time that its clock shows."""
    seed: str
    """The seed of its random numbers."""
    limits: ProgramLimits
    variables: bytes | None = None
    """What it begins with: `Progress.variables` of an earlier program."""
    keeps_variables: bool = False
    """Whether later programs may begin with its variables."""
    owner: str = ""
    """The owner of the sessions that it runs for, empty without one: owners share an interpreter fairly."""
    family: str = ""
    """The id of the first of the sessions that it runs for: families of an owner share their turns fairly."""


@sealed
class ProgramCall:
    """A call that a program has made."""

    name: str
    positional: tuple[JsonValue, ...] = ()
    named: JsonObject = field(default_factory=dict[str, JsonValue])


@sealed
class ProgramStart:
    """What a function of the application is run with; equal starts and outcomes make it go the same way."""

    arguments: JsonObject
    _: KW_ONLY
    at: datetime
    """The time of its clock when it begins."""
    seed: str
    """The seed of its random numbers."""
    run_id: str
    session_id: str
    owner: str | None = None
    deps: object = field(default=None, repr=False, compare=False)
    recorded: tuple[tuple[str, JsonValue], ...] = ()
    """The tools and the arguments of the calls that it made before, which it must make again."""
    mask: Callable[[JsonValue], JsonValue] = field(default=lambda value: value, repr=False, compare=False)
    """Masks secrets in arguments, as records have them."""


class ProgramFunctions(Protocol):
    """The functions that a program may call, and the tools behind them."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the functions."""
        ...

    @property
    def stubs(self) -> str:
        """Their signatures, as Python source."""
        ...

    def call(self, call: ProgramCall) -> tuple[str, JsonObject]:
        """Return the tool and the arguments of a call."""
        ...


@sealed
class CallValue:
    """The result of a call."""

    value: JsonValue


@sealed
class CallError:
    """The failure of a call, raised in the program."""

    type_name: str
    """The name of a built-in exception."""
    message: str


CallOutcome = CallValue | CallError
CallBody = Callable[[], Awaitable[JsonValue]]
"""Performs a call with what the function that made it holds in memory; its result is that of the call."""


@sealed
class ProgramValue:
    """The value of the last expression of a program."""

    value: JsonValue


@sealed
class ProgramFault:
    """The error that ended a program, with a short traceback."""

    message: str


@sealed
class Progress:
    """How far a program has come."""

    calls: tuple[ProgramCall, ...]
    """Calls that it made since its source or its snapshot was loaded, in order."""
    printed: str
    """Text that it printed since then."""
    snapshot: bytes | None
    """Its state, if it waits for calls."""
    end: ProgramValue | ProgramFault | None
    """None while it waits for calls."""
    variables: bytes | None = None
    """Its variables, if it ended with a value and keeps them."""
    cancelled: tuple[int, ...] = ()
    """Numbers of its timers that it does not wait for any more."""


@sealed
class RecordedOutcome:
    """The result of a call, with the time of its record."""

    number: int
    """The number of the call, counted from the beginning of the program."""
    outcome: CallOutcome
    at: datetime


class LiveProgram(Protocol):
    """A function of the application that runs in this process, and stays in memory while it waits."""

    taken: int
    """Outcomes that it has taken."""

    def body_of(self, number: int) -> CallBody | None:
        """Return what performs a call of it that has no outcome; None if the tool of the call does."""
        ...

    async def run(self, outcomes: Sequence[RecordedOutcome]) -> Progress:
        """Run it until it waits for a call without an outcome, or ends."""
        ...

    def close(self) -> None:
        """Remove it from memory. Its `finally` blocks run, and calls in them are refused."""
        ...


class LiveFunctions(ProgramFunctions, Protocol):
    """The functions of a program that is a function of the application."""

    is_replayed: bool
    """Whether it is run from its start whenever it has something to do, for tests."""

    @property
    def version(self) -> str:
        """Name and version of the function."""
        ...

    def begin(self, start: ProgramStart) -> LiveProgram:
        """Return the function, ready to run from its start."""
        ...


class Diverged(Exception):
    """A program did not go the way that the given outcomes belong to."""


class NoSnapshot(Exception):
    """A snapshot cannot be loaded: run the program from its source."""


class NoVariables(Exception):
    """Variables of an earlier program cannot be loaded."""


class Interpreter(Protocol):
    """Runs programs. A program has no access to files, network, clock or environment."""

    @property
    def version(self) -> str:
        """Name and version; a snapshot is only valid for the same one."""
        ...

    async def check(self, program: Program) -> str | None:
        """Return why a program cannot run: syntax, unknown names, wrong types; None if it can."""
        ...

    async def run(
        self,
        program: Program,
        outcomes: Sequence[tuple[int, CallOutcome]],
        *,
        snapshot: bytes | None = None,
    ) -> Progress:
        """Run a program until it waits for a call without an outcome, or ends.

        It takes the outcomes one by one. Each has the number of its call, counted from the beginning of the
        program. With a snapshot it continues from there.

        Raises:
            Diverged: an outcome is not of a call that the program waits for.
            NoSnapshot: the snapshot is not one of this version.
            NoVariables: the variables that it begins with are not of this version.
        """
        ...

    async def aclose(self) -> None:
        """Release all resources."""
        ...
