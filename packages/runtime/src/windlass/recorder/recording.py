"""One open run: numbers its decisions and problems, and writes each down."""

from threading import Lock
from typing import Final

from windlass.json_value import JsonObject, JsonValue
from windlass.recorder.drafting import said_in
from windlass.recorder.kinds import RecordingError
from windlass.recorder.ledger import Ledger

AGENT_ID: Final = "recorder"
"""The agent of runs that were recorded from outside."""
ERROR_CHARS_MAX: Final = 4_000
_DECISION: Final = "dec_"
_PENDING: Final = 0
_SETTLED: Final = 1


class Recording:
    """A run that is being recorded, from any number of threads.

    All methods raise OSError if the disk does not take the record; then nothing was recorded.
    """

    def __init__(self, ledger: Ledger, *, run_id: str, trace_id: str) -> None:
        self.run_id = run_id
        self.trace_id = trace_id
        self.is_open = True
        self._ledger = ledger
        self._generation = ledger.generation
        self._lock = Lock()
        self._seq = 0
        self._outcomes = bytearray()
        """For each decision, whether it has an outcome."""
        self._problem_count = 0

    @property
    def is_ours(self) -> bool:
        """Whether this process began it: a forked one has a copy of what its parent does."""
        return self._generation == self._ledger.generation

    def begin(self, at: str, goal: JsonObject) -> None:
        """Write down that the run begins."""
        with self._lock:
            self._write("session.started", at, data={"trace": {"traceId": self.trace_id}})
            writer: JsonObject = {"recorder": self._ledger.writer}
            data: JsonObject = {"runId": self.run_id, "agentId": AGENT_ID, **goal, "metadata": writer}
            self._write("run.started", at, data=data)

    def decide(self, at: str, decision: JsonObject) -> str:
        """Write down a decision; return its id."""
        with self._lock:
            self._check_open()
            decision_id = decision["id"] = f"{_DECISION}{len(self._outcomes)}"
            self._write("decision.recorded", at, data={"decision": decision}, said=said_in(decision))
            self._outcomes.append(_PENDING)
            return decision_id

    def settle(self, at: str, decision_id: str, *, outcome: JsonObject) -> None:
        """Write down what came of a decision, instead of what was said before."""
        with self._lock:
            self._check_open()
            data: JsonObject = {"decisionId": decision_id, "outcome": outcome}
            self._write("decision.outcome", at, data=data, said=list(outcome.values()))
            self._outcomes[int(decision_id[len(_DECISION) :])] = _SETTLED

    def judge(self, at: str, decision_id: str, *, evaluation: JsonObject) -> None:
        """Write down a judgement of a decision."""
        with self._lock:
            self._check_open()
            self._write("decision.evaluated", at, data={"decisionId": decision_id, "evaluation": evaluation})

    def report(self, at: str, problem: JsonObject) -> str:
        """Write down a problem; return its id."""
        with self._lock:
            self._check_open()
            problem_id = problem["id"] = f"prob_{self._problem_count}"
            self._write("problem.reported", at, data={"problem": problem})
            self._problem_count += 1
            return problem_id

    def end(self, at: str, type_: str, *, data: JsonObject) -> None:
        """Write down the end; nothing can be recorded after it."""
        with self._lock:
            self._check_open()
            self._write(type_, at, data={"runId": self.run_id, **data})
            self.is_open = False

    def knows(self, decision_id: object) -> bool:
        """Tell whether a decision is one of this run."""
        if not isinstance(decision_id, str) or not decision_id.startswith(_DECISION):
            return False
        number = decision_id[len(_DECISION) :]
        is_number = number.isascii() and number.isdecimal() and str(int(number[:18])) == number
        return is_number and int(number) < len(self._outcomes)

    def is_settled(self, decision_id: str) -> bool:
        """Tell whether a decision of this run has an outcome."""
        return self._outcomes[int(decision_id[len(_DECISION) :])] == _SETTLED

    def _check_open(self) -> None:
        if not self.is_open:
            raise RecordingError(f"run {self.run_id} has ended: nothing can be recorded into it")

    def _write(self, type_: str, at: str, *, data: JsonObject, said: list[JsonValue] | None = None) -> None:
        body = self._ledger.encode(
            type_, at, data=data, run_id=self.run_id, said=data if said is None else said
        )
        self._ledger.append(self.run_id, self._seq + 1, body=body)
        self._seq += 1
