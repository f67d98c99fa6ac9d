"""MCP conformance: the core scenarios for clients, each against the client of Windlass."""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tools.foreign.counts import Counts

CORE: Final = ("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry")
TIMEOUT_S: Final = 120


def main(command: list[str]) -> Counts:
    """Run the scenarios with the command of the suite; the checks of a scenario are cases."""
    counts = Counts()
    client = f"{sys.executable} -m tools.foreign.mcp_client"
    for scenario in CORE:
        with TemporaryDirectory() as folder:
            options = ["--command", client, "--scenario", scenario, "--output-dir", folder]
            done = subprocess.run(
                [*command, "client", *options], capture_output=True, text=True, check=False, timeout=TIMEOUT_S
            )
            reports = list(Path(folder).rglob("checks.json"))
            if not reports:
                counts.check(scenario, f"the suite made no report: {done.stderr.strip()[-200:]}")
            for report in reports:
                for check in json.loads(report.read_text(encoding="utf-8")):
                    add_check(counts, scenario, check)
    counts.notes.append("the scenarios for OAuth are not run: the client does not claim it")
    return counts


def add_check(counts: Counts, scenario: str, check: dict[str, str]) -> None:
    """Count a check of a scenario; those that only inform are not counted."""
    text = check.get("errorMessage") or check.get("description", "")
    match check["status"]:
        case "INFO":
            pass
        case "SKIPPED":
            counts.skipped += 1
        case "SUCCESS" | "WARNING" as status:
            counts.passed += 1
            if status == "WARNING":
                counts.notes.append(f"{scenario} {check['id']} passed with a warning: {text}")
        case _:
            counts.check(f"{scenario} {check['id']}", text)


if __name__ == "__main__":
    main(sys.argv[1:]).show()
