"""The OpenAPI document: examples, problems and descriptions that FastAPI cannot derive."""

import ast
import asyncio
import re
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from importlib.resources import files
from itertools import pairwise
from typing import Any, Final

from fastapi import Body, FastAPI
from pydantic import JsonValue
from pydantic.alias_generators import to_camel
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response

from windlass_protocol import ProblemDetails, generated
from windlass_protocol.generated import MODULE_OF
from windlass_server.generated.table import GROUPS
from windlass_server.guard import DOCUMENT
from windlass_server.models import ServerOperation
from windlass_server.problems import PROBLEM_TYPE, Problem
from windlass_server.repeats import KEY_PARAMETER
from windlass_server.requests import EVE_PREFIX, JSON_TYPE, PREFIX
from windlass_server.routing import StaticBody, operation_of, static_body

ACCEPTED_EXAMPLE: Final[JsonValue] = {
    "sessionId": "019a8f…",
    "runId": "019a8f…",
    "continuationToken": "4be1…",
}
SESSION_EXAMPLE: Final[JsonValue] = {
    "sessionId": "019a8f…",
    "title": "Pay the hotel.",
    "agentId": "clerk",
    "status": "waiting",
    "createdAt": "2026-01-01T00:00:00.000Z",
    "updatedAt": "2026-01-01T00:00:01.000Z",
    "runCount": 1,
    "requestCount": 1,
    "usage": {},
    "rootSessionId": "019a8f…",
}
AGENT_SESSION_EXAMPLE: Final[JsonValue] = {
    "sessionId": "019a8f…",
    "userId": "ada",
    "chatId": "019a8f…",
    "currentStage": "PLANNING",
    "nextStage": "PAYING",
    "stageData": {"city": "Oslo"},
    "isActive": True,
    "projectId": None,
    "createdAt": "2026-01-01T00:00:00.000Z",
    "updatedAt": "2026-01-01T00:00:01.000Z",
}
MESSAGE_EXAMPLE: Final[JsonValue] = {
    "id": "019a8f…/4",
    "role": "user",
    "content": "Pay the hotel.",
    "createdAt": "2026-01-01T00:00:00.000Z",
}
APPROVAL_EXAMPLE: Final[JsonValue] = {
    "sessionId": "019a8f…",
    "rootSessionId": "019a8f…",
    "runId": "019a8f…",
    "agentId": "clerk",
    "askedAt": "2026-01-01T00:00:01.000Z",
    "request": {
        "requestId": "approval:019a8f…",
        "action": {"kind": "tool-call", "callId": "call-1", "toolName": "pay", "input": {"cents": 9900}},
        "prompt": "Run pay?",
        "display": "confirmation",
        "options": [{"id": "approve", "label": "Approve"}, {"id": "deny", "label": "Deny"}],
    },
}
RUN_ROW_EXAMPLE: Final[JsonValue] = {
    "runId": "019a8f…",
    "sessionId": "019a8f…",
    "agentId": "clerk",
    "status": "waiting",
    "waitsOn": "input",
    "startedAt": "2026-01-01T00:00:00.000Z",
    "input": "Refund order 1042",
    "waitsFor": "Run refund?",
    "usage": {},
}
FEEDBACK_EXAMPLE: Final[JsonValue] = {
    "at": "2026-01-01T00:00:00.000Z",
    "runId": "019a8f…",
    "thumb": "down",
    "note": "The amount is wrong.",
    "tags": ["wrong"],
    "by": "ann",
}
REFUSED_START_EXAMPLE: Final[JsonValue] = {
    "at": "2026-01-01T00:00:00.000Z",
    "runId": "019a8f…",
    "agentId": "clerk",
    "owner": "ann",
    "code": "denied",
    "kind": "policy_denial",
    "retry": "user_action_needed",
    "message": "outside_office_hours",
}
SCHEDULE_EXAMPLE: Final[JsonValue] = {
    "name": "nightly",
    "agent": "clerk",
    "message": "Write the report.",
    "cron": "0 3 * * *",
    "timezone": "Europe/Berlin",
    "missed": "once",
    "overlap": "skip",
    "jitterS": 0,
    "owner": "ann",
    "isPaused": False,
    "nextAt": "2026-01-02T02:00:00.000Z",
    "started": 0,
    "skipped": 0,
    "queued": 0,
}
EXPERIMENT_EXAMPLE: Final[JsonValue] = {
    "id": "eval-prices-19c0",
    "agentId": "clerk",
    "fingerprint": "sha256:19c0…",
    "dataset": "prices",
    "datasetHash": "sha256:4be1…",
    "scorers": [{"EqualsExpected": {}}],
    "repeats": 1,
    "tools": "real",
    "owner": "ann",
    "at": "2026-01-01T09:30:00.000Z",
    "endedAt": "2026-01-01T09:31:00.000Z",
    "cases": 1,
    "attempts": 1,
    "passed": 1,
    "passRate": {"value": 1, "low": 0.2, "high": 1},
}
EVAL_CASE_EXAMPLE: Final[JsonValue] = {
    "experimentId": "eval-prices-19c0",
    "name": "oslo",
    "repeat": 1,
    "runId": "eval-prices-19c0/oslo/1",
    "sessionId": "eval-prices-19c0/oslo/1",
    "status": "completed",
    "isPassed": True,
    "score": 1,
    "verdicts": [{"name": "exact", "score": 1, "isMet": True, "isCounted": True}],
    "input": "Price of Oslo",
    "output": "90 crowns",
}
_EVAL_TALLY: Final[JsonValue] = {"fingerprint": "sha256:19c0…", "runs": 1, "succeeded": 1}
EVAL_COMPARISON_EXAMPLE: Final[JsonValue] = {
    "old": EXPERIMENT_EXAMPLE,
    "new": EXPERIMENT_EXAMPLE,
    "comparison": {"old": _EVAL_TALLY, "new": _EVAL_TALLY, "verdict": "unclear"},
    "pairs": [
        {"name": "oslo", "change": "same", "old": [EVAL_CASE_EXAMPLE], "new": [EVAL_CASE_EXAMPLE]},
    ],
    "fixed": 0,
    "broken": 0,
}
DATASET_EXAMPLE: Final[JsonValue] = {
    "name": "prices",
    "hash": "sha256:4be1…",
    "cases": 1,
    "scorers": [{"EqualsExpected": {}}],
    "at": "2026-01-01T09:30:00.000Z",
    "changedAt": "2026-01-01T09:30:00.000Z",
    "owner": "ann",
}
DATASET_CASE_EXAMPLE: Final[JsonValue] = {
    "name": "oslo",
    "inputs": "Price of Oslo",
    "expected": "90 crowns",
    "tags": ["smoke"],
    "runId": "019a8f…",
}
DELIVERY_EXAMPLE: Final[JsonValue] = {
    "deliveryId": "msg_5f0c…",
    "target": "ops",
    "sessionId": "019a8f…",
    "runId": "019a8f…",
    "event": "run.failed",
    "owner": "ann",
    "attempts": 10,
    "isDead": True,
    "problem": "HTTP 500",
    "createdAt": "2026-01-01T00:00:00.000Z",
}
UNDO_EXAMPLE: Final[JsonValue] = {
    "runId": "019a8f…",
    "calls": [
        {
            "callId": "call_1",
            "toolName": "book",
            "arguments": {"city": "Oslo"},
            "status": "reversible",
            "undoName": "cancel_booking",
        }
    ],
}
TRACE_EXAMPLE: Final[JsonValue] = {
    "trace": {
        "traceId": "019a8f…",
        "sessionId": "019a8f…",
        "chatId": "019a8f…",
        "userId": "ann",
        "startedAt": "2026-01-01T00:00:00.000Z",
    },
    "spans": [],
    "events": [],
}
COSTS_EXAMPLE: Final[JsonValue] = {
    "steps": [
        {"stepIndex": 0, "modelId": "gpt-5", "usage": {"inputTokens": 900, "costMicros": 2_100}},
        {"stepIndex": 1, "modelId": "gpt-5", "usage": {"inputTokens": 1_300, "costMicros": 1_900}},
    ],
    "models": [{"name": "gpt-5", "usage": {"inputTokens": 2_200, "costMicros": 4_000}}],
    "subagents": [],
    "tools": [{"tool": "search", "calls": 1, "resultTokens": 380, "promptTokens": 380, "costMicros": 240}],
    "results": [{"callId": "c1", "tool": "search", "tokens": 380, "prompts": 1, "costMicros": 240}],
}
RUN_EXAMPLE: Final[JsonValue] = {
    "run": {
        "runId": "019a8f…",
        "agentId": "clerk",
        "status": "completed",
        "packageId": "clerk",
        "packageFingerprint": "sha256:…",
        "routeId": "demo",
        "modelId": "clerk",
        "cancellationRequested": False,
        "sessionId": "019a8f…",
    },
    "result": {"runId": "019a8f…", "agentId": "clerk", "status": "completed", "output": "Paid."},
    "requests": [],
}
DECISIONS_EXAMPLE: Final[JsonValue] = {
    "id": "019a8f…",
    "goalId": "019a8f…",
    "startedAt": "2026-01-01T00:00:00.000Z",
    "status": "completed",
    "success": True,
    "decisions": [],
    "problems": [],
}
_NUMBERS: Final[dict[str, JsonValue]] = {
    "runs": 12,
    "completed": 10,
    "failed": 1,
    "cancelled": 0,
    "open": 1,
    "inputTokens": 41_200,
    "outputTokens": 3_100,
    "costMicros": 98_000,
    "p50Ms": 2_300,
    "p95Ms": 9_800,
}
STATS_EXAMPLE: Final[JsonValue] = {
    "since": "2026-01-01T00:00:00.000Z",
    "until": "2026-01-01T01:00:00.000Z",
    "bucketS": 3_600,
    "total": _NUMBERS,
    "buckets": [{**_NUMBERS, "at": "2026-01-01T00:00:00.000Z"}],
    "waiting": {"runs": 1, "requests": 1, "oldestAskedAt": "2026-01-01T00:59:00.000Z"},
    "failingTools": [{"tool": "pay", "calls": 9, "failed": 2}],
}
FAILURES_EXAMPLE: Final[JsonValue] = {
    "runs": 12,
    "failed": 1,
    "isAll": True,
    "groups": [
        {
            "kind": "tool_error",
            "count": 1,
            "causes": [{"told": "The card was refused.", "count": 1, "runIds": ["019a8f…"]}],
        }
    ],
}
_RATE: Final[JsonValue] = {"value": 0.9, "low": 0.62, "high": 0.98}
_TALLY: Final[dict[str, JsonValue]] = {
    "fingerprint": "sha256:4be1…",
    "runs": 12,
    "succeeded": 11,
    "successRate": _RATE,
}
VERSIONS_EXAMPLE: Final[JsonValue] = {
    "agentId": "clerk",
    "current": "sha256:4be1…",
    "versions": [
        {"firstAt": "2026-01-01T00:00:00.000Z", "lastAt": "2026-01-01T01:00:00.000Z", "tally": _TALLY}
    ],
}
COMPARE_EXAMPLE: Final[JsonValue] = {
    "agentId": "clerk",
    "comparison": {
        "old": {**_TALLY, "fingerprint": "sha256:19c0…"},
        "new": _TALLY,
        "verdict": "unclear",
        "successRate": {"value": 0.0, "low": -0.27, "high": 0.27},
        "pValue": 1.0,
    },
    "changes": ["agent.instructions changed"],
    "differences": [
        {"path": "/agent/instructions", "before": "Tell prices.", "after": "Tell prices in crowns."}
    ],
}
PROPOSAL_EXAMPLE: Final[JsonValue] = {
    "proposal": {
        "id": "proposal-019a8f…",
        "goalId": "prices",
        "agentId": "clerk",
        "baseFingerprint": "sha256:19c0…",
        "fingerprint": "sha256:4be1…",
        "changes": [{"part": "instructions", "before": "Tell prices.", "after": "Tell prices in crowns."}],
        "differences": [
            {"path": "/agent/instructions", "before": "Tell prices.", "after": "Tell prices in crowns."}
        ],
        "rationale": "People ask for crowns, and it answers in cents.",
        "evidence": ["019a8f…"],
        "at": "2026-01-01T00:00:00.000Z",
    },
    "status": "accepted",
    "settled": {"proposalId": "proposal-019a8f…", "isAccepted": True, "by": "ann", "reason": "It is clear."},
    "settledAt": "2026-01-01T01:00:00.000Z",
    "work": [],
}
AGUI_EXAMPLE: Final[JsonValue] = (
    'data: {"type":"RUN_STARTED","threadId":"thread-1","runId":"run-1","protocolVersion":"1.0"}\n\n'
)
AGUI_MESSAGE_EXAMPLE: Final[JsonValue] = {
    "threadId": "thread-1",
    "runId": "run-1",
    "messages": [{"id": "message-1", "role": "user", "content": "Pay the hotel."}],
}
AGUI_RESUME_EXAMPLE: Final[JsonValue] = {
    "threadId": "thread-1",
    "runId": "run-2",
    "messages": [],
    "resume": [{"interruptId": "approval:019a8f…", "status": "resolved", "payload": {"approved": True}}],
}
AI_EXAMPLE: Final[JsonValue] = 'data: {"type":"text-delta","id":"019a8f…/0","delta":"Done."}\n\n'
AI_HISTORY_EXAMPLE: Final[JsonValue] = [
    {"id": "019a8f…:said", "role": "user", "parts": [{"type": "text", "text": "Pay the hotel."}]},
    {"id": "019a8f…", "role": "assistant", "parts": [{"type": "text", "text": "Done.", "state": "done"}]},
]
AI_MESSAGE_EXAMPLE: Final[JsonValue] = {
    "id": "chat-1",
    "trigger": "submit-message",
    "messages": [{"id": "message-1", "role": "user", "parts": [{"type": "text", "text": "Pay the hotel."}]}],
}
AI_APPROVAL_EXAMPLE: Final[JsonValue] = {
    "id": "chat-1",
    "trigger": "submit-message",
    "messages": [
        {
            "id": "019a8f…",
            "role": "assistant",
            "parts": [
                {
                    "type": "dynamic-tool",
                    "state": "approval-responded",
                    "approval": {"id": "approval:019a8f…", "approved": True},
                }
            ],
        }
    ],
}
PROMPT_EXAMPLE: Final[JsonValue] = {
    "runId": "019a8f…",
    "sessionId": "019a8f…",
    "stepIndex": 0,
    "seq": 5,
    "routeId": "openai",
    "modelId": "gpt-5",
    "fingerprint": "sha256:4be1…",
    "system": "You pay bills.",
    "tools": [{"name": "pay", "description": "Pay.", "inputSchema": {"type": "object"}}],
    "messages": [{"role": "user", "content": "Pay the hotel.", "isError": False}],
    "unknown": ["Secrets were masked before anything was written: …"],
}
PLAYGROUND_EXAMPLE: Final[JsonValue] = {
    "runId": "019a8f…",
    "sessionId": "019a8f…",
    "stepIndex": 0,
    "agentId": "clerk",
    "instructions": "You pay bills.",
    "messages": [{"role": "user", "content": "Pay the hotel."}],
    "tools": [{"name": "pay", "description": "Pay.", "inputSchema": {"type": "object"}}],
    "model": "openai/gpt-5",
    "models": ["openai/gpt-5", "openai/gpt-5-mini"],
    "unknown": ["Secrets were masked before anything was written: …"],
    "answer": {"text": "Paid.", "calls": [], "finishReason": "stop", "latencyMs": 812},
}
HASH_EXAMPLE: Final = f"sha256:{'4be1' * 16}"
CONTENT_EXAMPLE: Final[JsonValue] = {
    "contentId": HASH_EXAMPLE,
    "hash": HASH_EXAMPLE,
    "sizeBytes": 1_204_000,
    "mediaType": "application/json",
}


Responses = dict[int | str, dict[str, Any]]
_PROBLEMS: Final[dict[int, str]] = {
    400: "the body cannot be read: expected one JSON value",
    401: "a valid key or token is needed: Authorization: Bearer …",
    403: "a policy does not allow it",
    404: "there is no such session",
    409: "run_id is already registered with this runtime, with another request; choose another id",
    410: "cursor_expired: the records of the session behind 12 are no longer kept",
    413: "the body is too large: the limit is 1,048,576 bytes",
    415: "a body is JSON, with the header content-type: application/json",
    422: "the request does not fit this route: body/message: expected a string, found a number",
    429: "too many requests: retry later",
    431: "the headers are too large: 20,480 bytes, limit 16,384",
    503: "the server is busy: retry later",
}
_COMPONENTS: Final = "#/components/schemas/"
_REF: Final = re.compile(rf'"{_COMPONENTS}([^"]+)"')
_OTHER_NAMES: Final = {"json_schema": "schema"}
"""Fields with another name on the wire than their attribute in camelCase."""
_ALWAYS: Final = (401, 429, 503)
_OF_BODIES: Final = (400, 413, 415, 422)


def answers(status: int, example: JsonValue, *, media_type: str = JSON_TYPE) -> Responses:
    """Return the documented success of a route, with an example; its problems are in `spec/`."""
    content = {media_type: {"example": example}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content}}


def _problem_statuses(row: ServerOperation, *, has_body: bool) -> list[int]:
    statuses = {*row.problems, *((431,) if row.who == "public" else _ALWAYS)}
    if row.who != "public":
        statuses |= {*(_OF_BODIES if has_body else (422,))}
    if row.takes_key:
        statuses.add(409)
    # `Problem.for_eve`: what does not fit is 400 there.
    return sorted(statuses - ({422} if row.path.startswith(EVE_PREFIX) else set()))


def _problem(status: int) -> dict[str, Any]:
    problem = Problem(status, _PROBLEMS[status])
    example: Mapping[str, JsonValue] = {
        "type": f"urn:windlass:problem:{problem.named_code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": problem.detail,
        "code": problem.named_code,
        "ids": {},
    }
    schema = {"$ref": f"{_COMPONENTS}{ProblemDetails.__name__}"}
    return {
        "description": HTTPStatus(status).phrase,
        "content": {PROBLEM_TYPE: {"schema": schema, "example": example}},
    }


def body_example(**examples: JsonValue) -> Any:
    """Return the declaration of a body with examples by name."""
    return Body(openapi_examples={name: {"value": value} for name, value in examples.items()})


class OpenApiDocument:
    """The document as a response: rendered by the first request, in a thread, and kept as bytes."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._body: StaticBody | None = None
        self._rendering = asyncio.Lock()

    async def answer(self, request: Request) -> Response:
        """Return the document, or 304."""
        async with self._rendering:
            if self._body is None:
                self._body = await asyncio.to_thread(self._render)
        return self._body.response(request.scope, {"cache-control": "no-cache"})

    def _render(self) -> StaticBody:
        return static_body(to_json(self._app.openapi()), JSON_TYPE)


def describe(app: FastAPI) -> None:
    """Complete the document of an application: problems, authentication, and descriptions of fields."""
    base_openapi = app.openapi

    def openapi() -> dict[str, Any]:
        document = base_openapi()
        parts = document["components"]
        if "securitySchemes" in parts:
            return document
        problem = ProblemDetails.model_json_schema(by_alias=True, ref_template=f"{_COMPONENTS}{{model}}")
        parts["schemas"] |= {**problem.pop("$defs", {}), ProblemDetails.__name__: problem}
        _add_descriptions(parts["schemas"])
        _require_constants(parts["schemas"])
        parts["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        for path, item in document["paths"].items():
            for method, operation in item.items():
                row = operation_of(method.upper(), path)
                operation["operationId"], operation["tags"] = row.id, [row.group]
                operation["summary"], operation["description"] = row.summary, row.doc
                operation["responses"].pop("422", None)  # of FastAPI, for its own validation
                operation["security"] = [] if row.who == "public" else [{"bearer": []}]
                if row.takes_key:
                    operation.setdefault("parameters", []).append(KEY_PARAMETER)
                statuses = _problem_statuses(row, has_body="requestBody" in operation)
                operation["responses"] |= {str(status): _problem(status) for status in statuses}
        description = f"Routes are below {PREFIX}, and those of clients of eve below {EVE_PREFIX}."
        document["servers"] = [{"url": "/", "description": description}]
        document["tags"] = [{"name": name, "description": doc} for name, doc in GROUPS.items()]
        _drop_unused(document)
        return document

    app.openapi = openapi
    app.router.add_route(DOCUMENT, OpenApiDocument(app).answer, include_in_schema=False)


def _require_constants(schemas: dict[str, dict[str, Any]]) -> None:
    """Require the fields with one value: members of a union are told apart by them."""
    for schema in schemas.values():
        constants = [name for name, field in schema.get("properties", {}).items() if "const" in field]
        if constants:
            schema["required"] = [*dict.fromkeys([*schema.get("required", ()), *constants])]


def _drop_unused(document: dict[str, Any]) -> None:
    """Remove schemas that no operation uses."""
    schemas: dict[str, Any] = document["components"]["schemas"]
    used: dict[str, None] = {}
    waiting = [to_json(document["paths"]).decode()]
    while waiting:
        names = [name for name in _REF.findall(waiting.pop()) if name not in used]
        used |= dict.fromkeys(names)
        waiting += [to_json(schemas[name]).decode() for name in dict.fromkeys(names)]
    document["components"]["schemas"] = {name: schemas[name] for name in schemas if name in used}


def _add_descriptions(schemas: dict[str, dict[str, Any]]) -> None:
    """Describe the fields of generated types by their docstrings, which are in the stubs."""
    modules = {MODULE_OF[name] for name in schemas if name in MODULE_OF}
    for module in modules:
        stub = files(generated).joinpath(f"{module}.pyi").read_text("utf-8")
        for node in ast.parse(stub).body:
            if isinstance(node, ast.ClassDef) and node.name in schemas:
                properties = schemas[node.name].get("properties", {})
                for name, text in _field_docs(node):
                    wire_name = to_camel(name) if to_camel(name) in properties else _OTHER_NAMES.get(name, "")
                    properties.get(wire_name, {}).setdefault("description", text)


def _field_docs(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, doc in pairwise(node.body):
        match field, doc:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                yield name, " ".join(text.split())
            case _:
                pass
