"""bf16 through fp32: more exact than the reference."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        return (x.float() * y.float()).relu_().bfloat16()
