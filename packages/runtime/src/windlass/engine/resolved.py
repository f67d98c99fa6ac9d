"""What a resolver gave: checked, as data, and put into a binding."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final, cast

from pydantic_core import from_json

from windlass.dynamic import Placed
from windlass.engine.binding import Binding
from windlass.errors import check_text, kind_of, wrong
from windlass.limits import INSTRUCTIONS_CHARS_MAX, PACKAGE_BYTES_MAX, TOOLS_PER_AGENT_MAX
from windlass.skills import Skill, Skills
from windlass.tools import PIN, Tool, as_pinned
from windlass_protocol import CodecLimits, JsonObject, ResolverPart, ToolSpec, canonical

_LIMITS: Final = CodecLimits(message_bytes_max=PACKAGE_BYTES_MAX, depth_max=128)


@dataclass(frozen=True, slots=True)
class Part:
    """What a resolver gave: words, tools or skills."""

    placed: Placed
    words: str = ""
    tools: tuple[Tool[..., object], ...] = ()
    specs: tuple[ToolSpec, ...] = ()
    """What the model is told of the tools; of some there may be none."""
    skills: tuple[Skill, ...] = ()
    failure: str | None = None
    """Why it is nothing."""

    @property
    def names(self) -> tuple[str, ...]:
        """The tools or skills."""
        return (*(spec.name for spec in self.specs), *(skill.name for skill in self.skills))

    @property
    def content(self) -> bytes:
        """It as JSON; equal parts give equal bytes."""
        body: JsonObject = {"part": self.placed.part.value, "words": self.words}
        if self.specs:
            specs = sorted(self.specs, key=lambda spec: spec.name)
            body["tools"] = [spec.model_dump(mode="json", by_alias=True) for spec in specs]
        if self.skills:
            body["skills"] = [*sorted(skill.ref for skill in self.skills)]
        return canonical(body, _LIMITS)


def part_of(placed: Placed, given: object) -> Part:
    """Return what a resolver gave.

    Raises:
        Rejected: it is not what its place takes.
    """
    where = f"resolver {placed.dynamic.name}"
    match placed.part:
        case ResolverPart.INSTRUCTIONS:
            if given is not None and not isinstance(given, str):
                raise wrong(f"{where}: instructions are a text, found {kind_of(given)}")
            return Part(placed, check_text(given or "", where, chars_max=INSTRUCTIONS_CHARS_MAX))
        case ResolverPart.TOOLS:
            tools = tuple(_pinned(one) for one in _items(given, Tool, where))
            return Part(placed, tools=tools, specs=tuple(tool.spec for tool in tools))
        case ResolverPart.SKILLS:
            skills = tuple(cast(Iterable[Skill], _items(given, Skill, where)))
            return Part(placed, Skills(*skills).words, skills=skills)


def read_part(placed: Placed, content: bytes) -> Part:
    """Return what is recorded of what a resolver gave; nothing is behind its tools."""
    body = cast(JsonObject, from_json(content))
    specs = tuple(ToolSpec.model_validate(one) for one in cast(list[object], body.get("tools", [])))
    return Part(placed, str(body["words"]), specs=specs)


def part_under(given: Part, content: bytes) -> Part:
    """Return what is recorded, with the functions of what is given now.

    A tool that has changed since refuses to be called; one that is gone is not there.
    """
    recorded = read_part(given.placed, content)
    today = {tool.name: tool for tool in given.tools}
    pinned = (as_pinned(one, today[one.name]) for one in recorded.specs if one.name in today)
    return replace(recorded, tools=tuple(pinned), skills=given.skills)


def check_fit(binding: Binding, part: Part) -> None:
    """See that a part can be put beside what is there.

    Raises:
        Rejected: a name is taken, or there is too much of it.
    """
    where, package = f"resolver {part.placed.dynamic.name}", binding.package
    taken = {spec.name for spec in package.tools or ()} | {one.name for one in package.subagents or ()}
    if part.placed.part is ResolverPart.SKILLS:
        taken = {skill.name for skill in binding.skills}
    names = part.names
    for at, name in enumerate(names):
        if name in taken or name in names[:at]:
            raise wrong(f"{where}: there is a {name} already; give each its own name")
    count = len(part.specs) + len(package.tools or ())
    if count > TOOLS_PER_AGENT_MAX:
        raise wrong(f"{where}: tools: found {count:,}, limit {TOOLS_PER_AGENT_MAX:,}")


def merged(binding: Binding, parts: Sequence[Part]) -> Binding:
    """Return a binding with what resolvers gave.

    Raises:
        Rejected: two of them gave the same name.
    """
    for part in parts:
        check_fit(binding, part)
        binding = _with(binding, part)
    return binding


def _with(binding: Binding, part: Part) -> Binding:
    package = binding.package
    told, words = package.agent.instructions or "", part.words
    # The instructions of an agent come before its skills, whoever gives them.
    is_first = part.placed.part is ResolverPart.INSTRUCTIONS
    said = "\n\n".join(one for one in ((words, told) if is_first else (told, words)) if one)
    agent = package.agent.model_copy(update={"instructions": said or None})
    specs = (*(package.tools or ()), *part.specs)
    tools = {**binding.tools, **{tool.name: tool for tool in part.tools}}
    skills = binding.skills
    if part.skills:
        skills = Skills(*skills, *part.skills)
        tools[skills.tool.name] = skills.tool
    package = package.model_copy(update={"agent": agent, "tools": specs or None})
    return replace(binding, package=package, tools=tools, skills=skills)


def _pinned(tool: Tool[..., object]) -> Tool[..., object]:
    """Return a tool that is known by what it was said to be."""
    if tool.metadata.get(PIN) is not None:
        return tool
    said = tool.spec.model_dump(mode="json", by_alias=True)
    pin = f"sha256:{sha256(canonical(said, _LIMITS)).hexdigest()}"
    return replace(tool, metadata={**tool.metadata, PIN: pin})


def _items(given: object, kind: type, where: str) -> tuple[Tool[..., object], ...]:
    """Return one item, or several, as a tuple."""
    if isinstance(given, kind):
        given = (given,)
    items = () if given is None else given
    if not isinstance(items, list | tuple | Skills):
        raise wrong(f"{where}: it gives {kind.__name__}s, found {kind_of(given)}")
    found = tuple(cast(Iterable[object], items))
    for one in found:
        if not isinstance(one, kind):
            raise wrong(f"{where}: it gives {kind.__name__}s, found {kind_of(one)} among them")
    return cast(tuple[Tool[..., object], ...], found)
