"""Large contents: stalls of the event loop by results, images and a long resume; the start of a worker.

`python -m benchmarks.heavy` measures; each subject is a process of its own, with its name as the argument.
"""

import argparse
import asyncio
import base64
import gc
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time, sleep
from typing import Final

from benchmarks.goals import Numbers
from benchmarks.loop import UNCOMPACTED_TOKENS
from benchmarks.peers.environments import ROOT, last_line
from benchmarks.peers.report import table
from benchmarks.peers.task import ledger_rows, source_texts
from windlass import Agent, AgentRuntime, LLMMessage, LLMStreamChunk, Rejected, Tool, ToolCall, tool
from windlass.parts import shorten_stalls
from windlass_protocol import ImagePart, JsonObject, TextPart

TICK_S: Final = 0.001
CHILD_S_MAX: Final = 600
IMAGE_SIZES_MB: Final = (20.0, 10.0, 5.0, 2.0, 1.0, 0.75, 0.5, 0.25)
IMAGE_HEAD: Final = b"\x89PNG\r\n\x1a\n"
APP: Final = Path(__file__).with_name("worker_app.py")


@dataclass(frozen=True, slots=True)
class Size:
    """How much to run."""

    rounds: int
    results_kb: int
    resume_steps: int
    image_sizes_mb: tuple[float, ...]


FULL: Final = Size(rounds=3, results_kb=300, resume_steps=5_000, image_sizes_mb=IMAGE_SIZES_MB)
QUICK: Final = Size(rounds=1, results_kb=20, resume_steps=3, image_sizes_mb=(0.25,))


class Asker:
    """Calls its tool so many times, and says when it was asked first."""

    def __init__(self, steps: int = 0) -> None:
        self._steps = steps
        self.asked_s: float | None = None

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        if self.asked_s is None:
            self.asked_s = process_time()
        step = len(messages) // 2
        if step >= self._steps:
            yield LLMStreamChunk(content_delta="Done.", finish_reason="stop")
            return
        call = ToolCall(id=f"c{step}", name="read", arguments={"page": step})
        yield LLMStreamChunk(tool_call_delta=call, finish_reason="tool-calls")


async def longest_stall_s(work: Awaitable[object]) -> float:
    """Return the longest time in which the event loop turned to nothing else while it did some work.

    It is the lesser of the time and the CPU of the process, so that other processes do not count. The process
    is one that has started, as servers and workers have.
    """
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            began, used = perf_counter(), process_time()
            await asyncio.sleep(TICK_S)
            longest = max(longest, min(perf_counter() - began - TICK_S, process_time() - used))

    gc.collect()
    shorten_stalls()
    ticking = asyncio.create_task(tick())
    await asyncio.sleep(TICK_S)
    await work
    # What was done last is seen at the next tick.
    await asyncio.sleep(2 * TICK_S)
    ticking.cancel()
    with suppress(asyncio.CancelledError):
        await ticking
    return longest


def _reading(result: Callable[[int], object]) -> Tool[..., object]:
    async def read(page: int) -> object:
        """Read one page."""
        return result(page)

    return tool(mode="read")(read)


def image(size_mb: float) -> ImagePart:
    """Return an image of that size, with bytes that do not compress."""
    raw = IMAGE_HEAD + random.Random(1).randbytes(int(size_mb * 1e6) - len(IMAGE_HEAD))
    return ImagePart(image=f"data:image/png;base64,{base64.b64encode(raw).decode()}")


async def _result_stall(folder: Path, result: Callable[[int], object]) -> Numbers:
    agent = Agent("bench", model=Asker(2), tools=[_reading(result)])
    async with AgentRuntime.open(folder / "bench.db", agents=[agent]) as runtime:
        await (await runtime.start_run(agent, "Warm up.")).wait()
        handle = await runtime.start_run(agent, "Read.")
        return {"stall_s": await longest_stall_s(handle.wait())}


async def source_stall(folder: Path, size: Size) -> Numbers:
    pages = source_texts(size.results_kb * 1_000)
    return await _result_stall(folder, lambda page: pages[page % len(pages)])


async def rows_stall(folder: Path, size: Size) -> Numbers:
    rows = ledger_rows(1, size.results_kb * 1_000)
    return await _result_stall(folder, lambda page: rows)


async def _ask_about(runtime: AgentRuntime, agent: Agent, part: ImagePart) -> None:
    handle = await runtime.start_run(agent, (TextPart(text="What is this?"), part))
    result = await handle.wait()
    if result.error is not None:
        raise RuntimeError(f"the run failed: {result.error.code}")


async def images(folder: Path, size: Size) -> Numbers:
    """Find the largest image that is accepted; measure the largest of at most 1 MB."""
    model = Asker()
    agent = Agent("bench", model=model)
    numbers: Numbers = {"image_mb": 0.0}
    async with AgentRuntime.open(folder / "bench.db", agents=[agent]) as runtime:
        await _ask_about(runtime, agent, image(0.01))
        for size_mb in size.image_sizes_mb:
            part = image(size_mb)
            model.asked_s = None
            gc.collect()
            began = process_time()
            try:
                await _ask_about(runtime, agent, part)
            except Rejected:
                continue
            numbers["image_mb"] = max(numbers["image_mb"], size_mb)
            if size_mb <= 1.0:
                assert model.asked_s is not None
                numbers["image_ms"] = (model.asked_s - began) / size_mb * 1e3
                return numbers | {"stall_s": await longest_stall_s(_ask_about(runtime, agent, part))}
    raise RuntimeError("no image was accepted")


async def resume_stall(folder: Path, size: Size) -> Numbers:
    """Cut off a run after its last tool call; stall of the runtime that goes on with it."""
    path = folder / "bench.db"
    reading = _reading(lambda page: f"page {page} of the ledger of the northern region")
    reached, never = asyncio.Event(), asyncio.Event()

    class Stopping(Asker):
        async def stream(
            self,
            messages: Sequence[LLMMessage],
            *,
            tools: Iterable[JsonObject] | None = None,
            temperature: float | None = None,
        ) -> AsyncIterator[LLMStreamChunk]:
            if len(messages) > 2 * size.resume_steps:
                reached.set()
                await never.wait()
            async for chunk in super().stream(messages, tools=tools, temperature=temperature):
                yield chunk

    first = Agent(
        "bench", model=Stopping(size.resume_steps + 1), tools=[reading], compaction=UNCOMPACTED_TOKENS
    )
    async with AgentRuntime.open(path, agents=[first], durability="process", drain_s=0) as runtime:
        handle = await runtime.start_run(first, "Read.", run_id="r1")
        await reached.wait()
    again = Agent("bench", model=Asker(size.resume_steps), tools=[reading], compaction=UNCOMPACTED_TOKENS)

    async def go_on() -> None:
        async with AgentRuntime.open(path, agents=[again], durability="process") as runtime:
            result = await runtime.handle(handle.run_id).wait()
            if result.output != "Done.":
                raise RuntimeError(f"the run ended otherwise: {result.status}")

    return {"stall_s": await longest_stall_s(go_on())}


async def worker(folder: Path, size: Size) -> Numbers:
    """Start a worker on a store in which a run waits; its model says how much CPU it had used."""
    path, asked = folder / "bench.db", folder / "asked"
    agent = Agent("bench", model=Asker())
    async with AgentRuntime.open(path, agents=[agent], is_driving=False) as runtime:
        await runtime.start_run(agent, "Say when you are there.")
    await asyncio.to_thread(_work_until, asked, path)
    return {"worker_s": float(asked.read_text("ascii"))}


def _work_until(asked: Path, path: Path) -> None:
    """Let a worker drive a store until a file is there."""
    folder = path.parent
    child = subprocess.Popen(
        [sys.executable, "-m", "windlass_cli", "worker", f"{APP}:agent", "--store", str(path)],
        cwd=folder,
        env={"BENCH_ASKED": str(asked), "PYTHONPATH": str(ROOT), "HOME": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        began = perf_counter()
        while not asked.exists():
            if child.poll() is not None or perf_counter() - began > CHILD_S_MAX:
                raise RuntimeError(f"the worker claimed no run: {child.returncode}")
            sleep(0.01)
    finally:
        child.kill()
        child.wait()


SUBJECTS: Final[dict[str, Callable[[Path, Size], Coroutine[object, object, Numbers]]]] = {
    "source": source_stall,
    "rows": rows_stall,
    "images": images,
    "resume": resume_stall,
    "worker": worker,
}
_REPORT = """## Large contents, and a cold worker

Each is a process of its own, on a SQLite file with its default durability (the resume: `process`). A stall
is the longest time between two turns of a task that sleeps for a millisecond, or the CPU of the process in it
where that is less; the least of {rounds} rounds. The process has called `shorten_stalls`, as servers and
workers do. An image is measured from the start of its run until the
model is asked, CPU for each MB; the largest of {sizes} MB that is
accepted is named. A worker is `windlass worker` on a store in which a run waits: its CPU with the start of
the interpreter, until the model of the run is asked.

{stalls}

{others}
"""


def _child(name: str, *, is_quick: bool) -> Numbers:
    command = [sys.executable, "-m", "benchmarks.heavy", name, *(["--quick"] if is_quick else [])]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=CHILD_S_MAX)
    if done.returncode:
        raise RuntimeError(f"{name}: {last_line(done.stderr)}")
    return json.loads(done.stdout)


def report(size: Size = FULL) -> tuple[str, Numbers]:
    """Measure, and return the section of RESULTS.md and its numbers."""
    best: dict[str, Numbers] = {}
    for _ in range(size.rounds):
        for name in SUBJECTS:
            numbers = _child(name, is_quick=size is QUICK)
            print(f"{name}: {numbers}", flush=True)
            before = best.setdefault(name, numbers)
            best[name] = {key: min(number, before[key]) for key, number in numbers.items()}
    stalls = {name: numbers["stall_s"] * 1e3 for name, numbers in best.items() if "stall_s" in numbers}
    names = {
        "source": f"two results of {size.results_kb} kB of source code",
        "rows": f"two results of {size.results_kb} kB of structured rows",
        "images": "an image of at most 1 MB",
        "resume": f"resume of {size.resume_steps:,} steps",
    }
    pictures, started = best["images"], best["worker"]["worker_s"]
    others = [
        ["CPU before the model is asked, for each MB of an image", f"{pictures['image_ms']:.0f} ms"],
        ["the largest image that is accepted", f"{pictures['image_mb']:g} MB"],
        ["CPU of a worker until its first run asks the model", f"{started:.2f} s"],
    ]
    text = _REPORT.format(
        rounds=size.rounds,
        sizes=", ".join(f"{each:g}" for each in size.image_sizes_mb),
        stalls=table(
            ("longest stall of the event loop", "ms"),
            [[names[name], f"{stall:.1f}"] for name, stall in stalls.items()],
        ),
        others=table(("", ""), others),
    )
    numbers = {key: pictures[key] for key in ("image_ms", "image_mb")}
    return text, numbers | {"stall_ms": max(stalls.values()), "worker_s": started}


def main() -> int:
    """Measure all, or one subject."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.heavy", description=__doc__)
    parser.add_argument("subject", nargs="?", choices=list(SUBJECTS))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    if options.subject is None:
        print(report(size)[0])
        return 0
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        print(json.dumps(asyncio.run(SUBJECTS[options.subject](Path(folder), size))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
