"""Every limit of the wire, named with its unit."""

from typing import Final

from windlass_protocol.frozen import sealed

OUTPUT_REPAIRS: Final = 2
"""How often an answer that misses its schema goes back to the model, by default."""
MESSAGE_BYTES_MAX: Final = 1_048_576
"""Bytes of one wire message: larger content travels by reference."""

DEPTH_MAX: Final = 64
"""Nesting depth of arrays and objects; a bare number has depth 0."""

FREE_LEVELS_MAX: Final = 48
"""Nesting depth of JSON from outside that is stored, such as arguments, results, metadata, state and schemas.

A record, its event and the messages around them add levels, up to `DEPTH_MAX`.
"""

RECORD_LEVELS_MAX: Final = 60
"""Nesting depth of the data of a record: with its event, and the frame of a sidecar, it has `DEPTH_MAX`."""

DEPTH_CEILING: Final = 128
"""The largest depth a caller may choose; the underlying parser fails at 200."""

NUMBER_CHARS_MAX: Final = 128
"""Characters of one number as written; a double never needs more than 25."""

INTEGER_MAX: Final = 9_007_199_254_740_991
"""The largest magnitude of an integer: 2**53 - 1, the last that JavaScript holds exactly."""

ID_CHARS_MAX: Final = 512
"""Characters of an id, as in the schema."""

BIDI_CONTROLS: Final = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Characters that change the direction of text, as a part of a pattern."""

ADAPTERS_MAX: Final = 1_024
"""Types with cached validators."""

ERROR_ISSUES_MAX: Final = 16
"""Issues that one decoding error lists."""

ERROR_COUNTED_MAX: Final = 1_000
"""Issues above which an error only gives their number."""

ERROR_TEXT_CHARS_MAX: Final = 200
"""Characters of the text of one issue."""

ERROR_MESSAGE_CHARS_MAX: Final = 4_096
"""Characters of the message of an `ErrorInfo`, as in the schema."""

ERROR_KEY_CHARS_MAX: Final = 64
"""Characters of one key that an error names."""

ERROR_PATH_CHARS_MAX: Final = 256
"""Characters of one JSON pointer in an error."""


@sealed
class CodecLimits:
    """The limits that a transport may choose for its own messages.

    Raises:
        ValueError: a limit is not positive, or the depth is over `DEPTH_CEILING`.
    """

    message_bytes_max: int = MESSAGE_BYTES_MAX
    depth_max: int = DEPTH_MAX

    def __post_init__(self) -> None:
        if self.message_bytes_max < 1:
            raise ValueError(f"message_bytes_max must be at least 1, found {self.message_bytes_max:,}")
        if not 1 <= self.depth_max <= DEPTH_CEILING:
            raise ValueError(f"depth_max must be 1 to {DEPTH_CEILING}, found {self.depth_max:,}")


DEFAULT_LIMITS: Final = CodecLimits()
