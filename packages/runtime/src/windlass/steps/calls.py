"""What each call of an answer is: to be made, asked about, handed on or refused."""

from dataclasses import dataclass

from pydantic import JsonValue

from windlass.engine.approval_text import PROMPT_CHARS_MAX, approval_prompt
from windlass.engine.judge import Policing, decide_by
from windlass.engine.masking import masked
from windlass.errors import Rejected
from windlass.steps.contract import AgentTool
from windlass.steps.harness import Harness
from windlass.steps.output import FINAL_OUTPUT
from windlass.steps.questions import APPROVAL_OPTIONS, ASK_QUESTION, question_request
from windlass.steps.run import StepRun
from windlass.tools import Tool
from windlass.tools.calling import Arguments, arguments_hash, arguments_of
from windlass.tools.router import unknown_tool
from windlass_harness.loop.events import AskedCall
from windlass_protocol import (
    AllowDecision,
    ApprovalRule,
    AskDecision,
    InputDisplay,
    InputKind,
    InputRequest,
    JsonObject,
    ModifyDecision,
    PolicyDecision,
    RemoteAgentCallAction,
    RuntimeActionRequest,
    StepPlace,
    SubagentCallAction,
    ToolCallAction,
)

EXECUTION_DENIED = "TOOL_EXECUTION_DENIED"


@dataclass(frozen=True, slots=True)
class Ready:
    """A call that is made at once."""

    call: AskedCall
    tool: Tool[..., object]
    arguments: Arguments


@dataclass(frozen=True, slots=True)
class Refused:
    """A call that is not made."""

    call: AskedCall
    code: str
    message: str
    is_denied: bool = False
    """Whether it could be made and may not."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that waits for a person: for consent, or because it is a question."""

    call: AskedCall
    request: InputRequest


@dataclass(frozen=True, slots=True)
class Delegated:
    """A call of an agent, which the runtime makes."""

    call: AskedCall
    action: RuntimeActionRequest


@dataclass(frozen=True, slots=True)
class Final:
    """The output of the agent."""

    call: AskedCall


Sorted = Ready | Refused | Asked | Delegated | Final


async def sort_call(run: StepRun, call: AskedCall) -> Sorted:
    """Say what a call of the model is; touches nothing."""
    harness = run.harness
    if call.tool_name == FINAL_OUTPUT and run.session.output_schema is not None:
        return Final(call)
    if call.tool_name == ASK_QUESTION and harness.can_ask:
        return _question(call, run.place)
    agent = harness.agents.get(call.tool_name)
    if agent is not None:
        return _delegated(call, agent)
    tool = harness.tools.get(call.tool_name)
    if tool is None:
        known = [str(one["name"]) for one in harness.definitions]
        return Refused(call, "unknown_tool", unknown_tool(call.tool_name, known).error or "")
    return await _judged(run, call, tool)


def request_id_of(place: StepPlace, call_id: str) -> str:
    """Return the name of a request: the same when the step is made again."""
    return f"{place.turn_id}.{place.step_index}.{call_id}"


def _question(call: AskedCall, place: StepPlace) -> Asked | Refused:
    try:
        request = question_request(request_id_of(place, call.call_id), call.call_id, asked=call.input)
    except Rejected as error:
        return Refused(call, "invalid_arguments", error.message)
    return Asked(call, request)


def _delegated(call: AskedCall, agent: AgentTool) -> Delegated | Refused:
    asked = call.input if isinstance(call.input, dict) else {}
    if not isinstance(asked.get("message"), str) or not isinstance(asked.get("outputSchema", {}), dict):
        told = f"the arguments of {agent.name} do not fit: expected message, a text, and maybe outputSchema"
        return Refused(call, "invalid_arguments", told)
    name = agent.subagent_name or agent.name
    if agent.is_remote:
        remote = RemoteAgentCallAction(
            call_id=call.call_id,
            name=agent.name,
            remote_agent_name=name,
            input=asked,
            description=agent.description or None,
            node_id=agent.node_id,
        )
        return Delegated(call, remote)
    local = SubagentCallAction(
        call_id=call.call_id,
        name=agent.name,
        subagent_name=name,
        input=asked,
        description=agent.description or None,
        node_id=agent.node_id,
    )
    return Delegated(call, local)


async def _judged(run: StepRun, call: AskedCall, tool: Tool[..., object]) -> Ready | Refused | Asked:
    arguments = read_arguments(run.harness, call, tool=tool)
    if isinstance(arguments, Refused):
        return arguments
    decision = await _decide(run, tool, arguments)
    changed = decision.arguments if isinstance(decision, ModifyDecision | AskDecision) else None
    if changed is not None:
        arguments = read_arguments(run.harness, AskedCall(call.call_id, tool.name, changed), tool=tool)
        if isinstance(arguments, Refused):
            told = f"the policy's own arguments do not fit: {arguments.message}"
            return Refused(call, EXECUTION_DENIED, told, is_denied=True)
    if isinstance(decision, AllowDecision | ModifyDecision):
        return Ready(call, tool, arguments)
    if isinstance(decision, AskDecision):
        return _approval(run, call, arguments, decision=decision)
    return Refused(call, EXECUTION_DENIED, decision.reason, is_denied=True)


def read_arguments(harness: Harness, call: AskedCall, *, tool: Tool[..., object]) -> Arguments | Refused:
    """Return the arguments of a call, or why it cannot be made."""
    try:
        return arguments_of(tool, call.input, mask=harness.config.redactor.text)
    except Rejected as error:
        return Refused(call, "invalid_arguments", error.message)


def _approval(
    run: StepRun, call: AskedCall, arguments: Arguments, *, decision: AskDecision
) -> Asked | Refused:
    redactor = run.harness.config.redactor
    # Masked before it is laid out: an escape inside a secret would hide it from whoever masks the event.
    shown = masked(redactor, arguments.json)
    prompt = approval_prompt(call.tool_name, shown, reason=redactor.text(decision.prompt or decision.reason))
    if prompt is None:
        told = f"it is too large to be shown to a person: over {PROMPT_CHARS_MAX:,} characters"
        return Refused(call, EXECUTION_DENIED, told, is_denied=True)
    action = ToolCallAction(call_id=call.call_id, tool_name=call.tool_name, input=arguments.json)
    request = InputRequest(
        request_id=request_id_of(run.place, call.call_id),
        action=action,
        prompt=prompt,
        display=InputDisplay.CONFIRMATION,
        options=APPROVAL_OPTIONS,
        allow_freeform=False,
        kind=InputKind.APPROVAL,
        arguments_hash=arguments.hash,
    )
    return Asked(call, request)


async def approved_call(run: StepRun, action: ToolCallAction) -> Ready | Refused:
    """Return a call that a person approved, as it is made now.

    The tools or the policy may have changed while it waited: consent does not reach further than they do.
    """
    call = AskedCall(action.call_id, action.tool_name, action.input)
    tool = run.harness.tools.get(action.tool_name)
    if tool is None:
        return Refused(call, "unknown_tool", f"there is no tool {action.tool_name} any more")
    arguments = read_arguments(run.harness, call, tool=tool)
    if isinstance(arguments, Refused):
        return arguments
    decision = await _decide(run, tool, arguments)
    if not isinstance(decision, AllowDecision | AskDecision | ModifyDecision):
        return Refused(call, EXECUTION_DENIED, decision.reason, is_denied=True)
    changed = None if isinstance(decision, AllowDecision) else decision.arguments
    if changed is not None and arguments_hash(changed) != arguments.hash:
        told = "the policy would change what a person approved; ask for the call anew"
        return Refused(call, EXECUTION_DENIED, told, is_denied=True)
    return Ready(call, tool, arguments)


async def _decide(run: StepRun, tool: Tool[..., object], arguments: Arguments) -> PolicyDecision:
    key = grant_key(run.harness, tool, arguments=arguments.json)
    return await decide_by(
        Policing(run.harness.policy),
        tool,
        arguments=arguments,
        is_granted=key is not None and key in (run.state.approved_tools or ()),
        is_attended=run.harness.can_ask,
    )


def grant_key(harness: Harness, tool: Tool[..., object], *, arguments: JsonObject) -> str | None:
    """Return the key under which an approval is remembered; None if it is not.

    Only tools with approval once remember. A shell tool needs a key of its own: its name says nothing of
    what it does. A key that cannot be made remembers nothing.
    """
    if tool.approval_for(arguments) is not ApprovalRule.ONCE:
        return None
    keyed = harness.keyed.get(tool.name)
    if keyed is None:
        return None if tool.is_shell else tool.name
    try:
        return f"{tool.name}:{keyed.approval_key(arguments)}"
    except Exception:  # noqa: BLE001 - the author's code: without a key a person is asked
        return None


def action_of(item: Ready | Refused | Delegated) -> RuntimeActionRequest:
    """Return a call as events name it."""
    if isinstance(item, Delegated):
        return item.action
    given: JsonValue = item.call.input
    return ToolCallAction(call_id=item.call.call_id, tool_name=item.call.tool_name, input=given)
