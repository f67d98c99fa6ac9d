"""Line framing: cut anywhere, bounded, and recovered after a bad line."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass_sidecar.stdio import Frame, LineReader, Refused


def frames(reader: LineReader, *pieces: bytes) -> list[Frame]:
    return [frame for piece in pieces for frame in reader.feed(piece)]


@given(st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=8), st.data())
def test_lines_are_the_same_wherever_the_pieces_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(line + b"\n" for line in lines)
    reader, found = LineReader(1_000), list[Frame]()
    at = 0
    while at < len(whole):
        size = data.draw(st.integers(1, 7))
        found += reader.feed(whole[at : at + size])
        at += size
    assert found == [line for line in lines if line.strip(b" \t\r")]
    assert not reader.is_half


@pytest.mark.promise("L1")
@pytest.mark.parametrize(("size", "is_taken"), [(10, True), (11, False), (10_000, False)])
def test_a_line_at_the_limit_is_taken_and_a_longer_one_refused_once(size: int, is_taken: bool) -> None:
    reader = LineReader(10)
    line = b"x" * size
    found = frames(reader, *(line[at : at + 3] for at in range(0, size, 3)), b"\nnext\n")
    assert found[-1] == b"next"
    if is_taken:
        assert found == [line, b"next"]
    else:
        assert found == [Refused("frame too long: limit 10 bytes"), b"next"]


def test_a_line_that_is_too_long_is_refused_before_it_ends() -> None:
    reader = LineReader(4)
    assert frames(reader, b"12345") == [Refused("frame too long: limit 4 bytes")]
    assert not reader.is_half
    assert frames(reader, b"more", b"more\n", b"ok\n") == [b"ok"]


def test_the_last_line_needs_no_newline_and_empty_input_is_no_line() -> None:
    reader = LineReader()
    assert frames(reader, b"a\n\n \nlast") == [b"a"]
    assert reader.is_half
    assert [*reader.end()] == [b"last"]
    assert [*reader.end()] == []


def test_an_abandoned_partial_line_is_dropped() -> None:
    reader = LineReader()
    assert frames(reader, b'{"half') == []
    refused = reader.give_up()
    assert "6 bytes" in refused.reason
    assert frames(reader, b"whole\n") == [b"whole"]


def test_random_bytes_never_raise() -> None:
    reader = LineReader(100)
    for frame in reader.feed(os.urandom(100_000)):
        assert isinstance(frame, bytes | Refused)
