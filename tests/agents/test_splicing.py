"""Replacements of marked blocks: what comes out is the source with just these changed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.clients.port import Reply
from agents.replies.grounding import Grounded, Rejected, ground
from agents.replies.normal_form import source_key
from agents.replies.parse import Parsed, parse
from agents.replies.spans_reply import SpansAnswer, as_fences, read_spans
from agents.replies.splicing import Definition, Spans, block_count, spliced
from agents.templates import load
from events.bodies import Usage

MODEL = '''"""A task about the Model."""
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super(Model, self).__init__()
        self.name = "Model"

    def forward(self, x):
        # <<<IMPROVE BEGIN>>>
        # fold it
        y = x * 2
        # <<<IMPROVE END>>>
        z = y + 1
        # <<<IMPROVE BEGIN>>>
        return torch.relu(z)
        # <<<IMPROVE END>>>
'''
DOUBLE, RELU = "        y = x + x", "        return torch.clamp(z, 0)"


def put(*replacements: str, **before: str) -> str | Rejected:
    """``before`` is code → the line that it goes before."""
    definitions = [Definition(code=code, before=line) for code, line in before.items()]
    return spliced(MODEL, Spans(replacements=replacements, definitions=definitions))


def test_only_the_blocks_and_the_name_change() -> None:
    assert (
        put(DOUBLE, RELU)
        == '''"""A task about the Model."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super(ModelNew, self).__init__()
        self.name = "Model"

    def forward(self, x):
        y = x + x
        z = y + 1
        return torch.clamp(z, 0)
'''
    )


def test_definitions_go_where_they_are_told_or_behind_the_imports() -> None:
    spans = Spans(
        replacements=[DOUBLE, RELU],
        definitions=[
            Definition(code="import math"),
            Definition(code="def f():\n    return 1\n", before="class Model(nn.Module):"),
            Definition(code="        self.f = f", before='self.name = "Model"'),
        ],
    )
    source = spliced(MODEL, spans)
    assert isinstance(source, str)
    rows = source.split("\n")
    assert rows[3] == "import math"
    assert rows.index("def f():") < rows.index("class ModelNew(nn.Module):")
    assert rows.index("        self.f = f") == rows.index('        self.name = "Model"') - 1


@pytest.mark.parametrize(
    ("spans", "reason"),
    [
        (Spans(replacements=[DOUBLE]), "has 2 marked blocks, and the reply 1 replacement:"),
        (
            Spans(replacements=["y = x", RELU]),
            "the file is no Python (line 12: expected",
        ),
        (
            Spans(replacements=[DOUBLE, RELU], definitions=[Definition(code="a", before="y = 1")]),
            "before `y = 1`, which stands in no line outside",
        ),
        (
            Spans(
                replacements=[DOUBLE, RELU],
                definitions=[Definition(code="a = 1", before="return torch.relu(z)")],
            ),
            "in no line outside",
        ),
    ],
)
def test_what_does_not_fit_is_explained(spans: Spans, reason: str) -> None:
    found = spliced(MODEL, spans)
    assert isinstance(found, Rejected)
    assert reason in found.reason
    assert "\n" not in found.reason


def test_a_line_that_stands_twice_is_no_place() -> None:
    twice = MODEL.replace("        z = y + 1\n", "        z = y + 1\n        z = y + 1\n")
    spans = Spans(
        replacements=[DOUBLE, RELU], definitions=[Definition(code="pass", before="z = y + 1")]
    )
    found = spliced(twice, spans)
    assert isinstance(found, Rejected)
    assert "in several lines outside" in found.reason


_LINES = ["a = 1", "if a:", "    b = 2", "", 'k = """', "  int x; // c", '"""', "    # note", "\tc"]


@given(st.data())
def test_replaced_by_itself_a_source_is_what_it_was(data: st.DataObject) -> None:
    """Whatever a plan marks, in Python or in a string: what is outside stays byte for byte."""
    lines = data.draw(st.lists(st.sampled_from(_LINES), min_size=3, max_size=15))
    lines.append("ModelNew = 1")
    ends = st.integers(0, len(lines) - 1)
    first, last = sorted((data.draw(ends), data.draw(ends)))
    source = "\n".join(lines) + "\n"
    marked = [*lines[:first], "# <<<IMPROVE BEGIN>>>", *lines[first : last + 1]]
    marked += ["# <<<IMPROVE END>>>", *lines[last + 1 :]]
    grounded = ground("\n".join(marked) + "\n", source)
    if not isinstance(grounded, Grounded):
        return  # nothing but blank lines was marked
    assert block_count(grounded.annotated) == 1
    rows = grounded.annotated.split("\n")
    tags = [n for n, row in enumerate(rows) if "<<<" in row]
    inside = "\n".join(rows[tags[0] + 1 : tags[1]])
    found = spliced(grounded.annotated, Spans(replacements=[inside]))
    assert isinstance(found, str)
    # At the edges of what is replaced, blank lines don't count.
    assert [row for row in found.split("\n") if row.strip()] == [
        row for row in lines if row.strip()
    ]
    assert source_key(found) == source_key(source)
    other = spliced(grounded.annotated, Spans(replacements=["    x = 0"]))
    if isinstance(other, str):
        assert other.startswith("\n".join([*rows[: tags[0]], ""]))
        assert other.rstrip().endswith("\n".join(rows[tags[1] + 1 :]).rstrip())


@given(st.lists(st.text(max_size=60), max_size=3), st.text(max_size=30), st.text(max_size=30))
def test_no_reply_breaks_it(replacements: list[str], code: str, before: str) -> None:
    spans = Spans(replacements=replacements, definitions=[Definition(code=code, before=before)])
    spliced(MODEL, spans)
    spliced("".join(replacements), spans)


def reply(text: str = "", tool_input: dict[str, Any] | None = None, stop: str = "x") -> Reply:
    return Reply(
        text=text, tool_input=tool_input, usage=Usage(), stop_reason=stop, served_by="m", sent={}
    )


FIELDS = {
    "explanation": "Because.", "replacements": [DOUBLE, RELU],
    "definitions": [{"code": "import math", "before": ""}],
}  # fmt: skip
FENCED = f"Because.\n```python\n{DOUBLE}\n```\n```python\n{RELU}\n```\n"


@pytest.mark.parametrize(
    ("given_", "via"),
    [
        (reply(tool_input=FIELDS), "tool"),
        (reply(json.dumps(FIELDS)), "json"),
        (reply(f"```json\n{json.dumps(FIELDS)}\n```"), "json"),
        (reply(FENCED + "```python\nimport math\n```\n"), "fence"),
        (reply(FENCED + "```python\n# before: class Model(nn.Module):\nimport math\n```"), "fence"),
    ],
)
def test_the_answer_is_read_however_it_comes(given_: Reply, via: str) -> None:
    found = parse("code", given_, "", marked=MODEL)
    assert isinstance(found, Parsed)
    assert (found.via, found.explanation, found.spliced) == (via, "Because.", True)
    assert found.source is not None
    assert "import math" in found.source
    assert "x + x" in found.source
    assert found.source_key == source_key(found.source)
    written = len(DOUBLE + RELU + "import math")
    named = len("class Model(nn.Module):") if "before:" in given_.text and via == "fence" else 0
    assert found.kept_chars == len(found.source) - written - named


@pytest.mark.parametrize(
    ("given_", "reason"),
    [
        (reply("I would rather not."), "holds no answer with `replacements`"),
        (reply(tool_input={"source": "x"}), "holds no answer with `replacements`"),
        (reply(tool_input={"replacements": [1, 2]}), "The answer's fields are not as asked for"),
        (reply(tool_input={"replacements": [DOUBLE]}), "the reply 1 replacement:"),
        (reply("```python\nclass ModelNew:\n    pass\n```"), "the reply 1 replacement:"),
        (reply(f"```python\n{DOUBLE}", stop="max_tokens"), "cut off at the output limit"),
        (reply(FENCED, stop="refusal"), "declined"),
    ],
)
def test_an_unusable_answer_says_why(given_: Reply, reason: str) -> None:
    found = parse("code", given_, "", marked=MODEL)
    assert isinstance(found, Rejected)
    assert reason in found.reason


def test_the_instruction_asks_for_what_is_read() -> None:
    _, fields = load().tool("spans")
    assert list(fields) == ["explanation", "replacements", "definitions"]
    assert list(fields["definitions"]["each"]) == ["code", "before"]


PIECES = [*"x=`~#\n \t", "```", "~~~", "# before: a\n"]
CODES = st.lists(st.sampled_from(PIECES), max_size=20).map("".join)


@given(
    st.lists(CODES, min_size=1, max_size=3),
    st.lists(st.tuples(CODES, st.sampled_from(["", "a = 1", "  b = 2"])), max_size=3),
    CODES,
)
def test_an_answer_in_fences_is_read_as_the_same(
    replacements: list[str], definitions: list[tuple[str, str]], explanation: str
) -> None:
    added = [Definition(code=code, before=line) for code, line in definitions]
    answer = SpansAnswer(
        via="tool",
        spans=Spans(replacements=replacements, definitions=added),
        explanation=explanation,
    )
    read = read_spans(reply(as_fences(answer)), len(replacements))
    assert isinstance(read, SpansAnswer)
    assert [each + "\n" for each in read.spans.replacements] == [
        each if each.endswith("\n") else each + "\n" for each in replacements
    ]
    assert [(each.code.rstrip("\n"), each.before) for each in read.spans.definitions] == [
        (code.rstrip("\n"), line.strip()) for code, line in definitions
    ]
