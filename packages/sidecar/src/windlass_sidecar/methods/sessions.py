"""`agent.session.*`: who is in the middle of what."""

from typing import Annotated, Final

from pydantic import Field, JsonValue

from windlass.engine.moments import stamp
from windlass_protocol import AgentSession
from windlass_sidecar.app import App
from windlass_sidecar.errors import invalid_params, not_found
from windlass_sidecar.limits import SESSIONS_LISTED_MAX
from windlass_sidecar.params import Name, Params
from windlass_sidecar.rpc import Method, method

LOCAL_USER: Final = "local"
FIRST_STAGE: Final = "START"


class SessionCreate(Params):
    """A session as the host wants it."""

    chat_id: Name
    session_id: Name | None = None
    user_id: Name | None = None
    current_stage: Name | None = None
    scenario: str | None = None
    stage_data: dict[str, JsonValue] | None = None
    project_id: str | None = None


class SessionResume(Params):
    """Which session."""

    session_id: Name


class SessionList(Params):
    """Which sessions; all that are known when nothing is given."""

    user_id: Name | None = None
    chat_id: Name | None = None
    active_only: bool | None = None
    limit: Annotated[int | None, Field(gt=0, le=SESSIONS_LISTED_MAX)] = None


async def create(app: App, params: SessionCreate) -> JsonValue:
    """Make a session; the same request again is the same session."""
    storage = await app.storage()
    now = stamp(app.clock.now())
    wanted = AgentSession(
        session_id=params.session_id or app.new_id(),
        user_id=params.user_id or LOCAL_USER,
        chat_id=params.chat_id,
        current_stage=params.current_stage or FIRST_STAGE,
        scenario=params.scenario,
        stage_data=params.stage_data,
        project_id=params.project_id,
        is_active=True,
        created_at=now,
        updated_at=now,
    )
    known = None if params.session_id is None else await storage.get_session(params.session_id)
    if known is None:
        return _plain(await storage.upsert_session(wanted))
    kept = {"is_active", "created_at", "updated_at"}
    if known.model_dump(exclude=kept) != wanted.model_dump(exclude=kept):
        raise invalid_params(
            "sessionId: there is another session of this id; agent.session.resume returns it"
        )
    return _plain(known)


async def resume(app: App, params: SessionResume) -> JsonValue:
    """Return a session, which is active again."""
    storage = await app.storage()
    known = await storage.get_session(params.session_id)
    if known is None:
        raise not_found("there is no such session")
    now = stamp(app.clock.now())
    return _plain(
        await storage.upsert_session(known.model_copy(update={"is_active": True, "updated_at": now}))
    )


async def list_sessions(app: App, params: SessionList) -> JsonValue:
    """Return sessions, the newest first."""
    storage = await app.storage()
    found = await storage.list_sessions(
        user_id=params.user_id,
        chat_id=params.chat_id,
        active_only=params.active_only or False,
        limit=params.limit or SESSIONS_LISTED_MAX,
    )
    return [_plain(session) for session in found]


async def set_active(app: App, session_id: str | None, *, is_active: bool) -> None:
    """Note whether a run goes on in a session, if it is one that the host keeps here."""
    storage = await app.storage()
    known = None if session_id is None else await storage.get_session(session_id)
    if known is not None:
        changed = {"is_active": is_active, "updated_at": stamp(app.clock.now())}
        await storage.upsert_session(known.model_copy(update=changed))


def _plain(session: AgentSession) -> JsonValue:
    return session.model_dump(mode="json", by_alias=True)


METHODS: Final[tuple[Method[App], ...]] = (
    method("agent.session.create", SessionCreate, run=create),
    method("agent.session.resume", SessionResume, run=resume),
    method("agent.session.list", SessionList, run=list_sessions),
)
