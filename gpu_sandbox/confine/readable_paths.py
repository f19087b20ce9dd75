"""Allow-list of the host's files that a jail may read, drawn from this interpreter.

Invariant: a tree on the list is software (the system's, the interpreter's, a compiler's), never a
home directory, a parent of one, or a directory that all users write to.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import msgspec

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
_DRIVERS = ("/usr/local/nvidia", "/usr/local/cuda", "/run/opengl-driver", "/opt/rocm")
_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime")
_TOOLS = ("c++", "g++", "gcc", "cc", "clang", "clang++", "ld", "as", "nvcc", "ninja", "ccache")
_NEVER = ("/", "/tmp", "/var", "/var/tmp", "/run", "/home", "/root", "/etc", "/dev", "/proc")
_PERSONAL = (".local", ".config", ".cache", ".ssh", ".gnupg")
_MAX_LINKS = 40  # on the way along one path, as for the kernel
_PACKAGE = Path(__file__).resolve().parent.parent


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Trees and files to bind read-only, and symbolic links to make again, parents first."""

    trees: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    """(path, target as written)."""


class _Collector:
    def __init__(self) -> None:
        self.trees: set[str] = set()
        self.links: dict[str, str] = {}
        self._homes = _homes()

    def add(self, path: str) -> None:
        """What ``path`` leads to, and the links on the way there."""
        links, real = followed(os.path.abspath(path))
        if os.path.exists(real) and not (os.path.isdir(real) and self._too_wide(real)):
            self.links.update(links)
            self.trees.add(real)

    def add_tool(self, name: str) -> None:
        """A program with the directories that it finds by its own place."""
        found = shutil.which(name)
        if found is None:
            return
        self.add(found)
        directory = Path(found).resolve().parent
        if directory.name == "bin" and not self._too_wide(str(directory.parent)):
            self.add(str(directory.parent))

    def _too_wide(self, path: str) -> bool:
        if path in _NEVER or os.path.basename(path) in _PERSONAL:
            return True
        return any(home == path or home.startswith(path.rstrip("/") + "/") for home in self._homes)


def _view(trees: set[str], links: dict[str, str]) -> View:
    return View(
        trees=tuple(sorted(tree for tree in trees if not _within(tree, trees))),
        links=tuple(sorted(link for link in links.items() if not _within(link[0], trees))),
    )


def followed(path: str, root: str = "") -> tuple[dict[str, str], str]:
    """The symbolic links on the way along an absolute path, and where that ends: a path without
    any. Both as seen from ``root``, where absolute links start."""
    links: dict[str, str] = {}
    hops = 0
    done, ahead = "/", _parts(path)
    while ahead:
        part = ahead.pop(0)
        at = os.path.dirname(done) if part == ".." else os.path.join(done, part)
        if part == ".." or not os.path.islink(root + at) or hops == _MAX_LINKS:
            done = at
            continue
        hops += 1
        links[at] = os.readlink(root + at)
        done = "/" if links[at].startswith("/") else done
        ahead = [*_parts(links[at]), *ahead]
    return links, done


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


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
        # Of the directory that this package was imported from, the package is enough: a
        # project's holds its history, logs and results as well.
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
    return _view(seen.trees, seen.links)


def extended(view: View, paths: tuple[str, ...]) -> View:
    """``view`` with a policy's paths, which the caller vouches for, however wide."""
    trees = {*view.trees}
    links = dict(view.links)
    for path in paths:
        on_the_way, real = followed(os.path.normpath(path))
        links.update(on_the_way)
        trees.add(real)
    return _view(trees, links)
