"""What a function says of its parameters; what it leaves open is refused."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import NoneType, UnionType
from typing import Final, Union, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo

from windlass.definitions import wrong
from windlass.tool_context import ToolContext

MISSING: Final = inspect.Parameter.empty
_KINDS: Final = {
    inspect.Parameter.VAR_POSITIONAL: "takes any number of values",
    inspect.Parameter.VAR_KEYWORD: "takes any name",
    inspect.Parameter.POSITIONAL_ONLY: "has no name that a call could use",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter that the model fills in."""

    name: str
    annotation: object
    default: object = MISSING


@dataclass(frozen=True, slots=True)
class Signature:
    """What a tool takes, and how it is called."""

    parameters: tuple[Parameter, ...]
    context_name: str | None
    is_async: bool


def read_signature(function: Callable[..., object], tool: str) -> Signature:
    """Return what a function takes.

    Raises:
        Rejected: a parameter has no type or no name to be called by, a type cannot be found, or the function
            is a generator.
    """
    target = _target(function)
    _check_kind(target, tool)
    hints = _hints(target, tool)
    parameters: list[Parameter] = []
    contexts: list[str] = []
    for parameter in _parameters(function, tool):
        _check_parameter(parameter, hints, tool)
        annotation = hints[parameter.name]
        if _is_context(annotation):
            contexts.append(parameter.name)
        else:
            parameters.append(Parameter(parameter.name, annotation, parameter.default))
    if len(contexts) > 1:
        raise wrong(f"tool {tool}: {' and '.join(contexts)} are both a ToolContext; keep one of them")
    return Signature(
        tuple(parameters), contexts[0] if contexts else None, inspect.iscoroutinefunction(target)
    )


def _target(function: Callable[..., object]) -> Callable[..., object]:
    """Return the function that a callable ends up in: it has the hints."""
    while isinstance(function, partial):
        function = function.func
    if inspect.isroutine(function):
        return function
    return type(function).__call__


def _check_kind(target: Callable[..., object], tool: str) -> None:
    if inspect.isasyncgenfunction(target) or inspect.isgeneratorfunction(target):
        raise wrong(
            f"tool {tool} yields; return the whole result, and call progress() of a ToolContext on the way"
        )


def _hints(target: Callable[..., object], tool: str) -> Mapping[str, object]:
    try:
        return get_type_hints(inspect.unwrap(target), include_extras=True)
    except NameError as error:
        name = error.name
    except TypeError:  # built in: there is nothing to read
        return {}
    raise wrong(
        f"tool {tool}: the type {name} is not known where the tool is defined; define or import it "
        "above, at the level of the module and not only for type checkers"
    )


def _parameters(function: Callable[..., object], tool: str) -> tuple[inspect.Parameter, ...]:
    try:
        return tuple(inspect.signature(function).parameters.values())
    except ValueError:
        pass
    raise wrong(f"tool {tool}: its parameters cannot be read; wrap it in a function with type hints")


def _check_parameter(parameter: inspect.Parameter, hints: Mapping[str, object], tool: str) -> None:
    name = parameter.name
    if parameter.kind in _KINDS:
        raise wrong(
            f"tool {tool}: {parameter} {_KINDS[parameter.kind]}, and a model needs to know each parameter; "
            "name them one by one"
        )
    if name in {"self", "cls"} and name not in hints:
        raise wrong(
            f"tool {tool}: {name} has no value yet; make the tool of the bound method: tool(instance.{tool})"
        )
    if name not in hints:
        raise wrong(f"tool {tool}: {name} has no type; write {name}: str, or whatever it is")
    if isinstance(parameter.default, FieldInfo):
        raise wrong(
            f"tool {tool}: the default of {name} is a Field; write {name}: Annotated[type, Field(...)] "
            "and give the default itself"
        )


def _is_context(annotation: object) -> bool:
    if annotation is ToolContext:
        return True
    members = get_args(annotation) if get_origin(annotation) in {Union, UnionType} else ()
    return set(members) == {ToolContext, NoneType}


def has_parameter(signature: Signature, name: str) -> bool:
    """Say whether the model fills in a parameter of this name."""
    return any(parameter.name == name for parameter in signature.parameters)
