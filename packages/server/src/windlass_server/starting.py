"""How work is handed to the runtime: a repeated request is the same work."""

from hashlib import sha256
from typing import Annotated, Final

from fastapi import Header

from windlass import RunHandle
from windlass.options import RunOptions
from windlass_protocol import UserContent
from windlass_server.guard import Caller
from windlass_server.limits import KEY_CHARS_MAX
from windlass_server.models import RunWishes
from windlass_server.problems import Problem

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=KEY_CHARS_MAX,
        pattern=r"^[\x21-\x7e]+$",
        description="The same key with the same request is the same work, however often it is sent.",
        examples=["3f1c9a52-order-17"],
    ),
]
_SESSION: Final = "session"
_FIRST: Final = "first run"
_RUN: Final = "run"


def session_id_for(caller: Caller, key: str | None) -> str:
    """Return the id of a new session: the same for the same key of the same user."""
    return caller.tenant.new_id() if key is None else _derived(_SESSION, caller.principal.key, key)


def run_id_for(caller: Caller, session_id: str, *, key: str | None, is_first: bool = False) -> str:
    """Return the id of a new run: the same for the same key in the same session.

    The run that a session began with is another one, also if its key is used again in the session.
    """
    return caller.tenant.new_id() if key is None else _derived(_FIRST if is_first else _RUN, session_id, key)


def _derived(*parts: str) -> str:
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return sha256(text.encode()).hexdigest()[:44]


def agent_for(caller: Caller, wished: str | None, *, known: str | None = None) -> str:
    """Return which agent is meant: the one wished for, the known one, or the only one.

    Raises:
        Problem: it is not clear, or there is none of this name.
    """
    names = caller.tenant.agent_ids
    name = wished or known or (names[0] if len(names) == 1 else None)
    if name is None:
        raise Problem(422, f"agent is missing: name one of {', '.join(names)}")
    if name not in names:
        raise Problem(422, f"there is no such agent; there are {', '.join(names)}")
    return name


async def start(
    caller: Caller, message: UserContent, *, wishes: RunWishes, ids: tuple[str, str], agent_id: str
) -> RunHandle:
    """Start a run of the caller; `ids` are those of its session and its own."""
    session_id, run_id = ids
    options: RunOptions = {
        "session_id": session_id,
        "run_id": run_id,
        "mode": wishes.mode,
        "output": wishes.output_schema,
        "context": wishes.context,
        "metadata": wishes.metadata,
        "budget": wishes.budget,
        "source": caller.principal.source,
    }
    return await caller.tenant.runtime.start(agent_id, message, **options)
