"""Record a log that is kept: ``make history NAME=…``, or all that are missing.

Real runs of ``engine run`` on the CPU with canned replies, one of them by mail. A log that is
there is never made anew: what it proves is that the engine of today decides as the one that
wrote it.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.cli.exits import Exit
from events.errors import LogError
from events.reader import LogReader
from tests.cli.conftest import engine_command, environment
from tests.histories.mail import answer
from tests.histories.pins import HERE, PINS, Pin, histories
from tests.replayed import replayed

__all__ = ["RECIPES"]

ROOT = HERE.parents[1]
BOX = Path("runs", "history-box")
BOOK, HOPELESS, SPANS = (
    f"playbook:tests/histories/{name}.toml" for name in ("playbook", "hopeless", "spans")
)


class Recipe(NamedTuple):
    """``run`` is given to ``engine run``. Then, for each of ``stops``, the process gets the
    signal once the log has so many events, and ``engine resume`` goes on with ``resume``, after
    ``engine steer`` with ``steer``. Each of ``forks`` is the number of a run, and what
    ``engine fork`` is given with it. A run by mail is answered and resumed until it is done, or
    so many ``turns``."""

    run: Sequence[object]
    stops: Sequence[tuple[int, signal.Signals]] = ()
    resume: Sequence[object] = ()
    forks: Sequence[tuple[int, Sequence[object]]] = ()
    steer: Sequence[object] = ()
    turns: int = 99


RECIPES = {
    "stark": Recipe(["--attempts", 8]),
    "stark_workers": Recipe(["--attempts", 8, "--workers", 4, "--backend", "trio"]),
    "ma_only": Recipe(["--method", "ma_only", "--attempts", 8]),
    "best_of_k": Recipe(["--set", "search.policy=best_of_k", "--attempts", 6]),
    "paper": Recipe(["--preset", "paper", "--language", "cpp", "--attempts", 7]),
    "no_windows": Recipe(
        ["--set", "search.windows=false", "--set", "prompts.system=rotate", "--attempts", 6,
         "--workers", 2]
    ),
    "small_windows": Recipe(
        ["--set", "search.window_nodes=3", "--set", "search.window_sampling=literal",
         "--set", "search.epsilon=0", "--attempts", 8, "--workers", 2]
    ),
    "sampling": Recipe(["--method", "sampling", "--attempts", 5]),
    "reflexion": Recipe(["--method", "reflexion", "--attempts", 7]),
    "search_agent": Recipe(["--method", "search_agent", "--attempts", 8]),
    **{
        policy: Recipe(
            ["--set", f"search.policy={policy}", "--attempts", 8, "--workers", 3, *more]
        )
        for policy, more in {
            "epsilon_greedy": ["--set", "search.epsilon=0.6", "--seed", 3],
            "greedy": [],
            "mcts": [],
            "evolution": ["--set", "search.population=3"],
            "iterative": [],
            "random": [],
        }.items()
    },
    "ablations": Recipe(
        ["--set", "search.anchors=false", "--set", "search.repairs=false",
         "--set", "temperature=0.5", "--set", "search.epsilon=0.6", "--attempts", 7]
    ),
    "planners": Recipe(
        ["--set", f"roles.plan.models={BOOK},{HOPELESS}", "--attempts", 9, "--workers", 2],
        forks=[(1, ["--at", 60, "--set", f"roles.plan.models={HOPELESS},{BOOK}",
                    "--set", "roles.plan.reward_per=token", "--evaluations", "recorded"])],
    ),
    "planner_down": Recipe(
        # Nobody listens at port 9.
        ["--set", f"roles.plan.models=openai:away,{BOOK}", "--set", "roles.plan.reward_per=token",
         "--set", "clients.openai.base_url=http://127.0.0.1:9/v1", "--set", "search.call_tries=3",
         "--set", "search.retry_wait_ms=1", "--attempts", 7, "--workers", 2, "--yes"]
    ),
    "outage": Recipe(
        # One planner's reply comes later, the other's plans have no coder: nobody listens there.
        ["--set", f"roles.plan.models={BOOK},mailbox:{BOX}", "--set", "roles.plan.reward_per=token",
         "--set", "roles.code.model=openai:away",
         "--set", "clients.openai.base_url=http://127.0.0.1:9/v1",
         "--set", "search.outage_failures=1", "--attempts", 4, "--workers", 3, "--yes"],
        turns=0,
    ),
    "patience": Recipe(["--model", HOPELESS, "--set", "search.policy=best_of_k",
                        "--patience", 2, "--attempts", 9]),
    "paused": Recipe(
        ["--model", HOPELESS, "--attempts", 14, "--workers", 2, "--set", "search.epsilon=0.9"]
    ),
    "resumed": Recipe(
        ["--attempts", 5, "--workers", 2], [(20, signal.SIGKILL), (45, signal.SIGINT)],
        ["--attempts", "+1"],
    ),
    "steered": Recipe(
        ["--attempts", 9, "--workers", 2], [(40, signal.SIGINT)],
        steer=["--hint", "Fold the two steps.", "--ban", 0, "--pin", 1],
    ),
    "start": Recipe(
        ["--start", "tests/cli/small/wrong.py", "--attempts", 6, "--workers", 2],
        [(5, signal.SIGKILL)],
        forks=[(1, ["--at", 3, "--set", "search.policy=evolution", "--set", "search.population=2",
                    "--evaluations", "recorded"])],
    ),
    "doubted": Recipe(
        ["--attempts", 6, "--workers", 2, "--budget-tokens", 100_000,
         "--set", f'prices."{BOOK}"={{input = 1, output = 2}}'], [(5, signal.SIGKILL)],
    ),
    "budget": Recipe(["--attempts", 20, "--workers", 2, "--budget-device-s", 8]),
    "spans": Recipe(
        ["--model", SPANS, "--set", "roles.code.reply=spans", "--attempts", 6, "--workers", 2]
    ),
    "duplicates": Recipe(["--attempts", 9, "--workers", 3, "--set", "search.epsilon=0.6"]),
    "mailed": Recipe(
        ["--model", f"mailbox:{BOX}", "--set", "search.policy=best_of_k", "--attempts", 4,
         "--workers", 3]
    ),
    "forked": Recipe(
        ["--attempts", 6, "--workers", 2],
        forks=[
            (1, ["--at", 40, "--set", "search.epsilon=0.9", "--replies", "recorded",
                 "--evaluations", "recorded"]),
            (2, ["--at", 50, "--set", "search.policy=best_of_k", "--set", "search.workers=1"]),
            (2, ["--at", 33, "--set", "budget.attempts=4", "--set", "search.root_throttle=null"]),
        ],
    ),
}  # fmt: skip


def record(name: str) -> None:
    path = HERE / f"{name}.db"
    if path.exists():
        raise SystemExit(f"{path.name} is there, and stays as it is; give the new one another name")
    recipe, log = RECIPES[name], path.relative_to(ROOT)
    command: Sequence[object] = (
        "run", "tests/cli/small/task.py", "--model", BOOK, "--device", "cpu",
        "--set", "sandbox.threads=1",  # on a busy machine threads wait for each other
        "--display", "none", *recipe.run, "--log", log,
    )  # fmt: skip
    for events, number in recipe.stops:
        _stopped(command, path, events, number)
        if recipe.steer:
            _engine(("steer", log, *recipe.steer)).wait()
        command = ("resume", log, "--display", "none", *recipe.resume)
    turn = 0
    paused = Exit.PAUSED
    while _engine(command).wait() == paused and turn < recipe.turns and (ROOT / BOX).is_dir():
        answer(ROOT / BOX, turn)
        turn += 1
        command = ("resume", log, "--display", "none")
    shutil.rmtree(ROOT / BOX, ignore_errors=True)
    for run, args in recipe.forks:
        _engine(("fork", f"{log}#{run}", "--display", "none", *args)).wait()
    path.with_name(f"{path.name}.lock").unlink()
    _pin(path)


def _engine(command: Sequence[object]) -> subprocess.Popen[str]:
    # From the repository's root, so that no path of this machine gets into the log.
    return subprocess.Popen(engine_command(*command), cwd=ROOT, env=environment(), text=True)


def _stopped(command: Sequence[object], path: Path, events: int, number: signal.Signals) -> None:
    process = _engine(command)
    while process.poll() is None and _length(path) < events:
        time.sleep(0.01)
    process.send_signal(number)
    process.wait()


def _length(path: Path) -> int:
    """Nothing is there at first, or not yet a log."""
    with contextlib.suppress(LogError), LogReader(path) as reader:
        return reader.newest_seq()
    return 0


def _pin(path: Path) -> None:
    """Note what each run is and comes to, so that every later test run can compare."""
    for name, (log, run) in histories().items():
        if log != path:
            continue
        found = replayed(path, run)
        if found.check.problems or found.report.difference:
            raise SystemExit(f"{name}: {found.check.problems} {found.report.difference}")
        pin = Pin(
            head=list(found.check.head.values())[run - 1],
            decisions=found.report.decisions,
            digest=found.report.digest,
        )
        with PINS.open("a") as file:
            file.write(f'\n["{name}"]\n')
            for key, value in msgspec.to_builtins(pin).items():
                file.write(f"{key} = {msgspec.json.encode(value).decode()}\n")
        print(f"{name}: {pin}")
    print(f"{path.name}: {path.stat().st_size} bytes. Say in README.md what it is.")


def main(names: list[str]) -> None:
    recorded = {log.stem for log in HERE.glob("*.db")}
    missing = [name for name in RECIPES if name not in recorded]
    for name in names or missing:
        record(name)


if __name__ == "__main__":
    main(sys.argv[1:])
