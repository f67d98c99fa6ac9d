"""Server-sent events: bytes in, the data of events out."""

from typing import Final

from windlass.adapters.models.settings import EVENT_BYTES_MAX
from windlass.ports.model_errors import ModelFault, ModelUnavailable

_DATA: Final = b"data:"


class EventDecoder:
    """Takes a stream apart, wherever its pieces were cut.

    Only `data` counts: the providers repeat the name of an event in its data. An event that was not ended by
    an empty line never happened.
    """

    __slots__ = ("_lines", "_rest", "_size")

    def __init__(self) -> None:
        self._rest = b""
        self._lines: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the data of the events that this piece ends.

        Raises:
            Unavailable: an event is larger than any that makes sense.
        """
        *lines, self._rest = (self._rest + piece).split(b"\n")
        found: list[bytes] = []
        for line in lines:
            text = line[:-1] if line.endswith(b"\r") else line
            if not text:
                if self._lines:
                    found.append(b"\n".join(self._lines))
                    self._lines, self._size = [], 0
            elif text.startswith(_DATA):
                value = text[5:]
                self._lines.append(value[1:] if value.startswith(b" ") else value)
                self._size += len(value)
        if self._size + len(self._rest) > EVENT_BYTES_MAX:
            raise ModelUnavailable(
                f"the model's stream has an event over the limit of {EVENT_BYTES_MAX:,} bytes",
                fault=ModelFault.MALFORMED,
            )
        return found
