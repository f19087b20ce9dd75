"""Which of the host's files a jail may read."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gpu_sandbox.confine import readable_paths as view
from tests.confine.jails import ROOT, a_policy, in_zygote, need, run, skip


def test_a_home_is_never_on_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "somebody"
    (home / "bin").mkdir(parents=True)
    (home / "work").mkdir()
    tool = home / "bin" / "ninja"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{home / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(sys, "path", [str(home), str(home / "work"), *sys.path])
    seen = view.base_view()
    assert str(home) not in seen.trees
    assert str(tool) in seen.trees
    assert str(home / "work") in seen.trees
    assert not {"/", "/tmp", "/root", "/home", "/var", "/run", "/etc"} & set(seen.trees)


def test_links_on_the_way_are_made_again_and_nothing_lies_below_them(tmp_path: Path) -> None:
    """As where a virtual environment is a link to another project's."""
    (tmp_path / "real" / "lib").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "again").symlink_to("../link/lib")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "gone").symlink_to("nowhere")
    seen = view.extended(view.View(trees=(), links=()), (f"{tmp_path}/link/again",))
    assert seen.trees == (f"{tmp_path}/real/lib",)
    assert dict(seen.links) == {
        f"{tmp_path}/link": "real",
        f"{tmp_path}/real/again": "../link/lib",
    }
    view.extended(seen, (f"{tmp_path}/circle", f"{tmp_path}/gone"))  # not for ever


@pytest.mark.process
def test_a_linked_environment_is_isolated_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "env").symlink_to(sys.prefix)
    linked = tmp_path / "env" / Path(sys.executable).relative_to(sys.prefix)
    program = "from gpu_sandbox.confine.survey import survey; print(*survey().layers)"
    layers = [
        subprocess.run(
            [python, "-c", program],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout.split()
        for python in (sys.executable, linked)
    ]
    assert layers[0] == layers[1]


@pytest.mark.process
@in_zygote
def test_more_to_read_and_a_device(tmp_path: Path) -> None:
    need("namespaces:mount")
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "file").write_text("data")
    (tmp_path / "not-given").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "given")
    tmp_path.chmod(0o755)
    device = "/dev/ptmx"

    def main() -> None:
        assert (tmp_path / "given" / "file").read_text() == "data"
        assert (tmp_path / "link" / "file").read_text() == "data"
        assert not (tmp_path / "not-given").exists()
        with pytest.raises(OSError, match="Read-only"):
            (tmp_path / "given" / "new").write_text("")
        assert stat.S_ISCHR(os.stat(device).st_mode)
        for node in ("null", "zero", "full", "random", "urandom"):
            os.close(os.open(f"/dev/{node}", os.O_RDONLY))
        assert not os.path.exists("/dev/vda")
        Path("/dev/shm/x").write_text("x")

    readable = (str(tmp_path / "given"), str(tmp_path / "link"))
    home = os.path.realpath(tempfile.mkdtemp())
    devices = (device,) if stat.S_ISCHR(os.stat(device).st_mode) else ()
    if not devices:
        skip(f"no {device}")
    status, text = run(main, a_policy(home, readable=readable, devices=devices))
    assert status.code == 0, text


@pytest.mark.process
@in_zygote
def test_nothing_of_the_host_is_in_sight() -> None:
    need("namespaces:mount", "namespaces:pid")
    repository = str(ROOT)

    def main() -> None:
        print(sorted(os.listdir("/")))
        for path in ("/etc/shadow", "/var", "/run", "/home", "/root/.ssh", f"{repository}/.git"):
            assert not os.path.exists(path), path
        assert sorted(int(n) for n in os.listdir("/proc") if n.isdigit()) in ([2], [])
        assert "sandbox:" in Path("/etc/passwd").read_text()
        mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        assert not any(words[4].startswith("/old") for words in mounts)
        writable = [words[4] for words in mounts if words[5].split(",")[0] == "rw"]
        assert set(writable) <= {os.getcwd(), "/tmp", "/dev/shm", "/proc"} | {
            p for p in writable if p.startswith("/dev/")
        }, writable

    status, text = run(main)
    assert status.code == 0, text


@pytest.mark.process
@in_zygote
def test_nothing_tells_a_jail_how_busy_the_machine_is() -> None:
    """It would do so while the jail is stopped, by a thread of the kernel."""
    need("namespaces:mount", "namespaces:pid")

    def main() -> None:
        assert os.listdir("/proc/pressure") == []
        with pytest.raises(OSError, match=r"denied|Read-only"):
            Path("/proc/pressure/cpu").write_text("some 100000 2000000")
        print("nothing")

    if not os.path.isdir("/proc/pressure"):
        skip("this kernel does not account for it")
    status, text = run(main)
    assert (status.code, text) == (0, "nothing\n"), text
