"""Every limit of the client, with its unit."""

from typing import Final

from windlass_harness.retry import RetryPolicy

ANSWER_BYTES_MAX: Final = 64 * 1_048_576
"""One answer of a server: pages are larger than a message."""
ANSWER_LEVELS_MAX: Final = 96
PROBLEM_BYTES_MAX: Final = 65_536
"""What is read of an answer that refuses."""
EVENT_BYTES_MAX: Final = 2 * 1_048_576
"""One event of a feed, with what stands around it."""
LINE_CHARS_MAX: Final = 4 * 1_048_576
"""One line of an export."""
URL_CHARS_MAX: Final = 2_048
KEY_CHARS_MAX: Final = 16_384
"""An API key or a token."""
KEYS_KEPT_MAX: Final = 16
"""Keys that were sent, the last ones: they are taken out of what a server says."""
MASKED_CHARS_MIN: Final = 6
"""A shorter key is in any text."""
ADDRESSES_WARNED_MAX: Final = 1_000
"""Addresses of which the log has said that their keys can be read on the way."""
ID_CHARS_MAX: Final = 512
CONNECT_S: Final = 10.0
"""How long it may take to reach a server, seconds."""
ANSWER_S: Final = 60.0
"""How long a server may be silent before it has answered, seconds."""
IDLE_S: Final = 45.0
"""How long a feed may be silent, seconds; a server says within a third of it that it is alive."""
RETRY_WAIT_MS_MAX: Final = 60_000
"""A server that wants to be left alone for longer is not waited for, milliseconds."""
GAPS_MAX: Final = 3
"""A record that is missing may have been cut off; one that is missing so often in a row is not there."""
IDLE_CONNECTIONS_MAX: Final = 20
"""Connections that are kept for the next request."""

REQUESTS: Final = RetryPolicy(max_attempts=5, base_delay_ms=250, max_delay_ms=5_000)
"""How often a request is sent, and how the waits between grow."""
FEEDS: Final = RetryPolicy(max_attempts=5, base_delay_ms=250, max_delay_ms=15_000)
"""The same for the connections of a feed; one that was open once is opened again for as long as it takes."""
