"""The recorder: what an agent decides, one durable record a call."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypedDict, TypeVar, Unpack, cast
from weakref import finalize

from windlass.adapters.wall import Stamps, day_and_time, elapsed_ms, random_hex
from windlass.json_value import JsonObject
from windlass.recorder import drafting
from windlass.recorder.context import Current
from windlass.recorder.kinds import DecisionType, RecordingError
from windlass.recorder.places import Durability, open_ledger
from windlass.recorder.recording import ERROR_CHARS_MAX, Recording

if TYPE_CHECKING:
    from windlass.recorder.model import DecisionEvaluation, Run
    from windlass.runtime import CoreRuntime

T = TypeVar("T")

NODE_UNKNOWN: Final = "unknown"
"""The node of decisions that were made before any was set."""
TRACE_HEX: Final = 32
_QUICK: Final = "action"

_log: Final = logging.getLogger("windlass.recorder")


class DecideOptions(TypedDict, total=False):
    """What `decide_and_execute` passes on to `decide`."""

    node_id: str | None
    decision_type: DecisionType | str
    constraints: Sequence[str] | None
    context: dict[str, object] | None


class Runtime:
    """Records the decisions of an agent; every call is durable when it returns.

    `storage_path` is a folder, which is made if it is missing; instead of it, `runtime` is an `AgentRuntime`
    into whose journal the records go. It may be used from scripts, threads and tasks at once, and by many
    processes on one folder. Each context has a current run of its own.

    A value that JSON has no form for is kept as its repr. What is wrong with a call is logged as a warning,
    and the call does what it can; with `strict` it raises RecordingError instead and records nothing. With
    durability `power` a call survives a crash of the machine, with `process` one of the process. `secrets`
    are texts that must never be written, beside whatever looks like a secret.
    """

    def __init__(
        self,
        storage_path: str | Path | None = None,
        *,
        runtime: "CoreRuntime | None" = None,
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
        """Bring everything into the journal and let go of the files.

        Runs that are open stay so, and are stuck after a while.
        """
        self._closing()

    def start_run(
        self, goal_id: str, goal_description: str = "", input_data: dict[str, object] | None = None
    ) -> str:
        """Start a run for a goal and make it the current one; return its id.

        The run that this context itself has open is closed as cancelled. An empty id means that the run
        could not be written down.
        """
        run_id = f"run_{day_and_time()}_{random_hex(8)}"
        recording = Recording(self._ledger, run_id=run_id, trace_id=random_hex(TRACE_HEX))
        faults: list[str] = []
        goal: JsonObject = {"goalId": drafting.text(goal_id, "goal_id", faults=faults)}
        if goal_description:
            goal["goalDescription"] = drafting.text(goal_description, "goal_description", faults=faults)
        if input_data is not None:
            goal["inputData"] = drafting.members(input_data, "input_data", faults=faults)
        self._complain("start_run", faults)
        self._close_open_run()
        if not self._is_kept(lambda: recording.begin(self._stamps.now(), goal)):
            return ""
        self._current.enter(recording, NODE_UNKNOWN)
        return run_id

    def end_run(
        self, success: bool, narrative: str = "", output_data: dict[str, object] | None = None
    ) -> None:
        """End the current run; what happened is told by the narrative, or else by us.

        `runs/{run_id}.json` in the folder then has the whole run, for people and tools.
        """
        recording = self._recording("end_run")
        if recording is None:
            return
        data: JsonObject = {}
        faults: list[str] = []
        is_success = drafting.truth(success, "success", faults=faults)
        if narrative:
            data["narrative"] = drafting.text(narrative, "narrative", faults=faults)
        if output_data is not None:
            data["outputData"] = drafting.members(output_data, "output_data", faults=faults)
        self._complain("end_run", faults)
        if not is_success:
            message = drafting.text(narrative)[:ERROR_CHARS_MAX] or "The run did not reach its goal."
            data["error"] = {
                "code": "rejected", "kind": "tool_failure", "retry": "not_retryable", "message": message
            }  # fmt: skip
        self._end(recording, "run.completed" if is_success else "run.failed", data=data)

    def set_node(self, node_id: str) -> None:
        """Set the node of the decisions that follow in this context and this run."""
        recording = self._recording("set_node")
        if recording is None:
            return
        faults: list[str] = []
        node = drafting.text(node_id, "node_id", faults=faults)
        self._complain("set_node", faults)
        self._current.move(recording, node)

    def decide(  # noqa: PLR0913 - the documented signature
        self,
        intent: str,
        options: Sequence[dict[str, object]],
        chosen: str,
        reasoning: str,
        node_id: str | None = None,
        decision_type: DecisionType | str = DecisionType.CUSTOM,
        constraints: Sequence[str] | None = None,
        context: dict[str, object] | None = None,
    ) -> str:
        """Record a decision; return its id, for `record_outcome`, or "" without a run."""
        recording = self._recording("decide")
        if recording is None:
            return ""
        at = self._stamps.now()
        faults: list[str] = []
        chosen_id = drafting.text(chosen, "chosen", faults=faults)
        decision: JsonObject = {
            "id": "",
            "timestamp": at,
            "nodeId": self._node() if node_id is None else drafting.text(node_id, "node_id", faults=faults),
            "intent": drafting.text(intent, "intent", faults=faults),
            "decisionType": drafting.decision_type(decision_type, faults),
            "options": drafting.options(options, chosen_id, faults=faults),
            "chosenOptionId": chosen_id,
            "reasoning": drafting.text(reasoning, "reasoning", faults=faults),
        }
        if constraints:
            decision["activeConstraints"] = drafting.texts(constraints, "constraints", faults=faults)
        if context:
            decision["inputContext"] = drafting.members(context, "context", faults=faults)
        if faults:
            self._complain("decide", faults)
        try:
            return recording.decide(at, decision)
        except (OSError, RecordingError) as error:
            self._lost(error)
            return ""

    def record_outcome(  # noqa: PLR0913 - the documented signature
        self,
        decision_id: str,
        success: bool,
        result: object = None,
        error: str | None = None,
        summary: str = "",
        state_changes: dict[str, object] | None = None,
        tokens_used: int = 0,
        latency_ms: int = 0,
    ) -> None:
        """Record what came of a decision; a second outcome takes the place of the first."""
        recording = self._recording("record_outcome")
        if recording is None or not self._is_known("record_outcome", recording, decision_id):
            return
        at = self._stamps.now()
        faults: list[str] = []
        if recording.is_settled(decision_id):
            faults.append(f"decision {decision_id} has an outcome already: this one takes its place")
        outcome: JsonObject = {"success": drafting.truth(success, "success", faults=faults)}
        outcome["timestamp"] = at
        if result is not None:
            outcome["result"] = drafting.anything(result)
        if error is not None:
            outcome["error"] = drafting.text(error, "error", faults=faults)
        if summary:
            outcome["summary"] = drafting.text(summary, "summary", faults=faults)
        if state_changes:
            outcome["stateChanges"] = drafting.members(state_changes, "state_changes", faults=faults)
        if tokens_used != 0:
            outcome["tokensUsed"] = drafting.count("tokens_used", tokens_used, faults=faults)
        if latency_ms != 0:
            outcome["latencyMs"] = drafting.count("latency_ms", latency_ms, faults=faults)
        if faults:
            self._complain("record_outcome", faults)
        self._is_kept(lambda: recording.settle(at, decision_id, outcome=outcome))

    def record_evaluation(self, decision_id: str, evaluation: "DecisionEvaluation") -> None:
        """Record a judgement of a decision of the current run; it replaces an earlier one."""
        recording = self._recording("record_evaluation")
        if recording is None or not self._is_known("record_evaluation", recording, decision_id):
            return
        if (wire := drafting.evaluation(evaluation)) is None:
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
    ) -> str:
        """Record a problem; return its id, or "" without a run."""
        recording = self._recording("report_problem")
        if recording is None:
            return ""
        at = self._stamps.now()
        faults: list[str] = []
        problem: JsonObject = {
            "id": "",
            "severity": drafting.severity(severity, faults),
            "description": drafting.text(description, "description", faults=faults),
            "timestamp": at,
        }
        if decision_id is not None and recording.knows(decision_id):
            problem["decisionId"] = decision_id
        elif decision_id is not None:
            faults.append(_unknown(decision_id, recording))
            problem["unknownDecisionId"] = drafting.text(decision_id)
        if root_cause is not None:
            problem["rootCause"] = drafting.text(root_cause, "root_cause", faults=faults)
        if suggested_fix is not None:
            problem["suggestedFix"] = drafting.text(suggested_fix, "suggested_fix", faults=faults)
        if faults:
            self._complain("report_problem", faults)
        try:
            return recording.report(at, problem)
        except (OSError, RecordingError) as error:
            self._lost(error)
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
        """Record a decision, do it, and record what came of it; return id and result.

        Whatever the executor raises is recorded as a failure and raised again. The result of an async
        executor is an awaitable: the outcome is recorded when it is awaited, and until then the decision is
        pending. Without a run the executor is called all the same.
        """
        recording = self._current.recording()
        decision_id = self.decide(intent, options, chosen, reasoning, **kwargs)
        began_ms = elapsed_ms()
        try:
            result = executor()
        except BaseException as error:
            self._executed(recording, decision_id, began_ms, drafting.failure(error))
            raise
        if isawaitable(result):
            return decision_id, cast("T", self._awaited(result, recording, decision_id))
        self._executed(
            recording, decision_id, began_ms, {"success": True, "result": drafting.anything(result)}
        )
        return decision_id, result

    def quick_decision(self, intent: str, action: str, reasoning: str, node_id: str | None = None) -> str:
        """Record a decision that had no alternatives; return its id."""
        option: dict[str, object] = {"id": _QUICK, "description": action, "action_type": "execute"}
        return self.decide(intent, [option], _QUICK, reasoning, node_id)

    @property
    def current_run(self) -> "Run | None":
        """The current run as it is recorded by now; None without one.

        It is read from the journal: ask for it when you need it, and not in every step of a long run.
        """
        recording = self._current.recording()
        if recording is None:
            return None
        from windlass.recorder.reading import read_run  # noqa: PLC0415 - slow to import

        return self._ledger.ask(lambda store: read_run(store, recording.run_id))

    @property
    def execution_id(self) -> str:
        """The W3C trace id of the run of this context, 32 hex digits; "" before the first."""
        place = self._current.place()
        recording = self._current.recording() if place is None else place.recording
        return "" if recording is None else recording.trace_id

    async def _awaited(
        self, result: Awaitable[object], recording: Recording | None, decision_id: str
    ) -> object:
        began_ms = elapsed_ms()
        try:
            value = await result
        except BaseException as error:
            self._executed(recording, decision_id, began_ms, drafting.failure(error))
            raise
        self._executed(
            recording, decision_id, began_ms, {"success": True, "result": drafting.anything(value)}
        )
        return value

    def _executed(
        self, recording: Recording | None, decision_id: str, began_ms: int, outcome: JsonObject
    ) -> None:
        if recording is not None and decision_id:
            at = self._stamps.now()
            outcome = {**outcome, "timestamp": at, "latencyMs": max(0, elapsed_ms() - began_ms)}
            self._is_kept(lambda: recording.settle(at, decision_id, outcome=outcome))

    def _node(self) -> str:
        place = self._current.place()
        return NODE_UNKNOWN if place is None else place.node_id

    def _recording(self, call: str) -> Recording | None:
        """Return the run that a call is about; complain if there is none."""
        recording = self._current.recording()
        if recording is None:
            count = self._current.open_count
            others = f"; {count} runs are open in other threads or tasks" if count else ""
            self._complain(call, [f"there is no current run: call start_run first{others}"])
        return recording

    def _is_known(self, call: str, recording: Recording, decision_id: object) -> bool:
        is_known = recording.knows(decision_id)
        if not is_known:
            self._complain(call, [_unknown(decision_id, recording)])
        return is_known

    def _close_open_run(self) -> None:
        place = self._current.place()
        if place is None or not place.recording.is_open or not place.is_own:
            return
        run_id = place.recording.run_id
        self._complain("start_run", [f"run {run_id} is open: it is closed as cancelled, call end_run first"])
        self._end(place.recording, "run.cancelled", data={"reason": "Another run was started."})

    def _end(self, recording: Recording, type_: str, *, data: JsonObject) -> None:
        if not self._is_kept(lambda: recording.end(self._stamps.now(), type_, data=data)):
            return
        self._current.leave(recording)
        self._ledger.finish(recording.run_id)

    def _complain(self, call: str, faults: Sequence[str]) -> None:
        """Raise if strict; else log, and let the call do what it can."""
        if faults and self._is_strict:
            raise RecordingError(f"{call}: {'; '.join(faults)}")
        for fault in faults:
            _log.warning("%s: %s", call, fault)

    def _is_kept(self, write: Callable[[], object]) -> bool:
        try:
            write()
        except (OSError, RecordingError) as error:
            self._lost(error)
            return False
        return True

    def _lost(self, error: OSError | RecordingError) -> None:
        """Tell that a record could not be kept: an agent does not fail because of that."""
        if self._is_strict:
            raise RecordingError(f"not recorded: {error}") from error
        _log.error("not recorded: %s", error)


def _unknown(decision_id: object, recording: Recording) -> str:
    return f"run {recording.run_id} has no decision {drafting.text(decision_id)!r}"
