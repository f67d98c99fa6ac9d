"""Index rows and search words of a session, extracted from its records.

Only few records change the index: a run that starts, waits or ends, the first message, and a fork. So the
appends of steps need not write to the index. The search words of an append are extracted later, when they are
needed.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, Protocol

from pydantic import JsonValue

from windlass_harness.times import elapsed_ms
from windlass_harness.views.fold import types_of
from windlass_harness.views.payloads import token_count
from windlass_harness.views.runs import RUN_ENDS
from windlass_protocol import RunStatus, Usage
from windlass_protocol.frozen import sealed
from windlass_protocol.generated import records
from windlass_protocol.limits import BIDI_CONTROLS

TITLE_CHARS_MAX: Final = 120
TAGS_MAX: Final = 16
"""Tags of a run that lists know."""
TAG_CHARS_MAX: Final = 64
WORD_CHARS_MAX: Final = 32
"""Length of an indexed word and of a search word."""
RUN_STATUSES: Final = {
    records.RunStarted.TYPE: RunStatus.RUNNING,
    records.RunResumed.TYPE: RunStatus.RUNNING,
    records.RunWaiting.TYPE: RunStatus.WAITING,
    records.RunCancelRequested.TYPE: RunStatus.CANCELLING,
    **RUN_ENDS,
}
"""The records that change the status of a run, with the new status."""
RECORDS_OF_STEPS: Final = types_of(
    records.StepStarted,
    records.StepRetrying,
    records.StepCompleted,
    records.StepFailed,
    records.ReasoningCompleted,
    records.MessageCompleted,
    records.ActionsRequested,
    records.ActionStarted,
    records.ActionResult,
    records.PolicyDecided,
    records.HookInvoked,
    records.HookCompleted,
    records.HookFailed,
    records.AgentResolved,
    records.CompactionRequested,
    records.CompactionCompleted,
    records.CompactionFailed,
)
"""The records that a run may write at each step."""
_UNSEEN: Final = re.compile(rf"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f{BIDI_CONTROLS}]")
"""Control sequences that a terminal would execute; spaces and line ends are not among them."""
_TELLING: Final = frozenset(
    {
        *RUN_STATUSES,
        records.MessageReceived.TYPE,
        records.SessionForked.TYPE,
        records.InputRequested.TYPE,
        records.RecoveryStarted.TYPE,
        records.FeedbackGiven.TYPE,
    }
)
RECORDS_WITH_WORDS: Final = types_of(
    records.MessageReceived,
    records.MessageCompleted,
    records.ActionsRequested,
    records.InputRequested,
    records.InputResolved,
)
"""The records with text that a search finds."""
_WORD: Final = re.compile(r"[^\W_]+")
"""A word; an underscore separates words, so that the parts of a tool name are found."""
_IDEOGRAPH: Final = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
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
class RunNews:
    """The new status of a run."""

    run_id: str
    status: RunStatus
    at: str
    agent_id: str | None = None
    begins: bool = False
    usage: Usage | None = None
    """The usage of a run that has ended or waits."""
    is_unstarted: bool = False
    """The run ended before it started, so the current run is another one."""
    fingerprint: str = ""
    """The package of a run that begins."""
    input: str = ""
    """The first words of the message that began the run."""
    output: str = ""
    """The first words of the answer or error of a run that ended, or of the question of one that waits."""
    waits_on: str | None = None
    """What a run waits for, as `run.waiting` says; recovery if a person decides about an interrupted call."""
    error: str | None = None
    """The kind of the error of a run that ended with one."""
    tags: tuple[str, ...] = ()


@sealed
class FeedbackNews:
    """What a person said of a run."""

    run_id: str
    rating: int = 0
    tags: tuple[str, ...] = ()


@sealed
class ListedRun:
    """What lists show of a run besides its ids."""

    status: RunStatus = RunStatus.PENDING
    agent_id: str = ""
    fingerprint: str = ""
    started_at: str | None = None
    ended_at: str | None = None
    usage: Usage | None = None
    """The usage of the run, up to its last wait until it has ended."""
    input: str = ""
    output: str = ""
    """The first words of its answer or error, or of what it waits for: the status says which."""
    waits_on: str | None = None
    error: str | None = None
    crashes: int = 0
    """How often a process took the run over after a crash."""
    tags: tuple[str, ...] = ()
    rating: int = 0
    """The newest thumb that people gave it: 1, -1, or 0 without one."""

    @property
    def answer(self) -> str:
        """The first words of its answer; empty if it has none."""
        return self.output if self.status is RunStatus.COMPLETED else ""

    @property
    def error_message(self) -> str | None:
        """The first words of why it ended without an answer."""
        is_over = self.ended_at is not None and self.status is not RunStatus.COMPLETED
        return self.output or None if is_over else None

    @property
    def waits_for(self) -> str | None:
        """The first words of the question that it waits with, or of why it waits."""
        return self.output or None if self.status is RunStatus.WAITING else None

    @property
    def duration_ms(self) -> int:
        """The time from start to end; 0 until the run has ended."""
        if self.started_at is None or self.ended_at is None:
            return 0
        return elapsed_ms(self.started_at, self.ended_at)

    @property
    def tokens(self) -> int:
        """Input and output tokens."""
        return token_count(self.usage)

    @property
    def cost_micros(self) -> int:
        return 0 if self.usage is None else self.usage.cost_micros or 0

    def after(self, change: RunNews) -> "ListedRun":
        """Return the facts after a new status."""
        facts = replace(
            self, status=change.status, waits_on=change.waits_on, output=change.output, error=change.error
        )
        if change.begins or change.is_unstarted:
            facts = replace(
                facts,
                started_at=change.at if change.begins else None,
                agent_id=change.agent_id or self.agent_id,
                fingerprint=change.fingerprint or self.fingerprint,
                input=change.input or self.input,
                tags=change.tags or self.tags,
            )
        if change.status in _ENDED:
            return replace(facts, ended_at=change.at, usage=change.usage)
        return facts if change.usage is None else replace(facts, usage=change.usage)

    def and_more(self, news: "SessionNews", run_id: str) -> "ListedRun":
        """Return the facts with the crashes and the feedback of a run."""
        facts = replace(self, crashes=self.crashes + news.interrupted.count(run_id))
        for feedback in news.feedback:
            if feedback.run_id == run_id:
                tags = tuple(dict.fromkeys((*facts.tags, *feedback.tags)))[:TAGS_MAX]
                facts = replace(facts, rating=feedback.rating or facts.rating, tags=tags)
        return facts


@sealed
class SessionNews:
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
    runs: tuple[RunNews, ...] = ()
    interrupted: tuple[str, ...] = ()
    """Runs that a process took over after a crash, one for each time."""
    feedback: tuple[FeedbackNews, ...] = ()

    @property
    def noted(self) -> set[str]:
        """The runs with crashes or feedback."""
        return {*self.interrupted, *(feedback.run_id for feedback in self.feedback)}


def news_of(entries: Iterable[Entry]) -> SessionNews | None:
    """Return the facts that records add about their session; None if they add none."""
    draft: _Draft | None = None
    for entry in entries:
        if entry.type in _TELLING:
            if draft is None:
                draft = _Draft(entry.at)
            draft.apply(entry)
    return None if draft is None else draft.freeze()


def news_of_start(body: Mapping[str, JsonValue], at: str) -> SessionNews:
    """Return the facts that a start request adds about its session."""
    draft = _Draft(at)
    draft.begin(body)
    draft.title = title_of(body)
    return draft.freeze()


class RunsFold:
    """The runs of a session by id, folded from its appends in order.

    Runs before a fork belong to the original session and are left out.
    """

    def __init__(self) -> None:
        self.runs: dict[str, ListedRun] = {}
        self._copied: set[str] = set()

    def apply(self, entries: Iterable[Entry]) -> None:
        """Apply the records of an append."""
        news = news_of(entries)
        if news is None:
            return
        if news.predecessor is not None:
            self._copied |= self.runs.keys()
            self.runs.clear()
        for run in news.runs:
            facts = self.runs.get(run.run_id, _UNKNOWN if run.begins or run.is_unstarted else None)
            if facts is not None and run.run_id not in self._copied:
                self.runs[run.run_id] = facts.after(run)
        for run_id in news.noted & self.runs.keys():
            self.runs[run_id] = self.runs[run_id].and_more(news, run_id)


def title_of(message: Mapping[str, JsonValue]) -> str:
    """Return a message as one short line that is safe to show."""
    text = message.get("message")
    title = text if isinstance(text, str) else ""
    parts = message.get("parts")
    if not title and isinstance(parts, list):
        texts = (part.get("text") for part in parts if isinstance(part, dict))
        title = " ".join(text for text in texts if isinstance(text, str))
    return line_of(title)


def line_of(text: str) -> str:
    """Return a text as one short line that is safe to show."""
    line = " ".join(_UNSEEN.sub("", text[: TITLE_CHARS_MAX * 8]).split())
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
        case records.MessageReceived.TYPE | records.MessageCompleted.TYPE:
            yield from _strings(data, ("message",))
            for part in _objects(data, "parts"):
                if part.get("type") == "text":
                    yield from _strings(part, ("text",))
        case records.ActionsRequested.TYPE:
            for action in _objects(data, "actions"):
                yield from _strings(action, _CALLED)
        case records.InputRequested.TYPE:
            for request in _objects(data, "requests"):
                if request.get("kind") == "question":
                    yield from _strings(request, ("prompt",))
        case records.InputResolved.TYPE:
            for resolution in _objects(data, "resolutions"):
                response = resolution.get("response")
                if isinstance(response, dict):
                    yield from _strings(response, ("text",))
        case _:
            pass


def _objects(data: Mapping[str, JsonValue], name: str) -> Iterator[dict[str, JsonValue]]:
    value = data.get(name)
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict):
            yield item


def _strings(data: Mapping[str, JsonValue], names: Iterable[str]) -> Iterator[str]:
    for name in names:
        value = data.get(name)
        if isinstance(value, str):
            yield value


def content_hashes(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return the hashes of the contents that records refer to in results of resolvers and in messages."""
    refs = (ref for entry in entries for ref in (entry.data.get("contentRef"), *_parts_content(entry.data)))
    hashes = (ref.get("hash") for ref in refs if isinstance(ref, dict))
    return tuple(dict.fromkeys(digest for digest in hashes if isinstance(digest, str)))


def _parts_content(data: Mapping[str, JsonValue]) -> list[JsonValue]:
    """Return the references of images and files: those of a message, and of the messages of a fork."""
    messages = data.get("messages")
    of_messages = [
        message.get("content")
        for message in (messages if isinstance(messages, list) else ())
        if isinstance(message, dict)
    ]
    return [
        part.get("content")
        for parts in (data.get("parts"), *of_messages)
        for part in (parts if isinstance(parts, list) else ())
        if isinstance(part, dict)
    ]


_ENDED: Final = frozenset(RUN_ENDS.values())
_SILENT: Final = types_of(records.RunStarted, records.RunResumed, records.RunCancelRequested)
"""Records of runs that neither end nor wait."""
_UNKNOWN: Final = ListedRun()


class _Draft:
    """The facts collected while records are read."""

    __slots__ = (
        "agent_id",
        "asked",
        "at",
        "feedback",
        "interrupted",
        "owner",
        "parent",
        "predecessor",
        "root",
        "runs",
        "seq",
        "since",
        "title",
    )

    def __init__(self, at: str) -> None:
        self.at = self.since = at
        self.title = ""
        self.agent_id: str | None = None
        self.owner: str | None = None
        self.parent: str | None = None
        self.root: str | None = None
        self.predecessor: str | None = None
        self.seq: int | None = None
        self.runs: list[RunNews] = []
        self.interrupted: list[str] = []
        self.feedback: list[FeedbackNews] = []
        self.asked: Mapping[str, JsonValue] | None = None
        """The newest request to a person."""

    def freeze(self) -> SessionNews:
        return SessionNews(
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
            tuple(self.interrupted),
            tuple(self.feedback),
        )

    def apply(self, entry: Entry) -> None:
        self.at = entry.at
        match entry.type:
            case records.MessageReceived.TYPE:
                self.say(entry)
            case records.SessionForked.TYPE:
                self.fork(entry)
            case records.InputRequested.TYPE:
                self.asked = next(_objects(entry.data, "requests"), None)
            case records.RecoveryStarted.TYPE:
                self.interrupted.append(_run_of(entry))
            case records.FeedbackGiven.TYPE:
                rating = {"up": 1, "down": -1}.get(_text(entry.data, "thumb") or "", 0)
                run_id = _run_of(entry)
                self.feedback.append(FeedbackNews(run_id, rating, tags_of(entry.data)))
            case kind:
                if kind == records.RunStarted.TYPE:
                    self.begin(entry.data)
                self.runs.append(self.run(entry))

    def say(self, entry: Entry) -> None:
        """The first message is the title of the session; one after the start of its run is its input."""
        title = title_of(entry.data)
        self.title = self.title or title
        last = self.runs[-1] if self.runs else None
        if last is not None and last.begins and last.run_id == entry.run_id:
            self.runs[-1] = replace(last, input=last.input or title)

    def fork(self, entry: Entry) -> None:
        """Drop the facts of the copied records: they belong to the original session."""
        seq = entry.data.get("predecessorSeq")
        self.since = entry.at
        self.predecessor = _text(entry.data, "predecessor")
        self.seq = seq if isinstance(seq, int) else None
        self.runs.clear()
        self.interrupted.clear()
        self.feedback.clear()

    def begin(self, facts: Mapping[str, JsonValue]) -> None:
        """The first run sets the owner of the session; the newest run sets its agent."""
        self.agent_id = _text(facts, "agentId") or self.agent_id
        self.owner = self.owner or _text(facts, "owner")
        # A playground run belongs to the session that it was made from, as its predecessor says too.
        for origin in (facts.get("parent"), facts.get("playground")):
            if isinstance(origin, dict):
                self.parent = self.parent or _text(origin, "sessionId")
                self.root = self.root or _text(origin, "rootSessionId")

    def run(self, entry: Entry) -> RunNews:
        """Return the new status of a run."""
        data, usage, unstarted = entry.data, entry.data.get("usage"), entry.data.get("unstarted")
        began = unstarted if isinstance(unstarted, dict) else data
        error, metadata = data.get("error"), began.get("metadata")
        waits_on = _text(data, "on") if entry.type == records.RunWaiting.TYPE else None
        request = self.asked if waits_on == "input" else None
        if request is not None and request.get("kind") == "recovery":
            waits_on = "recovery"
        return RunNews(
            _run_of(entry),
            RUN_STATUSES[entry.type],
            entry.at,
            agent_id=_text(began, "agentId") or entry.agent_id,
            begins=entry.type == records.RunStarted.TYPE,
            usage=Usage.model_validate(usage, by_alias=True, by_name=False)
            if isinstance(usage, dict)
            else None,
            is_unstarted=unstarted is not None,
            fingerprint=_text(began, "packageFingerprint") or "",
            output="" if entry.type in _SILENT else _output(data, request),
            waits_on=waits_on,
            error=_text(error, "kind") if isinstance(error, dict) else None,
            tags=tags_of(metadata if isinstance(metadata, dict) else {}),
        )


def tags_of(data: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Return the tags in the metadata of a run, or in feedback."""
    tags = data.get("tags")
    texts = (tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()
    return tuple(dict.fromkeys(tag for tag in texts if 0 < len(tag) <= TAG_CHARS_MAX))[:TAGS_MAX]


def _output(data: Mapping[str, JsonValue], request: Mapping[str, JsonValue] | None) -> str:
    """Return the first words of what a run says at its end, or of what it waits for."""
    error = data.get("error")
    if isinstance(error, dict):
        return line_of(_text(error, "message") or "")
    if request is not None:
        return line_of(_text(request, "prompt") or "")
    structured = data.get("structuredOutput")
    text = _text(data, "output") or ("" if structured is None else json.dumps(structured, ensure_ascii=False))
    return line_of(text or _text(data, "reason") or "")


def _run_of(entry: Entry) -> str:
    return _text(entry.data, "runId") or entry.run_id or ""


def _text(data: Mapping[str, JsonValue], name: str) -> str | None:
    value = data.get(name)
    return value if isinstance(value, str) else None
