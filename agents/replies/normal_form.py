"""When are two candidates the same? When their sources differ in nothing that can matter.

Comments, blank lines, line ends, trailing white space and whatever else of Python's
formatting its syntax tree does not hold make no difference. Everything else does: names,
the order of definitions, docstrings, and the text of kernels inside strings byte for byte
but for white space at the ends of their lines. So equal keys are the same program, and
different ones may be.
"""

from __future__ import annotations

import ast
import hashlib
import re

from agents.python_source import tree_of
from agents.replies.anchors import source_lines, strip_anchors

__all__ = ["normal_form", "source_key"]

_LONGEST = 2**17
"""Characters of a source whose tree is built: far above any candidate, and a longer one would
keep the search waiting for seconds."""
_CODING = re.compile(r"^[ \t\f]*#.*?coding[:=]", re.MULTILINE)


def source_key(source: str) -> str:
    """Digest of the normal form: two sources with the same key are the same candidate."""
    return hashlib.sha256(normal_form(source).encode("utf-8", "surrogatepass")).hexdigest()


def normal_form(source: str) -> str:
    """The syntax tree as text; of what is no Python, its lines that are not blank."""
    lines = source_lines(strip_anchors(source))
    text = "\n".join(lines)
    tree = None
    # A comment that declares an encoding is the one that Python does not skip.
    if len(text) <= _LONGEST and not _CODING.search("\n".join(lines[:2])):
        tree = tree_of(text)
    try:
        return ast.dump(tree) if tree else "\n".join(line for line in lines if line)
    except RecursionError:
        return text
