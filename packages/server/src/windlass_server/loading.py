"""Agents by the place where a program has them."""

import importlib
from collections.abc import Sequence
from typing import cast

from windlass import Agent
from windlass_server.settings import refused


def load_agents(place: str) -> list[Agent]:
    """Return the agents that a module has, named as `module:attr`.

    Raises:
        Rejected: there is no such module or attribute, or it is no agent.
    """
    module, _, name = place.partition(":")
    try:
        found: object = getattr(importlib.import_module(module), name) if name else None
    except (ImportError, AttributeError) as error:
        raise refused(f"--agents {place}: {error}") from error
    given = cast(Sequence[object], found) if isinstance(found, list | tuple) else [found]
    agents = [one for one in given if isinstance(one, Agent)]
    if len(agents) != len(given) or not agents:
        raise refused(f"--agents {place}: expected an Agent or a list of them, as module:attr")
    return agents
