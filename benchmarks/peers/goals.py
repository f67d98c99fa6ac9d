"""The goals of the durable step, each a ratio or a limit inside one run."""

from benchmarks.peers.results import Results, ratio

US = "Windlass, power"
PROCESS = "Windlass, process"
MEMORY = "Windlass (memory)"
WAITING = "Windlass, waiting for consent"
RAW_FULL = "raw FULL"
RAW_NORMAL = "raw NORMAL"
RAW_READ = RAW_FULL
PEER = "LangGraph"
MEMORY_PEER = "agent-framework (memory)"
DURABLE_PEERS = ("LangGraph", "LangGraph, delta", "OpenAI Agents", "pydantic-ai + DBOS")
SHORT, MIDDLE, LONG = 10, 50, 500

Goal = tuple[str, float, float | None]
"""What, the limit, and what was measured."""


def goal_rows(results: Results) -> list[list[str]]:
    """Return one row a goal: what, limit, measured, and whether it is met."""
    rows: list[list[str]] = []
    for what, limit, measured in _goals(results):
        verdict = "not measured" if measured is None else "met" if measured <= limit else "missed"
        rows.append([what, f"{limit:g}", "–" if measured is None else f"{measured:.3g}", verdict])
    return rows


def _goals(results: Results) -> list[Goal]:
    cpu, of = results.cpu_ms, results.number
    at_once = [of(results.concurrent, peer, key="cpu_s") for peer in DURABLE_PEERS]
    best = min((number for number in at_once if number is not None), default=None)
    parked = of(results.parked, WAITING, key="per_session")
    names = ("import windlass", "from windlass import Agent, AgentRuntime, tool")
    return [
        (f"power / raw FULL, CPU a step at {MIDDLE}", 3, ratio(cpu(US, MIDDLE), cpu(RAW_FULL, MIDDLE))),
        (f"power / raw FULL, CPU a step at {LONG}", 3, ratio(cpu(US, LONG), cpu(RAW_FULL, LONG))),
        (
            f"process / raw NORMAL, CPU a step at {MIDDLE}",
            3,
            ratio(cpu(PROCESS, MIDDLE), cpu(RAW_NORMAL, MIDDLE)),
        ),
        (f"process / raw NORMAL, CPU a step at {LONG}", 3, ratio(cpu(PROCESS, LONG), cpu(RAW_NORMAL, LONG))),
        (f"power / LangGraph, CPU a step at {MIDDLE}", 0.1, ratio(cpu(US, MIDDLE), cpu(PEER, MIDDLE))),
        (f"power / LangGraph, CPU a step at {LONG}", 0.05, ratio(cpu(US, LONG), cpu(PEER, LONG))),
        *(
            (f"memory / agent-framework, CPU a step at {n}", 1, ratio(cpu(MEMORY, n), cpu(MEMORY_PEER, n)))
            for n in (MIDDLE, LONG)
        ),
        (f"CPU a step at {LONG} / at {SHORT}", 1.1, ratio(cpu(US, LONG), cpu(US, SHORT))),
        ("one more step at 200 to 500 / at 10 to 50", 1.1, _growth(results)),
        ("bytes stored / content at 500", 2, _per_content(results, "stored")),
        ("bytes written / content at 500", 2, _per_content(results, "wchar")),
        (
            "resume / raw read",
            2,
            ratio(of(results.resume, US, key="cpu_s"), of(results.resume, RAW_READ, key="cpu_s")),
        ),
        ("200 x 20 at once / best durable peer", 0.1, ratio(of(results.concurrent, US, key="cpu_s"), best)),
        ("KiB a parked session", 2, None if parked is None else parked / 1024),
        *((f"ms of CPU, {code}", 150, _ms(of(results.imports, code, key="cpu_s"))) for code in names),
    ]


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _growth(results: Results) -> float | None:
    early, late = (
        results.more_ms(US, shorter, longer=longer) for shorter, longer in ((SHORT, MIDDLE), (200, LONG))
    )
    return ratio(late, early)


def _per_content(results: Results, key: str) -> float | None:
    outcome = {"": results.steps[US, LONG]} if (US, LONG) in results.steps else {}
    return ratio(results.number(outcome, "", key=key), results.number(outcome, "", key="content"))
