"""The prompts' texts as one mapping, name → text, read from files or from a log.

Everything that words a prompt is in this mapping: the templates, the words that differ
between languages, the tools' descriptions and the in-context examples. A run pins it in
its first event, so an old log renders as it did on its day. The texts of languages come from
``agents/languages/``, the others from files in ``agents/prompts/``.

A template names its holes as ``{name}``. They are filled in one pass over the template,
and what was filled in is never looked at again, so source code may hold any braces.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from agents.languages import LANGUAGES, Example

__all__ = ["SYSTEM_VARIANTS", "Templates", "fill", "load", "pinned"]

SYSTEM_VARIANTS = ("main", "alternate_1", "alternate_2")

_LANGUAGES = "languages.toml"
_SECTIONS = "sections.toml"
_HOLE = re.compile(r"\{([a-z_]+)\}")


class Templates(msgspec.Struct, frozen=True, kw_only=True):
    """All texts by name, such as ``plan.md`` or ``examples/cuda/task.py``."""

    texts: Mapping[str, str]

    def text(self, name: str) -> str:
        """The text called ``name``, without its final newline."""
        try:
            return self.texts[name].rstrip("\n")
        except KeyError:
            raise LookupError(f"no prompt text named {name!r} among the templates") from None

    def has(self, name: str) -> bool:
        """Not every protocol has a text on accuracy."""
        return name in self.texts

    def words(self, language: str) -> dict[str, str]:
        """What fills the templates' language-dependent holes."""
        words: dict[str, str] = _table(self, _LANGUAGES, language)
        return words

    def tool(self, name: str) -> tuple[str, dict[str, Any]]:
        """A tool's description, and its fields with theirs, in order: a text is described by one,
        a list by a table with its ``description`` and what ``each`` entry is."""
        table: dict[str, Any] = _table(self, "tools.toml", name)
        return table["description"], table["fields"]

    def title(self, section: str) -> str:
        """The head of a section of observations."""
        table: dict[str, str] = _table(self, _SECTIONS, section)
        return table["title"]

    def example(self, language: str) -> Example:
        """The in-context pair for ``language``."""
        return Example(
            task=self.text(f"examples/{language}/task.py"),
            solution=self.text(f"examples/{language}/solution.py"),
        )


def _table(templates: Templates, name: str, key: str) -> Any:
    tables = tomllib.loads(templates.text(name))
    if key not in tables:
        known = ", ".join(tables)
        raise LookupError(f"{name} has no entry {key!r}; it has {known}")
    return tables[key]


def fill(template: str, values: Mapping[str, str]) -> str:
    """Fill ``{name}`` holes in one pass; a hole without a value is a ``LookupError``."""

    def value(hole: re.Match[str]) -> str:
        try:
            return values[hole[1]]
        except KeyError:
            raise LookupError(f"nothing to fill {hole[0]} with") from None

    return _HOLE.sub(value, template)


@cache
def _files() -> dict[str, str]:
    folder = resources.files("agents").joinpath("prompts")
    return {
        entry.name: entry.read_text(encoding="utf-8")
        for entry in folder.iterdir() if entry.name.endswith((".md", ".toml"))
    }  # fmt: skip


def _of_languages() -> dict[str, str]:
    """Words as one table a language, and the in-context pairs."""
    tables: list[str] = []
    texts: dict[str, str] = {}
    for name, language in LANGUAGES.items():
        words = msgspec.structs.asdict(language.words)
        # A JSON string without escapes for other alphabets is a TOML string, too.
        lines = (f"{key} = {json.dumps(text, ensure_ascii=False)}" for key, text in words.items())
        tables.append("\n".join([f"[{name}]", *lines]))
        texts[f"examples/{name}/task.py"] = language.example.task
        texts[f"examples/{name}/solution.py"] = language.example.solution
    return {_LANGUAGES: "\n\n".join(tables) + "\n", **texts}


def load() -> Templates:
    """The texts that ship with this version."""
    return Templates(texts=dict(sorted({**_files(), **_of_languages()}.items())))


def pinned() -> dict[str, str]:
    """Name → text, to be logged with ``RunStarted``. ``Templates(texts=…)`` takes it back."""
    return dict(load().texts)
