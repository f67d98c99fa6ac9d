"""Feeds: subscribers are cursors over the journal, with live deltas added."""

from windlass.feed.bus import Feed
from windlass.feed.cursors import cursor_of, decode_cursor, encode_cursor
from windlass.feed.overflow import OverflowQueue

__all__ = ["Feed", "OverflowQueue", "cursor_of", "decode_cursor", "encode_cursor"]
