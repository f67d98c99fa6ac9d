"""The whole loop: judge, propose, check, approve, apply."""

import asyncio
from pathlib import Path

import pytest
from tests.improve.rig import BETTER, FIX, GOAL, builder, clerk, looked_up, opened, run

from windlass import Conflict, Denied, Rejected
from windlass.improve import FailureKind, ProposalStatus, report, report_text
from windlass.recorder import BuilderQuery
from windlass_protocol import VersionVerdict


@pytest.mark.parametrize("where", ["memory", "file"])
def test_an_agent_that_misses_its_goal_is_improved(tmp_path: Path, where: str) -> None:
    path = tmp_path / "app.db" if where == "file" else None

    async def story() -> None:
        agent = clerk()
        async with opened(agent, path=path) as runtime, builder(runtime) as made:
            scores = await made.evaluate(GOAL)
            assert {run_id: score.is_reached for run_id, score in scores.items()} == {
                "run-1": False, "run-2": False, "run-3": False
            }  # fmt: skip
            proposal = await made.propose(GOAL)
            assert (proposal.agent_id, proposal.evidence) == ("clerk", ("run-1",))
            assert [(one.path, one.after) for one in proposal.differences] == [
                ("/agent/instructions", BETTER)
            ]
            check = await made.check(proposal)
            assert (check.fixed, check.broken, check.diverged) == (3, 0, 0)
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
