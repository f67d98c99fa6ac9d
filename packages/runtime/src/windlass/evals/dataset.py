"""Data sets: cases with inputs and expected answers, from files, Python or recorded runs.

Files have the form of pydantic-evals: YAML or JSON with `cases` and `evaluators`, or a case on each line of a
JSONL file. Tags and the recorded run of a case are in its metadata, so that pydantic-evals can read them too.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Final, Self, cast

import yaml
from pydantic import JsonValue, TypeAdapter, ValidationError

from windlass.errors import check_text, check_whole, kind_of, wrong
from windlass.evals.scorers import Scorer, check_scorers, read_scorer, write_scorer
from windlass.ledger.goals import read_records
from windlass.runtime.compose import AgentRuntime
from windlass.yaml_value import TooManyValues, load_yaml
from windlass_harness.ledger.tapes import Tape, read_tape
from windlass_protocol import CodecError, CodecLimits, JsonObject, canonical
from windlass_protocol.frozen import sealed
from windlass_protocol.limits import FREE_LEVELS_MAX

NAME_CHARS_MAX: Final = 200
"""Characters of the name of a data set or a case; ids of runs are made of them."""
CASES_MAX: Final = 100_000
TURNS: Final = 10
TURNS_MAX: Final = 100
"""Messages of a conversation."""
_FREE_JSON: Final = CodecLimits(depth_max=FREE_LEVELS_MAX)
_JSON: Final = TypeAdapter[JsonValue](JsonValue)
_CASE_KEYS: Final = ("name", "inputs", "expected_output", "metadata", "evaluators")
_FILE_KEYS: Final = ("$schema", "name", "cases", "evaluators", "report_evaluators")


@sealed
class Conversation:
    """Several messages to an agent, each sent after the answer to the one before.

    With a `persona`, a model plays a user with it and goes on after the given messages.
    """

    messages: Sequence[str] = ()
    _: KW_ONLY
    persona: str = ""
    """Who the user is and what they want."""
    turns_max: int = TURNS
    """Messages after which the user stops."""

    def __post_init__(self) -> None:
        if isinstance(self.messages, str) or not all(isinstance(message, str) for message in self.messages):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise wrong("the messages of a conversation must be a list of texts")
        object.__setattr__(self, "messages", tuple(self.messages))
        check_whole(self.turns_max, "turns_max", most=TURNS_MAX)
        if not self.messages and not self.persona:
            raise wrong("a conversation needs messages, or the persona of a user")
        if len(self.messages) > TURNS_MAX:
            raise wrong(f"a conversation has {len(self.messages):,} messages, limit {TURNS_MAX}")


@sealed
class Case:
    """An input of an agent, and what is expected."""

    name: str
    inputs: JsonValue | Conversation
    """The message, data that is sent as JSON, or a conversation."""
    expected: JsonValue = None
    """The expected answer; None if there is none."""
    _: KW_ONLY
    metadata: JsonObject = field(default_factory=dict[str, JsonValue])
    tags: Sequence[str] = ()
    scorers: Sequence[Scorer] = ()
    """Scorers of this case alone."""
    run_id: str | None = None
    """The recorded run that it was taken from."""

    def __post_init__(self) -> None:
        where = f"case {check_title(self.name, 'the name of a case')}"
        if not isinstance(self.inputs, Conversation):
            object.__setattr__(self, "inputs", _json(self.inputs, f"{where}: inputs"))
            if self.inputs in ("", None):
                raise wrong(f"{where} has no inputs")
        object.__setattr__(self, "expected", _json(self.expected, f"{where}: expected"))
        metadata = _json(self.metadata, f"{where}: metadata")
        if not isinstance(metadata, dict):
            raise wrong(f"{where}: metadata must be an object, found {kind_of(metadata)}")
        for name in ("tags", "run_id"):
            if name in metadata:
                raise wrong(f"{where}: metadata cannot have {name}: give it as an option of the case")
        object.__setattr__(self, "tags", tuple(self.tags))
        object.__setattr__(self, "scorers", check_scorers(self.scorers, f"{where}: scorers"))

    @property
    def messages(self) -> tuple[str, ...]:
        """The given messages, as texts."""
        if isinstance(self.inputs, Conversation):
            return tuple(self.inputs.messages)
        return (self.inputs if isinstance(self.inputs, str) else canonical(self.inputs).decode(),)

    @property
    def wire_inputs(self) -> JsonValue:
        """The inputs as a file holds them."""
        if not isinstance(self.inputs, Conversation):
            return self.inputs
        talk = self.inputs
        more: JsonObject = {"persona": talk.persona, "turns": talk.turns_max} if talk.persona else {}
        return {"conversation": list(talk.messages), **more}

    def data(self) -> JsonObject:
        """Return the case as a file holds it."""
        metadata = dict(self.metadata)
        if self.tags:
            metadata["tags"] = list(self.tags)
        if self.run_id is not None:
            metadata["run_id"] = self.run_id
        data: dict[str, JsonValue] = {"name": self.name, "inputs": self.wire_inputs}
        if metadata:
            data["metadata"] = metadata
        if self.expected is not None:
            data["expected_output"] = self.expected
        if self.scorers:
            data["evaluators"] = [write_scorer(scorer) for scorer in self.scorers]
        return data


@sealed(weakref_slot=True)
class Dataset:
    """Cases with a name; `hash` is the version of its contents."""

    name: str
    cases: Sequence[Case]
    _: KW_ONLY
    scorers: Sequence[Scorer] = ()
    """Scorers of every case."""

    def __post_init__(self) -> None:
        where = f"data set {check_title(self.name, 'the name of a data set')}"
        cases = tuple(self.cases)
        if len(cases) > CASES_MAX:
            raise wrong(f"{where} has {len(cases):,} cases, limit {CASES_MAX:,}")
        names: set[str] = set()
        for case in cases:
            if not isinstance(case, Case):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
                raise wrong(f"{where}: cases must be Cases, found {kind_of(case)}")
            if case.name in names:
                raise wrong(f"{where} has two cases named {case.name}: give each its own name")
            names.add(case.name)
        object.__setattr__(self, "cases", cases)
        object.__setattr__(self, "scorers", check_scorers(self.scorers, f"{where}: scorers"))

    @property
    def hash(self) -> str:
        """The version: a hash of cases and scorers."""
        return version_of_data(self.data())

    @property
    def inputs_hash(self) -> str:
        """A hash of the names and inputs of the cases: what an agent is asked."""
        return _digest([case.name, case.wire_inputs, case.run_id] for case in self.cases)

    def tagged(self, *tags: str) -> "Dataset":
        """Return the cases that have one of the tags."""
        return replace(self, cases=[case for case in self.cases if set(tags) & set(case.tags)])

    # files

    def data(self) -> JsonObject:
        """Return the data set as a file holds it."""
        data: dict[str, JsonValue] = {"name": self.name, "cases": [case.data() for case in self.cases]}
        if self.scorers:
            data["evaluators"] = [write_scorer(scorer) for scorer in self.scorers]
        return data

    @classmethod
    def of_data(
        cls, data: object, *, name: str = "cases", folder: str | Path = ".", evaluators: Sequence[type] = ()
    ) -> Self:
        """Return the data set of the data of a file.

        `evaluators` are classes of evaluators of pydantic-evals that the file names. Functions that a `Check`
        names are imported, from `folder` first: read no file of others that has one.

        Raises:
            Rejected: a part is invalid; the message says which.
        """
        fields = _object(data, "a data set", _FILE_KEYS)
        cases = fields.get("cases")
        if not isinstance(cases, list):
            raise wrong(f"a data set needs a list of cases, found {kind_of(cases)}")
        own, folder_path = fields.get("name"), str(folder)
        read_cases = [
            read_case(case, at, folder=folder_path, evaluators=evaluators)
            for at, case in enumerate(cast("list[object]", cases), 1)
        ]
        return cls(
            own if isinstance(own, str) else name,
            read_cases,
            scorers=_read_scorers(
                fields.get("evaluators"), "evaluators", folder=folder_path, evaluators=evaluators
            ),
        )

    @classmethod
    def load(cls, path: str | Path, *, evaluators: Sequence[type] = ()) -> Self:
        """Read a YAML, JSON or JSONL file.

        See `of_data` for `evaluators` and functions.

        Raises:
            Rejected: the file cannot be read, or a part of it is invalid.
        """
        file = Path(path)
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise wrong(f"{file} cannot be read: {type(error).__name__}") from error
        try:
            data = _parse(text, file_format(file))
            return cls.of_data(data, name=file.stem, folder=file.parent, evaluators=evaluators)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            position = "" if mark is None else f"line {mark.line + 1} column {mark.column + 1}: "
            hint = "quote a text with : ? # or brackets in it"
            raise wrong(f"{file} is no YAML: {position}{error.problem}; {hint}") from None
        except RecursionError:
            raise wrong(f"{file} cannot be read: its values are nested too deeply") from None
        except TooManyValues as error:
            raise wrong(f"{file} cannot be read: {error}") from None
        except (ValueError, yaml.YAMLError) as error:
            raise wrong(f"{file} is no {file_format(file).upper()}: {str(error).splitlines()[0]}") from None

    def save(self, path: str | Path) -> None:
        """Write a YAML, JSON or JSONL file.

        pydantic-evals reads it too, unless it has scorers that only Windlass has. A JSONL file holds the
        cases alone.
        """
        file = Path(path)
        file.write_text(text_of(self.data(), file_format(file)), encoding="utf-8")

    # recorded runs

    @classmethod
    async def from_runs(cls, name: str, run_ids: Iterable[str], *, runtime: AgentRuntime) -> Self:
        """Take a case from each recorded run: its message, and its answer as the one expected.

        A run that continued a session becomes a conversation of the messages up to it.

        Raises:
            Conflict: a run is unknown.
            Rejected: a run has no answer.
        """
        return cls(name, [await case_of_run(run_id, runtime=runtime) for run_id in dict.fromkeys(run_ids)])


async def case_of_run(run_id: str, *, runtime: AgentRuntime, needs_answer: bool = True) -> Case:
    """Return the case of a recorded run; see `Dataset.from_runs`.

    Without `needs_answer`, a run that has no answer is a case without an expected one.
    """
    records = await read_records(runtime, run_id)
    tapes: list[Tape] = []
    for record in records:
        if record.type == "run.started" and record.run_id is not None:
            tapes.append(read_tape(records, record.run_id))
            if record.run_id == run_id:
                break
    if not tapes:
        raise wrong(f"run {run_id} has not started: a case is taken from a run that has")
    tape = tapes[-1]
    expected = tape.output or None if tape.value is None else tape.value
    if expected is None and needs_answer:
        raise wrong(f"run {run_id} has no answer: a case is taken from a run that completed")
    messages = tuple(tape.message for tape in tapes if tape.message)
    inputs = messages[0] if len(messages) == 1 else Conversation(messages)
    return Case(run_id[:NAME_CHARS_MAX], inputs, expected, run_id=run_id)


def text_of(data: JsonObject, kind: str) -> str:
    """Return the text of a file with a data set; a JSONL file holds the cases alone."""
    match kind:
        case "jsonl":
            cases = cast("list[JsonValue]", data["cases"])
            return "".join(f"{json.dumps(case, ensure_ascii=False)}\n" for case in cases)
        case "json":
            return f"{json.dumps(data, ensure_ascii=False, indent=2)}\n"
        case _:
            return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def version_of_data(data: JsonObject) -> str:
    """Return the version of a data set in the form of a file; its name does not count."""
    rest = {name: value for name, value in data.items() if name not in ("name", "cases")}
    return _digest([rest, *cast("list[JsonValue]", data["cases"])])


def _parse(text: str, kind: str) -> object:
    match kind:
        case "jsonl":
            return {"cases": [json.loads(line) for line in text.splitlines() if line.strip()]}
        case "json":
            return json.loads(text)
        case _:
            return load_yaml(text)


def file_format(file: Path) -> str:
    """Return `yaml`, `json` or `jsonl`.

    Raises:
        Rejected: the file has another suffix.
    """
    kind = file.suffix.lower().removeprefix(".")
    if kind not in ("yaml", "yml", "json", "jsonl"):
        raise wrong(f"{file} must be a .yaml, .json or .jsonl file")
    return "yaml" if kind == "yml" else kind


def read_case(raw: object, at: int, *, folder: str = ".", evaluators: Sequence[type] = ()) -> Case:
    """Return the case of the data of a file, the one with the number `at`; see `Dataset.of_data`."""
    data = _object(raw, f"case {at}", _CASE_KEYS)
    name = data.get("name")
    where = f"case {name if isinstance(name, str) else at}"
    if "inputs" not in data:
        raise wrong(f"{where} has no inputs")
    metadata = data.get("metadata")
    metadata = {} if metadata is None else dict(_object(metadata, f"{where}: metadata"))
    tags, run_id = metadata.pop("tags", []), metadata.pop("run_id", None)
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in cast("list[object]", tags)):
        raise wrong(f"{where}: tags must be a list of texts")
    return Case(
        name if isinstance(name, str) else f"case-{at}",
        read_inputs(data["inputs"], where),
        cast(JsonValue, data.get("expected_output")),
        metadata=cast(JsonObject, metadata),
        tags=cast("list[str]", tags),
        scorers=_read_scorers(data.get("evaluators"), where, folder=folder, evaluators=evaluators),
        run_id=None if run_id is None else str(run_id),
    )


def read_inputs(raw: object, where: str) -> JsonValue | Conversation:
    """Return inputs as a file holds them."""
    if not isinstance(raw, dict) or not {"conversation", "persona"} & cast("dict[str, object]", raw).keys():
        return cast(JsonValue, raw)
    talk = _object(cast("dict[str, object]", raw), f"{where}: inputs", ("conversation", "persona", "turns"))
    messages, persona, turns = talk.get("conversation", []), talk.get("persona", ""), talk.get("turns", TURNS)
    if not isinstance(messages, list) or not isinstance(persona, str):
        raise wrong(f"{where}: conversation must be a list of texts, and persona a text")
    return Conversation(cast("list[str]", messages), persona=persona, turns_max=cast(int, turns))


def _read_scorers(raw: object, where: str, *, folder: str, evaluators: Sequence[type]) -> tuple[Scorer, ...]:
    if raw is None:
        return ()
    if not isinstance(raw, list):
        raise wrong(f"{where}: evaluators must be a list, found {kind_of(raw)}")
    specs = cast("list[JsonValue]", raw)
    return tuple(read_scorer(_json(spec, where), where, folder=folder, custom=evaluators) for spec in specs)


def _object(raw: object, what: str, keys: Sequence[str] = ()) -> Mapping[str, object]:
    if not isinstance(raw, Mapping):
        raise wrong(f"{what} must be an object, found {kind_of(raw)}")
    fields = cast("Mapping[str, object]", raw)
    unknown = [str(name) for name in fields if keys and name not in keys]
    if unknown:
        raise wrong(f"{what} has an unknown key {unknown[0]!r}; it takes {', '.join(keys)}")
    return fields


def _json(value: object, what: str) -> JsonValue:
    try:
        data = _JSON.validate_python(value)
        canonical(data, _FREE_JSON)
    except CodecError as error:
        raise wrong(f"{what} cannot be used: {error}") from error
    except ValidationError as error:
        raise wrong(f"{what} must be JSON; in YAML, quote dates and times") from error
    return data


def check_title(name: object, what: str) -> str:
    """Return the name of a data set or a case.

    Raises:
        Rejected: it is empty, too long or not printable.
    """
    text = check_text(name, what, chars_max=NAME_CHARS_MAX)
    if not text.strip() or not text.isprintable():
        raise wrong(f"{what} must be 1 to {NAME_CHARS_MAX} printable characters")
    return text


def _digest(parts: Iterable[JsonValue]) -> str:
    """Return a hash of values in their order: each is limited in size, and all of them together are not.

    Raises:
        Rejected: one of them is too large.
    """
    whole = sha256()
    for part in parts:
        try:
            whole.update(sha256(canonical(part)).digest())
        except CodecError as error:
            raise wrong(f"a case is too large: {error.message}") from None
    return f"sha256:{whole.hexdigest()}"
