"""Values of any size in the documents of a store."""

import asyncio

import pytest
from pydantic import JsonValue
from tests.contracts.stores import AnyStore, Play

from windlass.errors import Conflict
from windlass.foreign.values import Values, key_of
from windlass.limits import DOCUMENT_BYTES_MAX

LARGE: JsonValue = {"text": "ü\u2028" * 100_000, "more": [None, 1.5, True]}
KIND = "kind"


async def names(store: AnyStore, kind: str) -> list[str]:
    return [document.name for document in await store.documents(kind)]


@pytest.mark.parametrize("value", [{"a": [1]}, LARGE, "x" * (DOCUMENT_BYTES_MAX - 1_026), []])
def test_a_value_of_any_size_is_read_as_it_was_written(play: Play, value: JsonValue) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        name = key_of("thread", "")
        await Values(store, KIND).put(name, value)
        assert await Values(other, KIND).get(name) == value
        assert [found async for found in Values(other, KIND).scan("")] == [(name, value)]
        assert await Values(other, KIND).first("") == value

    play(story)


def test_the_parts_of_a_value_go_with_it(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        values = Values(store, KIND)
        await values.put("a1", LARGE)
        await values.put("b1", LARGE)
        assert len(await names(store, f"{KIND}-part")) == 6
        await values.put("a1", "small")
        assert len(await names(store, f"{KIND}-part")) == 3
        await Values(other, KIND).drop("b")
        assert await names(store, f"{KIND}-part") == []
        assert [found async for found in values.scan("")] == [("a1", "small")]

    play(story)


def test_a_scan_and_a_drop_keep_to_their_prefix_over_pages(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        values = Values(store, KIND)
        for number in range(60):
            await values.add(f"a{number:03}", number)
            await values.add(f"b{number:03}", number)
        with pytest.raises(Conflict):
            await Values(other, KIND).add("a000", 1)
        assert [value async for _, value in values.scan("b")] == list(range(60))
        await values.drop("a")
        assert [value async for _, value in values.scan("")] == list(range(60))
        assert await values.first("a") is None

    play(story)


def test_no_change_of_two_writers_is_lost(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        def add_to(stored: JsonValue) -> JsonValue:
            return [*stored, len(stored)] if isinstance(stored, list) else [0]

        writers = [Values(each, KIND).change("name", add_to) for each in (store, other) * 4]
        await asyncio.gather(*writers)
        assert await Values(store, KIND).get("name") == list(range(8))

    play(story)


def test_names_are_of_any_text() -> None:
    texts = ["", "/", "a/b", "ü", "\ud83d", "a" * 10_000]
    assert len({key_of(text) for text in texts}) == len(texts)
    assert key_of("a", "b") == key_of("a") + key_of("b")
