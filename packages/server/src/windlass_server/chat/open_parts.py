"""What of a step is not whole yet."""

from dataclasses import dataclass

from windlass_server.chat.beats import TextKind


@dataclass(slots=True)
class OpenText:
    """A text of the present step."""

    kind: TextKind
    key: str
    text: str = ""
    is_open: bool = False
    is_done: bool = False


@dataclass(slots=True)
class WrittenCall:
    """A call whose arguments are being written."""

    key: str
    name: str | None = None
    text: str = ""
    shown: str = ""


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call without a result."""

    key: str
    step: int
