"""What the paper reports (arXiv 2510.16996v1), by method and level 1 to 3."""

from __future__ import annotations

__all__ = ["COMPILED", "CORRECT", "FAST_1", "SPEED", "SUCCESS"]

Levels = tuple[float, float, float]

COMPILED: dict[str, Levels] = {
    "sampling": (0.908, 0.970, 0.849),
    "reflexion": (0.860, 0.862, 0.789),
    "stark": (0.845, 0.907, 0.834),
}
"""Table 2, compile rate."""

CORRECT: dict[str, Levels] = {
    "sampling": (0.430, 0.440, 0.151),
    "reflexion": (0.483, 0.534, 0.284),
    "stark": (0.506, 0.612, 0.355),
}
"""Table 2, correct rate: of all kernels, not of those that compile."""

SUCCESS: dict[str, Levels] = {
    "sampling": (0.571, 0.875, 1.0),
    "reflexion": (0.926, 1.0, 0.675),
    "stark": (1.0, 1.0, 1.0),
}
"""Table 1: tasks with a correct kernel within B = 30."""

FAST_1: dict[str, Levels] = {
    "sampling": (0.143, 0.5, 0.5),
    "reflexion": (0.286, 0.75, 0.25),
    "stark": (0.714, 1.0, 0.875),
}
"""Table 1: tasks with a kernel at least as fast as eager."""

SPEED: dict[str, Levels] = {
    "sampling": (0.81, 1.06, 0.87),
    "reflexion": (1.24, 0.88, 0.79),
    "stark": (3.03, 2.69, 1.58),
}
"""Table 1: average speed over eager."""
