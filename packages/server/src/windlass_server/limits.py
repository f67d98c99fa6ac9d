"""Every limit of the server, with its unit, and how requests are counted."""

from collections import OrderedDict
from dataclasses import dataclass
from math import ceil
from typing import Final

from windlass.parts import Clock
from windlass_protocol.limits import MESSAGE_BYTES_MAX

BODY_BYTES_MAX: Final = MESSAGE_BYTES_MAX
"""The body of one request."""
BODY_DISCARD_BYTES_MAX: Final = 8 * 1_048_576
"""What is read and thrown away of a body that is too large, so that its sender hears why."""
BODY_VALUES_MAX: Final = 20_000
"""Values in the body of one request, counted by its commas and opening brackets."""
BODY_S_MAX: Final = 10.0
"""How long a client may take to send a body, seconds."""
HEADER_BYTES_MAX: Final = 16_384
"""All headers of one request together."""
HEAD_S_MAX: Final = 10.0
"""How long a client may take to send the address and the headers of a request, seconds."""
TARGET_BYTES_MAX: Final = 8_192
"""Path and query of one request."""
KEY_CHARS_MAX: Final = 255
"""An idempotency key."""
REQUESTS_MAX: Final = 256
"""Requests that are answered at the same time; open streams do not count."""
REQUESTS_PER_PRINCIPAL_MAX: Final = REQUESTS_MAX // 4
"""Of those, requests of one principal; its others wait for their turn."""
WAITING_MAX: Final = 4_096
"""Requests that wait for their turn."""
WAIT_S_MAX: Final = 5.0
"""How long a request waits for its turn before it is refused, seconds."""
STREAMS_MAX: Final = 20_000
"""Open streams of the whole server."""
STREAMS_PER_PRINCIPAL_MAX: Final = 2_000
REQUESTS_PER_S: Final = 50.0
"""What one principal may ask for on average, each second."""
REQUESTS_BURST: Final = 200
"""What one principal may ask for at once after a pause."""
FAILURES_PER_S: Final = 1.0
"""Requests without a valid key that one address may make on average, each second."""
FAILURES_BURST: Final = 60
METERS_MAX: Final = 10_000
"""Principals and addresses whose requests are counted at the same time; the quietest is forgotten."""
TENANTS_OPEN_MAX: Final = 256
"""Stores that are open at the same time."""
SESSIONS_EMPTY_MAX: Final = 1_000
"""Sessions of one user that nobody has said anything in."""
KEYS_KEPT_MAX: Final = 100_000
"""Newest idempotency keys of a tenant of which is known what was asked with them."""
HEARTBEAT_S: Final = 15.0
"""Silence on a stream before something is sent to keep it open, seconds."""
BATCH_BYTES: Final = 65_536
"""Events that are there are sent together until they are so many bytes."""
SEND_S_MAX: Final = 30.0
"""How long a reader may refuse what is sent to it before it is cut off, seconds."""
RECONNECT_MS: Final = 1_000
"""How long a client should wait before it comes back, milliseconds."""
RETRY_MS: Final = 1_000
"""When to come back, if nobody knows better, milliseconds."""
PAGE_MAX: Final = 200
"""Items on one page of a list."""
PAGE_DEFAULT: Final = 50
FRAMES_MAX: Final = 1_024
"""Frames that are kept for readers of the same event."""
FRAMES_BYTES_MAX: Final = 8 * 1_048_576
"""All of those together; one that is larger than a batch is not kept."""
OWNERS_KNOWN_MAX: Final = 4_096
"""Sessions whose owner a feed over all sessions remembers."""
OWNED_READ_AHEAD_MAX: Final = 256
"""Events that such a feed reads ahead of its reader."""
TYPES_MAX: Final = 64
"""Types of events that such a feed can be asked for."""
REPLAY_PAUSE_S: Final = 5.0
"""The longest pause of a run that is shown again, if nothing else is asked for, seconds."""
REPLAY_PAUSE_S_MAX: Final = 60.0
"""The longest that can be asked for, seconds."""
WORKS_MAX: Final = 4
"""Proposals of a tenant that are made or tried at the same time."""
WORKS_KEPT_MAX: Final = 100
"""Of those and of the ones that failed, how many are remembered."""
THREAD_MESSAGES_MAX: Final = 4_000
"""Messages that a chat client sends along; only the last of them is taken."""
THREAD_ANSWERS_MAX: Final = 64
"""Answers in one request of a chat client."""
THREAD_REWINDS_MAX: Final = 64
"""How often the answers of one chat can be asked for anew."""
THREAD_GAP_MAX: Final = 4
"""Sessions of one chat in a row that were deleted, behind which later ones are still found."""
THREAD_RUNS_SEARCHED_MAX: Final = 5
"""Newest runs of a session among which the one is looked for that asked what a chat client answers."""
DRAIN_S: Final = 5
"""How long a server that was told to end waits for requests under way, seconds."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class Meter:
    """Counts requests by who makes them: so many a second, and so many at once."""

    def __init__(self, clock: Clock, *, per_s: float, burst: int, keys_max: int = METERS_MAX) -> None:
        self._clock = clock
        self._per_s = per_s
        self._burst = burst
        self._keys_max = keys_max
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, key: str) -> int:
        """Count a request; return 0, or the seconds after which to try again."""
        bucket = self._filled(key)
        if bucket.tokens >= 1:
            bucket.tokens -= 1
            return 0
        return max(1, ceil((1 - bucket.tokens) / self._per_s))

    def _filled(self, key: str) -> _Bucket:
        now = self._clock.monotonic()
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(float(self._burst), now)
            if len(self._buckets) > self._keys_max:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(key)
        bucket.tokens = min(float(self._burst), bucket.tokens + (now - bucket.at) * self._per_s)
        bucket.at = now
        return bucket
