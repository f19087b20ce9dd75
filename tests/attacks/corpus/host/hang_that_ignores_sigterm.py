"""Never answers, and blocks every signal that can be blocked."""

import signal

import torch.nn as nn

signal.pthread_sigmask(signal.SIG_BLOCK, set(range(1, 65)) - {9, 19, 32, 33})


class ModelNew(nn.Module):
    def forward(self, x, y):
        while True:
            pass
