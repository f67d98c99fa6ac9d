"""Malformed lines: each gets the right error code, and the sidecar goes on."""

import asyncio
from pathlib import Path

import pytest
from tests.sidecar.frames import read
from tests.sidecar.fuzz import fuzz
from tests.sidecar.malformed import OK, Case, cases
from tests.sidecar.rig import Process, params_of, play, sidecar

from windlass import tool
from windlass_protocol import JsonObject, JsonValue

CASES = cases()
ENDED = "the end of this case"


def code_of(message: JsonObject) -> object:
    error = message.get("error")
    return error["code"] if isinstance(error, dict) else OK


def check(case: Case, answers: list[JsonObject]) -> None:
    assert tuple(map(code_of, answers)) == case.codes, case.name
    assert tuple(answer["id"] for answer in answers) == case.ids, case.name


def test_there_are_at_least_two_hundred_cases_and_no_two_are_the_same() -> None:
    assert len({case.line for case in CASES}) == len(CASES) >= 200


@pytest.mark.promise("L1")
def test_every_line_that_a_host_should_not_send_gets_its_code() -> None:
    async def story() -> None:
        async with sidecar() as client:
            for case in CASES:
                reply = await client.peer.answer(case.line) if case.line.strip() else None
                body = None if reply is None else reply.body
                check(case, [] if body is None else read(body))
            assert client.line.sent.empty(), "no notification was sent beside the answers"

    play(story())


@pytest.mark.promise("L1")
def test_a_real_process_answers_every_malformed_line_and_stays_alive(tmp_path: Path) -> None:
    with Process(folder=tmp_path) as process:
        process.method("lifecycle.ready")
        for at, case in enumerate(CASES):
            process.write(case.line + b"\n")
            before = len(process.heard)
            process.call("system.ping", call_id=f"{ENDED} {at}")
            # A batch is answered when all of it is, which may be after the call behind it.
            while len(process.heard) - before <= len(case.codes):
                process.next()
            answers = [one for one in process.heard[before:] if one.get("id") != f"{ENDED} {at}"]
            check(case, answers)
        process.close()
        assert process.ended() == 0


@pytest.mark.uncounted
@pytest.mark.promise("L1")
def test_twenty_thousand_random_lines_get_the_codes_of_an_independent_rule() -> None:
    told = asyncio.run(fuzz(20_000, seed=20_260_707))
    assert told["lines"] > 19_000
    assert min(told.values()) > 20, "every code is among the answers"


def test_the_independent_rule_finds_a_wrong_sidecar(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("windlass_sidecar.rpc.BATCH_ITEMS_MAX", 2)
    with pytest.raises(AssertionError, match="line"):
        asyncio.run(fuzz(20_000, seed=1))


@pytest.mark.promise("L1")
def test_a_large_bad_line_holds_up_nothing_that_goes_on_and_lines_keep_their_order() -> None:
    async def story() -> None:
        entered = asyncio.Event()

        @tool(mode="read")
        async def slow() -> str:
            """Wait to be cancelled."""
            entered.set()
            await asyncio.Event().wait()
            return ""

        async with sidecar(slow) as client:
            past: JsonValue = [
                {"role": "user", "content": "x" * 200_000},
                {"role": "user", "content": "slow"},
            ]
            chat: JsonObject = {"provider": "demo", "model": "m", "streamId": "s1", "messages": past}
            client.ask("agent.chat.stream", chat, call_id="stream")
            client.ask("agent.chat.cancel", {"streamId": "s1"}, call_id="cancel")
            client.line.put(b"{" + b",".join(b'"k%d":[{}]' % number for number in range(20_000)) + b",}")
            ticks = 0
            while not any(message.get("id") is None and "error" in message for message in client.heard):
                await asyncio.sleep(0)
                ticks += 1
                while not client.line.sent.empty():
                    client.heard.append(client.line.sent.get_nowait())
            assert ticks > 10, "the loop went round while the line was read"
            assert {"id": "cancel", "jsonrpc": "2.0", "result": None} in client.heard
            done = await client.method("stream.done")
            assert params_of(done)["cancelled"] is True

    play(story())
