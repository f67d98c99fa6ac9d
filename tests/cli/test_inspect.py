"""`runs`, `sessions`, `approvals`, `trace` and `decisions` on a local store."""

import asyncio
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest
from tests.cli.commands import Typed, run_here

from windlass import Agent, AgentRuntime, Rejected
from windlass.demo import agent as demo
from windlass.loading import load_agents
from windlass.testing import ScriptedModel, say
from windlass_cli.output import show_table, standard_terminal
from windlass_server import Tenants

Row = dict[str, object]
LONG_CALL = '''
from windlass import Agent, tool
from windlass.testing import ScriptedModel, call, say

@tool(mode="external", effect="once")
def send(body: str, to: str) -> str:
    """Send a letter."""
    return "sent"

letter = {"body": "harmless " * 40, "to": "somebody@else.example"}
agent = Agent("a", model=ScriptedModel([call("send", letter), say("Done.")]), tools=[send])
'''


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDLASS_DURABILITY", "process")


def lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[Row]:
    """Run a command that writes JSON; return the lines."""
    ran = run_here(capsys, *arguments, "--json")
    assert ran.code == 0, ran.err
    return [cast(Row, json.loads(line)) for line in ran.out.splitlines()]


def begun(capsys: pytest.CaptureFixture[str], words: str) -> tuple[str, str]:
    """Run the demo agent once; return its session and its run."""
    run_here(capsys, "run", words)
    run = lines(capsys, "runs", "list", "--limit", "1")[0]
    return str(run["sessionId"]), str(run["runId"])


def test_reading_does_not_create_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = run_here(capsys, "runs", "list")
    assert ran.code == 2
    assert "does not exist" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_refused_starts_are_listed_with_their_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begun(capsys, "weather in Oslo")
    ran = run_here(capsys, "runs", "refused")
    assert (ran.code, ran.out) == (0, "")
    assert "No start was refused." in ran.err

    async def refuse() -> None:
        async with AgentRuntime.open(tmp_path / "windlass-data" / "local.db", agents=[demo]) as runtime:
            for name in ("nobody", "else"):
                with pytest.raises(Rejected):
                    await runtime.start_run(name, "go", run_id=f"r-{name}", owner="ann")

    asyncio.run(refuse())
    ran = run_here(capsys, "runs", "refused", "--agent", "nobody")
    assert ran.code == 0
    assert "rejected" in ran.out
    assert "r-nobody" in ran.out
    assert "unknown agent: nobody" in " ".join(ran.out.split())
    newer, older = lines(capsys, "runs", "refused")
    assert (newer["agentId"], older["agentId"]) == ("else", "nobody")
    assert (older["code"], older["owner"], older["runId"]) == ("rejected", "ann", "r-nobody")


def test_sessions_and_runs_are_listed_with_filters(capsys: pytest.CaptureFixture[str]) -> None:
    begun(capsys, "weather in Oslo")
    session_id, run_id = begun(capsys, "hello there")
    assert [row["title"] for row in lines(capsys, "sessions", "list")] == ["hello there", "weather in Oslo"]
    assert [row["title"] for row in lines(capsys, "sessions", "list", "oslo")] == ["weather in Oslo"]
    assert lines(capsys, "sessions", "list", "--status", "failed") == []
    assert [row["runId"] for row in lines(capsys, "runs", "list", "--session", session_id)] == [run_id]
    ran = run_here(capsys, "runs", "list")
    assert run_id in ran.out
    assert "completed" in ran.out
    ran = run_here(capsys, "runs", "list", "--status", "sleeping")
    assert ran.code == 2
    assert "status must be one of pending, running, waiting" in ran.err
    assert "found 'sleeping'" in ran.err


def test_a_request_is_answered_in_another_process_and_the_run_resumed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_here(capsys, "run", "pay").code == 3
    [waiting] = lines(capsys, "approvals", "list")
    request = cast(Row, waiting["request"])
    request_id, run_id = str(request["requestId"]), str(waiting["runId"])
    assert request_id in run_here(capsys, "approvals", "list").out
    assert run_here(capsys, "approvals", "answer", request_id, "aprove").code == 2
    assert run_here(capsys, "approvals", "answer", "approval:none", "approve").code == 2
    ran = run_here(capsys, "approvals", "answer", request_id, "approve")
    assert f"windlass runs resume {run_id}" in ran.err
    assert "answered already, and not taken" in run_here(capsys, "approvals", "list").out
    again = run_here(capsys, "approvals", "answer", request_id, "deny")
    assert again.code == 5
    assert "answered already" in again.err
    assert f"windlass runs resume {run_id}" in again.err
    ran = run_here(capsys, "runs", "resume", run_id)
    assert ran.code == 0, ran.err
    assert "paid " in ran.out
    late = run_here(capsys, "approvals", "answer", request_id, "deny")
    assert late.code == 5
    assert re.search(r"resolved already: approve by \S+, at \d\d-\d\d \d\d:\d\d:\d\d\n", late.err), late.err
    assert run_here(capsys, "approvals", "list").err.endswith("No open requests.\n")


WAITS = """
from windlass.workflow import WorkflowContext, workflow

@workflow(version="1")
async def job(ctx: WorkflowContext) -> str:
    return await ctx.ask("Go on?")
"""


def test_a_run_of_a_workflow_that_is_not_driven_says_which_version_it_waits_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.py").write_text(WAITS, encoding="utf-8")
    assert run_here(capsys, "--agents", "job.py:job", "run", "Begin.").code == 3
    [waiting] = lines(capsys, "approvals", "list")
    request_id, run_id = str(cast(Row, waiting["request"])["requestId"]), str(waiting["runId"])
    assert run_here(capsys, "approvals", "answer", request_id, "--text", "yes").code == 0
    shown = " ".join(run_here(capsys, "runs", "show", run_id).err.split())
    assert "No process drives this run. It continues when one with workflow job@1 runs" in shown
    assert "A process with another version takes it when none with this one lives." in shown


def test_a_run_is_not_resumed_without_its_agent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pays.py").write_text(PAYS, encoding="utf-8")
    assert run_here(capsys, "--agents", "pays.py:agent", "run", "Pay.").code == 3
    [waiting] = lines(capsys, "approvals", "list")
    request_id, run_id = str(cast(Row, waiting["request"])["requestId"]), str(waiting["runId"])
    assert run_here(capsys, "approvals", "answer", request_id, "approve").code == 0
    ran = run_here(capsys, "runs", "resume", run_id)
    assert (ran.code, "the run needs agent " in ran.err) == (2, True), ran
    shown = run_here(capsys, "runs", "show", run_id)
    assert "No process drives this run" in shown.err
    assert run_here(capsys, "runs", "cancel", run_id).code == 0
    assert run_here(capsys, "runs", "resume", run_id).code == 4


def test_a_run_tells_who_answered_what_and_when(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_USER", "ann")
    run_here(capsys, "run", "pay")
    [waiting] = lines(capsys, "approvals", "list")
    request_id, run_id = str(cast(Row, waiting["request"])["requestId"]), str(waiting["runId"])
    # A beginning of an id is enough.
    assert run_here(capsys, "approvals", "answer", request_id[:-3], "approve").code == 0
    listed = run_here(capsys, "runs", "list")
    assert "waiting for input, not driven" in " ".join(listed.out.split())
    assert f"windlass runs resume {run_id}" in listed.err
    assert run_here(capsys, "runs", "resume", run_id).code == 0
    shown = run_here(capsys, "runs", "show", run_id).out
    asked, answered = shown.index("asked: Run pay?"), shown.index("pay: approved (approve) by ann")
    assert asked < answered
    assert "not driven" not in run_here(capsys, "runs", "list").out


def test_the_beginning_of_an_id_is_enough_unless_several_begin_so(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [begun(capsys, "hello") for _ in range(2)]
    for which, command in ((1, ("runs", "show")), (0, ("sessions", "show"))):
        ids = [one[which] for one in runs]
        common = next(at for at, pair in enumerate(zip(*ids, strict=True)) if len(set(pair)) > 1)
        for name in ids:
            short = run_here(capsys, *command, name[: common + 1])
            assert (short.code, short.out) == (0, run_here(capsys, *command, name).out)
        several = run_here(capsys, *command, ids[0][:common])
        assert several.code == 2
        assert all(name in several.err for name in ids), several.err
    assert run_here(capsys, "runs", "show", "").code == 2
    of_one = lines(capsys, "runs", "list", "--session", runs[0][0])
    assert [one["runId"] for one in of_one] == [runs[0][1]]


TEAM = """
from windlass import Agent
from windlass.testing import ScriptedModel, by_history, call, say

helper = Agent("helper", description="Helps.", model=ScriptedModel(by_history([say("Here.")])))
script = by_history([call("helper", {"message": "Help."}), say("Done.")])
agent = Agent("boss", model=ScriptedModel(script), subagents=[helper])
"""


def test_runs_and_sessions_of_subagents_are_listed_when_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "team.py").write_text(TEAM, encoding="utf-8")
    assert run_here(capsys, "--agents", "team.py:agent", "run", "Go.").code == 0
    for what in ("runs", "sessions"):
        assert [one["agentId"] for one in lines(capsys, what, "list")] == ["boss"]
        with_all = lines(capsys, what, "list", "--subagents")
        assert sorted(str(one["agentId"]) for one in with_all) == ["boss", "helper"]


def test_beside_a_server_with_tenants_the_command_names_their_stores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def serve() -> None:
        tenants = Tenants(tmp_path / "windlass-data", [demo], durability="process")
        await tenants.start()
        async with tenants.use("acme") as tenant:
            await (await tenant.runtime.start_run(demo, "hello")).wait()
        await tenants.aclose()

    asyncio.run(serve())
    ran = run_here(capsys, "runs", "list")
    assert ran.code == 2
    path = tmp_path / "windlass-data" / "acme.db"
    assert f"--store {path} (acme)" in ran.err
    assert len(lines(capsys, "--store", str(path), "runs", "list")) == 1
    doctor = run_here(capsys, "doctor")
    assert f"✓ store of tenant acme: {path}" in doctor.out
    path.write_bytes(b"something else entirely" * 100)
    assert "✗ store of tenant acme" in run_here(capsys, "doctor").out


def test_approvals_show_the_whole_input_of_the_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "app.py").write_text(LONG_CALL, encoding="utf-8")
    assert run_here(capsys, "--agents", "app.py:agent", "run", "go").code == 3
    listed = run_here(capsys, "approvals", "list")
    request_id = listed.out.splitlines()[0]
    for words in ("harmless " * 40, "somebody@else.example", "Run send?", "answers: approve"):
        assert words in listed.out, words
    assert "answer REQUEST ANSWER" in listed.err, "it does not say which"
    answered = run_here(capsys, "approvals", "answer", request_id, "deny", "--text", "not there")
    assert answered.code == 0
    assert "somebody@else.example" in answered.err
    assert "Answered: deny not there." in answered.err


def test_a_run_is_forked_at_its_end_and_exported_with_its_session(capsys: pytest.CaptureFixture[str]) -> None:
    run_here(capsys, "run", "--session", "s", "weather")
    run_here(capsys, "run", "--session", "s", "hello")
    last, first = (str(row["runId"]) for row in lines(capsys, "runs", "list"))
    assert run_here(capsys, "runs", "fork", first, "--name", "early").out == "early\n"
    assert run_here(capsys, "runs", "fork", last, "--name", "late").out == "late\n"
    early, late, whole = (run_here(capsys, "sessions", "show", name).out for name in ("early", "late", "s"))
    assert "weather says" in early
    assert "user: hello" not in early
    assert late == whole
    assert "user: hello" in whole
    assert run_here(capsys, "runs", "fork", last, "--at", "9999").code == 2
    run_here(capsys, "run", "--session", "w", "pay")
    run_here(capsys, "run", "--session", "w", "hello")
    queued = str(lines(capsys, "runs", "list", "--limit", "1")[0]["runId"])
    ran = run_here(capsys, "runs", "fork", queued)
    assert (ran.code, "the run has not started" in ran.err) == (2, True)
    exported = run_here(capsys, "runs", "export", first).out.splitlines()
    assert exported[1:-1] == run_here(capsys, "sessions", "export", "s").out.splitlines()[1:-1]
    assert run_here(capsys, "runs", "export", first, "--to", "s.jsonl").code == 0
    assert run_here(capsys, "--store", "other.db", "sessions", "import", "s.jsonl").out == "s\n"


def test_a_run_is_shown_as_tree_waterfall_decisions_stream_and_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    session_id, run_id = begun(capsys, "weather")
    tree = run_here(capsys, "runs", "show", run_id).out
    assert "llm.complete" in tree
    assert "tool.dispatch:weather" in tree
    assert "tokens" in tree
    assert "█" in run_here(capsys, "trace", run_id).out
    chosen = run_here(capsys, "decisions", run_id).out
    head, first = chosen.splitlines()[0], next(line for line in chosen.splitlines() if "weather" in line)
    assert "other options" in head
    assert "pay" in first, "an option that was not chosen"
    for command in (
        ("runs", "tail", run_id),
        ("runs", "tail", "--no-follow", run_id),
        ("runs", "replay", run_id),
    ):
        assert "weather says" in run_here(capsys, *command).out, command
    assert "weather says" in run_here(capsys, "sessions", "show", session_id).out
    assert lines(capsys, "runs", "show", run_id)[0].keys() == {"run", "trace"}
    assert lines(capsys, "sessions", "show", session_id)[0]["role"] == "user"
    assert lines(capsys, "decisions", run_id)[0]["id"] == run_id
    assert "spans" in lines(capsys, "trace", run_id)[0]


def test_a_wait_is_listed_between_the_steps_before_and_after_it(capsys: pytest.CaptureFixture[str]) -> None:
    _, run_id = begun(capsys, "Use weather, then pay.")
    [request] = [cast(Row, row["request"])["requestId"] for row in lines(capsys, "approvals", "list")]
    assert run_here(capsys, "approvals", "answer", str(request), "approve").code == 0
    assert run_here(capsys, "runs", "resume", run_id).code == 0
    for command in (("runs", "show"), ("trace",)):
        told = run_here(capsys, *command, run_id).out
        steps = re.findall(r"tool\.dispatch:\w+|run\.waiting|run\.resumed|\bwait ", told)
        waits = ["wait "] if command == ("trace",) else ["run.waiting", "wait ", "run.resumed"]
        assert sorted(steps[1:-1]) == sorted(waits), told
        assert (steps[0], steps[-1]) == ("tool.dispatch:weather", "tool.dispatch:pay"), told


def test_a_table_counts_wide_characters_as_two_columns(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(standard_terminal(), ("city", "runs"), rows=[("東京", "1"), ("Oslo", "20")], right=(1,))
    assert capsys.readouterr().out.splitlines() == ["city  runs", "東京     1", "Oslo    20"]


def test_two_runs_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    (_, first), (_, same), (_, other) = (begun(capsys, words) for words in ("weather", "weather", "hello"))
    assert run_here(capsys, "runs", "diff", first, same).code == 0
    ran = run_here(capsys, "runs", "diff", first, other)
    assert ran.code == 1
    assert "-message.received: weather" in ran.out
    assert "+message.received: hello" in ran.out


def test_a_session_is_forked_exported_imported_and_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session_id, _ = begun(capsys, "weather")
    forked = run_here(capsys, "sessions", "fork", session_id, "--name", "again")
    assert forked.out.strip() == "again"
    assert run_here(capsys, "sessions", "export", session_id, "--to", "s.jsonl").code == 0
    assert (
        run_here(capsys, "sessions", "export", session_id, "--to", "s.jsonl").code == 2
    )  # never overwritten
    assert run_here(capsys, "--store", "other.db", "sessions", "import", "s.jsonl").out.strip() == session_id
    told = run_here(capsys, "--store", "other.db", "sessions", "show", session_id).out
    assert told == run_here(capsys, "sessions", "show", session_id).out
    torn = tmp_path / "torn.jsonl"
    torn.write_text(
        "".join((tmp_path / "s.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)[:-1])
    )
    assert run_here(capsys, "--store", "third.db", "sessions", "import", str(torn)).code == 2
    assert run_here(capsys, "sessions", "import", "nothing.jsonl").code == 2
    assert run_here(capsys, "sessions", "delete", session_id).code == 2  # no person can be asked
    assert run_here(capsys, "sessions", "delete", session_id, "--yes").code == 0
    assert [row["sessionId"] for row in lines(capsys, "sessions", "list")] == ["again"]
    assert run_here(capsys, "sessions", "show", session_id).code == 2


def test_a_delete_asks_for_confirmation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session_id, _ = begun(capsys, "hello")
    typed = Typed(tmp_path, ["sessions", "delete", session_id])
    typed.until("[y/N]")
    typed.type("n")
    assert typed.end() == 4
    assert len(lines(capsys, "sessions", "list")) == 1


def test_a_run_that_waits_is_cancelled(capsys: pytest.CaptureFixture[str]) -> None:
    _, run_id = begun(capsys, "pay")
    ran = run_here(capsys, "runs", "cancel", run_id, "--reason", "not needed")
    assert ran.code == 0
    assert f"If no process drives it, end it here: windlass runs resume {run_id}" in ran.err
    assert run_here(capsys, "runs", "resume", run_id).code == 4
    assert "The run has ended already: cancelled" in run_here(capsys, "runs", "cancel", run_id).err
    assert run_here(capsys, "runs", "replay", run_id).err.endswith("cancelled: not needed\n")
    decided = run_here(capsys, "decisions", run_id).out
    assert ("none: cancelled" in decided, "pending" in decided) == (True, False)


def test_a_run_that_used_up_its_budget_names_the_limit_to_raise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "from windlass import Agent, Budget\n"
        "from windlass.testing import ScriptedModel, say\n"
        'agent = Agent("clerk", model=ScriptedModel([say("Yes.")]), budget=Budget(max_steps=0))\n'
    )
    (tmp_path / "app.py").write_text(text, encoding="utf-8")
    assert run_here(capsys, "--agents", "app.py:agent", "run", "Go.").code == 1
    run_id = str(lines(capsys, "runs", "list")[0]["runId"])
    retry = f"windlass runs retry {run_id} --max-steps N"
    assert f"Continue it with a larger limit: {retry}" in run_here(capsys, "runs", "show", run_id).out
    refused = run_here(capsys, "--agents", "app.py:agent", "runs", "retry", run_id)
    assert (refused.code, "windlass runs retry --max-steps N" in refused.err) == (5, True), refused


FAILS_ONCE = '''
from pathlib import Path
from windlass import Agent, tool
from windlass.testing import ScriptedModel, call, fail, say

@tool(mode="safe_write", effect="once")
def book() -> str:
    """Book a room."""
    with open("booked", "a") as file:
        file.write("x")
    return "booked"

def answer(messages):
    if messages[-1].role == "user":
        return call("book")
    return say("Done.") if Path("mended").exists() else fail(ValueError("broken"))

agent = Agent("a", model=ScriptedModel(answer), tools=[book])
'''


def test_a_run_that_used_up_its_budget_is_retried_with_limits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = FAILS_ONCE.replace("tools=[book])", "tools=[book], budget=Budget(max_steps=1))")
    (tmp_path / "once.py").write_text(f"from windlass import Budget\n{program}", encoding="utf-8")
    (tmp_path / "mended").touch()
    agents = ("--agents", "once.py:agent")
    assert run_here(capsys, *agents, "run", "Book.").code == 1
    failed = str(lines(capsys, "runs", "list")[0]["runId"])
    ran = run_here(capsys, *agents, "runs", "retry", failed, "--max-steps", "1")
    assert ran.code != 0
    assert "nothing is left of its budget (maxSteps)" in ran.err
    assert run_here(capsys, *agents, "runs", "retry", failed, "--max-steps", "-1").code != 0
    ran = run_here(capsys, *agents, "runs", "retry", failed, "--max-steps", "40", "--max-tokens", "100000")
    assert (ran.code, "Done." in ran.out) == (0, True), ran
    assert (tmp_path / "booked").read_text(encoding="utf-8") == "x", "it was booked once"


def test_a_failed_run_is_retried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "once.py").write_text(FAILS_ONCE, encoding="utf-8")
    agents = ("--agents", "once.py:agent")
    assert run_here(capsys, *agents, "run", "Book.").code == 1
    failed = str(lines(capsys, "runs", "list")[0]["runId"])
    shown = run_here(capsys, "runs", "show", failed).out
    assert "failed: the model failed with ValueError (rejected, provider_failure)" in shown
    assert f"windlass runs retry {failed}" in shown
    ran = run_here(capsys, *agents, "runs", "retry", failed)
    assert (ran.code, "continues it" in ran.err) == (1, True), ran
    ran = run_here(capsys, *agents, "runs", "retry", failed)
    assert (ran.code, "continues it" in ran.err) == (1, False), ran
    failed = f"retry:{failed}"
    assert f"that retry failed too: windlass runs retry {failed}" in ran.err
    (tmp_path / "mended").touch()
    ran = run_here(capsys, *agents, "runs", "retry", failed)
    assert (ran.code, "Done." in ran.out, f"retry:{failed}" in ran.err) == (0, True, True), ran
    assert (tmp_path / "booked").read_text(encoding="utf-8") == "x", "it was booked once"
    ran = run_here(capsys, *agents, "runs", "retry", f"retry:{failed}")
    assert ran.code != 0
    assert "only a failed run is continued" in ran.err


PAYS = '''
from windlass import Agent, tool
from windlass.testing import ScriptedModel, by_history, call, say

@tool(mode="external")
def pay(cents: int, note: str) -> str:
    """Pay an amount."""
    with open("paid", "w") as file:
        file.write(f"{cents} {note}")
    return "paid"

script = [call("pay", {"cents": 900, "note": "lamp"}), say("Done.")]
agent = Agent("a", model=ScriptedModel(by_history(script)), tools=[pay])
'''


def test_a_call_is_approved_with_changed_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pays.py").write_text(PAYS, encoding="utf-8")
    agents = ("--agents", "pays.py:agent")
    assert run_here(capsys, *agents, "run", "Pay.").code == 3
    [waiting] = lines(capsys, "approvals", "list")
    request_id = str(cast(Row, waiting["request"])["requestId"])
    answer = ("approvals", "answer", request_id, "approve", "--change")
    for wrong in ("[5]", "cents=5"):
        ran = run_here(capsys, *agents, *answer, wrong)
        assert (ran.code, "not a JSON object" in ran.err) == (2, True), ran
    assert run_here(capsys, *agents, *answer, '{"cents": 5}').code == 0
    run_id = str(waiting["runId"])
    assert run_here(capsys, *agents, "runs", "resume", run_id).code == 0
    assert (tmp_path / "paid").read_text(encoding="utf-8") == "5 lamp"
    change = "with cents 5 instead of 900"
    assert re.search(
        rf"pay: approved \(approve\) by \S+, {change}\n", run_here(capsys, "runs", "show", run_id).out
    )
    assert f"pay: approved, {change}\n" in run_here(capsys, "runs", "replay", run_id).err


BOOKS = '''
from windlass import Agent, tool
from windlass.testing import ScriptedModel, call, say
from windlass.tools import UndoCall

def unbook(call: UndoCall) -> str:
    """Cancel a booking."""
    with open("booked", "a") as file:
        file.write("y")
    return "gone"

@tool(mode="safe_write", undo=unbook)
def book(city: str) -> str:
    """Book a room."""
    with open("booked", "a") as file:
        file.write("x")
    return "booked"

agent = Agent("a", model=ScriptedModel([call("book", {"city": "Oslo"}), say("Done.")]), tools=[book])
'''


def test_a_run_is_undone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "books.py").write_text(BOOKS, encoding="utf-8")
    agents = ("--agents", "books.py:agent")
    assert run_here(capsys, *agents, "run", "Book.").code == 0
    done = str(lines(capsys, "runs", "list")[0]["runId"])
    ran = run_here(capsys, *agents, "runs", "undo", done)
    assert ran.code != 0
    assert 'book {"city": "Oslo"}: is reversed by unbook' in ran.err
    assert "nothing was reversed" in ran.err
    assert (tmp_path / "booked").read_text(encoding="utf-8") == "x"
    ran = run_here(capsys, *agents, "runs", "undo", done, "--yes")
    assert (ran.code, "Reversed 1 call" in ran.out) == (0, True), ran
    assert (tmp_path / "booked").read_text(encoding="utf-8") == "xy"
    ran = run_here(capsys, *agents, "runs", "undo", done, "--yes")
    assert "was reversed" in ran.err
    assert (tmp_path / "booked").read_text(encoding="utf-8") == "xy"


AWAY = """
from windlass import Agent
from windlass.errors import Unavailable
from windlass.testing import ScriptedModel, fail
from windlass_protocol import ErrorKind, RetryClass

facts = {"kind": ErrorKind.PROVIDER_FAILURE, "retry": RetryClass.RETRYABLE}
busy = Unavailable("busy", retry_after_ms=600_000, **facts)
agent = Agent("a", model=ScriptedModel(lambda _: fail(busy)))
"""


def test_a_run_that_waits_for_its_provider_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def park() -> None:
        (tmp_path / "away.py").write_text(AWAY, encoding="utf-8")
        (agent,) = load_agents("away.py:agent", tmp_path)
        (tmp_path / "windlass-data").mkdir()
        async with AgentRuntime.open(tmp_path / "windlass-data" / "local.db", agents=[agent]) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1")
            async for event in handle.events():
                if event.type == "run.waiting":
                    break

    asyncio.run(park())
    listed = run_here(capsys, "runs", "list").out
    assert re.search(r"waiting for provider until \d\d-\d\d \d\d:\d\d:\d\d", listed)
    shown = run_here(capsys, "runs", "show", "r1")
    assert "step.retrying: busy" in shown.out
    assert "waiting for provider until" in shown.out
    assert "busy" in shown.err
    assert lines(capsys, "runs", "show", "r1")[0]["run"]["waiting"]["on"] == "provider"  # pyright: ignore[reportIndexIssue]


def test_a_run_that_waits_for_a_batch_says_since_when(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def park() -> None:
        agent = Agent("clerk", model=ScriptedModel(lambda _: say("Done.")))
        (tmp_path / "windlass-data").mkdir()
        async with AgentRuntime.open(tmp_path / "windlass-data" / "local.db", agents=[agent]) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1", batch="within 24h")
            async for event in handle.events():
                if event.type == "run.waiting":
                    break

    asyncio.run(park())
    assert re.search(
        r"waiting for batch since \d\d-\d\d \d\d:\d\d:\d\d", run_here(capsys, "runs", "show", "r1").out
    )
    run = cast("dict[str, Row]", lines(capsys, "runs", "show", "r1")[0]["run"])
    assert run["waiting"]["on"] == "batch"
    assert datetime.fromisoformat(str(run["waiting"]["since"])) <= datetime.now(UTC)


FAILING_CALLS = """
from windlass import Agent, ToolFailed, tool
from windlass.testing import ScriptedModel, call, say

@tool(mode="read")
def refund() -> str:
    '''Refund.'''
    raise ToolFailed("the till is closed until nine")

agent = Agent("a", model=ScriptedModel([call("refund"), call("missing"), say("No.")]), tools=[refund])
"""


def test_failed_calls_are_marked_and_nothing_is_cut_in_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = "a-run-with-a-name-that-is-longer-than-a-line-of-a-terminal-of-eighty-columns-is-wide"
    (tmp_path / "failing.py").write_text(FAILING_CALLS, encoding="utf-8")
    (agent,) = load_agents("failing.py:agent", tmp_path)

    async def story() -> None:
        async with AgentRuntime.open(tmp_path / "x.db", agents=[agent]) as runtime:
            await (await runtime.start_run(agent, "go", run_id=run_id)).wait()

    asyncio.run(story())
    shown = run_here(capsys, "--store", "x.db", "runs", "show", run_id).out
    assert shown.startswith(f"{run_id} completed, ")
    for name, error in (("refund", "the till is closed until nine"), ("missing", "missing")):
        assert re.search(rf"✗ tool\.dispatch:{name}  .*: .*{error}", shown), shown
    assert "✗ llm" not in shown


def test_resuming_an_ended_run_shows_its_output_only(capsys: pytest.CaptureFixture[str]) -> None:
    _, run_id = begun(capsys, "weather")
    ran = run_here(capsys, "runs", "resume", run_id)
    assert ran.code == 0
    assert "The run has ended" in ran.err
    assert "→ weather" not in ran.err
    assert "weather says" in ran.out


def test_a_message_queued_behind_a_waiting_run_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = run_here(capsys, "run", "--session", "s1", "pay")
    second = run_here(capsys, "run", "--session", "s1", "weather")
    assert (first.code, second.code) == (3, 3)
    assert "Queued behind run" in second.err
    assert "windlass runs resume" in second.err


def test_unknown_runs_and_sessions_are_reported_with_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    begun(capsys, "hello")
    for command in (
        ("runs", "show"),
        ("runs", "tail"),
        ("runs", "resume"),
        ("runs", "cancel"),
        ("runs", "fork"),
        ("runs", "export"),
        ("trace",),
        ("decisions",),
    ):
        ran = run_here(capsys, *command, "nobody")
        assert ran.code == 2, command
        assert "unknown run: nobody" in ran.err, (command, ran.err)
        assert "windlass runs list" in ran.err
    for command in (("show",), ("fork",), ("export",), ("delete", "--yes")):
        ran = run_here(capsys, "sessions", *command, "nobody")
        assert ran.code == 2, command
        assert "unknown session: nobody" in ran.err
        assert "windlass sessions list" in ran.err


def test_a_fork_at_an_unknown_record_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    session_id, _ = begun(capsys, "hello")
    for at, told in (("-1", "greater than or equal to 1"), ("9999", "records 1 to"), ("x", "'--at'")):
        ran = run_here(capsys, "sessions", "fork", session_id, "--at", at)
        assert ran.code == 2
        assert told in ran.err


def test_a_folder_as_store_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (("runs", "list"), ("run", "hello")):
        ran = run_here(capsys, "--store", str(tmp_path), *command)
        assert ran.code == 2
        assert "is a folder" in ran.err
        assert f"--store {tmp_path / 'local.db'}" in ran.err


def test_sessions_without_an_owner_can_be_continued_and_those_of_others_cannot(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def story() -> None:
        async with AgentRuntime.open("mine.db", agents=[demo]) as runtime:
            for name, owner in (("nobodys", None), ("bobs", "bob")):
                await (await runtime.start_run("demo", "hello", session_id=name, owner=owner)).wait()

    asyncio.run(story())
    ran = run_here(capsys, "--store", "mine.db", "run", "--session", "nobodys", "weather")
    assert ran.code == 0, ran.err
    assert "weather says" in ran.out
    ran = run_here(capsys, "--store", "mine.db", "run", "--session", "bobs", "weather")
    assert ran.code == 1
    assert "owner" in ran.err
