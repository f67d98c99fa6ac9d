"""The test kit: scripted models, fake time, faulty stores, crashes everywhere."""

from typing import TYPE_CHECKING

from windlass_protocol.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from windlass.testing.crashes import Crash as Crash
    from windlass.testing.crashes import crash_everywhere as crash_everywhere
    from windlass.testing.models import Answer as Answer
    from windlass.testing.models import Cassette as Cassette
    from windlass.testing.models import Request as Request
    from windlass.testing.models import ScriptedModel as ScriptedModel
    from windlass.testing.models import always_replay as always_replay
    from windlass.testing.models import by_history as by_history
    from windlass.testing.models import call as call
    from windlass.testing.models import fail as fail
    from windlass.testing.models import say as say
    from windlass.testing.stores import Failpoints as Failpoints
    from windlass.testing.stores import FailpointStore as FailpointStore
    from windlass.testing.stores import FaultRates as FaultRates
    from windlass.testing.stores import FaultyStore as FaultyStore
    from windlass.testing.time import FakeClock as FakeClock
    from windlass.testing.time import SeededRandom as SeededRandom
    from windlass.testing.time import SequentialIds as SequentialIds
    from windlass.testing.time import run_in_fake_time as run_in_fake_time
    from windlass.testing.time import seeded_random as seeded_random
    from windlass.testing.time import sequential_ids as sequential_ids
    from windlass.testing.wakes import WAKE_CASES as WAKE_CASES
    from windlass.testing.wakes import check_wakes as check_wakes

_HOMES = {
    "windlass.testing.crashes": (
        "Crash",
        "crash_everywhere",
    ),
    "windlass.testing.models": (
        "Answer",
        "Cassette",
        "Request",
        "ScriptedModel",
        "always_replay",
        "by_history",
        "call",
        "fail",
        "say",
    ),
    "windlass.testing.stores": (
        "FailpointStore",
        "Failpoints",
        "FaultRates",
        "FaultyStore",
    ),
    "windlass.testing.time": (
        "FakeClock",
        "SeededRandom",
        "SequentialIds",
        "run_in_fake_time",
        "seeded_random",
        "sequential_ids",
    ),
    "windlass.testing.wakes": (
        "WAKE_CASES",
        "check_wakes",
    ),
}

__getattr__, __dir__ = _lazy_names(__name__, _HOMES)
