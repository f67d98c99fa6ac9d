"""Every limit of the feed, with its unit."""

from typing import Final

EVENTS_PER_READ: Final = 256
"""Records that a reader takes at once, from the ring or from the journal."""
LIVE_PIECES_MAX: Final = 32_768
LIVE_CHARS_MAX: Final = 1_048_576
"""What is kept of an answer that is being written. A longer one goes on without deltas."""
TAILS_MAX: Final = 64
"""Ended answers whose last deltas wait for readers that are just waking up."""
CURSOR_CHARS_MAX: Final = 3_000
"""A cursor as text; the longest id of 512 characters fits."""
