"""An interpreter for tests: a program is JSON, a list of waves of calls.

    [[["look", {"item": "a"}], ["look", {"item": "b"}]], [["put", {"item": "c"}]]]

The calls of a wave are made at once; the next wave follows when all of them have outcomes. A call that fails
ends the program after its wave. The value is the list of all results.
"""

from collections.abc import Sequence
from typing import Final

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from windlass.ports.interpreter import (
    CallError,
    CallOutcome,
    CallValue,
    Diverged,
    NoSnapshot,
    Program,
    ProgramCall,
    ProgramFault,
    ProgramValue,
    Progress,
)
from windlass_protocol import JsonObject

_NAME: Final = "waves/"


def waves(*calls: Sequence[tuple[str, JsonObject]]) -> str:
    """Return the source of a program: waves of calls, each with a function and its arguments."""
    return to_json([[[name, arguments] for name, arguments in wave] for wave in calls]).decode()


class WaveInterpreter:
    """Runs programs of waves; see the module. `release` is part of its version."""

    def __init__(self, release: str = "1") -> None:
        self._release = release

    @property
    def version(self) -> str:
        """Name and version."""
        return f"{_NAME}{self._release}"

    async def check(self, program: Program) -> str | None:
        """Return the unknown functions of a program."""
        unknown = {call.name for wave in _read(program.source) for call in wave} - set(program.functions)
        return f"unknown: {', '.join(sorted(unknown))}" if unknown else None

    async def run(
        self,
        program: Program,
        outcomes: Sequence[tuple[int, CallOutcome]],
        *,
        snapshot: bytes | None = None,
    ) -> Progress:
        """Run a program; see `Interpreter.run`."""
        plan = _read(program.source)
        results: dict[int, JsonValue] = {}
        errors: list[str] = []
        call_count = 0
        if snapshot is not None:
            try:
                release, call_count, pairs, errors = from_json(snapshot)
            except ValueError as error:
                raise NoSnapshot(str(error)) from error
            if release != self._release:
                raise NoSnapshot(f"it is of release {release}")
            results = {int(number): value for number, value in pairs}
        calls: list[ProgramCall] = []
        left = list(outcomes)
        while True:
            if len(results) == call_count:
                wave = _after(plan, call_count) if not errors else None
                if wave is None:
                    break
                calls += wave
                call_count += len(wave)
                continue
            if not left:
                state = to_json([self._release, call_count, [*results.items()], errors])
                return Progress(tuple(calls), "", state, None)
            number, outcome = left.pop(0)
            if number >= call_count or number in results:
                raise Diverged(f"the program does not wait for call {number}")
            results[number] = outcome.value if isinstance(outcome, CallValue) else None
            if isinstance(outcome, CallError):
                errors.append(f"{outcome.type_name}: {outcome.message}")
        end = ProgramFault(errors[0]) if errors else ProgramValue([results[at] for at in range(call_count)])
        return Progress(tuple(calls), "", None, end)

    async def aclose(self) -> None:
        """Do nothing."""


def _read(source: str) -> list[list[ProgramCall]]:
    return [[ProgramCall(name, named=arguments) for name, arguments in wave] for wave in from_json(source)]


def _after(plan: list[list[ProgramCall]], call_count: int) -> list[ProgramCall] | None:
    """Return the wave that follows a number of calls."""
    for wave in plan:
        if call_count == 0 and wave:
            return wave
        call_count -= len(wave)
    return None
