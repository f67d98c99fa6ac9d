"""The helper process of programs: its frames, its answers, and its end."""

import asyncio
import io
import os
import select
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pydantic_monty
import pytest
from pydantic_core import from_json
from tests.runtime.runtime_rig import play

from windlass.code_mode.monty import MontyInterpreter
from windlass.code_mode.monty_helper import (
    Allowance,
    Helper,
    outcome_fields,
    program_fields,
    read_frame,
    write_frame,
)
from windlass.ports.interpreter import (
    CallError,
    CallOutcome,
    CallValue,
    Program,
    ProgramLimits,
    ProgramValue,
)

LIMITS: Final = ProgramLimits(67_108_864, 2_000, 30_000, 1_000, 10_000)
WAIT_S: Final = 300.0


def program(source: str, **options: Any) -> Program:
    stubs = "async def ask(value: object) -> object: ...\n"
    at = datetime(2026, 1, 2, tzinfo=UTC)
    return Program(source, functions=("ask",), stubs=stubs, at=at, seed="1", limits=LIMITS, **options)


def answer(
    task: str, source: Program, *outcomes: tuple[int, CallOutcome], snapshot: bytes = b""
) -> tuple[Any, bytes, bytes]:
    """Return the answer of a helper, through the bytes of frames."""
    helper, wire = Helper(pydantic_monty), io.BytesIO()
    request: Any = {
        "task": task,
        "program": program_fields(source),
        "outcomes": [outcome_fields(number, outcome) for number, outcome in outcomes],
    }
    write_frame(wire, request, snapshot, source.variables or b"")
    wire.seek(0)
    frame = read_frame(wire, 1_000_000)
    assert frame is not None
    head, saved, variables = frame
    try:
        return helper.answer(from_json(head), saved, variables)
    finally:
        if helper._pool is not None:  # pyright: ignore[reportPrivateUsage]
            helper._pool.__exit__(None, None, None)  # pyright: ignore[reportPrivateUsage]


def test_a_frame_is_read_as_it_was_written_and_one_past_the_limit_is_refused() -> None:
    wire = io.BytesIO()
    write_frame(wire, {"a": 1}, b"saved", b"kept")
    size = len(b'{"a":1}') + len(b"saved") + len(b"kept")
    wire.seek(0)
    assert read_frame(wire, size) == (b'{"a":1}', b"saved", b"kept")
    wire.seek(0)
    with pytest.raises(ValueError, match=f"limit {size - 1}"):
        read_frame(wire, size - 1)


@pytest.mark.parametrize("length", [0, 5, 24, 30, 38])
def test_a_frame_that_breaks_off_is_none(length: int) -> None:
    wire = io.BytesIO()
    write_frame(wire, {"a": 1}, b"saved", b"kept")
    assert read_frame(io.BytesIO(wire.getvalue()[:length]), 1_000) is None


def test_a_program_is_answered_with_its_calls_its_text_and_its_value() -> None:
    waits = program(
        "print('a')\nx = await ask(value=[1])\n"
        "try:\n    await ask(2)\nexcept OSError as e:\n    y = str(e)\n[x, y]"
    )
    head, snapshot, _ = answer("run", waits)
    assert head == {"calls": [["ask", [], {"value": [1]}]], "printed": "a\n", "isOpen": True}
    outcomes = ((0, CallValue({"b": None})), (1, CallError("OSError", "no")))
    head, _, _ = answer("run", waits, *outcomes, snapshot=snapshot)
    assert head == {"calls": [["ask", [2], {}]], "printed": "", "isOpen": False, "value": [{"b": None}, "no"]}


@pytest.mark.parametrize(
    ("source", "options", "error"),
    [
        (program("1"), {"snapshot": b"[]\nno dump"}, "NoSnapshot"),
        (program("1", variables=b"no dump"), {}, "NoVariables"),
    ],
)
def test_a_dump_that_is_none_is_told(source: Program, options: Any, error: str) -> None:
    assert answer("run", source, **options)[0]["error"] == error


def test_an_outcome_that_the_program_does_not_wait_for_is_told() -> None:
    assert answer("run", program("await ask(1)"), (3, CallValue(1)))[0]["error"] == "Diverged"


def test_a_program_is_checked_and_its_lines_are_counted_from_its_own_first_one() -> None:
    assert answer("check", program("await ask(1)"))[0] == {"finding": None}
    assert "program.py:1" in answer("check", program("1 + 'a'"))[0]["finding"]


def test_the_time_of_a_request_is_the_limit_of_all_its_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    armed: list[float] = []
    times = iter([10.0, 10.0, 39.5, 41.0])

    def set_timer(_: int, left_s: float) -> None:
        armed.append(left_s)

    monkeypatch.setattr("windlass.code_mode.monty_helper.time.process_time", lambda: next(times))
    monkeypatch.setattr("windlass.code_mode.monty_helper.signal.setitimer", set_timer)
    allowance = Allowance(LIMITS)
    for _ in range(3):
        allowance.renew()
    allowance.end()
    assert armed == [2.0, 0.5, 0.001, 0]


def test_a_helper_has_no_variables_of_its_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a secret")

    async def story() -> bytes:
        interpreter = MontyInterpreter()
        assert (await interpreter.run(program("1"), [])).end == ProgramValue(1)
        (helper,) = interpreter._idle  # pyright: ignore[reportPrivateUsage]
        variables = await asyncio.to_thread(Path(f"/proc/{helper.process.pid}/environ").read_bytes)
        await interpreter.aclose()
        return variables

    assert b"a secret" not in play(story())


LIFE: Final = """
import asyncio, sys
from tests.code_mode.test_monty_helper import program
from windlass.code_mode.monty import MontyInterpreter

async def main():
    interpreter = MontyInterpreter()
    await interpreter.run(program("1"), [])
    (helper,) = interpreter._idle
    print(helper.process.pid, flush=True)
    sys.stdin.read()

asyncio.run(main())
"""


def test_a_helper_ends_with_its_runtime_that_is_killed() -> None:
    life = subprocess.Popen(
        [sys.executable, "-c", LIFE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert life.stdout is not None
    handle = os.pidfd_open(int(life.stdout.readline()))
    life.send_signal(signal.SIGKILL)
    life.communicate()
    ended, _, _ = select.select([handle], [], [], WAIT_S)
    os.close(handle)
    assert ended, "it reads the end of its requests"


def test_a_helper_that_does_not_answer_is_killed_and_replaced() -> None:
    async def story() -> tuple[str, object]:
        interpreter = MontyInterpreter()
        await interpreter.run(program("1"), [])
        (helper,) = interpreter._idle  # pyright: ignore[reportPrivateUsage]
        os.kill(helper.process.pid, signal.SIGSTOP)
        hurried = replace(program("1"), limits=replace(LIMITS, total_ms=1))
        stuck, after = await interpreter.run(hurried, []), await interpreter.run(program("2"), [])
        await interpreter.aclose()
        return str(stuck.end), after.end

    assert play(story()) == (
        "ProgramFault(message='The program used too much time or memory.')",
        ProgramValue(2),
    )
