"""The inspector in a browser: how smoothly long lists scroll, and how soon a page answers.

A server has a million runs in its index and one run with a trace of over 10,000 spans. Chromium
(`/usr/bin/chromium` or `CHROMIUM`) opens its pages on a processor that is slowed four times, and scrolls the
list and the trace with the wheel; `inspector.mjs` drives it. Everything is measured twice.

`python -m benchmarks.inspector` measures, `serve FOLDER PORT` is the server.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Final, TypedDict

from benchmarks.goals import Goal, Numbers, goal_table
from benchmarks.http import SERVER_LIMITS, Command, Wire, running
from benchmarks.peers.environments import ROOT
from benchmarks.peers.report import table
from benchmarks.peers.task import free_port
from benchmarks.runs_list import APART_MS, ROWS, fill
from windlass import Agent, tool
from windlass.ports.model import LLMMessage, LLMUsage
from windlass.testing import Answer, ScriptedModel, say
from windlass.testing.models import ScriptedCall
from windlass_server import Settings, Tenants
from windlass_server.app import serve

CALLS: Final = 31
"""With these, the trace of 320 steps has 320 model calls, 9,920 tool calls and the run itself."""
CHROMIUM: Final = "/usr/bin/chromium"
USAGE: Final = LLMUsage(input_tokens=1_200, output_tokens=80, cost_micros=5_400)


@dataclass(frozen=True, slots=True)
class Size:
    """How much to show, how long to scroll, and how long a page must be quiet to be done."""

    rows: int
    steps: int
    rounds: int
    scroll_s: float
    quiet_ms: int
    deep_rows: int
    slowed: int
    """How much slower the processor seems to pages that are opened."""


FULL: Final = Size(rows=ROWS, steps=320, rounds=2, scroll_s=8, quiet_ms=5_000, deep_rows=10_000, slowed=4)
QUICK: Final = Size(rows=400, steps=8, rounds=1, scroll_s=0.2, quiet_ms=200, deep_rows=100, slowed=1)
GOALS: Final = (
    Goal("frame_ms", "frame time while scrolling, p95 of the worst, ms", 50),
    Goal("frame_cpu_ms", "CPU of a frame while scrolling, mean of the worst, ms", 50),
    Goal("interactive_s", "first page interactive, s", 2.5),
)


class Missing(Exception):
    """Node or a browser is not installed."""


class Interactive(TypedDict):
    """A page that was opened."""

    path: str
    paintedMs: float
    shownMs: float
    interactiveMs: float
    blockedMs: float
    cpuMs: float
    shift: float
    bytesShown: int
    bytesAll: int


class Frames(TypedDict):
    """What the frames of one speed took, milliseconds."""

    speed: int
    frames: int
    p50: float
    p95: float
    max: float
    cpuMs: float
    movedPx: float


class Scrolled(TypedDict):
    """A page that was scrolled."""

    path: str
    shownMs: float
    speeds: list[Frames]


class Measured(TypedDict):
    """One round."""

    interactive: list[Interactive]
    scrolled: list[Scrolled]


@tool(mode="read")
async def count(number: int) -> int:
    """Count."""
    return number


def _answer(messages: Sequence[LLMMessage]) -> Answer:
    done = sum(message.role == "assistant" for message in messages)
    asked = next(message.content for message in messages if message.role == "user")
    if done >= int(asked.rpartition(" ")[2]):
        return say("I counted.", usage=USAGE)
    first = done * CALLS
    return Answer(
        calls=tuple(ScriptedCall("count", {"number": first + at}, None) for at in range(CALLS)), usage=USAGE
    )


def serve_here(folder: Path, port: int) -> int:
    """Serve an agent that counts, until the process is ended."""
    agents = [Agent("counter", model=ScriptedModel(_answer), tools=[count])]
    return serve(Settings(port=port, limits=SERVER_LIMITS), Tenants(folder, agents, durability="process"))


async def _count(port: int, steps: int) -> tuple[str, str]:
    """Let the agent count; return its session and its run."""
    wire = Wire("127.0.0.1", port, "none")
    begun = await wire.post("/v1/sessions", {"agent": "counter", "message": f"Count on for steps: {steps}"})

    async def seen(line: bytes) -> None:
        if b'"type":"run.failed"' in line:
            raise RuntimeError(f"the run failed: {line.decode()[:400]}")

    await wire.follow(f"/v1/runs/{begun['runId']}/events?format=ndjson", seen)
    wire.close()
    return str(begun["sessionId"]), str(begun["runId"])


def measured(size: Size) -> list[Measured]:
    """Return what the rounds took.

    Raises:
        Missing: there is no node or no browser.
    """
    node, browser = which("node"), os.environ.get("CHROMIUM", CHROMIUM)
    if node is None or not Path(browser).exists():
        raise Missing(f"node and a browser are needed: install chromium, or set CHROMIUM; found {node}")
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        ours = Command(Path(sys.executable), ["-m", "benchmarks.inspector", "serve", str(folder), str(port)])
        with running("windlass", ours, key="", port=port):
            session_id, run_id = asyncio.run(_count(port, size.steps))
        (path,) = folder.glob("*.db")
        first_ms = int(time.time() * 1_000) - (size.rows + 1) * APART_MS
        fill(path, size.rows, session_id, owner="local", first_ms=first_ms)
        found: list[Measured] = []
        paces = [str(pace) for pace in (size.scroll_s, size.quiet_ms, size.deep_rows, size.slowed)]
        with running("windlass", ours, key="", port=port):
            for _ in range(size.rounds):
                told = subprocess.run(
                    [node, "benchmarks/inspector.mjs", f"http://127.0.0.1:{port}", run_id, browser, *paces],
                    cwd=ROOT,
                    check=True,
                    stdout=subprocess.PIPE,
                )
                found.append(json.loads(told.stdout))
        return found


_REPORT = """
## The inspector in a browser

Chromium without a window, {rows:,} runs in the index, and a trace of {spans:,} spans. Frames are the times
between animation frames while the wheel turns for {scroll_s:g} seconds, with the mean CPU of the main thread
for one; «deep» is the list after {deep:,} of its rows were read. A page is interactive at the end of the last
task over 50 ms, on a processor slowed four times; its CPU is that of the main thread, slowed. Its bytes are
those on the wire until it shows its content, and those with the other pages, which are fetched afterwards.
Each cell has the rounds side by side. Browser and server share the processors with whatever else the machine
does: times count only at a load below 1.

{frames}

{pages}

{goals}
"""


def report(size: Size = FULL) -> tuple[str, Numbers]:
    """Measure, and return the section of RESULTS.md with its goals."""
    found = measured(size)

    def both(numbers: Sequence[float], form: str = ",.0f") -> str:
        return " / ".join(f"{number:{form}}" for number in numbers)

    frames: list[list[str]] = []
    for page in range(len(found[0]["scrolled"])):
        for at, one in enumerate(found[0]["scrolled"][page]["speeds"]):
            name = ("the list of runs", "the list of runs, deep", "the trace")[page]
            same = [each["scrolled"][page]["speeds"][at] for each in found]
            frames.append(
                [
                    f"{name}, {one['speed']:,} px/s",
                    both([each["p50"] for each in same], ".1f"),
                    both([each["p95"] for each in same], ".1f"),
                    both([each["max"] for each in same]),
                    both([each["cpuMs"] for each in same], ".1f"),
                ]
            )
    names = ("the chat, empty", "the list of runs", "the trace", "the overview")
    pages = [
        [
            names[at],
            both([each["interactive"][at]["paintedMs"] for each in found]),
            both([each["interactive"][at]["shownMs"] for each in found]),
            both([each["interactive"][at]["interactiveMs"] for each in found]),
            both([each["interactive"][at]["cpuMs"] for each in found]),
            both([each["interactive"][at]["shift"] for each in found], ".3f"),
            both([found[0]["interactive"][at]["bytesShown"] / 1_000]),
            both([found[0]["interactive"][at]["bytesAll"] / 1_000]),
        ]
        for at in range(len(names))
    ]
    slowest = max(one["p95"] for each in found for page in each["scrolled"] for one in page["speeds"])
    dearest = max(one["cpuMs"] for each in found for page in each["scrolled"] for one in page["speeds"])
    interactive_s = max(each["interactive"][0]["interactiveMs"] for each in found) / 1_000
    numbers = {"frame_ms": slowest, "frame_cpu_ms": dearest, "interactive_s": interactive_s}
    text = _REPORT.format(
        rows=size.rows,
        spans=size.steps * (CALLS + 1) + 2,
        scroll_s=size.scroll_s,
        deep=size.deep_rows,
        frames=table(("frames, ms", "p50", "p95", "longest", "CPU of one"), frames),
        pages=table(
            (
                "page",
                "painted, ms",
                "content, ms",
                "interactive, ms",
                "CPU, ms",
                "layout shift",
                "kB",
                "kB with the rest",
            ),
            pages,
        ),
        goals=goal_table(GOALS, numbers),
    )
    return text, numbers


def main() -> int:
    """Measure, or serve."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.inspector", description=__doc__)
    parser.add_argument("what", nargs="?", choices=["serve"])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("port", nargs="?", type=int)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.what == "serve":
        return serve_here(options.folder, options.port)
    print(report(QUICK if options.quick else FULL)[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
