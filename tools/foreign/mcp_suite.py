"""MCP conformance: the core scenarios for clients, each against the client of Windlass."""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.foreign.counts import Counts

TIMEOUT_S = 120


def main(command: list[str]) -> Counts:
    """Run the suite with its command; the checks of a scenario are cases."""
    counts = Counts()
    client = f"{sys.executable} -m tools.foreign.mcp_client"
    with TemporaryDirectory() as place:
        listed = subprocess.run(
            [*command, "list", "--client"], capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )
        subprocess.run(
            [*command, "client", "--command", client, "--suite", "core", "--output-dir", place],
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S * 4,
        )
        for path in sorted(Path(place).rglob("checks.json")):
            scenario = path.parent.name
            for check in json.loads(path.read_text(encoding="utf-8")):
                status = check["status"]
                if status in ("SUCCESS", "INFO"):
                    counts.passed += status == "SUCCESS"
                elif status == "SKIPPED":
                    counts.skipped += 1
                else:
                    counts.check(
                        f"{scenario} {check['id']}", str(check.get("errorMessage") or check["description"])
                    )
    if not counts.passed and not counts.failed:
        counts.check("client", f"the suite did not run: {listed.stderr[-300:]}")
    return counts


if __name__ == "__main__":
    main(sys.argv[1:]).show()
