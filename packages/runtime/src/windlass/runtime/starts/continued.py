"""Runs that continue or reverse another one: their requests, and whether a run is one of them."""

import re
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue
from pydantic.alias_generators import to_camel

from windlass.agent.agent import WORKFLOW_ROUTE
from windlass.engine.driving.inbox import each_item
from windlass.ports.catalog import RunRow
from windlass.refusals import NAME_SHOWN_CHARS_MAX, not_retryable, not_undoable, run_id_in_use
from windlass.runtime.runs import TERMINAL
from windlass_harness.budget import remaining, wire_limits
from windlass_harness.loop.failures import NEEDED_MICROS
from windlass_harness.loop.notes import limits_of
from windlass_harness.loop.state import LoopState
from windlass_harness.loop.subagents import START
from windlass_harness.views.runs import RUN_ENDS
from windlass_protocol import BudgetLimits, JsonObject, RunRequest, RunStatus
from windlass_protocol.codec_errors import printable
from windlass_protocol.frozen import frozen
from windlass_protocol.generated.records import MessageReceived, OutputRequested, RunStarted

if TYPE_CHECKING:
    from windlass.runtime.core import Core

_RETRYABLE: Final = frozenset({RunStatus.FAILED, RunStatus.BUDGET_EXHAUSTED})
_UNDONE: Final = ("source", "owner", "packageId", "mode", "capabilities", "metadata")
"""Fields of a run that the run which reverses its calls shares."""
_RETRIED: Final = (*_UNDONE, "batch", "goalId", "goalDescription")
"""Fields of a failed run that the run which continues it shares, with the output contract of its start."""
_TOOL_CALLS: Final = to_camel("max_tool_calls")
"""The one limit that a run may have used up and still go on: with model calls alone."""
_COST: Final = to_camel("max_cost_micros")
_CAPITAL: Final = re.compile("[A-Z]")
_FOLDED_RECORDS: Final = 512
_NO_MESSAGE: Final = "Go on."
"""What the request of a run says that has no message, such as one that a job began; no model reads it."""
_WORKFLOW_ENDED: Final = (
    "it is one of a workflow, whose function has ended. Nothing was repeated; start a new run with the same "
    "argument, which makes its calls again"
)
_OPENING_RECORDS: Final = 64
"""A run begins with its start, its turn and its message; records of its session may precede them."""


@frozen
class _Opening:
    """How a run started, from its first records."""

    facts: JsonObject
    """The data of `run.started`."""
    message: JsonObject
    contract: JsonObject | None
    """What the run must return."""


class ContinuedRuns:
    """Makes the request of a run that continues or reverses another, from the records of that one."""

    def __init__(self, core: "Core") -> None:
        self._core = core

    async def retry_request(
        self, row: RunRow, run_id: str, *, budget: BudgetLimits | None = None
    ) -> RunRequest:
        """Return the request of a run that continues a failed one: that of the failed run, under a new id.

        Its budget is what the failed run has left. `budget` are other limits, of both runs together, and of
        the runs that the failed run continued.

        Raises:
            Conflict: the run has not failed, is one of a subagent or of a workflow or reverses calls, or is
                not the newest of its session; or nothing is left of its budget.
        """
        newest = (await self._core.folds.session(row.session_id)).newest_run
        if row.status not in _RETRYABLE:
            raise not_retryable(row.run_id, f"it is {row.status.value}; only a failed run is continued")
        if newest is None or newest.run_id != row.run_id:
            raise not_retryable(row.run_id, "it never started, or its session has gone on; start a new run")
        if newest.parent is not None:
            raise not_retryable(row.run_id, "it is one of a subagent; retry the run that called it")
        registered = self._core.ports.registry.agent(row.agent_id)
        if registered is not None and registered.package.provider_route.route_id == WORKFLOW_ROUTE:
            raise not_retryable(row.run_id, _WORKFLOW_ENDED)
        opening = await self._opening(row)
        facts = opening.facts
        if "undo" in facts:
            raise not_retryable(row.run_id, "it reversed calls, without a model; undo the run again instead")
        fields: JsonObject = {name: facts[name] for name in _RETRIED if name in facts}
        fields |= {"run_id": run_id, "agent_id": row.agent_id, "session_id": row.session_id}
        if facts.get("hasOwnOutput") is True and opening.contract is not None:
            fields["output_contract"] = opening.contract
        continued, message = await self._chain(row)
        limits = budget or newest.budget
        if limits is not None:
            # The own budget of a run is what those before it have left.
            counted = {row.run_id} if budget is None else continued
            fields["budget"] = await self._budget_left(row, limits, counted)
        fields["input"] = message.get("parts") or message.get("message") or _NO_MESSAGE
        return RunRequest.model_validate(fields, by_alias=True, by_name=True)

    async def check_retry(self, row: RunRow, existing: RunRow, *, budget: BudgetLimits | None) -> None:
        """Check that a run which exists is the one that a retry of `row` asks for; None asks for no limits.

        Raises:
            Conflict: it is another run, or it has other limits.
        """
        facts = await self._start_facts(existing)
        if facts.get("retryOf") != row.run_id:
            raise run_id_in_use(existing.run_id, "it does not continue the run")
        if budget is None:
            return
        continued, _ = await self._chain(row)
        requested, granted = await self._budget_left(row, budget, continued), facts.get("budget")
        if requested != granted:
            raise not_retryable(
                row.run_id,
                f"run {printable(existing.run_id, NAME_SHOWN_CHARS_MAX)} continues it already, is "
                f"{existing.status.value}, and has {_limits_text(granted)}; with this budget it would have "
                f"{_limits_text(requested)}. Follow that run, or continue it when it has failed",
            )

    async def check_undo(self, row: RunRow, existing: RunRow) -> None:
        """Check that a run which exists is one that reverses calls of `row`.

        Raises:
            Conflict: it is another run.
        """
        undo = (await self._start_facts(existing)).get("undo")
        if not isinstance(undo, dict) or undo.get("runId") != row.run_id:
            raise run_id_in_use(existing.run_id, "it does not reverse calls of the run")

    async def _chain(self, row: RunRow) -> tuple[set[str], JsonObject]:
        """Return the ids of a run and of those that it continues, and the message of the first."""
        opening = await self._opening(row)
        continued = {row.run_id}
        while isinstance(first := opening.facts.get("retryOf"), str):
            continued.add(first)
            opening = await self._opening(await self._core.runs.row(first))
        return continued, opening.message

    async def _budget_left(self, row: RunRow, limits: BudgetLimits, counted: Set[str]) -> JsonObject:
        """Return what runs that have ended leave of some limits, by their wire names; `row` is the last.

        Raises:
            Conflict: nothing is left of one that the next model call needs, or too little money for it.
        """
        state, remaining_limits, needed_micros = LoopState(), limits_of(limits), 0
        while state.session.run is None or state.session.run.run_id != row.run_id or state.run is not None:
            # Records after the end, such as feedback, take none of its time.
            records = await self._core.store.read(row.session_id, after=state.seq, limit=_FOLDED_RECORDS)
            assert records, "a run that has ended has a record of its end"
            for record in records:
                state.apply(record)
                if record.type in RUN_ENDS and record.run_id in counted:
                    remaining_limits = remaining(state.run_notes.spent, remaining_limits)
                if record.type in RUN_ENDS and record.run_id == row.run_id:
                    needed_micros = _next_answer_micros(record.data)
                    break
        left = wire_limits(remaining_limits)
        is_exhausted = row.status is RunStatus.BUDGET_EXHAUSTED
        used_up = [
            name for name, limit in left.items() if limit == 0 and (is_exhausted or name != _TOOL_CALLS)
        ]
        if used_up:
            raise not_retryable(
                row.run_id, f"nothing is left of its budget ({', '.join(used_up)}); {_larger_limits(used_up)}"
            )
        if left.get(_COST, needed_micros) < needed_micros:
            raise not_retryable(
                row.run_id,
                f"{left[_COST]:,} millionths of a dollar are left of its budget ({_COST}), and the next "
                f"answer may cost {needed_micros:,}; {_larger_limits([_COST])}",
            )
        return dict(left)

    async def undo_request(self, row: RunRow, run_id: str) -> RunRequest:
        """Return the request of a run that reverses calls of another one.

        Raises:
            Conflict: the run has not ended, never started, or is one that reverses calls.
        """
        if row.status not in TERMINAL or not row.first_seq:
            raise not_undoable(row.run_id, f"it is {row.status.value}; cancel it first, or wait for its end")
        facts = (await self._opening(row)).facts
        if "undo" in facts:
            raise not_undoable(row.run_id, "it is one that reversed calls")
        fields: JsonObject = {name: facts[name] for name in _UNDONE if name in facts}
        fields |= {"run_id": run_id, "agent_id": row.agent_id, "session_id": row.session_id}
        fields["input"] = f"Undo run {row.run_id}."
        return RunRequest.model_validate(fields, by_alias=True, by_name=True)

    async def _opening(self, row: RunRow) -> "_Opening":
        records = await self._core.store.read(row.session_id, after=row.first_seq - 1, limit=_OPENING_RECORDS)
        data = {record.type: record.data for record in reversed(records) if record.run_id == row.run_id}
        contract = data.get(OutputRequested.TYPE, {}).get("contract")
        return _Opening(
            data[RunStarted.TYPE],
            data.get(MessageReceived.TYPE, {}),
            contract if isinstance(contract, dict) else None,
        )

    async def _start_facts(self, row: RunRow) -> JsonObject:
        """Return how a run started, also of a queued one, and of one that ended before it started."""
        async for item in each_item(self._core.store, row.session_id):
            if item.kind == START and item.run_id == row.run_id:
                return item.body
        # A start that left the inbox meanwhile has begun: read its records.
        row = row if row.first_seq else await self._core.runs.row(row.run_id)
        records = await self._core.store.read(row.session_id, after=row.first_seq - 1, limit=_OPENING_RECORDS)
        for record in records:
            if record.run_id == row.run_id and record.type == RunStarted.TYPE:
                return record.data
            if record.run_id == row.run_id and isinstance(facts := record.data.get("unstarted"), dict):
                return facts
        return {}


def _next_answer_micros(ending: JsonObject) -> int:
    """Return what the next answer of a run that used up its money may cost at least; 0 for another run."""
    error = ending.get("error")
    details = error.get("details") if isinstance(error, dict) else None
    needed = details.get(NEEDED_MICROS) if isinstance(details, dict) else None
    return needed if isinstance(needed, int) else 0


def _larger_limits(names: Sequence[str]) -> str:
    """Return how a run is continued with more of some limits, by their wire names."""
    options = " ".join("--" + _CAPITAL.sub(r"-\g<0>", name).lower() + " N" for name in names)
    return (
        f"continue it with a larger one, handle.retry(budget=…) or windlass runs retry {options}, or send a "
        "message: it starts a run with a budget of its own"
    )


def _limits_text(limits: JsonValue) -> str:
    """Return the limits of a budget as text, by their wire names."""
    if not isinstance(limits, dict) or not limits:
        return "no limits"
    return ", ".join(f"{name} {limit}" for name, limit in limits.items())
