"""A session as bytes: what is kept between two steps."""

from typing import Final

from windlass.limits import SNAPSHOT_BYTES_MAX
from windlass_protocol import CodecLimits, HarnessSession, decode, encode
from windlass_protocol.limits import DEPTH_CEILING

_LIMITS: Final = CodecLimits(message_bytes_max=SNAPSHOT_BYTES_MAX, depth_max=DEPTH_CEILING)


def write_session(session: HarnessSession) -> bytes:
    """Return a session as JSON.

    It holds what was said, arguments of calls that wait, and the token to continue it: keep it as a secret.

    Raises:
        CodecError: it is larger than `SNAPSHOT_BYTES_MAX`.
    """
    return encode(session, _LIMITS)


def read_session(raw: bytes) -> HarnessSession:
    """Return the session that was written.

    Raises:
        CodecError: the bytes are no session.
    """
    return decode(HarnessSession, raw, limits=_LIMITS)
