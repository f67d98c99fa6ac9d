"""Events from outside: over HTTP and by a webhook."""

from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from tests.server.rig import ended, run, serving
from tests.server.test_webhooks import SECRETS, github

from windlass import Rejected
from windlass.webhooks import Message, RunEvent, SignedRequest, Webhook
from windlass.workflow import WorkflowContext, workflow


@workflow
async def order(ctx: WorkflowContext, number: int) -> list[object]:
    return [await ctx.wait_for("paid"), await ctx.wait_for("shipped"), await ctx.wait_for("closed")]


def on_shipping(delivery: SignedRequest) -> RunEvent | Message:
    return RunEvent(str(delivery.payload["order"]), "shipped", {"by": "truck"})


def test_events_come_over_http_and_by_webhooks_once_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)
    secrets = ("NEW",)
    webhooks = [
        Webhook("paid", agent="order", scheme="github", secrets=secrets, sends="paid", run="{order}"),
        Webhook("shipped", agent="order", scheme="github", secrets=secrets, route=on_shipping),
        Webhook("other", agent="another", scheme="github", secrets=secrets, sends="paid", run="{order}"),
    ]

    async def main() -> None:
        agents: list[Any] = [order]
        async with serving(tmp_path, agents, webhooks=webhooks) as server, server.client() as client:
            run_id = (await client.post("/sessions", json={"message": "7"})).json()["runId"]
            body = f'{{"order": "{run_id}"}}'.encode()
            # A webhook of another agent reaches no run of this one.
            foreign = await client.post("../webhooks/other", content=body, headers=github(body))
            assert foreign.status_code == HTTPStatus.NO_CONTENT
            for entry in ("paid", "paid", "shipped", "shipped"):
                answer = await client.post(f"../webhooks/{entry}", content=body, headers=github(body))
                assert (answer.status_code, answer.json()["runId"]) == (HTTPStatus.ACCEPTED, run_id)
            event = {"name": "closed", "key": "c1"}
            assert (
                await client.post(f"/runs/{run_id}/events", json=event)
            ).status_code == HTTPStatus.ACCEPTED
            result = await ended(client, run_id)
            expected = [{"order": run_id}, {"by": "truck"}, True]
            assert result["result"]["structuredOutput"] == expected
            late = await client.post(f"/runs/{run_id}/events", json=event)
            assert late.status_code == HTTPStatus.CONFLICT
            again = await client.post("../webhooks/paid", content=body, headers=github(body, "another"))
            assert again.json()["runId"] == run_id

    run(main())


def test_a_webhook_has_one_source() -> None:
    with pytest.raises(Rejected, match="needs one of message, sends, route and channel"):
        Webhook("both", agent="order", scheme="github", secrets=("NEW",), sends="paid", message="x")
