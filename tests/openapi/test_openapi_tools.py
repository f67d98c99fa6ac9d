"""OpenAPI connections: tools that call a real server, with credentials that no one else sees."""

import asyncio
import json
import threading
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import yaml
from tests.server.receiver import Got, receiving
from tests.server.rig import Json, run

from windlass import Agent, AgentRuntime, Rejected, ToolFailed
from windlass.limits import LIGHT_CHARS_MAX
from windlass.openapi import RESPONSE_BYTES_MAX, RESPONSE_VALUES_MAX, OpenApi
from windlass.testing import ScriptedModel, call, say
from windlass_harness.redact import Redactor
from windlass_protocol import EffectClass, ToolMode

SHOP: Json = {
    "openapi": "3.1.0",
    "info": {"title": "Shop", "version": "1"},
    "servers": [{"url": "https://{region}.example.com"}, {"url": "https://api.example.com/v1/"}],
    "security": [{"bearer": []}],
    "paths": {
        "/orders/{id}": {
            "parameters": [{"$ref": "#/components/parameters/Id"}],
            "get": {
                "operationId": "getOrder",
                "summary": "An order.",
                "parameters": [
                    {
                        "name": "fields",
                        "in": "query",
                        "schema": {"type": "array", "items": {"type": "string"}},
                    },
                    {"name": "by", "in": "query", "style": "deepObject", "schema": {"type": "object"}},
                    {"name": "x-trace", "in": "header", "schema": {"type": "string"}},
                    {"name": "id", "in": "query", "schema": {"type": "boolean"}},
                    {"name": "session", "in": "cookie", "schema": {"type": "string"}},
                ],
            },
            "delete": {"operationId": "dropOrder", "security": []},
        },
        "/orders": {
            "post": {
                "operationId": "makeOrder",
                "security": [{"key": [], "basic": []}, {"query": []}],
                "requestBody": {"$ref": "#/components/requestBodies/Order"},
            },
            "put": {
                "operationId": "form",
                "security": [{}],
                "requestBody": {
                    "content": {
                        "multipart/form-data": {},
                        "application/x-www-form-urlencoded": {"schema": {"type": "object"}},
                    }
                },
            },
            "patch": {
                "operationId": "upload",
                "requestBody": {"content": {"multipart/form-data": {"schema": {"type": "object"}}}},
            },
        },
        "/cookie": {
            "get": {
                "operationId": "cookie",
                "parameters": [{"name": "c", "in": "cookie", "required": True, "schema": {}}],
            }
        },
        "/far": {
            "get": {
                "operationId": "far",
                "parameters": [{"name": "q", "in": "query", "schema": {"$ref": "other.yaml#/X"}}],
            }
        },
    },
    "components": {
        "parameters": {
            "Id": {
                "name": "id",
                "in": "path",
                "required": True,
                "description": "Which one.",
                "schema": {"type": "string"},
            }
        },
        "requestBodies": {
            "Order": {
                "required": True,
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}},
            }
        },
        "schemas": {
            "Order": {
                "type": "object",
                "example": {},
                "properties": {
                    "item": {"$ref": "#/components/schemas/Item"},
                    "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Order"}},
                },
                "required": ["item"],
                "x-internal": True,
            },
            "Item": {"type": "string", "minLength": 1},
        },
        "securitySchemes": {
            "bearer": {"type": "http", "scheme": "bearer"},
            "basic": {"type": "http", "scheme": "basic"},
            "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
            "query": {"type": "apiKey", "in": "query", "name": "key"},
            "mtls": {"type": "mutualTLS"},
        },
    },
}
SECRETS = {"TOKEN": "token-123456", "LOGIN": "ann:pass-123456", "KEY": "key-123456"}


def shop(url: str | None = None, *operations: str, **more: Any) -> OpenApi:
    given: Json = {
        "operations": operations or ["getOrder"],
        "credentials": {"bearer": "TOKEN", "basic": "LOGIN", "key": "KEY"},
        "variable": SECRETS.get,
        **more,
    }
    return OpenApi("shop", SHOP, **({} if url is None else {"url": url}), **given)


async def called(api: OpenApi, arguments: Json) -> object:
    """Call the only tool of an API as the runtime does."""
    [tool] = api.tools
    function: Callable[..., Any] = tool.function
    async with api:
        return await function(arguments, None)


def answering(status: int = 200, body: bytes = b'{"ok": true}') -> Callable[[Got], tuple[int, bytes]]:
    return lambda _: (status, body)


def test_parameters_are_sent_as_the_document_says(tmp_path: Path) -> None:
    async def main() -> None:
        async with receiving() as server:
            arguments: Json = {
                "id": "a/..b?x#ü",
                "fields": ["x", "y&z"],
                "by": {"size": 5},
                "x-trace": "t1",
                "query_id": True,
            }
            answer = await called(shop(server.url), arguments)
            assert answer == '{"ok": true}'  # without a content type it is a text
            [got] = server.got
            split = urlsplit(got.path)
            assert split.path == "/orders/a%2F..b%3Fx%23%C3%BC"
            assert parse_qsl(split.query) == [
                ("fields", "x"),
                ("fields", "y&z"),
                ("by[size]", "5"),
                ("id", "true"),
            ]
            assert (got.headers["x-trace"], got.headers["authorization"]) == ("t1", "Bearer token-123456")

    run(main())


def test_bodies_are_json_or_forms_and_credentials_are_those_of_the_first_alternative() -> None:
    async def main() -> None:
        async with receiving() as server:
            await called(shop(server.url, "makeOrder"), {"body": {"item": "tea"}})
            await called(shop(server.url, "form"), {"body": {"a": "1&2", "b": False}})
            await called(shop(server.url, "makeOrder", credentials={"query": "KEY"}), {"body": {"item": "x"}})
            made, form, keyed = server.got
            assert (made.json, made.headers["x-key"]) == ({"item": "tea"}, "key-123456")
            assert made.headers["authorization"] == f"Basic {b64encode(b'ann:pass-123456').decode()}"
            assert form.body == b"a=1%262&b=false"
            assert "authorization" not in form.headers
            assert keyed.path == "/orders?key=key-123456"

    run(main())


@pytest.mark.parametrize("value", ["", ".", "..", "../../admin", "a/..", "a\\..\\b"])
def test_a_path_parameter_cannot_name_another_path(value: str) -> None:
    async def main() -> None:
        async with receiving() as server:
            with pytest.raises(ToolFailed, match="nothing was done"):
                await called(shop(server.url), {"id": value})
            with pytest.raises(ToolFailed, match="printable ASCII"):
                await called(shop(server.url), {"id": "1", "x-trace": "a\r\nb: c"})
            assert server.got == []

    run(main())


@pytest.mark.parametrize(
    ("operation", "status", "body", "words"),
    [
        ("getOrder", 404, b"no order for token-123456", "HTTP 404: no order for [redacted"),
        ("getOrder", 302, b"", "HTTP 302"),
        # The limit of what the model sees is in the middle of the secret.
        ("getOrder", 403, b"x" * 494 + b"token-123456", "x" * 494 + "[redac"),
        ("getOrder", 200, b"x" * (RESPONSE_BYTES_MAX + 1), "too large: limit 1,048,576 bytes"),
        ("dropOrder", 200, b"x" * (RESPONSE_BYTES_MAX + 1), "the call itself was made"),
    ],
)
def test_a_failure_is_told_without_secrets_and_with_what_is_known(
    operation: str, status: int, body: bytes, words: str
) -> None:
    async def main() -> None:
        async with receiving(answering(status, body)) as server:
            with pytest.raises(ToolFailed) as failed:
                await called(shop(server.url, operation), {"id": "1"})
            assert words.lower() in failed.value.message.lower()
            assert "token-" not in failed.value.message

    run(main())


def test_json_is_a_value_up_to_a_limit_of_values() -> None:
    async def main() -> None:
        most = [0] * RESPONSE_VALUES_MAX
        async with receiving(answering(200, json.dumps(most).encode())) as server:
            server.media_type = "application/json"
            assert await called(shop(server.url), {"id": "1"}) == most
            server.answer = answering(200, json.dumps([*most, 0]).encode())
            with pytest.raises(ToolFailed, match="too large: limit 200,000 values"):
                await called(shop(server.url), {"id": "1"})
            with pytest.raises(ToolFailed, match="the call itself was made"):
                await called(shop(server.url, "dropOrder"), {"id": "1"})

    run(main())


@pytest.mark.parametrize(("size", "is_on_loop"), [(10, True), (LIGHT_CHARS_MAX + 1, False)])
def test_a_large_answer_is_masked_in_a_thread(
    size: int, is_on_loop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    text = Redactor.text

    def traced(redactor: Redactor, given: str) -> str:
        threads.append(threading.get_ident())
        return text(redactor, given)

    monkeypatch.setattr(Redactor, "text", traced)

    async def main() -> None:
        async with receiving(answering(200, b"x" * size)) as server:
            assert await called(shop(server.url), {"id": "1"}) == "x" * size

    run(main())
    assert (threads == [threading.get_ident()]) is is_on_loop


def test_a_lost_connection_and_a_missing_variable_say_whether_there_was_an_effect() -> None:
    def abort(_: Got) -> tuple[int, bytes]:
        raise ConnectionAbortedError

    async def main() -> None:
        async with receiving(abort) as server:
            server_url = server.url

            async def problem(api: OpenApi) -> ToolFailed:
                with pytest.raises(ToolFailed) as failed:
                    await called(api, {"id": "1"})
                return failed.value

            unset = await problem(shop(server_url, variable=dict[str, str]().get))
            assert "variable TOKEN is not set; nothing was done" in unset.message
        gone = await problem(shop("http://127.0.0.1:1"))
        assert (gone.is_retryable, gone.message) == (True, "shop could not be reached; nothing was done")

    run(main())


def test_modes_come_from_methods_unless_they_are_declared() -> None:
    api = shop(None, "getOrder", "dropOrder", "makeOrder", "form", tools={"makeOrder": {"mode": "read"}})
    assert [(one.name, one.mode, one.effect) for one in api.tools] == [
        ("shop__getOrder", ToolMode.READ, EffectClass.READ),
        ("shop__dropOrder", ToolMode.DESTRUCTIVE, EffectClass.IDEMPOTENT),
        ("shop__makeOrder", ToolMode.READ, EffectClass.READ),
        ("shop__form", ToolMode.EXTERNAL, EffectClass.IDEMPOTENT),
    ]
    schema: Any = api.tools[2].input_schema
    assert schema["required"] == ["body"]
    assert schema["$defs"]["Order"]["properties"]["parts"]["items"] == {"$ref": "#/$defs/Order"}
    assert "x-internal" not in json.dumps(schema)
    get: Any = api.tools[0].input_schema
    assert get["properties"]["id"] == {"type": "string", "description": "Which one."}
    assert get["required"] == ["id"]


def test_a_document_of_3_0_is_read_in_the_current_dialect(tmp_path: Path) -> None:
    old = {
        "openapi": "3.0.3",
        "servers": [{"url": "https://api.example.com"}],
        "paths": {
            "/x": {
                "get": {
                    "parameters": [
                        {
                            "name": "n",
                            "in": "query",
                            "schema": {
                                "type": "integer",
                                "minimum": 1,
                                "exclusiveMinimum": True,
                                "maximum": 9,
                                "exclusiveMaximum": False,
                                "nullable": True,
                            },
                        },
                        {
                            "name": "e",
                            "in": "query",
                            "schema": {"type": "string", "enum": ["a"], "nullable": True},
                        },
                    ]
                }
            }
        },
    }
    (tmp_path / "api.yaml").write_text(yaml.safe_dump(old), encoding="utf-8")
    [tool] = OpenApi("old", tmp_path / "api.yaml", operations=["get /x"]).tools
    schema: Any = tool.input_schema
    assert tool.name == "old__get_x"
    assert schema["properties"] == {
        "n": {"type": ["integer", "null"], "exclusiveMinimum": 1, "maximum": 9},
        "e": {"type": ["string", "null"], "enum": ["a", None]},
    }


def otherwise(**changes: object) -> Json:
    """The document with other values at places such as `paths|/orders|post`."""
    made: Json = json.loads(json.dumps(SHOP))
    for place, value in changes.items():
        *names, last = place.split("|")
        part: Any = made
        for name in names:
            part = part[name]
        part[last] = value
    return made


@pytest.mark.parametrize(
    "changes",
    [
        {"paths|/orders/{id}|get|summary": "Another."},
        # The credentials would go elsewhere.
        {"servers": [{"url": "https://api.example.net"}]},
        {"components|securitySchemes|bearer": {"type": "apiKey", "in": "query", "name": "token"}},
        {"components|parameters|Id|in": "header"},
    ],
)
def test_a_changed_operation_is_not_the_one_that_was_pinned(changes: Json) -> None:
    pins = dict(shop().fingerprints)
    assert shop(pins=pins).fingerprints == pins
    changed = otherwise(**changes)
    with pytest.raises(Rejected, match="is not the one that was pinned"):
        OpenApi("shop", changed, operations=["getOrder"], credentials={"bearer": "TOKEN"}, pins=pins)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"operations": ["getOrders"]}, "unknown operation getOrders; did you mean getOrder"),
        ({"operations": []}, "at least one"),
        ({"operations": "getOrder"}, "a list of operation ids"),
        ({"operations": ["cookie"]}, "in a cookie: not supported"),
        ({"operations": ["far"]}, "does not lead to a part of the document"),
        ({"operations": ["upload"]}, "JSON or a form, found multipart/form-data"),
        ({"credentials": {}}, "operation getOrder needs credentials for bearer"),
        ({"tools": {"getOrdr": {"mode": "external"}}}, "tools names getOrdr, .*; did you mean getOrder"),
        ({"url": "ftp://x"}, "give its address"),
        ({"url": "https://a:b@x"}, "not into the address"),
        ({"urls": "x"}, "url"),
    ],
)
def test_a_wrong_connection_is_refused(change: Json, words: str) -> None:
    given: Json = {"operations": ["getOrder"], "credentials": {"bearer": "TOKEN"}, **change}
    with pytest.raises(Rejected, match=words):
        OpenApi("shop", SHOP, **given)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1]", "not an OpenAPI document"),
        ("{", "not an OpenAPI document"),
        ("openapi: 2.0.0", "a version 3.0 or 3.1, found '2.0.0'"),
    ],
)
def test_a_file_that_is_no_document_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "api.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(Rejected, match=words):
        OpenApi("x", tmp_path / "api.yaml", operations=["a"])
    with pytest.raises(Rejected, match="cannot be read"):
        OpenApi("x", tmp_path / "none.yaml", operations=["a"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"paths|/far|get|operationId": "getOrder"}, "two operations have the operationId getOrder"),
        ({"paths|/far": None}, "not as the specification says"),
        ({"servers": ["https://x"]}, "not as the specification says"),
        ({"components|parameters|Id": {"in": "path"}}, "not as the specification says"),
        ({"components|securitySchemes|bearer|scheme": "digest"}, "bearer is not supported: http"),
    ],
)
def test_a_document_that_cannot_be_understood_is_refused(changes: Json, words: str) -> None:
    with pytest.raises(Rejected, match=words):
        OpenApi("shop", otherwise(**changes), operations=["getOrder"], credentials={"bearer": "TOKEN"})


def test_credentials_go_without_encryption_only_to_an_address_that_the_application_gives() -> None:
    plain = otherwise(servers=[{"url": "http://api.example.com"}])
    with pytest.raises(Rejected, match=r"names the address http://api\.example\.com, where credentials"):
        OpenApi("shop", plain, operations=["getOrder"], credentials={"bearer": "TOKEN"})
    OpenApi("shop", plain, operations=["dropOrder"])
    given = "http://api.example.com"
    OpenApi("shop", plain, operations=["getOrder"], credentials={"bearer": "TOKEN"}, url=given)


def test_schemas_keep_their_properties_and_references_whatever_their_names() -> None:
    reference = "#/components/schemas/"
    order: Json = {
        "type": "object",
        "properties": {
            "example": {"$ref": f"{reference}a~1b"},
            "x-note": {"$ref": f"{reference}A/properties/b"},
            "nullable": {"$ref": f"{reference}A.properties.b"},
            "$ref": {"type": "string", "default": {"example": 1}},
        },
    }
    links = {f"L{at}": {"items": {"$ref": f"{reference}L{at + 1}"}} for at in range(2_000)}
    schemas: Json = {
        "Order": order,
        "a/b": {"type": "string"},
        "A": {"properties": {"b": {"type": "integer"}}},
        "A.properties.b": {"type": "boolean"},
        **links,
        "L2000": {"type": "null"},
    }
    changes: Json = {"components|schemas": schemas, "paths|/orders|post|security": []}
    document = otherwise(**changes)
    [tool] = OpenApi("shop", document, operations=["makeOrder"]).tools
    made: Any = tool.input_schema
    found = made["$defs"]["Order"]["properties"]
    kinds = {
        name: made["$defs"][one["$ref"].removeprefix("#/$defs/")]["type"]
        for name, one in found.items()
        if "$ref" in one
    }
    assert kinds == {"example": "string", "x-note": "integer", "nullable": "boolean"}
    assert found["$ref"] == {"type": "string", "default": {"example": 1}}
    order["properties"]["long"] = {"$ref": f"{reference}L0"}
    assert len(OpenApi("shop", document, operations=["makeOrder"]).fingerprints) == 1


@pytest.mark.parametrize(("levels", "problem"), [(17, "200,000 parts"), (30, "2,000,000 values")])
def test_aliases_that_multiply_are_refused(tmp_path: Path, levels: int, problem: str) -> None:
    lines = ["openapi: 3.1.0", "x-0: &a0 {type: string}"]
    lines += [f"x-{at}: &a{at} {{anyOf: [*a{at - 1}, *a{at - 1}]}}" for at in range(1, levels)]
    query = f"{{name: q, in: query, schema: *a{levels - 1}}}"
    lines += [f"paths: {{/x: {{get: {{operationId: a, parameters: [{query}]}}}}}}"]
    (tmp_path / "api.yaml").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(Rejected, match=f"more than {problem}"):
        OpenApi("x", tmp_path / "api.yaml", operations=["a"], url="https://api.example.com")


def test_arguments_take_neither_the_place_of_credentials_nor_of_the_connection() -> None:
    given: list[Json] = [
        {"name": one, "in": "header", "schema": {}} for one in ("x-KEY", "Host", "authorization")
    ]
    given += [{"name": "key", "in": "query", "schema": {}}]
    document = otherwise(**{"paths|/orders/{id}|get|parameters": given})
    arguments = {"id": "1", "x-KEY": "other", "Host": "other", "authorization": "other", "key": "other"}

    async def main() -> None:
        async with receiving() as server:
            for scheme in ("key", "query"):
                document["paths"]["/orders/{id}"]["get"]["security"] = [{scheme: []}]
                credentials = {scheme: "KEY"}
                api = OpenApi(
                    *("shop", document),
                    operations=["getOrder"],
                    credentials=credentials,
                    url=server.url,
                    variable=SECRETS.get,
                )
                await called(api, arguments)
            first, second = server.got
            assert (first.headers["x-key"], second.path) == ("key-123456", "/orders/1?key=key-123456")
            for got in server.got:
                assert "authorization" not in got.headers
                assert got.headers["host"] != "other"

    run(main())


def test_a_secret_that_cannot_be_masked_is_refused_before_the_call() -> None:
    async def main() -> None:
        async with receiving() as server:
            with pytest.raises(ToolFailed, match=r"TOKEN has 5 characters.*nothing was done"):
                await called(shop(server.url, variable={"TOKEN": "short"}.get), {"id": "1"})
            assert server.got == []

    run(main())


def test_an_agent_calls_an_operation_and_the_journal_has_no_credentials(tmp_path: Path) -> None:
    async def main() -> None:
        async with receiving(answering(body=b"Tea for token-123456")) as server, shop(server.url) as api:
            model = ScriptedModel([call("shop__getOrder", {"id": "7"}), say("Done.")])
            agent = Agent("clerk", model=model, tools=api.tools)
            async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
                assert (await (await runtime.start_run(agent, "Look.")).wait()).output == "Done."
            assert server.got[0].path == "/orders/7"

    asyncio.run(main())
    assert not any(b"token-123456" in one.read_bytes() for one in tmp_path.iterdir() if one.is_file())
