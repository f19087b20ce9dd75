"""Training pairs: which are taken, once each, and that the engine could read them back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from agents.clients.port import Reply
from agents.replies.anchors import strip_anchors
from agents.replies.parse import Parsed, parse
from engine.cli.exits import Failure
from engine.cli.main import cli
from events.bodies import ReplyParsed, Usage
from events.reader import LogReader

HISTORIES = Path(__file__).parents[1] / "histories"
HISTORY, SPANS = HISTORIES / "0.1" / "stark_softmax_h200.db", HISTORIES / "spans.db"


def export(out: Path, *args: object) -> tuple[Result, list[dict[str, Any]]]:
    done = CliRunner().invoke(cli, ["export", *map(str, args), "--format", "sft", "-o", str(out)])
    lines = out.read_text().splitlines() if out.exists() else []
    return done, [json.loads(line) for line in lines]


def test_correct_answers_once_each_the_fastest(rich: Path, tmp_path: Path) -> None:
    done, pairs = export(tmp_path / "code.jsonl", rich, "--role", "code")
    assert done.exit_code == 0, done.exception
    nodes = [(pair["provenance"]["node"], pair["speedup"]) for pair in pairs]
    assert nodes == [(3, 0.5), (5, 2.5)]
    assert "2 pairs; left out: 2 by outcome, 0 repeated" in done.stderr
    pair = pairs[1]
    assert [message["role"] for message in pair["prompt"]] == ["system", "user"]
    assert pair["prompt"][1]["content"] == "class Model: ... # 5"
    assert pair["completion"][0]["content"] == "Because.\n\n```python\nclass ModelNew: two\n```\n"
    assert pair["provenance"]["run"] == "rich"
    _, again = export(tmp_path / "twice.jsonl", rich, rich, "--role", "code")
    assert [pair["provenance"]["answers_like_it"] for pair in again] == [2, 2]
    assert [pair["provenance"]["node"] for pair in again] == [3, 5]


def test_filters(rich: Path, tmp_path: Path) -> None:
    def nodes(*args: object) -> list[int]:
        _, pairs = export(tmp_path / "out.jsonl", rich, *args)
        return [pair["provenance"]["node"] for pair in pairs]

    assert nodes("--role", "debug") == [2]
    assert nodes("--role", "plan") == [3]
    assert nodes("--role", "plan", "--outcome", "compiled") == [3, 6]
    assert nodes("--role", "plan", "--outcome", "any") == [1, 3, 6]
    assert nodes("--role", "code", "--min-speedup", 2) == [5]


def test_completions_are_replies_that_the_engine_reads(tmp_path: Path) -> None:
    none, pairs = export(tmp_path / "out.jsonl", HISTORY, "--role", "code")
    assert pairs == []
    assert "canned (--canned takes them)" in none.stderr
    for role in ("plan", "code", "debug"):
        _, pairs = export(tmp_path / "out.jsonl", HISTORY, "--role", role, "--canned")
        assert pairs
        for pair in pairs:
            assert (pair["reply"], pair["spliced"]) == ("whole", None)
            reply = reply_of(pair)
            with LogReader(HISTORY) as reader:
                code = reader.text(pair["provenance"]["code_sha256"])
            answer = parse(role, reply, strip_anchors(code))
            assert isinstance(answer, Parsed), answer
            assert (answer.source or answer.annotated or "").strip() == code.strip()


def reply_of(pair: dict[str, Any]) -> Reply:
    return Reply(
        text=pair["completion"][0]["content"], tool_input=None, usage=Usage(),
        stop_reason="end_turn", served_by="m", sent={},
    )  # fmt: skip


def test_replacements_are_given_as_such_with_what_came_of_them(tmp_path: Path) -> None:
    done, pairs = export(
        tmp_path / "out.jsonl", SPANS, "--role", "code", "--canned", "--outcome", "any"
    )
    assert done.exit_code == 0, done.exception
    with LogReader(SPANS) as reader:
        bodies = [event.body for event in reader.events(1)]
        parsed = [body for body in bodies if isinstance(body, ReplyParsed)]
        marked = {
            body.attempt: reader.text(body.annotated_sha256)
            for body in parsed
            if body.annotated_sha256
        }
    given = {body.source_key for body in parsed if body.spliced and body.role == "code"}
    assert len(pairs) == len(given) > 1
    for pair in pairs:
        assert pair["reply"] == "spans"
        assert "replacements" in pair["prompt"][1]["content"]
        assert "class Model" not in pair["completion"][0]["content"].replace("# before: class", "")
        plan = marked[pair["provenance"]["node"]]
        answer = parse("code", reply_of(pair), strip_anchors(plan), marked=plan)
        assert isinstance(answer, Parsed), answer
        assert answer.source == pair["spliced"]


def test_a_role_and_a_format_go_together(rich: Path, tmp_path: Path) -> None:
    done, _ = export(tmp_path / "out.jsonl", rich)
    assert "--role" in str(done.exception)


def test_a_log_without_its_texts_has_no_pairs_to_give(tmp_path: Path) -> None:
    redacted = tmp_path / "redacted.db"
    CliRunner().invoke(cli, ["export", str(HISTORY), "--redact", "-o", str(redacted)])
    done, _ = export(tmp_path / "out.jsonl", redacted, "--role", "code", "--canned")
    assert isinstance(done.exception, Failure)
    assert "this copy of the log has no texts" in str(done.exception)
    assert not list(tmp_path.glob("*out*"))
