"""Text in the form in which it is searched: the same in every database.

Databases disagree about upper and lower case beyond ASCII, so text is folded here, when it is stored, and a
search compares folded text alone.
"""

import unicodedata
from collections.abc import Iterator

from pydantic import JsonValue

from windlass.adapters.storage.refusals import rejected
from windlass.limits import STORAGE_SEARCH_CHARS_MAX, STORAGE_SEARCH_WORDS_MAX, STORAGE_SEARCHED_CHARS_MAX


def fold(text: str) -> str:
    """Return text as it is searched, cut at its limit."""
    head = text[:STORAGE_SEARCHED_CHARS_MAX]
    if head.isascii():
        folded = head.lower()
    else:
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", head).casefold())
    # No database keeps a NUL inside a text as it is.
    return folded[:STORAGE_SEARCHED_CHARS_MAX].replace("\0", " ")


def searched_words(text: str) -> tuple[str, ...]:
    """Return the folded words that somebody searches for.

    Raises:
        Rejected: there are none, or more than the limit.
    """
    if len(text) > STORAGE_SEARCH_CHARS_MAX:
        raise rejected(f"search too long: {len(text):,} characters, limit {STORAGE_SEARCH_CHARS_MAX:,}")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise rejected("search with a lone surrogate: expected text")
    words = tuple(dict.fromkeys(fold(text).split()))
    if not words:
        raise rejected("empty search: expected at least one word")
    if len(words) > STORAGE_SEARCH_WORDS_MAX:
        raise rejected(f"search too long: {len(words):,} words, limit {STORAGE_SEARCH_WORDS_MAX:,}")
    return words


def texts_in(value: JsonValue) -> Iterator[str]:
    """Yield every text inside a JSON value, in reading order; not names of fields."""
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from texts_in(item)
        case dict():
            for item in value.values():
                yield from texts_in(item)
        case _:
            pass
