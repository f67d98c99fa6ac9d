"""Starts of runs: requests made of agents and options, messages to runs under way, retries and undos.

Each becomes an item in the inbox of its session; what is refused leaves an entry in the audit of the store.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from pydantic import ValidationError

from windlass.agent.agent import Agent, AnyAgent, output_contract, output_type_of
from windlass.agent.attachments import Inline, address_of, part_in_store
from windlass.agent.package import budget_limits
from windlass.engine.clocks import moment
from windlass.engine.driving.inbox import item_key
from windlass.engine.spending.spend_limits import SpendLimit, limit_reached, run_budget
from windlass.errors import AgentError, Conflict, kind_of
from windlass.limits import PLAYGROUND_PREFIX
from windlass.ports.inbox import STEER, NewRun
from windlass.refusals import (
    bad_request,
    check_id,
    check_options,
    check_request,
    invalid_package,
    misfit,
    playground_session,
    run_id_in_use,
    unknown_agent,
)
from windlass.runtime.answers import Asking, PostedAnswers
from windlass.runtime.handle import RunHandle
from windlass.runtime.options import RunOptions
from windlass.runtime.registry import Registered
from windlass.runtime.starts.continued import ContinuedRuns
from windlass.runtime.starts.executors import check_limits_priced, has_free_fallback
from windlass.runtime.starts.packages import EffectivePackage, PackageKeeper
from windlass.runtime.starts.refused_starts import AUDITED_FIELDS, record_refusal
from windlass.runtime.starts.start import PlaygroundStart, check_deps, check_free, check_start
from windlass.runtime.starts.start_items import comparable_fields, session_opening, start_body
from windlass.runtime.undo import calls_of, undo_facts
from windlass.tools.calling import read_by_size
from windlass.tools.deps import deps_class
from windlass_harness.budget import Budget
from windlass_harness.loop.events import within_limit
from windlass_harness.loop.subagents import START
from windlass_protocol import (
    BudgetLimits,
    CausalIds,
    InputResponse,
    JsonObject,
    RunRequest,
    RunStatus,
    UserPart,
)

if TYPE_CHECKING:
    from windlass.runtime.core import Core

_PLAIN: Final = (
    "session_id",
    "turn_id",
    "mode",
    "capabilities",
    "batch",
    "context",
    "metadata",
    "source",
    "owner",
    "goal_id",
    "goal_description",
)
"""Options of a run that are copied into its request."""


class Starts:
    """Starts runs and sends messages to them; `core.starts`."""

    def __init__(self, core: "Core") -> None:
        self._core = core
        self.keeper: Final = PackageKeeper(core.ports)
        self.count = 0
        """Runs started through this runtime."""

    async def request(self, agent: object, message: object, options: RunOptions, *, what: str) -> RunRequest:
        """Return the request of a run; a refusal is written to the audit of the store."""
        try:
            return self._make_request(agent, message, options, what=what)
        except AgentError as error:
            await self.audit(error, agent, options)
            raise

    async def audit(self, error: AgentError, agent: object, options: RunOptions) -> None:
        """Write a refused start to the audit of the store, before there is a request."""
        agent_id = agent.agent_id if isinstance(agent, Agent) else agent
        await record_refusal(self._core.ports, error, {**options, "agent_id": agent_id})

    def _make_request(self, agent: object, message: object, options: RunOptions, *, what: str) -> RunRequest:
        """Return the request of a run; invalid arguments are refused."""
        check_options(options, RunOptions, what=what)
        given_id = options.get("run_id")
        run_id = self._core.ports.machine.new_id() if given_id is None else check_id(given_id, "run_id")
        registered = self._registration(agent, run_id)
        agent_id = registered.package.agent.agent_id
        budget, output = options.get("budget"), options.get("output")
        if registered.agent is not None:
            message = registered.agent.message_of(message)
        if not isinstance(message, str | list | tuple):
            raise bad_request(
                f"the message must be a string or a list of parts, found {kind_of(message)}", run_id
            )
        fields: dict[str, object] = {
            **{name: options.get(name) for name in _PLAIN},
            "run_id": run_id,
            "agent_id": agent_id,
            "input": message,
            "package_id": registered.package.package_id,
            "budget": budget_limits(budget),
            "output_contract": None if output is None else output_contract(output, agent_id),
        }
        try:
            return RunRequest.model_validate(fields)
        except ValidationError as error:
            problem = misfit(error, what, value=fields)
        raise bad_request(problem, run_id)

    def _registration(self, agent: object, run_id: str) -> Registered:
        """Return the registration of exactly this agent."""
        if not isinstance(agent, Agent | str):
            raise bad_request(
                f"start_run takes an Agent or the name of an agent, found {kind_of(agent)}", run_id
            )
        agent_id = agent if isinstance(agent, str) else agent.agent_id
        registered = self._core.ports.registry.agent(agent_id)
        if registered is None:
            hidden = self._core.ports.scribe.redactor.text(agent_id)
            raise unknown_agent(hidden, self._core.ports.registry.names, run_id=run_id)
        if isinstance(agent, Agent) and not registered.is_of(cast("AnyAgent", agent)):
            raise invalid_package(
                f"the runtime has another agent named {agent_id}; start the agent that it was given, "
                "or give this one another name",
                run_id,
            )
        return registered

    def check_given_deps(self, agent: AnyAgent | str, deps: object, run_id: str) -> None:
        """Refuse dependencies that the agent does not take."""
        registered_agent = self._registration(agent, run_id).agent
        kind = None if registered_agent is None else cast(object, registered_agent.deps)
        if kind is None:
            raise bad_request("deps: the agent has no dependencies; write Agent(…, deps=Type)", run_id)
        expected = deps_class(kind)
        if expected is not None and not isinstance(deps, expected):
            raise bad_request(f"deps must be a {expected.__name__}, found {kind_of(deps)}", run_id)

    async def start(
        self,
        request: RunRequest,
        *,
        retry_of: str | None = None,
        undo: JsonObject | None = None,
        playground: PlaygroundStart | None = None,
    ) -> RunHandle:
        """Start a run; return once it is durable. The same request again is the same run.

        `retry_of` is the failed run that it continues; `undo` are the calls that it reverses.

        Raises:
            Rejected: a port is missing, the package cannot be run, or an id is reserved for
                subagents or for notes.
            Unavailable: no provider serves the model, or the store cannot be reached.
            Denied: the start policy does not allow it, or the session belongs to another owner.
            Conflict: the run id was used with another request, or the session was deleted.
        """
        try:
            check_request(request)
            package = None if playground is None else playground.package
            checked = await check_start(self._core.ports, request, package=package, is_undo=undo is not None)
            effective = checked.effective
            if playground is None or playground.origin.calls == "real":
                check_deps(self._core.ports, request)
            await self._core.resume()
            await check_free(self._core.store, request)
            if playground is None:
                await self._check_session(request.session_id)
            run_id = request.run_id
            await self.keeper.keep(effective, run_id)
            session_id = request.session_id or f"session:{run_id}"
            owner = await self._owner_of(request)
            limits = () if undo is not None else await self._check_limits(request, owner, effective)
            request = await self._store_parts(request, checked.attached, session_id)
            wire_request = comparable_fields(request)
            if playground is not None:
                wire_request["playground"] = playground.asked
            at = moment(self._core.ports.machine.clock).at
            new_run = NewRun(run_id, request.agent_id, effective.fingerprint, request=wire_request, at=at)
            opening, origin = session_opening(effective), None
            if playground is not None:
                origin = playground.origin.model_dump(mode="json", by_alias=True)
                opening = {**opening, **playground.opening}
                await self._open_playground_session(playground)
            budget = run_budget(request.budget or effective.package.budget, limits)
            limited = request.model_copy(update={"budget": budget, "owner": owner})
            begun = start_body(limited, effective, retry_of=retry_of, undo=undo, playground=origin)
            body = await self._core.mask({**begun, "session": opening})
            key = item_key(START, run_id)
            try:
                posted = await self._core.store.post(session_id, kind=START, key=key, body=body, run=new_run)
            except Conflict as error:
                if await self._core.store.run(run_id) is None:
                    raise error.caused_by(CausalIds(run_id=run_id)) from None
                differs = await self._core.runs.difference(new_run, session_id, owner=request.owner)
                raise run_id_in_use(run_id, differs) from None
        except AgentError as error:
            await self._audit_request(error, request)
            raise
        self.count += posted.is_new
        await self._core.rouse(session_id)
        return RunHandle(self._core, run_id)

    async def _owner_of(self, request: RunRequest) -> str | None:
        """Return the owner whom a run counts for; where there are limits, that of its session by default."""
        await self._core.limits.refresh()
        if request.owner is not None or request.session_id is None or not self._core.limits.current:
            return request.owner
        session = await self._core.store.session_info(request.session_id)
        return None if session is None else session.owner

    async def _check_limits(
        self, request: RunRequest, owner: str | None, effective: EffectivePackage
    ) -> tuple[SpendLimit, ...]:
        """Return the limits that a run counts for; refuse a new one if a limit of them is used up.

        Raises:
            Denied: nothing is left.
            Rejected: a limit is in money, and a model of the run has no price.
        """
        limits = self._core.limits
        of_run = limits.of_run(owner, request.agent_id)
        check_limits_priced(self._core.ports, effective.package, of_run, run_id=request.run_id)
        if of_run and await self._core.store.run(request.run_id) is None:
            has_free_model = has_free_fallback(self._core.ports, effective.package, run_id=request.run_id)
            use = await limits.check_start(owner, request.agent_id, has_free_model=has_free_model)
            if use is not None:
                raise limit_reached(use, request.run_id)
        return of_run

    async def _store_parts(
        self, request: RunRequest, attached: Mapping[int, Inline], session_id: str
    ) -> RunRequest:
        """Put images and files into the content store; the message then refers to them.

        One with a registered secret stays, and is masked like any text.
        """
        content, redactor = self._core.ports.content, self._core.ports.scribe.redactor
        assert content is not None, "the start was checked"
        parts = [*cast(Sequence[UserPart], request.input)] if attached else []
        for number, inline in attached.items():
            address = address_of(parts[number]) or ""
            if await read_by_size(len(address), partial(redactor.has_registered, address)):
                continue
            ref = await content.put(inline.raw, media_type=inline.media_type, session_id=session_id)
            parts[number] = part_in_store(parts[number], ref)
        return request.model_copy(update={"input": tuple(parts)}) if parts else request

    async def _check_session(self, session_id: str | None) -> None:
        """Refuse the session of a playground run: its messages were edited, and its run is its only one."""
        if session_id is None or not session_id.startswith(PLAYGROUND_PREFIX):
            return
        session = await self._core.store.session_info(session_id)
        if session is not None and session.is_playground:
            raise playground_session(session_id)

    async def _open_playground_session(self, playground: PlaygroundStart) -> None:
        """Create the session of a playground run, unless an earlier attempt did."""
        session = playground.session
        try:
            await self._core.store.keep(session)
        except Conflict:
            existing = await self._core.store.session_info(session.session_id)
            if (
                existing is None
                or existing.predecessor_id != session.news.predecessor
                or not existing.is_playground
            ):
                raise

    async def _audit_request(self, error: AgentError, request: object) -> None:
        """Write a refused start to the audit of the store; see `record_refusal`."""
        if isinstance(request, RunRequest):
            fields = {name: getattr(request, name) for name in AUDITED_FIELDS}
            await record_refusal(self._core.ports, error, fields)

    async def steer(
        self, request: RunRequest, *, message_id: str, responses: Sequence[InputResponse] = ()
    ) -> None:
        """Send a message to the current run of a session; return once it is durable.

        Equal ids and texts are one message.

        Raises:
            Rejected, Unavailable, Denied: as for `start_run` and an answer.
            Conflict: the session is unknown, the message id was used with another message, or as for
                an answer.
        """
        answers = self._core.answers
        try:
            check_request(request)
            check_id(message_id, "message_id")
            checked = await check_start(self._core.ports, request, message_id=message_id)
            effective = checked.effective
            await self._core.resume()
            session_id = check_id(request.session_id, "session_id")
            await self._core.runs.check_session_exists(session_id)
            await self._check_session(session_id)
            await self.keeper.keep(effective, request.run_id)
            request = await self._store_parts(request, checked.attached, session_id)
            limited = request.model_copy(update={"owner": await self._owner_of(request)})
            body = await self._core.mask({**start_body(limited, effective), "messageId": message_id})
        except AgentError as error:
            await self._audit_request(error, request)
            raise
        async with answers.lock(session_id):
            key = item_key(STEER, message_id)
            asking: tuple[Asking, ...] = ()
            if responses:
                asking = await answers.check(session_id, responses, answer_id=key)
            for answered in asking:
                if answered.session_id == session_id:
                    # In one item: a message that is refused answers nothing.
                    body |= answered.body
            try:
                item = await self._core.store.post(session_id, kind=STEER, key=key, body=body)
            except AgentError as error:
                await self._audit_request(error, request)
                raise
            posted = [
                PostedAnswers(answered, item.number)
                if answered.session_id == session_id
                else await answers.post(answered)
                for answered in asking
            ]
        await self._core.rouse(session_id)
        await answers.check_first(posted)

    async def retry(
        self,
        run_id: str,
        *,
        budget: Budget | BudgetLimits | None = None,
        deps: object = None,
        output: object = None,
    ) -> RunHandle:
        """Continue a failed run in a new run of its session; return once that is durable.

        The new run has the options of the failed one and the current package of its agent. `deps` are its
        dependencies, and `output` is the type of its output, if its start named one. It has no message:
        the model is called with the history that the failed run left, so calls with a result are not
        repeated. Its id follows from that of the failed run: a second retry returns the same run. Its budget
        is what the failed run left; `budget` are other limits, of both runs together.

        Raises:
            Conflict: the run is unknown, has not failed or was started by a subagent call, its session has
                gone on since, nothing is left of its budget, or it was continued with another `budget`.
            Rejected, Unavailable, Denied: as for `start_run`.
        """
        row, continued = await self._core.runs.row(run_id), ContinuedRuns(self._core)
        new_id, limits = within_limit(f"retry:{run_id}"), budget_limits(budget)
        if deps is not None:
            self.check_given_deps(row.agent_id, deps, new_id)
        with self._core.ports.deps.keep(new_id, deps, output_type_of(output)):
            existing = await self._core.store.run(new_id)
            if existing is None:
                try:
                    request = await continued.retry_request(row, new_id, budget=limits)
                    return await self.start(request, retry_of=run_id)
                except Conflict:
                    existing = await self._core.store.run(new_id)
                    if existing is None:
                        raise
            await continued.check_retry(row, existing, budget=limits)
            return RunHandle(self._core, new_id)

    async def undo(self, run_id: str) -> RunHandle:
        """Reverse the calls of a run, newest first, in a new run of its session; return once that is durable.

        The new run calls no model. Each of its steps makes one call of an undo tool, which the policy decides
        about. A second call returns the same run; after one that failed, it starts another for the rest.

        Raises:
            Conflict: the run is unknown, has not ended, or has no call that can be reversed; or another run
                has the id that the new one would get.
            Rejected, Unavailable, Denied: as for `start_run`.
        """
        row, continued, number = await self._core.runs.row(run_id), ContinuedRuns(self._core), 1
        ended = (RunStatus.FAILED, RunStatus.CANCELLED)
        while True:
            new_id = within_limit(f"undo:{run_id}" if number == 1 else f"undo:{number}:{run_id}")
            reversing = await self._core.store.run(new_id)
            if reversing is None:
                break
            await continued.check_undo(row, reversing)
            if reversing.status not in ended:
                return RunHandle(self._core, new_id)
            number += 1
        request = await continued.undo_request(row, new_id)
        calls = await calls_of(self._core.store, row)
        content, clock = self._core.content, self._core.ports.machine.clock
        facts = await undo_facts(row.run_id, calls, content=content, clock=clock)
        return await self.start(request, undo=facts)
