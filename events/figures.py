"""Percentages and errors as text. Pure."""

from __future__ import annotations

__all__ = ["beside", "percent", "whole_percent"]

_LEAST, _MOST = 0.001, 99.9  # percent; what lies between these and the ends is not shown as an end


def percent(share: float) -> str:
    """``0.37 %``, ``62 %``, ``99.9 %``. Only all of it is 100 %, and only nothing is 0 %."""
    value = 100 * share
    if value <= 0 or value >= 100:
        return f"{value:.0f} %"
    if value < _LEAST:
        return f"less than {_LEAST:g} %"
    if value > _MOST:
        return f"over {_MOST:g} %" if f"{value:.1f}" == "100.0" else f"{value:.1f} %"
    return f"{value:.1f} %" if value > 99 else f"{value:.2g} %"


def whole_percent(share: float, blank: str = " ") -> str:
    """The same without decimals, but near the ends: ``62 %``, ``99.9 %``. ``blank`` is what stands
    before the sign."""
    text = f"{100 * share:.0f}"
    if text in ("0", "100") and 0 < share < 1:
        return percent(share).replace(" %", f"{blank}%")
    return f"{text}{blank}%"


def beside(error: float, bound: float, digits: int = 2) -> tuple[str, str]:
    """An error and its bound, with as many more digits as distinguish them."""
    for more in range(digits, digits + 4):
        texts = f"{error:.{more}e}", f"{bound:.{more}e}"
        if texts[0] != texts[1]:
            return texts
    return f"{error:.{digits}e}", f"{bound:.{digits}e}"
