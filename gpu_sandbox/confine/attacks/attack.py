"""What an attack is: a try, and the layers that must refuse it.

Invariant: an attack returns whether it was refused, and how; it raises only by mistake, which
counts as not refused.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

import msgspec

from gpu_sandbox.confine.attacks.targets import Targets
from gpu_sandbox.confine.policy import Policy

__all__ = ["Attack", "Result", "attempt", "refused"]


class Result(msgspec.Struct, frozen=True):
    attack: str
    held: bool
    detail: str


class Attack(msgspec.Struct, frozen=True):
    name: str
    run: Callable[[Targets, Policy], tuple[bool, str]]
    layers: tuple[str, ...]
    """Each of these must refuse it alone."""
    landlock_abi: int = 1
    """The first version of Landlock that refuses it."""
    per_user: bool = False
    """Refused by resource limits as well, if the jail's user is nobody else's."""
    ends_jail: bool = False
    """Refused by ending the whole jail for its memory: tried last, and never answered."""


def attempt(attack: Attack, targets: Targets, policy: Policy) -> Result:
    try:
        held, detail = attack.run(targets, policy)
    except Exception as error:
        held, detail = False, f"the attack itself failed: {error!r}"
    return Result(attack.name, held, detail)


def refused(action: Callable[[], object], got: str) -> tuple[bool, str]:
    """Whether the kernel said no, and in which words; else what was had."""
    try:
        action()
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, str(error))
        return True, f"refused: {name}"
    return False, got
