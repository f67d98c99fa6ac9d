"""What a request and a package may not hold: what nobody could read, find or keep."""

from typing import Final

from windlass.errors import Rejected
from windlass.limits import CONTENT_BYTES_MAX
from windlass.refusals import bad_request, invalid_package
from windlass.runtime_ports import RuntimePorts
from windlass_harness.redact import mask_text
from windlass_protocol import CodecError, CodecLimits, ErrorKind, RetryClass, RunRequest, canonical

REQUEST_LEVELS_MAX: Final = 56
"""Objects and lists inside one another; an event puts some more around them."""
_FREE_JSON: Final = CodecLimits(message_bytes_max=CONTENT_BYTES_MAX, depth_max=REQUEST_LEVELS_MAX)


def check_json(request: RunRequest) -> None:
    """Refuse what a record could hold and an event could not.

    Everybody can read events.
    """
    free = {name for name in ("metadata", "input") if not isinstance(getattr(request, name), str | None)}
    for name, value in request.model_dump(mode="json", by_alias=True, include=free).items() if free else ():
        problem = ""
        try:
            canonical(value, _FREE_JSON)
        except CodecError as error:
            problem = error.message
        if problem:
            raise bad_request(f"{name} cannot be used: {problem}", request.run_id)


def check_ids(ports: RuntimePorts, request: RunRequest, *, message_id: str | None = None) -> None:
    """Refuse names that would be masked: nobody could find such a run.

    Raises:
        Rejected: one holds a registered secret, or looks like one.
    """
    names = ("run_id", "agent_id", "session_id", "turn_id")
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
