"""The commands that the documentation shows: fenced blocks of ``sh`` and of ``console``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

__all__ = ["PAGES", "ROOT", "Command", "commands_of", "engine_calls"]

ROOT = Path(__file__).parents[2]
_DOCS = ROOT / "docs"
_RECORDS = ("results", "adr")
"""Say what was run at a date; nothing of them has to run today."""
PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(page for page in _DOCS.rglob("*.md") if page.relative_to(_DOCS).parts[0] not in _RECORDS),
    )
)
_FENCE = re.compile(r"^ *```(\w*)")
_PROMPT = "$ "


class Command(NamedTuple):
    """As a shell takes it: continued lines are one command."""

    page: str
    line: int
    text: str

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


def commands_of(page: str) -> list[Command]:
    found: list[Command] = []
    language, lines = "", list[tuple[int, str]]()
    for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
        if not (fence := _FENCE.match(line)):
            lines.append((number, line.strip()))
            continue
        if language == "sh":
            found += [Command(page, at, text) for at, text in _joined(lines)]
        elif language == "console":
            found += [Command(page, at, text) for at, text in _prompted(lines)]
        language, lines = ("" if language else fence[1] or "text"), []
    return found


def _joined(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """A command ends with its line, unless a backslash or an open quotation goes on."""
    start, text = 0, ""
    for number, line in lines:
        start, text = (start, f"{text}\n{line}") if text else (number, line)
        if not line.endswith("\\") and text.count('"') % 2 == 0:
            if text and not text.startswith("#"):
                yield start, text
            text = ""


def _prompted(lines: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Behind a prompt is a command; all else is what it prints, or goes on with a quotation."""
    typed: list[tuple[int, str]] = []
    for number, line in lines:
        if line.startswith(_PROMPT):
            typed.append((number, line.removeprefix(_PROMPT)))
        elif typed and "".join(text for _, text in typed).count('"') % 2:
            typed.append((number, line))
    yield from _joined(typed)


def engine_calls(command: Command) -> list[list[str]]:
    """The words of each ``engine …`` in it, without what a shell makes of the rest."""
    lexer = shlex.shlex(command.text.replace("\\\n", " "), posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    calls: list[list[str]] = []
    inside = False
    for word in takewhile(lambda word: not word.startswith("#"), lexer):
        if word == "engine":
            calls.append([])
        elif inside and not _is_operator(word):
            calls[-1].append(word)
        inside = word == "engine" or (inside and not _is_operator(word))
    return calls


def _is_operator(word: str) -> bool:
    return set(word) <= set("|&;<>()")
