# Generated from spec/evals.schema.json by `make gen`. Do not edit.
"""Data sets, experiments and their results."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, JsonValue

from windlass_protocol._wire import Bool, Float, JsonObject, KeepsNulls, Maybe, Open, Str
from windlass_protocol.generated.common import Count, Id, Positive, Timestamp
from windlass_protocol.generated.decisions import Estimate, VersionComparison
from windlass_protocol.generated.runs import RunStatus

class EvalVerdict(Open):
    """What one scorer says about an answer."""

    name: Str
    """The scorer."""
    score: Float
    """From 0 to 1 if it counts; any number otherwise."""
    is_met: Bool
    """Whether the scorer is satisfied."""
    is_counted: Bool
    """Whether it decides if the case passes; a mere measure or label does not."""
    why: Maybe[Str] = None
    """The reason, if it gave one."""
    run_id: Maybe[Id] = None
    """The run of the model that judged."""

class EvalCase(Open):
    """One attempt at a case of a data set, with its scores."""

    experiment_id: Id
    """The experiment."""
    name: Str
    """The case."""
    repeat: Positive
    """The number of the attempt, from 1."""
    run_id: Id
    """The run; the last one of a conversation."""
    session_id: Id
    """Its session."""
    status: RunStatus
    """How the run ended."""
    is_passed: Bool
    """Whether every scorer that counts is satisfied."""
    score: Annotated[Float, Field(ge=0, le=1)]
    """The weighted mean of the scorers that count, from 0 to 1."""
    verdicts: tuple[EvalVerdict, ...]
    """What each scorer says."""
    input: Str
    """The message, or the conversation, cut to 2,000 characters."""
    output: Str
    """The answer, cut to 2,000 characters."""
    expected: Maybe[Str] = None
    """The expected answer, as text, cut to 2,000 characters; absent if there is none."""
    why: Maybe[Str] = None
    """Why it did not pass."""
    cost_micros: Maybe[Count] = None
    """Cost, in millionths of a dollar; absent if unknown."""
    duration_ms: Maybe[Count] = None
    """Time from start to end."""
    tokens: Maybe[Count] = None
    """Tokens of its model calls."""
    steps: Maybe[Count] = None
    """Its model calls."""
    tags: Maybe[tuple[Str, ...]] = None
    """Tags of the case."""

class EvalTools(StrEnum):
    """How tools answer in an experiment: real, or recorded, from the run that a case was taken from."""

    REAL = "real"
    RECORDED = "recorded"

class EvalExperiment(Open):
    """An agent of one version that was run on the cases of a data set of one version."""

    id: Id
    """Its id; the ids of its runs begin with it."""
    agent_id: Id
    """The agent."""
    fingerprint: Str
    """The version of the agent."""
    dataset: Str
    """The name of the data set."""
    dataset_hash: Str
    """The version of the data set."""
    scorers: tuple[JsonObject, ...]
    """The scorers of every case."""
    repeats: Positive
    """Attempts at each case."""
    tools: EvalTools
    """How tools answer."""
    at: Timestamp
    """When it was begun."""
    cases: Count
    """Cases of the data set."""
    attempts: Count
    """Attempts that were scored."""
    passed: Count
    """Attempts that passed."""
    model: Maybe[Str] = None
    """The model of the agent."""
    ended_at: Maybe[Timestamp] = None
    """When its last attempt was scored; absent if it has not ended."""
    owner: Maybe[Str] = None
    """The user that it belongs to; absent if a program began it."""
    pass_rate: Maybe[Estimate] = None
    """Share of cases that pass, each with the mean of its attempts."""
    cost_micros: Maybe[Estimate] = None
    """Mean cost of a case, in millionths of a dollar."""
    duration_ms: Maybe[Estimate] = None
    """Mean duration of a case."""
    tokens: Maybe[Estimate] = None
    """Mean number of tokens of a case."""
    steps: Maybe[Estimate] = None
    """Mean number of model calls of a case."""
    scores: Maybe[dict[str, Estimate]] = None
    """Mean score by scorer."""

class EvalChange(StrEnum):
    """A case of two experiments: fixed, broken or the same, by its attempts that pass."""

    FIXED = "fixed"
    BROKEN = "broken"
    SAME = "same"

class EvalPair(Open):
    """A case in two experiments."""

    name: Str
    """The case."""
    change: EvalChange
    """Whether more attempts pass."""
    old: tuple[EvalCase, ...]
    """Its attempts in the old experiment."""
    new: tuple[EvalCase, ...]
    """Its attempts in the new one."""

class EvalComparison(Open):
    """Two experiments, case by case; differences are new less old."""

    old: EvalExperiment
    """The old experiment."""
    new: EvalExperiment
    """The new experiment."""
    comparison: VersionComparison
    """What the cases of both say, in pairs."""
    pairs: tuple[EvalPair, ...]
    """The cases of both: broken ones first, then fixed ones."""
    fixed: Count
    """Cases of which more attempts pass."""
    broken: Count
    """Cases of which fewer attempts pass."""
    only_old: Maybe[tuple[Str, ...]] = None
    """Cases of the old experiment alone."""
    only_new: Maybe[tuple[Str, ...]] = None
    """Cases of the new experiment alone."""

class EvalResult(Open):
    """An experiment with its attempts, in the order of the cases."""

    experiment: EvalExperiment
    """The experiment."""
    cases: tuple[EvalCase, ...]
    """Its attempts that were scored."""

class EvalExperimentPage(Open):
    """Experiments, the newest first."""

    experiments: tuple[EvalExperiment, ...]
    """The experiments."""
    next: Maybe[Str] = None
    """Argument `after` of the next page; absent on the last one."""

class EvalDataset(Open):
    """A data set that the store keeps."""

    name: Str
    """Its name."""
    hash: Str
    """The version of its contents; a data set with equal cases and scorers has an equal one."""
    cases: Count
    """The number of its cases."""
    scorers: tuple[JsonObject, ...]
    """The scorers of every case."""
    at: Timestamp
    """When it was made."""
    changed_at: Timestamp
    """When it was last changed."""
    owner: Maybe[Str] = None
    """The user that it belongs to; absent if a program made it."""

class EvalDatasetPage(Open):
    """Data sets, by name."""

    datasets: tuple[EvalDataset, ...]
    """The data sets."""
    next: Maybe[Str] = None
    """Argument `after` of the next page; absent on the last one."""

class EvalDatasetCase(KeepsNulls, Open):
    """A case of a data set: an input of an agent, and what is expected."""

    name: Str
    """Its name."""
    inputs: JsonValue
    """The message, data that is sent as JSON, or an object with `conversation`: several messages."""
    expected: JsonValue = None
    """The expected answer; absent if there is none."""
    tags: Maybe[tuple[Str, ...]] = None
    """Its tags."""
    metadata: Maybe[JsonObject] = None
    """Further facts."""
    run_id: Maybe[Str] = None
    """The recorded run that it was taken from."""
    scorers: Maybe[tuple[JsonObject, ...]] = None
    """Scorers of this case alone."""

class EvalDatasetView(Open):
    """A data set with a page of its cases."""

    dataset: EvalDataset
    """The data set."""
    cases: tuple[EvalDatasetCase, ...]
    """Cases, in their order."""
    next: Maybe[Str] = None
    """Argument `after` of the next page; absent on the last one."""
