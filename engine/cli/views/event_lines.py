"""Events as lines of text: the steps of a search, as ``replay`` and ``tail`` print them."""

from __future__ import annotations

import msgspec

from engine.cli.views.draw import baseline_words, kept_words, loop_words, set_words
from events.bodies import (
    AgentCalled,
    AgentReplied,
    AttemptAbandoned,
    BaselineMeasured,
    Body,
    CapabilityLearned,
    EvaluationFinished,
    HintGiven,
    HintWithdrawn,
    NodeBanned,
    NodePinned,
    NodeSelected,
    NodeUnbanned,
    NodeUnpinned,
    ReplyDeferred,
    ReplyRejected,
    RunForked,
    RunStopped,
    StopRequested,
)
from projections.candidate.labels import labels_of, labels_words

__all__ = ["event_line", "step_line"]


def step_line(body: Body) -> str:
    """A step of the search; empty for an event that is none."""
    match body:
        case BaselineMeasured():
            found = "".join(f"; the task's audit: {finding}" for finding in body.audit)
            kept = kept_words(body.measured_at) if body.cached else ""
            return f"the reference takes {baseline_words(body)}{kept}{found}"
        case RunForked():
            return f"forked from {body.parent}: {set_words(body.changed) or 'nothing set'}"
        case NodeSelected(rule="given"):
            return f"attempt {body.attempt} is the kernel that the user gave"
        case NodeSelected():
            repair = ", a repair" if body.repair else ""
            return f"attempt {body.attempt} from node {body.node} ({body.rule}){repair}"
        case AgentCalled():
            again = f", asking {body.ask + 1}" if body.ask else ""
            again += f", try {body.try_}" if body.try_ > 1 else ""
            return f"attempt {body.attempt}: {body.role} sees {body.window}{again}"
        case AgentReplied() if body.reused is not None:
            return f"attempt {body.attempt}: {body.role}, a recorded reply, event {body.reused}"
        case ReplyRejected():
            why = " ".join(body.reason.split())
            return f"attempt {body.attempt}: the {body.role} reply can't be used: {why}"
        case ReplyDeferred():
            return f"attempt {body.attempt}: {body.role} asked in {body.batch or body.place}"
        case CapabilityLearned():
            return _lesson(body)
        case EvaluationFinished():
            return _verdict_line(body)
        case AttemptAbandoned():
            return f"attempt {body.attempt}: abandoned, {body.reason}"
        case RunStopped():
            return f"{body.status}: {body.reason}, best {body.best}"
    return _steering_line(body)


def _verdict_line(body: EvaluationFinished) -> str:
    tag = str(body.outcome.__struct_config__.tag).replace("_", " ")
    runtime = getattr(body.outcome, "runtime_ms", None)
    source = "" if body.reused is None else f" (the parent's verdict, event {body.reused})"
    if body.same_as is not None:
        source = f" (the same source as attempt {body.same_as}, not judged again)"
    elif body.cached:
        source = " (judged before)"
    line = f"attempt {body.attempt}: {tag}" + (f", {runtime:.4g} ms" if runtime else "")
    line += loop_words(getattr(body.outcome, "eager_speedup", None))
    return line + labels_words(labels_of(body.outcome, body.notes)) + source


def _steering_line(body: Body) -> str:
    """What the user changed; empty for any other event."""
    match body:
        case HintGiven():
            return f"the user gives hint {body.hint}"
        case HintWithdrawn():
            return f"the user withdraws hint {body.hint}"
        case NodeBanned():
            return f"the user bans node {body.node}"
        case NodeUnbanned():
            return f"the user lifts the ban of node {body.node}"
        case NodePinned():
            return f"the user pins node {body.node}"
        case NodeUnpinned():
            return f"the user unpins node {body.node}"
        case StopRequested(after_attempts=True):
            return f"{body.source}: the run is to end after the attempts in flight"
    return ""


def _lesson(body: CapabilityLearned) -> str:
    if body.limit is None:
        return f"{body.model} does not take {body.param}: it is asked without it"
    if body.param == "context":
        return (
            f"{body.model} has room for {body.limit} tokens: no more output is asked for than fits"
        )
    return f"{body.model} puts out {body.limit} tokens at most: no more are asked for"


def event_line(body: Body) -> str:
    """Any event: one that is no step with its attempt and its reason."""
    return step_line(body) or _brief(msgspec.structs.asdict(body))


def _brief(body: dict[str, object]) -> str:
    """The attempt, and the texts that say why."""
    about = f"attempt {body['attempt']}: " if "attempt" in body else ""
    words = [
        str(body[key]).splitlines()[0]
        for key in ("title", "role", "error", "message", "source", "reason", "budget", "device")
        if body.get(key) and isinstance(body[key], str)
    ]
    return f"{about}{', '.join(words)}".removesuffix(": ")
