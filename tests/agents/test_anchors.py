"""Reading, stripping and balancing anchors."""

from __future__ import annotations

import pytest

from agents.replies.anchors import (
    Span,
    anchored_spans,
    balance,
    has_anchors,
    scan,
    strip_anchors,
)


@pytest.mark.parametrize(
    "tag",
    [
        "# <<<IMPROVE BEGIN>>>",
        "    # <<<IMPROVE BEGINS>>>",
        "# # <<<IMPROVE BEGIN>>>",
        "/* <<<IMPROVE BEGIN>>> */",
        "/*<<<IMPROVE BEGIN>>>*/",
        "// <<<IMPROVE BEGIN>>>",
        "# ---- <<<IMPROVE BEGIN>>> ----",
        "<<<improve begin>>>",
    ],
)
def test_a_line_that_holds_only_a_tag_goes(tag: str) -> None:
    assert has_anchors(tag)
    assert strip_anchors(f"a = 1\n{tag}\nb = 2\n") == "a = 1\nb = 2\n"


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("    x = 1  # <<<IMPROVE BEGIN>>>", "    x = 1"),
        ("  /* <<<IMPROVE END>>> */ return x;", "  return x;"),
        ("float v = a[i]; // <<<IMPROVE BEGIN>>>", "float v = a[i];"),
        ("x = f(a)  # <<<IMPROVE END>>> fuse", "x = f(a)  #  fuse"),
        ("# <<<IMPROVE BEGIN>>> fuse this", "#  fuse this"),
        ("/* <<<IMPROVE BEGIN>>> advice */", "/*  advice */"),
    ],
)
def test_what_shares_a_line_with_a_tag_stays(line: str, left: str) -> None:
    assert strip_anchors(line) == left


def test_a_source_without_tags_is_untouched() -> None:
    source = "a\r\n\tb  \r\n"
    assert strip_anchors(source) is source


def test_a_kernel_launch_is_no_tag() -> None:
    assert not has_anchors("kernel<<<blocks, threads>>>(a, b);")


def test_spans() -> None:
    text = "a\n# <<<IMPROVE BEGIN>>>\nb\n\nc\n# <<<IMPROVE END>>>\nd  # <<<IMPROVE BEGIN>>>\n"
    assert anchored_spans(text) == ()
    text += "e  # <<<IMPROVE END>>>\nf\n"
    assert anchored_spans(text) == (Span(first=3, last=5), Span(first=7, last=8))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a\nb", "no marked block"),
        ("# <<<IMPROVE BEGIN>>>\na", "line 1 has no <<<IMPROVE END>>>"),
        ("a\n# <<<IMPROVE END>>>", "line 2 has no <<<IMPROVE BEGIN>>>"),
        ("# <<<IMPROVE BEGIN>>>\n\n# <<<IMPROVE END>>>", "is empty"),
        ("# <<<IMPROVE BEGIN>>>\na\n# <<<IMPROVE BEGIN>>>\nb\n# <<<IMPROVE END>>>", "nested"),
    ],
)
def test_unbalanced_tags_are_explained(text: str, part: str) -> None:
    problem = balance(scan(text))
    assert problem is not None
    assert part in problem
    assert "\n" not in problem
