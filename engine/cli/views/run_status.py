"""How a run stands, in lines for people. Pure functions of projections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine.cli.views.draw import (
    CANNED,
    baseline_words,
    kept_words,
    loop_words,
    ms,
    percent,
    printable,
    saved_line,
    set_words,
    taken_line,
    worst_words,
)
from events.bodies import BaselineMeasured, GivenKernel
from projections.candidate.labels import labels_words
from projections.candidate.memory import memory_words
from projections.run.overview import Overview
from projections.run.pool import PoolSummary
from projections.run.spend import priced_by
from projections.run.summary import Best, Fork, Summary
from projections.run.team import models_of, models_words
from projections.search.signatures import Signatures, signatures_of

__all__ = [
    "awaited_lines",
    "best_line",
    "by_agents",
    "fork_line",
    "given_line",
    "otherwise_line",
    "planner_lines",
    "pool_lines",
    "signature_lines",
    "status_lines",
]


_MAX_REJECTIONS = 3
_SCORES = {"device": "by device time", "eager": "by calls in a loop"}


def awaited_lines(summary: Summary) -> Iterator[str]:
    """The requests whose replies come later, a line each."""
    for each in summary.awaited:
        where = f"batch {each.batch}" if each.batch else f"{each.place}/{each.name}.md"
        again = f"; asked again: {each.rejection}" if each.rejection else ""
        doubt = f"; {each.doubt}" if each.doubt else ""
        yield printable(f"{where}  ({each.role} of attempt {each.attempt}{again}{doubt})")


def best_line(summary: Summary) -> str:
    """The best kernel on one line."""
    best = summary.best
    if best is None:
        return "no correct kernel yet" if summary.status == "running" else "no correct kernel"
    others = "".join(
        f", {speedup:.2f}× {kind}" for kind, speedup in best.speedups.items() if kind != "eager"
    )
    given = ", the user's kernel" if best.given else ""
    memory = memory_words(best.peak_bytes, best.reference_peak_bytes)
    return (
        f"attempt {best.node}{given}: {ms(best.runtime_ms)}, {best.speedup:.2f}× the speed of eager"
        f" ({ms(best.baseline_ms)}){others}{loop_words(best.eager_speedup)}{_by(best)}"
        f"{worst_words(best.worst_set)}"
        f"{labels_words(best.labels)}{memory and f'; {memory}'}"
    )


def _by(best: Best) -> str:
    """Which of two speedups it is the best by; empty where the two are one."""
    return "" if best.eager_speedup is None else f", best {_SCORES[best.score]}"


def otherwise_line(best: Best, other: Best) -> str:
    """The kernel that is better by the other score, with both figures of both."""
    told = [
        f"attempt {each.node} {each.speedup:.2f}×{loop_words(each.eager_speedup)}"
        for each in (other, best)
    ]
    return f"another is better {_SCORES[other.score]}: {told[0]}; the best, {told[1]}"


def by_agents(summary: Summary) -> str:
    """How many attempts figures count, where the user's kernel is one of the attempts."""
    same = summary.attempts_by_agents == summary.attempts
    return "" if same else f", {summary.attempts_by_agents} by agents"


def given_line(given: GivenKernel) -> str:
    """Which attempt is not a model's."""
    return f"attempt 1 is the user's kernel, {printable(given.name)}"


def fork_line(fork: Fork) -> str:
    """Where a fork comes from, what was set, and who answered since."""
    parts = [
        f"of {fork.parent} at event {fork.at}: {set_words(fork.changed) or 'nothing set'}",
        f"shares {fork.shared_attempts} attempts, ${fork.shared_cost_usd:.4f}",
        f"replies since: {fork.recorded_replies} out of the log, {fork.live_replies} live",
        f"verdicts since: {fork.recorded_evaluations} out of the log, {fork.new_evaluations} new",
    ]
    return printable("; ".join(parts))


def signature_lines(found: Signatures) -> Iterator[str]:
    """The failure signatures that were recognised, a line each."""
    root = found.root
    if root.dominates:
        yield (
            f"root dominance: none of {root.held_for} judged candidates is faster than the"
            " reference"
        )
    for dead in found.dead_branches:
        left = "left alone" if dead.pruned else "not pruned here"
        yield f"dead branch: node {dead.node}, all {dead.children} children failed; {left}"
    closed = [gap for gap in found.gaps if gap.closed_by is not None]
    if closed:
        words = ", ".join(f"{gap.instruction} by {gap.closed_by}" for gap in closed)
        yield f"planning-implementation gap, closed by a repair: {words}"
    if found.open_gaps:
        words = ", ".join(
            f"{gap.instruction} ({len(gap.attempts)} tried)" if len(gap.attempts) > 1
            else str(gap.instruction)
            for gap in found.open_gaps
        )  # fmt: skip
        yield f"planning-implementation gap, open: {words}"


def _baseline_status(measured: BaselineMeasured) -> str:
    kept = kept_words(measured.measured_at) if measured.cached else ""
    return baseline_words(measured) + kept


def status_lines(
    overview: Overview, summary: Summary, hints: Mapping[int, str] | None = None
) -> Iterator[str]:
    """``engine status`` for people. ``hints`` are the texts of those in force."""
    started = overview.started
    config = started.config if started else {}
    reason = f" ({summary.reason})" if summary.reason else ""
    yield f"run        {summary.run}  {summary.log}"
    if started:
        sandbox = config["sandbox"]
        device = f"{sandbox['device']} ({started.device.get('name', '?')})"
        task = printable(started.task_name)
        yield f"task       {task} on {device}, protocol {sandbox['protocol']}"
        method, policy = config["search"]["method"], config["search"]["policy"]
        words = method if method == policy else f"{method}, policy {policy},"
        yield f"method     {words} with {printable(models_words(models_of(config)))}"
    if summary.canned:
        yield f"           {CANNED}"
    if summary.given is not None:
        yield f"start      {given_line(summary.given)}"
    if summary.fork is not None:
        yield f"fork       {fork_line(summary.fork)}"
    yield f"status     {summary.status}{printable(reason)}"
    for line in awaited_lines(summary):
        yield f"awaited    {line}"
    yield (
        f"attempts   {summary.attempts} of {overview.attempts_allowed}{by_agents(summary)}:"
        f" {summary.compiled} compiled, {summary.correct} correct, {summary.abandoned} abandoned"
    )
    yield from rejection_lines(overview)
    if taken := taken_line(summary):
        yield f"not judged {taken}"
    for hint, text in (hints or {}).items():
        yield f"hint {hint:<6} {' '.join(printable(text).split())}"
    if overview.steering.banned:
        yield f"banned     {', '.join(map(str, sorted(overview.steering.banned)))}"
    if overview.steering.pinned is not None:
        yield f"pinned     {overview.steering.pinned}"
    if overview.steering.stop_after is not None:
        yield "ends       after the attempts in flight"
    for device, why in summary.quarantined.items():
        yield f"quarantine {device}: {printable(why)}"
    if overview.stages and summary.status == "running":
        flying = ", ".join(f"{attempt} ({stage})" for attempt, stage in overview.stages.items())
        yield f"in flight  {flying}"
    if overview.baselines:
        yield f"baselines  {', '.join(map(_baseline_status, overview.baselines.values()))}"
    for found in summary.audit or ():
        yield f"audit      {printable(found)}"
    yield f"best       {best_line(summary)}"
    yield from planner_lines(overview)
    for line in signature_lines(signatures_of(overview)):
        yield f"signature  {line}"
    if summary.pool is not None:
        yield from pool_lines(summary.pool)
    unpriced = f" + {summary.unpriced_calls} unpriced calls" if summary.unpriced_calls else ""
    uncounted = ""
    if summary.uncounted_calls:
        uncounted = f" (not reported by {summary.uncounted_calls} of the calls)"
    yield (
        f"spent      ${summary.cost_usd:.4f}{unpriced}, {summary.tokens['input']} input and"
        f" {summary.tokens['output']} output tokens{uncounted},"
        f" {summary.device_s:.0f} s of device time, {summary.wall_s:.0f} s at work"
    )
    if started and (of := priced_by(started)):
        yield f"prices     {printable(of)}"
    if summary.saved_tokens_estimate:
        yield f"saved      {saved_line(summary)}"


def rejection_lines(overview: Overview) -> Iterator[str]:
    """Attempts that bad replies ended, or that are asked again for one; the newest few."""
    nodes = [node for node in overview.tree.nodes.values() if node.rejection]
    for node in nodes[-_MAX_REJECTIONS:]:
        what = "abandoned" if node.status == "abandoned" else "asked again"
        yield f"reply      attempt {node.id}, {what}: {printable(node.rejection)}"
    if len(nodes) > _MAX_REJECTIONS:
        yield f"reply      … and {len(nodes) - _MAX_REJECTIONS} earlier attempts"


def planner_lines(overview: Overview) -> Iterator[str]:
    """What became of each planner's plans, where there are several."""
    arms = overview.planners.arms
    for model, arm in arms.items() if len(arms) > 1 else ():
        found = arm.summary()
        told = f"{found.pulls} pulls"
        told += f" and {found.in_flight} in flight" if found.in_flight else ""
        told += "" if found.mean_reward is None else f", mean reward {found.mean_reward:.2f}"
        told += ", unknown dollars" if found.cost_usd is None else f", ${found.cost_usd:.4f}"
        told += ", unknown tokens" if found.tokens is None else f", {found.tokens} tokens"
        yield f"planner    {printable(model)}: {told}"


def pool_lines(pool: PoolSummary) -> Iterator[str]:
    """How busy devices and compilers were, and where the time of evaluations went."""
    lease = "" if pool.median_lease_s is None else f", median lease {pool.median_lease_s:.2f} s"
    rate = pool.evaluations_per_hour
    yield (
        f"busy       devices {percent(pool.device_busy)}, compilers {percent(pool.compile_busy)};"
        f" {'–' if rate is None else f'{rate:.0f}'} evaluations an hour{lease}"
    )
    if pool.device_queue is not None and pool.compile_queue is not None:
        queues = [
            f"{name} {queue.now} now, {queue.mean:.1f} on average, {queue.most} at most"
            for name, queue in (("device", pool.device_queue), ("compilers", pool.compile_queue))
        ]
        yield f"queues     {'; '.join(queues)}"
    if pool.shares:
        shares = {stage: percent(share) for stage, share in pool.shares.items()}
        prepare = f" prepare {shares['prepare']}," if pool.seconds["prepare"] else ""
        yield (
            f"time       compile {shares['compile']},{prepare} queue {shares['queue']},"
            f" lease {shares['lease']} (check {shares['check']}, bench {shares['bench']}),"
            f" autopsy {shares['autopsy']}"
        )
