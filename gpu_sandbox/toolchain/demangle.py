"""C++ names as people write them."""

from __future__ import annotations

import ctypes
import re
from functools import cache
from typing import Any

_MANGLED = re.compile(r"\b_Z[\w$.]{2,2000}")


def demangled(text: str) -> str:
    """``text`` with every mangled name that the C++ runtime can read made plain."""
    return _MANGLED.sub(lambda found: _plain(found[0]), text)


@cache
def _plain(name: str) -> str:
    runtime, libc = _libraries()
    if runtime is None:
        return name
    status = ctypes.c_int()
    made = runtime.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
    if not made:
        return name
    try:
        return ctypes.string_at(made).decode("utf-8", "replace")
    finally:
        libc.free(ctypes.c_void_p(made))


@cache
def _libraries() -> tuple[Any, Any]:
    """Torch has loaded the C++ runtime already."""
    try:
        runtime: Any = ctypes.CDLL("libstdc++.so.6")
    except OSError:
        return None, None
    runtime.__cxa_demangle.restype = ctypes.c_void_p
    return runtime, ctypes.CDLL(None)
