"""From a logged decision to the request that is sent: pure, but for the texts it reads.

A request depends on nothing that happens after its decision (the nodes in a window are
evaluated, and stay as they are), so a replay can render it again and compare hashes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from agents.clients.port import Part, Request, answer_form
from agents.render import NodeView, render
from agents.templates import Templates
from engine.core.state import State
from engine.loop.texts import Texts
from events.bodies import AgentCalled
from events.envelope import sha256_hex
from events.observations import SectionName
from events.outcomes import BUSY_MACHINE
from gpu_sandbox.evaluate.input_sets import input_sets, shown_source
from projections.candidate.sections import CAPS, SELECTED_CAPS, Attempt, sections_of
from projections.run.capabilities import Known
from projections.search.tree import Node

__all__ = [
    "model_name", "node_view", "prompt_chars", "request_digest",
    "request_for", "source_of",
]  # fmt: skip


def request_for(
    state: State,
    called: AgentCalled,
    texts: Texts,
    templates: Templates,
    *,
    known: Known | None = None,
) -> Request:
    """What to send for ``called``; or what was sent, when ``known`` was known of its
    model."""
    assert state.started is not None
    config, tree = state.config, state.tree
    attempt = state.attempts[called.attempt]
    node, own = tree[attempt.node], tree[called.attempt]
    if known is None:
        known = state.known.get(called.model, Known())
    task = texts.get(state.started.task_sha256)
    prompt = render(
        templates,
        role=called.role,
        language=config.prompts.language,
        task_source=shown_source(task),
        input_sets={each.name: each.hidden for each in input_sets(task)},
        selected=node_view(state, node, texts, called.role, SELECTED_CAPS),
        window=[node_view(state, tree[shown], texts, called.role) for shown in called.window],
        system=called.template,
        device=state.started.device if config.prompts.device_facts else None,
        protocol=config.sandbox.protocol if config.prompts.accuracy else "",
        advice=texts.get(own.advice_sha256) or None,
        annotated=(texts.get(own.annotated_sha256) or None) if config.search.anchors else None,
        hints=[texts.get(state.steering.texts[hint]) for hint in called.hints or ()],
        reask=attempt.rejection if called.ask else None,
        answer=answer_form(known.refused),
        spans=called.reply == "spans",
    )
    return Request(
        role=called.role,
        model=model_name(called.model),
        parts=prompt.parts,
        params=known.fitted(called.params, prompt_chars(prompt.parts)),
        tool=prompt.tool,
        node_source=source_of(node, texts),
        visit=attempt.visit,
        ask=called.ask,
        timeout_s=config.role(called.role).timeout_s,
        refused=known.refused,
    )


def node_view(
    state: State,
    node: Node,
    texts: Texts,
    role: str,
    caps: Mapping[SectionName, int] = CAPS,
) -> NodeView:
    """A node as the prompts of ``role`` show it."""
    root_ms, speedup = state.tree.root.runtime_ms, None
    if node.runtime_ms is not None and root_ms is not None:
        speedup = root_ms / node.runtime_ms
    attempt = Attempt(
        outcome=node.outcome,
        runtime_ms=node.runtime_ms,
        speedup=speedup,
        compile_log=texts.get(node.compile_log_sha256),
        run_log=texts.get(node.run_log_sha256),
        resources=node.resources,
        observations=node.observations,
    )
    return NodeView(
        id=node.id,
        is_root=node.parent is None,
        source=source_of(node, texts),
        advice=texts.get(node.advice_sha256) or None,
        sections=tuple(sections_of(attempt, state.config.role(role).observations, caps)),
        runtime_ms=node.runtime_ms,
        speedup=speedup,
        same_as=node.same_as,
        is_busy=BUSY_MACHINE in node.labels,
    )


def source_of(node: Node, texts: Texts) -> str:
    """As prompts show it, and as what is said of its lines is read."""
    source = texts.get(node.source_sha256)
    return shown_source(source) if node.parent is None else source


def model_name(spec: str) -> str:
    """``anthropic:NAME`` → ``NAME``."""
    return spec.partition(":")[2]


def prompt_chars(parts: Sequence[Part]) -> int:
    """How long a prompt is."""
    return sum(len(part.text) for part in parts)


def request_digest(request: Request) -> str:
    """The request's content key: model, parameters, tool and every part of the prompt."""
    content = (
        request.model,
        request.params,
        request.tool,
        [(part.name, part.text) for part in request.parts],
        sorted(request.refused),
    )
    return sha256_hex(msgspec.json.encode(content))
