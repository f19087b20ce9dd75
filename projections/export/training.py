"""Pairs of prompt and answer to train a role on: which ones, and where they come from.

A pair is a usable answer of one call with what became of its attempt. Texts stay in the
log; a pair has their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from events.bodies import (
    AgentCalled,
    AgentReplied,
    EvaluationFinished,
    PromptRendered,
    ReplyForm,
    ReplyParsed,
    RunStarted,
)
from events.envelope import Event
from events.outcomes import CompileFailed, Correct, NoCandidate, Outcome
from projections.candidate.labels import labels_of
from projections.run.overview import Overview

__all__ = ["Chosen", "Pair", "Wanted", "choose", "pairs_of"]


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """``prompt`` are the parts' (name, sha256) in order; an answer is ``prose`` (advice or
    explanation) and ``code`` (annotated or whole source), each a sha256. Of replacements
    (``form`` is ``spans``) ``code`` is what came of them: they are in the reply alone."""

    run: str
    node: int
    call: int
    run_seq: int
    role: str
    model: str
    served_by: str
    canned: bool
    task: str
    task_sha256: str
    prompt: list[tuple[str, str]]
    form: ReplyForm
    reply_sha256: str
    tool_input_sha256: str | None
    prose_sha256: str | None
    code_sha256: str
    answer_key: str
    """Equal for answers that say the same: a source's normalised digest, or a plan's texts."""
    outcome: str
    runtime_ms: float | None
    speedup: float | None
    labels: list[str]
    """What to know beside its speedup."""
    eager_speedup: float | None = None


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """``outcome``: what at least became of the attempt. ``canned`` replies come from a
    playbook and teach its author's words, not a model's."""

    role: str
    outcome: Literal["correct", "compiled", "any"] = "correct"
    min_speedup: float = 0.0
    canned: bool = False

    def takes(self, pair: Pair) -> bool:
        if pair.role != self.role or (pair.speedup or 0.0) < self.min_speedup:
            return False
        if self.outcome == "correct":
            return pair.outcome == "correct"
        unbuilt = (CompileFailed, NoCandidate)
        return self.outcome == "any" or pair.outcome not in [
            kind.__struct_config__.tag for kind in unbuilt
        ]


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The pairs to write, each with how often its answer was given; and what was left out."""

    pairs: list[tuple[Pair, int]]
    filtered: int
    canned: int


def choose(pairs: Iterable[Pair], wanted: Wanted) -> Chosen:
    """Of equal answers of one form to one task, the one that ran fastest; of equals, the first."""
    best: dict[tuple[str, str, str], Pair] = {}
    seen: dict[tuple[str, str, str], int] = {}
    filtered = canned = 0
    for pair in pairs:
        if pair.role != wanted.role:
            continue
        if not wanted.takes(pair):
            filtered += 1
        elif pair.canned and not wanted.canned:
            canned += 1
        else:
            key = pair.task_sha256, pair.form, pair.answer_key
            seen[key] = seen.get(key, 0) + 1
            if key not in best or (pair.speedup or 0.0) > (best[key].speedup or 0.0):
                best[key] = pair
    return Chosen(
        pairs=[(pair, seen[key]) for key, pair in best.items()], filtered=filtered, canned=canned
    )


def pairs_of(run: str, events: Iterable[Event]) -> Iterator[Pair]:
    """All usable answers of a run whose attempt was evaluated, in the order of asking."""
    overview = Overview()
    started: RunStarted | None = None
    asked: dict[int, AgentCalled] = {}
    prompts: dict[int, list[tuple[str, str]]] = {}
    replied: dict[int, AgentReplied] = {}
    parsed: list[tuple[int, ReplyParsed]] = []
    outcomes: dict[int, Outcome] = {}
    labels: dict[int, list[str]] = {}
    for event in events:
        overview.apply(event)
        match event.body:
            case RunStarted() as body:
                started = body
            case AgentCalled() as body:
                asked[body.call] = body
            case PromptRendered() as body:
                prompts[body.call] = list(zip(body.parts, event.blobs, strict=True))
            case AgentReplied() as body:
                replied[body.call] = body
            case ReplyParsed() as body:
                parsed.append((event.run_seq, body))
            case EvaluationFinished() as body:
                outcomes[body.attempt] = body.outcome
                labels[body.attempt] = labels_of(body.outcome, body.notes)
    root_ms = overview.tree.root.runtime_ms if overview.tree.nodes else None
    for run_seq, answer in parsed:
        prose = answer.advice_sha256 or answer.explanation_sha256
        code = answer.annotated_sha256 or answer.source_sha256
        outcome, reply = outcomes.get(answer.attempt), replied.get(answer.call)
        if code is None or outcome is None or reply is None or started is None:
            continue
        runtime_ms = outcome.runtime_ms if isinstance(outcome, Correct) else None
        yield Pair(
            run=run, node=answer.attempt, call=answer.call, run_seq=run_seq, role=answer.role,
            model=asked[answer.call].model, served_by=reply.served_by, canned=reply.canned,
            task=started.task_name, task_sha256=started.task_sha256, prompt=prompts[answer.call],
            form=asked[answer.call].reply, reply_sha256=reply.reply_sha256,
            tool_input_sha256=reply.tool_input_sha256, prose_sha256=prose, code_sha256=code,
            answer_key=answer.source_key or f"{prose} {code}",
            outcome=str(outcome.__struct_config__.tag), runtime_ms=runtime_ms,
            speedup=root_ms / runtime_ms if root_ms and runtime_ms else None,
            labels=labels[answer.attempt],
            eager_speedup=outcome.eager_speedup if isinstance(outcome, Correct) else None,
        )  # fmt: skip
