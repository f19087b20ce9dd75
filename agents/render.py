"""Prompts: what a role is shown, as a pure function of what the search knows.

The order is the paper's (its Figure 4): system message, in-context example, the task's
source, the selected node's source, the window's attempts, the role's instruction. The
device facts, behind the example, and the demands on accuracy, on weights and on input sets, behind
the task, are ours.
Each part stands alone, so that parts which repeat between calls are stored once in the log,
and the stable ones lead, so that a provider can cache them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agents.clients.port import AnswerForm, Part, Tool
from agents.replies.anchors import has_anchors
from agents.replies.markdown import closed
from agents.templates import SYSTEM_VARIANTS, Templates, fill
from agents.tools import answer_tool
from projections.candidate.sections import Section, visible

__all__ = ["ROLES", "NodeView", "Prompt", "render"]

ROLES = ("plan", "code", "debug", "single")
"""``single`` is the baselines' one agent: code without a plan."""

_BACKTICKS = re.compile(r"`{3,}")


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node as agents see it.

    ``sections`` are its observations. ``runtime_ms`` and ``speedup`` (over the root's eager
    runtime) are set when it is correct; the root's ``runtime_ms`` is its eager one, once it has
    been measured. ``same_as`` is the earlier attempt whose source it repeats and whose outcome it
    has. ``is_busy``: of the root, timed on a busy machine.
    """

    id: int
    source: str
    is_root: bool = False
    advice: str | None = None
    sections: tuple[Section, ...] = ()
    runtime_ms: float | None = None
    speedup: float | None = None
    same_as: int | None = None
    is_busy: bool = False


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """What a request is made of: ``parts[0]`` is the system message."""

    parts: tuple[Part, ...]
    tool: Tool


def render(
    templates: Templates,
    *,
    role: str,
    language: str,
    task_source: str,
    selected: NodeView,
    window: Sequence[NodeView] = (),
    system: str = "main",
    device: Mapping[str, Any] | None = None,
    protocol: str = "",
    input_sets: Mapping[str, bool] | None = None,
    advice: str | None = None,
    annotated: str | None = None,
    hints: Sequence[str] = (),
    reask: str | None = None,
    answer: AnswerForm = "tool",
    spans: bool = False,
) -> Prompt:
    """The prompt for one call.

    ``window`` is shown in the order given, without the selected node, and with the root
    as a line about the reference. ``advice`` and ``annotated`` are the plan that ``code``
    is to implement, or that ``debug`` inherits. Without ``annotated`` the coder gets
    advice only (the ablation). ``protocol`` is whose demands on accuracy are told, and how weights
    come to be equal; with "" neither is. ``input_sets`` are those of a task that declares some, by
    name, and whether a set is hidden: then its name is not told, but that there is one.
    ``hints`` are the user's. ``reask`` is why the previous reply
    was no use. ``answer`` is how the model can answer: the instruction asks for the tool, so
    others are told how. ``spans``: the coder is asked for replacements of the marked blocks,
    not for the file.
    """
    if role not in ROLES:
        raise ValueError(f"unknown role {role!r}; the roles are {', '.join(ROLES)}")
    if system not in SYSTEM_VARIANTS:
        known = ", ".join(SYSTEM_VARIANTS)
        raise ValueError(f"unknown system message {system!r}; there are {known}")
    words = templates.words(language)
    marked = annotated if role == "code" and annotated and has_anchors(annotated) else None
    parts = _stable(templates, words, language, system, task_source, device, protocol)
    if input_sets:
        parts.append(_input_sets(templates, input_sets))
    parts.append(_selected(templates, selected, marked))
    parts += _window(templates, selected, window)
    if role == "code" and advice:
        parts.append(_part(templates, "advice", {"advice": closed(advice.strip())}))
    elif role == "debug" and advice:
        plan = {"advice": closed(advice.strip()), "annotated": fenced(annotated or "")}
        parts.append(_part(templates, "inherited" if annotated else "advice", plan))
    parts += [_part(templates, "hint", {"hint": hint.strip()}) for hint in hints]
    instruction = role
    if role == "code" and marked is None:
        instruction = "code_unmarked" if advice else "single"
    elif role == "code" and spans:
        instruction = "code_spans"
    parts.append(_part(templates, instruction, words, name="instruction"))
    tool = "code" if role == "single" else role
    if instruction == "code_spans":
        tool = "spans"
        if answer != "tool":
            parts.append(_part(templates, f"answer_{answer}_spans", {}, name="answer"))
    elif answer != "tool":
        parts.append(_part(templates, f"answer_{answer}", _fields(templates, tool), name="answer"))
    if reask:
        parts.append(_part(templates, "reask", {"reason": reask}))
    return Prompt(parts=tuple(parts), tool=answer_tool(templates, tool))


def _fields(templates: Templates, tool: str) -> dict[str, str]:
    """What the tool asks for, for those who can't be given it. Prose comes before code."""
    _, fields = templates.tool(tool)
    prose, code = fields.values()
    lines = "\n".join(f"- `{name}`: {text}" for name, text in fields.items())
    return {"fields": lines, "prose": prose, "code": code}


def _part(
    templates: Templates,
    template: str,
    values: Mapping[str, str],
    *,
    name: str = "",
    stable: bool = False,
) -> Part:
    text = fill(templates.text(f"{template}.md"), values).strip("\n")
    return Part(name=name or template, text=text, stable=stable)


def _stable(
    templates: Templates,
    words: Mapping[str, str],
    language: str,
    system: str,
    task_source: str,
    device: Mapping[str, Any] | None,
    protocol: str,
) -> list[Part]:
    """The parts that all of a run's calls with one system message begin with."""
    parts = [_part(templates, f"system_{system}", words, name="system", stable=True)]
    example = templates.example(language)
    pair = {"example_task": fenced(example.task), "example_solution": fenced(example.solution)}
    parts.append(_part(templates, "example", {**words, **pair}, stable=True))
    if device is not None:
        facts = "\n".join(_facts(device))
        parts.append(_part(templates, "device", {"device": facts}, stable=True))
    parts.append(_part(templates, "task", {"task": fenced(task_source)}, stable=True))
    if templates.has(f"accuracy_{protocol}.md"):
        parts.append(_part(templates, f"accuracy_{protocol}", {}, name="accuracy", stable=True))
    if protocol:
        parts.append(_part(templates, "weights", {}, stable=True))
    return parts


def _input_sets(templates: Templates, hidden: Mapping[str, bool]) -> Part:
    names = ", ".join(f"`{name}`" for name in hidden if not hidden[name])
    others = ", and on others that you are not shown" if names and any(hidden.values()) else ""
    values = {"names": names or "all of them hidden from you", "others": others}
    return _part(templates, "input_sets", values, stable=True)


def _facts(device: Mapping[str, Any]) -> list[str]:
    """Device facts as list lines; what is unknown is left out."""
    lines: list[str] = []
    for key, value in device.items():
        if value is None or value == "":
            continue
        if isinstance(value, Mapping):
            value = ", ".join(f"{name.replace('_', ' ')} {v}" for name, v in value.items())
        elif isinstance(value, Sequence) and not isinstance(value, str):
            value = ", ".join(str(entry) for entry in value)
        lines.append(f"- {key.replace('_', ' ')}: {value}")
    return lines


def _selected(templates: Templates, node: NodeView, marked: str | None) -> Part:
    source = fenced(marked if marked is not None else node.source)
    if node.is_root:
        values = {"source": source, "runtime": _eager(node)}
        return _part(templates, "selected_root", values, name="selected")
    template = "selected" if marked is None else "selected_annotated"
    values = {
        "node": str(node.id),
        "source": source,
        "observations": _observations(templates, node),
    }
    return _part(templates, template, values, name="selected")


def _window(templates: Templates, selected: NodeView, window: Sequence[NodeView]) -> list[Part]:
    parts: list[Part] = []
    others = [node for node in window if node.id != selected.id]
    for root in (node for node in others if node.is_root):
        if root.runtime_ms is not None:
            parts.append(_part(templates, "reference", {"runtime": _eager(root)}))
    attempts = [node for node in others if not node.is_root]
    if attempts:
        parts.append(_part(templates, "window", {}))
    for node in attempts:
        values = {
            "node": str(node.id),
            "source": fenced(node.source),
            "observations": _observations(templates, node),
        }
        parts.append(_part(templates, "attempt", values, name=f"attempt {node.id}"))
    return parts


def _eager(root: NodeView) -> str:
    if root.runtime_ms is None:
        return ""
    busy = ", timed on a busy machine: it may take less" if root.is_busy else ""
    return f" Run by PyTorch in eager mode it takes {_ms(root.runtime_ms)}{busy}."


def _observations(templates: Templates, node: NodeView) -> str:
    """Instruction and sections of one attempt."""
    parts = [f"**Instruction**\n\n{closed(node.advice.strip())}"] if node.advice else []
    for section in node.sections:
        texts = (section.said, _quoted(templates, section.quoted))
        body = "\n\n".join(text for text in texts if text)
        parts.append(f"**{templates.title(section.name)}**\n\n{body}")
    if node.same_as is not None:
        parts.append(fill(templates.text("duplicate.md"), {"original": str(node.same_as)}))
    return "\n" + "\n\n".join(parts)


def _quoted(templates: Templates, text: str) -> str:
    """Text in which a candidate has a part: marked as such, in a fence that it can't close,
    without invisible characters."""
    block = fenced(visible(text), "")
    return block and fill(templates.text("quoted.md"), {"quoted": block})


def _ms(runtime_ms: float) -> str:
    return f"{runtime_ms:.4g} ms"


def fenced(text: str, language: str = "python") -> str:
    """A fenced code block whose fence is longer than any in the text; "" for no text."""
    text = text.strip("\n")
    if not text.strip():
        return ""
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
