"""What runtimes and runs may be told beside what they need."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

from windlass.agent_output import Output
from windlass.hooks import Hook
from windlass.ports.approval import ApprovalDispatcher
from windlass.ports.model import LLMProvider
from windlass.ports.model_source import ProviderSource
from windlass.ports.policy import StartPolicy, ToolPolicy
from windlass.ports.sink import OutputSink
from windlass.runtime_ports import Machine, PackageChange
from windlass_harness.budget import BudgetLimit
from windlass_harness.loop.rules import Rules
from windlass_protocol import BudgetLimits, JsonObject, RunMode, SessionCapabilities, SourceRef


class RuntimeOptions(TypedDict, total=False):
    """What a runtime may be told beside its agents."""

    providers: Mapping[str, LLMProvider]
    """Who answers for the routes of models that are texts."""
    provider_source: ProviderSource
    """Who answers for all other routes; `openai`, `anthropic`, `ollama` and such when left out, by the
    variables of the environment."""
    policy: StartPolicy
    """Decides whether a run may start; every run may when left out."""
    tool_policy: ToolPolicy
    """Decides about tool calls, instead of the policies of the agents."""
    policy_timeout_ms: int
    """How long either of them may take to decide; one that takes longer has said no."""
    output_sinks: Iterable[OutputSink]
    """Where the output of agents that name them is delivered."""
    approval_dispatcher: ApprovalDispatcher
    """Takes requests to people."""
    is_attended: bool
    """Whether somebody is there to ask; if not, whatever needs consent is denied.

    True when left out: whoever holds the runtime can see `handle.requests()` and answer.
    """
    approval_expires_ms: int
    responders: Sequence[str]
    """Who may answer; anybody when left out."""
    four_eyes: bool
    """Whether whoever asked for a run, its `source`, may not consent to what it does; needs responders."""
    hooks: Iterable[Hook]
    """Functions for hooks that packages name; agents bring their own."""
    package_change: PackageChange | str
    """What becomes of runs whose agent has changed since they began; they continue when left out."""
    rules: Rules
    secrets: Iterable[str]
    """Texts that must never reach a record, event, trace or error."""
    machine: Machine


class RunOptions(TypedDict, total=False):
    """What a run may be told beside its message; None is as good as left out."""

    session_id: str | None
    """The session to go on with; a new one when left out."""
    run_id: str | None
    """A name for the run, the same for every attempt to start it; a new one when left out."""
    turn_id: str | None
    mode: RunMode | None
    capabilities: SessionCapabilities | None
    """What the channel of the message can do; everything when left out."""
    budget: BudgetLimit | BudgetLimits | None
    output: Output | None
    """What it must return: a type, a JSON Schema or a contract."""
    context: Sequence[str] | None
    """Texts that are put before the message."""
    metadata: JsonObject | None
    source: SourceRef | None
    """Where the message comes from."""
    owner: str | None
    """Whom the session belongs to, told by whoever begins it; a start for another owner is denied."""
    goal_id: str | None
    """What it is for, to find the runs of one goal together in the decision ledger."""
    goal_description: str | None
    """The same in words; the message when left out."""
