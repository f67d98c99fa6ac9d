"""Approval: decides by policy, tool rule and human consent whether a call may run."""

import logging
import unicodedata
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from datetime import timedelta
from inspect import isawaitable
from typing import Final, TypeVar, cast
from weakref import WeakSet

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from windlass.agent.policy import RulesPolicy, decides_by_rules, strongest
from windlass.engine.binding import Binding
from windlass.engine.clocks import stamp
from windlass.engine.deadline import DeadlineExceeded, await_within
from windlass.engine.hook_points import HookGate, before_call, before_request
from windlass.engine.writing.masking import log_failure, mask_value
from windlass.engine.writing.writer import log_ids
from windlass.errors import Rejected, is_for_us
from windlass.limits import WAIT_MS_MAX
from windlass.ports.clock import Clock
from windlass.tools import Tool
from windlass.tools.calling import Arguments, arguments_hash, arguments_of, read_arguments
from windlass.tools.question import question_of
from windlass.tools.router import ASKED_BY_DEFAULT, call_facts, unknown_tool
from windlass_harness.loop.events import ApprovalRequest, CallAsks, CallJudged, CallRefused, JudgeCall
from windlass_harness.loop.notes import CONSENTED
from windlass_harness.loop.people import APPROVE, APPROVE_SESSION
from windlass_harness.loop.state import LoopState
from windlass_harness.policy import Taint, decide_tool_mode
from windlass_harness.views.runs import RunState
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
    canonical,
)
from windlass_protocol.bodies import Body
from windlass_protocol.frozen import frozen

_LOG: Final = logging.getLogger(__name__)
_RUNS: Final = logging.getLogger("windlass.runs")
_WARNED: Final = WeakSet[Tool[..., object]]()
"""Tools whose denied calls are in the log."""
PROMPT_CHARS_MAX: Final = 100_000
"""Longer prompts are refused: a person must see the complete call before they approve it."""
SPACES_MAX: Final = 8
"""A longer run of spaces is shown as its count; otherwise it could push the rest off the screen."""
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_BLANK: Final = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\u034f")
"""Characters that render as nothing."""
_INDENT: Final = "  "


def approval_prompt(tool_name: str, arguments: JsonValue, *, reason: str) -> str | None:
    """Return the text of an approval request; None if it is too long to be read.

    The arguments are rendered from their canonical JSON, each value on a line of its own, so that no text can
    change the order or the look of another one. Characters that cannot be seen, or that change the order of
    others, are written as escapes.
    """
    try:
        text = canonical(arguments).decode()
    except CodecError:
        # The arguments were within the limit before masking; a mask can be longer than the secret.
        return None
    if len(text) > PROMPT_CHARS_MAX:
        return None
    prompt = f"Run {plain(tool_name)}? {plain(reason)}\n{_indent_json(text)}"
    return None if len(prompt) > PROMPT_CHARS_MAX else prompt


def plain(text: str) -> str:
    """Return the text with every invisible or reordering character escaped."""
    shown: list[str] = []
    blanks = 0
    for character in text:
        if character == " ":
            blanks += 1
            continue
        shown.append(_blanks(blanks))
        blanks = 0
        shown.append(_escape(character) if _is_hidden(character) else character)
    shown.append(_blanks(blanks))
    return "".join(shown)


def _is_hidden(character: str) -> bool:
    return (
        unicodedata.category(character) in _HIDDEN
        or character.isspace()
        or character in _BLANK
        or _is_variant(ord(character))
    )


def _is_variant(code: int) -> bool:
    """Whether it is an invisible variation selector of the preceding character."""
    return 0xFE00 <= code <= 0xFE0F or 0x180B <= code <= 0x180F or 0xE0100 <= code <= 0xE01EF


def _blanks(count: int) -> str:
    # JSON has no backslash before a bracket, so this cannot be part of an argument.
    return " " * count if count <= SPACES_MAX else f"\\[{count:,} spaces]"


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _indent_json(text: str) -> str:
    """Return canonical JSON with one value per line; only whitespace is added."""
    parts: list[str] = []
    level, at = 0, 0
    while at < len(text):
        character = text[at]
        if character == '"':
            end = _end_of_string(text, at)
            parts.append(plain(text[at:end]))
            at = end
            continue
        at += 1
        if character in "[{" and text[at] not in "]}":
            level += 1
            parts.append(f"{character}\n{_INDENT * level}")
        elif character in "]}" and text[at - 2] not in "[{":
            level -= 1
            parts.append(f"\n{_INDENT * level}{character}")
        elif character == ",":
            parts.append(f",\n{_INDENT * level}")
        else:
            parts.append(": " if character == ":" else character)
    return "".join(parts)


def _end_of_string(text: str, start: int) -> int:
    at = start + 1
    while text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at + 1


def with_consent(
    decision: PolicyDecision, effect: JudgeCall, *, arguments: Arguments, version: str
) -> PolicyDecision:
    """Turn ask into allow if a person consented to this call.

    Consent is valid only for the same call, the same arguments and the same policy version.
    """
    if not isinstance(decision, AskDecision):
        return decision
    if arguments.hash != effect.approved_hash or effect.approved_policy != version:
        return decision
    # The version comes first: an interrupted call is judged again, and its consent is bound to the version.
    refs = (PolicyRef(kind=PolicyKind.APPROVAL, id=CONSENTED, version=version), *decision.policy_refs)
    return AllowDecision(code=CONSENTED, reason="A person approved this call.", policy_refs=refs)


def under_version(decision: AskDecision, version: str) -> AskDecision:
    """Set the policy version that consent is bound to; a policy of the application cannot set it."""
    first = next((ref.version for ref in decision.policy_refs if ref.version is not None), None)
    if first == version:
        return decision
    ref = PolicyRef(kind=PolicyKind.APPROVAL, id="windlass.judge", version=version)
    return decision.model_copy(update={"policy_refs": (ref, *decision.policy_refs)})


def request_approval(
    binding: Binding,
    run: RunState | None,
    *,
    tool: Tool[..., object],
    arguments: Arguments,
    decision: AskDecision,
    clock: Clock,
    can_grant_session: bool,
) -> ApprovalRequest | DenyDecision:
    """Build the approval request; deny if no responder is eligible or the prompt is too long."""
    responders = responders_of(binding, run)
    if isinstance(responders, str):
        return _deny_asked("policy.four_eyes", responders, decision)
    # Mask before rendering: an escape inside a secret would hide it from the redactor of the record.
    shown = mask_value(binding.redactor, arguments.json)
    prompt = approval_prompt(
        tool.name, shown, reason=binding.redactor.text(decision.prompt or decision.reason)
    )
    if prompt is None:
        reason = (
            f"The call is too large to be shown to a person: over {PROMPT_CHARS_MAX:,} characters. "
            "Make several smaller calls."
        )
        return _deny_asked("policy.too_large_to_show", reason, decision)
    lifetime_ms = decision.expires_in_ms or binding.approval_expires_ms
    expires_at = None
    if lifetime_ms is not None:
        expires_at = stamp(clock.now() + timedelta(milliseconds=min(lifetime_ms, WAIT_MS_MAX)))
    return ApprovalRequest(
        prompt,
        expires_at=expires_at,
        responders=responders,
        can_grant_session=can_grant_session,
        is_keyed=tool.approval_key is not None,
        is_exact=tool.is_shell,
    )


def responders_of(binding: Binding, run: RunState | None) -> tuple[str, ...] | str | None:
    """Return the allowed responders, None for any; or the reason why there are none."""
    if not binding.four_eyes:
        return binding.responders
    # Everyone who sent a message to the run counts as a requester, not only the one who started it.
    askers: list[str | None] = [None if run is None or run.source is None else run.source.id]
    if run is not None:
        askers += run.speakers
    named_askers = [name for name in askers if name is not None]
    if len(named_askers) < len(askers):
        return "The call needs the approval of a second person, and the run does not name its requester."
    others = tuple(
        name for name in binding.responders or () if not any(_is_same(name, asker) for asker in named_askers)
    )
    return others or "The call needs the approval of a second person, and no other responder is configured."


def deciders_of(binding: Binding, run: RunState) -> tuple[str, ...] | None:
    """Return who may decide about an interrupted call; None for anyone."""
    responders = responders_of(binding, run)
    # Four eyes applies to consent only: an interrupted call still needs a decision.
    return binding.responders if isinstance(responders, str) else responders


def _is_same(name: str, other: str) -> bool:
    """Whether two names may refer to the same person."""
    return _fold_name(name) == _fold_name(other)


def _fold_name(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold().strip()


def _deny_asked(code: str, reason: str, decision: AskDecision) -> DenyDecision:
    return DenyDecision(code=code, reason=reason, policy_refs=decision.policy_refs)


T = TypeVar("T")
POLICY_TIMEOUT: Final = "policy.timeout"
"""Code of a denial because the policy timed out."""
_TOOL_ASKS: Final = "tool.approval"
_DECISIONS: Final = (
    AllowDecision,
    AskDecision,
    DeferDecision,
    DenyDecision,
    InterruptDecision,
    ModifyDecision,
)


@frozen
class Judged:
    """A policy decision, and the arguments that the call will run with."""

    event: CallJudged
    arguments: Arguments


async def judge(
    binding: Binding, state: LoopState, *, effect: JudgeCall, clock: Clock, is_attended: bool
) -> Judged | CallRefused | CallAsks:
    """Decide about one call; any error denies it."""
    try:
        return await _judge(binding, state, effect=effect, clock=clock, is_attended=is_attended)
    except BaseException as error:  # application code runs here: any error denies the call
        if is_for_us(error):
            raise
        log_failure(f"judging a call of {effect.tool_name} failed", error, redactor=binding.redactor)
        message = f"The policy failed ({type(error).__name__}), so the call is denied."
        return CallRefused(effect.call_id, "policy.failed", message)


def judge_allowed(
    binding: Binding,
    decision: AllowDecision,
    *,
    call_id: str,
    tool_name: str,
    recorded: JsonValue,
    canonical_json: bytes | None,
) -> Judged | CallRefused:
    """Judge a call of a tool that the rules allow with any arguments; see `settled_by_rules`."""
    tool = binding.tools[tool_name]
    try:
        arguments = arguments_of(tool, recorded, mask=binding.redactor.text, canonical_json=canonical_json)
    except Rejected as error:
        return CallRefused(call_id, "invalid_arguments", error.message)
    return Judged(_judgement(call_id, tool, decision, arguments), arguments)


def settled_by_rules(binding: Binding, effect: JudgeCall, judged: object) -> AllowDecision | None:
    """Return the decision if the rules allow the tool regardless of arguments; None otherwise."""
    decision = judged.event.decision if isinstance(judged, Judged) else None
    tool, policy = binding.tools.get(effect.tool_name), binding.policy
    if not isinstance(decision, AllowDecision) or tool is None or effect.approved_hash is not None:
        return None
    is_by_rules = isinstance(policy, RulesPolicy) and decides_by_rules(policy) and not policy.reads_arguments
    is_special = tool.is_shell or tool.is_question or tool.delegates is not None or tool.program is not None
    is_special = is_special or tool.is_background
    is_plain = isinstance(tool.approval, ApprovalRule) and not is_special
    return decision if is_by_rules and is_plain and not binding.hooks.points else None


def _log_lost(run: RunState, tool_name: str) -> None:
    """Log that an approved call was not made, for operators who do not read the run."""
    template = "run %s: an approved call was not made: agent %s has no tool %s any more"
    fields = {**log_ids(run), "code": "unknown_tool"}
    _RUNS.warning(template, run.run_id, run.agent_id, tool_name, extra={"windlass": fields})


async def _judge(
    binding: Binding, state: LoopState, *, effect: JudgeCall, clock: Clock, is_attended: bool
) -> Judged | CallRefused | CallAsks:
    tool = binding.tools.get(effect.tool_name)
    is_undo_run = state.run is not None and state.run.undo is not None
    if tool is None or (tool.is_undo and not (is_undo_run or effect.is_inner)):
        callable_tools = {
            name: candidate for name, candidate in binding.tools.items() if not candidate.is_undo
        }
        message = unknown_tool(effect.tool_name, callable_tools).error or ""
        if effect.approved_hash is not None and state.run is not None:
            _log_lost(state.run, effect.tool_name)
        return CallRefused(effect.call_id, "unknown_tool", message)
    is_job = state.run is not None and state.run.job is not None
    if not (effect.is_inner or tool.is_undo or is_job or binding.is_direct(tool.name)):
        message = f"{tool.name} is a function of programs: call it in the code of run_code"
        return CallRefused(effect.call_id, "unknown_tool", message)
    try:
        arguments = await read_arguments(tool, effect.input, mask=binding.redactor.text)
    except Rejected as error:
        return CallRefused(effect.call_id, "invalid_arguments", error.message)
    if effect.is_changed and effect.approved_hash is not None:
        # The person who changed the arguments approved the changed ones.
        effect = replace(effect, approved_hash=arguments.hash)
    if tool.delegates is None and begins_job(tool, state, effect.call_id):
        return Judged(_judgement(effect.call_id, tool, _JOB_BEGINS, arguments), arguments)
    if _is_exposed(binding, tool):
        # The policy gets a copy: a change to it must not reach the record of the model's arguments.
        arguments = replace(arguments, json=from_json(to_json(arguments.json)))
    gate = await before_call(binding, state, effect=effect, arguments=arguments, clock=clock)
    if isinstance(gate, CallRefused):
        return gate
    return await _weigh(binding, state, effect, gate, clock=clock, is_attended=is_attended)


_JOB_BEGINS: Final = AllowDecision(
    code="job.begins",
    reason="The call begins a job, which makes it; it is decided about there.",
    policy_refs=(PolicyRef(kind=PolicyKind.HOST, id="windlass.jobs"),),
)


def begins_job(tool: Tool[..., object], state: LoopState, call_id: str) -> bool:
    """Whether a call is answered with a job: not that of the job itself, and none of a workflow."""
    call, run = state.call(call_id), state.run
    if not tool.is_background or run is None or run.job is not None:
        return False
    program = None if call is None or call.parent_id is None else state.note(call.parent_id).program
    return program is None or not program.is_of_application


async def _weigh(
    binding: Binding, state: LoopState, effect: JudgeCall, gate: HookGate, *, clock: Clock, is_attended: bool
) -> Judged | CallRefused | CallAsks:
    """Ask the policy, and request approval if it says so."""
    tool = binding.tools[effect.tool_name]
    decision, final, notes = gate.decision, gate.arguments, gate.notes
    if decision is None:
        decision, final = await _decide(binding, state, effect, gate.arguments, is_attended=is_attended)
    if tool.is_question and not isinstance(decision, DenyDecision | DeferDecision | InterruptDecision):
        return _asks(
            binding, state.run, effect.call_id, replace(gate, arguments=final), is_attended=is_attended
        )
    if isinstance(decision, AskDecision):
        request = await before_request(binding, state, effect=effect, decision=decision, clock=clock)
        if isinstance(request, CallRefused):
            return replace(request, notes=(*notes, *request.notes))
        decision, notes = request.decision, (*notes, *request.notes)
    if _is_exposed(binding, tool) and not _is_unchanged(final):
        # The call would be shown and recorded with other arguments than it runs with.
        decision = _deny(
            "policy.changed_arguments", "The arguments were changed while hooks or the policy read them."
        )
    approval_request = None
    if isinstance(decision, AskDecision):
        can_grant = _can_grant(binding, state, tool=tool, arguments=final, decision=decision)
        proposal = request_approval(
            binding,
            state.run,
            tool=tool,
            arguments=final,
            decision=decision,
            clock=clock,
            can_grant_session=can_grant,
        )
        if isinstance(proposal, ApprovalRequest):
            approval_request = proposal
        else:
            decision = proposal
    return Judged(
        _judgement(effect.call_id, tool, decision, final, approval_request=approval_request, notes=notes),
        final,
    )


def _judgement(
    call_id: str,
    tool: Tool[..., object],
    decision: PolicyDecision,
    arguments: Arguments,
    *,
    approval_request: ApprovalRequest | None = None,
    notes: tuple[Body, ...] = (),
) -> CallJudged:
    return CallJudged(
        call_id,
        decision,
        effect=tool.effect,
        mode=decide_tool_mode(tool.name, tool.mode),
        arguments=arguments.json,
        arguments_hash=arguments.hash,
        approval_request=approval_request,
        undo=None if tool.undo is None or decision is _JOB_BEGINS else tool.undo.name,
        notes=notes,
    )


def _asks(
    binding: Binding, run: RunState | None, call_id: str, gate: HookGate, *, is_attended: bool
) -> CallAsks | CallRefused:
    """Ask a person a question of the model, if someone can answer.

    Questions need no approval. A question with an option that approves, such as that of a remote agent, is
    answered by those who may approve.
    """
    if not is_attended:
        message = "No person can be asked; continue without the answer, or say what you need to know."
        return CallRefused(call_id, "unattended", message, gate.notes)
    question = question_of(gate.arguments.json)
    if question.problem is not None:
        return CallRefused(call_id, "invalid_arguments", question.problem, gate.notes)
    is_consent = any(option.get("id") in (APPROVE, APPROVE_SESSION) for option in question.options)
    responders = responders_of(binding, run) if is_consent else None
    if isinstance(responders, str):
        return CallRefused(call_id, "policy.four_eyes", responders, gate.notes)
    mask = binding.redactor.text
    return CallAsks(
        call_id,
        gate.arguments.json,
        mask(question.prompt),
        options=tuple(
            {name: mask(str(text)) for name, text in option.items()} for option in question.options
        ),
        allow_freeform=question.allow_freeform,
        responders=responders,
        notes=gate.notes,
    )


def _is_unchanged(arguments: Arguments) -> bool:
    try:
        return arguments_hash(arguments.json) == arguments.hash
    except CodecError:
        return False


def _is_exposed(binding: Binding, tool: Tool[..., object]) -> bool:
    """Whether application code received the arguments and may have changed them."""
    # Hooks get copies of them.
    return not (decides_by_rules(binding.policy) and isinstance(tool.approval, ApprovalRule))


async def _decide(
    binding: Binding, state: LoopState, effect: JudgeCall, arguments: Arguments, *, is_attended: bool
) -> tuple[PolicyDecision, Arguments]:
    """Return the decision about a call, and the arguments that it applies to."""
    tool = binding.tools[effect.tool_name]
    decision = await decide_call(binding, state, tool=tool, arguments=arguments, is_attended=is_attended)
    if isinstance(decision, AskDecision):
        proposed = arguments.json if decision.arguments is None else decision.arguments
        version = binding.version_for(tool, proposed)
        if effect.approved_hash is not None:
            decision = with_consent(decision, effect, arguments=arguments, version=version)
        if isinstance(decision, AskDecision):
            decision = under_version(decision, version)
    if not isinstance(decision, ModifyDecision | AskDecision) or decision.arguments is None:
        return decision, arguments
    try:
        return decision, await read_arguments(tool, decision.arguments)
    except Rejected as error:
        message = f"The arguments changed by the policy are invalid: {error.message}"
        return _deny("policy.bad_arguments", message), arguments


async def decide_call(
    binding: Binding, state: LoopState, *, tool: Tool[..., object], arguments: Arguments, is_attended: bool
) -> PolicyDecision:
    """Return the decision of the policy and of the tool's own approval rule."""
    version = binding.version_for(tool, arguments.json)
    is_granted = state.is_granted(tool.name, version)
    decision = await _by_policy(
        binding, state, tool, arguments, is_granted=is_granted, is_attended=is_attended
    )
    changed = decision.arguments if isinstance(decision, ModifyDecision | AskDecision) else None
    rule = tool.approval_for(arguments.json if changed is None else changed)
    if rule is ApprovalRule.ALWAYS or (rule is ApprovalRule.ONCE and not is_granted):
        decision = strongest(decision, _ask(tool, binding.policy.version, changed))
    is_default = isinstance(decision, AskDecision) and decision.code in ASKED_BY_DEFAULT
    if rule is ApprovalRule.NEVER and is_default:
        reason = "The tool requires no approval."
        return AllowDecision(code="tool.approval_never", reason=reason, policy_refs=decision.policy_refs)
    if isinstance(decision, AskDecision) and not is_attended:
        _warn_unattended(tool)
        reason = "The call needs approval, and no person can be asked in this run."
        return DenyDecision(code="policy.unattended", reason=reason, policy_refs=decision.policy_refs)
    return decision


def _warn_unattended(tool: Tool[..., object]) -> None:
    """Log once for each tool that its calls are denied."""
    if tool in _WARNED:
        return
    _WARNED.add(tool)
    hint = 'it declares no mode, so write one, such as @tool(mode="read"), or ' if tool.mode is None else ""
    _LOG.warning(
        "calls of %s are denied: they need approval, and no person can be asked; %sopen an AgentRuntime and "
        "answer handle.requests()",
        tool.name,
        hint,
    )


async def _by_policy(
    binding: Binding,
    state: LoopState,
    tool: Tool[..., object],
    arguments: Arguments,
    *,
    is_granted: bool,
    is_attended: bool,
) -> PolicyDecision:
    """Return the decision of the policy; any failure denies the call.

    Rules are evaluated as if a person could be asked: the tool's own rule may need no approval.
    """
    policy, most_ms = binding.policy, binding.policy_timeout_ms
    is_rules = isinstance(policy, RulesPolicy)
    if isinstance(policy, RulesPolicy) and is_granted:
        policy = policy.granting((tool.name,))
    try:
        facts = call_facts(tool, arguments, taint=cast(frozenset[Taint], state.session.taint))
        answer = policy.before(facts, is_attended=is_attended or is_rules)
        decision = cast(object, await await_within(answer, most_ms))
    except DeadlineExceeded:
        return timeout_decision(most_ms, "the call is denied")
    except BaseException as error:  # a policy is application code: any error denies the call
        if is_for_us(error):
            raise
        log_failure("a policy failed", error, redactor=binding.redactor)
        return _deny("policy.failed", f"The policy failed ({type(error).__name__}), so the call is denied.")
    if isinstance(decision, _DECISIONS):
        return decision
    return _deny("policy.failed", f"The policy gave no decision ({type(decision).__name__}).")


async def maybe_await(value: T | Awaitable[T]) -> T:
    """Return the value; await it first if it is awaitable."""
    return cast(T, await value) if isawaitable(value) else cast(T, value)


def _ask(tool: Tool[..., object], version: str, arguments: Mapping[str, JsonValue] | None) -> AskDecision:
    refs = (PolicyRef(kind=PolicyKind.APPROVAL, id=f"tool.{tool.name}", version=version),)
    reason = "The tool requires approval."
    arguments_copy = None if arguments is None else dict(arguments)
    return AskDecision(code=_TOOL_ASKS, reason=reason, policy_refs=refs, arguments=arguments_copy)


def _can_grant(
    binding: Binding,
    state: LoopState,
    *,
    tool: Tool[..., object],
    arguments: Arguments,
    decision: AskDecision,
) -> bool:
    """Whether the request may offer approval for the whole session.

    Such a grant covers any arguments, so a destructive tool offers it only under `ApprovalRule.ONCE`. For a
    shell tool it covers the exact command alone, and is not offered for a dangerous one.
    """
    rule, policy = tool.approval_for(arguments.json), binding.policy
    is_destructive = decide_tool_mode(tool.name, tool.mode) is ToolMode.DESTRUCTIVE
    if rule is ApprovalRule.ALWAYS or (is_destructive and rule is not ApprovalRule.ONCE):
        return False
    if not isinstance(policy, RulesPolicy):
        return decision.code == _TOOL_ASKS
    facts = call_facts(tool, arguments, taint=cast(frozenset[Taint], state.session.taint))
    granted = policy.granting((tool.name,)).before(facts, is_attended=True)
    return not isinstance(granted, AskDecision)


def timeout_decision(most_ms: int, consequence: str) -> DenyDecision:
    """Return the denial of a policy that timed out."""
    return _deny(POLICY_TIMEOUT, f"The policy did not decide within {most_ms:,} ms, so {consequence}.")


def _deny(code: str, reason: str) -> DenyDecision:
    return DenyDecision(
        code=code, reason=reason, policy_refs=(PolicyRef(kind=PolicyKind.HOST, id="windlass.judge"),)
    )
