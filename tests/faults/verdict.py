"""Invariants after any number of crashes: journal, traces and outputs agree."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

Fact = dict[str, Any]

RUN_ENDS: Final = ("run.completed", "run.failed", "run.cancelled", "run.budget_exhausted")
REPEATABLE: Final = ("look", "note")
"""The tools that may be repeated, independent of the journal."""


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must not be."""

    rule: str
    detail: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.detail}"


@dataclass(slots=True)
class _Call:
    """One call, as recorded in the journal."""

    key: str = ""
    tool: str = ""
    starts: list[Fact] = field(default_factory=list[Fact])
    results: list[Fact] = field(default_factory=list[Fact])
    found: list[int] = field(default_factory=list[int])
    asked: list[int] = field(default_factory=list[int])
    settled: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])


@dataclass(slots=True)
class Tally:
    """Counts of crashes, recoveries and requests."""

    repeated: int = 0
    """Interrupted effects that were repeated with their key."""
    parked: int = 0
    """Interrupted effects that a person was asked about."""


def judge(
    sessions: dict[str, list[Fact]], runs: Iterable[str], *, acks: list[Fact], ledger: list[Fact]
) -> tuple[list[Violation], Tally]:
    """Return all violations, and the counts of recoveries."""
    tally = Tally()
    found: list[Violation] = []
    for name, records in sessions.items():
        found += _ordered(name, records)
        calls = _calls(records)
        mine = [entry for entry in ledger if entry["session"] == name]
        for call in calls.values():
            found += _effects(call, [entry for entry in mine if entry["key"] == call.key])
            found += _recovered(call)
            tally.repeated += len(call.found) - len(call.asked)
            tally.parked += len(call.asked)
        known = {call.key for call in calls.values()}
        found += [
            Violation("effect without intent", entry["key"]) for entry in mine if entry["key"] not in known
        ]
    found += _ends(sessions, runs)
    found += _kept(sessions, acks)
    return found, tally


def _ordered(name: str, records: list[Fact]) -> Iterator[Violation]:
    numbers = [record["seq"] for record in records]
    if numbers != list(range(1, len(records) + 1)):
        yield Violation("gap", f"session {name} has {numbers}")
    places = [record["position"] for record in records]
    if places != sorted(set(places)):
        yield Violation("order", f"session {name} has positions {places}")
    epochs = [record["epoch"] for record in records]
    if epochs != sorted(epochs):
        yield Violation("interleaved owners", f"session {name} has epochs {epochs}")


def _calls(records: list[Fact]) -> dict[tuple[str, int, str], _Call]:
    """Return the calls of a session: a call id is unique in its step of its run."""
    calls: dict[tuple[str, int, str], _Call] = {}
    newest: dict[str, _Call] = {}
    for record in records:
        data = record["data"]
        match record["type"]:
            case "action.started":
                key = record["run"], data["stepIndex"], data["callId"]
                call = newest[data["callId"]] = calls.setdefault(key, _Call())
                call.key, call.tool = call.key or data["idempotencyKey"], data["toolName"]
                call.starts.append(record)
            case "action.result":
                if data["result"]["callId"] in newest:
                    newest[data["result"]["callId"]].results.append(record)
            case "recovery.effect_found":
                newest[data["callId"]].found.append(record["seq"])
            case "recovery.effect_settled":
                newest[data["callId"]].settled.append((record["seq"], data["choice"]))
            case "input.requested":
                for request in data["requests"]:
                    newest[request["action"]["callId"]].asked.append(record["seq"])
            case _:
                pass
    return calls


def _effects(call: _Call, entries: list[Fact]) -> Iterator[Violation]:
    """Every effect has an intent of its own, and nothing happens after a result."""
    attempts = Counter(entry["attempt"] for entry in entries)
    for attempt, count in attempts.items():
        if count > 1:
            yield Violation("repeated", f"{call.key} attempt {attempt} was performed {count} times")
        if attempt > len(call.starts):
            yield Violation("effect without intent", f"{call.key} attempt {attempt}")
    keys = {start["data"]["idempotencyKey"] for start in call.starts}
    if len(keys) != 1:
        yield Violation("another key", f"{sorted(keys)}")
    if len(call.results) != 1:
        yield Violation("results", f"{call.key} has {len(call.results)} results")
    for result in call.results:
        if any(start["seq"] > result["seq"] for start in call.starts):
            yield Violation("repeated", f"{call.key} was begun again after its result")
        yield from _true_result(call, result, entries)


def _true_result(call: _Call, result: Fact, entries: list[Fact]) -> Iterator[Violation]:
    if any(choice == "supply" for _, choice in call.settled):
        return
    if any(choice == "skip" for _, choice in call.settled):
        if result["data"].get("error", {}).get("code") != "skipped":
            yield Violation("made-up result", f"{call.key} was skipped")
        return
    last = call.starts[-1]
    output: Fact = result["data"]["result"]["output"] or {}
    proof = output.get("proof")
    if result["epoch"] != last["epoch"]:
        yield Violation("made-up result", f"{call.key}: no process performed it in epoch {result['epoch']}")
    if proof not in [entry["proof"] for entry in entries if entry["attempt"] == len(call.starts)]:
        yield Violation("made-up result", f"{call.key}: {proof} is not in the ledger")


def _recovered(call: _Call) -> Iterator[Violation]:
    """An interrupted call is repeated with its key, or a person was asked."""
    for before, after in zip(call.starts, call.starts[1:], strict=False):
        span = range(before["seq"], after["seq"])
        if not any(seq in span for seq in call.found):
            yield Violation("silently repeated", f"{call.key} is {call.tool}")
        elif call.tool not in REPEATABLE and not any(
            seq in span and choice == "retry" for seq, choice in call.settled
        ):
            yield Violation("repeated", f"{call.key} ({call.tool}), and no retry was recorded")
    if call.tool not in REPEATABLE and len(call.found) != len(call.asked):
        yield Violation("not parked", f"{call.key} was found {len(call.found)} times")


def _ends(sessions: dict[str, list[Fact]], runs: Iterable[str]) -> Iterator[Violation]:
    everything = [record for records in sessions.values() for record in records]
    for run in runs:
        mine = [record for record in everything if record["run"] == run]
        ends = [record["type"] for record in mine if record["type"] in RUN_ENDS]
        starts = sum(record["type"] == "run.started" for record in mine)
        if ends != ["run.completed"] or starts != 1:
            yield Violation("ends", f"run {run} has {starts} starts and ends {ends}")
        last = [record["type"] for record in mine][-2:]
        if mine and last != ["turn.completed", "run.completed"]:
            yield Violation("ends", f"run {run} ends with {last}")


def _kept(sessions: dict[str, list[Fact]], acks: list[Fact]) -> Iterator[Violation]:
    """No acknowledged output is lost or changed."""
    ends = {
        record["run"]: record
        for records in sessions.values()
        for record in records
        if record["type"] == "run.completed"
    }
    for ack in acks:
        match ack["what"]:
            case "event":
                records: list[Fact] = sessions[ack["session"]]
                found = [one for one in records if one["seq"] == ack["seq"]]
                if [(one["type"], one["data"]) for one in found] != [(ack["type"], ack["data"])]:
                    yield Violation("lost", f"event {ack['seq']} {ack['type']} of {ack['session']}")
            case "result":
                end = ends.get(ack["run"])
                if end is None or end["data"].get("output") != ack["output"] or ack["status"] != "completed":
                    yield Violation("lost", f"result of {ack['run']}")
            case _:
                if ack["run"] not in ends:
                    yield Violation("lost", f"start of {ack['run']}")
