"""Control group of a jail: its memory, its number of processes, and what is left in it.

Invariant: groups are made under the zygote's own group or, where version 2 forbids that, beside it;
so no limit of the machine's owner is evaded by more than one level. A group's name carries the
zygote's pid: the next survey removes what a killed engine left.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from gpu_sandbox.confine.policy import Layer, Policy, setting_up

_MARK = "gpu-sandbox-"
_NEEDED = ("memory", "pids")
_BY_SYSTEMD = "start with systemd-run --user --scope -p Delegate=yes, or enable them in "
_HAND_OVER = (
    "with version 1 an administrator hands groups over (cgcreate -a USER -t USER -g"
    " memory,pids:engine, then cgexec -g memory,pids:engine engine …), in a container mounts"
    " /sys/fs/cgroup writable, or boots with systemd.unified_cgroup_hierarchy=1"
)


class Hierarchy(msgspec.Struct, frozen=True, kw_only=True):
    """A place where groups can be made for some of the controllers."""

    version: int
    base: str
    """The directory under which jails' groups are made."""
    controllers: tuple[str, ...]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """One jail's directory in one hierarchy, held by descriptors.

    Descriptors work where the path doesn't: in a jail init, which has another root.
    """

    hierarchy: Hierarchy
    name: str
    base_fd: int
    fd: int

    def enter(self) -> None:
        """Move the calling process, which has one thread, in. (Version 1's ``tasks`` needs no wait
        for an RCU grace period.)"""
        self.write("tasks" if self.hierarchy.version == 1 else "cgroup.procs", "0")

    def pids(self) -> list[int]:
        """Members, as numbered in the caller's PID namespace (0: from outside of it)."""
        return [int(word) for word in self.read("cgroup.procs").split()]

    def kill(self) -> None:
        """SIGKILL for every member, forks under way included."""
        if self.hierarchy.version == 2:
            try:
                self.write("cgroup.kill", "1")
                return
            except OSError:  # before Linux 5.14
                pass
        if "pids" in self.hierarchy.controllers:
            with suppress(OSError):
                self.write("pids.max", "0")  # no more forks
        for pid in self.pids():
            if pid > 0 and pid != os.getpid():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def oom_kills(self) -> int:
        """How many processes the memory limit killed; 0 where the kernel doesn't count."""
        if "memory" not in self.hierarchy.controllers:
            return 0
        name = "memory.events" if self.hierarchy.version == 2 else "memory.oom_control"
        return self.read_key(name, "oom_kill")

    def remove(self) -> bool:
        """Whether the directory is gone; False while a process is in it."""
        try:
            os.rmdir(self.name, dir_fd=self.base_fd)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def close(self) -> None:
        os.close(self.fd)
        os.close(self.base_fd)

    def limit(self, policy: Policy) -> None:
        memory, pids = str(policy.memory_bytes), str(policy.processes)
        if "memory" in self.hierarchy.controllers:
            if self.hierarchy.version == 2:
                self.write("memory.max", memory)
                with suppress(FileNotFoundError):  # no swap accounting: no such file
                    self.write("memory.swap.max", "0")
            else:
                self.write("memory.limit_in_bytes", memory)
                with suppress(FileNotFoundError):
                    self.write("memory.memsw.limit_in_bytes", memory)
        if "pids" in self.hierarchy.controllers:
            self.write("pids.max", pids)

    def write(self, name: str, value: str) -> None:
        file = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            os.write(file, value.encode())
        finally:
            os.close(file)

    def read(self, name: str) -> str:
        """Empty where there is no such file."""
        try:
            file = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.fd)
        except FileNotFoundError:
            return ""
        try:
            return os.read(file, 1 << 16).decode()
        finally:
            os.close(file)

    def read_key(self, name: str, key: str) -> int:
        """A value among the lines of a file; 0 where it is not there."""
        pairs = (line.partition(" ") for line in self.read(name).splitlines())
        return next((int(value) for found, _, value in pairs if found == key), 0)


def find(proc: Path = Path("/proc/self")) -> tuple[tuple[Hierarchy, ...], str]:
    """Where memory and pids can be limited, and why not where something is missing: what is
    wrong, and behind a semicolon what can be done."""
    mounts = _mounts(proc)
    own = _own_groups(proc)
    found: list[Hierarchy] = []
    reasons: list[str] = []
    advice = ""
    lacking = set(_NEEDED)
    for controller in _NEEDED:
        if controller in own and controller in mounts:
            base = _inside(mounts[controller], own[controller])
            if base is None or not os.access(base, os.W_OK):
                reasons.append(f"{base or controller} is not writable")
                advice = _HAND_OVER
                continue
            found.append(Hierarchy(version=1, base=base, controllers=(controller,)))
            lacking.discard(controller)
    if lacking and "" in mounts:
        unified, reason, at = _unified(mounts[""], own.get("", "/"), tuple(sorted(lacking)))
        if unified is not None:
            return (*found, unified), ""
        reasons.append(reason)
        if at and not advice:
            advice = f"{_BY_SYSTEMD}{at}/cgroup.subtree_control"
    if lacking and not reasons:
        reasons.append("no cgroup file system is mounted")
    return tuple(found), ", and ".join(reasons) + (f"; {advice}" if advice else "")


def _unified(
    place: tuple[str, str], own: str, needed: tuple[str, ...]
) -> tuple[Hierarchy | None, str, str]:
    """The hierarchy; or what is wrong, and the group that can be mended, if one can."""
    base = _inside(place, own)
    if base is None:
        return None, "this process's group is outside of the mounted cgroup tree", ""
    mountpoint = place[1]
    places = [base] if base == mountpoint else [base, str(Path(base).parent)]
    for at in places:
        try:
            offered = Path(at, "cgroup.subtree_control").read_text().split()
        except OSError:
            continue
        if set(needed) <= set(offered) and os.access(at, os.W_OK):
            writable = os.access(Path(at, "cgroup.procs"), os.W_OK)
            if writable:
                return Hierarchy(version=2, base=at, controllers=needed), "", ""
    enabled = f"{' and '.join(needed)} enabled for its children"
    return None, f"no writable group with {enabled} at or above {base}", base


def _mounts(proc: Path) -> dict[str, tuple[str, str]]:
    """Controller (``""`` is version 2) to (root within the hierarchy, mount point)."""
    found: dict[str, tuple[str, str]] = {}
    for line in (proc / "mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        words = before.split()
        if kind == "cgroup2":
            found.setdefault("", (words[3], words[4]))
        elif kind == "cgroup":
            for option in options.split(","):
                if option in _NEEDED:
                    found.setdefault(option, (words[3], words[4]))
    return found


def _own_groups(proc: Path) -> dict[str, str]:
    try:
        lines = (proc / "cgroup").read_text().splitlines()
    except OSError:
        return {}
    groups: dict[str, str] = {}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            groups[controller] = path
    return groups


def _inside(place: tuple[str, str], path: str) -> str | None:
    """The directory of group ``path`` below a mount, if it lies there."""
    root, mountpoint = place
    relative = os.path.relpath(path, root)
    if relative.startswith(".."):
        return None
    return os.path.normpath(os.path.join(mountpoint, relative))


def make(hierarchies: Iterable[Hierarchy], number: int, policy: Policy) -> list[Group]:
    """A limited group in each hierarchy. Raises ``LayerFailed``; leaves nothing then."""
    groups: list[Group] = []
    with setting_up(Layer.CGROUP):
        try:
            for hierarchy in hierarchies:
                os.mkdir(os.path.join(hierarchy.base, _name(number)), 0o755)
                groups.append(_opened(hierarchy, number))
                groups[-1].limit(policy)
        except OSError:
            for group in groups:
                group.remove()
                group.close()
            raise
    return groups


def reopen(hierarchies: Iterable[Hierarchy], number: int) -> list[Group]:
    """The groups that ``make`` made in this process under ``number``, as far as they exist."""
    groups: list[Group] = []
    for hierarchy in hierarchies:
        with suppress(FileNotFoundError):
            groups.append(_opened(hierarchy, number))
    return groups


def _opened(hierarchy: Hierarchy, number: int) -> Group:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    name = _name(number)
    fd = os.open(os.path.join(hierarchy.base, name), flags)
    return Group(hierarchy=hierarchy, name=name, base_fd=os.open(hierarchy.base, flags), fd=fd)


def _name(number: int) -> str:
    return f"{_MARK}{os.getpid()}-{number}"


def remove_stale(hierarchies: Iterable[Hierarchy]) -> int:
    """Remove empty groups whose zygote is dead. Returns how many."""
    removed = 0
    for hierarchy in hierarchies:
        for path in Path(hierarchy.base).glob(f"{_MARK}*-*"):
            owner = path.name.removeprefix(_MARK).partition("-")[0]
            if owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
                with suppress(OSError):
                    path.rmdir()
                    removed += 1
    return removed
