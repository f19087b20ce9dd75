"""The worlds that the searches are compared in: a landscape, and what its agents can do."""

from __future__ import annotations

import msgspec

from benchmarks.landscape.agents import Skill
from benchmarks.landscape.terrain import Landscape

__all__ = ["WORLDS", "World"]


class World(msgspec.Struct, frozen=True, kw_only=True):
    """``about`` says in a line what is special about it."""

    about: str
    landscape: Landscape = Landscape()
    skill: Skill = Skill()
    equal: bool = False
    """The team's coder is as good as the single agent, instead of fitted to STARK's rates."""


WORLDS = {
    "irregular": World(about="the default: valleys, deceit, dead ends, a dominant root"),
    "smooth": World(
        about="no valleys, deceit or dead ends: nothing to be lost by greed",
        landscape=Landscape(deceit=0.0, valley=0.0, dead=0.0, hopeless=0.05),
    ),
    "deceptive": World(
        about="most gains behind valleys, fast entries lead nowhere",
        landscape=Landscape(deceit=1.5, valley=0.7, valley_cost=0.4),
    ),
    "dominated": World(
        about="first hops are twice as slow as the reference and more",
        landscape=Landscape(entry=(0.8, 0.8, 0.9)),
    ),
    "barren": World(
        about="dead ends and hopeless bugs everywhere",
        landscape=Landscape(dead=0.2, hopeless=0.25),
    ),
    "intricate": World(
        about="every rung and motif makes a kernel much easier to break",
        skill=Skill(intricacy=0.5),
    ),
    "equal agents": World(
        about="windows, anchors and roles are worth nothing: what is left is the search",
        skill=Skill(
            lesson=0.0, avoid=0.0, lend=0.0, anchor_edge=(0.0, 0.0, 0.0), debug_edge=0.0, heat=0.0
        ),
        equal=True,
    ),
    "lottery": World(
        about="adversarial: the first hop decides, nothing lies deeper, roots are not dominant",
        landscape=Landscape(
            families=40, entry=(0.0, 0.0, 0.0), entry_spread=0.8, promise=(0.1, 0.1, 0.1),
            promise_spread=0.05, deceit=0.0, valley=0.0, motif_gain=0.03, dead=0.0,
        ),
        skill=Skill(familiar=0.3),
    ),
}  # fmt: skip
