"""A jail on trial: started with some of the layers, it attacks itself, and leaves a daemon.

Invariant: every attack has a finding; what did not answer did not hold. Nothing of a trial
is left when its context is.
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

from gpu_sandbox.confine.attacks import Attack, Result, Targets, attempt, scratch, tight_policy
from gpu_sandbox.confine.jail import Jail
from gpu_sandbox.confine.kernel_support import Machine
from gpu_sandbox.confine.spawn import spawn
from gpu_sandbox.confine.survey_result import Finding, Survey

__all__ = ["Trial", "trial"]

_ATTACK_S = 10.0
_DAEMON = "leave a daemon behind"


@contextmanager
def trial(
    name: str,
    layers: Sequence[str],
    machine: Machine,
    targets: Targets,
    attacks: Sequence[Attack],
) -> Iterator[Trial]:
    """Begin it. Raises ``SpawnFailed`` if these layers can't be set up together."""
    untried = Survey(
        layers=tuple(layers), missing={}, tier="C", findings=(), machine=machine, seconds=0.0
    )
    with scratch() as home, _pipe() as (results, answer), _pipe() as (output, printed):
        policy = tight_policy(home)

        def main() -> None:
            found = [attempt(a, targets, policy) for a in attacks if not a.ends_jail]
            answer.write(msgspec.json.encode(found))
            answer.close()
            _leave_daemon()
            for attack in attacks:
                if attack.ends_jail:
                    attempt(attack, targets, policy)

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
            yield Trial(name, attacks, jail, results, output)


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


class Trial:
    """One under way. ``name``: of the layer on trial, or ``"all"``."""

    def __init__(
        self,
        name: str,
        attacks: Sequence[Attack],
        jail: Jail,
        results: IO[bytes],
        output: IO[bytes],
    ) -> None:
        self.name = name
        self._attacks = attacks
        self._jail = jail
        self._results = results
        self._output = output
        self.cut_short = False
        """Somebody killed it before it had answered: known once there are findings."""

    def findings(self) -> list[Finding]:
        """Wait for its end; call it once."""
        ended = self._jail.ended(_ATTACK_S)
        status = self._jail.end()
        found = [self._finding(r.attack, r.held, r.detail) for r in self._answered()]
        for attack in self._attacks:
            if attack.ends_jail:
                held = status.out_of_memory
                detail = "ended with its jail" if held else "let be"
                found.append(self._finding(attack.name, held, detail))
        alive, printed = self._drained()
        silent = {attack.name for attack in self._attacks} - {finding.attack for finding in found}
        self.cut_short = ended and bool(silent)
        last = (printed.splitlines() or ["killed"])[-1]
        why = f"no answer: {last}" if ended else "did not finish"
        found += [self._finding(attack, False, why) for attack in sorted(silent)]
        detail = "still there" if alive else "killed with the jail"
        return [*found, self._finding(_DAEMON, not alive, detail)]

    def _finding(self, attack: str, held: bool, detail: str) -> Finding:
        return Finding(attack=attack, layer=self.name, held=held, detail=detail)

    def _answered(self) -> list[Result]:
        fd = self._results.fileno()
        os.set_blocking(fd, False)
        data = b""
        with suppress(BlockingIOError):
            while chunk := os.read(fd, 1 << 16):
                data += chunk
        try:
            return msgspec.json.decode(data, type=list[Result])
        except msgspec.DecodeError:
            return []

    def _drained(self) -> tuple[bool, str]:
        """Whether somebody still holds the other end, and what was printed."""
        printed = b""
        while select.select([self._output], [], [], 0.5)[0]:
            chunk = os.read(self._output.fileno(), 1 << 16)
            if not chunk:
                return False, printed.decode(errors="replace")
            printed += chunk
        return True, printed.decode(errors="replace")
