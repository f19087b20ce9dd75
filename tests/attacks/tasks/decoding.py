"""The next token of each long text, greedily, and behind it."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, hidden, vocabulary):
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, vocabulary, bias=False)

    def forward(self, tokens, state):
        logits = self.head(self.norm(state))
        return torch.cat([tokens, logits.argmax(-1, keepdim=True)], dim=1)


def get_inputs():
    return [torch.randint(0, 8000, (4, 131072)), torch.randn(4, 512)]


def get_init_inputs():
    return [512, 8000]
