"""Reports on recorded runs and proposals, as data; see `report_text` for plain text."""

from collections.abc import Sequence
from typing import Final, Literal, cast, get_args

from pydantic_core import from_json, to_json

from windlass.errors import Conflict, near_names
from windlass.ledger.goals import Goal
from windlass.ledger.query import BuilderQuery
from windlass.refusals import bad_request
from windlass_harness.ledger.proposals import ProposalState
from windlass_harness.ledger.reports import (
    ProposalReport,
    Report,
    failures_report,
    goal_report,
    run_report,
    versions_report,
)
from windlass_protocol import ErrorKind, JsonObject, RetryClass
from windlass_protocol.codec_errors import printable

RUNS_MAX: Final = 10_000
"""Runs of a goal that a report counts, the newest first."""

View = Literal["overview", "failures", "versions"]


def report(
    query: BuilderQuery,
    *,
    goal_id: str | Goal | None = None,
    view: View = "overview",
    versions: tuple[str, str] | None = None,
    run_id: str | None = None,
    proposal: ProposalState | None = None,
) -> Report:
    """Return a report: on a goal, on one run, or on a proposal with its check.

    A goal has three views: an overview, its failures, and two versions of the agent compared, the two newest
    if `versions` is left out. `report_text` returns a report as plain text, `report_json` as JSON data.

    Raises:
        Rejected: not exactly one subject is given, or the view is unknown.
        Conflict: the run is unknown.
    """
    if view not in get_args(View):
        views = get_args(View)
        hint = near_names([str(view)], views)
        raise bad_request(f"view is one of {', '.join(views)}, found {printable(str(view), 64)}{hint}")
    if sum(subject is not None for subject in (goal_id, run_id, proposal)) != 1:
        raise bad_request("report takes exactly one of goal_id, run_id and proposal")
    if proposal is not None:
        return ProposalReport(proposal)
    if run_id is not None:
        return _run(query, run_id)
    return _goal(query, goal_id, view=view, versions=versions)


def report_json(report: Report) -> JsonObject:
    """Return a report as plain JSON data."""
    return from_json(to_json(report, by_alias=True))


def _run(query: BuilderQuery, run_id: str) -> Report:
    run = query.get_decision_run(run_id)
    if run is None:
        raise Conflict(
            f"unknown run: {printable(run_id, 128)} is not recorded",
            kind=ErrorKind.INVALID_STATE_TRANSITION,
            retry=RetryClass.NOT_RETRYABLE,
        )
    return run_report(run)


def _goal(
    query: BuilderQuery, goal: str | Goal | None, *, view: View, versions: tuple[str, str] | None
) -> Report:
    name, description = (goal.goal_id, goal.description) if isinstance(goal, Goal) else (str(goal), "")
    facts = query.get_facts(name, RUNS_MAX)
    match view:
        case "overview":
            return goal_report(name, facts, description=description)
        case "failures":
            return failures_report(name, facts)
        case "versions":
            fingerprints = list(
                dict.fromkeys(run.fingerprint for run in facts if run.fingerprint is not None)
            )
            if versions is None and len(fingerprints) < 2:
                count = "one version" if fingerprints else "no version"
                raise bad_request(
                    f"a comparison needs runs of two versions: goal {name} has runs of {count}. Runs of an "
                    "AgentRuntime have the version of their agent; runs of the recorder have none"
                )
            old, new = (
                _resolve_versions(versions, fingerprints)
                if versions is not None
                else (fingerprints[1], fingerprints[0])
            )
            return versions_report(name, facts, old=old, new=new)


def _resolve_versions(versions: object, fingerprints: Sequence[str]) -> tuple[str, str]:
    """Return the two versions to compare; each is a fingerprint, or the beginning of one."""
    if not isinstance(versions, tuple | list) or len(cast(Sequence[object], versions)) != _COMPARED:
        raise bad_request("versions must be two fingerprints, (old, new)")
    matches: list[str] = []
    for prefix in cast(Sequence[object], versions):
        digits = str(prefix).removeprefix(_DIGEST)
        fits = [version for version in fingerprints if version.removeprefix(_DIGEST).startswith(digits)]
        if not digits or len(fits) != 1:
            names = ", ".join(version.removeprefix(_DIGEST)[:_SHOWN] for version in fingerprints) or "none"
            raise bad_request(
                f"version {prefix!r} is not one of the goal; give the fingerprint of a package: {names}"
            )
        matches += fits
    return matches[0], matches[1]


_COMPARED: Final = 2
_DIGEST: Final = "sha256:"
_SHOWN: Final = 12
"""Digits of a fingerprint that reports show."""
