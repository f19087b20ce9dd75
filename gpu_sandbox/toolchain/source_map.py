"""Lines of a file that torch generated, found in the candidate's source. Pure.

A line is found by its text and, where that occurs more than once, by its neighbours: strings that
were joined, filled in or cut up keep most of their lines.
"""

from __future__ import annotations

import re

_REACH = 3
_MIN_CHARS = 6  # of a line that may be found within a longer one
_QUOTED = re.compile(r"[‘'\"]\W{0,2}(\w{3,})[(’'\"]")


class Origin:
    """``generated``: name of a file → its text."""

    def __init__(self, generated: dict[str, str], candidate: str) -> None:
        self._generated = {name: _stripped(text) for name, text in generated.items()}
        self._own = _stripped(candidate)
        self._places: dict[str, list[int]] = {}
        for number, text in enumerate(self._own):
            self._places.setdefault(text, []).append(number)

    def line(self, name: str, number: int) -> int | None:
        """The candidate's line, counted from 1; None where that is not certain."""
        texts, index = self._generated.get(name, []), number - 1
        if not 0 <= index < len(texts):
            return None
        found = self._same(texts, index)
        if found is None:
            found = self._between(texts, index)
        return None if found is None else found + 1

    def naming(self, message: str) -> int | None:
        """The one line that holds what ``message`` quotes, or where that kernel is defined,
        counted from 1."""
        for word in dict.fromkeys(_QUOTED.findall(message)):
            spelled = re.compile(rf"\b{re.escape(word)}\b")
            found = [n for n, text in enumerate(self._own, 1) if spelled.search(text)]
            defined = [n for n in found if "__global__" in self._own[n - 1]]
            for only in (found, defined):
                if len(only) == 1:
                    return only[0]
        return None

    def _same(self, texts: list[str], index: int) -> int | None:
        """The line with this text; of several, the one whose neighbours agree furthest."""
        text = texts[index]
        if not text:
            return None
        found = self._places.get(text, [])
        if not found and len(text) >= _MIN_CHARS:  # beside the quotes of its literal
            found = [n for n, own in enumerate(self._own) if own.startswith(text)]
            found += [n for n, own in enumerate(self._own) if own.endswith(text)]
        agreeing = {n: self._agreeing(texts, index, n) for n in found}
        best = [n for n in found if agreeing[n] == max(agreeing.values())]
        return best[0] if len(best) == 1 else None

    def _agreeing(self, texts: list[str], index: int, own: int) -> int:
        """How many lines around are equal, without a gap."""
        count = 0
        for step in (-1, 1):
            a, b = index + step, own + step
            while 0 <= a < len(texts) and 0 <= b < len(self._own) and texts[a] == self._own[b]:
                a, b, count = a + step, b + step, count + 1
        return count

    def _between(self, texts: list[str], index: int) -> int | None:
        """A line that was filled in is where its neighbours say, if they agree."""
        said = []
        for step in (-1, 1):
            for distance in range(1, _REACH + 1):
                near = index + step * distance
                found = self._same(texts, near) if 0 <= near < len(texts) else None
                if found is not None:
                    said.append(found - step * distance)
                    break
        return said[0] if len(said) == 2 and said[0] == said[1] else None


def _stripped(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()]
