"""The recorder `Runtime`: one durable record per call."""

import logging
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import wraps
from inspect import isawaitable
from itertools import count
from pathlib import Path
from threading import Lock, Thread, current_thread
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Final,
    NamedTuple,
    ParamSpec,
    Protocol,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
)
from weakref import ReferenceType, finalize, ref

from windlass.json_value import JsonObject, JsonValue, text_of
from windlass.ledger.kinds import DecisionType, RecordingError
from windlass.ledger.spool import Durability, Ledger, open_ledger
from windlass.ledger.wall import Stamps, day_and_time, elapsed_ms, random_hex
from windlass_protocol.limits import INTEGER_MAX

if TYPE_CHECKING:
    from windlass.ledger.model import DecisionEvaluation, Run
    from windlass.runtime.compose import AgentRuntime
    from windlass_protocol.generated.values import DecisionTypeValue


IDS_SHOWN_MAX: Final = 20
"""Options or runs that an error message lists."""
T = TypeVar("T")
P = ParamSpec("P")

SEVERITIES: Final = ("critical", "warning", "minor")
_TYPES: Final = frozenset(kind.value for kind in DecisionType)
_ONLY_TEXTS: Final = frozenset({str})
_OPTION_KEYS: Final = frozenset(
    {"id", "description", "action_type", "action_params", "pros", "cons", "confidence"}
)


def text(value: object, label: str = "", *, faults: list[str] | None = None) -> str:
    """Return a string unchanged, any other value as its str()."""
    if type(value) is str:
        return value
    if faults is not None and not isinstance(value, str):
        faults.append(f"{label} must be a string, found {_kind(value)}: its str() is recorded")
    return text_of(value)


def truth(value: object, label: str, *, faults: list[str]) -> bool:
    """Return a bool; another value is a fault and is converted with bool()."""
    if value is True or value is False:
        return value
    faults.append(f"{label} must be True or False, found {text_of(value)}: it counts as {bool(value)}")
    return bool(value)


def texts(value: object, label: str = "", *, faults: list[str] | None = None) -> list[JsonValue]:
    """Return a list of strings; a single string becomes a list."""
    if type(value) is list and _ONLY_TEXTS.issuperset(map(type, cast("list[object]", value))):
        return cast("list[JsonValue]", value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [text(item, f"each of {label}", faults=faults) for item in cast("Sequence[object]", value)]
    if value is not None and faults is not None:
        faults.append(
            f"{label} must be a list of strings, found {_kind(value)}: it is recorded as a list of one"
        )
    return [] if value is None else [text(value)]


def members(value: object, label: str = "", *, faults: list[str] | None = None) -> JsonObject:
    """Return a dictionary; anything else under the name `value`."""
    if type(value) is dict:
        return cast("JsonObject", value)
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, JsonValue]", value))
    if value is not None and faults is not None:
        faults.append(
            f"{label} must be a dictionary, found {_kind(value)}: it is recorded under the key value"
        )
    return {} if value is None else {"value": cast("JsonValue", value)}


def anything(value: object) -> JsonValue:
    """Return a value that becomes JSON when it is written."""
    return cast("JsonValue", value)


def exception_text(error: BaseException) -> str:
    """Return the text of an exception; "" if str() of it fails."""
    try:
        return text_of(str(error))
    except Exception:  # noqa: BLE001 - its text is the caller's code
        return ""


def whole_number(name: str, value: object, *, faults: list[str]) -> int:
    """Return a whole number from 0."""
    if type(value) is int and 0 <= value <= INTEGER_MAX:
        return value
    if isinstance(value, int | float) and 0 <= value <= INTEGER_MAX:
        return int(value)
    faults.append(f"{name} must be a number from 0, found {text_of(value)}: it counts as 0")
    return 0


def as_decision_type(value: object, faults: list[str]) -> str:
    """Return the type of a decision."""
    if type(value) is DecisionType:
        return value.value
    if isinstance(value, str) and value in _TYPES:
        return str(value)
    faults.append(f"decision_type must be one of {', '.join(sorted(_TYPES))}, found {text_of(value)}")
    return DecisionType.CUSTOM.value


def as_severity(value: object, faults: list[str]) -> str:
    """Return the severity of a problem."""
    if isinstance(value, str) and value in SEVERITIES:
        return str(value)
    faults.append(
        f"severity must be one of {', '.join(SEVERITIES)}, found {text_of(value)}: taken as warning"
    )
    return "warning"


def as_options(value: object, chosen_id: str, *, faults: list[str]) -> list[JsonValue]:
    """Return the options of a decision; the chosen one should be among them."""
    options: Sequence[object] = ()
    if isinstance(value, list | tuple):
        options = cast("Sequence[object]", value)
    else:
        faults.append(f"options must be a list, found {_kind(value)}")
    wire_options: list[JsonValue] = []
    is_among = False
    for option in options:
        if isinstance(option, Mapping):
            wire = _option(cast("Mapping[str, object]", option), len(wire_options), faults)
        else:
            faults.append(f"option {len(wire_options)} must be a dictionary, found {_kind(option)}")
            wire: JsonObject = {"id": f"option_{len(wire_options)}", "description": text(option)}
        if wire["id"] == chosen_id:
            is_among = True
        wire_options.append(wire)
    if not is_among:
        ids = ", ".join(repr(cast("JsonObject", option)["id"]) for option in wire_options[:IDS_SHOWN_MAX])
        faults.append(
            f"chosen must be the id of an option, found {chosen_id!r}; the options are: {ids or 'none'}"
        )
    return wire_options


def _option(option: Mapping[str, object], index: int, faults: list[str]) -> JsonObject:
    option_id = option.get("id")
    if option_id is None:
        faults.append(f"option {index} has no id: it is called option_{index}")
        option_id = f"option_{index}"
    wire: JsonObject = {"id": option_id if type(option_id) is str else text_of(option_id)}
    if not _OPTION_KEYS.issuperset(option):
        unknown = ", ".join(sorted(text_of(key) for key in option if key not in _OPTION_KEYS))
        keys = ", ".join(sorted(_OPTION_KEYS))
        faults.append(f"option {index} has {unknown}, which is not kept; an option has {keys}")
    if (description := option.get("description")) is not None:
        wire["description"] = text(description, "a description", faults=faults)
    if (action_type := option.get("action_type")) is not None:
        wire["actionType"] = text(action_type, "an action_type", faults=faults)
    if (action_params := option.get("action_params")) is not None:
        wire["actionParams"] = members(action_params, "action_params", faults=faults)
    if (pros := option.get("pros")) is not None:
        wire["pros"] = texts(pros, "pros", faults=faults)
    if (cons := option.get("cons")) is not None:
        wire["cons"] = texts(cons, "cons", faults=faults)
    if (confidence := option.get("confidence")) is not None:
        if type(confidence) is float and 0 <= confidence <= 1:
            wire["confidence"] = confidence
        else:
            _add_confidence(wire, confidence, faults)
    return wire


def as_evaluation(value: object) -> JsonObject | None:
    """Return a judgement in wire form; None if the value is not one."""
    # Recognised by its method: importing its class is slow.
    wire = getattr(value, "to_wire", None)
    return cast("JsonObject", wire()) if callable(wire) else None


def caller_values_of(decision: JsonObject) -> list[JsonValue]:
    """Return the caller's values of a decision in a nearly flat list, which is quick to redact."""
    values: list[JsonValue] = []
    for option in cast("list[JsonObject]", decision["options"]):
        values += option.values()
    values += (value for name, value in decision.items() if name != "options")
    return values


def _add_confidence(wire: JsonObject, confidence: object, faults: list[str]) -> None:
    is_number = isinstance(confidence, int | float)
    if is_number and 0 <= confidence <= 1:
        wire["confidence"] = float(confidence)
        return
    faults.append(f"confidence of option {wire['id']!r} must be from 0 to 1, found {text_of(confidence)}")
    if is_number and confidence == confidence:  # NaN does not equal itself
        wire["confidence"] = 1.0 if confidence > 1 else 0.0
    wire["givenConfidence"] = text_of(confidence)


def failure(error: BaseException) -> JsonObject:
    """Return the outcome of an action that raised an exception."""
    return {"success": False, "error": exception_text(error) or _kind(error)}


def _kind(value: object) -> str:
    return type(value).__name__


AGENT_ID: Final = "recorder"
"""The agent id of runs recorded by a recorder."""
ERROR_CHARS_MAX: Final = 4_000
_DECISION: Final = "dec_"
_PENDING: Final = 0
_SETTLED: Final = 1


class Recording:
    """A run under recording; thread-safe.

    All methods raise OSError if the write fails; then nothing was recorded.
    """

    def __init__(self, ledger: Ledger, *, run_id: str, trace_id: str) -> None:
        self.run_id = run_id
        self.trace_id = trace_id
        self.is_open = True
        self.starter: ReferenceType[object] = ref(current_worker())
        """The task, job or thread that started the run."""
        self.number = 0
        """Number of the run among those of its recorder, in the order of their starts."""
        self.last_number = 0
        """Number of the newest run that was open when this one ended."""
        self._ledger = ledger
        self._generation = ledger.generation
        self._lock = Lock()
        self._seq = 0
        self._outcomes = bytearray()
        """For each decision, whether it has an outcome."""
        self._problem_count = 0

    @property
    def is_ours(self) -> bool:
        """Whether this process started it: a forked process holds a copy of its parent's recordings."""
        return self._generation == self._ledger.generation

    @property
    def is_live(self) -> bool:
        """Whether this process started it and has not ended it."""
        return self.is_open and self._generation == self._ledger.generation

    @property
    def has_starter(self) -> bool:
        """Whether the task, job or thread that started it still runs; if not, the run may have leaked."""
        worker = self.starter()
        if worker is None:
            return False
        return worker.is_alive() if isinstance(worker, Thread) else not cast("_HasEnd", worker).done()

    def begin(self, at: str, goal: JsonObject) -> None:
        """Record the start of the run."""
        with self._lock:
            self._write("session.started", at, data={"trace": {"traceId": self.trace_id}})
            writer: JsonObject = {"recorder": self._ledger.writer}
            data: JsonObject = {"runId": self.run_id, "agentId": AGENT_ID, **goal, "metadata": writer}
            self._write("run.started", at, data=data)

    def decide(self, at: str, decision: JsonObject) -> str:
        """Record a decision; return its id."""
        with self._lock:
            self._check_open()
            decision_id = decision["id"] = f"{_DECISION}{len(self._outcomes)}"
            self._write(
                "decision.recorded", at, data={"decision": decision}, caller_values=caller_values_of(decision)
            )
            self._outcomes.append(_PENDING)
            return decision_id

    def settle(self, at: str, decision_id: str, *, outcome: JsonObject) -> None:
        """Record the outcome of a decision; it replaces an earlier one."""
        with self._lock:
            self._check_open()
            data: JsonObject = {"decisionId": decision_id, "outcome": outcome}
            self._write("decision.outcome", at, data=data, caller_values=list(outcome.values()))
            self._outcomes[int(decision_id[len(_DECISION) :])] = _SETTLED

    def judge(self, at: str, decision_id: str, *, evaluation: JsonObject) -> None:
        """Record a judgement of a decision."""
        with self._lock:
            self._check_open()
            self._write("decision.evaluated", at, data={"decisionId": decision_id, "evaluation": evaluation})

    def report(self, at: str, problem: JsonObject) -> str:
        """Record a problem; return its id."""
        with self._lock:
            self._check_open()
            problem_id = problem["id"] = f"prob_{self._problem_count}"
            self._write("problem.reported", at, data={"problem": problem})
            self._problem_count += 1
            return problem_id

    def end(self, at: str, type_: str, *, data: JsonObject) -> None:
        """Record the end of the run; later records are refused."""
        with self._lock:
            self._check_open()
            self._write(type_, at, data={"runId": self.run_id, **data})
            self.is_open = False

    def knows(self, decision_id: object) -> bool:
        """Whether a decision belongs to this run."""
        if not isinstance(decision_id, str) or not decision_id.startswith(_DECISION):
            return False
        number = decision_id[len(_DECISION) :]
        is_number = number.isascii() and number.isdecimal() and str(int(number[:18])) == number
        return is_number and int(number) < len(self._outcomes)

    def is_settled(self, decision_id: str) -> bool:
        """Whether a decision of this run has an outcome."""
        return self._outcomes[int(decision_id[len(_DECISION) :])] == _SETTLED

    def _check_open(self) -> None:
        if not self.is_open:
            raise RecordingError(f"run {self.run_id} has ended: further records are refused")

    def _write(
        self, type_: str, at: str, *, data: JsonObject, caller_values: list[JsonValue] | None = None
    ) -> None:
        body = self._ledger.encode(
            type_,
            at,
            data=data,
            run_id=self.run_id,
            caller_values=data if caller_values is None else caller_values,
        )
        self._ledger.append(self.run_id, self._seq + 1, body=body)
        self._seq += 1


class RunBinding(NamedTuple):
    """A run and a node that a context is bound to."""

    recording: Recording
    node_id: str
    outer: "RunBinding | None" = None
    """The binding to return to after this one."""
    pin: object | None = None
    """Identity of the `with runtime.run(…)` block that made the binding; None for `start_run`."""


class Current:
    """The current run of one recorder, in each context.

    A context is bound to a run by `start_run`, by `with runtime.run(…)`, or because it is a copy of a bound
    one. An unbound context uses the open run of the recorder while there is exactly one: a script may start a
    run and do the work in a thread pool.
    """

    def __init__(self) -> None:
        self._key = next(_KEYS)
        self._open: dict[str, Recording] = {}
        self._numbers = count(1)
        self._newest: Recording | None = None

    def binding(self) -> RunBinding | None:
        """Return the innermost binding of this context: of a `with` block, or of a run that is open."""
        binding = _BINDINGS.get().get(self._key)
        while binding is not None and binding.pin is None and not binding.recording.is_live:
            binding = binding.outer
        return binding

    def last(self) -> RunBinding | None:
        """Return the run that this context was bound to last, also if its run has ended."""
        binding = _BINDINGS.get().get(self._key)
        return binding if binding is not None and binding.recording.is_ours else None

    def inherited_binding(self) -> RunBinding | None:
        """Return the binding of this context if it is one of the parent process."""
        binding = _BINDINGS.get().get(self._key)
        return binding if binding is not None and not binding.recording.is_ours else None

    def recording(self, *, can_join: bool = True) -> Recording | None:
        """Return the open run of this context; None if there is none, or several.

        With `can_join`, a task or thread may use the only open run if that was started after the end of its
        own, or of the one that it inherited.
        """
        binding = self.binding()
        if binding is not None:
            return binding.recording if binding.recording.is_live else None
        last, runs = self.last(), self.candidates()
        if len(runs) != 1:
            return None
        [run] = runs
        if last is None:
            return run
        is_later = run.number > last.recording.last_number
        return run if can_join and is_later else None

    def candidates(self) -> list[Recording]:
        """Return the open runs that an unbound context may mean.

        A run has leaked if its starter has ended and a later run was started: it is not among them.
        """
        runs = [run for run in tuple(self._open.values()) if run.is_live]
        newest = self._newest
        if newest is not None and newest.is_live and not newest.has_starter:
            return runs
        return [run for run in runs if run.has_starter]

    def open_recording(self, run_id: object) -> Recording | None:
        """Return an open run by its id."""
        recording = self._open.get(run_id) if isinstance(run_id, str) else None
        return recording if recording is not None and recording.is_live else None

    def node_id(self, recording: Recording) -> str:
        """Return the node of a run in this context."""
        binding = self._binding_of(recording)
        return _NODES.get().get(recording, NODE_UNKNOWN) if binding is None else binding.node_id

    def enter(self, recording: Recording) -> None:
        """Make a new run the current one."""
        recording.number = next(self._numbers)
        self._open[recording.run_id] = recording
        # Another thread may have numbered a newer run meanwhile.
        if self._newest is None or self._newest.number < recording.number:
            self._newest = recording
        self._push(recording)

    def leave(self, recording: Recording) -> None:
        """Remove a run that has ended; contexts check this themselves."""
        recording.last_number = max(run.number for run in (recording, *self._open.values()))
        self._open.pop(recording.run_id, None)

    def pin(self, recording: Recording) -> object:
        """Bind this context to a run until `unpin`."""
        pin = object()
        self._push(recording, pin)
        return pin

    def unpin(self, pin: object) -> None:
        """Remove the binding of a `with` block, and nothing else.

        The bindings above it stay: blocks in generators do not end in the order in which they began. They may
        also end in another context, which does not have the binding.
        """
        self._set(_without(_BINDINGS.get().get(self._key), pin))

    def move(self, recording: Recording, node_id: str, *, can_bind: bool) -> None:
        """Set the node of a run in this context; with `can_bind`, bind the context to the run."""
        binding = self._binding_of(recording)
        if binding is not None:
            self._set(
                _replace_binding(_BINDINGS.get().get(self._key), binding, binding._replace(node_id=node_id))
            )
        elif can_bind:
            self._push(recording, node_id=node_id)
        else:
            other_nodes = {run: node for run, node in _NODES.get().items() if run.is_live}
            _NODES.set({**other_nodes, recording: node_id})

    def _binding_of(self, recording: Recording) -> RunBinding | None:
        binding = _BINDINGS.get().get(self._key)
        while binding is not None and binding.recording is not recording:
            binding = binding.outer
        return binding

    def _push(self, recording: Recording, pin: object | None = None, *, node_id: str | None = None) -> None:
        node = self.node_id(recording) if node_id is None else node_id
        self._set(RunBinding(recording, node, self.binding(), pin))

    def _set(self, binding: RunBinding | None) -> None:
        _BINDINGS.set({**_BINDINGS.get(), self._key: binding})


def _without(binding: RunBinding | None, pin: object) -> RunBinding | None:
    if binding is None or binding.pin is pin:
        return None if binding is None else binding.outer
    return binding._replace(outer=_without(binding.outer, pin))


def _replace_binding(binding: RunBinding | None, old: RunBinding, new: RunBinding) -> RunBinding | None:
    if binding is None or binding is old:
        return None if binding is None else new
    return binding._replace(outer=_replace_binding(binding.outer, old, new))


class _HasEnd(Protocol):
    def done(self) -> bool: ...


class _Job:
    """A call of a function made by `in_this_context`; runs started in it belong to it."""

    def __init__(self) -> None:
        self.inside: Final = _task_or_thread()
        self.is_done = False

    def done(self) -> bool:
        """Return whether the call has returned."""
        return self.is_done


def in_this_context(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function that runs in a copy of the current context, for threads and executors.

    The copy is made now, so the function records into the run that is current now, in any thread:
    `pool.submit(in_this_context(work), item)` or `Thread(target=in_this_context(work))`. It may be called
    many times, also at once; changes that a call makes to its context end with it. Tasks of asyncio and
    `asyncio.to_thread` copy the context themselves.
    """
    context = copy_context()

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        # A context cannot be entered twice at the same time, so every call has its own copy.
        return context.copy().run(_run_job, function, *args, **kwargs)

    return call


def _run_job(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    job = _Job()
    _JOB.set(job)
    try:
        return function(*args, **kwargs)
    finally:
        job.is_done = True


def current_worker() -> object:
    """Return the unit of work that runs this code: a call of `in_this_context`, a task, or a thread."""
    worker, job = _task_or_thread(), _JOB.get()
    # A task that was started in a job inherits the job, but is a worker of its own.
    return job if job is not None and job.inside is worker else worker


def _task_or_thread() -> object:
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None:
        try:
            task: object = asyncio.current_task()
        except RuntimeError:
            task = None
        if task is not None:
            return task
    return current_thread()


_KEYS: Final = count()
"""Keys of recorders; `id()` could be reused after one is freed."""
_NOWHERE: Final[Mapping[int, RunBinding | None]] = {}
_BINDINGS: Final[ContextVar[Mapping[int, RunBinding | None]]] = ContextVar(
    "windlass_recorder", default=_NOWHERE
)
_NO_NODES: Final[Mapping[Recording, str]] = {}
_NODES: Final[ContextVar[Mapping[Recording, str]]] = ContextVar("windlass_recorder_nodes", default=_NO_NODES)
"""Nodes of runs that a context has named without being bound to them."""
_JOB: Final[ContextVar[_Job | None]] = ContextVar("windlass_recorder_job", default=None)

NODE_UNKNOWN: Final = "unknown"
"""The node of decisions before the first `set_node`."""
TRACE_HEX: Final = 32
_QUICK: Final = "action"

_log: Final = logging.getLogger("windlass.ledger")


class DecideOptions(TypedDict, total=False):
    """Options of `decide_and_execute` that are passed to `decide`."""

    node_id: str | None
    decision_type: "DecisionType | DecisionTypeValue"
    constraints: Sequence[str] | None
    context: dict[str, object] | None
    run_id: str | None


class Runtime:
    """Records the decisions of an agent; every call is durable on return.

    `storage_path` is a folder, which is created if it is missing. With `runtime`, an `AgentRuntime`, the
    records go into its journal instead. Scripts, threads and tasks may share a recorder, and processes may
    share a folder. Each context has its own current run: `run` binds one, `run_id` names one for a single
    call, and `in_this_context` carries one into a thread. A call that could mean several runs raises
    RecordingError with the code `ambiguous_run`, whether `strict` or not. So does a call in a thread or task
    after the end of its run, if the only open run was open before that end.

    A value without a JSON form is recorded as its repr. An invalid call is logged as a warning and recorded
    as far as possible; with `strict` it raises RecordingError and records nothing. With durability `power` a
    call survives a crash of the machine, with `process` a crash of the process. `secrets` are strings to
    mask, in addition to strings that look like secrets.
    """

    def __init__(
        self,
        storage_path: str | Path | None = None,
        *,
        runtime: "AgentRuntime | None" = None,
        strict: bool = False,
        durability: Durability = "process",
        secrets: Sequence[str] = (),
    ) -> None:
        self._ledger = open_ledger(storage_path, runtime, durability=durability, secrets=secrets)
        self._is_strict = strict
        self._current = Current()
        self._stamps = Stamps()
        self._closing = finalize(self, self._ledger.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Transfer everything into the journal and close the files.

        Open runs stay open, and count as stuck after a while.
        """
        self._closing()

    def start_run(
        self, goal_id: str, goal_description: str = "", input_data: dict[str, object] | None = None
    ) -> str:
        """Start a run for a goal and make it the current one; return its id.

        An open run that this task or thread started is ended as cancelled. A run that it inherited, or that a
        `with runtime.run(…)` block binds, stays open, and is current again after the end of the new one. An
        empty id means that the run could not be recorded.
        """
        run_id = f"run_{day_and_time()}_{random_hex(8)}"
        recording = Recording(self._ledger, run_id=run_id, trace_id=random_hex(TRACE_HEX))
        faults: list[str] = []
        goal: JsonObject = {"goalId": text(goal_id, "goal_id", faults=faults)}
        if goal_description:
            goal["goalDescription"] = text(goal_description, "goal_description", faults=faults)
        if input_data is not None:
            goal["inputData"] = members(input_data, "input_data", faults=faults)
        self._complain("start_run", faults)
        self._close_open_run()
        if not self._is_kept(lambda: recording.begin(self._stamps.now(), goal)):
            return ""
        self._current.enter(recording)
        return run_id

    @contextmanager
    def run(self, run_id: str) -> Generator[str]:
        """Bind the code of a `with` block to an open run: `with runtime.run(run_id):`.

        Blocks may be nested, and tasks that are started in one inherit it. The end of the block does not end
        the run. Do not `yield` from a generator inside the block: it would bind the code that reads the
        generator too. Pass `run_id=` to the calls instead.

        Raises:
            RecordingError: `run_not_open`: the run has ended, or another recorder or process started it.
        """
        pin = self._current.pin(self._require_recording("run", run_id))
        try:
            yield run_id
        finally:
            self._current.unpin(pin)

    def end_run(
        self,
        success: bool,
        narrative: str = "",
        output_data: dict[str, object] | None = None,
        *,
        run_id: str | None = None,
    ) -> None:
        """End the current run, or the one named; without a `narrative`, a default text is recorded.

        The whole run is exported to `runs/{run_id}.json` in the folder.
        """
        recording = self._recording("end_run", run_id, can_join=False)
        if recording is None:
            return
        data: JsonObject = {}
        faults: list[str] = []
        is_success = truth(success, "success", faults=faults)
        if narrative:
            data["narrative"] = text(narrative, "narrative", faults=faults)
        if output_data is not None:
            data["outputData"] = members(output_data, "output_data", faults=faults)
        self._complain("end_run", faults)
        if not is_success:
            message = text(narrative)[:ERROR_CHARS_MAX] or "The run did not reach its goal."
            data["error"] = {
                "code": "rejected", "kind": "tool_failure", "retry": "not_retryable", "message": message
            }  # fmt: skip
        self._end(recording, "run.completed" if is_success else "run.failed", data=data)

    def set_node(self, node_id: str, *, run_id: str | None = None) -> None:
        """Set the node of the decisions that follow in this context and this run.

        A `run_id` names the run for this call only: calls without one stay in the run that is current.
        """
        recording = self._recording("set_node", run_id)
        if recording is None:
            return
        faults: list[str] = []
        node = text(node_id, "node_id", faults=faults)
        self._complain("set_node", faults)
        self._current.move(recording, node, can_bind=run_id is None)

    def decide(
        self,
        intent: str,
        options: Sequence[dict[str, object]],
        chosen: str,
        reasoning: str,
        node_id: str | None = None,
        decision_type: "DecisionType | DecisionTypeValue" = DecisionType.CUSTOM,
        constraints: Sequence[str] | None = None,
        context: dict[str, object] | None = None,
        *,
        run_id: str | None = None,
    ) -> str:
        """Record a decision; return its id, for `record_outcome`, or "" without a run."""
        recording = self._recording("decide", run_id)
        if recording is None:
            return ""
        at = self._stamps.now()
        faults: list[str] = []
        chosen_id = text(chosen, "chosen", faults=faults)
        decision: JsonObject = {
            "id": "",
            "timestamp": at,
            "nodeId": self._current.node_id(recording)
            if node_id is None
            else text(node_id, "node_id", faults=faults),
            "intent": text(intent, "intent", faults=faults),
            "decisionType": as_decision_type(decision_type, faults),
            "options": as_options(options, chosen_id, faults=faults),
            "chosenOptionId": chosen_id,
            "reasoning": text(reasoning, "reasoning", faults=faults),
        }
        if constraints:
            decision["activeConstraints"] = texts(constraints, "constraints", faults=faults)
        if context:
            decision["inputContext"] = members(context, "context", faults=faults)
        self._complain("decide", faults)
        try:
            return recording.decide(at, decision)
        except (OSError, RecordingError) as error:
            self._report_loss(error)
            return ""

    def record_outcome(
        self,
        decision_id: str,
        success: bool,
        result: object = None,
        error: str | None = None,
        summary: str = "",
        state_changes: dict[str, object] | None = None,
        tokens_used: int = 0,
        latency_ms: int = 0,
        *,
        run_id: str | None = None,
    ) -> None:
        """Record the outcome of a decision; it replaces an earlier one."""
        recording = self._recording("record_outcome", run_id)
        if recording is None or not self._is_known("record_outcome", recording, decision_id):
            return
        at = self._stamps.now()
        faults: list[str] = []
        if recording.is_settled(decision_id):
            faults.append(f"decision {decision_id} has an outcome already: this one takes its place")
        outcome: JsonObject = {"success": truth(success, "success", faults=faults)}
        outcome["timestamp"] = at
        if result is not None:
            outcome["result"] = anything(result)
        if error is not None:
            outcome["error"] = text(error, "error", faults=faults)
        if summary:
            outcome["summary"] = text(summary, "summary", faults=faults)
        if state_changes:
            outcome["stateChanges"] = members(state_changes, "state_changes", faults=faults)
        if tokens_used != 0:
            outcome["tokensUsed"] = whole_number("tokens_used", tokens_used, faults=faults)
        if latency_ms != 0:
            outcome["latencyMs"] = whole_number("latency_ms", latency_ms, faults=faults)
        self._complain("record_outcome", faults)
        self._is_kept(lambda: recording.settle(at, decision_id, outcome=outcome))

    def record_evaluation(
        self, decision_id: str, evaluation: "DecisionEvaluation", *, run_id: str | None = None
    ) -> None:
        """Record a judgement of a decision of the run; it replaces an earlier one."""
        recording = self._recording("record_evaluation", run_id)
        if recording is None or not self._is_known("record_evaluation", recording, decision_id):
            return
        if (wire := as_evaluation(evaluation)) is None:
            self._complain("record_evaluation", ["evaluation must be a DecisionEvaluation: it is not kept"])
        else:
            self._is_kept(lambda: recording.judge(self._stamps.now(), decision_id, evaluation=wire))

    def report_problem(
        self,
        severity: str,
        description: str,
        decision_id: str | None = None,
        root_cause: str | None = None,
        suggested_fix: str | None = None,
        *,
        run_id: str | None = None,
    ) -> str:
        """Record a problem; return its id, or "" without a run."""
        recording = self._recording("report_problem", run_id)
        if recording is None:
            return ""
        at = self._stamps.now()
        faults: list[str] = []
        problem: JsonObject = {
            "id": "",
            "severity": as_severity(severity, faults),
            "description": text(description, "description", faults=faults),
            "timestamp": at,
        }
        if decision_id is not None and recording.knows(decision_id):
            problem["decisionId"] = decision_id
        elif decision_id is not None:
            faults.append(_unknown(decision_id, recording))
            problem["unknownDecisionId"] = text(decision_id)
        if root_cause is not None:
            problem["rootCause"] = text(root_cause, "root_cause", faults=faults)
        if suggested_fix is not None:
            problem["suggestedFix"] = text(suggested_fix, "suggested_fix", faults=faults)
        self._complain("report_problem", faults)
        try:
            return recording.report(at, problem)
        except (OSError, RecordingError) as error:
            self._report_loss(error)
            return ""

    def decide_and_execute(
        self,
        intent: str,
        options: Sequence[dict[str, object]],
        chosen: str,
        reasoning: str,
        executor: Callable[[], T],
        **kwargs: Unpack[DecideOptions],
    ) -> tuple[str, T]:
        """Record a decision, execute it, and record its outcome; return id and result.

        An exception of the executor is recorded as a failure and raised again. The result of an async
        executor is an awaitable: the outcome is recorded when it is awaited, and until then the decision is
        pending. Without a run the executor is still called.
        """
        recording = self._recording("decide_and_execute", kwargs.get("run_id"))
        decision_id = ""
        if recording is not None:
            # By its id: another thread may start or end a run meanwhile.
            kwargs["run_id"] = recording.run_id
            decision_id = self.decide(intent, options, chosen, reasoning, **kwargs)
        began_ms = elapsed_ms()
        try:
            result = executor()
        except BaseException as error:
            self._record_execution(recording, decision_id, began_ms, failure(error))
            raise
        if isawaitable(result):
            return decision_id, cast("T", self._await_result(result, recording, decision_id))
        self._record_execution(
            recording, decision_id, began_ms, {"success": True, "result": anything(result)}
        )
        return decision_id, result

    def quick_decision(
        self,
        intent: str,
        action: str,
        reasoning: str,
        node_id: str | None = None,
        *,
        run_id: str | None = None,
    ) -> str:
        """Record a decision that had no alternatives; return its id."""
        option: dict[str, object] = {"id": _QUICK, "description": action, "action_type": "execute"}
        return self.decide(intent, [option], _QUICK, reasoning, node_id, run_id=run_id)

    @property
    def current_run(self) -> "Run | None":
        """The current run as recorded so far; None without one, or if it could be one of several.

        It is read from the journal on each access: avoid it in every step of a long run.
        """
        recording = self._current.recording()
        if recording is None:
            return None
        from windlass.ledger.reading import read_run  # noqa: PLC0415 - slow to import

        return self._ledger.ask(lambda store: read_run(store, recording.run_id))

    @property
    def execution_id(self) -> str:
        """The W3C trace id of the run of this context, 32 hex digits; "" before the first."""
        recording, last = self._current.recording(), self._current.last()
        if recording is not None:
            return recording.trace_id
        return "" if last is None else last.recording.trace_id

    async def _await_result(
        self, result: Awaitable[object], recording: Recording | None, decision_id: str
    ) -> object:
        began_ms = elapsed_ms()
        try:
            value = await result
        except BaseException as error:
            self._record_execution(recording, decision_id, began_ms, failure(error))
            raise
        self._record_execution(recording, decision_id, began_ms, {"success": True, "result": anything(value)})
        return value

    def _record_execution(
        self, recording: Recording | None, decision_id: str, began_ms: int, outcome: JsonObject
    ) -> None:
        if recording is not None and decision_id:
            at = self._stamps.now()
            outcome = {**outcome, "timestamp": at, "latencyMs": max(0, elapsed_ms() - began_ms)}
            self._is_kept(lambda: recording.settle(at, decision_id, outcome=outcome))

    def _recording(self, call: str, run_id: str | None = None, *, can_join: bool = True) -> Recording | None:
        """Return the run that is named, or the current one; report a fault if there is none.

        Raises:
            RecordingError: `run_not_open`, or `ambiguous_run`.
        """
        if run_id is not None:
            return self._require_recording(call, run_id)
        recording = self._current.recording(can_join=can_join)
        if recording is None:
            self._check_bound(call, can_join=can_join)
            self._complain(call, [f"there is no current run: call start_run first{self._inherited_note()}"])
        return recording

    def _require_recording(self, call: str, run_id: object) -> Recording:
        recording = self._current.open_recording(run_id)
        if recording is None:
            raise self._not_open(call, run_id)
        return recording

    def _not_open(self, call: str, run_id: object) -> RecordingError:
        return RecordingError(
            f"{call}: run {text(run_id)} is not open here: it has ended, or another recorder or process "
            f"started it. Name an open run; {_list_open_runs(self._current.candidates())}",
            code="run_not_open",
            run_ids=(text(run_id),),
        )

    def _check_bound(self, call: str, *, can_join: bool) -> None:
        """Raise if a run is open that the call could mean, or if its block is of a run that has ended."""
        binding, last, runs = self._current.binding(), self._current.last(), self._current.candidates()
        if binding is not None:
            raise self._not_open(call, binding.recording.run_id)
        if not runs or (not can_join and last is not None):
            return
        ended_text = "" if last is None else f"run {last.recording.run_id} of this thread or task has ended; "
        raise RecordingError(
            f"{call}: nothing was recorded, because this thread or task is not bound to a run; "
            f"{ended_text}{_list_open_runs(runs)}. Bind it: `with runtime.run(run_id):`, or "
            "`run_id=` in the call, or start the thread with `in_this_context(function)` of windlass.ledger.",
            code="ambiguous_run",
            run_ids=tuple(run.run_id for run in runs),
        )

    def _inherited_note(self) -> str:
        """Return a note for a forked process in the context of a run of its parent."""
        binding = self._current.inherited_binding()
        return "" if binding is None else f" in this process; run {binding.recording.run_id} is its parent's"

    def _is_known(self, call: str, recording: Recording, decision_id: object) -> bool:
        is_known = recording.knows(decision_id)
        if not is_known:
            self._complain(call, [_unknown(decision_id, recording)])
        return is_known

    def _close_open_run(self) -> None:
        binding = self._current.binding()
        if binding is None or binding.pin is not None or binding.recording.starter() is not current_worker():
            return
        run_id = binding.recording.run_id
        self._complain("start_run", [f"run {run_id} is open: it is closed as cancelled, call end_run first"])
        self._end(binding.recording, "run.cancelled", data={"reason": "Another run was started."})

    def _end(self, recording: Recording, type_: str, *, data: JsonObject) -> None:
        if not self._is_kept(lambda: recording.end(self._stamps.now(), type_, data=data)):
            return
        self._current.leave(recording)
        self._ledger.finish(recording.run_id)

    def _complain(self, call: str, faults: Sequence[str]) -> None:
        """Raise if strict; else log the faults."""
        if faults and self._is_strict:
            raise RecordingError(f"{call}: {'; '.join(faults)}")
        for fault in faults:
            _log.warning("%s: %s", call, fault)

    def _is_kept(self, write: Callable[[], object]) -> bool:
        try:
            write()
        except (OSError, RecordingError) as error:
            self._report_loss(error)
            return False
        return True

    def _report_loss(self, error: OSError | RecordingError) -> None:
        """Log that a record was not written; an agent does not fail because of it (unless strict)."""
        if self._is_strict:
            raise RecordingError(f"not recorded: {error}") from error
        _log.error("not recorded: %s", error)


def _list_open_runs(runs: Sequence[Recording]) -> str:
    ids = ", ".join(run.run_id for run in runs[:IDS_SHOWN_MAX])
    return f"open runs: {ids}" if ids else "no run is open"


def _unknown(decision_id: object, recording: Recording) -> str:
    return f"run {recording.run_id} has no decision {text(decision_id)!r}"
