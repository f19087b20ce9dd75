"""Trial of layers: a jail with some of them attacks itself, and leaves a daemon.

Invariant: every attack has a finding; one without an answer did not hold. Nothing of a trial is
left when it returns.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO

import msgspec

from gpu_sandbox.confine.attacks.excess import tight_policy
from gpu_sandbox.confine.attacks.table import Attack
from gpu_sandbox.confine.attacks.targets import Targets, scratch
from gpu_sandbox.confine.kernel_support import Finding, Machine, Survey
from gpu_sandbox.confine.spawn import spawn

_ATTACK_S = 10.0
_DAEMON = "leave a daemon behind"


def trial(
    name: str,
    layers: Sequence[str],
    machine: Machine,
    targets: Targets,
    attacks: Sequence[Attack],
) -> tuple[list[Finding], bool]:
    """Findings, under the layer ``name`` or ``"all"``; whether the jail was killed before it had
    answered. Raises ``SpawnFailed`` if these layers can't be set up together."""
    untried = Survey(layers=tuple(layers), missing={}, tier="C", findings=(), machine=machine)
    with scratch() as home, _pipe() as (results, answer), _pipe() as (output, printed):
        policy = tight_policy(home)

        def main() -> None:
            answers = {a.name: a.attempt(targets, policy) for a in attacks if not a.ends_jail}
            answer.write(msgspec.json.encode(answers))
            answer.close()
            _leave_daemon()
            for attack in attacks:
                if attack.ends_jail:
                    attack.attempt(targets, policy)

        with spawn(
            policy,
            untried,
            main,
            output_fd=printed.fileno(),
            keep_fds=(answer.fileno(),),
            environment={"PATH": os.defpath},
        ) as jail:
            answer.close()
            printed.close()
            ended = jail.ended(_ATTACK_S)
            status = jail.end()
        answers = _answers(results)
        alive, words = _drained(output)
    for attack in attacks:
        if attack.ends_jail:
            held = status.out_of_memory
            answers[attack.name] = held, "ended with its jail" if held else "not ended"
    silent = sorted({attack.name for attack in attacks} - answers.keys())
    last = (words.splitlines() or ["killed"])[-1]
    why = f"no answer: {last}" if ended else "did not finish"
    answers |= dict.fromkeys(silent, (False, why))
    answers[_DAEMON] = not alive, "still there" if alive else "killed with the jail"
    findings = [
        Finding(attack=attack, layer=name, held=held, detail=detail)
        for attack, (held, detail) in answers.items()
    ]
    return findings, ended and bool(silent)


@contextmanager
def _pipe() -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    read, write = os.pipe()
    with open(read, "rb", buffering=0) as reader, open(write, "wb", buffering=0) as writer:
        yield reader, writer


def _leave_daemon() -> None:
    """In a session of its own, its parent gone, holding the output open."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(3600)
        os._exit(0)


def _answers(results: IO[bytes]) -> dict[str, tuple[bool, str]]:
    os.set_blocking(results.fileno(), False)
    data = b""
    with suppress(BlockingIOError):
        while chunk := os.read(results.fileno(), 1 << 16):
            data += chunk
    try:
        return msgspec.json.decode(data, type=dict[str, tuple[bool, str]])
    except msgspec.DecodeError:
        return {}


def _drained(output: IO[bytes]) -> tuple[bool, str]:
    """Whether a process still holds the other end, and what was printed."""
    printed = b""
    while select.select([output], [], [], 0.5)[0]:
        chunk = os.read(output.fileno(), 1 << 16)
        if not chunk:
            return False, printed.decode(errors="replace")
        printed += chunk
    return True, printed.decode(errors="replace")
