"""``engine show``: one node of a run with its texts, outcome and observations."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import unified_diff

import click

from engine.cli.address import Opened, open_run
from engine.cli.inspect.at_position import at_option, load
from engine.cli.inspect.inspect import emit, find_node, json_option
from engine.cli.views.draw import (
    CANNED,
    audit_lines,
    input_set_lines,
    loop_line,
    moment_words,
    ms,
    outcome_line,
    printable,
    section_lines,
)
from events.bodies import EvaluationFinished
from projections.candidate.labels import with_labels
from projections.candidate.sections import Attempt
from projections.run.overview import Overview
from projections.search.tree import ROOT, Node

__all__ = ["show"]


@click.command()
@click.argument("log")
@click.argument("node", type=int)
@at_option
@json_option
def show(log: str, node: int, at: int | None, as_json: bool) -> None:
    """Show NODE of LOG: its plan, source, logs and outcome."""
    with open_run(log) as opened:
        overview = load(opened, at)
        found = find_node(overview, node)
        texts = _texts(opened, overview, found)
    if as_json:
        emit({"node": found, "texts": texts, "evaluation": overview.evaluations.get(node)})
        return
    if overview.started and overview.started.canned and node != ROOT and found.made != "user":
        click.echo(CANNED, err=True)
    for line in _lines(overview, found, texts):
        click.echo(line)


def _texts(opened: Opened, overview: Overview, node: Node) -> dict[str, str]:
    """The node's texts by name; with the changes where its source was spliced."""
    texts = {
        name: opened.reader.text(getattr(node, f"{name}_sha256"))
        for name in ("advice", "source", "explanation", "compile_log", "run_log")
    }
    if node.spliced:
        before = opened.reader.text(overview.tree[node.parent or ROOT].source_sha256)
        texts["changes"] = "".join(
            unified_diff(
                before.splitlines(True), texts["source"].splitlines(True),
                f"node {node.parent}", f"node {node.id}",
            )
        )  # fmt: skip
    return texts


def _lines(overview: Overview, node: Node, texts: dict[str, str]) -> Iterator[str]:
    yield from _head_lines(overview, node)
    outcome = node.outcome and with_labels(node.outcome, node.labels)
    if outcome is not None:
        yield f"outcome {outcome_line(outcome, node.runtime_ms, overview.tree.root.runtime_ms)}"
        if line := loop_line(outcome):
            yield line
        yield from input_set_lines(outcome)
    if (evaluation := overview.evaluations.get(node.id)) is not None:
        yield from _evaluation_lines(evaluation)
    for name, text in texts.items():
        if text:
            yield f"\n--- {name.replace('_', ' ')} ---\n{printable(text).rstrip()}"
    yield from section_lines(
        Attempt(
            outcome=outcome,
            runtime_ms=node.runtime_ms,
            resources=node.resources,
            observations=node.observations,
        )
    )


def _head_lines(overview: Overview, node: Node) -> Iterator[str]:
    """What the node is, and where it is from."""
    if node.parent is None:
        yield "node 0, the reference module"
    else:
        yield f"node {node.id}, {node.status}, from node {node.parent}"
    given = overview.started.given if overview.started and node.made == "user" else None
    if given is not None:
        yield f"given by the user as {printable(given.name)}: no model wrote it"
    if node.id == ROOT and node.runtime_ms is not None:
        yield f"runtime {ms(node.runtime_ms)} (eager)"
        yield from audit_lines(overview)
    if node.reason:
        yield f"reason {printable(node.abandoned_because)}"
    elif node.rejection:
        yield f"its last reply could not be used: {printable(node.rejection)}"


def _evaluation_lines(evaluation: EvaluationFinished) -> Iterator[str]:
    timings = ", ".join(f"{stage} {s:.2f} s" for stage, s in evaluation.timings_s.items())
    timings = f"; {timings}" if timings else ""
    yield f"protocol {evaluation.protocol} on {evaluation.device}{timings}"
    yield f"isolation {', '.join(evaluation.isolation) or 'none'}"
    if evaluation.reused is not None:
        yield f"reused: the parent's verdict, its event {evaluation.reused}"
    if evaluation.same_as is not None:
        yield f"duplicate: the same source as node {evaluation.same_as}, whose verdict this is"
    if evaluation.cached:
        moment = evaluation.measured_at
        when = f", of {moment_words(moment)}" if moment else ""
        yield f"cached: an earlier run's verdict on this source{when}, not judged again"
    for note in evaluation.notes:
        yield f"note {printable(note)}"
