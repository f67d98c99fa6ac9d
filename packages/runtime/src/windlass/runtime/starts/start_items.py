"""What a start writes: the inbox item of its run, and the opening of its session."""

from typing import Final

from pydantic_core import to_json

from windlass.agent.package import compaction_config, compaction_route
from windlass.ports.inbox import RequestedRun
from windlass.runtime.starts.packages import EffectivePackage
from windlass_harness import __version__
from windlass_harness.views.session import DEFAULT_COMPACTION
from windlass_protocol import (
    JsonObject,
    ModelReference,
    RunRequest,
    RuntimeIdentity,
    SessionAgent,
    SessionToolDefinition,
    TextPart,
)
from windlass_protocol.bodies import data_of

_TRACE_FIELDS: Final = ("traceparent", "tracestate")
"""Trace context of a request; each attempt at a start has its own."""


def comparable_fields(request: RunRequest) -> JsonObject:
    """Return the fields that two equal requests share, as wire data."""
    fields = request.model_dump(mode="json", by_alias=True)
    metadata = fields.get("metadata")
    if metadata and any(name in metadata for name in _TRACE_FIELDS):
        fields["metadata"] = {name: value for name, value in metadata.items() if name not in _TRACE_FIELDS}
        if not fields["metadata"]:
            del fields["metadata"]
    return fields


_COPIED_FIELDS: Final = frozenset(
    {
        "source",
        "owner",
        "mode",
        "capabilities",
        "batch",
        "metadata",
        "context",
        "turn_id",
        "goal_id",
        "goal_description",
    }
)
"""Fields that the inbox item copies from the request."""


def start_body(
    request: RunRequest,
    effective: EffectivePackage,
    *,
    retry_of: str | None = None,
    undo: JsonObject | None = None,
    job: JsonObject | None = None,
    playground: JsonObject | None = None,
) -> JsonObject:
    """Return the inbox item of a request; equal requests give equal items.

    A run that continues a failed one has no message. A run of the playground has its messages in its session;
    this one is for lists. A run that reverses calls has no limits and no output contract: it calls no model.
    One that makes the call of a job has no contract for the same reason.
    """
    package = effective.package
    facts = RequestedRun(
        run_id=request.run_id,
        agent_id=request.agent_id,
        package_id=package.package_id,
        package_fingerprint=effective.fingerprint,
        route_id=package.provider_route.route_id,
        model_id=package.provider_route.model_id,
        retry_of=retry_of,
    )
    fields = request.model_dump(mode="json", by_alias=True, include={*_COPIED_FIELDS, "input"})
    content = fields.pop("input")
    body = data_of(facts) | {name: value for name, value in fields.items() if value is not None}
    if request.output_contract is not None:
        body["hasOwnOutput"] = True
    if retry_of is None and isinstance(content, str):
        body["message"] = content
    elif retry_of is None:
        # The text of the message, for lists and views.
        texts = (part.text for part in request.input if isinstance(part, TextPart))
        body["message"], body["parts"] = "\n".join(texts), content
    if undo is not None:
        return {**body, "undo": undo}
    if playground is not None:
        body["playground"] = playground
    budget = request.budget or package.budget
    if budget is not None:
        body["budget"] = budget.model_dump(mode="json", by_alias=True)
    contracts = package.output_contracts
    if job is not None:
        body["job"] = job
    elif contracts:
        body["contract"] = contracts[0].model_dump(mode="json", by_alias=True)
    return body


SESSION_AGENT_BYTES_MAX: Final = 65_536
"""Size of an agent in `session.started`; a larger one is only in the package of the run."""


def session_opening(effective: EffectivePackage) -> JsonObject:
    """Return the data of `session.started`: the identity of the runtime, the agent and its compaction."""
    opening = _OPENINGS.get(effective.fingerprint)
    if opening is None:
        if len(_OPENINGS) >= _OPENINGS_MAX:
            _OPENINGS.clear()
        opening = _OPENINGS[effective.fingerprint] = _opening(effective)
    return opening


_OPENINGS: Final[dict[str, JsonObject]] = {}
_OPENINGS_MAX: Final = 64


def _opening(effective: EffectivePackage) -> JsonObject:
    package = effective.package
    route, summariser = package.provider_route, compaction_route(package)
    identity = RuntimeIdentity(
        agent_id=package.agent.agent_id,
        agent_name=package.agent.name,
        model_id=route.model_id,
        version=__version__,
        package_fingerprint=effective.fingerprint,
    )
    agent = SessionAgent(
        model_reference=ModelReference(id=route.model_id),
        compaction_model_reference=None if summariser is None else ModelReference(id=summariser.model_id),
        system=package.agent.instructions or "",
        tools=tuple(
            SessionToolDefinition(
                name=spec.name, description=spec.description or "", input_schema=spec.input_schema
            )
            for spec in package.tools or ()
        ),
    )
    compaction = compaction_config(package) or DEFAULT_COMPACTION
    opening: JsonObject = {
        "runtime": identity.model_dump(mode="json", by_alias=True),
        "compaction": compaction.model_dump(mode="json", by_alias=True),
    }
    agent_data = agent.model_dump(mode="json", by_alias=True)
    if len(to_json(agent_data)) <= SESSION_AGENT_BYTES_MAX:
        opening["agent"] = agent_data
    return opening
