"""All steps in one call of cuDNN, with weights packed at the first."""

import torch
import torch.nn as nn

KIND = "cudnn"


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.cell = nn.GRUCell(features, hidden)
        self.gru = None

    def pack(self):
        gru = nn.GRU(self.cell.input_size, self.cell.hidden_size)
        with torch.no_grad():
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                getattr(gru, f"{name}_l0").copy_(getattr(self.cell, name))
        return gru.to(self.cell.weight_ih.device)

    def forward(self, x, state):
        if self.gru is None:
            self.gru = self.pack()
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            return self.gru(x, state[None])[0]
