"""Defences of the host: mostly layers of isolation, each of which stops more than one attack.

What a candidate could do to the machine stays forbidden: bombs are thrown at no sandbox that lacks
the layer that catches them.
"""

from __future__ import annotations

from tests.attacks.defences.defence import Bite, Defence

__all__ = ["DEFENCES"]

DEFENCES = (
    Defence(
        name="network namespace",
        module="confine/identity.py",
        threats=("H2",),
        without=("namespaces:net",),
        bites=(Bite("connects_by_tcp", "it sent a datagram to the host", ("system call filter",)),),
    ),
    Defence(
        name="system call filter",
        module="confine/seccomp_filter.py",
        threats=("H4",),
        without=("seccomp",),
        bites=(Bite("forbidden_system_calls", "is reachable"),),
    ),
)
