"""Resources and warnings in ptxas' output (``-Xptxas -v``)."""

from __future__ import annotations

import re

import msgspec

from events.outcomes import KernelResources
from gpu_sandbox.toolchain.demangle import demangled

_ENTRY = re.compile(r"ptxas info\s*: Compiling entry function '(?P<name>[^']+)'")
_FRAME = re.compile(
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores,"
    r" (?P<loads>\d+) bytes spill loads"
)
_USED = re.compile(r"ptxas info\s*: Used (?P<registers>\d+) registers")
_SHARED = re.compile(r"(\d+)(?:\+\d+)? bytes smem")
_CONSTANT = re.compile(r"(\d+) bytes cmem\[\d+\]")
_NOTICE = re.compile(
    r"ptxas (?:warning\s*: .*|info\s*: (?:\(C\d+\) )?Potential Performance Loss.*)"
)
_MAX_NOTICES = 5


def resources(output: str) -> list[KernelResources]:
    """Of each kernel, the worst first: by spills, then registers."""
    found: dict[str, KernelResources] = {}
    name, frame = "", None
    for line in output.splitlines():
        if entry := _ENTRY.search(line):
            name, frame = entry["name"], None
        elif frame is None and (found_frame := _FRAME.search(line)):
            frame = found_frame
        elif name and (used := _USED.search(line)):
            found[name] = _kernel(name, frame, int(used["registers"]), line)
            name = ""
    return sorted(found.values(), key=lambda k: (-k.spill_bytes, -k.registers, k.kernel))


def notices(output: str) -> list[str]:
    """Warnings, and advice that ptxas gives as information."""
    lines = dict.fromkeys(found[0] for found in _NOTICE.finditer(demangled(output)))
    return list(lines)[:_MAX_NOTICES]


def _kernel(name: str, frame: re.Match[str] | None, registers: int, used: str) -> KernelResources:
    shared = _SHARED.search(used)
    kernel = KernelResources(
        kernel=_without_arguments(demangled(name)),
        registers=registers,
        shared_bytes=int(shared[1]) if shared else 0,
        constant_bytes=sum(map(int, _CONSTANT.findall(used))),
    )
    if frame is None:
        return kernel
    return msgspec.structs.replace(
        kernel,
        stack_bytes=int(frame["stack"]),
        spill_store_bytes=int(frame["stores"]),
        spill_load_bytes=int(frame["loads"]),
    )


def _without_arguments(name: str) -> str:
    """``void f<int>(float*)`` → ``f<int>``."""
    if not name.endswith(")"):
        return name
    depth = 0
    for index in range(len(name) - 1, -1, -1):
        depth += (name[index] == ")") - (name[index] == "(")
        if depth == 0:
            return name[:index].removeprefix("void ")
    return name
