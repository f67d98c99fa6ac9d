"""Idempotency keys: each is kept to the one request that it came with."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Final

from pydantic import BaseModel

from windlass import AgentError
from windlass_protocol.codec import canonical
from windlass_server.guard import Caller
from windlass_server.problems import Problem, of_agent_error
from windlass_server.starting import KEY_TAKEN, derived, taken

_FAILED: Final = 500
"""From here on a status does not say that nothing was done."""


@asynccontextmanager
async def once(
    caller: Caller, key: str | None, *, route: str, body: BaseModel, keeps_end: bool = False
) -> AsyncGenerator[bool]:
    """Keep a key to one request while that is worked on, and from then on.

    `route` is what is asked, with the ids in its path. It yields whether the same request went well before,
    which is known with `keeps_end` alone: what has an id made of the key needs no such note. A key whose
    request was refused is free again.

    Raises:
        Conflict: the key was used with another request.
    """
    if key is None:
        yield False
        return
    reservations = caller.tenant.reservations
    name = derived("key", caller.principal.key, route, key)
    text = canonical(body.model_dump(mode="json", by_alias=True))
    claim = await reservations.claim(name, sha256(text).hexdigest())
    if claim is None:
        raise taken(KEY_TAKEN)
    try:
        yield claim.is_done
    except (Problem, AgentError) as error:
        problem = error if isinstance(error, Problem) else of_agent_error(error)
        if claim.is_new and problem.status < _FAILED:
            await reservations.unclaim(name)
        raise
    if keeps_end and not claim.is_done:
        await reservations.finish(name)
