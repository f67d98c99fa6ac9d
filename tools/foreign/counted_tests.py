"""Runs pytest with the given arguments, and prints the counts of its tests."""

import sys

import pytest

from tools.foreign.counts import Counts


class Counter:
    """A plugin of pytest that counts tests, not their phases."""

    def __init__(self) -> None:
        self.counts = Counts()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count the call of a test, or a phase of it that did not pass."""
        if report.passed and report.when == "call":
            self.counts.passed += 1
        elif report.skipped:
            self.counts.skipped += 1
        elif report.failed:
            reason = str(report.longrepr).strip().splitlines()[-1:] or [""]
            self.counts.check(report.nodeid, reason[0])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count a file that cannot be read, or that is skipped as a whole."""
        if report.skipped:
            self.counts.skipped += 1
        elif report.failed:
            self.counts.check(report.nodeid, "it cannot be imported")


if __name__ == "__main__":
    counter = Counter()
    pytest.main(sys.argv[1:], plugins=[counter])
    counter.counts.show()
