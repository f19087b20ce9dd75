"""The untrusted side: holds one candidate, answers the verifier, knows nothing else.

Everything that it says is a claim. It has no reference, no expected output, no input
seed; it can crash, hang or lie, and the verifier must cope.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Any

import torch

from gpu_sandbox.child import extensions
from gpu_sandbox.child.arena import Arena
from gpu_sandbox.child.blame import failed
from gpu_sandbox.child.clock import Clocked
from gpu_sandbox.child.loading import construct, import_file, settle
from gpu_sandbox.child.values import pack, unpack
from gpu_sandbox.frames import Channel, PeerGone
from gpu_sandbox.messages import (
    ArenaShared,
    Done,
    Fetch,
    Leaf,
    Load,
    Loaded,
    Ran,
    Reply,
    Request,
    Run,
    SetInputs,
    Spot,
    Time,
    Timed,
    Warm,
)

__all__ = ["main"]


class Worker:
    """Answers requests one by one, in the order in which they come."""

    def __init__(self, channel: Channel[Request], device: torch.device) -> None:
        self._channel = channel
        self._device = device
        self._arena: Arena | None = None
        self._clocked: Clocked | None = None
        self._inputs: dict[int, tuple[Any, list[torch.Tensor]]] = {}
        self._path = ""
        self._stage = "import"

    def serve(self) -> None:
        while True:
            request = self._channel.receive()
            try:
                reply = self._answer(request)
            except (Exception, SystemExit) as error:
                reply = failed(error, self._path, self._stage)
            self._channel.send(reply)

    def _answer(self, request: Request) -> Reply:
        match request:
            case ArenaShared():
                self._open(request)
            case Load():
                return self._load(request)
            case SetInputs():
                tensors = [self._need_arena().view(spot) for spot in request.spots]
                arguments = unpack(request.args, tensors, unpickling=True)
                self._inputs[request.slot] = (arguments, tensors)
                if self._clocked is not None:
                    self._clocked.slots[request.slot] = arguments
            case Run():
                output = self._need_model().run(request.slot, request.seed)
                return self._deliver(output, request.outputs)
            case Fetch():
                return self._deliver(self._need_model().output, request.outputs)
            case Warm():
                self._need_model().warm(request.calls, request.seconds)
            case Time():
                elapsed = self._need_model().batch(
                    request.calls, request.first_slot, request.flush_bytes, request.seed
                )
                return Timed(elapsed_ns=elapsed)
        return Done()

    def _open(self, shared: ArenaShared) -> None:
        fd = self._channel.take_fd() if self._device.type == "cpu" else None
        self._inputs.clear()
        if self._clocked is not None:
            self._clocked.slots.clear()
            self._clocked.output = None
        self._arena = Arena.open(shared, fd, self._device)

    def _load(self, request: Load) -> Loaded:
        self._path = request.source_path
        settle(request.threads)
        built = extensions.install()
        tensors = [self._need_arena().view(s).clone() for s in request.init_spots]
        init = unpack(request.init, tensors, unpickling=True)
        module = import_file("candidate", request.source_path)
        model_class = module.ModelNew
        self._stage = "construct"
        model = construct(model_class, init, request.weight_seed, self._device)
        self._stage = "run"
        self._clocked = Clocked(model, self._device)
        return Loaded(built_late=built.built)

    def _deliver(self, output: Any, spots: list[Spot]) -> Ran:
        """Copy each output tensor to its spot if it fits, and describe all of them."""
        found: list[torch.Tensor] = []
        tree = pack(output, found, pickling=False)
        inputs = [t for _, tensors in self._inputs.values() for t in tensors]
        leaves = [
            self._leaf(t, spots[i] if i < len(spots) else None, inputs) for i, t in enumerate(found)
        ]
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return Ran(tree=tree, leaves=leaves)

    def _leaf(self, tensor: torch.Tensor, spot: Spot | None, inputs: list[torch.Tensor]) -> Leaf:
        name = str(tensor.dtype).removeprefix("torch.")
        fits = (
            spot is not None
            and tuple(tensor.shape) == spot.shape
            and name == spot.dtype
            and tensor.device.type == self._device.type
            and tensor.layout == torch.strided
        )
        if fits and spot is not None:
            with torch.no_grad():
                self._need_arena().view(spot).copy_(tensor.detach())
        return Leaf(
            shape=tuple(tensor.shape),
            dtype=name,
            device=tensor.device.type,
            written=fits,
            aliases_input=_shares_memory(tensor, inputs),
        )

    def _need_arena(self) -> Arena:
        assert self._arena is not None
        return self._arena

    def _need_model(self) -> Clocked:
        assert self._clocked is not None
        return self._clocked


def _shares_memory(tensor: torch.Tensor, inputs: list[torch.Tensor]) -> bool:
    """Whether it lies within an input's bytes (all inputs share one storage, the arena)."""
    if tensor.numel() == 0 or tensor.layout != torch.strided:
        return False
    begin = tensor.data_ptr()
    return any(t.data_ptr() <= begin < t.data_ptr() + max(_reach(t), 1) for t in inputs)


def _reach(tensor: torch.Tensor) -> int:
    if tensor.numel() == 0:
        return 0
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


def main(*, peer: int, device: str) -> None:
    with socket.socket(fileno=peer) as sock:
        channel: Channel[Request] = Channel(sock, Request)
        with contextlib.suppress(PeerGone):
            Worker(channel, torch.device(device)).serve()
