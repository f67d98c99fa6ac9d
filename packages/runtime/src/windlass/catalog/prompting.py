"""What a model was asked in one step of a run, made again from what is kept.

The messages are in the journal. Instructions and tools are those of the package that the run is pinned to,
with what resolvers gave, which is kept by its hash, and what hooks added, which is in their records.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, cast

from pydantic_core import from_json

from windlass.catalog.reading import pages_of
from windlass.engine.prompt import Prompt, system_words
from windlass.errors import Rejected
from windlass.hooks import BEFORE_MODEL_CALL
from windlass.package import package_of
from windlass.ports.content import ContentStore
from windlass.ports.journal import Journal, RunRow
from windlass.ports.model import LLMMessage
from windlass.subagents import subagent_tool
from windlass_harness.loop.state import LoopState
from windlass_harness.views.resolved import Resolved, resolved_by, resolved_key
from windlass_harness.views.runs import RUN_ENDS
from windlass_protocol import (
    AgentResolvedData,
    JsonObject,
    Record,
    ResolverPart,
    ResolverScope,
    ResolverSpec,
    RuntimePackage,
    ToolSpec,
)

NOT_KEPT: Final = "The version of the agent is not kept any more: its instructions and tools are not known."
SECRETS: Final = "Secrets were masked before anything was written: the model may have seen what is not here."
QUESTIONS: Final = (
    "Whether anybody could be asked is not recorded: tools that ask people may have been left out."
)


@dataclass(frozen=True, slots=True)
class StepPrompt:
    """What a model was asked in a step; of several attempts the last one."""

    run_id: str
    session_id: str
    step_index: int
    seq: int
    """The record that began the step."""
    route_id: str | None
    model_id: str | None
    fingerprint: str | None
    """The version of the agent."""
    temperature: float | None
    system: str
    """What the model was told before anything else; not among the messages."""
    output_schema: JsonObject | None
    """What the answer has to fit; the words before the messages say it as well."""
    tools: tuple[JsonObject, ...]
    messages: tuple[LLMMessage, ...]
    unknown: tuple[str, ...]
    """What cannot be known, in words."""


async def prompt_of(
    row: RunRow, journal: Journal, *, content: ContentStore, step_index: int
) -> StepPrompt | None:
    """Return what a model was asked in a step; None if the run has no such step.

    Raises:
        Unavailable: the content store cannot be reached.
    """
    records = await _records(row, journal)
    places = [at for at, one in enumerate(records) if _begins(one, row.run_id)]
    begun = [at for at in places if records[at].data.get("stepIndex") == step_index]
    if not begun:
        return None
    at = begun[-1]
    end = next((place for place in places if place > at), len(records))
    # Folding a long session takes a while: no event loop does it.
    state = await asyncio.to_thread(_folded, records[: at + 1])
    return await _prompt(state, step_index, after=records[at + 1 : end], content=content)


async def _records(row: RunRow, journal: Journal) -> list[Record]:
    """All records of a session up to the end of a run."""
    found: list[Record] = []
    async for page in pages_of(journal, row.session_id):
        for record in page:
            found.append(record)
            if record.type in RUN_ENDS and record.run_id == row.run_id:
                return found
    return found


def _begins(record: Record, run_id: str) -> bool:
    return record.type == "step.started" and record.run_id == run_id


def _folded(records: Iterable[Record]) -> LoopState:
    state = LoopState()
    state.apply_all(records)
    return state


async def _prompt(
    state: LoopState, step_index: int, *, after: Sequence[Record], content: ContentStore
) -> StepPrompt:
    run, contract = state.run, state.run_notes.contract
    assert run is not None, "a step is one of a run"
    unknown = [SECRETS]
    package = None
    if run.package_fingerprint is not None:
        try:
            package = await package_of(content, run.package_fingerprint)
            package = await _resolved(package, _given(state, after), content=content)
        except Rejected:
            package = None
    if package is None:
        unknown.append(NOT_KEPT)
    tools, has_questions = _tools(package, can_ask=run.can_ask)
    if has_questions:
        unknown.append(QUESTIONS)
    instructions = "" if package is None else package.agent.instructions or ""
    settings = {} if package is None else package.provider_route.settings or {}
    temperature = settings.get("temperature")
    messages = Prompt().messages(state.session.history, "")
    messages += [LLMMessage("user", text) for text in _added(after)]
    return StepPrompt(
        run_id=run.run_id,
        session_id=run.session_id,
        step_index=step_index,
        seq=state.seq,
        route_id=None if package is None else package.provider_route.route_id,
        model_id=run.model_id,
        fingerprint=run.package_fingerprint,
        temperature=temperature if isinstance(temperature, int | float) else None,
        system=system_words(instructions, contract),
        output_schema=None if contract is None else contract.json_schema,
        tools=tools,
        messages=tuple(messages),
        unknown=tuple(unknown),
    )


def _given(state: LoopState, after: Sequence[Record]) -> dict[str, Resolved]:
    """What resolvers gave, by name; what holds for a step is noted behind it."""
    run = state.run
    assert run is not None, "a step is one of a run"
    found = dict(state.session.resolved)
    for record in after:
        if record.type == "agent.resolved":
            data = AgentResolvedData.model_validate(record.data)
            if data.scope is ResolverScope.STEP:
                found |= resolved_by(data, agent_id=run.agent_id, run_id=record.run_id)
    prefix = resolved_key(run.agent_id, "")
    return {key.removeprefix(prefix): one for key, one in found.items() if key.startswith(prefix)}


async def _resolved(
    package: RuntimePackage, given: dict[str, Resolved], *, content: ContentStore
) -> RuntimePackage:
    """A package with what its resolvers gave: what holds for a step comes last."""
    specs = package.resolvers or ()
    for spec in sorted(specs, key=lambda one: one.scope is ResolverScope.STEP):
        known = given.get(spec.name)
        if known is not None:
            package = _with(package, spec, cast(JsonObject, from_json(await content.get(known.content))))
    return package


def _with(package: RuntimePackage, spec: ResolverSpec, part: JsonObject) -> RuntimePackage:
    told, words = package.agent.instructions or "", str(part.get("words") or "")
    is_first = spec.part is ResolverPart.INSTRUCTIONS
    said = "\n\n".join(one for one in ((words, told) if is_first else (told, words)) if one)
    agent = package.agent.model_copy(update={"instructions": said or None})
    tools = [ToolSpec.model_validate(one) for one in cast(list[object], part.get("tools") or [])]
    return package.model_copy(update={"agent": agent, "tools": (*(package.tools or ()), *tools) or None})


def _tools(package: RuntimePackage | None, *, can_ask: bool) -> tuple[tuple[JsonObject, ...], bool]:
    """What the model was told of tools, and whether some of them ask people."""
    if package is None:
        return (), False
    questions = {one.name for one in package.tools or () if (one.metadata or {}).get("isQuestion")}
    tools: list[JsonObject] = [
        {"name": one.name, "description": one.description or "", "inputSchema": one.input_schema}
        for one in package.tools or ()
        if can_ask or one.name not in questions
    ]
    below = (
        subagent_tool(one.name, one.description or "", package_id=one.package_id)
        for one in package.subagents or ()
    )
    return (*tools, *(one.definition for one in below)), bool(questions) and can_ask


def _added(after: Iterable[Record]) -> list[str]:
    """What hooks said to the model, behind the messages."""
    found: list[str] = []
    for record in after:
        if record.type == "hook.completed" and record.data.get("point") == BEFORE_MODEL_CALL:
            change = record.data.get("change")
            context = change.get("context") if isinstance(change, dict) else None
            found += [str(text) for text in context] if isinstance(context, list) else ()
    return found
