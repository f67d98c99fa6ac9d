"""The generated types: those of spec/, and as Python programmers expect them."""

import ast
import json
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from enum import StrEnum
from importlib import import_module
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError
from tests.protocol.judges import ROOT, SPEC, definitions, spec_files

import windlass_protocol
from tools.gen.__main__ import PYTHON_FOLDER, RUNTIME_FOLDER, TYPESCRIPT_FOLDER, generated, main
from tools.gen.write import drift
from windlass_protocol import (
    EVENT_DATA,
    AgentSession,
    Event,
    EventMeta,
    JsonObject,
    OutputContract,
    RunStatus,
    SchemaVersion,
    SidecarError,
    SidecarResponse,
    StepDone,
    TextPart,
    ToolCall,
    ToolResult,
    TurnStartedData,
    Usage,
)
from windlass_protocol.codec import CodecError, decode, encode, parse
from windlass_protocol.generated import MODULE_OF
from windlass_protocol.lazy import lazy_names, lazy_values

META = EventMeta(at="2026-03-14T09:26:53Z")


def models() -> dict[str, type[BaseModel]]:
    types = {name: getattr(windlass_protocol, name) for name in MODULE_OF}
    return {
        name: type_
        for name, type_ in types.items()
        if isinstance(type_, type) and issubclass(type_, BaseModel)
    }


def normal(text: str) -> str:
    return " ".join(text.split())


# The files


@pytest.mark.uncounted
@pytest.mark.promise("W1")
def test_the_generated_files_are_those_that_spec_makes() -> None:
    assert drift(generated()) == []


def test_every_generated_file_says_so_in_its_first_line() -> None:
    files = [path for folder in (PYTHON_FOLDER, TYPESCRIPT_FOLDER) for path in (ROOT / folder).glob("*.*")]
    # In Python a module and its stub, the literal types of all, and the classes of records; operations in
    # TypeScript.
    assert len(files) == 3 * len(spec_files()) + 5
    for path in files:
        first = path.read_text("utf-8").split("\n", 1)[0]
        assert re.fullmatch(r"(#|//) Generated from spec/\S* by `make gen`\. Do not edit\.", first), path


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A copy of spec/ and of the options of a runtime, with the generated files."""
    shutil.copytree(SPEC, tmp_path / "spec", ignore=shutil.ignore_patterns("invalid"))
    (tmp_path / RUNTIME_FOLDER).mkdir(parents=True)
    shutil.copy(ROOT / RUNTIME_FOLDER / "options.py", tmp_path / RUNTIME_FOLDER)
    assert main([], tmp_path) == 0
    return tmp_path


def change_tools(workspace: Path, old: str, new: str) -> None:
    path = workspace / "spec/tools.schema.json"
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


@pytest.mark.uncounted
def test_a_changed_schema_changes_both_languages(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change_tools(workspace, '"needsFollowup"', '"wantsFollowup"')
    assert main(["--check"], workspace) == 1
    reported = capsys.readouterr().err
    assert f"differs from its source: {PYTHON_FOLDER}/tools.py; run `make gen`" in reported
    assert f"differs from its source: {PYTHON_FOLDER}/tools.pyi; run `make gen`" in reported
    assert f"differs from its source: {TYPESCRIPT_FOLDER}/tools.ts; run `make gen`" in reported
    assert len(reported.splitlines()) == 3
    assert main([], workspace) == 0
    for name in ("tools.py", "tools.pyi"):
        assert "wants_followup: Maybe[Bool]" in (workspace / PYTHON_FOLDER / name).read_text("utf-8")
    assert "wantsFollowup: z.boolean()" in (workspace / TYPESCRIPT_FOLDER / "tools.ts").read_text("utf-8")


def test_the_page_of_payloads_has_each_type_its_fields_and_its_example() -> None:
    page = (ROOT / "docs" / "payloads.md").read_text("utf-8")
    sections = dict(part.split("\n", 1) for part in page.split("\n## ")[1:])
    assert sections.keys() == EVENT_DATA.keys()
    for name, data in EVENT_DATA.items():
        told = dict(re.findall(r"^\| `(\w+)` \| (.+?) \| .+ \|$", sections[name], re.MULTILINE))
        assert set(told) == {field.alias or one for one, field in data.model_fields.items()}, name
        required = {field.alias or one for one, field in data.model_fields.items() if field.is_required()}
        assert {field for field, words in told.items() if words.endswith(", required")} == required, name
        data.model_validate_json(sections[name].split("```json\n")[1].split("```")[0])


@pytest.mark.uncounted
def test_an_edited_a_missing_and_a_leftover_file_fail_the_check_and_are_mended(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edited, missing = workspace / PYTHON_FOLDER / "chat.py", workspace / TYPESCRIPT_FOLDER / "chat.ts"
    leftover = workspace / TYPESCRIPT_FOLDER / "old.ts"
    edited.write_text(edited.read_text("utf-8") + "\n", "utf-8")
    missing.unlink()
    leftover.write_text("// Generated once.\n", "utf-8")
    assert main(["--check"], workspace) == 1
    assert [Path(word.rstrip(";")).name for word in capsys.readouterr().err.split() if ";" in word] == [
        *("chat.py", "chat.ts", "old.ts")
    ]
    assert edited.read_text("utf-8").endswith("\n\n"), "--check writes nothing"
    assert main([], workspace) == 0
    assert main(["--check"], workspace) == 0
    assert not leftover.exists()


# The Python types


def test_attributes_are_snake_case_and_the_wire_is_camel_case() -> None:
    for name, model in models().items():
        for attribute in model.model_fields:
            assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", attribute), f"{name}.{attribute}"
        aliases = {field.serialization_alias for field in model.model_fields.values()}
        assert aliases == set(definitions()[name]["properties"]), name


def test_a_field_may_be_given_by_both_names_in_python_and_by_the_wire_name_on_the_wire() -> None:
    assert Usage(input_tokens=1) == Usage.model_validate({"inputTokens": 1})
    assert encode(Usage(input_tokens=1)) == b'{"inputTokens":1}'
    assert decode(Usage, '{"input_tokens": 1}').input_tokens is None


def test_types_cannot_be_changed() -> None:
    for name, model in models().items():
        assert model.model_config.get("frozen") is True, name
    usage = Usage(input_tokens=1)
    with pytest.raises(ValidationError, match="frozen"):
        usage.input_tokens = 2
    assert usage.input_tokens == 1


def test_open_types_keep_and_closed_types_refuse_unknown_fields() -> None:
    for name, model in models().items():
        is_open = definitions()[name]["additionalProperties"]
        assert model.model_config.get("extra") == ("allow" if is_open else "forbid"), name


def test_the_docstring_of_a_type_is_its_description() -> None:
    for name, body in definitions().items():
        type_ = getattr(windlass_protocol, "EVENT_DATA" if name == "TypedData" else name)
        if isinstance(type_, type):
            assert normal(str(type_.__doc__)) == body["description"] or name == "JsonObject", name


@pytest.mark.uncounted
def test_the_docstring_of_every_attribute_is_its_description() -> None:
    seen = 0
    for path in (ROOT / PYTHON_FOLDER).glob("*.pyi"):
        for statement in ast.parse(path.read_text("utf-8")).body:
            if not isinstance(statement, ast.ClassDef) or statement.name not in models():
                continue
            fields = models()[statement.name].model_fields
            described = definitions()[statement.name]["properties"]
            for field, doc in zip(statement.body, statement.body[1:], strict=False):
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    wire = fields[field.target.id].serialization_alias
                    assert isinstance(doc, ast.Expr), f"{statement.name}.{wire}"
                    assert normal(ast.literal_eval(doc.value)) == described[wire]["description"]
                    seen += 1
    assert seen == sum(len(body.get("properties", ())) for body in definitions().values())


def test_enums_have_the_values_of_the_schema_and_are_texts() -> None:
    seen = 0
    for name, body in definitions().items():
        if "enum" in body:
            enum: type[StrEnum] = getattr(windlass_protocol, name)
            assert issubclass(enum, StrEnum)
            assert [member.value for member in enum] == body["enum"]
            assert [member.name for member in enum] == [v.upper().replace("-", "_") for v in body["enum"]]
            seen += 1
    assert seen > 20
    assert f"{RunStatus.BUDGET_EXHAUSTED}" == "budget_exhausted"


def test_every_event_type_has_the_model_of_its_data() -> None:
    assert EVENT_DATA["turn.started"] is TurnStartedData
    assert len(EVENT_DATA) == len(list(EVENT_DATA))
    assert "turn.started" in EVENT_DATA
    assert EVENT_DATA.get("planet.landed") is None
    for row in definitions()["TypedData"]["allOf"]:
        data = row["then"]["properties"]["data"]["$ref"].split("/")[-1]
        assert EVENT_DATA[row["if"]["properties"]["type"]["const"]].__name__ == data


def test_none_for_an_optional_field_means_that_it_is_left_out() -> None:
    assert encode(ToolResult(success=True, message=None, error=None)) == b'{"success":true}'
    assert encode(Event(type="a.b", meta=META, run_id=None)) == (
        b'{"type":"a.b","meta":{"at":"2026-03-14T09:26:53Z"},"data":{}}'
    )


def session(**more: object) -> AgentSession:
    required = {"sessionId": "s", "userId": "u", "chatId": "c", "currentStage": "X", "isActive": True}
    return AgentSession.model_validate({**required, "createdAt": META.at, "updatedAt": META.at, **more})


def test_a_null_that_was_given_is_kept_where_the_schema_allows_one() -> None:
    assert "nextStage" not in json.loads(encode(session()))
    assert json.loads(encode(session(nextStage=None)))["nextStage"] is None
    assert encode(ToolResult(success=True, data=None)) == b'{"success":true,"data":null}'


def test_an_answer_without_a_value_keeps_its_result() -> None:
    assert parse(encode(SidecarResponse(id=1, result=None))) == {"jsonrpc": "2.0", "id": 1, "result": None}


def test_exactly_one_of_result_and_error_is_given_and_none_means_no_error() -> None:
    error = SidecarError(code=-32603, message="Internal error.")
    assert "result" not in json.loads(encode(SidecarResponse(id=1, error=error)))
    assert parse(encode(SidecarResponse(id=1, result=7, error=None))) == {
        "jsonrpc": "2.0",
        "id": 1,
        "result": 7,
    }
    for wrong in ({}, {"error": None}, {"result": None, "error": error}, {"result": 1, "error": error}):
        with pytest.raises(ValidationError, match="expected exactly one of result, error"):
            SidecarResponse.model_validate({"id": 1, **wrong})


def test_python_may_leave_a_constant_out_and_the_wire_may_not() -> None:
    assert encode(TextPart(text="a")) == b'{"text":"a","type":"text"}'
    assert StepDone(output=None).done is True
    with pytest.raises(CodecError, match="expected type"):
        decode(TextPart, '{"text": "a"}')


def test_a_field_that_would_hide_a_method_has_another_name_in_python() -> None:
    version = SchemaVersion(major=1, minor=0, patch=0)
    contract = OutputContract(schema_id="s", schema_version=version, json_schema={"type": "object"})
    assert parse(encode(contract)) == {
        "schemaId": "s",
        "schemaVersion": {"major": 1, "minor": 0, "patch": 0},
        "schema": {"type": "object"},
    }
    assert decode(OutputContract, encode(contract)) == contract


def test_no_type_is_guessed_from_another_in_python_either() -> None:
    for wrong in ("true", 1, 0, "yes"):
        with pytest.raises(ValidationError, match="valid boolean"):
            ToolResult.model_validate({"success": wrong})
    with pytest.raises(ValidationError, match="valid string"):
        ToolResult.model_validate({"success": True, "message": 1})
    for wrong in ("1", True, 1.5, 2**53, -1, float("inf")):
        with pytest.raises(ValidationError, match="integer from 0 to 9007199254740991"):
            Usage.model_validate({"inputTokens": wrong})
    tokens = decode(Usage, '{"inputTokens": 12.0}').input_tokens
    assert tokens == 12
    assert isinstance(tokens, int)


@pytest.mark.parametrize(
    "data",
    [
        {"sequence": 0, "turn_id": "t"},
        {"sequence": 0, "turnId": "t", "trace": None},
        {"sequence": 0, "turnId": ""},
        {},
    ],
)
def test_an_event_made_in_python_has_data_that_the_wire_accepts(data: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as caught:
        Event.model_validate({"type": "turn.started", "data": data, "meta": {"at": META.at}})
    assert {error["loc"][0] for error in caught.value.errors()} == {"data"}


def test_the_error_of_event_data_names_the_place_in_it() -> None:
    event: JsonObject = {"type": "turn.started", "meta": {"at": META.at}}
    event["data"] = {"sequence": 0, "turnId": "t", "trace": {}}
    with pytest.raises(ValidationError) as made:
        Event.model_validate(event)
    assert made.value.errors()[0]["loc"] == ("data", "trace", "traceId")
    with pytest.raises(CodecError) as read:
        decode(Event, encode(event))
    assert [issue.path for issue in read.value.issues] == ["/data/trace/traceId"]


def test_data_of_an_unknown_event_type_may_be_anything() -> None:
    event = decode(Event, encode(Event(type="planet.landed", meta=META, data={"crew": [None]})))
    assert event.data == {"crew": [None]}


def test_a_call_compares_by_value() -> None:
    call = ToolCall(id="1", name="x", arguments={"a": [1]})
    assert call == ToolCall(id="1", name="x", arguments={"a": [1]})
    assert call != ToolCall(id="1", name="x", arguments={"a": [2]})


# The package

LOADED = """
import sys
import windlass_protocol
from windlass_protocol.generated import MODULE_OF

def made():
    found = [vars(one) for name, one in sys.modules.items() if "windlass_protocol.generated." in name]
    return sorted(name for module in found for name in module if name in MODULE_OF)

print(made())
windlass_protocol.ToolMode
print(made(), "pydantic" in sys.modules)
windlass_protocol.ToolSpec
print(made())
"""


def test_a_generated_type_is_made_when_it_is_asked_for_together_with_those_that_it_refers_to() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "[]",
        "['ToolMode'] False",
        "['ApprovalRule', 'EffectClass', 'Id', 'JsonObject', 'Positive', 'Taint', 'ToolMode', 'ToolSpec']",
    ]


@pytest.mark.uncounted
def test_a_stub_declares_the_types_of_its_module() -> None:
    for path in (ROOT / PYTHON_FOLDER).glob("*.pyi"):
        declared = dict(_declarations(ast.parse(path.read_text("utf-8")).body))
        makers = ast.parse(path.with_suffix(".py").read_text("utf-8")).body
        made = [
            one for maker in makers if isinstance(maker, ast.FunctionDef) for one in _declarations(maker.body)
        ]
        assert declared.keys() == dict(made).keys()
        assert {name for name, text in made if declared[name] != text} <= {"EVENT_DATA"}


def _declarations(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """The definitions of a file or a function as text, without docstrings and methods."""
    for statement in body:
        match statement:
            case ast.ClassDef(name):
                parts = [one for one in statement.body if isinstance(one, ast.AnnAssign | ast.Assign)]
                own = [ast.unparse(one) for one in parts if "__qualname__" not in ast.unparse(one)]
                yield name, f"{[ast.unparse(base) for base in statement.bases]} {own}"
            case ast.Assign([ast.Name(name)]) | ast.AnnAssign(ast.Name(name)):
                yield name, ast.unparse(statement)
            case _:
                pass


def test_a_type_that_two_threads_ask_for_is_one_type() -> None:
    module: dict[str, object] = {"__name__": "fruit"}
    first = type("Apple", (), {})

    def make() -> object:
        # Another thread is faster.
        module["Apple"] = first
        return type("Apple", (), {})

    get, names = lazy_values(module, {"Apple": make})
    assert get("Apple") is first
    assert names() == ["Apple", "__name__"]
    with pytest.raises(AttributeError, match="module 'fruit' has no attribute 'Pear'"):
        get("Pear")


def test_a_generated_type_is_known_by_the_name_of_its_module() -> None:
    call = ToolCall(id="1", name="x", arguments={})
    assert (ToolCall.__module__, ToolCall.__qualname__) == ("windlass_protocol.generated.tools", "ToolCall")
    assert pickle.loads(pickle.dumps(call)) == call
    assert repr(RunStatus.RUNNING) == "<RunStatus.RUNNING: 'running'>"
    assert "ToolCall" in dir(import_module("windlass_protocol.generated.tools"))


def test_dir_lists_every_type_and_the_codec() -> None:
    names = {"EVENT_DATA" if name == "TypedData" else name for name in definitions()}
    assert names == set(MODULE_OF)
    assert {*names, "decode", "encode", "CodecError"} <= set(dir(windlass_protocol))


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'windlass_protocol' has no attribute 'ToolCal'"):
        _ = windlass_protocol.ToolCal


def test_a_package_may_offer_a_name_of_another_package() -> None:
    get, names = lazy_names("windlass", {"windlass_protocol": ("ToolCall",)})
    assert get("ToolCall") is ToolCall
    assert names() == ["ToolCall"]


def test_a_star_import_brings_every_name() -> None:
    names: dict[str, object] = {}
    exec("from windlass_protocol import *", names)
    assert names["ToolCall"] is ToolCall
    assert set(dir(windlass_protocol)) <= set(names)
