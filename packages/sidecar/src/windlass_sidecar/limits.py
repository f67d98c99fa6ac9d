"""The limits of the sidecar, with their units."""

from typing import Final

from windlass_protocol import CodecLimits

FRAME_BYTES_MAX: Final = 8 * 1_048_576
"""One line, in either direction; a longer one is refused and not buffered."""
FRAME_LEVELS_MAX: Final = 64
"""Nesting of objects and lists in one line."""
FRAME_LIMITS: Final = CodecLimits(message_bytes_max=FRAME_BYTES_MAX, depth_max=FRAME_LEVELS_MAX)
LIGHT_FRAME_BYTES_MAX: Final = 65_536
"""A longer line is parsed in a thread, so that it does not block the event loop."""
ID_CHARS_MAX: Final = 65_536
"""The id of a request: it has to fit into the answer."""
NAME_CHARS_MAX: Final = 512
"""The id of a session, stream, user, chat or tool."""
HALF_FRAME_S: Final = 9.0
"""How long an unfinished line is kept while nothing is received."""
BATCH_ITEMS_MAX: Final = 100
REQUESTS_MAX: Final = 256
"""Requests that are being answered at the same time; further ones are refused."""
HOST_CALLS_MAX: Final = 1_024
"""Open requests to the host."""
READ_BYTES: Final = 65_536
READS_WAITING_MAX: Final = 4
"""Pieces of stdin that wait to be parsed; while there are more, stdin is not read."""
SEND_BYTES_MAX: Final = 4 * 1_048_576
"""Frames that wait for a host that does not read; while there are more, its requests are not read."""
LOG_BYTES_MAX: Final = 1_048_576
"""Log lines that wait for a host that does not read stderr; further ones are dropped."""
LOG_LINE_BYTES_MAX: Final = 16_384
ERROR_CHARS_MAX: Final = 1_024
"""The message of an error, as in the schema."""
STREAMS_MAX: Final = 128
"""Streams at the same time."""
MESSAGES_MAX: Final = 10_000
"""Messages of one stream."""
TOOLS_MAX: Final = 256
"""Tools of one stream."""
KEYS_MAX: Final = 512
"""Keys of providers that are masked; streams with further ones are refused."""
ASKED_MAX: Final = 3
"""How often `host.input.request` is repeated if the answers are refused."""
SESSIONS_LISTED_MAX: Final = 1_000
PATTERNS_MAX: Final = 256
"""Rules of the host in one `harness.classifyShell`."""
FEATURES_MAX: Final = 64
"""Features that a host names."""
DRAIN_S: Final = 10.0
"""How long `system.shutdown` waits for requests and streams."""
EOF_DRAIN_S: Final = 1.0
"""How long requests and streams are waited for after the end of stdin."""
CLOSE_S: Final = 1.0
"""How long the runtime may take to close after its drain."""
CLOSE_NOW_S: Final = 0.5
"""How long closing may take when the host is gone, or asked for `system.shutdown_now`."""
FLUSH_S: Final = 1.0
PRINTED_S: Final = 0.25
"""How long the last output of tools and logs may take to be written."""
PARENT_POLL_S: Final = 0.25
HEALTH_TIMEOUT_S: Final = 1.0
"""How long the store may take to answer `system.ping`."""
