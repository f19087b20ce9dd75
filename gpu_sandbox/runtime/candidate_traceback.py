"""An exception as agents read it: its kind, one line, and the candidate's own frames."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

from gpu_sandbox.ipc.worker_messages import Failed
from gpu_sandbox.toolchain.demangle import demangled

_MAX_FRAMES = 12
_MAX_CHARS = 6000
_MAX_LINE = 500
_PRINTED_TENSOR = re.compile(
    r"tensor\(\[(?:(?!tensor\(\[).)*?\](?:,\s{0,40}\w{1,20}=[^,()]{1,60}){0,5}\)", re.DOTALL
)
"""Bounded, and none within another, against messages that would take for ever to match."""


def own_traceback(error: BaseException, path: str) -> str:
    """The frames that lie in ``path``, innermost last; library frames say nothing here."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
    name = Path(path).name
    lines = [f"{name}:{f.lineno} in {f.name}: {f.line or ''}"[:_MAX_LINE].rstrip() for f in frames]
    if len(lines) > _MAX_FRAMES:
        lines = [*lines[:2], f"… {len(lines) - _MAX_FRAMES} frames …", *lines[2 - _MAX_FRAMES :]]
    if isinstance(error, SyntaxError) and error.lineno is not None:
        lines.append(f"{name}:{error.lineno}: {(error.text or '').strip()}"[:_MAX_LINE])
    return "\n".join([*lines, _message(error)])


def one_line(error: BaseException) -> str:
    """``Kind: first line of its message``; and the last one, where the first only leads to it:
    TorchScript prints a traceback, Triton its own lines."""
    lines = _message(error).strip().splitlines() or [""]
    first, last = lines[0], lines[-1].strip()
    leads = first.endswith(":") or any(line.startswith("Traceback ") for line in lines)
    line = f"{first[: _MAX_LINE // 2]} … {last}" if leads and len(lines) > 1 else first
    return line[:_MAX_LINE]


def failed(error: BaseException, path: str, stage: str) -> Failed:
    return Failed(
        stage=stage,
        kind=type(error).__name__,
        message=one_line(error),
        traceback=own_traceback(error, path),
    )


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(its message could not be made)"
    text = demangled(_PRINTED_TENSOR.sub("tensor(…)", text[: 16 * _MAX_CHARS]))
    head, tail = text[: _MAX_CHARS // 2], text[_MAX_CHARS // 2 :][-_MAX_CHARS // 2 :]
    cut = "\n…\n" if len(text) > _MAX_CHARS else ""
    return f"{type(error).__name__}: {head}{cut}{tail}"
