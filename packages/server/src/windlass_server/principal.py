"""Who asks: a user of a tenant."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from windlass_protocol import SourceKind, SourceRef

NAME_PATTERN: Final = r"^[^\x00-\x1f\x7f]{1,256}$"
"""The name of a tenant or a user."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A user of a tenant; nothing of one tenant is ever seen by another."""

    tenant: str
    user: str
    is_operator: bool = False

    @property
    def key(self) -> str:
        """A short text for this user alone."""
        return sha256(f"{len(self.tenant)}:{self.tenant}{self.user}".encode()).hexdigest()

    @property
    def source(self) -> SourceRef:
        """Where what they say comes from, for records."""
        return SourceRef(kind=SourceKind.USER, id=self.user)


LOCAL: Final = Principal("local", "local", is_operator=True)
"""Whoever is at this machine, when nobody is asked who they are."""
