"""A run as events of AG-UI 1.0.

A run that waits for people ends here with an interrupt; the run that resumes it shows what comes behind the
answers. Whoever reads a run again is first told with which messages to begin, so nothing is there twice.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, assert_never

from pydantic import JsonValue
from pydantic_core import to_json

from windlass import Event
from windlass_harness.views.payloads import as_text
from windlass_protocol import InputKind, RunStatus, ToolOutput, ToolOutputType
from windlass_server.chat import beats
from windlass_server.chat.agui_messages import JsonObject, Transcript, others_of
from windlass_server.chat.gate import WHOLE, Gate, View
from windlass_server.chat.sse import ChatFrames, sse
from windlass_server.chat.telling import Telling
from windlass_server.problems import Problem

PROTOCOL_VERSION: Final = "1.0"
_REASONS: Final = {InputKind.APPROVAL: "tool_call", InputKind.QUESTION: "input_required"}
_TOKENS: Final = (
    ("inputTokens", "input_tokens"),
    ("outputTokens", "output_tokens"),
    ("reasoningTokens", "reasoning_tokens"),
    ("cachedInputTokens", "cache_read_tokens"),
    ("cacheWriteInputTokens", "cache_write_tokens"),
)


@dataclass(frozen=True, slots=True)
class AguiRun:
    """What a client asked for, and which run that is."""

    thread_id: str
    run_id: str
    """As the client calls it."""
    own_session_id: str
    own_run_id: str
    view: View = WHOLE
    is_again: bool = False
    """Whether the client may have seen some of it."""
    messages: tuple[JsonObject, ...] = ()
    """What the client has; only it sees them again."""
    state: JsonObject = field(default_factory=dict[str, JsonValue])
    """The state that the client has; only it sees it again."""
    knows_cancelled: bool = True
    """Whether the client knows the outcome `cancelled`; those before 1.0 do not."""


class AguiFold:
    """Events of a run in, events of AG-UI out."""

    def __init__(self, run: AguiRun) -> None:
        self._run = run
        self._telling = Telling(run.own_run_id)
        self._transcript = Transcript(run.own_run_id)
        self._others = others_of(run.messages, run.own_run_id)
        self._texts: dict[str, beats.TextKind] = {}
        self._calls: set[str] = set()
        self._subagents: dict[str, JsonObject] = {}
        self._state = dict(run.state)
        self._usage: dict[str | None, dict[str, int]] = {}
        self._gate = Gate(run.view)
        self.is_over = False

    def opening(self) -> list[JsonObject]:
        """Return what comes before everything else."""
        ids: JsonObject = {"sessionId": self._run.own_session_id, "runId": self._run.own_run_id}
        started = {**self._named("RUN_STARTED"), "protocolVersion": PROTOCOL_VERSION}
        first: JsonObject = {**started, "metadata": {"windlass": ids}}
        return [first] if self._gate.is_closed else [first, *self._begin()]

    def take(self, event: Event) -> list[JsonObject]:
        """Return what an event is in AG-UI, often nothing."""
        frames: list[JsonObject] = []
        for beat in self._telling.tell(event):
            if not self.is_over:
                frames += self._take(beat)
        return frames

    def _take(self, beat: beats.Beat) -> list[JsonObject]:
        was_closed = self._gate.is_closed
        is_pause = self._gate.is_pause(beat)
        if was_closed and isinstance(beat, beats.Ended):
            return [*self._begin(), *self._end(beat)]
        frames = [] if isinstance(beat, beats.Waits) and not is_pause else list(self._shown(beat))
        self._transcript.apply(frames)
        if not was_closed:
            return frames
        return [] if self._gate.is_closed else self._begin()

    def _begin(self) -> list[JsonObject]:
        """Begin to show what happens.

        What is open began unseen: it begins anew if it goes on.
        """
        self._gate.open()
        self._texts.clear()
        self._calls.clear()
        begun = list(self._subagents.values())
        if not self._run.is_again:
            return begun
        self._transcript.expect(self._run.messages)
        return [self._messages(), *begun]

    def _shown(self, beat: beats.Beat) -> Iterable[JsonObject]:
        match beat:
            case beats.Piece() | beats.PieceDone():
                return self._text(beat)
            case beats.CallPiece() | beats.CallReady() | beats.CallDone():
                return self._call(beat)
            case beats.StepBegan() | beats.StepVoid():
                return self._step(beat)
            case beats.Delegated() | beats.Returned():
                return self._subagent(beat)
            case beats.Said():
                return self._said(beat)
            case beats.StateChanged():
                return self._changed(beat)
            case beats.Waits() | beats.Ended():
                return self._end(beat)
            case beats.Spent():
                self._spend(beat)
                return ()
            case beats.Asked() | beats.Settled() | beats.CallProgress():
                return ()
            case _:
                assert_never(beat)

    # words

    def _text(self, beat: beats.Piece | beats.PieceDone) -> Iterable[JsonObject]:
        key = beat.key
        if isinstance(beat, beats.PieceDone):
            yield from self._text_end(key)
            return
        is_text = beat.kind == "text"
        if key not in self._texts:
            self._texts[key] = beat.kind
            if is_text:
                yield {"type": "TEXT_MESSAGE_START", "messageId": key, "role": "assistant"}
            else:
                yield {"type": "REASONING_START", "messageId": key}
                yield {"type": "REASONING_MESSAGE_START", "messageId": key, "role": "reasoning"}
        name = "TEXT_MESSAGE_CONTENT" if is_text else "REASONING_MESSAGE_CONTENT"
        yield {"type": name, "messageId": key, "delta": beat.delta}

    def _text_end(self, key: str) -> Iterable[JsonObject]:
        kind = self._texts.pop(key, None)
        if kind == "text":
            yield {"type": "TEXT_MESSAGE_END", "messageId": key}
        elif kind == "thought":
            yield {"type": "REASONING_MESSAGE_END", "messageId": key}
            yield {"type": "REASONING_END", "messageId": key}

    def _said(self, beat: beats.Said) -> Iterable[JsonObject]:
        if not beat.is_first:
            yield {"type": "TEXT_MESSAGE_START", "messageId": beat.key, "role": "user"}
            yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": beat.key, "delta": beat.text}
            yield {"type": "TEXT_MESSAGE_END", "messageId": beat.key}

    # calls

    def _call(self, beat: beats.CallPiece | beats.CallReady | beats.CallDone) -> Iterable[JsonObject]:
        key = beat.key
        if isinstance(beat, beats.CallDone):
            yield _result(key, beat.output)
            return
        is_new = key not in self._calls
        if is_new:
            self._calls.add(key)
            parent = f"{self._run.own_run_id}/{beat.step}"
            call: JsonObject = {"toolCallId": key, "toolCallName": beat.name, "parentMessageId": parent}
            yield {"type": "TOOL_CALL_START", **call}
        if isinstance(beat, beats.CallPiece):
            yield {"type": "TOOL_CALL_ARGS", "toolCallId": key, "delta": beat.delta}
            return
        text = to_json(beat.arguments).decode()
        if is_new:
            yield {"type": "TOOL_CALL_ARGS", "toolCallId": key, "delta": text}
        self._calls.discard(key)
        yield {"type": "TOOL_CALL_END", "toolCallId": key}
        if not is_new and not _is_same(beat.streamed, beat.arguments):
            self._transcript.set_arguments(key, text)
            yield self._messages()

    def _step(self, beat: beats.StepBegan | beats.StepVoid) -> Iterable[JsonObject]:
        yield from self._close()
        if isinstance(beat, beats.StepVoid):
            self._transcript.drop(beat.step)
            yield self._messages()

    def _close(self) -> Iterable[JsonObject]:
        for key in tuple(self._texts):
            yield from self._text_end(key)
        for key in sorted(self._calls):
            yield {"type": "TOOL_CALL_END", "toolCallId": key}
        self._calls.clear()

    # the rest

    def _subagent(self, beat: beats.Delegated | beats.Returned) -> Iterable[JsonObject]:
        name: JsonObject = {"subagentRunId": beat.key}
        if isinstance(beat, beats.Delegated):
            started: JsonObject = {"type": "SUBAGENT_STARTED", **name, "name": beat.name}
            if beat.call_key is not None:
                started["parentToolCallId"] = beat.call_key
            self._subagents[beat.key] = started
            yield started
        elif self._subagents.pop(beat.key, None) is not None:
            if beat.error is None:
                yield {"type": "SUBAGENT_FINISHED", **name, "result": beat.output}
            else:
                yield {"type": "SUBAGENT_ERROR", **name, "message": beat.error}

    def _changed(self, beat: beats.StateChanged) -> Iterable[JsonObject]:
        self._state |= beat.changed
        for name in beat.removed:
            self._state.pop(name, None)
        yield {"type": "STATE_SNAPSHOT", "snapshot": dict(self._state)}

    def _spend(self, beat: beats.Spent) -> None:
        if self._gate.is_closed:
            return
        used = self._usage.setdefault(beat.model, {})
        for name, ours in _TOKENS:
            count: int | None = getattr(beat.usage, ours)
            if count is not None:
                used[name] = used.get(name, 0) + count

    def _end(self, beat: beats.Waits | beats.Ended) -> Iterable[JsonObject]:
        yield from self._close()
        if isinstance(beat, beats.Waits):
            yield from self._suspend(beat)
            interrupts: list[JsonValue] = [_interrupt(ask) for ask in beat.asks]
            yield self._finished({"type": "interrupt", "interrupts": interrupts})
        else:
            for key in self._subagents:
                yield {"type": "SUBAGENT_ERROR", "subagentRunId": key, "message": "the run has ended"}
            yield self._outcome(beat)
        self.is_over = True

    def _suspend(self, beat: beats.Waits) -> Iterable[JsonObject]:
        for key in self._subagents:
            ids: list[JsonValue] = [ask.request.request_id for ask in beat.asks if ask.subagent == key]
            outcome: JsonObject = {"type": "suspended", "interruptIds": ids}
            yield {"type": "SUBAGENT_FINISHED", "subagentRunId": key, "outcome": outcome}

    def _outcome(self, beat: beats.Ended) -> JsonObject:
        match beat.status:
            case RunStatus.COMPLETED:
                return {**self._finished({"type": "success"}), "result": beat.output}
            case RunStatus.CANCELLED if self._run.knows_cancelled:
                return self._finished({"type": "cancelled"})
            case RunStatus.CANCELLED:
                return self.failure("cancelled", beat.reason or "the run was cancelled")
            case _:
                code = "budget_exhausted" if beat.status is RunStatus.BUDGET_EXHAUSTED else beat.error_code
                return self.failure(code or "internal", beat.error_message or f"the run is {beat.status}")

    def failure(self, code: str, message: str) -> JsonObject:
        """Return the end of a run that went wrong."""
        return {"type": "RUN_ERROR", "code": code, "message": message, **self._used()}

    def _finished(self, outcome: JsonObject) -> JsonObject:
        return {**self._named("RUN_FINISHED"), "outcome": outcome, **self._used()}

    def _used(self) -> JsonObject:
        entries: list[JsonValue] = []
        for model, counts in self._usage.items():
            if counts:
                total = counts.get("inputTokens", 0) + counts.get("outputTokens", 0)
                entry: JsonObject = {**counts, "totalTokens": total}
                entries.append(entry if model is None else {"model": model, **entry})
        return {"usage": entries} if entries else {}

    def _named(self, kind: str) -> JsonObject:
        return {"type": kind, "threadId": self._run.thread_id, "runId": self._run.run_id}

    def _messages(self) -> JsonObject:
        messages = self._transcript.snapshot(self._others)
        return {"type": "MESSAGES_SNAPSHOT", "messages": list[JsonValue](messages)}


def agui_frames(run: AguiRun) -> ChatFrames:
    """Return the frames of a run of AG-UI; the last event says that it is over."""
    return ChatFrames(AguiFold(run), "the server ends: the run goes on, send the same request again")


def refused(run: AguiRun, problem: Problem) -> bytes:
    """Return the whole stream of a run that could not begin."""
    fold = AguiFold(run)
    return sse([*fold.opening()[:1], fold.failure(problem.named_code, problem.detail)])


def _result(key: str, output: ToolOutput) -> JsonObject:
    is_denied = output.type is ToolOutputType.EXECUTION_DENIED
    content = output.reason or "" if is_denied else as_text(output.value)
    result: JsonObject = {"messageId": f"{key}/result", "toolCallId": key, "role": "tool"}
    return {"type": "TOOL_CALL_RESULT", **result, "content": content}


def _is_same(streamed: str, arguments: JsonValue) -> bool:
    try:
        return json.loads(streamed) == arguments
    except ValueError:
        return False


def _interrupt(ask: beats.Ask) -> JsonObject:
    """Return what a person is asked; an answer names its id."""
    request = ask.request
    options: list[JsonValue] = [option.id for option in request.options or ()]
    properties: JsonObject = {"text": {"type": "string"}, "argumentsHash": {"type": "string"}}
    if options:
        properties["optionId"] = {"enum": options}
    if request.kind is InputKind.APPROVAL:
        properties["approved"] = {"type": "boolean"}
    found: JsonObject = {
        "id": request.request_id,
        "reason": _REASONS.get(request.kind or InputKind.QUESTION, f"windlass:{request.kind}"),
        "message": request.prompt,
        "responseSchema": {"type": "object", "properties": properties},
        "metadata": {"windlass": request.model_dump(mode="json", by_alias=True, exclude_none=True)},
    }
    maybe = (("toolCallId", ask.call_key), ("subagentRunId", ask.subagent), ("expiresAt", request.expires_at))
    return {**found, **{name: value for name, value in maybe if value is not None}}
