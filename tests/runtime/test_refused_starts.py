"""The audit of refused starts: every refused start leaves an entry, and the caller gets the same error."""

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

import pytest
from tests.runtime.runtime_rig import model_of, play, request, shop, until

from windlass import Agent, AgentRuntime
from windlass.adapters.journals.memory import MemoryStore
from windlass.adapters.system import SystemClock
from windlass.agent.policy import allow_start
from windlass.errors import AgentError, Conflict, Denied, Rejected, Unavailable, UnknownName
from windlass.feed import Feed
from windlass.limits import REFUSAL_MESSAGE_CHARS_MAX
from windlass.ports.host import StartPolicy
from windlass.runtime.starts import refused_starts
from windlass.testing import ScriptedModel, call, say
from windlass.testing.stores import WrappedStore
from windlass_protocol import (
    AllowDecision,
    DenyDecision,
    ErrorCode,
    ErrorKind,
    PolicyDecision,
    PolicyKind,
    PolicyRef,
    RetryClass,
    RunRequest,
    RuntimePackage,
    SourceKind,
    SourceRef,
)
from windlass_protocol.limits import ID_CHARS_MAX

T = TypeVar("T")
SECRET = "tr0ub4dor-and-3-more"
REFS = (PolicyRef(kind=PolicyKind.HOST, id="rule"),)
SOURCE = SourceRef(kind=SourceKind.USER, id="ann")
INPUT = "the words of the user"


def deny(request: RunRequest, package: RuntimePackage) -> PolicyDecision:
    return DenyDecision(code="policy.closed", reason="Closed.", policy_refs=REFS)


def on(store: WrappedStore | MemoryStore, policy: StartPolicy = allow_start, *agents: Agent) -> AgentRuntime:
    """A runtime on a store."""
    builder = AgentRuntime.builder().journal(store).event_bus(Feed(store, SystemClock())).content(store)
    for agent in agents or (shop(),):
        builder.agent(agent)
    return builder.policy(policy).options(secrets=[SECRET]).build()


async def refusal(work: Awaitable[object]) -> AgentError:
    with pytest.raises(AgentError) as caught:
        await work
    return caught.value


def test_an_entry_says_who_asked_for_what_and_why_not_and_holds_no_input() -> None:
    async def story() -> None:
        async with on(MemoryStore(), deny) as runtime:
            error = await refusal(
                runtime.start_run(
                    "shop",
                    INPUT,
                    run_id="r1",
                    session_id="s1",
                    owner="ann",
                    source=SOURCE,
                    metadata={"note": INPUT},
                    context=[INPUT],
                )
            )
            assert type(error) is Denied
            [entry] = (await runtime.sessions.refused_starts()).items
            assert (entry.run_id, entry.session_id, entry.agent_id) == ("r1", "s1", "shop")
            assert (entry.owner, entry.source) == ("ann", SOURCE)
            assert (entry.code, entry.kind) == (ErrorCode.DENIED, ErrorKind.POLICY_DENIAL)
            assert (entry.retry, entry.message) == (RetryClass.USER_ACTION_NEEDED, "policy.closed: Closed.")
            assert (entry.policy_code, entry.policy_refs) == ("policy.closed", REFS)
            assert entry.at.endswith("Z")
            assert INPUT not in repr(entry)
            assert (await runtime.sessions.list()).items == ()

    play(story())


Start = Callable[[AgentRuntime], Awaitable[object]]
STARTS: dict[str, tuple[Start, type[AgentError], dict[str, str | None]]] = {
    "an unknown agent": (
        lambda runtime: runtime.start_run("shpo", INPUT, owner="ann"),
        Rejected,
        {"agent_id": "shpo", "owner": "ann"},
    ),
    "another agent of the name": (
        lambda runtime: runtime.start_run(shop(instructions="Other."), INPUT),
        Rejected,
        {"agent_id": "shop"},
    ),
    "an unknown option": (
        lambda runtime: runtime.start_run("shop", INPUT, run_id="r1", **_any({"colour": "red"})),
        Rejected,
        {"agent_id": "shop", "run_id": "r1"},
    ),
    "an option that does not fit": (
        lambda runtime: runtime.start_run("shop", INPUT, run_id="r1", **_any({"metadata": 5})),
        Rejected,
        {"agent_id": "shop", "run_id": "r1"},
    ),
    "an empty message": (
        lambda runtime: runtime.start_run("shop", "", session_id="s1"),
        Rejected,
        {"agent_id": "shop", "session_id": "s1"},
    ),
    "a reserved session": (
        lambda runtime: runtime.start_run("shop", INPUT, run_id="r1", session_id="session:subagent:x"),
        Rejected,
        {"run_id": "r1", "session_id": "session:subagent:x"},
    ),
    "another request of a run": (
        lambda runtime: runtime.start_run("shop", "another one", run_id="first"),
        Conflict,
        {"run_id": "first", "session_id": None},
    ),
    "a session of another owner": (
        lambda runtime: runtime.start_run("shop", INPUT, run_id="r1", session_id="firsts", owner="eve"),
        Denied,
        {"run_id": "r1", "session_id": "firsts", "owner": "eve"},
    ),
    "a typed run": (
        lambda runtime: runtime.run_typed("nobody", INPUT, int),
        Rejected,
        {"agent_id": "nobody"},
    ),
    "a request of its own": (
        lambda runtime: runtime.start_run(request("r1", package_id="none", owner="ann")),
        Rejected,
        {"run_id": "r1", "owner": "ann"},
    ),
    "a message to an unknown session": (
        lambda runtime: runtime.steer("shop", INPUT, session_id="s9", message_id="m1", owner="ann"),
        UnknownName,
        {"run_id": "steer/s9/m1", "session_id": "s9", "agent_id": "shop", "owner": "ann"},
    ),
    "a message to an invalid session": (
        lambda runtime: runtime.steer("shop", INPUT, session_id="", owner="ann"),
        Rejected,
        {"run_id": None, "session_id": None, "agent_id": "shop", "owner": "ann"},
    ),
    "a message to an unknown agent": (
        lambda runtime: runtime.steer("shpo", INPUT, session_id="firsts"),
        Rejected,
        {"session_id": "firsts", "agent_id": "shpo"},
    ),
}


def _any(options: dict[str, object]) -> Any:
    return options


@pytest.mark.parametrize("name", STARTS)
def test_every_refused_start_leaves_one_entry(name: str, tmp_path: Path) -> None:
    start, error, ids = STARTS[name]

    async def story() -> None:
        async with AgentRuntime.open(tmp_path / "a.db", agents=[shop()], durability="process") as runtime:
            first = await runtime.start_run("shop", INPUT, run_id="first", session_id="firsts", owner="ann")
            await first.wait()
            assert (await runtime.sessions.refused_starts()).items == ()
            found = await refusal(start(runtime))
            assert type(found) is error
            [entry] = (await runtime.sessions.refused_starts()).items
            assert {name: getattr(entry, name) for name in ids} == ids
            assert (entry.code, entry.kind, entry.retry) == (found.code, found.kind, found.retry)
            assert entry.message == found.message
            assert entry.run_id is not None or "run_id" in ids
            assert INPUT not in repr(entry)

    play(story())


def test_a_value_that_is_no_request_leaves_nothing() -> None:
    async def story() -> None:
        async with on(MemoryStore()) as runtime:
            wrong: Any = 5
            await refusal(runtime.start_run(wrong))
            assert (await runtime.sessions.refused_starts()).items == ()

    play(story())


def test_the_run_of_another_owner_is_not_described() -> None:
    async def story() -> None:
        async with on(MemoryStore()) as runtime:
            await (
                await runtime.start_run("shop", "go", run_id="r1", session_id="private", owner="ann")
            ).wait()
            error = await refusal(
                runtime.start_run("shop", "go", run_id="r1", session_id="mine", owner="eve")
            )
            host = await refusal(runtime.start_run("shop", "go", run_id="r1", session_id="mine"))
            assert "it belongs to another owner" in error.message
            assert "it is in session private" in host.message
            [entry] = (await runtime.sessions.refused_starts(owner="eve")).items
            assert "private" not in repr(entry)

    play(story())


def test_a_refused_subagent_leaves_an_entry_of_the_calling_session() -> None:
    def no_children(request: RunRequest, package: RuntimePackage) -> PolicyDecision:
        is_child = request.agent_id == "helper"
        return (
            DenyDecision(code="no.helper", reason="No.", policy_refs=REFS)
            if is_child
            else AllowDecision(code="ok", reason="Fine.", policy_refs=REFS)
        )

    async def story() -> None:
        helper = Agent("helper", model=model_of("never"), description="Helps.")
        model = ScriptedModel([call("helper", {"message": INPUT}), say("done")])
        boss = Agent("boss", model=model, subagents=[helper])
        async with AgentRuntime.in_memory([boss], start_policy=no_children) as runtime:
            handle = await runtime.start_run("boss", "go", session_id="s1", owner="ann", source=SOURCE)
            assert (await handle.wait()).output == "done"
            [entry] = (await runtime.sessions.refused_starts(owner="ann", agent_id="helper")).items
            assert (entry.session_id, entry.source, entry.message) == ("s1", SOURCE, "no.helper: No.")
            assert (entry.run_id or "").startswith("subagent:")
            assert INPUT not in repr(entry)
            await runtime.sessions.delete("s1")
            assert (await runtime.sessions.refused_starts()).items == ()

    play(story())


# secrets and sizes


def test_secrets_are_masked_in_messages_and_ids_before_they_are_cut() -> None:
    def loud(request: RunRequest, package: RuntimePackage) -> PolicyDecision:
        # The limit is in the second half of the last secret.
        padding = "x" * (REFUSAL_MESSAGE_CHARS_MAX - len(SECRET) - 1 - len(SECRET) * 3 // 4)
        raise Denied(f"{SECRET} {padding}{SECRET}", kind=ErrorKind.POLICY_DENIAL, retry=RetryClass.RETRYABLE)

    async def story() -> None:
        async with on(MemoryStore(), loud) as runtime:
            error = await refusal(runtime.start_run("shop", "go", run_id="r1"))
            assert SECRET in error.message
            await refusal(runtime.start_run(f"agent-{SECRET}", "go", owner=f"of-{SECRET}"))
            source = SourceRef(kind=SourceKind.USER, id=f"from-{SECRET}")
            await refusal(
                runtime.start_run("shop", "go", run_id=f"run-{SECRET}", session_id=SECRET, source=source)
            )
            entries = (await runtime.sessions.refused_starts()).items
            assert len(entries) == 3
            for entry in entries:
                assert SECRET[: len(SECRET) // 2] not in repr(entry)
                assert len(entry.message) <= REFUSAL_MESSAGE_CHARS_MAX

    play(story())


@pytest.mark.parametrize("bad", ["x" * 100_000, "a\x00b", "a\nb", "a\u202eb", "a\ud800b"])
def test_an_invalid_id_is_cut_and_printable_in_its_entry(bad: str, tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentRuntime.open(tmp_path / "a.db", agents=[shop()], durability="process") as runtime:
            await refusal(runtime.start_run("shop", "go", run_id=bad, session_id=bad, owner=bad))
            await refusal(runtime.start_run(bad, "go"))
            newer, older = (await runtime.sessions.refused_starts()).items
            for found in (newer.agent_id, older.run_id, older.session_id, older.owner):
                assert found is not None
                assert 1 <= len(found) <= ID_CHARS_MAX
                assert found.isprintable()

    play(story())


# a store that does not take it


class Sore(WrappedStore):
    """A store in which one call is broken."""

    def __init__(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        super().__init__(MemoryStore())
        self.name = name
        self.work = work

    async def _pass(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        if name == self.name:
            await self.work()
        return await call()


async def _unavailable() -> None:
    raise Unavailable("gone", kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.RETRYABLE)


async def _defect() -> None:
    raise AttributeError("no such method")


async def _hangs() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("work", [_unavailable, _defect, _hangs])
def test_the_caller_gets_the_same_error_when_the_store_takes_no_entry(
    work: Callable[[], Awaitable[object]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(refused_starts, "REFUSAL_TIMEOUT_MS", 1)

    async def story() -> None:
        async with on(Sore("record_refusal", work), deny) as runtime:
            for message in (INPUT, "other words"):
                error = await refusal(runtime.start_run("shop", message))
                assert (type(error), error.message) == (Denied, "policy.closed: Closed.")
            assert type(await refusal(runtime.start_run("shpo", INPUT))) is Rejected

    with caplog.at_level(logging.WARNING, "windlass.runtime.start"):
        play(story())
    told = [record.getMessage() for record in caplog.records if record.name == "windlass.runtime.start"]
    assert len(told) == 3
    assert all(text.startswith("a refused start was not recorded: ") for text in told)


def test_an_error_without_a_code_reaches_the_caller_without_an_entry() -> None:
    def odd(request: RunRequest, package: RuntimePackage) -> PolicyDecision:
        raise AgentError("odd", kind=ErrorKind.POLICY_DENIAL, retry=RetryClass.RETRYABLE)

    async def story() -> None:
        async with on(MemoryStore(), odd) as runtime:
            assert (await refusal(runtime.start_run("shop", "go"))).message == "odd"
            assert (await runtime.sessions.refused_starts()).items == ()

    play(story())


@pytest.mark.parametrize("durability", ["process", "power"])
def test_the_caller_does_not_wait_for_a_store_that_another_process_has_locked(
    durability: Literal["process", "power"], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refused_starts, "REFUSAL_TIMEOUT_MS", 1)
    path = tmp_path / "a.db"

    async def story() -> None:
        async with AgentRuntime.open(
            path, agents=[shop()], durability=durability, start_policy=deny
        ) as runtime:
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            assert (
                await refusal(runtime.start_run("shop", "go", run_id="r1"))
            ).message == "policy.closed: Closed."
            assert (await runtime.sessions.refused_starts()).items == ()
            other.close()
        # The write was begun, so closing the store has finished it.
        async with AgentRuntime.open(path, agents=[shop()], durability=durability) as runtime:
            assert [one.run_id for one in (await runtime.sessions.refused_starts()).items] == ["r1"]

    play(story())


def test_a_start_that_the_store_cannot_take_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        store = Sore("post", _unavailable)
        async with on(store) as runtime:
            error = await refusal(runtime.start_run("shop", INPUT))
            assert (type(error), error.message) == (Unavailable, "gone")
            assert await store.list_refusals() == ()

    with caplog.at_level(logging.WARNING, "windlass.runtime.start"):
        play(story())
    assert "a start was refused, and the store cannot record it: Unavailable" in caplog.text
    assert INPUT not in caplog.text


def test_a_closed_runtime_refuses_with_its_own_error() -> None:
    async def story() -> None:
        runtime = on(MemoryStore())
        async with runtime:
            pass
        error = await refusal(runtime.start_run("shop", "go"))
        assert type(error) is Unavailable
        assert error.message.startswith("the runtime was closed")

    play(story())


# reading


def test_refused_starts_are_read_in_pages_newest_first() -> None:
    async def story() -> None:
        async with on(MemoryStore(), deny) as runtime:
            for number in range(5):
                await refusal(
                    runtime.start_run("shop", "go", run_id=f"r{number}", owner="ann" if number else "bob")
                )
            first = await runtime.sessions.refused_starts(owner="ann", limit=3)
            assert [one.run_id for one in first.items] == ["r4", "r3", "r2"]
            last = await runtime.sessions.refused_starts(owner="ann", limit=3, after=first.next)
            assert ([one.run_id for one in last.items], last.next) == (["r1"], None)
            with pytest.raises(Rejected, match="after must be"):
                await runtime.sessions.runs(after=first.next)

    play(story())


def test_a_session_takes_its_refused_starts_along_when_it_is_deleted(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentRuntime.open(tmp_path / "a.db", agents=[shop()], durability="process") as runtime:
            handle = await runtime.start_run("shop", "go", run_id="r1", session_id="s1", owner="ann")
            await until(handle, "run.completed")
            await refusal(runtime.start_run("shop", "go", session_id="s1", owner="eve"))
            await refusal(runtime.start_run("shop", "other words", run_id="r1"))
            await refusal(runtime.start_run("nobody", "go", session_id="s2"))
            await handle.wait()
            await runtime.sessions.delete("s1")
            [entry] = (await runtime.sessions.refused_starts()).items
            assert entry.session_id == "s2"

    play(story())
