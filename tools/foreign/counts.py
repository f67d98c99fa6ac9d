"""What a suite found: its last line of output is this as JSON."""

import json
from dataclasses import asdict, dataclass, field


@dataclass
class Counts:
    """Cases of a suite that passed, failed and were skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list[str])
    """A sentence for each failure."""
    notes: list[str] = field(default_factory=list[str])
    """What a reader of the figures has to know."""

    def check(self, name: str, problem: str | None) -> None:
        """Count a case that passed if it has no problem."""
        if problem is None:
            self.passed += 1
        else:
            self.failed += 1
            self.failures.append(f"{name}: {problem}")

    def show(self) -> None:
        """Print the counts for the runner."""
        print(json.dumps(asdict(self)))


def read_counts(output: str) -> Counts | None:
    """Return the counts in the last line of the output of a suite; None if it has none."""
    try:
        return Counts(**json.loads(output.strip().splitlines()[-1]))
    except (ValueError, TypeError, IndexError):
        return None
