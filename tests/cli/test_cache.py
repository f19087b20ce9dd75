"""``engine cache`` and ``engine baseline --again``, on a cache of their own."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import time
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from events.observations import Ceilings
from gpu_sandbox.api.evaluator import Baseline, BaselineRequest
from gpu_sandbox.devices.peak_rates import KeptCeilings
from gpu_sandbox.doctor.cache_contents import HOLDING_KINDS
from gpu_sandbox.evaluate.baselines import KnownBaselines
from gpu_sandbox.sandbox import CACHE_NAME, LocalSandbox
from tests.cli.conftest import SMALL, engine_command, environment, run_engine

pytestmark = pytest.mark.process

TASK = SMALL / "task.py"
MEASURED = Baseline(
    runtime_ms=123.4, spread=0.1, repetitions=50, timings_s={}, isolation=[],
    conditions={"device": "cpu", "device_name": "a machine"}, measured_at="2026-11-22T10:01:02Z",
)  # fmt: skip
ASKED = BaselineRequest(
    task_name="task.py", task_source=TASK.read_text(), device="cpu", protocol="strict", seed=0
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """For ``XDG_CACHE_HOME``, with something of each kind in it."""
    place = place_in(tmp_path)
    KnownBaselines(place / "baselines").keep(ASKED, {}, MEASURED)
    ceilings = Ceilings(
        bytes_per_s=5e11, flops_per_s={"float32": 2e12}, measured_on="2026-11-23",
        measured_at="2026-11-23T09:00:00Z",
    )  # fmt: skip
    files = {
        "ceilings/a.json": msgspec.json.encode(KeptCeilings(device="cpu", ceilings=ceilings)),
        "verdicts/ab/abc.json": b"{}",
        "verdicts/cd/cde.json": b"[]",
        "builds/key/record.json": bytes(1000),
        "builds/key/0123/x.so": bytes(2000),
        "prebuilt/key/binding.o": bytes(10),
        "facts/f.json": b"{}",
        "isolation/survey": b"found",
    }
    for name, data in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(data)
    old = time.time() - 7200
    for path in [*place.rglob("*")]:
        os.utime(path, (old, old))
    return tmp_path


def place_in(home: Path) -> Path:
    return home / "stark-engine" / CACHE_NAME


def files_of(place: Path) -> set[str]:
    return {str(p.relative_to(place)) for p in place.rglob("*") if not p.is_dir()}


def shown(home: Path, *options: str) -> dict[str, dict[str, Any]]:
    done = run_engine("cache", "--json", *options, XDG_CACHE_HOME=str(home))
    assert done.returncode == 0, done.stderr
    return {row["kind"]: row for row in map(json.loads, done.stdout.splitlines())}


def test_what_is_kept_is_counted_and_dated(home: Path) -> None:
    before = files_of(home)
    rows = shown(home)
    assert tuple(rows) == HOLDING_KINDS
    assert {kind: row["number"] for kind, row in rows.items()} == {
        "baselines": 1, "ceilings": 1, "verdicts": 2, "builds": 1, "prebuilt": 1, "facts": 1,
        "isolation": 1,
    }  # fmt: skip
    assert (rows["builds"]["bytes"], rows["verdicts"]["bytes"]) == (3000, 4)
    assert rows["baselines"]["oldest"] == rows["baselines"]["newest"] == "2026-11-22T10:01:02Z"
    (figure,) = rows["baselines"]["figures"]
    assert (figure["what"], figure["runtime_ms"]) == ("task.py eager strict", 123.4)
    assert (figure["device"], figure["measured_at"]) == (
        "cpu (a machine)", "2026-11-22T10:01:02Z",
    )  # fmt: skip
    (figure,) = rows["ceilings"]["figures"]
    assert (figure["bytes_per_s"], figure["measured_at"]) == (5e11, "2026-11-23T09:00:00Z")
    assert files_of(home) == before


def test_it_is_shown_to_people(home: Path) -> None:
    done = run_engine("cache", XDG_CACHE_HOME=str(home))
    assert done.returncode == 0, done.stderr
    assert f"kept in {place_in(home)}" in done.stdout
    assert "  task.py eager strict: 123.4 ms  cpu (a machine), 2026-11-22 10:01 UTC" in done.stdout
    assert "  ceilings: 500 GB/s, 2 TFLOP/s float32  cpu, 2026-11-23 09:00 UTC" in done.stdout
    assert run_engine("cache", XDG_CACHE_HOME=str(home / "none")).returncode == 0


def test_nothing_is_removed_where_nobody_can_be_asked(home: Path) -> None:
    before = files_of(home)
    refused = run_engine("cache", "--prune", XDG_CACHE_HOME=str(home))
    assert refused.returncode == 2
    assert "give --yes" in refused.stderr
    assert files_of(home) == before


def test_all_or_some_kinds_are_emptied_after_they_are_shown(home: Path) -> None:
    done = run_engine(
        "cache", "--prune", "--kind", "ceilings,baselines", "--yes", XDG_CACHE_HOME=str(home)
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.index("task.py eager") < done.stdout.index("removed 1 of baselines")
    assert "removed 1 of ceilings" in done.stdout
    assert "verdicts" not in done.stdout
    assert not files_of(place_in(home) / "baselines") | files_of(place_in(home) / "ceilings")
    rows = shown(home, "--prune", "--yes")
    assert {kind: (row["number"], row["removed"], row["left"]) for kind, row in rows.items()} == {
        "baselines": (0, 0, 0), "ceilings": (0, 0, 0), "verdicts": (2, 2, 0),
        "builds": (1, 1, 0), "prebuilt": (1, 1, 0), "facts": (1, 1, 0),
        "isolation": (1, 1, 0),
    }  # fmt: skip
    assert files_of(home) == set()
    assert run_engine("cache", "--prune", XDG_CACHE_HOME=str(home)).returncode == 0, "nothing left"


def test_a_kind_that_is_none_is_refused(home: Path) -> None:
    refused = run_engine("cache", "--prune", "--yes", "--kind", "logs", XDG_CACHE_HOME=str(home))
    assert refused.returncode == 2
    assert "nothing named logs is kept; there are baselines, ceilings" in refused.stderr
    assert len(files_of(home)) == 9


def test_links_are_not_followed_out_of_the_cache(home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    for name in ("file", "deep/file"):
        (outside / name).write_bytes(bytes(5000))
    place = place_in(home)
    (place / "facts" / "g.json").symlink_to(outside / "file")
    (place / "verdicts" / "ef").symlink_to(outside)
    (place / "builds" / "linked").symlink_to(outside)
    (place / "builds" / "key" / "deep").symlink_to(outside)
    (place / "ceilings").rename(tmp_path / "elsewhere")
    (place / "ceilings").symlink_to(tmp_path / "elsewhere")
    rows = shown(home)
    assert all(row["bytes"] < 5000 for row in rows.values()), "what they lead to is not ours"
    assert (rows["ceilings"]["link"], rows["ceilings"]["number"]) == (True, 0)
    rows = shown(home, "--prune", "--yes")
    assert rows["verdicts"]["removed"] == 3
    assert files_of(outside) == {"file", "deep/file"}
    assert files_of(tmp_path / "elsewhere") == {"a.json"}
    assert files_of(place) == set()
    assert (place / "ceilings").is_symlink(), "the user's own"


def test_what_may_be_in_use_is_left(home: Path) -> None:
    place = place_in(home)
    half_written = place / "baselines" / "ab" / ".abc.json.0123"
    half_written.parent.mkdir(exist_ok=True)
    half_written.write_bytes(b"{")
    leftover = place / "builds" / ".key.1.0123"
    leftover.mkdir()
    os.utime(leftover, (1e9, 1e9))
    os.utime(place / "prebuilt" / "key" / "binding.o")  # as one who needs it does
    rows = shown(home, "--prune", "--yes")
    assert (rows["prebuilt"]["removed"], rows["prebuilt"]["left"]) == (0, 1)
    assert (rows["baselines"]["removed"], rows["baselines"]["left"]) == (1, 0)
    assert files_of(place) == {"baselines/ab/.abc.json.0123", "prebuilt/key/binding.o"}
    assert not leftover.exists()


@pytest.mark.parametrize(("answer", "files"), [(b"n\n", 9), (b"y\n", 0)])
def test_on_a_terminal_it_asks(home: Path, answer: bytes, files: int) -> None:
    leader, follower = pty.openpty()
    running = subprocess.Popen(
        engine_command("cache", "--prune"), stdin=follower, stdout=subprocess.PIPE,
        stderr=follower, env=environment(XDG_CACHE_HOME=str(home)),
    )  # fmt: skip
    os.write(leader, answer)
    output, _ = running.communicate(timeout=120)
    asked = os.read(leader, 65536)
    os.close(follower)
    os.close(leader)
    assert b"task.py eager strict" in output, "what goes is shown before"
    assert b"Remove these 8 entries" in asked
    assert len(files_of(home)) == files


# --- baselines


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """For ``XDG_CACHE_HOME``: where the task's baseline is kept, and others."""
    place = place_in(tmp_path)

    async def keep() -> None:
        async with LocalSandbox(cache=place) as sandbox:
            facts = await sandbox.fingerprint("cpu")
        known = KnownBaselines(place / "baselines")
        known.keep(ASKED, facts, MEASURED)
        for other in ({"protocol": "paper"}, {"kind": "compile"}):
            known.keep(msgspec.structs.replace(ASKED, **other), facts, MEASURED)

    anyio.run(keep)
    return tmp_path


def timed(home: Path, *options: str) -> tuple[dict[str, Any], str]:
    done = run_engine(
        "baseline", TASK, "--device", "cpu", "--kinds", "eager", "--json", *options,
        XDG_CACHE_HOME=str(home),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_a_kept_baseline_says_when_it_was_measured_until_it_is_dropped(kept: Path) -> None:
    row, _ = timed(kept)
    assert (row["runtime_ms"], row["cached"]) == (123.4, True)
    assert row["measured_at"] == "2026-11-22T10:01:02Z"
    told = run_engine(
        "baseline", TASK, "--device", "cpu", "--kinds", "eager", XDG_CACHE_HOME=str(kept)
    )
    assert "(measured before, 2026-11-22 10:01 UTC)" in told.stdout

    row, told_again = timed(kept, "--again")
    assert "dropped 2 kept baselines" in told_again, "the compiled one, too"
    assert (row["cached"], row["runtime_ms"] == 123.4) == (False, False)
    assert row["measured_at"] > "2026-11-22T10:01:02Z"
    protocols = {figure["what"] for figure in shown(kept)["baselines"]["figures"]}
    fresh = set() if "busy-machine" in row["labels"] else {"task.py eager strict"}
    assert protocols == {"task.py eager paper", *fresh}, "a busy machine's figure is not kept"


def test_a_run_says_when_its_baseline_was_measured(kept: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    done = run_engine(
        "run", TASK, "--model", f"playbook:{SMALL / 'playbook.toml'}", "--device", "cpu",
        "--attempts", 1, "--log", log, XDG_CACHE_HOME=str(kept),
    )  # fmt: skip
    assert done.returncode in (0, 4), done.stderr
    words = "123.4 ms eager  (measured before, 2026-11-22 10:01 UTC)"
    assert f"the reference takes {words}" in done.stderr
    assert words in run_engine("status", log).stdout


def test_doctor_says_what_is_kept_and_since_when(home: Path) -> None:
    done = run_engine("doctor", "--device", "cpu", "--json", XDG_CACHE_HOME=str(home))
    checks = {check["name"]: check["detail"] for check in map(json.loads, done.stdout.splitlines())}
    assert "measured 2026-11-22T10:01:02Z" in checks["kept baselines"]
    assert "measured 2026-11-23T09:00:00Z" in checks["kept ceilings"]
