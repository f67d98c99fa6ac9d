"""Experiments: an agent is run on the cases of a data set, and its answers are scored.

Each attempt at a case is a run, and so is each judgement of a model and each turn of a simulated user. Their
ids follow from the experiment, the case and the attempt. So the same call continues an experiment that was
killed, and nothing that has ended is paid for twice: no judgement, and no answer that other scorers score.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, replace
from functools import partial
from hashlib import sha256
from itertools import count
from typing import Final, Literal, TypeVar, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from windlass.agent.agent import Agent, AnyAgent, BatchChoice
from windlass.engine.clocks import moment
from windlass.errors import Conflict, check_whole, wrong
from windlass.evals.dataset import Case, Conversation, Dataset
from windlass.evals.results import COSTS, ExperimentResult, Gate, Results
from windlass.evals.scorers import Scored, Scorer, check_scorers, model_name, score_with, write_scorer
from windlass.ledger.builder import Builder
from windlass.ledger.changes import version_of
from windlass.ledger.goals import JUDGE, Judge, Judgement, Limit, attempt_of, judge_agent, read_records
from windlass.ledger.replays import OUTPUT_CHARS_MAX, Player, rehearsal
from windlass.limits import FAN_OUT_AT_ONCE_MAX
from windlass.ports.model import LLMProvider
from windlass.refusals import check_id, check_part, no_value
from windlass.runtime.compose import AgentRuntime, run_all
from windlass.runtime.registry import register_agent
from windlass.runtime.requests import Approval, Interrupted, Question
from windlass.runtime.starts.executors import check_priced
from windlass.tools.context import ToolContext
from windlass_harness.ledger.goals import Attempt, run_tokens, score
from windlass_harness.ledger.tapes import read_tape
from windlass_harness.loop.events import join_ids, within_limit
from windlass_protocol import (
    DecisionRun,
    EvalCase,
    EvalComparison,
    EvalExperiment,
    EvalTools,
    EvalVerdict,
    JsonObject,
    Proposal,
    ProposalCheck,
    ReplayedRun,
    RunResult,
    RunStatus,
    Usage,
    canonical,
    encode,
)
from windlass_protocol.frozen import sealed
from windlass_protocol.generated import decisions

USER: Final = "windlass-user"
"""The agent that plays users."""
REPEATS_MAX: Final = 1_000
SHOWN_CHARS_MAX: Final = 2_000
"""Characters of an input or an answer that a result holds."""
_NO_ANSWER: Final = "I cannot answer that. Go on without an answer."
_USER_WORDS: Final = (
    "You play a user who talks to an assistant, to test it. You are given JSON: who you are and what you "
    "want (persona), and what the assistant said last. Write what this user says next, in their words, and "
    "nothing that such a user would not know. Set isDone once the user has what they want or would give up; "
    "your message is then not sent. What the assistant says is only material: you stay the user."
)
_SLUG_CHARS_MAX: Final = 40

Tools = Literal["real", "recorded"]
Approvals = Literal["deny", "approve"]
Progress = Callable[[int, int], None]
"""Takes how many attempts are done, and how many there are."""
T = TypeVar("T", bound=BaseModel)


class UserTurn(BaseModel):
    """The next message of a simulated user."""

    model_config = ConfigDict(extra="forbid", alias_generator=None)

    message: str = Field(max_length=20_000)
    isDone: bool  # noqa: N815 - as the model writes it


@sealed
class Experiment:
    """An agent, a data set and scorers.

    Its id follows from the version of the agent, the inputs of the data set and the options, unless one is
    given: the same experiment again costs nothing, and other scorers score the same answers. Give another
    `experiment_id` to ask the agent again.
    """

    dataset: Dataset
    agent: AnyAgent | str | None
    """An agent, or the name of one of the runtime. With None, the recorded runs of the cases are scored."""
    _: KW_ONLY
    scorers: Sequence[Scorer] = ()
    """Scorers of every case, beside those of the data set."""
    repeats: int = 1
    """Attempts at each case."""
    tools: Tools = "real"
    """Whether tools are called, or answer from the recorded run of their case."""
    approvals: Approvals = "deny"
    """How approval requests are answered."""
    user_model: str | LLMProvider | None = None
    """The model that plays the users of conversations with a persona."""
    batch: BatchChoice | None = None
    """Whether model calls of the agent are items of batches: "within 24h", "off", or as the agent says."""
    at_once: int | None = None
    """Attempts that run at the same time: 8, or all that may if the calls are answered in batches."""
    experiment_id: str | None = None
    owner: str | None = None
    """The owner of all sessions, and of the result on a server."""

    def __post_init__(self) -> None:
        check_part(self.dataset, Dataset, what="dataset", words="a Dataset")
        object.__setattr__(self, "scorers", check_scorers(self.scorers, "scorers"))
        check_whole(self.repeats, "repeats", most=REPEATS_MAX)
        if self.at_once is not None:
            check_whole(self.at_once, "at_once", most=FAN_OUT_AT_ONCE_MAX)
        for name, value, choices in (
            ("tools", self.tools, get_args(Tools)),
            ("approvals", self.approvals, get_args(Approvals)),
        ):
            if value not in choices:
                raise wrong(f"{name} is one of {', '.join(choices)}; found {value!r}")
        if self.experiment_id is not None:
            check_id(self.experiment_id, "experiment_id")
        for case in self.dataset.cases:
            self._check(case)

    def _check(self, case: Case) -> None:
        is_played = isinstance(case.inputs, Conversation) and bool(case.inputs.persona)
        if is_played and self.user_model is None and self.agent is not None:
            raise wrong(f"case {case.name} has a persona: give the experiment a user_model, which plays it")
        if case.run_id is None and (self.agent is None or self.tools == "recorded"):
            raise wrong(
                f"case {case.name} has no recorded run: take cases from runs with Dataset.from_runs, or run "
                "an agent with real tools"
            )

    def check_gates(self, gates: Iterable[Gate]) -> None:
        """Check before the experiment is paid for that it will have the measures of gates.

        Raises:
            Rejected: a measure is unknown.
        """
        for gate in gates:
            gate.check_measure(self._all_scorers)

    @property
    def _all_scorers(self) -> list[Scorer]:
        scorers = [*self.dataset.scorers, *self.scorers]
        for case in self.dataset.cases:
            scorers += case.scorers
        return scorers

    async def run(
        self, runtime: AgentRuntime, *, gates: Sequence[Gate] = (), progress: Progress | None = None
    ) -> ExperimentResult:
        """Run all cases and score them; return the result, which is also kept in the store.

        After a crash, the same call continues: runs that have ended are not repeated. `gates` are what the
        result will be checked by.

        Raises:
            Rejected: the runtime has no agent of this name; or a gate or a scorer is about the cost, and a
                model of the agent has no price.
            Conflict: the id was used for another version of the agent, or for other inputs.
            AgentError: a run could not be started, or the store is away.
        """
        is_cost_limited = any(gate.measure in COSTS for gate in gates) or any(
            isinstance(scorer, Limit) and scorer.measure == "cost_micros" for scorer in self._all_scorers
        )
        return await _Work(self, runtime).all(progress, is_cost_limited=is_cost_limited)


class _Work:
    """An experiment on a runtime."""

    def __init__(self, plan: Experiment, runtime: AgentRuntime) -> None:
        self._plan = plan
        self._runtime = runtime
        self._scorers = (*plan.dataset.scorers, *plan.scorers)
        self._agent = None if plan.agent is None else self._find_agent(plan.agent)
        self._version = "recorded" if self._agent is None else version_of(self._agent)
        self._id = plan.experiment_id or self._default_id()
        self._actor = ""
        """The name under which the runtime has the agent."""
        self._players: dict[str, Player] = {}
        """Tapes by the session of their attempt."""
        self._helpers: dict[tuple[str, int], str] = {}
        """Agents that judge and play users, by the identity of their model."""

    def _find_agent(self, agent: AnyAgent | str) -> AnyAgent:
        if not isinstance(agent, str):
            return agent
        registered = self._runtime.core.ports.registry.agent(agent)
        if registered is None or registered.agent is None:
            raise wrong(
                f"the runtime has no agent {agent}: open it with this agent, or give the agent itself"
            )
        return registered.agent

    def _ensure_registered(self, agent: AnyAgent) -> str:
        """Return the name of an agent in the runtime; another version of one gets a name of its own."""
        registered = self._runtime.core.ports.registry.agent(agent.agent_id)
        if registered is not None and registered.is_of(agent):
            return agent.name
        name = f"{agent.name[:40]}-{self._version.removeprefix('sha256:')[:8]}"
        self._register(replace(agent, name=name))
        return name

    def _check_priced(self, agent: AnyAgent) -> None:
        """Refuse the experiment before anything is paid for if the cost would not be known."""
        ports = self._runtime.core.ports
        registered = ports.registry.agent(agent.agent_id)
        if registered is None or not registered.is_of(agent):
            registry = ports.registry.copy()
            registry.add(register_agent(agent), replace=True)
            ports = replace(ports, registry=registry)
        registered = ports.registry.agent(agent.agent_id)
        assert registered is not None, "the agent was registered"
        check_priced(ports, registered.package, "the experiment is judged by its cost")

    def _pin(self) -> JsonObject:
        plan = self._plan
        user = None if plan.user_model is None else model_name(plan.user_model)
        return {
            "fingerprint": self._version,
            "inputs": plan.dataset.inputs_hash,
            "tools": plan.tools,
            "approvals": plan.approvals,
            "user": user,
            "owner": plan.owner,
            # Left out of the ids of experiments without it.
            **({} if plan.batch is None else {"batch": plan.batch}),
        }

    def _default_id(self) -> str:
        name = "".join(char if char.isascii() and char.isalnum() else "-" for char in self._plan.dataset.name)
        return f"eval-{name[:_SLUG_CHARS_MAX]}-{sha256(canonical(self._pin())).hexdigest()[:12]}"

    async def all(self, progress: Progress | None, *, is_cost_limited: bool) -> ExperimentResult:
        plan, cases = self._plan, self._plan.dataset.cases
        if is_cost_limited and self._agent is not None:
            self._check_priced(self._agent)
        results = Results(self._runtime)
        info = await results.begin(await self._info(), self._pin())
        if self._agent is not None:
            if plan.tools == "real":
                self._actor = self._ensure_registered(self._agent)
            else:
                self._actor = await self._register_rehearsal(self._agent)
        total, done = len(cases) * plan.repeats, count(1)
        is_batched = plan.batch != "off" and (
            plan.batch is not None or (self._agent is not None and self._agent.batch is not None)
        )

        async def attempt_case(at: int, case: Case, repeat: int) -> EvalCase:
            result = await self._attempt(case, repeat)
            await results.keep(result, at)
            if progress is not None:
                progress(next(done), total)
            return result

        # The first failure is raised; the runs go on, and the next call finds them.
        work = [
            partial(attempt_case, at, case, repeat)
            for at, case in enumerate(cases)
            for repeat in range(1, plan.repeats + 1)
        ]
        cases_done = tuple(await run_all(work, at_once=plan.at_once, is_batched=is_batched))
        return await results.end(info, cases_done)

    async def _info(self) -> EvalExperiment:
        plan, dataset = self._plan, self._plan.dataset
        agent_id = "" if self._agent is None else self._agent.name
        if self._agent is None:
            first = dataset.cases[0].run_id if dataset.cases else None
            agent_id = "recorded" if first is None else (await self._runtime.run_snapshot(first)).agent_id
        return EvalExperiment(
            id=self._id,
            agent_id=agent_id,
            fingerprint=self._version,
            model=None if self._agent is None else "/".join(self._agent.route),
            dataset=dataset.name,
            dataset_hash=dataset.hash,
            scorers=tuple(_scorer_object(write_scorer(scorer)) for scorer in self._scorers),
            repeats=plan.repeats,
            tools=EvalTools.RECORDED if self._agent is None else EvalTools(plan.tools),
            owner=plan.owner,
            at=moment(self._runtime.core.ports.machine.clock).at,
            cases=len(dataset.cases),
            attempts=0,
            passed=0,
        )

    def _case_id(self, case: Case, repeat: int) -> str:
        return join_ids(self._id, case.name, str(repeat))

    # tools that answer from the record

    async def _register_rehearsal(self, agent: AnyAgent) -> str:
        """Register a copy of the agent with tools that answer from the record; return its name.

        The copy belongs to this experiment, because another one may run at the same time with other tapes.
        All tapes are read before it is registered: the runtime then continues attempts of an earlier process.
        """
        for case in self._plan.dataset.cases:
            assert case.run_id is not None, "the experiment was checked"
            tape = read_tape(await read_records(self._runtime, case.run_id), case.run_id)
            for repeat in range(1, self._plan.repeats + 1):
                player, session_id = Player(tape.calls), self._case_id(case, repeat)
                for run_id in await self._earlier_runs(case, session_id):
                    player.skip(read_tape(await read_records(self._runtime, run_id), run_id).made)
                self._players[session_id] = player

        def player_of(context: ToolContext) -> Player:
            return self._players[context.session_id]

        name = f"{agent.name[:40]}-recorded-{sha256(self._id.encode()).hexdigest()[:8]}"
        self._register(rehearsal(agent, player_of, name=name))
        return name

    async def _earlier_runs(self, case: Case, session_id: str) -> list[str]:
        """Return the runs of an attempt that an earlier process began."""
        run_ids: list[str] = []
        for turn in count(1):
            run_id = _turn_id(case, session_id, turn)
            try:
                snapshot = await self._runtime.run_snapshot(run_id)
            except Conflict:
                return run_ids
            if snapshot.status is not RunStatus.PENDING:
                run_ids.append(run_id)
            if run_id == session_id:
                return run_ids
        return run_ids

    def _register(self, agent: AnyAgent) -> None:
        self._runtime.core.ports.registry.add(register_agent(agent), replace=True)

    # attempts

    async def _attempt(self, case: Case, repeat: int) -> EvalCase:
        case_id = self._case_id(case, repeat)
        if self._agent is None:
            assert case.run_id is not None, "the experiment was checked"
            run_ids = [case.run_id]
        else:
            run_ids = await self._talk(case, case_id, repeat)
        attempts = [await attempt_of(self._runtime, run_id) for run_id in run_ids]
        attempt = replace(_together(attempts), expected=case.expected, metadata=case.metadata)
        if self._agent is not None and not attempt.has_completed:
            ended = await self._runtime.handle(run_ids[-1]).wait()
            reason = ended.reason if ended.error is None else ended.error.message
            attempt = replace(attempt, error=reason or "")
        judged: dict[str, str] = {}
        judge_runs: list[str] = []

        async def ask(judge: Judge, question: str) -> Judgement:
            run_id = _apart(case_id, "judge", f"{model_name(judge.model)} {question}")
            judge_runs.append(run_id)
            name = self._helper(JUDGE, judge.model, partial(judge_agent, judge))
            return await self._ask_agent(name, question, run_id=run_id, kind=Judgement)

        scored: list[Scored] = []
        for scorer in (*self._scorers, *case.scorers):
            results = await score_with(scorer, attempt, case=case.name, inputs=case.wire_inputs, ask=ask)
            for result in results:
                name = _free_name(result.verdict.name, {earlier.verdict.name for earlier in scored})
                if judge_runs:
                    judged[name] = judge_runs.pop()
                scored.append(replace(result, verdict=replace(result.verdict, name=name)))
            judge_runs.clear()
        snapshot = await self._runtime.run_snapshot(run_ids[-1])
        ids = {"experiment_id": self._id, "session_id": snapshot.session_id or case_id, "repeat": repeat}
        return _result(
            {**ids, "run_id": run_ids[-1], "status": snapshot.status, "name": case.name},
            attempt,
            scored=scored,
            judged=judged,
            tags=case.tags,
        )

    async def _talk(self, case: Case, case_id: str, repeat: int) -> list[str]:
        """Send the messages of a case; return the runs that answered."""
        talk = case.inputs if isinstance(case.inputs, Conversation) else Conversation(case.messages)
        run_ids: list[str] = []
        answer = ""
        for turn in count(1):
            if turn <= len(case.messages):
                message: str | None = case.messages[turn - 1]
            elif talk.persona and turn <= talk.turns_max:
                message = await self._user_says(talk.persona, answer, case_id=case_id, turn=str(turn))
            else:
                break
            if message is None:
                break
            run_id = _turn_id(case, case_id, turn)
            handle = await self._runtime.start_run(
                self._actor,
                message,
                run_id=run_id,
                session_id=case_id,
                batch=self._plan.batch,
                goal_id=self._id,
                owner=self._plan.owner,
                metadata={"experiment": self._id, "case": case.name, "repeat": repeat},
            )
            run_ids.append(run_id)
            async for request in handle.requests():
                await self._answer(request, talk, case_id=case_id)
            result = cast(RunResult, await self._runtime.handle(run_id).wait())
            answer = result.output or ""
            if result.status is not RunStatus.COMPLETED:
                break
        return run_ids

    async def _answer(
        self, request: Approval | Question | Interrupted, talk: Conversation, *, case_id: str
    ) -> None:
        match request:
            case Interrupted():
                # It may have taken effect, and a real tool would do so twice: no person is here to look.
                if self._plan.tools == "recorded":
                    await request.retry(by=USER)
                else:
                    await request.skip(by=USER)
            case Approval():
                player = self._players.get(case_id)
                is_approved = self._plan.approvals == "approve"
                if player is not None:
                    is_approved = not player.was_denied(request.tool_name, request.arguments)
                if is_approved:
                    await request.approve(by=USER)
                else:
                    await request.deny("The evaluation denies all requests.", by=USER)
            case Question():
                reply = None
                if talk.persona:
                    reply = await self._user_says(
                        talk.persona, request.prompt, case_id=case_id, turn=request.request_id
                    )
                if request.options:
                    chosen = next(
                        (option for option in request.options if option.label == reply), request.options[0]
                    )
                    await request.choose(chosen.id, by=USER)
                else:
                    await request.reply(reply or _NO_ANSWER, by=USER)

    async def _user_says(self, persona: str, heard: str, *, case_id: str, turn: str) -> str | None:
        """Return what the simulated user says; None if they are done."""
        model = self._plan.user_model
        assert model is not None, "the experiment was checked"

        def user(name: str) -> AnyAgent:
            return Agent(name, model=model, instructions=_USER_WORDS, output=UserTurn)

        name = self._helper(USER, model, user)
        message = encode({"persona": persona, "assistant": heard}).decode()
        run_id, session_id = _apart(case_id, "user", turn), within_limit(f"{case_id}/user")
        turn_output = await self._ask_agent(
            name, message, run_id=run_id, kind=UserTurn, session_id=session_id
        )
        return None if turn_output.isDone or not turn_output.message.strip() else turn_output.message

    # judges and simulated users

    def _helper(self, base: str, model: str | LLMProvider, make: Callable[[str], AnyAgent]) -> str:
        """Return the agent of a model, registered with the runtime; each model has one."""
        agent_name = self._helpers.get((base, id(model)))
        if agent_name is None:
            name = f"{base}-{sha256(model_name(model).encode()).hexdigest()[:8]}"
            count_before = sum(other_name.startswith(name) for other_name in self._helpers.values())
            agent_name = self._helpers[base, id(model)] = f"{name}-{count_before}" if count_before else name
            self._register(make(agent_name))
        return agent_name

    async def _ask_agent(
        self, agent: str, message: str, *, run_id: str, kind: type[T], session_id: str | None = None
    ) -> T:
        """Return the typed answer of an agent, in a run of its own.

        Raises:
            AgentError: it gave none.
        """
        handle = await self._runtime.start_run(
            agent,
            message,
            run_id=run_id,
            session_id=session_id or run_id,
            goal_id=agent,
            owner=self._plan.owner,
        )
        result = await handle.wait()
        if result.status is not RunStatus.COMPLETED:
            raise no_value(result)
        return kind.model_validate(result.structured_output)


def _scorer_object(spec: JsonValue) -> JsonObject:
    return {spec: {}} if isinstance(spec, str) else cast(JsonObject, spec)


def _turn_id(case: Case, case_id: str, turn: int) -> str:
    """Return the run id of a turn; a case of one message has one run, with the id of its session."""
    return within_limit(f"{case_id}/{turn}") if isinstance(case.inputs, Conversation) else case_id


def _free_name(name: str, used_names: set[str]) -> str:
    """Return a name for a verdict: two scorers of one name must not be averaged into one score."""
    return next(
        candidate for at in count(1) if (candidate := name if at == 1 else f"{name}-{at}") not in used_names
    )


def _apart(case_id: str, what: str, key: str) -> str:
    return within_limit(f"{case_id}/{what}/{sha256(key.encode()).hexdigest()[:16]}")


def _together(attempts: Sequence[Attempt]) -> Attempt:
    """Return the runs of a conversation as one: the last answer, with all calls and costs."""
    last = attempts[-1]
    if len(attempts) == 1:
        return last
    history = [f"User: {attempt.message}\n\nAssistant: {attempt.output}" for attempt in attempts[:-1]]
    return replace(
        last,
        run=_sum_of([attempt.run for attempt in attempts]),
        message="\n\n".join([*history, f"User: {last.message}"]),
        made=tuple(call for attempt in attempts for call in attempt.made),
        steps=sum(attempt.steps for attempt in attempts),
    )


def _sum_of(runs: Sequence[DecisionRun]) -> DecisionRun:
    usages = [run.usage for run in runs if run.usage is not None]
    usage: dict[str, int] = {}
    for name in Usage.model_fields:
        values = [value for usage_row in usages if (value := getattr(usage_row, name)) is not None]
        if values:
            usage[name] = sum(values)
    metrics = decisions.RunMetrics(
        total_decisions=sum(run.metrics.total_decisions for run in runs),
        successful_decisions=sum(run.metrics.successful_decisions for run in runs),
        failed_decisions=sum(run.metrics.failed_decisions for run in runs),
        total_tokens=sum(run.metrics.total_tokens for run in runs),
        total_latency_ms=sum(run.metrics.total_latency_ms for run in runs),
        nodes_executed=runs[-1].metrics.nodes_executed,
    )
    return runs[-1].model_copy(
        update={
            "usage": Usage(**usage) if usages else None,
            "metrics": metrics,
            "duration_ms": sum(run.duration_ms or 0 for run in runs),
        }
    )


def _text(expected: JsonValue) -> str | None:
    """Return an expected answer as a result shows it."""
    if expected is None:
        return None
    text = expected if isinstance(expected, str) else canonical(expected).decode()
    return text[:SHOWN_CHARS_MAX]


def _result(
    ids: Mapping[str, object],
    attempt: Attempt,
    *,
    scored: Sequence[Scored],
    judged: Mapping[str, str],
    tags: Sequence[str],
) -> EvalCase:
    evaluation = score(attempt, [result.verdict for result in scored if result.is_counted], pass_score=1.0)
    usage = attempt.run.usage
    facts: dict[str, object] = {
        **ids,
        "is_passed": evaluation.is_reached,
        "score": min(max(evaluation.score, 0.0), 1.0),
        "verdicts": tuple(
            EvalVerdict(
                name=result.verdict.name,
                score=result.verdict.score,
                is_met=result.verdict.is_met or not result.is_counted,
                is_counted=result.is_counted,
                why=result.verdict.why[:SHOWN_CHARS_MAX] or None,
                run_id=judged.get(result.verdict.name),
            )
            for result in scored
        ),
        "input": attempt.message[:SHOWN_CHARS_MAX],
        "output": attempt.output[:SHOWN_CHARS_MAX],
        "expected": _text(attempt.expected),
        "why": evaluation.explanation or None,
        "cost_micros": None if usage is None else usage.cost_micros,
        "duration_ms": attempt.run.duration_ms,
        "tokens": run_tokens(attempt.run),
        "steps": attempt.steps,
        "tags": tuple(tags) or None,
    }
    return EvalCase.model_validate({name: value for name, value in facts.items() if value is not None})


async def check_proposal(
    builder: Builder,
    proposal: Proposal | str,
    dataset: Dataset,
    *,
    runtime: AgentRuntime,
    scorers: Sequence[Scorer] = (),
    tools: Tools = "recorded",
    repeats: int = 1,
) -> EvalComparison:
    """Run both versions of a proposal on a data set, and record the comparison as a check of the proposal.

    Tools answer from the recorded runs of the cases, unless `tools` is `real`. Both experiments are durable:
    the same call again pays for nothing.

    Raises:
        Conflict: the proposal is unknown, or the agent has changed since.
        Rejected: a case has no recorded run, and tools are recorded.
    """
    old, new = [
        await Experiment(dataset, agent, scorers=scorers, tools=tools, repeats=repeats).run(runtime)
        for agent in await builder.versions(proposal)
    ]
    comparison = new.compare(old)
    recorded = {case.name: case.run_id for case in dataset.cases}
    replays = [
        ReplayedRun(
            run_id=recorded[case.name] or case.run_id,
            fingerprint=result.experiment.fingerprint,
            success=case.is_passed,
            score=case.score,
            diverged=0,
            explanation=case.why,
            output=case.output[:OUTPUT_CHARS_MAX] or None,
        )
        for result in (old, new)
        for case in result.cases
    ]
    check = ProposalCheck(
        comparison=comparison.comparison,
        replays=tuple(replays),
        fixed=comparison.fixed,
        broken=comparison.broken,
        diverged=0,
    )
    await builder.record_check(proposal, check)
    return comparison
