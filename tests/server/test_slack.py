"""Slack as a channel: a conversation with an approval over the real server, kills included."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
from pydantic import JsonValue
from tests.server.receiver import Got, receiving
from tests.server.rig import TIMEOUT_S, Json, http_client, run, serving
from tests.server.test_webhooks import RECORDED, signed_by

from windlass import Agent, tool
from windlass.testing import ScriptedModel, by_history, call, say
from windlass.tools.question import ask_question
from windlass.webhooks import SlackChannel, Webhook
from windlass.webhooks.channel import Message, Notice, Reply, SignedRequest
from windlass_protocol import InputRequest, JsonObject

SECRET = "slack-signing-secret"
MENTION = (RECORDED / "slack_mention.json").read_bytes()
THREAD = "T123ABC456:C123ABC456:1515449522.000016"
APP = '''
import os
import signal

from windlass import Agent, tool
from windlass.testing import ScriptedModel, by_history, call, say
from windlass.webhooks import SlackChannel, Webhook


@tool(mode="read", effect="idempotent")
async def look(order: int) -> str:
    """Look at an order."""
    if os.environ.get("DIES"):
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid"


@tool(mode="external", effect="idempotent")
async def refund(order: int) -> str:
    """Refund an order."""
    return "refunded"


steps = [call("look", {"order": 7}), call("refund", {"order": 7}), say("Refunded <!channel> & done.")]
agent = Agent("desk", model=ScriptedModel(by_history(steps)), tools=[look, refund])
slack = Webhook(
    "slack",
    agent="desk",
    scheme="slack",
    secrets=("SLACK_SIGNING_SECRET",),
    channel=SlackChannel("SLACK_TOKEN", api=os.environ["SLACK_API"]),
    approvers=("UBOSS",),
)
'''


async def send(client: httpx2.AsyncClient, body: bytes, **headers: str) -> httpx2.Response:
    kind = "application/json" if body.startswith(b"{") else "application/x-www-form-urlencoded"
    given = {**signed_by("slack", body, secret=SECRET), "content-type": kind, **headers}
    return await client.post("/webhooks/slack", content=body, headers=given)


def click(message: Json, option: str, user: str) -> bytes:
    """A click on a button of a message, as Slack sends it."""
    [actions] = [block for block in message["blocks"] if block["type"] == "actions"]
    [button] = [one for one in actions["elements"] if json.loads(one["value"])["option"] == option]
    payload = {
        "type": "block_actions",
        "user": {"id": user, "username": user.lower(), "team_id": "T123ABC456"},
        "trigger_id": f"13345224609.738474920.{user}",
        "team": {"id": "T123ABC456", "domain": "test"},
        "container": {"type": "message", "message_ts": "1515449523.1", "channel_id": message["channel"]},
        "actions": [{**button, "block_id": "x", "action_ts": "1515449524.1"}],
    }
    return urlencode({"payload": json.dumps(payload)}).encode()


async def started(folder: Path, slack: str, **variables: str) -> tuple[asyncio.subprocess.Process, str]:
    """Start the server in a process of its own; return it and its address."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "windlass_cli", "serve", "--port", "0"),
        cwd=folder,
        stderr=asyncio.subprocess.PIPE,
        env={
            **os.environ,
            "SLACK_API": slack,
            "SLACK_TOKEN": "xoxb-token",
            "SLACK_SIGNING_SECRET": SECRET,
            **variables,
        },
    )
    assert child.stderr is not None
    async for line in child.stderr:
        if b"running on " in line:
            return child, json.loads(line)["address"]
    raise AssertionError("it ended without saying where it is")


@pytest.mark.slow
def test_a_conversation_with_an_approval_survives_a_kill_between_receipt_and_answer(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    (tmp_path / "windlass.toml").write_text(
        'agents = "app.py:agent"\nwebhooks = "app.py:slack"\n', encoding="utf-8"
    )

    async def main() -> None:
        async with receiving() as slack:
            child, where = await started(tmp_path, slack.url, DIES="1")
            async with http_client(where) as client:
                challenge = b'{"token": "x", "challenge": "3eZbrw1a", "type": "url_verification"}'
                shaken = await send(client, challenge)
                assert (shaken.status_code, shaken.text) == (200, "3eZbrw1a")
                assert (await send(client, MENTION)).status_code == 200
            assert await asyncio.wait_for(child.wait(), TIMEOUT_S) == -signal.SIGKILL
            child, where = await started(tmp_path, slack.url)
            async with http_client(where) as client:
                # Slack got its answer late, and sends the event again.
                headers = {"x-slack-retry-num": "1", "x-slack-retry-reason": "http_timeout"}
                assert (await send(client, MENTION, **headers)).status_code == 200
                [asked] = await slack.have(1)
                assert asked.path == "/chat.postMessage"
                assert asked.headers["authorization"] == "Bearer xoxb-token"
                assert (asked.json["channel"], asked.json["thread_ts"]) == tuple(THREAD.split(":")[1:])
                # A stranger may not approve, and is told so; nobody else sees that.
                assert (await send(client, click(asked.json, "approve", "UEVE"))).status_code == 200
                told = (await slack.have(2))[1]
                assert (told.path, told.json["user"]) == ("/chat.postEphemeral", "UEVE")
                assert "you may not approve this call" in told.json["text"]
                boss = click(asked.json, "approve", "UBOSS")
                assert (await send(client, boss)).status_code == 200
                texts = [one.json["text"] for one in (await slack.have(4))[2:4]]
                assert sorted(texts) == ["Approved by UBOSS.", "Refunded &lt;!channel&gt; &amp; done."]
                again = await send(client, click(asked.json, "deny", "UBOSS"))
                assert again.status_code == 200
                assert "already settled: approved (approve) by UBOSS" in (await slack.have(5))[4].json["text"]
                runs = (await client.get("/v1/runs")).json()["runs"]
                assert [(one["sessionId"], one["status"]) for one in runs] == [
                    (f"slack:{THREAD}", "completed")
                ]
                history = (await client.get(f"/v1/sessions/slack:{THREAD}/history")).json()
                assert "refund order <7>" in json.dumps(history)
            child.send_signal(signal.SIGINT)
            await asyncio.wait_for(child.wait(), TIMEOUT_S)

    run(main())


def reply(text: str, event_id: str, user: str = "UANN") -> bytes:
    """A reply in the thread, as Slack sends it."""
    said = json.loads(MENTION)
    given: Json = {"type": "message", "channel_type": "channel", "user": user, "text": text}
    more = {"thread_ts": said["event"]["ts"], "ts": f"{event_id[2:]}.1", "channel": said["event"]["channel"]}
    return json.dumps({**said, "event_id": event_id, "event": {**given, **more}}).encode()


def asker(done: list[str]) -> Agent:
    """An agent that asks two questions, pays, and says so."""

    @tool(mode="external", effect="idempotent")
    async def pay(cents: int) -> str:
        """Pay."""
        done.append("paid")
        return "paid"

    labels = {"r": "Red", "b": "Blue", "approve": "Any"}
    options: list[JsonValue] = [{"id": one, "label": label} for one, label in labels.items()]
    colours: JsonObject = {"prompt": "Which?", "options": options}
    steps = [
        call("ask_question", {"prompt": "For whom?"}),
        call("ask_question", colours),
        call("pay", {"cents": 5}),
        say("Very well."),
    ]
    return Agent("desk", model=ScriptedModel(by_history(steps)), tools=[ask_question, pay])


def test_a_reply_in_the_thread_answers_a_question_once_and_approves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGNING", SECRET)
    monkeypatch.setenv("TOKEN", "xoxb-token")
    done: list[str] = []

    async def main() -> None:
        async with receiving() as slack:
            channel = SlackChannel("TOKEN", api=slack.url)
            entry = Webhook("slack", agent="desk", scheme="slack", secrets=("SIGNING",), channel=channel)

            async def texts(count: int) -> list[str]:
                return [one.json["text"] for one in (await slack.have(count))[:count]]

            async with (
                serving(tmp_path, [asker(done)], webhooks=[entry]) as server,
                http_client(f"http://127.0.0.1:{server.port}") as client,
            ):

                async def says(body: bytes) -> None:
                    assert (await send(client, body)).status_code == 200

                await says(MENTION)
                assert (await texts(1)) == ["For whom?"]
                # The event that asked comes again: it is no answer.
                await says(MENTION)
                await says(reply("Ann <3", "Ev1"))
                assert sorted((await texts(3))[1:]) == ["Answered by UANN.", "Which?"]
                # So does the answer: it is neither the answer to the next question nor a message.
                await says(reply("Ann <3", "Ev1"))
                await says(reply("green", "Ev2", "UBOB"))
                told = (await slack.have(4))[3]
                assert (told.path, told.json["user"]) == ("/chat.postEphemeral", "UBOB")
                assert told.json["text"] == "please answer with one of: Red, Blue, Any"
                # An option such as that of an approval at another server.
                await says(reply("any", "Ev5", "UBOB"))
                assert (await texts(5))[4] == "a text approves nothing; use the button"
                await says(reply("blue", "Ev3", "UBOB"))
                answered, asked = sorted((await texts(7))[5:])
                assert (answered, asked[:8]) == ("Answered by UBOB.", "Run pay?")
                await says(reply("blue", "Ev3", "UBOB"))
                await says(reply("green", "Ev2", "UBOB"))
                assert len((await client.get("/v1/runs")).json()["runs"]) == 1
                # A text is no approval: it is the next message.
                await says(reply("approve", "Ev4", "UBOB"))
                assert len((await client.get("/v1/runs")).json()["runs"]) == 2
                [still] = (await client.get("/v1/approvals")).json()["requests"]
                assert still["request"]["kind"] == "approval"
            assert (done, len(slack.got)) == ([], 7)

    run(main())


# what a request says


def event(**fields: object) -> SignedRequest:
    given = {"type": "message", "user": "U1", "text": "Hello.", "ts": "1.1", "channel": "C1", **fields}
    app = [{"team_id": "T1", "user_id": "UAPP", "is_bot": True}]
    return request(
        {"type": "event_callback", "team_id": "T1", "event_id": "Ev1", "event": given, "authorizations": app}
    )


def request(payload: Json) -> SignedRequest:
    return SignedRequest("slack", "Ev1", "message", payload, {})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (event(channel_type="im"), Message("T1:C1:1.1", "Hello.", user="U1")),
        (event(type="app_mention", text="<@U9> go"), Message("T1:C1:1.1", "go", user="U1")),
        (
            event(type="app_mention", text="<@U9|bot> go", thread_ts="0.9"),
            Message("T1:C1:0.9", "go", user="U1"),
        ),
        (event(thread_ts="0.9"), Message("T1:C1:0.9", "Hello.", user="U1", needs_session=True)),
        (event(thread_ts="0.9", text="<@U9> go"), None),
        # The mention comes as an event of its own, and one message is one run.
        (event(thread_ts="0.9", text="Hey <@UAPP|app>, go"), None),
        (
            event(thread_ts="0.9", text="Ask <@UAPPLE>"),
            Message("T1:C1:0.9", "Ask <@UAPPLE>", user="U1", needs_session=True),
        ),
        (event(), None),
        (event(channel_type="im", bot_id="B1"), None),
        (event(channel_type="im", subtype="message_changed"), None),
        (event(type="reaction_added"), None),
        (event(type="app_mention", text="<@U9>"), None),
        (request({"type": "url_verification", "challenge": "c"}), Reply("c")),
        (request({"type": "view_submission"}), None),
        (request({"type": "block_actions", "actions": [{"action_id": "theirs"}]}), None),
    ],
)
def test_only_what_people_say_to_the_app_is_a_message(given: SignedRequest, expected: object) -> None:
    assert SlackChannel("TOKEN").identify(given) == expected


def asking(**fields: object) -> InputRequest:
    action = {"kind": "tool-call", "callId": "c", "toolName": "pay", "input": {"cents": 5, "to": "<@U1>"}}
    return InputRequest.model_validate(
        {"requestId": "r1", "action": action, "prompt": "Run pay?", "display": "select", **fields}
    )


def test_a_request_is_shown_with_its_arguments_and_a_button_for_each_option() -> None:
    options = [{"id": f"o{number}", "label": "x" * 100, "style": "danger"} for number in range(30)]
    notice = Notice("T1:C1:1.1", "request", "Run pay?", asking(options=options))
    content: Any = SlackChannel("TOKEN").render(notice)
    [section, actions] = content["blocks"]
    assert "&lt;@U1&gt;" in section["text"]["text"]
    assert len(actions["elements"]) == 25
    assert {len(one["text"]["text"]) for one in actions["elements"]} == {75}
    without: Any = SlackChannel("TOKEN").render(Notice("T:C:1", "request", "What?", asking()))
    assert len(without["blocks"]) == 1


def test_a_call_is_shown_whole_and_as_it_is_or_cannot_be_approved_in_slack() -> None:
    options = [{"id": one, "label": one} for one in ("approve", "approve_session", "deny")]
    request = asking(options=options, kind="approval")

    def shown(prompt: str) -> tuple[str, list[str]]:
        content: Any = SlackChannel("TOKEN").render(Notice("T1:C1:1.1", "request", prompt, request))
        *sections, actions = content["blocks"]
        texts = [one["text"]["text"] for one in sections]
        assert max(map(len, texts)) <= 3_000
        labels = [one["text"]["text"] for one in actions["elements"]]
        return "".join(one.removeprefix("```").removesuffix("```") for one in texts), labels

    everything = ["approve", "approve_session", "deny"]
    assert shown("Run pay? ``` *5* <@U1>") == ("Run pay? \\u0060\\u0060\\u0060 *5* &lt;@U1&gt;", everything)
    assert shown(f"{'&' * 2_000} 5000000") == (f"{'&amp;' * 2_000} 5000000", everything)
    text, labels = shown("x" * 20_000)
    assert (len(text) < 13_000, "approve it in the inspector" in text, labels) == (True, True, ["deny"])


@pytest.mark.parametrize(
    ("answer", "problem", "is_final"),
    [
        ((200, b'{"ok": true}'), None, False),
        ((200, b'{"ok": false, "error": "channel_not_found"}'), "channel_not_found", True),
        ((200, b'{"ok": false, "error": "internal_error"}'), "internal_error", False),
        ((200, b"<html>"), "not JSON", False),
        ((500, b""), "HTTP 500", False),
        ((429, b""), "HTTP 429", False),
    ],
)
def test_an_answer_of_slack_says_whether_to_try_again(
    answer: tuple[int, bytes], problem: str | None, is_final: bool
) -> None:
    async def main() -> None:
        def given(_: Got) -> tuple[int, bytes]:
            return answer

        async with receiving(given) as slack:
            channel = SlackChannel("TOKEN", api=slack.url, variable=lambda name: "xoxb")
            outcome = await channel.deliver({"channel": "C1", "text": "x"}, key="k")
            assert outcome.is_final == is_final
            assert (outcome.problem is None) if problem is None else (problem in str(outcome.problem))
            unset = SlackChannel("TOKEN", api=slack.url, variable=lambda name: None)
            assert "TOKEN is not set" in str((await unset.deliver({}, key="")).problem)

    run(main())
