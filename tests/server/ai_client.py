"""A client of the AI SDK that builds a message as `ai` 6 does: chunks that only `ai` 7 knows fail."""

from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]


class AiClient:
    """The message of the assistant after the chunks that were seen."""

    def __init__(self) -> None:
        self.parts: list[Json] = []
        self.id: str | None = None
        self.metadata: Json = {}
        self.finish: str | None = None
        self.errors: list[str] = []
        self._open: dict[str, Json] = {}

    @property
    def approvals(self) -> list[str]:
        return [one["approval"] for one in self.parts if one.get("state") == "approval-requested"]

    @property
    def requests(self) -> list[str]:
        """Open requests, sent as data parts."""
        return [
            one["id"] for one in self.parts if one["type"] == "data-request" and "outcome" not in one["data"]
        ]

    def approve(self) -> None:
        for part in self.parts:
            if part.get("state") == "approval-requested":
                part["state"] = "approval-responded"

    def take(self, chunks: Iterable[Json]) -> None:
        for chunk in chunks:
            assert self.finish is None or chunk["type"] == "start", chunk
            self._take(chunk)

    def _take(self, chunk: Json) -> None:
        kind: str = chunk["type"]
        match kind:
            case "start":
                self.id, self.finish = chunk.get("messageId", self.id), None
                self.metadata |= chunk.get("messageMetadata", {})
            case "start-step":
                self.parts.append({"type": "step-start"})
            case "data-void":
                assert not self._open, self._open
                at = max(at for at, part in enumerate(self.parts) if part["type"] == "step-start")
                del self.parts[at:]
            case "finish":
                assert not self._open, self._open
                assert chunk["finishReason"] in ("stop", "tool-calls", "other")
                self.finish = chunk["finishReason"]
                self.metadata |= chunk.get("messageMetadata", {})
            case "error":
                self.errors.append(chunk["errorText"])
            case "finish-step" | "abort":
                pass
            case _ if kind.startswith("tool-"):
                self._tool(kind, chunk)
            case _ if kind.startswith("data-"):
                self._data(chunk)
            case _:
                self._text(kind, chunk)

    def _text(self, kind: str, chunk: Json) -> None:
        name, _, what = kind.partition("-")
        if what == "start":
            assert chunk["id"] not in self._open
            self._open[chunk["id"]] = {"type": name, "text": ""}
            self.parts.append(self._open[chunk["id"]])
        elif what == "delta":
            self._open[chunk["id"]]["text"] += chunk["delta"]
        else:
            assert what == "end", kind
            del self._open[chunk["id"]]

    def _tool(self, kind: str, chunk: Json) -> None:
        found = [one for one in self.parts if one.get("toolCallId") == chunk["toolCallId"]]
        match kind:
            case "tool-input-start" | "tool-input-available":
                if not found:
                    found = [{"type": "dynamic-tool", "toolCallId": chunk["toolCallId"]}]
                    self.parts += found
                found[0] |= {"toolName": chunk["toolName"], "state": kind[5:], "input": chunk.get("input")}
                found[0]["told"] = chunk.get("providerMetadata", found[0].get("told"))
            case "tool-input-delta":
                assert found[0]["state"] == "input-start"
            case "tool-approval-request":
                found[0] |= {"state": "approval-requested", "approval": chunk["approvalId"]}
                assert chunk["signature"].startswith("sha256:")
            case "tool-output-available":
                found[0] |= {"state": kind[5:], "output": chunk["output"]}
            case "tool-output-error":
                found[0] |= {"state": kind[5:], "errorText": chunk["errorText"]}
            case _:
                assert kind == "tool-output-denied", kind
                assert found[0]["told"]["windlass"]["approved"] is False
                found[0]["state"] = kind[5:]

    def _data(self, chunk: Json) -> None:
        found = [one for one in self.parts if one["type"] == chunk["type"] and one["id"] == chunk["id"]]
        if found:
            found[0]["data"] = chunk["data"]
        else:
            self.parts.append(dict(chunk))
