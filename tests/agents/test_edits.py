"""How far an implementation kept to its anchors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.replies.edits import Incomparable
from agents.replies.grounding import Edits, edits_inside

from .sources import KERNEL, TASK, mark

MARKED = mark(TASK, "c = a + b", "return d", "        # fuse it all")


def test_an_edit_of_the_marked_block_is_grounded() -> None:
    new = TASK.replace("class Model(", "class ModelNew(").replace(
        "        c = a + b\n\n        d = torch.relu(c)\n        return d * self.scale\n",
        "        return torch.relu(a + b).mul_(self.scale)\n",
    )
    edits = edits_inside(MARKED, new)
    assert edits == Edits(inside=4, allowed=0, outside=0)
    assert (edits.share, edits.grounded) == (1.0, True)


def test_imports_and_new_definitions_may_stand_beside_it() -> None:
    new = KERNEL.replace("self.scale = 2.0\n", "self.scale = 2.0\n        self.op = fused\n")
    edits = edits_inside(MARKED, new)
    assert edits.grounded, edits
    assert edits.share == 1.0
    # The import, the C++ source, the extension, self.op, and the reference's input makers.
    assert edits.allowed > 15


def test_an_edit_elsewhere_is_not_grounded() -> None:
    new = TASK.replace("self.scale = 2.0", "self.scale = 3.0").replace("a + b", "b + a")
    edits = edits_inside(MARKED, new)
    assert edits == Edits(inside=2, allowed=0, outside=2)
    assert (edits.share, edits.grounded) == (0.5, False)


def test_comments_blank_lines_and_names_are_no_edits() -> None:
    new = TASK.replace("Model(", "ModelNew(").replace("        # the sum first\n", "\n\n")
    edits = edits_inside(MARKED, new)
    assert edits == Edits(inside=0, allowed=0, outside=0)
    assert (edits.share, edits.grounded) == (None, False)


def test_lines_added_at_the_edge_of_the_block_are_inside() -> None:
    new = TASK.replace("        c = a + b\n", "        a = a.contiguous()\n        c = a + b\n")
    assert edits_inside(MARKED, new) == Edits(inside=1, allowed=0, outside=0)


def test_a_candidate_that_is_no_python_is_measured_too() -> None:
    edits = edits_inside(MARKED, "import torch\nclass ModelNew(:\n")
    assert edits.outside > 0
    assert not edits.grounded


@given(st.text(max_size=300))
def test_no_source_breaks_it(new: str) -> None:
    edits_inside(MARKED, new)
    edits_inside(new, TASK)


def test_sources_that_would_take_minutes_are_left_out() -> None:
    for old, new in (
        ("a()\nb()\n" * 1000, "a()\nc()\n" * 1000),
        ("a()\n" * 9_000, "b()\n" * 9_000),
    ):
        with pytest.raises(Incomparable):
            edits_inside(f"# <<<IMPROVE BEGIN>>>\n{old}# <<<IMPROVE END>>>\n", new)


def test_a_deep_target_has_no_name() -> None:
    deep = ".".join(["a"] * 900) + " = 1\n"
    marked = f"# <<<IMPROVE BEGIN>>>\n{deep}# <<<IMPROVE END>>>\n"
    assert edits_inside(marked, deep + "b = 2\n").inside == 1
