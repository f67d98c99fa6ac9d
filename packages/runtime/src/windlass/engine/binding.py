"""Binding: a run's package with the model, tools, policy, hooks and sinks of this process."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from hashlib import sha256
from typing import Final, Protocol

from windlass.agent.agent import check_sink
from windlass.agent.dynamic import Placed
from windlass.agent.output import OutputType
from windlass.agent.package import compaction_config, compaction_route, retry_for_ms, summary_model
from windlass.agent.skills import Skills
from windlass.engine.hooks import NO_HOOKS, Hooks
from windlass.limits import POLICY_TIMEOUT_MS
from windlass.ports.batches import BatchProvider
from windlass.ports.host import OutputSink, ToolPolicy
from windlass.ports.model import LLMProvider, window_tokens
from windlass.prices import OwnPrices, Tariff, free_terms, is_table_missing, load_table, tariff_of
from windlass.tools import PIN, PROGRAM_TOOLS, Tool, definition_of
from windlass.tools.calling import arguments_hash, in_masking_thread
from windlass_harness.compaction import estimate_tokens
from windlass_harness.loop.rules import CompactionRule, ModelTerms, Rules
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
from windlass_protocol.bodies import Body
from windlass_protocol.frozen import frozen

_WINDOW_TENTHS: Final = 9
"""Tenths of a known context window that a prompt may fill before compaction."""


def compaction_rule(
    package: RuntimePackage, window: int | None, *, definitions: list[JsonObject]
) -> CompactionRule:
    """Return the compaction rule for runs of a package.

    The agent's own setting wins, then `window`, the context window of the model in tokens. Without
    either, a default threshold applies; a run is never failed because of the default.
    """
    config = compaction_config(package)
    rule = CompactionRule(
        limit=window,
        overhead_tokens=estimate_tokens(package.agent.instructions or "") + estimate_tokens(definitions),
        model_id=summary_model(package),
    )
    if config is not None:
        return replace(
            rule,
            threshold=config.threshold,
            recent_window_size=config.recent_window_size,
            limit=max(config.threshold, window or 0),
        )
    return rule if window is None else replace(rule, threshold=window * _WINDOW_TENTHS // 10)


MISSING_AGENT: Final = ErrorInfo.model_construct(
    code=ErrorCode.REJECTED,
    kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
    retry=RetryClass.HOST_CONFIGURATION_NEEDED,
    message="this process does not have the agent of the run; open the runtime with its agent",
)
"""Error of a run if this process does not have its agent."""
NO_SECRETS: Final = Redactor()
"""Masks strings that look like secrets; no secret is registered."""


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
    """Whether the person who requested a run must not approve its calls."""
    redactor: Redactor = NO_SECRETS
    policy_timeout_ms: int = POLICY_TIMEOUT_MS
    hooks: Hooks = NO_HOOKS
    sinks: Mapping[str, OutputSink] = field(default_factory=dict[str, OutputSink])
    fallbacks: Mapping[str, LLMProvider] = field(default_factory=dict[str, LLMProvider])
    """Providers that are called when the one before is away, by route and model, in order."""
    summarises: LLMProvider | None = None
    """The provider that writes summaries; None means the provider of the run."""
    notes: tuple[Body, ...] = ()
    """Notes that must be recorded before the first effect of the run."""
    resolvers: tuple[Placed, ...] = ()
    """Resolvers of the dynamic parts."""
    package_change: str = "continue"
    """What happens if a resolver returns another value after a restart than it did before."""
    skills: Skills = field(default_factory=Skills)
    """All skills that the model can load."""
    deps: object = None
    """The dependencies of the run, for the contexts of its tools."""
    output: OutputType | None = None
    """The type and the validators of the output, beyond its schema."""
    unstepped: "Binding | None" = None
    """The binding without the parts that are valid for one step only."""
    window: int | None = None
    """Context window of the provider in tokens, set by the application; None asks the provider."""
    summary_window: int | None = None
    """The same, for the provider that writes summaries."""
    on_compaction: Callable[[], Sequence[ModelMessage]] | None = None
    """Returns messages of the application that follow the summary, after those of tools."""
    prices: OwnPrices = ()
    """Prices that the application gives."""
    is_batched: bool = False
    """Whether model calls are items of batches, where the provider has them."""
    _definitions: dict[bool, tuple[JsonObject, ...]] = field(
        default_factory=dict[bool, tuple[JsonObject, ...]], init=False, repr=False, compare=False
    )
    """Tool definitions that were made, by whether a person can be asked. `replace` drops them."""
    _tariffs: dict[str | None, Tariff] = field(
        default_factory=dict[str | None, Tariff], init=False, repr=False, compare=False
    )
    """Prices of models that were looked up, by fallback. `replace` drops them."""
    _rules: dict[int | None, tuple[Rules, Rules]] = field(
        default_factory=dict[int | None, tuple[Rules, Rules]], init=False, repr=False, compare=False
    )
    """The rules that `rules_from` was given and returned last, by context window. `replace` drops them."""

    def rules_from(self, rules: Rules) -> Rules:
        """Return the rules with the limits, hooks and sinks of the package applied."""
        window = self.window or window_tokens(self.provider)
        source, made = self._rules.get(window, (None, rules))
        if source is not rules:
            sinks = tuple(check_sink(spec) for spec in self.package.output_sinks or ())
            definitions = self.definitions(can_ask=True)
            compaction = compaction_rule(self.package, window, definitions=definitions)
            made = replace(
                rules,
                has_jobs=self.has_jobs,
                waits_for_jobs=bool(self.package.waits_for_jobs),
                hook_points=self.hooks.points,
                sinks=sinks,
                compaction=compaction,
                retry_for_ms=retry_for_ms(self.package, rules.retry_for_ms),
                fallbacks=tuple(self.fallbacks),
            )
            self._rules.clear()
            self._rules[window] = rules, made
        return made

    def provider_for(self, model_id: str | None) -> LLMProvider:
        """Return the provider of the next model call; `model_id` names a fallback."""
        return self.provider if model_id is None else self.fallbacks.get(model_id, self.provider)

    def route_for(self, model_id: str | None) -> str:
        """Return the route of the next model call; `model_id` names a fallback."""
        if model_id is None or model_id not in self.fallbacks:
            return self.package.provider_route.route_id
        return model_id.partition("/")[0]

    def is_batched_by(self, model_id: str | None) -> bool:
        """Whether the next model call is an item of a batch; `model_id` names a fallback."""
        return self.is_batched and isinstance(self.provider_for(model_id), BatchProvider)

    def tariff_for(self, model_id: str | None) -> Tariff:
        """Return the prices of the next model call; `model_id` names a fallback."""
        tariff = self._tariffs.get(model_id)
        if tariff is None:
            route = self.package.provider_route
            route_id, name = route.route_id, route.model_id
            if model_id is not None and model_id in self.fallbacks:
                route_id, _, name = model_id.partition("/")
            tariff = tariff_of(self.provider_for(model_id), route_id, name, self.prices)
            tariff = replace(tariff, is_batched=self.is_batched_by(model_id))
            self._tariffs[model_id] = tariff
        return tariff

    def terms(self, at: datetime, *, is_priced: bool = True) -> dict[str | None, ModelTerms]:
        """Return the most that a call of each model can cost.

        Models without a price are left out; if nothing is priced, all are free.
        """
        terms: dict[str | None, ModelTerms] = {}
        for model_id in (None, *self.fallbacks):
            model_terms = self._terms_of(model_id, at, is_priced=is_priced)
            if model_terms is not None:
                terms[model_id] = model_terms
        return terms

    def _terms_of(self, model_id: str | None, at: datetime, *, is_priced: bool) -> ModelTerms | None:
        provider = self.provider_for(model_id)
        return self.tariff_for(model_id).terms(at, provider) if is_priced else free_terms(provider)

    def summary_terms(self, at: datetime, *, is_priced: bool) -> ModelTerms | None:
        """Return the most that a summary can cost; None if its model has no price."""
        provider = self.summary_provider
        return self.summary_tariff.terms(at, provider) if is_priced else free_terms(provider)

    @property
    def summary_tariff(self) -> Tariff:
        """The prices of the model that writes summaries."""
        route = compaction_route(self.package) or self.package.provider_route
        return tariff_of(self.summary_provider, route.route_id, route.model_id, self.prices)

    @property
    def summary_route(self) -> str:
        """The route of the model that writes summaries."""
        return (compaction_route(self.package) or self.package.provider_route).route_id

    @property
    def summary_provider(self) -> LLMProvider:
        """The provider that writes summaries."""
        return self.summarises or self.provider

    @property
    def summary_model_id(self) -> str:
        """The model of summaries, as recorded."""
        return summary_model(self.package)

    @property
    def has_jobs(self) -> bool:
        """Whether the agent has work in the background."""
        return any(tool.is_background for tool in self.tools.values())

    @property
    def instructions(self) -> str:
        """The system prompt of the agent."""
        return self.package.agent.instructions or ""

    def version_for(self, tool: Tool[..., object], arguments: JsonObject) -> str:
        """Return the version that consent to a call is bound to.

        It covers the rules; the definition, if the tool comes from an MCP server or a resolver; the key of
        the arguments, if the tool has an approval key; and all arguments, if it runs shell commands.
        """
        pin, key = tool.metadata.get(PIN), tool.approval_key
        bound = [] if pin is None else [str(pin)]
        if key is not None:
            bound.append(f"key:{key(arguments)}")
        if tool.is_shell:
            bound.append(f"exact:{arguments_hash(arguments)}")
        if not bound:
            return self.policy.version
        digest = sha256("\n".join(bound).encode()).hexdigest()
        return f"{self.policy.version}+{digest[:32]}"

    def is_direct(self, name: str) -> bool:
        """Whether the model may call a tool itself, not only in programs."""
        if "code" not in (self.package.programs or ()):
            return True
        tool = self.tools.get(name)
        return tool is None or tool.use != "code" or tool.is_question or tool.program is not None

    def definitions(self, *, can_ask: bool) -> list[JsonObject]:
        """Return tool definitions for the model; question tools only if a person can be asked.

        The definitions are the caller's, the schemas in them are shared with other runs.
        """
        if can_ask not in self._definitions:
            tools: list[JsonObject] = [
                definition_of(spec)
                for spec in self.package.tools or ()
                if (tool := self.tools.get(spec.name)) is not None and (can_ask or not tool.is_question)
            ]
            below = (self.tools[spec.name].definition for spec in self.package.subagents or ())
            direct = [
                definition for definition in (*tools, *below) if self.is_direct(str(definition["name"]))
            ]
            programs = [self.tools[PROGRAM_TOOLS[kind]].definition for kind in self.package.programs or ()]
            self._definitions[can_ask] = (*direct, *programs)
        return [{**definition} for definition in self._definitions[can_ask]]


async def load_prices() -> None:
    """Import the price table in a thread: it would hold up the event loop."""
    if is_table_missing():
        await in_masking_thread(load_table)


class Binder(Protocol):
    """Finds the binding of a run in this process."""

    async def __call__(self, run: RunState) -> Binding | None:
        """Return the binding of a run; None if this process does not have its agent.

        Raises:
            Rejected: the run can never go on here.
            Unavailable: a dependency cannot be reached now; try again.
        """
        ...
