"""What a person is asked, who may answer, and what the answer is worth."""

import unicodedata
from datetime import timedelta

from windlass.engine.approval_text import PROMPT_CHARS_MAX, approval_prompt
from windlass.engine.binding import Binding
from windlass.engine.masking import masked
from windlass.engine.moments import stamp
from windlass.limits import WAIT_MS_MAX
from windlass.ports.clock import Clock
from windlass.tools import Tool
from windlass.tools.calling import Arguments
from windlass_harness.loop.effects import JudgeCall
from windlass_harness.loop.events import Plea
from windlass_harness.loop.notes import CONSENTED
from windlass_harness.views.runs import RunState
from windlass_protocol import AllowDecision, AskDecision, DenyDecision, PolicyDecision, PolicyKind, PolicyRef


def with_consent(
    decision: PolicyDecision, effect: JudgeCall, *, arguments: Arguments, version: str
) -> PolicyDecision:
    """Turn an ask into an allow, if a person consented to it.

    Consent counts for this very call, with these very arguments, under these very rules.
    """
    if not isinstance(decision, AskDecision):
        return decision
    if arguments.hash != effect.approved_hash or effect.approved_policy != version:
        return decision
    refs = (*decision.policy_refs, PolicyRef(kind=PolicyKind.APPROVAL, id=CONSENTED, version=version))
    return AllowDecision(code=CONSENTED, reason="A person approved this call.", policy_refs=refs)


def under_version(decision: AskDecision, version: str) -> AskDecision:
    """Name the rules that consent is asked for under; the host's may not."""
    first = next((ref.version for ref in decision.policy_refs if ref.version is not None), None)
    if first == version:
        return decision
    ref = PolicyRef(kind=PolicyKind.APPROVAL, id="windlass.judge", version=version)
    return decision.model_copy(update={"policy_refs": (ref, *decision.policy_refs)})


def plead(
    binding: Binding,
    run: RunState | None,
    *,
    call: tuple[Tool[..., object], Arguments],
    decision: AskDecision,
    clock: Clock,
    can_grant_session: bool,
) -> Plea | DenyDecision:
    """Return how to ask; what nobody may answer or could read is denied."""
    tool, arguments = call
    responders = responders_of(binding, run)
    if isinstance(responders, str):
        return _deny("policy.four_eyes", responders, decision)
    # Masked before it is laid out: an escape inside a secret would hide it from whoever masks the record.
    shown = masked(binding.redactor, arguments.json)
    prompt = approval_prompt(
        tool.name, shown, reason=binding.redactor.text(decision.prompt or decision.reason)
    )
    if prompt is None:
        reason = (
            f"The call is too large to be shown to a person: over {PROMPT_CHARS_MAX:,} characters. "
            "Make several smaller calls."
        )
        return _deny("policy.too_large_to_show", reason, decision)
    lifetime_ms = decision.expires_in_ms or binding.approval_expires_ms
    expires_at = None
    if lifetime_ms is not None:
        expires_at = stamp(clock.now() + timedelta(milliseconds=min(lifetime_ms, WAIT_MS_MAX)))
    return Plea(prompt, expires_at=expires_at, responders=responders, can_grant_session=can_grant_session)


def responders_of(binding: Binding, run: RunState | None) -> tuple[str, ...] | str | None:
    """Return who may consent, None for anybody; or say why nobody may."""
    if not binding.four_eyes:
        return binding.responders
    # Whoever spoke to the run has asked for what it does as much as who started it.
    source = None if run is None else run.source
    askers = (None if source is None else source.id, *(() if run is None else run.speakers))
    known = [name for name in askers if name is not None]
    if len(known) < len(askers):
        return "It needs the consent of a second person, and the run does not say who asked for it."
    others = tuple(
        name for name in binding.responders or () if not any(_is_same(name, asker) for asker in known)
    )
    return others or "It needs the consent of a second person, and there is none who may give it."


def deciders_of(binding: Binding, run: RunState) -> tuple[str, ...] | None:
    """Return who may say what becomes of an interrupted call, None for anybody."""
    responders = responders_of(binding, run)
    # That nobody may consent does not mean that nobody may look after what has begun without.
    return binding.responders if isinstance(responders, str) else responders


def _is_same(name: str, other: str) -> bool:
    """Whether two names may mean one person."""
    return _folded(name) == _folded(other)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold().strip()


def _deny(code: str, reason: str, decision: AskDecision) -> DenyDecision:
    return DenyDecision(code=code, reason=reason, policy_refs=decision.policy_refs)
