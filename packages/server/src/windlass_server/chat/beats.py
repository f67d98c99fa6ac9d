"""What happens in a run as a chat shows it: what every projection is made of."""

from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from windlass_protocol import InputRequest, InputResolution, RunStatus, ToolOutput, Usage

TextKind = Literal["text", "thought"]


@dataclass(frozen=True, slots=True)
class StepBegan:
    """The model is asked, for the first time in this step."""

    step: int


@dataclass(frozen=True, slots=True)
class StepVoid:
    """Nothing of what was shown of a step counts: it comes anew."""

    step: int


@dataclass(frozen=True, slots=True)
class Piece:
    """More of a text; the first piece of a key begins it."""

    kind: TextKind
    key: str
    step: int
    delta: str


@dataclass(frozen=True, slots=True)
class PieceDone:
    """A text is whole; one that was shown anew may still go on."""

    kind: TextKind
    key: str


@dataclass(frozen=True, slots=True)
class CallPiece:
    """More of the arguments of a call; the first piece of a key begins it."""

    key: str
    step: int
    name: str
    delta: str


@dataclass(frozen=True, slots=True)
class CallReady:
    """A call is asked for; `streamed` is what pieces have shown of its arguments."""

    key: str
    step: int
    name: str
    arguments: JsonValue
    streamed: str = ""


@dataclass(frozen=True, slots=True)
class CallProgress:
    """How far a call is."""

    key: str
    output: JsonValue


@dataclass(frozen=True, slots=True)
class CallDone:
    """What came of a call."""

    key: str
    output: ToolOutput


@dataclass(frozen=True, slots=True)
class Said:
    """Somebody spoke; `is_first` if the run began with it."""

    key: str
    text: str
    is_first: bool


@dataclass(frozen=True, slots=True)
class Ask:
    """Something that a person is asked."""

    request: InputRequest
    call_key: str | None
    """The call of this run that it is about; of a subagent's request, the call that gave it work."""
    subagent: str | None = None
    """The run of the subagent that asks."""


@dataclass(frozen=True, slots=True)
class Asked:
    """People are asked."""

    asks: tuple[Ask, ...]


@dataclass(frozen=True, slots=True)
class Settled:
    """What people were asked is decided."""

    resolutions: tuple[tuple[Ask, InputResolution], ...]


@dataclass(frozen=True, slots=True)
class Delegated:
    """A subagent was given work."""

    key: str
    call_key: str | None
    name: str


@dataclass(frozen=True, slots=True)
class Returned:
    """A subagent is finished."""

    key: str
    name: str
    output: str
    error: str | None


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The state of the session is another one."""

    changed: dict[str, JsonValue]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens were used."""

    model: str | None
    usage: Usage


@dataclass(frozen=True, slots=True)
class Waits:
    """The run waits for people."""

    asks: tuple[Ask, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """The run is over."""

    status: RunStatus
    output: JsonValue = None
    reason: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    usage: Usage = field(default_factory=Usage)


Beat = (
    StepBegan
    | StepVoid
    | Piece
    | PieceDone
    | CallPiece
    | CallReady
    | CallProgress
    | CallDone
    | Said
    | Asked
    | Settled
    | Delegated
    | Returned
    | StateChanged
    | Spent
    | Waits
    | Ended
)
