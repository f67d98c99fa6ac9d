"""The schema files: valid, within the dialect, with the whole event grammar."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.protocol.judges import ROOT, SPEC, definitions, event_types, spec_files

from tools.gen.load import load_spec
from tools.gen.model import SpecError
from tools.gen.python import python_files
from tools.gen.typescript import typescript_files

pytestmark = pytest.mark.uncounted

Schema = dict[str, Any]


@pytest.mark.parametrize("file", sorted(spec_files()))
def test_every_file_is_valid_json_schema(file: str) -> None:
    Draft202012Validator.check_schema(spec_files()[file])


@pytest.mark.parametrize("file", sorted(spec_files()))
def test_every_definition_and_field_has_a_description_that_is_a_sentence(file: str) -> None:
    for name, body in spec_files()[file]["$defs"].items():
        for place, described in {name: body, **body.get("properties", {})}.items():
            assert described["description"].endswith("."), f"{name}.{place}"


@pytest.mark.parametrize("file", sorted(spec_files()))
def test_files_are_written_as_python_writes_json_with_two_spaces(file: str) -> None:
    text = json.dumps(spec_files()[file], indent=2, ensure_ascii=False) + "\n"
    assert (SPEC / file).read_text("utf-8") == text


def test_the_page_about_the_dialect_is_short() -> None:
    assert len((ROOT / "spec/README.md").read_text("utf-8").splitlines()) <= 60


# The event grammar: the required data fields of each type and, after the bar, the optional ones.
# S, I and T are the number of the turn, the number of the step and the turn itself. The second part holds the
# types that only this project has.

GRAMMAR = """
session.started         | invocation runtime predecessor trace
turn.started            S T | trace
message.received        message S T | parts
step.started            S I T | modelId
reasoning.appended      reasoningDelta S I T | reasoningSoFar
reasoning.completed     reasoning S I T |
message.appended        messageDelta S I T | messageSoFar
message.completed       message finishReason S I T |
actions.requested       actions S I T | presentation
action.result           result status S I T | error presentation
action.input.appended   callId inputDelta S I T |
action.partial          callId output S I T |
input.requested         requests S I T | callId taskId
input.resolved          resolutions S I T |
approval.dispatched     requestId |
approval.candidate      requestId |
approval.settled        requestId outcome |
result.completed        result S I T |
step.completed          finishReason S I T | usage costUsd providerMetadata
step.failed             code message S I T | details
turn.completed          S T |
turn.failed             code message S T | details terminal
turn.waiting            on S T | usage
turn.cancelled          S T |
context.cleared         | S T
compaction.requested    modelId usageInputTokens S T | sessionId I
compaction.completed    modelId S T | sessionId I
authorization.required  name description S I T | authorization webhookUrl attemptId principalId taskId
authorization.completed name outcome S I T | reason authorization attemptId principalId taskId
subagent.called         callId childSessionId sessionId name toolName S T | remote workflowId
subagent.started        callId subagentName |
subagent.event          callId subagentName event |
subagent.completed      callId subagentName output |
task.started            taskId |
task.settled            taskId status |
agent.started           childSessionId name |
agent.resolved          resolver part scope contentRef | names failure
session.waiting         wait | continuationToken usage
session.failed          code message | details sessionId usage
session.completed       | usage

session.state_changed   | set removed
feedback.given          runId | thumb score note tags stepIndex messageId by
run.event_received      runId name | data key by
session.moved           fromFingerprint toFingerprint | reason
session.forked          predecessor predecessorSeq |
run.started             runId agentId | packageFingerprint source mode budget goalId inputData
run.resumed             runId reason | epoch
run.waiting             runId on | requestIds until
run.cancel_requested    runId | by reason
run.completed           runId | output structuredOutput narrative outputData usage
run.failed              runId error | narrative outputData usage
run.cancelled           runId | reason usage
run.budget_exhausted    runId exceeded used limits | usage
step.queued             provider reason S I T |
step.retrying           code attempt delayMs S I T | message
action.started          callId toolName effect idempotencyKey S I T | argumentsHash mode arguments
program.paused          callId taken S I T | interpreter snapshot printed
program.ended           callId taken status output S I T | error contentRef
output.requested        contract | runId
output.rejected         schemaId attempt errors | runId
output.validated        schemaId attempt | hash runId
output.failed           schemaId attempts errors | runId
compaction.failed       code message | details
policy.decided          stage decision | runId callId toolName
budget.reserved         used limits | runId
budget.updated          used | runId
budget.warned           name used limit | runId
budget.exhausted        exceeded used limits | runId
hook.invoked            hookId point | runId callId
hook.completed          hookId point status | changed vetoed durationMs
hook.failed             hookId point status error | callId
decision.recorded       decision |
decision.outcome        decisionId outcome |
decision.evaluated      decisionId evaluation |
problem.reported        problem |
proposal.made           proposal |
proposal.checked        proposalId check |
proposal.settled        proposalId isAccepted by | reason
proposal.applied        proposalId by fingerprint |
delivery.intended       deliveryId sinkId dedupeKey kind | runId
delivery.completed      deliveryId sinkId | receipt
delivery.failed         deliveryId sinkId error |
delivery.deduped        deliveryId sinkId dedupeKey |
delivery.unknown        deliveryId sinkId | reason
recovery.started        epoch | reason runId
recovery.effect_found   callId effect toolName | idempotencyKey requestId
recovery.effect_settled callId choice | by
recovery.completed      epoch | repeated parked
"""


def grammar() -> dict[str, tuple[set[str], set[str]]]:
    rows = [line.split("|") for line in GRAMMAR.splitlines() if line]
    return {must.split()[0]: (_fields(must.split()[1:]), _fields(may.split())) for must, may in rows}


def _fields(words: Iterable[str]) -> set[str]:
    short = {"S": "sequence", "I": "stepIndex", "T": "turnId"}
    return {short.get(word, word) for word in words}


def test_the_table_of_event_types_is_the_whole_grammar() -> None:
    assert set(event_types()) == set(grammar())


@pytest.mark.parametrize("event_type", grammar())
def test_the_data_of_an_event_type_has_the_fields_of_the_grammar(event_type: str) -> None:
    required, optional = grammar()[event_type]
    body = definitions()[event_types()[event_type]]
    assert set(body.get("required", ())) == required
    assert set(body["properties"]) - required >= optional
    assert body["additionalProperties"] is True, "data of a newer version must pass"


def test_an_event_must_have_data_exactly_when_its_data_must_have_a_field() -> None:
    for row in definitions()["TypedData"]["allOf"]:
        event_type = row["if"]["properties"]["type"]["const"]
        required = definitions()[event_types()[event_type]].get("required")
        assert row["then"].get("required") == (["data"] if required else None), event_type


def test_every_data_definition_belongs_to_exactly_one_event_type() -> None:
    used = [*event_types().values(), "TypedData"]
    assert sorted(used) == sorted(name for name in definitions() if name.endswith("Data"))


# The dialect

FRUIT: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "fruit.schema.json",
    "title": "Fruit",
    "description": "What grows.",
    "$defs": {
        "Apple": {
            "description": "An apple.",
            "type": "object",
            "properties": {
                "kind": {"description": "Which fruit.", "const": "apple"},
                "worms": {"description": "Those inside.", "type": "array", "items": {"type": "string"}},
                "weight": {"description": "In grams.", "type": "number", "minimum": 0},
                "sugar": {"description": "In grams.", "type": "number", "minimum": 0.5, "maximum": 50},
                "seeds": {"description": "How many.", "type": "integer", "minimum": 0, "maximum": 20},
                "ripe": {"description": "Whether to eat it.", "type": "boolean"},
                "note": {"description": "Words.", "type": ["string", "null"]},
                "size": {"description": "How big.", "type": "string", "enum": ["small", "very-big"]},
                "taste": {"description": "Anything.", "type": "object", "additionalProperties": True},
                "code": {"description": "A code.", "type": "string", "pattern": "^[a-z/]+$"},
            },
            "required": ["kind"],
            "additionalProperties": False,
        },
        "Pear": {
            "description": "A pear.",
            "type": "object",
            "properties": {"kind": {"description": "Which fruit.", "const": "pear"}},
            "required": ["kind"],
            "additionalProperties": True,
        },
        "Fruit": {"description": "A fruit.", "oneOf": [{"$ref": "#/$defs/Apple"}, {"$ref": "#/$defs/Pear"}]},
    },
}

Change = Callable[[Schema], object]


def written(folder: Path, change: Change) -> Path:
    """A folder with the schema of fruit after a change of its definitions."""
    schema: Schema = json.loads(json.dumps(FRUIT))
    change(schema)
    (folder / "fruit.schema.json").write_text(json.dumps(schema), "utf-8")
    return folder


def apple(**fields: Schema) -> Change:
    return lambda schema: schema["$defs"]["Apple"]["properties"].update(fields)


def changed(name: str, **keywords: object) -> Change:
    return lambda schema: schema["$defs"].setdefault(name, {}).update(keywords)


def described(**keywords: object) -> Schema:
    return {"description": "A field.", **keywords}


def test_the_schema_of_fruit_is_in_the_dialect(tmp_path: Path) -> None:
    spec = load_spec(written(tmp_path, lambda schema: schema))
    python, typescript = python_files(spec)["fruit.pyi"], typescript_files(spec)["fruit.ts"]
    assert "sugar: Maybe[Annotated[Float, Field(ge=0.5, le=50)]] = None" in python
    assert "sugar: z.number().min(0.5).max(50).optional()" in typescript
    assert "seeds: Maybe[Annotated[int, Whole(0, 20)]] = None" in python
    assert "seeds: z.int().min(0).max(20).optional()" in typescript
    assert 'size: Maybe[Literal["small", "very-big"]] = None' in python
    assert "taste: Maybe[JsonObject] = None" in python
    assert "taste: JsonObject.optional()" in typescript
    assert 'pattern: new RegExp("^[a-z/]+$", "u")' in typescript
    assert 'Fruit = Annotated[\n    Apple | Pear,\n    Field(discriminator="kind"),\n]' in python
    assert 'z.discriminatedUnion("kind", [Apple, Pear])' in typescript


REFUSED: dict[str, tuple[Change, str]] = {
    "an unknown keyword of a file": (lambda s: s.update({"$comment": "x"}), r"fruit.*'\$comment'"),
    "an unknown keyword of an object": (changed("Apple", minProperties=1), "fruit.Apple: .*'minProperties'"),
    "an unknown keyword of a field": (
        apple(skin=described(type="string", contentEncoding="base64")),
        "fruit.Apple.skin: .*'contentEncoding'",
    ),
    "an unknown keyword beside a $ref": (
        apple(skin=described(**{"$ref": "#/$defs/Pear", "minimum": 1})),
        "fruit.Apple.skin: .*'minimum'",
    ),
    "an unknown keyword beside several types": (
        apple(skin=described(type=["string", "null"], enum=["a"])),
        "fruit.Apple.skin: .*'enum'",
    ),
    "an unknown type": (apple(skin=described(type="file")), "fruit.Apple.skin: type 'file'"),
    "no type at all": (apple(skin=described(minimum=1)), "fruit.Apple.skin: type 'None'"),
    "the $id of another file": (lambda s: s.update({"$id": "x.schema.json"}), "fruit.*own name as \\$id"),
    "another draft": (lambda s: s.update({"$schema": "x"}), "fruit.*expected \\$schema"),
    "no description of a file": (lambda s: s.pop("description"), "fruit: needs a description"),
    "no description of a definition": (changed("Pear", description=""), "fruit.Pear: needs a description"),
    "no description of a field": (apple(skin={"type": "string"}), "fruit.Apple.skin: needs a description"),
    "a description without a full stop": (changed("Pear", description="A pear"), "fruit.Pear: needs a desc"),
    "a description that ends a comment": (changed("Pear", description="A */ pear."), "fruit.Pear: .*comment"),
    "a definition that is not there": (
        apple(skin=described(**{"$ref": "#/$defs/Skin"})),
        r"fruit\.schema\.json: nothing is at #/\$defs/Skin",
    ),
    "a file that is not there": (
        apple(skin=described(**{"$ref": "skins.schema.json#/$defs/Pear"})),
        r"nothing is at skins\.schema\.json#/\$defs/Pear",
    ),
    "a $ref to something else": (
        apple(skin=described(**{"$ref": "#/x"})),
        "fruit.Apple.skin: expected a \\$ref",
    ),
    "a required field that is not there": (
        changed("Pear", required=["kind", "x"]),
        "fruit.Pear: .*\\['x'\\]",
    ),
    "an object that does not say whether it is open": (
        lambda s: s["$defs"]["Pear"].pop("additionalProperties"),
        "fruit.Pear: say type object, and additionalProperties",
    ),
    "an object without a type": (lambda s: s["$defs"]["Pear"].pop("type"), "fruit.Pear: say type object"),
    "an object that is one of others": (
        changed("Pear", oneOf=[{"required": ["a", "b"]}]),
        "fruit.Pear: .*oneOf",
    ),
    "a field in snake_case": (apple(skin_colour=described(type="string")), "skin_colour: .*camelCase"),
    "a field with two capital letters in a row": (apple(skinID=described()), "skinID: .*camelCase"),
    "a default": (apple(skin=described(type="string", default="red")), "fruit.Apple.skin: the only default"),
    "an array of nothing in particular": (apple(skin=described(type="array")), "skin: array needs items"),
    "an object of nothing in particular": (
        apple(skin=described(type="object")),
        "skin: object needs additional",
    ),
    "an enum value that makes no name": (
        apple(skin=described(type="string", enum=["2 red"])),
        "skin: .*'2 red'",
    ),
    "a format without a pattern": (
        apple(skin=described(type="string", format="uri")),
        "skin: format is a remark",
    ),
    "an integer without limits": (apple(skin=described(type="integer")), "skin: an integer needs"),
    "an integer beyond what JavaScript holds": (
        apple(skin=described(type="integer", minimum=0, maximum=2**53)),
        "skin: an integer needs",
    ),
    "a table of something else": (
        changed("Table", description="A table.", allOf=[{"if": True, "then": False}]),
        "fruit.Table: expected if type is a constant",
    ),
    **{
        f"the pattern {pattern}": (apple(skin=described(type="string", pattern=pattern)), "languages read")
        for pattern in ("a", "^a", "a$", r"^\d$", r"^\w+$", "^.$", "^(?=a)$", "^(?!a)$", "^a$b$", r"^\$$")
    },
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_schema_outside_the_dialect_is_refused_with_its_path(case: str, tmp_path: Path) -> None:
    change, message = REFUSED[case]
    with pytest.raises(SpecError, match=message):
        load_spec(written(tmp_path, change))


def test_a_name_may_be_defined_once(tmp_path: Path) -> None:
    written(tmp_path, lambda schema: schema)
    again = {**FRUIT, "$id": "garden.schema.json"}
    (tmp_path / "garden.schema.json").write_text(json.dumps(again), "utf-8")
    with pytest.raises(SpecError, match="garden: Apple is also defined in fruit"):
        load_spec(tmp_path)


UNWRITABLE: dict[str, tuple[Change, str]] = {
    "definitions that need each other": (
        apple(pair=described(**{"$ref": "#/$defs/Fruit"})),
        "refer to each other: Apple -> Fruit -> Apple",
    ),
    "a union without a tag": (
        lambda s: s["$defs"]["Pear"].update(required=[]),
        r"Fruit: members must share exactly one constant field, found \[\]",
    ),
    "a union of members with the same tag": (
        lambda s: s["$defs"]["Pear"]["properties"]["kind"].update(const="apple"),
        "Fruit: two members have the same kind",
    ),
    "a union of something else than objects": (
        lambda s: s["$defs"].update(Pear={"description": "A pear.", "type": "string"}),
        "Fruit: Pear is no object",
    ),
    "a field that is a Python keyword": (
        apple(**{"class": described(type="string")}),
        "'class' is a Python keyword",
    ),
}


@pytest.mark.parametrize("case", UNWRITABLE)
def test_a_schema_that_python_cannot_express_is_refused(case: str, tmp_path: Path) -> None:
    change, message = UNWRITABLE[case]
    with pytest.raises(SpecError, match=message):
        python_files(load_spec(written(tmp_path, change)))
