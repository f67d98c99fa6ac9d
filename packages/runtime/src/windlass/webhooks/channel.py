"""The port of channels: how people talk to agents elsewhere, such as in the threads of a chat.

A channel identifies what a signed request says, renders what a session has to tell, and delivers it. It keeps
nothing: the session id names the place, and the store holds what is still to be delivered.
"""

from collections.abc import Callable, Mapping
from typing import Literal, Protocol, TypeAlias

from pydantic import JsonValue

from windlass_protocol import InputRequest, JsonObject
from windlass_protocol.frozen import sealed


@sealed
class SignedRequest:
    """A request of a sender, with a signature that was checked."""

    entry: str
    """The name of the webhook."""
    delivery_id: str
    """The same for every attempt to deliver it."""
    event: str
    """The kind of event, such as `issues.opened`; may be empty."""
    payload: JsonObject
    headers: Mapping[str, str]
    """Headers by their names in small letters."""


@sealed
class Message:
    """A message for a session; with a user, the answer to a question that the session has asked."""

    session: str
    """Names the session among those of its webhook: equal names are one session."""
    text: str
    user: str | None = None
    """The author, as the sender names them."""
    needs_session: bool = False
    """Whether the message counts only if the session exists."""


@sealed
class ChannelAnswer:
    """An answer to a request of a session."""

    session: str
    request_id: str
    option_id: str
    user: str


@sealed
class RunEvent:
    """An event for a run, which its workflow waits for; see `RunHandle.send`."""

    run_id: str
    name: str
    data: JsonValue = True


@sealed
class Reply:
    """A response to the request itself, such as that of a handshake. Nothing else happens."""

    text: str


Incoming: TypeAlias = Message | RunEvent | ChannelAnswer | Reply | None
"""What a request says; None means: nothing for an agent."""
Route: TypeAlias = Callable[[SignedRequest], Incoming]


@sealed
class Notice:
    """Something that a session has to tell its channel."""

    session: str
    """The name of the session, as `Message.session`."""
    kind: Literal["output", "request", "resolved", "failed", "refused"]
    text: str
    request: InputRequest | None = None
    """The request to people, of a notice of that kind."""
    user: str | None = None
    """The only person who is to see it."""


@sealed
class Delivered:
    """The outcome of one attempt to deliver."""

    problem: str | None = None
    """Why it failed, without content; None if it was taken."""
    is_final: bool = False
    """Whether a further attempt is of no use."""
    retry_after_s: float | None = None
    """When the receiver asked to try again."""


class Channel(Protocol):
    """A way for people to talk to agents."""

    def identify(self, delivery: SignedRequest) -> Incoming:
        """Return what a signed request says.

        Raises:
            ValueError: the request is not one of this channel; the message must not quote it.
        """
        ...

    def render(self, notice: Notice) -> JsonObject | None:
        """Return a notice as the channel shows it; None if it shows nothing."""
        ...

    async def deliver(self, content: JsonObject, *, key: str) -> Delivered:
        """Bring rendered content to its place; `key` is the same for every attempt.

        It does not raise for anything that the receiver or the network does.
        """
        ...
