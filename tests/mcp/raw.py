"""A hand-written MCP server with protocol faults: python raw.py <manner> [file].

It speaks the protocol of before 2026-07-28.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]
MANNER = sys.argv[1]
FILE = Path(sys.argv[2]) if len(sys.argv) > 2 else None
OBJECT = {"type": "object"}
LONG = 100 * 1024 * 1024


def write(message: Json) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tool(name: str, **more: object) -> Json:
    return {"name": name, "description": "Do it.", "inputSchema": OBJECT, **more}


def tools() -> list[Json]:
    """The tool list; in some modes it changes between calls."""
    words = FILE.read_text(encoding="utf-8") if MANNER == "reads-file" and FILE is not None else "Do it."
    secret = os.environ.get("SECRET", "")
    listed = {
        "two-of-one-name": [tool("act"), tool("act")],
        "odd-names": [tool("a.b"), tool("a/b"), tool("x" * 200), tool("act")],
        "odd-tools": [
            tool("act"),
            tool("fetches", inputSchema={"type": "object", "$ref": "https://example.com/schema"}),
            tool(
                "looks",
                inputSchema={**OBJECT, "properties": {"a": {"type": "string", "pattern": "(?=a)(b)\\1"}}},
            ),
            tool("deep", inputSchema=deep(60)),
            tool("large", inputSchema={**OBJECT, "description": "x" * 200_000}),
            tool("wordy", description="x" * 20_000),
            tool("old", inputSchema={**OBJECT, "$schema": "http://json-schema.org/draft-07/schema#"}),
            tool("promises", outputSchema={**OBJECT, "$ref": "#/nowhere"}),
        ],
        "tells-secret": [tool("act"), tool("leak", description=f"The key is {secret}.")],
        "promises": [tool("act", outputSchema={**OBJECT, "required": ["n"]})],
    }
    return listed.get(MANNER, [tool("act", description=words)])


def deep(levels: int) -> Json:
    schema: Json = dict(OBJECT)
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def text(words: str) -> Json:
    return {"content": [{"type": "text", "text": words}]}


def call(request_id: object, params: Json) -> None:
    """Answer a call, each manner in its own way."""
    arguments: Json = params.get("arguments") or {}
    if MANNER == "huge":
        sys.stdout.write('{"jsonrpc":"2.0","id":' + json.dumps(request_id) + ',"result":"')
        for _ in range(LONG // 65_536):
            sys.stdout.write("x" * 65_536)
        write({})
    elif MANNER == "dies" or (MANNER == "dies-once" and FILE is not None and not FILE.exists()):
        if FILE is not None:
            FILE.write_text("died", encoding="utf-8")
        os._exit(1)
    elif MANNER == "deep":
        sys.stdout.write('{"jsonrpc":"2.0","id":1,"result":' + "[" * 100_000 + "\n")
        sys.stdout.flush()
    elif MANNER == "floods":
        while True:
            write({"method": "notifications/message", "params": {"level": "info", "data": "x"}})
    else:
        answer_call(request_id, arguments)


def answer_call(request_id: object, arguments: Json) -> None:
    """Answer a call, if badly."""
    more: Json
    if MANNER == "nonsense":
        write({"id": request_id, "result": {"content": "not a list"}})
    elif MANNER == "promises":
        structured = arguments.get("structured")
        more = {} if structured is None else {"structuredContent": structured}
        write({"id": request_id, "result": {**text("see there"), **more}})
    elif MANNER == "tells-secret":
        secret = os.environ["SECRET"]
        if arguments.get("form") == "error":
            write({"id": request_id, "error": {"code": -32603, "message": f"bad key {secret}"}})
        else:
            write(
                {"id": request_id, "result": {**text(secret), "isError": arguments.get("form") == "failure"}}
            )
    elif MANNER == "resources":
        inside = [{"uri": "a:1", "text": "one"}, {"uri": "a:2", "blob": "AAECAw==", "mimeType": "x/y"}]
        parts: list[Json] = [{"type": "resource", "resource": one} for one in inside]
        parts += [{"type": "resource_link", "uri": "a:3", "name": "three", "description": "The third."}]
        parts += [{"type": "audio", "data": "AAEC", "mimeType": "audio/wav"}]
        more = {"structuredContent": {"n": 1}} if arguments.get("structured") else {}
        write({"id": request_id, "result": {"content": parts, **more}})
    elif MANNER == "parts":
        write({"id": request_id, "result": {"content": text("x")["content"] * arguments["count"]}})
    elif MANNER == "levels":
        nested: Json = {}
        for _ in range(arguments["count"]):
            nested = {"a": nested}
        write({"id": request_id, "result": {**text("x"), "structuredContent": nested}})
    elif MANNER == "asks":
        ask(request_id, str(arguments.get("method")))
    else:
        write({"id": request_id, "result": text("done")})
        if MANNER == "twice":
            write({"id": request_id, "result": text("done again")})


def ask(request_id: object, method: str) -> None:
    """Send a request to the client during the call, and return its answer."""
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    params: Json = {"message": "Which city?", "requestedSchema": schema}
    if method == "sampling/createMessage":
        params = {"messages": [], "maxTokens": 5}
    # The same id twice: the client must not mix the answers up.
    write({"id": "q", "method": method, "params": params})
    write({"id": "q", "method": "ping"})
    answers: list[Json] = [json.loads(sys.stdin.readline()) for _ in range(2)]
    said = next(one for one in answers if one.get("result") != {})
    write({"id": request_id, "result": text(json.dumps(said.get("result") or said.get("error")))})


def answer(request: Json) -> None:
    request_id, method = request["id"], request["method"]
    params: Json = request.get("params") or {}
    if method == "initialize":
        if MANNER == "mute":
            if FILE is not None:
                FILE.write_text("begun", encoding="utf-8")
            signal.pause()
        result = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "raw", "version": "1"},
        }
        write({"id": request_id, "result": result})
    elif method == "tools/list":
        more = {"nextCursor": "again"} if MANNER == "endless-list" else {}
        write({"id": request_id, "result": {"tools": tools(), **more}})
    elif method == "tools/call":
        call(request_id, params)
        if MANNER == "reads-file":
            write({"method": "notifications/tools/list_changed"})
    else:
        write({"id": request_id, "error": {"code": -32601, "message": "Method not found"}})


def main() -> None:
    if MANNER == "exits":
        return
    if MANNER == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if MANNER in {"garbage", "only-garbage"}:
        for _ in range(2_000 if MANNER == "only-garbage" else 20):
            sys.stdout.write('hello {"jsonrpc": \x00\n[1, 2]\n\n')
    for line in sys.stdin:
        request = json.loads(line)
        if MANNER == "garbage":
            sys.stdout.write("debug: got a line\n")
        if "id" in request and "method" in request:
            answer(request)
    if MANNER == "stubborn":
        while True:
            signal.pause()


main()
