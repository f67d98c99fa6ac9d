"""Whether a call may be made: what the policy, the tool and people say."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, replace
from inspect import isawaitable
from typing import Final, TypeVar, cast

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from windlass.engine.binding import Binding
from windlass.engine.consent import plead, under_version, with_consent
from windlass.engine.cut import TooLate, within
from windlass.engine.failures import log_failure
from windlass.engine.points import Gate, before_call, before_request
from windlass.errors import Rejected, is_for_us
from windlass.policy import RulesPolicy, strongest
from windlass.ports.clock import Clock
from windlass.tools import SHELL_PARAMETER, Tool
from windlass.tools.calling import Arguments, arguments_hash, arguments_of
from windlass.tools.question import question_of
from windlass.tools.router import unknown_tool
from windlass_harness.loop.effects import JudgeCall
from windlass_harness.loop.events import CallAsks, CallJudged, CallRefused, Plea
from windlass_harness.loop.state import LoopState
from windlass_harness.policy import CallFacts, Taint, decide_tool_mode
from windlass_harness.shell import classify_shell_command
from windlass_protocol import (
    AllowDecision,
    ApprovalRule,
    AskDecision,
    CodecError,
    DeferDecision,
    DenyDecision,
    InterruptDecision,
    ModifyDecision,
    PolicyDecision,
    PolicyKind,
    PolicyRef,
    ToolMode,
)

T = TypeVar("T")
POLICY_TIMEOUT: Final = "policy.timeout"
"""Code of a no that was none: the policy did not decide in time."""
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
) -> Judged | CallRefused | CallAsks:
    """Decide about one call; whatever fails in that, the call is not made."""
    try:
        return await _judge(binding, state, effect=effect, clock=clock, is_attended=is_attended)
    except BaseException as error:  # code of the host is asked in many places: what it raises is a no
        if is_for_us(error):
            raise
        log_failure(f"call of {effect.tool_name} could not be judged", error, redactor=binding.redactor)
        told = f"The policy failed ({type(error).__name__}), so the call is denied."
        return CallRefused(effect.call_id, "policy.failed", told)


async def _judge(
    binding: Binding, state: LoopState, *, effect: JudgeCall, clock: Clock, is_attended: bool
) -> Judged | CallRefused | CallAsks:
    tool = binding.tools.get(effect.tool_name)
    if tool is None:
        told = unknown_tool(effect.tool_name, binding.tools).error or ""
        return CallRefused(effect.call_id, "unknown_tool", told)
    try:
        arguments = arguments_of(tool, effect.input, mask=binding.redactor.text)
    except Rejected as error:
        return CallRefused(effect.call_id, "invalid_arguments", error.message)
    if _is_exposed(binding, tool):
        # What it does to them must not get into the record of what the model wrote.
        arguments = replace(arguments, json=from_json(to_json(arguments.json)))
    gate = await before_call(binding, state, effect=effect, arguments=arguments, clock=clock)
    if isinstance(gate, CallRefused):
        return gate
    return await _weigh(binding, state, effect, gate, clock=clock, is_attended=is_attended)


async def _weigh(
    binding: Binding, state: LoopState, effect: JudgeCall, gate: Gate, *, clock: Clock, is_attended: bool
) -> Judged | CallRefused | CallAsks:
    """Ask the policy, and people if it says so."""
    tool = binding.tools[effect.tool_name]
    decision, final, notes = gate.decision, gate.arguments, gate.notes
    if decision is None:
        decision, final = await _decide(binding, state, effect, gate.arguments, is_attended=is_attended)
    if tool.is_question and not isinstance(decision, DenyDecision | DeferDecision | InterruptDecision):
        return _asks(binding, effect.call_id, replace(gate, arguments=final), is_attended=is_attended)
    if isinstance(decision, AskDecision):
        request = await before_request(binding, state, effect=effect, decision=decision, clock=clock)
        if isinstance(request, CallRefused):
            return replace(request, notes=(*notes, *request.notes))
        decision, notes = request.decision, (*notes, *request.notes)
    if _is_exposed(binding, tool) and not _is_unchanged(final):
        # It would be shown and recorded otherwise than it runs.
        decision = _deny(
            "policy.changed_arguments", "Something changed the arguments while it looked at them."
        )
    plea = None
    if isinstance(decision, AskDecision):
        can_grant = _can_grant(binding, state, tool=tool, arguments=final, decision=decision)
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


def _asks(binding: Binding, call_id: str, gate: Gate, *, is_attended: bool) -> CallAsks | CallRefused:
    """Put a question to people, if anybody is there and could answer it.

    Nobody has to consent to being asked.
    """
    if not is_attended:
        told = "Nobody is there to ask; go on without the answer, or say what you would need to know."
        return CallRefused(call_id, "unattended", told, gate.notes)
    question = question_of(gate.arguments.json)
    if question.problem is not None:
        return CallRefused(call_id, "invalid_arguments", question.problem, gate.notes)
    mask = binding.redactor.text
    return CallAsks(
        call_id,
        gate.arguments.json,
        mask(question.prompt),
        options=tuple({name: mask(str(text)) for name, text in one.items()} for one in question.options),
        allow_freeform=question.allow_freeform,
        notes=gate.notes,
    )


def _is_unchanged(arguments: Arguments) -> bool:
    try:
        return arguments_hash(arguments.json) == arguments.hash
    except CodecError:
        return False


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
    if isinstance(decision, AskDecision):
        given = arguments.json if decision.arguments is None else decision.arguments
        version = binding.version_for(tool, given)
        if effect.approved_hash is not None:
            decision = with_consent(decision, effect, arguments=arguments, version=version)
        if isinstance(decision, AskDecision):
            decision = under_version(decision, version)
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
    version = binding.version_for(tool, arguments.json)
    is_granted = not tool.is_shell and state.is_granted(tool.name, version)
    decision = await _by_policy(
        binding, state, tool, arguments, is_granted=is_granted, is_attended=is_attended
    )
    changed = decision.arguments if isinstance(decision, ModifyDecision | AskDecision) else None
    rule = tool.approval_for(arguments.json if changed is None else changed)
    if rule is ApprovalRule.ALWAYS or (rule is ApprovalRule.ONCE and not is_granted):
        decision = strongest(decision, _ask(tool, binding.policy.version, changed))
    is_default = isinstance(decision, AskDecision) and decision.code in _ASKED_BY_DEFAULT
    if rule is ApprovalRule.NEVER and is_default:
        reason = "The tool's author says that it needs no consent."
        return AllowDecision(code="tool.approval_never", reason=reason, policy_refs=decision.policy_refs)
    if isinstance(decision, AskDecision) and not is_attended:
        reason = "It needs a person's consent, and nobody is there to ask."
        return DenyDecision(code="policy.unattended", reason=reason, policy_refs=decision.policy_refs)
    return decision


async def _by_policy(
    binding: Binding,
    state: LoopState,
    tool: Tool[..., object],
    arguments: Arguments,
    *,
    is_granted: bool,
    is_attended: bool,
) -> PolicyDecision:
    """Return what the policy says; whatever goes wrong with it, the answer is no.

    Rules are asked as if somebody were there: the tool may say that nobody has to be.
    """
    policy, most_ms = binding.policy, binding.policy_timeout_ms
    is_rules = isinstance(policy, RulesPolicy)
    if isinstance(policy, RulesPolicy) and is_granted:
        policy = policy.granting((tool.name,))
    try:
        facts = call_facts(tool, arguments, taint=cast(frozenset[Taint], state.session.taint))
        answer = policy.before(facts, is_attended=is_attended or is_rules)
        decision = cast(object, await within(answer, most_ms))
    except TooLate:
        return timed_out(most_ms, "the call is denied")
    except BaseException as error:  # a policy is the host's code: whatever it raises, the answer is no
        if is_for_us(error):
            raise
        log_failure("a policy failed", error, redactor=binding.redactor)
        return _deny("policy.failed", f"The policy failed ({type(error).__name__}), so the call is denied.")
    if isinstance(decision, _DECISIONS):
        return decision
    return _deny("policy.failed", f"The policy gave no decision ({type(decision).__name__}).")


_ASKED_BY_DEFAULT: Final = frozenset({"policy.consent_needed", "policy.undeclared_mode"})


def call_facts(
    tool: Tool[..., object], arguments: Arguments, *, taint: frozenset[Taint] = frozenset()
) -> CallFacts:
    """Return what a policy may know of a call; a shell command is graded."""
    outbound, given = tool.is_outbound, arguments.json
    if not tool.is_shell:
        return CallFacts(tool.name, tool.mode, taint=taint, is_outbound=outbound, arguments=given)
    verdict = classify_shell_command(str(arguments.json.get(SHELL_PARAMETER, "")))
    return CallFacts(
        tool.name,
        tool.mode,
        shell=verdict.severity,
        commands=verdict.commands,
        taint=taint,
        is_outbound=outbound,
        arguments=given,
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
    binding: Binding,
    state: LoopState,
    *,
    tool: Tool[..., object],
    arguments: Arguments,
    decision: AskDecision,
) -> bool:
    """Whether the session may be granted, and it would change anything.

    A grant is for any arguments, so a destructive tool has one only if its author wrote approval once.
    """
    rule, policy = tool.approval_for(arguments.json), binding.policy
    is_destructive = decide_tool_mode(tool.name, tool.mode) is ToolMode.DESTRUCTIVE
    if tool.is_shell or rule is ApprovalRule.ALWAYS or (is_destructive and rule is not ApprovalRule.ONCE):
        return False
    if not isinstance(policy, RulesPolicy):
        return decision.code == _TOOL_ASKS
    facts = call_facts(tool, arguments, taint=cast(frozenset[Taint], state.session.taint))
    granted = policy.granting((tool.name,)).before(facts, is_attended=True)
    return not isinstance(granted, AskDecision)


def timed_out(most_ms: int, consequence: str) -> DenyDecision:
    """Return the no of a policy that did not decide in time."""
    return _deny(POLICY_TIMEOUT, f"The policy did not decide within {most_ms:,} ms, so {consequence}.")


def _deny(code: str, reason: str) -> DenyDecision:
    return DenyDecision(
        code=code, reason=reason, policy_refs=(PolicyRef(kind=PolicyKind.HOST, id="windlass.judge"),)
    )
