"""Numbers of all from those of the rows, in another order than the reference's."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, prediction, target):
        error = prediction - target
        count = error.shape[1]
        loss = torch.linalg.vector_norm(error, dim=1).square() / count
        numbers = {
            "sse": float(loss.double().sum() * count),
            "mae": float(torch.linalg.vector_norm(error, 1) / error.numel()),
            "bias": float(error.sum(dim=1).double().mean() / count),
            "worst": float(torch.linalg.vector_norm(error, float("inf"))),
        }
        return loss, numbers
