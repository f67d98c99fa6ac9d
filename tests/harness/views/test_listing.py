"""Listing data from records, and the parts that a fork does not take over."""

import pytest
from pydantic import JsonValue

from windlass_harness.loop.events import Draft
from windlass_harness.loop.notes import Grant
from windlass_harness.loop.state import LoopState
from windlass_harness.record import Record
from windlass_harness.views import fold_decisions, fold_session, fold_usage
from windlass_harness.views.listing import (
    RECORDS_WITH_WORDS,
    TITLE_CHARS_MAX,
    WORD_CHARS_MAX,
    ListedRun,
    RunsFold,
    content_hashes,
    news_of,
    news_of_start,
    title_of,
    words_in,
    words_of_record,
)
from windlass_protocol import RunStatus

AT, LATER = "2026-01-31T09:30:00.250Z", "2026-01-31T09:31:00.000Z"


def fact(kind: str, when: str = AT, /, **data: JsonValue) -> Draft:
    return Draft(kind, when, data, run_id="r1", agent_id="a1")


def numbered(*drafts: Draft) -> list[Record]:
    return [
        Record(
            session_id="s1",
            seq=seq,
            type=one.type,
            at=one.at,
            data=one.data,
            run_id="r1",
            agent_id="a1",
            epoch=1,
        )
        for seq, one in enumerate(drafts, 1)
    ]


@pytest.mark.parametrize(
    ("status", "ended_at", "shown"),
    [
        (RunStatus.COMPLETED, LATER, ("words", None, None)),
        (RunStatus.FAILED, LATER, ("", "words", None)),
        (RunStatus.WAITING, None, ("", None, "words")),
        (RunStatus.RUNNING, None, ("", None, None)),
    ],
)
def test_the_words_of_a_run_are_its_answer_its_error_or_what_it_waits_for(
    status: RunStatus, ended_at: str | None, shown: tuple[str, str | None, str | None]
) -> None:
    run = ListedRun(status=status, ended_at=ended_at, output="words")
    assert (run.answer, run.error_message, run.waits_for) == shown


def test_the_records_of_a_step_change_no_listing() -> None:
    assert news_of([]) is None
    assert news_of([fact("step.started"), fact("action.result"), fact("step.completed")]) is None


def test_the_first_records_give_title_agent_owner_and_parent() -> None:
    parent: JsonValue = {"sessionId": "s0", "rootSessionId": "root"}
    begun = fact("run.started", runId="r1", agentId="a1", owner="ann", parent=parent)
    told = news_of(
        [begun, fact("message.received", message="Hello  you"), fact("message.received", message="!")]
    )
    assert told is not None
    assert (told.title, told.agent_id, told.owner) == ("Hello you", "a1", "ann")
    assert (told.parent, told.root, told.since) == ("s0", "root", AT)
    [run] = told.runs
    assert (run.run_id, run.status, run.begins, run.usage) == ("r1", RunStatus.RUNNING, True, None)


def test_the_listing_of_a_fork_has_its_origin_and_no_earlier_runs() -> None:
    forked = fact("session.forked", LATER, predecessor="s0", predecessorSeq=4)
    told = news_of([fact("run.started", runId="r1", agentId="a1"), forked])
    assert told is not None
    assert (told.predecessor, told.predecessor_seq, told.runs, told.since) == ("s0", 4, (), LATER)
    odd = news_of([fact("session.forked", predecessor=3, predecessorSeq="x")])
    assert odd is not None
    assert (odd.predecessor, odd.predecessor_seq) == (None, None)


def test_a_playground_run_belongs_to_the_session_that_it_was_made_from() -> None:
    origin: JsonValue = {"runId": "r0", "sessionId": "s0", "stepIndex": 1, "size": "run", "calls": "recorded"}
    told = news_of([fact("run.started", runId="r1", agentId="a1", playground=origin)])
    assert told is not None
    assert (told.parent, told.root) == ("s0", None)


def test_a_start_gives_the_title_of_its_session() -> None:
    told = news_of_start({"message": "Hi", "agentId": "a1", "owner": "ann"}, AT)
    assert (told.title, told.agent_id, told.owner, told.at, told.since, told.parent) == (
        "Hi",
        "a1",
        "ann",
        AT,
        AT,
        None,
    )


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ({}, ""),
        ({"message": 3}, ""),
        ({"message": "x" * TITLE_CHARS_MAX}, "x" * TITLE_CHARS_MAX),
        ({"message": "x" * (TITLE_CHARS_MAX + 1)}, "x" * (TITLE_CHARS_MAX - 1) + "…"),
        ({"message": "", "parts": [{"text": "a"}, {"image": "b"}, 3, {"text": "c"}]}, "a c"),
        ({"message": "\x1b[31mred\x07 \x9b2J\x00\n\x85here"}, "[31mred 2J here"),
        ({"message": "a\u202eb\u2066c\u2069\u200fd\u061c"}, "abcd"),
        ({"message": "\U0001f469\u200d\U0001f680 \u05d0"}, "\U0001f469\u200d\U0001f680 \u05d0"),
    ],
)
def test_a_title_is_one_short_line(said: dict[str, JsonValue], title: str) -> None:
    assert title_of(said) == title


def test_search_words_are_case_folded_unique_and_of_letters_and_digits() -> None:
    assert words_in("Straße, STRASSE! ﬁne-tuned") == ("strasse", "fine", "tuned")
    assert words_in("?!_") == ()
    assert words_in("x" * 99) == ("x" * WORD_CHARS_MAX,)
    assert words_in("send_email v2 __init__") == ("send", "email", "v2", "init")
    assert words_in("預訂Hotelを") == ("預", "訂", "hotel", "を")
    assert len(words_in(" ".join(f"w{number}" for number in range(99)))) == 99


SEARCHED: list[tuple[str, JsonValue, list[str]]] = [
    ("message.received", {"message": "Pay it", "context": ["It is Friday"]}, ["pay", "it"]),
    ("message.received", {"message": "", "parts": [{"type": "text", "text": "Look"}]}, ["look"]),
    ("message.received", {"message": "See", "parts": [{"type": "file", "text": "no"}, 3]}, ["see"]),
    ("message.completed", {"message": None}, []),
    (
        "message.completed",
        {
            "message": "Paid",
            "parts": [{"type": "reasoning", "text": "Hm"}, {"type": "text", "text": "So"}],
        },
        ["paid", "so"],
    ),
    (
        "actions.requested",
        {
            "actions": [
                {"kind": "tool-call", "toolName": "send_email", "input": {"to": "Ann"}},
                {"kind": "subagent-call", "name": "judge", "subagentName": "reviewer", "input": {}},
                {"kind": "remote-agent-call", "name": "legal", "remoteAgentName": "desk", "input": []},
            ]
        },
        ["send", "email", "judge", "reviewer", "legal", "desk"],
    ),
    (
        "input.requested",
        {"requests": [{"kind": "question", "prompt": "Which?"}, {"kind": "approval", "prompt": "Run?"}]},
        ["which"],
    ),
    (
        "input.resolved",
        {"resolutions": [{"response": {"text": "The blue one"}}, {"outcome": "expired"}, None]},
        ["the", "blue", "one"],
    ),
    ("action.result", {"result": {"output": "no"}, "message": "no"}, []),
    ("message.received", "no object", []),
    ("actions.requested", {"actions": "no list"}, []),
]


@pytest.mark.parametrize(("kind", "data", "words"), SEARCHED)
def test_the_search_words_of_a_record(kind: str, data: JsonValue, words: list[str]) -> None:
    assert list(words_of_record(kind, data)) == words
    assert not words or kind in RECORDS_WITH_WORDS


def test_the_contents_that_records_refer_to_are_found_once() -> None:
    ref: JsonValue = {"hash": "sha256:1"}
    records = [fact("action.result", contentRef=ref), fact("agent.resolved", contentRef=ref)]
    odd = [fact("action.result", contentRef=3), fact("action.result", contentRef={"hash": 3})]
    assert content_hashes([*records, *odd]) == ("sha256:1",)


def test_usage_decisions_grants_and_children_before_a_fork_do_not_belong_to_the_fork() -> None:
    place: dict[str, JsonValue] = {"sequence": 0, "turnId": "t0"}
    records = numbered(
        fact("run.started", runId="r1", agentId="a1"),
        fact("turn.started", **place),
        fact("step.started", stepIndex=0, **place),
        fact("step.completed", stepIndex=0, finishReason="stop", usage={"inputTokens": 3}, **place),
        fact(
            "subagent.called",
            callId="c1",
            childSessionId="s2",
            childRunId="r2",
            name="n",
            toolName="n",
            sessionId="s1",
            **place,
        ),
        fact("session.forked", predecessor="s0", predecessorSeq=5),
    )
    assert fold_usage(records[:5]).session.steps == 1
    assert fold_usage(records).session.steps == 0
    assert fold_decisions(records[:5]).runs.keys() == {"r1"}
    assert fold_decisions(records).runs == {}
    assert len(fold_session(records[:5]).children) == 1
    assert fold_session(records).children == ()
    state = LoopState()
    state.apply_all(records[:5])
    state.grants["q1"] = Grant("a1", "pay", None)
    state.apply(records[5])
    assert state.grants == {}


# what lists show of runs


def run_entry(kind: str, at: str = "2026-01-31T09:30:00.000Z", **data: JsonValue) -> Draft:
    return Draft(kind, at, {"runId": "r1", **data}, run_id="r1")


def folded(*appends: tuple[Draft, ...]) -> ListedRun | None:
    fold = RunsFold()
    for append in appends:
        fold.apply(append)
    return fold.runs.get("r1")


STARTED = run_entry(
    "run.started", agentId="a1", packageFingerprint="f1", metadata={"tags": ["x", 5, "x", ""]}
)
SAID = run_entry("message.received", message="Pay  the\nhotel")


def test_a_run_is_folded_from_its_start_to_its_end() -> None:
    usage: JsonValue = {"inputTokens": 3, "outputTokens": 2, "costMicros": 9}
    done = run_entry("run.completed", "2026-01-31T09:30:02.500Z", output="Paid.", usage=usage)
    facts = folded((STARTED, SAID, run_entry("message.received", message="And more")), (done,))
    assert facts is not None
    assert (facts.agent_id, facts.fingerprint, facts.input, facts.output) == (
        "a1",
        "f1",
        "Pay the hotel",
        "Paid.",
    )
    assert (facts.tags, facts.tokens, facts.cost_micros, facts.duration_ms) == (("x",), 5, 9, 2_500)
    begun = folded((STARTED,), (SAID,))
    assert begun is not None
    assert (begun.tokens, begun.cost_micros, begun.duration_ms, begun.input) == (0, 0, 0, "")


@pytest.mark.parametrize(
    ("end", "output", "error"),
    [
        (run_entry("run.completed", structuredOutput={"ä": 1}), '{"ä": 1}', None),
        (
            run_entry("run.failed", error={"kind": "tool_failure", "message": "no\norder"}),
            "no order",
            "tool_failure",
        ),
        (run_entry("run.failed", error={"kind": "tool_failure"}), "", "tool_failure"),
        (run_entry("run.cancelled", reason="It takes too long."), "It takes too long.", None),
        (run_entry("run.completed"), "", None),
    ],
)
def test_the_end_of_a_run_tells_its_output_or_its_error(end: Draft, output: str, error: str | None) -> None:
    facts = folded((STARTED,), (end,))
    assert facts is not None
    assert (facts.output, facts.error) == (output, error)


def test_a_wait_tells_its_cause_and_the_question_until_the_run_goes_on() -> None:
    asked = run_entry("input.requested", requests=[{"prompt": "Run pay?", "kind": "approval"}])
    lost = run_entry("input.requested", requests=[{"kind": "recovery"}])
    odd = run_entry("input.requested", requests="x")
    waits = run_entry("run.waiting", on="input")
    for asking, cause, words in ((asked, "input", "Run pay?"), (lost, "recovery", ""), (odd, "input", "")):
        facts = folded((STARTED,), (asking, waits))
        assert facts is not None
        assert (facts.waits_on, facts.output) == (cause, words)
    away = run_entry("run.waiting", on="provider", reason="overloaded")
    facts = folded((STARTED,), (away,))
    assert facts is not None
    assert (facts.waits_on, facts.output) == ("provider", "overloaded")
    facts = folded((STARTED,), (away,), (run_entry("run.resumed", reason="timer"),))
    assert facts is not None
    assert (facts.waits_on, facts.output) == (None, "")


def test_crashes_and_feedback_count_for_known_runs_alone() -> None:
    crash, other = run_entry("recovery.started", epoch=2), Draft("recovery.started", "", {"runId": "r9"})
    down = Draft("feedback.given", "", {"runId": "r1", "thumb": "down", "tags": ["y"]})
    note = Draft("feedback.given", "", {"runId": "r1", "note": "so"})
    up = Draft("feedback.given", "", {"runId": "r9", "thumb": "up"})
    facts = folded((STARTED,), (crash, crash), (other,), (down, up), (note,), (run_entry("step.started"),))
    assert facts is not None
    assert (facts.crashes, facts.rating, facts.tags) == (2, -1, ("x", "y"))


def test_runs_of_the_original_session_and_runs_without_a_beginning_are_left_out() -> None:
    forked = Draft("session.forked", "", {"predecessor": "s0", "predecessorSeq": 2})
    assert folded((STARTED,), (forked,), (run_entry("run.cancelled"),)) is None
    assert folded((run_entry("run.cancelled"),)) is None
    unstarted = run_entry(
        "run.cancelled", unstarted={"agentId": "a1", "packageFingerprint": "f1", "metadata": 5}
    )
    facts = folded((unstarted,))
    assert facts is not None
    assert (facts.agent_id, facts.started_at, facts.status) == ("a1", None, "cancelled")
