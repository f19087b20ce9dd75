"""Root directory of a jail: an empty tmpfs with read-only binds of an allow-list.

Invariant: when ``build`` returns, the calling process's root holds the view, a ``/proc`` of its own
PID namespace, a minimal ``/dev`` with the policy's devices, and one size-limited tmpfs behind home,
``/tmp`` and ``/dev/shm``; all else is read-only, nosuid and nodev, and no path leads to the host's
root. Runs in the jail init, in its own mount namespace.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from gpu_sandbox.confine.policy import Layer, LayerFailed, Policy, setting_up
from gpu_sandbox.confine.readable_paths import View, extended, followed
from gpu_sandbox.confine.syscalls import lock_tree, mount, pivot_root, unmount

_NOSUID, _NODEV, _NOEXEC = 2, 4, 8
_REMOUNT, _BIND, _REC, _SLAVE, _RDONLY = 32, 4096, 16384, 1 << 19, 1
_DETACH = 2
_OLD, _NEW, _OWN = "/old", "/new", "/own"
_STAGING = ("/tmp", "/mnt", "/var/tmp", "/run", "/proc")
_NODES = ("null", "zero", "full", "random", "urandom")
_DEV_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}
_INODES = 1 << 20


@setting_up(Layer.MOUNT)
def build(view: View, policy: Policy, *, uid: int, gid: int, own_pids: bool) -> None:
    """Raises ``LayerFailed`` for the mount layer, or for ``/proc`` in a PID namespace's name."""
    view = extended(view, policy.readable)
    _stage(policy)
    _fill(view, policy, uid, gid)
    nodes = [f"/dev/{name}" for name in _NODES] + list(policy.devices)
    for node in nodes:
        _make_file(node)
    _lock(_NEW)
    _proc(policy, own_pids)
    for node in nodes:
        _device(node)
    places = {"home": policy.home, "shm": "/dev/shm"}
    if not any(path.startswith("/tmp/") for path in (*view.trees, policy.home)):
        places["tmp"] = "/tmp"
    for name, place in places.items():
        os.mkdir(f"{_OWN}/{name}", 0o700)
        os.chown(f"{_OWN}/{name}", uid, gid)
        mount(f"{_OWN}/{name}", _NEW + place, "", _BIND)
    _move_in()


def _stage(policy: Policy) -> None:
    """A root with three directories: the host's, the jail's, and its own to write to."""
    os.umask(0o022)
    mount("none", "/", "", _REC | _SLAVE)  # nothing that follows reaches the host's mounts
    staging = next(path for path in _STAGING if os.path.isdir(path))
    mount("tmpfs", staging, "tmpfs", _NOSUID | _NODEV, "size=64k,nr_inodes=64,mode=755")
    for name in (_OLD, _NEW, _OWN):
        os.mkdir(staging + name)
    pivot_root(staging, staging + _OLD)
    os.chdir("/")
    mount("tmpfs", _NEW, "tmpfs", _NOSUID | _NODEV, "size=4m,nr_inodes=4096,mode=755")
    size = f"size={policy.tmpfs_bytes},nr_inodes={_INODES},mode=755"
    mount("tmpfs", _OWN, "tmpfs", _NOSUID | _NODEV, size)


def _fill(view: View, policy: Policy, uid: int, gid: int) -> None:
    """All that is there to read, and directories for what is mounted later."""
    for tree in view.trees:
        _bind(tree)
    for path, target in view.links:
        os.makedirs(os.path.dirname(_NEW + path), exist_ok=True)
        os.symlink(target, _NEW + path)
    _accounts(uid, gid, policy.home)
    for directory in ("/proc", "/sys", "/dev/shm", "/tmp", policy.home):
        os.makedirs(_NEW + directory, exist_ok=True)
    for name, target in _DEV_LINKS.items():
        os.symlink(target, f"{_NEW}/dev/{name}")
    if os.path.isdir(_OLD + "/sys/devices"):
        mount(_OLD + "/sys", _NEW + "/sys", "", _BIND | _REC)


def _move_in() -> None:
    """The jail's directory becomes the root; no way is left to the others."""
    unmount(_OLD, _DETACH)
    os.chdir(_NEW)
    pivot_root(".", ".")  # the old root lies over the new one now, and is taken off
    unmount(".", _DETACH)
    os.chdir("/")


def _make_file(path: str) -> None:
    """Something to mount on."""
    os.makedirs(os.path.dirname(_NEW + path), exist_ok=True)
    if not os.path.exists(_NEW + path):
        os.close(os.open(_NEW + path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _bind(path: str) -> None:
    source = _OLD + followed(path, _OLD)[1]
    try:
        mode = os.stat(source).st_mode
    except FileNotFoundError:  # removed since the survey, or a dangling link
        raise LayerFailed(Layer.MOUNT, f"{path} is not there") from None
    if stat.S_ISDIR(mode):
        os.makedirs(_NEW + path, exist_ok=True)
    else:
        _make_file(path)
    # Recursive, or the kernel refuses: what lies under a mount in it would be uncovered.
    mount(source, _NEW + path, "", _BIND | _REC)


def _device(path: str) -> None:
    source = _OLD + followed(path, _OLD)[1]
    try:
        mode = os.stat(source).st_mode
    except FileNotFoundError:
        raise LayerFailed(Layer.MOUNT, f"there is no device {path}") from None
    if not stat.S_ISCHR(mode):
        raise LayerFailed(Layer.MOUNT, f"{path} is not a character device")
    mount(source, _NEW + path, "", _BIND)
    # A device takes writes all the same. Its node's times stay: else they are a note for the next
    # candidate. A kernel may refuse that.
    kept = os.statvfs(_NEW + path).f_flag & (_NOSUID | _NOEXEC)
    with suppress(OSError):
        mount("none", _NEW + path, "", _BIND | _REMOUNT | _RDONLY | _NOSUID | kept)


def _accounts(uid: int, gid: int, home: str) -> None:
    """The few files without which names can't be looked up; none of the host's."""
    files = {
        "passwd": f"root:x:0:0:root:/:/bin/false\nsandbox:x:{uid}:{gid}:sandbox:{home}:/bin/sh\n",
        "group": f"root:x:0:\nsandbox:x:{gid}:\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
        "hosts": "127.0.0.1 localhost\n",
    }
    os.makedirs(_NEW + "/etc", exist_ok=True)
    for name, content in files.items():
        path = f"{_NEW}/etc/{name}"
        if os.path.lexists(path):
            continue  # a policy's own
        with open(path, "w", encoding="ascii") as file:
            file.write(content)


def _proc(policy: Policy, own_pids: bool) -> None:
    """Of the own PID namespace, which CUDA insists on; else the host's."""
    target = _NEW + "/proc"
    if not own_pids:
        mount(_OLD + "/proc", target, "", _BIND | _REC)
        return
    flags = _NOSUID | _NODEV | _NOEXEC
    try:
        try:
            mount("proc", target, "proc", flags, "hidepid=2")
        except OSError as error:
            if error.errno != errno.EINVAL:  # a /proc without that option, as in gVisor
                raise
            mount("proc", target, "proc", flags)
    except OSError as error:
        raise LayerFailed(Layer.PID, f"a fresh /proc is refused: {error}") from error
    # A writer there hears every two seconds how busy the machine is, also while it is stopped and
    # another process is timed.
    pressure = target + "/pressure"
    if os.path.isdir(pressure):
        mount("tmpfs", pressure, "tmpfs", flags | _RDONLY, "size=4k,nr_inodes=1,mode=555")
    # A container's runtime lays its own files over the driver's parameters.
    driver = "/proc/driver/nvidia"
    if policy.devices and os.path.isdir(_OLD + driver) and os.path.isdir(_NEW + driver):
        mount(_OLD + driver, _NEW + driver, "", _BIND | _REC)


def _lock(root: str) -> None:
    """Make all that is mounted so far read-only, without devices and set-uid programs."""
    try:
        lock_tree(root)
        return
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM, errno.EINVAL):
            raise
    # Before Linux 5.12, and on gVisor: one by one, keeping the flags that are locked.
    keep = {"nosuid": _NOSUID, "nodev": _NODEV, "noexec": _NOEXEC}
    keep |= {"noatime": 1024, "nodiratime": 2048, "relatime": 1 << 21}
    with open(_OLD + "/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        lines = file.read().splitlines()
    for line in lines:
        words = line.split()
        point = _unescaped(words[4])
        if point != root and not point.startswith(root + "/"):
            continue
        flags = _NOSUID | _NODEV | _RDONLY
        for option in words[5].split(","):
            flags |= keep.get(option, 0)
        mount("none", point, "", _BIND | _REMOUNT | flags)


def _unescaped(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
