"""Packages: where the definition of an agent comes from."""

from collections.abc import Awaitable
from typing import Protocol

from windlass_protocol import RuntimePackage


class PackageResolver(Protocol):
    """Knows packages by their ids."""

    def resolve(self, package_id: str) -> RuntimePackage | Awaitable[RuntimePackage]:
        """Return a package.

        Raises:
            Rejected: there is none of this id.
        """
        ...
