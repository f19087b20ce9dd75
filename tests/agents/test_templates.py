"""The prompts' files."""

from __future__ import annotations

import re

import pytest

from agents.languages import LANGUAGES
from agents.templates import SYSTEM_VARIANTS, Templates, fill, load, pinned


def test_filling_looks_at_the_template_only() -> None:
    assert fill("{a} {b}", {"a": "{b}", "b": "{nothing} {{}} \\1"}) == "{b} {nothing} {{}} \\1"
    assert fill("x = {} {1} {A} {a b}", {}) == "x = {} {1} {A} {a b}"
    with pytest.raises(LookupError, match=r"\{gone\}"):
        fill("{gone}", {})


def test_pinned_texts_give_the_same_templates_back() -> None:
    assert Templates(texts=pinned()) == load()
    assert all(isinstance(text, str) for text in pinned().values())


def test_languages_fill_the_same_holes() -> None:
    templates = load()
    words = [templates.words(language) for language in LANGUAGES]
    assert {frozenset(each) for each in words} == {frozenset(words[0])}
    for variant in SYSTEM_VARIANTS:
        text = templates.text(f"system_{variant}.md")
        assert set(re.findall(r"\{(\w+)\}", text)) <= set(words[0])


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_an_example(language: str) -> None:
    example = load().example(language)
    assert example is not None
    assert "class Model(" in example.task
    assert "class ModelNew(" in example.solution


def test_unknown_names_are_named() -> None:
    with pytest.raises(LookupError, match="no prompt text named 'x"):
        load().text("x.md")
    with pytest.raises(LookupError, match="it has cuda, cpp, triton"):
        load().words("fortran")
