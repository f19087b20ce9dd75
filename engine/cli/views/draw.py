"""Text for people: the tree, a status, one attempt. Pure functions of projections."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import click
import msgspec

from events.bodies import BaselineMeasured
from events.figures import whole_percent
from events.observations import SECTIONS
from events.outcomes import Correct, Outcome, SetScore, WrongResult
from projections.candidate.labels import labels_words, with_labels
from projections.candidate.memory import memory_mark
from projections.candidate.sections import SELECTED_CAPS, Attempt, sections_of
from projections.run.overview import Overview
from projections.run.summary import Summary
from projections.search.signatures import dead_branches
from projections.search.tree import ROOT, Node

__all__ = [
    "CANNED",
    "audit_lines",
    "baseline_words",
    "for_stdout",
    "input_set_lines",
    "json_line",
    "kept_words",
    "loop_line",
    "loop_words",
    "moment_words",
    "ms",
    "outcome_line",
    "percent",
    "printable",
    "resume_line",
    "saved_line",
    "section_lines",
    "set_words",
    "taken_line",
    "tree_lines",
    "use_color",
    "value_text",
    "worst_words",
]

CANNED = "canned replies from a playbook: this shows the engine at work, not any model's skill"


def use_color() -> bool:
    """On a terminal, unless NO_COLOR says otherwise (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def resume_line(name: str, mailbox: str | None = None) -> str:
    """What to type to go on with a run; ``mailbox`` is where its mailbox is now, if that has
    to be said."""
    moved = "" if mailbox is None else f" --mailbox {shlex.quote(mailbox)}"
    return f"engine resume {shlex.quote(name)}{moved}"


def printable(text: str) -> str:
    """Text from outside without control characters: a model must not steer the terminal."""
    return "".join(
        char if char in "\n\t" or (char.isprintable() and char != "\x7f") else "�" for char in text
    )


def for_stdout(text: str) -> str:
    """Data as it is, for a file or another program; on a terminal without control characters."""
    return printable(text) if sys.stdout.isatty() else text


def json_line(value: object) -> str:
    """``value`` as JSON in which every control character is escaped: the same data, and harmless
    on a terminal."""
    text = msgspec.json.encode(value).decode()
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(char: str) -> str:
    if char.isprintable():
        return char
    units = char.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def section_lines(attempt: Attempt) -> Iterator[str]:
    """What was observed of an attempt, as agents are told, but for its source and logs."""
    measured = [name for name in SECTIONS if name not in ("compiler", "execution")]
    for section in sections_of(attempt, measured, SELECTED_CAPS):
        yield f"--- {section.name} ---"
        for text in (section.said, section.quoted):
            yield from printable(text).splitlines()


def value_text(value: Any) -> str:
    """A setting, or a field of an event, as ``--set`` takes it."""
    return printable(value if isinstance(value, str) else json.dumps(value))


def set_words(changed: Mapping[str, Any]) -> str:
    """``search.epsilon=0.9, search.root_throttle=null``."""
    return ", ".join(f"{key}={value_text(value)}" for key, value in changed.items())


def ms(value: float) -> str:
    """A runtime with four digits: 0.01234 ms, 12.34 ms."""
    return f"{value:.4g} ms"


def loop_words(eager_speedup: float | None) -> str:
    """``, 3.10× in a loop``, to stand behind a speedup; empty where the two are one."""
    return "" if eager_speedup is None else f", {eager_speedup:.2f}× in a loop"


def worst_words(worst: SetScore | None) -> str:
    """``, worst 0.93× on long``, behind a speedup; empty where there is one set of inputs."""
    return "" if worst is None else f", worst {worst.speedup:.2f}× on {printable(worst.name)}"


def input_set_lines(outcome: Outcome | None) -> Iterator[str]:
    """Each input set's speedup, a line each; none where there is one set of inputs."""
    for each in outcome.sets if isinstance(outcome, Correct) else ():
        words = f"on {printable(each.name)} {each.speedup:.2f}×"
        words += f" ({each.speedup_low:.2f}–{each.speedup_high:.2f})"
        words += f": {ms(each.candidate_ms)} a call against {ms(each.baseline_ms)}"
        yield words + loop_words(each.eager_speedup) + (", hidden" if each.hidden else "")


def loop_line(outcome: Outcome | None) -> str:
    """What calls in a loop took both sides; empty where none were timed."""
    if not isinstance(outcome, Correct) or outcome.eager_speedup is None:
        return ""
    words = f"in a loop {outcome.eager_speedup:.2f}×"
    if outcome.eager_low is not None and outcome.eager_high is not None:
        words += f" ({outcome.eager_low:.2f}–{outcome.eager_high:.2f})"
    if outcome.eager_ms is not None and outcome.eager_baseline_ms is not None:
        words += f": {ms(outcome.eager_ms)} a call against {ms(outcome.eager_baseline_ms)}"
    return words


def audit_lines(overview: Overview) -> Iterator[str]:
    """What is wrong with the task, a line each; none where nothing is known to be."""
    for found in overview.audit or ():
        yield f"the task's audit: {printable(found)}"


def moment_words(moment: str) -> str:
    """``2026-11-21 14:03 UTC`` of ``2026-11-21T14:03:00Z``; anything else stays as it is."""
    if len(moment) != len("2026-11-21T14:03:00Z") or not moment.endswith("Z"):
        return printable(moment)
    return printable(f"{moment[:10]} {moment[11:16]} UTC")


def kept_words(measured_at: str) -> str:
    """Behind a figure of an earlier run: ``  (measured before, 2026-11-21 14:03 UTC)``."""
    return f"  (measured before{f', {moment_words(measured_at)}' if measured_at else ''})"


def baseline_words(measured: BaselineMeasured) -> str:
    """``3.1 ms compile``; a compiled baseline that failed says how."""
    if measured.runtime_ms is not None:
        compiled = measured.baseline != "eager"
        less = compiled and measured.conditions.get("cudnn_tf32") is False
        words = f"{ms(measured.runtime_ms)} {measured.baseline}{' without TF32' if less else ''}"
        return words + labels_words(measured.labels)
    how = outcome_line(measured.outcome, None, None) if measured.outcome else "not measured"
    return f"({measured.baseline}: {how})"


def outcome_line(outcome: Outcome, runtime_ms: float | None, root_ms: float | None) -> str:
    """An outcome in a few words."""
    if isinstance(outcome, Correct) and runtime_ms is not None:
        speedup = f"  {root_ms / runtime_ms:.2f}×" if root_ms else ""
        speedup += loop_words(outcome.eager_speedup) + worst_words(outcome.worst_set)
        return f"{ms(runtime_ms)}{speedup}{labels_words(outcome.labels)}{memory_mark(outcome)}"
    tag = str(outcome.__struct_config__.tag).replace("_", " ")
    reason = outcome.reason.splitlines()[0] if outcome.reason else ""
    if isinstance(outcome, WrongResult) and not reason and outcome.max_abs_error is not None:
        reason = f"max abs error {outcome.max_abs_error:.3g}"
    return printable(f"{tag}: {reason}" if reason else tag)


def tree_lines(overview: Overview, *, color: bool = False, width: int = 100) -> Iterator[str]:
    """The tree, a line each node: number, role, outcome, and marks at the best and dead ones;
    below the root what the task's audit found."""
    tree = overview.tree
    if ROOT not in tree.nodes:
        yield "(the run has not started)"
        return
    best = tree.best
    dead = {branch.node for branch in dead_branches(overview)}
    # Not Node.children: an abandoned attempt is no child, but people want to see it.
    children: dict[int, list[Node]] = {}
    for node in tree.nodes.values():
        if node.parent is not None:
            children.setdefault(node.parent, []).append(node)
    # A stack, not recursion: a search can go a thousand levels deep.
    stack: list[tuple[Node, str, str]] = [(tree.root, "", "")]
    while stack:
        node, lead, below = stack.pop()
        text = _node_text(overview, node)
        mark = "  ← best" if best is not None and node.id == best.id else ""
        mark += _steered(overview, node.id)
        mark += "  † dead branch" if node.id in dead else ""
        line = lead + text
        line = line if len(line) <= width else line[: width - 1] + "…"
        yield click.style(line, fg=_color(node)) + mark if color else line + mark
        shown = children.get(node.id, [])
        if node.id == ROOT:
            yield from (f"{'│' if shown else ' '}    {told}" for told in audit_lines(overview))
        for index in range(len(shown) - 1, -1, -1):
            last = index == len(shown) - 1
            stack.append(
                (
                    shown[index],
                    below + ("└─ " if last else "├─ "),
                    below + ("   " if last else "│  "),
                )
            )


def _steered(overview: Overview, node: int) -> str:
    steering = overview.steering
    words = [("banned", node in steering.banned), ("pinned", node == steering.pinned)]
    return "".join(f"  ({word})" for word, holds in words if holds)


def _node_text(overview: Overview, node: Node) -> str:
    root_ms = overview.tree.root.runtime_ms
    if node.id == ROOT:
        words = ", ".join(map(baseline_words, overview.baselines.values()))
        return f"0 reference  {words or '(not measured)'}"
    match node.status:
        case "abandoned":
            return f"{node.id} {node.made}  abandoned: {printable(node.abandoned_because)}"
        case "expanding":
            again = f", asked again: {printable(node.rejection)}" if node.rejection else ""
            return f"{node.id} {node.made}  … {overview.stages.get(node.id, '')}{again}"
    assert node.outcome is not None
    same = "" if node.same_as is None else f"same as {node.same_as}: "
    outcome = with_labels(node.outcome, node.labels)
    return f"{node.id} {node.made}  {same}{outcome_line(outcome, node.runtime_ms, root_ms)}"


def _color(node: Node) -> str | None:
    if node.id == ROOT:
        return "cyan"
    if not node.evaluated:
        return "bright_black"
    return "red" if node.failed else "green"


def saved_line(summary: Summary) -> str:
    """What replies of replacements alone have saved."""
    return (
        f"about {summary.saved_tokens_estimate} output tokens of source that was not repeated (an"
        " estimate, at four characters a token)"
    )


def taken_line(summary: Summary) -> str:
    """Which verdicts were not given anew; empty where all were."""
    parts = [
        (summary.duplicates, "repeat an earlier attempt's source and have its verdict"),
        (summary.cached_verdicts, "have the verdict that an earlier run kept"),
    ]
    return "; ".join(f"{count} {words}" for count, words in parts if count)


def percent(share: float | None) -> str:
    """``62 %``; a dash where there is none."""
    return "–" if share is None else whole_percent(share)
