"""Reading candidates' Python without running it, whatever they hold.

Compiler warnings about it (an odd escape in a string) are nobody's business here: under
``-W error`` they would make a good source look broken.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from functools import lru_cache

__all__ = ["MODEL_NEW", "rows_in_strings", "syntax_error", "tree_of"]

MODEL_NEW = re.compile(r"^[ \t]*(?:class[ \t]+ModelNew\b|ModelNew[ \t]*=)", re.MULTILINE)
"""Where a source defines the candidate."""


def tree_of(source: str) -> ast.Module | None:
    """The syntax tree; None if this is no Python."""
    found = _parsed(source)
    return found if isinstance(found, ast.Module) else None


@lru_cache(maxsize=16)
def syntax_error(source: str) -> str | None:
    """Why this is no Python, and on which line; None if it is."""
    found = _parsed(source)
    if isinstance(found, SyntaxError):
        return f"line {found.lineno}: {found.msg}"
    return None if isinstance(found, ast.Module) else str(found)


def _parsed(source: str) -> ast.Module | Exception:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return error


def rows_in_strings(text: str) -> frozenset[int] | None:
    """Rows, from 0, that begin inside a string literal; None if this is no Python."""
    rows: set[int] = set()
    opened: list[int] = []
    text = text.replace("\0", " ")  # trips up the tokenizer of Python 3.12
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return None
    for token in tokens:
        name = tokenize.tok_name[token.type]
        if name == "STRING":
            rows.update(range(token.start[0], token.end[0]))
        elif name == "FSTRING_START":  # Python 3.12 and later
            opened.append(token.start[0])
        elif name == "FSTRING_END" and opened:
            rows.update(range(opened.pop(), token.end[0]))
    return frozenset(rows)
