"""Decisions about calls, and their arguments with the secrets that records have masked."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from pydantic import JsonValue

from windlass.engine.binding import MISSING_AGENT
from windlass.engine.effect_context import EffectContext
from windlass.engine.tool_calls.approval import Judged, judge, judge_allowed, settled_by_rules
from windlass.engine.tool_calls.results import refuse_lost_secret
from windlass.engine.tool_calls.subagents import delegate
from windlass.engine.writing.masking import has_mask
from windlass.tools.calling import Arguments, few_checks
from windlass.tools.json_schema import ManyChecks
from windlass.tools.results import is_light
from windlass_harness.loop.events import CallRefused, JudgeCall, LoopEvent, Stopped
from windlass_harness.loop.rules import RequestedCall
from windlass_harness.loop.state import LoopState
from windlass_harness.redact import Redactor
from windlass_protocol import AskDecision, DeferDecision, JsonObject


class CallJudge:
    """Validates calls and asks the policy about them; keeps the arguments that they will run with."""

    def __init__(self, context: EffectContext) -> None:
        self._context = context
        self._shared = context.shared
        self._inputs: dict[str, JsonValue] = {}
        """Unmasked arguments of the calls of the last answer; records have them masked."""
        self._canonical: dict[str, bytes] = {}
        """Canonical JSON of these arguments, if known."""
        self.arguments: dict[str, Arguments] = {}
        """Arguments of judged calls, as they will run."""

    def take_answer(self, calls: Sequence[RequestedCall], canonical: dict[str, bytes]) -> None:
        """Replace the calls of the last answer."""
        shared = self._shared
        self._inputs = {call.call_id: call.input for call in calls}
        self._canonical = canonical
        self.arguments.clear()
        if shared.secret_inputs:
            shared.secret_inputs.forget(self._context.session_id)

    def judge_at_once(self, state: LoopState, effect: JudgeCall) -> LoopEvent | None:
        """Judge a call of a tool that the rules are known to allow; None if that takes more."""
        run, shared = state.run, self._shared
        binding = None if run is None else self._context.bindings.get(run.run_id)
        call_id = effect.call_id
        decision = self._context.allowed.get((effect.tool_name, state.session.taint, effect.is_inner))
        if decision is None or binding is None:
            return None
        written = self._inputs.get(call_id)
        if written is None and effect.is_inner and not shared.secret_inputs and not has_mask(effect.input):
            # A program passes on what its records have.
            written = effect.input
        if written is None:
            return None
        if effect.approved_hash is not None or state.grants or not is_light(written):
            return None
        work = partial(
            judge_allowed,
            binding,
            decision,
            call_id=call_id,
            tool_name=effect.tool_name,
            recorded=written,
            canonical_json=self._canonical.pop(call_id, None),
        )
        try:
            judged = few_checks(work)
        except ManyChecks:
            return None
        if isinstance(judged, CallRefused):
            return judged
        self.arguments[call_id] = judged.arguments
        self._inputs[call_id] = judged.arguments.json
        return judged.event

    async def judge(self, state: LoopState, effect: JudgeCall) -> LoopEvent:
        """Validate a call and ask the policy; has no side effects."""
        binding, shared = await self._context.binding(state), self._shared
        if binding is None:
            return Stopped(MISSING_AGENT)
        if effect.is_changed:
            effect, lost = self._with_change(effect, binding.redactor)
        else:
            lost = self._remember(effect, binding.redactor)
        tool = binding.tools.get(effect.tool_name)
        # An undo gets the call as it was recorded, with masks: its key finds the effect at the service.
        if lost is not None and not (tool is not None and tool.is_undo):
            return lost
        written = self._inputs.get(effect.call_id, effect.input)
        if written is not effect.input:
            # Records have it without secrets.
            effect = replace(effect, input=written)
        judged = await judge(
            binding, state, effect=effect, clock=shared.clock, is_attended=self._context.can_ask(state)
        )
        settled = settled_by_rules(binding, effect, judged)
        if settled is not None and not state.grants:
            self._context.allowed[effect.tool_name, state.session.taint, effect.is_inner] = settled
        if isinstance(judged, Judged):
            self.arguments[effect.call_id] = judged.arguments
            # If the call is judged again, these are the arguments that it runs with.
            self._inputs[effect.call_id] = judged.arguments.json
            self._canonical.pop(effect.call_id, None)
            if isinstance(judged.event.decision, AskDecision | DeferDecision):
                shared.secret_inputs.keep(
                    self._context.session_id,
                    effect.call_id,
                    value=judged.arguments.json,
                    redactor=binding.redactor,
                )
            functions = binding.tools[effect.tool_name].program
            if functions is not None:
                return await self._context.programs(state).check(
                    judged, functions, redactor=binding.redactor, variables=state.variables
                )
            return await delegate(judged, state, binding=binding, delegator=shared.delegator)
        return judged

    def _remember(self, effect: JudgeCall, redactor: Redactor) -> CallRefused | None:
        """Restore the secrets of a call that waited; refuse the call if they are lost."""
        if effect.call_id in self._inputs:
            return None
        secrets = self._shared.secret_inputs.find(
            self._context.session_id, effect.call_id, recorded=effect.input, redactor=redactor
        )
        if secrets is None:
            return refuse_lost_secret(effect.call_id, effect.input)
        self._inputs[effect.call_id] = secrets
        return None

    def _with_change(self, effect: JudgeCall, redactor: Redactor) -> tuple[JudgeCall, CallRefused | None]:
        """Return a call with the arguments that a person changed; refuse one with a secret that is lost.

        Masked arguments that the person left as they are stand for what the model wrote.
        """
        call_id, changed = effect.call_id, effect.input
        original = self._shared.secret_inputs.original(self._context.session_id, call_id)
        input_value = self._inputs.get(call_id, original)
        if isinstance(input_value, dict) and isinstance(changed, dict):
            shown = cast(JsonObject, redactor.value(input_value))
            changed = {
                name: input_value[name] if name in input_value and shown[name] == value else value
                for name, value in changed.items()
            }
        self._inputs[call_id] = changed
        return replace(effect, input=changed), refuse_lost_secret(call_id, changed)
