"""Running the programs of models: checked before they begin, resumed from snapshots or from their source."""

import asyncio
from collections.abc import Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final, TypeGuard, cast

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from windlass.engine.binding import Binding
from windlass.engine.tool_calls.approval import Judged
from windlass.engine.tool_calls.results import CallResults, failure_result
from windlass.engine.writing.masking import log_failure, mask_object
from windlass.engine.writing.writer import retry_store_call
from windlass.errors import AgentError
from windlass.limits import (
    ARGUMENT_VALUES_MAX,
    PROGRAM_ARGUMENTS_BYTES_MAX,
    PROGRAM_MEMORY_BYTES_MAX,
    PROGRAM_PRINTED_CHARS_MAX,
    PROGRAM_REBUILT_MAX,
    PROGRAM_RESULT_VALUES_MAX,
    PROGRAM_TOTAL_MS_MAX,
    PROGRAM_TURN_MS_MAX,
    PROGRAM_VALUE_CHARS_MAX,
    PROGRAM_VARIABLES_BYTES_MAX,
    PROGRAM_VARIABLES_MAX,
)
from windlass.ports.clock import Clock
from windlass.ports.interpreter import (
    FIRST_CALL,
    CallBody,
    CallError,
    CallOutcome,
    CallValue,
    Diverged,
    Interpreter,
    LiveFunctions,
    LiveProgram,
    NoSnapshot,
    NoVariables,
    Program,
    ProgramCall,
    ProgramFault,
    ProgramFunctions,
    ProgramLimits,
    ProgramStart,
    ProgramValue,
    Progress,
    RecordedOutcome,
)
from windlass.ports.store import ContentStore
from windlass.tools import PROGRAM_TOOLS
from windlass.tools.calling import in_masking_thread, run_of_json
from windlass.tools.programs import find_assignments
from windlass_harness.loop.events import (
    CallJudged,
    CallRefused,
    LoopEvent,
    ProgramDiverged,
    ProgramEnded,
    ProgramPaused,
    RunProgram,
)
from windlass_harness.loop.notes import ProgramResult, ProgramVariables
from windlass_harness.loop.rules import RequestedCall
from windlass_harness.redact import Redactor
from windlass_harness.views.payloads import content_model, content_part
from windlass_harness.views.runs import RunState
from windlass_protocol import (
    AllowDecision,
    JsonObject,
    ModifyDecision,
    ToolOutputType,
)
from windlass_protocol.bodies import data_of
from windlass_protocol.codec_scan import count_values
from windlass_protocol.frozen import frozen
from windlass_protocol.generated import records

INVALID_CODE: Final = "invalid_code"
INTERPRETER_FAILED: Final = "interpreter_failed"
_BROKEN: Final = "The interpreter of programs failed; the log of the process has the error."
_HAS_SECRET: Final = (
    "The program contains a secret, such as a password or a key, or text that looks like one. Secrets are "
    "not stored, so the program cannot be repeated after a restart. Write it without."
)
_LOST: Final = (
    "The variables of earlier programs are lost: they could not be read, or an earlier program goes another "
    "way in a new version of the interpreter. Make them again."
)
_TOO_LARGE: Final = (
    "The variables of this program are not kept: they have {size:,} bytes, and at most {most:,} are kept. "
    "Later programs begin with the variables of before."
)
_NOT_STORED: Final = (
    "The variables of this program are not kept: they could not be stored. "
    "Later programs begin with the variables of before."
)
_TOO_MANY_VALUES: Final = (
    "The call was made, but a program cannot take its result: it has over "
    f"{PROGRAM_RESULT_VALUES_MAX:,} values. Request less of it."
)
NO_INTERPRETER: Final = "This process has no interpreter for programs."
_CALLED_ONCE: Final = "A run of a workflow calls its function once; start a new run."
_LIMITS: Final = ProgramLimits(
    memory_bytes=PROGRAM_MEMORY_BYTES_MAX,
    turn_ms=PROGRAM_TURN_MS_MAX,
    total_ms=PROGRAM_TOTAL_MS_MAX,
    printed_chars=PROGRAM_PRINTED_CHARS_MAX,
    value_chars=PROGRAM_VALUE_CHARS_MAX,
)
_RAISED: Final = {"denied": "PermissionError", "timeout": "TimeoutError"}
"""Exceptions of a program by the error codes of its calls; RuntimeError for the others."""
_CALLS_AT_ONCE: Final = 100
"""Calls of a program that are read without a turn of the event loop: a few milliseconds."""
_NO_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _is_live(functions: ProgramFunctions) -> TypeGuard[LiveFunctions]:
    """Whether a program is a function of the application, and not of a model."""
    # Python 3.11 needs as long as half a turn of a program to check a protocol.
    return hasattr(functions, "begin")


@frozen
class Programs:
    """Checks and runs the programs of a session."""

    interpreter: Interpreter | None
    content: ContentStore
    clock: Clock
    owner: str = ""
    """See `Program.owner`."""
    family: str = ""
    """See `Program.family`."""
    live: dict[str, LiveProgram] = field(default_factory=dict[str, LiveProgram])
    """Functions of the application that wait in memory, by the key of their call."""
    turns: dict[str, asyncio.Lock] = field(default_factory=dict[str, asyncio.Lock])
    """Held while such a function runs, by the key of its call."""
    run: RunState | None = None
    """The run that they are of."""

    async def check(
        self,
        judged: Judged,
        functions: ProgramFunctions,
        *,
        redactor: Redactor,
        variables: ProgramVariables | None,
    ) -> CallJudged | CallRefused:
        """Return the decision about the call of a program; a refusal if the program cannot run."""
        event = judged.event
        if not isinstance(event.decision, AllowDecision | ModifyDecision):
            return event
        if redactor.value(judged.arguments.json) != judged.arguments.json:
            # It is recorded with masks, and a program runs as it is recorded.
            return CallRefused(event.call_id, INVALID_CODE, _HAS_SECRET, event.notes)
        if _is_live(functions):
            return replace(event, interpreter=functions.version)
        if self.interpreter is None:
            return CallRefused(event.call_id, INVALID_CODE, NO_INTERPRETER, event.notes)
        program = self._program(judged.arguments.json, functions, at=_NO_TIME, seed="")
        if variables is not None:
            names = "".join(f"{name}: Any\n" for name in variables.names if name not in functions.names)
            program = replace(program, stubs=f"from typing import Any\n{names}{program.stubs}")
        try:
            problem = await self.interpreter.check(program)
        except Exception as error:  # noqa: BLE001 - the interpreter is an adapter: a fault of it refuses the call
            log_failure("the interpreter of programs failed", error, redactor=redactor)
            return CallRefused(event.call_id, INTERPRETER_FAILED, _BROKEN, event.notes)
        if problem is not None:
            message = f"The program cannot run:\n{problem}"
            return CallRefused(event.call_id, INVALID_CODE, message, event.notes)
        return replace(event, interpreter=self.interpreter.version)

    async def run_turn(self, effect: RunProgram, *, binding: Binding) -> LoopEvent:
        """Run a program until it waits for calls or ends; failures of it are part of the event."""
        tool = binding.tools.get(effect.tool_name)
        functions = None if tool is None else tool.program
        if functions is None or (self.interpreter is None and not _is_live(functions)):
            return self._program_failure(effect, NO_INTERPRETER)
        try:
            if _is_live(functions):
                return await self._run_live(effect, functions, binding)
            assert self.interpreter is not None, "a program of a model was checked by it"
            program = self._program_of(effect, functions)
            return await self._go(self.interpreter, program, effect, functions=functions, binding=binding)
        except Diverged as error:
            if _is_live(functions):
                message = binding.redactor.text(str(error))
                return ProgramDiverged(effect.call_id, len(effect.results), message)
            message = (
                f"The program went another way than before the restart, so it cannot continue ({error}). "
                "Its calls have happened; write a program that goes on from their results."
            )
            return self._program_failure(effect, message, code="diverged")
        except AgentError as error:
            # A result that is too large for a record is in the content store, which cannot be read.
            return self._program_failure(
                effect, f"A result of the program's calls cannot be read: {error.message}"
            )
        except Exception as error:  # noqa: BLE001 - the interpreter is an adapter: a fault of it ends the program
            log_failure("the interpreter of programs failed", error, redactor=binding.redactor)
            return self._program_failure(effect, _BROKEN, code=INTERPRETER_FAILED)

    async def _run_live(self, effect: RunProgram, functions: LiveFunctions, binding: Binding) -> LoopEvent:
        """Run a function of the application: in memory where it is, or else again from its start."""
        if effect.step_index > 0 and effect.call_id == FIRST_CALL:
            return self._program_failure(effect, _CALLED_ONCE)
        key = effect.idempotency_key
        async with self._turn_of(key):
            live = self.live.pop(key, None)
            is_new = live is None or live.taken != effect.taken or functions.is_replayed
            if live is not None and is_new:
                # Another turn of it was not recorded: it is ahead of its records.
                live.close()
            if live is None or is_new:
                live = functions.begin(self._start_of(effect, binding))
            progress = await self._take(live, effect, effect.results[live.taken :])
            if is_new:
                progress = replace(progress, calls=progress.calls[len(effect.calls) :])
            if progress.end is None and not functions.is_replayed:
                self.live[key] = live
            else:
                live.close()
        return await self._event(effect, functions, binding, progress, version=functions.version)

    async def body_of(self, effect: RunProgram, number: int, *, binding: Binding) -> CallBody | None:
        """Return what performs a call of a function of the application; None if the tool of the call does.

        A function that is not in memory is run again from its start, as far as its records say.

        Raises:
            Diverged: it went another way.
        """
        tool, key = binding.tools.get(effect.tool_name), effect.idempotency_key
        if tool is None or tool.program is None or not _is_live(tool.program):
            return None
        async with self._turn_of(key):
            live = self.live.get(key)
            if live is None or live.taken < effect.taken:
                if live is not None:
                    live.close()
                live = tool.program.begin(self._start_of(effect, binding))
                await self._take(live, effect, effect.results[: effect.taken])
                self.live[key] = live
            return live.body_of(number)

    def _turn_of(self, key: str) -> asyncio.Lock:
        return self.turns.setdefault(key, asyncio.Lock())

    def _start_of(self, effect: RunProgram, binding: Binding) -> ProgramStart:
        run = self.run
        assert run is not None, "only a run has programs"
        return ProgramStart(
            effect.arguments,
            at=datetime.fromisoformat(effect.started_at),
            seed=effect.idempotency_key,
            run_id=run.run_id,
            session_id=run.session_id,
            owner=run.owner,
            deps=binding.deps,
            recorded=tuple((name, arguments) for _, name, arguments in effect.calls),
            mask=partial(_mask, binding.redactor),
        )

    async def _take(
        self, live: LiveProgram, effect: RunProgram, results: Sequence[ProgramResult]
    ) -> Progress:
        """Give results to a function in memory; it is closed if that fails."""
        try:
            return await live.run(
                [
                    RecordedOutcome(
                        result.number,
                        await self._outcome(result),
                        datetime.fromisoformat(result.at or effect.started_at),
                    )
                    for result in results
                ]
            )
        except BaseException:
            live.close()
            raise

    async def _go(
        self,
        interpreter: Interpreter,
        program: Program,
        effect: RunProgram,
        *,
        functions: ProgramFunctions,
        binding: Binding,
    ) -> LoopEvent:
        keeps = bool(binding.package.keeps_variables) and effect.tool_name == PROGRAM_TOOLS["code"]
        program = replace(program, keeps_variables=keeps)
        progress, printed = await self._from_snapshot(interpreter, program, effect), effect.printed
        if progress is None:
            progress, printed = await self._from_source(
                interpreter, program, effect, functions=functions, redactor=binding.redactor
            )
            progress = replace(
                progress, calls=await _new_calls(progress, functions, effect, binding.redactor)
            )
        printed = f"{printed}{progress.printed}"[:PROGRAM_PRINTED_CHARS_MAX]
        variables, refusal = None, ""
        if isinstance(progress.end, ProgramValue):
            variables, refusal = await self._store_variables(interpreter, program, effect, progress.variables)
        return await self._event(
            effect,
            functions,
            binding,
            progress,
            version=interpreter.version,
            printed=printed,
            variables=variables,
            refusal=refusal,
        )

    async def _event(
        self,
        effect: RunProgram,
        functions: ProgramFunctions,
        binding: Binding,
        progress: Progress,
        *,
        version: str,
        printed: str = "",
        variables: ProgramVariables | None = None,
        refusal: str = "",
    ) -> ProgramPaused | ProgramEnded:
        """Return how far a program has come; `refusal` says why its variables are not kept."""
        calls, excess = await _call_requests(functions, binding, progress.calls)
        taken = len(effect.results)
        if excess is not None:
            message = (
                f"The arguments of the last {len(calls)} calls have {excess} before it waits. None of these "
                "calls was made. Pass less, or await some of the calls first."
            )
            return self._program_failure(effect, message)
        if progress.end is None:
            ref = await self._store_snapshot(progress.snapshot)
            return ProgramPaused(
                effect.call_id,
                taken,
                calls,
                version,
                ref,
                binding.redactor.text(printed),
                cancelled=progress.cancelled,
            )
        if isinstance(progress.end, ProgramFault):
            message = progress.end.message if not printed else f"{progress.end.message}\nPrinted:\n{printed}"
            message = binding.redactor.text(message)
            return ProgramEnded(
                failure_result(effect.call_id, "program_failed", message=message),
                taken,
                calls,
                cancelled=progress.cancelled,
            )
        value: JsonValue = progress.end.value
        if printed or refusal:
            value = {"result": value, "printed": f"{printed}{refusal}"}
        results = CallResults(self.content, clock=self.clock, redactor=binding.redactor)
        returned = await results.result_of(effect.call_id, run_of_json(value), duration_ms=0)
        returned = replace(returned, duration_ms=None)
        return ProgramEnded(returned, taken, calls, variables, cancelled=progress.cancelled)

    async def _from_source(
        self,
        interpreter: Interpreter,
        program: Program,
        effect: RunProgram,
        *,
        functions: ProgramFunctions,
        redactor: Redactor,
    ) -> tuple[Progress, str]:
        """Run a program from its source and its variables; return a text that precedes what it printed."""
        outcomes = await self._outcomes(effect, effect.results)
        variables_ref = effect.variables
        if variables_ref is None or not program.keeps_variables:
            return await interpreter.run(program, outcomes), ""
        try:
            variables = await self._variables(
                interpreter, variables_ref, functions=functions, redactor=redactor
            )
            return await interpreter.run(replace(program, variables=variables), outcomes), ""
        except (AgentError, NoVariables):
            return await interpreter.run(program, outcomes), f"{_LOST}\n"

    async def _variables(
        self,
        interpreter: Interpreter,
        variables_ref: ProgramVariables | None,
        *,
        functions: ProgramFunctions,
        redactor: Redactor,
    ) -> bytes | None:
        """Return variables of this version of the interpreter.

        If another version made them, the programs that made them are run again with their recorded results.

        Raises:
            AgentError, NoVariables: they are lost.
        """
        earlier: list[RunProgram] = []
        while variables_ref is not None and variables_ref.interpreter != interpreter.version:
            if len(earlier) == PROGRAM_REBUILT_MAX:
                raise NoVariables(f"over {PROGRAM_REBUILT_MAX} programs made them")
            maker, _ = await self._load_variables(variables_ref)
            earlier.append(maker)
            variables_ref = maker.variables
        variables = None if variables_ref is None else (await self._load_variables(variables_ref))[1]
        for effect in reversed(earlier):
            program = replace(self._program_of(effect, functions), keeps_variables=True, variables=variables)
            try:
                progress = await interpreter.run(program, await self._outcomes(effect, effect.results))
                await _new_calls(progress, functions, effect, redactor)
            except Diverged as error:
                raise NoVariables(str(error)) from error
            if progress.variables is None:
                raise NoVariables("a program that made them fails")
            variables = progress.variables
        return variables

    async def _load_variables(self, variables_ref: ProgramVariables) -> tuple[RunProgram, bytes]:
        """Return the program that made variables, and their dump."""
        ref = content_model(variables_ref.content)
        head, _, dump = (await retry_store_call(lambda: self.content.get(ref), self.clock)).partition(b"\n")
        try:
            return TypeAdapter(RunProgram).validate_json(head), dump
        except ValidationError as error:
            raise NoVariables("an older release stored them") from error

    async def _store_variables(
        self, interpreter: Interpreter, program: Program, effect: RunProgram, variables: bytes | None
    ) -> tuple[ProgramVariables | None, str]:
        """Store the variables of a program; return a note if they are not kept."""
        if variables is None:
            return None, ""
        # With the program itself: another version of the interpreter runs it again.
        variables = to_json(replace(effect, snapshot=None, printed=""), fallback=data_of) + b"\n" + variables
        if len(variables) > PROGRAM_VARIABLES_BYTES_MAX:
            return None, _TOO_LARGE.format(size=len(variables), most=PROGRAM_VARIABLES_BYTES_MAX)
        content = await self._store_snapshot(variables)
        if content is None:
            return None, _NOT_STORED
        earlier_names = () if effect.variables is None else effect.variables.names
        names = tuple(dict.fromkeys((*earlier_names, *find_assignments(program.source))))[
            -PROGRAM_VARIABLES_MAX:
        ]
        return ProgramVariables(interpreter.version, content, names), ""

    async def _from_snapshot(
        self,
        interpreter: Interpreter,
        program: Program,
        effect: RunProgram,
    ) -> Progress | None:
        """Continue a program from its snapshot; None if it has none that can be loaded."""
        if effect.snapshot is None or effect.interpreter != interpreter.version:
            return None
        try:
            ref = content_model(effect.snapshot)
            snapshot = await retry_store_call(lambda: self.content.get(ref), self.clock)
            outcomes = await self._outcomes(effect, effect.results[effect.taken :])
            return await interpreter.run(program, outcomes, snapshot=snapshot)
        except (AgentError, NoSnapshot):
            return None

    async def _store_snapshot(self, snapshot: bytes | None) -> records.ContentRef | None:
        """Store a snapshot; without it the program is run again from its source."""
        if snapshot is None:
            return None
        try:
            ref = await retry_store_call(
                lambda: self.content.put(snapshot, media_type="application/octet-stream"), self.clock
            )
        except AgentError:
            return None
        return content_part(ref)

    async def _outcomes(
        self, effect: RunProgram, results: Sequence[ProgramResult]
    ) -> list[tuple[int, CallOutcome]]:
        """Return results with the numbers of their calls."""
        numbers = {call_id: number for number, (call_id, _, _) in enumerate(effect.calls)}
        return [(numbers[result.call_id], await self._outcome(result)) for result in results]

    async def _outcome(self, result: ProgramResult) -> CallOutcome:
        """Return the result of a call as the program sees it: the whole of it, or an exception."""
        output = result.output
        if output.type is ToolOutputType.EXECUTION_DENIED:
            return CallError(_RAISED["denied"], output.reason or "The call was denied.")
        if result.code or output.type in (ToolOutputType.ERROR_TEXT, ToolOutputType.ERROR_JSON):
            return CallError(_RAISED.get(result.code, "RuntimeError"), str(output.value))
        if result.content is None:
            return CallValue(output.value)
        ref = content_model(result.content)
        raw = await retry_store_call(lambda: self.content.get(ref), self.clock)
        return await in_masking_thread(partial(_read_result, raw))

    def _program_of(self, effect: RunProgram, functions: ProgramFunctions) -> Program:
        """Return a program as it runs whenever it is run."""
        at = datetime.fromisoformat(effect.started_at)
        return self._program(effect.arguments, functions, at=at, seed=effect.idempotency_key)

    def _program(
        self, arguments: JsonObject, functions: ProgramFunctions, *, at: datetime, seed: str
    ) -> Program:
        return Program(
            str(arguments.get("code", "")),
            functions=functions.names,
            stubs=functions.stubs,
            at=at,
            seed=seed,
            limits=_LIMITS,
            owner=self.owner,
            family=self.family,
        )

    def _program_failure(
        self, effect: RunProgram, message: str, *, code: str = "program_failed"
    ) -> ProgramEnded:
        return ProgramEnded(failure_result(effect.call_id, code, message=message), len(effect.results))


def _mask(redactor: Redactor, value: JsonValue) -> JsonValue:
    return cast(JsonValue, redactor.value(value))


def _read_result(raw: bytes) -> CallOutcome:
    """Return a result of the content store; one of too many values is not read, for nothing interrupts it."""
    if count_values(raw, PROGRAM_RESULT_VALUES_MAX) > PROGRAM_RESULT_VALUES_MAX:
        return CallError("RuntimeError", _TOO_MANY_VALUES)
    return CallValue(from_json(raw))


async def _call_requests(
    functions: ProgramFunctions, binding: Binding, made: Sequence[ProgramCall]
) -> tuple[tuple[RequestedCall, ...], str | None]:
    """Return the calls of a program as requests, and by what their arguments are too large, if they are.

    There may be thousands, more than the loop allows: others have their turn between them.
    """
    calls: list[RequestedCall] = []
    size = values = 0
    for number, call in enumerate(made, 1):
        tool_name, arguments = functions.call(call)
        tool = binding.tools.get(tool_name)
        is_subagent = tool is not None and tool.delegates is not None
        # Records have no secrets, and the calls of a program that is run again must equal its records.
        safe_arguments = await mask_object(binding.redactor, arguments)
        calls.append(
            RequestedCall("", tool_name, safe_arguments, subagent=tool_name if is_subagent else None)
        )
        raw = to_json(safe_arguments)
        size += len(raw)
        values += count_values(raw, ARGUMENT_VALUES_MAX)
        if number % _CALLS_AT_ONCE == 0:
            await asyncio.sleep(0)
    excess = None
    if size > PROGRAM_ARGUMENTS_BYTES_MAX:
        excess = f"{size:,} bytes; a program may pass {PROGRAM_ARGUMENTS_BYTES_MAX:,}"
    elif values > ARGUMENT_VALUES_MAX:
        excess = f"over {ARGUMENT_VALUES_MAX:,} values; a program may pass {ARGUMENT_VALUES_MAX:,}"
    return tuple(calls), excess


async def _new_calls(
    progress: Progress, functions: ProgramFunctions, effect: RunProgram, redactor: Redactor
) -> tuple[ProgramCall, ...]:
    """Return the calls of a program that was run from its source, without those that are recorded.

    Raises:
        Diverged: it did not make the recorded calls.
    """
    for number, (_, tool_name, arguments) in enumerate(effect.calls):
        if number >= len(progress.calls):
            raise Diverged(f"it did not make call {number} of {tool_name}")
        called_name, called_arguments = functions.call(progress.calls[number])
        if called_name != tool_name or await mask_object(redactor, called_arguments) != arguments:
            raise Diverged(f"call {number} was of {tool_name} and is of {called_name} with other arguments")
    return progress.calls[len(effect.calls) :]
