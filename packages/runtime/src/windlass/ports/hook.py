"""Hooks: functions of the host that run at named points of a run.

A hook sees copies. What it wants changed it returns, and only if its right and its point allow exactly that
change is it made and recorded; whatever else a hook does to what it was given changes nothing.
"""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from pydantic import JsonValue

from windlass.ports.model import LLMMessage
from windlass_harness.loop.events import AskedCall
from windlass_protocol import JsonObject, OutputError


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
