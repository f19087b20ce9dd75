"""Reading candidates' Python."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.python_source import rows_in_strings, tree_of


def test_rows_that_begin_inside_a_string() -> None:
    text = 'a = """\nx\n"""\nb = f"""\n{a}\n"""\nc = "d"\n'
    assert rows_in_strings(text) == {1, 2, 4, 5}


def test_warnings_about_a_source_are_not_ours() -> None:
    assert tree_of("a = '\\d'\n") is not None
    assert rows_in_strings("a = '\\d'\n") == frozenset()


@pytest.mark.parametrize("text", ['a = """', "class X(:\n", "if x:\n  a\n b\n", "("])
def test_what_is_no_python(text: str) -> None:
    assert tree_of(text) is None
    assert rows_in_strings(text) is None


@given(st.text(alphabet="ab\"'\\\n {}f()\0\té#:\u2028"))
def test_no_text_breaks_it(text: str) -> None:
    tree_of(text)
    rows_in_strings(text)
