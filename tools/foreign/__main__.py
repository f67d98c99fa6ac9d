"""Runs suites of others in an environment of their own, and writes benchmarks/FOREIGN.md.

`python -m tools.foreign [--only WORD]`. What an index has is installed by name. A suite that none has runs
when an environment variable names its folder, and else is skipped.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tools.files import ROOT
from tools.foreign.counts import Counts, read_counts
from tools.foreign.suites import FRAMEWORKS, SUITES, Suite

PLACE = ROOT / ".foreign"
REPORT = ROOT / "benchmarks/FOREIGN.md"
SUITE_TIMEOUT_S = 480
NODE = "22"
_LICENCE = (
    "import importlib.metadata as m, sys; d = m.metadata(sys.argv[1]);"
    "c = [x.rpartition(' :: ')[2] for x in d.get_all('Classifier', ()) if x.startswith('License')];"
    "print(d['Version'], '|', d.get('License-Expression') or (d.get('License') or '')[:40] or ', '.join(c))"
)
_HEAD = """# Suites of others

Written by `make foreign` ({seconds} s) on {machine}. What an index has is installed by name, in
its newest version that fits; the rest runs when an environment variable names its folder. No code of these
suites is in the repository.

| suite | version | licence | passed | failed | skipped |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Result:
    """A suite with what it found."""

    suite: Suite
    version: str
    licence: str
    counts: Counts | None
    reason: str = ""
    """Why it did not run."""


def python() -> Path:
    """Return the interpreter of the environment, which is made if it is missing or lacks a package."""
    interpreter, ready = PLACE / "venv/bin/python", PLACE / "venv/.ready"
    wanted = "\n".join(FRAMEWORKS)
    if ready.exists() and ready.read_text(encoding="utf-8") == wanted:
        return interpreter
    subprocess.run([sys.executable, "-m", "venv", str(PLACE / "venv")], check=True)
    pip = [str(interpreter), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    pinned = ROOT / "requirements/dev.txt"
    subprocess.run([*pip, "--require-hashes", "-r", str(pinned)], check=True)
    subprocess.run([*pip, *FRAMEWORKS], check=True)
    packages = [
        f"-e{ROOT / 'packages' / name}"
        for name in ("protocol", "harness", "runtime", "server", "sidecar", "cli")
    ]
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", *packages], check=True)
    ready.write_text(wanted, encoding="utf-8")
    return interpreter


def node(name: str) -> tuple[list[str], str, str]:
    """Return the command of an npm package, its version and its licence."""
    system = subprocess.run(
        ["node", "-p", "process.platform + '-' + process.arch"], capture_output=True, text=True, check=True
    ).stdout.strip()
    npm = ["npm", "install", "-s", "--prefix", str(PLACE / "npm"), name, f"node-{system}@{NODE}"]
    subprocess.run(npm, check=True)
    modules = PLACE / "npm/node_modules"
    package = json.loads((modules / name / "package.json").read_text(encoding="utf-8"))
    program = package["bin"] if isinstance(package["bin"], str) else next(iter(package["bin"].values()))
    command = [str(modules / f"node-{system}/bin/node"), str(modules / name / program)]
    return command, package["version"], package["license"]


def facts(suite: Suite, interpreter: Path, folder: str | None) -> tuple[str, str]:
    """Return the version and the licence of a suite that is a distribution or a folder."""
    if suite.folder is not None and folder is not None:
        git = ["git", "-C", folder, "log", "-1", "--format=%h of %cs"]
        commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
        return commit or "a folder", suite.licence
    if suite.package is None:
        return "", suite.licence
    shown = subprocess.run(
        [str(interpreter), "-c", _LICENCE, suite.package], capture_output=True, text=True, check=False
    )
    version, _, licence = shown.stdout.strip().partition(" | ")
    return version, licence


def run(suite: Suite, interpreter: Path) -> Result:
    """Run a suite."""
    folder = None if suite.folder is None else os.environ.get(suite.folder)
    if suite.folder is not None and folder is None:
        reason = f"`{suite.folder}` names no folder: clone github.com/{suite.repository} and name it"
        return Result(suite, "", suite.licence, None, reason)
    extra: list[str] = []
    if suite.npm is None:
        version, licence = facts(suite, interpreter, folder)
    else:
        try:
            extra, version, licence = node(suite.npm)
        except (OSError, subprocess.CalledProcessError) as error:
            return Result(suite, "", "", None, f"`{suite.npm}` cannot be installed: {type(error).__name__}")
    command = [folder or "" if part == "FOLDER" else part for part in suite.command]
    try:
        done = subprocess.run(
            [str(interpreter), *command, *extra],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=SUITE_TIMEOUT_S,
            env={**os.environ, "KILL_EVERY": "1"},
        )
    except subprocess.TimeoutExpired:
        return Result(suite, version, licence, None, f"it was ended after {SUITE_TIMEOUT_S} s")
    counts = read_counts(done.stdout)
    reason = "" if counts is not None else f"it ended without figures: {done.stderr.strip()[-300:]}"
    return Result(suite, version, licence, counts, reason)


def report(results: Iterable[Result], seconds: int) -> str:
    """Return the page with the figures."""
    text = _HEAD.format(
        seconds=seconds, machine=f"{os.cpu_count()} cores, Python {platform.python_version()}"
    )
    remarks: list[str] = []
    for result in results:
        name, counts = result.suite.name, result.counts
        cells = ("–", "–", "–") if counts is None else (counts.passed, counts.failed, counts.skipped)
        text += f"| {name} | {result.version} | {result.licence} | {cells[0]} | {cells[1]} | {cells[2]} |\n"
        lines = [f"Not run: {result.reason}."] if counts is None else [*counts.failures, *counts.notes]
        remarks += [f"\n### {name}\n", *(f"- {line}" for line in lines)] if lines else []
    return text + ("\n## Failures and remarks\n" + "\n".join(remarks) + "\n" if remarks else "")


def main() -> int:
    """Run the suites; return 1 if one has a failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", default="", help="run the suites with this word in their name, and write nothing"
    )
    only = parser.parse_args().only
    began, interpreter, results = time.monotonic(), python(), list[Result]()
    for suite in SUITES:
        if only.casefold() in suite.name.casefold():
            results.append(run(suite, interpreter))
            counts = results[-1].counts
            shown = (
                results[-1].reason if counts is None else f"{counts.passed} passed, {counts.failed} failed"
            )
            print(f"{suite.name}: {shown}", flush=True)
    page = report(results, round(time.monotonic() - began))
    if only:
        print(page)
    else:
        REPORT.write_text(page, encoding="utf-8")
    return int(any(result.counts is not None and result.counts.failed for result in results))


if __name__ == "__main__":
    sys.exit(main())
