"""From replies to answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.clients.port import Reply
from agents.replies.grounding import strip_anchors
from agents.replies.markdown import Fence, fences
from agents.replies.normal_form import source_key
from agents.replies.parse import Parsed, Rejected, parse
from events.bodies import Usage

from .sources import KERNEL, TASK, mark

PLAN = mark(TASK, "c = a + b", "d = torch", "        # fuse")


def reply(text: str = "", tool: dict[str, Any] | None = None, stop: str = "end_turn") -> Reply:
    return Reply(
        text=text, tool_input=tool, usage=Usage(), stop_reason=stop, served_by="m", sent={}
    )


def parsed(role: str, answer: Reply, source: str = TASK) -> Parsed:
    result = parse(role, answer, source)
    assert isinstance(result, Parsed), result
    return result


def reason(role: str, answer: Reply, source: str = TASK) -> str:
    result = parse(role, answer, source)
    assert isinstance(result, Rejected), result
    assert "\n" not in result.reason
    return result.reason


def test_a_plan_through_the_tool() -> None:
    result = parsed("plan", reply(tool={"advice": " Fuse. ", "annotated_source": PLAN}))
    assert (result.via, result.advice, result.anchors, result.spliced) == (
        "tool",
        "Fuse.",
        1,
        False,
    )
    assert result.annotated == PLAN
    assert result.source is None


def test_a_plan_through_a_fence() -> None:
    text = f"Fuse both.\n\n```python\nx = 1\n```\nLike so:\n```python\n{PLAN}```\nDone.\n"
    result = parsed("plan", reply(text))
    assert result.via == "fence"
    assert result.advice == "Fuse both.\n\nLike so:\nDone."
    assert result.annotated == PLAN


def test_a_plan_may_be_a_fragment_unless_whole_files_are_asked_for() -> None:
    fragment = "\n".join(PLAN.split("\n")[10:19])
    answer = reply(tool={"advice": "Fuse.", "annotated_source": fragment})
    assert parsed("plan", answer).spliced
    assert isinstance(parse("plan", answer, TASK, splice=False), Rejected)


@pytest.mark.parametrize("role", ["code", "debug", "single"])
def test_code_through_the_tool(role: str) -> None:
    result = parsed(role, reply(tool={"explanation": "Because.", "source": KERNEL}))
    assert (result.via, result.source, result.explanation) == ("tool", KERNEL, "Because.")
    assert result.source_key == source_key(KERNEL)


def test_code_through_a_fence_prefers_the_block_with_the_model() -> None:
    text = f"Why.\n```python\n{KERNEL}```\nUse it so:\n```python\nmodel = Model()\n```"
    result = parsed("code", reply(text.replace("\n", "\r\n")))
    assert result.source == KERNEL
    assert result.explanation == "Why.\nUse it so:"


def test_a_fence_around_a_tool_field_and_leftover_anchors_go() -> None:
    marked = mark(KERNEL, "def forward", "return torch.relu")
    result = parsed("code", reply(tool={"source": f"```python\n{marked}\n```"}))
    assert result.source is not None
    assert result.source.rstrip() == strip_anchors(marked).rstrip() == KERNEL.rstrip()


def test_what_is_no_python_is_asked_for_again_while_it_can_be() -> None:
    answer = reply(tool={"source": "class ModelNew(:\n"})
    assert "not valid Python (line 1" in reason("code", answer)
    judged = parse("code", answer, TASK, is_last=True)
    assert isinstance(judged, Parsed)
    assert judged.source == "class ModelNew(:\n"


def test_text_is_the_fallback_for_an_unusable_tool_answer() -> None:
    answer = reply(f"```\n{KERNEL}```", tool={"explanation": "x"})
    assert parsed("code", answer).via == "fence"


def test_half_a_surrogate_pair_is_replaced() -> None:
    result = parsed("code", reply(tool={"source": KERNEL + "# \ud83d\n"}))
    assert result.source is not None
    result.source.encode()


def test_an_unclosed_fence_counts_when_nothing_was_cut_off() -> None:
    assert parsed("code", reply(f"```python\n{KERNEL}")).source == KERNEL


@pytest.mark.parametrize(
    ("role", "answer", "part"),
    [
        ("code", reply(f"```python\n{KERNEL}", stop="max_tokens"), "cut off"),
        ("plan", reply('{"advice": "x', stop="max_tokens"), "cut off"),
        ("code", reply("I would fuse it."), "no fenced code block"),
        ("code", reply(""), "no fenced code block"),
        ("code", reply("```\nx = 1\n```"), "no ModelNew"),
        ("code", reply(tool={"source": TASK}), "no ModelNew"),
        ("code", reply(tool={"explanation": "x"}), "lacks `source`"),
        ("code", reply(tool={}), "holds nothing"),
        ("code", reply(tool={"source": 3}), "lacks `source`"),
        ("plan", reply(f"x\n```\n{TASK}```"), "no marked block"),
        ("plan", reply(f"```\n{PLAN}```"), "no advice"),
        ("plan", reply(tool={"advice": "a", "annotated_source": TASK}), "no marked block"),
        ("plan", reply("", stop="refusal"), "declined"),
    ],
)
def test_rejections_say_why(role: str, answer: Reply, part: str) -> None:
    assert part in reason(role, answer)


def test_a_complete_answer_counts_even_at_the_limit() -> None:
    assert parsed("code", reply(f"```python\n{KERNEL}```\nIt", stop="max_tokens")).source == KERNEL


def test_fences() -> None:
    text = "a\n```py\nx\n````\n~~~\ny\n```\n~~~\nb\n```\nz"
    assert fences(text) == (
        Fence(text="x\n", closed=True),
        Fence(text="y\n```\n", closed=True),
        Fence(text="z", closed=False),
    )


@given(st.text(), st.sampled_from(["plan", "code"]), st.text(), st.sampled_from(["", "max_tokens"]))
def test_no_reply_breaks_it(text: str, role: str, field: str, stop: str) -> None:
    parse(role, reply(text, stop=stop), TASK)
    parse(role, reply(text, tool={"source": field, "annotated_source": field}), TASK)
