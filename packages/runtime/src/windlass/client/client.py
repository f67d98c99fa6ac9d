"""The client of one server."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Self

from windlass.client.address import Address, Key, path_of
from windlass.client.calls import Call
from windlass.client.limits import IDLE_S, REQUESTS
from windlass.client.means import Means
from windlass.client.runs import Approvals, Runs
from windlass.client.sessions import Sessions
from windlass.refusals import bad_request
from windlass_harness.retry import RetryPolicy
from windlass_protocol import AgentInfo, AgentList, Health

if TYPE_CHECKING:
    from windlass.client.feed import EventFeed
    from windlass.client.link import Link


class Client:
    """A client of one server: `async with Client("http://…", key=…) as client`.

    Every POST carries an idempotency key. A request is sent again when nothing has happened (the server is
    away, busy, or wants to be left alone for a while), and when nobody knows what has happened if the server
    would know it again. The key is in no text of this client.

    Args:
        url: Where the server is, such as http://localhost:8700.
        key: An API key or a token, or a function that returns one before each request.
        retries: How often a request is sent, and how the waits between grow; five times when left out.
        means: Time, names and chance, for tests.

    Raises:
        Rejected: the address or the key cannot be used.
    """

    def __init__(
        self, url: str, *, key: Key = None, retries: RetryPolicy = REQUESTS, means: Means | None = None
    ) -> None:
        self._address = Address(url, key)
        self._retries = retries
        self._means = means or Means()
        self._link: Link | None = None
        self.sessions = Sessions(self)
        self.runs = Runs(self)
        self.approvals = Approvals(self)

    def __repr__(self) -> str:
        return f"Client({self._address.shown!r})"

    async def __aenter__(self) -> Self:
        self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def open(self) -> None:
        """Get ready; nothing is sent yet. Whoever opens it closes it.

        Raises:
            Rejected: the extra `windlass[client]` is not installed.
        """
        if self._link is None:
            self._link = _module("link").Link(self._address, self._means, retries=self._retries)

    async def aclose(self) -> None:
        """Let go of every connection."""
        link, self._link = self._link, None
        if link is not None:
            await link.aclose()

    @property
    def link(self) -> "Link":
        """The way to the server.

        Raises:
            Rejected: the client is not open.
        """
        if self._link is None:
            raise bad_request("the client is not open: async with Client(…) as client")
        return self._link

    def events(
        self,
        *,
        session_id: str | None = None,
        run_id: str | None = None,
        after: str | None = None,
        follow: bool = True,
        idle_s: float = IDLE_S,
    ) -> "EventFeed":
        """Return the events of a session, or of a run up to its end.

        Args:
            session_id: Whose; one of the two.
            run_id: Whose; one of the two.
            after: The `cursor` of a feed, to go on from there; the beginning when left out.
            follow: Whether to wait for what is yet to come.
            idle_s: How long a connection may be silent before it is taken for dead.
        """
        if (session_id is None) == (run_id is None):
            raise bad_request("events takes a session_id or a run_id, one of the two")
        kind, name = ("runs", run_id) if session_id is None else ("sessions", session_id)
        return _module("feed").EventFeed(
            self.link,
            path_of(kind, name or "", "events"),
            is_of_run=session_id is None,
            after=after,
            follow=follow,
            idle_s=idle_s,
        )

    async def agents(self) -> tuple[AgentInfo, ...]:
        """Return the agents that runs can be started with."""
        return (await self.link.ask(AgentList, Call("GET", "/agents"))).agents

    async def health(self) -> Health:
        """Return whether the server takes requests."""
        return await self.link.ask(Health, Call("GET", "/health"))


def _module(name: str) -> ModuleType:
    try:
        # HTTP is an extra, and takes a while to import.
        return import_module(f"windlass.client.{name}")
    except ModuleNotFoundError as error:
        missing = error.name
    raise bad_request(
        f"the client needs more than windlass alone ({missing}): pip install 'windlass[client]'"
    )
