"""Dynamic parts of an agent: resolved, recorded, and bound again after a restart."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from inspect import isawaitable, iscoroutinefunction
from typing import Final, cast

from pydantic_core import from_json

from windlass.agent.agent import check_tool_deps
from windlass.agent.dynamic import DynamicContext, Placed, join_instructions
from windlass.agent.skills import Skill, Skills
from windlass.engine.binding import Binding
from windlass.engine.deadline import DeadlineExceeded, await_within
from windlass.engine.writing.masking import log_failure
from windlass.engine.writing.writer import retry_store_call
from windlass.errors import AgentError, Rejected, check_text, is_for_us, kind_of, wrong
from windlass.limits import INSTRUCTIONS_CHARS_MAX, PACKAGE_BYTES_MAX, TOOLS_PER_AGENT_MAX
from windlass.ports.clock import Clock
from windlass.ports.store import ContentStore
from windlass.tools import PIN, Tool, as_pinned, with_undo_tools
from windlass.tools.calling import in_thread
from windlass.tools.context import SessionValues
from windlass.tools.programs import program_tools
from windlass_harness.loop.events import Stopped
from windlass_harness.loop.state import LoopState
from windlass_harness.redact import mask_text
from windlass_harness.views.payloads import content_part
from windlass_harness.views.session import Resolved, resolution_key
from windlass_protocol import (
    CodecError,
    CodecLimits,
    ErrorKind,
    JsonObject,
    ResolverPart,
    ResolverScope,
    RetryClass,
    TextPart,
    ToolSpec,
    UserMessage,
    canonical,
)
from windlass_protocol.bodies import Body
from windlass_protocol.frozen import frozen
from windlass_protocol.generated import records

_LIMITS: Final = CodecLimits(message_bytes_max=PACKAGE_BYTES_MAX, depth_max=128)


@frozen
class DynamicPart:
    """The value of a resolver: instructions, tools or skills."""

    placed: Placed
    words: str = ""
    tools: tuple[Tool[..., object], ...] = ()
    specs: tuple[ToolSpec, ...] = ()
    """Tool definitions for the model; a tool may have none."""
    skills: tuple[Skill, ...] = ()
    failure: str | None = None
    """Why the part is empty."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tools or skills."""
        return (*(spec.name for spec in self.specs), *(skill.name for skill in self.skills))

    @property
    def content(self) -> bytes:
        """The part as JSON; equal parts give equal bytes."""
        body: JsonObject = {"part": self.placed.part.value, "words": self.words}
        if self.specs:
            specs = sorted(self.specs, key=lambda spec: spec.name)
            body["tools"] = [spec.model_dump(mode="json", by_alias=True) for spec in specs]
        if self.skills:
            body["skills"] = [*sorted(skill.ref for skill in self.skills)]
        return canonical(body, _LIMITS)


def part_of(placed: Placed, value: object) -> DynamicPart:
    """Convert the return value of a resolver into a part.

    Raises:
        Rejected: the value has the wrong type for this kind of part.
    """
    where = f"resolver {placed.dynamic.name}"
    match placed.part:
        case ResolverPart.INSTRUCTIONS:
            if value is not None and not isinstance(value, str):
                raise wrong(f"{where}: instructions are a text, found {kind_of(value)}")
            return DynamicPart(placed, check_text(value or "", where, chars_max=INSTRUCTIONS_CHARS_MAX))
        case ResolverPart.TOOLS:
            tools = tuple(_pin_version(tool) for tool in _items(value, Tool, where))
            return DynamicPart(placed, tools=tools, specs=tuple(tool.spec for tool in tools))
        case ResolverPart.SKILLS:
            skills = tuple(cast(Iterable[Skill], _items(value, Skill, where)))
            return DynamicPart(placed, Skills(*skills).words, skills=skills)


def read_part(placed: Placed, content: bytes) -> DynamicPart:
    """Return a recorded part; its tools have no functions."""
    body = cast(JsonObject, from_json(content))
    specs = tuple(ToolSpec.model_validate(spec) for spec in cast(list[object], body.get("tools", [])))
    return DynamicPart(placed, str(body["words"]), specs=specs)


def part_under(part: DynamicPart, content: bytes) -> DynamicPart:
    """Return the recorded part with the functions of the current one.

    A tool with a changed definition refuses calls; a tool that was removed is missing.
    """
    recorded = read_part(part.placed, content)
    today = {tool.name: tool for tool in part.tools}
    pinned = (as_pinned(spec, today[spec.name]) for spec in recorded.specs if spec.name in today)
    return replace(recorded, tools=tuple(pinned), skills=part.skills)


def check_fit(binding: Binding, part: DynamicPart) -> None:
    """Check that a part can be added to the binding.

    Raises:
        Rejected: a name is taken, there are too many tools, or a tool needs other dependencies.
    """
    where, package = f"resolver {part.placed.dynamic.name}", binding.package
    taken = {spec.name for spec in package.tools or ()} | {
        subagent.name for subagent in package.subagents or ()
    }
    if part.placed.part is ResolverPart.SKILLS:
        taken = {skill.name for skill in binding.skills}
    names = part.names
    for at, name in enumerate(names):
        if name in taken or name in names[:at]:
            raise wrong(f"{where}: duplicate name: {name}; use unique names")
    for tool in part.tools:
        check_tool_deps(tool, None if binding.deps is None else type(binding.deps), where=where)
    count = len(part.specs) + len(package.tools or ())
    if count > TOOLS_PER_AGENT_MAX:
        raise wrong(f"{where}: tools: found {count:,}, limit {TOOLS_PER_AGENT_MAX:,}")


def merge_parts(binding: Binding, parts: Sequence[DynamicPart]) -> Binding:
    """Return the binding with the parts added.

    Raises:
        Rejected: two parts use the same name.
    """
    for part in parts:
        check_fit(binding, part)
        binding = _with(binding, part)
    return binding


def _with(binding: Binding, part: DynamicPart) -> Binding:
    package = binding.package
    instructions = join_instructions(package.agent.instructions, part.words, part.placed.part)
    agent = package.agent.model_copy(update={"instructions": instructions})
    specs = (*(package.tools or ()), *part.specs)
    tools = {**binding.tools, **{tool.name: tool for tool in part.tools}}
    skills = binding.skills
    if part.skills:
        skills = Skills(*skills, *part.skills)
        tools[skills.tool.name] = skills.tool
    if package.programs and part.tools:
        own = [tool for tool in tools.values() if tool.program is None and not tool.is_undo]
        tools |= program_tools(package.programs, own, keeps_variables=bool(package.keeps_variables))
    package = package.model_copy(update={"agent": agent, "tools": specs or None})
    return replace(binding, package=package, tools=with_undo_tools(tools), skills=skills)


def _pin_version(tool: Tool[..., object]) -> Tool[..., object]:
    """Return the tool with its definition as part of its version."""
    if tool.metadata.get(PIN) is not None:
        return tool
    definition = tool.spec.model_dump(mode="json", by_alias=True)
    pin = f"sha256:{sha256(canonical(definition, _LIMITS)).hexdigest()}"
    return replace(tool, metadata={**tool.metadata, PIN: pin})


def _items(value: object, kind: type, where: str) -> tuple[Tool[..., object], ...]:
    """Return one item, or several, as a tuple."""
    if isinstance(value, kind):
        value = (value,)
    items = () if value is None else value
    if not isinstance(items, list | tuple | Skills):
        raise wrong(f"{where}: it gives {kind.__name__}s, found {kind_of(value)}")
    checked = tuple(cast(Iterable[object], items))
    for item in checked:
        if not isinstance(item, kind):
            raise wrong(f"{where}: it gives {kind.__name__}s, found {kind_of(item)} among them")
    return cast(tuple[Tool[..., object], ...], checked)


_OF_RUN: Final = frozenset({ResolverScope.SESSION, ResolverScope.TURN})
_OF_STEP: Final = frozenset({ResolverScope.STEP})


@frozen
class Resolution:
    """A binding with its resolved parts, and the records of them."""

    binding: Binding
    notes: tuple[Body, ...] = ()


@frozen
class ResolverPorts:
    """Ports of the runtime that resolving needs."""

    content: ContentStore
    clock: Clock
    can_ask: bool


async def resolve_run(binding: Binding, state: LoopState, *, means: ResolverPorts) -> Resolution | Stopped:
    """Resolve the parts of a session and a turn that are not recorded yet.

    If calls of a step are open, the parts of that step are restored too.

    Raises:
        Unavailable: the content store cannot be reached.
    """
    try:
        of_run = await _resolve(binding, state, scopes=_OF_RUN, means=means)
        if not any(True for _ in state.session.history.open_calls()):
            return of_run
        stepped = await _resolve(of_run.binding, state, scopes=_OF_STEP, means=means)
    except Rejected as error:
        return Stopped(error.info())
    return Resolution(replace(stepped.binding, unstepped=of_run.binding), (*of_run.notes, *stepped.notes))


async def resolve_step(binding: Binding, state: LoopState, *, means: ResolverPorts) -> Resolution | Stopped:
    """Resolve the parts of the step that is about to start.

    Raises:
        Unavailable: the content store cannot be reached.
    """
    plain = binding.unstepped or binding
    if not any(placed.dynamic.scope is ResolverScope.STEP for placed in plain.resolvers):
        return Resolution(binding)
    try:
        resolution = await _resolve(plain, state, scopes=_OF_STEP, means=means, is_new=True)
    except Rejected as error:
        return Stopped(error.info())
    return replace(resolution, binding=replace(resolution.binding, unstepped=plain))


async def _resolve(
    binding: Binding,
    state: LoopState,
    *,
    scopes: Collection[ResolverScope],
    means: ResolverPorts,
    is_new: bool = False,
) -> Resolution:
    parts: list[DynamicPart] = []
    notes: list[Body] = []
    for placed in binding.resolvers:
        if placed.dynamic.scope not in scopes:
            continue
        resolved = _recorded_value(state, placed)
        if resolved is not None and placed.part is ResolverPart.INSTRUCTIONS and not is_new:
            # Recorded instructions are used as they are: there is no function behind them.
            parts.append(read_part(placed, await _read(resolved, means)))
            continue
        part, content = await _resolve_part(binding, placed, state=state, means=means)
        if resolved is None or is_new or binding.package_change == "move":
            parts.append(part)
            if resolved is None or resolved.content.hash != _hash(content):
                notes.append(await _note(part, content, means))
        else:
            parts.append(await _again(binding, part, resolved=resolved, content=content, means=means))
    return Resolution(merge_parts(binding, parts), tuple(notes))


def _recorded_value(state: LoopState, placed: Placed) -> Resolved | None:
    """Return the recorded value of a resolver, if it still applies."""
    run = state.run
    assert run is not None, "only for a run is anything resolved"
    resolved = state.session.resolved.get(resolution_key(run.agent_id, placed.dynamic.name))
    if resolved is None or resolved.scope is not placed.dynamic.scope:
        return None
    return resolved if resolved.scope is ResolverScope.SESSION or resolved.run_id == run.run_id else None


async def _again(
    binding: Binding, part: DynamicPart, *, resolved: Resolved, content: bytes, means: ResolverPorts
) -> DynamicPart:
    """Return the recorded part with the current functions; Rejected if it must not change."""
    if resolved.content.hash == _hash(content):
        return part
    if binding.package_change == "refuse":
        raise _resolver_error(part.placed, "returned another value than before the restart")
    return part_under(part, await _read(resolved, means))


async def _read(resolved: Resolved, means: ResolverPorts) -> bytes:
    return await retry_store_call(lambda: means.content.get(resolved.content), means.clock)


async def _note(part: DynamicPart, content: bytes, means: ResolverPorts) -> Body:
    ref = await retry_store_call(lambda: means.content.put(content), means.clock)
    spec = part.placed.spec
    return records.AgentResolved(
        resolver=spec.name,
        part=spec.part,
        scope=spec.scope,
        content_ref=content_part(ref),
        names=[*part.names] or None,
        failure=part.failure,
    )


def _hash(content: bytes) -> str:
    return f"sha256:{sha256(content).hexdigest()}"


def _has_secret(binding: Binding, content: bytes) -> bool:
    """Whether the content, which is stored unmasked, has a registered secret."""
    text = content.decode()
    return binding.redactor.text(text) != mask_text(text)


async def _resolve_part(
    binding: Binding, placed: Placed, *, state: LoopState, means: ResolverPorts
) -> tuple[DynamicPart, bytes]:
    """Call a resolver; return its part and the bytes to store.

    With `fails_open`, a failure or a value that cannot be stored gives an empty part.
    """
    dynamic, problem = placed.dynamic, ""
    try:
        value = await await_within(_call_resolver(placed, _context(state, means)), dynamic.timeout_ms)
        part = part_of(placed, value)
        check_fit(binding, part)
        content = part.content
        if not _has_secret(binding, content):
            return part, content
        problem = "returned a registered secret; read secrets inside the tools"
    except DeadlineExceeded:
        problem = f"took over {dynamic.timeout_ms:,} ms"
    except (AgentError, CodecError) as error:
        problem = f"cannot be used: {error.message}"
    except BaseException as error:  # a resolver is application code: any error is a failure of it
        if is_for_us(error):
            raise
        log_failure(f"resolver {dynamic.name} failed", error, redactor=binding.redactor)
        problem = f"failed ({type(error).__name__})"
    if not dynamic.fails_open:
        raise _resolver_error(placed, problem)
    nothing = replace(part_of(placed, None), failure=binding.redactor.text(problem))
    return nothing, nothing.content


async def _call_resolver(placed: Placed, context: DynamicContext) -> object:
    resolver = placed.dynamic.resolver
    if iscoroutinefunction(resolver):
        return await resolver(context)
    value = await in_thread(partial(resolver, context))
    return cast(object, await value) if isawaitable(value) else value


def _context(state: LoopState, means: ResolverPorts) -> DynamicContext:
    run, turn = state.run, state.session.turn
    assert run is not None, "only for a run is anything resolved"
    return DynamicContext(
        run.session_id,
        run.run_id,
        agent_id=run.agent_id,
        input=_input(state),
        step_index=None if turn is None else turn.step_index,
        can_ask=means.can_ask,
        source=run.source,
        state=SessionValues(state.session.authored),
    )


def _input(state: LoopState) -> str:
    messages = reversed(state.session.history.messages)
    newest = next((message for message in messages if isinstance(message, UserMessage)), None)
    if newest is None:
        return ""
    if isinstance(newest.content, str):
        return newest.content
    return "".join(part.text for part in newest.content if isinstance(part, TextPart))


def _resolver_error(placed: Placed, problem: str) -> Rejected:
    return Rejected(
        f"resolver {placed.dynamic.name} {problem}",
        kind=ErrorKind.EXTENSION_FAILURE,
        retry=RetryClass.REPAIR_NEEDED,
    )
