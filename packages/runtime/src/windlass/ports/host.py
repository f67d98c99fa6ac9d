"""Ports that an application implements: policies, hooks, approvals, sinks.

An async policy has a timeout (`POLICY_TIMEOUT_MS`); a policy that exceeds it or raises denies.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from pydantic import JsonValue

from windlass.ports.model import LLMMessage
from windlass_harness.loop.rules import RequestedCall
from windlass_protocol import JsonObject
from windlass_protocol.frozen import sealed
from windlass_protocol.generated import output as output_types

if TYPE_CHECKING:
    from windlass_harness.policy import CallFacts
    from windlass_protocol import (
        Event,
        InputRequest,
        InputResponse,
        PolicyDecision,
        RunRequest,
        RuntimePackage,
    )


class StartPolicy(Protocol):
    """Decides whether a run may start.

    Any decision but allow refuses it, before anything is written.
    """

    def __call__(
        self, request: RunRequest, package: RuntimePackage
    ) -> PolicyDecision | Awaitable[PolicyDecision]: ...


class ToolPolicy(Protocol):
    """Decides about each call, before it is made and after its result arrived."""

    @property
    def version(self) -> str:
        """Identifies the rules; a consent given under another version is asked for again."""
        ...

    def before(self, call: CallFacts, *, is_attended: bool) -> PolicyDecision | Awaitable[PolicyDecision]:
        """Decide about a call before it is made; all six decisions are supported."""
        ...

    def after(self, call: CallFacts, output: JsonValue) -> PolicyDecision | Awaitable[PolicyDecision]:
        """Decide about a result before the model sees it; any decision but allow withholds it."""
        ...


class Unchanged(Enum):
    """Marks a field that stays as it is; None would be a value."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED


@sealed
class HookCall:
    """The argument of a hook. Fields that do not belong to its point are empty."""

    point: str
    session_id: str
    run_id: str
    agent_id: str
    call_id: str | None = None
    tool_name: str | None = None
    arguments: JsonObject | None = None
    """Arguments of a call, before it is made."""
    result: JsonValue = None
    """The result of a tool, as the model will see it."""
    error: str | None = None
    """The error of a failed call."""
    prompt: str | None = None
    """The prompt of an approval request."""
    decision: str | None = None
    """The outcome of an approval request: approved, denied, expired or cancelled."""
    messages: tuple[LLMMessage, ...] = ()
    """The messages of the next model call."""
    text: str | None = None
    """The text of the model's answer."""
    asked: tuple[RequestedCall, ...] = ()
    """The calls in the model's answer."""
    value: JsonValue = None
    """The typed output."""
    errors: tuple[output_types.OutputError, ...] = ()
    """Violations of the output contract."""
    status: str | None = None
    """The status with which the run ended."""
    state: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """The state of the session, read-only."""


@sealed
class Change:
    """Changes by a hook; each point allows at most one of these fields."""

    arguments: Mapping[str, JsonValue] | Unchanged = UNCHANGED
    """before_tool_call: the arguments to call with; they are validated and checked by the policy."""
    result: JsonValue | Unchanged = UNCHANGED
    """after_tool_call: the result that the model sees instead."""
    context: Sequence[str] | Unchanged = UNCHANGED
    """run_starting: texts added to the history once; before_model_call: texts for this call alone."""
    prompt: str | Unchanged = UNCHANGED
    """before_approval_request: the prompt; tool and arguments are always shown with it."""


@sealed
class Veto:
    """Refuses a call, stops the run, or sends the run back to work, depending on the point."""

    reason: str


HookAnswer = Change | Veto | None


class HookFunction(Protocol):
    """The function of a hook. It may be async; a synchronous function runs in a thread."""

    def __call__(self, call: HookCall, /) -> HookAnswer | Awaitable[HookAnswer]:
        """Inspect the call; return None, a Change that the point allows, or a Veto."""
        ...


class EventFunction(Protocol):
    """The function of an event hook. It may be async; a synchronous function runs in a thread."""

    def __call__(self, event: Event, /) -> Awaitable[None] | None:
        """Observe a durable event. The event is a copy, and a value that is returned is a failure."""
        ...


class ApprovalDispatcher(Protocol):
    """Delivers approval requests to people, or to a program that answers for them."""

    async def dispatch(self, request: InputRequest, *, session_id: str, run_id: str) -> InputResponse | None:
        """Deliver a request; return the answer, or None if an answer may come another way.

        The request is durable before this is called, once for each request and concurrently with the run. A
        returned None is journaled, and the request is not delivered again.

        It is called again only if the outcome of the delivery is unknown: it raised, timed out, or its
        process ended before the return was durable. Then the next runtime that opens the store, even while
        another one still delivers it, calls it as long as the request is open. So an implementation must
        expect a request that it has seen before: `request.request_id` identifies it.

        A returned answer passes the same checks as every answer. An exception or a refused answer leaves the
        request open.
        """
        ...


@sealed
class Elicitation:
    """A question of an MCP server. The text is untrusted: show which server asks."""

    server: str
    message: str
    schema: JsonObject
    """A flat JSON Schema of the answer."""


class ElicitationHandler(Protocol):
    """Asks a person for the answer to an elicitation."""

    async def __call__(self, request: Elicitation) -> Mapping[str, JsonValue] | None:
        """Return the answer by field, or None to decline; an exception declines."""
        ...


class PackageResolver(Protocol):
    """Finds packages by id."""

    def resolve(self, package_id: str) -> RuntimePackage | Awaitable[RuntimePackage]:
        """Return a package.

        Raises:
            Rejected: the id is unknown.
        """
        ...


@sealed
class Delivery:
    """The output of a run for one sink."""

    delivery_id: str
    dedupe_key: str
    """For a sink that detects repeated deliveries itself."""
    sink_id: str
    session_id: str
    run_id: str
    agent_id: str
    kind: str
    """final_message, or final_validated_output if there was an output contract."""
    output: str
    structured_output: JsonValue = None


class OutputSink(Protocol):
    """Receives output, at most once for each dedupe key.

    It is called again only if it reports that nothing happened.
    """

    @property
    def sink_id(self) -> str:
        """The id that agents refer to."""
        ...

    async def deliver(self, output: Delivery) -> JsonObject | None:
        """Deliver an output; return a receipt, or None.

        Raises:
            Unavailable: nothing happened; the delivery is retried a few times.
            Rejected: nothing happened, and retrying does not help. The same holds for Denied and Conflict.
            Ambiguous: it may have happened. The same holds for any other error and for a timeout: the outcome
                is recorded as unknown, and the output is not delivered again.
        """
        ...
