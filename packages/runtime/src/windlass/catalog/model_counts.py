"""Counts of runs by the models that answered: from the index, and from records where several models could.

A run of a version with one model needs no records. A run that has fallback models, another model for
summaries, or subagents counts for each model that it called, with what that model used.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from typing import Final

from windlass.agent.agent import WORKFLOW_ROUTE
from windlass.agent.package import compaction_route, fallback_routes, package_of
from windlass.catalog.reading import pages_of
from windlass.errors import Rejected
from windlass.ports.listing import CountFilter, RunCell, RunCounts, RunFilter, RunInfo, RunOrder, place_of_run
from windlass.ports.store import ContentStore, Store
from windlass_harness.record import Record
from windlass_harness.times import elapsed_ms
from windlass_harness.views.costs import ChildRun, RunCosts, fold_session_costs
from windlass_harness.views.payloads import model_name
from windlass_harness.views.runs import RUN_ENDS
from windlass_harness.views.usage import NO_USAGE, add_usage
from windlass_protocol import RunStatus, Usage
from windlass_protocol.frozen import frozen

RUNS_READ_MAX: Final = 10_000
"""The newest runs with several models of which the records are read for one answer."""
RUNS_KEPT_MAX: Final = 10_000
"""Ended runs of which the usage by model is kept in memory."""
UNKNOWN_VERSION: Final = "unknown"
"""The model of a version that is no longer stored."""
PAGE: Final = 200
"""Runs that are read from the index at once."""
_ENDED: Final = frozenset(RUN_ENDS.values())


@frozen
class _Called:
    """What the models of a run used, and the runs of its subagents."""

    models: Mapping[str, Usage]
    children: tuple[ChildRun, ...]


class ModelCounts:
    """Counts the runs of a store by model."""

    def __init__(self, store: Store, content: ContentStore) -> None:
        self._store = store
        self._content = content
        self._used: OrderedDict[str, Mapping[str, Usage]] = OrderedDict()
        """What the models of ended runs used, by run: it does not change any more."""

    async def count(self, query: CountFilter) -> RunCounts:
        """Return counts in which the groups are models by their names, `provider/model`.

        Durations are those of models that answer for one version alone: percentiles do not add up.
        """
        counts = await self._store.run_counts(replace(query, split="version"))
        versions = {cell.group for cell in counts.cells}
        models = {fingerprint: await self._only_model(fingerprint) for fingerprint in versions}
        cells = [
            replace(cell, group=model) for cell in counts.cells if (model := models[cell.group]) is not None
        ]
        several = [fingerprint for fingerprint, model in models.items() if model is None]
        read_cells = [cell async for cell in self._read_cells(query, several)]
        names = [
            *(model for model in models.values() if model is not None),
            *{cell.group for cell in read_cells},
        ]
        times = [
            replace(time, group=model)
            for time in counts.times
            if (model := models[time.group]) is not None and names.count(model) == 1
        ]
        return RunCounts((*cells, *read_cells), tuple(times))

    async def _only_model(self, fingerprint: str) -> str | None:
        """Return the model that answers all calls of a version; None if several may."""
        try:
            package = await package_of(self._content, fingerprint)
        except Rejected:  # it is no longer stored
            return UNKNOWN_VERSION
        route = package.provider_route
        has_others = fallback_routes(package) or compaction_route(package) or package.subagents
        if has_others or route.route_id == WORKFLOW_ROUTE:
            return None
        return model_name(route.route_id, route.model_id)

    async def _read_cells(self, query: CountFilter, fingerprints: Iterable[str]) -> AsyncIterator[RunCell]:
        sessions: dict[str, dict[str, _Called]] = {}
        for fingerprint in fingerprints:
            async for run in self._runs(query, fingerprint):
                bucket = elapsed_ms(query.start, run.started_at or "") // query.bucket_ms
                for model, usage in (await self._usage_of(run, sessions)).items():
                    yield _cell(bucket, run.status, usage, model)

    async def _runs(self, query: CountFilter, fingerprint: str) -> AsyncIterator[RunInfo]:
        """Yield the runs of a version that a query counts, newest first."""
        where = RunFilter(
            agent_id=query.agent_id,
            owner=query.owner,
            root_only=query.agent_id is None,
            fingerprint=fingerprint,
            since=query.start,
            until=query.end,
        )
        order, count = RunOrder(), 0
        while page := await self._store.list_runs(where, order=order, limit=PAGE):
            for run in page:
                if run.started_at is not None:
                    yield run
            count += len(page)
            if len(page) < PAGE or count >= RUNS_READ_MAX:
                return
            order = replace(order, after=place_of_run(page[-1], where=where, by=order.by))

    async def _usage_of(self, run: RunInfo, sessions: dict[str, dict[str, _Called]]) -> Mapping[str, Usage]:
        """Return what each model used in a run and its subagents."""
        cached = self._used.get(run.run_id)
        if cached is not None:
            self._used.move_to_end(run.run_id)
            return cached
        used: dict[str, Usage] = {}
        runs = [ChildRun(run.session_id, run.run_id)]
        while runs:
            below = runs.pop()
            if below.session_id not in sessions:
                sessions[below.session_id] = await self._read_session(below.session_id)
            called = sessions[below.session_id].get(below.run_id)
            if called is not None:
                runs += called.children
                for model, usage in called.models.items():
                    used[model] = add_usage(used.get(model, NO_USAGE), usage)
        if run.status in _ENDED:
            self._used[run.run_id] = used
            if len(self._used) > RUNS_KEPT_MAX:
                self._used.popitem(last=False)
        return used

    async def _read_session(self, session_id: str) -> dict[str, _Called]:
        records = [record async for page in pages_of(self._store, session_id) for record in page]
        # Like the fold of a step, it is slow for a long session.
        costs = await asyncio.to_thread(_fold, records)
        return {run_id: _Called(run.models, tuple(run.children)) for run_id, run in costs.items()}


def _fold(records: Iterable[Record]) -> dict[str, RunCosts]:
    return fold_session_costs((record.run_id, record.type, record.data) for record in records)


def _cell(bucket: int, status: RunStatus, usage: Usage, model: str) -> RunCell:
    return RunCell(
        bucket,
        status,
        1,
        usage.input_tokens or 0,
        usage.output_tokens or 0,
        usage.cost_micros or 0,
        usage.cache_read_tokens or 0,
        model,
    )
