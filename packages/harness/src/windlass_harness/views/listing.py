"""What records tell of their session: all that an index of sessions shows.

Few records tell anything: runs that begin, wait or end, the first words, and where a session came from. An
index therefore need not be written by the appends of steps.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from pydantic import JsonValue

from windlass_harness.views.runs import RUN_ENDS
from windlass_protocol import RunStatus, Usage

JsonObject = dict[str, JsonValue]

TITLE_CHARS_MAX: Final = 120
TITLE_WORDS_MAX: Final = 16
"""Words of a title that it is found by."""
WORD_CHARS_MAX: Final = 32
"""Of a word that somebody searches for, or that is found."""
RUN_STATUSES: Final = {
    "run.started": RunStatus.RUNNING,
    "run.resumed": RunStatus.RUNNING,
    "run.waiting": RunStatus.WAITING,
    "run.cancel_requested": RunStatus.CANCELLING,
    **RUN_ENDS,
}
"""The records that change where a run is, and where each leaves it."""
_TELLING: Final = frozenset({*RUN_STATUSES, "message.received", "session.forked"})
_WORD: Final = re.compile(r"\w+")


class Entry(Protocol):
    """A record, or one that has no number yet."""

    @property
    def type(self) -> str: ...
    @property
    def at(self) -> str: ...
    @property
    def data(self) -> Mapping[str, JsonValue]: ...
    @property
    def run_id(self) -> str | None: ...
    @property
    def agent_id(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class RunTold:
    """Where a run is from now on."""

    run_id: str
    status: RunStatus
    at: str
    agent_id: str | None = None
    begins: bool = False
    usage: Usage | None = None
    """What it used, when it has ended."""
    is_unstarted: bool = False
    """It ended before it began, so the run under way is another one."""


@dataclass(frozen=True, slots=True)
class Told:
    """What is new about a session."""

    at: str
    """When, the newest of it; empty if nobody knows."""
    since: str = ""
    """When, the oldest of it."""
    title: str = ""
    agent_id: str | None = None
    owner: str | None = None
    parent: str | None = None
    """The session that it works for."""
    root: str | None = None
    """The session at the top of that tree."""
    predecessor: str | None = None
    """The session that it was copied from."""
    predecessor_seq: int | None = None
    runs: tuple[RunTold, ...] = ()


def told_by(entries: Iterable[Entry]) -> Told | None:
    """Return what records tell of their session; None if they tell nothing."""
    told: Told | None = None
    for entry in entries:
        if entry.type in _TELLING:
            told = _after(told or Told(entry.at, entry.at), entry)
    return told


def told_by_start(body: Mapping[str, JsonValue], at: str) -> Told:
    """Return what a request for a run tells of the session that it is for."""
    return replace(_about(body), at=at, since=at, title=title_of(body))


def title_of(said: Mapping[str, JsonValue]) -> str:
    """Return what somebody said, in one short line."""
    text = said.get("message")
    words = text if isinstance(text, str) else ""
    parts = said.get("parts")
    if not words and isinstance(parts, list):
        texts = (part.get("text") for part in parts if isinstance(part, dict))
        words = " ".join(text for text in texts if isinstance(text, str))
    line = " ".join(words[: TITLE_CHARS_MAX * 8].split())
    return line if len(line) <= TITLE_CHARS_MAX else line[: TITLE_CHARS_MAX - 1] + "…"


def words_in(text: str) -> tuple[str, ...]:
    """Return the words that a text is found by, as they are compared, each once."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return tuple(dict.fromkeys(word[:WORD_CHARS_MAX] for word in _WORD.findall(folded)))[:TITLE_WORDS_MAX]


def content_hashes(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return the hashes of the contents that records refer to."""
    refs = (entry.data.get("contentRef") for entry in entries)
    hashes = (ref.get("hash") for ref in refs if isinstance(ref, dict))
    return tuple(dict.fromkeys(one for one in hashes if isinstance(one, str)))


def _after(told: Told, entry: Entry) -> Told:
    told = replace(told, at=entry.at)
    data = entry.data
    match entry.type:
        case "message.received":
            return told if told.title else replace(told, title=title_of(data))
        case "session.forked":
            seq = data.get("predecessorSeq")
            # What was copied was told of the session that it was copied from.
            return replace(
                told,
                since=entry.at,
                predecessor=_text(data, "predecessor"),
                predecessor_seq=seq if isinstance(seq, int) else None,
                runs=(),
            )
        case _:
            run = _run(entry)
            facts = _about(data) if entry.type == "run.started" else told
            return replace(
                told,
                agent_id=facts.agent_id or told.agent_id,
                owner=told.owner or facts.owner,
                parent=told.parent or facts.parent,
                root=told.root or facts.root,
                runs=(*told.runs, run),
            )


def _run(entry: Entry) -> RunTold:
    usage = entry.data.get("usage")
    return RunTold(
        _text(entry.data, "runId") or entry.run_id or "",
        RUN_STATUSES[entry.type],
        entry.at,
        agent_id=entry.agent_id,
        begins=entry.type == "run.started",
        usage=Usage.model_validate(usage, by_alias=True, by_name=False) if isinstance(usage, dict) else None,
        is_unstarted="unstarted" in entry.data,
    )


def _about(facts: Mapping[str, JsonValue]) -> Told:
    parent = facts.get("parent")
    above: Mapping[str, JsonValue] = parent if isinstance(parent, dict) else {}
    return Told(
        "",
        agent_id=_text(facts, "agentId"),
        owner=_text(facts, "owner"),
        parent=_text(above, "sessionId"),
        root=_text(above, "rootSessionId"),
    )


def _text(data: Mapping[str, JsonValue], name: str) -> str | None:
    value = data.get(name)
    return value if isinstance(value, str) else None
