"""What tests need: a scripted model, a clock that obeys, a simulator of it all."""

from typing import TYPE_CHECKING

from windlass_protocol.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from windlass.testing.cassette import Cassette as Cassette
    from windlass.testing.chance import SeededRandom as SeededRandom
    from windlass.testing.chance import SequentialIds as SequentialIds
    from windlass.testing.chance import seeded_random as seeded_random
    from windlass.testing.chance import sequential_ids as sequential_ids
    from windlass.testing.clock import FakeClock as FakeClock
    from windlass.testing.failpoints import Failpoints as Failpoints
    from windlass.testing.failpoints import FailpointStore as FailpointStore
    from windlass.testing.fake_time import run_in_fake_time as run_in_fake_time
    from windlass.testing.faulty_store import FaultRates as FaultRates
    from windlass.testing.faulty_store import FaultyStore as FaultyStore
    from windlass.testing.replay import always_replay as always_replay
    from windlass.testing.scripted import Answer as Answer
    from windlass.testing.scripted import Request as Request
    from windlass.testing.scripted import ScriptedModel as ScriptedModel
    from windlass.testing.scripted import by_history as by_history
    from windlass.testing.scripted import call as call
    from windlass.testing.scripted import fail as fail
    from windlass.testing.scripted import say as say
    from windlass.testing.simulator import SimulationReport as SimulationReport
    from windlass.testing.simulator import simulate as simulate

_NAMES = {
    "cassette": ("Cassette",),
    "chance": ("SeededRandom", "SequentialIds", "seeded_random", "sequential_ids"),
    "clock": ("FakeClock",),
    "failpoints": ("FailpointStore", "Failpoints"),
    "fake_time": ("run_in_fake_time",),
    "faulty_store": ("FaultRates", "FaultyStore"),
    "replay": ("always_replay",),
    "scripted": ("Answer", "Request", "ScriptedModel", "by_history", "call", "fail", "say"),
    "simulator": ("SimulationReport", "simulate"),
}

__getattr__, __dir__ = _lazy_names(__name__, {name: home for home, names in _NAMES.items() for name in names})
