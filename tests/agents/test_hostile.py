"""Replies that would keep their reader: the search waits in the same process."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from agents.clients.port import Reply
from agents.clients.structured import json_object
from agents.replies.anchors import BEGIN, END, strip_anchors
from agents.replies.grounding import Grounded, Rejected, ground
from agents.replies.markdown import fences
from agents.replies.parse import parse
from agents.replies.splicing import Definition, Spans, spliced
from events.bodies import Usage

MARKED = f"# {BEGIN}\na = 1\n# {END}\nclass ModelNew: pass\n"


def marked(block: str) -> str:
    return f"# {BEGIN}\n{block}# {END}\n"


def read(text: str) -> object:
    reply = Reply(
        text=text, tool_input=None, usage=Usage(), stop_reason="end_turn", served_by="m", sent={}
    )
    return parse("code", reply, "a = 1\n")


READINGS: dict[str, Callable[[], object]] = {
    "spaces behind a tag": lambda: strip_anchors(BEGIN + " " * 100_000 + "x"),
    "openers behind a tag": lambda: strip_anchors(BEGIN + "# " * 50_000 + "x"),
    "a long fence": lambda: fences("~" * 100_000 + "`"),
    "a quotation with lazy lines": lambda: fences(f"```\n```\n{'>' * 8} a\n" + "b\n" * 40_000),
    "blocks that end nowhere": lambda: read("```python\n" + "x = (\n```\n" * 90_000),
    "marks of thoughts in blocks": lambda: read("```\n<think>\n```\n" * 60_000),
    "marks of thoughts": lambda: read("<think>" * 140_000),
    "half a mark": lambda: read("<|channel|>final" + " " * 1_000_000),
    "objects that end nowhere": lambda: read('{"a":' * 200_000),
    "fields that end nowhere": lambda: read("<parameter=source>" * 50_000),
    "Python that ends badly": lambda: read(
        "```python\n" + "x = 1\n" * 40_000 + "class ModelNew(:\n" + "```\n" * 20
    ),
    "a fragment of equal lines": lambda: ground(
        marked("a()\n" * 5_000 + "b()\n"), "a()\n" * 10_000
    ),
    "equal comments": lambda: ground(marked("# x\n" * 4_000 + "a()\n"), "# x\n" * 4_000 + "a()\n"),
    "definitions of nothing": lambda: spliced(
        MARKED + "b = 1\n" * 10_000,
        Spans(replacements=["a = 2"], definitions=[Definition(code="")] * 5_000),
    ),
}


@pytest.mark.parametrize("name", READINGS)
def test_it_is_read_or_refused_soon(name: str) -> None:
    began = time.process_time()
    READINGS[name]()
    assert time.process_time() - began < 5.0


def test_a_refusal_says_what_to_do_instead() -> None:
    refused = ground(marked("# x\n" * 4_000 + "a()\n"), "# x\n" * 4_000 + "a()\n")
    assert isinstance(refused, Rejected)
    assert "fewer added comments" in refused.reason
    few = "# x\n" * 300 + "a()\n"
    assert isinstance(ground(marked(few), few), Grounded)
    many = Spans(replacements=["a = 2"], definitions=[Definition(code="b = 1")] * 65)
    refused = spliced(MARKED, many)
    assert isinstance(refused, Rejected)
    assert "at most 64" in refused.reason


def test_a_source_that_would_not_be_judged_is_asked_for_anew() -> None:
    for length, refused in ((2**18 - 100, False), (2**18, True)):
        source = "class ModelNew: pass\n#" + "x" * length
        reply = Reply(
            text="", tool_input={"source": source, "explanation": ""}, usage=Usage(),
            stop_reason="end_turn", served_by="m", sent={},
        )  # fmt: skip
        assert isinstance(parse("code", reply, "a = 1\n"), Rejected) == refused


def test_answers_nested_like_traps_are_none() -> None:
    for levels in (40, 700, 100_000):
        nested = f'{{"advice": {"[" * levels}{"]" * levels}}}'
        assert json_object(nested) is None
        reply = Reply(
            text=nested, tool_input=None, usage=Usage(), stop_reason="end_turn", served_by="m",
            sent={},
        )  # fmt: skip
        assert isinstance(parse("plan", reply, "a = 1\n"), Rejected)
