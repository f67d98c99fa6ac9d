"""Concurrent decisions about one proposal."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.ledger.rig import BETTER, GOAL, builder, clerk, opened

from windlass import Conflict, Denied
from windlass.ledger import ProposalStatus
from windlass.ledger.hosted import PortStore
from windlass.ports.recorded import NumberedRow, RunStore
from windlass.sqlite.recorded import RecordedStore


def before_the_next(type_: str, act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Do something right before a record is written, after all was looked at."""
    is_done = False
    for store in (RecordedStore, PortStore):
        original: Callable[..., None] = store.take_in

        def take_in(
            self: RunStore, rows: Sequence[NumberedRow], *, write: Callable[..., None] = original
        ) -> None:
            nonlocal is_done
            if f'"{type_}"'.encode() in rows[-1].body and not is_done:
                is_done = True
                act()
            write(self, rows)

        monkeypatch.setattr(store, "take_in", take_in)


@pytest.mark.parametrize("where", ["memory", "file"])
def test_a_refusal_during_an_apply_stops_the_apply(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "app.db" if where == "file" else None

    async def story() -> None:
        async with opened(clerk(), path=path) as runtime, builder(runtime) as made, builder(runtime) as other:
            await made.propose(GOAL, proposal_id="p1")
            await made.approve("p1", by="ada")
            loop = asyncio.get_running_loop()

            def refuse() -> None:
                asyncio.run_coroutine_threadsafe(other.refuse("p1", by="bob"), loop).result(300)

            before_the_next("proposal.applied", refuse, monkeypatch)
            with pytest.raises(Denied, match="refused"):
                await made.apply("p1", by="ada")
            state = await made.proposal("p1")
            assert (state.status, state.applied) == (ProposalStatus.REFUSED, None)

    asyncio.run(story())


def test_refusing_a_proposal_that_was_applied_is_a_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with opened(clerk()) as runtime, builder(runtime) as made, builder(runtime) as other:
            await made.propose(GOAL, proposal_id="p1")
            await made.approve("p1", by="ada")
            loop = asyncio.get_running_loop()

            def apply() -> None:
                asyncio.run_coroutine_threadsafe(other.apply("p1", by="bob"), loop).result(300)

            before_the_next("proposal.settled", apply, monkeypatch)
            with pytest.raises(Conflict, match="applied already"):
                await made.refuse("p1", by="ada")
            assert (await made.proposal("p1")).status is ProposalStatus.APPLIED

    asyncio.run(story())


def test_two_concurrent_applies_record_one_application(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with opened(clerk()) as runtime, builder(runtime) as made, builder(runtime) as other:
            await made.propose(GOAL, proposal_id="p1")
            await made.approve("p1", by="ada")
            loop = asyncio.get_running_loop()

            def apply() -> None:
                asyncio.run_coroutine_threadsafe(other.apply("p1", by="bob"), loop).result(300)

            before_the_next("proposal.applied", apply, monkeypatch)
            assert (await made.apply("p1", by="ada")).instructions == BETTER
            state = await made.proposal("p1")
            assert state.applied is not None
            assert state.applied.by == "bob"
            store = runtime.core.ports.store
            assert store is not None
            types = [record.type for record in await store.read("notes:proposals")]
            assert types.count("proposal.applied") == 1

    asyncio.run(story())
