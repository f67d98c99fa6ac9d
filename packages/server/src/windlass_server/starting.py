"""How work is handed to the runtime: a repeated request is the same work."""

from hashlib import sha256
from typing import Annotated, Final

from fastapi import Header

from windlass import Conflict, RunHandle
from windlass.runtime.compose import RunOptions
from windlass_protocol import ErrorKind, RetryClass, UserContent
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
KEY_TAKEN: Final = (
    "the Idempotency-Key (or the continuationToken) was used with another request: send that one again as it "
    "was, or choose another key"
)
_NOTHING: Final = ""
"""What the token of a session without a run is made of."""


def session_id_for(caller: Caller, key: str | None, *, kind: str = "session") -> str:
    """Return the id of a new session: the same for the same key of the same user."""
    return caller.tenant.new_id() if key is None else derived(kind, caller.principal.key, key)


def first_run_id(session_id: str) -> str:
    """Return the id of the run that a session begins with."""
    return derived("first run", session_id)


def run_id_for(caller: Caller, session_id: str, *, key: str | None, token: str | None = None) -> str:
    """Return the id of a new run: the same for the same key, and for the same token.

    Of two who go on from the same place at the same time, with something else to say, one is refused.
    """
    if token is not None:
        return derived("run behind", session_id, token)
    return caller.tenant.new_id() if key is None else derived("run", session_id, key)


async def token_of(caller: Caller, session_id: str) -> str:
    """Return the token with which to go on in a session from where it is now."""
    newest = await caller.tenant.runtime.sessions.runs(session_id=session_id, limit=1)
    return _token(session_id, newest.items[0].run_id if newest.items else _NOTHING)


def token_behind(session_id: str, run_id: str) -> str:
    """Return the token with which to go on behind a run."""
    return _token(session_id, run_id)


async def check_token(caller: Caller, session_id: str, *, token: str | None, run_id: str) -> None:
    """Refuse to go on from a place where a session is not any more, or never was.

    Raises:
        Conflict: it is not there.
    """
    if token is None or token == await token_of(caller, session_id):
        return
    # The same request again: the run that it began is the one that the session went on with.
    if await caller.tenant.store.run(run_id) is None:
        raise taken("the session has gone on, or never was where this token says: read it, then decide")


def taken(message: str) -> Conflict:
    """Return the error of a request that another one came before."""
    return Conflict(message, kind=ErrorKind.INVALID_STATE_TRANSITION, retry=RetryClass.NOT_RETRYABLE)


def _token(session_id: str, run_id: str) -> str:
    return derived("token", session_id, run_id)


def derived(*parts: str) -> str:
    """Return an id that is made of texts: the same for the same ones, and no other."""
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
    caller: Caller,
    message: UserContent,
    *,
    wishes: RunWishes,
    ids: tuple[str, str],
    agent_id: str,
    told: str = KEY_TAKEN,
) -> RunHandle:
    """Start a run of the caller; `ids` are those of its session and its own.

    Raises:
        Conflict: there is a run of this id that was asked for with something else, as `told` says: the ids
            of runs are made of keys, tokens, and the names that clients have for runs.
    """
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
        "owner": caller.principal.user,
        "goal_id": wishes.goal,
    }
    try:
        return await caller.tenant.runtime.start(agent_id, message, **options)
    except Conflict:
        if await caller.tenant.store.run(run_id) is None:
            raise
    raise taken(told)
