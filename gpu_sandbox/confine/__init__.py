"""Confinement of a function, run in a fork of this process, by every layer that holds here.

Standard library, ctypes and msgspec only. Use from a process with one thread::

    found = survey()                      # once; what holds here, and what doesn't and why
    jail = spawn(policy, found, main, output_fd=out, keep_fds=(), environment={})
    ...                                   # poll jail.fd
    status = jail.end()                   # everything that it started is dead
"""

from __future__ import annotations

from gpu_sandbox.confine.jail import Jail
from gpu_sandbox.confine.kernel_support import Finding, Machine, Survey
from gpu_sandbox.confine.policy import Layer, LayerFailed, Policy, SpawnFailed, Status, Tier
from gpu_sandbox.confine.spawn import spawn
from gpu_sandbox.confine.survey import survey

__all__ = [
    "Finding",
    "Jail",
    "Layer",
    "LayerFailed",
    "Machine",
    "Policy",
    "SpawnFailed",
    "Status",
    "Survey",
    "Tier",
    "spawn",
    "survey",
]
