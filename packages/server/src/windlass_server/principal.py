"""Who asks: a user of a tenant."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal, get_args

from windlass_harness.ledger.proposals import BUILDER
from windlass_protocol import SourceKind, SourceRef

NAME_PATTERN: Final = r"^[^\x00-\x1f\x7f]{1,256}$"
"""The name of a tenant or a user."""
KEPT_USERS: Final = frozenset({BUILDER})
"""Names that no user has: what is theirs is made of what belongs to others."""

Role = Literal["approver", "improver"]
"""What a user may do beside minding their own sessions.

An approver sees and answers what the sessions of others in the tenant ask. An improver sees the proposals to
change its agents, and has them made, tried, approved and refused.
"""
ROLES: Final = frozenset[str](get_args(Role))


@dataclass(frozen=True, slots=True)
class Principal:
    """A user of a tenant; nothing of one tenant is ever seen by another."""

    tenant: str
    user: str
    is_operator: bool = False
    roles: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """A short text for this user alone."""
        return sha256(f"{len(self.tenant)}:{self.tenant}{self.user}".encode()).hexdigest()

    @property
    def source(self) -> SourceRef:
        """Where what they say comes from, for records."""
        return SourceRef(kind=SourceKind.USER, id=self.user)


LOCAL: Final = Principal("local", "local", is_operator=True, roles=ROLES)
"""Whoever is at this machine, when nobody is asked who they are."""
