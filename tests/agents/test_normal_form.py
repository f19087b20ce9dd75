"""Which sources are the same candidate: what may differ, and what may not."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.replies.normal_form import normal_form, source_key

SOURCE = '''"""A candidate."""

import torch

CUDA = r"""
__global__ void f(float *x) {

  x[0] = 1; // one
}
"""


class ModelNew(torch.nn.Module):
    def forward(self, x, scale=2.0):
        y = x * scale
        return torch.relu(y)
'''


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("import torch\n", "import torch  # the library\n"),
        ("        y = x", "        # first\n\n        y = x"),
        ("y = x * scale\n", "y = (x*scale)\n"),
        ("x[0] = 1; // one\n", "x[0] = 1; // one  \t\n"),
        ("        return", "\n\n        # <<<IMPROVE END>>>\n        return"),
        ("torch.relu(y)\n", "torch.relu(\n            y,\n        )"),
    ],
)
def test_what_cant_matter_does_not_count(was: str, now: str) -> None:
    assert was in SOURCE
    other = SOURCE.replace(was, now)
    assert source_key(other) == source_key(SOURCE)
    assert source_key(other.replace("\n", "\r\n")) == source_key(SOURCE)
    indented = other.replace("        ", "\t\t").replace("    ", "\t")
    assert source_key(indented) == source_key(SOURCE)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("// one\n", "\n"),
        ("{\n\n", "{\n"),
        ("  x[0]", "   x[0]"),
        ("scale=2.0", "scale=2"),
        ("y = x * scale", "y = scale * x"),
        ("A candidate.", "A candidate, too."),
        ('"""A', '# coding: latin-1\n"""A'),
    ],
)
def test_what_may_matter_counts(was: str, now: str) -> None:
    assert was in SOURCE
    assert source_key(SOURCE.replace(was, now)) != source_key(SOURCE)


def test_what_is_no_python_goes_by_its_lines() -> None:
    assert source_key("int x;  \n\nint y;\r\n") == source_key("int x;\nint y;\n")
    assert source_key("int x;\nint y;") != source_key("int y;\nint x;")
    assert source_key("class ModelNew:\n  x = (\n") != source_key("class ModelNew:\n  x = (  # a\n")


_LINES = st.sampled_from(
    [*SOURCE.split("\n"), "", "# a comment", "    pass", "x = 'a'", 'y = """', "  # why", "\\"]
)


@given(st.lists(_LINES, max_size=12), st.lists(_LINES, max_size=12))
def test_the_same_key_means_the_same_tree(one: list[str], other: list[str]) -> None:
    """Whatever two texts are: with one key they are one program, or no Python both."""
    first, second = "\n".join(one), "\n".join(other)
    if source_key(first) == source_key(second):
        assert _tree(first) == _tree(second)


@given(st.lists(_LINES, max_size=12), st.lists(st.sampled_from(["", " ", "\t "]), min_size=12))
def test_white_space_at_line_ends_never_counts(lines: list[str], tails: list[str]) -> None:
    tailed = [line + tail for line, tail in zip(lines, tails, strict=False)]
    assert source_key("\r\n".join(tailed)) == source_key("\n".join(lines))


@given(st.text(max_size=200))
def test_no_text_breaks_it(text: str) -> None:
    source_key(text)
    source_key(text * 3)


def test_a_source_beyond_measure_goes_by_its_lines() -> None:
    long = "x = [\n" + "    1,\n" * 40_000 + "]\n"
    assert normal_form(long) == long.rstrip()
    deep = "x = " + "-" * 3_000 + "1\n"
    assert source_key(deep) == source_key(deep + "\n")


def _tree(text: str) -> str | None:
    try:
        return ast.dump(ast.parse("\n".join(line.rstrip() for line in text.split("\n"))))
    except (SyntaxError, ValueError):
        return None
