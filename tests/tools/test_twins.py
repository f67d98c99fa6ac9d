from pathlib import Path

import pytest

from tools.gen.model import SpecError
from tools.twins import FOLDER, literal, main, table_files


def test_the_committed_tables_are_those_of_python() -> None:
    assert main(["--check"]) == 0


def test_a_table_that_was_edited_by_hand_is_named_and_written_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([], tmp_path) == 0
    edited = tmp_path / FOLDER / "policy-tables.ts"
    edited.write_text(edited.read_text("utf-8") + "// mine\n", "utf-8")
    assert main(["--check"], tmp_path) == 1
    assert f"{FOLDER}/policy-tables.ts; run `make gen`" in capsys.readouterr().err
    assert main([], tmp_path) == 0
    assert main(["--check"], tmp_path) == 0


def test_every_generated_table_carries_the_mark() -> None:
    assert all(text.startswith("// Generated from") for text in table_files().values())


def test_plain_data_keeps_its_shape_in_typescript() -> None:
    table = {"ls": ("a", 1), "rm": frozenset({"b", "a"})}
    assert literal(table) == 'new Map([\n  ["ls", ["a", 1]],\n  ["rm", new Set([\n  "a",\n  "b",\n])],\n])'
    assert literal(None) == "null"


def test_a_table_of_anything_else_is_refused() -> None:
    with pytest.raises(SpecError, match="holds object, expected plain data"):
        literal(object())
