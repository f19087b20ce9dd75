"""The stand-ins for agents: which kernel a role writes, given what it is shown. Pure.

``Skill`` is what is assumed of them, ``Rates`` what is fitted to the paper. A stand-in
never sees the terrain: it does not know which move is good, a valley or a dead end.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

import msgspec

from benchmarks.landscape.chance import pick, uniform
from benchmarks.landscape.terrain import REFERENCE, Kernel, Task

__all__ = ["Agents", "Odds", "Rates", "Skill", "Work"]


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """What is assumed. ``*_edge``, ``lesson`` and ``heat`` are logits on being correct; a
    half of each goes to compiling."""

    deeper: float = 0.4
    """Probability of proposing the next rung, rather than a motif. Of all agents."""
    leap: float = 0.25
    """Probability that a kernel written from the reference holds one more move; repeated."""
    intricacy: float = 0.2
    """What each rung and motif of the wanted kernel costs: the better a kernel, the easier
    it is to break."""
    familiar: float = 1.0
    """Families are proposed as 1 / rank to this power, sharpened by the temperature."""
    refine_edge: float = 2.0
    """Changing a correct kernel, over writing one anew."""
    debug_edge: float = 0.3
    """The debug role over an agent that mends its own."""
    rewrite: float = 0.3
    """Probability that an agent without a debug role starts anew instead of mending."""
    anchor_edge: tuple[float, float, float] = (0.2, 0.3, 0.5)
    """Anchors, by level: the paper finds them most effective on level 3."""
    lesson: float = 0.15
    """Each attempt of the same family that a window shows, up to ``lessons``."""
    lessons: int = 3
    avoid: float = 0.7
    """Probability of not proposing again what a window shows to have been tried."""
    lend: float = 2.0
    """How much likelier a motif is proposed that a faster kernel in the window has."""
    heat: float = 0.8
    """What writing code at a temperature one degree above 0.1 costs a team's coder."""
    unusable: float = 0.02
    """Probability that a reply can't be used and is asked again."""


class Odds(msgspec.Struct, frozen=True, kw_only=True):
    """Logits by level, before a task's hardness and all edges."""

    compiles: tuple[float, float, float]
    passes: tuple[float, float, float]
    """Correct, given that it compiles."""


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Fitted to the paper's Table 2 (``rates``): who writes what with what success."""

    single: Odds
    """One agent, a kernel from the reference: fitted to Sampling."""
    mend: Odds
    """One agent, its own failing kernel: fitted to Reflexion."""
    team: Odds
    """Planner and coder, a kernel from the reference: fitted to STARK."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What a role is asked: to change ``start``, at a temperature, being shown ``shown``
    (the start and the reference left out)."""

    attempt: int
    start: Kernel
    shown: Sequence[Kernel]
    temperature: float


class Agents:
    """The stand-ins for one search of one task. Draws are keyed by the attempt."""

    def __init__(self, task: Task, skill: Skill, rates: Rates, *, seed: int) -> None:
        self._task = task
        self._skill = skill
        self._rates = rates
        self._seed = seed

    def is_unusable(self, call: int) -> bool:
        return uniform(self._seed, "unusable", call) < self._skill.unusable

    def propose(self, work: Work) -> Kernel:
        """What the planner, or a single agent, wants to be written."""
        start = work.start
        if start.bug and uniform(self._seed, "rewrite", work.attempt) < self._skill.rewrite:
            start = REFERENCE
        if start.bug:
            return start
        if start.family >= 0:
            return self._move(work, start, purpose="move")
        kernel = Kernel(family=self._family(work))
        for more in range(3):
            if uniform(self._seed, f"leap/{more}", work.attempt) >= self._skill.leap:
                break
            kernel = self._move(work, kernel, purpose=f"move/{more}")
        return kernel

    def write(self, work: Work, wanted: Kernel, *, coder: bool, anchors: bool) -> Kernel:
        """The code of what was proposed, by a team's coder or by a single agent."""
        if wanted.bug:
            return self.mend(work, debugger=False)
        odds, skill = (self._rates.team if coder else self._rates.single), self._skill
        edge = self._lessons(work, wanted)
        edge -= skill.intricacy * (wanted.depth + wanted.motifs.bit_count())
        if work.start.family >= 0 and not work.start.bug:
            edge += skill.refine_edge
        if coder:
            edge -= skill.heat * (work.temperature - 0.1)
            edge += skill.anchor_edge[self._task.level - 1] if anchors else 0.0
        # A kernel that is built anew stands on nothing that could be dead.
        dead = wanted.family == work.start.family and self._task.is_dead(work.start)
        return self._tried(work, wanted, odds, edge, hopeless=dead)

    def mend(self, work: Work, *, debugger: bool) -> Kernel:
        """The failing kernel without its bug, or with one."""
        edge = self._lessons(work, work.start)
        if debugger:
            edge += self._skill.debug_edge - self._skill.heat * (work.temperature - 0.1)
        sound = msgspec.structs.replace(work.start, bug="")
        hopeless = work.start.hopeless
        return self._tried(work, sound, self._rates.mend, edge, hopeless=hopeless, new=False)

    # -- chance -------------------------------------------------------------------------

    def _family(self, work: Work) -> int:
        sharp = self._skill.familiar * 0.7 / max(work.temperature, 0.05)
        tried = {kernel.family for kernel in work.shown}
        weights = [
            (1 + family) ** -sharp * (1 - self._skill.avoid * (family in tried))
            for family in range(self._task.landscape.families)
        ]
        return pick(weights, uniform(self._seed, "family", work.attempt))

    def _move(self, work: Work, start: Kernel, *, purpose: str) -> Kernel:
        """One rung up, or one more motif; the start itself where there is nothing left."""
        skill, moves, weights = self._skill, [], []
        tried = {kernel.structure for kernel in work.shown}
        runtime = self._task.runtime
        # Sound ones only are known to be faster.
        faster = [
            kernel for kernel in work.shown if not kernel.bug and runtime(kernel) < runtime(start)
        ]
        if start.depth < len(self._task.ladders[start.family]):
            moves.append(msgspec.structs.replace(start, depth=start.depth + 1))
            weights.append(skill.deeper)
        missing = [
            motif for motif in range(self._task.landscape.motifs) if not start.motifs >> motif & 1
        ]
        for motif in missing:
            moves.append(msgspec.structs.replace(start, motifs=start.motifs | 1 << motif))
            lent = any(kernel.motifs >> motif & 1 for kernel in faster)
            weights.append((1 - skill.deeper) / len(missing) * (1 + skill.lend * lent))
        if not moves:
            return start
        for at, move in enumerate(moves):
            if move.structure in tried:
                weights[at] *= 1 - skill.avoid
        return moves[pick(weights, uniform(self._seed, purpose, work.attempt))]

    def _lessons(self, work: Work, wanted: Kernel) -> float:
        akin = sum(kernel.family == wanted.family for kernel in work.shown)
        return self._skill.lesson * min(akin, self._skill.lessons)

    def _tried(
        self, work: Work, wanted: Kernel, odds: Odds, edge: float, *, hopeless: bool,
        new: bool = True,
    ) -> Kernel:  # fmt: skip
        at, seed = self._task.level - 1, self._seed
        edge += self._task.hardness
        bug = ""
        if uniform(seed, "compiles", work.attempt) >= _sigmoid(odds.compiles[at] + edge / 2):
            bug = "compile"
        elif hopeless or uniform(seed, "passes", work.attempt) >= _sigmoid(odds.passes[at] + edge):
            bug = "wrong"
        if bug and new and not hopeless:
            hopeless = uniform(seed, "hopeless", work.attempt) < self._task.landscape.hopeless
        return msgspec.structs.replace(wanted, bug=bug, hopeless=bool(bug) and hopeless)


def _sigmoid(logit: float) -> float:
    return 1 / (1 + exp(-logit))
