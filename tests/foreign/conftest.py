"""The stores on which the adapters of other frameworks are tried."""

from tests.contracts.conftest import play as play
from tests.contracts.conftest import postgres_stores as postgres_stores
