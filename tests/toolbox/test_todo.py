"""todo: one list for each session, and the words that bring it back."""

import pytest
from tests.toolbox.rig import Failed, play, text

from windlass.toolbox import MemoryState, todo_reminder, todo_tool
from windlass.toolbox.limits import TODO_ITEMS_MAX, TODO_TEXT_CHARS_MAX

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


def test_the_list_is_in_the_state_that_the_host_keeps() -> None:
    async def story() -> None:
        state = MemoryState()
        await text(todo_tool(state), items=LIST)
        assert await text(todo_tool(state)) == SHOWN

    play(story())


def test_the_words_that_bring_the_list_back_are_there_while_something_is_open() -> None:
    async def story() -> None:
        state = MemoryState()
        todo = todo_tool(state)
        assert await todo_reminder(state, "s1") is None
        await text(todo, items=LIST)
        assert await todo_reminder(state, "s1") == f"Your to-do list as it stands:\n{SHOWN}"
        assert await todo_reminder(state, "s2") is None
        await text(todo, items=LIST[:1])
        assert await todo_reminder(state, "s1") is None

    play(story())


def test_a_list_that_nobody_can_read_is_empty() -> None:
    async def story() -> None:
        state = MemoryState()
        await state.set("s1", "todo", value=[{"id": 1}])
        assert await text(todo_tool(state)) == "the list is empty"

    play(story())


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([{"id": "1", "text": "a"}, {"id": "1", "text": "b"}], "two items have the id '1'"),
        ([{"id": "1"}], "text"),
        ([{"id": "1", "text": "a", "status": "later"}], "status"),
        ([{"id": "", "text": "a"}], "id"),
        ([{"id": "1", "text": "x" * (TODO_TEXT_CHARS_MAX + 1)}], "text"),
        ([{"id": str(number), "text": "a"} for number in range(TODO_ITEMS_MAX + 1)], "items"),
        ([{"id": "1", "text": "a", "owner": "me"}], "owner"),
    ],
)
def test_a_wrong_list_is_refused_in_words_and_changes_nothing(items: list[object], words: str) -> None:
    async def story() -> None:
        todo = todo_tool()
        await text(todo, items=LIST)
        with pytest.raises(Failed, match=words):
            await text(todo, items=items)
        assert await text(todo) == SHOWN

    play(story())
