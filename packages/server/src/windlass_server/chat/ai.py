"""A run as a UI message stream of the AI SDK, version 1.

One run is one message of the assistant. When it waits for people the stream finishes; the request that
answers goes on with the same message.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, assert_never

from pydantic import JsonValue

from windlass import Event
from windlass_harness.views.payloads import as_text
from windlass_protocol import InputKind, InputOutcome, RunStatus, ToolOutputType, Usage
from windlass_server.chat import beats
from windlass_server.chat.gate import WHOLE, Gate, View
from windlass_server.chat.sse import ChatFrames
from windlass_server.chat.telling import Telling

JsonObject = dict[str, JsonValue]
HEADER: Final = "x-vercel-ai-ui-message-stream"
VERSION: Final = "v1"
_DONE: Final = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class AiRun:
    """Which run is shown, and from where on."""

    session_id: str
    run_id: str
    view: View = WHOLE
    is_new_message: bool = True
    """Whether the client begins a message; else it goes on with the one that it has."""


class AiFold:
    """Events of a run in, chunks of a UI message stream out."""

    def __init__(self, run: AiRun) -> None:
        self._run = run
        self._telling = Telling(run.run_id)
        self._gate = Gate(run.view)
        self._is_in_step = False
        self._texts: dict[str, beats.TextKind] = {}
        self._calls: dict[str, beats.CallReady | None] = {}
        """Calls that are shown, or were before this stream began; None while their arguments are written."""
        self._shown: set[str] = set()
        """Calls that the message of the client has."""
        self._approvals: set[str] = set()
        """Calls of the message of the client that people were asked about."""
        self.is_over = False

    def opening(self) -> list[JsonObject]:
        """Return what comes before everything else."""
        ids: JsonObject = {"sessionId": self._run.session_id, "runId": self._run.run_id}
        start: JsonObject = {"type": "start", "messageMetadata": ids}
        return [{**start, "messageId": self._run.run_id} if self._is_whole else start]

    @property
    def _is_whole(self) -> bool:
        """Whether the message is the whole run, and so has its name."""
        return self._run.is_new_message and not self._run.view.skipped

    def take(self, event: Event) -> list[JsonObject]:
        """Return what an event is in this stream, often nothing."""
        chunks: list[JsonObject] = []
        for beat in self._telling.tell(event):
            if not self.is_over:
                chunks += self._take(beat)
        return chunks

    def _take(self, beat: beats.Beat) -> list[JsonObject]:
        was_closed = self._gate.is_closed
        is_pause = self._gate.is_pause(beat)
        if isinstance(beat, beats.Waits) and not is_pause:
            return []
        if not was_closed or isinstance(beat, beats.Ended):
            return list(self._chunks(beat))
        match beat:
            case beats.CallReady():
                self._calls[beat.key] = beat
                if not self._run.is_new_message:
                    self._shown.add(beat.key)
            case beats.Asked() if not self._run.is_new_message:
                self._approvals |= {ask.call_key for ask in beat.asks if _is_approval(ask) and ask.call_key}
            case _:
                pass
        return []

    def _chunks(self, beat: beats.Beat) -> Iterable[JsonObject]:
        match beat:
            case beats.Piece() | beats.PieceDone():
                return self._text(beat)
            case beats.CallPiece() | beats.CallReady():
                return self._call(beat)
            case beats.CallProgress() | beats.CallDone():
                return self._output(beat)
            case beats.StepBegan() | beats.StepVoid():
                return self._step(beat)
            case beats.Asked() | beats.Settled():
                return self._people(beat)
            case beats.Delegated() | beats.Returned():
                return (_subagent(beat),)
            case beats.Said():
                return () if beat.is_first else (_steering(beat),)
            case beats.Waits() | beats.Ended():
                return self._end(beat)
            case beats.Spent() | beats.StateChanged():
                return ()
            case _:
                assert_never(beat)

    def _text(self, beat: beats.Piece | beats.PieceDone) -> Iterable[JsonObject]:
        if isinstance(beat, beats.PieceDone):
            yield from self._text_end(beat.key)
            return
        name = "text" if beat.kind == "text" else "reasoning"
        if beat.key not in self._texts:
            self._texts[beat.key] = beat.kind
            yield {"type": f"{name}-start", "id": beat.key}
        yield {"type": f"{name}-delta", "id": beat.key, "delta": beat.delta}

    def _text_end(self, key: str) -> Iterable[JsonObject]:
        kind = self._texts.pop(key, None)
        if kind is not None:
            yield {"type": "text-end" if kind == "text" else "reasoning-end", "id": key}

    def _call(self, beat: beats.CallPiece | beats.CallReady) -> Iterable[JsonObject]:
        name: JsonObject = {"toolCallId": beat.key, "toolName": beat.name, "dynamic": True}
        self._shown.add(beat.key)
        if isinstance(beat, beats.CallReady):
            self._calls[beat.key] = beat
            yield {"type": "tool-input-available", **name, "input": beat.arguments}
            return
        if beat.key not in self._calls:
            self._calls[beat.key] = None
            yield {"type": "tool-input-start", **name}
        yield {"type": "tool-input-delta", "toolCallId": beat.key, "inputTextDelta": beat.delta}

    def _output(self, beat: beats.CallProgress | beats.CallDone) -> Iterable[JsonObject]:
        yield from self._announce(beat.key)
        call: JsonObject = {"toolCallId": beat.key}
        if isinstance(beat, beats.CallProgress):
            yield {"type": "tool-output-available", **call, "output": beat.output, "preliminary": True}
            return
        output = beat.output
        match output.type:
            case ToolOutputType.EXECUTION_DENIED if beat.key in self._approvals:
                yield {"type": "tool-output-denied", **call}
            case ToolOutputType.EXECUTION_DENIED:
                yield {"type": "tool-output-error", **call, "errorText": output.reason or "denied"}
            case ToolOutputType.ERROR_TEXT | ToolOutputType.ERROR_JSON:
                yield {"type": "tool-output-error", **call, "errorText": as_text(output.value)}
            case _:
                yield {"type": "tool-output-available", **call, "output": output.value}

    def _announce(self, key: str) -> Iterable[JsonObject]:
        """Show a call that was asked for in a message before this one."""
        call = self._calls.get(key)
        if call is not None and key not in self._shown:
            yield from self._call(call)

    def _step(self, beat: beats.StepBegan | beats.StepVoid) -> Iterable[JsonObject]:
        if isinstance(beat, beats.StepVoid):
            self._texts.clear()
            self._calls = {key: call for key, call in self._calls.items() if call and call.step != beat.step}
            yield {"type": "reset-step"}
            return
        yield from self._step_end()
        self._is_in_step = True
        yield {"type": "start-step"}

    def _step_end(self) -> Iterable[JsonObject]:
        for key in tuple(self._texts):
            yield from self._text_end(key)
        if self._is_in_step:
            self._is_in_step = False
            yield {"type": "finish-step"}

    def _people(self, beat: beats.Asked | beats.Settled) -> Iterable[JsonObject]:
        if isinstance(beat, beats.Asked):
            for ask in beat.asks:
                yield from self._asked(ask)
            return
        for ask, resolution in beat.resolutions:
            if _is_approval(ask) and ask.call_key in self._approvals:
                approved = resolution.outcome is InputOutcome.APPROVED
                name = ask.request.request_id
                yield {"type": "tool-approval-response", "approvalId": name, "approved": approved}
            elif not _is_approval(ask):
                yield _request(ask, resolution.outcome.value)

    def _asked(self, ask: beats.Ask) -> Iterable[JsonObject]:
        request = ask.request
        if not _is_approval(ask) or ask.call_key is None:
            yield _request(ask, None)
            return
        self._approvals.add(ask.call_key)
        yield from self._announce(ask.call_key)
        chunk: JsonObject = {"approvalId": request.request_id, "toolCallId": ask.call_key}
        if request.arguments_hash is not None:
            # It comes back with the answer, which holds for exactly these arguments.
            chunk["signature"] = request.arguments_hash
        yield {"type": "tool-approval-request", **chunk, "reason": request.prompt}

    def _end(self, beat: beats.Waits | beats.Ended) -> Iterable[JsonObject]:
        yield from self._step_end()
        if isinstance(beat, beats.Waits):
            yield {"type": "finish", "finishReason": "tool-calls"}
        else:
            yield from self._outcome(beat)
        self.is_over = True

    def _outcome(self, beat: beats.Ended) -> Iterable[JsonObject]:
        used = _used(beat.usage)
        match beat.status:
            case RunStatus.COMPLETED:
                yield {"type": "finish", "finishReason": "stop", "messageMetadata": used}
            case RunStatus.CANCELLED:
                yield {"type": "abort", "reason": beat.reason or "the run was cancelled"}
                yield {"type": "finish", "finishReason": "interrupted", "messageMetadata": used}
            case _:
                code = "budget_exhausted" if beat.status is RunStatus.BUDGET_EXHAUSTED else beat.error_code
                yield self.failure(code or "internal", beat.error_message or f"the run is {beat.status}")

    def failure(self, code: str, message: str) -> JsonObject:
        """Return the chunk of an error; its text begins with the code."""
        return {"type": "error", "errorText": f"{code}: {message}"}


def ai_frames(run: AiRun) -> ChatFrames:
    """Return the frames of a UI message stream."""
    return ChatFrames(AiFold(run), "the server ends: the run goes on, resume the stream", _DONE)


def _is_approval(ask: beats.Ask) -> bool:
    """Whether it is about a call that the message shows; a subagent's is not."""
    return ask.request.kind is InputKind.APPROVAL and ask.subagent is None


def _request(ask: beats.Ask, outcome: str | None) -> JsonObject:
    """Return a request that the stream has no chunk for, as data; later its outcome."""
    data: JsonObject = ask.request.model_dump(mode="json", by_alias=True, exclude_none=True)
    data |= {} if ask.call_key is None else {"toolCallId": ask.call_key}
    data |= {} if outcome is None else {"outcome": outcome}
    return {"type": "data-request", "id": ask.request.request_id, "data": data}


def _subagent(beat: beats.Delegated | beats.Returned) -> JsonObject:
    status = "running"
    if isinstance(beat, beats.Returned):
        status = "completed" if beat.error is None else "failed"
    return {"type": "data-subagent", "id": beat.key, "data": {"name": beat.name, "status": status}}


def _steering(beat: beats.Said) -> JsonObject:
    return {"type": "steering-message", "id": beat.key, "parts": [{"type": "text", "text": beat.text}]}


def _used(usage: Usage) -> JsonObject:
    counts: JsonObject = usage.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"usage": counts}
