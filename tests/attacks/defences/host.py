"""Defences of the host: mostly layers of isolation, each of which stops more than one attack.

What a candidate could do to the machine stays forbidden: bombs are thrown at no sandbox that lacks
the layer that catches them, and nothing that would wait for ever is let wait.
"""

from __future__ import annotations

from typing import Any

from tests.attacks.defences.defence import Bite, Defence
from tests.attacks.defences.patching import Patch, constant

__all__ = ["DEFENCES"]

_FILES = ("own root", "own user", "landlock")
_PROCESSES = ("own processes", "own user", "landlock")
_SOCKETS = ("network namespace", "landlock", "system call filter")


def _but(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(each for each in names if each != name)


def _and_keys(names: Any) -> Any:
    return (*names, "ATTACKED_API_KEY")


def _leaky(close: Any) -> Any:
    """A file of the package was left open in the zygote, and a fork keeps it."""
    import gpu_sandbox

    leaked = open(gpu_sandbox.__file__ or "")  # noqa: SIM115
    return lambda kept: close({*kept, leaked.fileno()})


def _unless_none(keep_only: Any) -> Any:
    """The jail init keeps some; the candidate keeps all."""
    return lambda kept: keep_only(kept) if kept else None


def _all_of_it(keep: Any) -> Any:
    def keep_all(self: Any, chunk: bytes) -> None:
        self._head += chunk

    return keep_all


DEFENCES = (
    Defence(
        name="own root",
        module="confine/filesystem.py",
        threats=("H1", "A5", "A6", "K19"),
        without=("namespaces:mount",),
        bites=(
            Bite("writes_outside", "it left", _but(_FILES, "own root")),
            Bite("reads_a_secret_file", "GAINED: a file of the host", _but(_FILES, "own root")),
            Bite("reads_the_reference_file", "GAINED: the reference", _but(_FILES, "own root")),
            Bite("leaves_a_note", "it left", _but(_FILES, "own root")),
            Bite("reads_other_runs", "entries of others", _but(_FILES, "own root")),
            Bite("devices_and_control_files", "GAINED: may write", _but(_FILES, "own root")),
        ),
    ),
    Defence(
        name="own user",
        module="confine/identity.py",
        threats=("H1", "H3", "H10"),
        without=("uid",),
        bites=(
            Bite("deletes_outside", "of the host", _but(_FILES, "own user")),
            Bite("poisons_the_build_cache", "it left", _but(_FILES, "own user")),
            Bite("takes_the_lease", "GAINED: the lease's file", _but(_FILES, "own user")),
            Bite("compiler_writes_outside", "it wrote outside", _but(_FILES, "own user")),
            Bite("cuda_compiler_writes_outside", "it wrote outside", _but(_FILES, "own user")),
            Bite("kills_a_bystander", "it killed a bystander", _but(_PROCESSES, "own user")),
        ),
    ),
    Defence(
        name="landlock",
        module="confine/landlock.py",
        threats=("H1", "H2", "H3"),
        without=("landlock",),
        bites=(
            Bite("writes_the_own_source_tree", "GAINED: may change", _but(_FILES, "landlock")),
            Bite("connects_by_tcp", "GAINED: a TCP connection", _but(_SOCKETS, "landlock")),
            Bite("connects_while_compiling", "GAINED: a TCP", _but(_SOCKETS, "landlock")),
            Bite("listens", "GAINED: a port", _but(_SOCKETS, "landlock")),
            Bite("connects_by_unix_socket", "GAINED: a connection", _but(_SOCKETS, "landlock")),
        ),
    ),
    Defence(
        name="own processes",
        module="confine/identity.py",
        threats=("H3", "A6", "C7"),
        without=("namespaces:pid",),
        bites=(
            Bite("signals_its_parent", "may signal a relative", _but(_PROCESSES, "own processes")),
            Bite("kills_the_verifier", "evaluator broke down", _but(_PROCESSES, "own processes")),
            Bite(
                "moves_the_baseline",
                "GAINED: may",
                (*_but(_PROCESSES, "own processes"), "system call filter"),
            ),
        ),
    ),
    Defence(
        name="network namespace",
        module="confine/identity.py",
        threats=("H2",),
        without=("namespaces:net",),
        bites=(Bite("connects_by_tcp", "it sent a datagram to the host", ("system call filter",)),),
    ),
    Defence(
        name="own System V memory",
        module="confine/identity.py",
        threats=("H11",),
        without=("namespaces:ipc",),
        bites=(Bite("leaves_shared_memory", "it left System V", ("system call filter",)),),
    ),
    Defence(
        name="system call filter",
        module="confine/seccomp_filter.py",
        threats=("H4",),
        without=("seccomp",),
        bites=(
            Bite("forbidden_system_calls", "is reachable"),
            Bite("new_namespace", "GAINED: a user namespace"),
            Bite("leases_files", "GAINED: a lease", ("own user",)),
        ),
    ),
    Defence(
        name="resource limits",
        module="confine/apply_layers.py",
        threats=("H8", "H11"),
        without=("rlimits",),
        bites=(Bite("descriptor_exhaustion", "GAINED: twenty thousand descriptors"),),
    ),
    Defence(
        name="no new privileges",
        module="confine/apply_layers.py",
        threats=("H4",),
        without=("no-new-privs",),
        bites=(
            Bite(
                "has_capabilities",
                "GAINED: setuid programs work",
                ("landlock", "system call filter"),
            ),
        ),
    ),
    Defence(
        name="no capabilities",
        module="confine/identity.py",
        threats=("H4",),
        patches=(
            Patch("gpu_sandbox.confine.identity:keep_only", _unless_none),
            Patch("gpu_sandbox.confine.identity:held_capabilities", constant(0)),
        ),
        bites=(Bite("has_capabilities", "GAINED: Cap", ("own user",)),),
    ),
    Defence(
        name="descriptors are closed",
        module="confine/apply_layers.py",
        threats=("H5",),
        patches=(
            Patch("gpu_sandbox.confine.apply_layers:close_all_but", _leaky),
            Patch("gpu_sandbox.confine.jail_init:close_all_but", _leaky),
        ),
        bites=(Bite("inherited_descriptors", "GAINED: descriptor"),),
    ),
    Defence(
        name="variables on a list",
        module="toolchain/environment.py",
        threats=("H5",),
        patches=(Patch("gpu_sandbox.toolchain.environment:_PASSED_ON", _and_keys, in_engine=True),),
        bites=(Bite("secrets_in_its_surroundings", "GAINED: a variable"),),
    ),
    Defence(
        name="output is bounded",
        module="supervise/child_process.py",
        threats=("H8",),
        patches=(
            Patch("gpu_sandbox.supervise.child_process:Output._keep", _all_of_it, in_engine=True),
        ),
        bites=(Bite("output_flood", "characters long"),),
    ),
)
