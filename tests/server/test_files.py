"""Files: those that come with a message, and those that are fetched by their hash."""

import base64
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.server.rig import ended, run, serving

from windlass import Agent, LLMMessage, tool
from windlass.testing import Answer, ScriptedModel, call, say

LARGE = "<script>alert(1)</script> " * 20_000


@tool(mode="read")
async def read() -> str:
    """Read something large."""
    return LARGE


def data_url(raw: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(raw).decode()}"


def test_a_message_with_a_picture_and_a_file_reaches_the_model_as_it_was_sent(tmp_path: Path) -> None:
    async def main() -> None:
        got: list[LLMMessage] = []

        def look(messages: Sequence[LLMMessage]) -> Answer:
            got.append(messages[-1])
            return say("A cat.")

        chance = random.Random(7)
        picture, bill = chance.randbytes(300_000), chance.randbytes(300_000)
        parts = [
            {"type": "text", "text": "What is on it?"},
            {
                "type": "image",
                "image": data_url(picture, "image/png"),
                "mediaType": "image/png",
            },
            {
                "type": "file",
                "data": data_url(bill, "application/pdf"),
                "mediaType": "application/pdf",
                "filename": "bill.pdf",
            },
        ]
        agent = Agent("looker", model=ScriptedModel(look))
        async with serving(tmp_path, [agent]) as server, server.client() as client:
            answer = await client.post("/sessions", json={"message": parts})
            assert answer.status_code == 202, answer.text
            begun = answer.json()
            assert (await ended(client, begun["runId"]))["result"]["output"] == "A cat."
            assert list(got[0].parts) == parts
            assert got[0].content == "What is on it?"
            session = (await client.get(f"/sessions/{begun['sessionId']}")).json()
            assert session["title"] == "What is on it?"
            history = (await client.get(f"/sessions/{begun['sessionId']}/history")).json()["messages"]
            assert history[0]["content"] == "What is on it?"
            prompt = (await client.get(f"/runs/{begun['runId']}/steps/0/prompt")).json()
            [text, *stored] = prompt["messages"][0]["parts"]
            assert text == parts[0]
            contents = f"/sessions/{begun['sessionId']}/contents"
            for part, sent in zip(stored, (picture, bill), strict=True):
                assert part["content"]["sizeBytes"] == len(sent)
                assert (await client.get(f"{contents}/{part['content']['hash']}")).content == sent

            large = [{"type": "image", "image": data_url(chance.randbytes(800_000), "image/png")}]
            refused = await client.post("/sessions", json={"message": large})
            assert (refused.status_code, "1,048,576 bytes" in refused.json()["detail"]) == (413, True)
            wrong = await client.post("/sessions", json={"message": [{"type": "sound", "data": "x"}]})
            assert wrong.status_code == 422

    run(main())


@pytest.mark.promise("T1")
def test_a_content_is_sent_to_be_saved_and_only_to_its_owner(tmp_path: Path) -> None:
    async def main() -> None:
        agent = Agent("reader", model=ScriptedModel([call("read", {}), say("Read.")]), tools=[read])
        async with serving(tmp_path, [agent]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Read."})).json()
            await ended(client, begun["runId"])
            path = f"/sessions/{begun['sessionId']}/contents"
            [ref] = (await client.get(path)).json()["contents"]
            found = await client.get(f"{path}/{ref['hash']}")
            assert found.status_code == 200
            assert LARGE in found.text.replace('\\"', '"') or LARGE in found.json()
            assert found.headers["content-disposition"].startswith('attachment; filename="')
            assert found.headers["x-content-type-options"] == "nosniff"
            assert found.headers["content-type"].partition(";")[0] in ("application/json", "text/plain")
            other = (await client.post("/sessions", json={"message": "Read."})).json()
            for wrong in (
                f"{path}/sha256:{'0' * 64}",
                f"/sessions/{other['sessionId']}/contents/{ref['hash']}",
                f"/sessions/ghost/contents/{ref['hash']}",
            ):
                assert (await client.get(wrong)).status_code == 404
            assert (await client.get(f"{path}/x")).status_code == 422

    run(main())
