"""A process that is killed around the moment when a consent is used."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Final, Literal, cast

from tests.security.bank import asked

from windlass import Agent, AgentRuntime, tool
from windlass.adapters.system import SystemClock
from windlass.agent.policy import allow_start
from windlass.feed import Feed
from windlass.ports.inbox import NewRun, Posted
from windlass.ports.journal import Appended, Batch
from windlass.sqlite.store import SqliteStore
from windlass.testing import ScriptedModel, by_history, call, say
from windlass.testing.stores import WrappedStore
from windlass.tools import EffectName
from windlass_protocol import JsonObject

Point = Literal["answer durable", "start asked", "start durable", "effect done"]
POINTS: Final[tuple[Point, ...]] = ("answer durable", "start asked", "start durable", "effect done")
STORY_S_MAX: Final = 300.0


def end() -> None:
    """End as a crash does."""
    os.kill(os.getpid(), signal.SIGKILL)


def payer(ledger: Path, effect: EffectName, *, note: str = "", is_killed: bool = False) -> Agent:
    """An agent that pays after an approval; a file outside records the payments."""

    async def pay(cents: int, note: str = "") -> str:
        """Pay."""
        with ledger.open("a") as file:
            file.write(f"{cents} {note}\n")
        if is_killed:
            end()
        return "paid"

    made = tool(pay, mode="external", effect=effect, approval="always")
    script = by_history([call("pay", {"cents": 5, "note": note}, call_id="c1"), say("done")])
    return Agent("payer", model=ScriptedModel(script), tools=[made])


class KillingStore(WrappedStore):
    """A store that ends the process at a point."""

    def __init__(self, inner: SqliteStore, point: Point) -> None:
        super().__init__(inner)
        self._point = point

    async def append(self, batch: Batch) -> Appended:
        is_start = any(draft.type == "action.started" for draft in batch.drafts)
        if is_start and self._point == "start asked":
            end()
        appended = await super().append(batch)
        if is_start and self._point == "start durable":
            end()
        return appended

    async def post(
        self, session_id: str, *, kind: str, key: str, body: JsonObject, run: NewRun | None = None
    ) -> Posted:
        posted = await super().post(session_id, kind=kind, key=key, body=body, run=run)
        if kind == "answer" and self._point == "answer durable":
            end()
        return posted


async def live(folder: Path, point: Point, effect: EffectName, secret: str) -> None:
    """Ask, be answered, and die."""
    store = KillingStore(await SqliteStore.open(folder / "a.db"), point)
    builder = (
        AgentRuntime.builder().journal(store).content(store).policy(allow_start).options(is_attended=True)
    )
    agent = payer(folder / "ledger", effect, note=secret, is_killed=point == "effect done")
    builder.options(secrets=[secret] if secret else [])
    builder.event_bus(Feed(store, SystemClock())).agent(agent)
    async with asyncio.timeout(STORY_S_MAX), builder.build() as runtime:
        handle = await runtime.start_run(agent, "go", run_id="r1", session_id="s")
        (request,) = await asked(handle)
        await handle.answer(request.request_id, "approve", responder="ann")
        await handle.wait(timeout=STORY_S_MAX)


if __name__ == "__main__":
    _, where, wanted, effect_class, *secrets = sys.argv
    asyncio.run(live(Path(where), POINTS[int(wanted)], cast(EffectName, effect_class), "".join(secrets)))
