"""Policies: who decides whether a run may start and whether a tool may be called.

A policy that has to be waited for has a time to decide (`POLICY_TIMEOUT_MS`); one that takes longer
or fails has said no.
"""

from collections.abc import Awaitable
from typing import Protocol

from pydantic import JsonValue

from windlass_harness.policy_rules import CallFacts
from windlass_protocol import PolicyDecision, RunRequest, RuntimePackage


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
