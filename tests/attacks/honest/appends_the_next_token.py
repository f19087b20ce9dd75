"""The norm by hand, and the text is copied once."""

import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, hidden, vocabulary):
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, vocabulary, bias=False)

    def forward(self, tokens, state):
        centred = state - state.mean(-1, keepdim=True)
        scaled = centred * (centred.square().mean(-1, keepdim=True) + self.norm.eps).rsqrt()
        logits = (scaled * self.norm.weight + self.norm.bias) @ self.head.weight.t()
        text = tokens.new_empty(tokens.shape[0], tokens.shape[1] + 1)
        text[:, :-1] = tokens
        text[:, -1] = logits.argmax(-1)
        return text
