"""What the tables of defences consist of."""

from __future__ import annotations

import msgspec

from tests.attacks.defences.patching import Patch

__all__ = ["ACCEPTED", "Bite", "Defence"]

ACCEPTED = "correct at"
"""The attack gets a verdict that the table of attacks does not allow it, or a speed."""


class Bite(msgspec.Struct, frozen=True):
    """``attack`` succeeds without the defence: the harness finds ``gain``. ``also_off``: other
    defences that stop it, too, by name, and are switched off with this one."""

    attack: str
    gain: str = ACCEPTED
    also_off: tuple[str, ...] = ()


class Defence(msgspec.Struct, frozen=True, kw_only=True):
    """``name`` says what it does, ``module`` where, below ``gpu_sandbox/``, and ``threats`` for
    which rows of the threat model. ``without``: the layers of isolation that it is, which a sandbox
    can be told to do without; ``patches``: or how it is switched off otherwise. One that is not
    switched off says why in ``kept``, and what test shows that it works."""

    name: str
    module: str
    threats: tuple[str, ...]
    bites: tuple[Bite, ...] = ()
    patches: tuple[Patch, ...] = ()
    without: tuple[str, ...] = ()
    kept: str = ""

    def tries(self) -> dict[tuple[str, ...], list[Bite]]:
        """By what is switched off together, this one first."""
        found: dict[tuple[str, ...], list[Bite]] = {}
        for bite in self.bites:
            found.setdefault((self.name, *bite.also_off), []).append(bite)
        return found
