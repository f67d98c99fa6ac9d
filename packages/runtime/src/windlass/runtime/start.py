"""Start of a run: every check in order, before anything is written; and the audit of refused starts.

A refused start makes no run and no session; its typed error holds the decision of the policy and the
references to its rules. Its only trace is an entry in the audit of the store, which is bounded: a caller that
may not start runs must not be able to fill the store.
"""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Final, cast

from pydantic_core import to_json

from windlass.agent.agent import check_sink, output_contract, subagent_tool, subagent_words
from windlass.agent.attachments import check_parts, parts_chars
from windlass.agent.hooks import Hook, check_hook
from windlass.agent.package import (
    check_contract,
    check_package,
    compaction_config,
    compaction_route,
    fallback_routes,
    fingerprint,
    package_json,
)
from windlass.engine.approval import maybe_await, timed_out
from windlass.engine.clocks import moment
from windlass.engine.deadline import DeadlineExceeded, await_within
from windlass.engine.session_sandbox import SandboxPlace
from windlass.engine.subagents import Task
from windlass.errors import AgentError, Ambiguous, Rejected, Unavailable, is_for_us
from windlass.limits import REFUSAL_MESSAGE_CHARS_MAX, REFUSAL_POLICIES_MAX, REFUSAL_TIMEOUT_MS
from windlass.ports.host import StartPolicy
from windlass.ports.model import LLMProvider
from windlass.ports.sandbox import SandboxAdapter
from windlass.ports.store import RefusedStart, SessionCopy, Store
from windlass.refusals import (
    bad_request,
    bad_setup,
    check_id,
    check_json,
    contract_violation,
    invalid_package,
    kept_name,
    missing_agent,
    missing_port,
    missing_provider,
    notes_name,
    policy_failed,
    start_denied,
    unknown_agent,
    unmet_deps,
)
from windlass.runtime.registry import RuntimePorts
from windlass.tools import Tool, as_pinned, with_undo_tools
from windlass.tools.calling import read_by_size
from windlass_harness import __version__
from windlass_harness.ledger.names import BUILDER, is_notes
from windlass_harness.loop.notes import Child
from windlass_harness.loop.subagents import is_childs
from windlass_harness.redact import mask_text
from windlass_harness.views.runs import RunState
from windlass_harness.views.session import DEFAULT_COMPACTION
from windlass_protocol import (
    AllowDecision,
    AskDecision,
    CausalIds,
    CodecError,
    DeferDecision,
    DenyDecision,
    ErrorKind,
    InterruptDecision,
    JsonObject,
    ModelReference,
    ModifyDecision,
    OutputContract,
    PlaygroundOrigin,
    ProviderRoute,
    RetryClass,
    RunMode,
    RunRequest,
    RuntimeIdentity,
    RuntimePackage,
    SandboxSpec,
    SessionAgent,
    SessionCapabilities,
    SessionToolDefinition,
    SourceRef,
    TextPart,
)
from windlass_protocol.codec_errors import shown
from windlass_protocol.frozen import sealed
from windlass_protocol.limits import ID_CHARS_MAX

_LOG: Final = logging.getLogger(__name__)
ASKED: Final = ("run_id", "session_id", "agent_id", "owner", "source")
"""Fields of a request that the audit keeps."""
ID_READ_CHARS_MAX: Final = 65_536
"""Characters of an invalid id that are searched for secrets before it is cut."""


async def record_refusal(ports: RuntimePorts, error: AgentError, fields: Mapping[str, object]) -> None:
    """Write a refused start to the audit of the store; `fields` holds the fields of `ASKED` that are known.

    The caller raises `error` whatever happens here: a failure of the store is logged.
    """
    store = ports.store
    is_of_store = error.kind is ErrorKind.JOURNAL_FAILURE and isinstance(error, Unavailable | Ambiguous)
    if store is None or is_of_store:
        _LOG.warning("a start was refused, and the store cannot record it: %s", type(error).__name__)
        return
    try:
        await await_within(store.record_refusal(_refused_start(ports, error, fields)), REFUSAL_TIMEOUT_MS)
    except BaseException as failure:  # the error and the store may be host code; the caller gets the error
        if is_for_us(failure):
            raise
        _LOG.warning("a refused start was not recorded: %s", type(failure).__name__)


def _refused_start(ports: RuntimePorts, error: AgentError, fields: Mapping[str, object]) -> RefusedStart:
    hide = ports.scribe.redactor.text

    def name(value: object) -> str | None:
        """Return an id; one that is invalid is cut and made printable."""
        if not isinstance(value, str):
            return None
        hidden = hide(value[:ID_READ_CHARS_MAX])
        try:
            return check_id(hidden, "an id")
        except Rejected:
            return shown(hidden, ID_CHARS_MAX) or None

    source = fields.get("source")
    if isinstance(source, SourceRef):
        source = SourceRef(kind=source.kind, id=name(source.id) or "", trust=source.trust)
    return RefusedStart(
        at=moment(ports.machine.clock).at,
        run_id=name(fields.get("run_id") or error.causal_ids.run_id),
        session_id=name(fields.get("session_id")),
        agent_id=name(fields.get("agent_id")),
        owner=name(fields.get("owner")),
        source=source if isinstance(source, SourceRef) else None,
        code=error.code,
        kind=error.kind,
        retry=error.retry,
        message=shown(hide(error.message), REFUSAL_MESSAGE_CHARS_MAX),
        policy_code=None if error.policy_code is None else shown(hide(error.policy_code), ID_CHARS_MAX),
        policy_refs=error.policy_refs[:REFUSAL_POLICIES_MAX],
    )


def check_ids(ports: RuntimePorts, request: RunRequest, *, message_id: str | None = None) -> None:
    """Refuse ids that would be masked or could be mistaken for others: such runs cannot be found again.

    Raises:
        Rejected: an id holds a registered secret or looks like one, changes the direction of text, or the
            owner is the Builder.
    """
    names = ("run_id", "agent_id", "session_id", "turn_id", "owner")
    ids = {name: getattr(request, name) for name in names} | {"message_id": message_id}
    for name, value in ids.items():
        if value is not None:
            check_id(value, name)
    if request.owner == BUILDER and request.agent_id != BUILDER:
        raise bad_request(f"owner must not be {BUILDER}: it is reserved for the sessions of the Builder")
    hide = ports.scribe.redactor.text
    hidden = [name for name, value in ids.items() if value is not None and hide(value) != value]
    if hidden:
        raise Rejected(
            f"{' and '.join(hidden)} would be masked: it is a registered secret or "
            "looks like one; choose another",
            kind=ErrorKind.INVALID_STATE_TRANSITION,
            retry=RetryClass.REPAIR_NEEDED,
        )


async def check_free(store: Store, request: RunRequest) -> None:
    """Refuse ids that are reserved for subagents and for notes.

    A subagent starts in a new session. Once that session exists, any caller may start further runs in it.

    Raises:
        Rejected: the run id is reserved, the id of a new session is reserved, or the session holds notes.
    """
    session_id = request.session_id
    if session_id is not None and is_notes(session_id):
        raise notes_name("session_id")
    if is_childs(request.run_id):
        raise kept_name("run_id")
    if session_id is not None and is_childs(session_id) and await store.session(session_id) is None:
        raise kept_name("session_id")


async def check_unused(store: Store, child: Child) -> None:
    """Refuse a subagent if its run id or session id is in use.

    The start is durable together with the record of its call, so an earlier run or session belongs to another
    caller.

    Raises:
        Conflict: the run or the session exists.
    """
    if await store.run(child.run_id) is not None:
        raise contract_violation("a run with its id exists and belongs to another caller", child.run_id)
    if await store.session(child.session_id) is not None:
        raise contract_violation("a session with its id exists and belongs to another caller", child.run_id)


def check_no_secret(ports: RuntimePorts, content: bytes, *, run_id: str | None = None) -> None:
    """Refuse a package that holds a registered secret.

    A package is stored byte for byte for as long as its runs.

    Raises:
        Rejected: it holds a registered secret.
    """
    text = content.decode()
    if ports.scribe.redactor.text(text) != mask_text(text):
        raise invalid_package(
            "the package holds a registered secret; keep secrets out of instructions, tools and settings, "
            "and let the tools read them",
            run_id,
        )


_NO_HOOKS: Final[Mapping[str, Hook]] = {}
_NO_TOOLS: Final[Mapping[str, Tool[..., object]]] = {}


@sealed
class PlaygroundStart:
    """A playground run to start, beside its request."""

    package: RuntimePackage
    origin: PlaygroundOrigin
    session: SessionCopy
    """Its session before the run."""
    asked: JsonObject
    """What two equal requests share: the origin, and digests of the package and the messages."""
    opening: JsonObject
    """What its `session.started` holds besides the agent: the taint of the session of the recorded run."""


@sealed
class EffectivePackage:
    """The package that a request would run under."""

    package: RuntimePackage
    fingerprint: str

    @property
    def content(self) -> bytes:
        """The canonical JSON that the fingerprint is the hash of."""
        return package_json(self.package)


async def effective_package(ports: RuntimePorts, request: RunRequest) -> EffectivePackage:
    """Return the package of a request, with the changes that the request makes to it.

    Equal requests give equal packages.

    Raises:
        Rejected: the package is unknown, it cannot be run, or it belongs to another agent.
    """
    try:
        package = await _resolve(ports, request)
        if request.output_contract is not None:
            check_contract(request.output_contract)
            package = with_contract(package, request.output_contract)
        registered = ports.registry.package(package.package_id)
        if registered is not None and registered.package is package:
            fingerprint = registered.fingerprint
        else:
            check_package(package)
            fingerprint = None
        if package.agent.agent_id != request.agent_id:
            raise invalid_package("runtime package agent snapshot must match the run request agent_id")
        return EffectivePackage(package, fingerprint or fingerprint_of(package))
    except AgentError as error:
        raise error.caused_by(CausalIds(run_id=request.run_id)) from None


async def _resolve(ports: RuntimePorts, request: RunRequest) -> RuntimePackage:
    registered = ports.registry.agent(request.agent_id)
    agent_package_id = None if registered is None else registered.package.package_id
    package_id = request.package_id or agent_package_id or ports.default_package_id
    if package_id is None and len(ports.registry):
        raise unknown_agent(ports.scribe.redactor.text(request.agent_id), ports.registry.names)
    if package_id is None:
        raise missing_port("default runtime package")
    return await resolve_package(ports, package_id)


async def resolve_package(ports: RuntimePorts, package_id: str) -> RuntimePackage:
    """Return a package by its id.

    Raises:
        Rejected: the package is unknown, or it cannot be run.
    """
    resolver = ports.resolver or (ports.registry if len(ports.registry) else None)
    if resolver is None:
        raise missing_port("runtime package resolver")
    problem = ""
    try:
        package: object = await maybe_await(resolver.resolve(package_id))
    except AgentError:
        raise
    except BaseException as error:  # host code: its exception may quote secrets
        if is_for_us(error):
            raise
        package, problem = None, f"the package resolver failed ({type(error).__name__})"
    if problem:
        raise invalid_package(problem)
    return package if isinstance(package, RuntimePackage) else check_package(package)


def fingerprint_of(package: RuntimePackage) -> str:
    """Return the fingerprint of a package.

    Raises:
        Conflict: the package cannot be written as canonical JSON.
    """
    try:
        return fingerprint(package)
    except CodecError as error:
        problem = error.message
    raise contract_violation(f"runtime package cannot be fingerprinted: {problem}")


def with_contract(package: RuntimePackage, contract: OutputContract) -> RuntimePackage:
    """Return a package with this output contract first, which is the one that its runs must fulfil.

    The other contracts of the package stay, except one with the same schema id.
    """
    other_contracts = (
        other for other in package.output_contracts or () if other.schema_id != contract.schema_id
    )
    return package.model_copy(update={"output_contracts": (contract, *other_contracts)})


async def check_start(
    ports: RuntimePorts,
    request: RunRequest,
    *,
    message_id: str | None = None,
    package: RuntimePackage | None = None,
) -> EffectivePackage:
    """Check everything that a run needs, in order; nothing is written.

    `message_id` is the id of a message to the current run. `package` replaces that of the agent.

    Raises:
        Rejected: a port is missing, the package cannot be run, or the message cannot be decoded.
        Unavailable: no provider serves the model.
        Denied: the start policy does not allow it.
    """
    policy = _check_ports(ports, request.run_id)
    check_ids(ports, request, message_id=message_id)
    check_json(request)
    await read_by_size(parts_chars(request), partial(check_parts, request))
    effective = await effective_package(ports, request)
    if package is not None:
        effective = EffectivePackage(package, fingerprint_of(package))
    provider_of(ports, effective.package, run_id=request.run_id)
    fallbacks_of(ports, effective.package, run_id=request.run_id)
    summary_provider_of(ports, effective.package, run_id=request.run_id)
    _check_hooks(ports, effective.package, request.run_id)
    _check_tools(ports, effective.package, request.run_id)
    ports.registry.resolvers(effective.package)
    _check_sinks(ports, effective.package, request.run_id)
    if effective.package.sandbox is not None:
        await _check_sandbox(ports, effective.package.sandbox, request.run_id)
    await _check_policy(policy, request, effective.package, timeout_ms=ports.policy_timeout_ms)
    return effective


def check_deps(ports: RuntimePorts, request: RunRequest) -> None:
    """Refuse a run if its agent or a subagent needs dependencies, and nothing gives or makes them.

    Raises:
        Rejected: dependencies are missing.
    """
    registered = ports.registry.agent(request.agent_id)
    agent = None if registered is None else registered.agent
    if agent is None:
        return
    missing = ports.deps.missing(agent, is_given=request.run_id in ports.deps.given)
    if missing is not None:
        raise unmet_deps(agent.name, missing, request.run_id)


def _check_ports(ports: RuntimePorts, run_id: str) -> StartPolicy:
    needed = (
        ("run journal", ports.store),
        ("agent event bus", ports.bus),
        ("content resolver", ports.content),
    )
    for name, port in needed:
        if port is None:
            raise missing_port(name, run_id)
    if ports.start_policy is None:
        raise missing_port("runtime policy port", run_id)
    return ports.start_policy


async def _check_policy(
    policy: StartPolicy, request: RunRequest, package: RuntimePackage, *, timeout_ms: int
) -> None:
    problem = ""
    decision: object = None
    try:
        decision = await await_within(policy(request, package), timeout_ms)
    except DeadlineExceeded:
        decision = timed_out(timeout_ms, "the run is denied")
    except AgentError as error:
        raise error.caused_by(CausalIds(run_id=request.run_id)) from None
    except BaseException as error:  # host code: any exception denies the run
        if is_for_us(error):
            raise
        problem = f"failed ({type(error).__name__})"
    match decision:
        case AllowDecision():
            return
        case DenyDecision() | AskDecision() | ModifyDecision() | InterruptDecision() | DeferDecision():
            raise start_denied(decision, request.run_id, source=request.source)
        case _:
            problem = problem or f"gave no decision ({type(decision).__name__})"
            raise policy_failed(problem, request.run_id, source=request.source)


def provider_of(ports: RuntimePorts, package: RuntimePackage, *, run_id: str | None = None) -> LLMProvider:
    """Return the model of a package.

    Raises:
        Unavailable: no provider serves it.
    """
    route_id = package.provider_route.route_id
    provider = ports.providers.get(route_id)
    registered = ports.registry.agent(package.agent.agent_id)
    if provider is None and registered is not None:
        # The agent's own model serves the current route of the agent, not an earlier one.
        is_same = registered.package.provider_route.route_id == route_id
        brought = ports.registry.model(package.provider_route, registered)
        provider = brought or (registered.provider if is_same else None)
    return _routed_provider(ports, package.provider_route, run_id) if provider is None else provider


def _routed_provider(ports: RuntimePorts, route: ProviderRoute, run_id: str | None) -> LLMProvider:
    """Return the model of a route that no agent brings."""
    provider = ports.providers.get(route.route_id)
    if provider is None and ports.provider_source is not None:
        try:
            provider = ports.provider_source.provider(route.route_id, route.model_id)
        except AgentError as error:
            raise error.caused_by(CausalIds(run_id=run_id)) from None
    if provider is None:
        raise missing_provider(route.route_id, run_id, known=_routes(ports))
    return provider


def fallbacks_of(
    ports: RuntimePorts, package: RuntimePackage, *, run_id: str | None = None
) -> dict[str, LLMProvider]:
    """Return the models that are called when the model of a package is away, by route and model, in order.

    Raises:
        Unavailable: no provider serves one of them.
    """
    registered = ports.registry.agent(package.agent.agent_id)
    agent = None if registered is None else registered.agent
    agent_models = (
        {} if agent is None else dict(zip(agent.fallback_routes, agent.fallback_models, strict=True))
    )
    providers: dict[str, LLMProvider] = {}
    for route in fallback_routes(package):
        model = agent_models.get((route.route_id, route.model_id))
        if model is None or isinstance(model, str):
            model = _routed_provider(ports, route, run_id)
        providers[f"{route.route_id}/{route.model_id}"] = model
    return providers


def _routes(ports: RuntimePorts) -> list[str]:
    source: object = ports.provider_source
    return [*ports.providers, *cast("tuple[str, ...]", getattr(source, "routes", ()))]


def summary_provider_of(
    ports: RuntimePorts, package: RuntimePackage, *, run_id: str | None = None
) -> LLMProvider:
    """Return the model that writes summaries for a package: its summary model, or else its model.

    Raises:
        Unavailable: no provider serves it.
    """
    route = compaction_route(package)
    registered = ports.registry.agent(package.agent.agent_id)
    if route is None:
        return provider_of(ports, package, run_id=run_id)
    summary_provider = None if registered is None else registered.summary_provider
    if (
        registered is not None
        and summary_provider is not None
        and compaction_route(registered.package) == route
    ):
        return summary_provider
    return provider_of(ports, package.model_copy(update={"provider_route": route}), run_id=run_id)


def hooks_of(ports: RuntimePorts, package: RuntimePackage) -> dict[str, Hook]:
    """Return the functions behind the hooks of a package; the agent's own come first."""
    registered = ports.registry.agent(package.agent.agent_id)
    all_hooks = {**ports.hooks, **(_NO_HOOKS if registered is None else registered.hooks)}
    return {
        spec.hook_id: all_hooks[spec.hook_id] for spec in package.hooks or () if spec.hook_id in all_hooks
    }


def _check_hooks(ports: RuntimePorts, package: RuntimePackage, run_id: str) -> None:
    hooks = hooks_of(ports, package)
    for spec in package.hooks or ():
        problem = None
        try:
            check_hook(spec)
        except Rejected as error:
            problem = error.message
        if problem is None and spec.hook_id not in hooks:
            problem = f"package {package.package_id} has no executor for hook {spec.hook_id}"
        if problem is not None:
            raise invalid_package(problem, run_id)


def _check_sinks(ports: RuntimePorts, package: RuntimePackage, run_id: str) -> None:
    for spec in package.output_sinks or ():
        problem = None
        try:
            check_sink(spec)
        except Rejected as error:
            problem = error.message
        if problem is None and spec.sink_id not in ports.sinks:
            problem = (
                f"package {package.package_id} needs output sink {spec.sink_id}, and the runtime has none"
            )
        if problem is not None:
            raise invalid_package(problem, run_id)


def _check_tools(ports: RuntimePorts, package: RuntimePackage, run_id: str) -> None:
    if package.programs and ports.interpreter is None:
        raise missing_port("interpreter", run_id)
    tools = tools_of(ports, package)
    for spec in package.tools or ():
        if spec.name not in tools:
            raise invalid_package(
                f"package {package.package_id} has no executor for tool {spec.name}", run_id
            )
    for subagent in package.subagents or ():
        if ports.resolver is None and ports.registry.package(subagent.package_id) is None:
            raise invalid_package(
                f"package {package.package_id} has subagent {subagent.name}, and the runtime has no package "
                f"{subagent.package_id} for it",
                run_id,
            )


async def _check_sandbox(ports: RuntimePorts, spec: SandboxSpec, run_id: str) -> None:
    """Refuse the run if this machine cannot give its sandbox: commands never run outside of it."""
    try:
        await _adapter_of(ports, spec).check(spec)
    except AgentError as error:
        raise error.caused_by(CausalIds(run_id=run_id)) from None


def _adapter_of(ports: RuntimePorts, spec: SandboxSpec) -> SandboxAdapter:
    adapter = ports.sandboxes.get(spec.adapter)
    if adapter is None:
        raise bad_setup(
            f"the runtime has no sandbox adapter {spec.adapter}; give one with sandboxes={{name: adapter}}"
        )
    return adapter


def sandbox_of(ports: RuntimePorts, run: RunState, package: RuntimePackage) -> SandboxPlace | None:
    """Return the sandbox of a run: that of a caller which it shares, or its own; see `FindSandbox`.

    It is a wall, and so the one that the agent has now: the package may be older, or come with an import.
    """
    shared = None if run.parent is None else run.parent.sandbox
    registered = ports.registry.agent(run.agent_id)
    today = None if registered is None else registered.package.sandbox
    spec, key = today or package.sandbox, run.session_id
    if shared is not None:
        registered = ports.registry.agent(shared.agent_id)
        if registered is None or registered.package.sandbox is None:
            raise missing_agent(shared.agent_id)
        spec, key = registered.package.sandbox, shared.session_id
    return None if spec is None else SandboxPlace(spec, _adapter_of(ports, spec), key)


def _shared_sandbox(task: Task, ports: RuntimePorts, package: RuntimePackage) -> JsonObject | None:
    """Return the sandbox of the caller if its subagent shares it.

    It does if it declares no sandbox, or is a copy of the caller.
    """
    caller = task.run
    if package.sandbox is not None and package.agent.agent_id != caller.agent_id:
        return None
    if caller.parent is not None and caller.parent.sandbox is not None:
        return caller.parent.sandbox.model_dump(mode="json", by_alias=True)
    registered = ports.registry.agent(caller.agent_id)
    if registered is None or registered.package.sandbox is None:
        return None
    return {"sessionId": caller.session_id, "agentId": caller.agent_id}


def tools_of(ports: RuntimePorts, package: RuntimePackage) -> dict[str, Tool[..., object]]:
    """Return the functions behind the tools of a package.

    A route for this very package comes first, then the agent's own tools, then routes for any package.
    """
    registered = ports.registry.agent(package.agent.agent_id)
    agent_tools = _NO_TOOLS if registered is None else registered.tools
    tools: dict[str, Tool[..., object]] = {}
    for spec in package.tools or ():
        tool = (
            ports.routes.get((package.package_id, spec.name))
            or agent_tools.get(spec.name)
            or ports.routes.get((None, spec.name))
        )
        if tool is not None:
            tools[spec.name] = as_pinned(spec, tool)
    for subagent in package.subagents or ():
        tools[subagent.name] = subagent_tool(
            subagent.name, subagent.description or "", package_id=subagent.package_id
        )
    if package.programs:
        from windlass.tools.programs import program_tools  # noqa: PLC0415 - few agents have programs

        keeps_variables = bool(package.keeps_variables)
        tools |= program_tools(package.programs, tools.values(), keeps_variables=keeps_variables)
    return with_undo_tools(tools)


_TRACE: Final = ("traceparent", "tracestate")
"""Trace context of a request; each attempt at a start has its own."""


def asked_for(request: RunRequest) -> JsonObject:
    """Return the fields that two equal requests share, as wire data."""
    fields = request.model_dump(mode="json", by_alias=True)
    metadata = fields.get("metadata")
    if metadata and any(name in metadata for name in _TRACE):
        fields["metadata"] = {name: value for name, value in metadata.items() if name not in _TRACE} or None
    return fields


_KEPT: Final = (
    "source",
    "owner",
    "mode",
    "capabilities",
    "metadata",
    "context",
    "turnId",
    "goalId",
    "goalDescription",
)
"""Fields that the inbox item copies from the request."""


def start_body(
    request: RunRequest,
    effective: EffectivePackage,
    *,
    retry_of: str | None = None,
    undo: JsonObject | None = None,
    playground: JsonObject | None = None,
) -> JsonObject:
    """Return the inbox item of a request; equal requests give equal items.

    A run that continues a failed one has no message. A run of the playground has its messages in its session;
    this one is for lists. A run that reverses calls has no limits and no output contract: it calls no model.
    """
    package = effective.package
    body: JsonObject = {
        "runId": request.run_id,
        "agentId": request.agent_id,
        "packageId": package.package_id,
        "packageFingerprint": effective.fingerprint,
        "routeId": package.provider_route.route_id,
        "modelId": package.provider_route.model_id,
    }
    fields = request.model_dump(mode="json", by_alias=True)
    for name in _KEPT:
        if fields.get(name) is not None:
            body[name] = fields[name]
    content = fields["input"]
    if retry_of is not None:
        body["retryOf"] = retry_of
    elif isinstance(content, str):
        body["message"] = content
    else:
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
    if contracts:
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


KEPT_MAX: Final = 1_024
"""Packages known to be in the content store; a package beyond this is looked up again."""


class PackageKeeper:
    """Stores the packages of runs, so that a run can continue with the package it started with."""

    def __init__(self, ports: RuntimePorts) -> None:
        self._ports = ports
        self._kept: set[str] = set()

    async def keep(self, effective: EffectivePackage, run_id: str) -> None:
        """Store the package of a run before it starts.

        Raises:
            Rejected: it holds a registered secret.
            Unavailable: the store cannot be reached.
        """
        content, store, fingerprint = self._ports.content, self._ports.store, effective.fingerprint
        if (
            fingerprint in self._kept
            or content is None
            or store is None
            or await store.run(run_id) is not None
        ):
            return
        check_no_secret(self._ports, effective.content, run_id=run_id)
        await content.put(effective.content)
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        self._kept.add(fingerprint)


class RuntimeDelegator:
    """Prepares the runs of subagents with the ports of a runtime."""

    def __init__(self, ports: RuntimePorts, keeper: PackageKeeper) -> None:
        self._ports = ports
        self._keeper = keeper

    async def __call__(self, task: Task) -> JsonObject:
        """Return the start of a subagent's run; see `Delegator`."""
        refusal_fields: dict[str, object] = {
            "run_id": task.child.run_id,
            # The calling session: the entry is deleted with it. The session of the subagent does not exist.
            "session_id": task.run.session_id,
            "owner": task.run.owner,
            "source": task.run.source,
        }
        try:
            return await self._start(task, refusal_fields)
        except AgentError as error:
            await record_refusal(self._ports, error, refusal_fields)
            raise

    async def _start(self, task: Task, refusal_fields: dict[str, object]) -> JsonObject:
        package = await resolve_package(self._ports, task.package_id)
        refusal_fields["agent_id"] = package.agent.agent_id
        agent, child, schema = package.agent, task.child, task.output_schema
        request = RunRequest(
            run_id=child.run_id,
            agent_id=agent.agent_id,
            input=subagent_words(child.name, agent.description, message=task.message),
            session_id=child.session_id,
            package_id=task.package_id,
            mode=RunMode.TASK,
            source=task.run.source,
            # A run that cannot ask people must not ask them through a subagent either.
            capabilities=None if task.run.can_ask else SessionCapabilities(request_input=False),
            output_contract=None if schema is None else output_contract(schema, child.name),
        )
        effective = await check_start(self._ports, request)
        assert self._ports.store is not None, "a start was checked, so there is one"
        await check_unused(self._ports.store, child)
        await self._keeper.keep(effective, child.run_id)
        body: JsonObject = {**start_body(request, effective), "session": session_opening(effective)}
        shared = _shared_sandbox(task, self._ports, package)
        return body if shared is None else {**body, "parent": {"sandbox": shared}}
