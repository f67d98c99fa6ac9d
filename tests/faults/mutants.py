"""Broken versions of the engine that the tests must find."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from windlass.sql import writes as sql_writes
from windlass_harness.loop import advance
from windlass_protocol import EffectClass


@contextmanager
def mutated(name: str) -> Generator[None]:
    """Break the engine in this process; no name breaks nothing."""
    match name:
        case "blind":
            # An interrupted effect is always repeated.
            recover: Any = vars(advance)["_recover"]

            def blindly(state: Any, call: Any, *rest: Any) -> None:
                recover(state, replace(call, effect=EffectClass.IDEMPOTENT), *rest)

            with patch.object(advance, "_recover", blindly):
                yield
        case "fenceless":
            # The store does not check the claim of an append.
            def anything(row: Any, batch: Any) -> None:
                return

            with patch.object(sql_writes, "check_fence", anything):
                yield
        case _:
            yield
