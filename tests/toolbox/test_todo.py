"""todo: one list for each session, and the reminder after a compaction."""

import pytest
from tests.toolbox.rig import Failed, play, reminders, state_of, text

from windlass.toolbox import todo_reminder, todo_tool
from windlass.toolbox.limits import TODO_ITEMS_MAX, TODO_TEXT_CHARS_MAX
from windlass.toolbox.todo import STATE_KEY

LIST = [
    {"id": "1", "text": "read the code", "status": "done"},
    {"id": "2", "text": "write\n the test", "status": "in_progress"},
    {"id": "3", "text": "run it"},
]
SHOWN = "[x] 1: read the code\n[>] 2: write the test\n[ ] 3: run it"


def test_the_list_is_replaced_as_a_whole_and_shown() -> None:
    async def story() -> None:
        todo = todo_tool()
        assert await text(todo) == "the list is empty"
        assert await text(todo, items=LIST) == SHOWN
        assert await text(todo) == SHOWN
        assert await text(todo, items=LIST[:1]) == "[x] 1: read the code"
        assert await text(todo, items=[]) == "the list is empty"

    play(story())


def test_every_session_has_its_own_list() -> None:
    async def story() -> None:
        todo = todo_tool()
        await text(todo, items=LIST, session="s1")
        assert await text(todo, session="s2") == "the list is empty"
        assert await text(todo, session="s1") == SHOWN

    play(story())


def test_the_list_is_in_the_state_of_the_session() -> None:
    async def story() -> None:
        await text(todo_tool(), items=LIST)
        assert await text(todo_tool()) == SHOWN
        assert list(state_of("s1")) == [STATE_KEY]

    play(story())


def test_a_compaction_brings_the_list_back_while_something_is_open() -> None:
    async def story() -> None:
        todo = todo_tool()
        assert await reminders(todo) == []
        await text(todo, items=LIST)
        assert await reminders(todo) == [f"Your to-do list as it stands:\n{SHOWN}"]
        assert todo_reminder(state_of("s1")) == f"Your to-do list as it stands:\n{SHOWN}"
        assert await reminders(todo, "s2") == []
        await text(todo, items=LIST[:1])
        assert await reminders(todo) == []

    play(story())


def test_an_unreadable_list_is_empty() -> None:
    async def story() -> None:
        state_of("s1")[STATE_KEY] = [{"id": 1}]
        assert await text(todo_tool()) == "the list is empty"

    play(story())


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([{"id": "1", "text": "a"}, {"id": "1", "text": "b"}], "duplicate item id '1'"),
        ([{"id": "1"}], "text"),
        ([{"id": "1", "text": "a", "status": "later"}], "status"),
        ([{"id": "", "text": "a"}], "id"),
        ([{"id": "1", "text": "x" * (TODO_TEXT_CHARS_MAX + 1)}], "text"),
        ([{"id": str(number), "text": "a"} for number in range(TODO_ITEMS_MAX + 1)], "items"),
        ([{"id": "1", "text": "a", "owner": "me"}], "owner"),
    ],
)
def test_an_invalid_list_is_refused_with_a_message_and_changes_nothing(
    items: list[object], words: str
) -> None:
    async def story() -> None:
        todo = todo_tool()
        await text(todo, items=LIST)
        with pytest.raises(Failed, match=words):
            await text(todo, items=items)
        assert await text(todo) == SHOWN

    play(story())
