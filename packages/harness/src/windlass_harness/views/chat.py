"""The conversation as chat clients show it, folded from records.

There is one message for each message of a person, one for each step of the model with its text and calls, and
one for each result. Ids never change: a retried answer replaces the text in its message. Context texts,
reasoning and compactions are not part of the conversation.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Final

from windlass_harness.record import Record
from windlass_harness.views.fold import START, Handlers, Position, fold
from windlass_harness.views.payloads import (
    CORRECTION,
    JOB,
    SKIPPED,
    Action,
    action_of_intent,
    as_text,
    question_outcome,
    tool_call,
    tool_output,
    tool_result,
)
from windlass_harness.views.runs import RUN_END_BODIES, RunEnd, run_id_of
from windlass_protocol import (
    ChatMessage,
    ChatRole,
    InputRequest,
    RecoveryChoice,
    ToolOutput,
    ToolOutputType,
)
from windlass_protocol.frozen import sealed
from windlass_protocol.generated import records


@sealed
class ChatStep:
    """The newest step. `at` is the index of its message, None while it has none."""

    turn_id: str
    step_index: int
    at: int | None = None
    is_tried_again: bool = False
    is_id_free: bool = True
    """Whether no message has the id of the step yet."""
    has_begun: bool = False
    """Whether a call of its message was started: then the message is not replaced."""


@sealed
class ChatState:
    """The messages so far, and the parts that may still change or be answered."""

    position: Position = START
    messages: tuple[ChatMessage, ...] = ()
    step: ChatStep | None = None
    open_calls: Mapping[str, str] = field(default_factory=dict[str, str])
    """Calls without a result, each with the id of the message that requested it."""
    requests: Mapping[str, InputRequest] = field(default_factory=dict[str, InputRequest])
    run_id: str | None = None


def fold_chat(entries: Iterable[Record], state: ChatState | None = None) -> ChatState:
    """Fold records of a session into the messages of a chat.

    Raises:
        Gap: a record is not the next one of the session.
    """
    return fold(_Draft(state or ChatState()), entries)


def step_message_id(session_id: str, *, turn_id: str, step_index: int) -> str:
    """Return the id of the message with the model's answer of a step."""
    return f"{session_id}/{turn_id}/{step_index}"


_ON: Final = Handlers["_Draft", Record, [], None]()


class _Draft:
    def __init__(self, state: ChatState) -> None:
        self.position = state.position
        self._messages = list(state.messages)
        self._step = state.step
        self._open_calls = dict(state.open_calls)
        self._requests = dict(state.requests)
        self._run_id = state.run_id

    def freeze(self) -> ChatState:
        return ChatState(
            self.position, tuple(self._messages), self._step, self._open_calls, self._requests, self._run_id
        )

    def apply(self, record: Record) -> None:
        handle = _ON.by_type.get(record.type)
        if handle is not None:
            handle(self, record, record.body)

    @_ON.on(records.MessageReceived)
    def message_received(self, record: Record, body: records.MessageReceived) -> None:
        if body.delivery in (CORRECTION, JOB):
            return
        self._messages.append(
            ChatMessage(
                id=body.message_id or f"{record.session_id}/{record.seq}",
                role=ChatRole.USER,
                content=body.message,
                created_at=record.at,
            )
        )

    @_ON.on(records.StepStarted)
    def step_started(self, record: Record, body: records.StepStarted) -> None:
        step = self._step
        if step is None or (step.turn_id, step.step_index) != (body.turn_id, body.step_index):
            self._step = ChatStep(body.turn_id, body.step_index)
        elif step.at == len(self._messages) - 1 and not step.has_begun:
            self._step = replace(step, is_tried_again=True)
        elif step.at is not None:
            # Another message or a started call follows it: it stays, and the new attempt gets its own
            # message.
            self._step = replace(step, at=None, is_id_free=False, has_begun=False)

    @_ON.on(records.MessageCompleted)
    def message_completed(self, record: Record, body: records.MessageCompleted) -> None:
        if body.message:
            at = self._message_of(record, body.turn_id, body.step_index, body.message_id)
            before = self._messages[at]
            content = f"{before.content}\n\n{body.message}" if before.content else body.message
            self._change(record, at, content=content)

    @_ON.on(records.ActionsRequested)
    def actions_requested(self, record: Record, body: records.ActionsRequested) -> None:
        self._add_calls(record, body.turn_id, body.step_index, body.actions, parent_id=body.parent_call_id)

    @_ON.on(records.ActionStarted)
    def action_started(self, record: Record, body: records.ActionStarted) -> None:
        asked_in, step = self._open_calls.get(body.call_id), self._step
        # The calls of a message that is about to be replaced are not marked.
        is_going = step is not None and step.is_tried_again and asked_in == self._step_message()
        if asked_in is None or is_going:
            self._add_calls(
                record, body.turn_id, body.step_index, [action_of_intent(body)], parent_id=body.parent_call_id
            )
        if self._step is not None and self._open_calls[body.call_id] == self._step_message():
            self._step = replace(self._step, has_begun=True)

    def _step_message(self) -> str | None:
        """Return the id of the message of the newest step."""
        at = None if self._step is None else self._step.at
        return None if at is None else self._messages[at].id

    @_ON.on(records.ActionResult)
    def action_result(self, record: Record, body: records.ActionResult) -> None:
        self._add_result(record, body.result.call_id, tool_output(body))

    @_ON.on(records.RecoveryEffectSettled)
    def effect_settled(self, record: Record, body: records.RecoveryEffectSettled) -> None:
        if body.choice is RecoveryChoice.SKIP:
            self._add_result(record, body.call_id, SKIPPED)

    @_ON.on(records.InputRequested)
    def input_requested(self, record: Record, body: records.InputRequested) -> None:
        self._requests |= {request.request_id: request for request in body.requests}
        if body.child_session_id is None:
            actions = [
                request.action for request in body.requests if request.action.call_id not in self._open_calls
            ]
            self._add_calls(record, body.turn_id, body.step_index, actions)

    @_ON.on(records.InputResolved)
    def input_resolved(self, record: Record, body: records.InputResolved) -> None:
        for resolution in body.resolutions:
            request = self._requests.pop(resolution.request_id, None)
            answer = None if request is None else question_outcome(request, resolution)
            # A request of a subagent is about its own calls, even if their ids are equal.
            if request is not None and answer is not None and body.child_session_id is None:
                self._add_result(record, request.action.call_id, answer)

    @_ON.on(records.RunStarted)
    def run_started(self, record: Record, body: records.RunStarted) -> None:
        self._run_id = run_id_of(record)

    @_ON.on(*RUN_END_BODIES)
    def run_ended(self, record: Record, body: RunEnd) -> None:
        """Drop the open requests; a result that comes later still counts."""
        if self._run_id in (None, run_id_of(record)):
            self._requests.clear()

    def _message_of(
        self, record: Record, turn_id: str, step_index: int, message_id: str | None = None
    ) -> int:
        """Return the index of the step's message; create it, or empty it for a new attempt."""
        step = self._step
        if step is None or (step.turn_id, step.step_index) != (turn_id, step_index):
            step = ChatStep(turn_id, step_index, is_id_free=False)
        at = step.at
        if at is None:
            at = len(self._messages)
            name = message_id or step_message_id(record.session_id, turn_id=turn_id, step_index=step_index)
            self._messages.append(
                ChatMessage(
                    id=name if step.is_id_free else f"{name}/{record.seq}",
                    role=ChatRole.ASSISTANT,
                    content="",
                    created_at=record.at,
                    agent_id=record.agent_id,
                )
            )
        elif step.is_tried_again:
            for call in self._messages[at].tool_calls or ():
                self._open_calls.pop(call.id, None)
            self._change(record, at, content="", tool_calls=None)
        self._step = replace(step, at=at, is_tried_again=False)
        return at

    def _add_calls(
        self,
        record: Record,
        turn_id: str,
        step_index: int,
        actions: Iterable[Action],
        *,
        parent_id: str | None = None,
    ) -> None:
        calls = tuple(tool_call(action, parent_id) for action in actions)
        if calls:
            at = self._message_of(record, turn_id, step_index)
            message = self._messages[at]
            self._change(record, at, tool_calls=(*(message.tool_calls or ()), *calls))
            self._open_calls |= {call.id: message.id for call in calls}

    def _add_result(self, record: Record, call_id: str, output: ToolOutput) -> None:
        asked_in = self._open_calls.pop(call_id, None)
        if asked_in is None:
            return
        denied = output.type is ToolOutputType.EXECUTION_DENIED
        self._messages.append(
            ChatMessage(
                id=f"{asked_in}/{call_id}",
                role=ChatRole.TOOL,
                content=output.reason or "" if denied else as_text(output.value),
                created_at=record.at,
                agent_id=record.agent_id,
                tool_result=tool_result(call_id, output),
            )
        )

    def _change(self, record: Record, at: int, **changes: object) -> None:
        message = self._messages[at]
        if record.at != message.created_at:
            changes["updated_at"] = record.at
        self._messages[at] = message.model_copy(update=changes)
