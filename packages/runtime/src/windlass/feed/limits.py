"""Every limit of the feed, with its unit."""

from typing import Final

EVENTS_PER_READ: Final = 256
"""Records that a reader takes at once, from the ring or from the journal."""
RING_BYTES_MAX: Final = 16 * 1_048_576
"""What a topic holds for readers that are just reading, about; whoever is slower reads the journal."""
TAIL_BYTES_MAX: Final = 8 * 1_048_576
"""What a topic holds of answers that have just ended, about."""
LIVE_BYTES_MAX: Final = 1_048_576
"""How far a call is, and all else of a step of which only the newest counts, about. More is not shown."""
LIVE_PIECES_MAX: Final = 32_768
LIVE_CHARS_MAX: Final = 1_048_576
"""What is kept of an answer that is being written. A longer one goes on without deltas."""
TAILS_MAX: Final = 64
"""Ended answers whose last deltas wait for readers that are just waking up."""
CURSOR_CHARS_MAX: Final = 3_000
"""A cursor as text; the longest id of 512 characters fits."""
