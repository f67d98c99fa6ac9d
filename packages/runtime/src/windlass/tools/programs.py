"""Programs as tools: `run_code` and `run_workflow`, and the Python signatures of what they may call."""

import ast
import builtins
import inspect
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, Final, cast, get_type_hints

from pydantic import Field, JsonValue, TypeAdapter

from windlass.limits import PROGRAM_SOURCE_CHARS_MAX
from windlass.ports.interpreter import ProgramCall
from windlass.tools import PROGRAM_TOOLS, ProgramKind, Tool, ToolFailed, library_tool
from windlass.tools.schema import PlainSchema
from windlass_protocol import EffectClass, JsonObject, ToolMode
from windlass_protocol.frozen import sealed

_CODE: Final = """Run a Python program that calls the functions below; use it for every step that needs them.

Calls are asynchronous: write `await name(...)`. Independent calls run at the same time with `import asyncio`
and `await asyncio.gather(first(...), second(...))`. A call that fails or is refused raises an exception;
calls that were made before have happened, also if the program fails. `gather` has no `return_exceptions`.
The program ends with an expression: its value is the result, together with the text that it printed. Keep
what you return small: select, count and sum up in the program. It has the builtins and modules such as json,
re, math, datetime and asyncio, and no files and no network. {variables} Types are checked before it runs.

"""
_VARIABLES: Final = {
    False: "Variables of earlier programs are gone.",
    True: "It begins with the variables of earlier programs; a program that fails changes none of them.",
}
_WORKFLOW: Final = """Run a Python program that gives work to other agents; they are the functions below.

Write `await name("the task")`; an agent knows nothing of this conversation, so say all that it has to know.
Agents work at the same time with `import asyncio` and `await asyncio.gather(first("..."), second("..."))`.
With `output=`, a JSON Schema as a dictionary, the result is data that fits it, otherwise it is text. A call
that fails or is refused raises an exception. The program ends with an expression: its value is the result,
together with the text that it printed.

"""

Source = Annotated[str, Field(min_length=1, max_length=PROGRAM_SOURCE_CHARS_MAX)]


async def _run(code: Source) -> JsonValue:
    """Run a program.

    Args:
        code: The source of the program, in Python.
    """
    raise ToolFailed("a program needs a runtime and cannot be called directly")


def is_callable_in(kind: ProgramKind, tool: Tool[..., object]) -> bool:
    """Whether programs of a kind may call a tool."""
    if tool.is_question or tool.program is not None or tool.use == "direct":
        return False
    return kind == "code" or tool.delegates is not None


def program_tool(
    kind: ProgramKind, tools: Iterable[Tool[..., object]], *, keeps_variables: bool
) -> Tool[..., object]:
    """Return the tool that runs programs, which may call the given tools.

    The call itself has mode read: the policy decides about each call of the program.
    """
    name, text = PROGRAM_TOOLS[kind], _CODE if kind == "code" else _WORKFLOW
    text = text.replace("{variables}", _VARIABLES[keeps_variables])
    functions = Functions([tool for tool in tools if is_callable_in(kind, tool)])
    description = f"{text}```python\n{functions.stubs}```"
    return replace(_program_tool(name), description=description, program=functions)


@cache
def _program_tool(name: str) -> Tool[..., object]:
    """Return the tool that runs programs, without functions; every agent and run shares its schema."""
    program = library_tool(_run, name=name, description="", mode=ToolMode.READ, effect=EffectClass.READ)
    return program.with_options(is_outbound=False)


def program_tools(
    kinds: Iterable[ProgramKind | str], tools: Iterable[Tool[..., object]], *, keeps_variables: bool = False
) -> dict[str, Tool[..., object]]:
    """Return the tools that run the programs of an agent with the given tools, by name."""
    tool_list = tuple(tools)
    programs = (
        program_tool(kind, tool_list, keeps_variables=keeps_variables)
        for kind in PROGRAM_TOOLS
        if kind in tuple(kinds)
    )
    return {tool.name: tool for tool in programs}


_AGENT: Final = {"output": "output_schema"}
"""How an agent is called from a program: `await researcher("the task", output=schema)`."""


@sealed
class _Function:
    """A tool as a function of a program."""

    tool_name: str
    parameters: tuple[str, ...] | None
    """Names of its parameters in order; None if it takes all of them in one dictionary."""
    renamed: Mapping[str, str]
    """Arguments of the tool by the names of other parameters."""


class Functions:
    """The functions of a program, their signatures, and the tools behind them."""

    def __init__(self, tools: Sequence[Tool[..., object]]) -> None:
        self._functions: dict[str, _Function] = {}
        parts: list[str] = []
        types = _Types()
        for tool in sorted(tools, key=lambda part: part.name):
            name = _identifier(tool.name, self._functions)
            renamed = _AGENT if tool.delegates is not None else {}
            parameters, signature = types.signature(tool.input_schema, renamed)
            self._functions[name] = _Function(tool.name, parameters, renamed)
            body = f'    """{_docstring(tool.description)}"""\n' if tool.description else "    ...\n"
            parts.append(f"async def {name}({signature}) -> {types.result(tool)}:\n{body}")
        head = "from typing import Any, Literal, NotRequired, TypedDict\n\n" if parts else ""
        self._stubs = head + "".join(f"{part}\n" for part in (*types.classes, *parts))

    @property
    def stubs(self) -> str:
        """Their signatures as Python source."""
        return self._stubs

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the functions."""
        return tuple(self._functions)

    def call(self, call: ProgramCall) -> tuple[str, JsonObject]:
        """Return the tool and the arguments of a call. The tool refuses arguments that it does not have."""
        function = self._functions[call.name]
        if function.parameters is None:
            argument = call.positional[0] if call.positional else call.named.get("arguments", {})
            return function.tool_name, argument if isinstance(argument, dict) else {"arguments": argument}
        pairs = [*zip(function.parameters, call.positional, strict=False)]
        arguments: JsonObject = dict(pairs) | call.named
        # Values that no parameter is left for: the tool refuses them.
        extra = [*call.positional[len(pairs) :], *(value for name, value in pairs if name in call.named)]
        if extra:
            arguments["positional"] = extra
        return function.tool_name, {
            function.renamed.get(name, name): value for name, value in arguments.items()
        }


_TAKEN: Final = re.compile(r"_.*|Object\d+|asyncio|Any|Literal|NotRequired|TypedDict|windlass_begin")
"""Names that the signatures and the runs of programs use, besides those of Python."""


def _identifier(name: str, taken: Mapping[str, object]) -> str:
    """Return a tool's name as the name of a function: `call_…` if Python has another use for it."""
    plain = "".join(char if char.isalnum() or char == "_" else "_" for char in name)
    is_free = plain.isidentifier() and not keyword.iskeyword(plain) and not hasattr(builtins, plain)
    if not is_free or _TAKEN.fullmatch(plain):
        plain = f"call_{plain}"
    while plain in taken:
        plain += "_"
    return plain


def find_assignments(source: str) -> list[str]:
    """Return the names that the statements of a program assign, outside of its functions and classes."""
    try:
        nodes: list[ast.AST] = [ast.parse(source)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    names: list[str] = []
    while nodes:
        node = nodes.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.append(node.name)
            case ast.Import() | ast.ImportFrom():
                names += [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
            case ast.Name(ctx=ast.Store()):
                names.append(node.id)
            case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                pass
            case _:
                nodes += reversed([*ast.iter_child_nodes(node)])
    return names


def _docstring(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', "'''").replace("\n", "\n    ")


_PLAIN: Final = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
}


class _Types:
    """Python types of JSON Schemas."""

    def __init__(self) -> None:
        self.classes: list[str] = []
        self._names: dict[str, str] = {}
        """Names of classes, by their fields."""

    def signature(self, schema: JsonObject, renamed: Mapping[str, str]) -> tuple[tuple[str, ...] | None, str]:
        """Return the parameters of a schema of arguments: their names, and their source."""
        properties = _objects(schema.get("properties"))
        required = _texts(schema.get("required"))
        if not all(name.isidentifier() and not keyword.iskeyword(name) for name in properties):
            return None, "arguments: dict[str, Any]"
        names = sorted(properties, key=lambda name: name not in required)
        parameters = {argument: parameter for parameter, argument in renamed.items()}
        parts: list[str] = []
        for name in names:
            declared = f"{parameters.get(name, name)}: {self.of(properties[name], schema)}"
            parts.append(declared if name in required else f"{declared} = ...")
        return tuple(parameters.get(name, name) for name in names), ", ".join(parts)

    def result(self, tool: Tool[..., object]) -> str:
        """Return the type of a tool's result."""
        schema = {} if tool.delegates is not None else _result_schema(tool)
        return self.of(schema, schema)

    def of(self, schema: JsonValue, root: JsonObject) -> str:
        """Return the type of a schema; Any where Python has none for it."""
        if not isinstance(schema, dict):
            return "Any"
        ref = schema.get("$ref")
        if isinstance(ref, str):
            return self._referred_type(ref, root)
        options = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(options, list):
            return " | ".join(dict.fromkeys(self.of(option, root) for option in options)) or "Any"
        choices = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(choices, list) and all(
            option is None or isinstance(option, str | int) for option in choices
        ):
            return f"Literal[{', '.join(map(repr, choices))}]" if choices else "Any"
        kind = schema.get("type")
        if isinstance(kind, list):
            return " | ".join(dict.fromkeys(self.of({**schema, "type": option}, root) for option in kind))
        if kind == "array":
            return f"list[{self.of(schema.get('items', {}), root)}]"
        if kind == "object" or "properties" in schema:
            return self._object(schema, root)
        return _PLAIN.get(str(kind), "Any")

    def _referred_type(self, ref: str, root: JsonObject) -> str:
        name = ref.removeprefix("#/$defs/")
        definition = _objects(root.get("$defs")).get(name)
        if definition is None or f"#{name}" in self._names:
            # Types that contain themselves are not spelled out.
            return "Any"
        self._names[f"#{name}"] = name
        try:
            return self.of(definition, root)
        finally:
            del self._names[f"#{name}"]

    def _object(self, schema: JsonObject, root: JsonObject) -> str:
        properties = _objects(schema.get("properties"))
        if not properties or not all(
            name.isidentifier() and not keyword.iskeyword(name) for name in properties
        ):
            extra = schema.get("additionalProperties")
            return f"dict[str, {self.of(extra, root)}]" if isinstance(extra, dict) else "dict[str, Any]"
        required = _texts(schema.get("required"))
        lines: list[str] = []
        for name, member in properties.items():
            kind = self.of(member, root)
            lines.append(f"    {name}: {kind if name in required else f'NotRequired[{kind}]'}\n")
        body = "".join(lines)
        class_name = self._names.get(body)
        if class_name is None:
            class_name = self._names[body] = f"Object{len(self.classes) + 1}"
            self.classes.append(f"class {class_name}(TypedDict):\n{body}")
        return class_name


def _result_schema(tool: Tool[..., object]) -> JsonObject:
    """Return the JSON Schema of what a tool's function returns; empty if its type does not say."""
    try:
        kind = get_type_hints(inspect.unwrap(tool.function), include_extras=True).get("return", object)
        if kind is object or kind is Any:
            return {}
        adapter = TypeAdapter[object](kind)
        return adapter.json_schema(mode="serialization", schema_generator=PlainSchema)
    except Exception:  # noqa: BLE001 - types of the application: without a schema the result is Any
        return {}


def _objects(value: JsonValue) -> dict[str, JsonObject]:
    members = cast(dict[str, JsonValue], value) if isinstance(value, dict) else {}
    return {name: member for name, member in members.items() if isinstance(member, dict)}


def _texts(value: JsonValue) -> frozenset[str]:
    return (
        frozenset(item for item in value if isinstance(item, str)) if isinstance(value, list) else frozenset()
    )
