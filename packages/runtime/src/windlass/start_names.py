"""What a request and a package may not hold: what nobody could find, or keep."""

from windlass.errors import Rejected
from windlass.refusals import invalid_package
from windlass.runtime_ports import RuntimePorts
from windlass_harness.redact import mask_text
from windlass_protocol import ErrorKind, RetryClass, RunRequest


def check_ids(ports: RuntimePorts, request: RunRequest, *, message_id: str | None = None) -> None:
    """Refuse names that would be masked: nobody could find such a run.

    Raises:
        Rejected: one holds a registered secret, or looks like one.
    """
    names = ("run_id", "agent_id", "session_id", "turn_id", "owner")
    given = {name: getattr(request, name) for name in names} | {"message_id": message_id}
    hide = ports.scribe.redactor.text
    hidden = [name for name, value in given.items() if value is not None and hide(value) != value]
    if hidden:
        raise Rejected(
            f"{' and '.join(hidden)} would be masked, as a secret or as what looks like one; choose another",
            kind=ErrorKind.INVALID_STATE_TRANSITION,
            retry=RetryClass.REPAIR_NEEDED,
        )


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
