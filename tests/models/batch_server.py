"""A server that speaks the Batch API of OpenAI and the Message Batches API of Anthropic, with faults."""

import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Event, Thread
from typing import Any, Final, Literal
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]
Point = Literal[
    "before upload", "after upload", "before create", "after create", "while waiting", "while reading"
]
Fault = Literal["lost", "busy", "broken"]
"""The answer is lost after the request took effect; too many requests; the server fails."""
OPENAI_USAGE: Final[Json] = {
    "prompt_tokens": 1_000,
    "completion_tokens": 100,
    "total_tokens": 1_100,
    "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0},
}
ANTHROPIC_USAGE: Final[Json] = {
    "input_tokens": 1_000,
    "output_tokens": 100,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "service_tier": "batch",
}


@dataclass
class SentBatch:
    """A batch as it was created."""

    batch_id: str
    requests: list[tuple[str, Json]]
    metadata: Json
    file_id: str = ""
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    has_ended: bool = False


class BatchServer:
    """Keeps files and batches; answers with the last word of each prompt."""

    def __init__(self) -> None:
        self.url = ""
        self.files: dict[str, bytes] = {}
        self.batches: list[SentBatch] = []
        self.cancelled: list[str] = []
        self.asked: list[str] = []
        """Each request: its method and path."""
        self.faults: dict[str, list[Fault]] = {}
        """Faults of the next requests to a path with this end, by method and path."""
        self.line: Json | None = None
        """A line of results that answers each item, under the id of the item."""
        self.is_answering = True
        """Whether batches end; otherwise they are at work for ever."""
        self.page = 100
        self.hold: Point | None = None
        """Where the next request is held until `go`."""
        self.held = Event()
        self.go = Event()
        self.is_deaf = False
        """Whether a request that was held never takes effect."""
        self.changed = Condition()

    @property
    def sent(self) -> list[str]:
        """The last words of the prompts of all batches, each as often as it was sent."""
        return sorted(word_of(body) for batch in self.batches for _, body in batch.requests)

    def reach(self, point: Point) -> None:
        """Hold a request at a point, if it is the one."""
        if self.hold == point:
            self.hold = None
            self.held.set()
            self.go.wait(60)
            if self.is_deaf:
                raise ConnectionError("the server died with the request")

    def batch(self, batch_id: str) -> SentBatch:
        return next(batch for batch in self.batches if batch.batch_id == batch_id)

    def create(self, requests: list[tuple[str, Json]], metadata: Json, file_id: str = "") -> SentBatch:
        batch = SentBatch(f"batch_{len(self.batches)}", requests, metadata, file_id)
        with self.changed:
            self.batches.append(batch)
            self.changed.notify_all()
        return batch

    def wait_for_batches(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.batches) >= count, 60)


def word_of(body: Json) -> str:
    """Return the last word of a prompt."""
    messages = body.get("messages") or body["input"]
    content = messages[-1]["content"]
    text = content if isinstance(content, str) else content[-1]["text"]
    return str(text).split()[-1]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def state(self) -> BatchServer:
        assert isinstance(self.server, _Http)
        return self.server.state

    def log_message(self, *_: object, **__: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def _answer(self, method: str) -> None:
        state, url = self.state, urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        state.asked.append(f"{method} {url.path}")
        no_faults: list[Fault] = []
        ends = (faults for end, faults in state.faults.items() if state.asked[-1].endswith(end))
        faults = next(ends, no_faults)
        fault = faults.pop(0) if faults else None
        if fault in ("busy", "broken"):
            status = 429 if fault == "busy" else 500
            kind = "rate_limit_error" if fault == "busy" else "server_error"
            self._send({"error": {"type": kind, "message": "try later"}}, status)
            return
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        for batch in state.batches:
            batch.has_ended = batch.has_ended or state.is_answering
        answer = self._route(method, url.path, query, raw)
        if fault == "lost":
            self.close_connection = True
            return
        self._send(answer)

    def _send(self, answer: Json | list[Json], status: int = 200) -> None:
        lines = [json.dumps(line) for line in answer] if isinstance(answer, list) else [json.dumps(answer)]
        content = "\n".join(lines).encode()
        self.send_response(status)
        kind = "application/x-jsonl" if isinstance(answer, list) else "application/json"
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        middle = len(content) // 2
        self.wfile.write(content[:middle])
        if isinstance(answer, list):
            self.wfile.flush()
            self.state.reach("while reading")
        self.wfile.write(content[middle:])

    def _route(self, method: str, path: str, query: dict[str, str], raw: bytes) -> Json | list[Json]:
        state = self.state
        match [method, *path.strip("/").split("/")]:
            case ["POST", "v1", "files"]:
                state.reach("before upload")
                file_id = f"file_{len(state.files)}"
                state.files[file_id] = raw
                state.reach("after upload")
                return {"id": file_id, "object": "file", "purpose": "batch", "bytes": len(raw)}
            case ["POST", "v1", "batches"]:
                body = json.loads(raw)
                state.reach("before create")
                lines = re.findall(
                    rb'^\{"custom_id".*\}\r?$', state.files[body["input_file_id"]], re.MULTILINE
                )
                rows = [json.loads(line) for line in lines]
                assert {row["url"] for row in rows} == {body["endpoint"]}
                assert len({row["body"]["model"] for row in rows}) == 1
                requests = [(row["custom_id"], row["body"]) for row in rows]
                batch = state.create(requests, body["metadata"], body["input_file_id"])
                state.reach("after create")
                return _openai_batch(batch)
            case ["GET", "v1", "batches"]:
                batches = [*reversed(state.batches)]
                after = query.get("after")
                if after:
                    batches = batches[[batch.batch_id for batch in batches].index(after) + 1 :]
                page = batches[: state.page]
                more = len(page) < len(batches)
                return {"object": "list", "data": [_openai_batch(batch) for batch in page], "has_more": more}
            case ["POST", "v1", "batches", batch_id, "cancel"]:
                state.cancelled.append(batch_id)
                return _openai_batch(state.batch(batch_id))
            case ["GET", "v1", "batches", batch_id]:
                state.reach("while waiting")
                batch = state.batch(batch_id)
                return _openai_batch(batch)
            case ["GET", "v1", "files", file_id, "content"]:
                kind, _, batch_id = file_id.partition("-")
                rows = [
                    _openai_row(*request) if state.line is None else {**state.line, "custom_id": request[0]}
                    for request in reversed(state.batch(batch_id).requests)
                ]
                is_output = kind == "output"
                return [row for row in rows if (row["error"] is None) == is_output]
            case ["POST", "v1", "messages", "batches"]:
                state.reach("before create")
                requests = [(item["custom_id"], item["params"]) for item in json.loads(raw)["requests"]]
                batch = state.create(requests, {})
                state.reach("after create")
                return self._anthropic_batch(batch)
            case ["GET", "v1", "messages", "batches"]:
                batches = [*reversed(state.batches)]
                after = query.get("after_id")
                if after:
                    batches = batches[[batch.batch_id for batch in batches].index(after) + 1 :]
                page = batches[: state.page]
                return {
                    "data": [self._anthropic_batch(batch) for batch in page],
                    "has_more": len(page) < len(batches),
                    "first_id": page[0].batch_id if page else None,
                    "last_id": page[-1].batch_id if page else None,
                }
            case ["POST", "v1", "messages", "batches", batch_id, "cancel"]:
                state.cancelled.append(batch_id)
                return self._anthropic_batch(state.batch(batch_id))
            case ["GET", "v1", "messages", "batches", batch_id]:
                state.reach("while waiting")
                batch = state.batch(batch_id)
                return self._anthropic_batch(batch)
            case ["GET", "v1", "messages", "batches", batch_id, "results"]:
                return [
                    _anthropic_row(*request)
                    if state.line is None
                    else {**state.line, "custom_id": request[0]}
                    for request in reversed(state.batch(batch_id).requests)
                ]
            case _:
                raise AssertionError(f"{method} {path}")

    def _anthropic_batch(self, batch: SentBatch) -> Json:
        count, has_ended = len(batch.requests), batch.has_ended
        url = f"{self.state.url}/v1/messages/batches/{batch.batch_id}/results"
        names = ("succeeded", "errored", "canceled", "expired")
        return {
            "id": batch.batch_id,
            "type": "message_batch",
            "processing_status": "ended" if has_ended else "in_progress",
            "request_counts": {
                **dict.fromkeys(names, 0),
                "processing": 0 if has_ended else count,
                "succeeded": count if has_ended else 0,
            },
            "created_at": batch.created_at.isoformat(),
            "expires_at": (batch.created_at + timedelta(hours=24)).isoformat(),
            "ended_at": datetime.now(UTC).isoformat() if has_ended else None,
            "results_url": url if has_ended else None,
        }


def _openai_batch(batch: SentBatch) -> Json:
    has_ended = batch.has_ended
    has_errors = any(word_of(body) in ("refused", "expired") for _, body in batch.requests)
    return {
        "id": batch.batch_id,
        "object": "batch",
        "endpoint": "/v1/chat/completions",
        "completion_window": "24h",
        "input_file_id": batch.file_id,
        "created_at": int(batch.created_at.timestamp()),
        "status": "completed" if has_ended else "in_progress",
        "metadata": batch.metadata,
        "output_file_id": f"output-{batch.batch_id}" if has_ended else None,
        "error_file_id": f"errors-{batch.batch_id}" if has_ended and has_errors else None,
    }


def _openai_row(item_id: str, body: Json) -> Json:
    word = word_of(body)
    row: Json = {"id": f"batch_req_{item_id}", "custom_id": item_id, "response": None, "error": None}
    if word == "expired":
        return {**row, "error": {"code": "batch_expired", "message": "This request could not be executed"}}
    if word == "refused":
        error = {"error": {"message": "bad", "type": "invalid_request_error", "param": None, "code": None}}
        return {**row, "error": {}, "response": {"status_code": 400, "request_id": "r", "body": error}}
    answer = _response(body, word) if "input" in body else _completion(body, word)
    return {**row, "response": {"status_code": 200, "request_id": "r", "body": answer}}


def _completion(body: Json, word: str) -> Json:
    message: Json = {"role": "assistant", "content": word, "refusal": None}
    reason = "stop"
    if body.get("tools") and body["messages"][-1]["role"] != "tool":
        name = body["tools"][0]["function"]["name"]
        function = {"name": name, "arguments": json.dumps({"word": word})}
        call = {"id": "call_1", "type": "function", "function": function}
        message |= {"content": None, "tool_calls": [call]}
        reason = "tool_calls"
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
        "usage": OPENAI_USAGE,
        "service_tier": "default",
    }


def _response(body: Json, word: str) -> Json:
    text: Json = {"type": "output_text", "text": word, "annotations": []}
    thought = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}
    message: Json = {"type": "message", "id": "msg_1", "role": "assistant", "content": [text]}
    return {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": body["model"],
        "output": [{**thought, "encrypted_content": "secretly"}, message],
        "usage": {"input_tokens": 1_000, "output_tokens": 100, "total_tokens": 1_100},
    }


def _anthropic_row(item_id: str, body: Json) -> Json:
    word = word_of(body)
    if word == "expired":
        return {"custom_id": item_id, "result": {"type": "expired"}}
    if word == "refused":
        error = {"type": "error", "error": {"type": "invalid_request_error", "message": "bad"}}
        return {"custom_id": item_id, "result": {"type": "errored", "error": error}}
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [{"type": "text", "text": word}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": ANTHROPIC_USAGE,
    }
    return {"custom_id": item_id, "result": {"type": "succeeded", "message": message}}


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    state: BatchServer

    def handle_error(self, request: object, client_address: object) -> None:
        """A client was killed, which is what the tests are about."""


@contextmanager
def serving_batches() -> Generator[BatchServer]:
    """A server on loopback, in threads."""
    state = BatchServer()
    with _Http(("127.0.0.1", 0), _Handler) as http:
        http.state = state
        state.url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield state
        finally:
            state.go.set()
            http.shutdown()
            thread.join()
