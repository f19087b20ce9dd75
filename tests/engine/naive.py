"""Selection and windows written straight from the rules, with no cleverness at all.

It reads the list of logged bodies from scratch each time; the real core keeps sets and
heaps. They must always agree.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.config import Search
from events.bodies import (
    AttemptAbandoned,
    BaselineMeasured,
    Body,
    EvaluationFinished,
    NodeSelected,
    ReplyParsed,
    RunForked,
    RunStarted,
)
from events.outcomes import Correct


@dataclass
class N:
    id: int
    parent: int | None
    done: bool = False
    runtime: float | None = None
    """As the run scores it."""
    key: str | None = None
    kids: list[int] = field(default_factory=list)


def build(bodies: list[Body]) -> dict[int, N]:
    nodes = {0: N(0, None)}
    score = "device"
    for body in bodies:
        match body:
            case RunStarted() | RunForked():
                score = body.config["search"]["score"]
            case BaselineMeasured():
                nodes[0].done, nodes[0].runtime = True, body.runtime_ms
            case NodeSelected():
                nodes[body.attempt] = N(body.attempt, body.node)
            case ReplyParsed() if body.source_key:
                nodes[body.attempt].key = body.source_key
            case EvaluationFinished():
                nodes[body.attempt].done = True
                if isinstance(body.outcome, Correct):
                    eager, root_ms = body.outcome.eager_speedup, nodes[0].runtime
                    by_loop = score == "eager" and eager is not None
                    nodes[body.attempt].runtime = (
                        root_ms / eager if by_loop else body.outcome.runtime_ms
                    )
            case AttemptAbandoned():
                del nodes[body.attempt]
    for node in nodes.values():
        if node.parent is not None:
            nodes[node.parent].kids.append(node.id)
    return nodes


def eligible(nodes: dict[int, N], search: Search) -> list[int]:
    found = []
    for node in nodes.values():
        if not node.done:
            continue
        throttle = search.root_throttle if node.id == 0 else None
        if throttle is not None and len(node.kids) >= throttle:
            continue
        evaluated = [nodes[kid] for kid in node.kids if nodes[kid].done]
        dead = search.dead_branch is not None and len(evaluated) > search.dead_branch
        if dead and all(kid.runtime is None for kid in evaluated):
            continue
        found.append(node.id)
    return sorted(found)


def leaves(nodes: dict[int, N], search: Search) -> list[int]:
    return [node for node in eligible(nodes, search) if not nodes[node].kids]


def best(nodes: dict[int, N], search: Search) -> list[int]:
    def score(node: N) -> float:
        flying = sum(not nodes[kid].done for kid in node.kids)
        return float("inf") if node.runtime is None else node.runtime * (1 + flying)

    among = eligible(nodes, search)
    finite = [node for node in among if nodes[node].runtime is not None]
    if not finite:
        return []
    low = min(score(nodes[node]) for node in finite)
    return [node for node in finite if score(nodes[node]) == low]


def _done(nodes: dict[int, N], ids: list[int]) -> set[int]:
    return {node for node in ids if nodes[node].done}


def siblings(nodes: dict[int, N], node: int) -> set[int]:
    parent = nodes[node].parent
    return set() if parent is None else _done(nodes, nodes[parent].kids) - {node}


def subtree(nodes: dict[int, N], node: int) -> set[int]:
    found = {node}
    for kid in nodes[node].kids:
        found |= subtree(nodes, kid)
    return found


def top(nodes: dict[int, N], node: int, r: int) -> list[int]:
    below = subtree(nodes, node)
    ranked = sorted(
        (n.runtime, n.id) for n in nodes.values() if n.runtime is not None and n.id != 0
    )
    chosen: list[int] = []
    keys = {nodes[node].key}
    for _, other in ranked:
        if other in below or nodes[other].key in keys:
            continue
        keys.add(nodes[other].key)
        chosen.append(other)
    return chosen[:r]


def window(nodes: dict[int, N], role: str, node: int, r: int) -> set[int]:
    base = {node, 0}
    kids = _done(nodes, nodes[node].kids)
    match role:
        case "plan" | "single":
            return base | kids | set(top(nodes, node, r))
        case "code":
            cousins = [kid for s in siblings(nodes, node) for kid in nodes[s].kids]
            return base | kids | _done(nodes, cousins)
        case _:
            return base | siblings(nodes, node)
