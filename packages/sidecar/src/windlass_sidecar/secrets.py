"""Keys that hosts hand over while the sidecar runs: masked wherever they turn up."""

from windlass.scribe import RedactingScribe
from windlass_harness.redact import SECRET_CHARS_MAX, SECRET_CHARS_MIN, Redactor
from windlass_sidecar.errors import invalid_params
from windlass_sidecar.limits import KEYS_MAX


class GrowingScribe(RedactingScribe):
    """Masks secrets in records, also such as become known later."""

    def __init__(self) -> None:
        super().__init__()
        self._known: set[str] = set()

    def learn(self, secret: str) -> None:
        """Mask a secret from now on; one that is too short to be one is left alone.

        Raises:
            RpcError: there are too many, or it is too long.
        """
        if secret in self._known or len(secret) < SECRET_CHARS_MIN:
            return
        if len(secret) > SECRET_CHARS_MAX:
            raise invalid_params(f"apiKey: at most {SECRET_CHARS_MAX:,} characters")
        if len(self._known) >= KEYS_MAX:
            raise invalid_params(f"apiKey: more than {KEYS_MAX} keys in one process; start another sidecar")
        self._known.add(secret)
        self.redactor = Redactor(secrets=tuple(self._known))
