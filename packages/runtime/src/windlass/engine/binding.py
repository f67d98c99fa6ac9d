"""What a run is bound to.

Its package, and the things of this process that the package names.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from hashlib import sha256
from typing import Final, Protocol

from windlass.agent import check_sink
from windlass.dynamic import Placed
from windlass.engine.hooks import NO_HOOKS, Hooks
from windlass.limits import POLICY_TIMEOUT_MS
from windlass.package import compaction_config, compaction_route
from windlass.ports.host import OutputSink, ToolPolicy
from windlass.ports.model import LLMProvider, window_tokens
from windlass.skills import Skills
from windlass.tools import PIN, Tool
from windlass_harness.compaction import estimate_tokens
from windlass_harness.loop.events import Note
from windlass_harness.loop.rules import CompactionRule, Rules
from windlass_harness.redact import Redactor
from windlass_harness.views.runs import RunState
from windlass_protocol import (
    ErrorCode,
    ErrorInfo,
    ErrorKind,
    JsonObject,
    ModelMessage,
    RetryClass,
    RuntimePackage,
)
from windlass_protocol.frozen import frozen

_WINDOW_TENTHS: Final = 9
"""How much of a known window a prompt may fill before it is compacted."""


def compaction_rule(
    package: RuntimePackage, window: int | None, *, definitions: list[JsonObject]
) -> CompactionRule:
    """Return the rule for runs of a package.

    The author of the agent comes first, then `window`, the context window of the model in tokens. Without
    either there is a threshold all the same; but it is a guess, and a guess does not end a run.
    """
    config = compaction_config(package)
    rule = CompactionRule(
        limit=window,
        overhead_tokens=estimate_tokens(package.agent.instructions or "") + estimate_tokens(definitions),
        model_id=(compaction_route(package) or package.provider_route).model_id,
    )
    if config is not None:
        return replace(
            rule,
            threshold=config.threshold,
            recent_window_size=config.recent_window_size,
            limit=max(config.threshold, window or 0),
        )
    return rule if window is None else replace(rule, threshold=window * _WINDOW_TENTHS // 10)


NOBODY: Final = ErrorInfo(
    code=ErrorCode.REJECTED,
    kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
    retry=RetryClass.HOST_CONFIGURATION_NEEDED,
    message="the run is bound to no agent of this process; open the runtime with its agent",
)
"""Why a run stops that this process has no agent for."""
NO_SECRETS: Final = Redactor()
"""Masks what looks like a secret."""


@frozen
class Binding:
    """A package with its model, tools, policy, hooks and sinks."""

    package: RuntimePackage
    fingerprint: str
    provider: LLMProvider
    tools: Mapping[str, Tool[..., object]]
    policy: ToolPolicy
    rules: Rules
    temperature: float | None = None
    approval_expires_ms: int | None = None
    responders: tuple[str, ...] | None = None
    four_eyes: bool = False
    """Whoever asked for a run may not consent to what it does."""
    redactor: Redactor = NO_SECRETS
    policy_timeout_ms: int = POLICY_TIMEOUT_MS
    hooks: Hooks = NO_HOOKS
    sinks: Mapping[str, OutputSink] = field(default_factory=dict[str, OutputSink])
    summarises: LLMProvider | None = None
    """Who writes summaries; the provider if None."""
    notes: tuple[Note, ...] = ()
    """What has to be recorded before anything is done with it."""
    resolvers: tuple[Placed, ...] = ()
    """What else is to be found out before anything is done with it."""
    package_change: str = "continue"
    """What becomes of the run if a resolver gives something else than it gave before."""
    skills: Skills = field(default_factory=Skills)
    """All that can be loaded."""
    unstepped: "Binding | None" = None
    """It without what holds for one step only."""
    window: int | None = None
    """The context window of the provider in tokens, from the host; None leaves that to the provider."""
    summary_window: int | None = None
    """The same of the provider that writes summaries."""
    on_compaction: Callable[[], Sequence[ModelMessage]] | None = None
    """Messages of the host that a compacted history ends with, beside those of tools."""

    def rules_from(self, rules: Rules) -> Rules:
        """Return rules with what the package adds to them."""
        sinks = tuple(check_sink(spec) for spec in self.package.output_sinks or ())
        definitions, window = self.definitions(can_ask=True), self.window or window_tokens(self.provider)
        compaction = compaction_rule(self.package, window, definitions=definitions)
        return replace(rules, hook_points=self.hooks.points, sinks=sinks, compaction=compaction)

    @property
    def summary_provider(self) -> LLMProvider:
        """Who writes summaries."""
        return self.summarises or self.provider

    @property
    def summary_model_id(self) -> str:
        """What whoever writes summaries is called in records."""
        return (compaction_route(self.package) or self.package.provider_route).model_id

    @property
    def instructions(self) -> str:
        """What the model is told before anything else."""
        return self.package.agent.instructions or ""

    def version_for(self, tool: Tool[..., object], arguments: JsonObject) -> str:
        """Return what consent to a call is bound to.

        The rules; if a stranger or a resolver describes the tool, what it was said to be; and if the tool
        has an approval key, the key of the arguments.
        """
        pin, key = tool.metadata.get(PIN), tool.approval_key
        bound = [] if pin is None else [str(pin)]
        if key is not None:
            bound.append(f"key:{key(arguments)}")
        if not bound:
            return self.policy.version
        digest = sha256("\n".join(bound).encode()).hexdigest()
        return f"{self.policy.version}+{digest[:32]}"

    def definitions(self, *, can_ask: bool) -> list[JsonObject]:
        """What the model is told of the tools; of questions only if somebody can be asked."""
        tools: list[JsonObject] = [
            {"name": spec.name, "description": spec.description or "", "inputSchema": spec.input_schema}
            for spec in self.package.tools or ()
            if (tool := self.tools.get(spec.name)) is not None and (can_ask or not tool.is_question)
        ]
        return tools + [self.tools[spec.name].definition for spec in self.package.subagents or ()]


class Binder(Protocol):
    """Who knows what a run is bound to."""

    async def __call__(self, run: RunState) -> Binding | None:
        """Return what a run needs; None if this process does not have it.

        Raises:
            Rejected: the run can never go on here.
            Unavailable: it cannot be found now.
        """
        ...
