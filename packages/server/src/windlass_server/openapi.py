"""The OpenAPI document: what FastAPI finds out, and what it cannot know."""

from typing import Any

from fastapi import FastAPI

from windlass_server.guard import PREFIX, PUBLIC
from windlass_server.problems import ProblemBody


def describe(app: FastAPI) -> None:
    """Make the document of an application say how problems look and who may come in."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        document = made()
        parts = document["components"]
        if "securitySchemes" in parts:
            return document
        parts["schemas"][ProblemBody.__name__] = ProblemBody.model_json_schema(by_alias=True)
        parts["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        for path, item in document["paths"].items():
            for operation in item.values():
                operation["security"] = [] if path in PUBLIC else [{"bearer": []}]
        document["servers"] = [{"url": "/", "description": f"All routes are below {PREFIX}."}]
        return document

    app.openapi = openapi
