"""The step function: the driver of the engine over a session of plain data, until the next step would begin.

The loop, the driver and the effects are those of `AgentRuntime`. The session takes the place of the store: a
step opens the loop that the session carries, and an append shows events.
"""

import logging
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, cast

from pydantic_core import to_json

from windlass.adapters.system import SystemClock, chance
from windlass.agent.agent import OBJECT_ROUTE, check_count, check_unique, output_contract, subagent_tool
from windlass.agent.attachments import check_parts
from windlass.agent.dynamic import Dynamic, Placed
from windlass.agent.hooks import EventHook, Hook
from windlass.agent.package import budget_limits, check_contract
from windlass.agent.policy import RulesPolicy
from windlass.agent.skills import Skills
from windlass.engine.binding import Binding
from windlass.engine.clocks import PauseClock, moment
from windlass.engine.driving.driver import Driver
from windlass.engine.driving.inbox import ANSWER, item_key
from windlass.engine.effect_context import EffectPorts
from windlass.engine.effects import Effects
from windlass.engine.hooks import BoundHook, Hooks
from windlass.engine.tool_calls.approval import maybe_await
from windlass.engine.tool_calls.subagents import Task
from windlass.engine.writing.masking import SecretInputs
from windlass.engine.writing.scribe import RedactingScribe
from windlass.engine.writing.writer import SessionWriter
from windlass.errors import Rejected, check_name, check_text, kind_of, wrong
from windlass.limits import DESCRIPTION_CHARS_MAX, HOOKS_PER_AGENT_MAX, RESOLVERS_PER_AGENT_MAX
from windlass.ports.catalog import RunRow
from windlass.ports.feed import EventBus
from windlass.ports.inbox import STEER, InboxItem
from windlass.ports.journal import Appended, Batch, Claim
from windlass.ports.model import LLMMessage, LLMProvider, LLMStreamChunk
from windlass.ports.sandbox import SandboxPlace
from windlass.runtime import rooms
from windlass.runtime.starts.packages import EffectivePackage, fingerprint_of, with_contract
from windlass.runtime.starts.start_items import session_opening, start_body
from windlass.steps.contract import (
    AgentTool,
    KeyedTool,
    StepFn,
    StepNext,
    StepResult,
    ToolLoopHarnessConfig,
)
from windlass.steps.events import Emitter
from windlass.steps.session import EPOCH, close_loop, open_loop, state_of
from windlass.tools import ProgramKind, Tool
from windlass.tools.calling import after_few_checks
from windlass.tools.json_schema import schema_problem
from windlass.tools.programs import program_tools
from windlass.tools.question import ask_question
from windlass.tools.router import ToolGates
from windlass_harness.compaction import MessageOrigin, mark
from windlass_harness.loop.events import Plan, within_limit
from windlass_harness.loop.rules import Rules
from windlass_harness.loop.subagents import REPORT, START
from windlass_harness.policy import PolicySet
from windlass_harness.record import Record, number
from windlass_harness.views.runs import RUN_ENDS, RunState
from windlass_protocol import (
    AgentSnapshot,
    ContentRef,
    ErrorKind,
    HarnessSession,
    JsonObject,
    JsonValue,
    ModelReference,
    OutputContract,
    ProviderRoute,
    RemoteAgentCallAction,
    ResolverPart,
    RetryClass,
    RunMode,
    RunRequest,
    RuntimeActionRequest,
    RuntimeActionResult,
    RuntimePackage,
    SandboxSpec,
    StepDone,
    StepInput,
    SubagentCallAction,
    SubagentSpec,
    UserMessage,
)
from windlass_protocol.generated import records

_LOG: Final = logging.getLogger(__name__)
OUTPUT_ID: Final = "output"
"""The schema id of an output schema without a name."""
_UNNAMED_AGENT: Final = "agent"
"""The agent id when the configuration names none."""
_BEGINS_STEP: Final = frozenset({"step.started", "compaction.requested"})


def create_tool_loop_harness(config: ToolLoopHarnessConfig) -> StepFn:
    """Return the step function of a configuration, on the clock of the machine unless another is given.

    Raises:
        Rejected: the configuration cannot be used; the message says what to write.
    """
    harness = _Harness(config)

    async def step(session: HarnessSession, step_input: StepInput | None = None, /) -> StepResult:
        schema = (step_input and step_input.output_schema) or session.output_schema
        if schema is not None:
            # What is found is remembered: the step itself checks it again at once.
            await after_few_checks(partial(schema_problem, schema))
        return await _Step(harness, session, step_input or StepInput()).take(again=step)

    return step


class _Harness:
    """The parts that all steps of one configuration share."""

    def __init__(self, config: ToolLoopHarnessConfig) -> None:
        _check(config)
        self.config = config
        self.clock = config.clock or SystemClock()
        self.agents = {
            name: offered for name, offered in config.tools.items() if isinstance(offered, AgentTool)
        }
        self.budget = budget_limits(config.budget)
        self.scribe = RedactingScribe(redactor=config.redactor)
        self.rules = Rules(retry=config.retry, retry_for_ms=0)
        self.agent_id = (
            _UNNAMED_AGENT if config.runtime_identity is None else config.runtime_identity.agent_id
        )
        self._policy = config.policy or RulesPolicy(PolicySet())
        own = [_tool_of(offered) for offered in config.tools.values() if not isinstance(offered, AgentTool)]
        skills = [Skills().tool] if config.dynamic_skills else []
        self._tools = [*own, ask_question, *skills]
        hooks = [config_hook for config_hook in config.hooks if isinstance(config_hook, Hook)]
        self._hook_specs = tuple(sorted((hook.spec for hook in hooks), key=lambda spec: spec.hook_id))
        self._hooks = Hooks((BoundHook(hook.spec, hook) for hook in hooks), redactor=config.redactor)
        self.event_hooks = tuple(
            config_hook for config_hook in config.hooks if isinstance(config_hook, EventHook)
        )
        self._resolvers = tuple(sorted(_resolvers(config), key=lambda resolver: resolver.dynamic.name))
        kinds: tuple[tuple[ProgramKind, bool], ...] = (
            ("code", config.code_mode),
            ("workflow", config.workflow),
        )
        self._programs: tuple[ProgramKind, ...] = tuple(kind for kind, is_on in kinds if is_on)
        self._sandbox = _sandbox(config)
        self._content = config.content or _NoContent()
        self._random = config.random or chance
        self._gates, self._secret_inputs = ToolGates(), SecretInputs()

    def effect_ports(self, emitter: Emitter) -> EffectPorts:
        """Return the shared parts of effects; an emitter replaces the event bus."""
        return EffectPorts(
            self._content,
            cast(EventBus, emitter),
            clock=self.clock,
            random=self._random,
            is_attended=self.config.capabilities.request_input is True,
            gates=self._gates,
            secret_inputs=self._secret_inputs,
            delegator=_start_no_run,
            interpreter=self.config.interpreter,
            sandbox_of=self._sandbox_of,
            session_sandboxes=rooms.session_sandboxes,
            programs=rooms.programs,
            after_chunk=emitter.flush,
        )

    def _sandbox_of(self, run: RunState, package: RuntimePackage) -> SandboxPlace | None:
        spec = package.sandbox
        return (
            None if spec is None else SandboxPlace(spec, self.config.sandboxes[spec.adapter], run.session_id)
        )

    async def check_sandbox(self) -> None:
        """Refuse a step that this machine has no sandbox for.

        Raises:
            Rejected: it cannot give it; the message says what to install.
        """
        if self._sandbox is not None:
            await self.config.sandboxes[self._sandbox.adapter].check(self._sandbox)

    def package(self, session: HarnessSession) -> RuntimePackage:
        """Return the agent of a session as a package."""
        agent, summariser = session.agent, session.agent.compaction_model_reference
        settings: JsonObject = {**(agent.model_reference.options or {})}
        settings["compaction"] = session.compaction.model_dump(mode="json")
        if summariser is not None:
            settings["compactionModel"] = _route(summariser).model_dump(mode="json", by_alias=True)
        subagents = tuple(
            SubagentSpec(
                name=name,
                package_id=agent_tool.subagent_name or name,
                description=agent_tool.description or None,
            )
            for name, agent_tool in self.agents.items()
        )
        return RuntimePackage(
            package_id=self.agent_id,
            agent=AgentSnapshot(
                agent_id=self.agent_id, name=self.agent_id, instructions=agent.system or None
            ),
            provider_route=_route(agent.model_reference).model_copy(update={"settings": settings}),
            tools=tuple(tool.spec for tool in self._tools) or None,
            subagents=subagents or None,
            hooks=self._hook_specs or None,
            resolvers=tuple(resolver.spec for resolver in self._resolvers) or None,
            programs=self._programs or None,
            sandbox=self._sandbox,
        )

    async def bind(self, session: HarnessSession) -> Binding:
        """Return the binding of a run of a session."""
        agent, package = session.agent, self.package(session)
        temperature = (agent.model_reference.options or {}).get("temperature")
        summariser = agent.compaction_model_reference
        tools = {tool.name: tool for tool in self._tools}
        for spec in package.subagents or ():
            tools[spec.name] = subagent_tool(spec.name, spec.description or "", package_id=spec.package_id)
        if self._programs:
            tools |= program_tools(self._programs, tools.values())
        return Binding(
            package,
            "",
            await self._model(agent.model_reference),
            tools=tools,
            policy=self._policy,
            rules=self.rules,
            temperature=temperature if isinstance(temperature, int | float) else None,
            redactor=self.config.redactor,
            hooks=self._hooks,
            resolvers=self._resolvers,
            summarises=None if summariser is None else await self._model(summariser),
            window=agent.model_reference.context_window_tokens,
            summary_window=(summariser or agent.model_reference).context_window_tokens,
            on_compaction=self.config.on_compaction,
        )

    async def _model(self, reference: ModelReference) -> LLMProvider:
        try:
            return await maybe_await(self.config.resolve_model(reference))
        except Exception as error:  # noqa: BLE001 - host code: an unresolved model is a failed answer
            return _NoModel(error)


def _route(reference: ModelReference) -> ProviderRoute:
    """Return the route of a model: an agent's for `provider/model`, else that of an object."""
    provider, _, name = reference.id.partition("/")
    is_named = provider and name
    return ProviderRoute(
        route_id=provider if is_named else OBJECT_ROUTE, model_id=name if is_named else reference.id
    )


def _check(config: ToolLoopHarnessConfig) -> None:
    if not isinstance(cast(object, config.code_mode), bool):
        raise wrong(
            "code_mode of steps must be True or False: steps keep no variables of programs; an Agent with "
            'code_mode="session" in an AgentRuntime does'
        )
    if (config.code_mode or config.workflow) and config.interpreter is None:
        raise wrong(
            "code_mode and workflow need an interpreter, such as MontyInterpreter() of windlass.parts"
        )
    if config.attempt < 1:
        raise wrong(f"attempt counts from 1, found {config.attempt}")
    if config.output_repairs_max < 0:
        raise wrong(f"output_repairs_max is 0 or more, found {config.output_repairs_max}")
    for name, item in config.tools.items():
        if not isinstance(cast(object, item), Tool | KeyedTool | AgentTool):
            raise wrong(
                f"tools: {name!r} must be a function with @tool, a KeyedTool or an AgentTool, found "
                f"{kind_of(item)}; dynamic parts are given in dynamic_tools"
            )
        if isinstance(item, AgentTool):
            check_text(item.description, "the description of an agent", chars_max=DESCRIPTION_CHARS_MAX)
            own = check_name(item.name, "an agent")
        else:
            own = _tool_of(item).name
        if own != name:
            raise wrong(f"tools: {name!r} names a tool with the name {own!r}; use its own name")
        if name == ask_question.name or (config.dynamic_skills and name == Skills().tool.name):
            raise wrong(f"tools: the steps have a {name} of their own; give this tool another name")
    _check_hooks(config)
    _check_dynamic(config)


def _sandbox(config: ToolLoopHarnessConfig) -> SandboxSpec | None:
    sandbox = config.sandbox
    spec = sandbox if sandbox is None or isinstance(sandbox, SandboxSpec) else sandbox.spec
    if spec is not None and spec.adapter not in config.sandboxes:
        raise wrong(
            f"the sandbox {spec.adapter} needs an adapter: sandboxes={{{spec.adapter!r}: …}}, such as "
            "BubblewrapSandboxes(folder) of windlass.parts"
        )
    return spec


def _check_hooks(config: ToolLoopHarnessConfig) -> None:
    hook_ids: list[str] = []
    for at, config_hook in enumerate(config.hooks):
        if not isinstance(cast(object, config_hook), Hook | EventHook):
            raise wrong(
                f"hooks must be functions with @hook or @on_event; number {at} is {kind_of(config_hook)}"
            )
        hook_ids.append(config_hook.spec.hook_id if isinstance(config_hook, Hook) else config_hook.hook_id)
    check_unique(hook_ids, "hooks")
    check_count(len(hook_ids), HOOKS_PER_AGENT_MAX, "hooks")


def _check_dynamic(config: ToolLoopHarnessConfig) -> None:
    placed = _resolvers(config)
    for resolver in placed:
        if not isinstance(cast(object, resolver.dynamic), Dynamic):
            kind = kind_of(resolver.dynamic)
            raise wrong(f"dynamic {resolver.part.value} must be made with dynamic(function), found {kind}")
    if placed and config.content is None:
        raise wrong(
            "dynamic parts need a content store that the next step reads, too: "
            "content=MemoryStore() or await SqliteStore.open(path), both of windlass.parts"
        )
    check_unique([resolver.dynamic.name for resolver in placed], "resolvers")
    check_count(len(placed), RESOLVERS_PER_AGENT_MAX, "resolvers")


def _resolvers(config: ToolLoopHarnessConfig) -> list[Placed]:
    instructions = () if config.dynamic_instructions is None else (config.dynamic_instructions,)
    return [
        *(Placed(ResolverPart.INSTRUCTIONS, function) for function in instructions),
        *(Placed(ResolverPart.TOOLS, function) for function in config.dynamic_tools),
        *(Placed(ResolverPart.SKILLS, function) for function in config.dynamic_skills),
    ]


def _tool_of(item: Tool[..., object] | KeyedTool) -> Tool[..., object]:
    return replace(item.tool, approval_key=item.approval_key) if isinstance(item, KeyedTool) else item


async def _start_no_run(task: Task) -> JsonObject:
    """Start no run: the driver of the steps runs the agent, as `pending_action_batch` says."""
    return {}


class _Step:
    """One step under way. It is the store of its session: an append emits events and stores nothing."""

    def __init__(self, harness: _Harness, session: HarnessSession, step_input: StepInput) -> None:
        self._harness = harness
        if step_input.message is None and step_input.context:
            context_messages = tuple(
                mark(UserMessage(content=text), MessageOrigin.CONTEXT) for text in step_input.context
            )
            session = session.model_copy(update={"history": (*session.history, *context_messages)})
        if step_input.output_schema is not None:
            session = session.model_copy(update={"output_schema": step_input.output_schema})
        self._session = session
        state = state_of(session)
        self._loop = open_loop(session, state)
        self._unknown_results: list[str] = []
        self._items = [
            # The key is the `answerId` of answers: other steps have other records before them.
            InboxItem(at, session.session_id, kind, item_key(kind, f"{self._loop.seq}.{at}"), body)
            for at, (kind, body) in enumerate(self._mail(step_input), 1)
        ]
        self._new_contract = step_input.output_schema is not None and self._loop.run is not None
        actions = {name: _extras(agent) for name, agent in harness.agents.items()}
        self._emitter = Emitter(
            harness.config,
            session,
            state=state,
            clock=harness.clock,
            actions=actions,
            event_hooks=harness.event_hooks,
        )
        self._has_asked = False
        """Whether the model was called in this step."""
        self._is_enough = False
        """Whether the next step would start."""
        self._has_ended = False
        self._wake_at_ms: int | None = None

    async def take(self, *, again: StepFn) -> StepResult:
        """Drive the session up to the next step, or to a wait."""
        loop = self._loop
        if loop.run is not None or self._items:
            await self._harness.check_sandbox()
            await self._drive()
        await self._emitter.end()
        older = self._emitter.older
        session = close_loop(
            self._session,
            loop,
            event_count=self._emitter.count,
            event_grammar=None if older is None else (older.place, older.is_turn_open),
            actions=list(self._delegated_actions()),
        )
        return StepResult(self._next(again), session, tuple(self._unknown_results))

    async def _drive(self) -> None:
        harness, clock = self._harness, self._harness.clock
        pause_clock, shared = PauseClock(clock, {}), harness.effect_ports(self._emitter)
        while True:
            writer = SessionWriter(
                self._loop,
                await self.claim(self._session.session_id, harness.agent_id, now_ms=moment(clock).ms),
                journal=self,
                publisher=self,
                scribe=harness.scribe,
                clock=clock,
            )
            self._change_contract(writer)
            effects = Effects(self._bind, writer, shared=shared, pause_clock=pause_clock)
            driver = Driver(
                self._loop,
                writer,
                inbox=self,
                effects=effects,
                pause_clock=pause_clock,
                rules=harness.rules,
                is_enough=self._is_over,
            )
            self._wake_at_ms = None
            try:
                await driver.drive()
            finally:
                effects.close()
            is_asking = self._loop.session.requests or any(True for _ in self._delegated_actions())
            if self._is_enough or self._wake_at_ms is None or is_asking:
                return
            self._items = []
            await clock.sleep((self._wake_at_ms - moment(clock).ms) / 1_000)

    async def _bind(self, run: RunState) -> Binding:
        return await self._harness.bind(self._session)

    def _is_over(self, plan: Plan) -> bool:
        """Whether a plan starts the next step; a retry does not."""
        begins = any(draft.type in _BEGINS_STEP for draft in plan.drafts)
        self._is_enough = begins and self._has_asked and not self._loop.run_notes.is_retry
        return self._is_enough

    def _next(self, again: StepFn) -> StepNext:
        if self._is_enough:
            return again
        run = self._loop.session.run
        if not self._has_ended or run is None or run.result is None or run.mode is not RunMode.TASK:
            return None
        result = run.result
        if result.error is not None:
            return StepDone(output=result.error.message, is_error=True)
        return StepDone(
            output=result.output if result.structured_output is None else result.structured_output
        )

    # input

    def _mail(self, step_input: StepInput) -> Iterator[tuple[str, JsonObject]]:
        """Return an input as the items of an inbox."""
        if step_input.input_responses:
            responses: list[JsonValue] = [
                response.model_dump(mode="json") for response in step_input.input_responses
            ]
            yield ANSWER, {"responses": responses}
        open_calls = {action.call_id for action in self._delegated_actions()}
        for result in step_input.runtime_action_results or ():
            report = self._report(result) if result.call_id in open_calls else None
            if report is not None:
                yield REPORT, report
            else:
                self._unknown_results.append(result.call_id)
                _LOG.warning("no call of an agent waits for the action result of %s", result.call_id)
        contract = self._contract()
        if step_input.message is None:
            return
        harness, turn = self._harness, self._loop.session.turn
        sequence = 0 if turn is None else turn.sequence + 1
        request = RunRequest(
            run_id=within_limit(f"{self._session.session_id}/{sequence}"),
            agent_id=harness.agent_id,
            input=step_input.message,
            context=step_input.context,
            mode=harness.config.mode,
            capabilities=harness.config.capabilities,
            budget=harness.budget,
            output_contract=contract,
        )
        check_parts(request)
        package = harness.package(self._session)
        if contract is not None:
            package = with_contract(package, contract)
        effective = EffectivePackage(package, fingerprint_of(package))
        opening: JsonObject = {**session_opening(effective)}
        identity = harness.config.runtime_identity
        if identity is not None:
            opening["runtime"] = identity.model_dump(mode="json")
        body = start_body(request, effective)
        body["session"] = opening
        yield (START if self._loop.run is None else STEER), body

    def _contract(self) -> OutputContract | None:
        """Return the output contract of the input.

        Raises:
            Rejected: the schema cannot be used.
        """
        schema = self._session.output_schema
        if schema is None:
            return None
        repairs = self._harness.config.output_repairs_max
        contract = output_contract(schema, OUTPUT_ID).model_copy(update={"max_repair_attempts": repairs})
        check_contract(contract)
        return contract

    def _change_contract(self, writer: SessionWriter) -> None:
        """Replace the contract of the open turn if the input has another schema."""
        run, contract = self._loop.run, self._contract()
        if self._new_contract and run is not None and contract is not None:
            body = records.OutputRequested(contract=contract, run_id=run.run_id)
            writer.add([self._loop.draft(body, now=moment(self._harness.clock))])
        self._new_contract = False

    def _report(self, result: RuntimeActionResult) -> JsonObject | None:
        """Return the result of an action as the report of a subagent; None if the call is not open."""
        run, child = self._loop.run, self._loop.note(result.call_id).child
        if run is None or child is None:
            return None
        output = result.output
        report: JsonObject = {"runId": run.run_id, "callId": result.call_id, "childRunId": child.run_id}
        if not result.is_error:
            report |= {"status": "completed", "output": output}
            if not isinstance(output, str):
                report |= {"output": to_json(output).decode(), "isStructured": True}
            return report
        facts: JsonObject = output if isinstance(output, dict) else {"message": output}
        message = str(facts.get("message") or "The subagent failed.")
        error: JsonObject = {"code": str(facts.get("code") or "subagent_failed"), "message": message}
        return {**report, "status": "failed", "output": message, "isError": True, "error": error}

    # output

    def _delegated_actions(self) -> Iterator[RuntimeActionRequest]:
        """Return the calls of agents without a result."""
        for call in self._loop.session.history.open_calls():
            child = self._loop.note(call.call_id).child
            if child is None:
                continue
            agent = self._harness.agents.get(call.tool_name, AgentTool(call.tool_name))
            arguments = call.input if call.arguments is None else call.arguments
            action: JsonObject = {"kind": "subagent-call", "callId": call.call_id, "name": call.tool_name}
            action |= {"subagentName": call.tool_name, "input": arguments, **_extras(agent)}
            kind = RemoteAgentCallAction if agent.is_remote else SubagentCallAction
            yield kind.model_validate(action)

    # the store of the session: see `Journal`, `Post` and `Publisher`

    async def claim(self, session_id: str, owner_id: str, *, now_ms: int) -> Claim:
        """Return the claim of the only owner."""
        return Claim(session_id, owner_id, EPOCH, self._loop.seq)

    async def append(self, batch: Batch) -> Appended:
        """Emit the records of a batch."""
        first = batch.expected_seq + 1
        if batch.standing is not None:
            self._wake_at_ms = batch.wake_at_ms
        for at, draft in enumerate(batch.drafts):
            self._has_asked |= draft.type == "step.started"
            self._has_ended |= draft.type in RUN_ENDS
            if draft.type == "result.completed":
                self._loop.session.output_schema = None
            record = number(draft, batch.claim.session_id, seq=first + at, epoch=EPOCH)
            await self._emitter.show(record, tuple(self._loop.session.history.messages))
        return Appended(first, first)

    async def read(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
        """Return nothing: records are emitted and not stored."""
        return ()

    async def pending(self, session_id: str, *, after: int = 0, limit: int = 64) -> tuple[InboxItem, ...]:
        """Return the input of the step."""
        return tuple(item for item in self._items if item.number > after)[:limit]

    async def run(self, run_id: str) -> RunRow | None:
        """Return None: run ids come from the turn, so none is in use."""
        return None

    def publish(self, records: Sequence[Record]) -> None:
        """Do nothing: `append` has emitted the records."""


def _extras(agent: AgentTool) -> JsonObject:
    """Return the extra fields of an agent's action."""
    name = agent.subagent_name or agent.name
    extras: JsonObject = {"subagentName": name}
    if agent.is_remote:
        extras = {"kind": "remote-agent-call", "remoteAgentName": name}
    if agent.description:
        extras["description"] = agent.description
    if agent.node_id is not None:
        extras["nodeId"] = agent.node_id
    return extras


class _NoModel:
    """A model that could not be resolved: each request fails with the reason."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncGenerator[LLMStreamChunk]:
        """Fail; see `LLMProvider`."""
        raise self._error
        yield LLMStreamChunk()


class _NoContent:
    """Stores nothing: a result that is too large for a model is cut."""

    async def put(
        self, content: bytes, *, media_type: str = "application/json", session_id: str | None = None
    ) -> ContentRef:
        """Refuse; see `ContentStore`."""
        raise _no_content()

    async def get(self, ref: ContentRef) -> bytes:
        """Refuse; see `ContentStore`."""
        raise _no_content()


def _no_content() -> Rejected:
    return Rejected(
        "the steps have no content store; give one in the configuration",
        kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
    )
