"""Whether a call may be made: what the policy, the tool and people say."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, replace
from inspect import isawaitable
from typing import Final, TypeVar, cast

from pydantic import JsonValue

from windlass.engine.binding import Binding
from windlass.engine.consent import plead, under_version, with_consent
from windlass.engine.points import before_call, before_request
from windlass.errors import Rejected
from windlass.policy import RulesPolicy, strongest
from windlass.ports.clock import Clock
from windlass.ports.policy import ToolPolicy
from windlass.tool_arguments import Arguments, arguments_hash, arguments_of
from windlass.tool_router import unknown_tool
from windlass.tools import SHELL_PARAMETER, Tool
from windlass_harness.loop.effects import JudgeCall
from windlass_harness.loop.events import CallJudged, CallRefused, Plea
from windlass_harness.loop.state import LoopState
from windlass_harness.policy import decide_tool_mode
from windlass_harness.policy_rules import CallFacts
from windlass_harness.shell import classify_shell_command
from windlass_protocol import (
    AllowDecision,
    ApprovalRule,
    AskDecision,
    DeferDecision,
    DenyDecision,
    InterruptDecision,
    ModifyDecision,
    PolicyDecision,
    PolicyKind,
    PolicyRef,
)

T = TypeVar("T")
_TOOL_ASKS: Final = "tool.approval"
_DECISIONS: Final = (
    AllowDecision,
    AskDecision,
    DeferDecision,
    DenyDecision,
    InterruptDecision,
    ModifyDecision,
)


@dataclass(frozen=True, slots=True)
class Judged:
    """A decision, and what the call will run with if it may."""

    event: CallJudged
    arguments: Arguments


async def judge(
    binding: Binding, state: LoopState, *, effect: JudgeCall, clock: Clock, is_attended: bool
) -> Judged | CallRefused:
    """Decide about one call."""
    tool = binding.tools.get(effect.tool_name)
    if tool is None:
        told = unknown_tool(effect.tool_name, binding.tools).error or ""
        return CallRefused(effect.call_id, "unknown_tool", told)
    try:
        arguments = arguments_of(tool, effect.input, mask=binding.redactor.text)
    except Rejected as error:
        return CallRefused(effect.call_id, "invalid_arguments", error.message)
    gate = await before_call(binding, state, effect=effect, arguments=arguments, clock=clock)
    if isinstance(gate, CallRefused):
        return gate
    decision, final, notes = gate.decision, gate.arguments, gate.notes
    if decision is None:
        decision, final = await _decide(binding, state, effect, gate.arguments, is_attended=is_attended)
    if isinstance(decision, AskDecision):
        request = await before_request(binding, state, effect=effect, decision=decision, clock=clock)
        if isinstance(request, CallRefused):
            return replace(request, notes=(*notes, *request.notes))
        decision, notes = request.decision, (*notes, *request.notes)
    if _is_exposed(binding, tool) and arguments_hash(final.json) != final.hash:
        # It would be shown and recorded otherwise than it runs.
        decision = _deny(
            "policy.changed_arguments", "Something changed the arguments while it looked at them."
        )
    plea = None
    if isinstance(decision, AskDecision):
        can_grant = _can_grant(binding, tool, arguments=final, decision=decision)
        asked = plead(
            binding,
            state.run,
            call=(tool, final),
            decision=decision,
            clock=clock,
            can_grant_session=can_grant,
        )
        decision, plea = (decision, asked) if isinstance(asked, Plea) else (asked, None)
    event = CallJudged(
        effect.call_id,
        decision,
        effect=tool.effect.value,
        mode=decide_tool_mode(tool.name, tool.mode).value,
        arguments=final.json,
        arguments_hash=final.hash,
        plea=plea,
        notes=notes,
    )
    return Judged(event, final)


def _is_exposed(binding: Binding, tool: Tool[..., object]) -> bool:
    """Whether code of the host has seen the arguments."""
    is_by_rules = isinstance(binding.policy, RulesPolicy) and isinstance(tool.approval, ApprovalRule)
    return bool(binding.hooks.points) or not is_by_rules


async def _decide(
    binding: Binding, state: LoopState, effect: JudgeCall, arguments: Arguments, *, is_attended: bool
) -> tuple[PolicyDecision, Arguments]:
    """Return what is decided about a call, and which arguments that is about."""
    tool = binding.tools[effect.tool_name]
    decision = await decide_call(binding, state, tool=tool, arguments=arguments, is_attended=is_attended)
    if effect.approved_hash is not None:
        decision = with_consent(decision, effect, arguments=arguments, version=binding.policy.version)
    if isinstance(decision, AskDecision):
        decision = under_version(decision, binding.policy.version)
    if not isinstance(decision, ModifyDecision | AskDecision) or decision.arguments is None:
        return decision, arguments
    try:
        return decision, arguments_of(tool, decision.arguments)
    except Rejected as error:
        told = f"The policy's own arguments do not fit: {error.message}"
        return _deny("policy.bad_arguments", told), arguments


async def decide_call(
    binding: Binding, state: LoopState, *, tool: Tool[..., object], arguments: Arguments, is_attended: bool
) -> PolicyDecision:
    """Return what the policy and the tool's own rule say of a call in a session."""
    is_granted = not tool.is_shell and state.is_granted(tool.name, binding.policy.version)
    return await decide_by(
        binding.policy, tool, arguments=arguments, is_granted=is_granted, is_attended=is_attended
    )


async def decide_by(
    policy: ToolPolicy, tool: Tool[..., object], *, arguments: Arguments, is_granted: bool, is_attended: bool
) -> PolicyDecision:
    """Return what the policy and the tool's own rule say of a call.

    `is_granted` says whether people have approved such calls before.
    """
    decision = await _by_policy(policy, tool, arguments, is_granted=is_granted, is_attended=is_attended)
    changed = decision.arguments if isinstance(decision, ModifyDecision | AskDecision) else None
    rule = tool.approval_for(arguments.json if changed is None else changed)
    if rule is ApprovalRule.ALWAYS or (rule is ApprovalRule.ONCE and not is_granted):
        decision = strongest(decision, _ask(tool, policy.version, changed))
    is_default = isinstance(decision, AskDecision) and decision.code in _ASKED_BY_DEFAULT
    if rule is ApprovalRule.NEVER and is_default:
        reason = "The tool's author says that it needs no consent."
        return AllowDecision(code="tool.approval_never", reason=reason, policy_refs=decision.policy_refs)
    if isinstance(decision, AskDecision) and not is_attended:
        reason = "It needs a person's consent, and nobody is there to ask."
        return DenyDecision(code="policy.unattended", reason=reason, policy_refs=decision.policy_refs)
    return decision


async def _by_policy(
    policy: ToolPolicy, tool: Tool[..., object], arguments: Arguments, *, is_granted: bool, is_attended: bool
) -> PolicyDecision:
    """Return what the policy says; whatever goes wrong with it, the answer is no.

    Rules are asked as if somebody were there: the tool may say that nobody has to be.
    """
    is_rules = isinstance(policy, RulesPolicy)
    if isinstance(policy, RulesPolicy) and is_granted:
        policy = policy.granting((tool.name,))
    try:
        facts = call_facts(tool, arguments)
        decision = cast(object, await settled(policy.before(facts, is_attended=is_attended or is_rules)))
    except Exception as error:  # noqa: BLE001 - a policy is the host's code: whatever it raises, the answer is no
        return _deny("policy.failed", f"The policy failed ({type(error).__name__}), so the call is denied.")
    if isinstance(decision, _DECISIONS):
        return decision
    return _deny("policy.failed", f"The policy gave no decision ({type(decision).__name__}).")


_ASKED_BY_DEFAULT: Final = frozenset({"policy.consent_needed", "policy.undeclared_mode"})


def call_facts(tool: Tool[..., object], arguments: Arguments) -> CallFacts:
    """Return what a policy may know of a call; a shell command is graded."""
    if not tool.is_shell:
        return CallFacts(tool.name, tool.mode, is_outbound=tool.is_outbound, arguments=arguments.json)
    verdict = classify_shell_command(str(arguments.json.get(SHELL_PARAMETER, "")))
    return CallFacts(
        tool.name,
        tool.mode,
        shell=verdict.severity,
        commands=verdict.commands,
        is_outbound=tool.is_outbound,
        arguments=arguments.json,
    )


async def settled(value: T | Awaitable[T]) -> T:
    """Return a value that may have to be waited for."""
    return cast(T, await value) if isawaitable(value) else cast(T, value)


def _ask(tool: Tool[..., object], version: str, arguments: Mapping[str, JsonValue] | None) -> AskDecision:
    refs = (PolicyRef(kind=PolicyKind.APPROVAL, id=f"tool.{tool.name}", version=version),)
    reason = "The tool's author wants a person's consent."
    given = None if arguments is None else dict(arguments)
    return AskDecision(code=_TOOL_ASKS, reason=reason, policy_refs=refs, arguments=given)


def _can_grant(
    binding: Binding, tool: Tool[..., object], *, arguments: Arguments, decision: AskDecision
) -> bool:
    """Whether the session may be granted, and it would change anything."""
    rule, policy = tool.approval_for(arguments.json), binding.policy
    if tool.is_shell or rule is ApprovalRule.ALWAYS:
        return False
    if not isinstance(policy, RulesPolicy):
        return decision.code == _TOOL_ASKS
    granted = policy.granting((tool.name,)).before(call_facts(tool, arguments), is_attended=True)
    return not isinstance(granted, AskDecision)


def _deny(code: str, reason: str) -> DenyDecision:
    return DenyDecision(
        code=code, reason=reason, policy_refs=(PolicyRef(kind=PolicyKind.HOST, id="windlass.judge"),)
    )
