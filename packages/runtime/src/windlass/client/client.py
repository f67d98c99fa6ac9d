"""Client: the operations of one server, and its feeds."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Self

from windlass.client.connection import (
    IDLE_S,
    REQUESTS,
    Key,
    Means,
    ServerAddress,
    path_of,
)
from windlass.client.generated.operations import (
    AgentSessionsOperations,
    AgentsOperations,
    AguiOperations,
    AiOperations,
    ApprovalsOperations,
    DatasetsOperations,
    DeliveriesOperations,
    EveOperations,
    ExperimentsOperations,
    FeedsOperations,
    LimitsOperations,
    ProposalsOperations,
    RunsOperations,
    SchedulesOperations,
    ServerOperations,
    SessionsOperations,
    ToolsOperations,
)
from windlass.errors import install_hint
from windlass.refusals import bad_request
from windlass_harness.retry import RetryPolicy

if TYPE_CHECKING:
    from windlass.client.feed import EventFeed
    from windlass.client.link import ServerLink


class Client:
    """A client of one server: `async with Client("http://…", key=…) as client`.

    Its groups of operations, such as `client.sessions`, have a method for everything that the server does. A
    request is repeated if it had no effect (the server is down, busy, or asks to wait), and if its effect is
    unknown: requests that are not harmless when repeated carry an idempotency key. The key of the server
    never appears in an error or log text of this client.

    Args:
        url: The address of the server, such as http://localhost:8700.
        key: An API key or a token, or a function that returns one before each request.
        retries: The number of attempts and the delays between them; five attempts by default.
        means: Clock, id factory and random source, for tests.

    Raises:
        Rejected: the address or the key is not valid.
    """

    def __init__(
        self, url: str, *, key: Key = None, retries: RetryPolicy = REQUESTS, means: Means | None = None
    ) -> None:
        self._address = ServerAddress(url, key)
        self._retries = retries
        self._means = means or Means()
        self._link: ServerLink | None = None
        self.sessions = SessionsOperations(self)
        self.agent_sessions = AgentSessionsOperations(self)
        self.approvals = ApprovalsOperations(self)
        self.runs = RunsOperations(self)
        self.feeds = FeedsOperations(self)
        self.schedules = SchedulesOperations(self)
        self.limits = LimitsOperations(self)
        self.datasets = DatasetsOperations(self)
        self.experiments = ExperimentsOperations(self)
        self.deliveries = DeliveriesOperations(self)
        self.proposals = ProposalsOperations(self)
        self.agents = AgentsOperations(self)
        self.tools = ToolsOperations(self)
        self.server = ServerOperations(self)
        self.agui = AguiOperations(self)
        self.ai = AiOperations(self)
        self.eve = EveOperations(self)

    def __repr__(self) -> str:
        return f"Client({self._address.shown!r})"

    async def __aenter__(self) -> Self:
        self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def open(self) -> None:
        """Open the client; nothing is sent yet. The caller must close it.

        Raises:
            Rejected: the extra `windlass-runtime[client]` is not installed.
        """
        if self._link is None:
            self._link = _module("link").ServerLink(self._address, self._means, retries=self._retries)

    async def aclose(self) -> None:
        """Close every connection."""
        link, self._link = self._link, None
        if link is not None:
            await link.aclose()

    @property
    def link(self) -> "ServerLink":
        """The connection to the server.

        Raises:
            Rejected: the client is not open.
        """
        if self._link is None:
            raise bad_request("the client is not open: use `async with Client(…) as client`, or call open()")
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
            session_id: The session; exactly one of session_id and run_id is required.
            run_id: The run.
            after: The `cursor` of a feed, to continue from there; the beginning by default.
            follow: Whether to wait for future events.
            idle_s: The time without data after which a connection is considered dead.
        """
        if (session_id is None) == (run_id is None):
            raise bad_request("events takes exactly one of session_id and run_id")
        kind, name = ("runs", run_id) if session_id is None else ("sessions", session_id)
        return _module("feed").EventFeed(
            self.link,
            path_of(f"/v1/{kind}/{{}}/events", name or ""),
            is_of_run=session_id is None,
            after=after,
            follow=follow,
            idle_s=idle_s,
        )


def _module(name: str) -> ModuleType:
    try:
        # HTTP support is an extra, and slow to import.
        return import_module(f"windlass.client.{name}")
    except ModuleNotFoundError as error:
        missing = error.name
    raise bad_request(f"the client needs an optional dependency ({missing}): {install_hint('client')}")
