"""What a request and a package may not hold: what nobody could find, or keep."""

from windlass.errors import Rejected
from windlass.ports.journal import Store
from windlass.refusals import bad_request, contract_violation, invalid_package, kept_name, notes_name
from windlass.runtime_ports import RuntimePorts
from windlass.setup_check import check_id
from windlass_harness.ledger.names import BUILDER, is_notes
from windlass_harness.loop.family import is_childs
from windlass_harness.loop.notes import Child
from windlass_harness.redact import mask_text
from windlass_protocol import ErrorKind, RetryClass, RunRequest


def check_ids(ports: RuntimePorts, request: RunRequest, *, message_id: str | None = None) -> None:
    """Refuse names that would be masked, or read as others: nobody finds such runs.

    Raises:
        Rejected: one holds a registered secret, or looks like one; it turns the direction of text; or
            the owner is the Builder.
    """
    names = ("run_id", "agent_id", "session_id", "turn_id", "owner")
    given = {name: getattr(request, name) for name in names} | {"message_id": message_id}
    for name, value in given.items():
        if value is not None:
            check_id(value, name)
    if request.owner == BUILDER and request.agent_id != BUILDER:
        raise bad_request(f"owner cannot be {BUILDER}: that is whom the sessions of the Builder belong to")
    hide = ports.scribe.redactor.text
    hidden = [name for name, value in given.items() if value is not None and hide(value) != value]
    if hidden:
        raise Rejected(
            f"{' and '.join(hidden)} would be masked, as a secret or as what looks like one; choose another",
            kind=ErrorKind.INVALID_STATE_TRANSITION,
            retry=RetryClass.REPAIR_NEEDED,
        )


async def check_free(store: Store, request: RunRequest) -> None:
    """Refuse names that are kept for subagents and for notes.

    Subagents begin in sessions without a past; once they are there, anybody may go on with them.

    Raises:
        Rejected: the run has such a name, or its session has one and there is no such session; or the session
            is one with notes.
    """
    session_id = request.session_id
    if session_id is not None and is_notes(session_id):
        raise notes_name("session_id")
    if is_childs(request.run_id):
        raise kept_name("run_id")
    if session_id is not None and is_childs(session_id) and await store.session(session_id) is None:
        raise kept_name("session_id")


async def check_unused(store: Store, child: Child) -> None:
    """Refuse a subagent whose names somebody else has used.

    What starts it is kept with the record of its call, so a run or a session that is there before is not its.

    Raises:
        Conflict: there is such a run or session.
    """
    if await store.run(child.run_id) is not None:
        raise contract_violation("there is a run of its name that is not its", child.run_id)
    if await store.session(child.session_id) is not None:
        raise contract_violation("there is a session of its name that is not its", child.run_id)


def check_no_secret(ports: RuntimePorts, content: bytes, *, run_id: str | None = None) -> None:
    """Refuse a package that holds a registered secret.

    A package is kept, byte for byte, for as long as its runs.

    Raises:
        Rejected: it holds one.
    """
    text = content.decode()
    if ports.scribe.redactor.text(text) != mask_text(text):
        raise invalid_package(
            "the package holds a registered secret; keep secrets out of instructions, tools and settings, "
            "and let the tools find them",
            run_id,
        )
