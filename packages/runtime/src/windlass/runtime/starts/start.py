"""Start of a run: every check in order, before anything is written.

A refused start makes no run and no session; its typed error holds the decision of the policy and the
references to its rules.
"""

from collections.abc import Mapping
from functools import partial

from windlass.agent.agent import WORKFLOW_ROUTE, check_sink, output_contract, subagent_words
from windlass.agent.attachments import Inline, check_parts, parts_chars
from windlass.agent.hooks import check_hook
from windlass.engine.binding import load_prices
from windlass.engine.deadline import DeadlineExceeded, await_within
from windlass.engine.spending.spend_limits import SpendLimits, run_budget
from windlass.engine.tool_calls.approval import timeout_decision
from windlass.engine.tool_calls.subagents import Task
from windlass.errors import AgentError, Rejected, is_for_us
from windlass.ports.archive import SessionCopy
from windlass.ports.host import StartPolicy
from windlass.ports.store import Store
from windlass.refusals import (
    bad_request,
    check_id,
    check_json,
    contract_violation,
    invalid_package,
    missing_port,
    notes_name,
    policy_failed,
    reserved_id,
    start_denied,
    unmet_deps,
)
from windlass.runtime.registry import RuntimePorts
from windlass.runtime.starts.executors import (
    adapter_of,
    check_batches,
    check_limits_priced,
    check_priced,
    fallbacks_of,
    hooks_of,
    provider_of,
    shared_sandbox,
    summary_provider_of,
    tools_of,
)
from windlass.runtime.starts.packages import (
    EffectivePackage,
    PackageKeeper,
    effective_package,
    fingerprint_of,
    resolve_package,
)
from windlass.runtime.starts.refused_starts import record_refusal
from windlass.runtime.starts.start_items import session_opening, start_body
from windlass.tools.calling import read_by_size
from windlass_harness.ledger.names import BUILDER, is_notes
from windlass_harness.loop.notes import Child
from windlass_harness.loop.subagents import is_childs
from windlass_protocol import (
    AllowDecision,
    AskDecision,
    CausalIds,
    DeferDecision,
    DenyDecision,
    ErrorKind,
    InterruptDecision,
    JsonObject,
    ModifyDecision,
    PlaygroundOrigin,
    RetryClass,
    RunMode,
    RunRequest,
    RuntimePackage,
    SandboxSpec,
    SessionCapabilities,
)
from windlass_protocol.bodies import data_of
from windlass_protocol.frozen import frozen, sealed


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
        raise reserved_id("run_id")
    if session_id is not None and is_childs(session_id) and await store.session(session_id) is None:
        raise reserved_id("session_id")


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


@frozen
class CheckedStart:
    """What a run can be started with."""

    effective: EffectivePackage
    attached: Mapping[int, Inline]
    """Images and files of the request that are too large for a record, by the number of their part."""


async def check_start(
    ports: RuntimePorts,
    request: RunRequest,
    *,
    message_id: str | None = None,
    package: RuntimePackage | None = None,
    is_undo: bool = False,
) -> CheckedStart:
    """Check everything that a run needs, in order; nothing is written.

    `message_id` is the id of a message to the current run. `package` replaces that of the agent. A run that
    is an undo calls no model, so it needs no price.

    Raises:
        Rejected: a port is missing, the package cannot be run, or the message cannot be decoded.
        Unavailable: no provider serves the model.
        Denied: the start policy does not allow it.
    """
    policy = _check_ports(ports, request.run_id)
    check_ids(ports, request, message_id=message_id)
    check_json(request)
    attached = await read_by_size(parts_chars(request), partial(check_parts, request))
    effective = await effective_package(ports, request)
    if package is not None:
        effective = EffectivePackage(package, fingerprint_of(package))
    provider = provider_of(ports, effective.package, run_id=request.run_id)
    check_batches(effective.package, provider, run_id=request.run_id)
    fallbacks_of(ports, effective.package, run_id=request.run_id)
    summary_provider_of(ports, effective.package, run_id=request.run_id)
    budget = request.budget or effective.package.budget
    if budget is not None and budget.max_cost_micros is not None and not is_undo:
        await load_prices()
        check_priced(ports, effective.package, "the run has a limit in money", run_id=request.run_id)
    _check_hooks(ports, effective.package, request.run_id)
    _check_tools(ports, effective.package, request.run_id)
    ports.registry.resolvers(effective.package)
    _check_sinks(ports, effective.package, request.run_id)
    if effective.package.sandbox is not None:
        await _check_sandbox(ports, effective.package.sandbox, request.run_id)
    await _check_policy(policy, request, effective.package, timeout_ms=ports.policy_timeout_ms)
    return CheckedStart(effective, attached)


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
        decision = timeout_decision(timeout_ms, "the run is denied")
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
        await adapter_of(ports, spec).check(spec)
    except AgentError as error:
        raise error.caused_by(CausalIds(run_id=run_id)) from None


class RuntimeDelegator:
    """Prepares the runs of subagents with the ports of a runtime."""

    def __init__(self, ports: RuntimePorts, keeper: PackageKeeper, limits: SpendLimits) -> None:
        self._ports = ports
        self._keeper = keeper
        self._limits = limits

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
        is_workflow = package.provider_route.route_id == WORKFLOW_ROUTE
        first_message = subagent_words(child.name, agent.description, message=task.message)
        request = RunRequest(
            run_id=child.run_id,
            agent_id=agent.agent_id,
            input=task.message if is_workflow or task.job is not None else first_message,
            session_id=child.session_id,
            package_id=task.package_id,
            mode=RunMode.TASK,
            source=task.run.source,
            # A run that cannot ask people must not ask them through a subagent either.
            capabilities=None if task.run.can_ask else SessionCapabilities(request_input=False),
            output_contract=None if schema is None else output_contract(schema, child.name),
        )
        effective = (await check_start(self._ports, request)).effective
        assert self._ports.store is not None, "a start was checked, so there is one"
        await check_unused(self._ports.store, child)
        await self._keeper.keep(effective, child.run_id)
        limits = self._limits.of_run(task.run.owner, agent.agent_id)
        check_limits_priced(self._ports, effective.package, limits, run_id=child.run_id)
        limited = request.model_copy(update={"budget": run_budget(effective.package.budget, limits)})
        begun = start_body(limited, effective, job=None if task.job is None else data_of(task.job))
        body: JsonObject = {**begun, "session": session_opening(effective)}
        shared = shared_sandbox(task, self._ports, package)
        return body if shared is None else {**body, "parent": {"sandbox": shared}}
