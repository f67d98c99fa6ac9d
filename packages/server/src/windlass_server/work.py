"""The work of a process: what its runtimes have to do, as metrics, and whether more is accepted."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from windlass import AgentRuntime
from windlass.parts import Clock, Store, loop_stalls
from windlass.ports.catalog import OpenRuns
from windlass_protocol import RunStatus
from windlass_protocol.frozen import frozen
from windlass_server.problems import Problem

METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
BACKLOG_LOOK_S: Final = 1.0
"""How long a count of queued runs is used."""
BACKLOG_RETRY_S: Final = 10
"""Retry-After of a start that is refused because of queued ones."""
_VERSION_CHARS: Final = 19
"""Characters of a fingerprint in a label: `sha256:` and twelve digits."""


class Stalls(Collector):
    """The stalls of the event loop, which the runtime counts."""

    def collect(self) -> Iterator[Metric]:
        stalls = loop_stalls()
        yield CounterMetricFamily(
            "windlass_loop_stalls",
            "Times in which one piece of code kept the event loop for over 250 ms.",
            value=stalls.count,
        )
        yield CounterMetricFamily(
            "windlass_loop_stall_seconds", "The sum of these times.", value=stalls.total_ms / 1_000
        )
        yield GaugeMetricFamily(
            "windlass_loop_stall_longest_seconds", "The longest of them.", value=stalls.longest_ms / 1_000
        )


@frozen
class Work:
    """What there is to do in one store."""

    runs: tuple[OpenRuns, ...]
    asked: int
    """Requests that wait for people."""
    oldest_due_s: float
    """How long the oldest start or timer that is due has waited."""
    store_s: float
    """How long the store took to say so."""
    lease_age_s: float
    """How long ago this process renewed its lease; 0 if it drives nothing."""
    driven: int
    """Sessions that this process drives."""


async def look(runtime: AgentRuntime) -> Work:
    """Return what there is to do in the store of a runtime.

    Raises:
        Unavailable: the store cannot be reached.
    """
    core = runtime.core
    store, clock = core.store, core.ports.machine.clock
    since_s = clock.monotonic()
    runs = await store.open_runs()
    store_s = clock.monotonic() - since_s
    waiting, wake_at_ms = await store.waiting(), await store.next_wake_ms()
    now = clock.now()
    queued = [group.oldest_at for group in runs if group.status is RunStatus.PENDING and group.oldest_at]
    ages_s = [(now - datetime.fromisoformat(at)).total_seconds() for at in queued]
    if wake_at_ms is not None:
        ages_s.append(now.timestamp() - wake_at_ms / 1_000)
    return Work(
        runs,
        asked=waiting.requests,
        oldest_due_s=max([0.0, *ages_s]),
        store_s=store_s,
        lease_age_s=core.lease_age_s,
        driven=core.ports.sessions_max.taken,
    )


class WorkMetrics(Collector):
    """The work of all runtimes of a process; no metric names a tenant or a user."""

    def __init__(self) -> None:
        self._work: Sequence[Work] = ()

    async def update(self, runtimes: Iterable[AgentRuntime]) -> None:
        """Look at the stores."""
        self._work = [await look(runtime) for runtime in runtimes]

    def collect(self) -> Iterator[Metric]:
        runs: dict[tuple[str, str, str], int] = {}
        for work in self._work:
            for group in work.runs:
                key = (group.agent_id, group.fingerprint[:_VERSION_CHARS], group.status.value)
                runs[key] = runs.get(key, 0) + group.count
        by_version = GaugeMetricFamily(
            "windlass_runs_open",
            "Unfinished runs by agent, version and status; pending ones are queued.",
            labels=("agent", "version", "status"),
        )
        for key, count in sorted(runs.items()):
            by_version.add_metric(key, count)
        yield by_version
        for name, meaning, value in (
            ("runs_queued", "Runs that no process has begun.", _count(runs, RunStatus.PENDING)),
            ("runs_running", "Runs at work.", _count(runs, RunStatus.RUNNING)),
            ("requests_open", "Requests that wait for people.", sum(work.asked for work in self._work)),
            (
                "due_age_seconds",
                "How long the oldest start or timer that is due has waited.",
                max((work.oldest_due_s for work in self._work), default=0.0),
            ),
            (
                "store_seconds",
                "How long the slowest store took to answer.",
                max((work.store_s for work in self._work), default=0.0),
            ),
            (
                "lease_age_seconds",
                "How long ago this process renewed its lease; at 30 it loses its sessions.",
                max((work.lease_age_s for work in self._work), default=0.0),
            ),
            (
                "sessions_driven",
                "Sessions that this process drives.",
                max((work.driven for work in self._work), default=0),
            ),
        ):
            yield GaugeMetricFamily(f"windlass_{name}", meaning, value=value)


def _count(runs: dict[tuple[str, str, str], int], status: RunStatus) -> int:
    return sum(count for (*_, name), count in runs.items() if name == status.value)


class Backlog:
    """The queued runs of a tenant; beyond a number of them no further ones are accepted."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._queued = 0
        self._looked_s: float | None = None

    async def check(self, most: int) -> None:
        """Refuse a start if too many are queued.

        Raises:
            Problem: 429, there are.
        """
        now_s = self._clock.monotonic()
        if self._looked_s is None or now_s - self._looked_s >= BACKLOG_LOOK_S:
            self._looked_s = now_s
            runs = await self._store.open_runs()
            self._queued = sum(group.count for group in runs if group.status is RunStatus.PENDING)
        if self._queued >= most:
            detail = f"{self._queued:,} runs are queued, the limit is {most:,}: try again later"
            raise Problem(429, detail, retry_s=BACKLOG_RETRY_S)
