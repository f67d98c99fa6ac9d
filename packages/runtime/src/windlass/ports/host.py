"""Ports that an application implements: policies, hooks, approvals, sinks.

A policy that has to be waited for has a time to decide (`POLICY_TIMEOUT_MS`); one that takes longer
or fails has said no.
"""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from pydantic import JsonValue

from windlass.ports.model import LLMMessage
from windlass_harness.loop.events import AskedCall
from windlass_harness.policy import CallFacts
from windlass_protocol import (
    InputRequest,
    InputResponse,
    JsonObject,
    OutputError,
    PolicyDecision,
    RunRequest,
    RuntimePackage,
)


class StartPolicy(Protocol):
    """Decides whether a run may start.

    Anything but allow refuses it, before anything is written.
    """

    def __call__(
        self, request: RunRequest, package: RuntimePackage
    ) -> PolicyDecision | Awaitable[PolicyDecision]:
        """Decide about a run."""
        ...


class ToolPolicy(Protocol):
    """Decides about each call, before it is made and when its result is there."""

    @property
    def version(self) -> str:
        """Names the rules; a consent given under another version is asked for again."""
        ...

    def before(self, call: CallFacts, *, is_attended: bool) -> PolicyDecision | Awaitable[PolicyDecision]:
        """Decide about a call before it is made; all six decisions are honoured."""
        ...

    def after(self, call: CallFacts, output: JsonValue) -> PolicyDecision | Awaitable[PolicyDecision]:
        """Decide about a result before the model sees it; anything but allow withholds it."""
        ...


class Unchanged(Enum):
    """Says that something stays as it is; None would be a value."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED


@dataclass(frozen=True, slots=True)
class HookCall:
    """What a hook is told. Fields that do not belong to its point are empty."""

    point: str
    session_id: str
    run_id: str
    agent_id: str
    call_id: str | None = None
    tool_name: str | None = None
    arguments: JsonObject | None = None
    """Of a call, before it is made."""
    result: JsonValue = None
    """What a tool returned, as the model would see it."""
    error: str | None = None
    """Why a call failed."""
    prompt: str | None = None
    """What a person is about to be asked."""
    decision: str | None = None
    """What came of a request for consent: approved, denied, expired or cancelled."""
    messages: tuple[LLMMessage, ...] = ()
    """What the model is about to be asked."""
    text: str | None = None
    """What the model answered."""
    asked: tuple[AskedCall, ...] = ()
    """The calls that the model asks for."""
    value: JsonValue = None
    """The typed output."""
    errors: tuple[OutputError, ...] = ()
    """Where an answer misses its output contract."""
    status: str | None = None
    """How the run ended."""
    state: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """What the session keeps, to be read."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a hook wants changed; each point owns one of these fields, and some none."""

    arguments: Mapping[str, JsonValue] | Unchanged = UNCHANGED
    """before_tool_call: the call is made with these; they are checked, and judged by the policy."""
    result: JsonValue | Unchanged = UNCHANGED
    """after_tool_call: what the model gets instead."""
    context: Sequence[str] | Unchanged = UNCHANGED
    """run_starting: texts that the model is told once; before_model_call: for this one call."""
    prompt: str | Unchanged = UNCHANGED
    """before_approval_request: the words; tool and arguments are always shown with them."""


@dataclass(frozen=True, slots=True)
class Veto:
    """No: the call is refused, or the run stopped or sent back to work."""

    reason: str


HookAnswer = Change | Veto | None


class HookFunction(Protocol):
    """What an author writes. It may be async; if not, it runs in a thread."""

    def __call__(self, call: HookCall, /) -> HookAnswer | Awaitable[HookAnswer]:
        """Look at what happens; return None, a change that the point allows, or a veto."""
        ...


class ApprovalDispatcher(Protocol):
    """Takes requests to people, or to a program that answers for them."""

    async def dispatch(self, request: InputRequest, *, session_id: str, run_id: str) -> InputResponse | None:
        """Bring a request to whoever answers; return the answer, or nothing.

        Nothing says that an answer, if any, comes another way: that is journaled, and the request is not
        brought again. The request is durable before this is called, once for each request and beside the run.

        It is called again only if nobody knows whether it was brought: it raised, took too long, or its
        process ended before that it returned was durable. Then the next runtime that opens the store, also
        beside one that is still busy with it, calls it for as long as the request is open. So be ready for a
        request that was seen before: `request.request_id` names it.

        An answer goes the way of every answer and has to pass the same checks. Whatever this raises, and an
        answer that is refused, leaves the request open.
        """
        ...


@dataclass(frozen=True, slots=True)
class Elicitation:
    """What a server wants to know. Its words are a stranger's: show who asks."""

    server: str
    message: str
    schema: JsonObject
    """A flat JSON Schema of the answer."""


class ElicitationHandler(Protocol):
    """Asks a person."""

    async def __call__(self, request: Elicitation) -> Mapping[str, JsonValue] | None:
        """Return the answer by field, or None to decline; one that raises declines."""
        ...


class PackageResolver(Protocol):
    """Knows packages by their ids."""

    def resolve(self, package_id: str) -> RuntimePackage | Awaitable[RuntimePackage]:
        """Return a package.

        Raises:
            Rejected: there is none of this id.
        """
        ...


@dataclass(frozen=True, slots=True)
class Delivery:
    """The output of a run, on its way to one sink."""

    delivery_id: str
    dedupe_key: str
    """For a sink that can tell repeated deliveries apart by itself."""
    sink_id: str
    session_id: str
    run_id: str
    agent_id: str
    kind: str
    """final_message, or final_validated_output if there was an output contract."""
    output: str
    structured_output: JsonValue = None


class OutputSink(Protocol):
    """Takes output, at most once for each dedupe key.

    It is called again only if it says that nothing happened.
    """

    @property
    def sink_id(self) -> str:
        """What agents call it."""
        ...

    async def deliver(self, output: Delivery) -> JsonObject | None:
        """Take an output; return a receipt, or nothing.

        Raises:
            Unavailable: nothing happened; it is tried again a few times.
            Rejected: nothing happened, and trying again does not help. So do Denied and Conflict.
            Ambiguous: it may have happened. So may it with any other error, and when the time is over: the
                outcome is recorded as unknown, and nothing is sent again.
        """
        ...
