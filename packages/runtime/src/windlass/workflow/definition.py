"""`@workflow`: async functions whose calls are journaled. A workflow is an agent with a function for a model.

Its run makes one call, of the tool that runs the function. The calls of the function are calls of that call,
as those of a program of a model are: judged, recorded and performed by the same code.
"""

import dis
import inspect
import warnings
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from datetime import date
from functools import partial
from hashlib import sha256
from types import CodeType, FunctionType, ModuleType, NoneType
from typing import Any, Final, Generic, TypedDict, Unpack, cast, get_args, get_origin, overload

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json
from typing_extensions import TypeVar

from windlass.agent.agent import WORKFLOW_ROUTE, Agent, AnyAgent, check_named_below, with_models
from windlass.agent.output import adapter_of, dump_output, parse_output
from windlass.errors import Rejected, check_name, kind_of, option_problem, wrong
from windlass.limits import WORKFLOW_OUTPUT_BYTES_MAX
from windlass.ports.interpreter import FIRST_CALL, LiveProgram, ProgramCall, ProgramStart
from windlass.ports.model import LLMMessage, LLMProvider, LLMStreamChunk, LLMUsage, ModelPrice
from windlass.tools import AnyTool, Tool, library_tool
from windlass.tools.deps import DepsFactory, DepsT, OutputT, hints_of
from windlass.tools.question import ask_question
from windlass.workflow.context import WorkflowContext, kind_name
from windlass.workflow.replay import CHANGED, BeginAgain, LiveWorkflow
from windlass_harness.budget import Budget
from windlass_harness.loop.notes import SLEEP, UNDO_CALLS, WAIT_FOR
from windlass_harness.policy import PolicySet
from windlass_protocol import (
    EffectClass,
    ErrorKind,
    FinishReason,
    JsonObject,
    RetryClass,
    ToolCall,
    ToolMode,
)
from windlass_protocol.frozen import sealed

A = TypeVar("A", contravariant=True)
D = TypeVar("D")
R = TypeVar("R")

_ARGUMENT: Final = "argument"
_JSON_STARTS: Final = frozenset('{["')
_NONE: Final = "The workflow has ended."
"""The output of a workflow that returns None."""


async def _no_effect() -> None:
    """Do nothing: the loop settles the call."""


async def _record_change(reason: str) -> None:
    """Record that the function goes a new way."""


def _own_tool(function: Callable[..., Awaitable[None]], name: str) -> Tool[..., object]:
    tool = library_tool(function, name=name, mode=ToolMode.READ, effect=EffectClass.READ)
    return tool.with_options(is_outbound=False)


_OWN_TOOLS: Final = (
    *(_own_tool(_no_effect, name) for name in (SLEEP, WAIT_FOR, UNDO_CALLS)),
    _own_tool(_record_change, CHANGED),
    ask_question,
)
"""Tools behind the methods of a context that are no calls of tools of the application."""


class WorkflowOptions(TypedDict, total=False):
    """Options of `@workflow`."""

    name: str
    """The name of the function when left out."""
    description: str
    """The first paragraph of the docstring when left out."""
    version: str
    """A digest of the source, with the functions that it names, when left out."""
    tools: Sequence[AnyTool]
    """Tools that its source does not name, such as those of a list."""
    agents: Sequence[AnyAgent]
    """Agents and workflows that its source does not name."""
    policy: PolicySet
    budget: Budget
    deps: "type[Any] | DepsFactory[Any]"
    """The dependencies: their type, or a function that makes them."""


class Workflow(Agent[DepsT, OutputT], Generic[A, DepsT, OutputT]):
    """An async function whose calls are journaled; made by `@workflow`.

    It is used as an agent is: given to `AgentRuntime.open`, started, served, scheduled, called by agents. Its
    message is the argument as JSON; a text if the argument is a string.
    """

    def __init__(
        self,
        function: Callable[..., Awaitable[object]],
        *,
        name: str,
        description: str,
        version: str,
        argument: object,
        returns: object,
        parts: "WorkflowParts",
        options: WorkflowOptions,
        agents: Sequence[AnyAgent],
    ) -> None:
        self.function = function
        self.argument_type = argument
        """The type of the argument; None if the function takes none."""
        self.return_type = returns
        self.parts = parts
        """What its source names; `subagents` may have other models."""
        self.options = options
        self.workflow_version = version
        self.is_replayed = False
        """Whether the function is run from its start whenever it has something to do, for tests."""
        body = replace(
            library_tool(
                _body_of(argument), name=name, description="", mode=ToolMode.READ, effect=EffectClass.READ
            ).with_options(is_outbound=False),
            program=_Functions(self),
        )
        chosen = cast("dict[str, Any]", options)
        agent_options = {key: chosen[key] for key in ("policy", "budget", "deps") if key in chosen}
        super().__init__(
            name,
            model=WorkflowModel(self, name, version),
            description=description,
            tools=(body, *_OWN_TOOLS, *cast("Sequence[Tool[..., object]]", parts.tools)),
            subagents=agents,
            output=None if returns in (str, None, NoneType) else cast("type[OutputT]", returns),
            **agent_options,
        )

    def with_models(
        self, models: Mapping[str, str | LLMProvider | Sequence[str | LLMProvider]]
    ) -> "Workflow[A, DepsT, OutputT]":
        """Return a copy that runs agents with other models, for tests.

        Write `incident.with_models({"triage": model})`; the names are those of agents at any level, and the
        others keep their models.

        Raises:
            Rejected: a model cannot be used, or the workflow runs no agent of a name.
        """
        check_named_below(self, models)
        return self.with_parts(self.model, tuple(with_models(agent, models) for agent in self.subagents))

    def with_parts(
        self, model: str | LLMProvider | Sequence[str | LLMProvider], subagents: Sequence[AnyAgent]
    ) -> "Workflow[A, DepsT, OutputT]":
        """Return a copy that runs other agents in place of its own.

        Raises:
            Rejected: `model` is another one than its own, which is written by rules.
        """
        if model is not self.model:
            raise wrong(
                f"workflow {self.name} has no model that could be replaced; replace those of its agents with "
                'with_models({"agent": model})'
            )
        workflow = Workflow[A, DepsT, OutputT](
            self.function,
            name=self.name,
            description=self.description,
            version=self.workflow_version,
            argument=self.argument_type,
            returns=self.return_type,
            parts=self.parts,
            options=self.options,
            agents=subagents,
        )
        object.__setattr__(workflow, "is_background", self.is_background)
        return workflow

    def message_of(self, value: object) -> str:
        """Return an argument as the message of a run: its JSON, which may be given instead of it.

        Raises:
            Rejected: the argument is not of the type that the function takes.
        """
        kind = self.argument_type
        if kind is None or (kind is str and isinstance(value, str)):
            return value if isinstance(value, str) and value else "Begin."
        adapter = adapter_of(kind)
        try:
            return adapter.dump_json(_parse_argument(adapter, value), by_alias=True).decode()
        except (ValidationError, ValueError, TypeError) as error:
            problem = _problem(error)
        raise wrong(f"workflow {self.name}: its argument must be {kind_name(kind)}: {problem}")

    def argument_of(self, message: str) -> JsonValue:
        """Return the argument of a message as JSON; text that is no JSON stays text."""
        if self.argument_type is None:
            return None
        if self.argument_type is str:
            return message
        try:
            return from_json(message)
        except ValueError:
            return message


def workflows_of(agent: AnyAgent) -> "list[Workflow[Any, Any, Any]]":
    """Return a workflow and the workflows that it runs, at any level."""
    below = [part for subagent in agent.subagents for part in workflows_of(subagent)]
    return [agent, *below] if isinstance(agent, Workflow) else below


def replay_always(agent: AnyAgent) -> AnyAgent:
    """Return a copy of a workflow that is run from its start whenever it has something to do."""
    if not isinstance(agent, Workflow):
        return agent
    original = cast("Workflow[Any, Any, Any]", agent)
    copy = original.with_parts(
        original.model, tuple(replay_always(subagent) for subagent in original.subagents)
    )
    copy.is_replayed = True
    return copy


def _body_of(argument: object) -> Callable[..., Awaitable[None]]:
    """Return a function for the schema of the argument; it is never called."""

    async def run() -> None: ...

    async def run_with(argument: object) -> None: ...

    if argument is None:
        return run
    run_with.__annotations__[_ARGUMENT] = argument
    return run_with


def _parse_argument(adapter: TypeAdapter[object], value: object) -> object:
    try:
        return adapter.validate_python(value)
    except ValidationError:
        # Servers and commands have the argument as JSON text.
        if isinstance(value, str) and value.lstrip()[:1] in _JSON_STARTS:
            return adapter.validate_json(value)
        raise


def _problem(error: Exception) -> str:
    if isinstance(error, ValidationError):
        issues = error.errors(include_url=False, include_input=False, include_context=False)
        return "; ".join(f"{'.'.join(map(str, issue['loc'])) or 'value'}: {issue['msg']}" for issue in issues)
    return str(error)


@sealed
class _Functions:
    """What the body of a workflow may call, and the program that it is."""

    workflow: "Workflow[Any, Any, Any]"

    @property
    def names(self) -> tuple[str, ...]:
        """Empty: the source of the function names what it calls."""
        return ()

    @property
    def stubs(self) -> str:
        """Empty: the editor has the types."""
        return ""

    def call(self, call: ProgramCall) -> tuple[str, JsonObject]:
        """Return the tool and the arguments of a call."""
        return call.name, call.named

    @property
    def is_replayed(self) -> bool:
        """Whether the function is run from its start whenever it has something to do."""
        return self.workflow.is_replayed

    @property
    def version(self) -> str:
        """The workflow with the digest of its source."""
        return f"{WORKFLOW_ROUTE}/{self.workflow.route[1]}"

    def begin(self, start: ProgramStart) -> LiveProgram:
        """Return the function, ready to run from its start."""
        return LiveWorkflow(start, body=partial(_run, self.workflow, start))


async def _run(workflow: "Workflow[Any, Any, Any]", start: ProgramStart, live: LiveWorkflow) -> JsonValue:
    context = WorkflowContext(
        live,
        run_id=start.run_id,
        session_id=start.session_id,
        owner=start.owner,
        deps=start.deps,
        callable_names=workflow.parts.names,
    )
    kind, arguments = workflow.argument_type, list[object]()
    if kind is not None:
        arguments.append(parse_output(kind, start.arguments.get(_ARGUMENT)))
    try:
        output = await workflow.function(context, *arguments)
    except BeginAgain as again:
        if kind is not None:
            parse_output(kind, again.argument)
        return {_AGAIN: _check_size(again.argument, "begins again with")}
    returned = workflow.return_type
    if returned in (None, NoneType):
        return _NONE
    value = dump_output(returned, output)
    try:
        parse_output(returned, value)
    except ValidationError as error:
        # An answer that does not fit goes back to a model; a function would run again.
        raise TypeError(f"the workflow must return {kind_name(returned)}: {_problem(error)}") from None
    _check_size(value, "returned")
    is_marked = to_json(value).startswith(_MARKED) or (isinstance(value, str) and value.startswith(_MARK))
    return {_OUTPUT: value} if is_marked else value


def _check_size(value: JsonValue, verb: str) -> JsonValue:
    size = len(to_json(value))
    if size > WORKFLOW_OUTPUT_BYTES_MAX:
        raise ValueError(
            f"the workflow {verb} {size:,} bytes of JSON, limit {WORKFLOW_OUTPUT_BYTES_MAX:,}; store what "
            "is large with a tool, and pass where it is"
        )
    return value


_MARK: Final = '{"windlass.'
_MARKED: Final = _MARK.encode()
_AGAIN: Final = "windlass.begin_again"
_OUTPUT: Final = "windlass.output"
"""Around an output that looks like one of these."""


class WorkflowModel:
    """The model of a workflow: it calls the function, and then says what it returned. Nothing is paid."""

    prices = ModelPrice(0, 0)

    def __init__(self, workflow: "Workflow[Any, Any, Any]", name: str, version: str) -> None:
        self.route_id = WORKFLOW_ROUTE
        self.model_id = f"{name}@{version}"
        self._workflow = workflow

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncGenerator[LLMStreamChunk]:
        """Answer the messages; see `LLMProvider`.

        Raises:
            Rejected: the function failed.
        """
        usage, turn = LLMUsage(input_tokens=0, output_tokens=0), _last_turn(messages)
        results = [message for message in turn if message.role == "tool"]
        content, workflow = results[-1].content if results else "", self._workflow
        marked: JsonObject = from_json(content) if content.startswith(_MARK) else {}
        if not results or _AGAIN in marked:
            # The last one: texts of `context` precede the message.
            text = next((message.content for message in reversed(turn) if message.role == "user"), "")
            argument = marked[_AGAIN] if results else workflow.argument_of(text)
            call_id = f"{FIRST_CALL}-{len(results)}" if results else FIRST_CALL
            arguments: JsonObject = {} if workflow.argument_type is None else {_ARGUMENT: argument}
            yield LLMStreamChunk(
                tool_call_delta=ToolCall(id=call_id, name=workflow.name, arguments=arguments)
            )
            yield LLMStreamChunk(finish_reason=FinishReason.TOOL_CALLS, usage=usage)
        elif results[-1].is_error:
            raise Rejected(
                f"workflow {workflow.name} failed: {content}",
                kind=ErrorKind.TOOL_FAILURE,
                retry=RetryClass.NOT_RETRYABLE,
            )
        else:
            output = marked.get(_OUTPUT, content)
            text = output if isinstance(output, str) else to_json(output).decode()
            yield LLMStreamChunk(content_delta=text, finish_reason=FinishReason.STOP, usage=usage)


def _last_turn(messages: Sequence[LLMMessage]) -> Sequence[LLMMessage]:
    """Return the messages since the last answer that was not a call, and since the last failure."""
    first = 0
    for position, message in enumerate(messages):
        if message.role == "assistant" and not message.tool_calls:
            first = position + 1
        elif message.role == "user" and position and messages[position - 1].is_error:
            # The message of a new run, or one that steers; the function is called once in a run.
            first = position
    return messages[first:]


@sealed
class WorkflowParts:
    """What a workflow may call."""

    tools: tuple[AnyTool, ...]
    agents: tuple[AnyAgent, ...]
    hazards: tuple[str, ...]
    """Clocks, random numbers and ids that the source reads, which are others each time it runs."""
    digest: str
    """The digest of the source of the function and of the functions that it names."""

    @property
    def names(self) -> dict[int, str]:
        """The names of tools and agents by their identity: another of the same name is not one of them."""
        return {id(part): part.name for part in (*self.tools, *self.agents)}


FOREIGN_TOOLS: Final[list[Callable[[object], Iterable[AnyTool]]]] = []
"""Functions that return the tools behind an object of another framework, such as an agent of it."""


def find_parts(function: FunctionType) -> WorkflowParts:
    """Return the tools and agents that the source of a function names, also by the functions that it names.

    Functions of other packages are not searched.
    """
    package = (function.__module__ or "").partition(".")[0]
    digest, tools, agents = sha256(), dict[int, AnyTool](), dict[int, AnyAgent]()
    functions, searched, hazards = [function], set[CodeType](), dict[str, None]()
    while functions:
        current = functions.pop(0)
        if current.__code__ in searched:
            continue
        searched.add(current.__code__)
        digest.update(_source_of(current).encode())
        hazards.update(dict.fromkeys(_hazards_of(current)))
        for value in _values_by_name(current):
            if isinstance(value, Tool):
                named_tool = cast(AnyTool, value)
                tools.setdefault(id(named_tool), named_tool)
            elif isinstance(value, Agent):
                named_agent = cast(AnyAgent, value)
                agents.setdefault(id(named_agent), named_agent)
            elif isinstance(value, FunctionType) and (value.__module__ or "").partition(".")[0] == package:
                functions.append(value)
            for tools_of in FOREIGN_TOOLS:
                tools.update((id(part), part) for part in tools_of(cast(object, value)))
    return WorkflowParts(tuple(tools.values()), tuple(agents.values()), tuple(hazards), digest.hexdigest())


_HAZARDS: Final = {
    "time": ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"),
    "uuid": ("uuid1", "uuid4"),
    "secrets": ("choice", "randbelow", "token_bytes", "token_hex", "token_urlsafe"),
    "os": ("urandom",),
    "random": ("choice", "choices", "randint", "random", "randrange", "sample", "shuffle", "uniform"),
}
"""Functions of modules of which each call returns something else."""
_NOW: Final = ("now", "today", "utcnow")
_LOADS: Final = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF")
_ATTRIBUTES: Final = ("LOAD_ATTR", "LOAD_METHOD")


def _hazards_of(function: FunctionType) -> Iterator[str]:
    """Yield the clocks, random numbers and ids that the code of a function names."""
    scope = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        value, path = None, ""
        for instruction in dis.get_instructions(code):
            name = str(instruction.argval)
            if instruction.opname in _LOADS:
                value, path = scope.get(name), name
            elif instruction.opname in _ATTRIBUTES and isinstance(value, ModuleType | type):
                if isinstance(value, type) and issubclass(value, date) and name in _NOW:
                    yield f"{path}.{name}()"
                value, path = getattr(cast(object, value), name, None), f"{path}.{name}"
            else:
                value = None
            if callable(value) and getattr(value, "__name__", "") in _HAZARDS.get(_module_of(value), ()):
                yield f"{path}()"


def _module_of(function: object) -> str:
    """Return the module of a function; that of a method of a shared object, such as random.random."""
    owner: object = getattr(function, "__self__", None)
    return str(getattr(function, "__module__", None) or owner.__class__.__module__)


def _source_of(function: FunctionType) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):  # typed at a prompt
        return function.__code__.co_code.hex()


def _values_by_name(function: FunctionType) -> Iterator[object]:
    """Yield the values of the names in the code of a function, and of the attributes of modules there."""
    scope = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    names = list(_code_names(function.__code__))
    for name in names:
        value = scope.get(name)
        yield value
        if isinstance(value, ModuleType):
            yield from (vars(value).get(attribute) for attribute in names)


def _code_names(code: CodeType) -> Iterator[str]:
    yield from (*code.co_names, *code.co_freevars)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_names(constant)


class WorkflowDecorator:
    """Makes a workflow of a function; `@workflow(…)` with options returns it."""

    def __init__(self, options: WorkflowOptions) -> None:
        self._options = options

    @overload
    def __call__(
        self, function: Callable[[WorkflowContext[D], A], Coroutine[Any, Any, R]], /
    ) -> Workflow[A, D, R]: ...
    @overload
    def __call__(
        self, function: Callable[[WorkflowContext[D]], Coroutine[Any, Any, R]], /
    ) -> Workflow[None, D, R]: ...
    def __call__(self, function: Callable[..., object], /) -> Workflow[Any, Any, Any]:
        return _make_workflow(function, self._options)


@overload
def workflow(function: Callable[[WorkflowContext[D], A], Coroutine[Any, Any, R]], /) -> Workflow[A, D, R]: ...
@overload
def workflow(function: Callable[[WorkflowContext[D]], Coroutine[Any, Any, R]], /) -> Workflow[None, D, R]: ...
@overload
def workflow(**options: Unpack[WorkflowOptions]) -> WorkflowDecorator: ...
def workflow(
    function: Callable[..., object] | None = None, /, **options: Unpack[WorkflowOptions]
) -> Workflow[Any, Any, Any] | WorkflowDecorator:
    """Make a workflow of an async function: `@workflow`, or `@workflow(name=…)`.

    The function takes a WorkflowContext, and an argument of a type that JSON can hold or none. It may call
    the tools and agents that its source names, also by functions of the same package.

    Options:
        name: the name of the function when left out.
        description: the first paragraph of the docstring when left out.
        version: a digest of the source when left out.
        tools: tools that its source does not name.
        agents: agents and workflows that its source does not name.
        policy: decides about its calls; reads and safe writes run, all others ask, when left out.
        budget: the limits of a run.
        deps: the type of its dependencies, or a function that makes them.

    Raises:
        Rejected: the function or an option cannot be used; the message says what to write.
    """
    problem = option_problem(options, WorkflowOptions, what="workflow")
    if problem is not None:
        raise wrong(problem)
    decorator = WorkflowDecorator(options)
    return decorator if function is None else _make_workflow(function, options)


def _make_workflow(function: Callable[..., object], options: WorkflowOptions) -> Workflow[Any, Any, Any]:
    if not isinstance(function, FunctionType) or not inspect.iscoroutinefunction(function):
        raise wrong(f"@workflow takes an async function, found {kind_of(function)}")
    name = check_name(options.get("name", function.__name__), "a workflow")
    hints, argument = hints_of(function), None
    parameters = list(inspect.signature(function).parameters.values())
    if not 1 <= len(parameters) <= _PARAMETERS_MAX or any(
        parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        for parameter in parameters
    ):
        raise wrong(f"workflow {name} must take a WorkflowContext, and at most one argument besides")
    context = hints.get(parameters[0].name)
    if context is not WorkflowContext and get_origin(context) is not WorkflowContext:
        raise wrong(f"workflow {name}: write {parameters[0].name}: WorkflowContext, as its first parameter")
    if len(parameters) == _PARAMETERS_MAX:
        argument = hints.get(parameters[1].name)
        if argument is None:
            raise wrong(f"workflow {name}: {parameters[1].name} has no type; write {parameters[1].name}: str")
    if "return" not in hints:
        raise wrong(f"workflow {name} has no return type; write -> None, or the type that it returns")
    parts = find_parts(function)
    parts = WorkflowParts(
        _without_repeats((*parts.tools, *options.get("tools", ()))),
        _without_repeats((*parts.agents, *options.get("agents", ()))),
        parts.hazards,
        parts.digest,
    )
    if parts.hazards:
        warnings.warn(_HAZARD.format(name=name, hazards=", ".join(parts.hazards)), stacklevel=3)
    if (
        "deps" not in options
        and (needed := get_args(context))
        and needed[0] not in (None, NoneType, object, Any)
    ):
        raise wrong(
            f"workflow {name} takes WorkflowContext[{kind_name(needed[0])}]; write "
            f"@workflow(deps={kind_name(needed[0])}), or a function that makes the dependencies"
        )
    return Workflow(
        function,
        name=name,
        description=options.get("description", inspect.getdoc(function) or "").partition("\n\n")[0],
        version=options.get("version", parts.digest[:_DIGEST_CHARS]),
        argument=argument,
        returns=hints["return"],
        parts=parts,
        options=options,
        agents=parts.agents,
    )


_HAZARD: Final = (
    "workflow {name} uses {hazards}, which is another value when it runs again after a crash; "
    "use ctx.now() or ctx.random, or do it in a tool"
)
_PARAMETERS_MAX: Final = 2
_DIGEST_CHARS: Final = 12
PartT = TypeVar("PartT")


def _without_repeats(parts: Iterable[PartT]) -> tuple[PartT, ...]:
    return tuple({id(part): part for part in parts}.values())
