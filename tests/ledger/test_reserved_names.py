"""Sessions with notes: reserved for the runtime, and closed to messages."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path

import pytest
from tests.ledger.rig import GOAL, builder, clerk, opened, run

from windlass import AgentRuntime
from windlass.errors import AgentError, Conflict, Rejected
from windlass.ledger import Builder
from windlass_harness.ledger.names import EVALUATIONS, NOTES, PROPOSALS, is_notes
from windlass_protocol import InputResponse, JsonObject

JUDGED = f"{EVALUATIONS}run-2"
ANSWER = InputResponse(request_id="q1", option_id="approve")
Use = Callable[[AgentRuntime, str], Awaitable[object]]
Story = Callable[[AgentRuntime, Builder], Awaitable[None]]


@pytest.fixture(params=["memory", "sqlite"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "memory" else tmp_path / "app.db"


def play(story: Story, path: Path | None) -> None:
    async def main() -> None:
        async with asyncio.timeout(300), opened(clerk(), path=path) as runtime, builder(runtime) as made:
            await story(runtime, made)

    asyncio.run(main())


def lines(session_id: str, *records: JsonObject) -> list[str]:
    """A session as an export would say it."""
    at = "2026-01-31T09:31:00.000Z"
    common = {"sessionId": session_id, "at": at, "runId": "r9", "epoch": 1}
    numbered = [{**common, "seq": seq, **record} for seq, record in enumerate(records, 1)]
    header = {"kind": "header", "format": "windlass-session", "version": 1, "sessionId": session_id}
    told = [{**header, "lastSeq": len(records)}, {"kind": "append", "epoch": 1, "records": numbered}]
    texts = [json.dumps(line) for line in told]
    total = sha256("".join(f"{text}\n" for text in texts).encode()).hexdigest()
    return [*texts, json.dumps({"kind": "end", "lines": len(texts), "sha256": total})]


def start(runtime: AgentRuntime, name: str) -> Awaitable[object]:
    return runtime.start_run("clerk", "mine", session_id=name)


def bring_in(runtime: AgentRuntime, name: str) -> Awaitable[object]:
    yes: JsonObject = {"proposalId": "p1", "isAccepted": True, "by": "boss"}
    return runtime.sessions.import_(lines(name, {"type": "proposal.settled", "data": yes}))


REFUSED: dict[str, Use] = {
    "start": start,
    "fork": lambda runtime, name: runtime.sessions.fork("session:run-1", session_id_new=name),
    "import": bring_in,
    "delete": lambda runtime, name: runtime.sessions.delete(name),
}
UNKNOWN: dict[str, Use] = {
    "steer": lambda runtime, name: runtime.steer("clerk", "mine", session_id=name),
    "compact": lambda runtime, name: runtime.sessions.compact(name),
    "answer": lambda runtime, name: runtime.sessions.answer(name, [ANSWER]),
    "get": lambda runtime, name: runtime.sessions.get(name),
}


@pytest.mark.parametrize("use", [*REFUSED, *UNKNOWN])
def test_session_ids_of_notes_are_refused_before_and_after_the_notes_exist(
    path: Path | None, use: str
) -> None:
    error: type[AgentError] = Rejected if use in REFUSED else Conflict
    words = f"begins with {NOTES}" if use in REFUSED else "unknown session"

    async def story(runtime: AgentRuntime, made: Builder) -> None:
        for name in (PROPOSALS, JUDGED) * 2:
            with pytest.raises(error, match=words):
                await (REFUSED | UNKNOWN)[use](runtime, name)
            # The Builder still works after the refused calls.
            await made.evaluate(GOAL)
            await made.propose(GOAL, proposal_id="p1")
        assert [state.proposal.id for state in await made.proposals()] == ["p1"]
        listed = (await runtime.sessions.list(root_only=False)).items
        assert not any(is_notes(info.session_id) for info in listed)

    play(story, path)


def test_an_import_with_a_run_that_reports_to_notes_is_refused() -> None:
    parent: JsonObject = {
        "sessionId": PROPOSALS, "runId": "r1", "callId": "c1", "rootSessionId": PROPOSALS, "depth": 1
    }  # fmt: skip
    began: JsonObject = {"runId": "r9", "agentId": "clerk", "packageFingerprint": "f", "parent": parent}

    async def story(runtime: AgentRuntime, made: Builder) -> None:
        with pytest.raises(Rejected, match="reports to a reserved session with notes"):
            await runtime.sessions.import_(lines("s9", {"type": "run.started", "data": began}))

    play(story, None)


def test_a_run_with_the_name_of_one_that_is_gone_can_be_judged(path: Path | None) -> None:
    async def story(runtime: AgentRuntime, made: Builder) -> None:
        await made.evaluate(GOAL)
        assert await runtime.sessions.delete("session:run-1") == ("session:run-1", f"{EVALUATIONS}run-1")
        await run(runtime, "Where is the parcel of Ada", run_id="run-1", session_id="new", goal_id="parcels")
        await made.evaluate(GOAL, run_ids=["run-1"])
        assert [
            one.evaluation for one in (await runtime.handle("run-1").decisions()).decisions if one.evaluation
        ]
        assert await runtime.sessions.delete("new") == ("new", f"{EVALUATIONS}run-1")

    play(story, path)
