"""Overdrafts: a run that has reached a limit asks a person to let it spend more.

The request is an approval of the run, not of a call: the model does not see it. Its input has the amount,
which the person may change; it counts from the answer on.
"""

from typing import Final

from windlass_harness.loop import ends, failures
from windlass_harness.loop.events import ID_CHARS_MAX, Draft, LimitAsk, Moment, Plan, within_limit
from windlass_harness.loop.notes import COST_AMOUNT, PERIOD, TOKENS_AMOUNT
from windlass_harness.loop.people import approval_options, request_record
from windlass_harness.loop.rules import MILLION
from windlass_harness.loop.state import LoopState
from windlass_harness.views.payloads import LIMIT_CALL, is_limit_ask
from windlass_protocol import (
    ActionStatus,
    BudgetName,
    InputDisplay,
    InputKind,
    InputOutcome,
    InputRequest,
    JsonObject,
    ToolCallAction,
)
from windlass_protocol.generated import records

EXCEED_LIMIT: Final = "exceed_limit"
"""The name under which people see the request."""


def request(state: LoopState, ask: LimitAsk, *, call: str, now: Moment) -> Draft:
    """Return the record of a request to exceed a limit before a model call."""
    count = sum(map(is_limit_ask, state.notes))
    call_id = LIMIT_CALL + within_limit(f"{call}/{count + 1}", most=ID_CHARS_MAX - len(LIMIT_CALL))
    is_money = ask.budget is BudgetName.COST
    arguments: JsonObject = {"limit": ask.limit, (COST_AMOUNT if is_money else TOKENS_AMOUNT): ask.amount}
    if ask.period:
        arguments |= {PERIOD: ask.period, **({"subject": ask.subject} if ask.subject else {})}
    title = failures.limit_title(ask.limit, ask.subject, ask.period)
    used, most, amount = (_amount(number, is_money) for number in (ask.used, ask.most, ask.amount))
    unit = "dollars" if is_money else "tokens"
    body = InputRequest(
        request_id=within_limit(f"approval:{call_id}"),
        action=ToolCallAction(call_id=call_id, tool_name=EXCEED_LIMIT, input=arguments),
        prompt=f"The {title} is reached: {used} of {most} {unit} are spent. "
        f"May this run spend {amount} {unit} more?",
        display=InputDisplay.CONFIRMATION,
        options=approval_options(),
        allow_freeform=True,
        kind=InputKind.APPROVAL,
        responders=ask.responders,
    )
    return request_record(state, [body], now=now)


def settle(state: LoopState, call_id: str, *, now: Moment) -> Plan:
    """Return the result of an answered request, and the end of the run if it may not spend more."""
    note = state.note(call_id)
    outcome, arguments = note.approval_outcome, note.arguments or {}
    is_allowed = outcome is InputOutcome.APPROVED
    result = records.ActionResult(
        result=records.ToolActionResult(
            call_id=call_id,
            tool_name=EXCEED_LIMIT,
            output=arguments if is_allowed else None,
            is_error=None if is_allowed else True,
        ),
        status=ActionStatus.COMPLETED if is_allowed else ActionStatus.REJECTED,
        error=None if is_allowed else records.ActionError(code="denied", message=_REFUSED),
        **state.place(),
    )
    drafts = (state.draft(result, now=now),)
    if outcome is not InputOutcome.DENIED:
        # A message passed the request over: the run goes on, and asks again.
        return Plan(drafts)
    name = BudgetName.COST if COST_AMOUNT in arguments else BudgetName.TOKENS
    limit, subject, period = (str(arguments.get(key, "")) for key in ("limit", "subject", PERIOD))
    error = failures.limit_kept(limit, note.denial_reason, subject=subject, period=period)
    return Plan((*drafts, *ends.exhaust_shared(state, error, (name,), now=now)))


_REFUSED: Final = "The run may not spend more."


def _amount(amount: int, is_money: bool) -> str:
    return f"{amount / MILLION:,.6f}" if is_money else f"{amount:,}"
