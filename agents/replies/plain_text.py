"""A reply's characters: line ends, and what cannot be seen. Pure."""

from __future__ import annotations

import re

__all__ = ["clean", "invisible_in", "without_special_tokens"]

_INVISIBLE = re.compile("[\u200b-\u200d\u2060\ufeff]")
"""Byte order marks and blanks of no width. Compilers of Python and C++ refuse them."""
_SPECIAL = re.compile(
    r"<[|｜](?:im_start|im_end|endoftext|end_of_text|eot_id|eom_id|eos|end|return|call"
    r"|end_of_turn|user|assistant|begin_of_solution|end_of_solution"
    r"|end▁of▁sentence|begin▁of▁sentence)[|｜]>"
)


def clean(text: str, *, keep_invisible: bool = False) -> str:
    """Unix line ends, and no character that UTF-8 can't hold (half of a surrogate pair) or that
    nobody sees, unless the latter are to be kept."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text if keep_invisible else _INVISIBLE.sub("", text)


def invisible_in(source: str) -> bool:
    """Whether a source holds characters that ``clean`` takes out."""
    return _INVISIBLE.search(source) is not None


def without_special_tokens(text: str) -> str:
    """The text without the tokens by which models mark turns, which some servers let through."""
    return _SPECIAL.sub("", text)
