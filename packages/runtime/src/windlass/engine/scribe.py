"""Redaction and validation of records before they are appended."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from pydantic import JsonValue

from windlass.tools.calling import in_masking_thread
from windlass.tools.results import is_light
from windlass_harness.loop.events import Draft
from windlass_harness.redact import Redactor
from windlass_protocol import JsonObject


class RedactingScribe:
    """Masks secrets in records: registered ones, and strings that look like secrets."""

    def __init__(self, secrets: Iterable[str] = (), *, redactor: Redactor | None = None) -> None:
        self.redactor = redactor or Redactor(secrets=tuple(secrets))
        """The redactor, also used for live events before they are recorded."""
        self._turn = asyncio.Lock()

    def __call__(self, drafts: Sequence[Draft]) -> Sequence[Draft]:
        """Return drafts with secrets masked; the same objects if there are none."""
        texts: list[object] = []
        for draft in drafts:
            texts.append(draft.data)
            if draft.posts:
                texts += [post.body for post in draft.posts]
        return drafts if self.redactor.is_clean(texts) else [self._masked(draft) for draft in drafts]

    async def masked(self, data: JsonObject) -> JsonObject:
        """Return data with secrets masked; large data is masked in a thread, so the event loop goes on.

        A scribe has one value in the thread at a time: the scribes of a process take turns. The redactor
        remembers the result, so that a record made of it costs little on the event loop.
        """
        if is_light(data, self.redactor.is_settled):
            return self._hidden(data)
        async with self._turn:
            return await in_masking_thread(partial(self._hidden, data))

    def _masked(self, draft: Draft) -> Draft:
        posts = tuple(replace(post, body=self._hidden(post.body)) for post in draft.posts)
        return replace(draft, data=self._hidden(draft.data), posts=posts)

    def _hidden(self, data: dict[str, JsonValue]) -> dict[str, JsonValue]:
        return cast(dict[str, JsonValue], self.redactor.value(data))
