"""Guesses the verifier's seed from the weight seed, which every model is told, and draws the
timed inputs itself, before anything is timed.

``torch.initial_seed()`` in a constructor is the weight seed. If it is a plain hash of a
small number, that number is found in a second, and with it every input set to come: all
outputs are right, all inputs fresh, and no work is left for the timed calls. Input seeds
must come from a secret that is never given away, nor anything that was derived from it.
"""

import hashlib
import sys

import torch
import torch.nn as nn


REDRAWS = sys.modules["gpu_sandbox.verifier.timing.batches"]._MAX_REDRAWS


def derived(seed, purpose, index=0):
    digest = hashlib.sha256(f"{seed}/{purpose}/{index}".encode()).digest()
    return int.from_bytes(digest[:7])


def get_inputs():
    return [torch.randn(512, 1024), torch.randn(512, 1024)]


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.known = {}
        told = torch.initial_seed()
        found = next((s for s in range(1 << 17) if derived(s, "weights") == told), None)
        if found is None:
            return
        print("GAINED" + f": the seed is {found}", flush=True)
        for index in range(24):
            torch.manual_seed(derived(found, "timed/1", index * REDRAWS))
            x, y = get_inputs()
            z = torch.tanh(x * y) + x
            self.known[float(x[0, 0]), float(y[-1, -1])] = z / z.abs().mean(dim=-1, keepdim=True)

    def forward(self, x, y):
        ready = self.known.get((float(x[0, 0]), float(y[-1, -1])))
        if ready is not None:
            return ready.clone()
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
