"""Agents and goals by the place where a program has them."""

import importlib
from collections.abc import Sequence
from typing import TypeVar, cast

from windlass import Agent
from windlass.improve.criteria import Goal
from windlass_server.settings import refused

T = TypeVar("T")


def load_agents(place: str) -> list[Agent]:
    """Return the agents that a module has, named as `module:attr`.

    Raises:
        Rejected: there is no such module or attribute, or it is no agent.
    """
    return _load(place, Agent, what="--agents", words="an Agent")


def load_goals(place: str) -> list[Goal]:
    """Return the goals that a module has, named as `module:attr`.

    Raises:
        Rejected: there is no such module or attribute, or it is no goal.
    """
    return _load(place, Goal, what="--goals", words="a Goal")


def _load(place: str, kind: type[T], *, what: str, words: str) -> list[T]:
    module, _, name = place.partition(":")
    try:
        found: object = getattr(importlib.import_module(module), name) if name else None
    except (ImportError, AttributeError) as error:
        raise refused(f"{what} {place}: {error}") from error
    given = cast(Sequence[object], found) if isinstance(found, list | tuple) else [found]
    items = [one for one in given if isinstance(one, kind)]
    if len(items) != len(given) or not items:
        raise refused(f"{what} {place}: expected {words} or a list of them, as module:attr")
    return items
