"""Which of the host's files a jail may read: an allow-list drawn from this interpreter.

Invariant: a tree on the list is software (the system's, the interpreter's, a compiler's),
never a home directory, a parent of one, or a directory that everybody writes to. What had to
be left out for that reason is named, so that its absence is no riddle.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import msgspec

__all__ = ["View", "base_view", "extended"]

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
_DRIVERS = ("/usr/local/nvidia", "/usr/local/cuda", "/run/opengl-driver", "/opt/rocm")
_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime")
_TOOLS = ("c++", "g++", "gcc", "cc", "clang", "clang++", "ld", "as", "nvcc", "ninja", "ccache")
_NEVER = ("/", "/tmp", "/var", "/var/tmp", "/run", "/home", "/root", "/etc", "/dev", "/proc")
_PERSONAL = (".local", ".config", ".cache", ".ssh", ".gnupg")
_MOST_LINKS = 40
"""On the way along one path, as for the kernel."""
_PACKAGE = Path(__file__).resolve().parent.parent


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Trees and files to bind read-only, and symbolic links to make again, parents first."""

    trees: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    """(path, target as written)."""
    left_out: tuple[str, ...] = ()


class _Collector:
    def __init__(self) -> None:
        self.trees: set[str] = set()
        self.links: dict[str, str] = {}
        self.left_out: set[str] = set()
        self._homes = _homes()

    def add(self, path: str) -> None:
        """What ``path`` leads to, and the links on the way there."""
        links, real = _followed(os.path.abspath(path))
        if not os.path.exists(real):
            return
        if os.path.isdir(real) and self._too_wide(real):
            self.left_out.add(real)
            return
        self.links.update(links)
        self.trees.add(real)

    def add_tool(self, name: str) -> None:
        """A program with the directories that it finds by its own place."""
        found = shutil.which(name)
        if found is None:
            return
        self.add(found)
        real = os.path.realpath(found)
        directory = os.path.dirname(real)
        prefix = os.path.dirname(directory)
        if os.path.basename(directory) == "bin" and not self._too_wide(prefix):
            self.add(prefix)

    def _too_wide(self, path: str) -> bool:
        if path in _NEVER or os.path.basename(path) in _PERSONAL:
            return True
        return any(home == path or home.startswith(path.rstrip("/") + "/") for home in self._homes)

    def view(self) -> View:
        trees = tuple(sorted(t for t in self.trees if not _within(t, self.trees)))
        links = {p: t for p, t in self.links.items() if not _within(p, self.trees)}
        return View(
            trees=trees,
            links=tuple(sorted(links.items())),
            left_out=tuple(sorted(self.left_out)),
        )


def _followed(path: str) -> tuple[dict[str, str], str]:
    """The symbolic links on the way along an absolute path, also in the middle of it, and
    where that ends: a path without any. So no tree lies below a link."""
    links: dict[str, str] = {}
    hops = 0
    done, left = "/", [part for part in path.split("/") if part]
    while left:
        done = os.path.join(done, left.pop(0))
        if os.path.islink(done) and hops < _MOST_LINKS:
            hops += 1
            links[done] = os.readlink(done)
            ahead = os.path.normpath(os.path.join(os.path.dirname(done), links[done]))
            done, left = "/", [*(part for part in ahead.split("/") if part), *left]
    return links, done


def _within(path: str, trees: set[str]) -> bool:
    """Whether a parent of ``path`` is on the list already."""
    parent = os.path.dirname(path)
    while parent != path:
        if parent in trees:
            return True
        path, parent = parent, os.path.dirname(parent)
    return False


def _homes() -> set[str]:
    homes = {os.path.expanduser("~"), os.environ.get("HOME", "/root"), "/root"}
    try:
        lines = Path("/etc/passwd").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        fields = line.split(":")
        # System accounts "live" in /usr/games, /bin or /: those are no homes.
        if len(fields) > 5 and fields[2].isdigit() and int(fields[2]) >= 1000:
            homes.add(fields[5])
    return {os.path.realpath(home) for home in homes if home not in ("", "/", "/nonexistent")}


def base_view() -> View:
    """What every jail sees. Looks at ``sys.path``, PATH and the environment of this process."""
    seen = _Collector()
    for path in (*_SYSTEM, *_DRIVERS, *(f"/etc/{name}" for name in _ETC)):
        seen.add(path)
    for path in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.executable):
        seen.add(path)
    seen.add(str(_PACKAGE))
    for entry in sys.path:
        # A project's directory holds its history, logs and results as well: of the one
        # that this package was imported from, the package is enough.
        installed = os.path.basename(entry) in ("site-packages", "dist-packages")
        if os.path.isabs(entry) and (installed or Path(entry).resolve() != _PACKAGE.parent):
            seen.add(entry)
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    for path in (*libraries, os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", "")):
        if os.path.isabs(path):
            seen.add(path)
    for tool in (os.environ.get("CC", ""), os.environ.get("CXX", ""), *_TOOLS):
        if tool:
            seen.add_tool(tool)
    return seen.view()


def extended(view: View, paths: tuple[str, ...]) -> View:
    """``view`` with a policy's paths, which the caller vouches for, however wide."""
    if not paths:
        return view
    trees = {*view.trees}
    links = dict(view.links)
    for path in paths:
        if not os.path.isabs(path):
            raise ValueError(f"readable: {path} is not absolute")
        on_the_way, real = _followed(os.path.normpath(path))
        links.update(on_the_way)
        trees.add(real)
    return View(
        trees=tuple(sorted(t for t in trees if not _within(t, trees))),
        links=tuple(sorted(item for item in links.items() if not _within(item[0], trees))),
        left_out=view.left_out,
    )
