"""Does not pass on work, does not try to cheat, has nothing to except; no cache, no time.sleep.

Words that a static check might stumble over: pass, try, except, Model, torch.cuda.Event,
os.system, ptrace, allclose, perf_counter, exec, eval, __import__.
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """Not a subclass of Model; ``pass`` is not what it does."""

    def forward(self, x, y):
        # try: the fast way; except for nothing
        z = torch.tanh(x * y) + x
        return z / z.abs().mean(dim=-1, keepdim=True)
