"""How a tool tells the model what went wrong."""

from windlass.tool_limits import FAILED_CHARS_MAX


class ToolFailed(Exception):
    """Raised by a tool to tell the model, in its own words, what went wrong.

    With `retryable` the runtime may call the tool again by itself before the model hears of it.
    """

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message[:FAILED_CHARS_MAX])
        self.message = message[:FAILED_CHARS_MAX]
        self.is_retryable = retryable
