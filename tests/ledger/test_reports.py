"""Reports on recorded runs, of agents and of recorders alike."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from tests.ledger.rig import GOAL, builder, clerk, opened
from tests.ledger.samples import decide

from windlass import Budget, Conflict, Rejected
from windlass.ledger import BuilderQuery, Runtime, report, report_json, report_text
from windlass_protocol import JsonObject


@pytest.fixture
def app(tmp_path: Path) -> Path:
    path = tmp_path / "app.db"

    async def story() -> None:
        async with (
            opened(clerk(), path=path, customers=["Ada", "Nobody"]) as runtime,
            builder(runtime) as made,
        ):
            await made.evaluate(GOAL)

    asyncio.run(story())
    return path


def test_reports_read_the_file_of_a_runtime(app: Path) -> None:
    with BuilderQuery(app) as query:
        goal = report_text(report(query, goal_id=GOAL))
        assert goal.startswith("Goal parcels: 2 runs ended\nCustomers learn where their parcel is")
        assert "- goal_missed, 2 runs: " in goal
        failures = report_text(report(query, goal_id="parcels", view="failures"))
        assert "such as run-2, run-1" in failures
        trace = report_text(report(query, run_id="run-2"))
        assert '✗ [clerk] call find_parcel → {"customer":"Nobody"}' in trace
        assert "Failure: goal_missed: number: not in it: 'parcel-'" in trace


def test_reports_are_data_too(app: Path) -> None:
    with BuilderQuery(app) as query:
        data = report_json(report(query, goal_id="parcels"))
        assert (data["goal_id"], data["runs"], data["judged"]) == ("parcels", 2, 2)
        versions = cast(list[JsonObject], data["versions"])
        assert versions[0]["runs"] == 2
        run = report_json(report(query, run_id="run-1"))
        assert run["failure"] == {
            "kind": "goal_missed", "told": "number: not in it: 'parcel-'", "decision_id": "step_1"
        }  # fmt: skip


def test_a_report_is_about_one_thing(app: Path) -> None:
    with BuilderQuery(app) as query:
        with pytest.raises(Rejected, match="exactly one of"):
            report(query)
        with pytest.raises(Rejected, match="exactly one of"):
            report(query, goal_id="parcels", run_id="run-1")
        with pytest.raises(Rejected, match="runs of one version"):
            report(query, goal_id="parcels", view="versions")
        with pytest.raises(Conflict, match="unknown run: ghost"):
            report(query, run_id="ghost")
        assert "Goal lunch: 0 runs ended" in report_text(report(query, goal_id="lunch"))


def test_a_proposal_is_reported_with_its_check() -> None:
    async def story() -> None:
        async with opened(clerk()) as runtime, builder(runtime) as made:
            proposal = await made.propose(GOAL)
            await made.check(proposal)
            state = await made.approve(proposal, by="ada")
            query = BuilderQuery(runtime=runtime)
            text = report_text(report(query, proposal=state))
            assert "- Say where parcels are.\n+ Say where parcels are. Always name the number" in text
            assert "3 fixed, 0 broken" in text
            data = cast(JsonObject, report_json(report(query, proposal=state))["state"])
            assert data["status"] == "accepted"

    asyncio.run(story())


def test_runs_of_a_recorder_are_reported_like_runs_of_an_agent(tmp_path: Path) -> None:
    with Runtime(tmp_path) as recorder:
        run_id = recorder.start_run("lunch", "Eat.", {"who": "Ada"})
        recorder.record_outcome(decide(recorder), False, error="Connection timed out after 30 s")
        recorder.end_run(False)
        recorder.start_run("lunch")
        recorder.end_run(True)
    with BuilderQuery(tmp_path) as query:
        assert "- timeout, 1 run: Connection timed out after 30 s" in report_text(
            report(query, goal_id="lunch")
        )
        assert report_text(report(query, run_id=run_id)).startswith(
            f"Run {run_id}: failed\nGoal: lunch - Eat."
        )
        analysis = query.analyze_failure(run_id)
        assert analysis is not None
        assert str(analysis).startswith(f"Failure of {run_id}: timeout\n")
        assert analysis.to_dict()["kind"] == "timeout"


def test_an_unknown_report_is_refused_with_the_known_ones() -> None:
    async def main() -> None:
        async with opened(clerk()) as runtime:
            query = BuilderQuery(runtime=runtime)
            wrong: Any = "fail"
            with pytest.raises(Rejected, match="view is one of overview, failures, versions, found fail"):
                report(query, goal_id="parcels", view=wrong)

    asyncio.run(main())


def test_the_root_cause_of_a_failed_call_is_its_error_message() -> None:
    async def main() -> None:
        async with opened(clerk(budget=Budget(max_steps=1)), customers=["Nobody"]) as runtime:
            found = BuilderQuery(runtime=runtime).analyze_failure("run-1")
            assert found is not None
            assert found.root_cause not in ("failed", "tool_failure")
            assert len(found.root_cause.split()) > 1

    asyncio.run(main())
