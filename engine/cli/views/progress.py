"""Progress of a run on stderr: live on a terminal, plain lines elsewhere, JSON, or none.

Fed by the projection of the log, never by the search itself: what is shown has been
appended.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Protocol, cast

import anyio
import click

from engine.cli.views.draw import (
    CANNED,
    json_line,
    loop_words,
    ms,
    outcome_line,
    printable,
    tree_lines,
)
from engine.cli.views.event_lines import step_line
from engine.core.state import State
from events.bodies import (
    AgentFailed,
    AttemptAbandoned,
    BaselineMeasured,
    CapabilityLearned,
    DeviceQuarantined,
    EvaluationFaulted,
    EvaluationFinished,
    HintGiven,
    HintWithdrawn,
    NodeBanned,
    NodePinned,
    NodeSelected,
    NodeUnbanned,
    NodeUnpinned,
    ReplyDeferred,
    ReplyNotTaken,
    ReplyRejected,
    RunPaused,
    TaskRejected,
)
from events.envelope import Event
from gpu_sandbox.api.evaluator import DeviceLoad
from projections.candidate.labels import labels_words, with_labels
from projections.run.overview import Overview

__all__ = ["Display", "open_display"]

Load = Callable[[], DeviceLoad]
_STEERED = {
    body.TYPE
    for body in (HintGiven, HintWithdrawn, NodeBanned, NodePinned, NodeUnbanned, NodeUnpinned)
}


class Display(Protocol):
    """Watches events; ``shown`` is entered, and ``keep_fresh`` runs, while the run works."""

    def observe(self, event: Event, state: State) -> None: ...

    def shown(self) -> AbstractContextManager[Any]: ...

    async def keep_fresh(self) -> None: ...


def open_display(kind: str, overview: Overview, load: Load) -> Display:
    """``live``, ``plain``, ``json`` or ``none``; ``auto`` picks live on a terminal."""
    if kind == "auto":
        kind = "live" if sys.stderr.isatty() else "plain"
    match kind:
        case "live":
            return _Live(overview, load)
        case "plain":
            return _Plain(overview, load)
        case "json":
            return _Json(overview)
        case _:
            return _Silent(overview)


class _Silent:
    def __init__(self, overview: Overview) -> None:
        self.overview = overview

    def observe(self, event: Event, state: State) -> None:
        self.overview.apply(event)

    def shown(self) -> AbstractContextManager[Any]:
        return nullcontext()

    async def keep_fresh(self) -> None:
        pass


class _Json(_Silent):
    """Every event as one line of JSON."""

    def observe(self, event: Event, state: State) -> None:
        super().observe(event, state)
        line = {"run_seq": event.run_seq, "type": event.type, "ts_us": event.ts_us}
        _tell(json_line({**line, "body": event.body}))


class _Plain(_Silent):
    """A line for whatever people wait for."""

    def __init__(self, overview: Overview, load: Load) -> None:
        super().__init__(overview)
        self._load = load
        self._began = time.monotonic()

    def observe(self, event: Event, state: State) -> None:
        super().observe(event, state)
        line = event_line(self.overview, event)
        if line is not None:
            elapsed = time.monotonic() - self._began
            _tell(f"{elapsed:7.1f}s  {line}{self._flight()}")

    def _flight(self) -> str:
        stages = flight(self.overview, self._load())
        return f"   [{stages}]" if stages else ""


class _Live(_Silent):
    """A panel that is redrawn a few times a second."""

    def __init__(self, overview: Overview, load: Load) -> None:
        super().__init__(overview)
        self._load = load
        self._news: list[str] = []
        self._live: Any = None

    def observe(self, event: Event, state: State) -> None:
        super().observe(event, state)
        line = event_line(self.overview, event)
        if line is not None:
            self._news = [*self._news[-4:], line]

    def shown(self) -> AbstractContextManager[Any]:
        # Imported late: rich costs more than the rest of the command line together.
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        console = Console(stderr=True)

        def draw() -> Text:
            return Text("\n".join(self._lines(console.size.height, console.size.width)))

        # Drawn by ``keep_fresh`` on the event loop: a thread of rich's own would read the
        # projection while an event is being folded into it.
        self._live = Live(
            get_renderable=draw, console=console, auto_refresh=False, transient=True,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        return cast("AbstractContextManager[Any]", self._live)

    async def keep_fresh(self) -> None:
        while True:
            self._live.refresh()
            await anyio.sleep(0.25)

    def _lines(self, height: int, width: int) -> list[str]:
        overview = self.overview
        head = [counts(overview), f"in flight  {flight(overview, self._load()) or '–'}"]
        if overview.started and overview.started.canned:
            head.insert(0, CANNED)
        tree = list(tree_lines(overview, width=max(20, width - 10)))
        room = max(4, height - len(head) - len(self._news) - 3)
        if len(tree) > room:
            tree = [*tree[: room // 2], "  …", *tree[-(room - room // 2 - 1) :]]
        return [*tree, "", *self._news, "", *head]


def _tell(line: str) -> None:
    """A line on stderr. A closed stderr is no reason to lose paid calls."""
    with suppress(OSError):
        click.echo(line, err=True)


def event_line(overview: Overview, event: Event) -> str | None:
    """What happened, for people; None for what they need not see."""
    body = event.body
    match body:
        case BaselineMeasured():
            return printable(step_line(body))
        case TaskRejected():
            return f"task rejected: {printable(body.reason)}"
        case NodeSelected(rule="given"):
            return step_line(body)
        case NodeSelected():
            made = overview.tree[body.attempt].made
            return f"attempt {body.attempt} from node {body.node} ({body.rule}): {made}"
        case EvaluationFinished():
            node = overview.tree[body.attempt]
            shown = with_labels(body.outcome, node.labels)
            outcome = outcome_line(shown, node.runtime_ms, overview.tree.root.runtime_ms)
            best = overview.best
            top = f", best {best.speedup:.2f}×{loop_words(best.eager_speedup)}" if best else ""
            return f"{progress(overview)} attempt {body.attempt}: {outcome}{top}"
        case AttemptAbandoned():
            why = printable(overview.tree[body.attempt].abandoned_because)
            return f"{progress(overview)} attempt {body.attempt} abandoned: {why}"
        case ReplyRejected():
            return printable(step_line(body))
        case CapabilityLearned():
            return printable(step_line(body))
        case AgentFailed(error="capability"):
            return None  # the lesson was told
        case AgentFailed():
            return f"attempt {body.attempt}: {body.role} call failed: {printable(body.message)}"
        case ReplyDeferred():
            where = f"batch {body.batch}" if body.batch else f"{body.place}/{body.name}.md"
            return printable(f"attempt {body.attempt}: {body.role} asked in {where}")
        case ReplyNotTaken():
            return printable(f"{body.file.name} is not taken: {body.reason}")
        case EvaluationFaulted():
            return f"attempt {body.attempt}: sandbox fault: {printable(body.message)}"
        case DeviceQuarantined():
            return f"{body.device} is quarantined: {printable(body.reason)}"
        case RunPaused():
            return f"paused: {printable(body.reason)}"
    if body.TYPE in _STEERED:
        return step_line(body)
    return None


def progress(overview: Overview) -> str:
    """``[ 3/30]``: attempts done of those allowed."""
    allowed = overview.attempts_allowed
    return f"[{overview.ended:>{len(str(allowed))}}/{allowed}]"


def counts(overview: Overview) -> str:
    """Attempts, best and spend on one line."""
    total, best = overview.spend.total, overview.best
    top = "no correct kernel yet"
    if best:
        labels = labels_words(best.labels)
        speed = f"{best.speedup:.2f}×{loop_words(best.eager_speedup)}"
        top = f"best {speed} ({ms(best.runtime_ms)}){labels}"
    return (
        f"{progress(overview)} attempts, {overview.compiled} compiled, {overview.correct} correct,"
        f" {top}, ${total.usd_micros / 1e6:.2f}, {total.input_tokens + total.output_tokens} tokens"
    )


def flight(overview: Overview, load: DeviceLoad) -> str:
    """What is in flight by stage, and the queue at the device."""
    stages = [f"{attempt} {stage}" for attempt, stage in sorted(overview.stages.items())]
    if load.compiling or load.waiting_for_device or load.on_device:
        stages.append(
            f"compiling {load.compiling}, waiting for device {load.waiting_for_device},"
            f" on device {load.on_device}"
        )
    return "; ".join(stages)
