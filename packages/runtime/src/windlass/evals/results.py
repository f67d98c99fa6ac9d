"""Results of experiments: kept in the store, summed up, compared, gated, and written as JUnit XML."""

import builtins
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from math import isfinite
from typing import Final, Self, cast
from xml.etree.ElementTree import Element, SubElement, tostring

from windlass.catalog.reading import Page, check_limit
from windlass.engine.clocks import moment
from windlass.errors import Conflict, Rejected, meant, wrong
from windlass.evals.scorers import KINDS, Scorer
from windlass.limits import WRITES_MAX
from windlass.ports.store import Document, Store
from windlass.refusals import contended, missing_port, refused_change, unknown_document
from windlass.runtime.core import CoreRuntime
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
from windlass_protocol.lazy import lazy_pattern

EXPERIMENT: Final = "experiment"
"""The kind of the document of an experiment."""
LISTED: Final = "experiment-listed"
"""The kind of the document that lists an experiment: by its name the newest is the first."""
LOOKED_AT_MAX: Final = 2_000
"""Experiments that one call of `Results.list` looks at."""
ATTEMPT: Final = "experiment-case"
"""The kind of the document of an attempt at a case."""
MEASURES: Final = ("pass_rate", "cost", "cost_total", "duration", "tokens", "steps")
"""What every experiment measures, beside the scores of its scorers."""
MICROS: Final = 1_000_000
_PAGE: Final = 200
_LISTED_FIELDS: Final = ("id", "owner", "agentId", "dataset")
_LISTED_NAME: Final = lazy_pattern(r"[0-9]{13}/[0-9a-f]{24}")
_MS_MAX: Final = 9_999_999_999_999
_GATE: Final = lazy_pattern(r"\s*(.+?)(\.low|\.high)?\s*(>=|<=|==|>|<)\s*(-?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*")


class Results:
    """The experiments of a store."""

    def __init__(self, runtime: CoreRuntime) -> None:
        if runtime.ports.store is None:
            raise missing_port("run journal")
        self._store: Store = runtime.ports.store
        self._runtime = runtime

    async def begin(self, info: EvalExperiment, pin: JsonObject) -> EvalExperiment:
        """Write an experiment, or find it; the time of its first beginning stays.

        Raises:
            Conflict: the id was used for another version of the agent, or for other inputs.
        """
        known = await self._store.document(EXPERIMENT, info.id)
        if known is not None:
            differs = [name for name, value in pin.items() if _object(known.body["pin"]).get(name) != value]
            if differs:
                raise refused_change(
                    f"experiment {info.id} was begun with another {' and '.join(differs)}: "
                    "give this one another experiment_id, or leave it out"
                )
            at = EvalExperiment.model_validate(known.body["experiment"]).at
            info = info.model_copy(update={"at": at})
        # The entry comes first: an experiment that is there is listed.
        listed = {name: value for name, value in _data(info).items() if name in _LISTED_FIELDS}
        await self._put(LISTED, _listed_name(info.id, info.at), listed)
        await self._put(EXPERIMENT, info.id, {"experiment": _data(info), "pin": pin})
        return info

    async def keep(self, found: EvalCase, at: int) -> None:
        """Write an attempt at the case with the number `at`."""
        await self._put(ATTEMPT, _place(found.experiment_id, at, found.repeat), {"case": _data(found)})

    async def end(self, info: EvalExperiment, found: Sequence[EvalCase]) -> "ExperimentResult":
        """Write the sums of an experiment; return its result."""
        ended = {"endedAt": moment(self._runtime.ports.machine.clock).at}
        whole = EvalExperiment.model_validate({**_data(info), **ended, **_sums(found)})
        known = await self._store.document(EXPERIMENT, info.id)
        pin = {} if known is None else _object(known.body["pin"])
        await self._put(EXPERIMENT, info.id, {"experiment": _data(whole), "pin": pin})
        return ExperimentResult(whole, tuple(found))

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
        wanted = {"owner": owner, "agentId": agent_id, "dataset": dataset}
        asked = {name: value for name, value in wanted.items() if value is not None}
        shown: builtins.list[EvalExperiment] = []
        for _ in range(LOOKED_AT_MAX // _PAGE):
            page = await self._store.documents(LISTED, after=after, limit=_PAGE)
            for entry in page:
                after = entry.name
                if all(entry.body.get(name) == value for name, value in asked.items()):
                    shown += await self._listed(entry)
                is_last = entry is page[-1] and len(page) < _PAGE
                if len(shown) == limit:
                    return Page(tuple(shown), None if is_last else after)
            if len(page) < _PAGE:
                return Page(tuple(shown), None)
        return Page(tuple(shown), after)

    async def _listed(self, entry: Document) -> builtins.list[EvalExperiment]:
        """Return the experiment of an entry of the list.

        A process that was killed before it wrote the experiment leaves an entry without one, and the next
        process writes another.
        """
        known = await self._store.document(EXPERIMENT, str(entry.body["id"]))
        if known is None:
            return []
        data = _object(known.body["experiment"])
        is_own = _listed_name(str(data["id"]), str(data["at"])) == entry.name
        return [await self._with_progress(data)] if is_own else []

    async def _with_progress(self, data: JsonObject) -> EvalExperiment:
        info = EvalExperiment.model_validate(data)
        if info.ended_at is not None:
            return info
        kept = (await self.read(info.id)).cases
        return info.model_copy(update={"attempts": len(kept), "passed": sum(one.is_passed for one in kept)})

    async def read(self, experiment_id: str) -> "ExperimentResult":
        """Return the result of an experiment, also of one that has not ended.

        Raises:
            Conflict: it is unknown.
        """
        known = await self._store.document(EXPERIMENT, experiment_id)
        if known is None:
            raise unknown_document("experiment", experiment_id)
        info = EvalExperiment.model_validate(known.body["experiment"])
        found: builtins.list[EvalCase] = []
        prefix, after = _prefix(experiment_id), _prefix(experiment_id)
        while page := await self._store.documents(ATTEMPT, after=after, limit=_PAGE):
            mine = [one for one in page if one.name.startswith(prefix)]
            found += [EvalCase.model_validate(one.body["case"]) for one in mine if _at(one) < info.cases]
            after = page[-1].name
            if len(mine) < len(page):
                break
        return ExperimentResult(info, tuple(one for one in found if one.repeat <= info.repeats))

    async def _put(self, kind: str, name: str, body: JsonObject) -> None:
        await keep_document(self._runtime, kind, name, body)


async def keep_document(runtime: CoreRuntime, kind: str, name: str, body: JsonObject) -> None:
    """Write a document with its secrets masked; an equal one stays as it is.

    Raises:
        Unavailable: other processes change the document all the time.
    """
    store = runtime.ports.store
    assert store is not None, "checked by its callers"
    # A document is as durable as a record, so it must not hold a secret either.
    hidden = await runtime.ports.scribe.masked(body)
    for _ in range(WRITES_MAX):
        known = await store.document(kind, name)
        revision = 1 if known is None else known.revision + 1
        try:
            if known is None or known.body != hidden:
                await store.put_document(Document(kind, name, revision, hidden))
        except Conflict:
            continue
        return
    raise contended(f"{kind} {name}")


def _object(value: object) -> JsonObject:
    return cast(JsonObject, value)


def _data(value: EvalExperiment | EvalCase) -> JsonObject:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


def _prefix(experiment_id: str) -> str:
    return f"{sha256(experiment_id.encode()).hexdigest()[:24]}/"


def _listed_name(experiment_id: str, at: str) -> str:
    """Return the name of the entry of an experiment: the later it began, the earlier the name."""
    return f"{_MS_MAX - ms_of(at):013}/{_prefix(experiment_id)[:-1]}"


def _place(experiment_id: str, at: int, repeat: int) -> str:
    """Return the name of the document of an attempt: in the order of the cases."""
    return f"{_prefix(experiment_id)}{at:06}/{repeat:04}"


def _at(document: Document) -> int:
    return int(document.name.split("/")[1])


# sums


def _by_case(found: Iterable[EvalCase]) -> dict[str, list[EvalCase]]:
    cases: dict[str, list[EvalCase]] = {}
    for one in found:
        cases.setdefault(one.name, []).append(one)
    return cases


def _sums(found: Sequence[EvalCase]) -> JsonObject:
    cases = _by_case(found).values()
    costs = [_costs(one) for one in cases]
    scores: dict[str, list[float]] = {}
    for attempts in cases:
        verdicts = sorted((one.name, one.score) for attempt in attempts for one in attempt.verdicts)
        for name, some in groupby(verdicts, key=lambda one: one[0]):
            values = [value for _, value in some]
            scores.setdefault(name, []).append(sum(values) / len(values))
    sums = {
        "passRate": rate(sum(_share(one) for one in cases), len(cases)),
        "costMicros": None if None in costs else mean([sum(one) / len(one) for one in costs if one]),
        **{
            name: mean([value for one in cases if (value := _mean(one, field)) is not None])
            for name, field in (
                ("durationMs", "duration_ms"),
                ("tokens", "tokens"),
                ("steps", "steps"),
            )
        },
    }
    return {
        "attempts": len(found),
        "passed": sum(one.is_passed for one in found),
        **{name: _estimate(one) for name, one in sums.items() if one is not None},
        "scores": {name: _estimate(one) for name, values in scores.items() if (one := mean(values))},
    }


def _estimate(value: Estimate) -> JsonObject:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


def _share(attempts: Sequence[EvalCase]) -> float:
    return sum(one.is_passed for one in attempts) / len(attempts)


def _mean(attempts: Sequence[EvalCase], field: str) -> float | None:
    known = [value for one in attempts if (value := getattr(one, field)) is not None]
    return sum(known) / len(known) if known else None


def _unknown_measure(name: str, scores: Iterable[str]) -> Rejected:
    known = (*MEASURES, *scores)
    return wrong(f"unknown measure {name!r}; there are {', '.join(known)}{meant([name], known)}")


def _costs(found: Sequence[EvalCase]) -> list[int] | None:
    """Return the cost of each attempt; None if one is not known, since the rest is not the cost of all.

    An attempt without a step used no model and cost nothing.
    """
    costs = [0 if not one.steps and one.cost_micros is None else one.cost_micros for one in found]
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
        found = _GATE.fullmatch(text)
        if found is not None and found[1][-1] in "<>=!":
            found = None
        try:
            limit = float("nan") if found is None else float(found[4])
        except ValueError:
            limit = float("nan")
        if found is None or not isfinite(limit):
            raise wrong(
                f"a gate is a measure, a comparison and a number, such as pass_rate>=0.95 or cost<=0.02; "
                f"found {text!r}"
            )
        return cls(text.strip(), found[1], (found[2] or ".value")[1:], found[3], limit)

    def check_measure(self, scorers: Iterable[Scorer]) -> None:
        """Check the measure before an experiment is paid for.

        Evaluators of pydantic-evals name their scores as they give them: with one, every name may be right.

        Raises:
            Rejected: neither the experiment nor one of the scorers has such a measure.
        """
        names = [getattr(one, "name", None) if isinstance(one, KINDS) else None for one in scorers]
        if self.measure not in (*MEASURES, *names) and None not in names:
            raise _unknown_measure(self.measure, dict.fromkeys(str(one) for one in names))


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
        return tuple(one for one in self.cases if not one.is_passed)

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
                return _scaled(info.cost_micros, MICROS)
            case "cost_total":
                costs = _costs(self.cases)
                return Estimate(value=sum(costs) / MICROS) if costs else None
            case "duration":
                return _scaled(info.duration_ms, 1_000)
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
        one = gate if isinstance(gate, Gate) else Gate.read(gate)
        measure = self.measure(one.measure)
        value: float | None = None if measure is None else getattr(measure, one.bound)
        if value is None:
            return GateResult(one.text, is_met=False, found=None)
        is_met = {
            ">=": value >= one.limit,
            "<=": value <= one.limit,
            ">": value > one.limit,
            "<": value < one.limit,
            "==": value == one.limit,
        }[one.operator]
        return GateResult(one.text, is_met=is_met, found=value)

    def agreement(self, scorer: str, human: Mapping[str, bool | float]) -> Agreement:
        """Compare a scorer with the scores of people, by run id or by case.

        A score of 0.5 or more is a good answer.

        Raises:
            Rejected: no answer has both.
        """
        pairs: list[tuple[str, bool, bool]] = []
        for one in self.cases:
            said = human.get(one.run_id, human.get(one.name))
            verdict = next((each for each in one.verdicts if each.name == scorer), None)
            if said is not None and verdict is not None:
                pairs.append((one.run_id, verdict.is_met, float(said) >= 0.5))
        share = rate(sum(ours == theirs for _, ours, theirs in pairs), len(pairs))
        if share is None:
            raise wrong(f"no answer has a score of {scorer} and one of a person")
        ours = sum(one for _, one, _ in pairs) / len(pairs)
        theirs = sum(one for _, _, one in pairs) / len(pairs)
        chance = ours * theirs + (1 - ours) * (1 - theirs)
        kappa = None if chance == 1 else (share.value - chance) / (1 - chance)
        differing = tuple(run_id for run_id, one, other in pairs if one != other)
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
            pairs=tuple(sorted(pairs, key=lambda one: order.index(one.change))),
            fixed=sum(one.change is EvalChange.FIXED for one in pairs),
            broken=sum(one.change is EvalChange.BROKEN for one in pairs),
            only_old=tuple(name for name in before if name not in after) or None,
            only_new=tuple(name for name in after if name not in before) or None,
        )

    def data(self, gates: Sequence[GateResult] = ()) -> JsonObject:
        """Return the result as JSON."""
        return {
            "experiment": _data(self.experiment),
            "cases": [_data(one) for one in self.cases],
            "gates": [{"gate": one.gate, "isMet": one.is_met, "found": one.found} for one in gates],
        }

    def junit(self, gates: Sequence[GateResult] = ()) -> str:
        """Return the result as JUnit XML: a test for each attempt, and for each gate."""
        info = self.experiment
        suite = Element("testsuite", name=info.id, tests=str(len(self.cases) + len(gates)))
        suite.set("failures", str(len(self.failed) + sum(not one.is_met for one in gates)))
        for one in self.cases:
            name = one.name if info.repeats == 1 else f"{one.name}[{one.repeat}]"
            test = SubElement(suite, "testcase", classname=info.dataset, name=name)
            test.set("time", f"{(one.duration_ms or 0) / 1_000:.3f}")
            if not one.is_passed:
                text = _printable(one.why or one.status.value)
                SubElement(test, "failure", message=text).text = f"run {one.run_id}: {text}"
        for gate in gates:
            test = SubElement(suite, "testcase", classname="gates", name=gate.gate)
            if not gate.is_met:
                found = "it is not known" if gate.found is None else f"found {gate.found:g}"
                SubElement(test, "failure", message=found)
        return tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _scaled(estimate: Estimate | None, by: float) -> Estimate | None:
    if estimate is None:
        return None
    low, high = estimate.low, estimate.high
    return Estimate(
        value=estimate.value / by,
        low=None if low is None else low / by,
        high=None if high is None else high / by,
    )


def _samples(attempts: Sequence[EvalCase]) -> list[Sample]:
    return [Sample(one.is_passed, one.cost_micros, one.duration_ms, one.tokens) for one in attempts]


def _change(before: Sequence[EvalCase], after: Sequence[EvalCase]) -> EvalChange:
    gain = _share(after) - _share(before)
    return EvalChange.FIXED if gain > 0 else EvalChange.BROKEN if gain < 0 else EvalChange.SAME


def _printable(text: str) -> str:
    """Return a text without characters that XML cannot hold."""
    return "".join(one if one.isprintable() or one in "\n\t" else "\ufffd" for one in text)
