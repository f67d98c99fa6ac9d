"""The decision recorder, and questions to what it recorded.

    from windlass.recorder import BuilderQuery, Runtime

`Runtime` writes down what an agent decides, one durable record a call; `BuilderQuery` reads it back. Names
are imported when they are first asked for: whoever only records does not load what reading takes.
"""

from typing import TYPE_CHECKING

from windlass_protocol.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from windlass.recorder.analysis import FailureAnalysis as FailureAnalysis
    from windlass.recorder.analysis import PatternAnalysis as PatternAnalysis
    from windlass.recorder.kinds import DecisionType as DecisionType
    from windlass.recorder.kinds import RecordingError as RecordingError
    from windlass.recorder.kinds import RunStatus as RunStatus
    from windlass.recorder.model import Decision as Decision
    from windlass.recorder.model import DecisionEvaluation as DecisionEvaluation
    from windlass.recorder.model import Option as Option
    from windlass.recorder.model import Outcome as Outcome
    from windlass.recorder.model import Problem as Problem
    from windlass.recorder.model import Run as Run
    from windlass.recorder.model import RunMetrics as RunMetrics
    from windlass.recorder.model import RunSummary as RunSummary
    from windlass.recorder.query import BuilderQuery as BuilderQuery
    from windlass.recorder.recorder import Runtime as Runtime

_HOMES = {
    "analysis": ("FailureAnalysis", "PatternAnalysis"),
    "kinds": ("DecisionType", "RecordingError", "RunStatus"),
    "model": (
        "Decision",
        "DecisionEvaluation",
        "Option",
        "Outcome",
        "Problem",
        "Run",
        "RunMetrics",
        "RunSummary",
    ),
    "query": ("BuilderQuery",),
    "recorder": ("Runtime",),
}

__getattr__, __dir__ = _lazy_names(__name__, {name: home for home, names in _HOMES.items() for name in names})
