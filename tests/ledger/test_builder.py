"""The whole loop: judge, propose, check, approve, apply."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from tests.ledger.rig import BETTER, FIX, GOAL, builder, clerk, looked_up, opened, run

from windlass import Conflict, Denied, Rejected, tool
from windlass.ledger import Builder, BuilderQuery, FailureKind, Proposal, ProposalStatus, report, report_text
from windlass.runtime.options import RunOptions
from windlass_protocol import JsonObject, VersionVerdict


@pytest.mark.parametrize("where", ["memory", "file"])
def test_an_agent_that_misses_its_goal_is_improved(tmp_path: Path, where: str) -> None:
    path = tmp_path / "app.db" if where == "file" else None

    async def story() -> None:
        agent = clerk()
        async with opened(agent, path=path, customers="ABCDEF") as runtime, builder(runtime) as made:
            scores = await made.evaluate(GOAL)
            assert {run_id: score.is_reached for run_id, score in scores.items()} == {
                "run-1": False, "run-2": False, "run-3": False, "run-4": False, "run-5": False, "run-6": False
            }  # fmt: skip
            proposal = await made.propose(GOAL)
            assert (proposal.agent_id, proposal.evidence) == ("clerk", ("run-1",))
            assert [(one.path, one.after) for one in proposal.differences] == [
                ("/agent/instructions", BETTER)
            ]
            check = await made.check(proposal)
            assert (check.fixed, check.broken, check.diverged) == (6, 0, 0)
            assert check.comparison.verdict is VersionVerdict.BETTER
            assert looked_up == [], "a replay touched the world"
            with pytest.raises(Denied, match="a person has to approve it first"):
                await made.apply(proposal, by="ada")
            await made.approve(proposal, by="ada", reason="It helps.")
            better = await made.apply(proposal, by="ada")
            assert (better.instructions, agent.instructions) == (BETTER, "Say where parcels are.")
            [state] = await made.proposals()
            assert state.status is ProposalStatus.APPLIED

    asyncio.run(story())


def test_every_step_is_in_the_ledger_and_can_be_read_later(tmp_path: Path) -> None:
    path = tmp_path / "app.db"

    async def first() -> None:
        async with opened(clerk(), path=path) as runtime, builder(runtime) as made:
            proposal = await made.propose(GOAL, proposal_id="p1")
            assert await made.propose(GOAL, proposal_id="p1") == proposal
            await made.check("p1")
            await made.approve("p1", by="ada")
            await made.apply("p1", by="bob")

    async def later() -> None:
        async with opened(clerk(), path=path, customers=()) as runtime, builder(runtime) as made:
            state = await made.proposal("p1")
            assert state.check is not None
            assert state.settled is not None
            assert state.applied is not None
            assert (state.check.fixed, state.settled.by, state.applied.by) == (3, "ada", "bob")
            assert [one.proposal.id for one in await made.proposals("parcels")] == ["p1"]
            assert await made.proposals("other") == ()
            assert (await made.apply("p1", by="cyd")).instructions == BETTER, "applying again is the same"
            assert (await made.proposal("p1")).applied == state.applied
            store = runtime.core.ports.store
            assert store is not None
            types = [record.type for record in await store.read("notes:proposals")]
            assert types == [
                "session.started", "proposal.made", "proposal.checked", "proposal.settled", "proposal.applied"
            ]  # fmt: skip
            ledger = await runtime.handle("p1/1").decisions()
            assert ledger.agent_id == "windlass-builder"
            assert [one.intent for one in ledger.decisions][:2] == [
                "call goal_overview",
                "call list_failures",
            ]
            assert [one.outcome and one.outcome.success for one in ledger.decisions] == [
                True, True, True, True, False, True, False, True
            ], "the run and the versions that there are not could not be read"  # fmt: skip

    asyncio.run(first())
    asyncio.run(later())


def test_a_refusal_can_be_given_until_the_change_is_made() -> None:
    async def story() -> None:
        async with opened(clerk()) as runtime, builder(runtime) as made:
            proposal = await made.propose(GOAL)
            await made.approve(proposal, by="ada")
            state = await made.refuse(proposal, by="bob", reason="Not now.")
            assert state.status is ProposalStatus.REFUSED
            with pytest.raises(Denied, match="refused"):
                await made.apply(proposal, by="ada")
            await made.approve(proposal, by="ada")
            await made.apply(proposal, by="ada")
            with pytest.raises(Conflict, match="applied already"):
                await made.refuse(proposal, by="bob")
            for by in ("", "  "):
                with pytest.raises(Rejected, match="by must be the name of the person"):
                    await made.approve(proposal, by=by)
            with pytest.raises(Conflict, match="unknown proposal"):
                await made.approve("ghost", by="ada")

    asyncio.run(story())


def test_a_proposal_that_says_something_else_than_the_one_that_was_kept_is_refused() -> None:
    async def story() -> None:
        async with opened(clerk()) as runtime, builder(runtime) as made:
            proposal = await made.propose(GOAL)
            forged = proposal.model_copy(
                update={"changes": (proposal.changes[0].model_copy(update={"after": "Obey me."}),)}
            )
            sent = Proposal.model_validate_json(proposal.model_dump_json(by_alias=True))
            for attempt in (made.approve, made.refuse, made.apply):
                with pytest.raises(Conflict, match="the proposal differs from the recorded one"):
                    await attempt(forged, by="eve")
            with pytest.raises(Conflict, match="the proposal differs from the recorded one"):
                await made.check(forged)
            assert (await made.proposal(proposal.id)).status is ProposalStatus.OPEN
            await made.approve(sent, by="ada")
            assert (await made.apply(sent, by="ada")).instructions == BETTER

    asyncio.run(story())


@pytest.mark.parametrize("where", ["memory", "file"])
@pytest.mark.parametrize("owner", ["zoe", None])
def test_a_proposal_is_denied_in_a_session_of_another_owner(
    tmp_path: Path, where: str, owner: str | None
) -> None:
    path = tmp_path / "app.db" if where == "file" else None

    async def story() -> None:
        async with opened(clerk(), path=path) as runtime, builder(runtime) as made:
            more: RunOptions = {"session_id": "zoe"}
            if owner is not None:
                more["owner"] = owner
            await run(runtime, "Where is the parcel of Zoe", **more)
            before = await runtime.sessions.records("zoe")
            with pytest.raises(Denied, match="belongs to another owner"):
                await made.propose(GOAL, proposal_id="zoe")
            assert await runtime.sessions.records("zoe") == before
            assert await made.proposals() == ()

    asyncio.run(story())


def test_a_change_to_an_agent_that_has_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "app.db"

    async def first() -> None:
        async with opened(clerk(), path=path) as runtime, builder(runtime) as made:
            await made.propose(GOAL, proposal_id="p1")
            await made.approve("p1", by="ada")

    async def later() -> None:
        changed = clerk(instructions="Say it nicely.")
        async with opened(changed, path=path, customers=()) as runtime, builder(runtime) as made:
            for attempt in (made.apply("p1", by="ada"), made.check("p1")):
                with pytest.raises(Conflict, match="the agent has changed since"):
                    await attempt

    asyncio.run(first())
    asyncio.run(later())


def test_a_run_cannot_be_started_with_the_owner_of_the_builder() -> None:
    async def story() -> None:
        async with opened(clerk()) as runtime:
            with pytest.raises(Rejected, match="owner must not be windlass-builder"):
                await runtime.start_run("clerk", "Hi.", owner="windlass-builder")

    asyncio.run(story())


def test_a_draft_that_cannot_be_used_is_sent_back_with_the_reason() -> None:
    other_run: JsonObject = {**FIX, "evidence": ["ghost"]}
    no_tool: JsonObject = {**FIX, "changes": [{"part": "tool_description", "target": "pay", "text": "Pay."}]}

    async def story() -> None:
        async with opened(clerk()) as runtime, builder(runtime, other_run, no_tool, FIX) as made:
            proposal = await made.propose(GOAL, proposal_id="p1")
            assert proposal.run_id == "p1/3"
            store = runtime.core.ports.store
            assert store is not None
            heard = [
                record.data["message"]
                for record in await store.read("p1", limit=512)
                if record.type == "message.received"
            ]
            assert heard[0] == (
                "Improve the agent clerk for the goal parcels.\n"
                "The goal: Customers learn where their parcel is, with its number.\n"
                "A run reaches it by: an answer that contains 'parcel-'"
            )
            assert "goal parcels has no run ghost" in str(heard[1])
            assert "clerk has no tool 'pay'; it has find_parcel" in str(heard[2])

    asyncio.run(story())


def test_propose_fails_after_three_unusable_answers_of_the_model() -> None:
    same: JsonObject = {**FIX, "changes": [{"part": "instructions", "text": "Say where parcels are."}]}

    async def story() -> None:
        async with opened(clerk()) as runtime, builder(runtime, same) as made:
            with pytest.raises(Rejected, match="in 3 attempts: the proposal changes nothing"):
                await made.propose(GOAL)
            assert await made.proposals() == ()
        async with opened(clerk()) as runtime, builder(runtime, "no JSON at all") as made:
            with pytest.raises(Rejected):
                await made.propose(GOAL)

    asyncio.run(story())


def test_goals_without_runs_and_unknown_goals_agents_and_runs_are_refused() -> None:
    async def story() -> None:
        async with opened(clerk(), customers=()) as runtime, builder(runtime) as made:
            with pytest.raises(Rejected, match="has no run of an agent"):
                await made.propose(GOAL)
            with pytest.raises(Rejected, match="unknown goal: lunch"):
                await made.propose("lunch")
            with pytest.raises(Rejected, match="the runtime has no agent ghost"):
                await made.propose(GOAL, agent="ghost")
            with pytest.raises(Rejected, match="unknown run: ghost"):
                await made.evaluate(GOAL, run_ids=["ghost"])

    asyncio.run(story())


def test_unusable_arguments_are_refused_with_a_message() -> None:
    async def story() -> None:
        async with opened(clerk(), customers=["Ada"]) as runtime, builder(runtime) as made:
            with pytest.raises(Rejected, match="an AgentRuntime"):
                Builder("a/b", runtime="app.db")  # pyright: ignore[reportArgumentType] callers without a checker
            with pytest.raises(Rejected, match="Goals"):
                Builder("a/b", runtime=runtime, goals=["g"])  # pyright: ignore[reportArgumentType] the same
            with pytest.raises(Rejected, match="provider/model"):
                Builder("gpt", runtime=runtime)
            with pytest.raises(Rejected, match="ids of runs"):
                await made.evaluate(GOAL, run_ids="run-1")
            proposal = await made.propose(GOAL)
            with pytest.raises(Rejected, match="ids of runs"):
                await made.check(proposal, run_ids="run-1")

    asyncio.run(story())


def test_judgements_are_kept_beside_the_runs_and_seen_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "app.db"

    async def story() -> None:
        async with opened(clerk(), path=path) as runtime, builder(runtime) as made:
            await made.evaluate(GOAL, run_ids=["run-1"])
            run_1 = await runtime.handle("run-1").decisions()
            [judged] = [one for one in run_1.decisions if one.evaluation is not None]
            assert judged.evaluation is not None
            assert (judged.id, judged.evaluation.goal_aligned) == ("step_1", False)
            assert judged.evaluation.explanation == "number: not in it: 'parcel-'"
            assert set(await made.evaluate("parcels")) == {"run-2", "run-3"}, "run-1 is judged already"
            assert await made.evaluate("parcels") == {}

    asyncio.run(story())
    with BuilderQuery(path) as query:
        facts = query.get_facts("parcels")
        assert [(one.run_id, one.failure) for one in facts] == [
            ("run-3", FailureKind.GOAL_MISSED),
            ("run-2", FailureKind.GOAL_MISSED),
            ("run-1", FailureKind.GOAL_MISSED),
        ]
        analysis = query.analyze_failure("run-2")
        assert analysis is not None
        assert (analysis.kind, analysis.root_cause) == (
            FailureKind.GOAL_MISSED, "number: not in it: 'parcel-'"
        )  # fmt: skip
        assert "goal_missed, 3 runs: number: not in it: 'parcel-'" in report_text(report(query, goal_id=GOAL))


def test_a_run_that_goes_on_is_not_judged_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    @tool(mode="external")
    async def find_parcel(customer: str) -> str:
        """Find a parcel, with consent."""
        return f"parcel-{customer}"

    async def story() -> None:
        agent = clerk(tools=[find_parcel], instructions=BETTER)
        async with opened(agent, customers=()) as runtime, builder(runtime) as made:
            handle = await runtime.start_run("clerk", "Where is it, Ada", run_id="run-1", goal_id="parcels")
            async for event in handle.events():
                if event.type == "run.waiting":
                    break
            proposal = await made.propose(GOAL)
            with pytest.raises(Rejected, match="run run-1 has not ended"):
                await made.evaluate(GOAL, run_ids=["run-1"])
            with pytest.raises(Rejected, match="run run-1 has not ended"):
                await made.check(proposal, run_ids=["run-1"])
            [request] = await handle.open_requests()
            await handle.answer(request.request_id, "approve")
            await handle.wait(timeout=300)
            scores = await made.evaluate(GOAL)
            assert {run_id: score.is_reached for run_id, score in scores.items()} == {"run-1": True}

    monkeypatch.setitem(FIX, "changes", [{"part": "instructions", "text": "Say it."}])
    asyncio.run(story())


def test_the_next_call_judges_the_runs_that_the_one_before_had_no_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("windlass.ledger.builder.EVALUATED_RUNS_MAX", 2)

    async def story() -> None:
        async with opened(clerk(), customers="ABCDE") as runtime, builder(runtime) as made:
            found = [set(await made.evaluate(GOAL)) for _ in range(4)]
            assert found == [{"run-5", "run-4"}, {"run-3", "run-2"}, {"run-1"}, set()]

    asyncio.run(story())


@pytest.mark.parametrize("where", ["memory", "file"])
def test_evaluations_of_a_run_are_deleted_with_its_session(tmp_path: Path, where: str) -> None:
    path = tmp_path / "app.db" if where == "file" else None

    async def story() -> None:
        async with opened(clerk(), path=path) as runtime, builder(runtime) as made:
            await made.evaluate(GOAL)
            removed = await runtime.sessions.delete("session:run-1")
            assert removed == ("session:run-1", "notes:evaluation/run-1")
            store = runtime.core.ports.store
            assert store is not None
            assert await store.read("notes:evaluation/run-1") == ()
            with BuilderQuery(runtime=runtime) as query:
                assert {one.run_id for one in query.get_facts("parcels")} == {"run-2", "run-3"}

    asyncio.run(story())


def test_a_new_version_is_compared_with_the_old_one_on_real_runs(tmp_path: Path) -> None:
    path = tmp_path / "app.db"

    async def story() -> None:
        async with opened(clerk(), path=path, customers="ABCDE") as runtime, builder(runtime) as made:
            await made.evaluate(GOAL)
        better = clerk(instructions=BETTER)
        async with opened(better, path=path, customers=()) as runtime, builder(runtime) as made:
            for at in range(5):
                await run(runtime, "Where is the parcel of Dee", run_id=f"new-{at}", goal_id="parcels")
            await made.evaluate(GOAL)

    asyncio.run(story())
    with BuilderQuery(path) as query:
        text = report_text(report(query, goal_id="parcels", view="versions"))
        assert "0% (0% to 43%)" in text
        assert "100% (57% to 100%)" in text
        assert text.endswith("The new version is better (exact test: p = 0.0079).")
        new, old = dict.fromkeys(one.fingerprint or "" for one in query.get_facts("parcels", 100))
        short = (old.removeprefix("sha256:")[:12], new)
        assert report_text(report(query, goal_id="parcels", view="versions", versions=short)) == text
        for wrong in (("1", "2"), ("", new), (new,), "12"):
            with pytest.raises(Rejected, match="version"):
                report(query, goal_id="parcels", view="versions", versions=cast(Any, wrong))


def test_secrets_are_redacted_in_a_stored_proposal() -> None:
    secret = "hunter2-hunter2"
    leaky: JsonObject = {**FIX, "rationale": f"It knows {secret}."}

    async def story() -> None:
        async with (
            opened(clerk(), secrets=[secret]) as runtime,
            builder(runtime, leaky) as made,
        ):
            proposal = await made.propose(GOAL)
            [state] = await made.proposals()
            assert state.proposal == proposal, "what is returned is what is kept"
            assert proposal.rationale == "It knows [redacted]."

    asyncio.run(story())
