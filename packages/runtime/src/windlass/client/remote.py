"""Agents of other servers, as subagents.

A remote agent is an agent of its own here, so that everything that holds for subagents holds for it: its
session is kept, a crash leaves nothing to repair, its budget is a share, its questions are shown at the root.
Its model is a few rules (`remote_model`), and its one tool follows the run on the other server
(`remote_work`).
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Final, TypedDict, Unpack
from urllib.parse import urlsplit

from windlass import parts
from windlass.agent import Agent
from windlass.client.address import Address, Key, check_url
from windlass.client.remote_model import RemoteModel
from windlass.client.remote_work import WORK_S, RemoteServer, remote_end, remote_tool
from windlass.definitions import check_name, option_problem, wrong
from windlass.question import ask_question

_VARIABLE: Final = "key_env is the name of a variable of the environment, such as RESEARCH_KEY"


class RemoteOptions(TypedDict, total=False):
    """What may be said of a remote agent."""

    key: Key
    """For the server. It is kept in memory alone: no package, record or event has it."""
    key_env: str
    """The variable of the environment that holds the key; it is read when the key is needed."""
    agent: str
    """Which agent of the server; may be left out if it has one."""
    description: str
    """What the calling model is told of it."""
    timeout: float
    """How long one piece of work may take, in seconds, people's answers apart; an hour when left out."""


def RemoteAgent(name: str, *, url: str, **options: Unpack[RemoteOptions]) -> Agent:  # noqa: N802 - it reads as the agent that it makes
    """Return an agent that works on another server, for `Agent(subagents=[…])`.

    Options:
        key: for the server; kept in memory alone.
        key_env: the variable of the environment that holds the key, instead of the key.
        agent: which agent of the server; may be left out if it has one.
        description: what the calling model is told of it.
        timeout: how long one piece of work may take, in seconds; an hour when left out.

    Raises:
        Rejected: something cannot be used, or the extra `windlass[client]` is not installed.
    """
    problem = option_problem(options, RemoteOptions, what="RemoteAgent", beside=("url",))
    if problem is not None:
        raise wrong(problem)
    if find_spec("httpx2") is None:
        raise wrong("a remote agent needs more than windlass alone: pip install 'windlass[client]'")
    check_name(name, "an agent")
    key, variable, agent = options.get("key"), options.get("key_env"), options.get("agent")
    if agent is not None:
        check_name(agent, "the agent of a server", option="agent")
    if key is not None and variable is not None:
        raise wrong(f"agent {name}: give key or key_env, not both")
    address = Address(check_url(url), key if variable is None else _from_environment(variable))
    server = RemoteServer(address, agent, variable)
    work = remote_tool(server, options.get("timeout", WORK_S))
    host = urlsplit(url).netloc
    return Agent(
        name,
        description=options.get("description", f"Works at {host}."),
        model=RemoteModel(f"{agent or 'agent'}@{host}"),
        tools=[work, ask_question],
        hooks=[remote_end(server)],
    )


def _from_environment(variable: object) -> Callable[[], str | None]:
    if not isinstance(variable, str) or not variable.isidentifier():
        raise wrong(_VARIABLE)
    return lambda: parts.variable(variable)
