"""How far scores of short honest candidates are from their true speedups.

    python -m benchmarks.honest_scores [--only GLOB] [--kind KIND] [--rounds N] [--jobs N]
        [--out FILE.json] [--skip-truth FILE.json] [--skip-scores] [--budget S] [--bench-s S]
        [--list] [--shard K/N]

Cases are ``benchmarks/honest/NAME``: ``task.py`` and ``kernel.py``, in KernelBench's form.

- Truth (``honest_truth``): device time from the first kernel's start to the last one's end, by
  CUPTI, in a process of its own, with inputs renewed and caches overwritten, alike for both.
- Score: the verdict of ``LocalSandbox`` under ``strict``.

Compared are the speedups: scored / true. Asked: 95 % within 5 % where the candidate takes 20 µs
or more, within 15 % below, none beyond 1.3. Builds for the truth come first, then the truth, then
the scores: the two never share the device.
"""

from __future__ import annotations

import argparse
import ast
import fnmatch
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec

from benchmarks.honest_figures import claimed_speedup, rows_of, summary, table
from events.outcomes import Correct
from gpu_sandbox.api.evaluator import (
    EvaluationRequest,
    PrerequisiteMissing,
    SandboxFault,
    TaskUnusable,
)
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.sandbox import LocalSandbox

__all__ = ["CASES", "Case", "cases", "interleaved"]

CASES = Path(__file__).parent / "honest"
BUILD_S, BUILDERS = 240, 12
TRUTH_S = 120  # of one case; a process that takes longer is ended, and a fresh one goes on
DEVICE = "cuda:0"


class Case(NamedTuple):
    folder: Path
    kind: str
    builds: bool
    """An extension, which takes the compilers half a minute."""

    @property
    def name(self) -> str:
        return self.folder.name


def cases(only: str = "*", kind: str = "*") -> list[Case]:
    found = (_case(path.parent) for path in sorted(CASES.glob("*/kernel.py")))
    return [
        case
        for case in found
        if fnmatch.fnmatch(case.name, only) and fnmatch.fnmatch(case.kind, kind)
    ]


def _case(folder: Path) -> Case:
    source = (folder / "kernel.py").read_text()
    for statement in ast.parse(source).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="KIND")], value=ast.Constant(value=str(kind))):
                return Case(folder, kind, "load_inline" in source)
    raise ValueError(f"{folder / 'kernel.py'} has no KIND")


def interleaved(chosen: Sequence[Case]) -> list[Case]:
    """By turns one that builds and one that does not, so that builds overlap with timing."""
    sides = [[c for c in chosen if c.builds], [c for c in chosen if not c.builds]]
    return [case for pair in zip_longest(*sides) for case in pair if case is not None]


def say(*parts: object) -> None:
    print(f"{time.monotonic() - _BEGAN:4.0f} s ", *parts, flush=True)


# --- truth


def extensions_env(folder: Path) -> dict[str, str]:
    return {**os.environ, "TORCH_EXTENSIONS_DIR": str(folder), "MAX_JOBS": "2"}


def build_all(chosen: Sequence[Case], env: dict[str, str]) -> None:
    """Those that build, up to twelve at once; what fails is said, and fails again in the truth."""

    def one(case: Case) -> None:
        began = time.monotonic()
        try:
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.honest_scores", "--build", case.name],
                env=env, capture_output=True, text=True, timeout=BUILD_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            say(f"build {case.name}: longer than {BUILD_S} s")
            return
        told = "built" if done.returncode == 0 else f"FAILED\n{(done.stderr or '')[-1500:]}"
        say(f"build {case.name}: {told}, {time.monotonic() - began:.0f} s")

    with ThreadPoolExecutor(BUILDERS) as pool:
        list(pool.map(one, [case for case in chosen if case.builds]))


def truths_of(chosen: Sequence[Case], rounds: int) -> dict[str, Any]:
    """From one process that prints a line of JSON a case; where it dies, a fresh one goes on."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="honest-") as folder:
        env = extensions_env(Path(folder))
        build_all(chosen, env)
        left = [case.name for case in chosen]
        while left:
            for name, truth in _truth_process(left, rounds, env):
                found[name] = truth
                say(f"truth {name}: {_told_truth(truth)}")
            done = [name for name in left if name in found]
            if len(done) < len(left):
                dead = left[len(done)]
                found[dead] = {"failed": "its process died"}
                say(f"truth {dead}: its process died")
            left = [name for name in left if name not in found]
    return found


def _truth_process(
    names: Sequence[str], rounds: int, env: dict[str, str]
) -> Iterator[tuple[str, Any]]:
    command = [sys.executable, "-m", "benchmarks.honest_scores", "--rounds", str(rounds), "--truth"]
    with subprocess.Popen(
        [*command, *names], env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                said = json.loads(line)
                yield said["name"], said["truth"]


def _told_truth(truth: dict[str, Any]) -> str:
    if "failed" in truth:
        return f"FAILED: {truth['failed']}"
    times = f"{truth['eager_us']:.1f} -> {truth['candidate_us']:.1f} µs, {truth['speedup']:.3f}x"
    return "; ".join([f"{times}, {truth['seconds']:.1f} s", *truth["notes"]])


def print_truths(names: Sequence[str], rounds: int) -> None:
    """What the truth's own process does: a line of JSON a case, on the real standard output."""
    from benchmarks.honest_truth import measure

    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what cases print is none of the lines
    for name in names:
        signal.alarm(TRUTH_S)
        try:
            truth = measure(CASES / name, rounds)
        except Exception as error:
            truth = {"failed": f"{type(error).__name__}: {error}"[:1000]}
        print(json.dumps({"name": name, "truth": truth}), file=out, flush=True)


# --- scores


async def scores_of(
    chosen: Sequence[Case], jobs: int, deadline: float, bench_s: float | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Facts of the device, and what became of each case that the time sufficed for."""
    found: dict[str, Any] = {}
    waiting = iter(interleaved(chosen))

    async def work(sandbox: LocalSandbox) -> None:
        for case in waiting:
            if time.monotonic() > deadline:
                say(f"score {case.name}: the time is up")
                continue
            score = found[case.name] = await _scored(sandbox, case)
            say(f"score {case.name}: {_told_score(score)}")

    async with LocalSandbox((DEVICE,), limits=Limits(bench_s=bench_s)) as sandbox:
        facts = await sandbox.fingerprint(DEVICE)
        async with anyio.create_task_group() as group:
            for _ in range(jobs):
                group.start_soon(work, sandbox)
    return facts, found


async def _scored(sandbox: LocalSandbox, case: Case) -> dict[str, Any]:
    began = time.monotonic()
    request = EvaluationRequest(
        task_name=f"{case.name}.py", task_source=(case.folder / "task.py").read_text(),
        candidate_source=(case.folder / "kernel.py").read_text(),
        device=DEVICE, protocol="strict", seed=7,
    )  # fmt: skip
    try:
        verdict = await sandbox.evaluate(request)
    except (PrerequisiteMissing, SandboxFault, TaskUnusable) as error:
        return {"outcome": type(error).__name__, "reason": str(error), "notes": []}
    outcome = verdict.outcome
    score = {
        "outcome": outcome.__struct_config__.tag,
        "reason": outcome.reason,
        "notes": verdict.notes,
        "timings_s": verdict.timings_s,
        "queue_s": verdict.queue_s,
        "seconds": time.monotonic() - began,
    }
    if not isinstance(outcome, Correct):
        return {**score, "log": (verdict.compile_log + verdict.run_log)[-4000:]}
    own = {"claimed": claimed_speedup(verdict.notes), "reason": outcome.reason}
    return {**score, **msgspec.to_builtins(outcome), **own}


def _told_score(score: dict[str, Any]) -> str:
    if "speedup" not in score:
        return f"{score['outcome']}: {score['reason'][:300]}"
    times = f"{score['baseline_ms'] * 1e3:.1f} -> {score['candidate_ms'] * 1e3:.1f} µs"
    claim = f", claimed {score['claimed']:.2f}x" if score["claimed"] else ""
    return f"{score['speedup']:.3f}x{claim} ({times}), {score['seconds']:.1f} s"


# --- command line


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="*", help="names of cases, a glob")
    parser.add_argument("--kind", default="*", help="likewise")
    parser.add_argument("--shard", default="1/1", help="K/N: every N-th of these, from the K-th")
    parser.add_argument("--rounds", type=int, default=30, help="of the truth, a case")
    parser.add_argument("--jobs", type=int, default=8, help="cases with the sandbox at once")
    parser.add_argument("--budget", type=float, default=460.0, help="s; no score begins after")
    parser.add_argument("--bench-s", type=float, help="the sandbox's cap on timing a candidate")
    parser.add_argument("--out", type=Path, help="JSON of all that was read")
    parser.add_argument("--skip-truth", type=Path, help="truths from such a file")
    parser.add_argument("--skip-scores", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--truth", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--build", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    arguments = _arguments()
    if arguments.build:
        from benchmarks.honest_truth import build

        build(CASES / arguments.build)
    elif arguments.truth:
        print_truths(arguments.truth, arguments.rounds)
    elif arguments.list:
        for case in cases(arguments.only, arguments.kind):
            print(f"{case.name:32} {case.kind:18} {'builds' if case.builds else ''}".rstrip())
    else:
        compare(arguments)


def compare(arguments: argparse.Namespace) -> None:
    """Truths, then scores, then the table; whatever there is so far is in ``--out``."""
    number, shards = map(int, arguments.shard.split("/"))
    chosen = cases(arguments.only, arguments.kind)[number - 1 :: shards]
    kinds = {case.name: case.kind for case in chosen}
    found: dict[str, Any] = {"facts": {}, "kinds": kinds, "truths": {}, "scores": {}}
    say(f"{len(chosen)} cases of {len({case.kind for case in chosen})} kinds")
    if arguments.skip_truth:
        found["truths"] = json.loads(arguments.skip_truth.read_text())["truths"]
    else:
        found["truths"] = truths_of(chosen, arguments.rounds)
        _keep(arguments.out, found)
    if not arguments.skip_scores:
        told = chosen, arguments.jobs, _BEGAN + arguments.budget, arguments.bench_s
        found["facts"], found["scores"] = anyio.run(scores_of, *told)
        _keep(arguments.out, found)
    rows = rows_of(kinds, found["truths"], found["scores"])
    print(f"\n{table(rows)}\n")
    print("\n".join(summary(rows)))
    say("done")


def _keep(out: Path | None, found: dict[str, Any]) -> None:
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(found, indent=1, default=str))


_BEGAN = time.monotonic()

if __name__ == "__main__":
    main()
