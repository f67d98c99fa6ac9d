"""YAML of others as values, in bounded time and memory."""

from typing import Final, Protocol, cast

import yaml

YAML_VALUES_MAX: Final = 2_000_000
"""Values of a YAML file, with its aliases written out."""
NUMBER_CHARS_MAX: Final = 1_000
"""Characters of one number. Reading `59:59:…`, a number with the base 60, takes the square of its length."""


class _Loader(Protocol):
    """The loader of the library, which has partial types."""

    def get_single_node(self) -> yaml.Node | None: ...
    def construct_document(self, node: yaml.Node) -> object: ...
    def dispose(self) -> None: ...


class TooManyValues(ValueError):
    """A YAML text stands for more values than are allowed."""


def load_yaml(text: str | bytes, values_max: int = YAML_VALUES_MAX) -> object:
    """Return the value of a YAML document; aliases in ten lines may stand for a billion values.

    Values are shared where the text has aliases, and every reader counts them at each place. So their number
    is found before anything is made.

    Raises:
        yaml.YAMLError: the text is no YAML, or has a tag that is not allowed or a number that is too long.
        TooManyValues: it has over `values_max` values with its aliases written out, or one contains itself.
    """
    loader = cast(_Loader, yaml.SafeLoader(text))
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        if _count_values(root, {}, values_max) > values_max:
            raise TooManyValues(f"with its aliases written out, it has more than {values_max:,} values")
        return loader.construct_document(root)
    finally:
        loader.dispose()


def _count_values(node: yaml.Node, counts: dict[int, int], values_max: int) -> int:
    """Return the number of values in a node, each alias written out; each node is visited once."""
    if id(node) in counts:
        return counts[id(node)]
    # An alias inside the node sees this count: a value that contains itself has no end.
    counts[id(node)] = values_max + 1
    count = 1
    if isinstance(node, yaml.ScalarNode):
        _check_number(node)
    elif isinstance(node, yaml.MappingNode):
        for key, value in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            count += _count_values(key, counts, values_max) + _count_values(value, counts, values_max)
    elif isinstance(node, yaml.SequenceNode):
        for item in cast("list[yaml.Node]", node.value):
            count += _count_values(item, counts, values_max)
    counts[id(node)] = count
    return count


def _check_number(node: yaml.ScalarNode) -> None:
    if node.tag in _NUMBERS and len(cast(str, node.value)) > NUMBER_CHARS_MAX:
        raise yaml.constructor.ConstructorError(
            None, None, f"a number is longer than {NUMBER_CHARS_MAX:,} characters", node.start_mark
        )


_NUMBERS: Final = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
