"""Signatures of webhooks: how GitHub, Slack, Stripe and senders of Standard Webhooks sign a request.

All of them are HMAC-SHA256 over the body as it was sent, mostly with the time of sending before it. They
differ in headers, encodings and separators, so a scheme is data. Several secrets may be valid at once, for
rotation.
"""

import hmac
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Final, Literal

from windlass.refusals import bad_setup
from windlass_protocol.frozen import sealed

WINDOW_S: Final = 300
"""How far the time in a signed request may be from the clock of this machine, seconds."""
SIGNATURES_MAX: Final = 16
"""Signatures in one header that are compared; more are of no sender."""
SECRET_BYTES_MIN: Final = 16
"""A shorter secret can be guessed from one signed request. Slack issues 32 characters, Stripe 38, senders of
Standard Webhooks 24 bytes or more; the owner of a repository chooses that of GitHub."""
_DIGITS_MAX: Final = 12
"""Digits of a time in seconds that are read."""
_WHSEC: Final = "whsec_"

Reason = Literal["webhook_unsigned", "webhook_signature", "webhook_stale"]
"""The stable code of a refusal: no usable signature, a wrong one, or a time outside the window."""


class SignatureRefused(Exception):
    """A request that is not signed as its scheme says."""

    def __init__(self, code: Reason, message: str) -> None:
        super().__init__(message)
        self.code: Final = code
        self.message: Final = message


@sealed
class Scheme:
    """How a sender signs its requests, and where it tells the id and the kind of a delivery."""

    signature_header: str
    """The header with the signature, in small letters."""
    prefix: str = ""
    """The text before each signature."""
    separator: str = ""
    """The text between several signatures in the header; empty if there is one."""
    encoding: Literal["hex", "base64"] = "hex"
    content: str = "{body}"
    """The signed text: `{body}`, with `{timestamp}` and `{id}` where the sender signs them."""
    timestamp_header: str | None = None
    """The header with the time of sending in seconds since 1970."""
    timestamp_prefix: str | None = None
    """The text before the time, for a time among the signatures."""
    id_header: str | None = None
    """The header with the id of the delivery."""
    id_path: str | None = None
    """The place of the id in the body, for senders without such a header."""
    event_header: str | None = None
    """The header with the kind of the event."""
    event_path: str | None = None
    """The place of the kind in the body; it follows that of the header after a dot."""
    has_base64_secrets: bool = False
    """Whether secrets are base64, with or without `whsec_` before it."""

    def check(self, headers: Mapping[str, str], body: bytes, secrets: Sequence[str], *, now_s: float) -> None:
        """Check the signature of a request, in a time that does not depend on where a wrong one differs.

        Raises:
            SignatureRefused: the signature or the time is missing, wrong, or outside the window.
        """
        header = headers.get(self.signature_header, "")
        parts = header.split(self.separator) if self.separator else [header]
        signature_parts = [part.strip() for part in parts[: SIGNATURES_MAX + 1]]
        signatures = [
            part.removeprefix(self.prefix) for part in signature_parts if part.startswith(self.prefix)
        ]
        stamp = self._stamp(headers, signature_parts)
        if not header or not signatures or stamp is None:
            raise SignatureRefused("webhook_unsigned", f"no signature in the header {self.signature_header}")
        content = self.signed(headers.get(self.id_header or "", ""), stamp, body)
        is_genuine = False
        for secret in secrets:
            digest = self.signature(content, secret).encode()
            for signature in signatures[:SIGNATURES_MAX]:
                is_genuine |= hmac.compare_digest(digest, signature.encode("utf-8", "replace"))
        if not is_genuine:
            raise SignatureRefused("webhook_signature", "the signature does not fit the body and the secret")
        # The time is part of what was signed: it is looked at when it is known to be the sender's.
        if self.is_timed and abs(now_s - int(stamp)) > WINDOW_S:
            raise SignatureRefused(
                "webhook_stale",
                f"the request was not sent within {WINDOW_S} seconds of now; check the clocks",
            )

    def signed(self, delivery_id: str, stamp: str, body: bytes) -> bytes:
        """Return the bytes that are signed."""
        before, _, after = self.content.partition("{body}")
        texts = [text.replace("{timestamp}", stamp).replace("{id}", delivery_id) for text in (before, after)]
        return texts[0].encode() + body + texts[1].encode()

    def signature(self, signed: bytes, secret: str) -> str:
        """Return the signature of some bytes, without its prefix."""
        digest = hmac.new(self._key(secret), signed, sha256)
        return digest.hexdigest() if self.encoding == "hex" else b64encode(digest.digest()).decode()

    @property
    def is_timed(self) -> bool:
        """Whether the time of sending is signed, so that an old request can be told."""
        return "{timestamp}" in self.content

    def secrets(
        self, names: Sequence[str], variable: Callable[[str], str | None], *, user: str
    ) -> tuple[str, ...]:
        """Return the secrets of environment variables; `user` is the webhook or endpoint that needs them.

        Raises:
            Rejected: a variable is not set, or its secret cannot be used.
        """
        values = {name: variable(name) for name in names}
        for name, secret in values.items():
            problem = self._problem(secret)
            if problem is not None:
                raise bad_setup(f"{user} needs the environment variable {name} with its secret: {problem}")
        return tuple(secret for secret in values.values() if secret)

    def _problem(self, secret: str | None) -> str | None:
        if secret is None:
            return "it is not set"
        if not secret:
            return "it is empty"
        try:
            size = len(self._key(secret))
        except Base64Error:
            return "it is not base64"
        if size < SECRET_BYTES_MIN:
            return (
                f"it has {size} bytes, and a secret has {SECRET_BYTES_MIN} or more, such as that of "
                "`openssl rand -base64 32`; change it at the sender too"
            )
        return None

    def _key(self, secret: str) -> bytes:
        if not self.has_base64_secrets:
            return secret.encode()
        text = secret.removeprefix(_WHSEC)
        return b64decode(text + "=" * (-len(text) % 4), validate=True)

    def _stamp(self, headers: Mapping[str, str], signature_parts: Sequence[str]) -> str | None:
        """Return the time as it was sent; empty if the scheme has none, None if it is missing."""
        if not self.is_timed:
            return ""
        if self.timestamp_header is not None:
            stamp = headers.get(self.timestamp_header, "")
        else:
            prefix = self.timestamp_prefix or ""
            stamp = next(
                (part.removeprefix(prefix) for part in signature_parts if part.startswith(prefix)), ""
            )
        return stamp if stamp.isascii() and stamp.isdigit() and len(stamp) <= _DIGITS_MAX else None


GITHUB: Final = Scheme(
    "x-hub-signature-256",
    prefix="sha256=",
    id_header="x-github-delivery",
    event_header="x-github-event",
    event_path="action",
)
"""GitHub. Its signature covers neither the time nor the id of the delivery."""
SLACK: Final = Scheme(
    "x-slack-signature",
    prefix="v0=",
    content="v0:{timestamp}:{body}",
    timestamp_header="x-slack-request-timestamp",
    id_path="event_id",
    event_path="event.type",
)
"""Slack: Events API and interactions."""
STRIPE: Final = Scheme(
    "stripe-signature",
    prefix="v1=",
    separator=",",
    content="{timestamp}.{body}",
    timestamp_prefix="t=",
    id_path="id",
    event_path="type",
)
STANDARD: Final = Scheme(
    "webhook-signature",
    prefix="v1,",
    separator=" ",
    encoding="base64",
    content="{id}.{timestamp}.{body}",
    timestamp_header="webhook-timestamp",
    id_header="webhook-id",
    event_path="type",
    has_base64_secrets=True,
)
"""Standard Webhooks, the scheme of our own notifications too."""
SCHEMES: Final = {"github": GITHUB, "slack": SLACK, "stripe": STRIPE, "standard": STANDARD}
"""The schemes of signatures by name."""
