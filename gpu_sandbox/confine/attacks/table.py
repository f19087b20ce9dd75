"""Table of attacks: what a hostile candidate would try first, harmless if it works."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gpu_sandbox.confine.attacks import excess, reach, rights
from gpu_sandbox.confine.attacks.targets import NAMESPACE_FILES, Targets
from gpu_sandbox.confine.policy import Layer, Policy


class Attack(msgspec.Struct, frozen=True):
    """``run`` returns whether it was refused, and how. What it raises counts as not refused."""

    name: str
    run: Callable[[Targets, Policy], tuple[bool, str]]
    layers: tuple[Layer, ...]
    """Each of these must refuse it alone. Without any: nothing may succeed under any layers."""
    landlock_abi: int = 1
    """The first version of Landlock that refuses it."""
    per_user: bool = False
    """Refused by resource limits as well, if no other process is of the jail's user."""
    ends_jail: bool = False
    """Refused by ending the whole jail for its memory: tried last, and never answered."""

    def attempt(self, targets: Targets, policy: Policy) -> tuple[bool, str]:
        try:
            return self.run(targets, policy)
        except Exception as error:
            return False, f"the attack itself failed: {error!r}"


_USER, _MOUNT, _NET, _IPC, _PID = Layer.USER, Layer.MOUNT, Layer.NET, Layer.IPC, Layer.PID
_UID, _LANDLOCK, _SECCOMP, _CGROUP = Layer.UID, Layer.LANDLOCK, Layer.SECCOMP, Layer.CGROUP
_RLIMITS = Layer.RLIMITS

ATTACKS = (
    Attack("read a file outside", reach.read_canary, (_MOUNT, _LANDLOCK)),
    Attack("read a private file", reach.read_secret, (_UID, _MOUNT, _LANDLOCK)),
    Attack("write outside of home", reach.write_outside, (_MOUNT, _LANDLOCK)),
    Attack("write into this package", reach.write_package, (_UID, _MOUNT, _LANDLOCK)),
    Attack("fill the disk", excess.fill_home, (_MOUNT,)),
    Attack("connect to a socket file", reach.unix_socket, (_MOUNT, _SECCOMP)),
    Attack("connect to an abstract socket", reach.abstract_socket, (_NET, _LANDLOCK), 6),
    Attack("connect to a TCP port", reach.tcp, (_NET, _LANDLOCK, _SECCOMP), 4),
    Attack("find shared memory", reach.shared_memory, (_IPC, _SECCOMP)),
    Attack("signal a process", reach.signal_a_process, (_PID, _UID, _LANDLOCK), 6),
    Attack("trace a process", reach.trace, (_PID, _UID, _LANDLOCK, _SECCOMP)),
    Attack("read the jail init", reach.read_jail_init, ()),
    Attack("become root", rights.become_root, (_UID,)),
    Attack("hold capabilities", rights.capabilities, (_UID, _USER)),
    Attack("make forbidden calls", rights.forbidden_calls, (_SECCOMP,)),
    Attack("call by another convention", rights.foreign_convention, (_SECCOMP,)),
    Attack(
        "start too many processes", excess.too_many_processes, (_CGROUP, _RLIMITS), per_user=True
    ),
    Attack("take too much memory", excess.too_much_memory, (_CGROUP,)),
    Attack("fill the memory", excess.fill_memory, (Layer.WATCH,), ends_jail=True),
    Attack("write too large a file", excess.too_large_a_file, (_RLIMITS,)),
    Attack("open too many files", excess.too_many_files, (_RLIMITS,)),
    Attack("gain privileges by exec", rights.new_privileges, (Layer.NO_NEW_PRIVS,)),
    *(
        Attack(
            f"share {layer.removeprefix('namespaces:')}", rights.shared_namespace(layer), (layer,)
        )
        for layer in NAMESPACE_FILES
    ),
)
