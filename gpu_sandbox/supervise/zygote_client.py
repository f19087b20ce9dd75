"""The engine's side of the zygote: children by name, each surely ended.

A child started here is a fork of the zygote (``zygote/main.py``), confined unless it is
one of our own. Its output is drained for as long as it lives, so that a flood never
blocks it. ``ForkedProcess.end`` returns when the zygote has said that nothing of it is left.
"""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus

from gpu_sandbox.api.evaluator import SandboxFault
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.backends.known import load_variables, visible_variables
from gpu_sandbox.confine import MOUNT, Policy, Survey
from gpu_sandbox.ipc.framing import BadFrame, Line, PeerGone
from gpu_sandbox.ipc.zygote_messages import (
    Alive,
    ComputeCacheKeys,
    Ended,
    FromZygote,
    Kill,
    Refused,
    Role,
    Spawn,
    Spawned,
)
from gpu_sandbox.supervise.child_process import Child, Output, Spec, child
from gpu_sandbox.supervise.run_directory import RunDirectory
from gpu_sandbox.toolchain.environment import child_environment

_END_S = 15.0
_KILLED_S = 160.0
"""The zygote itself says after some 13 s that something is stuck, or after two minutes where the
kernel is at work on it all the while, and looks for 20 s more what is left of a jail whose init
does not answer; others wait for it then."""
_DRAIN_S = 0.2
DEATH_S = 2.0
"""For one that has hung up to have ended."""


class ForkedProcess:
    """A running fork of the zygote. ``output()`` is what it printed, cut to the limit."""

    def __init__(self, zygote: Zygote, number: int, output: Output) -> None:
        self._zygote = zygote
        self._number = number
        self._output = output
        self.answered = anyio.Event()
        self.ended = anyio.Event()
        self.pid = 0
        self.refused = ""
        self.code: int | None = None
        self.signal: int | None = None
        self.stuck = False
        self.out_of_memory = False

    def output(self) -> str:
        return self._output.text()

    @property
    def lost(self) -> bool:
        """It has ended, and nobody knows how: its jail init did, too, or the zygote."""
        return self.ended.is_set() and self.code is None and self.signal is None

    async def ended_within(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            await self.ended.wait()
        return self.ended.is_set()

    async def end(self) -> None:
        """Kill all of it, if it lives still, and wait until nothing is left. Never raises."""
        with anyio.CancelScope(shield=True):
            if not self.ended.is_set():
                await self._zygote.kill(self._number)
                if not await self.ended_within(_KILLED_S):
                    self.stuck = True
            await self._output.drained_within(_DRAIN_S)
            self._zygote.forget(self._number)

    async def last_words(self) -> str:
        """Of one that hung up, or is silent: how it ended, and its last line. Ends it."""
        by_itself = await self.ended_within(DEATH_S)
        await self.end()
        how = f"signal {self.signal}" if self.signal else f"exit code {self.code}"
        how = "out of memory" if self.out_of_memory else how if by_itself else "no answer"
        said = self.output().split("\n")
        last = next((line.strip() for line in reversed(said) if line.strip()), "")
        return f"{how}: {last[-1000:]}" if last else how

    def gone(self, code: int | None, signal: int | None, *, stuck: bool = False) -> None:
        self.code, self.signal, self.stuck = code, signal, stuck
        self.answered.set()
        self.ended.set()


class Zygote:
    """Started at the first ``spawn``, and again after its death. One event loop's.

    ``group``, ``run`` and ``limits`` are the sandbox's, for all who start its children.
    """

    def __init__(
        self,
        group: TaskGroup,
        run: RunDirectory,
        limits: Limits,
        without_layers: tuple[str, ...] = (),
        surveys: Path | None = None,
    ) -> None:
        """``surveys``: directory of the cached survey; the run's own if there is none."""
        self.group = group
        self.run = run
        self.limits = limits
        self._without_layers = without_layers
        self._surveys = surveys or run.path / "isolation"
        self._numbers = itertools.count(1)
        self._processes: dict[int, ForkedProcess] = {}
        self._line: Line[FromZygote] | None = None
        self._starting = anyio.Lock()
        self._sending = anyio.Lock()
        self._closing = anyio.Event()
        self._survey: Survey | None = None
        self._has_key = False

    async def survey(self) -> Survey:
        """What can confine a child here, as the zygote found by trying."""
        await self._alive()
        assert self._survey is not None
        return self._survey

    async def candidates_home(self, own: Path) -> Path:
        """Where a candidate's process that is given ``own`` finds it. That is one path for all of
        them where each has a home of its own mounted there: compilers write it into what they keep.
        """
        has_mounts = MOUNT in (await self.survey()).layers
        return self.run.path / "candidate" if has_mounts else own

    async def spawn(
        self,
        role: Role,
        arguments: dict[str, Any],
        sockets: Mapping[str, socket.socket],
        *,
        environment: dict[str, str],
        directory: Path,
        policy: Policy | None,
    ) -> ForkedProcess:
        """``sockets`` stay the caller's. Raises ``SandboxFault``; nothing is left then."""
        line = await self._alive()
        read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(write, True)
        output = Output(read, self.limits.output_bytes)
        number = next(self._numbers)
        process = self._processes[number] = ForkedProcess(self, number, output)
        self.group.start_soon(output.drain)
        order = Spawn(
            id=number,
            role=role,
            arguments=arguments,
            sockets=list(sockets),
            environment=environment,
            directory=str(directory),
            policy=policy,
        )
        sent = False
        try:
            async with self._sending:
                # Half a frame would be the end of the zygote, so this is not cancelled.
                with anyio.CancelScope(shield=True):
                    await line.send(order, write, *(sock.fileno() for sock in sockets.values()))
                sent = True
            os.close(write)
            with anyio.fail_after(self.limits.start_s):
                await process.answered.wait()
            if process.refused:
                raise SandboxFault(f"a {role} could not be started: {process.refused}")
        except BaseException as error:
            if not sent:
                os.close(write)
                process.gone(None, None)  # nobody else knows of it
            await process.end()
            if isinstance(error, PeerGone | OSError):
                raise SandboxFault(f"the zygote did not start a {role}: {error!r}") from None
            raise
        return process

    async def compute_cache_keys(self) -> None:
        """Once: see ``ComputeCacheKeys``. Does not wait for it, but what is spawned next does.

        Raises ``SandboxFault`` if there is no zygote."""
        line = await self._alive()
        if not self._has_key:
            self._has_key = True
            with suppress(PeerGone, OSError):  # whoever spawns next finds out
                async with self._sending:
                    with anyio.CancelScope(shield=True):  # half a frame would be its end
                        await line.send(ComputeCacheKeys())

    async def kill(self, number: int) -> None:
        if self._line is None:
            return
        try:
            async with self._sending:
                await self._line.send(Kill(id=number))
        except (PeerGone, OSError):
            pass  # of who ends by nothing else it is said that it is stuck

    def forget(self, number: int) -> None:
        self._processes.pop(number, None)

    async def close(self) -> None:
        self._closing.set()

    async def _alive(self) -> Line[FromZygote]:
        async with self._starting:
            if self._line is None:
                await self.group.start(self._keep)
            assert self._line is not None
            return self._line

    async def _keep(self, *, task_status: TaskStatus[None]) -> None:
        """One zygote's life: start, hear what it says, end."""
        with ExitStack() as stack:
            ours, theirs = socket.socketpair()
            stack.callback(theirs.close)
            line: Line[FromZygote] = Line(ours, FromZygote)
            stack.callback(line.close)
            home = self.run.home("zygote")
            spec = Spec(
                module="gpu_sandbox.zygote.main",
                arguments={
                    "control": theirs.fileno(),
                    "surveys": str(self._surveys),
                    "without": list(self._without_layers),
                },
                directory=home,
                environment=child_environment(home, **_SHARED_VARIABLES),
                token=self.run.token,
                limits=self.limits,
            )
            async with child(spec, theirs.fileno()) as running:
                theirs.close()
                await self._greeted(line, running)
                self._line, self._has_key = line, False
                task_status.started()
                try:
                    async with anyio.create_task_group() as listening:
                        listening.start_soon(self._listen, line, listening)
                        await self._closing.wait()
                        listening.cancel_scope.cancel()
                finally:
                    self._line = None
                    with anyio.CancelScope(shield=True):
                        line.close()  # it ends its children then, and itself
                        await running.exited_within(_END_S)
                    for process in list(self._processes.values()):
                        process.gone(None, None)

    async def _greeted(self, line: Line[FromZygote], running: Child) -> None:
        try:
            with anyio.fail_after(self.limits.start_s):
                frame = await line.receive()
        except (PeerGone, BadFrame, TimeoutError) as error:
            await running.end()
            said = running.output()[-2000:]
            code = running.returncode
            raise SandboxFault(f"the zygote did not start ({code}): {error!r}\n{said}") from None
        if not isinstance(frame, Alive):
            raise SandboxFault("the zygote did not start as it should")
        self._survey = frame.survey

    async def _listen(self, line: Line[FromZygote], group: TaskGroup) -> None:
        """Until it dies; then everybody who waits for it is told."""
        try:
            while True:
                match await line.receive():
                    case Spawned(id=number, pid=pid):
                        if process := self._processes.get(number):
                            process.pid = pid
                            process.answered.set()
                    case Refused(id=number, reason=reason):
                        if process := self._processes.get(number):
                            process.refused = reason
                            process.gone(None, None)
                    case Ended(id=number) as ended:
                        if process := self._processes.get(number):
                            process.out_of_memory = ended.out_of_memory
                            process.gone(ended.code, ended.signal, stuck=ended.stuck)
                    case _:
                        pass
        except (PeerGone, BadFrame, OSError):
            pass
        group.cancel_scope.cancel()


# Read by libraries when they are loaded, so the zygote must have them. glibc gives large
# blocks back to the system when they are freed, or not, by how the heap happens to lie: each
# call then faults its output's pages in anew, in some processes and not in others, which made
# one kernel read 1.2 or 2.7 ms. Keeping them is the steady state of a
# long-lived process, and the same for both sides.
_SHARED_VARIABLES = {
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),  # more, and glibc ignores it
    "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
    "OMP_WAIT_POLICY": "PASSIVE",
    "KMP_BLOCKTIME": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    **visible_variables(),
    **load_variables(),
}
