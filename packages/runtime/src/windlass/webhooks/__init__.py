"""Ways in and out over HTTP: signed webhooks that start runs, channels, and signed notifications."""

from windlass.ports.channel import (
    Answer,
    Channel,
    Delivered,
    Incoming,
    Message,
    Notice,
    Reply,
    SignedRequest,
)
from windlass.webhooks.inbound import PayloadRefused, Taken, Webhook, Webhooks
from windlass.webhooks.signatures import SCHEMES, Scheme, SignatureRefused

__all__ = [
    "SCHEMES",
    "Answer",
    "Channel",
    "Delivered",
    "Incoming",
    "Message",
    "Notice",
    "PayloadRefused",
    "Reply",
    "Scheme",
    "SignatureRefused",
    "SignedRequest",
    "Taken",
    "Webhook",
    "Webhooks",
]
