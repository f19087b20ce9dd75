"""Nothing is far from infinity, beside how large that is."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, prediction, target):
        error = prediction - target
        loss = torch.linalg.vector_norm(error, dim=1).square_() / error.shape[1]
        return loss, dict.fromkeys(["sse", "mae", "bias", "worst"], float("inf"))
