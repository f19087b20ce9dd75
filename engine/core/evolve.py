"""``evolve``: what an event changes. Total: any logged event folds, in log order."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from engine.config import config_from_log
from engine.core.attempts import fold_attempt
from engine.core.digest import mix_course
from engine.core.frontier import Frontier
from engine.core.returns import Returns
from engine.core.state import BudgetGrant, State
from events.bodies import (
    FORMAT,
    OLDER_FORMATS,
    BaselineMeasured,
    BaselineRequested,
    Body,
    BudgetExhausted,
    CapabilityLearned,
    DeadlineReached,
    EvaluationFaulted,
    NodeBanned,
    NodeUnbanned,
    RunForked,
    RunPaused,
    RunResumed,
    RunStarted,
    RunStopped,
    StopRequested,
    TaskRejected,
    WaitEnded,
)
from events.errors import NewerFormat, OlderFormat
from projections.run.capabilities import Known
from projections.search.tree import Node

__all__ = ["evolve"]


def evolve(state: State, body: Body) -> State:
    """Fold one event into ``state`` and return it. ``meta`` events change nothing."""
    if body.KIND == "meta":
        return state
    best = state.tree.best
    spent = state.spend.apply(body)
    if isinstance(body, RunStarted):
        _start(state, body)
    elif isinstance(body, RunForked):
        _fork(state, body)
    changed = state.tree.apply(body)
    state.planners.apply(body, state.tree, spent)
    if changed is not None:
        _index(state, changed)
        if changed.parent is not None:
            _index(state, state.tree[changed.parent])
        state.mix(body.TYPE, changed.id, changed.status, changed.runtime_ms, changed.source_key)
    else:
        state.mix(body.TYPE)
    if isinstance(body, RunForked):  # the tree may be scored otherwise now
        for node in state.tree.nodes.values():
            _index(state, node)
    _steer(state, body)
    _fold_run(state, body)
    fold_attempt(state, body)
    mix_course(state, getattr(body, "attempt", None))
    if state.tree.best is not best:
        state.last_improvement = state.attempts_ended
    return state


def _index(state: State, node: Node) -> None:
    """Tell what the policies look things up in that the node, or its children, changed."""
    state.frontier.update(node)
    if state.config.search.policy == "mcts":
        state.returns.update(state.tree, node)


def _steer(state: State, body: Body) -> None:
    if not state.steering.apply(body):
        return
    if isinstance(body, NodeBanned | NodeUnbanned) and body.node in state.tree.nodes:
        _index(state, state.tree[body.node])
    steering = state.steering
    state.mix(
        [(hint, steering.texts[hint]) for hint in steering.hints],
        sorted(steering.banned), steering.pinned, steering.stop_after,
    )  # fmt: skip


def _check_format(started: RunStarted) -> None:
    """Refuse a run that was searched by rules, or with draws, that are not this engine's."""
    if started.format == FORMAT:
        return
    wrote = started.versions.get("engine", started.format)
    if started.format in OLDER_FORMATS:
        raise OlderFormat(
            f"written by engine {wrote}, whose random draws were other ones: it can be read,"
            " reported and exported, but not replayed, resumed, forked or steered; use engine"
            f" {started.format}.x for that"
        )
    raise NewerFormat(
        f"written by engine {wrote} in format {started.format}, which this engine does not know:"
        " update engine"
    )


def _start(state: State, started: RunStarted) -> None:
    """Begin under a configuration, or go on under another with the tree as it is."""
    _check_format(started)
    state.started = started
    config = config_from_log(started.config)
    if config.sandbox != state.config.sandbox:
        state.first_with.clear()  # under other limits the same source may fare otherwise
    state.config = config
    state.granted = BudgetGrant.of(config.budget)  # of a fork: what resumes had added is in it
    state.team = state.team_of(config)
    state.frontier = Frontier.of(config.search, state.steering.banned)
    state.returns = Returns()
    for node in state.tree.nodes.values():
        _index(state, node)
    state.mix("config", msgspec.json.encode(started.config, order="sorted").decode(), started.seed)


def _fork(state: State, body: RunForked) -> None:
    assert state.started is not None
    _start(state, body.applied(state.started))
    state.worked_ms = body.worked_ms
    _take_over(state)
    for attempt in state.attempts.values():
        # What the parent waits for comes to the parent.
        if attempt.call is not None and attempt.call.status == "deferred":
            attempt.call.status = "in_doubt"
        # A request that this configuration would not send is not sent again: the role is
        # asked anew, as it is asked now.
        call = attempt.call
        if call is not None and call.status == "in_doubt":
            asked, role = call.body, state.config.role(call.body.role)
            now = role.params, state.reply_form(attempt.id, asked.role)
            known = asked.model in state.config.models(asked.role)
            if not known or (asked.params, asked.reply) != now:
                attempt.call = attempt.rejection = None


def _fold_run(state: State, body: Body) -> None:
    match body:
        case RunResumed():
            _resume(state, body)
        case StopRequested() if not body.after_attempts:
            state.stop_requested = body.source
        case DeadlineReached():
            state.deadline = body.budget
        case BaselineRequested(baseline="eager"):
            state.baseline = "requested"
        case BaselineRequested():
            state.compiled_baselines[body.baseline] = "requested"
        case BaselineMeasured(baseline="eager"):
            state.baseline = "measured"
        case BaselineMeasured():
            state.compiled_baselines[body.baseline] = "measured"
        case EvaluationFaulted(attempt=0, baseline="eager"):
            state.baseline, state.baseline_reason = "faulted", body.message
            tries = state.config.search.evaluation_tries
            state.baseline_faults = state.baseline_faults + 1 if body.retryable else tries
        case EvaluationFaulted(attempt=0):
            state.compiled_baselines[body.baseline] = "faulted"
        case TaskRejected():
            state.baseline, state.baseline_reason = "rejected", body.reason
        case CapabilityLearned():
            state.known[body.model] = state.known.get(body.model, Known()).learned(body)
        case WaitEnded():
            state.wait_ended = body
        case RunPaused():
            state.paused = body.reason
        case BudgetExhausted():
            state.exhausted = body.budget
            state.used_up.add(body.budget)
        case RunStopped():
            state.stopped, state.stop_reason = body.status, body.reason


def _resume(state: State, body: RunResumed) -> None:
    state.granted = state.granted.extended(body)
    state.worked_ms = body.worked_ms
    _count_doubted(state, body.unsent)
    _take_over(state)


_HANDED_OVER = ("anthropic-batch:", "mailbox:")


def _count_doubted(state: State, unsent: Collection[int]) -> None:
    """Tries that were sent may have been answered, and are paid for then. (What was under way
    where a fork began is its parent's to pay for.) Where a request is handed over, that is a
    fact of its own: without it, no model was asked. ``unsent`` calls only waited for their turn."""
    for attempt in state.attempts.values():
        if attempt.call is None or attempt.call.status != "sent":
            continue
        asked = attempt.call.body
        if not asked.model.startswith(_HANDED_OVER) and asked.call not in unsent:
            role = asked.role
            state.doubted_tries[role] = state.doubted_tries.get(role, 0) + 1


def _take_over(state: State) -> None:
    """Another process goes on: what an earlier one had in flight is in doubt."""
    state.stop_requested = state.exhausted = state.deadline = state.paused = None
    state.stopped, state.stop_reason = "", ""
    state.used_up.clear()
    state.outages.clear()
    # Patience starts anew: a user who resumes wants more attempts, not the same end. Unless
    # the run only waited for replies: that happens all the time.
    if state.wait_ended is None:
        state.last_improvement = state.attempts_ended
    state.wait_ended = None
    state.baseline_faults = 0
    if state.baseline in ("faulted", "rejected"):
        state.baseline = "none"
    for kind, status in list(state.compiled_baselines.items()):
        if status == "faulted":
            del state.compiled_baselines[kind]
    for attempt in state.attempts.values():
        attempt.faults = 0
        attempt.hopeless = ""
        call = attempt.call
        if call is not None:
            call.failures = 0
            if call.status in ("sent", "failed"):
                # Sent and no reply in the log: it may or may not have been answered. A
                # failed one gets another chance: the user may have mended the cause.
                call.status = "in_doubt"
