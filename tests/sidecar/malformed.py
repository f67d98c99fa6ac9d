"""Malformed lines, and the expected answer to each. Written by hand."""

from collections.abc import Iterator
from dataclasses import dataclass

PARSE, REQUEST, METHOD, PARAMS = -32700, -32600, -32601, -32602
NOT_FOUND = -32004
OK = 0
SILENCE = None


@dataclass(frozen=True, slots=True)
class Case:
    """A line, the codes of its answers, and their ids."""

    name: str
    line: bytes
    codes: tuple[int, ...]
    ids: tuple[str | int | None, ...]


BROKEN = (
    "{",
    "}",
    "[",
    "]",
    "{]",
    "[}",
    '{"a"',
    '{"a":',
    '{"a":1',
    '{"a":1,',
    '{"a":1,}',
    "[1,",
    "[1,]",
    "[,1]",
    '"open',
    "'single'",
    "{'a':1}",
    "{a:1}",
    '{"a" 1}',
    '{"a":1 "b":2}',
    "nul",
    "nulll",
    "True",
    "None",
    "undefined",
    "tru",
    "+1",
    "01",
    "1.",
    ".5",
    "1e",
    "1e+",
    "--1",
    "0x10",
    "1_000",
    "1 2",
    "{} {}",
    "[] []",
    '{"jsonrpc":"2.0","id":1,"method":"system.ping"',
    '{"jsonrpc":"2.0","id":1,"method":"system.ping"}}',
    '{"jsonrpc":"2.0","id":1,"method":"system.ping"}x',
    "// comment",
    "/* x */ 1",
    "#1",
    "hello",
    "GET / HTTP/1.1",
    "Content-Length: 52",
    '"\\x41"',
    '"\\u12"',
    '"\\u"',
    '"\\',
    '"tab\there"',
    '"nul\x00"',
    "\x00",
    "\x0b1",
    "\x0c1",
    "\x7f",
    "1;",
    "[1;2]",
    '{"a":}',
    "{:1}",
    '{"a":1:2}',
    '["a":1]',
    '{"a",1}',
    "\u00a01",
    "\u20281",
    "\u30001",
    "-",
    "-a",
    "1e5e5",
    '{"id":1,,"method":"x"}',
    "<xml/>",
    "---\na: 1".replace("\n", " "),
    '"a" "b"',
    '["x"]]',
)
NO_UTF8 = (
    b"\xff",
    b"\xfe\xff",
    b'"\xff"',
    b'"\xc3"',
    b'"\xc3\x28"',
    b'"\xed\xa0\x80"',
    b'"\xf4\x90\x80\x80"',
    b'"\xc0\xaf"',
    b'"\xe2\x82"',
    b'"\xf0\x9f\x98"',
    b"\xef\xbb\xbf1",
    b'\xef\xbb\xbf{"jsonrpc":"2.0"}',
    b"\xff\xfe1\x00",
    b"\x001",
    '{"a":1}'.encode("utf-16"),
    '{"a":1}'.encode("utf-16-be"),
    '{"a":1}'.encode("utf-32-le"),
    b"\x80",
    b"\x1f\x8b\x08\x00",
    b"\x16\x03\x01\x02\x00",
    b'{"\xff":1}',
    b'{"jsonrpc":"2.0","id":"\xff","method":"system.ping"}',
)
STREAM = '"provider":"demo","model":"m","messages":[{"role":"user","content":"x"}]'
WRONG: tuple[tuple[str, str], ...] = (
    ("trace.fetch", "{}"),
    ("trace.fetch", '{"traceId":1}'),
    ("trace.fetch", '{"traceId":""}'),
    ("trace.fetch", '{"traceId":null}'),
    ("trace.fetch", '["a"]'),
    ("trace.fetch", f'{{"traceId":"{"x" * 513}"}}'),
    ("agent.session.create", "{}"),
    ("agent.session.create", '{"chatId":5}'),
    ("agent.session.create", '{"chatId":""}'),
    ("agent.session.create", '{"chatId":"c","stageData":[]}'),
    ("agent.session.resume", "{}"),
    ("agent.session.resume", '{"sessionId":[]}'),
    ("agent.session.list", '{"activeOnly":"yes"}'),
    ("agent.session.list", '{"limit":0}'),
    ("agent.session.list", '{"limit":1000000}'),
    ("harness.classifyShell", "{}"),
    ("harness.classifyShell", '{"command":["ls"]}'),
    ("harness.classifyShell", '{"command":"ls","patterns":{}}'),
    ("agent.session.list", '{"limit":1.5}'),
    ("tool.invoke", "{}"),
    ("tool.invoke", '{"name":1}'),
    ("tool.invoke", '{"name":"x","arguments":[]}'),
    ("tool.invoke", '{"name":"x","consentGranted":1}'),
    ("tool.invoke", '{"name":"x","arguments":"{}"}'),
    ("agent.chat.cancel", "{}"),
    ("agent.chat.cancel", '{"streamId":7}'),
    ("agent.chat.stream", "{}"),
    ("agent.chat.stream", '{"provider":"demo","model":"m","messages":[]}'),
    ("agent.chat.stream", '{"provider":"demo","model":"m","messages":"hi"}'),
    ("agent.chat.stream", '{"provider":"demo","model":"m","messages":[1]}'),
    ("agent.chat.stream", '{"provider":"demo","model":"m","messages":[{"role":"king","content":"x"}]}'),
    ("agent.chat.stream", '{"provider":"demo","model":"m","messages":[{"role":"system","content":"x"}]}'),
    ("agent.chat.stream", '{"provider":"demo","model":"","messages":[{"role":"user","content":"x"}]}'),
    ("agent.chat.stream", '{"provider":"a b","model":"m","messages":[{"role":"user","content":"x"}]}'),
    ("agent.chat.stream", '{"provider":"nobody","model":"m","messages":[{"role":"user","content":"x"}]}'),
    ("agent.chat.stream", f'{{{STREAM},"temperature":3}}'),
    ("agent.chat.stream", f'{{{STREAM},"temperature":"0"}}'),
    ("agent.chat.stream", f'{{{STREAM},"maxTokens":0}}'),
    ("agent.chat.stream", f'{{{STREAM},"maxTokens":1.5}}'),
    ("agent.chat.stream", f'{{{STREAM},"baseUrl":"file:///etc/passwd"}}'),
    ("agent.chat.stream", f'{{{STREAM},"baseUrl":"x"}}'),
    ("agent.chat.stream", f'{{{STREAM},"baseUrl":"http://a:b@c/v1"}}'),
    ("agent.chat.stream", f'{{{STREAM},"baseUrl":"http://c/?k=1"}}'),
    ("agent.chat.stream", f'{{{STREAM},"apiKey":1}}'),
    ("agent.chat.stream", f'{{{STREAM},"tools":{{}}}}'),
    ("agent.chat.stream", f'{{{STREAM},"tools":[1]}}'),
    ("agent.chat.stream", f'{{{STREAM},"tools":["no_such_tool"]}}'),
    ("agent.chat.stream", f'{{{STREAM},"tools":[{{}}]}}'),
    ("agent.chat.stream", f'{{{STREAM},"tools":[{{"name":"a b"}}]}}'),
    ("agent.chat.stream", f'{{{STREAM},"tools":[{{"name":"a","inputSchema":{{"type":"array"}}}}]}}'),
    ("agent.chat.stream", f'{{{STREAM},"tools":[{{"name":"a","inputSchema":{{"$ref":"http://x/y"}}}}]}}'),
    ("agent.chat.stream", f'{{{STREAM},"tools":[{{"name":"a"}},{{"name":"a"}}]}}'),
    ("agent.chat.stream", f'{{{STREAM},"tools":[{{"name":"a","mode":"wild"}}]}}'),
    ("agent.chat.stream", f'{{{STREAM},"streamId":""}}'),
    ("agent.chat.stream", f'{{{STREAM},"streamId":"\\n"}}'),
    ("agent.chat.stream", f'{{{STREAM},"budget":{{"maxSteps":-1}}}}'),
    ("agent.chat.stream", f'{{{STREAM},"budget":[]}}'),
    ("config.set", "{}"),
    ("config.set", '{"logLevel":"loud"}'),
    ("config.set", '{"logLevel":5}'),
    ("agent.input.answer", "{}"),
    ("agent.input.answer", '{"streamId":"s","requestId":7}'),
    ("protocol.describe", '{"host":{"features":"all"}}'),
    ("protocol.describe", '{"host":1}'),
    ("protocol.describe", '{"host":{"features":[1]}}'),
    ("system.ping", "[1]"),
    ("system.ping", "[null]"),
)


def cases() -> list[Case]:
    """All of them."""
    return [*_scalars(), *_broken(), *_strict(), *_ids(), *_requests(), *_batches(), *_params(), *_fine()]


def _one(name: str, line: str | bytes, code: int | None, answer_id: str | int | None = None) -> Case:
    raw = line if isinstance(line, bytes) else line.encode()
    return Case(name, raw, () if code is None else (code,), () if code is None else (answer_id,))


def _call(body: str, method: str = "system.ping") -> str:
    return f'{{"jsonrpc":"2.0","method":"{method}",{body}}}'


def _scalars() -> Iterator[Case]:
    for text in ("1", "0", "-1", "1.5", "-0.0", "1e3", "true", "false", "null", '""', '"text"', '"{}"'):
        yield _one(f"the scalar {text}", text, REQUEST)
    for text in (" 1 ", "\t2", "3\r", '"\\u00e9"', '"\U0001f600"', "9007199254740991"):
        yield _one(f"a scalar with more around or in it: {text!r}", text, REQUEST)
    yield _one("an empty object", "{}", REQUEST)
    yield _one("an object of something else", '{"foo":"boo"}', REQUEST)


def _broken() -> Iterator[Case]:
    for text in BROKEN:
        yield _one(f"broken: {text!r}", text, PARSE)
    for data in NO_UTF8:
        yield _one(f"no UTF-8, or a mark before it: {data!r}", data, PARSE)


def _strict() -> Iterator[Case]:
    for number in (
        "NaN",
        "Infinity",
        "-Infinity",
        "1e400",
        "-1e400",
        "9007199254740992",
        "-9007199254740992",
    ):
        yield _one(f"the number {number} alone", number, PARSE)
        yield _one(f"the number {number} as an id", _call(f'"id":{number}'), PARSE)
        yield _one(f"the number {number} deep down", _call(f'"id":1,"params":{{"a":[{number}]}}'), PARSE)
    yield _one("an integer of 5,000 digits", "1" * 5_000, PARSE)
    yield _one("an id of 5,000 digits", _call(f'"id":{"1" * 5_000}'), PARSE)
    yield _one("a fraction of 5,000 digits", "0." + "1" * 5_000, PARSE)
    yield _one("a number of 200 zeros", "1" + "0" * 200, PARSE)
    twice = (
        '{"a":1,"a":1}',
        '{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"system.ping"}',
        '{"jsonrpc":"2.0","id":1,"id":1,"method":"system.ping"}',
        '{"jsonrpc":"2.0","id":1,"method":"a","method":"a"}',
        '{"jsonrpc":"2.0","id":1,"method":"system.ping","params":{"x":1,"x":2}}',
        '[{"a":1,"a":2}]',
        '{"":1,"":2}',
        '{"a":1,"\\u0061":2}',
    )
    for text in twice:
        yield _one(f"a key twice: {text}", text, PARSE)
    lone = (r'"\ud800"', r'"\udc00"', r'"\ud800x"', r'"\ud800\ud800"', r'"\udc00\ud800"', r'{"\ud800":1}')
    for text in lone:
        yield _one(f"a lone surrogate: {text}", text, PARSE)
    yield _one("a lone surrogate as an id", _call(r'"id":"\ud83d"'), PARSE)
    yield _one("a lone surrogate in a method", r'{"jsonrpc":"2.0","id":1,"method":"\ud83d"}', PARSE)
    yield _one("a pair of surrogates as an id", _call(r'"id":"\ud83d\ude00"'), OK, "😀")
    for depth in (65, 200, 2_000, 100_000):
        yield _one(f"{depth:,} lists inside one another", "[" * depth + "]" * depth, PARSE)
        yield _one(f"{depth:,} lists that never end", "[" * depth, PARSE)
        yield _one(f"{depth:,} objects inside one another", '{"a":' * depth + "1" + "}" * depth, PARSE)
    deep = "[" * 70 + "]" * 70
    yield _one("parameters that are too deep", _call(f'"id":1,"params":{{"x":{deep}}}'), PARSE)


def _ids() -> Iterator[Case]:
    for bad in ("true", "false", "1.5", "[]", "{}", "[1]", '{"a":1}', "-0.5", "1e-3"):
        yield _one(f"the id {bad}", _call(f'"id":{bad}'), REQUEST)
    fine: tuple[tuple[str, str | int | None], ...] = (
        ("1", 1),
        ("0", 0),
        ("-1", -1),
        ("null", None),
        ('""', ""),
        ('"a"', "a"),
        ('"1"', "1"),
        ("9007199254740991", 2**53 - 1),
        ("-9007199254740991", 1 - 2**53),
        ('"\\n"', "\n"),
        ('"\\u0000"', "\x00"),
        (f'"{"x" * 10_000}"', "x" * 10_000),
    )
    yield _one("an id of 65,536 characters", _call(f'"id":"{"x" * 65_536}"'), OK, "x" * 65_536)
    yield _one("an id of 65,537 characters", _call(f'"id":"{"x" * 65_537}"'), REQUEST)
    yield _one("a long id of a bad request", f'{{"id":"{"x" * 65_537}"}}', REQUEST)
    for text, answer_id in fine:
        yield _one(f"the id {text[:20]}", _call(f'"id":{text}'), OK, answer_id)


def _requests() -> Iterator[Case]:
    for version in ('"1.0"', '"2"', "2.0", "2", "null", '"2.0 "', '""', "[]", "true"):
        yield _one(f"version {version}", f'{{"jsonrpc":{version},"id":7,"method":"system.ping"}}', REQUEST, 7)
    yield _one("no version", '{"id":7,"method":"system.ping"}', REQUEST, 7)
    for method in ("1", "null", "true", "[]", "{}", '""', "1.5"):
        yield _one(f"the method {method}", f'{{"jsonrpc":"2.0","id":7,"method":{method}}}', REQUEST, 7)
    yield _one("no method", '{"jsonrpc":"2.0","id":7}', REQUEST, 7)
    yield _one(
        "a method that is no text, without an id", '{"jsonrpc":"2.0","method":1,"params":"bar"}', REQUEST
    )
    yield _one("a version that is wrong, without an id", '{"jsonrpc":"1.0","method":"system.ping"}', REQUEST)
    for params in ("1", '"x"', "true", "1.5"):
        yield _one(f"the parameters {params}", _call(f'"id":7,"params":{params}'), REQUEST, 7)
    for extra in ('"extra":1', '"":1', '"Method":"x"', '"ID":1'):
        yield _one(f"more fields: {extra}", _call(f'"id":7,{extra}'), REQUEST, 7)
    yield _one("a method and a result", _call('"id":7,"result":1'), REQUEST, 7)
    unknown = (
        "nothing",
        "system",
        "system.",
        ".ping",
        "system.ping ",
        " system.ping",
        "SYSTEM.PING",
        "system.pong",
        "system/ping",
        "rpc.discover",
        "__init__",
        "system.ping.x",
        "agent.chat",
        "\\u0000",
        "ſystem.ping",
        "../../etc/passwd",
        "constructor",
        "host.tool.call",
        "stream.chunk",
    )
    for method in unknown:
        yield _one(f"the unknown method {method}", _call('"id":7', method), METHOD, 7)
    yield _one("a method of 100,000 characters", _call('"id":7', "x" * 100_000), METHOD, 7)
    for body in ('"result":1', '"error":{"code":1,"message":"x"}', '"result":null', '"result":1,"error":2'):
        yield _one(f"an answer to nothing: {body}", f'{{"jsonrpc":"2.0","id":"sidecar-99",{body}}}', SILENCE)
    for odd in ("true", "1.5", "[]", "{}", "null", "1"):
        yield _one(f"an answer with the id {odd}", f'{{"jsonrpc":"2.0","id":{odd},"result":1}}', SILENCE)
    yield _one("an answer without an id", '{"jsonrpc":"2.0","result":1}', SILENCE)
    quiet = (
        _call('"params":{}'),
        _call('"params":[]'),
        _call('"params":null'),
        '{"jsonrpc":"2.0","method":"nothing"}',
        '{"jsonrpc":"2.0","method":"trace.fetch"}',
        '{"jsonrpc":"2.0","method":"trace.fetch","params":{"traceId":1}}',
        '{"jsonrpc":"2.0","method":"tool.invoke","params":[1,2]}',
        '{"jsonrpc":"2.0","method":"agent.chat.cancel","params":{"streamId":"none"}}',
        '{"jsonrpc":"2.0","method":"agent.chat.stream","params":{"provider":1}}',
    )
    for text in quiet:
        yield _one(f"a notification: {text}", text, SILENCE)
    for blank in ("", " ", "\t", "\r", "   \t \r"):
        yield _one(f"a blank line {blank!r}", blank, SILENCE)


def _batches() -> Iterator[Case]:
    ping, note = _call('"id":1'), _call('"params":{}')
    yield _one("an empty batch", "[]", REQUEST)
    yield _one("an empty batch with blanks", "[ ]", REQUEST)
    yield Case("a batch of one", f"[{ping}]".encode(), (OK,), (1,))
    yield Case("a batch of a number", b"[1]", (REQUEST,), (None,))
    yield Case("a batch of three numbers", b"[1,2,3]", (REQUEST,) * 3, (None,) * 3)
    yield Case("a batch of scalars", b'[null,true,"x",1.5]', (REQUEST,) * 4, (None,) * 4)
    yield Case("batches in a batch", b"[[],[[]]]", (REQUEST,) * 2, (None,) * 2)
    yield _one("a batch of notifications", f"[{note},{note}]", SILENCE)
    yield Case("a call and a notification", f"[{note},{ping},{note}]".encode(), (OK,), (1,))
    mixed = f'[{ping},1,{note},{_call(chr(34) + "id" + chr(34) + ":2", "nothing")},{{"foo":"boo"}}]'
    yield Case("a batch of all kinds", mixed.encode(), (OK, REQUEST, METHOD, REQUEST), (1, None, 2, None))
    yield Case("the same id twice", f"[{ping},{ping}]".encode(), (OK, OK), (1, 1))
    yield Case("a batch of 100", ("[" + ",".join([ping] * 100) + "]").encode(), (OK,) * 100, (1,) * 100)
    yield _one("a batch of 101", "[" + ",".join([ping] * 101) + "]", REQUEST)
    yield _one("a batch of 100,000", "[" + ",".join(["1"] * 100_000) + "]", REQUEST)
    yield _one("a batch that is broken", f"[{ping},", PARSE)
    yield _one("a batch with a broken call", f'[{ping},{{"jsonrpc":"2.0","method"]', PARSE)
    yield _one("answers to nothing in a batch", '[{"jsonrpc":"2.0","id":"x","result":1}]', SILENCE)


def _params() -> Iterator[Case]:
    for method, params in WRONG:
        line = _call(f'"id":7,"params":{params}', method)
        yield _one(f"{method} with {params[:120]}", line, PARAMS, 7)
    missing: tuple[tuple[str, str], ...] = (
        ("agent.chat.cancel", '{"streamId":"nobody"}'),
        ("agent.input.answer", '{"streamId":"nobody","requestId":"r","optionId":"a"}'),
        ("trace.fetch", '{"traceId":"nobody"}'),
        ("agent.session.resume", '{"sessionId":"nobody"}'),
    )
    for method, params in missing:
        yield _one(f"{method} of nothing", _call(f'"id":7,"params":{params}', method), NOT_FOUND, 7)


def _fine() -> Iterator[Case]:
    for params in ("null", "{}", "[]", '{"unknown":[1,{"deep":null}]}'):
        yield _one(f"ping with {params}", _call(f'"id":8,"params":{params}'), OK, 8)
    yield _one("blanks around", "  \t" + _call('"id":8') + " \r", OK, 8)
    yield _one("keys in another order", '{"method":"system.ping","id":8,"jsonrpc":"2.0"}', OK, 8)
    yield _one("an escaped method", '{"jsonrpc":"2.0","id":8,"method":"\\u0073ystem.ping"}', OK, 8)
    yield _one("an id written as 1.0", _call('"id":1.0'), OK, 1)
