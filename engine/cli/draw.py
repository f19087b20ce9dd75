"""Text for people: the tree, a status, one attempt. Pure functions of projections."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import click

from events.bodies import BaselineMeasured
from events.observations import SECTIONS
from events.outcomes import Correct, Outcome, WrongResult
from projections.overview import Fork, Overview, Summary
from projections.pool import PoolSummary
from projections.sections import SELECTED_CAPS, Attempt, sections_of
from projections.team import models_of
from projections.tree import ROOT, Node

__all__ = [
    "CANNED",
    "awaited_lines",
    "baseline_words",
    "best_line",
    "fork_line",
    "ms",
    "outcome_line",
    "pool_lines",
    "printable",
    "resume_line",
    "saved_line",
    "section_lines",
    "set_words",
    "status_lines",
    "taken_line",
    "tree_lines",
    "use_color",
    "value_text",
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


def awaited_lines(summary: Summary) -> Iterator[str]:
    """The requests whose replies come later, a line each."""
    for each in summary.awaited:
        where = f"batch {each.batch}" if each.batch else f"{each.place}/{each.name}.md"
        doubt = f"; {each.doubt}" if each.doubt else ""
        yield printable(f"{where}  ({each.role} of attempt {each.attempt}{doubt})")


def printable(text: str) -> str:
    """Text from outside without control characters: a model must not steer the terminal."""
    return "".join(
        char if char in "\n\t" or (char.isprintable() and char != "\x7f") else "�" for char in text
    )


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


def baseline_words(measured: BaselineMeasured) -> str:
    """``3.1 ms compile``; a compiled baseline that failed says how."""
    if measured.runtime_ms is not None:
        return f"{ms(measured.runtime_ms)} {measured.baseline}"
    how = outcome_line(measured.outcome, None, None) if measured.outcome else "not measured"
    return f"({measured.baseline}: {how})"


def outcome_line(outcome: Outcome, runtime_ms: float | None, root_ms: float | None) -> str:
    """An outcome in a few words."""
    if isinstance(outcome, Correct) and runtime_ms is not None:
        speedup = f"  {root_ms / runtime_ms:.2f}×" if root_ms else ""
        return f"{ms(runtime_ms)}{speedup}"
    tag = str(outcome.__struct_config__.tag).replace("_", " ")
    reason = outcome.reason.splitlines()[0] if outcome.reason else ""
    if isinstance(outcome, WrongResult) and not reason and outcome.max_abs_error is not None:
        reason = f"max abs error {outcome.max_abs_error:.3g}"
    return printable(f"{tag}: {reason}" if reason else tag)


def tree_lines(overview: Overview, *, color: bool = False, width: int = 100) -> Iterator[str]:
    """The tree, a line each node: number, role, outcome, and a mark at the best."""
    tree = overview.tree
    if ROOT not in tree.nodes:
        yield "(the run has not started)"
        return
    best = tree.best
    # Not Node.children: an abandoned attempt is nobody's child, but people want to see it.
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
        line = lead + text
        line = line if len(line) <= width else line[: width - 1] + "…"
        yield click.style(line, fg=_color(node)) + mark if color else line + mark
        shown = children.get(node.id, [])
        for index in range(len(shown) - 1, -1, -1):
            last = index == len(shown) - 1
            stack.append(
                (
                    shown[index],
                    below + ("└─ " if last else "├─ "),
                    below + ("   " if last else "│  "),
                )
            )


def _node_text(overview: Overview, node: Node) -> str:
    root_ms = overview.tree.root.runtime_ms
    if node.id == ROOT:
        words = ", ".join(map(baseline_words, overview.baselines.values()))
        return f"0 reference  {words or '(not measured)'}"
    match node.status:
        case "abandoned":
            return f"{node.id} {node.made}  abandoned: {printable(node.reason)}"
        case "expanding":
            return f"{node.id} {node.made}  … {overview.stages.get(node.id, '')}"
    assert node.outcome is not None
    same = "" if node.same_as is None else f"same as {node.same_as}: "
    return f"{node.id} {node.made}  {same}{outcome_line(node.outcome, node.runtime_ms, root_ms)}"


def _color(node: Node) -> str | None:
    if node.id == ROOT:
        return "cyan"
    if not node.evaluated:
        return "bright_black"
    return "red" if node.failed else "green"


def best_line(summary: Summary) -> str:
    """The best kernel on one line."""
    best = summary.best
    if best is None:
        return "no correct kernel yet" if summary.status == "running" else "no correct kernel"
    others = "".join(
        f", {speedup:.2f}× {kind}" for kind, speedup in best.speedups.items() if kind != "eager"
    )
    return (
        f"attempt {best.node}: {ms(best.runtime_ms)}, {best.speedup:.2f}× the speed of eager"
        f" ({ms(best.baseline_ms)}){others}"
    )


def fork_line(fork: Fork) -> str:
    """Where a fork comes from, what was set, and who answered since."""
    parts = [
        f"of {fork.parent} at event {fork.at}: {set_words(fork.changed) or 'nothing set'}",
        f"shares {fork.shared_attempts} attempts, ${fork.shared_cost_usd:.4f}",
        f"replies since: {fork.recorded_replies} out of the log, {fork.live_replies} live",
        f"verdicts since: {fork.recorded_evaluations} out of the log, {fork.new_evaluations} new",
    ]
    return printable("; ".join(parts))


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


def _baseline_status(measured: BaselineMeasured) -> str:
    return baseline_words(measured) + (" (measured before)" if measured.cached else "")


def status_lines(overview: Overview, summary: Summary) -> Iterator[str]:
    """``engine status`` for people."""
    started = overview.started
    config = started.config if started else {}
    reason = f" ({summary.reason})" if summary.reason else ""
    yield f"run        {summary.run}  {summary.log}"
    if started:
        sandbox = config["sandbox"]
        device = f"{sandbox['device']} ({started.device.get('name', '?')})"
        yield f"task       {started.task_name} on {device}, protocol {sandbox['protocol']}"
        models = sorted(set(models_of(config).values()))
        method, policy = config["search"]["method"], config["search"]["policy"]
        words = method if method == policy else f"{method}, policy {policy},"
        yield f"method     {words} with {', '.join(models)}"
    if summary.canned:
        yield f"           {CANNED}"
    if summary.fork is not None:
        yield f"fork       {fork_line(summary.fork)}"
    yield f"status     {summary.status}{printable(reason)}"
    for line in awaited_lines(summary):
        yield f"awaited    {line}"
    done = f"{summary.attempts} of {overview.attempts_allowed}: {summary.compiled} compiled"
    yield f"attempts   {done}, {summary.correct} correct, {summary.abandoned} abandoned"
    if taken := taken_line(summary):
        yield f"not judged {taken}"
    for device, why in summary.quarantined.items():
        yield f"quarantine {device}: {printable(why)}"
    if overview.stages and summary.status == "running":
        flying = ", ".join(f"{attempt} ({stage})" for attempt, stage in overview.stages.items())
        yield f"in flight  {flying}"
    if overview.baselines:
        yield f"baselines  {', '.join(map(_baseline_status, overview.baselines.values()))}"
    yield f"best       {best_line(summary)}"
    if summary.pool is not None:
        yield from pool_lines(summary.pool)
    unpriced = f" + {summary.unpriced_calls} unpriced calls" if summary.unpriced_calls else ""
    uncounted = ""
    if summary.uncounted_calls:
        uncounted = f" (not reported by {summary.uncounted_calls} of the calls)"
    yield (
        f"spent      ${summary.cost_usd:.4f}{unpriced}, {summary.tokens['input']} input and"
        f" {summary.tokens['output']} output tokens{uncounted}, {summary.wall_s:.0f} s"
    )
    if summary.saved_tokens_estimate:
        yield f"saved      {saved_line(summary)}"


def pool_lines(pool: PoolSummary) -> Iterator[str]:
    """How busy devices and compilers were, and where the time of evaluations went."""
    lease = "" if pool.median_lease_s is None else f", median lease {pool.median_lease_s:.2f} s"
    rate = pool.evaluations_per_hour
    yield (
        f"busy       devices {_percent(pool.device_busy)}, compilers {_percent(pool.compile_busy)};"
        f" {'–' if rate is None else f'{rate:.0f}'} evaluations an hour{lease}"
    )
    if pool.device_queue is not None and pool.compile_queue is not None:
        queues = [
            f"{name} {queue.now} now, {queue.mean:.1f} on average, {queue.most} at most"
            for name, queue in (("device", pool.device_queue), ("compilers", pool.compile_queue))
        ]
        yield f"queues     {'; '.join(queues)}"
    if pool.shares:
        shares = {stage: _percent(share) for stage, share in pool.shares.items()}
        yield (
            f"time       compile {shares['compile']}, queue {shares['queue']},"
            f" lease {shares['lease']} (check {shares['check']}, bench {shares['bench']}),"
            f" autopsy {shares['autopsy']}"
        )


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"
