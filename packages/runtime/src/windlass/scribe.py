"""Redaction and validation of records before they are appended."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import cast

from pydantic import JsonValue

from windlass_harness.loop.events import Draft
from windlass_harness.redact import Redactor


class RedactingScribe:
    """Masks secrets in records: registered ones, and strings that look like secrets."""

    def __init__(self, secrets: Iterable[str] = (), *, redactor: Redactor | None = None) -> None:
        self.redactor = redactor or Redactor(secrets=tuple(secrets))
        """The redactor, also used for live events before they are recorded."""

    def __call__(self, drafts: Sequence[Draft]) -> Sequence[Draft]:
        """Return drafts with secrets masked; the same objects if there are none."""
        texts: list[object] = []
        for draft in drafts:
            texts.append(draft.data)
            if draft.posts:
                texts += [post.body for post in draft.posts]
        return drafts if self.redactor.is_clean(texts) else [self._masked(draft) for draft in drafts]

    def _masked(self, draft: Draft) -> Draft:
        posts = tuple(replace(post, body=self._hidden(post.body)) for post in draft.posts)
        return replace(draft, data=self._hidden(draft.data), posts=posts)

    def _hidden(self, data: dict[str, JsonValue]) -> dict[str, JsonValue]:
        return cast(dict[str, JsonValue], self.redactor.value(data))
