"""The audit of refused starts.

A refused start makes no run and no session. Its only trace is an entry in the audit of the store, which is
bounded: a caller that may not start runs must not be able to fill the store.
"""

import logging
from collections.abc import Mapping
from typing import Final

from windlass.engine.clocks import moment
from windlass.engine.deadline import await_within
from windlass.errors import AgentError, Ambiguous, Rejected, Unavailable, is_for_us
from windlass.limits import REFUSAL_MESSAGE_CHARS_MAX, REFUSAL_POLICIES_MAX, REFUSAL_TIMEOUT_MS
from windlass.ports.listing import RefusedStart
from windlass.refusals import check_id
from windlass.runtime.registry import RuntimePorts
from windlass_protocol import ErrorKind, SourceRef
from windlass_protocol.codec_errors import printable
from windlass_protocol.limits import ID_CHARS_MAX

_LOG: Final = logging.getLogger("windlass.runtime.start")
AUDITED_FIELDS: Final = ("run_id", "session_id", "agent_id", "owner", "source")
"""Fields of a request that the audit keeps."""
ID_READ_CHARS_MAX: Final = 65_536
"""Characters of an invalid id that are searched for secrets before it is cut."""


async def record_refusal(ports: RuntimePorts, error: AgentError, fields: Mapping[str, object]) -> None:
    """Write a refused start to the audit of the store; `fields` holds the known `AUDITED_FIELDS`.

    The caller raises `error` whatever happens here: a failure of the store is logged.
    """
    store = ports.store
    is_of_store = error.kind is ErrorKind.JOURNAL_FAILURE and isinstance(error, Unavailable | Ambiguous)
    if store is None or is_of_store:
        _LOG.warning("a start was refused, and the store cannot record it: %s", type(error).__name__)
        return
    try:
        await await_within(store.record_refusal(_refused_start(ports, error, fields)), REFUSAL_TIMEOUT_MS)
    except BaseException as failure:  # the error and the store may be host code; the caller gets the error
        if is_for_us(failure):
            raise
        _LOG.warning("a refused start was not recorded: %s", type(failure).__name__)


def _refused_start(ports: RuntimePorts, error: AgentError, fields: Mapping[str, object]) -> RefusedStart:
    hide = ports.scribe.redactor.text

    def name(value: object) -> str | None:
        """Return an id; one that is invalid is cut and made printable."""
        if not isinstance(value, str):
            return None
        hidden = hide(value[:ID_READ_CHARS_MAX])
        try:
            return check_id(hidden, "an id")
        except Rejected:
            return printable(hidden, ID_CHARS_MAX) or None

    source = fields.get("source")
    if isinstance(source, SourceRef):
        source = SourceRef(kind=source.kind, id=name(source.id) or "", trust=source.trust)
    return RefusedStart(
        at=moment(ports.machine.clock).at,
        run_id=name(fields.get("run_id") or error.causal_ids.run_id),
        session_id=name(fields.get("session_id")),
        agent_id=name(fields.get("agent_id")),
        owner=name(fields.get("owner")),
        source=source if isinstance(source, SourceRef) else None,
        code=error.code,
        kind=error.kind,
        retry=error.retry,
        message=printable(hide(error.message), REFUSAL_MESSAGE_CHARS_MAX),
        policy_code=None if error.policy_code is None else printable(hide(error.policy_code), ID_CHARS_MAX),
        policy_refs=error.policy_refs[:REFUSAL_POLICIES_MAX],
    )
