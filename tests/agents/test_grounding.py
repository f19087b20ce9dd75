"""The machine checks of a grounded instruction."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.replies.grounding import Grounded, Rejected, anchored_spans, ground, strip_anchors

from .sources import KERNEL, TASK, mark

C_BEGIN, C_END = "/* <<<IMPROVE BEGIN>>> */", "/* <<<IMPROVE END>>> */"


def accepted(annotated: str, source: str) -> Grounded:
    result = ground(annotated, source)
    assert isinstance(result, Grounded), result
    return result


def reason(annotated: str, source: str, *, splice: bool = True) -> str:
    result = ground(annotated, source, splice=splice)
    assert isinstance(result, Rejected), result
    assert "\n" not in result.reason
    return result.reason


def test_a_marked_source_is_accepted_and_is_the_source_without_its_tags() -> None:
    result = accepted(mark(TASK, "c = a + b", "d = torch"), TASK)
    assert (result.anchors, result.spliced) == (1, False)
    assert strip_anchors(result.annotated) == TASK


def test_advice_is_kept_inside() -> None:
    result = accepted(mark(TASK, "c = a + b", "d = torch", "        # fuse\n        # both"), TASK)
    assert "        # fuse\n        # both\n        c = a + b" in result.annotated


def test_tags_are_rewritten_for_where_they_stand() -> None:
    text = mark(
        KERNEL, "for (int64", "    }", begin="# <<<IMPROVE BEGINS>>>", end="// <<<IMPROVE ENDS>>>"
    )
    annotated = accepted(text, KERNEL).annotated
    assert f"\n{C_BEGIN}\n    for (int64" in annotated
    assert f"    }}\n{C_END}\n" in annotated
    text = mark(TASK, "c = a + b", "d = torch", begin=C_BEGIN, end="<<<IMPROVE END>>>")
    annotated = accepted(text, TASK).annotated
    assert "# <<<IMPROVE BEGIN>>>\n        c = a + b" in annotated
    assert "# <<<IMPROVE END>>>\n        return" in annotated


@pytest.mark.parametrize(
    "comment",
    [
        "// use float4 loads",
        "/* use float4 loads */",
        "/* use\n   float4\n   loads */",
        "/*\n * use float4 loads\n */",
        "# use float4 loads",
    ],
)
def test_advice_in_a_string_may_be_any_c_comment(comment: str) -> None:
    result = accepted(
        mark(KERNEL, "for (int64", "    }", comment, begin=C_BEGIN, end=C_END), KERNEL
    )
    assert comment.replace("#", "//") in result.annotated


def test_advice_may_share_a_comment_with_a_tag() -> None:
    block = "/* <<<IMPROVE BEGIN>>>\n   use float4 loads\n*/"
    annotated = accepted(mark(KERNEL, "for (int64", "    }", begin=block, end=C_END), KERNEL)
    assert "use float4 loads" in annotated.annotated
    text = mark(TASK, "c = a + b", "d = torch", begin="        # <<<IMPROVE BEGIN>>> fuse both")
    assert "fuse both" in accepted(text, TASK).annotated
    text = mark(TASK, "c = a + b", "d = torch", end="        # until here <<<IMPROVE END>>>")
    assert "until here" in accepted(text, TASK).annotated


def test_tags_behind_code_take_the_line_in() -> None:
    text = TASK.replace("c = a + b", "c = a + b  # <<<IMPROVE BEGIN>>>")
    text = text.replace("torch.relu(c)", "torch.relu(c)  # <<<IMPROVE END>>>")
    annotated = accepted(text, TASK).annotated
    assert strip_anchors(annotated) == TASK
    first = annotated.split("\n")[anchored_spans(annotated)[0].first - 1]
    assert first == "        c = a + b"


def test_a_comment_behind_code_moves_above_it() -> None:
    text = mark(TASK.replace("a + b", "a + b  # fuse"), "c = a + b", "d = torch")
    assert "        # fuse\n        c = a + b\n" in accepted(text, TASK).annotated


def test_several_blocks() -> None:
    text = mark(mark(TASK, "return d", "return d"), "c = a + b", "c = a + b")
    assert accepted(text, TASK).anchors == 2


def test_blank_lines_trailing_space_and_line_ends_do_not_count() -> None:
    text = mark(
        TASK.replace("\n\n", "\n").replace("super().__init__()", "super().__init__()  "),
        "c = a + b",
        "d = torch",
    ).replace("\n", "\r\n")
    assert strip_anchors(accepted(text, TASK).annotated) == TASK


def test_comments_of_the_source_must_stay() -> None:
    text = mark(TASK, "c = a + b", "d = torch").replace("        # the sum first\n", "")
    assert "the sum first" in reason(text, TASK)


def test_an_added_comment_that_equals_a_later_one_is_told_apart() -> None:
    source = "x = 1\ny = 2\n# note\nz = 3\n# note\n"
    text = mark(source, "y = 2", "y = 2", "# note")
    assert strip_anchors(accepted(text, source).annotated).count("# note") == 3


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (TASK, "no marked block"),
        (mark(TASK, "c = a + b", "d = torch").replace("a + b", "b + a"), "should read"),
        (mark(TASK, "c = a + b", "d = torch").replace("        c =", "      c ="), "indentation"),
        (
            mark(TASK, "c = a", "d = torch").replace("import torch\n", "import torch\n# hm\n"),
            "outside the marked block",
        ),
        (mark(TASK, "c = a + b", "d = torch", "        // fuse"), "use # in Python"),
        (
            mark(TASK, "c = a + b", "d = torch").split("def get_inputs")[0] + "# ...\n",
            "leaves code out",
        ),
        (mark(KERNEL, "for (int64", "    }", "#pragma omp parallel for"), "`#pragma omp"),
        (mark(TASK, "return d", "return d") + "x = 1\n", "is not in the source"),
    ],
)
def test_what_is_wrong_is_explained(text: str, part: str) -> None:
    assert part in reason(text, TASK if "class ModelNew" not in text else KERNEL)


def test_a_block_of_nothing_but_advice_is_empty() -> None:
    text = TASK.replace(
        "        c = a", "# <<<IMPROVE BEGIN>>>\n# advice\n# <<<IMPROVE END>>>\n        c = a"
    )
    assert "none of the source's lines" in reason(text, TASK)


def test_a_fragment_that_fits_once_is_spliced() -> None:
    fragment = "\n".join(mark(TASK, "c = a + b", "d = torch").split("\n")[10:18])
    result = accepted(fragment, TASK)
    assert result.spliced
    assert strip_anchors(result.annotated) == TASK
    assert "should read `import torch`" in reason(fragment, TASK, splice=False)


def test_a_fragment_that_fits_twice_is_rejected() -> None:
    source = "a = 1\nb = 2\na = 1\nb = 2\n"
    assert "several places" in reason("# <<<IMPROVE BEGIN>>>\na = 1\n# <<<IMPROVE END>>>", source)


def test_a_source_that_is_no_python_can_be_marked() -> None:
    broken = KERNEL.replace("class ModelNew(nn.Module):", "class ModelNew(nn.Module:")
    text = mark(broken, "for (int64", "    }", "// wider", begin=C_BEGIN, end=C_END)
    annotated = accepted(text, broken).annotated
    assert strip_anchors(annotated).replace("// wider\n", "") == broken
    assert C_BEGIN in annotated


code_line = st.sampled_from(
    ["x = 1", "y = x + 1", "if x:", "# why", "return y", "", "z = '#'", "a /= 2", "b // 2"]
)
indent = st.sampled_from(["", "    ", "        "])
sources = st.lists(st.tuples(indent, code_line).map("".join), min_size=1, max_size=12).filter(
    lambda lines: any(line.strip() for line in lines)
)


@given(lines=sources, data=st.data())
def test_any_marking_of_any_source_is_accepted(lines: list[str], data: st.DataObject) -> None:
    source = "\n".join(lines)
    solid = [row for row, line in enumerate(lines) if line.strip()]
    first = data.draw(st.sampled_from(solid))
    last = data.draw(st.sampled_from([row for row in solid if row >= first]))
    advice = data.draw(st.lists(st.sampled_from(["# do", "    # this", "# why"]), max_size=3))
    noise = data.draw(st.sampled_from(["", "\n", "   \n"]))
    annotated = "\n".join(
        [
            *lines[:first],
            noise + "# <<<IMPROVE BEGIN>>>",
            *advice,
            *lines[first : last + 1],
            "  # <<<IMPROVE ENDS>>>",
            *lines[last + 1 :],
        ]
    )
    result = accepted(annotated, source)
    assert added(result.annotated, source) == sorted(advice)
    assert accepted(result.annotated, source).annotated == result.annotated
    if not advice:
        assert strip_anchors(result.annotated) == source


@given(lines=sources, data=st.data())
def test_no_change_of_code_slips_through(lines: list[str], data: st.DataObject) -> None:
    source = "\n".join(lines)
    solid = [row for row, line in enumerate(lines) if line.strip()]
    row = data.draw(st.sampled_from(solid))
    changed = list(lines)
    changed[row] = data.draw(st.sampled_from([" " + lines[row], lines[row] + "1", "q = 9", "#x"]))
    annotated = "\n".join(["# <<<IMPROVE BEGIN>>>", *changed, "# <<<IMPROVE END>>>"])
    result = ground(annotated, source)
    if isinstance(result, Grounded):  # a changed comment at an edge is advice on a fragment
        assert all(line.strip().startswith("#") for line in added(result.annotated, source))


def added(annotated: str, source: str) -> list[str]:
    """The lines that an annotated source has beyond its source's own and the tags."""
    kept = Counter(line for line in strip_anchors(annotated).split("\n") if line.strip())
    own = Counter(line for line in source.split("\n") if line.strip())
    assert own <= kept
    return sorted((kept - own).elements())


@given(st.text(max_size=200), st.text(max_size=200))
def test_no_text_breaks_it(annotated: str, source: str) -> None:
    ground(annotated, source)
    ground(f"# <<<IMPROVE BEGIN>>>\n{source}\n# <<<IMPROVE END>>>", source)
    strip_anchors(annotated)
    anchored_spans(annotated)
