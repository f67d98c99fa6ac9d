"""Results of experiments: kept in the store, summed up, compared, gated, and written as JUnit XML."""

import builtins
import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from math import isfinite
from typing import Final, Self, cast
from xml.etree.ElementTree import Element, SubElement, tostring

from windlass.catalog.reading import Page, check_limit
from windlass.engine.clocks import moment
from windlass.errors import Conflict, Rejected, near_names, wrong
from windlass.evals.scorers import KINDS, Scorer
from windlass.limits import WRITES_MAX
from windlass.ports.documents import Document
from windlass.ports.store import Store
from windlass.refusals import change_conflict, missing_port, too_many_writers, unknown_document
from windlass.runtime.compose import AgentRuntime
from windlass_harness.ledger.versions import Sample, compare_attempts, mean, rate
from windlass_harness.times import ms_of
from windlass_protocol import (
    Estimate,
    EvalCase,
    EvalChange,
    EvalComparison,
    EvalExperiment,
    EvalPair,
    JsonObject,
)
from windlass_protocol.frozen import sealed

EXPERIMENT: Final = "experiment"
"""The kind of the document of an experiment."""
LISTED: Final = "experiment-listed"
"""The kind of the document that lists an experiment: by its name the newest is the first."""
LOOKED_AT_MAX: Final = 2_000
"""Experiments that one call of `Results.list` looks at."""
ATTEMPT: Final = "experiment-case"
"""The kind of the document of an attempt at a case."""
COSTS: Final = ("cost", "cost_total")
MEASURES: Final = ("pass_rate", "cost", "cost_total", "duration", "tokens", "steps")
"""The measures of every experiment, beside the scores of its scorers."""
MICROS: Final = 1_000_000
_PAGE: Final = 200
_LISTED_FIELDS: Final = ("id", "owner", "agentId", "dataset")
_LISTED_NAME: Final = re.compile(r"[0-9]{13}/[0-9a-f]{24}")
_MS_MAX: Final = 9_999_999_999_999
_GATE: Final = re.compile(r"\s*(.+?)(\.low|\.high)?\s*(>=|<=|==|>|<)\s*(-?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*")


class Results:
    """The experiments of a store."""

    def __init__(self, runtime: AgentRuntime) -> None:
        if runtime.core.ports.store is None:
            raise missing_port("run journal")
        self._store: Store = runtime.core.ports.store
        self._runtime = runtime

    async def begin(self, info: EvalExperiment, pin: JsonObject) -> EvalExperiment:
        """Write an experiment, or find it; the time of its first beginning stays.

        Raises:
            Conflict: the id was used for another version of the agent, or for other inputs.
        """
        document = await self._store.document(EXPERIMENT, info.id)
        if document is not None:
            differs = [
                name for name, value in pin.items() if _object(document.body["pin"]).get(name) != value
            ]
            if differs:
                raise change_conflict(
                    f"experiment {info.id} was begun with another {' and '.join(differs)}: "
                    "give this one another experiment_id, or leave it out"
                )
            at = EvalExperiment.model_validate(document.body["experiment"]).at
            info = info.model_copy(update={"at": at})
        # The entry comes first: an experiment that is there is listed.
        listed = {name: value for name, value in _data(info).items() if name in _LISTED_FIELDS}
        await self._put(LISTED, _entry_name(info.id, info.at), listed)
        await self._put(EXPERIMENT, info.id, {"experiment": _data(info), "pin": pin})
        return info

    async def keep(self, case: EvalCase, at: int) -> None:
        """Write an attempt at the case with the number `at`."""
        await self._put(ATTEMPT, _document_name(case.experiment_id, at, case.repeat), {"case": _data(case)})

    async def end(self, info: EvalExperiment, cases: Sequence[EvalCase]) -> "ExperimentResult":
        """Write the sums of an experiment; return its result."""
        ended = {"endedAt": moment(self._runtime.core.ports.machine.clock).at}
        whole = EvalExperiment.model_validate({**_data(info), **ended, **_sums(cases)})
        document = await self._store.document(EXPERIMENT, info.id)
        pin = {} if document is None else _object(document.body["pin"])
        await self._put(EXPERIMENT, info.id, {"experiment": _data(whole), "pin": pin})
        return ExperimentResult(whole, tuple(cases))

    async def list(
        self,
        *,
        owner: str | None = None,
        agent_id: str | None = None,
        dataset: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[EvalExperiment]:
        """Return a page of experiments, the newest first; those of an owner, an agent or a data set alone.

        `after` is the `next` of the page before. A call looks at `LOOKED_AT_MAX` experiments at most, so a
        page of few that fit may be short, or empty, and still have a `next`. One that has not ended tells how
        many attempts were scored, and how many of them passed.

        Raises:
            Rejected: `after` is not the `next` of a page.
        """
        check_limit(limit)
        if after is not None and not _LISTED_NAME.fullmatch(after):
            raise wrong("after is not the next of a page of experiments: leave it out for the first page")
        filters = {"owner": owner, "agentId": agent_id, "dataset": dataset}
        fields = {name: value for name, value in filters.items() if value is not None}
        experiments: builtins.list[EvalExperiment] = []
        for _ in range(LOOKED_AT_MAX // _PAGE):
            page = await self._store.documents(LISTED, after=after, limit=_PAGE)
            for entry in page:
                after = entry.name
                if all(entry.body.get(name) == value for name, value in fields.items()):
                    experiments += await self._read_entry(entry)
                is_last = entry is page[-1] and len(page) < _PAGE
                if len(experiments) == limit:
                    return Page(tuple(experiments), None if is_last else after)
            if len(page) < _PAGE:
                return Page(tuple(experiments), None)
        return Page(tuple(experiments), after)

    async def _read_entry(self, entry: Document) -> builtins.list[EvalExperiment]:
        """Return the experiment of an entry of the list.

        A process that was killed before it wrote the experiment leaves an entry without one, and the next
        process writes another.
        """
        document = await self._store.document(EXPERIMENT, str(entry.body["id"]))
        if document is None:
            return []
        data = _object(document.body["experiment"])
        is_own = _entry_name(str(data["id"]), str(data["at"])) == entry.name
        return [await self._with_progress(data)] if is_own else []

    async def _with_progress(self, data: JsonObject) -> EvalExperiment:
        info = EvalExperiment.model_validate(data)
        if info.ended_at is not None:
            return info
        cases = (await self.read(info.id)).cases
        return info.model_copy(
            update={"attempts": len(cases), "passed": sum(case.is_passed for case in cases)}
        )

    async def read(self, experiment_id: str) -> "ExperimentResult":
        """Return the result of an experiment, also of one that has not ended.

        Raises:
            Conflict: it is unknown.
        """
        document = await self._store.document(EXPERIMENT, experiment_id)
        if document is None:
            raise unknown_document("experiment", experiment_id)
        info = EvalExperiment.model_validate(document.body["experiment"])
        cases: builtins.list[EvalCase] = []
        prefix, after = _prefix(experiment_id), _prefix(experiment_id)
        while page := await self._store.documents(ATTEMPT, after=after, limit=_PAGE):
            mine = [attempt for attempt in page if attempt.name.startswith(prefix)]
            cases += [
                EvalCase.model_validate(attempt.body["case"]) for attempt in mine if _at(attempt) < info.cases
            ]
            after = page[-1].name
            if len(mine) < len(page):
                break
        return ExperimentResult(info, tuple(case for case in cases if case.repeat <= info.repeats))

    async def _put(self, kind: str, name: str, body: JsonObject) -> None:
        await keep_document(self._runtime, kind, name, body)


async def keep_document(runtime: AgentRuntime, kind: str, name: str, body: JsonObject) -> None:
    """Write a document with its secrets masked; an equal one stays as it is.

    Raises:
        Unavailable: other processes change the document all the time.
    """
    store = runtime.core.ports.store
    assert store is not None, "checked by its callers"
    # A document is as durable as a record, so it must not hold a secret either.
    hidden = await runtime.core.ports.scribe.mask_body(body)
    for _ in range(WRITES_MAX):
        document = await store.document(kind, name)
        revision = 1 if document is None else document.revision + 1
        try:
            if document is None or document.body != hidden:
                await store.put_document(Document(kind, name, revision, hidden))
        except Conflict:
            continue
        return
    raise too_many_writers(f"{kind} {name}")


def _object(value: object) -> JsonObject:
    return cast(JsonObject, value)


def _data(value: EvalExperiment | EvalCase) -> JsonObject:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


def _prefix(experiment_id: str) -> str:
    return f"{sha256(experiment_id.encode()).hexdigest()[:24]}/"


def _entry_name(experiment_id: str, at: str) -> str:
    """Return the name of the entry of an experiment: the later it began, the earlier the name."""
    return f"{_MS_MAX - ms_of(at):013}/{_prefix(experiment_id)[:-1]}"


def _document_name(experiment_id: str, at: int, repeat: int) -> str:
    """Return the name of the document of an attempt: in the order of the cases."""
    return f"{_prefix(experiment_id)}{at:06}/{repeat:04}"


def _at(document: Document) -> int:
    return int(document.name.split("/")[1])


# sums


def _by_case(attempts: Iterable[EvalCase]) -> dict[str, list[EvalCase]]:
    cases: dict[str, list[EvalCase]] = {}
    for attempt in attempts:
        cases.setdefault(attempt.name, []).append(attempt)
    return cases


def _sums(attempts: Sequence[EvalCase]) -> JsonObject:
    groups = _by_case(attempts).values()
    costs = [_costs(group) for group in groups]
    scores: dict[str, list[float]] = {}
    for group in groups:
        verdicts = sorted((verdict.name, verdict.score) for attempt in group for verdict in attempt.verdicts)
        for name, pairs in groupby(verdicts, key=lambda pair: pair[0]):
            values = [value for _, value in pairs]
            scores.setdefault(name, []).append(sum(values) / len(values))
    mean_costs = [sum(group_costs) / len(group_costs) for group_costs in costs if group_costs]
    sums = {
        "passRate": rate(sum(_share(group) for group in groups), len(groups)),
        "costMicros": None if None in costs else mean(mean_costs),
        **{
            name: mean([value for group in groups if (value := _mean(group, field)) is not None])
            for name, field in (
                ("durationMs", "duration_ms"),
                ("tokens", "tokens"),
                ("steps", "steps"),
            )
        },
    }
    return {
        "attempts": len(attempts),
        "passed": sum(attempt.is_passed for attempt in attempts),
        **{name: _estimate(estimate) for name, estimate in sums.items() if estimate is not None},
        "scores": {
            name: _estimate(estimate) for name, values in scores.items() if (estimate := mean(values))
        },
    }


def _estimate(value: Estimate) -> JsonObject:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


def _share(attempts: Sequence[EvalCase]) -> float:
    return sum(attempt.is_passed for attempt in attempts) / len(attempts)


def _mean(attempts: Sequence[EvalCase], field: str) -> float | None:
    values = [value for attempt in attempts if (value := getattr(attempt, field)) is not None]
    return sum(values) / len(values) if values else None


def _unknown_measure(name: str, scores: Iterable[str]) -> Rejected:
    measures = (*MEASURES, *scores)
    return wrong(f"unknown measure {name!r}; there are {', '.join(measures)}{near_names([name], measures)}")


def _costs(attempts: Sequence[EvalCase]) -> list[int] | None:
    """Return the cost of each attempt; None if one is not known, since the rest is not the cost of all.

    An attempt without a step used no model and cost nothing.
    """
    costs = [
        0 if not attempt.steps and attempt.cost_micros is None else attempt.cost_micros
        for attempt in attempts
    ]
    return None if None in costs else cast("list[int]", costs)


@sealed
class Gate:
    """A condition that a result must meet, such as `pass_rate>=0.95`."""

    text: str
    measure: str
    bound: str
    """The part of the estimate that counts: `value`, `low` or `high`."""
    operator: str
    limit: float

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the gate of a text.

        Raises:
            Rejected: it is not a gate.
        """
        match = _GATE.fullmatch(text)
        if match is not None and match[1][-1] in "<>=!":
            match = None
        try:
            limit = float("nan") if match is None else float(match[4])
        except ValueError:
            limit = float("nan")
        if match is None or not isfinite(limit):
            raise wrong(
                f"a gate is a measure, a comparison and a number, such as pass_rate>=0.95 or cost<=0.02; "
                f"found {text!r}"
            )
        return cls(text.strip(), match[1], (match[2] or ".value")[1:], match[3], limit)

    def check_measure(self, scorers: Iterable[Scorer]) -> None:
        """Check the measure before an experiment is paid for.

        Evaluators of pydantic-evals name their scores as they give them: with one, every name may be right.

        Raises:
            Rejected: neither the experiment nor one of the scorers has such a measure.
        """
        names = [getattr(scorer, "name", None) if isinstance(scorer, KINDS) else None for scorer in scorers]
        if self.measure not in (*MEASURES, *names) and None not in names:
            raise _unknown_measure(self.measure, dict.fromkeys(str(score_name) for score_name in names))


@sealed
class GateResult:
    """Whether a result meets a gate."""

    gate: str
    is_met: bool
    found: float | None
    """The measure; None if it is not known, and then the gate is not met."""


@sealed
class Agreement:
    """How often a scorer agrees with people about whether an answer is good."""

    scorer: str
    share: Estimate
    """The share of answers about which both agree, with its interval."""
    kappa: float | None
    """Cohen's kappa: 1 is full agreement, 0 is that of chance; None if all answers are rated alike."""
    answers: int
    differing: tuple[str, ...]
    """The runs about which they differ."""


@sealed
class ExperimentResult:
    """An experiment and its attempts, in the order of the cases."""

    experiment: EvalExperiment
    cases: tuple[EvalCase, ...]

    @property
    def failed(self) -> tuple[EvalCase, ...]:
        """The attempts that did not pass."""
        return tuple(case for case in self.cases if not case.is_passed)

    def measure(self, name: str) -> Estimate | None:
        """Return a measure: `pass_rate`, `cost` and `cost_total` in dollars, `duration` in seconds, `tokens`,
        `steps`, or the mean score of a scorer; None if it is not known.

        Raises:
            Rejected: there is no such measure.
        """
        info = self.experiment
        match name:
            case "pass_rate":
                return info.pass_rate
            case "cost":
                return _scale(info.cost_micros, MICROS)
            case "cost_total":
                costs = _costs(self.cases)
                return Estimate(value=sum(costs) / MICROS) if costs else None
            case "duration":
                return _scale(info.duration_ms, 1_000)
            case "tokens":
                return info.tokens
            case "steps":
                return info.steps
            case _:
                scores = info.scores or {}
                if name not in scores:
                    raise _unknown_measure(name, scores)
                return scores[name]

    def check(self, gate: Gate | str) -> GateResult:
        """Return whether the result meets a gate.

        Raises:
            Rejected: it is not a gate, or there is no such measure.
        """
        condition = gate if isinstance(gate, Gate) else Gate.read(gate)
        measure = self.measure(condition.measure)
        value: float | None = None if measure is None else getattr(measure, condition.bound)
        if value is None:
            return GateResult(condition.text, is_met=False, found=None)
        is_met = {
            ">=": value >= condition.limit,
            "<=": value <= condition.limit,
            ">": value > condition.limit,
            "<": value < condition.limit,
            "==": value == condition.limit,
        }[condition.operator]
        return GateResult(condition.text, is_met=is_met, found=value)

    def agreement(self, scorer: str, human: Mapping[str, bool | float]) -> Agreement:
        """Compare a scorer with the scores of people, by run id or by case.

        A score of 0.5 or more is a good answer.

        Raises:
            Rejected: no answer has both.
        """
        pairs: list[tuple[str, bool, bool]] = []
        for case in self.cases:
            rating = human.get(case.run_id, human.get(case.name))
            verdict = next((candidate for candidate in case.verdicts if candidate.name == scorer), None)
            if rating is not None and verdict is not None:
                pairs.append((case.run_id, verdict.is_met, float(rating) >= 0.5))
        share = rate(sum(ours == theirs for _, ours, theirs in pairs), len(pairs))
        if share is None:
            raise wrong(f"no answer has a score of {scorer} and one of a person")
        ours = sum(is_met for _, is_met, _ in pairs) / len(pairs)
        theirs = sum(is_good for _, _, is_good in pairs) / len(pairs)
        chance = ours * theirs + (1 - ours) * (1 - theirs)
        kappa = None if chance == 1 else (share.value - chance) / (1 - chance)
        differing = tuple(run_id for run_id, is_met, is_good in pairs if is_met != is_good)
        return Agreement(scorer, share, kappa, len(pairs), differing)

    def compare(self, old: "ExperimentResult") -> EvalComparison:
        """Compare this result with an older one, on the cases of both, in pairs."""
        before, after = _by_case(old.cases), _by_case(self.cases)
        names = [name for name in after if name in before]
        pairs = [
            EvalPair(
                name=name,
                change=_change(before[name], after[name]),
                old=tuple(before[name]),
                new=tuple(after[name]),
            )
            for name in names
        ]
        order = (EvalChange.BROKEN, EvalChange.FIXED, EvalChange.SAME)
        return EvalComparison(
            old=old.experiment,
            new=self.experiment,
            comparison=compare_attempts(
                (old.experiment.fingerprint, [_samples(before[name]) for name in names]),
                (self.experiment.fingerprint, [_samples(after[name]) for name in names]),
            ),
            pairs=tuple(sorted(pairs, key=lambda pair: order.index(pair.change))),
            fixed=sum(pair.change is EvalChange.FIXED for pair in pairs),
            broken=sum(pair.change is EvalChange.BROKEN for pair in pairs),
            only_old=tuple(name for name in before if name not in after) or None,
            only_new=tuple(name for name in after if name not in before) or None,
        )

    def data(self, gates: Sequence[GateResult] = ()) -> JsonObject:
        """Return the result as JSON."""
        return {
            "experiment": _data(self.experiment),
            "cases": [_data(case) for case in self.cases],
            "gates": [{"gate": gate.gate, "isMet": gate.is_met, "found": gate.found} for gate in gates],
        }

    def junit(self, gates: Sequence[GateResult] = ()) -> str:
        """Return the result as JUnit XML: a test for each attempt, and for each gate."""
        info = self.experiment
        suite = Element("testsuite", name=info.id, tests=str(len(self.cases) + len(gates)))
        suite.set("failures", str(len(self.failed) + sum(not gate.is_met for gate in gates)))
        for case in self.cases:
            name = case.name if info.repeats == 1 else f"{case.name}[{case.repeat}]"
            test = SubElement(suite, "testcase", classname=info.dataset, name=name)
            test.set("time", f"{(case.duration_ms or 0) / 1_000:.3f}")
            if not case.is_passed:
                text = _printable(case.why or case.status.value)
                SubElement(test, "failure", message=text).text = f"run {case.run_id}: {text}"
        for gate in gates:
            test = SubElement(suite, "testcase", classname="gates", name=gate.gate)
            if not gate.is_met:
                message = "it is not known" if gate.found is None else f"found {gate.found:g}"
                SubElement(test, "failure", message=message)
        return tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _scale(estimate: Estimate | None, by: float) -> Estimate | None:
    if estimate is None:
        return None
    low, high = estimate.low, estimate.high
    return Estimate(
        value=estimate.value / by,
        low=None if low is None else low / by,
        high=None if high is None else high / by,
    )


def _samples(attempts: Sequence[EvalCase]) -> list[Sample]:
    return [
        Sample(attempt.is_passed, attempt.cost_micros, attempt.duration_ms, attempt.tokens)
        for attempt in attempts
    ]


def _change(before: Sequence[EvalCase], after: Sequence[EvalCase]) -> EvalChange:
    gain = _share(after) - _share(before)
    return EvalChange.FIXED if gain > 0 else EvalChange.BROKEN if gain < 0 else EvalChange.SAME


def _printable(text: str) -> str:
    """Return a text without characters that XML cannot hold."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)
