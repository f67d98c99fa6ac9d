"""Skills: read from folders by strict rules, shown by name, loaded when asked."""

import asyncio
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from windlass import Agent, Rejected, ToolCall, ToolRouter
from windlass.agent.package import compile_package, fingerprint, package_difference
from windlass.agent.skills import Skill, Skills, load_skills
from windlass.limits import (
    SKILL_BYTES_MAX,
    SKILL_DESCRIPTION_CHARS_MAX,
    SKILL_FILE_BYTES_MAX,
    SKILL_FILES_MAX,
    SKILL_LEVELS_MAX,
    SKILLS_MAX,
)
from windlass.testing import ScriptedModel, call, say


def write(root: Path, name: str, text: str | None = None) -> Path:
    """Write a skill and return its folder."""
    folder = root / name
    folder.mkdir(parents=True)
    text = (
        f"---\nname: {name}\ndescription: About {name}.\n---\n\n# {name}\n\nDo it.\n"
        if text is None
        else text
    )
    (folder / "SKILL.md").write_text(text, encoding="utf-8")
    return folder


def refused(root: Path) -> str:
    with pytest.raises(Rejected) as caught:
        load_skills(root)
    return caught.value.message


def test_a_skill_is_its_name_its_description_its_body_and_its_files(tmp_path: Path) -> None:
    folder = write(tmp_path, "fill-forms")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "fill.py").write_text("fill()", encoding="utf-8")
    (folder / ".hidden").write_text("x", encoding="utf-8")
    (tmp_path / "README.md").write_text("not a skill", encoding="utf-8")
    write(tmp_path, "add")
    add, fill = load_skills(tmp_path)
    assert add.name == "add"
    assert (fill.name, fill.description) == ("fill-forms", "About fill-forms.")
    assert fill.body == "# fill-forms\n\nDo it."
    assert fill.files == ("scripts/fill.py",)


@pytest.mark.parametrize(
    ("written", "description"),
    [
        ("description: Plain words - with a dash.", "Plain words - with a dash."),
        ('description: "Quoted: with a colon, and \\"quotes\\"."', 'Quoted: with a colon, and "quotes".'),
        ("description: 'It''s quoted # too'", "It's quoted # too"),
        ("description: >\n  Folded\n  over lines.", "Folded over lines."),
        ("description: |-\n  Kept\n  in lines.", "Kept in lines."),
        ("description: Plain words\n  that go on.", "Plain words that go on."),
        (
            "license: MIT\nmetadata:\n  a: [1, 2]\n  b:\n    - c\nallowed-tools:\n- x\ndescription: Last.",
            "Last.",
        ),
        ("# a comment\n\ndescription: After it.", "After it."),
        ("description: Words # and a comment", "Words"),
        ("description: &a Words", "Words"),
        ("description: >2\n    Words", "Words"),
        ('description: "Quoted\n  over lines"', "Quoted over lines"),
        ('description: "\\x41 \\e"', "A \x1b"),
        ("description: on", "on"),
        ("description: 2026-01-31", "2026-01-31"),
        ("description: 0x10", "0x10"),
        ("description: null", "null"),
        ("on: 1\nname-of: &b [*b]\ndescription: 1.0", "1.0"),
    ],
)
def test_the_front_matter_is_yaml_in_which_every_scalar_is_a_text(
    written: str, description: str, tmp_path: Path
) -> None:
    write(tmp_path, "one", f"---\nname: one\n{written}\n---\nBody\n")
    [skill] = load_skills(tmp_path)
    assert skill.description == description
    assert skill.body == "Body"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: one\n", "the first line must be ---"),
        ("---\nname: one\n", "does not end"),
        ("---\nname: one\n---\n", "has no description"),
        ("---\n---\n", "has no name and no description"),
        ("---\nname: one\ndescription: a: b\n---\n", "line 3: not YAML: mapping values are not allowed"),
        ("---\nname: one\ndescription: [a]\n---\n", "line 3: description is not a string; put it in double"),
        ("---\nname: one\ndescription: !!int 5\n---\n", "line 3: description is not a string"),
        ("---\nname: one\ndescription:\n  a: b\n---\n", "line 3: description is not a string"),
        ('---\nname: one\ndescription: "a\n---\n', "SKILL.md: line 3: not YAML"),
        ('---\nname: one\ndescription: "a" b\n---\n', "line 3: not YAML"),
        ("---\nname: one\ndescription: *gone\n---\n", "line 3: not YAML: found undefined alias"),
        ("---\nname: one\nname: one\ndescription: a\n---\n", "line 3: duplicate key name"),
        ("---\nname: one\njust words\ndescription: a\n---\n", "line 4: not YAML"),
        ("---\njust words\n---\n", "line 2: expected `key: text`"),
        ("---\na: \x01\n---\n", "is not valid YAML"),
        (f"---\na: {'[' * 5_000}\n---\n", "is not valid YAML"),
        ("---\nname: two\ndescription: a\n---\n", "the name in SKILL.md is two"),
        ("---\nname: One\ndescription: a\n---\n", "lowercase letters"),
        ("---\nname: ../one\ndescription: a\n---\n", "lowercase letters"),
        ("---\nname: a--b\ndescription: a\n---\n", "lowercase letters"),
        (f"---\nname: {'a' * 65}\ndescription: a\n---\n", "lowercase letters"),
    ],
)
def test_front_matter_that_cannot_be_used_is_refused_with_its_line(
    text: str, problem: str, tmp_path: Path
) -> None:
    write(tmp_path, "one", text)
    assert problem in refused(tmp_path)


def test_a_folder_without_a_skill_and_no_folder_at_all_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "there is no SKILL.md" in refused(tmp_path)
    assert "cannot be read: No such file" in refused(tmp_path / "nowhere")


def test_a_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    (write(tmp_path, "one") / "SKILL.md").write_bytes(b"---\nname: \xff\n---\n")
    assert "not UTF-8" in refused(tmp_path)


@pytest.mark.parametrize("place", ["one", "one/SKILL.md", "one/notes.md", "one/deep"])
def test_a_link_is_refused_wherever_it_is(place: str, tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", "one")
    root = tmp_path / "skills"
    root.mkdir()
    if place != "one":
        write(root, "one")
        (root / place).unlink(missing_ok=True)
    target = outside if place in {"one", "one/deep"} else outside / "SKILL.md"
    (root / place).symlink_to(target)
    assert "is a symbolic link" in refused(root)


def test_a_named_pipe_is_refused_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(write(tmp_path, "one") / "pipe")
    assert "pipe is not a file" in refused(tmp_path)


def test_each_limit_holds_and_is_not_too_strict(tmp_path: Path) -> None:
    head = "---\nname: one\ndescription: a\n---\n"
    fits = write(tmp_path / "a", "one", head + "x" * (SKILL_BYTES_MAX - len(head)))
    load_skills(tmp_path / "a")
    (fits / "SKILL.md").write_text(head + "x" * (SKILL_BYTES_MAX - len(head) + 1), encoding="utf-8")
    assert "SKILL.md is too large" in refused(tmp_path / "a")

    described = f"---\nname: one\ndescription: {'d' * SKILL_DESCRIPTION_CHARS_MAX}\n---\n"
    write(tmp_path / "b", "one", described)
    load_skills(tmp_path / "b")
    write(tmp_path / "c", "one", described.replace("dd", "ddd", 1))
    assert "the description is too long" in refused(tmp_path / "c")


def test_files_of_a_skill_have_limits_too(tmp_path: Path) -> None:
    many = write(tmp_path / "a", "one")
    for at in range(SKILL_FILES_MAX):
        (many / f"{at}.md").touch()
    load_skills(tmp_path / "a")
    (many / "more.md").touch()
    assert "more than 256 files" in refused(tmp_path / "a")

    large = write(tmp_path / "b", "one") / "data"
    large.write_bytes(b"x" * SKILL_FILE_BYTES_MAX)
    load_skills(tmp_path / "b")
    (large.parent / "more").write_bytes(b"x")
    assert "too large" in refused(tmp_path / "b")

    deep = write(tmp_path / "c", "one")
    for _ in range(SKILL_LEVELS_MAX - 1):
        deep /= "in"
    deep.mkdir(parents=True)
    load_skills(tmp_path / "c")
    (deep / "in").mkdir()
    assert "levels of folders" in refused(tmp_path / "c")


def test_the_number_of_skills_is_limited(tmp_path: Path) -> None:
    for at in range(SKILLS_MAX):
        write(tmp_path / "a", f"s{at}")
    assert len(Skills(tmp_path / "a")) == SKILLS_MAX
    write(tmp_path / "b", "one-more")
    with pytest.raises(Rejected, match="found 129, limit 128"):
        Skills(tmp_path / "a", tmp_path / "b")
    write(tmp_path / "a", "one-more")
    assert "found 129, limit 128" in refused(tmp_path / "a")


def test_two_skills_of_one_name_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a", "one")
    write(tmp_path / "b", "one")
    with pytest.raises(Rejected, match="duplicate name one"):
        Skills(tmp_path / "a", tmp_path / "b")
    both = [*load_skills(tmp_path / "a"), *load_skills(tmp_path / "b")]
    with pytest.raises(Rejected, match="duplicate name one"):
        Agent("a", model="m/m", skills=both)


def test_the_tool_returns_the_body_and_the_files_of_a_skill(tmp_path: Path) -> None:
    (write(tmp_path, "one") / "notes.md").touch()
    write(tmp_path, "two")
    router = ToolRouter([Skills(tmp_path).tool])

    async def load(name: str) -> object:
        result = await router.dispatch(ToolCall(id="c", name="load_skill", arguments={"skill": name}))
        return result.data if result.success else result.error

    assert asyncio.run(load("one")) == {
        "skill": "one",
        "instructions": "# one\n\nDo it.",
        "files": ["notes.md"],
        "folder": str(tmp_path / "one"),
    }
    assert asyncio.run(load("two")) == {"skill": "two", "instructions": "# two\n\nDo it."}
    assert asyncio.run(load("oen")) == "there is no skill oen; did you mean one?"
    assert asyncio.run(load("xyz")) == "there is no skill xyz; there are one, two"


def test_a_loaded_skill_does_not_change_with_its_file(tmp_path: Path) -> None:
    folder = write(tmp_path, "one")
    skills = Skills(tmp_path)
    (folder / "SKILL.md").write_text("something else", encoding="utf-8")
    assert asyncio.run(skills.load("one"))["instructions"] == "# one\n\nDo it."


def test_the_prompt_of_an_agent_lists_its_skills_and_it_can_load_them(tmp_path: Path) -> None:
    write(tmp_path, "one")
    model = ScriptedModel([call("load_skill", {"skill": "one"}), say("Done.")])
    agent = Agent("a", model=model, instructions="Be brief.", skills=Skills(tmp_path))
    assert agent.prompt.startswith("Be brief.\n\nThese are your skills.")
    assert agent.prompt.endswith("\n- one: About one.")
    assert agent.tool("load_skill") is not None
    assert asyncio.run(agent.run("Go.")).output == "Done."


def test_the_prompt_text_and_the_tool_of_skills_can_be_given_separately(tmp_path: Path) -> None:
    write(tmp_path, "one")
    skills = Skills(tmp_path)
    agent = Agent("a", model="m/m", instructions=f"Be brief. {skills.words}", tools=[skills.tool])
    assert agent.prompt == agent.instructions
    with pytest.raises(Rejected, match="duplicate name load_skill"):
        Agent("a", model="m/m", tools=[skills.tool], skills=skills)


def test_an_agent_without_skills_has_no_skill_prompt_or_tool() -> None:
    agent = Agent("a", model="m/m", instructions="Be brief.", skills=["named"])
    assert (agent.prompt, agent.offered_tools) == ("Be brief.", ())
    assert compile_package(agent).skills == ("named",)
    assert Skills().words == ""


def test_the_fingerprint_of_an_agent_covers_every_byte_of_its_skills(tmp_path: Path) -> None:
    folder = write(tmp_path, "one")
    (folder / "notes.md").write_text("a", encoding="utf-8")

    def agent() -> Agent:
        return Agent("a", model="m/m", skills=Skills(tmp_path))

    first = compile_package(agent())
    assert first.skills is not None
    assert first.skills[0].startswith("one@sha256:")
    assert fingerprint(compile_package(agent())) == fingerprint(first)
    (folder / "notes.md").write_text("b", encoding="utf-8")
    second = compile_package(agent())
    assert fingerprint(second) != fingerprint(first)
    assert package_difference(first, second) == ("skills changed",)
    (folder / "notes.md").write_text("a", encoding="utf-8")
    assert fingerprint(compile_package(agent())) == fingerprint(first)


def test_the_order_of_skills_does_not_change_the_fingerprint(tmp_path: Path) -> None:
    write(tmp_path, "one")
    write(tmp_path, "two")
    one, two = load_skills(tmp_path)
    first = compile_package(Agent("a", model="m/m", skills=[one, two]))
    second = compile_package(Agent("a", model="m/m", skills=[two, one]))
    assert first.skills == second.skills


def test_a_skill_from_code_makes_its_own_hash(tmp_path: Path) -> None:
    write(tmp_path, "pay")
    [stored] = load_skills(tmp_path)
    own = Skill("pay", "About pay.", body="# pay\n\nDo it.")
    assert own.hash == stored.hash
    assert own.ref == f"pay@{own.hash}"
    others = [
        replace(own, name="pays"),
        replace(own, description="Other."),
        replace(own, body="Do not."),
        replace(own, files=("a.txt",), file_digests=("0" * 64,), folder=tmp_path),
    ]
    assert len({own.hash, *(other.hash for other in others)}) == 5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "Pay bills"}, "lowercase letters and digits with single - between them"),
        ({"name": 3}, "the name of a skill must be a string, found int"),
        ({"description": " "}, "skill pay: the description is empty"),
        ({"description": "x" * 1_025}, "skill pay: the description is too long: 1,025 characters"),
        ({"body": 3}, "skill pay: the body must be a string, found int"),
        ({"body": "x" * 65_537}, "skill pay: the body is too long: 65,537 characters"),
        ({"files": ("a.txt",)}, "found 1 files and 0 digests; load_skills(folder) reads them"),
        ({"files": ("a.txt",), "file_digests": ("0" * 64,)}, "files need their folder"),
    ],
)
def test_a_skill_from_code_that_cannot_be_used_is_refused_where_it_is_made(
    change: dict[str, Any], words: str
) -> None:
    with pytest.raises(Rejected, match=re.escape(words)):
        replace(Skill("pay", "About pay.", body="Do it."), **change)


def test_agents_with_different_skills_from_code_are_different_versions() -> None:
    def version(body: str) -> str:
        skill = Skill("pay", "About pay.", body=body)
        agent = Agent("clerk", model=ScriptedModel([say("Hi.")]), skills=Skills(skill))
        return fingerprint(compile_package(agent))

    assert version("Do it.") == version("Do it.")
    assert version("Do it.") != version("Do not.")
