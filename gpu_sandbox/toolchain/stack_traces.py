"""A child's output, with stack dumps cut to the candidate's frames and private paths. Pure."""

from __future__ import annotations

import re
from pathlib import Path

_DUMP = re.compile(
    r"^(?:Current thread|Thread) 0x\w+(?: \[[^\]\n]*\])? \(most recent call first\):\n"
    r"(?P<frames>(?:  .*(?:\n|\Z))*)",
    re.MULTILINE,
)
_ENDED = re.compile(
    r"^Stack \(most recent call first\):\n(?P<frames>(?:  .*(?:\n|\Z))*)", re.MULTILINE
)
"""Printed at SIGTERM (``zygote/main.py``)."""
_PACKAGE = f"{Path(__file__).parents[1]}/"
_FRAME = re.compile(r'  File "(?P<file>[^"\n]*)", line (?P<line>\d+) in (?P<name>.*)')
_MODULES = re.compile(
    r"^\n?(?:Current thread's C stack trace|Extension modules: ).*\n?", re.MULTILINE
)
_PLACES = re.compile(
    r"(?<![\w./+-])(?:/[\w.+-]+)*/(?:gpu-sandbox-runs-\d+/\w+/[\w.:-]+/(?:extensions/\w+/)?"
    r"|(?:site|dist)-packages/|lib/python3\.\d+/)"
)
_MOST_FRAMES = 12


def printed(output: str, *, stopped: bool = False) -> str:
    """A child's output. ``stopped``: it was ended while it ran, so where it was matters."""
    output = _MODULES.sub("", _DUMP.sub(_own_frames, output))
    return without_places(_ENDED.sub(_last_place if stopped else "", output)).strip()


def without_places(text: str) -> str:
    """Paths into private directories and installed packages, from where these begin."""
    return _PLACES.sub("", text)


def _own_frames(found: re.Match[str]) -> str:
    """Innermost first, down to the candidate's last; nothing of a thread without any."""
    frames = []
    for line in found["frames"].splitlines():
        frame = _FRAME.match(line)
        if frame is None or frame["file"].startswith(_PACKAGE):
            break
        frames.append(frame)
    own = [n for n, frame in enumerate(frames) if frame["file"].endswith("/candidate.py")]
    if not own:
        return ""
    kept = frames[: own[-1] + 1][:_MOST_FRAMES]
    lines = [f"{_short(f['file'])}:{f['line']} in {f['name']}" for f in kept]
    return "\n".join(["innermost call first:", *lines, ""])


def _last_place(found: re.Match[str]) -> str:
    where = _own_frames(found)
    return f"when it was stopped, {where}" if where else ""


def _short(path: str) -> str:
    if path.endswith("/candidate.py"):
        return "candidate.py"
    return without_places(path)
