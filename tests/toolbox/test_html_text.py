"""HTML to text: the output, and its running time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.toolbox.html_text import MARKS_MAX, html_text

URL = "https://example.com/docs/page"


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        ("<p>one <b>two</b>\n  three</p><p>four</p>", "one two three\n\nfour"),
        ("<title>T</title><body><h1>One</h1><h3>Two</h3>x", "T\n\n# One\n\n### Two\n\nx"),
        ("<ul><li>a<li>b</ul>c", "- a\n- b\n\nc"),
        ("<table><tr><th>a<th>b<tr><td>1<td>2</table>", "| a | b\n| 1 | 2"),
        ("a<br>b<br/>c", "a\nb\nc"),
        ("<pre>  x\n    y</pre>z  z", "  x\n    y\n\nz z".strip()),
        ('see <a href="../x?a=1&amp;b=2">this</a> now', "see this <https://example.com/x?a=1&b=2> now"),
        ("<a href='#top'>up</a> <a href=javascript:alert(1)>x</a> <a>y</a>", "up x y"),
        ("<a href=/empty></a>z", "z"),
        ("<a href=/1>x<a href=/2>y</a>z", "x <https://example.com/1>y <https://example.com/2>z"),
        ("</a>z", "z"),
        ("<a href='http://[bad'>z</a>", "z <http://[bad>"),
        ("<img src=x alt='a cat'> here", "a cat here"),
        ("a<script>if (a<b) alert('</p>')</script>b", "ab"),
        ("a<SCRIPT>x</ScRiPt >b<style>p{}</style>c", "abc"),
        ("a<script>never closed", "a"),
        ("a<svg><title>t</title><path/></svg>b<select><option>o</select>c", "abc"),
        ("a<svg/>b", "ab"),
        ("a</svg>b", "ab"),
        ("a<noscript><p>turn it on</noscript>b", "ab"),
        ("a<!-- x > y -->b<!doctype html>c<?php x ?>d", "abcd"),
        ("a<!-- never closed", "a"),
        ("a < b && c > d", "a < b && c > d"),
        ("&lt;b&gt; &amp;amp; &#65;&#x42; &nbsp;x &nosuch;", "<b> &amp; AB x &nosuch;"),
        ('<p title="a > b">x</p>', "x"),
        ('<p title="never closed>x</p>', ""),
        ("x<p", "x"),
        ("x<", "x<"),
        ("<p>a</p>\n\n\n<div><div><p>b", "a\n\nb"),
        ("", ""),
    ],
)
def test_a_page_becomes_plain_text(page: str, shown: str) -> None:
    assert html_text(page, URL) == shown


@pytest.mark.uncounted
@pytest.mark.parametrize(
    "piece",
    [
        "<",
        "<a ",
        "<a href='",
        '<p "',
        "<!--",
        "<script>",
        "</script",
        "<svg>",
        "</svg>",
        "&#9",
        "&",
        "<li>",
        "<a>x",
        "</a>",
        "<a href=x>",
        "<pre>",
        "\n",
        " ",
        "<!",
        "<script></script",
        "<a href=" + "x" * 50,
        "<div></p>",
        "<a href=x><svg>",
        "</math><svg>",
    ],
)
def test_a_hostile_page_takes_no_longer_than_another_of_its_size(piece: str) -> None:
    # It ends within the limit of the whole run: with quadratic time it would take hours.
    page = piece * (400_000 // len(piece))
    html_text(page, URL)


def test_a_page_of_too_many_tags_is_cut_and_says_so() -> None:
    assert html_text("<b>" * (MARKS_MAX - 1) + "x", URL) == "x"
    assert "the rest is left out" in html_text("<b>" * MARKS_MAX + "x", URL)


def test_a_character_number_without_end_is_left_as_it_is() -> None:
    number = f"&#{'9' * 10_000};"
    assert html_text(f"a{number}b", URL) == f"a{number}b"


@given(st.text(alphabet="<>/!-'\"=ab &;#script", max_size=200))
def test_random_html_never_raises(page: str) -> None:
    assert isinstance(html_text(page, URL), str)


@given(
    st.lists(
        st.sampled_from(["<p>", "</p>", "<b>", "<svg>", "</svg>", "<li>", "<pre>", "</pre>", "<a href=x>"])
    )
)
def test_nothing_of_a_script_is_ever_shown(tags: list[str]) -> None:
    assert "hidden" not in html_text("".join(f"{tag}<script>hidden</script>" for tag in tags), URL)
