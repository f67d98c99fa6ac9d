"""Packing: packed bytes are restored, and other bytes are refused."""

import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json

from windlass.adapters.journals import codec as packing
from windlass.adapters.journals.codec import (
    READ_LEVELS_MAX,
    decode_records,
    encode_records,
    pack,
    unpack,
)
from windlass.errors import Rejected
from windlass_harness.record import Record
from windlass_protocol import JsonObject

AT = "2026-11-15T12:00:00.000Z"
RECORDS = b'[["step.started","2026-11-15T12:00:00.000Z",{"sequence":0,"turnId":"turn_0","stepIndex":7}]]' * 4


@given(st.binary(max_size=2_000))
def test_every_body_comes_back_as_it_was(body: bytes) -> None:
    assert unpack(pack(body)) == body


def test_records_become_a_fraction_of_their_size() -> None:
    assert len(pack(RECORDS)) < len(RECORDS) / 4


def test_packing_incompressible_bytes_adds_one_byte() -> None:
    noise = bytes(range(256)) * 2
    assert len(pack(noise[:200])) == 201


@pytest.mark.parametrize(
    "stored",
    [b"", b"\x07abc", pack(RECORDS)[:-1], pack(RECORDS) + b"x", b"\x01" + zlib.compress(RECORDS)],
    ids=["nothing", "unknown kind", "cut off", "too long", "another way to pack"],
)
def test_bytes_that_were_not_packed_are_refused(stored: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - every one of them is damage
        unpack(stored)


def test_a_body_that_unfolds_beyond_every_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_BODY_BYTES_MAX", len(RECORDS) - 1)
    with pytest.raises(ValueError, match="too large"):
        unpack(pack(RECORDS))


MANY_ROWS: JsonObject = {"rows": [[1] for _ in range(READ_LEVELS_MAX)]}


@pytest.mark.parametrize("inner", [{}, MANY_ROWS, {"row": [1]}], ids=["empty", "many", "a row"])
def test_what_is_written_can_be_read_back(inner: JsonObject) -> None:
    outcomes: set[bool] = set()
    data: JsonObject = dict(inner)
    for _ in range(READ_LEVELS_MAX + 10):
        data = JsonObject({"in": data})
        raw = json.dumps([["note.made", AT, data]], separators=(",", ":")).encode()
        try:
            from_json(raw)
            is_readable = True
        except ValueError:
            is_readable = False
        outcomes.add(is_readable)
        if not is_readable:
            with pytest.raises(Rejected, match="nested too deep"):
                encode_records([Record("note.made", AT, data)])
            continue
        body = encode_records([Record("note.made", AT, data)])
        assert unpack(body) == raw
        (record,) = decode_records(body, "s1", last_seq=1, last_position=1, epoch=1)
        assert record.data == data
    assert outcomes == {True, False}


def test_the_first_dictionary_never_changes() -> None:
    """Journals that were packed with it must stay readable."""
    assert zlib.crc32(packing.DICTIONARY_1) == CRC_OF_DICTIONARY_1


CRC_OF_DICTIONARY_1 = 2503203348
