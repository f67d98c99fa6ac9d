"""A server for the tests of the inspector: with experiments, data sets, schedules and dead letters."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from windlass import Agent, LLMMessage, LLMUsage, Schedule
from windlass.evals import Attempt, Case, Check, Contains, Dataset, Datasets, Exact, Experiment
from windlass.ports.documents import Document
from windlass.testing import Answer, ScriptedModel, say
from windlass.webhooks import DELIVERY
from windlass_protocol import JsonObject
from windlass_server import Settings
from windlass_server.app import serve
from windlass_server.auth import LOCAL
from windlass_server.tenants import Tenants

ROOMS = {
    "Oslo": 90,
    "Rome": 60,
    "Paris": 120,
    "Bergen": 70,
    "Turin": 55,
    "Vienna": 80,
    "Lyon": 75,
    "Porto": 50,
}
USAGE = LLMUsage(input_tokens=120, output_tokens=12, cost_micros=840)


def _old(messages: Sequence[LLMMessage]) -> Answer:
    city = messages[-1].content.split()[-1].rstrip("?")
    known = {**ROOMS, "Rome": 65, "Lyon": 80, "Porto": 45}
    return say(f"A room in {city} is {known.get(city, 99)} crowns.", usage=USAGE)


def _new(messages: Sequence[LLMMessage]) -> Answer:
    city = messages[-1].content.split()[-1].rstrip("?")
    known = {**ROOMS, "Vienna": 88}
    return say(f"A room in {city} is {known.get(city, 99)} crowns.", usage=USAGE)


def is_short(attempt: Attempt) -> bool:
    """Judge an answer by its length."""
    return len(attempt.output) < 60


old = Agent("desk", model=ScriptedModel(_old))
new = Agent("desk", model=ScriptedModel(_new), instructions="Look the price up.")
CASES = Dataset(
    "prices",
    [
        Case(
            city.lower(),
            f"What is a room in {city}?",
            f"A room in {city} is {price} crowns.",
            tags=["smoke"] if city < "P" else ["south"],
        )
        for city, price in ROOMS.items()
    ],
    scorers=[Exact(), Contains(["crowns"])],
)


SCHEDULES = (
    Schedule(
        "nightly",
        "desk",
        "Write the report.",
        cron="0 3 * * MON-FRI",
        timezone="Europe/Berlin",
        owner=LOCAL.user,
    ),
    Schedule("mail", "desk", "What is a room in Oslo?", every_s=43_200, owner=LOCAL.user),
)


async def fill(folder: Path) -> None:
    """Write what the pages show."""
    for agent, name in ((old, "prices-old"), (new, "prices-new")):
        tenants = Tenants(folder, [agent])
        async with tenants.use(LOCAL.tenant) as tenant:
            plan = Experiment(CASES, agent, scorers=[Check(is_short)], experiment_id=name, owner=LOCAL.user)
            await plan.run(tenant.runtime)
            await Datasets(tenant.runtime, owner=LOCAL.user).save(CASES)
            for schedule in SCHEDULES:
                await tenant.runtime.schedules.put(schedule)
            body: JsonObject = {
                "target": "ops",
                "sessionId": "prices-old/rome/1",
                "runId": "prices-old/rome/1",
                "event": "run.completed",
                "owner": LOCAL.user,
                "attempts": 10,
                "isDead": True,
                "problem": "HTTP 503: the receiver is being repaired",
                "createdMs": 1_767_225_600_000,
            }
            if name == "prices-old":
                await tenant.store.put_document(Document(DELIVERY, "msg_dead", 1, body))
        await tenants.aclose()


def main() -> int:
    """Fill a new folder, then serve it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path)
    parser.add_argument("--port", type=int)
    options = parser.parse_args()
    if not any(options.data.glob("*")):
        asyncio.run(fill(options.data))
    return serve(Settings(port=options.port), Tenants(options.data, [new]))


if __name__ == "__main__":
    sys.exit(main())
