"""Playground: run a recorded model call again, with changes.

A playground run has a session of its own, which begins with the messages of the recorded prompt, changed
or not. Its package is that of the recorded run, with other instructions, tools or model. So it is journaled,
continued after a crash and cancelled like every run. `run.started` names its origin; lists, counts and the
ledger leave it out, and it is deleted with its origin.

Calls are answered from the record unless the caller asks for real ones: a call without a record fails with an
error for the model and is never executed, no approval is requested, and hooks do not run. The binding of a
run does that, not the start: a process that continues the run after a crash cannot execute its calls either.
Output sinks and event hooks get nothing of a playground run.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Literal, TypeVar, cast, get_args

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from windlass.agent.agent import TEMPERATURE_MAX
from windlass.agent.package import check_package, fallback_routes, fingerprint
from windlass.catalog.reading import NOT_KEPT, QUESTIONS, SECRETS, ReadStep, pages_of, step_of, tools_in
from windlass.engine.binding import Binding
from windlass.engine.clocks import moment
from windlass.engine.hooks import NO_HOOKS
from windlass.engine.tool_calls.approval import maybe_await
from windlass.errors import Conflict, Denied, kind_of, wrong
from windlass.limits import PLAYGROUND_PREFIX, RECORD_BYTES_MAX
from windlass.ports.archive import SessionCopy, StoredAppend
from windlass.ports.catalog import RunRow
from windlass.ports.host import ToolPolicy
from windlass.ports.journal import Journal
from windlass.refusals import bad_request, check_id, misfit, missing_port, unknown_run
from windlass.runtime.compose import AgentRuntime
from windlass.runtime.registry import RuntimePorts
from windlass.runtime.starts.start import PlaygroundStart
from windlass.tools import Tool, with_function
from windlass.tools.calling import after_few_checks, read_by_size
from windlass.tools.context import ToolContext, ToolFailed
from windlass_harness.ledger.tapes import MadeCall, TapedCall, call_key, read_tape
from windlass_harness.loop.events import Draft
from windlass_harness.policy import CallFacts
from windlass_harness.record import Record, number
from windlass_harness.views.listing import SessionNews, content_hashes
from windlass_harness.views.payloads import as_text, model_name, part_of, usage_model
from windlass_harness.views.runs import RUN_ENDS, RunState, run_id_of, start_run
from windlass_protocol import (
    AllowDecision,
    ApprovalRule,
    AskDecision,
    AssistantMessage,
    BudgetLimits,
    CausalIds,
    ErrorKind,
    FilePart,
    FinishReason,
    ImagePart,
    JsonObject,
    ModelMessage,
    PlaygroundOrigin,
    PolicyDecision,
    ProviderRoute,
    RetryClass,
    RunRequest,
    RuntimePackage,
    SourceRef,
    SubagentSpec,
    TextPart,
    ToolCallPart,
    ToolOutput,
    ToolOutputType,
    ToolSpec,
    Usage,
    UserMessage,
)
from windlass_protocol.frozen import sealed
from windlass_protocol.generated import records

if TYPE_CHECKING:
    from windlass.runtime.handle import RunHandle

SpecT = TypeVar("SpecT", ToolSpec, SubagentSpec)
Size = Literal["call", "run"]
"""This model call alone, or all that follows it."""
Calls = Literal["recorded", "real"]
NOT_RECORDED: Final = (
    "This is a rehearsal, and no such call was recorded: its result is not known. Go on without it, or make "
    "the call with other arguments."
)
_DENIED: Final = "The call was denied in the recorded run."
_ALLOWED: Final = "The call is answered from the record."
_MESSAGES_BYTES_MAX: Final = RECORD_BYTES_MAX - 8_192
_ERRORS: Final = (ToolOutputType.ERROR_TEXT, ToolOutputType.ERROR_JSON)
_EPOCH: Final = 1


class Player:
    """Answers calls from a tape.

    Equal calls get the recorded results in order; after the last one, the last one again.
    """

    def __init__(self, calls: Sequence[TapedCall]) -> None:
        self._results: dict[str, list[ToolOutput]] = {}
        self._denied: set[str] = set()
        for call in calls:
            if call.output.type is ToolOutputType.EXECUTION_DENIED:
                self._denied.add(call.key)
            else:
                self._results.setdefault(call.key, []).append(call.output)
        self._given: dict[str, int] = {}
        self.diverged = 0
        """Calls without a record."""

    def skip(self, made: Iterable[MadeCall]) -> None:
        """Go on after calls that were answered before, in another process."""
        for call in made:
            if call.result is not None:
                key = call_key(call.tool, call.arguments)
                self._given[key] = self._given.get(key, 0) + 1

    def was_denied(self, tool: str, arguments: JsonValue) -> bool:
        """Whether all recorded calls like this were denied."""
        key = call_key(tool, arguments)
        return key in self._denied and key not in self._results

    def answer(self, tool: str, arguments: JsonObject) -> JsonValue:
        """Return the recorded result of a call.

        Raises:
            ToolFailed: the recorded call failed or was denied, or there is no record.
        """
        key = call_key(tool, arguments)
        taped = self._results.get(key)
        if taped is None:
            self.diverged += 1
            raise ToolFailed(NOT_RECORDED)
        at = self._given.get(key, 0)
        self._given[key] = at + 1
        output = taped[min(at, len(taped) - 1)]
        if output.type in _ERRORS:
            raise ToolFailed(as_text(output.value))
        return output.value


@sealed
class StepAnswer:
    """The answer of one model call."""

    text: str = ""
    reasoning: str | None = None
    calls: tuple[ToolCallPart, ...] = ()
    """The calls that the model asked for."""
    finish_reason: FinishReason | None = None
    usage: Usage | None = None
    latency_ms: int | None = None
    error: str | None = None
    """Why there is no answer."""


@sealed
class PlaygroundDraft:
    """The parts of a recorded model call that can be changed, with the answer that it got."""

    run_id: str
    session_id: str
    step_index: int
    agent_id: str
    instructions: str
    """The instructions; the prompt has the schema of the output after them."""
    messages: tuple[ModelMessage, ...]
    tools: tuple[JsonObject, ...]
    model: str
    """The model as provider/model."""
    models: tuple[str, ...]
    """The models that can be chosen: those of the agents of the runtime."""
    unknown: tuple[str, ...]
    """Facts about the prompt that are unknown, as text."""
    temperature: float | None = None
    output_schema: JsonObject | None = None
    answer: StepAnswer | None = None
    """The answer; None until there is one."""
    origin: PlaygroundOrigin | None = None
    """The step that it runs again, if it is a playground run itself."""


class UnknownStep(Conflict):
    """The run has no such step."""


class Playground:
    """Runs recorded model calls of a runtime again, with changes.

    Raises:
        Rejected: the runtime has no journal or content store.
    """

    def __init__(self, runtime: AgentRuntime) -> None:
        self._core, self._ports = runtime.core, runtime.core.ports
        if self._ports.store is None:
            raise missing_port("run journal")
        if self._ports.content is None:
            raise missing_port("content resolver")

    async def draft(self, run_id: str, step_index: int) -> PlaygroundDraft:
        """Return the prompt of a step of a run as it can be changed, and its answer.

        Steps count from 0; of several attempts it is the last one.

        Raises:
            UnknownStep: the run has no such step.
            Conflict: the run is unknown, or the version of its agent is not stored any more.
        """
        row, step = await self._step(run_id, step_index)
        package, contract = _package_in(step), step.state.run_notes.contract
        tools, has_questions = tools_in(package, can_ask=step.run.can_ask)
        return PlaygroundDraft(
            row.run_id,
            row.session_id,
            step_index,
            row.agent_id,
            package.agent.instructions or "",
            (*_messages_in(step), *(UserMessage(content=text) for text in step.added)),
            tools,
            _name(package.provider_route),
            models_of(self._ports),
            (SECRETS, QUESTIONS) if has_questions else (SECRETS,),
            temperature=_temperature(package),
            output_schema=None if contract is None else contract.json_schema,
            answer=_answer(step.after),
            origin=step.run.playground,
        )

    async def run(
        self,
        run_id: str,
        step_index: int,
        *,
        instructions: str | None = None,
        messages: Sequence[ModelMessage] | None = None,
        tools: Mapping[str, str] | None = None,
        model: str | None = None,
        temperature: float | None = None,
        size: Size = "run",
        calls: Calls = "recorded",
        new_run_id: str | None = None,
        source: SourceRef | None = None,
    ) -> "RunHandle":
        """Start a playground run of a step of a run; return once that is durable.

        What is left out is as it was recorded. The playground run belongs to the owner of the recorded run.

        Args:
            run_id: the recorded run.
            step_index: the step, from 0.
            instructions: other instructions.
            messages: other messages; the last one is of the user or of a tool.
            tools: the tools that are offered, with their descriptions, out of those of the step.
            model: another model, as provider/model, of an agent of this runtime.
            temperature: another temperature.
            size: this model call alone, or all that follows it until the run ends.
            calls: recorded answers calls from the record; real executes them, with policy and approvals.
            new_run_id: the id of the new run, the same for every attempt to start it; it begins with `play-`.
            source: who asks.

        Raises:
            UnknownStep: the run has no such step.
            Conflict: the run is unknown, or the id was used with another request.
            Rejected: a change cannot be used.
            Denied: no agent of this runtime has the model, or the start policy does not allow the run.
        """
        if size not in get_args(Size) or calls not in get_args(Calls):
            raise bad_request(f"size is call or run, and calls is recorded or real; found {size}, {calls}")
        row, step = await self._step(run_id, step_index)
        messages_now = _messages_in(step)
        if messages is not None:
            stored = attachment_hashes(messages_now)
            messages_now = check_messages(messages)
            if attachment_hashes(messages_now) - stored:
                raise bad_request("messages: an image or a file has a content that the step did not have")
            if calls == "real":
                # The hooks of the agent add their texts again.
                messages_now = _without(messages_now, step.added)
        elif calls == "recorded":
            messages_now = (*messages_now, *(UserMessage(content=text) for text in step.added))
        if not messages_now or isinstance(messages_now[-1], AssistantMessage):
            raise bad_request("the last message must be of the user or of a tool: the model answers it")
        package = _without_effects(_package_in(step), calls=calls)
        # The package is stored as it is. Names of tools may be those of secrets: descriptions have none here.
        texts = await self._ports.scribe.mask_body(
            {"instructions": instructions, "descriptions": [*(tools or {}).values()]}
        )
        package = self._change_package(
            package,
            instructions=cast("str | None", texts["instructions"]),
            tools=tools and dict(zip(tools, cast("list[str]", texts["descriptions"]), strict=True)),
            model=model,
        )
        if temperature is not None:
            package = _with_temperature(package, temperature)
        new_id = new_run_id or f"{PLAYGROUND_PREFIX}{self._ports.machine.new_id()}"
        if not new_id.startswith(PLAYGROUND_PREFIX):
            raise bad_request(f"new_run_id must begin with {PLAYGROUND_PREFIX}")
        origin = PlaygroundOrigin(
            run_id=row.run_id, session_id=row.session_id, step_index=step_index, size=size, calls=calls
        )
        request = RunRequest(
            run_id=check_id(new_id, "new_run_id"),
            agent_id=row.agent_id,
            session_id=new_id,
            input=_last_user_text(messages_now) or "(no text)",
            budget=BudgetLimits(max_steps=1, max_tool_calls=0) if size == "call" else package.budget,
            mode=step.run.mode,
            owner=row.owner,
            source=source,
        )
        session = await self._session(row, step, request, messages_now)
        package = await after_few_checks(partial(check_package, package))
        change: JsonObject = {
            **origin.model_dump(mode="json", by_alias=True),
            "package": fingerprint(package),
            "messages": sha256(_wire(messages_now)).hexdigest(),
        }
        opening: JsonObject = {"taint": [*sorted(step.state.session.taint)]}
        start = PlaygroundStart(package, origin, session, change, opening)
        return await self._core.starts.start(request, playground=start)

    async def _step(self, run_id: str, step_index: int) -> tuple[RunRow, ReadStep]:
        ports = self._ports
        assert ports.store is not None, "the runtime was checked"
        assert ports.content is not None, "the runtime was checked"
        row = await ports.store.run(check_id(run_id, "a run id"))
        if row is None:
            raise unknown_run(run_id)
        if type(step_index) is not int or step_index < 0:
            raise bad_request(f"step_index must be a whole number from 0, found {kind_of(step_index)}")
        step = await step_of(row, ports.store, content=ports.content, step_index=step_index)
        if step is None:
            raise _unknown_step(row.run_id, step_index)
        return row, step

    def _change_package(
        self,
        package: RuntimePackage,
        *,
        instructions: str | None,
        tools: Mapping[str, str] | None,
        model: str | None,
    ) -> RuntimePackage:
        """Return a package with other instructions, tools and model.

        Raises:
            Rejected: a tool is unknown.
            Denied: no agent of the runtime has the model.
        """
        route, allowed = package.provider_route, models_of(self._ports)
        name = _name(route) if model is None else model
        if name not in allowed:
            raise _not_allowed(name, allowed)
        if name != _name(route):
            settings = {key: value for key, value in (route.settings or {}).items() if key != "fallbacks"}
            route_id, _, model_id = name.partition("/")
            route = ProviderRoute(route_id=route_id, model_id=model_id, settings=settings or None)
        update: dict[str, object] = {"provider_route": route}
        if instructions is not None:
            update["agent"] = package.agent.model_copy(update={"instructions": instructions or None})
        if tools is not None:
            specs = (*(package.tools or ()), *(package.subagents or ()))
            unknown = tools.keys() - {spec.name for spec in specs}
            if unknown:
                raise bad_request(f"the step has no tool {', '.join(sorted(unknown))}")
            update["tools"] = _with_descriptions(package.tools or (), tools)
            update["subagents"] = _with_descriptions(package.subagents or (), tools)
        return package.model_copy(update=update)

    async def _session(
        self, row: RunRow, step: ReadStep, request: RunRequest, messages: Sequence[ModelMessage]
    ) -> SessionCopy:
        """Return the session of a playground run: the state of its origin, and the messages."""
        now, scribe = moment(self._ports.machine.clock), self._ports.scribe
        raw = _wire(messages)
        size = len(raw)
        if size > _MESSAGES_BYTES_MAX:
            raise bad_request(f"messages too large: {size:,} bytes, limit {_MESSAGES_BYTES_MAX:,}")
        forked: JsonObject = {
            "predecessor": row.session_id,
            "predecessorSeq": step.state.seq,
            "messages": from_json(raw),
        }
        drafts, authored = [Draft("session.forked", now.at, forked)], dict(step.state.session.authored)
        if authored:
            drafts.insert(0, Draft("session.state_changed", now.at, {"set": authored}))
        new_id = request.run_id

        masked = await scribe.mask_drafts(drafts)
        records = [number(draft, new_id, seq=seq, epoch=_EPOCH) for seq, draft in enumerate(masked, 1)]
        last_text = _last_user_text(messages)
        title = await read_by_size(len(last_text), lambda: scribe.redactor.text(last_text))
        facts = SessionNews(
            now.at,
            now.at,
            title=title,
            agent_id=row.agent_id,
            owner=row.owner,
            parent=row.session_id,
            predecessor=row.session_id,
            predecessor_seq=step.state.seq,
        )
        return SessionCopy(
            new_id,
            (StoredAppend(tuple(records), _EPOCH),),
            facts,
            copied_from=row.session_id,
            uses=content_hashes(records),
        )


# models


def models_of(ports: RuntimePorts) -> tuple[str, ...]:
    """Return the models of the agents of a runtime, their fallbacks included."""
    packages = [
        registered.package for name in ports.registry.names if (registered := ports.registry.agent(name))
    ]
    routes = (route for package in packages for route in (package.provider_route, *fallback_routes(package)))
    return tuple(sorted({_name(route) for route in routes}))


def _name(route: ProviderRoute) -> str:
    return model_name(route.route_id, route.model_id)


def _not_allowed(model: str, allowed: Sequence[str]) -> Denied:
    return Denied(
        f"model {model} is not allowed in the playground: no agent of this runtime has it; "
        f"choose one of {', '.join(allowed)}",
        kind=ErrorKind.POLICY_DENIAL,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
    )


# the recorded step


def _unknown_step(run_id: str, step_index: int) -> UnknownStep:
    return UnknownStep(
        f"unknown step: the run has no step {step_index:,}",
        kind=ErrorKind.INVALID_STATE_TRANSITION,
        retry=RetryClass.NOT_RETRYABLE,
        causal_ids=CausalIds(run_id=run_id),
    )


def _package_in(step: ReadStep) -> RuntimePackage:
    if step.package is None:
        raise Conflict(NOT_KEPT, kind=ErrorKind.INVALID_STATE_TRANSITION, retry=RetryClass.NOT_RETRYABLE)
    return step.package


def _messages_in(step: ReadStep) -> tuple[ModelMessage, ...]:
    return tuple(step.state.session.history.messages)


def _temperature(package: RuntimePackage) -> float | None:
    value = (package.provider_route.settings or {}).get("temperature")
    return value if isinstance(value, int | float) else None


def _answer(after: Iterable[Record]) -> StepAnswer | None:
    """Return the answer of a step from the records after its start; None if there is none yet."""
    answer, is_over = StepAnswer(), False
    for record in after:
        match record.body:
            case records.ReasoningCompleted() as body:
                answer = replace(answer, reasoning=body.reasoning)
            case records.MessageCompleted() as body:
                answer = replace(answer, text=body.message or "")
            case records.ActionsRequested(parent_call_id=None) as body:
                answer = replace(answer, calls=tuple(part_of(action) for action in body.actions))
            case records.StepCompleted() as body:
                answer = replace(
                    answer,
                    finish_reason=body.finish_reason,
                    usage=usage_model(body.usage),
                    latency_ms=body.latency_ms,
                )
                is_over = True
            case records.StepFailed() as body:
                answer, is_over = replace(answer, error=body.message), True
            case _:
                pass
    return answer if is_over else None


# changes

_MESSAGES: Final[TypeAdapter[tuple[ModelMessage, ...]]] = TypeAdapter(tuple[ModelMessage, ...])


def check_messages(messages: object) -> tuple[ModelMessage, ...]:
    """Return messages of a caller.

    Raises:
        Rejected: one of them is not a message, or a result has no call before it.
    """
    if not isinstance(messages, list | tuple):
        raise bad_request(f"messages must be a list, found {kind_of(messages)}")
    problem = ""
    try:
        checked = _MESSAGES.validate_python(messages)
    except ValidationError as error:
        checked, problem = (), misfit(error, "messages", value={})
    if problem:
        raise bad_request(problem)
    call_ids: set[str] = set()
    for at, message in enumerate(checked):
        if message.role == "assistant" and not isinstance(message.content, str):
            call_ids |= {part.tool_call_id for part in message.content if isinstance(part, ToolCallPart)}
        if message.role == "tool":
            for part in message.content:
                call_id = getattr(part, "tool_call_id", None)
                if call_id is not None and call_id not in call_ids:
                    raise bad_request(f"message {at:,} has the result of a call that no message asks for")
    return checked


def attachment_hashes(messages: Iterable[ModelMessage]) -> Set[str]:
    """Return the hashes of the stored images and files of messages."""
    contents = [message.content for message in messages if isinstance(message, UserMessage)]
    parts = [part for content in contents if not isinstance(content, str) for part in content]
    return {
        part.content.hash
        for part in parts
        if isinstance(part, ImagePart | FilePart) and part.content is not None
    }


def _wire(messages: Sequence[ModelMessage]) -> bytes:
    return to_json([message.model_dump(mode="json", by_alias=True) for message in messages])


def _without(messages: Sequence[ModelMessage], added: Sequence[str]) -> tuple[ModelMessage, ...]:
    """Return messages without the texts that hooks added at their end."""
    count = len(added)
    last = [
        message.content if isinstance(message, UserMessage) else None
        for message in messages[len(messages) - count :]
    ]
    return tuple(messages[: len(messages) - count]) if count and last == list(added) else tuple(messages)


def _last_user_text(messages: Sequence[ModelMessage]) -> str:
    """Return the text of the last message of the user."""
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            if isinstance(message.content, str):
                return message.content
            return "\n".join(part.text for part in message.content if isinstance(part, TextPart))
    return ""


def _without_effects(package: RuntimePackage, *, calls: Calls) -> RuntimePackage:
    """Return the package of a playground run: resolved, without sinks; no hooks for recorded calls."""
    update: dict[str, object] = {"resolvers": None, "output_sinks": None}
    if calls == "recorded":
        update |= {"hooks": None, "sandbox": None}
    return package.model_copy(update=update)


def _with_descriptions(specs: Iterable[SpecT], tools: Mapping[str, str]) -> tuple[SpecT, ...] | None:
    """Return the specs that have a description, with it."""
    described = (
        spec.model_copy(update={"description": tools[spec.name]}) for spec in specs if spec.name in tools
    )
    return tuple(described) or None


def _with_temperature(package: RuntimePackage, temperature: object) -> RuntimePackage:
    is_number = isinstance(temperature, int | float) and not isinstance(temperature, bool)
    if not is_number or not 0 <= cast(float, temperature) <= TEMPERATURE_MAX:
        raise wrong(f"temperature must be a number from 0 to {TEMPERATURE_MAX:g}")
    settings = {**(package.provider_route.settings or {}), "temperature": temperature}
    route = package.provider_route.model_copy(update={"settings": settings})
    return package.model_copy(update={"provider_route": route})


# recorded calls


async def rehearse(binding: Binding, run: RunState, ports: RuntimePorts) -> Binding:
    """Return the binding of a playground run: with recorded calls, no tool of the agent can be executed.

    Raises:
        Conflict: the recorded run is unknown.
    """
    origin = run.playground
    if origin is None or origin.calls == "real":
        return binding
    player = await _player(run, origin, ports)
    # A program acts through its calls alone, which are answered here too.
    tools = {
        name: tool if tool.program is not None else _tape_of(tool, player)
        for name, tool in binding.tools.items()
    }
    policy = RehearsedPolicy(binding.policy)
    return replace(binding, tools=tools, policy=policy, hooks=NO_HOOKS, sinks={}, deps=None)


async def _player(run: RunState, origin: PlaygroundOrigin, ports: RuntimePorts) -> Player:
    """Return the recorded calls, at the place after the step and after the calls of the run so far."""
    assert ports.store is not None, "a run has a journal"
    calls: list[TapedCall] = []
    made: list[MadeCall] = []
    above: PlaygroundOrigin | None = origin
    while above is not None:
        # A playground run of a playground run knows what was recorded for both.
        records, cut = await _read_recorded(ports.store, above)
        calls = [*read_tape(records, above.run_id).calls, *calls]
        made += read_tape(records[:cut], above.run_id).made
        above = _origin_in(records, above.run_id)
    player = Player(calls)
    player.skip(made)
    own = [record async for page in pages_of(ports.store, run.session_id) for record in page]
    player.skip(read_tape(own, run.run_id).made)
    return player


async def _read_recorded(journal: Journal, origin: PlaygroundOrigin) -> tuple[list[Record], int]:
    """Return the records of a recorded run and of its session before it, and how many precede the step."""
    entries: list[Record] = []
    cut = 0
    async for page in pages_of(journal, origin.session_id):
        for record in page:
            entries.append(record)
            is_own = run_id_of(record) == origin.run_id
            if is_own and record.type == "step.started" and record.data.get("stepIndex") == origin.step_index:
                cut = len(entries)
            if is_own and record.type in RUN_ENDS:
                return entries, cut
    if not any(_starts(record, origin.run_id) for record in entries):
        raise unknown_run(origin.run_id)
    return entries, cut


def _origin_in(records: Iterable[Record], run_id: str) -> PlaygroundOrigin | None:
    """Return the origin of a run that is a playground run itself."""
    started = (start_run(record) for record in records if _starts(record, run_id))
    return next((run.playground for run in started if run is not None), None)


def _starts(record: Record, run_id: str) -> bool:
    return record.type == "run.started" and run_id_of(record) == run_id


def _tape_of(tool: Tool[..., object], player: Player) -> Tool[..., object]:
    async def play(arguments: JsonObject, context: ToolContext) -> object:
        if player.was_denied(tool.name, arguments):
            raise ToolFailed(_DENIED)
        return player.answer(tool.name, arguments)

    return replace(with_function(tool, play), approval=ApprovalRule.POLICY, approval_key=None)


class RehearsedPolicy:
    """The policy of an agent while its calls are answered from the record: it requests no approval."""

    def __init__(self, policy: ToolPolicy) -> None:
        self._policy = policy

    @property
    def version(self) -> str:
        """That of the policy itself."""
        return self._policy.version

    async def before(self, call: CallFacts, *, is_attended: bool) -> PolicyDecision:
        """Decide as the policy does; a call that needs approval is allowed, because nothing is executed."""
        decision = await maybe_await(self._policy.before(call, is_attended=True))
        if not isinstance(decision, AskDecision):
            return decision
        return AllowDecision(code="playground.recorded", reason=_ALLOWED, policy_refs=decision.policy_refs)

    async def after(self, call: CallFacts, output: JsonValue) -> PolicyDecision:
        """Decide as the policy does."""
        return await maybe_await(self._policy.after(call, output))
