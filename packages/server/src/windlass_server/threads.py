"""Chats of other clients: which session a name means, and what is done in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import Request

from windlass import Conflict
from windlass.ports.feed import StreamOptions
from windlass.ports.store import RunRow
from windlass_harness.views.runs import RUN_ENDS
from windlass_protocol import RunStatus, UserContent
from windlass_server.access import OwnSession, own_session
from windlass_server.chat.gate import Past, View
from windlass_server.chat.words import Given
from windlass_server.guard import Caller
from windlass_server.limits import THREAD_GAP_MAX, THREAD_REWINDS_MAX, THREAD_RUNS_SEARCHED_MAX
from windlass_server.models import RunWishes
from windlass_server.problems import Problem, not_found
from windlass_server.starting import derived, start, taken
from windlass_server.streams import FeedResponse, Frames, Streams

FIRST_RUN_SEQ: Final = 2
"""The record with which the first run of a session begins, at the latest: nothing was said before it."""
NAME_TAKEN: Final = (
    "the run of this name (the runId, or the id of the message) had other words: choose another"
)
ENDED: Final = frozenset(RUN_ENDS.values())


@dataclass(frozen=True, slots=True)
class Thread:
    """A chat: the session that it is now, or will be."""

    session_id: str
    session: OwnSession | None
    """None while nothing was said in it."""
    first_id: str
    """The session that it began as."""
    rewinds: int = 0
    """How often it went back; each time it goes on in a new session."""

    def run_id(self, name: str) -> str:
        """Return the id of the run that a client calls so, the same each time."""
        return derived("thread run", self.session_id, name)


@dataclass(frozen=True, slots=True)
class Answered:
    """A run that was answered, and what is to be shown of it."""

    run_id: str
    view: View
    is_again: bool
    """Whether there was nothing left to answer."""


async def find_thread(caller: Caller, name: str) -> Thread:
    """Return what a name means: a chat or a session of the caller, or a new chat.

    It is made of the caller and the name, so it is the same after a restart, and nobody else's.
    """
    first_id = derived("thread", caller.principal.key, name)
    session = await _own(caller, first_id)
    if session is None:
        session = await _own(caller, name)
        first_id = first_id if session is None else session.session_id
    thread, count = Thread(first_id, session, first_id), 1
    # Whoever deletes a session that the chat has left does not lose the chat.
    while count <= min(thread.rewinds + 1 + THREAD_GAP_MAX, THREAD_REWINDS_MAX):
        later_id = _rewound(first_id, count)
        session = await _own(caller, later_id)
        thread = thread if session is None else Thread(later_id, session, first_id, count)
        count += 1
    return thread


async def begun_thread(caller: Caller, name: str) -> Thread:
    """Return a chat of the caller in which something was said.

    Raises:
        Problem: there is none, or it is somebody else's; nobody can tell which.
    """
    thread = await find_thread(caller, name)
    if thread.session is None or thread.session.info is None:
        raise not_found("session")
    return thread


def check_agent(caller: Caller, agent_id: str) -> str:
    """Return the agent of a path.

    Raises:
        Problem: there is none of this name.
    """
    if agent_id not in caller.tenant.agent_ids:
        raise not_found("agent")
    return agent_id


async def speak(
    caller: Caller, thread: Thread, *, run_id: str, message: UserContent, agent_id: str, wishes: RunWishes
) -> None:
    """Begin a run in a chat; the same again is the same run.

    Raises:
        Conflict: the run was begun with other words, or the chat waits for answers.
    """
    store = caller.tenant.store
    if await store.run(run_id) is None and thread.session is not None and thread.session.info is not None:
        requests = await caller.tenant.runtime.session_requests(thread.session_id)
        if any(not request.is_answered for request in requests):
            raise taken("the run under way asks something: answer that first")
    ids = (thread.session_id, run_id)
    await start(caller, message, wishes=wishes, ids=ids, agent_id=agent_id, told=NAME_TAKEN)
    if thread.session is not None and thread.session.reserved is not None:
        await caller.tenant.reservations.release(thread.session_id)


async def is_last(
    caller: Caller, thread: Thread, *, run_id: str, message: UserContent, agent_id: str
) -> bool:
    """Return whether a run is the last of a chat, and was begun with these words."""
    page = await caller.tenant.runtime.sessions.runs(session_id=thread.session_id, limit=1)
    if [run.run_id for run in page.items] != [run_id]:
        return False
    try:
        await speak(caller, thread, run_id=run_id, message=message, agent_id=agent_id, wishes=RunWishes())
    except Conflict:
        return False
    return True


async def past_of(caller: Caller, run_id: str) -> Past:
    """Return what a run has asked so far."""
    past = Past(run_id)
    feed = caller.tenant.runtime.events().subscribe_run(run_id, options=StreamOptions(follow=False))
    try:
        async for event in feed:
            past.take(event)
    finally:
        await feed.aclose()
    return past


async def asking(caller: Caller, thread: Thread, *, request_ids: frozenset[str]) -> Past:
    """Return the run that asked something, of the newest ones.

    Raises:
        Conflict: none of them did.
    """
    page = await caller.tenant.runtime.sessions.runs(
        session_id=thread.session_id, limit=THREAD_RUNS_SEARCHED_MAX
    )
    for run in page.items:
        past = await past_of(caller, run.run_id)
        if request_ids <= past.asked:
            return past
    raise taken("nobody was asked this here: read what the run asks, then answer that")


async def answer(caller: Caller, thread: Thread, *, given: Sequence[Given], needs_all: bool) -> Answered:
    """Answer what a run asks.

    With `needs_all` nothing that it waits for may be left. What somebody has answered before is passed over:
    the first answer counts.

    Raises:
        Conflict: nobody was asked this, something is left, or somebody else was faster.
    """
    ids = frozenset(one.request_id for one in given)
    past = await asking(caller, thread, request_ids=ids)
    view = past.behind(ids, needs_all=needs_all)
    if view is None:
        raise taken("the run waits for more answers than these: answer all that is open at once")
    requests = await caller.tenant.runtime.session_requests(thread.session_id)
    left = {request.request_id: request for request in requests if not request.is_answered}
    user = caller.principal.user
    responses = [one.response(left[one.request_id], user) for one in given if one.request_id in left]
    if responses:
        await caller.tenant.runtime.answer_session(thread.session_id, responses)
    return Answered(past.run_id, view, is_again=not responses)


async def rewind(caller: Caller, thread: Thread, *, name: str) -> Thread:
    """Return the chat as it was before a run, to go on from there in a new session.

    The run is cancelled if it is under way, and so are those behind it; the old session stays as it is. A
    chat that is there already is returned as it is.

    Raises:
        Problem: the chat has no such run, left it when it went back, or went back too often.
    """
    row = await _run_called(caller, thread, name)
    if row is None:
        raise Problem(409, "this was not said here: only what was said in this chat can be asked for anew")
    if thread.rewinds >= THREAD_REWINDS_MAX:
        raise Problem(409, f"the chat went back {THREAD_REWINDS_MAX} times, the limit: begin another chat")
    if not await _is_shared(caller, thread, row):
        raise Problem(409, "the chat went back before this was said: only what it still holds comes anew")
    await _cancel_from(caller, thread, row)
    runtime = caller.tenant.runtime
    later_id = _later_id(thread)
    if row.first_seq > FIRST_RUN_SEQ:
        at = row.first_seq - 1
        await runtime.sessions.fork(thread.session_id, at=at, session_id_new=later_id)
    return Thread(later_id, await _own(caller, later_id), thread.first_id, thread.rewinds + 1)


async def _run_called(caller: Caller, thread: Thread, name: str) -> RunRow | None:
    """The newest run that a client calls so, also from before the chat went back."""
    for count in range(thread.rewinds, -1, -1):
        session_id = thread.first_id if not count else _rewound(thread.first_id, count)
        row = await caller.tenant.store.run(Thread(session_id, None, thread.first_id).run_id(name))
        if row is not None:
            return row
    return None


async def _is_shared(caller: Caller, thread: Thread, row: RunRow) -> bool:
    """Whether the chat still holds all that came before a run."""
    if row.first_seq <= FIRST_RUN_SEQ:
        return True
    session_id = thread.session_id
    for _ in range(thread.rewinds):
        if session_id == row.session_id:
            return True
        info = await caller.tenant.store.listed_session(session_id)
        if info is None or info.predecessor_id is None or (info.predecessor_seq or 0) < row.first_seq - 1:
            return False
        session_id = info.predecessor_id
    return session_id == row.session_id


async def _cancel_from(caller: Caller, thread: Thread, row: RunRow) -> None:
    """Cancel a run and those behind it: what a chat has left must not act."""
    runtime, later = caller.tenant.runtime, [row.run_id]
    for status in frozenset(RunStatus) - ENDED:
        after = None
        while True:
            page = await runtime.sessions.runs(session_id=thread.session_id, status=status, after=after)
            later += [run.run_id for run in page.items if not 0 < run.first_seq < row.first_seq]
            after = page.next
            if after is None:
                break
    for run_id in later:
        await runtime.cancel_run(run_id, by=caller.principal.user, reason="It is asked for anew.")


def _later_id(thread: Thread) -> str:
    return _rewound(thread.first_id, thread.rewinds + 1)


def _rewound(first_id: str, count: int) -> str:
    return derived("thread rewound", first_id, str(count))


async def _own(caller: Caller, session_id: str) -> OwnSession | None:
    try:
        return await own_session(caller, session_id)
    except Problem:
        return None


async def stream(request: Request, caller: Caller, *, run_id: str, frames: Frames) -> FeedResponse:
    """Return the stream of a run, from its beginning on."""
    streams: Streams = request.app.state.streams
    feed = caller.tenant.runtime.events().subscribe_run(run_id, until_terminal=True)
    await feed.open()
    try:
        response = FeedResponse(feed, frames, streams=streams, reading=caller.reading)
    except BaseException:
        await feed.aclose()
        raise
    # What is left is waiting, which keeps nobody else from being answered.
    caller.slot.release()
    return response
