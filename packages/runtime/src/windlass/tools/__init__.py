"""Tools: `@tool`, `Tool`, tools from JSON Schema, pinned tools."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    Never,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypedDict,
    Unpack,
    cast,
    get_args,
    overload,
)

from pydantic import BaseModel, ConfigDict, JsonValue
from pydantic_core import from_json
from typing_extensions import TypeVar

from windlass.errors import check_name, check_text, check_whole, is_for_us, kind_of, option_problem, wrong
from windlass.limits import (
    CONCURRENCY_MAX,
    DESCRIPTION_CHARS_MAX,
    TIMEOUT_MS_MAX,
    TOOL_RETRIES_MAX,
    TOOL_TIMEOUT_MS,
)
from windlass.ports.interpreter import ProgramFunctions
from windlass.tools.context import CompactionContext, ToolContext, ToolFailed, Unanswered
from windlass.tools.json_schema import schema_faults, schema_problem
from windlass.tools.schema import (
    ArgumentShape,
    Signature,
    Unfit,
    has_parameter,
    read_docstring,
    read_signature,
)
from windlass_protocol import (
    ApprovalRule,
    CodecError,
    EffectClass,
    JsonObject,
    Taint,
    ToolMode,
    canonical,
)
from windlass_protocol.generated import tools as wire

__all__ = [
    "PIN",
    "PROGRAM_TOOLS",
    "SHELL_PARAMETER",
    "AnyTool",
    "ApprovalCheck",
    "JsonFunction",
    "JsonShape",
    "KitOptions",
    "OnCompaction",
    "ProgramKind",
    "Tool",
    "ToolFailed",
    "ToolOptions",
    "ToolUse",
    "Unanswered",
    "UndoCall",
    "arguments_problem",
    "as_pinned",
    "json_tool",
    "library_tool",
    "tool",
    "with_function",
    "with_undo_tools",
]

if TYPE_CHECKING:
    from windlass.tools.router import ToolRouter


P = ParamSpec("P")
R = TypeVar("R", covariant=True)
F = TypeVar("F")
ToolDepsT = TypeVar("ToolDepsT", contravariant=True, default=object)
"""The dependencies that a tool needs; a tool for `object` fits every agent."""
D = TypeVar("D", covariant=True, default=object)

ApprovalCheck = Callable[[JsonObject], bool | str]
"""Gets the JSON arguments of a call: True asks, False leaves it to the policy, a string names a rule."""

OnCompaction = Callable[[CompactionContext], Sequence[str] | Awaitable[Sequence[str]]]
"""Called before a history is compacted; returns texts that the compacted history must contain."""

ModeName = Literal["read", "safe_write", "destructive", "local", "external"]
EffectName = Literal["read", "idempotent", "once"]
ApprovalName = Literal["policy", "always", "once", "never"]
TaintName = Literal["untrusted", "private"]

SHELL_PARAMETER: Final = "command"
"""The parameter of a shell tool that holds the command."""
ProgramKind = Literal["code", "workflow"]
"""The kinds of programs that a model may write."""
PROGRAM_TOOLS: Final[dict[ProgramKind, str]] = {"code": "run_code", "workflow": "run_workflow"}
"""The tools that run programs, by kind."""
ToolUse = Literal["code", "direct", "both"]
"""How a model with code mode calls a tool."""
_USES: Final = get_args(ToolUse)
_WRITES: Final = frozenset({ToolMode.SAFE_WRITE, ToolMode.DESTRUCTIVE, ToolMode.EXTERNAL})


class UndoCall(BaseModel):
    """The call that an undo function reverses: the type of its parameter `call`."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    call_id: str
    tool_name: str
    arguments: dict[str, JsonValue]
    """The arguments that the call ran with."""
    result: JsonValue = None
    """Its result; None if a crash interrupted the call, which may or may not have taken effect."""
    idempotency_key: str
    """The key that the call had. `ToolContext.idempotency_key` is the key of the undo itself."""


class ToolOptions(TypedDict, total=False):
    """Options of `@tool`. Those for authors of tool kits are `KitOptions`: see `Tool.with_options`."""

    name: str
    """The name of the function when left out."""
    description: str
    """For the model; the docstring when left out."""
    mode: ToolMode | ModeName
    """read, safe_write, destructive, local or external. Without one the policy asks a person first."""
    effect: EffectClass | EffectName
    """read, idempotent or once: how a call that a crash interrupted is recovered. Default: read for a tool of
    mode read, else once."""
    approval: ApprovalRule | ApprovalName | ApprovalCheck
    """policy (the default), always, once or never, or a function of the arguments.

    always asks for each call. once asks until a person approves the tool for the session; an approval of one
    call is for that call. never only skips the default approval of the policy: rules that ask, dangerous
    commands and tainted sessions still ask.
    """
    undo: "Callable[..., object] | AnyTool"
    """Reverses a call: a function with a parameter `call: UndoCall`. It is a tool of its own, which only
    `undo` of a run calls: of the same mode, unless it is made with `tool`. Its effect is once by default."""
    timeout: float
    """In seconds, for a call with its retries; 120 when left out."""
    retries: int
    """How often a call that raised `ToolFailed(…, retryable=True)` is made again before the model sees the
    failure; 0 when left out. A tool with the effect once has none."""
    concurrency: int
    """Calls that may run at the same time; unlimited when left out."""
    background: bool
    """Whether a call is answered at once with a job, and the model goes on; its result follows."""
    router: "ToolRouter"
    """The router to register the tool with, for a program with a loop of its own."""


class KitOptions(TypedDict, total=False):
    """Options for authors of tool kits: see `Tool.with_options`."""

    approval_key: Callable[[JsonObject], str]
    """Returns the key of a call from its arguments: an approval for the session covers the calls with the
    same key, instead of all calls of the tool. If it raises, the call is denied."""
    is_outbound: bool
    """Whether a call can send data out; True when left out."""
    reads: Taint | TaintName | Sequence[Taint | TaintName]
    """untrusted for content of unknown authors, private for data that must not be sent out, or both.

    In a session that has read both, every call that can send data out asks a person first.
    """
    is_shell: bool
    """Whether the parameter `command` is a shell command, which is then graded."""
    metadata: Mapping[str, JsonValue]
    """Anything else to pin with the tool."""
    on_compaction: OnCompaction
    """Called before the history is compacted: returns texts that the compacted history must contain, such as
    a to-do list, and drops state that the model will not remember. A crash may repeat the call."""
    use: ToolUse
    """How a model with code mode calls it: code (the default), direct, or both."""


@dataclass(frozen=True, eq=False)
class Tool(Generic[P, R, ToolDepsT]):
    """A function that a model may call; calling the tool from Python calls the function.

    `Tool[P, R, Deps]` takes `ToolContext[Deps]`: only an agent with these dependencies can have it.
    """

    function: Callable[P, R]
    _: KW_ONLY
    name: str
    shape: ArgumentShape
    description: str = ""
    mode: ToolMode | None = None
    effect: EffectClass = EffectClass.ONCE
    approval: ApprovalRule | ApprovalCheck = ApprovalRule.POLICY
    timeout_ms: int = TOOL_TIMEOUT_MS
    retries: int = 0
    concurrency: int | None = None
    is_outbound: bool | None = None
    reads: tuple[Taint, ...] = ()
    is_shell: bool = False
    is_question: bool = False
    """Whether a call asks a person; the answer is its result, and the function is never called."""
    delegates: str | None = None
    """The package of the subagent that runs for a call, empty for the agent's own; no function is called."""
    program: ProgramFunctions | None = None
    """The functions that the program of a call may use; the program runs in an interpreter."""
    use: ToolUse = "code"
    """How a model with code mode calls it."""
    metadata: JsonObject = field(default_factory=dict[str, JsonValue])
    on_compaction: OnCompaction | None = None
    approval_key: Callable[[JsonObject], str] | None = None
    """Returns the key of a call: an approval for the session covers the calls with the same key."""
    undo: "Tool[..., object] | None" = None
    """The tool that reverses a call."""
    is_undo: bool = False
    """Whether it reverses calls of another tool; a model cannot call it."""
    is_background: bool = False
    """Whether a call of a model is answered with a job."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, without validation, records or approval; a workflow calls by its context."""
        if getattr(asyncio._get_running_loop(), "records_calls", False):
            raise RuntimeError(
                f"{self.name} was called without the context of the workflow, so it would run again at each "
                f"replay: write await ctx.call({self.name}, …)"
            )
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    @property
    def __wrapped__(self) -> Callable[P, R]:
        return self.function

    def with_options(self, **options: Unpack[KitOptions]) -> "Tool[P, R, ToolDepsT]":
        """Return a copy with options for authors of tool kits; those that are left out stay.

        Options:
            approval_key: returns the key of a call; an approval for the session covers the calls with its
                key.
            is_outbound: whether a call can send data out; True when left out.
            reads: untrusted (content of unknown authors), private (data that must not be sent out), or both.
            is_shell: whether the parameter `command` is a shell command, which is then graded.
            metadata: JSON to pin with the tool.
            on_compaction: called before the history is compacted; returns texts that it must still contain.
            use: how a model with code mode calls it: code (the default), direct, or both.

        Raises:
            Rejected: an option cannot be used, or contradicts another; the message says what to write.
        """
        problem = option_problem(options, KitOptions, what="tool")
        if problem is not None:
            raise wrong(problem)
        checks: dict[str, Callable[[object, str], object]] = {
            "approval_key": _approval_key,
            "is_outbound": lambda value, name: _flag(value, f"tool {name}: is_outbound"),
            "reads": _reads,
            "is_shell": lambda value, name: _flag(value, f"tool {name}: is_shell") or False,
            "metadata": _metadata,
            "on_compaction": _on_compaction,
            "use": _use,
        }
        values = {key: checks[key](value, self.name) for key, value in options.items()}
        copy = replace(self, **cast("dict[str, Any]", values))
        if copy.is_shell and not has_parameter(self.shape.signature, SHELL_PARAMETER):
            raise wrong(
                f"tool {self.name}: a shell tool must take its command in a parameter named {SHELL_PARAMETER}"
            )
        if copy.approval_key is not None and copy.approval in {ApprovalRule.ALWAYS, ApprovalRule.NEVER}:
            raise wrong(
                f"tool {self.name}: approval {copy.approval} is never given for a session, so approval_key "
                "has no use; write approval once or policy"
            )
        return copy

    @property
    def input_schema(self) -> JsonObject:
        """The JSON Schema of the arguments; do not change it."""
        return self.shape.schema

    @cached_property
    def definition(self) -> JsonObject:
        """The definition of the tool for a model; do not change it."""
        return _definition(self.name, self.description, self.input_schema)

    @cached_property
    def spec(self) -> "wire.ToolSpec":
        """The tool as wire data."""
        rule, metadata = self.approval, dict(self.metadata)
        if self.is_question:
            metadata["isQuestion"] = True
        if self.delegates is not None:
            metadata["delegates"] = True
        if self.is_background:
            metadata["background"] = True
        if self.use != "code":
            metadata["use"] = self.use
        if self.undo is not None:
            metadata["undo"] = self.undo.name
        if not isinstance(rule, ApprovalRule):
            # A process without the function asks for every call: the safe default.
            metadata["approvalFunction"] = getattr(rule, "__qualname__", type(rule).__qualname__)
            rule = ApprovalRule.ALWAYS
        return wire.ToolSpec(
            name=self.name,
            description=self.description or None,
            input_schema=self.input_schema,
            mode=self.mode,
            effect=self.effect,
            approval=rule,
            timeout_ms=self.timeout_ms,
            concurrency=self.concurrency,
            is_shell=self.is_shell,
            is_outbound=self.is_outbound,
            reads=self.reads or None,
            metadata=metadata or None,
        )

    def approval_for(self, arguments: JsonObject) -> ApprovalRule:
        """Return the approval rule of one call; a check that raises or returns another type asks."""
        if isinstance(self.approval, ApprovalRule):
            return self.approval
        try:
            answer: object = self.approval(arguments)
        except BaseException as error:  # the tool boundary: the check is host code
            if is_for_us(error):
                raise
            return ApprovalRule.ALWAYS
        if isinstance(answer, bool):
            return ApprovalRule.ALWAYS if answer else ApprovalRule.POLICY
        return ApprovalRule(answer) if answer in tuple(ApprovalRule) else ApprovalRule.ALWAYS


AnyTool: TypeAlias = Tool[..., object, Never]
"""A tool with any dependencies."""

if TYPE_CHECKING:

    class _TakesFirst(Protocol[P, R, D]):
        """A function with the context as its first parameter: the second signature tells the dependencies."""

        @overload
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
        @overload
        def __call__(self, context: ToolContext[D], /, *args: Any, **kwargs: Any) -> R: ...

    class _TakesSecond(Protocol[P, R, D]):
        @overload
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
        @overload
        def __call__(self, first: Any, context: ToolContext[D], /, *args: Any, **kwargs: Any) -> R: ...

    class _TakesThird(Protocol[P, R, D]):
        @overload
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
        @overload
        def __call__(
            self, first: Any, second: Any, context: ToolContext[D], /, *args: Any, **kwargs: Any
        ) -> R: ...

    class _TakesNamed(Protocol[P, R, D]):
        @overload
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
        @overload
        def __call__(self, *args: Any, ctx: ToolContext[D], **kwargs: Any) -> R: ...

    _Takes = _TakesFirst[P, R, D] | _TakesSecond[P, R, D] | _TakesThird[P, R, D] | _TakesNamed[P, R, D]
    """A function with a context: in one of the first three places, or by the name `ctx` alone."""

    class ToolDecorator(Protocol):
        """Makes a tool of a function; `@tool(…)` with options returns it."""

        @overload
        def __call__(self, function: _Takes[P, R, D], /) -> Tool[P, R, D]: ...
        @overload
        def __call__(self, function: Callable[P, R], /) -> Tool[P, R]: ...


def definition_of(spec: "wire.ToolSpec") -> JsonObject:
    """Return the definition of a tool of a package for a model."""
    return _definition(spec.name, spec.description or "", spec.input_schema)


def _definition(name: str, description: str, input_schema: JsonObject) -> JsonObject:
    return {"name": name, "description": description, "inputSchema": input_schema}


@overload
def tool(function: "_Takes[P, R, D]", /, **options: Unpack[ToolOptions]) -> Tool[P, R, D]: ...
@overload
def tool(function: Callable[P, R], /, **options: Unpack[ToolOptions]) -> Tool[P, R]: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> "ToolDecorator": ...
def tool(
    function: Callable[P, R] | None = None, /, **options: Unpack[ToolOptions]
) -> "Tool[P, R, Never] | ToolDecorator":
    """Make a tool of a typed function: `@tool`, `@tool(mode=…)` or `tool(function)`.

    The schema comes from the type hints, descriptions from the docstring. A function that is not async runs
    in a thread. A parameter of type ToolContext gets the context of the call. See ToolOptions.

    Options:
        name: the name of the function when left out.
        description: for the model; the docstring when left out.
        mode: read, safe_write, destructive, local or external; without one a person is asked first.
        effect: read, idempotent or once: how a call that a crash interrupted is recovered.
        approval: policy (the default), always, once or never, or a function of the arguments.
        undo: a function with a parameter `call: UndoCall` that reverses a call.
        timeout: in seconds; 120 when left out.
        retries: how often a call that raised `ToolFailed(…, retryable=True)` is made again; 0 when left out.
        concurrency: calls that may run at the same time; unlimited when left out.
        background: whether a call is answered at once with a job, and the model goes on.
        router: the router to register the tool with, for a program with a loop of its own.

    `Tool.with_options` has more, for authors of tool kits.

    Raises:
        Rejected: the function or an option cannot be used; the message says what to write.
    """
    if function is None:

        def make(function: Callable[P, R]) -> Tool[P, R]:
            return _make_tool(function, options)

        return cast("ToolDecorator", make)
    return _make_tool(function, options)


def library_tool(function: Callable[P, R], /, **options: Unpack[ToolOptions]) -> Tool[P, R]:
    """Make a tool that ships with Windlass.

    Its types are known to have a JSON form: they are not checked, because a check makes the schema.
    """
    return _make_tool(function, options, is_checked=False)


def _make_tool(function: Callable[P, R], options: ToolOptions, *, is_checked: bool = True) -> Tool[P, R]:
    problem = option_problem(options, ToolOptions, what="tool")
    if problem is not None:
        moved = sorted(options.keys() & KitOptions.__annotations__.keys())
        hint = f"; for {', '.join(moved)} write made.with_options({moved[0]}=…) of the tool" if moved else ""
        raise wrong(problem + hint)
    if not _is_function(function):
        raise wrong(f"a tool must be made of a function, found {kind_of(function)}")
    name = check_name(options.get("name", _name_of(function)), "a tool")
    docs = read_docstring(_doc_of(function))
    description = check_text(
        options.get("description", docs.description),
        f"tool {name}: the description",
        chars_max=DESCRIPTION_CHARS_MAX,
    )
    shape = ArgumentShape(name, read_signature(function, name), docs.parameters)
    mode = _choice(ToolMode, options.get("mode"), f"tool {name}: mode")
    effect = _effect(options.get("effect"), mode, name=name)
    new_tool = Tool(
        function,
        name=name,
        shape=shape,
        description=description,
        mode=mode,
        effect=effect,
        approval=_approval(options.get("approval"), name),
        timeout_ms=_timeout_ms(options.get("timeout"), name),
        retries=_retries(options.get("retries", 0), effect, name=name),
        concurrency=_concurrency(options.get("concurrency"), name),
        undo=_undo(options, name, mode=mode, effect=effect),
    )
    if _flag(options.get("background"), f"tool {name}: background"):
        new_tool = in_background(new_tool)
    if is_checked:
        shape.check()
    router = options.get("router")
    if router is None:
        return new_tool
    if not callable(getattr(router, "register", None)) or isinstance(router, type):
        raise wrong(f"tool {name}: router must be a ToolRouter, found {kind_of(router)}")
    return router.register(new_tool)


IN_BACKGROUND: Final = (
    "It works in the background: a call returns a job at once, and its result follows later."
)


def in_background(original: Tool[P, R, ToolDepsT]) -> Tool[P, R, ToolDepsT]:
    """Return a copy of a tool with calls that are answered with a job."""
    description = f"{original.description}\n\n{IN_BACKGROUND}".strip()
    return replace(original, is_background=True, description=description)


def _undo(
    options: ToolOptions, name: str, *, mode: ToolMode | None, effect: EffectClass
) -> "Tool[..., object] | None":
    """Return the undo of a tool; a plain function has the mode of the tool, and asks if the tool may ask."""
    value, approval = options.get("undo"), options.get("approval")
    if value is None:
        return None
    if effect is EffectClass.READ or mode is ToolMode.READ:
        what = "mode" if mode is ToolMode.READ else "effect"
        raise wrong(f"tool {name}: {what} read says that it changes nothing, so there is nothing to undo")
    if isinstance(value, Tool):
        undo = cast("Tool[..., object]", value)
    elif not _is_function(value):
        raise wrong(f"tool {name}: undo must be a function or a tool, found {kind_of(value)}")
    else:
        same: ToolOptions = {} if mode is None else {"mode": mode}
        if approval is not None:
            # A rule of the tool reads arguments that the undo does not have.
            same["approval"] = "always" if callable(approval) else approval
        undo = tool(value, **same)
    if [parameter.name for parameter in undo.shape.signature.parameters] != ["call"]:
        raise wrong(
            f"tool {name}: the undo {undo.name} must have a parameter call: UndoCall, and apart from a "
            "ToolContext no other"
        )
    return replace(undo, is_undo=True)


def with_undo_tools(tools: Mapping[str, "Tool[..., object]"]) -> "dict[str, Tool[..., object]]":
    """Return tools by name, with those that reverse their calls."""
    undo = (tool.undo for tool in tools.values() if tool.undo is not None)
    return {**{undo_tool.name: undo_tool for undo_tool in undo}, **tools}


def _use(value: object, name: str) -> ToolUse:
    if value not in _USES:
        raise wrong(f"tool {name}: use must be one of {', '.join(_USES)}, found {value!r}")
    return cast(ToolUse, value)


def _is_function(value: object) -> bool:
    return callable(value) and not isinstance(value, type) and not isinstance(value, Tool)


def _name_of(function: object) -> str:
    inner = getattr(function, "func", function)
    return getattr(inner, "__name__", type(inner).__name__)


def _doc_of(function: object) -> str | None:
    """Return the docstring of a function or a callable object."""
    inner = getattr(function, "func", function)
    if hasattr(inner, "__name__"):
        return inner.__doc__
    return type(inner).__call__.__doc__ or inner.__doc__


def _choice(kind: type[F], value: object, what: str) -> F | None:
    members = cast(tuple[F, ...], tuple(cast(type[ToolMode], kind)))
    if value is None:
        return None
    for member in members:
        if member == value:
            return member
    raise wrong(f"{what} must be one of {', '.join(map(str, members))}, found {value!r}")


def _effect(value: object, mode: ToolMode | None, *, name: str) -> EffectClass:
    effect = _choice(EffectClass, value, f"tool {name}: effect")
    if effect is EffectClass.READ and mode in _WRITES:
        raise wrong(
            f"tool {name}: mode {mode} says that it changes something and effect read that it does not; "
            "write effect idempotent or once, or mode read"
        )
    return effect or (EffectClass.READ if mode == ToolMode.READ else EffectClass.ONCE)


def _approval_key(value: object, name: str) -> Callable[[JsonObject], str] | None:
    if value is not None and not callable(value):
        raise wrong(f"tool {name}: approval_key must be a function of the arguments, found {kind_of(value)}")
    return cast("Callable[[JsonObject], str] | None", value)


def _approval(value: object, name: str) -> ApprovalRule | ApprovalCheck:
    if callable(value):
        return cast(ApprovalCheck, value)
    return _choice(ApprovalRule, value, f"tool {name}: approval") or ApprovalRule.POLICY


def _timeout_ms(seconds: object, name: str) -> int:
    if seconds is None:
        return TOOL_TIMEOUT_MS
    if not isinstance(seconds, int | float) or not 0.001 <= seconds <= TIMEOUT_MS_MAX / 1_000:
        raise wrong(
            f"tool {name}: timeout must be a number of seconds from 0.001 to {TIMEOUT_MS_MAX // 1_000:,}, "
            f"found {seconds!r}"
        )
    return round(seconds * 1_000)


def _retries(value: object, effect: EffectClass, *, name: str) -> int:
    retries = check_whole(value, f"tool {name}: retries", least=0, most=TOOL_RETRIES_MAX)
    if retries and effect is EffectClass.ONCE:
        raise wrong(
            f"tool {name}: effect once says that a call is not repeated, and retries that it is; "
            "write effect idempotent or read, or leave retries out"
        )
    return retries


def _concurrency(value: object, name: str) -> int | None:
    return None if value is None else check_whole(value, f"tool {name}: concurrency", most=CONCURRENCY_MAX)


def _reads(value: object, name: str) -> tuple[Taint, ...]:
    items = (value,) if isinstance(value, str) else value
    if not isinstance(items, list | tuple | set | frozenset | None):
        raise wrong(
            f"tool {name}: reads must be untrusted, private or a list of them, found {kind_of(value)}"
        )
    taints = {_choice(Taint, item, f"tool {name}: reads") for item in cast(Sequence[object], items or ())}
    return tuple(sorted(taint for taint in taints if taint is not None))


def _flag(value: object, what: str) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise wrong(f"{what} must be True or False, found {kind_of(value)}")
    return value


def _on_compaction(value: object, name: str) -> OnCompaction | None:
    if value is not None and not callable(value):
        raise wrong(f"tool {name}: on_compaction must be a function, found {kind_of(value)}")
    return cast(OnCompaction | None, value)


def _metadata(value: object, name: str) -> JsonObject:
    if value is not None and not isinstance(value, Mapping):
        raise wrong(f"tool {name}: metadata must be a dictionary, found {kind_of(value)}")
    metadata: JsonObject = dict(cast(Mapping[str, JsonValue], value or {}))
    try:
        canonical(metadata)
    except CodecError as error:
        reason = error.message
    else:
        return metadata
    raise wrong(f"tool {name}: metadata must be JSON: {reason}")


JsonFunction = Callable[[JsonObject, ToolContext], Awaitable[object]]
"""Gets the JSON arguments of the model, and the context of the call."""

_SIGNATURE: Final = Signature((), "context", is_async=True)


@dataclass(frozen=True)
class JsonShape(ArgumentShape):
    """Arguments that are validated by a JSON Schema and stay JSON."""

    json_schema: JsonObject

    @cached_property
    def schema(self) -> JsonObject:
        """The JSON Schema of the arguments; do not change it."""
        return self.json_schema

    def validate(self, raw: bytes) -> dict[str, object]:
        """Return the arguments as the single value that the function takes.

        Raises:
            Unfit: they do not fit.
        """
        value = cast(JsonObject, from_json(raw))
        problems = schema_faults(self.json_schema, value)
        if problems:
            raise Unfit(problems)
        return {"arguments": value}


def json_tool(
    function: JsonFunction, schema: JsonObject, **options: Unpack[ToolOptions]
) -> Tool[..., object]:
    """Make a tool of a JSON Schema (2020-12) and a function that takes JSON.

    The schema is untrusted: one that could fetch, or never end, is refused.

    Raises:
        Rejected: the schema or an option cannot be used; the message says why.
    """

    async def call(arguments: JsonObject, context: ToolContext) -> object:
        return await function(arguments, context)

    name = options.setdefault("name", getattr(function, "__name__", "tool"))
    router = options.pop("router", None)
    problem = arguments_problem(schema)
    if problem is not None:
        raise wrong(f"tool {name}: its JSON Schema cannot be used: {problem}")
    new_tool = cast("Tool[..., object]", tool(call, **options))
    new_tool = replace(new_tool, shape=JsonShape(new_tool.name, _SIGNATURE, {}, schema))
    return new_tool if router is None else router.register(new_tool)


def with_function(original: Tool[..., object], function: JsonFunction) -> Tool[..., object]:
    """Return a copy of a tool with another function; schema and policy stay the same.

    The function takes JSON. No function of the original is called, and no person or subagent answers for it.
    If the original decides by a function which calls need approval, all calls need it.
    """

    async def call(arguments: JsonObject, context: ToolContext) -> object:
        return await function(arguments, context)

    return replace(
        original,
        function=call,
        shape=JsonShape(original.name, _SIGNATURE, {}, original.input_schema),
        is_question=False,
        delegates=None,
        program=None,
        is_background=False,
        on_compaction=None,
        undo=None,
        approval=original.approval if isinstance(original.approval, ApprovalRule) else ApprovalRule.ALWAYS,
    )


def arguments_problem(schema: JsonObject) -> str | None:
    """Return why a schema cannot describe arguments; None if it can."""
    if schema.get("type") != "object":
        return 'arguments are an object: write "type": "object" at the top'

    return schema_problem(schema)


PIN: Final = "pin"
"""Metadata key of the hash of the definition that a tool was made of."""


def as_pinned(spec: "wire.ToolSpec", tool: Tool[..., object]) -> Tool[..., object]:
    """Return the tool, or one that refuses every call if its pin differs from the spec's.

    People approved calls of the tool as the spec describes it.
    """
    pins = (spec.metadata or {}).get(PIN), tool.metadata.get(PIN)
    if None in pins or pins[0] == pins[1]:
        return tool

    async def refuse(**_: object) -> object:
        raise ToolFailed(
            f"{tool.name} has changed since this run started, and the change is not approved; nothing was "
            "done. A new run uses the tool as it is now"
        )

    # Only the function is replaced: people are not asked about the change, and the call fails.
    return replace(tool, function=refuse, metadata={**tool.metadata, PIN: pins[0]})
