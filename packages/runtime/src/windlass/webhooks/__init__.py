"""Ways in and out over HTTP: signed webhooks that start runs, channels, and signed notifications."""

from windlass.webhooks.channel import (
    Channel,
    ChannelAnswer,
    Delivered,
    Incoming,
    Message,
    Notice,
    Reply,
    RunEvent,
    SignedRequest,
)
from windlass.webhooks.inbound import PayloadRefused, Taken, Webhook, Webhooks
from windlass.webhooks.outbound import Endpoint, notify, targets_of
from windlass.webhooks.outbox import DELIVERY, Deliveries, Outbox
from windlass.webhooks.signatures import SCHEMES, Scheme, SignatureRefused
from windlass.webhooks.slack import SlackChannel

__all__ = [
    "DELIVERY",
    "SCHEMES",
    "Channel",
    "ChannelAnswer",
    "Delivered",
    "Deliveries",
    "Endpoint",
    "Incoming",
    "Message",
    "Notice",
    "Outbox",
    "PayloadRefused",
    "Reply",
    "RunEvent",
    "Scheme",
    "SignatureRefused",
    "SignedRequest",
    "SlackChannel",
    "Taken",
    "Webhook",
    "Webhooks",
    "notify",
    "targets_of",
]
