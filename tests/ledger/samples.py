"""Sample decisions, and the program of a process that records them."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from windlass.ledger import Runtime

OPTIONS: Final[list[dict[str, object]]] = [
    {"id": "ask", "description": "Ask directly"},
    {"id": "infer", "description": "Infer from company size"},
]
GOAL: Final = "qualify-leads"


def anything(value: object) -> Any:
    """Return a value as something that any caller might pass."""
    return value


def decide(runtime: Runtime, intent: str = "Check the budget", chosen: str = "infer") -> str:
    """Record a plain decision."""
    return runtime.decide(intent, OPTIONS, chosen, "Company data is there")


def record(
    runtime: Runtime, *, error: str | None = None, goal_id: str = GOAL, node_id: str = "checker"
) -> str:
    """Record a whole run of one decision; it failed if there is an error."""
    run_id = runtime.start_run(goal_id)
    runtime.set_node(node_id)
    decision_id = decide(runtime)
    runtime.record_outcome(decision_id, error is None, error=error, tokens_used=10, latency_ms=20)
    runtime.end_run(error is None)
    return run_id


def child(code: str, *arguments: str | Path) -> "subprocess.Popen[bytes]":
    """Start a process that runs some code with our packages."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], env=environment, stderr=subprocess.PIPE
    )
