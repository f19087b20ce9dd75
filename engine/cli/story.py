"""An event in words: the steps of a search as ``replay`` and ``tail`` tell them."""

from __future__ import annotations

from engine.cli.draw import baseline_words
from events.bodies import (
    AgentCalled,
    AttemptAbandoned,
    BaselineMeasured,
    Body,
    EvaluationFinished,
    NodeSelected,
    RunStopped,
)

__all__ = ["story"]


def story(body: Body) -> str:
    """One line about a step of the search; empty for an event that is none."""
    match body:
        case BaselineMeasured():
            return f"the reference takes {baseline_words(body)}"
        case NodeSelected():
            repair = ", a repair" if body.repair else ""
            return f"attempt {body.attempt} from node {body.node} ({body.rule}){repair}"
        case AgentCalled():
            again = f", asking {body.ask + 1}" if body.ask else ""
            again += f", try {body.try_}" if body.try_ > 1 else ""
            return f"attempt {body.attempt}: {body.role} sees {body.window}{again}"
        case EvaluationFinished():
            tag = str(body.outcome.__struct_config__.tag).replace("_", " ")
            runtime = getattr(body.outcome, "runtime_ms", None)
            return f"attempt {body.attempt}: {tag}" + (f", {runtime:.4g} ms" if runtime else "")
        case AttemptAbandoned():
            return f"attempt {body.attempt}: abandoned, {body.reason}"
        case RunStopped():
            return f"{body.status}: {body.reason}, best {body.best}"
    return ""
