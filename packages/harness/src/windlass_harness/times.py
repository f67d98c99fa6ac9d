"""Wire timestamps and the milliseconds between them."""

from datetime import UTC, datetime, timedelta

_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime.fromtimestamp(0, UTC)


def elapsed_ms(start: str, end: str) -> int:
    """Return the whole milliseconds between two timestamps; 0 if they are reversed."""
    return max(0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)) // _MILLISECOND)


def ms_of(at: str) -> int:
    """Return a timestamp as milliseconds since 1970."""
    return int(datetime.fromisoformat(at).timestamp() * 1000)


def stamp_of(ms: int) -> str:
    """Return milliseconds since 1970 as a wire timestamp."""
    at = datetime.fromtimestamp(ms // 1000, UTC) + timedelta(milliseconds=ms % 1000)
    return at.isoformat(timespec="milliseconds")[:23] + "Z"


def ceil_ms_of(at: str) -> int:
    """Return a time as milliseconds since 1970, rounded up: what waits until then is not early."""
    return -((_EPOCH - datetime.fromisoformat(at)) // _MILLISECOND)
