"""Operations: what `spec/operations.json` says of each route."""

from typing import Literal

from windlass_protocol.frozen import sealed

Repeat = Literal["harmless", "keyed", "derived", "refused"]
"""What a repeated request does, see `windlass_server.repeats`."""
Who = Literal["public", "user", "improver", "operator"]
"""Callers that an operation is for, see `windlass_server.auth.Principal.is_one_of`."""


@sealed
class ServerOperation:
    """One operation of the server."""

    id: str
    method: str
    path: str
    """With the names of its ids, such as `/v1/runs/{runId}`."""
    repeat: Repeat
    who: Who
    summary: str
    doc: str
    problems: tuple[int, ...]
    """Statuses of its own problems; those of every operation are not among them."""

    @property
    def group(self) -> str:
        """The group of the operation: the part of its id before the dot."""
        return self.id.partition(".")[0]

    @property
    def takes_key(self) -> bool:
        """Whether a request may have an Idempotency-Key."""
        return self.repeat in ("keyed", "derived")
