"""Every limit of MCP servers, with its unit."""

from typing import Final

SERVERS_MAX: Final = 32
SERVER_NAME_CHARS_MAX: Final = 32
TOOLS_PER_SERVER_MAX: Final = 256
PAGES_MAX: Final = 64
"""Pages of one listing of tools."""
DEFINITION_BYTES_MAX: Final = 131_072
"""All that a server says of one tool, as canonical JSON."""
DEFINITION_LEVELS_MAX: Final = 64
APPROVED_BYTES_MAX: Final = 64 * 1_048_576
"""The file of approved tools."""
MESSAGE_BYTES_MAX: Final = 8 * 1_048_576
"""One message of a server."""
MESSAGES_UNASKED_MAX: Final = 10_000
"""Notifications and requests of a server since we last asked it something."""
MESSAGES_WAITING_MAX: Final = 256
"""Messages to a server that does not read them."""
GARBAGE_LINES_MAX: Final = 1_000
"""Lines of one server that are no messages."""
INPUT_ROUNDS_MAX: Final = 8
"""Times that a server may ask for input in one call."""
ERROR_CHARS_MAX: Final = 500
"""What the model is told of an error, in the words of a server."""
START_TIMEOUT_MS: Final = 60_000
START_TIMEOUT_MS_MAX: Final = 600_000
LIST_TIMEOUT_MS: Final = 30_000
STOP_GRACE_S: Final = 2.0
"""For a process to end by itself after its input was closed, and again after it was told to end."""
RECONNECT_DELAY_S: Final = 1.0
"""After the second failure in a row; twice as long after each further one."""
RECONNECT_DELAY_S_MAX: Final = 60.0
