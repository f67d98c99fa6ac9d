"""The catalogue of a runtime: the types of `runtime.sessions`."""

from typing import TYPE_CHECKING

from windlass_protocol.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from windlass.catalog.reading import Feedback as Feedback
    from windlass.catalog.reading import Page as Page
    from windlass.catalog.reading import RunTrace as RunTrace
    from windlass.catalog.reading import SessionAt as SessionAt
    from windlass.catalog.reading import StepPrompt as StepPrompt
    from windlass.catalog.sessions import RunQuery as RunQuery
    from windlass.catalog.sessions import SessionQuery as SessionQuery
    from windlass.catalog.sessions import Sessions as Sessions
    from windlass.catalog.stats import RunNumbers as RunNumbers
    from windlass.catalog.stats import RunStats as RunStats
    from windlass.ports.listing import OpenRequest as OpenRequest
    from windlass.ports.listing import RefusedStart as RefusedStart
    from windlass.ports.listing import RunInfo as RunInfo
    from windlass.ports.listing import SessionInfo as SessionInfo
    from windlass.ports.listing import SettledRequest as SettledRequest
    from windlass_harness.views.costs import ChildRun as ChildRun
    from windlass_harness.views.costs import ResultCost as ResultCost
    from windlass_harness.views.costs import RunCosts as RunCosts
    from windlass_harness.views.costs import StepCost as StepCost
    from windlass_harness.views.costs import ToolCost as ToolCost
    from windlass_protocol import SessionStatus as SessionStatus

_HOMES = {
    "windlass.catalog.reading": (
        "Feedback",
        "Page",
        "RunTrace",
        "SessionAt",
        "StepPrompt",
    ),
    "windlass.catalog.sessions": (
        "RunQuery",
        "SessionQuery",
        "Sessions",
    ),
    "windlass.catalog.stats": (
        "RunNumbers",
        "RunStats",
    ),
    "windlass.ports.listing": (
        "OpenRequest",
        "RefusedStart",
        "RunInfo",
        "SessionInfo",
        "SessionStatus",
        "SettledRequest",
    ),
    "windlass_harness.views.costs": (
        "ChildRun",
        "ResultCost",
        "RunCosts",
        "StepCost",
        "ToolCost",
    ),
}

__getattr__, __dir__ = _lazy_names(__name__, _HOMES)
