"""Imports with a valid checksum and invalid content."""

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from threading import get_ident
from typing import cast

import pytest
from pydantic_core import to_json
from tests.nesting import nested
from tests.runtime.catalog.rig import agent, lines_of, opened, play, sealed

from windlass import AgentRuntime
from windlass.errors import Rejected
from windlass.testing import call, say
from windlass_harness.loop.state import LoopState
from windlass_harness.record import Record, to_wire
from windlass_protocol.limits import RECORD_LEVELS_MAX

Line = dict[str, object]
Change = Callable[[Line], list[Line]]
SECRET = "hunter2-very-secret-77"
HASH = sha256(SECRET.encode()).hexdigest()


@pytest.fixture(params=["memory", "sqlite"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "memory" else tmp_path / "app.db"


def changed(lines: list[str], kind: str, change: Change) -> list[str]:
    """Lines of which those of a kind are others, with a checksum that fits."""
    parsed = [cast("Line", json.loads(line)) for line in lines[:-1]]
    told = [new for line in parsed for new in (change(line) if line["kind"] == kind else [line])]
    return sealed([json.dumps(line) for line in told])


def part(**parts: object) -> Change:
    return lambda line: [{**line, **parts}]


def in_record(kind: str, **data: object) -> Change:
    """Append lines in which a kind of record says something else."""

    def change(line: Line) -> list[Line]:
        records = [
            {**one, "data": {**cast("Line", one["data"]), **data}} if one["type"] == kind else one
            for one in cast("list[Line]", line["records"])
        ]
        return [{**line, "records": records}]

    return change


HOSTILE: dict[str, tuple[str, Change, str]] = {
    "an item twice": ("item", lambda line: [line, line], r"line \d+ is not valid for its kind"),
    "one run by two items": (
        "item",
        lambda line: [line, {**line, "key": "other"}],
        r"line \d+ is not valid for its kind",
    ),
    "no item": ("item", lambda line: [], "line 2 starts a run that no inbox item started"),
    "an item of another run": ("item", part(runId="r2"), "line 2 starts a run that no inbox item started"),
    "an item after the end": ("item", part(consumedSeq=10**30), r"line \d+ is not valid for its kind"),
    "an item before the start": ("item", part(consumedSeq=-5), r"line \d+ is not valid for its kind"),
    "an item without a place": ("item", part(consumedSeq=True), r"line \d+ is not valid for its kind"),
    "an item at infinity": ("item", part(consumedSeq=float("inf")), r"line \d+ is "),
    "a key that is no name": ("item", part(key="a\nb"), "a key must be 1 to 512 characters"),
    "infinite records": ("header", part(lastSeq=float("inf")), r"line 1 is "),
    "too many records": ("header", part(lastSeq=10**30), "line 1 is not valid for its kind"),
    "a fraction of a record": ("header", part(lastSeq=1.5), "line 1 is not valid for its kind"),
    "an endless epoch": ("append", part(epoch=10**30), "line 2 is not valid for its kind"),
    "a usage in words": (
        "append",
        in_record("run.completed", usage={"inputTokens": "x"}),
        r"line \d+ is not valid for its kind",
    ),
    "too many levels": (
        "append",
        in_record("run.completed", later=nested(RECORD_LEVELS_MAX)),
        rf"line \d+ has a record .* limit {RECORD_LEVELS_MAX}",
    ),
    "a number that JavaScript cannot hold": (
        "append",
        in_record("run.completed", later=2**60),
        r"line \d+ has a record with a number over 2\*\*53 - 1",
    ),
    "a run without a name": ("append", in_record("run.started", runId=""), "line 2 "),
}


def test_a_record_with_as_many_levels_as_an_event_can_have_is_imported() -> None:
    async def story(runtime: AgentRuntime) -> None:
        await (await runtime.start_run("clerk", "hi", session_id="s1")).wait()
        deepest = in_record("run.completed", later=nested(RECORD_LEVELS_MAX - 1))
        lines = changed(await lines_of(runtime, "s1"), "append", deepest)
        async with opened(None, agent()) as other:
            await other.sessions.import_(lines)
            assert (await other.sessions.get("s1")).session_id == "s1"

    play(story, None, agent(say("hello")))


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_an_import_with_impossible_content_is_refused_and_leaves_nothing(
    path: Path | None, name: str
) -> None:
    kind, change, words = HOSTILE[name]

    async def story(runtime: AgentRuntime) -> None:
        async with opened(None, agent()) as other:
            await (await other.start_run("clerk", "go", session_id="s1", run_id="r1")).wait()
            lines = await lines_of(other)
        with pytest.raises(Rejected, match=words):
            await runtime.sessions.import_(changed(lines, kind, change))
        assert (await runtime.sessions.list()).items == (await runtime.sessions.runs()).items == ()
        assert (await runtime.sessions.import_(lines)).session_id == "s1"
        await (await runtime.start_run("clerk", "go", session_id="s2", run_id="r2")).wait()

    play(story, path, agent())


# secrets


async def bring_in(lines: list[str], path: Path | None) -> tuple[str, str]:
    """The title and the records of a session imported into a runtime with a registered secret."""
    if path is None:
        runtime = AgentRuntime.in_memory([agent()], secrets=[SECRET])
    else:
        runtime = await AgentRuntime.open(path, agents=[agent()], secrets=[SECRET], durability="process")
    async with runtime:
        info = await runtime.sessions.import_(lines)
        records = await runtime.sessions.records(info.session_id)
        return info.title, to_json([to_wire(record) for record in records]).decode()


def test_registered_secrets_are_masked_in_an_import(path: Path | None) -> None:
    async def story(other: AgentRuntime) -> None:
        handle = await other.start_run("clerk", f"my key is {SECRET}", session_id="s1", run_id="r1")
        await handle.wait()
        lines = await lines_of(other)
        assert SECRET in "".join(lines)
        title, records = await bring_in(lines, path)
        assert title.startswith("my key is ")
        assert SECRET not in title + records

    play(story, None, agent())
    assert path is None or SECRET.encode() not in path.read_bytes()


def test_a_session_with_a_secret_in_a_content_or_a_name_is_refused() -> None:
    async def story(other: AgentRuntime) -> None:
        await (await other.start_run("clerk", "go", session_id="s1", run_id=f"r-{SECRET}")).wait()
        with pytest.raises(Rejected, match="an id or name in the session is, or looks like, a secret"):
            await bring_in(await lines_of(other), None)
        await (await other.start_run("clerk", "go", session_id="s2", run_id="r2")).wait()
        text = {"kind": "content", "mediaType": "text/plain", "isOwn": True}
        text |= {"hash": f"sha256:{HASH}", "data": b64encode(SECRET.encode()).decode()}
        lines = await lines_of(other, "s2")
        with pytest.raises(Rejected, match="a content of the session contains a registered secret"):
            await bring_in(sealed([*lines[:-1], json.dumps(text)]), None)

    play(story, None, agent(call("look", {"item": "bill"}), say("There.")))


# the event loop


def test_neither_imports_nor_forks_fold_on_the_event_loop(
    path: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply_all, threads = LoopState.apply_all, set[int]()

    def watched(state: LoopState, records: Sequence[Record]) -> None:
        threads.add(get_ident())
        apply_all(state, records)

    async def story(runtime: AgentRuntime) -> None:
        async with opened(None, agent()) as other:
            await (await other.start_run("clerk", "go", session_id="s1", run_id="r1")).wait()
            lines = await lines_of(other)
        for use in (lambda: runtime.sessions.import_(lines), lambda: runtime.sessions.fork("s1")):
            threads.clear()
            with monkeypatch.context() as patch:
                patch.setattr(LoopState, "apply_all", watched)
                await use()
            assert threads
            assert get_ident() not in threads

    play(story, path, agent())
