"""How often integers may be others that nobody saw rounding flip.

One in 100,000 may flip in one draw of sixty, which a few draws do not show. Where a few elements
are all that a call computes, as the tokens that are put behind millions of others, it would be let
off each time: so it is let off seldom.
"""

from __future__ import annotations

__all__ = ["Seldom"]

_ONE_IN = 10


class Seldom:
    """Of the outputs of one verdict, as they are compared."""

    def __init__(self) -> None:
        self._looked_at = self._let_off = 0

    def looked(self) -> None:
        self._looked_at += 1

    def lets_off(self) -> bool:
        """Whether one more may have more of them than were seen to flip."""
        if self._let_off > self._looked_at // _ONE_IN:
            return False
        self._let_off += 1
        return True
