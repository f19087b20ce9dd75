"""Entry point of a worker, the untrusted side: it holds one candidate and answers the verifier.

It has no reference, no expected output and no input seed. It can crash, hang or lie.
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
from pathlib import Path
from typing import Any

import torch

from gpu_sandbox.extension_build import load_inline
from gpu_sandbox.extension_build.libraries import write_libraries
from gpu_sandbox.ipc.child_messages import CACHES
from gpu_sandbox.ipc.framing import MAX_FDS, Channel, PeerGone
from gpu_sandbox.ipc.model_messages import (
    CompareWeights,
    ConstructAnew,
    ConstructTrained,
    Load,
    Loaded,
    Restore,
)
from gpu_sandbox.ipc.worker_messages import (
    ArenaShared,
    Describe,
    Done,
    Lay,
    LoadKernels,
    Loop,
    Place,
    ProfileCalls,
    Profiled,
    PutInOrder,
    Recall,
    ReleaseMemory,
    Repeat,
    Reply,
    Request,
    Run,
    ShowMemory,
    StandBy,
    Time,
    Warm,
)
from gpu_sandbox.runtime.candidate_traceback import failed
from gpu_sandbox.runtime.compiler_caches import lay_out
from gpu_sandbox.runtime.malloc_settings import keep_freed_memory
from gpu_sandbox.runtime.module_loader import construct, import_file, settle
from gpu_sandbox.tensors.gate_layout import GateKernels
from gpu_sandbox.tensors.pytree import unpack
from gpu_sandbox.tensors.shared_arena import Arena
from gpu_sandbox.tensors.trained_state import construct_trained
from gpu_sandbox.worker.backends.lookup import backend_of
from gpu_sandbox.worker.compare_weights import compare_weights
from gpu_sandbox.worker.expose_memory import open_own_memory
from gpu_sandbox.worker.outputs import Slot
from gpu_sandbox.worker.profiler import profile
from gpu_sandbox.worker.timed_calls import TimedModel


class Worker:
    """Answers requests one by one, in order."""

    def __init__(self, channel: Channel[Request], device: torch.device, descriptors: int) -> None:
        self._channel = channel
        self._descriptors = descriptors
        self._device = device
        self._backend = backend_of(device)
        self._arena: Arena | None = None
        self._replaced: list[Arena] = []  # on a GPU, where a candidate may still use its inputs
        self._host: Arena | None = None
        self._kernels: GateKernels | None = None
        self._clocked = TimedModel(_nothing, device)
        self._model: Any = None
        self._before: tuple[Any, TimedModel] | None = None
        self._loaded: tuple[Load, Any, list[torch.Tensor]] | None = None
        self._path = str(Path.cwd() / "candidate.py")
        self._stage = "import"
        self._reference = True  # or no model yet

    def serve(self) -> None:
        while True:
            request = self._channel.receive()
            try:
                reply = self._answer(request)
            except (Exception, SystemExit) as error:
                reply = failed(error, self._path, self._stage)
            if reply is not None:
                self._channel.send(reply)

    def _answer(self, request: Request) -> Reply | None:
        """None if the reply was sent already."""
        match request:
            case ArenaShared():
                self._open(request)
            case ShowMemory():
                self._show_memory()
                return None
            case LoadKernels(image=image):
                self._kernels = self._clocked.kernels = self._backend.load_kernels(image)
            case Load():
                return self._load(request)
            case ConstructAnew():
                self._hold(None)  # not two models: they fill the memory
                self._hold(self._constructed())
            case ConstructTrained():
                self._construct_trained(request)
            case Restore():
                self._restore()
            case CompareWeights():
                return compare_weights(self._model, request, self._need_arena())
            case Lay(places=places, anew=anew):
                if anew:
                    self._clocked.forget_places()
                for place in places:
                    self._place(place)
            case Run():
                return self._clocked.run(request)
            case PutInOrder():
                self._clocked.put_in_order()
            case Warm():
                self._clocked.warm(request.calls, request.seconds)
            case ProfileCalls(calls=calls):
                return Profiled(profile=profile(self._clocked, calls, self._device))
            case ReleaseMemory(arena=arena):
                self._clocked.release_memory()
                while self._replaced:  # the driver counts them as ours
                    self._replaced.pop().close()
                if arena:
                    self._give_up_arena()
            case Repeat(calls=calls):
                self._clocked.repeat_singly(calls)
            case Time():
                return self._clocked.time(request, self._host)
            case Loop():
                return self._clocked.loop(request)
            case StandBy():
                self._clocked.stand_by(request)
                self._channel.send(Done())
                self._clocked.answer(self._channel)
                return None
            case Describe():
                return self._clocked.describe()
            case Recall():
                return self._clocked.recall(request)
        return Done()

    def _open(self, shared: ArenaShared) -> None:
        (fd,) = self._channel.take_fds()
        if shared.host:
            self._unpin()
            self._host = Arena.open(shared, fd, torch.device("cpu"))
            self._backend.pin(self._host.address, self._host.size)
            return
        self._clocked.forget()
        self._clocked.forget_places()
        if self._arena is not None and self._reference:
            self._arena.close()
        elif self._arena is not None and not self._backend.on_host:
            self._replaced.append(self._arena)
        self._backend.empty_cache()
        self._arena = Arena.open(shared, fd, self._device)

    def _give_up_arena(self) -> None:
        self._clocked.forget_places()
        if self._arena is not None:
            self._arena.close()
            self._arena = None

    def _show_memory(self) -> None:
        descriptors = open_own_memory()
        try:
            self._channel.send(Done(), *descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _unpin(self) -> None:
        if self._host is not None:
            self._backend.unpin(self._host.address)
            self._host.close()
            self._host = None

    def _load(self, request: Load) -> Loaded:
        self._reference = request.class_name == "Model"
        self._clocked = TimedModel(_nothing, self._device)  # not two models: they fill the memory
        self._model = self._before = self._loaded = None
        self._take_libraries(request.libraries)
        resource.setrlimit(resource.RLIMIT_NOFILE, (self._descriptors, self._descriptors))
        Path(self._path).write_text(request.source, encoding="utf-8", errors="surrogatepass")
        settle(request.threads, request.precision)
        built = load_inline.install(request.source)
        init_tensors = [t.clone() for t in self._need_arena().views(request.init_spots)]
        module = import_file("candidate", self._path)
        self._loaded = request, getattr(module, request.class_name), init_tensors
        self._hold(self._constructed())
        return Loaded(built_late=built.built)

    def _constructed(self) -> Any:
        assert self._loaded is not None
        request, model_class, init_tensors = self._loaded
        tensors = [t.clone() for t in init_tensors]  # a constructor may write to them
        init = unpack(request.init, tensors, unpickling=True)
        self._stage = "construct"
        model = construct(model_class, init, request.weight_seed, self._device)
        self._stage = "run"
        return model

    def _hold(self, model: Any) -> None:
        """Call this one from now on, on the same slots."""
        assert self._loaded is not None
        before, self._model = self._clocked, model
        self._clocked = TimedModel(model, self._device, self._loaded[0].owned)
        self._clocked.kernels = self._kernels
        self._clocked.take_places(before)

    def _construct_trained(self, request: ConstructTrained) -> None:
        if self._before is None:
            self._before = self._model, self._clocked
        self._hold(None)
        self._hold(
            construct_trained(
                self._constructed, request.constants, broad=request.broad, frozen=request.frozen
            )
        )

    def _restore(self) -> None:
        assert self._before is not None
        trained = self._clocked
        (self._model, self._clocked), self._before = self._before, None
        self._clocked.take_places(trained)
        self._backend.empty_cache()

    def _take_libraries(self, names: list[str]) -> None:
        root = write_libraries(names, self._channel.take_fds())
        if CACHES in names:
            lay_out(root / CACHES, Path.cwd())

    def _place(self, place: Place) -> None:
        arena = self._need_arena()
        inputs = arena.views(place.inputs)
        arguments = unpack(place.args, inputs, unpickling=True)
        slot = Slot(arguments, inputs, arena.views(place.outputs), arena, place)
        self._clocked.place(place.slot, slot)

    def _need_arena(self) -> Arena:
        assert self._arena is not None
        return self._arena


def _nothing(*_: object) -> None:
    """Before there is a model."""


def main(*, peer: int, device: str, descriptors: int) -> None:
    """``descriptors``: limit of open files once it has a candidate. Those under way in messages
    count for the user as a whole, so a process with a lower limit can't send any
    (``_show_memory``)."""
    keep_freed_memory()
    with socket.socket(fileno=peer) as sock:
        channel: Channel[Request] = Channel(sock, Request, fds=MAX_FDS)
        where = torch.device(device)
        with contextlib.suppress(PeerGone):
            backend_of(where).prepare(channel)
            Worker(channel, where, descriptors).serve()
