"""Records for the tests of the views: written by hand, and drawn at random."""

from collections.abc import Mapping
from typing import TypeVar

from hypothesis import strategies as st

from windlass_harness.record import Record, from_wire

T = TypeVar("T")
Facts = Mapping[str, object]


class Journal:
    """A session's records, one second apart."""

    def __init__(self, session_id: str = "s1") -> None:
        self.session_id = session_id
        self.records: list[Record] = []

    def add(self, kind: str, data: Facts | None = None, **fields: object) -> "Journal":
        seq = len(self.records) + 1
        at = f"2026-01-31T{9 + seq // 3600:02d}:{seq // 60 % 60:02d}:{seq % 60:02d}.000Z"
        body = {
            "sessionId": self.session_id,
            "seq": seq,
            "type": kind,
            "at": at,
            "data": data or {},
            **fields,
        }
        self.records.append(from_wire(body))
        return self

    def begin(self, text: str = "the task") -> "Journal":
        """A session, a run and a turn with a message."""
        self.add("session.started").add("run.started", {"runId": "r1", "agentId": "helper"})
        return self.turn(text)

    def turn(self, text: str, turn: int = 0) -> "Journal":
        self.add("turn.started", {"sequence": turn, "turnId": f"t{turn}"})
        return self.add("message.received", {"message": text, "sequence": turn, "turnId": f"t{turn}"})

    def start(self, step: int = 0, turn: int = 0, **more: object) -> "Journal":
        fields = {key: more.pop(key) for key in ("attempt",) if key in more}
        return self.add("step.started", {**at(step, turn), **more}, **fields)

    def say(self, text: str | None, step: int = 0, turn: int = 0, **more: object) -> "Journal":
        return self.add(
            "message.completed", {"message": text, "finishReason": "stop", **at(step, turn), **more}
        )

    def ask(self, *call_ids: str, step: int = 0, turn: int = 0) -> "Journal":
        return self.add("actions.requested", {"actions": [call(one) for one in call_ids], **at(step, turn)})

    def end(self, step: int = 0, turn: int = 0, **more: object) -> "Journal":
        return self.add("step.completed", {"finishReason": "stop", **at(step, turn), **more})

    def answer(self, *call_ids: str, text: str = "ok", step: int = 0, turn: int = 0) -> "Journal":
        """A whole step: words, calls, end."""
        self.start(step, turn).say(text, step, turn)
        return (self.ask(*call_ids, step=step, turn=turn) if call_ids else self).end(step, turn)

    def run(self, call_id: str, step: int = 0, turn: int = 0) -> "Journal":
        data = {"callId": call_id, "toolName": "look", "effect": "once", "idempotencyKey": f"k-{call_id}"}
        return self.add("action.started", {**data, **at(step, turn)})

    def result(self, call_id: str, output: object = "found", **more: object) -> "Journal":
        found = {"kind": "tool-result", "callId": call_id, "toolName": "look", "output": output}
        return self.add("action.result", {"result": found, "status": "completed", **at(), **more})


def at(step: int = 0, turn: int = 0) -> Facts:
    return {"sequence": turn, "stepIndex": step, "turnId": f"t{turn}"}


def call(call_id: str, tool: str = "look") -> Facts:
    return {"kind": "tool-call", "callId": call_id, "toolName": tool, "input": {"for": call_id}}


def request(request_id: str, call_id: str, **more: object) -> Facts:
    return {
        "requestId": request_id,
        "action": call(call_id, "ask_question"),
        "prompt": "Which?",
        "display": "text",
        **more,
    }


def some(value: T | None) -> T:
    """Narrow an optional value that the test expects to be set."""
    assert value is not None
    return value


# Random streams: every known shape with ids from small pools, in any order. Most streams make no sense as a
# session, and the folds must bear them all.

Strategy = st.SearchStrategy
STEPS: Strategy[Facts] = st.builds(at, st.integers(0, 2), st.integers(0, 1))
TURNS: Strategy[Facts] = st.sampled_from([{"sequence": turn, "turnId": f"t{turn}"} for turn in (0, 1)])
CALLS = st.sampled_from(["c0", "c1"])
RUNS = st.sampled_from(["r0", "r1"])
TEXTS = st.sampled_from(["", "hello", "more"])
DECISIONS = st.sampled_from(["d0", "d1"])
REQUEST_IDS = st.sampled_from(["q0", "q1", "q2"])
USAGES: Strategy[Facts] = st.fixed_dictionaries(
    {},
    optional={"inputTokens": st.integers(0, 50), "outputTokens": st.integers(0, 9), "costMicros": st.just(7)},
)
KINDS: Strategy[Facts] = st.sampled_from([{}, {"kind": "question"}, {"kind": "approval"}])
FAILURE: Facts = {"code": "E", "message": "it broke"}
ERROR: Facts = {"code": "unavailable", "kind": "timeout", "retry": "retryable", "message": "late"}
UNSTARTED: Facts = {"runId": "r2", "unstarted": {"runId": "r2", "agentId": "helper"}}
INTERRUPT: Facts = {"decision": "interrupt", "code": "c", "reason": "stop", "policyRefs": []}
SPENT: Facts = {"tokensUsed": 1, "stepsUsed": 1, "toolCallsUsed": 0, "costMicrosUsed": 0, "wallMsUsed": 0}
DECISION: Facts = {
    "timestamp": "2026-01-31T09:00:00Z",
    "nodeId": "n",
    "intent": "go on",
    "decisionType": "custom",
    "options": [{"id": "a", "description": "act"}],
    "chosenOptionId": "a",
    "reasoning": "why not",
}
PROBLEM: Facts = {"id": "p", "severity": "warning", "description": "d", "timestamp": "2026-01-31T09:00:00Z"}


def data_of(*parts: Strategy[Facts], **fixed: object) -> Strategy[Facts]:
    """Facts from several strategies, laid together."""
    return st.tuples(*parts).map(lambda found: {**fixed, **{k: v for part in found for k, v in part.items()}})


def one_field(name: str, values: Strategy[object]) -> Strategy[Facts]:
    def under_its_name(value: object) -> Facts:
        return {name: value}

    return values.map(under_its_name)


CALL_ID = one_field("callId", CALLS)
RUN_ID = one_field("runId", RUNS)
USAGE = one_field("usage", USAGES)
REQUEST_ID = one_field("requestId", REQUEST_IDS)
ACTIONS = st.one_of(
    data_of(CALL_ID, kind="tool-call", toolName="look", input={}),
    data_of(CALL_ID, kind="load-skill", input="pdf"),
    data_of(CALL_ID, kind="subagent-call", name="sub", subagentName="sub", input=None),
)
RESULTS = data_of(
    CALL_ID,
    one_field("output", st.sampled_from(["found", None, {"a": 1}, "x" * 900])),
    one_field("isError", st.booleans()),
    kind="tool-result",
    toolName="look",
)
REQUESTS = data_of(REQUEST_ID, KINDS, one_field("action", ACTIONS), prompt="Which?", display="text")
RESOLUTIONS = data_of(
    REQUEST_ID, KINDS, one_field("outcome", st.sampled_from(["answered", "denied", "ignored"]))
)
OUTCOMES = data_of(
    one_field("success", st.booleans()), one_field("tokensUsed", st.integers(0, 9)), latencyMs=3
)

SHAPES: dict[str, Strategy[Facts]] = {
    "session.started": st.just({}),
    "session.waiting": st.just({"wait": "next-user-message", "continuationToken": "t"}),
    "session.completed": st.just({}),
    "session.failed": st.just(FAILURE),
    "session.state_changed": st.just({"set": {"a": 1}, "removed": ["b"]}),
    "context.cleared": st.just({}),
    "run.started": data_of(RUN_ID, agentId="helper", metadata={"chatId": "chat"}),
    "run.resumed": data_of(RUN_ID, reason="input"),
    "run.waiting": data_of(RUN_ID, on="input", requestIds=["q0"]),
    "run.cancel_requested": data_of(RUN_ID),
    "run.completed": data_of(RUN_ID, USAGE, output="done"),
    "run.failed": st.one_of(data_of(RUN_ID, error=ERROR), data_of(error=ERROR, **UNSTARTED)),
    "run.cancelled": data_of(RUN_ID),
    "run.budget_exhausted": data_of(RUN_ID, exceeded=["tokens"], used=SPENT, limits={}),
    "turn.started": TURNS,
    "turn.waiting": data_of(TURNS, on="input"),
    "turn.completed": TURNS,
    "turn.failed": data_of(TURNS, **FAILURE),
    "turn.cancelled": TURNS,
    "message.received": data_of(
        TURNS,
        one_field("message", TEXTS),
        one_field("context", st.lists(TEXTS)),
        one_field("delivery", st.sampled_from(["turn", "steer", "repair"])),
    ),
    "message.completed": data_of(STEPS, one_field("message", TEXTS), finishReason="stop"),
    "reasoning.completed": data_of(STEPS, reasoning="hm"),
    "step.started": data_of(STEPS, modelId="m"),
    "step.retrying": data_of(STEPS, USAGE, code="E", attempt=1, delayMs=5),
    "step.completed": data_of(STEPS, USAGE, finishReason="stop"),
    "step.failed": data_of(STEPS, USAGE, **FAILURE),
    "actions.requested": data_of(STEPS, one_field("actions", st.lists(ACTIONS, max_size=3))),
    "action.started": data_of(
        STEPS, one_field("callId", CALLS), toolName="look", effect="once", idempotencyKey="k"
    ),
    "action.result": data_of(
        STEPS,
        one_field("result", RESULTS),
        one_field("status", st.sampled_from(["completed", "failed", "rejected"])),
    ),
    "input.requested": data_of(STEPS, one_field("requests", st.lists(REQUESTS, max_size=2))),
    "input.resolved": data_of(STEPS, one_field("resolutions", st.lists(RESOLUTIONS, max_size=2))),
    "recovery.started": st.just({"epoch": 2}),
    "recovery.effect_settled": data_of(
        CALL_ID, one_field("choice", st.sampled_from(["retry", "skip", "supply"]))
    ),
    "compaction.completed": data_of(
        TURNS,
        USAGE,
        one_field("summary", st.sampled_from(["so far"])),
        one_field("keptFrom", st.just(0)),
        modelId="m",
        trimmedCallIds=["c0"],
        resultCharsMax=300,
    ),
    "compaction.failed": data_of(TURNS, USAGE, **FAILURE),
    "session.moved": st.just({"fromFingerprint": "f0", "toFingerprint": "f1"}),
    "policy.decided": data_of(STEPS, CALL_ID, stage="pre_tool", toolName="look", decision=INTERRUPT),
    "recovery.effect_found": data_of(CALL_ID, effect="once", toolName="look"),
    "output.rejected": st.just({"schemaId": "s", "attempt": 1, "errors": []}),
    "output.failed": st.just({"schemaId": "s", "attempts": 2, "errors": []}),
    "subagent.called": data_of(
        TURNS, CALL_ID, childSessionId="s2", sessionId="s1", name="sub", toolName="sub"
    ),
    "subagent.completed": data_of(USAGE, callId="c0", subagentName="sub", output="x"),
    "decision.recorded": one_field("decision", data_of(one_field("id", DECISIONS), **DECISION)),
    "decision.outcome": data_of(one_field("decisionId", DECISIONS), one_field("outcome", OUTCOMES)),
    "decision.evaluated": data_of(one_field("decisionId", DECISIONS), evaluation={"goalAligned": True}),
    "problem.reported": st.just({"problem": PROBLEM}),
    "budget.warned": st.just({"name": "tokens", "used": 1, "limit": 2}),
    "something.new": st.just({"turnId": "t9", "field": [1]}),
}
# Folds go wrong where calls, attempts and ends meet: such records are drawn twice as often.
BUSY = sorted(kind for kind in SHAPES if kind.startswith(("step.", "action", "input.", "recovery.effect")))
KIND = st.one_of(st.sampled_from(BUSY), st.sampled_from(BUSY), st.sampled_from(sorted(SHAPES)))
RECORDS = KIND.flatmap(lambda kind: st.tuples(st.just(kind), SHAPES[kind]))
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "runId": RUNS,
        "attempt": st.integers(1, 3),
        "epoch": st.integers(0, 3),
        "agentId": st.just("a"),
    },
)


@st.composite
def streams(draw: st.DrawFn, max_size: int = 30) -> list[Record]:
    """Any records of one session, in any order."""
    journal = Journal().begin() if draw(st.booleans()) else Journal()
    for (kind, data), fields in draw(st.lists(st.tuples(RECORDS, FIELDS), max_size=max_size)):
        journal.add(kind, data, **fields)
    return journal.records


@st.composite
def sessions(draw: st.DrawFn, max_steps: int = 5) -> list[Record]:
    """A session that makes sense: steps, retries, and results in any order."""
    journal = Journal().begin()
    for step in range(draw(st.integers(0, max_steps))):
        journal.start(step)
        if draw(st.booleans()):
            journal.say("half an answer", step).ask(f"dead-{step}", step=step)
            journal.add("step.retrying", {**at(step), "code": "E", "attempt": 1, "delayMs": 5})
            journal.start(step, attempt=2)
        call_ids = [f"c-{step}-{index}" for index in range(draw(st.integers(0, 3)))]
        journal.say("I look.", step).ask(*call_ids, step=step).end(step, usage={"inputTokens": 10})
        for call_id in draw(st.permutations(call_ids)):
            journal.run(call_id, step)
            if draw(st.booleans()):
                journal.add(
                    "message.received", {"message": f"steer {call_id}", "sequence": 0, "turnId": "t0"}
                )
            journal.result(call_id)
    if draw(st.booleans()):
        journal.add("turn.completed", {"sequence": 0, "turnId": "t0"})
        journal.add("run.completed", {"runId": "r1", "output": "done"})
    return journal.records
