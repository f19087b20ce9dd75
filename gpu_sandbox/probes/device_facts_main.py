"""Entry point of the facts child: facts of a device. Only children import torch."""

from __future__ import annotations

import os
import socket

import torch

from gpu_sandbox.ipc.child_messages import Facts
from gpu_sandbox.ipc.framing import Channel
from gpu_sandbox.probes.backends.lookup import backend_of


def main(*, control: int, device: str, cores: list[int]) -> None:
    os.sched_setaffinity(0, cores)
    with socket.socket(fileno=control) as sock:
        channel: Channel[Facts] = Channel(sock, Facts)
        try:
            found = backend_of(torch.device(device)).facts()
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            channel.send(Facts(facts={}, missing=reason[:500]))
            return
        versions = {"torch": str(torch.__version__), "cuda": torch.version.cuda}
        channel.send(Facts(facts={**found, **versions}))
