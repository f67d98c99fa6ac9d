"""Every limit of the sidecar, with its unit."""

from typing import Final

from windlass_protocol import CodecLimits

FRAME_BYTES_MAX: Final = 8 * 1_048_576
"""One line, in either direction; what is longer is refused and never kept."""
FRAME_LEVELS_MAX: Final = 64
"""Objects and lists inside one another in one line."""
FRAME_LIMITS: Final = CodecLimits(message_bytes_max=FRAME_BYTES_MAX, depth_max=FRAME_LEVELS_MAX)
LIGHT_FRAME_BYTES_MAX: Final = 65_536
"""A longer line is read in a thread, so that what goes on is not held up by it."""
ID_CHARS_MAX: Final = 65_536
"""The id of a request: it has to fit the answer too."""
HALF_FRAME_S: Final = 9.0
"""How long a line may stay without its end while nothing comes; then it is given up."""
BATCH_ITEMS_MAX: Final = 100
REQUESTS_MAX: Final = 256
"""Requests that are being answered at the same time; further ones are told that there are too many."""
HOST_CALLS_MAX: Final = 1_024
"""Requests to the host that wait for an answer."""
READ_BYTES: Final = 65_536
READS_WAITING_MAX: Final = 4
"""Pieces of stdin that wait to be looked at; then nothing more is read."""
SEND_BYTES_MAX: Final = 4 * 1_048_576
"""Frames that wait for a host that does not read; then nothing more is taken from it."""
LOG_BYTES_MAX: Final = 1_048_576
"""Lines that wait for a host that does not read stderr; further ones are dropped."""
LOG_LINE_BYTES_MAX: Final = 16_384
ERROR_CHARS_MAX: Final = 1_024
"""The message of an error, by the schema."""
STREAMS_MAX: Final = 128
"""Streams at the same time."""
MESSAGES_MAX: Final = 10_000
"""Messages of one stream."""
TOOLS_MAX: Final = 256
"""Tools of one stream."""
KEYS_MAX: Final = 512
"""Keys of providers that are masked wherever they turn up; streams with further ones are refused."""
ASKED_MAX: Final = 3
"""How often the host is asked the same, if its answers do not fit."""
SESSIONS_LISTED_MAX: Final = 1_000
DRAIN_S: Final = 10.0
"""How long `system.shutdown` lets requests and streams go on."""
EOF_DRAIN_S: Final = 1.0
"""How long requests go on when the host has closed its end."""
CLOSE_S: Final = 3.0
"""How long the runtime may take to close."""
CLOSE_NOW_S: Final = 0.5
"""How long everything may take to end when the host is gone, or wants it now."""
FLUSH_S: Final = 1.0
PRINTED_S: Final = 0.25
"""How long the last words of tools and logs may take to get out."""
PARENT_POLL_S: Final = 0.25
HEALTH_TIMEOUT_S: Final = 1.0
"""How long the store may take to answer a ping."""
