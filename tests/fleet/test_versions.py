"""Agents of two versions side by side on PostgreSQL, as in a deploy: a run goes on where it began."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest
from tests.contracts.stores import NOW_MS, claim, write
from tests.story import play

from tools.postgres import Postgres
from windlass import Agent, AgentRuntime, Approval, Rejected, tool
from windlass.agent.agent import output_contract
from windlass.agent.package import compile_package, with_batch
from windlass.engine.driving import drives
from windlass.ports.catalog import OpenRuns
from windlass.postgres import schema as postgres_schema
from windlass.postgres.link import parse_address
from windlass.postgres.schema import migrate_tables
from windlass.postgres.store import PostgresStore
from windlass.runtime.registry import version_of
from windlass.testing import ScriptedModel, by_history, call, say
from windlass_protocol import RunStatus

PAYMENTS = 20


def agents(paid: list[str]) -> tuple[Agent[Any, Any], Agent[Any, Any]]:
    """An agent that pays, and its next version, which has another tool for that."""

    @tool(mode="external", effect="once")
    async def pay() -> str:
        """Pay."""
        paid.append("pay")
        return "paid"

    @tool(mode="external", effect="once")
    async def transfer() -> str:
        """Pay, in another way."""
        paid.append("transfer")
        return "transferred"

    old, new = (
        Agent("till", model=ScriptedModel(by_history([call(name), say("done")])), tools=[function])
        for name, function in (("pay", pay), ("transfer", transfer))
    )
    return old, new


async def approve(runtime: AgentRuntime, run_id: str) -> None:
    """Approve the payment of a run once it is asked for."""
    async for request in runtime.handle(run_id).requests():
        assert isinstance(request, Approval)
        await request.approve()
        return


Story = Callable[[str, list[str]], Awaitable[None]]


def tell(postgres: Postgres, story: Story) -> None:
    play(_main(story, postgres.new_database()))


async def _main(story: Story, address: str) -> None:
    await story(address, [])


def test_approved_payments_are_made_by_the_version_that_asked_for_them(postgres: Postgres) -> None:
    async def story(address: str, paid: list[str]) -> None:
        old, new = agents(paid)
        run_ids = [f"r{number}" for number in range(PAYMENTS)]
        async with (
            AgentRuntime.open(address, agents=[old]) as before,
            AgentRuntime.open(address, agents=[new]) as after,
        ):
            for run_id in run_ids:
                await before.start_run("till", "go", run_id=run_id)
            # Answers reach either process.
            for run_id, runtime in zip(run_ids, [before, after] * PAYMENTS, strict=False):
                await approve(runtime, run_id)
            for run_id in run_ids:
                assert (await after.handle(run_id).wait()).output == "done"
            assert paid == ["pay"] * PAYMENTS
            run = await after.start_run("till", "go", run_id="new")
            await approve(before, "new")
            assert (await run.wait()).output == "done"
            assert paid[-1] == "transfer"

    tell(postgres, story)


def test_a_run_waits_for_a_process_with_its_version_if_it_is_to(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drives, "LEFT_MS", 200)

    async def story(address: str, paid: list[str]) -> None:
        old, new = agents(paid)
        async with AgentRuntime.open(address, agents=[old]) as before:
            for run_id in ("r", "cancelled"):
                await before.start_run("till", "go", run_id=run_id)
                async for _ in before.handle(run_id).requests():
                    break
        async with AgentRuntime.open(address, agents=[new], package_change="wait") as after:
            for run_id in ("r", "cancelled"):
                await approve(after, run_id)
            await after.cancel_run("cancelled")
            assert (await after.handle("cancelled").wait(timeout=60)).status is RunStatus.CANCELLED
            assert await after.handle("r").status() is RunStatus.WAITING
            [group] = await after.core.store.open_runs()
            assert isinstance(group, OpenRuns)
            assert (group.agent_id, group.status, group.count) == ("till", RunStatus.WAITING, 1)
            async with AgentRuntime.open(address, agents=[old], package_change="wait") as back:
                assert (await back.handle("r").wait()).output == "done"
        assert paid == ["pay"]

    tell(postgres, story)


def test_what_a_start_chooses_is_no_other_version() -> None:
    package = compile_package(agents([])[0])
    chosen = with_batch(package, "24h").model_copy(
        update={"output_contracts": (output_contract({"type": "string"}, "till"),)}
    )
    assert version_of(chosen) == version_of(package) != version_of(compile_package(agents([])[1]))


# tables of two versions

EXPANDING = ("ALTER TABLE sessions ADD COLUMN colour TEXT",)
CONTRACTING = ("ALTER TABLE sessions DROP COLUMN colour",)


def test_tables_that_were_only_added_to_are_used_by_the_release_before_and_after_a_rollback(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = postgres_schema.MIGRATIONS

    async def story() -> None:
        address = postgres.new_database()
        running = await PostgresStore.open(address)
        mine = await claim(running)
        await write(running, mine, 1)
        with monkeypatch.context() as newer:
            newer.setattr(postgres_schema, "MIGRATIONS", (*old, EXPANDING))
            with pytest.raises(Rejected, match=r": copy it with pg_dump, and run windlass migrate"):
                await PostgresStore.open(address)
            place = parse_address(address, schema=postgres_schema.SCHEMA)
            found = await asyncio.to_thread(migrate_tables, place, is_trial=False)
            assert found == (len(old), len(old) + 1)
            # Old and new run together, also with sessions of each other.
            new = await PostgresStore.open(address)
            await write(running, mine, 2, after=1)
            await new.enlist("o2", now_ms=NOW_MS)
            theirs = await new.claim("s2", "o2", now_ms=NOW_MS)
            await write(new, theirs, 1)
            await new.aclose()
        # The release before comes back.
        back = await PostgresStore.open(address)
        assert len(await back.read("s1")) == 2
        await write(back, await claim(back, "s2", "o3"), 2, after=1)
        await back.aclose()
        with monkeypatch.context() as newest:
            newest.setattr(postgres_schema, "MIGRATIONS", (*old, EXPANDING, CONTRACTING))
            newest.setattr(postgres_schema, "MIN_COMPATIBLE", len(old) + 2)
            await asyncio.to_thread(migrate_tables, place, is_trial=False)
        with pytest.raises(Rejected, match="use a newer release"):
            await PostgresStore.open(address)
        await running.aclose()
        with psycopg.connect(address) as admin:
            rows = admin.execute("SELECT version FROM windlass.store").fetchall()
            assert rows == [(len(old) + 2,)]

    play(story())
