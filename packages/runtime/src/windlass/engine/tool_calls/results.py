"""Results of tool calls and errors of models: bounded, with secrets masked."""

from typing import cast

from pydantic import JsonValue
from pydantic_core import to_json

from windlass.agent.policy import decides_by_rules
from windlass.engine.binding import Binding
from windlass.engine.deadline import DeadlineExceeded, await_within
from windlass.engine.model_calls.model_call import whole
from windlass.engine.tool_calls.approval import timeout_decision
from windlass.engine.writing.masking import has_mask, log_failure, mask_cut_text, mask_value
from windlass.engine.writing.writer import retry_store_call
from windlass.errors import AgentError, Rejected, is_for_us
from windlass.limits import CONTENT_BYTES_MAX, FAILED_CHARS_MAX, TOOL_OUTPUT_CHARS_MAX
from windlass.ports.clock import Clock
from windlass.ports.store import ContentStore
from windlass.tools import Tool, ToolFailed
from windlass.tools.calling import Arguments, ToolRun, failure_text, in_masking_thread, read_arguments
from windlass.tools.results import is_light, result_value
from windlass.tools.router import call_facts
from windlass_harness.loop.events import CallRefused, CallReturned, RunTool
from windlass_harness.redact import Redactor, mask_text
from windlass_harness.views.payloads import content_part
from windlass_protocol import (
    ActionStatus,
    AllowDecision,
    ErrorCode,
    ErrorInfo,
    ErrorKind,
    JsonObject,
    RetryClass,
    ToolResult,
)
from windlass_protocol.limits import ERROR_MESSAGE_CHARS_MAX

SECRET_ARGUMENTS = "secret_arguments"
BUG = "bug"
"""Error code of a provider that raised an exception outside of the port's contract."""
_NOT_KEPT = "the arguments contained a secret, which is not stored; request the call again"
_PLAIN_RESULT = frozenset({"success", "data"})
_LOOKED_THROUGH_MAX = 65_536
"""Characters of a failure that are searched for secrets; the rest is dropped."""


class CallResults:
    """Converts outcomes of tools into call results."""

    def __init__(self, content: ContentStore, *, clock: Clock, redactor: Redactor) -> None:
        self._content = content
        self._clock = clock
        self._redactor = redactor

    async def result_of(self, call_id: str, outcome: ToolRun, *, duration_ms: int) -> CallReturned:
        """Return the result of a call; secrets are masked before it is cut."""
        if not outcome.result.success:
            code = "timeout" if outcome.is_timeout else "failed"
            return failure_result(
                call_id, code, message=self._failure_message(outcome), duration_ms=duration_ms
            )
        output = output_of(outcome.result)
        if not outcome.is_large or is_light(output):
            safe_output, text, body = self._mask_output(output)
        else:
            # In a thread, so that masking a large output does not block the event loop.
            safe_output, text, body = await in_masking_thread(lambda: self._mask_output(output))
        if body is None:
            return _success(call_id, safe_output, duration_ms)
        try:
            ref = await retry_store_call(lambda: self._content.put(body), self._clock)
        except AgentError:
            # The effect has happened: record its result even if all of it cannot be stored.
            return _success(call_id, self._clip(text, "they could not be kept"), duration_ms)
        return CallReturned(
            call_id,
            ActionStatus.COMPLETED,
            self._clip(text, "all of it is in the content store"),
            content=content_part(ref),
            duration_ms=duration_ms,
        )

    def _mask_output(self, output: JsonValue) -> tuple[JsonValue, str, bytes | None]:
        """Return the masked output, its text, and its bytes if it is large."""
        text = _text(output)
        if len(text) > CONTENT_BYTES_MAX:
            return self._beginning(text), "", None
        safe_output = mask_value(self._redactor, output)
        if safe_output is not output:
            text = _text(safe_output)
        return safe_output, text, _body(safe_output, text)

    def _clip(self, text: str, where: str) -> str:
        """Return the start and end of a long masked text, with a note of what is missing."""
        half = TOOL_OUTPUT_CHARS_MAX // 2
        gap = f"[… {len(text) - 2 * half:,} characters left out; {where} …]"
        shown = f"{text[:half]}\n{gap}\n{text[-half:]}"
        self._redactor.settle(shown)
        return shown

    def _failure_message(self, outcome: ToolRun) -> str:
        """Return the message of a failure, for the model."""
        error, result = outcome.error, outcome.result
        if isinstance(error, ToolFailed) and len(error.message) >= FAILED_CHARS_MAX:
            return mask_cut_text(self._redactor, error.message[:_LOOKED_THROUGH_MAX])[:FAILED_CHARS_MAX]
        if error is not None and not isinstance(error, ToolFailed) and not outcome.is_timeout:
            return failure_text(error, self._redactor.text)
        message = str(result.error or result.message or "The call failed.")
        if len(message) > _LOOKED_THROUGH_MAX:
            return mask_cut_text(self._redactor, message[:_LOOKED_THROUGH_MAX])[:FAILED_CHARS_MAX]
        return self._redactor.text(message)[:FAILED_CHARS_MAX]

    def _beginning(self, text: str) -> str:
        """Return the beginning of an output that is too large to be masked and stored."""
        shown = mask_cut_text(self._redactor, text[:TOOL_OUTPUT_CHARS_MAX])
        left = len(text) - TOOL_OUTPUT_CHARS_MAX
        return f"{shown}\n[… {left:,} characters left out; the output is too large to be stored …]"


def _success(call_id: str, output: JsonValue, duration_ms: int) -> CallReturned:
    """Return the result of a call; secrets in the output are masked."""
    return CallReturned(call_id, ActionStatus.COMPLETED, output, duration_ms=duration_ms, masked=output)


def _body(output: JsonValue, text: str) -> bytes | None:
    """Return the bytes of an output that is too long for the model."""
    if len(text) <= TOOL_OUTPUT_CHARS_MAX:
        return None
    return to_json(output) if isinstance(output, str) else text.encode()


def _text(output: JsonValue) -> str:
    return output if isinstance(output, str) else to_json(output).decode()


def failure_result(call_id: str, code: str, *, message: str, duration_ms: int | None = None) -> CallReturned:
    """Return the result of a call that failed."""
    return CallReturned(
        call_id, ActionStatus.FAILED, None, code=code, message=whole(message), duration_ms=duration_ms
    )


async def read_recorded_arguments(tool: Tool[..., object], effect: RunTool) -> Arguments | CallReturned:
    """Return the recorded arguments of a call; records never have secrets."""
    if has_mask(effect.arguments) and not tool.is_undo:
        return failure_result(effect.call_id, SECRET_ARGUMENTS, message=_NOT_KEPT)
    try:
        return await read_arguments(tool, effect.arguments)
    except Rejected as error:
        return failure_result(effect.call_id, "invalid_arguments", message=error.message)


def refuse_lost_secret(call_id: str, arguments: JsonValue) -> CallRefused | None:
    """Refuse a call if its arguments exist only in the journal, with a masked secret."""
    return CallRefused(call_id, SECRET_ARGUMENTS, _NOT_KEPT) if has_mask(arguments) else None


def output_of(result: ToolResult) -> JsonValue:
    """Return the output of a success: its data, or every field if there are more."""
    if result.model_fields_set <= _PLAIN_RESULT:
        return result.data
    try:
        more = result.model_dump(
            mode="json", by_alias=True, exclude={"success"}, exclude_none=True, warnings=False
        )
    except ValueError:  # a value that pydantic cannot serialise
        plain = result.model_dump(by_alias=True, exclude={"success"}, exclude_none=True, warnings=False)
        more = cast(JsonObject, result_value(plain))
    return result.data if more.keys() <= {"data"} else {**more, "success": True}


async def review(
    binding: Binding, tool: Tool[..., object], *, arguments: Arguments, returned: CallReturned
) -> CallReturned:
    """Review a result with the policy before the model sees it; a failure withholds the result."""
    if returned.status is not ActionStatus.COMPLETED or decides_by_rules(binding.policy):
        # Rules apply to calls only, so every result passes.
        return returned
    try:
        answer = binding.policy.after(call_facts(tool, arguments), returned.output)
        decision = await await_within(answer, binding.policy_timeout_ms)
        if isinstance(decision, AllowDecision):
            return returned
        code, reason = decision.code, decision.reason
    except DeadlineExceeded:
        late = timeout_decision(binding.policy_timeout_ms, "the model does not get it")
        code, reason = late.code, late.reason
    except BaseException as error:  # a policy is application code: any error withholds the result
        if is_for_us(error):
            raise
        log_failure("a policy failed", error, redactor=binding.redactor)
        code, reason = "policy.failed", f"The policy failed ({type(error).__name__})."
    message = f"The call ran; its result is withheld: {reason}"
    return failure_result(returned.call_id, code, message=message, duration_ms=returned.duration_ms)


def model_error(error: BaseException, redactor: Redactor) -> ErrorInfo:
    """Return a provider failure as an error of ours; the original message may quote the prompt."""
    if isinstance(error, AgentError):
        # Mask before cutting to the limit: a mask can be longer than the secret.
        message = redactor.text(error.message)[:ERROR_MESSAGE_CHARS_MAX]
        return error.info().model_copy(update={"message": message or type(error).__name__})
    is_passing = isinstance(error, TimeoutError | ConnectionError)
    if not is_passing:
        log_failure("the model failed", error, redactor=redactor)
    kind = ErrorKind.TIMEOUT if isinstance(error, TimeoutError) else ErrorKind.PROVIDER_FAILURE
    return ErrorInfo(
        code=ErrorCode.UNAVAILABLE if is_passing else ErrorCode.REJECTED,
        kind=kind,
        retry=RetryClass.RETRYABLE if is_passing else RetryClass.NOT_RETRYABLE,
        message=mask_text(f"the model failed with {type(error).__name__}"),
        details=None if is_passing else {"fault": BUG},
    )


def broken_off(what: str) -> ErrorInfo:
    """Return the error of a model call that cancelled itself."""
    return ErrorInfo(
        code=ErrorCode.UNAVAILABLE,
        kind=ErrorKind.PROVIDER_FAILURE,
        retry=RetryClass.RETRYABLE,
        message=f"the model cancelled its {what} itself",
    )
