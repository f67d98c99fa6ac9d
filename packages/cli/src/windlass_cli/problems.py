"""What ends a command early, and the numbers that it ends with."""

from enum import IntEnum


class Exit(IntEnum):
    """What the exit code of a command tells."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    """The command was not understood, or something that it names is not there."""
    WAITING = 3
    """The run waits for a person, and nobody was there to ask."""
    CANCELLED = 4
    INTERRUPTED = 130
    """Ctrl-C: the run is kept and can be taken up again."""


class Problem(Exception):
    """Something that the user can mend: what is wrong, and what to do."""

    def __init__(self, message: str, hint: str = "", *, code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code
