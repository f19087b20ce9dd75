"""Upper confidence bounds (UCB1; Auer, Cesa-Bianchi and Fischer, Machine Learning 47, 2002)."""

from __future__ import annotations

from decimal import Context, Decimal
from math import sqrt

__all__ = ["ln", "upper_bound"]

_EXACTLY_ROUNDED = Context(prec=25)


def ln(count: int) -> float:
    """The natural logarithm of a whole number, at least 1."""
    # Not math.log, whose last bit is the platform's: a log is replayed on any machine.
    return float(_EXACTLY_ROUNDED.ln(Decimal(count)))


def upper_bound(mean: float, *, weight: float, log_all: float, tried: int) -> float:
    """mean + weight · sqrt(ln N / n): of something that was tried n times of N."""
    return mean + weight * sqrt(log_all / tried)
