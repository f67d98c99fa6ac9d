"""The handle of a run: wait, watch, answer, cancel, continue, undo and judge it; and its typed result."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import cached_property
from typing import TYPE_CHECKING, Final, Generic, Literal, cast, overload

from pydantic import BaseModel, JsonValue, ValidationError

from windlass.agent.agent import Output
from windlass.agent.output import json_of, parse_output
from windlass.engine.driving.inbox import item_key
from windlass.errors import Rejected, check_whole, kind_of
from windlass.feed.cursors import decode_cursor
from windlass.ports.feed import EventStream, bad_subscription
from windlass.ports.inbox import EVENT, FEEDBACK
from windlass.refusals import bad_request, check_given, check_id, late_event, misfit, no_value, not_begun
from windlass.runtime import undo
from windlass.runtime.requests import Request, requests_of
from windlass.tools.deps import OutputT
from windlass_harness.budget import Budget
from windlass_harness.redact import Redactor
from windlass_harness.views.runs import RUN_ENDS, DeliveryState
from windlass_harness.views.stream import ChatFold, StepVoided, TextDelta
from windlass_protocol import (
    BudgetLimits,
    CausalIds,
    Cursor,
    ErrorInfo,
    ErrorKind,
    InputRequest,
    InputResponse,
    JsonObject,
    OutputContract,
    RetryClass,
    RunCursor,
    RunResult,
    RunStatus,
    UndoPlan,
    Usage,
)
from windlass_protocol.bodies import data_of
from windlass_protocol.generated.event_data import FeedbackGivenData
from windlass_protocol.generated.records import RunEventReceived
from windlass_protocol.limits import INTEGER_MAX

if TYPE_CHECKING:
    from windlass.runtime.core import Core
    from windlass_protocol import DecisionRun


class RunHandle(Generic[OutputT]):
    """Handle of a run, in whichever process the run is driven.

    `output` is the type of its output; without one the output is text.
    """

    def __init__(
        self,
        core: "Core",
        run_id: str,
        output: Output | None = None,
        *,
        start_output: Output | None = None,
    ) -> None:
        self._core = core
        self.run_id = run_id
        self._output = output
        self._start_output = start_output
        """The output that its start named; a run that continues it has the same."""

    def __repr__(self) -> str:
        return f"RunHandle({self.run_id!r})"

    async def status(self) -> RunStatus:
        """Return the status of the run.

        Raises:
            Conflict: the run is unknown.
        """
        return await self._core.runs.status(self.run_id)

    async def session_id(self) -> str:
        """Return the id of the session of the run; its next message goes there.

        Raises:
            Conflict: the run is unknown.
        """
        return (await self._core.runs.row(self.run_id)).session_id

    @overload
    async def wait(self: "RunHandle[str]", timeout: float | None = None) -> RunResult: ...  # noqa: ASYNC109
    @overload
    async def wait(self, timeout: float | None = None) -> "TypedResult[OutputT]": ...  # noqa: ASYNC109
    async def wait(self, timeout: float | None = None) -> "RunResult | TypedResult[OutputT]":  # noqa: ASYNC109 - the run goes on when the wait ends
        """Return the result of the run, once it has ended.

        A run that waits for people has not ended. If the agent has a type as its `output`, so has
        `result.output`.

        Raises:
            TimeoutError: the run did not end within `timeout` seconds. It continues.
            Conflict: the run is unknown.
        """
        result = await self._core.runs.result(self.run_id, timeout)
        return result if self._output is None else TypedResult(result, self._output)

    def events(self, after: int | str | Cursor | None = None) -> EventStream:
        """Return the events of the run, stored and live, up to its end.

        `after` is the `seq` of the last event received, or a cursor, also as text; None starts at the first
        event.
        """
        cursor = cursor_of(_position(self.run_id, after))
        return self._core.bus.subscribe_run(self.run_id, cursor, until_terminal=True)

    async def cancel(self, *, by: str | None = None, reason: str | None = None) -> None:
        """Cancel the run; has no effect on a run that has ended."""
        await self._core.cancel(self.run_id, by=by, reason=reason)

    async def retry(
        self, *, budget: Budget | BudgetLimits | None = None, deps: object = None
    ) -> "RunHandle[OutputT]":
        """Continue a run that failed, in a new run of its session; return the handle of that run.

        The model is called with the history of the failed run: calls that have a result are not repeated. A
        second call returns the same run. The new run has what the failed one left of its budget. `budget` are
        other limits, of both runs together: give larger ones to continue a run that used up its budget.
        `deps` are the dependencies of the new run; without them the factory of the agent makes them.

        Raises:
            Conflict: the run has not failed, its session has gone on since, nothing is left of its budget, or
                it was continued with another `budget`.
        """
        output = self._start_output
        continued = await self._core.starts.retry(self.run_id, budget=budget, deps=deps, output=output)
        return RunHandle(self._core, continued.run_id, self._output, start_output=output)

    async def undo(self) -> "RunHandle[str]":
        """Reverse the calls of the run, newest first, in a new run of its session; return its handle.

        Calls of tools with an `undo` are reversed, each once, also after a crash; the policy decides about
        each. `undo_plan` lists them before. The new run fails if a call could not be reversed; a second
        `undo` then tries the rest.

        Raises:
            Conflict: the run has not ended, or has no call that can be reversed.
        """
        return await self._core.starts.undo(self.run_id)

    async def undo_plan(self) -> UndoPlan:
        """Return the calls of the run that may have changed something, newest first.

        Each says whether it can be reversed, was reversed, or has no undo.

        Raises:
            Conflict: the run is unknown.
        """
        row = await self._core.runs.row(self.run_id)
        return undo.plan_of(row.run_id, await undo.calls_of(self._core.store, row))

    def requests(self) -> AsyncGenerator[Request]:
        """Yield the requests of the run to people, each once, up to the end of the run.

        Each is an `Approval`, a `Question` or an `Interrupted` call, with the answers that fit. Only open
        requests are shown: the same loop is right after a crash, and when others answer too. Requests of
        subagents are included.

            async for request in handle.requests():
                match request:
                    case Approval():
                        await request.approve(by="ann")
                    case Question():
                        await request.reply("the blue one")
                    case Interrupted():
                        await request.retry()
        """
        return requests_of(self)

    async def stream_text(self) -> AsyncGenerator[str]:
        """Yield the text of the model as it is written, up to the end of the run.

        The text of an earlier step is whole, and an empty line is between the texts of two messages. If a
        model call fails and is repeated, its text starts anew, also after an empty line.
        """
        chat, key, has_text = ChatFold(), "", False
        async with aclosing(self.events()) as events:
            async for event in events:
                for change in chat.apply(event):
                    if isinstance(change, StepVoided):
                        key = ""
                    elif isinstance(change, TextDelta) and change.kind == "text":
                        if has_text and (change.key != key or change.is_whole):
                            yield "\n\n"
                        key, has_text = change.key, True
                        yield change.delta

    async def open_requests(self) -> tuple[InputRequest, ...]:
        """Return the open requests of the run as data; those with `is_answered` wait for a process."""
        row = await self._core.runs.row(self.run_id)
        return tuple((await self._core.runs.requests(row.session_id, self.run_id)).values())

    async def answer(
        self,
        request_id: str,
        option_id: str | None = None,
        *,
        text: str | None = None,
        responder: str | None = None,
        arguments: JsonObject | None = None,
    ) -> None:
        """Answer a request: with one of its options, with words, or with both.

        With the option approve, `arguments` are those that the call runs with instead of its own.

        Raises:
            Conflict: the run has no open request with this id.
            Denied: this responder may not answer.
            Rejected: the answer does not fit the request.
        """
        fields = {
            "request_id": request_id,
            "option_id": option_id,
            "text": text,
            "responder": responder,
            "arguments": arguments,
        }
        try:
            response = InputResponse.model_validate(fields)
        except ValidationError as error:
            problem = misfit(error, "answer", value=fields)
        else:
            return await self.answer_all((response,))
        raise bad_request(problem)

    async def answer_all(self, responses: Sequence[InputResponse], *, key: str | None = None) -> None:
        """Answer several requests at once; return once the answers are durable.

        Answers that were given with the same `key` before are accepted again.

        Raises:
            Conflict: a request is answered already, or the run has no open request with this id.
            Denied: this responder may not answer.
            Rejected: an answer does not fit its request.
        """
        await self._core.answers.answer_run(self.run_id, responses, key=key)

    async def decisions(self, *, after: int = 0, limit: int | None = None) -> "DecisionRun":
        """Return the decisions of the run: choice, alternatives, outcome and failures.

        They are read from the journal, for running and ended runs of any process. With `limit` it is a page
        of them, behind the first `after`; `metrics.total_decisions` counts all.

        Raises:
            Conflict: the run is unknown, or it is still queued.
            Rejected: `after` or `limit` is not a count.
        """
        check_whole(after + 1 if type(after) is int else after, "after + 1", most=INTEGER_MAX)
        if limit is not None:
            check_whole(limit, "limit", most=INTEGER_MAX)
        row = await self._core.runs.row(self.run_id)
        return await self._core.decisions.of_run(row, after=after, limit=limit)

    async def feedback(
        self,
        *,
        thumb: Literal["up", "down"] | None = None,
        score: float | None = None,
        note: str | None = None,
        tags: Sequence[str] = (),
        step_index: int | None = None,
        message_id: str | None = None,
        by: str | None = None,
        key: str | None = None,
    ) -> None:
        """Record what a person says of the run; return once it is durable.

        It is a record of the session of the run, `feedback.given`; secrets in it are masked.

        Args:
            thumb: up or down.
            score: from 0, the worst, to 1, the best.
            note: why, in words.
            tags: short words that `sessions.runs(tag=…)` finds.
            step_index: the step that is meant, from 0; the whole run without it.
            message_id: the answer that is meant.
            by: the person.
            key: given again, the same feedback is recorded once.

        Raises:
            Conflict: the run is unknown, or it is still queued; or the key was used with other feedback.
            Rejected: a value is not valid, or there is none.
        """
        row = await self._core.runs.row(self.run_id)
        if not row.first_seq:
            raise not_begun(row.run_id)
        values: dict[str, object] = {
            "thumb": thumb,
            "score": score,
            "note": note,
            "tags": None if isinstance(tags, (list, tuple)) and not tags else tags,
            "step_index": step_index,
            "message_id": message_id,
            "by": by,
        }
        data = _feedback_data(row.run_id, values, self._core.ports.scribe.redactor)
        name = item_key(FEEDBACK, key or self._core.ports.machine.new_id())
        await self._core.store.post(row.session_id, kind=FEEDBACK, key=name, body=data)
        await self._core.rouse(row.session_id)

    async def send(
        self, name: str, data: JsonValue = True, *, key: str | None = None, by: str | None = None
    ) -> None:
        """Send an event that the workflow of the run waits for; return once it is durable.

        `ctx.wait_for(name)` returns `data`. The event is kept until the workflow comes to that call, and one
        call takes it. Secrets in it are masked.

        Args:
            name: what the workflow waits for.
            data: what comes with it, as JSON; true when left out.
            key: events with the same key are one event, such as the id of a payment.
            by: who sent it.

        Raises:
            Conflict: the run is unknown or has ended, or the key was used with another event.
            Rejected: the name or the key is not valid or would be masked, or the data is no JSON or too
                large.
        """
        check_id(name, "the name of the event")
        if key is not None:
            check_id(key, "the key of the event")
        if by is not None:
            check_given(by, str, what="by", words="a text")
        row = await self._core.runs.row(self.run_id)
        if row.status.value in RUN_ENDS.values():
            raise late_event(row.run_id, row.status.value)
        try:
            value = json_of(data, f"the data of event {name}")
        except TypeError as error:
            raise bad_request(str(error)) from None
        event = RunEventReceived(run_id=row.run_id, name=name, data=value, key=key, by=by)
        body = data_of(event)
        masked = await self._core.mask(body)
        # Keys that are masked would be equal, and the second event be taken for a repeated one.
        hidden = [field for field in ("name", "key") if masked.get(field) != body.get(field)]
        if hidden:
            raise bad_request(
                f"the {' and the '.join(hidden)} of the event would be masked: it is a registered secret or "
                "looks like one; choose another"
            )
        item = item_key(EVENT, f"{row.run_id}/{key or self._core.ports.machine.new_id()}")
        await self._core.store.post(row.session_id, kind=EVENT, key=item, body=masked)
        await self._core.rouse(row.session_id)

    async def deliveries(self) -> tuple[DeliveryState, ...]:
        """Return the delivery of the run's output to each of its sinks.

        A delivery with status unknown may or may not have happened; it is never repeated automatically.

        Raises:
            Conflict: the run is unknown.
        """
        return await self._core.runs.deliveries(self.run_id)


def _feedback_data(run_id: str, values: Mapping[str, object], redactor: Redactor) -> JsonObject:
    """Return feedback as data of its record, with secrets masked.

    Raises:
        Rejected: a value has the wrong type, or all are left out.
    """
    fields = {name: value for name, value in values.items() if value is not None}
    if not fields.keys() & {"thumb", "score", "note", "tags"}:
        raise bad_request("feedback needs a thumb, a score, a note or tags")
    try:
        data = FeedbackGivenData.model_validate({"run_id": run_id, **fields}, by_alias=False, by_name=True)
    except ValidationError as error:
        problem = misfit(error, "feedback", value=fields)
    else:
        body = data.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return cast(JsonObject, redactor.value(body))
    raise bad_request(problem)


def cursor_of(cursor: Cursor | str | None) -> Cursor | None:
    """Return a cursor that may be given as text, see `encode_cursor`."""
    return decode_cursor(cursor) if isinstance(cursor, str) else cursor


def _position(run_id: str, after: object) -> Cursor | str | None:
    if after is None or isinstance(after, BaseModel | str):
        return cast("Cursor | str | None", after)  # the feed refuses a cursor of another kind
    if not isinstance(after, int) or isinstance(after, bool):
        raise bad_subscription(f"after must be the seq of an event or a cursor, found {kind_of(after)}")
    if not 0 <= after <= INTEGER_MAX:
        shown_number = after if after < 0 else "more"
        raise bad_subscription(
            f"after must be the seq of an event, 0 to {INTEGER_MAX:,}, found {shown_number}"
        )
    return RunCursor(run_id=run_id, seq=after)


class TypedResult(Generic[OutputT]):
    """Result of a run with a typed output: a RunResult in which `output` is a value."""

    def __init__(self, result: RunResult, output: Output) -> None:
        self.result: Final = result
        """The result as wire data, with the output as text and as JSON."""
        self._type = output

    def __repr__(self) -> str:
        return f"TypedResult({self.run_id!r}, {self.status.value})"

    @cached_property
    def output(self) -> OutputT:
        """The output, of the type that was asked for; JSON if that was a JSON Schema.

        Raises:
            AgentError: the run ended without an output; this is the error of the run.
            Rejected: the type refuses the recorded output: it has changed since the run ended, or the process
                that ended the run did not know the type. `structured_output` is the recorded JSON.
        """
        if self.result.status is not RunStatus.COMPLETED:
            raise no_value(self.result)
        value = self.result.structured_output
        if isinstance(self._type, Mapping | OutputContract):
            return cast(OutputT, value)
        try:
            return cast(OutputT, parse_output(self._type, value))
        except ValidationError as error:
            problem = f"{error.error_count()} problems"
        except Exception as error:  # noqa: BLE001 - validators are code of the application
            problem = type(error).__name__
        raise Rejected(
            f"the recorded output of the run cannot be read as {_name_of(self._type)} ({problem}): the type "
            "has changed since the run ended, or the process that ended it did not know the type; "
            "structured_output is the recorded JSON",
            kind=ErrorKind.STRUCTURED_OUTPUT_FAILURE,
            retry=RetryClass.NOT_RETRYABLE,
            causal_ids=CausalIds(run_id=self.result.run_id),
        )

    @property
    def run_id(self) -> str:
        """The run."""
        return self.result.run_id

    @property
    def session_id(self) -> str | None:
        """The session of the run."""
        return self.result.session_id

    @property
    def status(self) -> RunStatus:
        """How the run ended."""
        return self.result.status

    @property
    def structured_output(self) -> JsonValue:
        """The output as JSON."""
        return self.result.structured_output

    @property
    def error(self) -> ErrorInfo | None:
        """Why the run failed, or which budget it used up."""
        return self.result.error

    @property
    def reason(self) -> str | None:
        """Why the run was cancelled."""
        return self.result.reason

    @property
    def usage(self) -> Usage | None:
        """Tokens, calls and cost of the run."""
        return self.result.usage


def typed_result(result: RunResult, output: Output) -> TypedResult[object]:
    """Return the result of a run that must have an output.

    Raises:
        AgentError: as for `TypedResult.output`.
    """
    typed = TypedResult[object](result, output)
    _ = typed.output
    return typed


def _name_of(output: object) -> str:
    return getattr(output, "__name__", str(output))
