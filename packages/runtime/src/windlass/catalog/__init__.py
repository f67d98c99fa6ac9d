"""The catalogue of a runtime: the types of `runtime.sessions`."""

from windlass.catalog.reading import Page, RunTrace, SessionAt, StepPrompt
from windlass.catalog.sessions import RunQuery, SessionQuery, Sessions
from windlass.catalog.stats import RunNumbers, RunStats
from windlass.ports.store import OpenRequest, RunInfo, SessionInfo, SessionStatus, SettledRequest

__all__ = [
    "OpenRequest",
    "Page",
    "RunInfo",
    "RunNumbers",
    "RunQuery",
    "RunStats",
    "RunTrace",
    "SessionAt",
    "SessionInfo",
    "SessionQuery",
    "SessionStatus",
    "Sessions",
    "SettledRequest",
    "StepPrompt",
]
