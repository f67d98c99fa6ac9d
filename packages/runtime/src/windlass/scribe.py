"""The one place where records are made fit to be kept: no secret gets past it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import cast

from pydantic import JsonValue

from windlass_harness.loop.drafts import Draft
from windlass_harness.redact import Redactor


class RedactingScribe:
    """Masks secrets in records: registered ones, and what looks like one."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self.redactor = Redactor(secrets=tuple(secrets))
        """What it masks with, for what is shown before it becomes a record."""

    def __call__(self, draft: Draft) -> Draft:
        """Return the draft as it may be kept; the same one if there is nothing to hide."""
        data = self.redactor.value(draft.data)
        return draft if data is draft.data else replace(draft, data=cast(dict[str, JsonValue], data))
