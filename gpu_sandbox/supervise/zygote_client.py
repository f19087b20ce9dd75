"""The engine's side of the zygote: its forks, each drained while it lives and surely ended.

A fork is jailed unless it is one of our own (``zygote/main.py``).
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
import msgspec
from anyio.abc import TaskGroup, TaskStatus

from gpu_sandbox.api.evaluator import SandboxFault
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.backends.known import load_variables, visible_variables
from gpu_sandbox.confine import Layer, Policy, Survey
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
_KILLED_S = 160.0  # longer than the zygote takes to report a stuck process (zygote/reaping.py)
_DRAIN_S = 0.2
DEATH_S = 2.0  # for a child that has closed its socket to end


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
        """Whether it ended unseen, because its jail init or the zygote did."""
        return self.ended.is_set() and self.code is None and self.signal is None

    async def ended_within(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            await self.ended.wait()
        return self.ended.is_set()

    async def end(self) -> None:
        """Kill it with all its descendants, and wait until nothing is left. Never raises."""
        with anyio.CancelScope(shield=True):
            if not self.ended.is_set():
                await self._zygote.kill(self._number)
                if not await self.ended_within(_KILLED_S):
                    self.stuck = True
            await self._output.drained_within(_DRAIN_S)
            self._zygote.forget(self._number)

    async def last_words(self) -> str:
        """End it, and say how it ended and what it printed last."""
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
        self._survey: Survey | None = None
        self._has_key = False

    async def survey(self) -> Survey:
        """What can confine a child here, as the zygote found by attacks."""
        await self._alive()
        assert self._survey is not None
        return self._survey

    async def candidates_home(self, own: Path) -> Path:
        """The path at which a candidate's process sees ``own``: the same for all of them where it
        is mounted, since compilers write it into their caches."""
        has_mounts = Layer.MOUNT in (await self.survey()).layers
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
            await self._send(line, order, write, *(sock.fileno() for sock in sockets.values()))
            sent = True
            os.close(write)
            with anyio.fail_after(self.limits.start_s):
                await process.answered.wait()
            if process.refused:
                raise SandboxFault(f"a {role} could not be started: {process.refused}")
        except BaseException as error:
            if not sent:
                os.close(write)
                process.gone(None, None)
            await process.end()
            if isinstance(error, PeerGone | OSError):
                raise SandboxFault(f"the zygote did not start a {role}: {error!r}") from None
            raise
        return process

    async def compute_cache_keys(self) -> None:
        """Once a zygote: what is spawned next waits for it. Raises ``SandboxFault``."""
        line = await self._alive()
        if not self._has_key:
            self._has_key = True
            with suppress(PeerGone, OSError):  # the next spawn raises
                await self._send(line, ComputeCacheKeys())

    async def _send(self, line: Line[FromZygote], message: msgspec.Struct, *fds: int) -> None:
        """Not cancelled: half a frame would be the end of the zygote."""
        async with self._sending:
            with anyio.CancelScope(shield=True):
                await line.send(message, *fds)

    async def kill(self, number: int) -> None:
        if self._line is None:
            return
        try:
            async with self._sending:
                await self._line.send(Kill(id=number))
        except (PeerGone, OSError):
            pass  # ``end`` reports it as stuck if nothing else ends it

    def forget(self, number: int) -> None:
        self._processes.pop(number, None)

    async def _alive(self) -> Line[FromZygote]:
        async with self._starting:
            if self._line is None:
                await self.group.start(self._keep)
            assert self._line is not None
            return self._line

    async def _keep(self, *, task_status: TaskStatus[None]) -> None:
        """One zygote's life."""
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
                    await self._listen(line)
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

    async def _listen(self, line: Line[FromZygote]) -> None:
        """Take its messages until it dies."""
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


# Read by libraries when they are loaded, so the zygote must have them. Without the first two,
# glibc gives large blocks back in some processes only, which then fault in each call's output.
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
