# Generated from spec/evals.schema.json by `make gen`. Do not edit.
"""Data sets, experiments and their results.

The types are made on first use; the .pyi file declares them.
"""

from windlass_protocol.lazy import lazy_values as _lazy_values


def _make_EvalVerdict() -> object:
    from windlass_protocol._wire import Bool, Float, Maybe, Open, Str
    from windlass_protocol.generated.common import Id

    class EvalVerdict(Open):
        """What one scorer says about an answer."""

        __qualname__ = "EvalVerdict"

        name: Str
        score: Float
        is_met: Bool
        is_counted: Bool
        why: Maybe[Str] = None
        run_id: Maybe[Id] = None

    return EvalVerdict


def _make_EvalCase() -> object:
    from typing import Annotated

    from pydantic import Field

    from windlass_protocol._wire import Bool, Float, Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id, Positive
    from windlass_protocol.generated.evals import EvalVerdict
    from windlass_protocol.generated.runs import RunStatus

    class EvalCase(Open):
        """One attempt at a case of a data set, with its scores."""

        __qualname__ = "EvalCase"

        experiment_id: Id
        name: Str
        repeat: Positive
        run_id: Id
        session_id: Id
        status: RunStatus
        is_passed: Bool
        score: Annotated[Float, Field(ge=0, le=1)]
        verdicts: tuple[EvalVerdict, ...]
        input: Str
        output: Str
        expected: Maybe[Str] = None
        why: Maybe[Str] = None
        cost_micros: Maybe[Count] = None
        duration_ms: Maybe[Count] = None
        tokens: Maybe[Count] = None
        steps: Maybe[Count] = None
        tags: Maybe[tuple[Str, ...]] = None

    return EvalCase


def _make_EvalTools() -> object:
    from enum import StrEnum

    class EvalTools(StrEnum):
        """How tools answer in an experiment: real, or recorded, from the run that a case was taken from."""

        __qualname__ = "EvalTools"

        REAL = "real"
        RECORDED = "recorded"

    return EvalTools


def _make_EvalExperiment() -> object:
    from windlass_protocol._wire import JsonObject, Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id, Positive, Timestamp
    from windlass_protocol.generated.decisions import Estimate
    from windlass_protocol.generated.evals import EvalTools

    class EvalExperiment(Open):
        """An agent of one version that was run on the cases of a data set of one version."""

        __qualname__ = "EvalExperiment"

        id: Id
        agent_id: Id
        fingerprint: Str
        dataset: Str
        dataset_hash: Str
        scorers: tuple[JsonObject, ...]
        repeats: Positive
        tools: EvalTools
        at: Timestamp
        cases: Count
        attempts: Count
        passed: Count
        model: Maybe[Str] = None
        ended_at: Maybe[Timestamp] = None
        owner: Maybe[Str] = None
        pass_rate: Maybe[Estimate] = None
        cost_micros: Maybe[Estimate] = None
        duration_ms: Maybe[Estimate] = None
        tokens: Maybe[Estimate] = None
        steps: Maybe[Estimate] = None
        scores: Maybe[dict[str, Estimate]] = None

    return EvalExperiment


def _make_EvalChange() -> object:
    from enum import StrEnum

    class EvalChange(StrEnum):
        """A case of two experiments: fixed, broken or the same, by its attempts that pass."""

        __qualname__ = "EvalChange"

        FIXED = "fixed"
        BROKEN = "broken"
        SAME = "same"

    return EvalChange


def _make_EvalPair() -> object:
    from windlass_protocol._wire import Open, Str
    from windlass_protocol.generated.evals import EvalCase, EvalChange

    class EvalPair(Open):
        """A case in two experiments."""

        __qualname__ = "EvalPair"

        name: Str
        change: EvalChange
        old: tuple[EvalCase, ...]
        new: tuple[EvalCase, ...]

    return EvalPair


def _make_EvalComparison() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count
    from windlass_protocol.generated.decisions import VersionComparison
    from windlass_protocol.generated.evals import EvalExperiment, EvalPair

    class EvalComparison(Open):
        """Two experiments, case by case; differences are new less old."""

        __qualname__ = "EvalComparison"

        old: EvalExperiment
        new: EvalExperiment
        comparison: VersionComparison
        pairs: tuple[EvalPair, ...]
        fixed: Count
        broken: Count
        only_old: Maybe[tuple[Str, ...]] = None
        only_new: Maybe[tuple[Str, ...]] = None

    return EvalComparison


def _make_EvalResult() -> object:
    from windlass_protocol._wire import Open
    from windlass_protocol.generated.evals import EvalCase, EvalExperiment

    class EvalResult(Open):
        """An experiment with its attempts, in the order of the cases."""

        __qualname__ = "EvalResult"

        experiment: EvalExperiment
        cases: tuple[EvalCase, ...]

    return EvalResult


def _make_EvalExperimentPage() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.evals import EvalExperiment

    class EvalExperimentPage(Open):
        """Experiments, the newest first."""

        __qualname__ = "EvalExperimentPage"

        experiments: tuple[EvalExperiment, ...]
        next: Maybe[Str] = None

    return EvalExperimentPage


def _make_EvalDataset() -> object:
    from windlass_protocol._wire import JsonObject, Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Timestamp

    class EvalDataset(Open):
        """A data set that the store keeps."""

        __qualname__ = "EvalDataset"

        name: Str
        hash: Str
        cases: Count
        scorers: tuple[JsonObject, ...]
        at: Timestamp
        changed_at: Timestamp
        owner: Maybe[Str] = None

    return EvalDataset


def _make_EvalDatasetPage() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.evals import EvalDataset

    class EvalDatasetPage(Open):
        """Data sets, by name."""

        __qualname__ = "EvalDatasetPage"

        datasets: tuple[EvalDataset, ...]
        next: Maybe[Str] = None

    return EvalDatasetPage


def _make_EvalDatasetCase() -> object:
    from pydantic import JsonValue

    from windlass_protocol._wire import JsonObject, KeepsNulls, Maybe, Open, Str

    class EvalDatasetCase(KeepsNulls, Open):
        """A case of a data set: an input of an agent, and what is expected."""

        __qualname__ = "EvalDatasetCase"

        name: Str
        inputs: JsonValue
        expected: JsonValue = None
        tags: Maybe[tuple[Str, ...]] = None
        metadata: Maybe[JsonObject] = None
        run_id: Maybe[Str] = None
        scorers: Maybe[tuple[JsonObject, ...]] = None

    return EvalDatasetCase


def _make_EvalDatasetView() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.evals import EvalDataset, EvalDatasetCase

    class EvalDatasetView(Open):
        """A data set with a page of its cases."""

        __qualname__ = "EvalDatasetView"

        dataset: EvalDataset
        cases: tuple[EvalDatasetCase, ...]
        next: Maybe[Str] = None

    return EvalDatasetView


__getattr__, __dir__ = _lazy_values(
    globals(),
    {
        "EvalVerdict": _make_EvalVerdict,
        "EvalCase": _make_EvalCase,
        "EvalTools": _make_EvalTools,
        "EvalExperiment": _make_EvalExperiment,
        "EvalChange": _make_EvalChange,
        "EvalPair": _make_EvalPair,
        "EvalComparison": _make_EvalComparison,
        "EvalResult": _make_EvalResult,
        "EvalExperimentPage": _make_EvalExperimentPage,
        "EvalDataset": _make_EvalDataset,
        "EvalDatasetPage": _make_EvalDatasetPage,
        "EvalDatasetCase": _make_EvalDatasetCase,
        "EvalDatasetView": _make_EvalDatasetView,
    },
)
