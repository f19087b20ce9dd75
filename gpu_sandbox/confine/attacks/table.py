"""What a hostile candidate would try first, harmless to the machine if it works."""

from __future__ import annotations

from gpu_sandbox.confine.attacks import excess, reach, rights
from gpu_sandbox.confine.attacks.attack import Attack
from gpu_sandbox.confine.attacks.targets import NAMESPACE_FILES
from gpu_sandbox.confine.policy import (
    CGROUP,
    IPC,
    LANDLOCK,
    MOUNT,
    NET,
    NO_NEW_PRIVS,
    PID,
    RLIMITS,
    SECCOMP,
    UID,
    USER,
    WATCH,
)

__all__ = ["ATTACKS"]

ATTACKS = (
    Attack("read a file outside", reach.read_canary, (MOUNT, LANDLOCK)),
    Attack("read a private file", reach.read_secret, (UID, MOUNT, LANDLOCK)),
    Attack("write outside of home", reach.write_outside, (MOUNT, LANDLOCK)),
    Attack("write into this package", reach.write_package, (UID, MOUNT, LANDLOCK)),
    Attack("fill the disk", excess.fill_home, (MOUNT,)),
    Attack("connect to a socket file", reach.unix_socket, (MOUNT, SECCOMP)),
    Attack("connect to an abstract socket", reach.abstract_socket, (NET, LANDLOCK), 6),
    Attack("connect to a TCP port", reach.tcp, (NET, LANDLOCK, SECCOMP), 4),
    Attack("find shared memory", reach.shared_memory, (IPC, SECCOMP)),
    Attack("signal a process", reach.signal_a_process, (PID, UID, LANDLOCK), 6),
    Attack("trace a process", reach.trace, (PID, UID, LANDLOCK, SECCOMP)),
    Attack("read the jail init", reach.read_jail_init, ()),
    Attack("become root", rights.become_root, (UID,)),
    Attack("hold capabilities", rights.capabilities, (UID, USER)),
    Attack("make forbidden calls", rights.forbidden_calls, (SECCOMP,)),
    Attack("call by another convention", rights.foreign_convention, (SECCOMP,)),
    Attack("start too many processes", excess.too_many_processes, (CGROUP, RLIMITS), per_user=True),
    Attack("take too much memory", excess.too_much_memory, (CGROUP,)),
    Attack("fill the memory", excess.fill_memory, (WATCH,), ends_jail=True),
    Attack("write too large a file", excess.too_large_a_file, (RLIMITS,)),
    Attack("open too many files", excess.too_many_files, (RLIMITS,)),
    Attack("gain privileges by exec", rights.new_privileges, (NO_NEW_PRIVS,)),
    *(
        Attack(
            f"share {layer.removeprefix('namespaces:')}", rights.shared_namespace(layer), (layer,)
        )
        for layer in NAMESPACE_FILES
    ),
)
"""``read the jail init`` has no layer of its own: nothing may get there under any of them."""
