"""Random lines, and an independent rule for the answer to each.

    python -m tests.sidecar.fuzz 1000000 [SEED]

It prints one line of JSON and exits with 1 if a line was answered wrongly. The judge shares no code with the
sidecar: it reads with the parser of the standard library, made strict by hand.
"""

import asyncio
import json
import logging
import random
import sys
from collections.abc import AsyncIterator
from math import isfinite
from typing import Any, Final

from tests.sidecar.frames import read
from tests.sidecar.malformed import cases

from windlass_protocol import JsonObject, JsonValue
from windlass_sidecar.rpc import Method, Params, Peer, method
from windlass_sidecar.stdio import Frame

PARSE, REQUEST, METHOD, PARAMS, OK = -32700, -32600, -32601, -32602, 0
DEPTH_MAX: Final = 64
BATCH_MAX: Final = 100
INTEGER_MAX: Final = 2**53 - 1
NUMBER_CHARS_MAX: Final = 128
LINE_BYTES_MAX: Final = 4_096
"""Longer lines are not made longer still."""
Answer = tuple[int, Any]


class EchoParams(Params):
    """Parameters of the one method."""

    x: int | None = None


async def echo(_: None, params: EchoParams) -> JsonValue:
    return params.x


CATALOGUE: Final[dict[str, Method[None]]] = {"echo": method("echo", EchoParams, run=echo)}


class Nowhere:
    """A wire that nothing comes from."""

    async def frames(self) -> AsyncIterator[Frame]:
        for frame in ():
            yield frame

    async def send(self, body: bytes) -> None:
        raise AssertionError("no request is expected")

    async def room(self) -> None:
        pass


class Unreadable(Exception):
    """A line that is no strict JSON."""


def judge(line: bytes) -> list[Answer]:
    """The codes and ids that a line is answered with."""
    try:
        value = strict(line)
    except (Unreadable, ValueError, RecursionError):
        return [(PARSE, None)]
    if not isinstance(value, list):
        return _judged(value)
    if not 0 < len(value) <= BATCH_MAX:
        return [(REQUEST, None)]
    return [answer for item in value for answer in _judged(item)]


def _judged(item: JsonValue) -> list[Answer]:
    if not isinstance(item, dict):
        return [(REQUEST, None)]
    message: dict[str, Any] = {**item}
    if "method" not in message and ("result" in message or "error" in message):
        return []
    found = message.get("id")
    is_id = isinstance(found, str | int) and not isinstance(found, bool)
    known = found if is_id else None
    # An integer may be written with a point.
    has_id = "id" in message and (is_id or found is None or (isinstance(found, float) and found.is_integer()))
    if isinstance(found, float) and found.is_integer() and not abs(found) <= INTEGER_MAX:
        has_id = False
    is_request = (
        message.get("jsonrpc") == "2.0"
        and isinstance(message.get("method"), str)
        and message["method"]
        and isinstance(message.get("params"), dict | list | None)
        and not message.keys() - {"jsonrpc", "id", "method", "params"}
        and (has_id or "id" not in message)
    )
    if not is_request:
        return [(REQUEST, known)]
    if "id" not in message:
        return []
    answer_id = int(found) if isinstance(found, float) else found
    return [(_called(message["method"], message.get("params")), answer_id)]


def _called(name: str, params: JsonValue) -> int:
    if name != "echo":
        return METHOD
    if isinstance(params, list) and params:
        return PARAMS
    x = params.get("x") if isinstance(params, dict) else None
    return OK if x is None or (isinstance(x, int) and not isinstance(x, bool)) else PARAMS


def strict(line: bytes) -> JsonValue:
    """One value of strict JSON."""
    if line.startswith(b"\xef\xbb\xbf"):
        raise Unreadable
    text = line.decode("utf-8")
    if _depth(text) > DEPTH_MAX:
        raise Unreadable
    decoder = json.JSONDecoder(
        object_pairs_hook=_pairs, parse_int=_integer, parse_float=_float, parse_constant=_constant
    )
    # Unlike JSON it would take other blanks around the value.
    value: JsonValue = decoder.decode(text.strip(" \t\r\n") or "x")
    if "\\" in text:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def _depth(text: str) -> int:
    depth = deepest = 0
    is_string = is_escaped = False
    for character in text:
        if is_string:
            is_string = is_escaped or character != '"'
            is_escaped = character == "\\" and not is_escaped
        elif character == '"':
            is_string = True
        elif character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Unreadable
    return found


def _integer(text: str) -> int:
    if len(text) > NUMBER_CHARS_MAX or abs(int(text)) > INTEGER_MAX:
        raise Unreadable
    return int(text)


def _float(text: str) -> float:
    if len(text) > NUMBER_CHARS_MAX or not isfinite(float(text)):
        raise Unreadable
    return float(text)


def _constant(_: str) -> float:
    raise Unreadable


# random lines

_TOKENS: Final = (
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b'"',
    b"\\",
    b"null",
    b"true",
    b"NaN",
    b"-Infinity",
    b"1e400",
    b"1.0",
    b"1.5",
    b"-0",
    b"0",
    b"7",
    b"9007199254740992",
    b"1" * 200,
    b'"id":',
    b'"id":1,',
    b'"id":null,',
    b'"method":"echo"',
    b'"echo"',
    b'"jsonrpc":"2.0"',
    b'"params":{"x":1}',
    b'"params":[]',
    b'"x":',
    b'"result":1',
    b'"error":{}',
    b"\\ud800",
    b'"\\ud83d\\ude00"',
    b"\xff",
    b"\xc3\x28",
    b"\xef\xbb\xbf",
    b"\x00",
    b" ",
    b"\t",
    b"\r",
    b'"',
    b"e",
    b"-",
    b".",
    b"+",
    b'{"jsonrpc":"2.0","id":1,"method":"echo"}',
    b'{"jsonrpc":"2.0","method":"echo"}',
    b"[" * 70,
    b'{"a":' * 33,
    b"]" * 70,
)
_VALUES: Final[tuple[JsonValue, ...]] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    1.0,
    1.5,
    2**53 - 1,
    "",
    "x",
    "2.0",
    "echo",
    "é",
    [],
    [1],
    {},
    {"x": 1},
    {"x": None},
    {"x": "1"},
    {"y": 1},
    [[]],
    "a" * 300,
)
_FIELDS: Final = ("jsonrpc", "id", "method", "params", "result", "error", "extra")


def lines(chance: random.Random) -> list[bytes]:
    """Lines of every kind."""
    calls = [json.dumps({"jsonrpc": "2.0", "id": 1, "method": "echo", "params": {"x": 1}})]
    calls += [json.dumps({"jsonrpc": "2.0", "method": "echo"}), json.dumps([json.loads(calls[0])] * 2)]
    known = [call.encode() for call in calls] * 8
    known += [
        case.line.replace(b"system.ping", b"echo") for case in cases() if len(case.line) < LINE_BYTES_MAX
    ]
    chance.shuffle(known)
    return known


def written(chance: random.Random, known: list[bytes]) -> bytes:
    """One line."""
    kind = chance.random()
    if kind < 0.35:
        return json.dumps(_message(chance), ensure_ascii=chance.random() < 0.5).encode()
    if kind < 0.45:
        batch = [_message(chance) for _ in range(chance.choice((0, 1, 2, 3, 5)))]
        return json.dumps(batch).encode()
    if kind < 0.6:
        return b"".join(chance.choices(_TOKENS, k=chance.randint(1, 12))).replace(b"\n", b"")
    line = bytearray(chance.choice(known))
    for _ in range(chance.randint(1, 4)):
        _change(chance, line, known)
    return bytes(line).replace(b"\n", b" ")


def _message(chance: random.Random) -> JsonValue:
    if chance.random() < 0.1:
        return chance.choice(_VALUES)
    message: JsonObject = {"jsonrpc": "2.0", "method": "echo"}
    if chance.random() < 0.7:
        message["id"] = chance.choice((1, "a", None, 2**53 - 1))
    if chance.random() < 0.6:
        message["params"] = chance.choice(({}, {"x": 1}, [], None))
    for _ in range(chance.choice((0, 0, 1, 1, 2))):
        name = chance.choice(_FIELDS)
        if chance.random() < 0.3:
            message.pop(name, None)
        else:
            message[name] = chance.choice(_VALUES)
    return message


def _change(chance: random.Random, line: bytearray, known: list[bytes]) -> None:
    at = chance.randint(0, len(line))
    end = min(len(line), at + chance.choice((0, 0, 1, 2, 8)))
    match chance.randint(0, 4):
        case 0:
            line[at:end] = chance.choice(_TOKENS)
        case 1:
            line[at:end] = bytes([chance.randrange(256)])
        case 2:
            del line[at:end]
        case 3 if len(line) < LINE_BYTES_MAX:
            line[at:at] = line[: chance.randint(0, len(line))]
        case _:
            other = chance.choice(known)
            line[at:end] = other[chance.randint(0, len(other)) :][:64]


async def fuzz(count: int, seed: int) -> dict[str, int]:
    """Write lines, hear the answers and the judge; the first disagreement ends it."""
    chance = random.Random(seed)
    peer = Peer(Nowhere(), None, methods=CATALOGUE)
    known = lines(chance)
    told = {"lines": 0, "answers": 0, "parse": 0, "request": 0, "method": 0, "params": 0, "ok": 0}
    names = {PARSE: "parse", REQUEST: "request", METHOD: "method", PARAMS: "params", OK: "ok"}
    for number in range(count):
        line = written(chance, known)
        if not line.strip(b" \t\r"):
            continue
        expected = judge(line)
        reply = await peer.answer(line)
        answers = [] if reply.body is None else read(reply.body)
        found = [(_code(answer), answer["id"]) for answer in answers]
        if _sorted(found) != _sorted(expected):
            raise AssertionError(f"seed {seed} line {number}: {line!r}: expected {expected}, found {found}")
        told["lines"] += 1
        told["answers"] += len(found)
        for code, _ in found:
            told[names[code]] += 1
    return told


def _sorted(answers: list[Answer]) -> list[str]:
    return sorted(map(repr, answers))


def _code(answer: JsonObject) -> int:
    error = answer.get("error")
    return int(str(error["code"])) if isinstance(error, dict) else OK


def main() -> None:
    logging.disable(logging.CRITICAL)
    count = int(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(2**32)
    try:
        told = asyncio.run(fuzz(count, seed))
    except AssertionError as error:
        sys.exit(str(error))
    sys.stdout.write(json.dumps({"seed": seed, **told}) + "\n")


if __name__ == "__main__":
    main()
