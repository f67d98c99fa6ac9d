"""Packing: packed bytes are restored, and other bytes are refused."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.adapters.journals import codec as packing
from windlass.adapters.journals.codec import pack, unpack

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


def test_the_first_dictionary_never_changes() -> None:
    """Journals that were packed with it must stay readable."""
    assert zlib.crc32(packing.DICTIONARY_1) == CRC_OF_DICTIONARY_1


CRC_OF_DICTIONARY_1 = 2503203348
