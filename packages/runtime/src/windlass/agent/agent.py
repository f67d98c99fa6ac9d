"""Agent: its options, output contract, subagents and sinks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, field, replace
from functools import lru_cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    Never,
    TypeAlias,
    cast,
    get_args,
    get_origin,
    overload,
)

from pydantic import Field, JsonValue, PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema

import windlass
from windlass.agent.dynamic import Dynamic, Placed, Resolver, words_of
from windlass.agent.hooks import LIVE_EVENTS, EventHook, Hook, check_hook
from windlass.agent.output import OutputValidator, deps_type, schema_hash, takes_context_and_output
from windlass.agent.sandbox import Bubblewrap, NoSandbox
from windlass.agent.script import run_sync
from windlass.agent.skills import Skill, Skills
from windlass.errors import check_name, check_text, check_whole, kind_of, wrong
from windlass.limits import (
    DESCRIPTION_CHARS_MAX,
    HOOKS_PER_AGENT_MAX,
    INSTRUCTIONS_CHARS_MAX,
    NAME_CHARS_MAX,
    OUTPUT_VALIDATORS_MAX,
    RECEIPT_BYTES_MAX,
    RESOLVERS_PER_AGENT_MAX,
    SINKS_PER_AGENT_MAX,
    SUBAGENT_LEVELS_MAX,
    SUBAGENTS_MAX,
    TOOLS_PER_AGENT_MAX,
    WAIT_MS_MAX,
)
from windlass.ports.model import LLMProvider
from windlass.prices import OwnPrices, PriceValue, check_prices
from windlass.tools import PROGRAM_TOOLS, ProgramKind, Tool, ToolFailed, in_background, library_tool
from windlass.tools.background import job_tools
from windlass.tools.deps import DepsFactory, DepsT, OutputT, can_provide, name_of
from windlass.tools.json_schema import schema_problem
from windlass.tools.schema import PlainSchema, plain_schema
from windlass_harness.budget import Budget
from windlass_harness.loop.rules import RECENT_MESSAGES, Dedupe, SinkRule
from windlass_harness.policy import PolicySet
from windlass_protocol import (
    CodecError,
    CodecLimits,
    EffectClass,
    JsonObject,
    ResolverPart,
    ToolMode,
    canonical,
    parse,
)
from windlass_protocol.frozen import sealed
from windlass_protocol.generated import output as output_types
from windlass_protocol.generated import packages, sessions
from windlass_protocol.limits import INTEGER_MAX

if TYPE_CHECKING:
    from windlass_protocol import HookSpec, OutputContract, OutputSinkSpec, RunResult, UserContent


def output_contract(output: object, name: str) -> OutputContract:
    """Return the contract for an output; `name` is for a schema without a name.

    Raises:
        Rejected: it is not a JSON Schema, or a type without one.
    """
    if isinstance(output, output_types.OutputContract):
        return output
    if isinstance(output, Mapping):
        schema = cast(JsonObject, dict(cast(Mapping[str, object], output)))
        schema_name = schema.get("$id") or schema.get("title")
        return _contract(schema_name if isinstance(schema_name, str) else name, schema)
    return _contract(getattr(output, "__name__", name), _schema_of(output))


def output_type_of(output: object) -> type[object] | None:
    """Return the type of an output; None if it is text, or JSON of a schema."""
    is_data = output is None or isinstance(output, Mapping | output_types.OutputContract)
    return None if is_data else cast(type[object], output)


def _contract(schema_id: str, schema: JsonObject) -> OutputContract:
    first = output_types.SchemaVersion.model_construct(major=1, minor=0, patch=0)
    return output_types.OutputContract.model_validate(
        {
            "schema_id": schema_id,
            "schema_version": first,
            "schema": schema,
            "content_hash": schema_hash(schema),
        }
    )


def _schema_of(output: object) -> JsonObject:
    schema: JsonObject = {}
    try:
        if not isinstance(output, str | bytes):
            # pydantic would evaluate a string as the name of a type.
            schema = TypeAdapter(cast(type[object], output)).json_schema(schema_generator=PlainSchema)
    except (PydanticUserError, PydanticInvalidForJsonSchema, TypeError):
        schema = {}
    if not schema:
        raise wrong(
            f"output must be a model, a dataclass, a JSON Schema or an OutputContract, "
            f"found {_type_name(output)}"
        )
    return plain_schema(schema)


def _type_name(output: object) -> str:
    return getattr(output, "__name__", type(output).__name__)


_ATTACHED: Final = "Files that people attach to a message are in the folder attachments of the workspace."
MESSAGE_CHARS_MAX: Final = 100_000
"""Characters of the message to a subagent."""
ITSELF: Final = ""
"""Stands for the package of the calling agent."""
_KNOWN_MAX: Final = 1_024
_WORDS: Final = (
    'You are the subagent "{name}".\n'
    "{description}\n"
    "The caller delegated the following task to you. Complete it and return the final result directly.\n\n"
    "Caller message:\n{message}"
)
_HERE: Final = (
    "Delegate a piece of work to a copy of yourself, which has your tools but knows nothing of this "
    "conversation. Say all that it has to know; its answer is the result. Calls that you make at once are "
    "worked on side by side."
)

Message = Annotated[str, Field(min_length=1, max_length=MESSAGE_CHARS_MAX)]


async def _delegate(message: Message, *, output_schema: dict[str, JsonValue] | None = None) -> JsonValue:
    """Delegate a task to a subagent.

    Args:
        message: The task, with all that is needed to do it: nothing else of this conversation is known there.
        output_schema: A JSON Schema that the result must fit, if it has to be data.
    """
    raise ToolFailed("a subagent tool needs a runtime and cannot be called directly")


@lru_cache(_KNOWN_MAX)
def subagent_tool(
    name: str, description: str, *, package_id: str, is_background: bool = False
) -> Tool[..., object]:
    """Return the tool that stands for a subagent.

    The call itself has mode read: the policy decides about each call of the subagent.
    """
    text = description or f"Give work to the agent {name}."
    effect = EffectClass.IDEMPOTENT
    tool = library_tool(_delegate, name=name, description=text, mode=ToolMode.READ, effect=effect)
    tool = replace(tool, delegates=package_id)
    return in_background(tool) if is_background else tool


Output: TypeAlias = type | Mapping[str, object] | output_types.OutputContract
"""A type that pydantic supports (a model, a dataclass, list[int]), a JSON Schema or an OutputContract."""
agent_tool: Final[Tool[..., object]] = subagent_tool("agent", _HERE, package_id=ITSELF)
"""Lets a model delegate to a copy of itself in a new session; add it to the tools of an agent."""


def subagent_words(name: str, description: str | None, *, message: str) -> str:
    """Return the first message of a subagent."""
    about = f"Description: {description}\n" if description else ""
    return _WORDS.format(name=name, description=about, message=message)


_RECEIPT = CodecLimits(message_bytes_max=RECEIPT_BYTES_MAX)


def check_sink(spec: OutputSinkSpec) -> SinkRule:
    """Return the rule of a sink for the loop.

    Raises:
        Rejected: the dedupe policy is unknown.
    """
    try:
        return SinkRule(spec.sink_id, Dedupe(spec.dedupe_policy or Dedupe.RUN))
    except ValueError:
        names = ", ".join(member.value for member in Dedupe)
    raise wrong(
        f"output sink {spec.sink_id}: dedupe_policy must be one of {names}; found {spec.dedupe_policy!r}"
    )


def receipt_of(receipt: object) -> JsonObject | None:
    """Return a receipt as it is recorded; None if it is not an object, or too large.

    The delivery has happened, so a bad receipt is not a failure.
    """
    if not isinstance(receipt, dict):
        return None
    try:
        return cast(JsonObject, parse(canonical(cast(JsonObject, receipt), _RECEIPT), _RECEIPT))
    except CodecError:
        return None


BatchWindow = Literal["within 24h"]
"""When the calls of a batch are answered: all providers of batches promise one day."""
BatchChoice = Literal["within 24h", "off"]
"""Whether the model calls of a run are items of batches, whatever its agent says."""
TEMPERATURE_MAX: Final = 2.0
MODELS_PER_AGENT_MAX: Final = 8
OBJECT_ROUTE: Final = "object"
"""The route of a model that is an object and does not name one."""
WORKFLOW_ROUTE: Final = "workflow"
"""The route of workflows: their model is written by rules, and reads the message as the argument."""
NO_DEPS: Final = cast("type[object]", None)
"""None; the type `object` for type checkers, which then refuse a tool with dependencies in such an agent."""


@sealed(eq=False)
class Agent(Generic[DepsT, OutputT]):
    """An agent: model, instructions, tools, policy and limits.

    `model` is a string such as `provider/model`, or any object with the `stream` of an LLMProvider; such an
    object may have a `route_id` and a `model_id` for records. Lists become tuples. Without a policy the
    default policy
    applies: declared reads and safe writes are allowed, all other calls ask. Subagents are tools that take a
    message; each call is a separate run, under the stricter policy of both agents and a share of the
    remaining budget. The prompt of an agent with skills lists them after the instructions, and the agent gets
    the tool `load_skill`; a skill that is only a name is loaded by the host application. Instructions may be
    a function, and tools and skills may contain `dynamic` parts, see `dynamic.py`. An output that its
    type or an output validator refuses goes back to the model, with the message of the refusal.

    `Agent[Deps, Output]` has two types: `deps` is the type of the object that its tools get as `ctx.deps`, or
    a function of a RunInfo that makes the object; `output` is the type of `result.output`.

    Raises:
        Rejected: a part cannot be used; the message says which and what to write.
    """

    name: str
    _: KW_ONLY
    model: str | LLMProvider | Sequence[str | LLMProvider]
    """The model; of several, each is called when the one before is away or refuses the account."""
    instructions: str | Dynamic | Resolver = ""
    description: str = ""
    version: str | None = None
    tools: Sequence[Tool[..., object, DepsT] | Dynamic] = field(default_factory=tuple[Dynamic, ...])
    subagents: Sequence[AnyAgent] = ()
    """Agents that it may call; `Background(agent)` is one that it does not wait for."""
    policy: PolicySet = field(default_factory=PolicySet)
    budget: Budget | None = None
    output: type[OutputT] | Mapping[str, object] | output_types.OutputContract | None = None
    output_validators: Sequence[OutputValidator[DepsT, OutputT]] = field(default_factory=tuple[Never, ...])
    """Functions of an OutputContext and the output, which check it and return it; called in order."""
    # The default holds for agents without dependencies alone: a caller who leaves it out has none.
    deps: type[DepsT] | DepsFactory[DepsT] | None = NO_DEPS  # pyright: ignore[reportAssignmentType]
    """The type of the dependencies, or a function that makes them."""
    hooks: Sequence[Hook | EventHook | packages.HookSpec] = ()
    output_sinks: Sequence[packages.OutputSinkSpec] = ()
    skills: Sequence[str | Skill | Dynamic] | Skills = ()
    compaction: sessions.CompactionConfig | int | None = None
    """Compaction of the history: a number of tokens, or a CompactionConfig."""
    compaction_model: str | LLMProvider | None = None
    """Writes the summaries; the model of the agent when left out."""
    prices: Mapping[str, PriceValue] | None = None
    """Prices by the names of models, with wildcards, before those of the runtime and of the price table.

    The first name that matches counts: `{"ollama/*": 0, "gpt-4o*": "openai", "ours": ModelPrice(0.5, 2)}`.
    """
    temperature: float | None = None
    retry_for_ms: int | None = None
    """How long model calls are retried while the provider is away; the runtime's setting when left out."""
    batch: BatchWindow | None = None
    """When model calls are answered: at once, or "within 24h" as items of batches, at a lower price."""
    code_mode: bool | Literal["session"] = False
    """Whether the model calls tools and subagents from Python programs, with the tool `run_code`.

    With "session", variables of a program live for the session, otherwise for the program.
    """
    workflow: bool = False
    """Whether the model may write programs that call subagents, with the tool `run_workflow`."""
    wait_for_jobs: bool = False
    """Whether a run ends only after its jobs; the run of a task always does."""
    is_background: bool = False
    """Whether an agent that has it as a subagent goes on while it works; `Background` sets it."""
    sandbox: Bubblewrap | NoSandbox | packages.SandboxSpec | None = None
    """Where the commands and files of a session live; a subagent without one shares that of its caller."""

    def __post_init__(self) -> None:
        check_name(self.name, "an agent")
        where = f"agent {self.name}"
        if isinstance(self.model, list | tuple):
            check_count(len(self.model), MODELS_PER_AGENT_MAX, f"{where}: model")
            if not self.model:
                raise wrong(f"{where}: model must not be an empty list")
            object.__setattr__(self, "model", tuple(self.model))
        for model in (self.first_model, *self.fallback_models):
            _check_model(model, f"{where}: model")
        check_unique(["/".join(route) for route in (self.route, *self.fallback_routes)], f"{where}: model")
        if self.compaction_model is not None:
            _check_model(self.compaction_model, f"{where}: compaction_model")
        object.__setattr__(self, "instructions", words_of(self.instructions, where))
        check_text(self.description, f"{where}: the description", chars_max=DESCRIPTION_CHARS_MAX)
        if self.version is not None:
            check_text(self.version, f"{where}: the version", chars_max=NAME_CHARS_MAX)
        self._take_lists(where)
        self._check_names(where)
        check_text(self.prompt, f"{where}: instructions and skills", chars_max=INSTRUCTIONS_CHARS_MAX)
        self._check_parts(where)
        self._check_deps(where)
        if self.output_validators and self.output is None:
            raise wrong(f"{where}: output_validators check an output; write Agent(…, output=Type) as well")
        if self.output is not None:
            _check_output(output_contract(self.output, self.name), self.output, where=where)

    @property
    def agent_id(self) -> str:
        """The id of the agent in records."""
        return self.name

    @property
    def route(self) -> tuple[str, str]:
        """The route of the model: provider and model."""
        return _route_of(self.first_model)

    @property
    def first_model(self) -> str | LLMProvider:
        """The model that is called first."""
        return self._models[0]

    @property
    def fallback_models(self) -> tuple[str | LLMProvider, ...]:
        """The models that are called when the first one is away, in order."""
        return self._models[1:]

    @property
    def fallback_routes(self) -> tuple[tuple[str, str], ...]:
        """The routes of the fallback models."""
        return tuple(_route_of(model) for model in self.fallback_models)

    @property
    def _models(self) -> tuple[str | LLMProvider, ...]:
        model = self.model
        if isinstance(model, list | tuple):
            return tuple(cast("Sequence[str | LLMProvider]", model))
        return (cast("str | LLMProvider", model),)

    @property
    def compaction_route(self) -> tuple[str, str] | None:
        """The route of the summary model; None for the model of the agent."""
        return None if self.compaction_model is None else _route_of(self.compaction_model)

    @property
    def own_prices(self) -> OwnPrices:
        """The prices of models that the agent has."""
        return () if self.prices is None else check_prices(self.prices, f"agent {self.name}: prices")

    @property
    def contract(self) -> OutputContract | None:
        """The output contract of the agent."""
        return None if self.output is None else output_contract(self.output, self.name)

    @property
    def loaded_skills(self) -> Skills:
        """The loaded skills, without those that are only names."""
        return Skills(*(skill for skill in self.skills if isinstance(skill, Skill)))

    @property
    def offered_tools(self) -> tuple[Tool[..., object], ...]:
        """The tools for the model: the agent's tools, those for jobs, and `load_skill`."""
        skills = self.loaded_skills
        own_tools = tuple(tool for tool in self.tools if isinstance(tool, Tool))
        tools = cast("tuple[Tool[..., object], ...]", own_tools)
        if any(part.is_background for part in (*tools, *self.subagents)):
            tools = (*tools, *job_tools)
        has_skills = len(skills) or any(isinstance(skill, Dynamic) for skill in self.skills)
        return (*tools, skills.tool) if has_skills else tools

    @property
    def call_names(self) -> tuple[str, ...]:
        """The names of what can be called, apart from the tools of resolvers: tools, subagents, undos."""
        undo = {tool.undo.name: tool.undo for tool in self.offered_tools if tool.undo is not None}
        return (
            *(tool.name for tool in self.offered_tools),
            *(agent.name for agent in self.subagents),
            *undo,
            *(PROGRAM_TOOLS[kind] for kind in self.programs),
        )

    @property
    def resolvers(self) -> tuple[Placed, ...]:
        """The dynamic parts of the agent."""
        instructions = [self.instructions] if isinstance(self.instructions, Dynamic) else []
        return (
            *(Placed(ResolverPart.INSTRUCTIONS, part) for part in instructions),
            *(Placed(ResolverPart.TOOLS, part) for part in self.tools if isinstance(part, Dynamic)),
            *(Placed(ResolverPart.SKILLS, part) for part in self.skills if isinstance(part, Dynamic)),
        )

    @property
    def prompt(self) -> str:
        """The static system prompt: instructions and skills.

        The values of resolvers are added in a run.
        """
        instructions = self.instructions if isinstance(self.instructions, str) else ""
        files = "" if self.sandbox is None else _ATTACHED
        return "\n\n".join(part for part in (instructions, self.loaded_skills.words, files) if part)

    @property
    def skill_refs(self) -> tuple[str, ...]:
        """The skills as data: names, with the hashes of loaded ones."""
        static_skills = (skill for skill in self.skills if not isinstance(skill, Dynamic))
        return tuple(skill.ref if isinstance(skill, Skill) else skill for skill in static_skills)

    @property
    def programs(self) -> tuple[ProgramKind, ...]:
        """The kinds of programs that the model may write."""
        kinds: tuple[tuple[ProgramKind, bool], ...] = (
            ("code", bool(self.code_mode)),
            ("workflow", self.workflow),
        )
        return tuple(kind for kind, is_on in kinds if is_on)

    @property
    def sandbox_spec(self) -> packages.SandboxSpec | None:
        """The sandbox as data."""
        sandbox = self.sandbox
        return sandbox if sandbox is None or isinstance(sandbox, packages.SandboxSpec) else sandbox.spec

    @property
    def has_sandbox(self) -> bool:
        """Whether the agent or a subagent of it has a sandbox."""
        return self.sandbox is not None or any(agent.has_sandbox for agent in self.subagents)

    @property
    def writes_programs(self) -> bool:
        """Whether the agent or a subagent of it has programs."""
        return bool(self.programs) or any(agent.writes_programs for agent in self.subagents)

    @property
    def hook_specs(self) -> tuple[HookSpec, ...]:
        """The hooks as data, without event hooks: they cannot change a run."""
        points = (hook for hook in self.hooks if not isinstance(hook, EventHook))
        return tuple(hook.spec if isinstance(hook, Hook) else hook for hook in points)

    @property
    def event_hooks(self) -> tuple[EventHook, ...]:
        """The hooks on events, in the order in which they are called."""
        return tuple(hook for hook in self.hooks if isinstance(hook, EventHook))

    @property
    def levels(self) -> int:
        """Depth of nested subagents, this agent included."""
        return 1 + max((agent.levels for agent in self.subagents), default=0)

    @overload
    async def run(
        self: Agent[DepsT, str],
        message: UserContent,
        *,
        deps: DepsT | None = None,
        providers: Mapping[str, LLMProvider] | None = None,
    ) -> RunResult: ...
    @overload
    async def run(
        self,
        message: UserContent,
        *,
        deps: DepsT | None = None,
        providers: Mapping[str, LLMProvider] | None = None,
    ) -> windlass.TypedResult[OutputT]: ...
    async def run(
        self,
        message: UserContent,
        *,
        deps: DepsT | None = None,
        providers: Mapping[str, LLMProvider] | None = None,
    ) -> RunResult | windlass.TypedResult[OutputT]:
        """Run the agent once, in memory, and return the result.

        With a type as its `output`, `result.output` is a value of that type. A failed run has a result too:
        its `status` is not completed, its `error` holds the reason, and a warning is logged. No person can be
        asked, so calls that need approval are denied. A provider that is away is tried a few times, unless
        the agent has a `retry_for_ms`. For a durable run, with events and approvals, open an AgentRuntime.

        Raises:
            Rejected: the agent needs dependencies, and `deps` is left out.
            Unavailable: the model is a string, and `providers` has no provider for its route.
        """
        # Imported through the package on first use: the runtime itself imports this module.
        runtime = windlass.AgentRuntime.in_memory(
            [self], providers=providers or {}, is_attended=False, retry_for_ms=0
        )
        async with runtime:
            return await (await runtime.start_run(self, message, deps=deps)).wait()

    @overload
    def run_sync(
        self: Agent[DepsT, str],
        message: UserContent,
        *,
        deps: DepsT | None = None,
        providers: Mapping[str, LLMProvider] | None = None,
    ) -> RunResult: ...
    @overload
    def run_sync(
        self,
        message: UserContent,
        *,
        deps: DepsT | None = None,
        providers: Mapping[str, LLMProvider] | None = None,
    ) -> windlass.TypedResult[OutputT]: ...
    def run_sync(
        self,
        message: UserContent,
        *,
        deps: DepsT | None = None,
        providers: Mapping[str, LLMProvider] | None = None,
    ) -> RunResult | windlass.TypedResult[OutputT]:
        """Run the agent once, as `run` does, from a program without an event loop.

        Raises:
            Rejected: as for `run`. Or an event loop is running already; use `await agent.run(…)` there. Or a
                server or a command imports the module for its agents.
            Unavailable: as for `run`.
        """
        return run_sync(self.run(message, deps=deps, providers=providers))

    def with_model(
        self,
        model: str | LLMProvider | Sequence[str | LLMProvider],
        *,
        subagents: Mapping[str, str | LLMProvider | Sequence[str | LLMProvider]] | None = None,
    ) -> Agent[DepsT, OutputT]:
        """Return a copy with another model, for tests and comparisons.

        `subagents` has the models of subagents by name, at any level; the others keep theirs.

        Raises:
            Rejected: the model cannot be used, or there is no subagent of a name.
        """
        models = dict(subagents or {})
        check_named_below(self, models)
        return self.with_parts(model, tuple(with_models(subagent, models) for subagent in self.subagents))

    def with_parts(
        self, model: str | LLMProvider | Sequence[str | LLMProvider], subagents: Sequence[AnyAgent]
    ) -> Agent[DepsT, OutputT]:
        """Return a copy with another model and other subagents."""
        return replace(self, model=model, subagents=subagents)

    def message_of(self, value: object) -> object:
        """Return the message of a run for a value that a start was given: the value itself."""
        return value

    def tool(self, name: str) -> Tool[..., object] | None:
        """Return the tool of exactly this name."""
        return next((tool for tool in self.offered_tools if tool.name == name), None)

    def _take_lists(self, where: str) -> None:
        if isinstance(self.skills, Skills):
            object.__setattr__(self, "skills", tuple(self.skills))
        # Called for lists with items alone: few agents have hooks or sinks.
        kinds: tuple[tuple[str, Callable[[], tuple[type, ...]], str], ...] = (
            ("tools", lambda: (Tool, Dynamic), "functions with @tool"),
            ("subagents", lambda: (Agent,), "agents"),
            ("hooks", lambda: (packages.HookSpec, Hook, EventHook), "functions with @hook or @on_event"),
            ("output_sinks", lambda: (packages.OutputSinkSpec,), "output sinks"),
            ("skills", lambda: (str, Skill, Dynamic), "skills or names of skills"),
        )
        for name, kind, expected in kinds:
            items = _items(getattr(self, name), f"{where}: {name}", expected)
            for at, item in enumerate(items):
                if not isinstance(item, kind()):
                    raise wrong(f"{where}: {name} must be {expected}; number {at} is {kind_of(item)}")
            object.__setattr__(self, name, items)
        validators = _items(self.output_validators, f"{where}: output_validators", "functions")
        for validator in validators:
            if not callable(validator) or isinstance(validator, type):
                raise wrong(
                    f"{where}: output_validators must be functions of an OutputContext and the output, found "
                    f"{kind_of(validator)}"
                )
            if not takes_context_and_output(validator):
                raise wrong(
                    f"{where}: output validator {_type_name(validator)} must take two parameters, an "
                    "OutputContext and the output"
                )
        object.__setattr__(self, "output_validators", validators)

    def _check_names(self, where: str) -> None:
        check_unique([ref.partition("@")[0] for ref in self.skill_refs], f"{where}: skills")
        check_unique(self.call_names, f"{where}: tools and subagents")
        hooks = (*self.hook_specs, *self.event_hooks)
        check_unique([hook.hook_id for hook in hooks], f"{where}: hooks")
        check_unique([resolver.dynamic.name for resolver in self.resolvers], f"{where}: resolvers")
        check_count(len(self.resolvers), RESOLVERS_PER_AGENT_MAX, f"{where}: resolvers")
        check_unique([sink.sink_id for sink in self.output_sinks], f"{where}: output sinks")
        check_count(len(self.offered_tools), TOOLS_PER_AGENT_MAX, f"{where}: tools")
        check_count(len(self.hooks), HOOKS_PER_AGENT_MAX, f"{where}: hooks")
        check_count(len(self.output_validators), OUTPUT_VALIDATORS_MAX, f"{where}: output_validators")
        check_count(len(self.output_sinks), SINKS_PER_AGENT_MAX, f"{where}: output sinks")
        check_count(len(self.subagents), SUBAGENTS_MAX, f"{where}: subagents")
        check_count(self.levels, SUBAGENT_LEVELS_MAX, f"{where}: levels of subagents")

    @property
    def deps_factory(self) -> DepsFactory[object] | None:
        """The function that makes the dependencies; None if the agent has none, or names their type alone."""
        deps = cast(object, self.deps)
        is_type = deps is None or isinstance(deps, type) or get_origin(deps) is not None
        return None if is_type else cast(DepsFactory[object], deps)

    @property
    def output_type(self) -> type[object] | None:
        """The type of the output; None if the output is text, or JSON of a schema."""
        return output_type_of(self.output)

    def _check_deps(self, where: str) -> None:
        deps = cast(object, self.deps)
        if deps is not None and not callable(deps):
            raise wrong(
                f"{where}: deps must be a type, or a function of a RunInfo that makes the dependencies, "
                f"found {kind_of(deps)}"
            )
        for tool in self.tools:
            if isinstance(tool, Tool):
                check_tool_deps(cast("Tool[..., object]", tool), deps, where=where)
        for validator in self.output_validators:
            what = f"{where}: output validator {_type_name(validator)}"
            _check_fits(what, "OutputContext", deps_type(validator), deps=deps)

    def _check_parts(self, where: str) -> None:
        _check_type(self.policy, PolicySet, f"{where}: policy")
        if self.code_mode != "session":
            _check_type(self.code_mode, bool, f'{where}: code_mode is "session" or')
        _check_type(self.workflow, bool, f"{where}: workflow")
        _check_type(self.wait_for_jobs, bool, f"{where}: wait_for_jobs")
        _check_type(self.is_background, bool, f"{where}: is_background")
        if self.budget is not None:
            _check_type(self.budget, Budget, f"{where}: budget")
        if self.sandbox is not None:
            _check_sandbox(self.sandbox, where)
        object.__setattr__(self, "compaction", _compaction(self.compaction, f"{where}: compaction"))
        if cast(object, self.batch) not in (None, *get_args(BatchWindow)):
            raise wrong(f'{where}: batch must be "within 24h", found {self.batch!r}')
        if self.retry_for_ms not in (None, 0):
            check_whole(self.retry_for_ms, f"{where}: retry_for_ms", most=WAIT_MS_MAX)
        check_prices(self.prices or {}, f"{where}: prices")
        for spec in self.hook_specs:
            check_hook(spec)
        for event_hook in self.event_hooks:
            _check_recorded(event_hook, where)
        for sink in self.output_sinks:
            check_sink(sink)
        if self.temperature is not None and not _is_temperature(self.temperature):
            raise wrong(
                f"{where}: temperature must be a number from 0 to {TEMPERATURE_MAX:g}, "
                f"found {self.temperature!r}"
            )


def Background(agent: Agent[DepsT, OutputT]) -> Agent[DepsT, OutputT]:  # noqa: N802 - a kind of subagent
    """Return an agent as a subagent that its caller does not wait for: `subagents=[Background(researcher)]`.

    A call is answered at once with a job, and the caller goes on. The result joins its next model call, or
    begins a turn of its session.

    Raises:
        Rejected: it is no agent.
    """
    _check_type(agent, Agent, "a subagent in the background")
    background = copy(agent)
    object.__setattr__(background, "is_background", True)
    return background


def check_tool_deps(tool: Tool[..., object], deps: object, *, where: str) -> None:
    """Refuse a tool that needs other dependencies than `deps`, a type or a factory; None stands for none.

    Raises:
        Rejected: the tool, or the tool that reverses its calls, takes a ToolContext of another type.
    """
    for part in (tool, tool.undo):
        if part is not None:
            _check_fits(f"{where}: tool {part.name}", "ToolContext", part.shape.signature.deps, deps=deps)


def _check_fits(what: str, context: str, needed: object, *, deps: object) -> None:
    if needed in (None, object, Any):
        return
    takes = f"{what} takes {context}[{name_of(needed)}]"
    if deps is None:
        raise wrong(f"{takes}, and the agent has no dependencies; write Agent(…, deps={name_of(needed)})")
    if not can_provide(deps, needed):
        raise wrong(f"{takes}, and the dependencies of the agent are {name_of(deps)}")


AnyAgent: TypeAlias = Agent[Never, object]
"""An agent with any dependencies and any output."""


def check_named_below(agent: AnyAgent, models: Mapping[str, object]) -> None:
    """Refuse models of agents that an agent does not have as subagents, at any level.

    Raises:
        Rejected: a name is unknown.
    """
    unknown = models.keys() - _names_below(agent)
    if unknown:
        raise wrong(f"agent {agent.name}: no subagent is named {', '.join(sorted(unknown))}")


def _names_below(agent: AnyAgent) -> set[str]:
    return {name for subagent in agent.subagents for name in (subagent.name, *_names_below(subagent))}


def with_models(
    agent: AnyAgent, models: Mapping[str, str | LLMProvider | Sequence[str | LLMProvider]]
) -> AnyAgent:
    """Return an agent with other models, by the names of itself and its subagents at any level."""
    below = tuple(with_models(subagent, models) for subagent in agent.subagents)
    return agent.with_parts(models.get(agent.name, agent.model), below)


def _check_recorded(hook: EventHook, where: str) -> None:
    live = [kind for kind in hook.types if kind in LIVE_EVENTS]
    if live:
        raise wrong(
            f"{where}: hook {hook.hook_id}: {', '.join(live)} is live only and not recorded; "
            "read it with runtime.sessions.subscribe"
        )


def _compaction(value: object, where: str) -> sessions.CompactionConfig | None:
    if value is None or isinstance(value, sessions.CompactionConfig):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        threshold = check_whole(value, where, most=INTEGER_MAX)
        return sessions.CompactionConfig(threshold=threshold, recent_window_size=RECENT_MESSAGES)
    raise wrong(f"{where} must be a number of tokens or a CompactionConfig, found {kind_of(value)}")


def _route_of(model: str | LLMProvider) -> tuple[str, str]:
    if isinstance(model, str):
        provider, _, name = model.partition("/")
        return provider, name
    return (
        str(getattr(model, "route_id", None) or OBJECT_ROUTE),
        str(getattr(model, "model_id", None) or type(model).__name__),
    )


def _check_model(model: object, where: str) -> None:
    if isinstance(model, str):
        provider, slash, name = model.partition("/")
        if not (provider and slash and name) or not model.isprintable():
            raise wrong(f'{where} must be "provider/model", such as "openai/gpt-5"; found {model!r}')
    elif isinstance(model, type) or not callable(getattr(model, "stream", None)):
        raise wrong(f'{where} must be "provider/model" or an object with stream(), found {kind_of(model)}')


def _check_output(contract: OutputContract, output: object, *, where: str) -> None:
    # A schema that pydantic made is valid; the validator is slow to import.
    if not isinstance(output, Mapping | output_types.OutputContract):
        return

    problem = schema_problem(contract.json_schema)
    if problem is not None:
        raise wrong(f"{where}: output is not a usable JSON Schema: {problem}")


def _items(value: object, where: str, expected: str) -> tuple[object, ...]:
    if not isinstance(value, list | tuple):
        raise wrong(f"{where} must be a list of {expected}, found {kind_of(value)}")
    return tuple(cast(Iterable[object], value))


def check_unique(names: Sequence[str], where: str) -> None:
    """Refuse a name that is given twice."""
    earlier: set[str] = set()
    for name in names:
        if name in earlier:
            raise wrong(f"{where}: duplicate name {name}; give each its own name")
        earlier.add(name)


def check_count(count: int, most: int, where: str) -> None:
    """Refuse more items than a limit allows."""
    if count > most:
        raise wrong(f"{where}: found {count:,}, limit {most:,}")


def _check_type(value: object, kind: type, where: str) -> None:
    if not isinstance(value, kind):
        raise wrong(f"{where} must be a {kind.__name__}, found {kind_of(value)}")


def _check_sandbox(sandbox: object, where: str) -> None:
    if not isinstance(sandbox, Bubblewrap | NoSandbox | packages.SandboxSpec):
        raise wrong(
            f"{where}: sandbox must be Bubblewrap(…) or NoSandbox() of windlass.agent.sandbox, "
            f"found {kind_of(sandbox)}"
        )


def _is_temperature(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= TEMPERATURE_MAX
