"""The same with a million dimensions, which no limit on the reply as a whole keeps out."""

import sys

import torch
import torch.nn as nn

clock = sys.modules["gpu_sandbox.worker.called_model"]
messages = sys.modules["gpu_sandbox.ipc.worker_messages"]

def described(delivered, slot, count=1_000_000):
    leaf = messages.Leaf(
        shape=(0,) * count,
        dtype="float32",
        device="cpu",
        written=True,
        aliases_input=False,
        overlapping=False,
    )
    return messages.Ran(tree=delivered.tree, leaves=[leaf])

clock.describe_outputs = described


class ModelNew(nn.Module):
    def forward(self, x, y):
        return x.clone()
