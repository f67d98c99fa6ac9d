"""The rules by which a remote agent goes on: no model is asked."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Final, cast

from pydantic import JsonValue

from windlass.client.remote_report import REMOTE, Asked, Reply, Report, reply_to
from windlass.errors import Rejected
from windlass.ports.model import LLMMessage, LLMStreamChunk, LLMUsage
from windlass_protocol import CodecError, ErrorKind, FinishReason, RetryClass, ToolCall, Usage, parse

JsonObject = dict[str, JsonValue]

ROUNDS_MAX: Final = 100
"""How often one piece of work may ask a person."""
_ASK: Final = "ask_question"


class RemoteModel:
    """Answers for an agent whose work is done on another server.

    Words to it become a call that gives them to the server. What that brings back is its answer, a question
    to a person, or a failure; an answer to the question becomes another call.
    """

    route_id = "remote"
    holds_beside_tools = True

    def __init__(self, model_id: str, schema: JsonObject | None = None) -> None:
        self.model_id = model_id
        self._schema = schema

    def with_output(self, schema: JsonObject) -> "RemoteModel":
        """Return the same model; the server is told the schema."""
        return RemoteModel(self.model_id, schema)

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncGenerator[LLMStreamChunk]:
        """Go on from the last message; see `LLMProvider`."""
        last = messages[-1]
        if last.role != "tool":
            yield self._call(messages, REMOTE, self._task(last.content))
        elif last.is_error:
            # Also a question that nobody can be asked: the server would only ask it again.
            raise _failed(last.content)
        elif last.name == _ASK:
            yield self._call(messages, REMOTE, _answer(messages, last))
        else:
            report = _report(last)
            if report.asked is not None:
                _check_rounds(messages)
                yield self._call(messages, _ASK, _question(report.asked, tools or ()))
            else:
                yield LLMStreamChunk(usage=_usage(report.usage))
                if report.output is None:
                    raise _failed(report.error or "it ended without an answer")
                yield LLMStreamChunk(content_delta=report.output)
                yield LLMStreamChunk(finish_reason=FinishReason.STOP)
                return
        yield LLMStreamChunk(finish_reason=FinishReason.TOOL_CALLS)

    def _task(self, words: str) -> JsonObject:
        task: JsonObject = {"message": words}
        if self._schema is not None:
            task["output_schema"] = self._schema
        return task

    def _call(self, messages: Sequence[LLMMessage], name: str, arguments: JsonObject) -> LLMStreamChunk:
        number = sum(len(message.tool_calls) for message in messages) + 1
        return LLMStreamChunk(tool_call_delta=ToolCall(id=f"remote-{number}", name=name, arguments=arguments))


def _check_rounds(messages: Sequence[LLMMessage]) -> None:
    asked = 0
    for message in reversed(messages):
        if message.role == "user":
            break
        asked += message.name == _ASK
    if asked >= ROUNDS_MAX:
        raise _failed(f"it asks without end: over the limit of {ROUNDS_MAX} questions for one piece of work")


def _question(asked: Asked, tools: Iterable[JsonObject]) -> JsonObject:
    if all(tool["name"] != _ASK for tool in tools):
        raise _failed("it waits for a person, and nobody can be asked here; it was told to end")
    return asked.question


def _answer(messages: Sequence[LLMMessage], told: LLMMessage) -> JsonObject:
    """What a person said, for the request that is behind the question."""
    asked = next(message for message in reversed(messages) if message.name == REMOTE)
    reply: Reply = reply_to(_report(asked), _object(told.content))
    return {"reply": cast(JsonObject, reply.model_dump(mode="json", exclude_none=True))}


def _report(message: LLMMessage) -> Report:
    return Report.model_validate(_object(message.content))


def _object(text: str) -> JsonObject:
    try:
        found = parse(text)
    except CodecError:
        return {}
    return found if isinstance(found, dict) else {}


def _usage(used: Usage | None) -> LLMUsage | None:
    if used is None:
        return None
    return LLMUsage(
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cache_read_tokens=used.cache_read_tokens,
        cache_write_tokens=used.cache_write_tokens,
        reasoning_tokens=used.reasoning_tokens,
        cost_micros=used.cost_micros,
    )


def _failed(why: str) -> Rejected:
    return Rejected(
        f"the remote agent did not complete: {why}",
        kind=ErrorKind.SUBAGENT_FAILURE,
        retry=RetryClass.NOT_RETRYABLE,
    )
