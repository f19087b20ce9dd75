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
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from agents.clients.port import AnswerForm, Part, Tool
from agents.replies.anchors import has_anchors
from agents.replies.reply_text import closed
from agents.templates import SYSTEM_VARIANTS, Templates, fill
from agents.tools import answer_tool
from projections.candidate.sections import Section, visible

__all__ = ["LOG_CHARS", "ROLES", "SELECTED_LOG_CHARS", "NodeView", "Prompt", "clip", "render"]

ROLES = ("plan", "code", "debug", "single")
"""``single`` is the baselines' one agent: code without a plan."""

LOG_CHARS = 3_000
"""Of each log of a window's attempt; the selected node's may be longer."""
SELECTED_LOG_CHARS = 8_000

_QUOTED = "quoted.md"
_BACKTICKS = re.compile(r"`{3,}")


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node as agents see it.

    ``sections`` are what was observed of it; in logs from before there were such, it is in
    ``outcome`` (a line such as ``correct`` or ``wrong_result: output 0 differs``), logs, and
    ``resources`` (a table of what its kernels take). ``runtime_ms`` and ``speedup`` (over
    the root's eager runtime) are set when it is correct; the root's ``runtime_ms`` is its
    eager one, once it has been measured. ``same_as`` is the earlier attempt whose source it
    repeats and whose outcome it has. ``is_busy``: of the root, timed on a busy machine.
    """

    id: int
    source: str
    is_root: bool = False
    advice: str | None = None
    outcome: str = ""
    compile_log: str = ""
    run_log: str = ""
    resources: str = ""
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
    if input_sets and templates.has("input_sets.md"):
        parts.append(_input_sets(templates, input_sets))
    parts.append(_selected(templates, selected, marked))
    parts += _window(templates, selected, window)
    if role == "code" and advice:
        parts.append(_part(templates, "advice", {"advice": closed(advice.strip())}))
    elif role == "debug" and advice:
        plan = {"advice": closed(advice.strip()), "annotated": fenced(annotated or "")}
        parts.append(_part(templates, "inherited" if annotated else "advice", plan))
    for hint in hints if templates.has("hint.md") else ():
        parts.append(_part(templates, "hint", {"hint": hint.strip()}))
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
    elif answer != "tool" and templates.has(f"answer_{answer}.md"):
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
    if example is not None:
        pair = {"example_task": fenced(example.task), "example_solution": fenced(example.solution)}
        parts.append(_part(templates, "example", {**words, **pair}, stable=True))
    if device is not None:
        facts = "\n".join(_facts(device))
        parts.append(_part(templates, "device", {"device": facts}, stable=True))
    parts.append(_part(templates, "task", {"task": fenced(task_source)}, stable=True))
    if templates.has(f"accuracy_{protocol}.md"):
        parts.append(_part(templates, f"accuracy_{protocol}", {}, name="accuracy", stable=True))
    if protocol and templates.has("weights.md"):
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
    observed = _observations(templates, node, SELECTED_LOG_CHARS)
    values = {"node": str(node.id), "source": source, "observations": observed}
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
            "observations": _observations(templates, node, LOG_CHARS),
        }
        parts.append(_part(templates, "attempt", values, name=f"attempt {node.id}"))
    return parts


def _eager(root: NodeView) -> str:
    if root.runtime_ms is None:
        return ""
    busy = ", timed on a busy machine: it may take less" if root.is_busy else ""
    return f" Run by PyTorch in eager mode it takes {_ms(root.runtime_ms)}{busy}."


def _observations(templates: Templates, node: NodeView, chars: int) -> str:
    """Instruction and sections of one attempt. ``chars``: of a log, where there are none."""
    parts = [f"**Instruction**\n\n{closed(node.advice.strip())}"] if node.advice else []
    if templates.has_sections:
        quoted = _quoting(templates)
        for section in node.sections:
            told = "\n\n".join(part for part in (section.said, quoted(section.quoted)) if part)
            parts.append(f"**{templates.title(section.name)}**\n\n{told}")
    else:
        parts += _before_sections(templates, node, chars)
    if node.same_as is not None:
        parts.append(fill(templates.text("duplicate.md"), {"original": str(node.same_as)}))
    return "\n" + "\n\n".join(parts)


def _before_sections(templates: Templates, node: NodeView, chars: int) -> list[str]:
    """Compiler observation and execution result, as logs have them whose templates know of
    no sections."""
    quoted = _quoting(templates)
    compiler = "\n\n".join(part for part in (clip(node.compile_log, chars), node.resources) if part)
    result, said = node.outcome, clip(node.run_log, chars)
    if templates.has(_QUOTED):  # of an outcome, only its tag is sure to be ours
        result, _, reason = result.partition(": ")
        said = "\n\n".join(text for text in (reason, said) if text)
    if node.runtime_ms is not None:
        speed = f", {node.speedup:.3g} × the reference's speed" if node.speedup else ""
        result = f"{result or 'correct'}: runtime {_ms(node.runtime_ms)}{speed}"
    body = "\n\n".join(text for text in (result, quoted(said)) if text) or "(not executed)"
    return [
        "**Compiler observation**\n\n" + (quoted(compiler) or "(no messages)"),
        f"**Kernel execution result**\n\n{body}",
    ]


def _quoting(templates: Templates) -> Callable[[str], str]:
    """How to show text in which a candidate has a part: marked as such, in a fence that it
    can't close, without characters that can't be seen. Logs whose templates do not know of
    this are rendered as they were."""

    def quoted(text: str) -> str:
        block = fenced(visible(text), "")
        return block and fill(templates.text(_QUOTED), {"quoted": block})

    return quoted if templates.has(_QUOTED) else lambda text: fenced(text, "")


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


def clip(log: str, chars: int) -> str:
    """At most about ``chars`` characters: the head, where compilers put the first error,
    and the tail, where a traceback ends."""
    log = log.strip()
    if len(log) <= chars:
        return log
    head, tail = chars * 2 // 3, chars - chars * 2 // 3
    left_out = len(log) - head - tail
    return f"{log[:head]}\n[… {left_out} characters left out …]\n{log[-tail:]}"
