"""Index rows and search words of a session, extracted from its records.

Only few records change the index: a run that starts, waits or ends, the first message, and a fork. So the
appends of steps need not write to the index. The search words of an append are extracted later, when they are
needed.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol

from pydantic import JsonValue

from windlass_harness.views.runs import RUN_ENDS
from windlass_protocol import RunStatus, Usage
from windlass_protocol.frozen import sealed
from windlass_protocol.lazy import lazy_pattern
from windlass_protocol.limits import BIDI_CONTROLS

TITLE_CHARS_MAX: Final = 120
WORD_CHARS_MAX: Final = 32
"""Length of an indexed word and of a search word."""
RUN_STATUSES: Final = {
    "run.started": RunStatus.RUNNING,
    "run.resumed": RunStatus.RUNNING,
    "run.waiting": RunStatus.WAITING,
    "run.cancel_requested": RunStatus.CANCELLING,
    **RUN_ENDS,
}
"""The records that change the status of a run, with the new status."""
RECORDS_OF_STEPS: Final = frozenset(
    {
        "step.started",
        "step.retrying",
        "step.completed",
        "step.failed",
        "reasoning.completed",
        "message.completed",
        "actions.requested",
        "action.started",
        "action.result",
        "policy.decided",
        "hook.invoked",
        "hook.completed",
        "hook.failed",
        "agent.resolved",
        "compaction.requested",
        "compaction.completed",
        "compaction.failed",
    }
)
"""The records that a run may write at each step."""
_UNSEEN: Final = lazy_pattern(rf"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f{BIDI_CONTROLS}]")
"""Control sequences that a terminal would execute; spaces and line ends are not among them."""
_TELLING: Final = frozenset({*RUN_STATUSES, "message.received", "session.forked"})
RECORDS_WITH_WORDS: Final = frozenset(
    {"message.received", "message.completed", "actions.requested", "input.requested", "input.resolved"}
)
"""The records with text that a search finds."""
_WORD: Final = lazy_pattern(r"[^\W_]+")
"""A word; an underscore separates words, so that the parts of a tool name are found."""
_IDEOGRAPH: Final = lazy_pattern(
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""A character of Chinese or Japanese, which have no blanks between words: each is a word."""
_CALLED: Final = ("toolName", "name", "subagentName", "remoteAgentName")
"""The fields of a requested action with the name of what it calls."""


class Entry(Protocol):
    """A record, or a draft of one without a number."""

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


@sealed
class RunTold:
    """The new status of a run."""

    run_id: str
    status: RunStatus
    at: str
    agent_id: str | None = None
    begins: bool = False
    usage: Usage | None = None
    """The usage of a run that has ended."""
    is_unstarted: bool = False
    """The run ended before it started, so the current run is another one."""


@sealed
class Told:
    """New facts about a session."""

    at: str
    """The time of the newest fact; empty if unknown."""
    since: str = ""
    """The time of the oldest fact."""
    title: str = ""
    agent_id: str | None = None
    owner: str | None = None
    parent: str | None = None
    """The calling session of a subagent."""
    root: str | None = None
    """The root of the tree of calling sessions."""
    predecessor: str | None = None
    """The session that this one was copied from."""
    predecessor_seq: int | None = None
    runs: tuple[RunTold, ...] = ()


def told_by(entries: Iterable[Entry]) -> Told | None:
    """Return the facts that records add about their session; None if they add none."""
    draft: _Draft | None = None
    for entry in entries:
        if entry.type in _TELLING:
            if draft is None:
                draft = _Draft(entry.at)
            draft.apply(entry)
    return None if draft is None else draft.freeze()


def told_by_start(body: Mapping[str, JsonValue], at: str) -> Told:
    """Return the facts that a start request adds about its session."""
    draft = _Draft(at)
    draft.begin(body)
    draft.title = title_of(body)
    return draft.freeze()


def title_of(said: Mapping[str, JsonValue]) -> str:
    """Return a message as one short line that is safe to show."""
    text = said.get("message")
    words = text if isinstance(text, str) else ""
    parts = said.get("parts")
    if not words and isinstance(parts, list):
        texts = (part.get("text") for part in parts if isinstance(part, dict))
        words = " ".join(text for text in texts if isinstance(text, str))
    line = " ".join(_UNSEEN.sub("", words[: TITLE_CHARS_MAX * 8]).split())
    return line if len(line) <= TITLE_CHARS_MAX else line[: TITLE_CHARS_MAX - 1] + "…"


def words_in(text: str) -> tuple[str, ...]:
    """Return the normalised search words of a text, without duplicates.

    A word has letters and digits only.
    """
    if text.isascii():
        folded = text.lower()
    else:
        folded = _IDEOGRAPH.sub(r" \g<0> ", unicodedata.normalize("NFKC", text).casefold())
    # One by one: finding all words of a large text in one call would hold up other threads.
    return tuple(dict.fromkeys(match[0][:WORD_CHARS_MAX] for match in _WORD.finditer(folded)))


def words_of_record(kind: str, data: JsonValue) -> tuple[str, ...]:
    """Return the search words of a record, given its type and data.

    These are messages of people, answers of the model, the names of called tools and agents, questions to
    people, and their answers in text. Data of an unknown shape has none.
    """
    return words_in("\n".join(_texts(kind, data))) if isinstance(data, dict) else ()


def _texts(kind: str, data: dict[str, JsonValue]) -> Iterator[str]:
    match kind:
        case "message.received" | "message.completed":
            yield from _strings(data, ("message",))
            for part in _objects(data, "parts"):
                if part.get("type") == "text":
                    yield from _strings(part, ("text",))
        case "actions.requested":
            for action in _objects(data, "actions"):
                yield from _strings(action, _CALLED)
        case "input.requested":
            for request in _objects(data, "requests"):
                if request.get("kind") == "question":
                    yield from _strings(request, ("prompt",))
        case "input.resolved":
            for resolution in _objects(data, "resolutions"):
                response = resolution.get("response")
                if isinstance(response, dict):
                    yield from _strings(response, ("text",))
        case _:
            pass


def _objects(data: Mapping[str, JsonValue], name: str) -> Iterator[dict[str, JsonValue]]:
    value = data.get(name)
    for one in value if isinstance(value, list) else ():
        if isinstance(one, dict):
            yield one


def _strings(data: Mapping[str, JsonValue], names: Iterable[str]) -> Iterator[str]:
    for name in names:
        value = data.get(name)
        if isinstance(value, str):
            yield value


def content_hashes(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return the hashes of the contents that records refer to."""
    refs = (entry.data.get("contentRef") for entry in entries)
    hashes = (ref.get("hash") for ref in refs if isinstance(ref, dict))
    return tuple(dict.fromkeys(one for one in hashes if isinstance(one, str)))


class _Draft:
    """The facts collected while records are read."""

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
        """Drop the facts of the copied records: they belong to the original session."""
        seq = entry.data.get("predecessorSeq")
        self.since = entry.at
        self.predecessor = _text(entry.data, "predecessor")
        self.seq = seq if isinstance(seq, int) else None
        self.runs.clear()

    def begin(self, facts: Mapping[str, JsonValue]) -> None:
        """The first run sets the owner of the session; the newest run sets its agent."""
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
