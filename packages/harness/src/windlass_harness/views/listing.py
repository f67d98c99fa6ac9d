"""Index rows of a session, extracted from its records.

Few records tell anything: runs that begin, wait or end, the first words, and where a session came from. An
index therefore need not be written by the appends of steps.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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
TURNING: Final = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Characters that turn the direction of the text behind them, as a part of a pattern."""
_UNSEEN: Final = re.compile(rf"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f{TURNING}]")
"""What a terminal would obey instead of showing it; spaces and line ends are none of it."""
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
    telling = [entry for entry in entries if entry.type in _TELLING]
    if not telling:
        return None
    draft = _Draft(telling[0].at)
    for entry in telling:
        draft.apply(entry)
    return draft.freeze()


def told_by_start(body: Mapping[str, JsonValue], at: str) -> Told:
    """Return what a request for a run tells of the session that it is for."""
    draft = _Draft(at)
    draft.begin(body)
    draft.title = title_of(body)
    return draft.freeze()


def title_of(said: Mapping[str, JsonValue]) -> str:
    """Return what somebody said, in one short line that is safe to show."""
    text = said.get("message")
    words = text if isinstance(text, str) else ""
    parts = said.get("parts")
    if not words and isinstance(parts, list):
        texts = (part.get("text") for part in parts if isinstance(part, dict))
        words = " ".join(text for text in texts if isinstance(text, str))
    line = " ".join(_UNSEEN.sub("", words[: TITLE_CHARS_MAX * 8]).split())
    return line if len(line) <= TITLE_CHARS_MAX else line[: TITLE_CHARS_MAX - 1] + "…"


def words_in(text: str) -> tuple[str, ...]:
    """Return the words that a text is found by, as they are compared, each once."""
    folded = text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    return tuple(dict.fromkeys(word[:WORD_CHARS_MAX] for word in _WORD.findall(folded)))[:TITLE_WORDS_MAX]


def content_hashes(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return the hashes of the contents that records refer to."""
    refs = (entry.data.get("contentRef") for entry in entries)
    hashes = (ref.get("hash") for ref in refs if isinstance(ref, dict))
    return tuple(dict.fromkeys(one for one in hashes if isinstance(one, str)))


class _Draft:
    """What is told while records are read."""

    __slots__ = ("agent_id", "at", "owner", "parent", "predecessor", "root", "runs", "seq", "since", "title")

    def __init__(self, at: str) -> None:
        self.at = self.since = at
        self.title = ""
        self.agent_id: str | None = None
        self.owner: str | None = None
        self.parent: str | None = None
        self.root: str | None = None
        self.predecessor: str | None = None
        self.seq: int | None = None
        self.runs: list[RunTold] = []

    def freeze(self) -> Told:
        return Told(
            self.at,
            self.since,
            self.title,
            self.agent_id,
            self.owner,
            self.parent,
            self.root,
            self.predecessor,
            self.seq,
            tuple(self.runs),
        )

    def apply(self, entry: Entry) -> None:
        self.at = entry.at
        match entry.type:
            case "message.received":
                self.title = self.title or title_of(entry.data)
            case "session.forked":
                self.fork(entry)
            case kind:
                if kind == "run.started":
                    self.begin(entry.data)
                self.runs.append(_run(entry))

    def fork(self, entry: Entry) -> None:
        """What was copied was told of the session that it was copied from."""
        seq = entry.data.get("predecessorSeq")
        self.since = entry.at
        self.predecessor = _text(entry.data, "predecessor")
        self.seq = seq if isinstance(seq, int) else None
        self.runs.clear()

    def begin(self, facts: Mapping[str, JsonValue]) -> None:
        """Whoever began the session says whose it is; the newest run, whose agent it has."""
        self.agent_id = _text(facts, "agentId") or self.agent_id
        self.owner = self.owner or _text(facts, "owner")
        parent = facts.get("parent")
        if isinstance(parent, dict):
            self.parent = self.parent or _text(parent, "sessionId")
            self.root = self.root or _text(parent, "rootSessionId")


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


def _text(data: Mapping[str, JsonValue], name: str) -> str | None:
    value = data.get(name)
    return value if isinstance(value, str) else None
