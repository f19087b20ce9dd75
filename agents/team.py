"""Teams: which roles make a candidate, and which window each of them gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from agents.windows import RULES, Rule, minimal_window
from projections.search.tree import Tree

__all__ = ["WindowedTeam", "plan_code_debug_team", "single_team"]


class WindowedTeam(msgspec.Struct, frozen=True, kw_only=True):
    """A team as data: the roles of an improvement, those of a repair, a window rule each."""

    improve: tuple[str, ...]
    repair: tuple[str, ...] = ()
    windows: Mapping[str, Rule]
    leaders: int

    @property
    def repairs(self) -> bool:
        return bool(self.repair)

    def roles(self, *, repair: bool) -> Sequence[str]:
        return self.repair if repair else self.improve

    def pool(self, role: str, tree: Tree, node: int) -> list[int]:
        return self.windows[role](tree, node, self.leaders)


def plan_code_debug_team(*, leaders: int, windows: bool, repairs: bool) -> WindowedTeam:
    """Plan then code; debug for what failed, unless ``repairs`` is off."""
    return WindowedTeam(
        improve=("plan", "code"),
        repair=("debug",) if repairs else (),
        windows=_rules(windows),
        leaders=leaders,
    )


def single_team(*, leaders: int, windows: bool) -> WindowedTeam:
    """One agent that writes every candidate by itself, a failing node's successor too."""
    return WindowedTeam(improve=("single",), windows=_rules(windows), leaders=leaders)


def _rules(windows: bool) -> Mapping[str, Rule]:
    """Without windows each role sees {i, root}."""
    return RULES if windows else dict.fromkeys(RULES, minimal_window)
