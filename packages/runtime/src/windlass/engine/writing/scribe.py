"""Redaction and validation of records before they are appended."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from msgspec.structs import replace as replace_fields
from pydantic import JsonValue

from windlass.engine.writing.masking import is_clean_at_once, mask_object
from windlass.tools.calling import in_masking_thread
from windlass.tools.results import is_light
from windlass_harness.loop.events import Draft
from windlass_harness.redact import Redactor
from windlass_protocol import JsonObject
from windlass_protocol.bodies import data_of
from windlass_protocol.generated.records import ActionResult


class RedactingScribe:
    """Masks secrets in records: registered ones, and strings that look like secrets."""

    def __init__(self, secrets: Iterable[str] = (), *, redactor: Redactor | None = None) -> None:
        self.redactor = redactor or Redactor(secrets=tuple(secrets))
        """The redactor, also used for live events before they are recorded."""
        self._lock = asyncio.Lock()

    def __call__(self, drafts: Sequence[Draft]) -> Sequence[Draft]:
        """Return drafts with secrets masked; the same objects if there are none."""
        is_clean = self.redactor.is_clean(_contents(drafts))
        return drafts if is_clean else [self._mask_draft(draft) for draft in drafts]

    async def mask_drafts(self, drafts: Sequence[Draft], masked: JsonValue = None) -> Sequence[Draft]:
        """Return drafts with secrets masked; large ones are masked in a thread, as in `mask_body`.

        `masked` is the output of a call in which they were masked before: a large one is searched once.
        """
        contents = _contents(drafts, masked)
        if is_clean_at_once(self.redactor, contents):
            return drafts
        if is_light(contents, self.redactor.is_settled):
            return [self._mask_draft(draft) for draft in drafts]
        async with self._lock:
            return await in_masking_thread(partial(self, drafts))

    async def mask_body(self, data: JsonObject) -> JsonObject:
        """Return data with secrets masked; large data is masked in a thread, so the event loop goes on.

        A scribe has one value in the thread at a time: the scribes of a process take turns.
        """
        if is_clean_at_once(self.redactor, data):
            return data
        async with self._lock:
            return await mask_object(self.redactor, data)

    def _mask_draft(self, draft: Draft) -> Draft:
        posts = tuple(replace(post, body=self._mask_data(post.body)) for post in draft.posts)
        return replace(draft, data=self._mask_data(draft.data), posts=posts)

    def _mask_data(self, data: dict[str, JsonValue]) -> dict[str, JsonValue]:
        return cast(dict[str, JsonValue], self.redactor.value(data))


def _contents(drafts: Sequence[Draft], masked: JsonValue = None) -> list[JsonObject]:
    contents = [
        _without(masked, draft) if isinstance(masked, list | dict) else draft.data for draft in drafts
    ]
    for draft in drafts:
        if draft.posts:
            contents += [post.body for post in draft.posts]
    return contents


def _without(masked: JsonValue, draft: Draft) -> JsonObject:
    """Return the data of a draft, without an output that was masked before."""
    body = draft.body
    if not isinstance(body, ActionResult) or body.result.output is not masked:
        return draft.data
    return data_of(replace_fields(body, result=replace_fields(body.result, output=None)))
