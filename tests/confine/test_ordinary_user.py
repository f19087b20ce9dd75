"""As an ordinary user, with namespaces and without."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_sandbox.confine import (
    processes,
)
from gpu_sandbox.confine.policy import Layer
from tests.confine.jails import (
    ENDS,
    ROOT,
    SKIPPED,
    a_policy,
    found,
    in_zygote,
    run,
    running,
    scatter,
    skip,
    zygote_words,
)
from tests.gpu_sandbox.users import become_nobody, forbid_namespaces

pytestmark = pytest.mark.process


def _as_ordinary_user(body: Callable[[], None], *, namespaces: bool) -> None:
    """Run a scenario as another user: ours, if we are no root."""
    pid = os.fork()
    if pid:
        _, word = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(word)
        if code == SKIPPED:
            os._exit(SKIPPED)
        assert code == 0
        return
    try:
        if os.geteuid() == 0:
            try:
                become_nobody(str(ROOT))
            except OSError as error:
                skip(f"needs a mount namespace: {error}")
        if not namespaces:
            forbid_namespaces()
        os.environ["TMPDIR"] = "/tmp"
        words = zygote_words(body)
        os.execv(words[0], words)
    finally:
        os._exit(99)


def scenario_user_with_namespaces() -> None:
    result = found()
    if "namespaces:user" not in result.layers:
        skip(f"no user namespaces here: {result.missing}")
    assert [f for f in result.findings if not f.held] == []
    assert "uid" in result.missing
    assert Layer.WATCH in result.layers
    assert result.tier == "A"
    _live_a_little()


def scenario_user_without_namespaces() -> None:
    result = found()
    assert [f for f in result.findings if not f.held] == []
    assert not any(layer.startswith("namespaces:") for layer in result.layers)
    assert "seccomp profile" in result.missing["namespaces:user"]
    assert "needs namespaces:user" in result.missing["namespaces:mount"]
    assert result.tier == ("B" if "landlock" in result.layers else "C")
    _live_a_little()


def _live_a_little() -> None:
    for name, (main, code, number) in ENDS.items():
        status, text = run(main)
        assert (status.code, status.signal) == (code, number), (name, status, text)
    read, write = os.pipe()

    def daemons() -> None:
        scatter(write)
        time.sleep(300)

    for kill_init in (False, True):
        with running(daemons, keep_fds=(write,)) as it:
            os.read(read, 1)
            if kill_init:
                os.kill(it.jail.init_pid, signal.SIGKILL)
            it.jail.end(0.05)
            it.text()
        assert processes.children(os.getpid()) == []

    def compile_() -> None:
        os.environ["TMPDIR"] = os.getcwd()
        Path("k.cpp").write_text('extern "C" int twice(int x) { return 2 * x; }\n')
        subprocess.run(["c++", "-O1", "-shared", "-fPIC", "k.cpp", "-o", "k.so"], check=True)
        assert ctypes.CDLL(os.path.abspath("k.so")).twice(21) == 42
        with pytest.raises(OSError):  # noqa: PT011
            socket.create_connection(("127.0.0.1", 1))

    home = os.path.realpath(tempfile.mkdtemp())
    status, text = run(compile_, a_policy(home))
    shutil.rmtree(home)
    assert status.code == 0, text


@in_zygote
def test_an_ordinary_user_has_user_namespaces() -> None:
    _as_ordinary_user(scenario_user_with_namespaces, namespaces=True)


@in_zygote
def test_an_ordinary_user_without_namespaces_has_the_rest() -> None:
    _as_ordinary_user(scenario_user_without_namespaces, namespaces=False)
