"""Sessions as `AgentSession` documents of the Runtime Spec: a view of the journal and its index.

`create` journals a session before its first run. Its first record is `session.state_changed`, which sets the
chat, the user and the stage under the key `windlass.session`; the first run adds `session.started` as in any
session. A session that a run made has no such record: its chat is the session itself and its user is the
owner in the index. `update` changes the stage of either: it sets one key of the session's state for each
field, so that two updates of different fields never undo each other.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Final, cast

from msgspec import UNSET, UnsetType
from msgspec.structs import fields
from pydantic import JsonValue, ValidationError

from windlass.catalog.reading import PAGE_ITEMS_MAX, Page, check_limit
from windlass.catalog.sessions import Sessions, name_of
from windlass.engine.clocks import moment, stamp
from windlass.engine.driving.inbox import STATE, each_item
from windlass.engine.writing.folds import JournalFolds
from windlass.errors import Conflict, Rejected
from windlass.ports.archive import SessionCopy, StoredAppend
from windlass.ports.feed import EventBus
from windlass.ports.listing import SessionInfo
from windlass.ports.machine import Machine
from windlass.ports.store import Store
from windlass.refusals import (
    bad_request,
    check_free_json,
    check_given,
    check_id,
    misfit,
    notes_name,
    reserved_id,
)
from windlass.tools.context import RESERVED
from windlass_harness.ledger.names import is_notes
from windlass_harness.loop.authored import state_problem
from windlass_harness.loop.events import Draft, StateChange
from windlass_harness.loop.subagents import is_childs
from windlass_harness.record import Record, number
from windlass_harness.redact import Redactor
from windlass_harness.views.listing import SessionNews
from windlass_protocol import (
    AgentSession,
    AgentSessionChange,
    ErrorKind,
    JsonObject,
    RetryClass,
    SessionStatus,
)
from windlass_protocol.bodies import Part, or_none
from windlass_protocol.generated.records import SessionStateChanged

FACTS_KEY: Final = f"{RESERVED}session"
"""The key of the session's state that holds what `create` was given."""
LISTED_MAX: Final = 1_000
"""Sessions of one list."""
LOCAL_USER: Final = "local"
FIRST_STAGE: Final = "START"
UNNAMED: Final = "session:"
"""Sessions that a runtime made for a run that named none begin with it."""
_ENDED: Final = frozenset(
    {
        SessionStatus.COMPLETED,
        SessionStatus.FAILED,
        SessionStatus.CANCELLED,
        SessionStatus.BUDGET_EXHAUSTED,
    }
)


class _StageFields(Part, frozen=True, kw_only=True):
    """The fields of a document that `update` sets."""

    current_stage: str | UnsetType = UNSET
    next_stage: str | UnsetType | None = UNSET
    stage_data: JsonObject | UnsetType | None = UNSET
    updated_at: str | UnsetType = UNSET


class _DocumentFields(_StageFields, frozen=True, kw_only=True):
    """The fields of a document, not checked yet."""

    session_id: str | UnsetType = UNSET
    chat_id: str | UnsetType = UNSET
    user_id: str | UnsetType = UNSET
    scenario: str | UnsetType | None = UNSET
    project_id: str | UnsetType | None = UNSET
    is_active: bool | UnsetType = UNSET
    created_at: str | UnsetType = UNSET


_FIELDS: Final = {f"{FACTS_KEY}.{part.encode_name}": part.encode_name for part in fields(_StageFields)}
"""The keys that `update` sets, and their fields of the document."""


class AgentSessions:
    """Creates, updates, reads and lists `AgentSession` documents; `runtime.sessions.agent_sessions`."""

    def __init__(
        self,
        sessions: Sessions,
        store: Store,
        *,
        folds: JournalFolds,
        give_state: Callable[[str, StateChange, str | None], Awaitable[None]],
        bus: EventBus,
        machine: Machine,
        redactor: Redactor,
    ) -> None:
        self._sessions = sessions
        self._store = store
        self._folds = folds
        self._give_state = give_state
        self._bus = bus
        self._machine = machine
        self._redactor = redactor

    async def create(
        self,
        chat_id: str,
        *,
        session_id: str | None = None,
        user_id: str | None = None,
        current_stage: str | None = None,
        scenario: str | None = None,
        stage_data: Mapping[str, JsonValue] | None = None,
        project_id: str | None = None,
        owner: str | None = None,
        agent_id: str | None = None,
    ) -> AgentSession:
        """Make a session without a run; return once it is durable.

        The same request again returns the same session. Secrets in the fields are masked, as in every record.
        `owner` and `agent_id` are those of the session in the index, as a first run would set them.

        Raises:
            Conflict: another session has the id, or a session of this id was deleted.
            Rejected: the id is reserved for subagents or notes or would be masked, or the fields are too
                large.
        """
        name = self._machine.new_id() if session_id is None else check_id(session_id, "session_id")
        self._check_name(name)
        document = _DocumentFields(
            chat_id=chat_id,
            user_id=user_id or LOCAL_USER,
            current_stage=current_stage or FIRST_STAGE,
            scenario=scenario,
            stage_data=None if stage_data is None else dict(stage_data),
            project_id=project_id,
        )
        check_free_json(or_none(document.stage_data), "stageData")
        at = moment(self._machine.clock).at
        facts: JsonObject = {key: value for key, value in _wire(document).items() if value is not None}
        # The size is checked before the content is looked at.
        problem = _problem(name, facts, at) or state_problem({}, StateChange({FACTS_KEY: facts}))
        if problem is not None:
            raise bad_request(problem)
        change = StateChange({FACTS_KEY: cast(JsonObject, self._redactor.value(facts))})
        record = number(Draft(change.body.TYPE, at, change.body), name, seq=1, epoch=0)
        try:
            entry = SessionNews(at, at, agent_id=agent_id, owner=owner)
            await self._store.keep(SessionCopy(name, (StoredAppend((record,), epoch=0),), entry))
        except Conflict:
            existing = await self._store.session_info(name)
            if existing is None:
                raise
            if await self.facts(name) != change.values[FACTS_KEY]:
                raise _taken_id_error(name) from None
        self._bus.notify()
        return await self.get(name)

    async def get(self, session_id: str) -> AgentSession:
        """Return a session.

        Raises:
            Conflict: there is no such session.
        """
        info = await self._sessions.get(session_id)
        return _document(info, {**await self.facts(session_id), **await self._stages(session_id)})

    async def update(
        self,
        session_id: str,
        change: AgentSessionChange,
        *,
        key: str | None = None,
        at: datetime | None = None,
    ) -> AgentSession:
        """Change the stage of a session; return once the change is durable.

        Fields that are not given stay as they are; `next_stage=None` removes the next stage. The change is an
        item in the inbox of the session, and this view shows it at once; the record `session.state_changed`
        follows in its turn, also while a run is under way. Secrets are masked.

        Args:
            session_id: The session.
            change: The fields to change.
            key: Given again with the same change and time, it is one change.
            at: The time of the change; now by default.

        Raises:
            Conflict: there is no such session, or the key was used with another change.
            Rejected: the change has the wrong type, or the state of the session would be too large.
        """
        checked_change = check_given(change, AgentSessionChange, what="change", words="an AgentSessionChange")
        await self._sessions.get(session_id)
        changed: JsonObject = checked_change.model_dump(mode="json", by_alias=True)
        check_free_json(checked_change.stage_data, "stageData")
        if changed:
            updated_at = moment(self._machine.clock).at if at is None else stamp(at)
            changed |= _wire(_StageFields(updated_at=updated_at))
            values = {key: changed[name] for key, name in _FIELDS.items() if name in changed}
            problem = state_problem({}, StateChange(values))
            if problem is not None:
                raise bad_request(problem)
            masked = cast(JsonObject, self._redactor.value(values))
            await self._give_state(session_id, StateChange(masked), key)
        return await self.get(session_id)

    async def list(
        self,
        *,
        user_id: str | None = None,
        chat_id: str | None = None,
        active_only: bool = False,
        owner: str | None = None,
        after: str | None = None,
        limit: int = PAGE_ITEMS_MAX,
    ) -> Page[AgentSession]:
        """Return a page of sessions, newest first.

        Left out are sessions of subagents, and those of runs that were started without naming a session. The
        first record of each session is read: the filters except `owner` are not in the index.

        Raises:
            Rejected: the cursor, the limit or a filter cannot be used.
        """
        most = check_limit(limit, LISTED_MAX)
        wanted_user, wanted_chat = name_of(user_id, "user_id"), name_of(chat_id, "chat_id")
        sessions: list[AgentSession] = []
        while True:
            page_limit = min(PAGE_ITEMS_MAX, most - len(sessions))
            page = await self._sessions.list(after=after, limit=page_limit, owner=owner)
            for info in page.items:
                facts = await self.facts(info.session_id)
                if not facts and await self._is_unnamed(info.session_id):
                    continue
                session = _document(info, facts)
                if (
                    wanted_user in (None, session.user_id)
                    and wanted_chat in (None, session.chat_id)
                    and (session.is_active or not active_only)
                ):
                    # Only these are read whole: `update` changes nothing that is filtered by.
                    sessions.append(_document(info, {**facts, **await self._stages(info.session_id)}))
            if page.next is None or len(sessions) == most:
                return Page(tuple(sessions), page.next)
            after = page.next

    async def facts(self, session_id: str) -> JsonObject:
        """Return what `create` recorded of a session; empty if it was not made by it, or does not exist."""
        records = await self._store.read(session_id, limit=1)
        return _facts_in(records[0]) if records else {}

    async def _is_unnamed(self, session_id: str) -> bool:
        """Whether a runtime chose the id for a run that named no session: it has the id of that run."""
        if not session_id.startswith(UNNAMED):
            return False
        first = await self._store.run(session_id.removeprefix(UNNAMED))
        return first is not None and first.session_id == session_id

    async def _stages(self, session_id: str) -> JsonObject:
        """Return the fields that `update` has set, also those that wait in the inbox."""
        # The inbox first: an item that is taken meanwhile is in the journal then.
        waiting = [
            item.body.get("set") async for item in each_item(self._store, session_id) if item.kind == STATE
        ]
        values: JsonObject = dict((await self._folds.session(session_id)).authored)
        for change in waiting:
            values = {**values, **change} if isinstance(change, dict) else values
        return {name: values[key] for key, name in _FIELDS.items() if key in values}

    def _check_name(self, name: str) -> None:
        if is_childs(name):
            raise reserved_id("session_id")
        if is_notes(name):
            raise notes_name("session_id")
        if self._redactor.text(name) != name:
            raise Rejected(
                "session_id would be masked: it holds a secret or looks like one; choose another",
                kind=ErrorKind.INVALID_STATE_TRANSITION,
                retry=RetryClass.REPAIR_NEEDED,
            )


def _facts_in(record: Record) -> JsonObject:
    body = record.body
    values = body.set if isinstance(body, SessionStateChanged) else None
    facts = None if values is None else values.get(FACTS_KEY)
    return facts if isinstance(facts, dict) else {}


def _document(info: SessionInfo, facts: JsonObject) -> AgentSession:
    defaults = _DocumentFields(
        user_id=info.owner or LOCAL_USER,
        chat_id=info.session_id,
        current_stage=FIRST_STAGE,
        project_id=None,
    )
    own = _DocumentFields(
        session_id=info.session_id,
        is_active=info.status not in _ENDED,
        created_at=info.created_at,
        updated_at=max(info.updated_at, str(facts.get("updatedAt", ""))),
    )
    document = {**_wire(defaults), **facts, **_wire(own)}
    return AgentSession.model_validate(document, by_alias=True, by_name=False)


def _wire(document: _StageFields) -> JsonObject:
    """Return the fields that are set, by their wire names; their values are not checked."""
    values = ((part.encode_name, getattr(document, part.name)) for part in fields(document))
    return {name: value for name, value in values if value is not UNSET}


def _problem(session_id: str, facts: JsonObject, at: str) -> str | None:
    """Return why the fields are not those of an AgentSession; None if they are."""
    own = _DocumentFields(session_id=session_id, is_active=True, created_at=at, updated_at=at)
    document = {**facts, **_wire(own)}
    try:
        AgentSession.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        return misfit(error, "agent_sessions.create", value=document)
    return None


def _taken_id_error(session_id: str) -> Conflict:
    return Conflict(
        f"another session has the id {session_id}: its chat, user, stage or project differs",
        kind=ErrorKind.INVALID_STATE_TRANSITION,
        retry=RetryClass.NOT_RETRYABLE,
    )
