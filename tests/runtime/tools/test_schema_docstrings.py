import pytest

from windlass.tools.schema import Docstring, read_docstring

GOOGLE = """Find a thing.

    It looks everywhere.

    Args:
        name (str): What it is called,
            also in part.
        place: Where to look:
            here or there.
        *more: The rest.

    Returns:
        The thing.
    """
NUMPY = """Find a thing.

    It looks everywhere.

    Parameters
    ----------
    name : str
        What it is called,
        also in part.
    place
        Where to look:
        here or there.
    *more : int
        The rest.

    Returns
    -------
    str
        The thing.
    """
SPHINX = """Find a thing.

    It looks everywhere.

    :param str name: What it is called,
        also in part.
    :param place: Where to look:
        here or there.
    :param more: The rest.
    :returns: The thing.
        with details
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX])
def test_the_three_ways_to_write_parameters_say_the_same(text: str):
    assert read_docstring(text) == Docstring(
        "Find a thing.\n\nIt looks everywhere.",
        {
            "name": "What it is called, also in part.",
            "place": "Where to look: here or there.",
            "more": "The rest.",
        },
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, Docstring()),
        ("", Docstring()),
        ("One line.", Docstring("One line.")),
        (
            "Note: this is text.\nArgs are described nowhere.",
            Docstring("Note: this is text.\nArgs are described nowhere."),
        ),
        ("Look.\n\nReturns:\n    A thing.", Docstring("Look.")),
        ("Look.\n\nReturns:\n    A thing.\n\nArgs:\n    a: One.", Docstring("Look.", {"a": "One."})),
        ("Look.\n\nArgs:\n    a:\n    b: Two.", Docstring("Look.", {"b": "Two."})),
        ("Args:\n    a: One.\nMore.", Docstring("", {"a": "One."})),
        (
            "Look.\n\nParameters\n----------\na, b : int\n    Both.",
            Docstring("Look.", {"a": "Both.", "b": "Both."}),
        ),
        ("Look.\n\nRaises\n------\nKeyError", Docstring("Look.")),
        ("Look.\n\n:raises KeyError: never", Docstring("Look.")),
        ("Look.\n\nArgs:\n    Some words before.\n    a: One.", Docstring("Look.", {"a": "One."})),
    ],
)
def test_unknown_docstring_formats_are_taken_as_description(text: str | None, expected: Docstring):
    assert read_docstring(text) == expected
