"""What the groups of routes have in common: the way to the server, and keys."""

from typing import TYPE_CHECKING, Protocol

from windlass.client.limits import KEY_CHARS_MAX
from windlass.refusals import bad_request

if TYPE_CHECKING:
    from windlass.client.link import Link


class Linked(Protocol):
    """Who has the way to the server."""

    @property
    def link(self) -> "Link":
        """The way to the server.

        Raises:
            Rejected: it is not open.
        """
        ...


def key_for(link: "Link", given: str | None) -> str:
    """Return the idempotency key of a request: the given one, or one of its own.

    Raises:
        Rejected: the given one cannot be sent.
    """
    if given is None:
        return link.means.new_id()
    if not given or len(given) > KEY_CHARS_MAX or not all("!" <= char <= "~" for char in given):
        raise bad_request("idempotency_key is a text of ASCII without spaces, and this one is not")
    return given
