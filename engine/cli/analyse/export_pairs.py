"""Training pairs as JSON lines: ``prompt`` and ``completion`` are lists of chat messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from agents.clients.port import Reply
from agents.replies.markdown import code_block
from agents.replies.plain_text import clean
from agents.replies.spans_reply import SpansAnswer, as_fences, read_spans
from agents.replies.thoughts import answered
from engine.cli.address import Opened, open_runs
from engine.cli.exits import Failure
from projections.export.training import Chosen, Pair, Wanted, choose, pairs_of

__all__ = ["export_pairs"]


def export_pairs(logs: Iterable[str], wanted: Wanted, output: Path) -> Chosen:
    """Write the pairs to ``output``. Reads the logs twice: to choose, then for the texts."""
    logs = list(logs)
    chosen = choose((pair for _, pair in _all(logs)), wanted)
    left = {(pair.run, pair.call): seen for pair, seen in chosen.pairs}
    part = output.with_name(f".{output.name}.part")
    try:
        with part.open("wb") as file:
            for opened, pair in _all(logs):
                # A run that is named twice is written once.
                seen = left.pop((pair.run, pair.call), None)
                if seen is not None:
                    file.write(msgspec.json.encode(_line(opened, pair, seen)) + b"\n")
        part.replace(output)
    except OSError as error:
        raise Failure(f"{output}: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
    return chosen


def _all(logs: list[str]) -> Iterator[tuple[Opened, Pair]]:
    for opened in open_runs(logs):
        for pair in pairs_of(opened.run.uid, opened.reader.events(opened.run.run_id)):
            yield opened, pair


def _line(opened: Opened, pair: Pair, seen: int) -> dict[str, Any]:
    text = opened.reader.text
    (_, system), *others = pair.prompt
    user = "\n\n".join(part for _, sha in others if (part := text(sha)).strip())
    code, spans = text(pair.code_sha256), pair.form == "spans"
    answer = _replacements(opened, pair) if spans else _answer(text(pair.prose_sha256), code)
    return {
        "prompt": [
            {"role": "system", "content": _utf8(text(system))},
            {"role": "user", "content": _utf8(user)},
        ],
        "completion": [
            {"role": "assistant", "content": _utf8(answer)},
        ],
        "role": pair.role,
        "reply": pair.form,
        "spliced": _utf8(code) if spans else None,
        "outcome": pair.outcome,
        "runtime_ms": pair.runtime_ms,
        "speedup": pair.speedup,
        "eager_speedup": pair.eager_speedup,
        "labels": pair.labels,
        "provenance": {
            "log": opened.name, "run": pair.run, "run_seq": pair.run_seq, "node": pair.node,
            "call": pair.call, "task": pair.task, "task_sha256": pair.task_sha256,
            "model": pair.model, "served_by": pair.served_by, "canned": pair.canned,
            "prompt_sha256": [sha for _, sha in pair.prompt], "code_sha256": pair.code_sha256,
            "answers_like_it": seen,
        },
    }  # fmt: skip


def _answer(prose: str, code: str) -> str:
    """Prose, then one fenced block: what the engine reads from a reply without a tool."""
    return f"{prose.strip()}\n\n{code_block(code.rstrip())}".lstrip()


def _replacements(opened: Opened, pair: Pair) -> str:
    """The reply as it was given; what came through a tool as the same in fenced blocks."""
    text, given = opened.reader.text(pair.reply_sha256), None
    if pair.tool_input_sha256 is not None:
        given = json.loads(opened.reader.text(pair.tool_input_sha256))
    reply = Reply(
        text=text, tool_input=given, usage=None, stop_reason="", served_by=pair.served_by, sent={}
    )
    # How many of the blocks are replacements does not matter: fenced ones stay as they are.
    answer = read_spans(reply, 0)
    if isinstance(answer, SpansAnswer) and answer.via != "fence":
        return as_fences(answer)
    return answered(clean(text)).text


def _utf8(text: str) -> str:
    """JSON has no lone surrogates; a model can emit one."""
    return text.encode("utf-8", "replace").decode()
