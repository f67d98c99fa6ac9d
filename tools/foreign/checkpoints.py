"""langgraph-checkpoint-conformance: base and extended capabilities, in memory and on SQLite."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from tempfile import TemporaryDirectory

from langgraph.checkpoint.conformance import checkpointer_test, validate

from tools.foreign.counts import Counts
from windlass.foreign.langgraph import WindlassSaver
from windlass.parts import MemoryStore


async def main(folder: Path) -> Counts:
    """Run the suite on both stores."""

    @checkpointer_test(name="memory")
    async def in_memory() -> AsyncGenerator[WindlassSaver]:
        yield WindlassSaver(MemoryStore())

    @checkpointer_test(name="sqlite")
    async def on_sqlite() -> AsyncGenerator[WindlassSaver]:
        async with WindlassSaver.open(folder / "checkpoints.db") as saver:
            yield saver

    counts = Counts()
    for registered in (in_memory, on_sqlite):
        report = await validate(registered)
        for capability, result in report.results.items():
            counts.passed += result.tests_passed
            for failure in result.failures:
                counts.check(f"{registered.name} {capability}", failure)
            if not result.detected:
                counts.check(f"{registered.name} {capability}", "the checkpointer does not have it")
        capabilities = len(report.results)
        counts.notes.append(f"{registered.name}: {report.conformance_level()}, {capabilities} capabilities")
    return counts


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        asyncio.run(main(Path(place))).show()
