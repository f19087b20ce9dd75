"""Stamps of real commands: how they ended, and which commit they were of."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.stamps import UNKNOWN, commit, main, stamps_in


def ran(folder: Path, program: str, *options: str, part: str = "first") -> int:
    return main([part, f"{folder}", *options, "--", sys.executable, "-S", "-c", program])


@pytest.mark.process
def test_a_command_leaves_its_status_and_what_it_ran_on(tmp_path: Path) -> None:
    (tmp_path / "first.json").write_text("of an earlier run")
    (tmp_path / "first-1of2.json").write_text("of another part")
    assert ran(tmp_path, "import sys; sys.exit(5)") == 5
    (stamp,) = stamps_in(tmp_path)
    assert (stamp.part, stamp.rc, stamp.command[0]) == ("first", 5, sys.executable)
    assert stamp.python == sys.version.split()[0]
    assert stamp.torch.startswith("2.")
    assert stamp.wall_s is not None
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "first-1of2.json", "first.stamp.json",
    ]  # fmt: skip


@pytest.mark.process
def test_what_takes_longer_than_the_budget_is_interrupted_and_may_report(tmp_path: Path) -> None:
    program = f"""
import time
try:
    time.sleep(60)
except KeyboardInterrupt:
    open({f"{tmp_path / 'first.xml'}"!r}, "w").close()
    raise SystemExit(2)
"""
    assert ran(tmp_path, program, "--budget", "2") == 2
    assert (tmp_path / "first.xml").exists()
    assert [stamp.rc for stamp in stamps_in(tmp_path)] == [2]


@pytest.mark.process
def test_a_program_that_is_not_there_has_failed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["first", f"{tmp_path}", "--", "/no/such/program"]) == 127
    assert [stamp.rc for stamp in stamps_in(tmp_path)] == [127]
    assert "No such file" in capfd.readouterr().err


@pytest.mark.process
def test_a_commit_is_gits_with_a_digest_of_what_was_changed(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        user = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        command = ["git", "-C", f"{tmp_path}", *user, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-qm", "one")
    head = git("rev-parse", "HEAD")
    assert commit(tmp_path) == head
    (tmp_path / "file").write_text("2")
    changed = commit(tmp_path)
    assert changed.startswith(f"{head}+")
    (tmp_path / "file").write_text("3")
    assert commit(tmp_path) not in (head, changed)


def test_without_a_repository_the_environment_says_which_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COMMIT", raising=False)
    assert commit(tmp_path) == UNKNOWN
    monkeypatch.setenv("COMMIT", "abc123")
    assert commit(tmp_path) == "abc123"
