"""The catalogue of a runtime: what `runtime.sessions` gives and takes."""

from windlass.catalog.page import Page
from windlass.catalog.reading import RunTrace, SessionAt
from windlass.catalog.sessions import RunQuery, SessionQuery, Sessions
from windlass.ports.listing import OpenRequest, RunInfo, SessionInfo, SessionStatus

__all__ = [
    "OpenRequest",
    "Page",
    "RunInfo",
    "RunQuery",
    "RunTrace",
    "SessionAt",
    "SessionInfo",
    "SessionQuery",
    "SessionStatus",
    "Sessions",
]
